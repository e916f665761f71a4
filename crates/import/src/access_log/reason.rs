//! Reasons that lines of a log are left out.

use std::fmt;

/// Reason that a line is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The line is in none of the formats.
    Unreadable,
    /// The line has no valid time.
    Time,
    /// The last line of the log ends within its request.
    Cut,
    /// The line has more bytes than any server accepts.
    TooLong,
    /// The client sent no valid request.
    NoRequest,
    /// The method may change data.
    UnsafeMethod,
    /// The method cannot be replayed.
    OtherMethod,
    /// The request has no path, as in `OPTIONS *`, or one with a blank.
    NoPath,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "neither in the combined format nor JSON",
            Self::Time => "without a valid time",
            Self::Cut => "cut off at the end",
            Self::TooLong => "longer than 64 KiB",
            Self::NoRequest => "without a valid request",
            Self::UnsafeMethod => "with a method that may change data",
            Self::OtherMethod => "with another method",
            Self::NoPath => "without a path",
        })
    }
}
