//! A process by its number, its start time, and the start of its machine: no other process has all three.

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd as _, OwnedFd};

use super::order::State;
use crate::wire;

/// A process that was started here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) pid: u32,
    /// Clock ticks from the machine's start to that of the process.
    started: u64,
    boot: String,
}

/// A process that runs, if it is still the known one.
pub(super) enum Found {
    Runs(OwnedFd),
    Gone,
}

impl Known {
    /// The process that has this number now; `None` if none has.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)?, boot: wire::boot() })
    }

    /// Finds the process. A descriptor of it stays its own, even if the number is given to another.
    ///
    /// # Errors
    ///
    /// The kernel has no such descriptors (Linux before 5.3).
    pub(super) fn find(&self) -> Result<Found, String> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| self.boot == wire::boot()) else { return Ok(Found::Gone) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Read after the descriptor is open: until then, another process may get the number.
            Ok(process) if started(self.pid) == Some(self.started) => Ok(Found::Runs(process)),
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(Found::Gone),
            Err(error) => Err(format!("cannot open process {}: {error}", self.pid)),
        }
    }
}

/// Ends a process that ends in order when it is asked: asks it, asks it to hurry, and kills it.
pub(super) fn end(process: &OwnedFd) -> State {
    const STEPS: [(Signal, Duration); 3] = [
        (Signal::TERM, Duration::from_secs(10)),
        (Signal::TERM, Duration::from_secs(5)),
        (Signal::KILL, Duration::from_secs(5)),
    ];
    for (signal, wait) in STEPS {
        if pidfd_send_signal(process, signal) == Err(rustix::io::Errno::SRCH) || has_ended(process, wait) {
            return State::Ended;
        }
    }
    State::Remains
}

/// Whether the process ends within `wait`.
fn has_ended(process: &OwnedFd, wait: Duration) -> bool {
    let mut asked = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
    loop {
        match poll(&mut asked, wait) {
            Err(Errno::EINTR) => {}
            ended => return ended.is_ok_and(|ready| ready > 0),
        }
    }
}

/// Start time of a process; `None` if it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    started_in(&stat)
}

/// Start time in `/proc/PID/stat`. The name before it may contain anything.
fn started_in(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    // A zombie runs no more.
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_ended_once_and_no_other_with_its_number() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let known = Known::of(child.id()).unwrap();
        for other in [
            Known { started: known.started + 1, ..known.clone() },
            Known { boot: "another".to_owned(), ..known.clone() },
        ] {
            assert!(matches!(other.find(), Ok(Found::Gone)), "{other:?}");
        }
        let Ok(Found::Runs(process)) = known.find() else { panic!("it runs") };
        assert_eq!(end(&process), State::Ended);
        child.wait().unwrap();
        assert!(matches!(known.find(), Ok(Found::Gone)));
        assert_eq!(end(&process), State::Ended, "again");
    }

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(started_in(&format!("12 (a) S (b) 1) {fields}")), Some(4711));
        assert_eq!(started_in("12 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"), None);
        assert_eq!(started_in(""), None);
    }
}
