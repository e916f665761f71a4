//! One connection's part of a protocol: bytes in, bytes out, no socket.

use std::io::BufRead as _;

use crate::connection::{Answer, Failure, FailureClass, Laps};
use crate::schedule::random::Random;

/// The protocol of one connection: writes requests and reads answers.
pub(crate) trait Dialogue: Send {
    /// Writes the greeting of a new connection; nothing if the protocol needs none.
    fn greet(&mut self, out: &mut Vec<u8>);

    /// Reads the answer to the greeting.
    fn hear_greeting(&mut self, input: &[u8]) -> Parsed;

    /// Writes the request of an event.
    fn ask(&mut self, random: Random, out: &mut Vec<u8>);

    /// Reads the answer from the input that was not consumed before.
    ///
    /// - `is_end`: the server has closed its side; nothing follows.
    fn hear(&mut self, input: &[u8], is_end: bool) -> Parsed;

    /// Judges an answer that came before all of its request was sent.
    ///
    /// - `has_begun`: some of the request was sent.
    fn judge_early(&mut self, has_begun: bool, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
        judge_early(has_begun, answer)
    }

    /// Continues an event of several requests: after it began without a request, after each answer that did
    /// not end it, and after each pause. Writes the next request.
    fn go_on(&mut self, _: &mut Vec<u8>) -> Go {
        Go::Wait
    }

    /// Selects one of the requests that may be in flight together: the next calls refer to it.
    fn turn_to(&mut self, _: usize) {}

    /// Index of the request that was answered last, among those that may be in flight together.
    fn answered(&self) -> usize {
        0
    }

    /// Cancels the selected request. False if the connection is then unusable, because the answer may still
    /// arrive.
    fn cancel(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }

    /// Starts timing the last event: its attempt began at `start_ns`.
    fn begin(&mut self, _: u64) {}

    /// Laps of an event of several requests; `None` if an event is one request, which the caller times.
    fn laps(&self) -> Option<&Laps> {
        None
    }

    /// Called when the current request is abandoned.
    fn give_up(&self) {}

    /// Reads unrequested input; a failure gives the reason why the connection is unusable.
    fn hear_unasked(&mut self, input: &[u8]) -> Parsed {
        if input.is_empty() {
            return Parsed::MORE;
        }
        Parsed::unrequested()
    }

    /// Writes protocol replies to the input, outside of requests. Called after each read.
    fn reply(&mut self, _: &mut Vec<u8>) {}

    /// Encodes a message that is sent outside of events.
    fn wrap(&mut self, said: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(said);
    }

    /// Reads the input with `hear` in place of the dialogue: the answer to a message outside of events.
    fn hear_with(&mut self, input: &[u8], is_end: bool, hear: &mut Hear<'_>) -> Parsed {
        hear(input, is_end)
    }

    /// Whether the dialogue stores input that was not consumed.
    fn has_left(&self) -> bool {
        false
    }

    /// TLS version, for display after the server's name; empty without TLS.
    fn spoken_version(&self) -> &'static str {
        ""
    }

    /// Name and version of the server, if it has sent them.
    fn server(&self) -> Option<String> {
        None
    }

    /// Index of the operation that was requested last, if the request determines it.
    fn asked(&self) -> Option<usize> {
        None
    }

    /// Whether the last request may be sent again, although the server may have executed it.
    fn may_repeat(&self) -> bool {
        true
    }

    /// Whether the last answer announces that the server accepts no other request on this connection.
    fn closes(&self) -> bool {
        false
    }
}

/// Reads the input; the second argument tells whether nothing follows.
pub(crate) type Hear<'a> = dyn FnMut(&[u8], bool) -> Parsed + 'a;

/// Result of parsing input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Number of bytes consumed.
    pub(crate) taken: usize,
    /// The answer or a failure; `None` if more input is needed. After a failure of the class `Connection` the
    /// server's output can no longer be parsed; after any other the dialogue continues.
    pub(crate) answer: Option<Result<Answer, Failure>>,
}

/// Next step of an event of several requests.
#[derive(Debug)]
pub(crate) enum Go {
    /// Wait for more of an answer.
    Wait,
    /// Send the request that was written.
    Send,
    /// Pause.
    Rest { for_ns: u64 },
    /// The event has ended.
    Ended(Result<Answer, Failure>),
}

impl Parsed {
    /// More input is needed.
    pub(crate) const MORE: Self = Self { taken: 0, answer: None };

    pub(crate) fn well(taken: usize, operation: usize, outcome: Option<usize>) -> Self {
        Self { taken, answer: Some(Ok(Answer { operation, outcome, keys: None })) }
    }

    pub(crate) fn failure(taken: usize, class: FailureClass, text: impl Into<String>) -> Self {
        Self { taken, answer: Some(Err(Failure::new(class, text))) }
    }

    /// The input answers no request.
    pub(crate) fn unrequested() -> Self {
        Self { taken: 0, answer: Some(Err(unrequested())) }
    }

    /// The input is not an answer in this protocol.
    pub(crate) fn garbage(input: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(&input[..input.len().min(60)]).into_owned();
        Self::failure(
            0,
            FailureClass::Connection,
            format!("the server answered {shown:?}, which is not a valid answer"),
        )
    }
}

/// The server sent data that answers no request.
pub(crate) fn unrequested() -> Failure {
    Failure::new(FailureClass::Connection, "the server sent unrequested data")
}

/// Refuses a success that came before all of its request was sent: the server cannot have done it.
pub(crate) fn judge_early(has_begun: bool, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
    match answer {
        Err(failure) if has_begun || failure.class == FailureClass::Connection => Err(failure),
        _ if !has_begun => Err(unrequested()),
        _ => {
            let text = "the server answered before it had the whole request";
            Err(Failure::new(FailureClass::Connection, text))
        }
    }
}

/// The first line without its end, and its length with the end; `None` if it is incomplete.
pub(crate) fn line(mut input: &[u8]) -> Option<(&[u8], usize)> {
    let all = input;
    // Reading from memory cannot fail, and this search is the fastest available.
    let taken = input.skip_until(b'\n').unwrap_or(0);
    let line = all[..taken].strip_suffix(b"\n")?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), taken))
}

/// Message about an announced length above the limit.
pub(crate) fn too_long_text(bytes: usize, bytes_max: usize) -> String {
    format!("the server announced {bytes} bytes of data, over the limit of {bytes_max} (--answer-max)")
}
