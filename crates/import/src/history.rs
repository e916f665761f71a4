//! Histories that other benchmark tools wrote: CSV, and the JSON of hyperfine, Google Benchmark, criterion
//! and pytest-benchmark.

mod criterion;
mod google_benchmark;
mod hyperfine;
mod json;
mod pytest_benchmark;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::tz::TimeZone;

pub use self::value::{History, HistoryError, HistoryValue};
use crate::table;

/// Most metrics with several units that are noted.
const UNITS_NOTED_MAX: usize = 5;

/// Circumstances of a file that its text does not tell.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Path. criterion's files lack the benchmark's name, which is in their path.
    pub path: &'a Path,
    /// Text of the `benchmark.json` in the same folder, in which criterion writes the name in full.
    pub beside: Option<&'a str>,
    /// Zone of times that name none.
    pub zone: &'a TimeZone,
    /// Whether the times of commands that failed are values, too.
    pub with_failures: bool,
}

/// Reads a history; its form follows from its content.
///
/// # Errors
///
/// Text of another form, or without a value.
pub fn read(text: &str, source: Source<'_>) -> Result<History, HistoryError> {
    // PowerShell begins a file with a mark.
    let text = text.trim_start_matches('\u{feff}');
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(of_table(table::read(text, source.zone)?));
    }
    let history = of_json(text, source)?;
    if history.values.is_empty() {
        let what = format!("no value is left: {}", history.notes.join("; "));
        return Err(HistoryError::Unusable { tool: history.tool, what });
    }
    Ok(history)
}

fn of_json(text: &str, source: Source<'_>) -> Result<History, HistoryError> {
    let document = match json::document(text) {
        Ok(document) => document,
        Err(_) if criterion::is_messages(text) => return criterion::of_messages(text),
        Err(error) => return Err(HistoryError::NotJson(error.to_string())),
    };
    let has = |name: &str| document.get(name).is_some();
    if has("results") {
        hyperfine::read(&document, source.with_failures)
    } else if has("machine_info") {
        pytest_benchmark::read(&document)
    } else if has("context") && has("benchmarks") {
        google_benchmark::read(&document, source.zone)
    } else if criterion::is_of_benchmark(&document) {
        criterion::of_estimates(&document, source.path, source.beside)
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
        unit: entry.unit,
        subject: entry.subject,
        host: entry.host,
        value: entry.value,
        labels: entry.labels,
    };
    let mut notes = Vec::new();
    if read.missing > 0 {
        let what = if read.missing == 1 { "cell has no value and is" } else { "cells have no value and are" };
        notes.push(format!("{} {what} left out", read.missing));
    }
    if read.without_zone > 0 {
        let what = if read.without_zone == 1 {
            "time has no time zone and is"
        } else {
            "times have no time zone and are"
        };
        notes.push(format!("{} {what} read as local time", read.without_zone));
    }
    if read.in_repeated_hour > 0 {
        let values = if read.in_repeated_hour == 1 { "value is" } else { "values are" };
        let what = "in an hour that the local clock shows twice: the order of the lines tells which";
        notes.push(format!("{} {values} {what}", read.in_repeated_hour));
    }
    let mut units: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for entry in &read.entries {
        units.entry((&entry.metric, &entry.subject, &entry.host)).or_default().insert(&entry.unit);
    }
    for ((metric, ..), units) in units.iter().filter(|(_, units)| units.len() > 1).take(UNITS_NOTED_MAX) {
        let units: Vec<&str> =
            units.iter().map(|unit| if unit.is_empty() { "none" } else { *unit }).collect();
        notes.push(format!(
            "`{metric}` has units that do not convert ({}): each is a series",
            units.join(", ")
        ));
    }
    let values = read.entries.into_iter().map(value).collect();
    History { tool: "csv", values, notes, ..History::default() }
}
