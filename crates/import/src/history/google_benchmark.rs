//! `--benchmark_format=json` of Google Benchmark.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use serde_json::Value;

use super::json::{list, number, text, unusable};
use super::value::{History, HistoryError, HistoryValue};
use crate::table::time;

const TOOL: &str = "google-benchmark";

/// Times in seconds, and rates, by benchmark: the median of repetitions if the file has it, else their mean.
pub(super) fn read(document: &Value, zone: &TimeZone) -> Result<History, HistoryError> {
    let context = &document["context"];
    let at = text(&context["date"]).and_then(|date| date_of(&date, zone));
    let mut history = History { tool: TOOL, host: text(&context["host_name"]), ..History::default() };
    if let Some(cpus) = context["num_cpus"].as_u64() {
        history.facts.insert("cpu.count".to_owned(), cpus.to_string());
    }
    if let Some(kind) = text(&context["library_build_type"]) {
        if kind == "debug" {
            history.notes.push("the benchmark library is a debug build".to_owned());
        }
        history.facts.insert("benchmark.library".to_owned(), kind);
    }
    let mut names = Vec::new();
    let mut medians: BTreeMap<String, &Value> = BTreeMap::new();
    let mut runs: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for entry in list(document, "benchmarks", TOOL)? {
        let name = text(&entry["run_name"]).or_else(|| text(&entry["name"]));
        let name = name.ok_or_else(|| unusable(TOOL, "benchmarks", "a `name`"))?;
        let is = |field: &str| entry[field].as_bool() == Some(true);
        // The times of both are 0.
        if is("error_occurred") || is("skipped") {
            let end = if is("skipped") { "was skipped" } else { "ended with an error" };
            history.notes.push(format!("{name} {end} and is left out"));
            continue;
        }
        match (text(&entry["run_type"]).as_deref(), text(&entry["aggregate_name"]).as_deref()) {
            (Some("aggregate"), Some("median")) => {
                medians.insert(name.clone(), entry);
            }
            (Some("aggregate"), _) => continue,
            _ => runs.entry(name.clone()).or_default().push(entry),
        }
        names.push(name);
    }
    let mut seen = BTreeSet::new();
    for name in names.into_iter().filter(|name| seen.insert(name.clone())) {
        let entries = medians.get(&name).map_or_else(|| runs[&name].clone(), |median| vec![*median]);
        add(&name, &entries, at, &mut history)?;
    }
    Ok(history)
}

fn add(
    name: &str,
    entries: &[&Value],
    at_unix_ns: Option<u64>,
    history: &mut History,
) -> Result<(), HistoryError> {
    let seconds = match text(&entries[0]["time_unit"]).as_deref() {
        None | Some("ns") => 1e-9,
        Some("us") => 1e-6,
        Some("ms") => 1e-3,
        Some("s") => 1.0,
        Some(other) => return Err(unusable(TOOL, name, &format!("a known time unit instead of `{other}`"))),
    };
    let mean = |field: &str| {
        let all: Vec<f64> = entries.iter().filter_map(|entry| number(&entry[field])).collect();
        (all.len() == entries.len()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let time = mean("real_time").ok_or_else(|| unusable(TOOL, name, "a number `real_time`"))?;
    let cpu = mean("cpu_time").map(|cpu| cpu * seconds);
    let all = [
        ("time", Some(time * seconds)),
        ("cpu-time", cpu),
        ("items_per_s", mean("items_per_second")),
        ("bytes_per_s", mean("bytes_per_second")),
    ];
    history.values.extend(all.into_iter().filter_map(|(metric, value)| {
        Some(HistoryValue {
            at_unix_ns,
            metric: metric.to_owned(),
            subject: Some(name.to_owned()),
            host: None,
            value: value?,
            labels: Vec::new(),
        })
    }));
    Ok(())
}

/// Reads `2026-11-21T09:52:03+01:00`; earlier versions wrote `2026/11/21-09:52:03` in local time.
fn date_of(date: &str, zone: &TimeZone) -> Option<u64> {
    let old = || {
        let (day, clock) = date.split_once('-')?;
        time(&format!("{}T{clock}", day.replace('/', "-")), zone)
    };
    time(date, zone).or_else(old).map(|(at, _)| at)
}
