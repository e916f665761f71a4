//! Request and answer over a socket: what memcached, Redis and HTTP share.
//!
//! A protocol is a [`Dialogue`]: it writes requests into a buffer and reads answers out of one, and never sees a socket.
//! So the same few lines drive it on a thread that waits for one connection ([`Blocking`]) and in a loop that waits for
//! thousands ([`crate::event_loop`]).

use std::io::{self, BufRead as _, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::libc::{MSG_DONTWAIT, MSG_PEEK};
use record::clock::{Clock as _, Monotonic};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::{Attempt, Connection, Cut, Driver, Failure, FailureClass, Idle, Laps, Look, OperationShare};
use crate::dataset::Cache;
use crate::engine::to_ns;
use crate::random::Random;

/// How long the making of a connection may take before it counts as refused.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take that is no event's: a server may be busy with what was stored before.
const ASIDE_TIMEOUT: Duration = Duration::from_mins(1);
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

    /// As [`Driver::operations`].
    fn operations(&self) -> Vec<OperationShare>;

    /// As [`Driver::outcomes`].
    fn outcomes(&self) -> &'static [&'static str];

    /// What the server calls itself, asked on a connection of its own.
    fn look(&self, wire: &mut Wire) -> Result<Look, Failure>;

    /// The server's data set, on a connection of its own; `None` where it has none.
    fn cache(&self, wire: Wire) -> Option<Box<dyn Cache>>;

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
    fn begin_open(&self, attempt: usize) -> io::Result<Opening>;

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

/// Where a server listens.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Addresses of one host, in the order of trying.
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

impl Place {
    /// The addresses of a host. The name is looked up now.
    pub(crate) fn named(host: &str, port: u16) -> Result<Self, Failure> {
        let found = (host, port).to_socket_addrs();
        let unknown = |e| Failure::new(FailureClass::Connection, format!("there is no host `{host}`: {e}"));
        found.map(|found| Self::Tcp(found.collect())).map_err(unknown)
    }

    /// `host:port`, `[::1]:port`, or a host alone with the protocol's own port. The name is looked up now, once.
    pub(crate) fn tcp(written: &str, default_port: u16) -> Result<Self, Failure> {
        let wrong = |text: String| Failure::new(FailureClass::Configuration, text);
        let (host, port) = host_and_port(written, default_port).map_err(wrong)?;
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|e| wrong(format!("there is no host `{host}`: {e}")))?;
        Ok(Self::Tcp(found.collect()))
    }

    fn addresses(&self) -> io::Result<Vec<(Domain, SockAddr)>> {
        match self {
            Self::Tcp(all) => Ok(all.iter().map(|a| (Domain::for_address(*a), SockAddr::from(*a))).collect()),
            Self::Unix(path) => Ok(vec![(Domain::UNIX, SockAddr::unix(path)?)]),
        }
    }

    /// A socket that is connected, waiting for it.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for (domain, address) in self.addresses()? {
            let socket = self.socket(domain)?;
            let connected = match domain {
                Domain::UNIX => socket.connect(&address),
                _ => socket.connect_timeout(&address, CONNECT_TIMEOUT),
            };
            match connected {
                Ok(()) => return Ok(socket),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// A socket that connects while nobody waits; which address is tried follows from `attempt`.
    pub(crate) fn begin_connect(&self, attempt: usize) -> io::Result<Socket> {
        let mut addresses = self.addresses()?;
        if addresses.is_empty() {
            return Err(io::Error::new(ErrorKind::NotFound, "the host has no address"));
        }
        let (domain, address) = addresses.swap_remove(attempt % addresses.len());
        let socket = self.socket(domain)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Err(e) if e.raw_os_error() != Some(nix::libc::EINPROGRESS) => Err(e),
            _ => Ok(socket),
        }
    }

    fn socket(&self, domain: Domain) -> io::Result<Socket> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if matches!(self, Self::Tcp(_)) {
            // A request leaves when it is sent, not when the last answer was acknowledged.
            socket.set_tcp_nodelay(true)?;
        }
        Ok(socket)
    }
}

