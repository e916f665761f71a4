//! A blocking socket with room to read into: what the codecs of the SQL servers stand on.
//!
//! One `send` for a request, one `recv` for an answer that fits the room; no allocation once the room is as large as
//! the largest message.
//!
//! On a socket of this machine it waits in `poll` and not in `recv`: there the kernel also wakes a `recv` when the
//! other side has read our request, half an event too early, and each event would cost two switches in place of one.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::libc;
use socket2::{Domain, SockRef, Socket};

/// Why there is no answer; `Code` is how the server numbers its refusals.
#[derive(Debug)]
pub(crate) enum Broken<Code> {
    /// The connection is gone.
    Lost(io::Error),
    /// The server says no; whether the connection is as good as before, the code says.
    Refused { code: Code, message: String },
    /// What came is no answer to what was sent: the connection cannot be used any more.
    Garbled(&'static str),
}

impl<Code> From<io::Error> for Broken<Code> {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// Where the bytes of an answer come from.
pub(crate) trait Source {
    /// The next `count` bytes; [`ErrorKind::WouldBlock`] where they have not come yet and nobody waits for them.
    fn take(&mut self, count: usize) -> io::Result<&[u8]>;
}

/// What has come so far, on a socket that nobody waits for.
pub(crate) struct Come<'a> {
    bytes: &'a [u8],
    taken: usize,
    /// Nothing follows.
    is_end: bool,
}

impl<'a> Come<'a> {
    pub(crate) fn new(bytes: &'a [u8], is_end: bool) -> Self {
        Self { bytes, taken: 0, is_end }
    }

    /// How many bytes were taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }
}

impl Source for Come<'_> {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let end = self.taken.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(if self.is_end { closed() } else { ErrorKind::WouldBlock.into() });
        };
        let from = std::mem::replace(&mut self.taken, end);
        Ok(&self.bytes[from..end])
    }
}

/// An answer of a hundred rows is some 12 KiB.
const ROOM_BYTES: usize = 32 * 1024;

/// The socket, and what was received and not read yet.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Of whatever family: `send` and `recv` do not look at addresses.
    stream: TcpStream,
    /// Whether it ends on this machine.
    is_local: bool,
    /// How long an answer may take.
    timeout: Option<Duration>,
    room: Vec<u8>,
    /// What was received and not read is `room[start..end]`.
    start: usize,
    end: usize,
}

impl Wire {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        let stream = TcpStream::from(socket);
        let is_local =
            SockRef::from(&stream).local_addr().is_ok_and(|address| address.domain() == Domain::UNIX);
        Self { stream, is_local, timeout: None, room: vec![0; ROOM_BYTES], start: 0, end: 0 }
    }

    /// Says how long an answer may take; `None`: as long as it takes.
    pub(crate) fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout = timeout;
        self.stream.set_read_timeout(timeout)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The socket, for whoever waits for many; whatever was received is read.
    pub(crate) fn into_socket(self) -> Socket {
        assert!(self.start == self.end, "an answer was read to its end");
        Socket::from(OwnedFd::from(self.stream))
    }

    /// Makes room for `count` unread bytes.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, count: usize) {
        self.room.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.room.len() < count {
            self.room.resize(count.next_power_of_two(), 0);
        }
    }

    /// Receives until at least `count` bytes are unread.
    fn receive(&mut self, count: usize) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.room.len() - self.start < count {
            self.make_room(count);
        }
        while self.end - self.start < count {
            if self.is_local {
                self.wait()?;
            }
            match self.stream.read(&mut self.room[self.end..]) {
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(self.too_late()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn too_late(&self) -> io::Error {
        io::Error::new(ErrorKind::TimedOut, no_answer(self.timeout.unwrap_or_default()))
    }

    /// Waits until there is something to receive.
    fn wait(&self) -> io::Result<()> {
        let mut socket = libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout_ms = self.timeout.map_or(-1, |t| i32::try_from(t.as_millis()).unwrap_or(i32::MAX));
        // SAFETY: one descriptor, which is ours and open, and lives through the call.
        match unsafe { libc::poll(&raw mut socket, 1, timeout_ms) } {
            0 => Err(self.too_late()),
            1 => Ok(()),
            _ => match io::Error::last_os_error() {
                // Whoever reads finds out, and waits again.
                e if e.kind() == ErrorKind::Interrupted => Ok(()),
                e => Err(e),
            },
        }
    }
}

impl Source for Wire {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.start < count {
            self.receive(count)?;
        }
        let from = self.start;
        self.start += count;
        Ok(&self.room[from..self.start])
    }
}

/// What is said where an answer may only take so long.
pub(crate) fn no_answer(within: Duration) -> String {
    format!("no answer within {within:?}")
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    fn messages_of_any_size_arrive_whole() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(ours.into());
        let sizes = [1, ROOM_BYTES - 1, ROOM_BYTES, 3, 5 * ROOM_BYTES + 7, 2];
        let sent = thread::spawn(move || {
            for (n, size) in (1u8..).zip(sizes) {
                theirs.write_all(&vec![n; size]).unwrap();
            }
        });
        for (n, size) in (1u8..).zip(sizes) {
            assert!(wire.take(size).unwrap().iter().all(|b| *b == n));
        }
        sent.join().unwrap();
        assert_eq!(wire.take(1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_answer_may_only_take_so_long_where_that_is_said() {
        let (_theirs, ours) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(ours.into());
        wire.set_timeout(Some(Duration::from_millis(1))).unwrap();
        for is_local in [true, false] {
            wire.is_local = is_local;
            let error = wire.take(1).unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::TimedOut, "no answer within 1ms")
            );
        }
    }

    #[test]
    fn what_has_not_come_is_not_waited_for() {
        let mut come = Come::new(b"abc", false);
        assert_eq!(come.take(2).unwrap(), b"ab");
        assert_eq!(come.take(2).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(come.take(1).unwrap(), b"c");
        assert_eq!(come.taken(), 3);
        assert_eq!(Come::new(b"abc", false).take(usize::MAX).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(Come::new(b"abc", true).take(4).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
