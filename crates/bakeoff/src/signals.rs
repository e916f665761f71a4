//! Ctrl-C and SIGTERM: the first asks for a clean end, the second for an end at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls `on_signal` for each SIGINT or SIGTERM from now on, on a thread of its own.
///
/// # Errors
///
/// The kernel's, where the handlers cannot be installed.
pub(crate) fn on_interrupt(on_signal: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            on_signal();
        }
    })?;
    Ok(())
}