/// The host and the port of `host:port`; a host with colons of its own stands in brackets.
pub(crate) fn host_and_port(written: &str, default_port: u16) -> Result<(&str, u16), String> {
    let (host, port) = match written.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
            _ => {
                return Err(format!(
                    "`{written}` is no host: an IPv6 address stands in brackets, `[::1]:port`"
                ));
            }
        },
        None => written.split_once(':').map_or((written, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("there is no host: write `//host:port`".to_owned());
    }
    let port = port.map_or(Ok(default_port), str::parse);
    port.map(|port| (host, port)).map_err(|_| format!("`{written}` has no port between 0 and 65535"))
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

/// The server took the connection and said nothing.
fn silent() -> Failure {
    let text = format!("no answer within {CONNECT_TIMEOUT:?}: does the server speak what the target says?");
    Failure::new(FailureClass::Connection, text)
}

/// What was asked beside events was not answered.
fn no_answer_aside() -> Failure {
    let text = format!("no whole answer within {ASIDE_TIMEOUT:?} before the load");
    Failure::new(FailureClass::Connection, text)
}

/// No whole answer came in time.
pub(crate) fn timed_out(after_ns: u64, dialogue: &dyn Dialogue) -> Failure {
    let text = format!("no whole answer within {:?}", Duration::from_nanos(after_ns));
    Failure { operation: dialogue.asked(), ..Failure::new(FailureClass::Timeout, text) }
}

/// A socket, what is spoken on it, and what has come and was not taken yet.
pub(crate) struct Wire {
    pub(crate) socket: Socket,
    pub(crate) dialogue: Box<dyn Dialogue>,
    out: Vec<u8>,
    input: Inbox,
    /// Something of the newest event's request has left.
    is_sent: bool,
    /// How long an event may take.
    limit: Option<Limit>,
}

/// How long an event on a [`Wire`] may take.
#[derive(Debug, Clone, Copy)]
struct Limit {
    timeout: Duration,
    /// What a call on the socket waits for, at most.
    of_socket: Duration,
    /// When the event under way is given up.
    until_ns: u64,
}

/// A call on a socket may wait so much longer than the event has left: setting it anew costs a system call.
const LIMIT_SLACK: Duration = Duration::from_millis(1);

impl Limit {
    /// Sees to it that the next call on the socket waits for as long as the event has left; false if it has nothing left.
    fn allow(&mut self, socket: &Socket) -> io::Result<bool> {
        let left = Duration::from_nanos(self.until_ns.saturating_sub(Monotonic.now_ns()));
        if left.is_zero() {
            return Ok(false);
        }
        if left + LIMIT_SLACK < self.of_socket || left > self.of_socket {
            socket.set_read_timeout(Some(left))?;
            socket.set_write_timeout(Some(left))?;
            self.of_socket = left;
        }
        Ok(true)
    }
}

/// What has come on a connection and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    left: Vec<u8>,
}

impl Inbox {
    /// Hands `fresh`, after what was left, to `hear`; keeps what that does not take.
    pub(crate) fn hear(
        &mut self,
        fresh: &[u8],
        hear: impl FnOnce(&[u8]) -> Heard,
    ) -> Option<Result<Answer, Failure>> {
        if self.left.is_empty() {
            let heard = hear(fresh);
            self.left.extend_from_slice(&fresh[heard.taken..]);
            return heard.answer;
        }
        self.left.extend_from_slice(fresh);
        let heard = hear(&self.left);
        self.left.drain(..heard.taken);
        heard.answer
    }

    /// The same for as long as `hear` says that there may be another answer: yields the bytes that it has taken, and that.
    pub(crate) fn hear_each(&mut self, fresh: &[u8], mut hear: impl FnMut(&[u8]) -> (usize, bool)) {
        let mut joined = std::mem::take(&mut self.left);
        let is_joined = !joined.is_empty();
        if is_joined {
            joined.extend_from_slice(fresh);
        }
        let input = if is_joined { &joined[..] } else { fresh };
        let mut taken_all = 0;
        loop {
            let (taken, may_go_on) = hear(&input[taken_all..]);
            taken_all += taken;
            if !may_go_on {
                break;
            }
        }
        if is_joined {
            joined.drain(..taken_all);
            self.left = joined;
        } else {
            self.left = joined;
            self.left.extend_from_slice(&fresh[taken_all..]);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.left.clear();
    }
}

impl Wire {
    /// Connects and greets, waiting for it.
    pub(crate) fn open(exchange: &dyn Exchange, cut: &Cut) -> Result<Self, Failure> {
        Self::open_for(exchange, exchange.dialogue()?, cut)
    }

