//! The values of a history, and the reasons to refuse a file.

use std::collections::BTreeMap;

use crate::error::ImportError;

/// One value of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryValue {
    /// Nanoseconds since 1970-01-01 UTC; `None` if the file does not tell.
    pub at_unix_ns: Option<u64>,
    /// Metric: `time` in seconds, or the name in the file.
    pub metric: String,
    /// Unit of a number from a table; empty if the table has none, and for the metrics of tools.
    pub unit: String,
    /// The measured thing, such as the benchmark's name; `None` if the file has none.
    pub subject: Option<String>,
    /// Machine of this value, if it may differ from that of others in the file.
    pub host: Option<String>,
    /// The value; finite.
    pub value: f64,
    /// Labels of the value: `commit`, `run`.
    pub labels: Vec<(String, String)>,
}

/// Values of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Tool that wrote it.
    pub tool: &'static str,
    /// Machine, if the file names it.
    pub host: Option<String>,
    /// Facts of the machine, by the names that `bakeoff host` uses.
    pub facts: BTreeMap<String, String>,
    /// Values, in the order of the file.
    pub values: Vec<HistoryValue>,
    /// Remarks for the user about what was left out or assumed.
    pub notes: Vec<String>,
}

/// Reason that a file is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A table with a wrong cell.
    #[error(transparent)]
    Table(#[from] ImportError),
    /// Text that begins like JSON and does not parse.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON of another tool.
    #[error(
        "found JSON of an unknown form, expected that of hyperfine (`results`), Google Benchmark (`context`, \
         `benchmarks`), pytest-benchmark (`machine_info`, `benchmarks`) or criterion (`estimates.json`, or the \
         lines of `cargo criterion --message-format=json`)"
    )]
    UnknownForm,
    /// A known form without a value.
    #[error("{tool}: {what}")]
    Unusable {
        /// Tool that wrote the file.
        tool: &'static str,
        /// Place and what is wrong there.
        what: String,
    },
}
