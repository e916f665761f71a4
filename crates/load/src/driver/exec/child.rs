//! Starts a command and reads its standard error.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::process::{Child, Command, ExitStatus};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::prctl;
use record::load::Loop;

use crate::measure::priority;

/// Settings of a worker's thread that a child must not inherit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// The worker runs at real-time priority.
    is_fifo: bool,
}

impl Start {
    pub(super) fn of(pace: &Loop) -> Self {
        Self { is_fifo: pace.as_open().is_some_and(|open| open.fifo) }
    }

    /// Starts the command.
    ///
    /// A child inherits policy, priority and timer slack of the thread that starts it. So for a moment the
    /// thread has the settings from before it became a worker. If the kernel refuses to restore them, the lag
    /// shows it.
    pub(super) fn spawn(self, command: &mut Command) -> io::Result<Child> {
        if self.is_fifo {
            // This comes first: a thread of real-time priority has no timer slack to set.
            priority::ordinary()?;
        }
        // 0 is the initial slack of the thread: that of this process.
        let _ = prctl::set_timerslack(0);
        let child = command.spawn();
        let _ = prctl::set_timerslack(1);
        if self.is_fifo {
            let _ = priority::real_time();
        }
        child
    }
}

/// Size of the stored end of standard error, in bytes.
const KEPT_BYTES: usize = 2_048;
/// Reads of the pipe between two checks of the child: enough to empty a full pipe.
const READS_A_LOOK: usize = 33;
/// Limits of the reported end of standard error: lines and bytes.
const SHOWN_LINES: usize = 3;
const SHOWN_BYTES: usize = 400;

/// Standard error of a worker's commands.
pub(super) struct Errors {
    pipe: PipeReader,
    kept: Vec<u8>,
    room: Box<[u8]>,
}

impl Errors {
    /// Creates a pipe and the commands' end of it: all commands of a worker write to the same pipe, one after
    /// the other.
    pub(super) fn pipe() -> io::Result<(Self, PipeWriter)> {
        let (pipe, to_write) = io::pipe()?;
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let errors =
            Self { pipe, kept: Vec::with_capacity(2 * KEPT_BYTES), room: vec![0; KEPT_BYTES].into() };
        Ok((errors, to_write))
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Waits for the child's exit, and reads the pipe meanwhile: a full pipe would block the child.
    ///
    /// The child's own children may keep the pipe open; this does not wait for them.
    pub(super) fn wait_for(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let end = end_of(child)?;
        loop {
            let watch = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut watched = [watch(end.as_raw_fd()), watch(self.pipe.as_raw_fd())];
            // SAFETY: both descriptors are open and owned here, and the array outlives the call.
            match Errno::result(unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) }) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            }
            if watched[1].revents != 0 {
                self.read()?;
            }
            if watched[0].revents != 0 {
                return child.wait();
            }
        }
    }

    /// Reads a bounded amount without blocking: processes that a command left behind may write forever.
    fn read(&mut self) -> io::Result<()> {
        for _ in 0..READS_A_LOOK {
            match self.pipe.read(&mut self.room) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    self.kept.extend_from_slice(&self.room[..bytes]);
                    let surplus = self.kept.len().saturating_sub(KEPT_BYTES);
                    self.kept.drain(..surplus);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The last lines, joined, the last of them complete; `None` if nothing was written.
    pub(super) fn last_lines(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" / ");
        let surplus = shown.chars().count().saturating_sub(SHOWN_BYTES);
        let shown: String = shown.chars().skip(surplus).collect();
        (!shown.is_empty()).then_some(shown)
    }
}

/// A descriptor that becomes readable when the child exits.
fn end_of(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: the child is ours and not yet waited for, so its process id cannot be reused.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) })?;
    let fd = RawFd::try_from(fd).expect("a descriptor is a small number");
    // SAFETY: the kernel just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn said_by(script: &str) -> (ExitStatus, Option<String>) {
        let (mut errors, to_write) = Errors::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(to_write);
        let start = Start { is_fifo: false };
        let mut child = start.spawn(&mut command).unwrap();
        let status = errors.wait_for(&mut child).unwrap();
        (status, errors.last_lines())
    }

    #[test]
    fn the_last_lines_of_standard_error_are_kept_however_much_there_is() {
        let (status, said) =
            said_by("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >&2; exit 3");
        assert_eq!(status.code(), Some(3));
        assert_eq!(said.as_deref(), Some("line 19997 / line 19998 / line 19999"));
        assert_eq!(said_by("true").1, None);
        let (_, said) = said_by("printf '%05000d' 7 >&2");
        assert_eq!(said.unwrap().len(), SHOWN_BYTES);
    }

    #[test]
    fn a_grandchild_that_writes_without_end_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        // Two processes: one of them always has a CPU.
        let script = format!("for i in 1 2; do yes >&2 & echo $! >>{}; done; sleep 0.1", note.display());
        let (status, _) = said_by(&script);
        for pid in std::fs::read_to_string(&note).unwrap().lines() {
            let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        assert!(status.success());
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_is_not_waited_for() {
        // It would outlast any test.
        let (status, said) = said_by("sleep 100000 & echo $! >&2");
        assert!(status.success());
        let pid: i32 = said.unwrap().parse().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    }
}