    fn open_for(exchange: &dyn Exchange, dialogue: Box<dyn Dialogue>, cut: &Cut) -> Result<Self, Failure> {
        let socket = exchange.place().connect().map_err(|e| connection_failure("cannot connect", &e))?;
        let to_cut = socket.try_clone().map_err(|e| connection_failure("cannot connect", &e))?;
        cut.arm_socket(to_cut.into());
        let (out, input) = (Vec::with_capacity(1024), Inbox::default());
        let mut wire = Self { socket, dialogue, out, input, is_sent: false, limit: None };
        wire.greet()?;
        let of_socket = Duration::ZERO;
        wire.limit = exchange.timeout().map(|timeout| Limit { timeout, of_socket, until_ns: u64::MAX });
        Ok(wire)
    }

    fn greet(&mut self) -> Result<(), Failure> {
        let mut greeting = Vec::new();
        self.dialogue.greet(&mut greeting);
        if greeting.is_empty() {
            return Ok(());
        }
        self.within(CONNECT_TIMEOUT, silent, |wire| {
            wire.send(&greeting)?;
            wire.receive(|dialogue, input, _| dialogue.hear_greeting(input)).map(drop)
        })
    }

    /// Does `work`, which may take so long in all: a server that says a little again and again does not make it longer.
    /// Afterwards an answer may take as long as it could before.
    fn within<T>(
        &mut self,
        timeout: Duration,
        too_late: fn() -> Failure,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let until_ns = to_ns(timeout).saturating_add(Monotonic.now_ns());
        let usual = self.limit.replace(Limit { timeout, of_socket: Duration::ZERO, until_ns });
        let done = work(self);
        self.limit = usual.map(|limit| Limit { of_socket: Duration::ZERO, ..limit });
        let is_reset = self.socket.set_read_timeout(None).and_then(|()| self.socket.set_write_timeout(None));
        match done {
            Err(failure) if failure.class == FailureClass::Timeout => Err(too_late()),
            Ok(_) if let Err(e) = is_reset => Err(connection_failure("cannot set a time-out", &e)),
            done => done,
        }
    }

    /// What the server calls itself, as far as it was heard.
    pub(crate) fn server(&self) -> Option<String> {
        self.dialogue.server()
    }

    /// What a loop goes on with.
    pub(crate) fn into_parts(self) -> (Socket, Box<dyn Dialogue>) {
        (self.socket, self.dialogue)
    }

    /// What of TLS stands behind the server's name.
    pub(crate) fn spoken_version(&self) -> &'static str {
        self.dialogue.spoken_version()
    }

    /// Says something beside events, and has `hear` read the answer.
    pub(crate) fn ask_aside(
        &mut self,
        said: &[u8],
        hear: impl FnMut(&[u8]) -> Heard,
    ) -> Result<Answer, Failure> {
        self.say_aside(said)?;
        self.hear_aside(hear)
    }

    pub(crate) fn say_aside(&mut self, said: &[u8]) -> Result<(), Failure> {
        let mut out = Vec::new();
        self.dialogue.wrap(said, &mut out);
        self.within(ASIDE_TIMEOUT, no_answer_aside, |wire| wire.send(&out))
    }

    pub(crate) fn hear_aside(&mut self, mut hear: impl FnMut(&[u8]) -> Heard) -> Result<Answer, Failure> {
        self.within(ASIDE_TIMEOUT, no_answer_aside, |wire| {
            wire.receive(|dialogue, input, is_end| {
                dialogue.hear_with(input, is_end, &mut |input: &[u8], _: bool| hear(input))
            })
        })
    }

    /// As [`Wire::exchange`], beside the events of a load: it takes no longer than [`ASIDE_TIMEOUT`].
    pub(crate) fn exchange_aside(&mut self, random: Random) -> Result<Answer, Failure> {
        if self.limit.is_some() {
            return self.exchange(random);
        }
        self.within(ASIDE_TIMEOUT, no_answer_aside, |wire| wire.exchange(random))
    }

