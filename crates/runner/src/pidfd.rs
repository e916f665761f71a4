//! Descriptors of processes. A process id may belong to another process between a look and a signal; a
//! descriptor stays with its process.
//!
//! # Source
//!
//! `pidfd_open(2)`, since Linux 5.3; `pidfd_send_signal(2)`; waitid(2), `P_PIDFD`, since Linux 5.4.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;

/// Returns a descriptor of the process that has this id now. It becomes readable when the process ends.
pub(crate) fn open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers and returns a new file descriptor.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from(Errno::EBADF))?;
    // SAFETY: as above, the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Kills the process with this id if `is_it` holds; `is_it` is asked while the process is held.
///
/// Returns its descriptor, or `None` if it has ended, or if the kernel has no descriptor for it.
pub(crate) fn kill_if(pid: Pid, is_it: impl FnOnce() -> bool) -> Option<OwnedFd> {
    match open(pid) {
        Ok(process) => {
            if is_it() {
                // It may have ended just now, which is the goal.
                let _ = send(&process, Signal::SIGKILL);
            }
            Some(process)
        }
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
        // Too many descriptors, or an old kernel: there is only the number.
        Err(_) => {
            if is_it() {
                let _ = kill(pid, Signal::SIGKILL);
            }
            None
        }
    }
}

fn send(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    let (fd, signal, info) = (process.as_raw_fd(), signal as i32, std::ptr::null::<libc::siginfo_t>());
    // SAFETY: the call takes numbers, and a null pointer instead of details.
    Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, 0) })?;
    Ok(())
}

/// Reaps a process that was killed. A process of another parent is left alone.
///
/// - `process`: its descriptor, if there is one.
pub(crate) fn reap(pid: Pid, process: Option<&OwnedFd>) {
    let Some(process) = process else {
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        return;
    };
    loop {
        match waitid(Id::PIDFd(process.as_fd()), WaitPidFlag::WEXITED) {
            Err(Errno::EINTR) => {}
            // A kernel that waits only for numbers.
            Err(Errno::EINVAL) => return reap(pid, None),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_is_another_one_by_now_is_not_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert!(kill_if(pid, || false).is_some());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "it lived");

        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let held = kill_if(pid, || true).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        // The number is free. A descriptor of the old process reaches no other one, and waits for none.
        assert!(send(&held, Signal::SIGKILL).is_err());
        reap(pid, Some(&held));
        assert!(kill_if(pid, || panic!("no process has the number")).is_none());
    }
}
