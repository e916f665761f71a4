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
    /// Room for a request.
    out: Vec<u8>,
    /// After this time an event is given up; `None`: never.
    timeout: Option<Duration>,
    /// Servers of this kind close connections that are not in use, without being down.
    pub(crate) closes_idle: bool,
    /// An event was answered on it.
    is_used: bool,
}

/// How long an answer may take that is no event's: a server may be busy with what was stored before.
const ASIDE_TIMEOUT: Duration = Duration::from_mins(1);

impl AsMut<Wire> for Talk {
    fn as_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Talk {
    /// Connects and greets, waiting for it.
    ///
    /// - `timeout`: after this time an event is given up; `None`: never.
    /// - `closes_idle`: whether servers of this kind close connections that are not in use, without being down.
    pub(crate) fn open(
        place: &Endpoint,
        dialogue: Box<dyn Dialogue>,
        timeout: Option<Duration>,
        closes_idle: bool,
        cut: &Cut,
    ) -> Result<Self, Failure> {
        let wire = Wire::connect(place, cut)?;
        let out = Vec::with_capacity(1024);
        let mut talk = Self { wire, dialogue, out, timeout, closes_idle, is_used: false };
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
        })
    }

    /// What the server calls itself, as far as it was heard.
    pub(crate) fn server(&self) -> Option<String> {
        self.dialogue.server()
    }

    /// What a loop goes on with.
    pub(crate) fn into_parts(self) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        let (socket, _) = self.wire.into_parts()?;
        Ok((socket, self.dialogue))
    }

    /// What of TLS stands behind the server's name.
    pub(crate) fn spoken_version(&self) -> &'static str {
        self.dialogue.spoken_version()
    }

    /// Says something beside events, and has `hear` read the answer.
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

    /// As [`Talk::exchange`], beside the events of a load: it takes no longer than [`ASIDE_TIMEOUT`].
    pub(crate) fn exchange_aside(&mut self, random: Random) -> Result<Answer, Failure> {
        if self.timeout.is_some() {
            return self.exchange(random);
        }
        within(self, ASIDE_TIMEOUT, no_answer_aside, |talk| talk.exchange(random))
    }

    /// Hears what came while nothing was asked, without waiting. Fails if the server takes no other request here.
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

    /// Hears what came with the last answer and was not taken: it answers nothing that was asked.
    fn hear_left(&mut self) -> Result<(), Failure> {
        let Self { wire, dialogue, .. } = self;
        wire.hear_left(dialogue.has_left(), |input| hear_unasked(&mut **dialogue, input))
    }

    /// Reads until `hear` has its answer.
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

    /// Does one event.
    pub(crate) fn exchange(&mut self, random: Random) -> Result<Answer, Failure> {
        self.hear_left()?;
        self.out.clear();
        self.dialogue.ask(random, &mut self.out);
        self.wire.begin(self.timeout);
        let sent = self.wire.send(&self.out);
        let answer = sent.and_then(|()| self.hear(|dialogue, input, is_end| dialogue.hear(input, is_end)));
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

/// The server took the connection and said nothing.
fn silent(within: Duration) -> Failure {
    let text = format!("{}: does the server speak what the target says?", no_answer(within));
    Failure::new(FailureClass::Connection, text)
}

/// What was asked beside events was not answered.
fn no_answer_aside(within: Duration) -> Failure {
    Failure::new(FailureClass::Connection, format!("no whole answer within {within:?} before the load"))
}
