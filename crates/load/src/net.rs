//! Request and answer over a socket: what memcached, Redis and HTTP share.
//!
//! A protocol is a [`Dialogue`]: it writes requests into a buffer and reads answers out of one, and never sees a socket.
//! So the same few lines drive it on a thread that waits for one connection ([`Talk`]) and in a loop that waits for
//! thousands ([`crate::engine::event_loop`]). Sessions with SQL servers begin on a [`Wire`] and may become a dialogue.

pub(crate) mod address;
mod blocking;
pub(crate) mod held;
mod inbox;
mod place;
pub(crate) mod security;
mod talk;
pub(crate) mod tls;
mod wire;

use std::io::{self, BufRead as _, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::libc::{IPPROTO_TCP, MSG_DONTWAIT, MSG_PEEK, TCP_INFO, getsockopt, tcp_info};
use socket2::{SockRef, Socket};

pub(crate) use self::blocking::Net;
pub(crate) use self::inbox::Inbox;
pub(crate) use self::place::Place;
pub(crate) use self::talk::Talk;
pub(crate) use self::wire::{Wire, no_answer, within};
use crate::conduct::dataset::Cache;
use crate::driver::{Cut, Failure, FailureClass, Laps, Look, OperationShare};
use crate::schedule::random::Random;

/// How long the making of a connection may take before it counts as refused.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read from a socket at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// One connection's part of a protocol: what to say, and what was answered.
pub(crate) trait Dialogue: Send {
    /// Writes what a new connection has to say before its first event; nothing where it may begin at once.
    fn greet(&mut self, out: &mut Vec<u8>);

    /// Reads the answer to the greeting.
    fn hear_greeting(&mut self, input: &[u8]) -> Heard;

    /// Writes the request of an event.
    fn ask(&mut self, random: Random, out: &mut Vec<u8>);

    /// Reads the answer from what has come: the part of it that was not taken before.
    ///
    /// - `is_end`: the server has closed its side; nothing follows.
    fn hear(&mut self, input: &[u8], is_end: bool) -> Heard;

    /// Goes on with an event that consists of several requests: when it has begun without one, after each answer that has
    /// not ended it, and after each rest. Writes the next request.
    fn go_on(&mut self, _: &mut Vec<u8>) -> Go {
        Go::Wait
    }

    /// What comes next is that of another of the requests that may be in flight together, by their numbers.
    fn turn_to(&mut self, _: usize) {}

    /// Number of the request whose answer was heard last, of those that may be in flight together.
    fn answered(&self) -> usize {
        0
    }

    /// Gives up the request whose turn it is. False if the connection is of no use then, because the answer may still come.
    fn cancel(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }

    /// The try of the event that was asked last begins at `start_ns`.
    fn begin(&mut self, _: u64) {}

    /// The stamps of such an event; `None` where it is one request, and whoever sends it stamps it.
    fn laps(&self) -> Option<&Laps> {
        None
    }

    /// Nobody waits any more for what the server is doing.
    fn give_up(&self) {}

    /// Reads what came while nothing was asked; what it says is why the connection is of no use any more, where it is.
    fn hear_unasked(&mut self, input: &[u8]) -> Heard {
        if input.is_empty() {
            return Heard::MORE;
        }
        let text = "the server sent something that nobody asked for";
        Heard::failure(0, FailureClass::Connection, text)
    }

    /// Writes what has to be said to what was heard, beside requests. Asked after each hearing.
    fn reply(&mut self, _: &mut Vec<u8>) {}

    /// Writes what is to be said beside events as it goes over the wire.
    fn wrap(&mut self, said: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(said);
    }

    /// Has `hear` read what has come, in place of the dialogue: the answer to what was said beside events.
    fn hear_with(&mut self, input: &[u8], is_end: bool, hear: &mut Hear<'_>) -> Heard {
        hear(input, is_end)
    }

    /// Whether it holds something that came and was not taken.
    fn has_left(&self) -> bool {
        false
    }

    /// What of TLS stands behind the server's name; nothing without it.
    fn spoken_version(&self) -> &'static str {
        ""
    }

    /// What the server calls itself, as far as it was heard.
    fn server(&self) -> Option<String> {
        None
    }

    /// Number of the operation that was asked last, if the request alone says it.
    fn asked(&self) -> Option<usize> {
        None
    }

    /// Whether the request that was asked last may be sent again, though the server may have carried it out.
    fn may_repeat(&self) -> bool {
        true
    }

    /// Whether the server has said with its last answer that it will not take another request on this connection.
    fn closes(&self) -> bool {
        false
    }
}

