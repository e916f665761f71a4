//! Names for the addresses of a stack, outermost function first.

use std::path::Path;

use record::missing::Maybe;
use record::profile::ThreadState;

use super::programs::{FRAMES, Sum};
use crate::kernel_symbols::KernelSymbols;
use crate::process_ids;
use crate::process_time;
use crate::user_symbols::{Frame, UserSymbols};

/// Symbols of the kernel and of processes.
#[derive(Debug)]
pub(super) struct Names {
    kernel: Maybe<KernelSymbols>,
    user: UserSymbols,
}

/// A stack with names, and its defects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a doubt of its own, counted apart")]
pub(super) struct NamedStack {
    pub(super) comm: String,
    pub(super) frames: Vec<String>,
    /// Idle task outside of softirqs.
    pub(super) is_idle: bool,
    /// The innermost function has no name.
    pub(super) is_unnamed: bool,
    /// The process had ended before it was read.
    pub(super) has_ended: bool,
    /// The user stack ends at its first function.
    pub(super) lacks_callers: bool,
    /// The kernel did not walk further.
    pub(super) is_truncated: bool,
    /// The stack had no room, or there was nothing to walk.
    pub(super) lacks_stack: bool,
}

/// Name of the idle task, also for interrupts during idle.
const IDLE_COMM: &str = "swapper";

impl Names {
    /// Reads the kernel's names; those of processes are read when they are met.
    pub(super) fn open() -> Self {
        Self { kernel: KernelSymbols::read(Path::new("/")), user: UserSymbols::new() }
    }

    /// Starts a round: what is known of processes may be out of date from now on.
    pub(super) fn next_round(&mut self) {
        self.user.next_round();
    }

    /// Reasons why names are missing, one sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let kernel = self.kernel.as_ref().err().map(|why| format!("cannot name kernel functions: {why}"));
        let namespace = (!process_ids::are_the_machines()).then(|| process_ids::NOTE.to_owned());
        let foreign = process_time::ids_are_those_of_proc().err();
        let foreign = foreign.map(|why| format!("cannot name functions of programs: {why}"));
        kernel.into_iter().chain(namespace).chain(foreign).collect()
    }

    pub(super) fn name(&mut self, sum: &Sum) -> NamedStack {
        let mut named = NamedStack { comm: sum.comm.clone(), ..NamedStack::default() };
        let is_deep = |stack: &Maybe<Option<Vec<u64>>>| {
            stack.as_ref().is_ok_and(|s| s.as_ref().is_some_and(|s| s.len() >= FRAMES))
        };
        named.is_truncated = is_deep(&sum.user) || is_deep(&sum.kernel);
        let kernel = self.kernel_frames(sum, &mut named);
        if sum.tgid == 0 && sum.state == ThreadState::Running {
            IDLE_COMM.clone_into(&mut named.comm);
            // Without names, a softirq on an idle CPU cannot be distinguished from idle time.
            named.is_idle = !kernel.iter().any(|name| name.contains("softirq"));
        }
        let user = self.user_frames(sum, &mut named);
        named.is_unnamed = kernel.last().or(user.last()).is_some_and(|innermost| innermost.starts_with('['));
        named.frames = user;
        named.frames.extend(kernel);
        if sum.state == ThreadState::Runnable {
            named.frames.push("[waits for a CPU]".to_owned());
        }
        if named.frames.is_empty() {
            named.lacks_stack = true;
            named.frames.push("[no stack]".to_owned());
        }
        named
    }

    fn kernel_frames(&self, sum: &Sum, named: &mut NamedStack) -> Vec<String> {
        let addresses = match &sum.kernel {
            Ok(Some(addresses)) => addresses,
            Ok(None) => return Vec::new(),
            Err(_) => {
                named.lacks_stack = true;
                return vec!["[kernel: no room for its stack]".to_owned()];
            }
        };
        let Ok(symbols) = &self.kernel else { return vec!["[kernel]".to_owned()] };
        let mut frames = match sum.state {
            ThreadState::Running => symbols.stack(addresses),
            ThreadState::Blocked | ThreadState::Runnable => symbols.stack_of_switch(addresses),
        };
        frames.reverse();
        let shown =
            |name: Option<&str>| name.map_or_else(|| "[kernel]".to_owned(), |name| format!("{name}_[k]"));
        frames.into_iter().map(shown).collect()
    }

    fn user_frames(&mut self, sum: &Sum, named: &mut NamedStack) -> Vec<String> {
        let addresses = match &sum.user {
            Ok(Some(addresses)) => addresses,
            Ok(None) => return Vec::new(),
            Err(_) => {
                named.lacks_stack = true;
                return vec!["[no room for its stack]".to_owned()];
            }
        };
        if sum.is_outside {
            return vec!["[process outside of this PID namespace]".to_owned()];
        }
        let pid = sum.tgid;
        if process_time::ids_are_those_of_proc().is_err() {
            return vec!["[program without names]".to_owned()];
        }
        self.user.meet(pid);
        if !self.user.knows(pid) {
            named.has_ended = true;
            return vec!["[process had ended]".to_owned()];
        }
        let user = &mut self.user;
        let frame = |(depth, address): (usize, &u64)| match depth {
            0 => user.at(pid, *address),
            _ => user.before(pid, *address),
        };
        let frames: Vec<Option<Frame>> = addresses.iter().enumerate().map(frame).collect();
        // A register that was not used as a frame pointer leads nowhere, or to words that are not return
        // addresses.
        let valid = frames.iter().rposition(Option::is_some).map_or(1, |last| last + 1);
        named.lacks_callers = valid == 1;
        frames[..valid].iter().rev().map(|frame| shown(frame.as_ref())).collect()
    }
}

/// A function's name; for code without names, its file. Otherwise every address would be a separate function.
fn shown(frame: Option<&Frame>) -> String {
    let Some(frame) = frame else { return "[unknown]".to_owned() };
    if frame.name.starts_with(&format!("{}+0x", frame.module)) {
        return format!("[{}]", frame.module);
    }
    frame.name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_name_goes_by_its_file() {
        let frame = |name: &str| Frame { name: name.to_owned(), module: "libc.so.6".to_owned() };
        assert_eq!(shown(Some(&frame("libc.so.6+0x85d26"))), "[libc.so.6]");
        assert_eq!(shown(Some(&frame("read"))), "read");
        assert_eq!(shown(None), "[unknown]");
    }
}
