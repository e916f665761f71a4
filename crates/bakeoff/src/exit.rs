//! Exit codes: the same for every command, so a script can distinguish a bad result from a bad plan.

use std::borrow::Cow;
use std::io::Write as _;
use std::process::ExitCode;

use record::printable::printable_block;

/// Exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, and good.
    Good = 0,
    /// Done, and bad: a regression, a gate missed, damage found.
    Bad = 1,
    /// Wrong command line or plan.
    Usage = 2,
    /// The measurement is INVALID.
    Invalid = 3,
    /// The result can be called neither good nor bad.
    Inconclusive = 4,
    /// The server under test failed.
    ServerFailed = 5,
    /// The command cannot run here: permission, disk, kernel.
    CannotHere = 6,
    /// Interrupted before its end; a bake-off is resumable. What has no end, as reports without a number, is
    /// complete when it is interrupted: `Good`.
    Interrupted = 130,
}

impl Exit {
    /// The code of the first marked error in the chain of causes.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(|cause| cause.downcast_ref::<Ending>()).map_or(Self::CannotHere, |e| e.exit)
    }
}

impl Exit {
    /// The error, marked so that the command ends in this way.
    pub(crate) fn with(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> anyhow::Error {
        Ending { exit: self, source: source.into() }.into()
    }
}

impl From<load::ErrorClass> for Exit {
    fn from(class: load::ErrorClass) -> Self {
        match class {
            load::ErrorClass::Usage => Self::Usage,
            load::ErrorClass::Server => Self::ServerFailed,
            load::ErrorClass::Environment => Self::CannotHere,
            load::ErrorClass::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with the exit code that it leads to.
#[derive(Debug)]
struct Ending {
    exit: Exit,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for Ending {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

/// Marks the error of a result with an exit code.
pub(crate) trait EndsWith<T> {
    /// Makes the command end with `exit` on an error.
    fn ends_with(self, exit: Exit) -> anyhow::Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> EndsWith<T> for Result<T, E> {
    fn ends_with(self, exit: Exit) -> anyhow::Result<T> {
        self.map_err(|source| exit.with(source))
    }
}

/// Prints the error of a command line: the problem on the first line, hints on the next lines. Help and
/// version are not errors.
pub(crate) fn of_command_line(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // If standard output is closed, the text is lost.
        let _ = error.print();
        return Exit::Good.into();
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::Usage.into();
    }
    let text = printable_block(&error.render().to_string()).into_owned();
    let said = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let mut said = said.map(|line| suggestion(line.trim_start_matches("error: ")));
    let first = said.next().unwrap_or("cannot parse the command line".into());
    let mut told = format!("bakeoff: {first}\n");
    said.for_each(|line| told.extend(["  ", &*line, "\n"]));
    // Standard error may be closed too.
    let _ = writeln!(std::io::stderr(), "{told}  --help lists every option");
    Exit::Usage.into()
}

/// Puts the tip of the command line's parser into the words of other messages.
fn suggestion(line: &str) -> Cow<'_, str> {
    let Some(tip) = line.strip_prefix("tip: ") else { return line.into() };
    let similar = tip.strip_prefix("a similar ").or_else(|| tip.strip_prefix("some similar "));
    let Some((_, names)) = similar.and_then(|tip| tip.split_once(": ")) else { return tip.into() };
    format!("did you mean {}?", names.replace('\'', "`")).into()
}

/// Whether the error only means that the reader of standard output has closed its end, as `head` does.
pub(crate) fn reader_has_gone(error: &anyhow::Error) -> bool {
    let kind_of = |cause: &(dyn std::error::Error + 'static)| {
        let plain = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        plain.or_else(|| cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind))
    };
    error.chain().filter_map(kind_of).any(|kind| kind == std::io::ErrorKind::BrokenPipe)
}

/// Marks an error of a load with its exit code.
pub(crate) fn of_load(error: load::LoadError) -> anyhow::Error {
    Exit::from(error.class()).with(error)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_ends_as_it_was_marked_whatever_context_it_gets() {
        let failed: Result<(), _> = Err(std::io::Error::other("no such table"));
        let error = failed.ends_with(Exit::ServerFailed).context("measuring").unwrap_err();
        assert_eq!(Exit::of(&error), Exit::ServerFailed);
        assert_eq!(format!("{error:#}"), "measuring: no such table");
    }

    #[test]
    fn an_unmarked_error_means_that_it_could_not_be_done_here() {
        assert_eq!(Exit::of(&anyhow::anyhow!("anything")), Exit::CannotHere);
    }

    #[test]
    fn a_tip_is_a_question() {
        for (tip, asked) in [
            ("tip: a similar argument exists: '--rate'", "did you mean `--rate`?"),
            ("tip: some similar values exist: 'bash', 'dash'", "did you mean `bash`, `dash`?"),
            ("tip: to pass '--x' as a value, use '-- --x'", "to pass '--x' as a value, use '-- --x'"),
            ("Usage: bakeoff", "Usage: bakeoff"),
        ] {
            assert_eq!(suggestion(tip), asked);
        }
    }

    #[test]
    fn a_closed_pipe_is_not_an_error_of_ours() {
        let broken = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(reader_has_gone(&broken.context("printing")));
        assert!(!reader_has_gone(&anyhow::anyhow!("disk full")));
    }
}
