//! criterion's `estimates.json`, and the messages of `cargo criterion`. Neither has a date.

use std::path::Path;

use serde_json::Value;

use super::json::{number, text, unusable};
use super::value::{History, HistoryError, HistoryValue};

const TOOL: &str = "criterion";

/// Whether a text consists of messages, one a line.
pub(super) fn is_messages(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str::<Value>(first).is_ok_and(|message| message.get("reason").is_some())
}

/// Typical times of the benchmarks that completed.
pub(super) fn of_messages(text: &str) -> Result<History, HistoryError> {
    let mut history = History { tool: TOOL, ..History::default() };
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let message: Value = serde_json::from_str(line)
            .map_err(|error| HistoryError::NotJson(format!("line {}: {error}", number + 1)))?;
        if message["reason"] == "benchmark-complete" {
            history.values.push(of_message(&message)?);
        }
    }
    if history.values.is_empty() {
        return Err(unusable(TOOL, "messages", "one with the reason `benchmark-complete`"));
    }
    Ok(history)
}

fn of_message(message: &Value) -> Result<HistoryValue, HistoryError> {
    let name = text(&message["id"]).ok_or_else(|| unusable(TOOL, "benchmark-complete", "an `id`"))?;
    let typical = &message["typical"];
    let seconds = match text(&typical["unit"]).as_deref() {
        Some("ns") => 1e-9,
        Some("us" | "µs") => 1e-6,
        Some("ms") => 1e-3,
        Some("s") => 1.0,
        _ => return Err(unusable(TOOL, &name, "a `typical` time with a known unit")),
    };
    let value = number(&typical["estimate"]).ok_or_else(|| unusable(TOOL, &name, "a number `estimate`"))?;
    Ok(of(name, value * seconds))
}

/// Typical time of one benchmark: the slope over iterations if there is one, else the mean, as criterion
/// prints it.
pub(super) fn of_estimates(document: &Value, path: &Path) -> Result<History, HistoryError> {
    let name = name_of(path);
    let estimate = |kind: &str| number(&document[kind]["point_estimate"]);
    let found = estimate("slope").or_else(|| estimate("mean"));
    let ns = found.ok_or_else(|| unusable(TOOL, &name, "a number `point_estimate`"))?;
    Ok(History { tool: TOOL, values: vec![of(name, ns * 1e-9)], ..History::default() })
}

fn of(name: String, value: f64) -> HistoryValue {
    HistoryValue {
        at_unix_ns: None,
        metric: "time".to_owned(),
        subject: Some(name),
        host: None,
        value,
        labels: Vec::new(),
    }
}

/// Name of the benchmark with its files in `.../criterion/GROUP/FUNCTION/new/estimates.json`.
fn name_of(path: &Path) -> String {
    let parts: Vec<String> = path
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let from = parts.iter().rposition(|part| part == "criterion").map_or(0, |at| at + 1);
    let to = if parts.last().is_some_and(|last| last == "new" || last == "base") {
        parts.len() - 1
    } else {
        parts.len()
    };
    let name = parts.get(from..to).unwrap_or_default();
    // Without criterion's folder the last names are the best guess.
    let name = if from == 0 { &name[name.len().saturating_sub(2)..] } else { name };
    if name.is_empty() { "benchmark".to_owned() } else { name.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_named_by_its_folders() {
        for (path, name) in [
            ("target/criterion/sort/quick/new/estimates.json", "sort/quick"),
            ("/x/target/criterion/hash/base/estimates.json", "hash"),
            ("a/b/c/estimates.json", "b/c"),
            ("estimates.json", "benchmark"),
        ] {
            assert_eq!(name_of(Path::new(path)), name, "{path}");
        }
    }
}
