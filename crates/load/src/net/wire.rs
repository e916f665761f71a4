//! A blocking socket, with optional TLS: input and output of a thread with one connection, for every
//! protocol, and of all exchanges before a load.
//!
//! One `send` per request, one `recv` per answer that fits the buffer; no allocation once the buffer has the
//! size of the largest message that is stored.
//!
//! On a socket of this machine it waits in `poll` and not in `recv`. The kernel would also wake a `recv` when
//! the other side has read our request, half an event too early, and each event would cost two context
//! switches instead of one. If answers are usually there at once, it reads them without the wait.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::libc;
use record::clock::{Clock as _, Monotonic};
use socket2::{Domain, Socket};

use self::room::Room;
use super::{Endpoint, closed, connection_failure, is_unread};
use crate::connection::{Cut, Failure, FailureClass};
use crate::net::promptness::Promptness;
use crate::net::socket::{SEND_BYTES, has_input};
use crate::net::tls::Plan;
use crate::net::tls::Tls;
use crate::schedule::clock::to_ns;

mod room;

/// The socket, optional TLS, and input that was not read yet.
#[derive(Debug)]
pub(crate) struct Wire {
    line: Line,
    tls: Option<Box<Tls>>,
    /// Decrypted input on its way into `room`.
    opened: Vec<u8>,
    room: Room,
    /// Buffer for replies, and for TLS output.
    out: Vec<u8>,
}

/// A socket and the time limit of calls on it.
#[derive(Debug)]
struct Line {
    socket: Socket,
    /// Whether the other end is on this machine.
    is_local: bool,
    promptness: Promptness,
    deadline: Option<Deadline>,
    /// Current time limit of a call on the socket; `None`: unlimited.
    of_socket: Option<Duration>,
    /// Something was sent since [`Wire::begin`].
    has_sent: bool,
    /// Something was received since [`Wire::begin`].
    has_received: bool,
}

/// A time limit, and the time at which it expires.
///
/// A server that sends a little again and again does not extend it.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    timeout: Duration,
    until_ns: u64,
}

/// Result of one read from the socket.
enum Received {
    /// Only messages of TLS itself.
    Nothing,
    Bytes,
    End,
}

/// Runs `work` with a total time limit. Restores the previous limit afterwards.
///
/// - `too_late`: the failure if the limit expires.
pub(crate) fn within<W: AsMut<Wire>, T>(
    it: &mut W,
    timeout: Duration,
    too_late: impl FnOnce(Duration) -> Failure,
    work: impl FnOnce(&mut W) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let usual = it.as_mut().line.deadline.replace(Deadline::after(timeout));
    let done = work(it);
    it.as_mut().line.deadline = usual;
    done.map_err(|failure| if failure.class == FailureClass::Timeout { too_late(timeout) } else { failure })
}

/// Message about an answer that exceeds its time limit.
pub(crate) fn no_answer(within: Duration) -> String {
    format!("no answer within {within:?}")
}

impl AsMut<Self> for Wire {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Wire {
    /// Connects; blocks.
    pub(crate) fn connect(place: &Endpoint, cut: &Cut) -> Result<Self, Failure> {
        let socket = place.connect()?;
        cut.arm_socket(socket.try_clone().map_err(|e| place.cannot_connect(&e))?.into());
        Ok(Self::new(socket))
    }

    pub(crate) fn new(socket: Socket) -> Self {
        let is_local = socket.local_addr().is_ok_and(|address| address.domain() == Domain::UNIX);
        let line = Line {
            socket,
            is_local,
            promptness: Promptness::default(),
            deadline: None,
            of_socket: None,
            has_sent: false,
            has_received: false,
        };
        Self { line, tls: None, opened: Vec::new(), room: Room::new(), out: Vec::new() }
    }

    /// Duplicates the socket, to cut it from outside.
    pub(crate) fn try_clone(&self) -> Result<OwnedFd, Failure> {
        let clone = self.line.socket.try_clone().map_err(|e| connection_failure("cannot connect", &e))?;
        Ok(clone.into())
    }

    /// Variant of [`Endpoint::is_private`] for this connection.
    pub(crate) fn is_private(&self, place: &Endpoint) -> bool {
        place.is_private(&self.line.socket)
    }

    /// Begins an event with a time limit; `None`: unlimited.
    pub(super) fn begin(&mut self, timeout: Option<Duration>) {
        (self.line.has_sent, self.line.has_received) = (false, false);
        if let Some(timeout) = timeout {
            self.line.deadline = Some(Deadline::after(timeout));
        }
    }

