//! A blocking dialogue on one connection: the events of a thread, and every exchange before a load.

use std::time::Duration;

use socket2::Socket;

use super::dialogue::{Dialogue, Parsed};
use super::endpoint::Endpoint;
use super::socket::{CONNECT_TIMEOUT, closed, timed_out};
use super::wire::{Wire, no_answer, within};
use crate::connection::{Answer, Cut, Failure, FailureClass};
use crate::schedule::clock::to_ns;
use crate::schedule::random::Random;

/// A wire and the protocol on it.
pub(crate) struct Talk {
    wire: Wire,
    dialogue: Box<dyn Dialogue>,
    /// Buffer for a request.
    out: Vec<u8>,
    /// Time limit of an event; `None`: unlimited.
    timeout: Option<Duration>,
    /// Servers of this kind close idle connections without being down.
    pub(crate) closes_idle: bool,
    /// The connection has answered an event.
    is_used: bool,
    /// The server answered a greeting.
    has_heard: bool,
}

/// Time limit of an answer outside of events: a server may still be writing earlier data.
const ASIDE_TIMEOUT: Duration = Duration::from_mins(1);

impl AsMut<Wire> for Talk {
    fn as_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Talk {
    /// Connects and completes the greeting; blocks.
    ///
    /// - `timeout`: time limit of an event; `None`: unlimited.
    /// - `closes_idle`: whether servers of this kind close idle connections without being down.
    pub(crate) fn open(
        place: &Endpoint,
        dialogue: Box<dyn Dialogue>,
        timeout: Option<Duration>,
        closes_idle: bool,
        cut: &Cut,
    ) -> Result<Self, Failure> {
        let wire = Wire::connect(place, cut)?;
        let out = Vec::with_capacity(1024);
        let mut talk = Self { wire, dialogue, out, timeout, closes_idle, is_used: false, has_heard: false };
        talk.greet()?;
        talk.wire.settle()?;
        Ok(talk)
    }

    fn greet(&mut self) -> Result<(), Failure> {
        let mut greeting = Vec::new();
        self.dialogue.greet(&mut greeting);
        if greeting.is_empty() {
            return Ok(());
        }
        within(self, CONNECT_TIMEOUT, silent, |talk| {
            talk.wire.send(&greeting)?;
            talk.hear(|dialogue, input, _| dialogue.hear_greeting(input)).map(drop)
        })?;
        self.has_heard = true;
        Ok(())
    }

    /// Whether the server answered a greeting.
    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Name and version of the server, if it has sent them.
    pub(crate) fn server(&self) -> Option<String> {
        self.dialogue.server()
    }

    /// The parts from which an event loop continues.
    pub(crate) fn into_parts(self) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        let (socket, _) = self.wire.into_parts()?;
        Ok((socket, self.dialogue))
    }

