//! Landlock: which files can be opened, and no network.
//!
//! # Source
//!
//! landlock(7); `include/uapi/linux/landlock.h`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::no_new_privileges;

const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Every right of Landlock's first version: to execute, write, read, list, remove and make each kind of file.
const FIRST: u64 = (1 << 13) - 1;
/// Rights to make character devices, sockets, pipes, block devices and links.
const ODD_FILES: u64 = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
const TCP: u64 = 1 | 1 << 1;
const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 1 | 1 << 1;

#[repr(C)]
struct Ruleset {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

const CREATE_RULESET_VERSION: libc::c_uint = 1;
const RULE_PATH_BENEATH: libc::c_int = 1;

/// Restricts this thread, and those it starts, to files below these paths and to no network connection.
///
/// # Errors
///
/// The kernel's, if it lacks Landlock. An older version of Landlock restricts what it can.
pub fn restrict(reads: &[PathBuf], writes: &[PathBuf]) -> io::Result<()> {
    // SAFETY: asks for the version; no pointer is read.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    if version < 1 {
        return Err(io::Error::last_os_error());
    }
    let since = |first: libc::c_long, rights: u64| if version >= first { rights } else { 0 };
    let handled = FIRST | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV);
    let ruleset = Ruleset {
        handled_access_fs: handled,
        handled_access_net: since(4, TCP),
        scoped: since(6, ABSTRACT_SOCKETS_AND_SIGNALS),
    };
    let bytes = if version >= 6 {
        24_usize
    } else if version >= 4 {
        16
    } else {
        8
    };
    // SAFETY: `ruleset` outlives the call and has at least `bytes` bytes.
    let made = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, bytes, 0) };
    let made = libc::c_int::try_from(made).unwrap_or(-1);
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    let rules = unsafe { OwnedFd::from_raw_fd(made) };
    for path in reads {
        allow(&rules, path, READ_FILE | READ_DIR)?;
    }
    for path in writes {
        allow(&rules, path, handled & !(EXECUTE | ODD_FILES | IOCTL_DEV))?;
    }
    no_new_privileges()?;
    // SAFETY: no pointers.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Adds a rule that grants `rights` below `path`. A path that does not exist needs no rule.
fn allow(rules: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(()) };
    // SAFETY: `name` ends with a zero and outlives the call.
    let opened = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if opened < 0 {
        return Ok(());
    }
    // SAFETY: the kernel just opened this descriptor for us.
    let opened = unsafe { OwnedFd::from_raw_fd(opened) };
    let rights = if path.is_dir() { rights } else { rights & OF_FILES };
    let rule = PathBeneath { allowed_access: rights, parent_fd: opened.as_raw_fd() };
    // SAFETY: `rule` outlives the call, and its type is the one that is announced.
    let added = unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), RULE_PATH_BENEATH, &raw const rule, 0)
    };
    let error = io::Error::last_os_error();
    // The kernel refuses a rule (EBADFD) for a file outside of any mountable file system, such as a pipe.
    // Landlock does not restrict such files.
    if added == 0 || error.raw_os_error() == Some(libc::EBADFD) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_paths_open_and_only_named_folders_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["read", "write", "other"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("file"), name).unwrap();
        }
        let confined = || {
            match restrict(&[at("read"), at("absent")], &[at("write")]) {
                // SAFETY: as in `restrict`.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
                    return eprintln!("skipped: this kernel has no Landlock");
                }
                done => done.unwrap(),
            }
            let file = |name: &str| at(name).join("file");
            assert_eq!(std::fs::read_to_string(file("read")).unwrap(), "read");
            assert_eq!(std::fs::read_to_string(file("write")).unwrap(), "write");
            std::fs::write(at("write").join("new"), "x").unwrap();
            std::fs::rename(at("write").join("new"), file("write")).unwrap();
            for refused in [
                std::fs::read(file("other")).map(drop),
                std::fs::read("/etc/passwd").map(drop),
                std::fs::write(file("read"), "x"),
                std::fs::write(at("read").join("new"), "x"),
                std::fs::remove_file(file("read")),
                std::os::unix::net::UnixListener::bind(at("write").join("socket")).map(drop),
                std::net::TcpListener::bind("127.0.0.1:0").map(drop),
            ] {
                assert!(refused.is_err());
            }
        };
        std::thread::scope(|scope| scope.spawn(confined).join().unwrap());
    }
}
