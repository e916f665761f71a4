//! Ctrl-C, SIGTERM and a terminal that hangs up: the first asks for a clean end, the second ends at once.
//! SIGUSR1 asks a bake-off to end after its trial.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use record::clock::{Clock as _, Monotonic};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::confine;

/// Raised by every SIGINT, SIGTERM and SIGHUP after a call of [`stop_on_interrupt`].
pub(crate) static STOP: load::Stop = load::Stop::new();

/// Makes SIGINT, SIGTERM and SIGHUP raise [`STOP`] instead of ending the process. A SIGHUP that is ignored,
/// as under `nohup`, stays ignored.
///
/// # Errors
///
/// Fails if the kernel refuses the handlers.
pub(crate) fn stop_on_interrupt() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        confine::drop_all();
        for signal in signals.forever() {
            if signal == SIGUSR1 { STOP.request_after_trial() } else { STOP.request() }
        }
    })?;
    Ok(())
}

/// Whether this process ignores a signal; `false` if unknown.
fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| is_ignored_by(&status, signal))
}

/// Reads the mask of ignored signals in `/proc/PID/status`: bit 0 is signal 1.
fn is_ignored_by(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Sleeps until `deadline_ns` on the monotonic clock; `false` if a signal asked to end before.
pub(crate) fn wait_until(deadline_ns: u64) -> bool {
    const LOOK_EVERY_NS: u64 = 100_000_000;
    while !STOP.is_requested() {
        let now_ns = Monotonic.now_ns();
        if now_ns >= deadline_ns {
            return true;
        }
        Monotonic.sleep_until_ns(deadline_ns.min(now_ns + LOOK_EVERY_NS));
    }
    false
}

/// Waits for a line at a terminal; `false` if a signal asked to end before.
pub(crate) fn is_readable(terminal: &impl AsFd) -> bool {
    const LOOK_EVERY_MS: u8 = 100;
    while !STOP.is_requested() {
        let mut asked = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        match poll(&mut asked, PollTimeout::from(LOOK_EVERY_MS)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert!(is_ignored_by(status, SIGHUP) && is_ignored_by(status, 13));
        assert!(!is_ignored_by(status, SIGINT) && !is_ignored_by(status, SIGTERM));
        assert!(!is_ignored_by("", SIGHUP));
    }
}
