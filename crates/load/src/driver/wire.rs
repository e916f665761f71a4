//! A blocking socket with room to read into: what the codecs of the SQL servers stand on.
//!
//! One `send` for a request, one `recv` for an answer that fits the room; no allocation once the room is as large as
//! the largest message that is kept.
//!
//! On a socket of this machine it waits in `poll` and not in `recv`: there the kernel also wakes a `recv` when the
//! other side has read our request, half an event too early, and each event would cost two switches in place of one.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::libc;
use record::clock::{Clock as _, Monotonic};
use socket2::{Domain, SockRef, Socket};

use super::held::{self, Held};
use super::net::{closed, connection_failure, has_input};
use super::security::Plan;
use super::tls::Tls;
use super::{Failure, FailureClass};

/// An answer of a hundred rows is some 12 KiB.
const ROOM_BYTES: usize = 32 * 1024;
/// Room beyond this was made for a message that is gone.
const ROOM_KEPT_BYTES: usize = 1 << 20;

/// The socket, and what was received and not read yet.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Of whatever family: `send` and `recv` do not look at addresses.
    stream: TcpStream,
    /// Whether it ends on this machine.
    is_local: bool,
    /// How long what is said until then may take, and when that is over.
    timeout: Option<(Duration, u64)>,
    /// What is said and heard goes through it, where it is spoken.
    tls: Option<Box<Spoken>>,
    room: Vec<u8>,
    /// What was received and not read is `room[start..end]`.
    start: usize,
    end: usize,
    held: Held,
}

/// What came of one look at the socket.
enum Received {
    /// Something of TLS among itself.
    Nothing,
    Bytes,
    End,
}

/// Why nothing came out of TLS.
enum Unheard {
    Lost(io::Error),
    Refused(Failure),
}

