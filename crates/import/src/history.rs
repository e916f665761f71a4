//! Histories that other benchmark tools wrote: CSV, and the JSON of hyperfine, Google Benchmark, criterion
//! and pytest-benchmark.

mod criterion;
mod google_benchmark;
mod hyperfine;
mod json;
mod pytest_benchmark;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;

use crate::error::ImportError;
use crate::table;

/// One value of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryValue {
    /// Nanoseconds since 1970-01-01 UTC; `None` if the file does not tell.
    pub at_unix_ns: Option<u64>,
    /// Metric: `time` in seconds, or the name in the file.
    pub metric: String,
    /// The measured thing, such as the benchmark's name; `None` if the file has none.
    pub subject: Option<String>,
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
    /// Text that begins like JSON, and is none.
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

/// Reads a history; its form follows from its content.
///
/// - `path`: criterion's files lack the benchmark's name, which is in their path.
/// - `zone`: zone of times that name none.
///
/// # Errors
///
/// Text of another form, or with a wrong value.
pub fn read(text: &str, path: &Path, zone: &TimeZone) -> Result<History, HistoryError> {
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']) {
        return Ok(of_table(table::read(text, zone)?));
    }
    let document: serde_json::Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(_) if criterion::is_messages(text) => return criterion::of_messages(text),
        Err(error) => return Err(HistoryError::NotJson(error.to_string())),
    };
    let has = |name: &str| document.get(name).is_some();
    if has("results") {
        hyperfine::read(&document)
    } else if has("machine_info") {
        pytest_benchmark::read(&document)
    } else if has("context") && has("benchmarks") {
        google_benchmark::read(&document, zone)
    } else if document["mean"].get("point_estimate").is_some() {
        criterion::of_estimates(&document, path)
    } else if criterion::is_messages(text) {
        criterion::of_messages(text)
    } else {
        Err(HistoryError::UnknownForm)
    }
}

fn of_table(read: table::Entries) -> History {
    let value = |entry: table::Entry| HistoryValue {
        at_unix_ns: Some(entry.at_unix_ns),
        metric: entry.metric,
        subject: None,
        value: entry.value,
        labels: entry.labels,
    };
    let mut notes = Vec::new();
    if read.missing > 0 {
        notes.push(format!("{} cells have no value and are left out", read.missing));
    }
    if read.without_zone > 0 {
        notes.push(format!("{} times name no zone: they are read as local time", read.without_zone));
    }
    let values = read.entries.into_iter().map(value).collect();
    History { tool: "csv", values, notes, ..History::default() }
}