/// Reads what has come; whether nothing follows is its second argument.
pub(crate) type Hear<'a> = dyn FnMut(&[u8], bool) -> Heard + 'a;

/// What a dialogue made of what has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Bytes that it has taken in and need not see again.
    pub(crate) taken: usize,
    /// The answer, or why it is none; `None` while more has to come. After a failure of the class `Connection` nothing
    /// that the server says is understood; after any other the dialogue goes on.
    pub(crate) answer: Option<Result<Answer, Failure>>,
}

/// What an event of several requests does next.
#[derive(Debug)]
pub(crate) enum Go {
    /// It waits for more of an answer.
    Wait,
    /// It sends the request that was written.
    Send,
    /// It rests.
    Rest { for_ns: u64 },
    /// It has ended.
    Ended(Result<Answer, Failure>),
}

/// The end of an event that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of the operation that it was.
    pub(crate) operation: usize,
    /// Number of the outcome.
    pub(crate) outcome: Option<usize>,
    /// What became of each of its keys, if it has several; then there is no other outcome.
    pub(crate) keys: Option<Keys>,
}

/// Keys of one event, by the first two of its target's outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) found: u64,
    pub(crate) missed: u64,
}

impl Heard {
    /// More has to come.
    pub(crate) const MORE: Self = Self { taken: 0, answer: None };

    pub(crate) fn well(taken: usize, operation: usize, outcome: Option<usize>) -> Self {
        Self { taken, answer: Some(Ok(Answer { operation, outcome, keys: None })) }
    }

    pub(crate) fn failure(taken: usize, class: FailureClass, text: impl Into<String>) -> Self {
        Self { taken, answer: Some(Err(Failure::new(class, text))) }
    }

    /// What came is no answer in this protocol.
    pub(crate) fn garbage(input: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(&input[..input.len().min(60)]).into_owned();
        Self::failure(
            0,
            FailureClass::Connection,
            format!("the server answered {shown:?}, which is no answer"),
        )
    }
}

/// The first line without its end, and the bytes with it; `None` where it has not come whole.
pub(crate) fn line(mut input: &[u8]) -> Option<(&[u8], usize)> {
    let all = input;
    // Memory can be read without an error, and by the fastest search that there is.
    let taken = input.skip_until(b'\n').unwrap_or(0);
    let line = all[..taken].strip_suffix(b"\n")?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), taken))
}

/// A target of this kind: where it is, what is spoken there, what its events are.
pub(crate) trait Exchange: Send + Sync {
    /// Where the server listens.
    fn place(&self) -> &Place;

    /// A new connection's part of the protocol.
    fn dialogue(&self) -> Result<Box<dyn Dialogue>, Failure>;

    /// A new connection's part of the protocol where it is only looked whether the server is there.
    fn look_dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        self.dialogue()
    }

    /// As [`crate::driver::Driver::operations`].
    fn operations(&self) -> Vec<OperationShare>;

    /// As [`crate::driver::Driver::outcomes`].
    fn outcomes(&self) -> &'static [&'static str];

    /// What the server calls itself, asked on a connection of its own.
    fn look(&self, talk: &mut Talk) -> Result<Look, Failure>;

    /// The server's data set, on a connection of its own; `None` where it has none.
    fn cache(&self, talk: Talk) -> Option<Box<dyn Cache>>;

    /// Whether servers of this kind close connections that are not in use, without being down.
    fn closes_idle(&self) -> bool;

    /// After this time an event is given up; `None`: never.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// How one thread drives many connections to a target.
