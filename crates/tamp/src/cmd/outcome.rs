//! Outcomes of files, exit codes, and lines on standard error.

use super::args::Args;
use super::printable::printable;
use std::fmt::Display;
use std::io::{self, Write};

/// Exit code after a failure.
pub(super) const EXIT_FAILED: u8 = 1;

/// Exit code after a wrong command line or a warning, such as a skipped file; the same as gzip's.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Result for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Done or skipped, with a warning.
    Warned,
    /// Done as far as possible: content is missing or not verified.
    Bad,
}

/// Prints a line on standard error. Ignores errors: standard error may be closed.
pub(super) fn say(line: &dyn Display) {
    let _ = writeln!(io::stderr(), "tamp: {}", printable(&line.to_string()));
}

/// Prints a warning, unless `--quiet` is set.
pub(super) fn warn(args: &Args, line: &dyn Display) -> Outcome {
    if !args.quiet {
        say(line);
    }
    Outcome::Warned
}
