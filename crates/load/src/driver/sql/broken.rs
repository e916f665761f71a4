//! Reasons why an SQL server gave no usable answer.

use crate::connection::Failure;
use crate::workload::statement::VALUE_BYTES_MAX;

/// Reason why there is no usable answer; `Code` is the server's type of error number.
#[derive(Debug)]
pub(crate) enum Broken<Code> {
    /// The connection is gone.
    Lost(Failure),
    /// The server refuses the request; the code shows whether the connection remains usable.
    Refused {
        code: Code,
        #[cfg_attr(
            not(any(feature = "lua", test)),
            expect(dead_code, reason = "only scripts in Lua read it")
        )]
        state: [u8; 5],
        message: String,
    },
    /// The bytes are not an answer to the request: the connection is unusable.
    Garbled(&'static str),
    /// The server announces more bytes than the limit: the connection is unusable.
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

/// Converts a value to text that is no longer than the input: bytes that are not UTF-8 become `?`. A value
/// that is too long to be stored is cut to one byte more than the limit.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(VALUE_BYTES_MAX + 1)];
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|b| if b.is_ascii() { char::from(*b) } else { '?' }).collect(),
    }
}

/// The SQLSTATE of an error; `HY000` if the server gives none.
pub(crate) fn state_of(bytes: &[u8]) -> [u8; 5] {
    bytes.first_chunk().copied().unwrap_or(*b"HY000")
}

/// Length limit of a server's message.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// Spare capacity of a message, for the error number and the place in a script that are added later.
const AROUND_BYTES: usize = 128;

/// The start of a server's message, with room for advice: a failed try has one text.
pub(crate) fn shortened(message: &[u8]) -> String {
    let whole = message.len() <= MESSAGE_BYTES_MAX;
    let kept = &message[..message.len().min(MESSAGE_BYTES_MAX)];
    let mut text = String::with_capacity(kept.len() + AROUND_BYTES);
    text.push_str(&String::from_utf8_lossy(kept));
    if !whole {
        text.push_str("...");
    }
    text
}
