//! One connection's part of a protocol: bytes in, bytes out, no socket.

use std::io::BufRead as _;

use crate::connection::{Answer, Failure, FailureClass, Laps};
use crate::schedule::random::Random;

/// One connection's part of a protocol: what to say, and what was answered.
pub(crate) trait Dialogue: Send {
    /// Writes what a new connection has to say before its first event; nothing where it may begin at once.
    fn greet(&mut self, out: &mut Vec<u8>);

    /// Reads the answer to the greeting.
    fn hear_greeting(&mut self, input: &[u8]) -> Parsed;

    /// Writes the request of an event.
    fn ask(&mut self, random: Random, out: &mut Vec<u8>);

    /// Reads the answer from what has come: the part of it that was not taken before.
    ///
    /// - `is_end`: the server has closed its side; nothing follows.
    fn hear(&mut self, input: &[u8], is_end: bool) -> Parsed;

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
    fn hear_unasked(&mut self, input: &[u8]) -> Parsed {
        if input.is_empty() {
            return Parsed::MORE;
        }
        let text = "the server sent something that nobody asked for";
        Parsed::failure(0, FailureClass::Connection, text)
    }

    /// Writes what has to be said to what was heard, beside requests. Asked after each hearing.
    fn reply(&mut self, _: &mut Vec<u8>) {}

    /// Writes what is to be said beside events as it goes over the wire.
    fn wrap(&mut self, said: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(said);
    }

    /// Has `hear` read what has come, in place of the dialogue: the answer to what was said beside events.
    fn hear_with(&mut self, input: &[u8], is_end: bool, hear: &mut Hear<'_>) -> Parsed {
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
pub(crate) type Hear<'a> = dyn FnMut(&[u8], bool) -> Parsed + 'a;

/// What a dialogue made of what has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
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

impl Parsed {
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

/// What is said of an announcement of more than is accepted.
pub(crate) fn too_long_text(bytes: usize, bytes_max: usize) -> String {
    format!("the server announces {bytes} bytes in one piece, and {bytes_max} are accepted (--answer-max)")
}