    /// Sends all of it.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            self.allow()?;
            match (&self.socket).write(bytes) {
                Ok(sent) => {
                    self.is_sent = true;
                    bytes = &bytes[sent..];
                }
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(e) => return Err(connection_failure("cannot send", &e)),
            }
        }
        Ok(())
    }

    /// Sees to it that the event under way is given up when it has lasted too long.
    fn allow(&mut self) -> Result<(), Failure> {
        let Some(limit) = &mut self.limit else { return Ok(()) };
        match limit.allow(&self.socket) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let after_ns = u64::try_from(limit.timeout.as_nanos()).unwrap_or(u64::MAX);
                Err(timed_out(after_ns, &*self.dialogue))
            }
            Err(e) => Err(connection_failure("cannot set a time-out", &e)),
        }
    }

    /// Hears what came while nothing was asked, without waiting. Fails if the server takes no other request here.
    fn look_idle(&mut self) -> Result<(), Failure> {
        while !self.dialogue.closes() {
            if !has_input(&self.socket)? {
                return Ok(());
            }
            self.hear_unasked()?;
        }
        Err(closed())
    }

    /// Hears what has come, and nobody asked for.
    fn hear_unasked(&mut self) -> Result<(), Failure> {
        let Self { socket, dialogue, out, input, .. } = self;
        let heard = READ_BUFFER.with_borrow_mut(|buffer| -> Result<_, Failure> {
            let bytes = (&*socket).read(buffer).map_err(|e| connection_failure("cannot receive", &e))?;
            Ok(input.hear(&buffer[..bytes], |input| dialogue.hear_unasked(input)))
        })?;
        out.clear();
        dialogue.reply(out);
        (&*socket).write_all(out).map_err(|e| connection_failure("cannot send", &e))?;
        heard.map_or(Ok(()), |answer| answer.map(drop))
    }

    /// Reads until `hear` has its answer.
    fn receive(
        &mut self,
        mut hear: impl FnMut(&mut dyn Dialogue, &[u8], bool) -> Heard,
    ) -> Result<Answer, Failure> {
        let has_left = !self.input.is_empty() || self.dialogue.has_left();
        let dialogue = &mut *self.dialogue;
        if has_left && let Some(answer) = self.input.hear(&[], |input| hear(dialogue, input, false)) {
            return answer;
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            loop {
                self.allow()?;
                let (dialogue, out) = (&mut *self.dialogue, &mut self.out);
                let n = match (&self.socket).read(buffer) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    // Whether the event has nothing left, its limit says.
                    Err(e) if e.kind() == ErrorKind::WouldBlock && self.limit.is_some() => continue,
                    Err(e) => return Err(connection_failure("cannot receive", &e)),
                    Ok(n) => n,
                };
                let heard = self.input.hear(&buffer[..n], |input| hear(dialogue, input, n == 0));
                out.clear();
                dialogue.reply(out);
                let out = std::mem::take(out);
                let replied = if out.is_empty() { Ok(()) } else { self.send(&out) };
                self.out = out;
                match heard {
                    // Where the reply could not be sent, the next event will find out.
                    Some(answer) => return answer,
                    None if n == 0 => return Err(closed()),
                    None => replied?,
                }
            }
        })
    }

    /// Does one event.
    pub(crate) fn exchange(&mut self, random: Random) -> Result<Answer, Failure> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        self.dialogue.ask(random, &mut out);
        self.is_sent = false;
        if let Some(limit) = &mut self.limit {
            let timeout_ns = u64::try_from(limit.timeout.as_nanos()).unwrap_or(u64::MAX);
            limit.until_ns = Monotonic.now_ns().saturating_add(timeout_ns);
        }
        let sent = self.send(&out);
        self.out = out;
        let answer = sent.and_then(|()| self.receive(|dialogue, input, is_end| dialogue.hear(input, is_end)));
        answer.map_err(|failure| {
            let is_lost = failure.class == FailureClass::Connection;
            let may_repeat = !is_lost || !self.is_sent || self.dialogue.may_repeat();
            Failure { may_repeat, ..failure }
        })
    }
}

thread_local! {
    /// What comes is read here first: one buffer a thread, however many connections it has.
    static READ_BUFFER: std::cell::RefCell<Box<[u8]>> =
        std::cell::RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// A driver of one thread a connection, from an exchange.
pub(crate) struct Net<E>(pub(crate) Arc<E>);

struct Blocking {
    wire: Wire,
    /// As [`Exchange::closes_idle`].
    closes_idle: bool,
}

impl<E: Exchange + 'static> Driver for Net<E> {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        Ok(Box::new(Blocking { wire: Wire::open(&*self.0, cut)?, closes_idle: self.0.closes_idle() }))
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        self.0.look(&mut Wire::open_for(&*self.0, self.0.look_dialogue()?, cut)?)
    }

    fn operations(&self) -> Vec<OperationShare> {
        self.0.operations()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        self.0.outcomes()
    }

    fn cache(&self, cut: &Cut) -> Result<Option<Box<dyn Cache>>, Failure> {
        Ok(self.0.cache(Wire::open(&*self.0, cut)?))
    }

    fn multiplex(&self) -> Option<&dyn Multiplex> {
        Some(self)
    }
}