    /// Ends the event. Returns whether any of it was sent.
    pub(super) fn end(&mut self, timeout: Option<Duration>) -> bool {
        if timeout.is_some() {
            self.line.deadline = None;
        }
        self.line.has_sent
    }

    /// Whether the server closed the connection before it read the request of the event.
    pub(super) fn is_unread(&self) -> bool {
        !self.line.has_received && is_unread(&self.line.socket)
    }

    /// Ends the opening of a connection: removes the time limit of calls on the socket, which costs the
    /// kernel a timer per call.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        if self.line.of_socket.is_some() { self.line.set(None) } else { Ok(()) }
    }

    /// Sends all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(tls) = &mut self.tls else { return self.line.write(bytes) };
        self.out.clear();
        tls.seal(bytes, &mut self.out);
        self.line.write(&self.out)
    }

    /// Sends bytes of a request up to all of them, or until there is input before the kernel takes the rest.
    /// Returns the number of bytes sent. Not for a wire with TLS.
    pub(super) fn send_until_input(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        debug_assert!(self.tls.is_none(), "a record of TLS cannot be sent in part");
        self.line.write_until_input(bytes)
    }

    /// Starts TLS: performs the handshake; blocks.
    pub(crate) fn start_tls(&mut self, plan: &Plan) -> Result<(), Failure> {
        if !self.room.is_empty() {
            // An attacker on the network might have injected it, to be read as the server's.
            let text = "the server sent unrequested data before the TLS handshake";
            return Err(Failure::new(FailureClass::Connection, text));
        }
        self.tls = Some(Box::new(Tls::new(plan)?));
        self.shake_hands().map_err(|failure| match failure.class {
            FailureClass::Connection => {
                Failure { text: format!("TLS handshake failed: {}", failure.text), ..failure }
            }
            _ => failure,
        })
    }

    fn shake_hands(&mut self) -> Result<(), Failure> {
        self.send(&[])?;
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            if matches!(self.receive(Line::read)?, Received::End) {
                return Err(closed());
            }
        }
        Ok(())
    }

    /// TLS version, for display after the server's name.
    pub(crate) fn tls_version(&self) -> &'static str {
        self.tls.as_ref().map_or("", |tls| tls.version())
    }

    /// The socket and its TLS, for an event loop.
    ///
    /// # Errors
    ///
    /// The server has sent unrequested data.
    pub(crate) fn into_parts(self) -> Result<(Socket, Option<Tls>), Failure> {
        if !self.room.is_empty() {
            let text = "the server sent unrequested data";
            return Err(Failure::new(FailureClass::Connection, text));
        }
        Ok((self.line.socket, self.tls.map(|tls| *tls)))
    }

    /// Passes input to `hear`, and receives more until `hear` returns an answer.
    ///
    /// - `hear`: returns the number of bytes consumed, and its answer; its second argument tells whether
    ///   nothing follows.
    pub(crate) fn hear<T>(
        &mut self,
        mut hear: impl FnMut(&[u8], bool) -> (usize, Option<T>),
    ) -> Result<T, Failure> {
        self.hear_and_reply(false, |input, is_end, _| hear(input, is_end))
    }

    /// Variant of [`Self::hear`] with replies.
    ///
    /// - `has_left`: `hear` itself stores input that was not consumed.
    /// - `hear`: writes its replies to its third argument.
    pub(super) fn hear_and_reply<T>(
        &mut self,
        has_left: bool,
        mut hear: impl FnMut(&[u8], bool, &mut Vec<u8>) -> (usize, Option<T>),
    ) -> Result<T, Failure> {
        let (mut has_come, mut is_end) = (has_left || !self.room.is_empty(), false);
        loop {
            if has_come {
                self.out.clear();
                let (taken, answer) = hear(self.room.unread(), is_end, &mut self.out);
                self.room.start += taken;
                let replied = self.reply();
                match answer {
                    // If the reply could not be sent, the next event fails.
                    Some(answer) => return Ok(answer),
                    None if is_end => return Err(closed()),
                    None => replied?,
                }
            }
            let received = self.receive(Line::read)?;
            (has_come, is_end) = (!matches!(received, Received::Nothing), matches!(received, Received::End));
        }
    }

    /// Receives once, and passes the input to `hear`. Fails if the server has closed and there is no answer.
    ///
    /// - `hear`: as in [`Self::hear`].
    pub(super) fn hear_once<T>(
        &mut self,
        hear: impl FnOnce(&[u8], bool) -> (usize, Option<T>),
    ) -> Result<Option<T>, Failure> {
        let received = self.receive(Line::read)?;
        let is_end = matches!(received, Received::End);
        let (taken, answer) = hear(self.room.unread(), is_end);
        self.room.start += taken;
        if is_end && answer.is_none() { Err(closed()) } else { Ok(answer) }
    }

    /// Passes the input after the last answer to `hear`: it was not requested.
    ///
    /// - `has_left`, `hear`: as in [`Self::hear_and_reply`] and [`Self::hear_unasked`].
    pub(crate) fn hear_left(
        &mut self,
        has_left: bool,
        mut hear: impl FnMut(&[u8]) -> (usize, Option<Failure>),
    ) -> Result<(), Failure> {
        let mut may_go_on = has_left || !self.room.is_empty();
        while may_go_on {
            let (taken, failure) = hear(self.room.unread());
            self.room.start += taken;
            if let Some(failure) = failure {
                return Err(failure);
            }
            // If `hear` consumes nothing, its message is incomplete.
            may_go_on = taken > 0 && !self.room.is_empty();
        }
        Ok(())
    }

    /// Passes unrequested input to `hear`, without blocking. Fails if the connection is closed.
    ///
    /// - `hear`: returns the number of bytes consumed, and a failure if the connection is unusable; writes
    ///   its replies to its second argument.
    pub(crate) fn hear_unasked(
        &mut self,
        mut hear: impl FnMut(&[u8], &mut Vec<u8>) -> (usize, Option<Failure>),
    ) -> Result<(), Failure> {
        while has_input(&self.line.socket)? {
            match self.receive(Line::read_now)? {
                Received::Nothing => continue,
                Received::End => return Err(closed()),
                Received::Bytes => {}
            }
            self.out.clear();
            let (taken, failure) = hear(self.room.unread(), &mut self.out);
            self.room.start += taken;
            self.reply()?;
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Sends the replies that were written.
    fn reply(&mut self) -> Result<(), Failure> {
        if self.out.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let sent = self.send(&out);
        self.out = out;
        sent
    }

    /// Receives once.
    fn receive(
        &mut self,
        read: impl FnOnce(&mut Line, &mut [u8]) -> Result<usize, Failure>,
    ) -> Result<Received, Failure> {
        let Self { line, tls, opened, room, out } = self;
        room.make_free()?;
        let bytes = read(line, &mut room.bytes[room.end..])?;
        let Some(tls) = tls else {
            room.end += bytes;
            return Ok(if bytes == 0 { Received::End } else { Received::Bytes });
        };
        let taken = tls.take_in(&room.bytes[room.end..][..bytes], opened);
        // TLS's reply, which may be an alert.
        out.clear();
        tls.seal(&[], out);
        let said = line.write(out);
        taken.and(said)?;
        room.put(opened);
        let has_opened = !opened.is_empty();
        opened.clear();
        Ok(match bytes {
            _ if has_opened => Received::Bytes,
            0 => Received::End,
            _ => Received::Nothing,
        })
    }
}

impl Line {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let mut was_early = false;
        while !bytes.is_empty() {
            self.allow(was_early)?;
            was_early = false;
            match (&self.socket).write(bytes) {
                Ok(sent) => {
                    self.has_sent = true;
                    bytes = &bytes[sent..];
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => was_early = true,
                Err(e) => return Err(connection_failure("cannot send", &e)),
            }
        }
        Ok(())
    }

    /// Writes up to all bytes. Ends early if there is input before the kernel takes the rest, or if the
    /// server has closed after some of them.
    fn write_until_input(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let mut sent = 0;
        while sent < bytes.len() {
            let end = bytes.len().min(sent + SEND_BYTES);
            match send_at_once(&self.socket, &bytes[sent..end]) {
                Ok(more) => {
                    self.has_sent = true;
                    sent += more;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // A server that refuses a request may send its reason and close.
                Err(_) if has_input(&self.socket).is_ok_and(|has_input| has_input) => break,
                Err(e) => return Err(connection_failure("cannot send", &e)),
            }
            if sent < bytes.len() && self.wait(libc::POLLIN | libc::POLLOUT)? & libc::POLLIN != 0 {
                break;
            }
        }
        Ok(sent)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let mut was_early = false;
        loop {
            self.allow(was_early)?;
            let read = if self.is_local { self.read_local(into)? } else { (&self.socket).read(into) };
            match read {
                Err(e) if e.kind() == ErrorKind::Interrupted => was_early = false,
                Err(e) if e.kind() == ErrorKind::WouldBlock => was_early = true,
                Err(e) => return Err(connection_failure("cannot receive", &e)),
                Ok(bytes) => {
                    self.has_received |= bytes > 0;
                    return Ok(bytes);
                }
            }
        }
    }

    /// Reads from a socket of this machine: at once if answers are usually there, else after a wait.
    fn read_local(&mut self, into: &mut [u8]) -> Result<io::Result<usize>, Failure> {
        if self.promptness.tries() {
            let read = receive_at_once(&self.socket, into);
            let is_empty = read.as_ref().is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
            self.promptness.tried(!is_empty);
            if !is_empty {
                return Ok(read);
            }
        }
        self.wait(libc::POLLIN)?;
        Ok((&self.socket).read(into))
    }

    /// Reads available input without waiting.
    fn read_now(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match (&self.socket).read(into) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(|e| connection_failure("cannot receive", &e)),
            }
        }
    }

    /// Sets the time limit of the next call on the socket to the remaining time. This costs two system calls,
    /// so it is only done if the call could overrun noticeably, or if the last call returned too early.
    fn allow(&mut self, was_early: bool) -> Result<(), Failure> {
        let left = self.deadline.map(Deadline::left).transpose()?;
        let fits = match (left, self.of_socket) {
            (_, Some(_)) if was_early => false,
            (Some((left, slack)), Some(of_socket)) => of_socket <= left + slack,
            (left, None) => left.is_none(),
            (None, Some(_)) => true,
        };
        if fits { Ok(()) } else { self.set(left.map(|(left, _)| left)) }
    }

    /// Sets the time limit of calls on the socket.
    fn set(&mut self, at_most: Option<Duration>) -> Result<(), Failure> {
        // The kernel would round a smaller limit down to 0, which means unlimited.
        let at_most = at_most.map(|time| time.max(TIME_MIN));
        let set = self.socket.set_read_timeout(at_most).and_then(|()| self.socket.set_write_timeout(at_most));
        self.of_socket = at_most;
        set.map_err(|e| connection_failure("cannot set a timeout", &e))
    }

    /// Waits for one of the events or for the end of the time limit. Returns the events.
    fn wait(&self, events: libc::c_short) -> Result<libc::c_short, Failure> {
        let mut socket = libc::pollfd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        loop {
            let left = self.deadline.map(Deadline::left).transpose()?;
            // Rounded up: it also waits in the last millisecond.
            let timeout_ms = left.map_or(-1, |(t, _)| i32::try_from(t.as_millis() + 1).unwrap_or(i32::MAX));
            // SAFETY: one descriptor, open and owned here, which outlives the call.
            match unsafe { libc::poll(&raw mut socket, 1, timeout_ms) } {
                1 => return Ok(socket.revents),
                -1 => match io::Error::last_os_error() {
                    e if e.kind() == ErrorKind::Interrupted => {}
                    e => return Err(connection_failure("cannot receive", &e)),
                },
                _ => {}
            }
        }
    }
}

