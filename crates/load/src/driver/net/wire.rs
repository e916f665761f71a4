//! A dialogue on a socket of its own, waited for: what a thread with one connection does, and all that comes before a load.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use socket2::Socket;

use super::{
    Answer, CONNECT_TIMEOUT, Dialogue, Exchange, Heard, Inbox, READ_BYTES, closed, connection_failure,
    has_input, timed_out,
};
use crate::driver::{Cut, Failure, FailureClass};
use crate::engine::to_ns;
use crate::random::Random;

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

/// How long an answer may take that is no event's: a server may be busy with what was stored before.
const ASIDE_TIMEOUT: Duration = Duration::from_mins(1);
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

impl Wire {
    /// Connects and greets, waiting for it.
    pub(crate) fn open(exchange: &dyn Exchange, cut: &Cut) -> Result<Self, Failure> {
        Self::open_for(exchange, exchange.dialogue()?, cut)
    }

    pub(super) fn open_for(
        exchange: &dyn Exchange,
        dialogue: Box<dyn Dialogue>,
        cut: &Cut,
    ) -> Result<Self, Failure> {
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
    pub(super) fn look_idle(&mut self) -> Result<(), Failure> {
        self.hear_left()?;
        while !self.dialogue.closes() {
            if !has_input(&self.socket)? {
                return Ok(());
            }
            self.hear_unasked()?;
        }
        Err(closed())
    }

    /// Hears what came with the last answer and was not taken: it answers nothing that was asked.
    fn hear_left(&mut self) -> Result<(), Failure> {
        if self.input.is_empty() && !self.dialogue.has_left() {
            return Ok(());
        }
        let dialogue = &mut *self.dialogue;
        self.input.hear(&[], |input| dialogue.hear_unasked(input)).map_or(Ok(()), |answer| answer.map(drop))
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
        self.hear_left()?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