    /// TLS version, for display after the server's name.
    pub(crate) fn spoken_version(&self) -> &'static str {
        self.dialogue.spoken_version()
    }

    /// Sends a message outside of events, and reads the answer with `hear`.
    pub(crate) fn ask_aside(
        &mut self,
        said: &[u8],
        hear: impl FnMut(&[u8]) -> Parsed,
    ) -> Result<Answer, Failure> {
        self.say_aside(said)?;
        self.hear_aside(hear)
    }

    pub(crate) fn say_aside(&mut self, said: &[u8]) -> Result<(), Failure> {
        let mut out = Vec::new();
        self.dialogue.wrap(said, &mut out);
        within(&mut self.wire, ASIDE_TIMEOUT, no_answer_aside, |wire| wire.send(&out))
    }

    pub(crate) fn hear_aside(&mut self, mut hear: impl FnMut(&[u8]) -> Parsed) -> Result<Answer, Failure> {
        within(self, ASIDE_TIMEOUT, no_answer_aside, |talk| {
            talk.hear(|dialogue, input, is_end| {
                dialogue.hear_with(input, is_end, &mut |input: &[u8], _: bool| hear(input))
            })
        })
    }

    /// Variant of [`Talk::exchange`] before a load: without a time limit of its events, limited as the
    /// opening of a connection is.
    pub(crate) fn exchange_aside(&mut self, random: Random) -> Result<Answer, Failure> {
        if self.timeout.is_some() {
            return self.exchange(random);
        }
        within(self, CONNECT_TIMEOUT, silent, |talk| talk.exchange(random))
    }

    /// Reads unrequested input without blocking. Fails if the server accepts no other request on this
    /// connection.
    pub(crate) fn look_idle(&mut self) -> Result<(), Failure> {
        self.hear_left()?;
        if self.dialogue.closes() {
            return Err(closed());
        }
        let Self { wire, dialogue, .. } = self;
        wire.hear_unasked(|input, out| {
            let (taken, failure) = hear_unasked(&mut **dialogue, input);
            dialogue.reply(out);
            (taken, failure.or_else(|| dialogue.closes().then(closed)))
        })
    }

    /// Whether the server has said that it closes this connection.
    pub(crate) fn closes(&self) -> bool {
        self.dialogue.closes()
    }

    /// Processes the input after the last answer: it was not requested.
    fn hear_left(&mut self) -> Result<(), Failure> {
        let Self { wire, dialogue, .. } = self;
        wire.hear_left(dialogue.has_left(), |input| hear_unasked(&mut **dialogue, input))
    }

    /// Reads until `hear` returns an answer.
    fn hear(
        &mut self,
        mut hear: impl FnMut(&mut dyn Dialogue, &[u8], bool) -> Parsed,
    ) -> Result<Answer, Failure> {
        let Self { wire, dialogue, .. } = self;
        wire.hear_and_reply(dialogue.has_left(), |input, is_end, out| {
            let Parsed { taken, answer } = hear(&mut **dialogue, input, is_end);
            dialogue.reply(out);
            (taken, answer)
        })?
    }

    /// Sends the request, and listens while the server does not take it. Returns an answer that came before
    /// all of it was sent.
    fn send(&mut self) -> Result<Option<Result<Answer, Failure>>, Failure> {
        let Self { wire, dialogue, out, .. } = self;
        let mut sent = 0;
        loop {
            sent += wire.send_until_input(&out[sent..])?;
            if sent == out.len() {
                return Ok(None);
            }
            let early = wire.hear_once(|input, is_end| {
                let Parsed { taken, answer } = dialogue.hear(input, is_end);
                // It follows the request.
                dialogue.reply(out);
                (taken, answer)
            })?;
            if let Some(answer) = early {
                return Ok(Some(dialogue.judge_early(sent > 0, answer)));
            }
        }
    }

    /// Performs one event.
    pub(crate) fn exchange(&mut self, random: Random) -> Result<Answer, Failure> {
        if self.is_used {
            self.hear_left()?;
        } else {
            // What comes before the first request answers nothing.
            self.look_idle()?;
        }
        self.out.clear();
        self.dialogue.ask(random, &mut self.out);
        self.wire.begin(self.timeout);
        let answer = match self.send() {
            Ok(None) => self.hear(|dialogue, input, is_end| dialogue.hear(input, is_end)),
            Ok(Some(early)) => early,
            Err(failure) => Err(failure),
        };
        let has_sent = self.wire.end(self.timeout);
        let failure = match answer {
            Ok(answer) => {
                self.is_used = true;
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        Err(match (failure.class, self.timeout) {
            (FailureClass::Timeout, Some(timeout)) => timed_out(to_ns(timeout), &*self.dialogue),
            (FailureClass::Connection, _) => {
                let may_repeat = !has_sent || self.dialogue.may_repeat();
                let is_idle = may_repeat && self.closes_idle && self.is_used && self.wire.is_unread();
                let class = if is_idle { FailureClass::Unprocessed } else { FailureClass::Connection };
                Failure { class, may_repeat, ..failure }
            }
            _ => failure,
        })
    }
}

fn hear_unasked(dialogue: &mut dyn Dialogue, input: &[u8]) -> (usize, Option<Failure>) {
    let Parsed { taken, answer } = dialogue.hear_unasked(input);
    (taken, answer.and_then(Result::err))
}

/// The server accepted the connection and sent nothing.
fn silent(within: Duration) -> Failure {
    let text = format!("{}: does the server speak the target's protocol?", no_answer(within));
    Failure::new(FailureClass::Connection, text)
}

/// A request outside of events was not answered.
fn no_answer_aside(within: Duration) -> Failure {
    Failure::new(FailureClass::Connection, format!("no complete answer within {within:?} before the load"))
}
