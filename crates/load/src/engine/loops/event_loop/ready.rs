//! Which connections are ready: `epoll(7)`, with a deadline in nanoseconds.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::libc;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

/// Maximum number of ready connections for each wait.
const READY_MAX: usize = 256;

/// The flags that every connection is watched for: input, or the end of the server.
pub(super) const INPUT: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLRDHUP);

/// The watched connections, and those that the last wait found ready.
///
/// Each has a number. Readiness is edge-triggered (`EPOLLET`): level-triggered, the kernel would poll every
/// connection again that was just read to its end.
pub(super) struct Ready {
    epoll: Epoll,
    found: Vec<libc::epoll_event>,
}

impl Ready {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, found: Vec::with_capacity(READY_MAX) })
    }

    /// Watches another descriptor.
    pub(super) fn add(&self, what: impl AsFd, flags: EpollFlags, number: u64) -> io::Result<()> {
        Ok(self.epoll.add(what, EpollEvent::new(flags | EpollFlags::EPOLLET, number))?)
    }

    /// Changes the watched flags; reports also readiness that exists already.
    pub(super) fn change(&self, what: impl AsFd, flags: EpollFlags, number: u64) -> io::Result<()> {
        Ok(self.epoll.modify(what, &mut EpollEvent::new(flags | EpollFlags::EPOLLET, number))?)
    }

    /// Stops watching it.
    pub(super) fn remove(&self, what: impl AsFd) {
        // It fails only if it was not watched.
        let _ = self.epoll.delete(what);
    }

    /// Waits until something is ready, for at most `timeout_ns`; forgets the previous result.
    pub(super) fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(timeout_ns % 1_000_000_000).expect("below a billion"),
        };
        self.found.clear();
        // SAFETY: `with_capacity` made room for READY_MAX events, and only this call uses it; the timeout
        // outlives the call; there is no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.0.as_raw_fd(),
                self.found.as_mut_ptr(),
                READY_MAX,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        match usize::try_from(count) {
            Ok(count) => {
                // SAFETY: the kernel has written that many.
                unsafe { self.found.set_len(count) };
                Ok(())
            }
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == ErrorKind::Interrupted => Ok(()),
                e => Err(e),
            },
        }
    }

    /// Number of ready descriptors.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// The number and flags of a ready descriptor.
    pub(super) fn found(&self, index: usize) -> (u64, EpollFlags) {
        let event = self.found[index];
        (event.u64, EpollFlags::from_bits_truncate(event.events.cast_signed()))
    }
}
