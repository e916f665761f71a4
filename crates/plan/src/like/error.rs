//! Texts that cannot be translated.

/// Error for a text that is not a command line of a known tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LikeError {
    /// A quote is not closed, or the text ends after a backslash.
    #[error("the command line ends inside {0}: close it")]
    Unclosed(&'static str),
    /// The text is longer than any command line.
    #[error("the command line is longer than 128 KiB")]
    TooLong,
    /// The text has no known tool.
    #[error("the command line names no known tool: expected one of {}", TOOLS.join(", "))]
    UnknownTool,
    /// The tool does something that is not a load.
    #[error("{tool}: {what} has no equivalent in bakeoff; {instead}")]
    NotALoad {
        /// The tool.
        tool: &'static str,
        /// The part that asks for it.
        what: String,
        /// Alternative.
        instead: &'static str,
    },
    /// The tool would refuse this command line too.
    #[error("{tool}: {problem}")]
    Malformed {
        /// The tool.
        tool: &'static str,
        /// The problem and what was expected.
        problem: String,
    },
}

/// Names of the tools.
pub const TOOLS: [&str; 8] = ["sysbench", "pgbench", "memtier_benchmark", "wrk", "wrk2", "hey", "oha", "ab"];
