//! Standard descriptors that were closed at the start of the program, and errors that only closing reports.
//!
//! Before `main`, Rust's runtime opens `/dev/null` for closed standard descriptors, so files opened later do
//! not take their numbers. Writes to a closed standard output then succeed. The check here runs before the
//! runtime's.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
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

/// Closes a duplicate of `file`'s descriptor, which makes NFS, FUSE and the like write cached data.
///
/// # Errors
///
/// A write error of the file system. Rust ignores it when it closes a file.
pub(crate) fn flush(file: &File) -> io::Result<()> {
    let copy = file.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor was just duplicated and has no other owner. It is free even after an error.
    if unsafe { libc::close(copy) } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
