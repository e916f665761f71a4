//! Settings of a comparison of commands.

use std::path::PathBuf;
use std::time::Duration;

use record::commands::Comparison;

/// Commands to compare, and how.
#[derive(Debug, Clone)]
pub struct CommandsPlan {
    /// The comparison without its rounds.
    pub comparison: Comparison,
    /// Each command of the comparison, in its order.
    pub commands: Vec<CommandPlan>,
    /// Standard input of every execution: this file, or nothing.
    pub input: Option<PathBuf>,
    /// Failures that do not end the comparison.
    pub failures: Failures,
    /// Rounds before the pilot.
    pub warmup: u32,
    /// Exact number of measured rounds; `None` if the pilot decides.
    pub rounds: Option<u32>,
    /// Length of warm-up, pilot and rounds together.
    pub time: Duration,
    /// An execution that lasts longer has hung.
    pub timeout: Duration,
    /// Whether CPU time is also measured by events.
    pub by_events: bool,
}

/// One command and the commands around it, which a shell reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPlan {
    /// Argument vector, the program first.
    pub words: Vec<String>,
    /// Destination of its standard output.
    pub output: Output,
    /// Before the first round.
    pub setup: Option<String>,
    /// Before each execution.
    pub prepare: Option<String>,
    /// After each execution.
    pub conclude: Option<String>,
    /// After the last round.
    pub cleanup: Option<String>,
}

/// Destination of a command's standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// `/dev/null`.
    Null,
    /// A pipe that is read and discarded.
    Pipe,
    /// Standard output of this process, and its standard error too.
    Inherit,
    /// A file, emptied before each execution.
    File(PathBuf),
}

/// Failures that do not end the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failures {
    /// Every failure ends it.
    End,
    /// Neither an exit code nor a signal ends it.
    Ignored,
    /// These exit codes do not end it.
    IgnoredCodes(Vec<i32>),
}

impl Failures {
    /// Whether a command that ended in this way counts as measured.
    pub(crate) fn allow(&self, end: record::command::CommandEnd) -> bool {
        use record::command::CommandEnd::{Code, NoCommand, Signal};
        match (self, end) {
            (_, Code(0) | NoCommand) | (Self::Ignored, _) => true,
            (Self::IgnoredCodes(codes), Code(code)) => codes.contains(&code),
            (Self::End | Self::IgnoredCodes(_), Code(_) | Signal(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use record::command::CommandEnd;

    use super::*;

    #[test]
    fn only_failures_that_the_user_named_are_ignored() {
        let codes = Failures::IgnoredCodes(vec![3]);
        assert!(codes.allow(CommandEnd::Code(3)) && codes.allow(CommandEnd::Code(0)));
        assert!(!codes.allow(CommandEnd::Code(4)) && !codes.allow(CommandEnd::Signal(9)));
        assert!(Failures::Ignored.allow(CommandEnd::Signal(9)) && !Failures::End.allow(CommandEnd::Code(1)));
    }
}
