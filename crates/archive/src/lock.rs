//! Locks that show which process writes, and that end with it however it ends.
//!
//! Open-file-description locks: any thread may hold them, a child that executes another program does not keep
//! them (files are close-on-exec), and another process can query one without taking it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Exclusiveness of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Others may share it.
    Shared,
    /// Exclusive.
    Alone,
}

/// Waits for the lock file `path`, creating it if needed; held until the file is dropped.
pub(crate) fn wait(path: &Path, hold: Hold) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLKW(&whole_file(hold))) {
            Ok(_) => return Ok(file),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Locks `file` exclusively; `false` if another open file holds a lock.
pub(crate) fn take(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(Hold::Alone))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Variant of [`take`] that retries for up to a second.
///
/// After a kill, the last child of the process holds the lock until it executes its program or ends.
pub(crate) fn take_soon(file: &File) -> io::Result<bool> {
    for _ in 0..100 {
        if take(file)? {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    take(file)
}

/// Whether another open file, of this process or another, holds a lock on `file`.
pub(crate) fn is_taken(file: &File) -> io::Result<bool> {
    let mut found = whole_file(Hold::Alone);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel's constants for a lock's type are 0 to 2")]
fn whole_file(hold: Hold) -> libc::flock {
    let kind = match hold {
        Hold::Shared => libc::F_RDLCK,
        Hold::Alone => libc::F_WRLCK,
    };
    // Length 0 reaches to the end, wherever it moves; the process number must be 0 for this family of locks.
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_seen_refused_and_gone_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = wait(&path, Hold::Alone).unwrap();
        let other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(is_taken(&other).unwrap());
        assert!(!take(&other).unwrap());
        assert!(!is_taken(&held).unwrap(), "one's own lock is no obstacle");
        drop(held);
        assert!(!is_taken(&other).unwrap());
        assert!(take(&other).unwrap());
    }

    #[test]
    fn shared_locks_do_not_keep_each_other_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let one = wait(&path, Hold::Shared).unwrap();
        let two = wait(&path, Hold::Shared).unwrap();
        assert!(is_taken(&one).unwrap(), "against taking it alone, a shared lock is an obstacle");
        drop(two);
        drop(one);
        let _alone = wait(&path, Hold::Alone).unwrap();
    }
}
