//! Instructions of the processes that this thread starts, if the machine has a performance monitoring unit
//! that we may use.
//!
//! *Traces* nothing: two counters of this thread, of which child processes inherit one. *Yields* instructions
//! in user mode (count) of children that have ended, and of their children. *Differs from* time in that
//! waiting does not count. *Blind to* the kernel's work, and to most virtual machines, which are given no
//! counters. *Costs* a counter to save and restore at each switch of a counted process.

use std::io;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use record::missing::{Maybe, Missing};

use crate::cycles::{refusal, value};

/// Counters of one thread and of the processes that it starts.
#[derive(Debug)]
pub struct Instructions {
    with_children: Counter,
    own: Counter,
}

impl Instructions {
    /// Starts to count, for processes that the calling thread starts from now on.
    ///
    /// # Errors
    ///
    /// The reason that nothing can be counted.
    pub fn open() -> Maybe<Self> {
        Self::of(&Hardware::INSTRUCTIONS).map_err(|e| Missing::because(refusal(&e)))
    }

    fn of<E: Event + Clone>(event: &E) -> io::Result<Self> {
        let counter = |inherited: bool| {
            let mut counter = Builder::new(event.clone()).observe_self().inherit(inherited).build()?;
            counter.enable()?;
            Ok::<Counter, io::Error>(counter)
        };
        Ok(Self { with_children: counter(true)?, own: counter(false)? })
    }

    /// Instructions of all children so far.
    ///
    /// # Errors
    ///
    /// Another program shares the unit, so the count is partial.
    pub fn read(&mut self) -> Maybe<u64> {
        let own = value(&mut self.own)?;
        Ok(value(&mut self.with_children)?.saturating_sub(own))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use perf_event::events::Software;

    use super::*;

    /// The kernel's clock of a task stands in for the unit, which most test machines lack.
    #[test]
    fn children_and_their_children_count_and_this_thread_does_not() {
        let mut counters = match Instructions::of(&Software::TASK_CLOCK) {
            Ok(counters) => counters,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return eprintln!("skipped: needs the right to count: {e}");
            }
            Err(e) => panic!("{e}"),
        };
        let spin = |rounds: u64| (0..rounds).fold(1_u64, |x, i| std::hint::black_box(x ^ (x << 7) ^ i));
        let before = counters.read().unwrap();
        std::hint::black_box(spin(20_000_000));
        // The two counters are read one after the other, so a difference may be a little below 0.
        let own_ns = counters.read().unwrap().saturating_sub(before);
        let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; (i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done)";
        let before = counters.read().unwrap();
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        let children_ns = counters.read().unwrap().saturating_sub(before);
        assert!(children_ns > 1_000_000, "sixty thousand rounds take more: {children_ns}");
        assert!(
            own_ns < 1_000_000,
            "twenty million rounds of this thread are not those of a child: {own_ns}"
        );
    }
}
