//! Why an input cannot be imported, and what a reader should know about one that can.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A place in an input, whatever its name: both numbers count from 1, the column in bytes.
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

/// Why an input cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input could not be read any further.
    #[error("{line}:1: cannot read on")]
    Read {
        /// The line that would have come next.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not what the tool prints.
    #[error("{place}: found {found}, expected {expected}")]
    Unexpected {
        /// Where.
        place: Place,
        /// What stands there, quoted, or what it is.
        found: String,
        /// What would have been understood.
        expected: Cow<'static, str>,
    },
    /// The input is packed, so it is no text at all.
    #[error(
        "1:1: found {format}, expected text: unpack it first, as in `{unpack} FILE | bakeoff import {tool} -`"
    )]
    Packed {
        /// The packed format.
        format: &'static str,
        /// The command that unpacks it.
        unpack: &'static str,
        /// The tool whose text was asked for.
        tool: Tool,
    },
    /// The text is another tool's.
    #[error("{place}: found the output of {found}, expected that of {expected}: {hint}")]
    OtherTool {
        /// Where that shows.
        place: Place,
        /// Whose output it is.
        found: &'static str,
        /// Whose output was asked for.
        expected: Tool,
        /// What to do.
        hint: &'static str,
    },
    /// What was read could not be handed on: the receiver's error.
    #[error("cannot write the result")]
    Deliver {
        /// What the receiver said.
        source: io::Error,
    },
}

impl ImportError {
    /// An [`ImportError::Unexpected`] that quotes the bytes found.
    pub(crate) fn unexpected(place: Place, found: &[u8], expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Unexpected { place, found: quoted(found), expected: expected.into() }
    }

    /// An [`ImportError::Unexpected`] at the end of a line that should go on.
    pub(crate) fn end_of_line(place: Place, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Unexpected { place, found: "the end of the line".into(), expected: expected.into() }
    }
}

/// The tools whose text is read.
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

/// Something a reader should know that is no error: a line that is not the tool's, a block that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line it is about.
    pub line: u64,
    /// A clause, lower case, no full stop.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.text)
    }
}

/// The bytes as a person can read them: in backticks, control characters escaped, cut after 40 characters.
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
