//! Signals to the process of an entry.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid as RawPid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// Looks at a process that has no handler for the request to end after its trial, until it counts as one of
/// an older bakeoff: a process that has just begun gets its handler meanwhile.
const LOOKS_UNHEARD_MAX: u32 = 10;

/// Signals that a process got: the first asks it to end after the current trial, the other two at once. One
/// request to end is for an orderly end, two are for an end that waits for nothing.
#[derive(Debug, Default)]
pub(crate) struct Urged {
    signals: u8,
    /// Looks at which the process had no handler for the first signal, which would kill it.
    looks_unheard: u32,
}

impl Urged {
    /// Whether the process cannot be asked to end after its trial.
    pub(crate) fn is_unheard(&self) -> bool {
        self.signals == 0 && self.looks_unheard >= LOOKS_UNHEARD_MAX
    }

    /// Number of signals that it got.
    pub(crate) fn signals(&self) -> u8 {
        self.signals
    }

    /// Whether the process may get the first signal: it has a handler, or had the signal before.
    pub(crate) fn may_be_heard(&mut self, pid: Option<u32>) -> bool {
        let may = self.signals > 0 || pid.is_none_or(|pid| catches(pid, Signal::USR1));
        self.looks_unheard += u32::from(!may);
        may
    }

    /// Sends what is left of the signals of a level. The first is left out if it would kill the process.
    ///
    /// - `pid`: the process. It is asked for again once a descriptor of the process is open, since the
    ///   number of a process that has ended may be that of another.
    pub(crate) fn up_to(&mut self, level: u8, pid: impl Fn() -> Option<u32>) {
        let signals = if level < 2 { level } else { 3 };
        while self.signals < signals {
            let found =
                pid().and_then(|number| Some((number, RawPid::from_raw(i32::try_from(number).ok()?)?)));
            let Some((number, raw)) = found else { return };
            let signal = [Signal::USR1, Signal::TERM, Signal::INT][usize::from(self.signals)];
            if signal == Signal::USR1 && !catches(number, signal) {
                self.signals += 1;
                continue;
            }
            match pidfd_open(raw, PidfdFlags::empty()) {
                Ok(process) if pid() == Some(number) => drop(pidfd_send_signal(&process, signal)),
                // Linux before 5.3.
                Err(Errno::NOSYS) => drop(kill_process(raw, signal)),
                _ => return,
            }
            self.signals += 1;
        }
    }
}

/// Whether a process has a handler for a signal; `false` if unknown.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}