/// Receives input that is there; without any, it fails with `WouldBlock`.
fn receive_at_once(socket: &Socket, into: &mut [u8]) -> io::Result<usize> {
    let (fd, start) = (socket.as_raw_fd(), into.as_mut_ptr().cast());
    // SAFETY: the descriptor is open, and `into` has room for so many bytes; both outlive the call.
    let received = unsafe { libc::recv(fd, start, into.len(), libc::MSG_DONTWAIT) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Sends what the kernel takes now; if that is nothing, it fails with `WouldBlock`.
fn send_at_once(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let (fd, start) = (socket.as_raw_fd(), bytes.as_ptr().cast());
    // SAFETY: the descriptor is open, and `bytes` has so many bytes; both outlive the call.
    let sent = unsafe { libc::send(fd, start, bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Smallest time limit of a call on a socket.
const TIME_MIN: Duration = Duration::from_millis(1);

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self { timeout, until_ns: to_ns(timeout).saturating_add(Monotonic.now_ns()) }
    }

    /// The remaining time, and the overrun that is tolerated.
    fn left(self) -> Result<(Duration, Duration), Failure> {
        match self.until_ns.saturating_sub(Monotonic.now_ns()) {
            0 => Err(Failure::new(FailureClass::Timeout, no_answer(self.timeout))),
            left_ns => Ok((Duration::from_nanos(left_ns), (self.timeout / 1_000).max(TIME_MIN))),
        }
    }
}

#[cfg(test)]
mod tests;