pub(crate) trait Multiplex: Send + Sync {
    /// Opens a connection that may begin its first event at once, waiting for it.
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure>;

    /// Begins to open one, while nobody waits; which address is tried follows from `attempt`.
    fn begin_open(&self, attempt: usize) -> Result<Opening, Failure>;

    /// What it means that one could not be connected that was begun.
    fn cannot_connect(&self, error: &io::Error) -> Failure {
        connection_failure("cannot connect", error)
    }

    /// Whether servers of this kind close connections that are not in use, without being down.
    fn closes_idle(&self) -> bool;

    /// After this time an event is given up; `None`: never.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// A connection on its way.
pub(crate) enum Opening {
    /// The socket connects; then its dialogue greets.
    Connecting(Socket, Box<dyn Dialogue>),
    /// Its opening is a conversation of its own: [`Multiplex::open`] does it, on a thread aside.
    Aside,
}

/// What a failed call on a socket means.
pub(crate) fn connection_failure(doing: &str, error: &io::Error) -> Failure {
    let out_of_files = matches!(error.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE));
    if out_of_files {
        let text = format!("{doing}: {error}; raise the limit of open files (ulimit -n)");
        return Failure::new(FailureClass::Machine, text);
    }
    Failure::new(FailureClass::Connection, format!("{doing}: {error}"))
}

/// The server has closed the connection.
pub(crate) fn closed() -> Failure {
    Failure::new(FailureClass::Connection, "the server closed the connection")
}

/// Whether something has come on a socket, without waiting.
///
/// # Errors
///
/// The server has closed the connection, or it broke.
pub(crate) fn has_input<'s>(socket: impl Into<SockRef<'s>>) -> Result<bool, Failure> {
    let socket = socket.into();
    loop {
        let mut byte = [MaybeUninit::uninit()];
        match socket.recv_with_flags(&mut byte, MSG_PEEK | MSG_DONTWAIT) {
            Ok(0) => return Err(closed()),
            Ok(_) => return Ok(true),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(connection_failure("cannot receive", &e)),
        }
    }
}

/// Whether a server closed a connection before it read the last request.
///
/// Then its kernel has not acknowledged the request, or has answered it with a reset. A server that reads the whole request
/// and then closes in order leaves neither; one that resets then (`SO_LINGER` of 0) cannot be told apart.
///
/// # Source
///
/// RFC 9293, section 3.10.7.1 (a closed connection resets what comes), section 3.6.1 (so does one closed with data unread); tcp(7), `TCP_INFO`.
pub(crate) fn is_unread(socket: &Socket) -> bool {
    // The kernel reads the state before it locks the socket, and the rest after. A reset in between leaves the state of before, and
    // nothing unacknowledged: the look after that shows the state too.
    looks_unread(socket) || looks_unread(socket)
}

fn looks_unread(socket: &Socket) -> bool {
    const TCP_CLOSE: u8 = 7;
    // SAFETY: it holds numbers only, for which zeros stand.
    let mut info: tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = u32::try_from(size_of::<tcp_info>()).expect("a small structure");
    // SAFETY: one descriptor, which is ours and open, and room that lives through the call, of the length that is said.
    let result = unsafe {
        let into = (&raw mut info).cast();
        getsockopt(socket.as_raw_fd(), IPPROTO_TCP, TCP_INFO, into, &raw mut bytes)
    };
    // Retransmissions without an answer are a failure of the network, not an idle close.
    result == 0 && info.tcpi_retransmits == 0 && (info.tcpi_state == TCP_CLOSE || info.tcpi_unacked > 0)
}

/// No whole answer came in time.
pub(crate) fn timed_out(after_ns: u64, dialogue: &dyn Dialogue) -> Failure {
    let text = format!("no whole answer within {:?}", Duration::from_nanos(after_ns));
    Failure { operation: dialogue.asked(), ..Failure::new(FailureClass::Timeout, text) }
}
