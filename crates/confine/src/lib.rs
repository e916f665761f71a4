//! Giving up rights before parsing foreign files, and the users of local connections.
//!
//! Three independent, optional fences: [`capabilities`] (only root has any), [`landlock`] (limits which files
//! and networks can be opened) and [`seccomp`] (refuses system calls). If the kernel lacks one, the others
//! still hold; the caller reports the missing one. Each applies to the calling thread and to the threads that
//! it starts later. [`peer`] tells which user is at the other end of a loopback connection.

pub mod capabilities;
pub mod landlock;
pub mod peer;
pub mod seccomp;

use std::io;

/// Prevents executed programs from gaining privileges. The kernel requires this before Landlock and seccomp.
fn no_new_privileges() -> io::Result<()> {
    // SAFETY: a prctl(2) without pointers.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
