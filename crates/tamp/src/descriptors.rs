//! The standard descriptors that were closed when the program started.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in their place, so that files opened later do not take their numbers. Writes to a
//! closed standard output then succeed. The check here runs before the runtime's.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// One bit for each standard descriptor.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// The loader calls the functions in this section before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for descriptor in 0..3 {
        // SAFETY: the call reads a descriptor's flags, and fails if there is no such descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
}

/// Whether a standard descriptor was closed when the program started.
pub(crate) fn was_closed(descriptor: c_int) -> bool {
    CLOSED.load(Relaxed) >> descriptor & 1 == 1
}
