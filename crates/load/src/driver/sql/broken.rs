//! Why an SQL server's answer is none.

use crate::connection::Failure;
use crate::workload::statement::VALUE_BYTES_MAX;

/// Why there is no answer; `Code` is how the server numbers its refusals.
#[derive(Debug)]
pub(crate) enum Broken<Code> {
    /// The connection is gone.
    Lost(Failure),
    /// The server says no; whether the connection is as good as before, the code says.
    Refused { code: Code, message: String },
    /// What came is no answer to what was sent: the connection cannot be used any more.
    Garbled(&'static str),
    /// The server announces more than is accepted: the connection cannot be used any more.
    TooLong { bytes: usize, bytes_max: usize },
}

impl<Code> From<Failure> for Broken<Code> {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

impl<Code> Broken<Code> {
    pub(crate) fn too_long(bytes: usize, bytes_max: usize) -> Self {
        Self::TooLong { bytes, bytes_max }
    }
}

/// A value as text, as long in memory as it came: what is not UTF-8 has its other bytes shown as `?`. One that is too long to be kept is
/// cut, to a byte more than can be kept.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(VALUE_BYTES_MAX + 1)];
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|b| if b.is_ascii() { char::from(*b) } else { '?' }).collect(),
    }
}

/// The longest message of a server that is kept.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// The beginning of a server's message.
pub(crate) fn shortened(message: &[u8]) -> String {
    let whole = message.len() <= MESSAGE_BYTES_MAX;
    let kept = &message[..message.len().min(MESSAGE_BYTES_MAX)];
    let mut text = String::from_utf8_lossy(kept).into_owned();
    if !whole {
        text.push_str("...");
    }
    text
}
