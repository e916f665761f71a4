//! Ids of processes in a PID namespace: a container numbers its processes anew, tracepoints tell the
//! machine's numbers.
//!
//! Outside of containers both are the same, and nothing is loaded.

#[cfg(feature = "bpf")]
mod namespace;

use std::fs;

#[cfg(feature = "bpf")]
pub(crate) use self::namespace::{NOTE, machines};

/// Inode number of this process's PID namespace, by which programs find its ids; 0 if these are the
/// machine's. Without /proc it is unknown, and 0 too: then all ids are the machine's.
#[cfg(feature = "bpf")]
pub(crate) fn namespace() -> u32 {
    let inode = fs::metadata("/proc/self/ns/pid").map(|of| std::os::unix::fs::MetadataExt::ino(&of));
    if are_the_machines() { 0 } else { inode.ok().and_then(|inode| inode.try_into().ok()).unwrap_or(0) }
}

/// Whether this process has the machine's own ids: it lives in the first PID namespace.
///
/// # Source
///
/// `include/linux/proc_ns.h`: `PROC_PID_INIT_INO` is 0xEFFFFFFC. Without /proc the answer is no.
pub(crate) fn are_the_machines() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}