impl<E: Exchange + 'static> Multiplex for Net<E> {
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        Ok(Wire::open(&*self.0, cut)?.into_parts())
    }

    fn begin_open(&self, attempt: usize) -> io::Result<Opening> {
        let dialogue = self.0.dialogue().map_err(|failure| io::Error::other(failure.text))?;
        Ok(Opening::Connecting(self.0.place().begin_connect(attempt)?, dialogue))
    }

    fn closes_idle(&self) -> bool {
        self.0.closes_idle()
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }
}

impl Connection for Blocking {
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure> {
        let answer = self.wire.exchange(attempt.random.clone());
        if let Ok(answer) = &answer {
            attempt.laps.end_operation(answer.operation);
            attempt.laps.note_outcome(answer);
        }
        answer.map(drop)
    }

    fn idle(&mut self, has_rested: bool) -> Idle {
        if !has_rested && !self.closes_idle {
            return Idle::Stands;
        }
        match self.wire.look_idle() {
            Ok(()) => Idle::Stands,
            Err(_) if self.closes_idle => Idle::Closed,
            Err(failure) => Idle::Lost(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_people_write_it() {
        assert_eq!(host_and_port("localhost:1234", 80), Ok(("localhost", 1234)));
        assert_eq!(host_and_port("localhost", 80), Ok(("localhost", 80)));
        assert_eq!(host_and_port("[::1]:7", 80), Ok(("::1", 7)));
        assert_eq!(host_and_port("[::1]", 80), Ok(("::1", 80)));
        for wrong in ["", ":80", "host:", "host:x", "host:70000", "[::1", "[::1]7"] {
            assert!(host_and_port(wrong, 80).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_left_of_a_read_stands_before_the_next() {
        let mut inbox = Inbox::default();
        let line = |input: &[u8]| match input.iter().position(|b| *b == b'\n') {
            Some(end) => Heard::well(end + 1, end, None),
            None => Heard::MORE,
        };
        let operation = |heard: Option<Result<Answer, Failure>>| heard.map(|a| a.unwrap().operation);
        assert_eq!(operation(inbox.hear(b"ab", line)), None);
        assert_eq!(operation(inbox.hear(b"c\nde", line)), Some(3));
        assert_eq!(operation(inbox.hear(b"\n", line)), Some(2));
        assert!(inbox.is_empty());
    }

    /// Speaks lines, and answers none of them.
    struct Lines;

    impl Dialogue for Lines {
        fn greet(&mut self, _: &mut Vec<u8>) {}

        fn hear_greeting(&mut self, input: &[u8]) -> Heard {
            self.hear(input, false)
        }

        fn ask(&mut self, _: Random, _: &mut Vec<u8>) {}

        fn hear(&mut self, input: &[u8], _: bool) -> Heard {
            match input.iter().position(|b| *b == b'\n') {
                Some(end) => Heard::well(end + 1, 0, None),
                None => Heard { taken: input.len(), answer: None },
            }
        }
    }

    #[test]
    fn a_server_that_says_a_little_again_and_again_does_not_make_a_greeting_longer() {
        let (mut theirs, ours) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = Socket::from(std::os::fd::OwnedFd::from(ours));
        let (dialogue, out, input) = (Box::new(Lines), Vec::new(), Inbox::default());
        let mut wire = Wire { socket, dialogue, out, input, is_sent: false, limit: None };
        let talks = std::thread::spawn(move || {
            // Until the other end goes; each message comes well within the time.
            while theirs.write_all(b"x").is_ok() {
                std::thread::yield_now();
            }
        });
        let limit = Duration::from_millis(50);
        let hear = |wire: &mut Wire| wire.receive(|dialogue, input, is_end| dialogue.hear(input, is_end));
        let failure = wire.within(limit, silent, hear).unwrap_err();
        assert_eq!((failure.class, failure.text), (silent().class, silent().text));
        assert!(wire.limit.is_none() && wire.socket.read_timeout().unwrap().is_none());
        drop(wire);
        talks.join().unwrap();
    }
}
