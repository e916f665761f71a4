//! Giving up rights before reading what others wrote.
//!
//! Three fences, each on its own and each optional: [`capabilities`] (only root has any), [`landlock`] (which
//! files and networks can be opened) and [`seccomp`] (which system calls are refused). A kernel without one
//! of them has the others; the caller reports what is missing. Each holds for the calling thread and the
//! threads that it starts later.

pub mod capabilities;
pub mod landlock;
pub mod seccomp;

use std::io;

/// No program that is executed from now on gains a privilege: the kernel asks for this before Landlock and
/// seccomp.
fn no_new_privileges() -> io::Result<()> {
    // SAFETY: a prctl(2) without pointers.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
