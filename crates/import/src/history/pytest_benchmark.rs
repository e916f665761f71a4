//! `pytest --benchmark-json` and `--benchmark-save`.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::json::{list, number, text, unusable};
use super::value::{History, HistoryError, HistoryValue};
use crate::table::time;

const TOOL: &str = "pytest-benchmark";

/// Mean times by test.
pub(super) fn read(document: &Value) -> Result<History, HistoryError> {
    let machine = &document["machine_info"];
    let mut history = History { tool: TOOL, host: text(&machine["node"]), ..History::default() };
    let known = [
        ("cpu.model", text(&machine["cpu"]["brand_raw"]).or_else(|| text(&machine["cpu"]["brand"]))),
        ("cpu.count", machine["cpu"]["count"].as_u64().map(|count| count.to_string())),
        ("kernel.release", text(&machine["release"])),
        ("python.version", text(&machine["python_version"])),
        ("python.implementation", text(&machine["python_implementation"])),
    ];
    history.facts.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    // Dates without an offset are UTC.
    let at_unix_ns =
        text(&document["datetime"]).and_then(|date| time(&date, &TimeZone::UTC)).map(|(at, _)| at);
    let commit = text(&document["commit_info"]["id"]);
    let labels: Vec<(String, String)> = commit.into_iter().map(|id| ("commit".to_owned(), id)).collect();
    if document["commit_info"]["dirty"].as_bool() == Some(true) {
        history.notes.push("the working tree had changes besides its commit".to_owned());
    }
    for benchmark in list(document, "benchmarks", TOOL)? {
        let name = text(&benchmark["fullname"]).or_else(|| text(&benchmark["name"]));
        let name = name.ok_or_else(|| unusable(TOOL, "benchmarks", "a `name`"))?;
        let mean = number(&benchmark["stats"]["mean"]);
        let value = mean.ok_or_else(|| unusable(TOOL, &name, "a number `stats.mean`"))?;
        history.values.push(HistoryValue {
            at_unix_ns,
            metric: "time".to_owned(),
            subject: Some(name),
            host: None,
            value,
            labels: labels.clone(),
        });
    }
    Ok(history)
}
