//! Ctrl-C and SIGTERM: the first asks for a clean end, the second for an end at once.

use record::clock::{Clock as _, Monotonic};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Raised by every SIGINT and SIGTERM once [`stop_on_interrupt`] was called.
pub(crate) static STOP: load::Stop = load::Stop::new();

/// From now on SIGINT and SIGTERM raise [`STOP`] instead of ending the process.
///
/// # Errors
///
/// The kernel's, where the handlers cannot be installed.
pub(crate) fn stop_on_interrupt() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            STOP.request();
        }
    })?;
    Ok(())
}

/// Sleeps until `deadline_ns` on the monotonic clock; `false` where a signal asked to end before.
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
