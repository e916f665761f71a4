//! Errors of an import, and notes on an input that was read.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A place in an input. Both numbers count from 1, the column in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, counted from 1.
    pub line: u64,
    /// Byte within the line, counted from 1.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Reason that an input cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Reading failed.
    #[error("{line}:1: cannot read further")]
    Read {
        /// Number of the line that could not be read.
        line: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// The text is not what the tool prints.
    #[error("{place}: found {found}, expected {expected}")]
    Unexpected {
        /// Position of the unexpected text.
        place: Place,
        /// Text found there, quoted, or its description.
        found: String,
        /// Description of the text that would be valid there.
        expected: Cow<'static, str>,
    },
    /// The input is compressed.
    #[error(
        "1:1: found {format}, expected text: unpack it first, as in `{unpack} FILE | bakeoff import {tool} -`"
    )]
    Packed {
        /// Compression format.
        format: &'static str,
        /// Command that decompresses it.
        unpack: &'static str,
        /// Tool that the caller named.
        tool: Tool,
    },
    /// The text is the output of another tool.
    #[error("{place}: found the output of {found}, expected that of {expected}: {hint}")]
    OtherTool {
        /// Position that shows it.
        place: Place,
        /// Tool that printed it.
        found: &'static str,
        /// Tool that the caller named.
        expected: Tool,
        /// Advice to the user.
        hint: &'static str,
    },
    /// The sink returned an error.
    #[error("cannot write the result")]
    Deliver {
        /// Error of the sink.
        source: io::Error,
    },
}

impl ImportError {
    /// Returns an [`ImportError::Unexpected`] that quotes the bytes found.
    pub(crate) fn unexpected(place: Place, found: &[u8], expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Unexpected { place, found: quoted(found), expected: expected.into() }
    }

    /// Returns an [`ImportError::Unexpected`] at the end of a line that is too short.
    pub(crate) fn end_of_line(place: Place, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Unexpected { place, found: "the end of the line".into(), expected: expected.into() }
    }
}

/// Tools of which this crate reads the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Solaris' and illumos' mpstat.
    Mpstat,
    /// Solaris', illumos' and FreeBSD's lockstat.
    Lockstat,
    /// plockstat.
    Plockstat,
    /// `vmstat -s`.
    Vmstat,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpstat => "mpstat",
            Self::Lockstat => "lockstat",
            Self::Plockstat => "plockstat",
            Self::Vmstat => "vmstat",
        })
    }
}

/// A remark on the input that is not an error, such as a skipped line or a truncated block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Line of the remark.
    pub line: u64,
    /// A clause, lower case, no full stop.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.text)
    }
}

/// Returns the bytes in backticks, control characters escaped, cut after 40 characters.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 40;
    let head = &bytes[..bytes.len().min(4 * CHARACTERS_MAX)];
    let text = String::from_utf8_lossy(head);
    let mut shown: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() || head.len() < bytes.len() {
        shown.push_str("...");
    }
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_quoted_escaped_and_cut() {
        assert_eq!(quoted(b"abc"), "`abc`");
        assert_eq!(quoted(b"a\x00\xff\t"), "`a\\0\u{fffd}\\t`");
        assert_eq!(quoted(&[b'x'; 41]), format!("`{}...`", "x".repeat(40)));
        assert_eq!(quoted(&[b'x'; 40]), format!("`{}`", "x".repeat(40)));
    }
}
