//! Cycles and instructions of each CPU, if the machine has a performance monitoring unit that we may use.
//!
//! *Traces* nothing: two counters a CPU, read at the edges. *Yields* cycles (count) and instructions (count)
//! per CPU and interval, idle loop and kernel included. *Differs from* busy time in that a core's clock may
//! change, and in that hardware threads share a core's instructions. *Blind to* most virtual machines, which
//! are given no counters. *Costs* two reads a CPU at each edge, nothing in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use record::missing::{Maybe, Missing};

/// The counters of every CPU.
#[derive(Debug)]
pub(crate) struct Cycles {
    cpus: BTreeMap<u32, [Counter; 2]>,
}

/// Counter values of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) cycles: u64,
    pub(crate) instructions: u64,
}

impl Cycles {
    /// Starts the counters.
    ///
    /// # Errors
    ///
    /// A clause for people.
    pub(crate) fn open(online: &BTreeSet<u32>) -> Result<Self, String> {
        Self::of(online, [&Hardware::CPU_CYCLES, &Hardware::INSTRUCTIONS]).map_err(|e| refusal(&e))
    }

    fn of<E: Event + Clone>(online: &BTreeSet<u32>, events: [&E; 2]) -> io::Result<Self> {
        let counter = |cpu: u32, event: &E| -> io::Result<Counter> {
            let mut builder = Builder::new(event.clone());
            builder.any_pid().one_cpu(cpu as usize).include_kernel().include_hv().exclude_idle(false);
            let mut counter = builder.build()?;
            counter.enable()?;
            Ok(counter)
        };
        let both = |cpu: &u32| Ok((*cpu, [counter(*cpu, events[0])?, counter(*cpu, events[1])?]));
        Ok(Self { cpus: online.iter().map(both).collect::<io::Result<_>>()? })
    }

    /// Reads the counters of that CPU.
    pub(crate) fn read(&mut self, cpu: u32) -> Maybe<Counted> {
        let late = || Missing::because("it came online after its counters were set up");
        let [cycles, instructions] = self.cpus.get_mut(&cpu).ok_or_else(late)?;
        Ok(Counted { cycles: value(cycles)?, instructions: value(instructions)? })
    }
}

/// A count that ran all the time; if other programs use the unit too, the kernel gives each a part of the
/// time.
pub(crate) fn value(counter: &mut Counter) -> Maybe<u64> {
    let data = counter.read_full().map_err(|e| Missing::because(format!("a counter cannot be read: {e}")))?;
    if data.time_running() < data.time_enabled() {
        return Err(Missing::because("another program, such as perf, uses the counters: stop it"));
    }
    Ok(data.count())
}

pub(crate) fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        // ENOENT, ENODEV, EOPNOTSUPP
        Some(2 | 19 | 95) => {
            "this machine has no hardware counters, or its hypervisor exposes none".to_owned()
        }
        Some(1 | 13) => {
            "hardware counters need CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0".to_owned()
        }
        _ => format!("cannot open hardware counters: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use perf_event::events::Software;

    use super::*;
    use crate::cpu_list;

    #[test]
    fn root_counters_count_on() {
        // The kernel's software counters stand in for the hardware's, which most test machines lack.
        let online = cpu_list::online(Path::new("/")).unwrap();
        let opened = Cycles::of(&online, [&Software::CPU_CLOCK, &Software::CONTEXT_SWITCHES]);
        let mut counters = match opened {
            Ok(counters) => counters,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return eprintln!("skipped: needs the right to count: {e}");
            }
            Err(e) => panic!("{e}"),
        };
        let before = counters.read(0).unwrap();
        crate::hog::visit(&online);
        let after = counters.read(0).unwrap();
        assert!(after.cycles > before.cycles, "{before:?} {after:?}");
        assert!(after.instructions >= before.instructions, "{before:?} {after:?}");
        assert!(counters.read(65_000).is_err());
    }

    #[test]
    fn a_refusal_says_why() {
        let says = |code: i32| refusal(&io::Error::from_raw_os_error(code));
        assert!(says(2).contains("no hardware counters"));
        assert!(says(13).contains("CAP_PERFMON"));
        assert!(says(5).contains("cannot open"));
    }
}
