//! Histories that other benchmark tools wrote: CSV, and the JSON of hyperfine, Google Benchmark, criterion
//! and pytest-benchmark.

mod criterion;
mod google_benchmark;
mod hyperfine;
mod json;
mod pytest_benchmark;
mod value;

use std::path::Path;

use jiff::tz::TimeZone;

pub use self::value::{History, HistoryError, HistoryValue};
use crate::table;

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
        subject: entry.subject,
        host: entry.host,
        value: entry.value,
        labels: entry.labels,
    };
    let mut notes = Vec::new();
    if read.missing > 0 {
        notes.push(format!("{} cells have no value and are left out", read.missing));
    }
    if read.without_zone > 0 {
        notes.push(format!("{} times have no time zone and are read as local time", read.without_zone));
    }
    let values = read.entries.into_iter().map(value).collect();
    History { tool: "csv", values, notes, ..History::default() }
}