/// TLS, and what is on its way into it and out of it.
#[derive(Debug)]
struct Spoken {
    tls: Tls,
    come: Vec<u8>,
    heard: Vec<u8>,
    out: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        let stream = TcpStream::from(socket);
        let is_local =
            SockRef::from(&stream).local_addr().is_ok_and(|address| address.domain() == Domain::UNIX);
        Self {
            stream,
            is_local,
            timeout: None,
            tls: None,
            room: vec![0; ROOM_BYTES],
            start: 0,
            end: 0,
            held: Held::default(),
        }
    }

    /// The socket once more, for what cuts it from outside.
    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.stream.try_clone().map(OwnedFd::from)
    }

    /// Says how long all answers from now on may take together; `None`: as long as they take.
    ///
    /// The server that says a little again and again does not make it longer.
    pub(crate) fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let until =
            |t: Duration| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX).saturating_add(Monotonic.now_ns());
        self.timeout = timeout.map(|timeout| (timeout, until(timeout)));
        self.stream.set_read_timeout(timeout)
    }

    /// What is left of the time; `None` where there is no end.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some((_, until_ns)) = self.timeout else { return Ok(None) };
        match until_ns.saturating_sub(Monotonic.now_ns()) {
            0 => Err(self.too_late()),
            left_ns => Ok(Some(Duration::from_nanos(left_ns))),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(spoken) = &mut self.tls else { return self.stream.write_all(bytes) };
        spoken.out.clear();
        spoken.tls.seal(bytes, &mut spoken.out);
        self.stream.write_all(&spoken.out)
    }

    /// Speaks TLS from now on: shakes hands, waiting for it.
    pub(crate) fn start_tls(&mut self, plan: &Plan) -> Result<(), Failure> {
        if self.start < self.end {
            // Whoever is on the way might have put it there, for us to read as if it were the server's.
            let text = "the server said something before TLS that nobody asked for";
            return Err(Failure::new(FailureClass::Connection, text));
        }
        let (come, heard, out) = (vec![0; ROOM_BYTES], Vec::new(), Vec::new());
        self.tls = Some(Box::new(Spoken { tls: Tls::new(plan)?, come, heard, out }));
        let lost = |e: io::Error| connection_failure("cannot begin TLS", &e);
        self.send(&[]).map_err(lost)?;
        while self.tls.as_ref().is_some_and(|spoken| spoken.tls.is_handshaking()) {
            match self.receive_tls() {
                Ok(0) => return Err(closed()),
                Ok(_) => {}
                Err(Unheard::Lost(e)) => return Err(lost(e)),
                Err(Unheard::Refused(failure)) => return Err(failure),
            }
        }
        Ok(())
    }

    /// What of TLS stands behind the server's name.
    pub(crate) fn tls_version(&self) -> &'static str {
        self.tls.as_ref().map_or("", |spoken| spoken.tls.version())
    }

    /// The socket and the TLS on it, for a loop that waits for many.
    ///
    /// # Errors
    ///
    /// The server has said more than it was asked.
    pub(crate) fn into_parts(self) -> io::Result<(Socket, Option<Tls>)> {
        if self.start < self.end || self.tls.as_ref().is_some_and(|spoken| !spoken.heard.is_empty()) {
            return Err(io::Error::other("the server sent something that nobody asked for"));
        }
        Ok((Socket::from(OwnedFd::from(self.stream)), self.tls.map(|spoken| spoken.tls)))
    }

    /// Hands what has come to `hear`, and receives more, until that has its answer.
    ///
    /// - `hear`: yields the bytes that it has taken, which it does not see again, and its answer; whether nothing follows is
    ///   its second argument.
    pub(crate) fn hear<T>(
        &mut self,
        mut hear: impl FnMut(&[u8], bool) -> (usize, Option<T>),
    ) -> io::Result<T> {
        let mut is_end = false;
        loop {
            if is_end || self.start < self.end {
                let (taken, answer) = hear(&self.room[self.start..self.end], is_end);
                self.start += taken;
                if let Some(answer) = answer {
                    return Ok(answer);
                }
            }
            if is_end {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            is_end = matches!(self.receive()?, Received::End);
        }
    }

    /// Hands what came with the last answer and was not taken to `hear`: the server was not asked for it yet.
    ///
    /// - `hear`: as in [`Self::hear_unasked`].
    pub(crate) fn hear_left(
        &mut self,
        mut hear: impl FnMut(&[u8]) -> (usize, Option<Failure>),
    ) -> Result<(), Failure> {
        while self.start < self.end {
            let (taken, failure) = hear(&self.room[self.start..self.end]);
            self.start += taken;
            if let Some(failure) = failure {
                return Err(failure);
            }
            if taken == 0 {
                // Its rest has not come.
                break;
            }
        }
        Ok(())
    }

    /// Receives once.
    fn receive(&mut self) -> io::Result<Received> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.room.truncate(ROOM_KEPT_BYTES);
            held::shrink(&mut self.room);
        }
        if self.end == self.room.len() {
            self.make_room();
        }
        self.held.set(self.room.len()).map_err(|failure| io::Error::other(failure.text))?;
        if self.tls.is_some() {
            return self.receive_from_tls();
        }
        let bytes = self.read(|wire| wire.stream.read(&mut wire.room[wire.end..]))?;
        self.end += bytes;
        Ok(if bytes == 0 { Received::End } else { Received::Bytes })
    }

    fn receive_from_tls(&mut self) -> io::Result<Received> {
        let bytes = self.receive_tls().map_err(|unheard| match unheard {
            Unheard::Lost(e) => e,
            Unheard::Refused(failure) => io::Error::other(failure.text),
        })?;
        let spoken = self.tls.as_mut().expect("it is spoken");
        if spoken.heard.is_empty() {
            return Ok(if bytes == 0 { Received::End } else { Received::Nothing });
        }
        // What was unread stands in front of it.
        self.room.truncate(self.end);
        self.room.append(&mut spoken.heard);
        self.end = self.room.len();
        Ok(Received::Bytes)
    }

    /// Reads once what TLS says, and answers it.
    fn receive_tls(&mut self) -> Result<usize, Unheard> {
        let read = |wire: &mut Self| {
            let spoken = wire.tls.as_mut().expect("it is spoken");
            wire.stream.read(&mut spoken.come)
        };
        let bytes = self.read(read).map_err(Unheard::Lost)?;
        let Spoken { tls, come, heard, out } = &mut **self.tls.as_mut().expect("it is spoken");
        let taken = tls.take_in(&come[..bytes], heard).map_err(Unheard::Refused);
        // What it has to say to that: also why it goes.
        out.clear();
        tls.seal(&[], out);
        let said = self.stream.write_all(out).map_err(Unheard::Lost);
        taken.and(said).map(|()| bytes)
    }

    fn read(&mut self, mut read: impl FnMut(&mut Self) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            let left = self.left()?;
            if self.is_local {
                self.wait(left)?;
            } else if left.is_some() {
                self.stream.set_read_timeout(left)?;
            }
            match read(self) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(self.too_late()),
                read => return read,
            }
        }
    }

    /// Makes room behind what is unread: as much again as has come, which is how nothing is taken for what is only announced.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.room.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end > self.room.len() / 2 {
            self.room.resize((2 * self.room.len()).max(ROOM_BYTES), 0);
        }
    }

    /// Hands what came while nothing was asked to `hear`, without waiting. Fails if the connection is over.
    ///
    /// - `hear`: yields the bytes that it has taken, and why the connection is of no use any more.
    pub(crate) fn hear_unasked(
        &mut self,
        mut hear: impl FnMut(&[u8]) -> (usize, Option<Failure>),
    ) -> Result<(), Failure> {
        while has_input(&self.stream)? {
            if matches!(self.receive().map_err(|e| connection_failure("cannot receive", &e))?, Received::End)
            {
                return Err(closed());
            }
            let (taken, failure) = hear(&self.room[self.start..self.end]);
            self.start += taken;
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }

    fn too_late(&self) -> io::Error {
        io::Error::new(
            ErrorKind::TimedOut,
            no_answer(self.timeout.map_or(Duration::ZERO, |(timeout, _)| timeout)),
        )
    }

    /// Waits until there is something to receive.
    fn wait(&self, left: Option<Duration>) -> io::Result<()> {
        let mut socket = libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Rounded up: in the last millisecond it waits too.
        let timeout_ms = left.map_or(-1, |t| i32::try_from(t.as_millis() + 1).unwrap_or(i32::MAX));
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

/// What is said where an answer may only take so long.
pub(crate) fn no_answer(within: Duration) -> String {
    format!("no answer within {within:?}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    fn messages_of_any_size_arrive_whole_and_large_rooms_are_given_back() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(ours.into());
        let sizes = [1, ROOM_BYTES - 1, ROOM_BYTES, 3, 5 * ROOM_BYTES + 7, 2 * ROOM_KEPT_BYTES, 2];
        let sent = thread::spawn(move || {
            for (n, size) in (1u8..).zip(sizes) {
                theirs.write_all(&vec![n; size]).unwrap();
            }
        });
        for (n, size) in (1u8..).zip(sizes) {
            let message = |input: &[u8], _: bool| match input.get(..size) {
                Some(found) => (size, Some(found.iter().all(|b| *b == n))),
                None => (0, None),
            };
            assert!(wire.hear(message).unwrap());
        }
        sent.join().unwrap();
        assert_eq!(wire.hear(|_, _| (0, None::<()>)).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(wire.room.len() <= ROOM_KEPT_BYTES);
    }

    #[test]
    fn a_server_that_says_something_again_and_again_has_no_more_time_than_one_that_says_nothing() {
        for is_local in [true, false] {
            let (mut theirs, ours) = UnixStream::pair().unwrap();
            // Until the other side has gone.
            let talks = thread::spawn(move || while theirs.write_all(b"N").is_ok() {});
            let mut wire = Wire::new(ours.into());
            wire.is_local = is_local;
            wire.set_timeout(Some(Duration::from_millis(20))).unwrap();
            let error = wire.hear(|input, _| (input.len(), None::<()>)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            drop(wire);
            talks.join().unwrap();
        }
    }

    #[test]
    fn an_answer_may_only_take_so_long_where_that_is_said() {
        let (_theirs, ours) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(ours.into());
        wire.set_timeout(Some(Duration::from_millis(1))).unwrap();
        for is_local in [true, false] {
            wire.is_local = is_local;
            let error = wire.hear(|_, _| (0, None::<()>)).unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::TimedOut, "no answer within 1ms")
            );
        }
    }
}
