//! `--benchmark_format=json` of Google Benchmark.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use serde_json::Value;

use super::json::{Names, list, number, part, per_second, text, time as time_over_0, unusable};
use super::value::{History, HistoryError};
use crate::table::time;

const TOOL: &str = "google-benchmark";
/// Numbers of an entry that do not measure. All others are counters.
const NO_COUNTERS: [&str; 8] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "real_time",
    "cpu_time",
];
/// Ends of the names of aggregates, which versions before 1.5 do not mark otherwise.
const AGGREGATES: [&str; 4] = ["mean", "median", "stddev", "cv"];

/// Times in seconds, and counters, by benchmark: the median of repetitions if the file has it, else the mean.
pub(super) fn read(document: &Value, zone: &TimeZone) -> Result<History, HistoryError> {
    let (mut history, at) = of_context(&document["context"], zone);
    let mut names = Names::default();
    // Two programs of one machine may have benchmarks of one name.
    let program = text(&document["context"]["executable"]);
    let program = program.as_deref().map(|path| path.rsplit(['/', '\\']).next().unwrap_or(path));
    let entries = list(document, "benchmarks", TOOL)?;
    let (benchmarks, unread) = benchmarks(entries)?;
    history.notes.extend(unread.notes());
    for benchmark in benchmarks {
        let of_program = |program: &str| format!("{program}: {}", benchmark.name);
        let name = program.map_or_else(|| benchmark.name.clone(), of_program);
        let name = names.of(name, &mut history.notes);
        add(&name, &benchmark, at, &mut history)?;
    }
    Ok(history)
}

/// A history without values, and the date.
fn of_context(context: &Value, zone: &TimeZone) -> (History, Option<u64>) {
    let mut history = History { tool: TOOL, host: text(&context["host_name"]), ..History::default() };
    let library = text(&context["library_build_type"]);
    if library.as_deref() == Some("debug") {
        history.notes.push("the benchmark library is a debug build".to_owned());
    }
    let date = text(&context["date"]);
    let at = date.as_deref().and_then(|date| date_of(date, zone));
    match (&date, at) {
        (Some(date), None) => history.notes.push(format!("its date `{date}` is not known and is not used")),
        (_, Some((_, false))) => {
            history.notes.push("its date has no time zone and is read as local time".to_owned());
        }
        _ => {}
    }
    let known = [
        ("cpu.count", context["num_cpus"].as_u64().map(|cpus| cpus.to_string())),
        ("cpu.scaling", context["cpu_scaling_enabled"].as_bool().map(|is| is.to_string())),
        ("benchmark.library", library),
        // Some versions changed what the time of several threads is.
        ("benchmark.version", text(&context["library_version"])),
    ];
    history.facts.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    (history, at.map(|(at, _)| at))
}

/// Entries of one benchmark.
#[derive(Debug, Default)]
struct Benchmark<'a> {
    name: String,
    runs: Vec<&'a Value>,
    mean: Option<&'a Value>,
    median: Option<&'a Value>,
    /// Ends of the repetitions without a time.
    failed: Vec<&'static str>,
}

/// Entries that hold no time of a benchmark.
#[derive(Debug, Default)]
struct Unread {
    /// Number of fitted curves and their errors.
    curves: usize,
    /// Number of each other aggregate, by its name.
    aggregates: BTreeMap<String, usize>,
}

impl Unread {
    fn notes(&self) -> Vec<String> {
        let entries = |n: usize| if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") };
        let mut notes = Vec::new();
        if self.curves > 0 {
            notes.push(format!("{} of fitted curves (BigO, RMS) left out: no times", entries(self.curves)));
        }
        if !self.aggregates.is_empty() {
            let names: Vec<&str> = self.aggregates.keys().map(String::as_str).collect();
            let all = entries(self.aggregates.values().sum());
            notes.push(format!("{all} of {} left out: only medians and means are read", names.join(", ")));
        }
        notes
    }
}

/// The benchmarks of a file, in its order, and what else is in it. Two may have one name, but not one place
/// in their family.
fn benchmarks(entries: &[Value]) -> Result<(Vec<Benchmark<'_>>, Unread), HistoryError> {
    let mut unread = Unread::default();
    let all: BTreeSet<String> = entries.iter().filter_map(|entry| text(&entry["name"])).collect();
    let mut places = BTreeMap::new();
    let mut found: Vec<Benchmark<'_>> = Vec::new();
    for entry in entries {
        let name = text(&entry["run_name"]).or_else(|| text(&entry["name"]));
        let name = name.ok_or_else(|| unusable(TOOL, "benchmarks", "a `name`"))?;
        // A curve that is fitted to several benchmarks, and its error. A counter may have the same name.
        let has = |field: &str| entry.get(field).is_some();
        if (has("big_o") || has("rms")) && !has("real_time") {
            unread.curves += 1;
            continue;
        }
        let (name, aggregate) = match aggregate_of(entry, &name, &all) {
            Some((name, aggregate)) => (name, Some(aggregate)),
            None => (name, None),
        };
        let family = ["family_index", "per_family_instance_index"].map(|field| entry[field].as_u64());
        let at = *places.entry((name.clone(), family)).or_insert_with(|| {
            found.push(Benchmark { name, ..Benchmark::default() });
            found.len() - 1
        });
        let is = |field: &str| entry[field].as_bool() == Some(true);
        match aggregate.as_deref() {
            // The times of both are 0.
            None if is("error_occurred") => found[at].failed.push("ended with an error"),
            None if is("skipped") => found[at].failed.push("was skipped"),
            None => found[at].runs.push(entry),
            Some("mean") => found[at].mean = Some(entry),
            Some("median") => found[at].median = Some(entry),
            Some(other) => *unread.aggregates.entry(other.to_owned()).or_default() += 1,
        }
    }
    Ok((found, unread))
}

/// Name of the benchmark of an aggregate, and its statistic.
fn aggregate_of(entry: &Value, name: &str, all: &BTreeSet<String>) -> Option<(String, String)> {
    if let Some(kind) = text(&entry["run_type"]) {
        return (kind == "aggregate")
            .then(|| (name.to_owned(), text(&entry["aggregate_name"]).unwrap_or_default()));
    }
    let (of, statistic) = name.rsplit_once('_').filter(|(_, end)| AGGREGATES.contains(end))?;
    let is_whole = ["mean", "stddev"].iter().all(|end| all.contains(&format!("{of}_{end}")));
    is_whole.then(|| (of.to_owned(), statistic.to_owned()))
}

fn add(
    name: &str,
    benchmark: &Benchmark<'_>,
    at_unix_ns: Option<u64>,
    history: &mut History,
) -> Result<(), HistoryError> {
    if let Some(failure) = benchmark.failed.first() {
        let (failed, all) = (benchmark.failed.len(), benchmark.failed.len() + benchmark.runs.len());
        // The other repetitions are a selection.
        let of = if all > 1 { format!("{failed} of {all} repetitions: it ") } else { "it ".to_owned() };
        history.leave_out(name, &format!("{of}{failure}"));
        return Ok(());
    }
    let entries = match (benchmark.median, benchmark.mean) {
        (Some(median), _) => vec![median],
        (None, Some(mean)) if benchmark.runs.is_empty() => vec![mean],
        _ => benchmark.runs.clone(),
    };
    let Some(first) = entries.first() else {
        history.leave_out(name, "the file has neither its times nor their mean or median");
        return Ok(());
    };
    let unit = text(&first["time_unit"]).unwrap_or_else(|| "ns".to_owned());
    let per_second = per_second(&unit)
        .ok_or_else(|| unusable(TOOL, name, &format!("a known time unit instead of `{unit}`")))?;
    let mean = |field: &str, read: fn(&Value) -> Option<f64>| {
        // The first entry that lacks it ends the search.
        let all: Vec<f64> = entries.iter().map(|entry| read(&entry[field])).collect::<Option<_>>()?;
        Some(all.iter().sum::<f64>() / all.len() as f64)
    };
    let Some(time) = mean("real_time", time_over_0) else {
        history.leave_out(name, "its `real_time` is not a time over 0, up to 1e60");
        return Ok(());
    };
    history.put(at_unix_ns, name, "time", time / per_second);
    if let Some(cpu) = mean("cpu_time", part) {
        history.put(at_unix_ns, name, "cpu-time", cpu / per_second);
    }
    let fields = first.as_object().into_iter().flatten();
    for (field, _) in
        fields.filter(|(name, value)| value.is_number() && !NO_COUNTERS.contains(&name.as_str()))
    {
        match mean(field, number) {
            Some(value) => history.put(at_unix_ns, name, &metric_of(field), value),
            None => history.notes.push(format!("{name}: a repetition lacks `{field}`, which is left out")),
        }
    }
    Ok(())
}

/// Metric of a counter. Its name shows the unit if the library knows it.
fn metric_of(counter: &str) -> String {
    match counter {
        "items_per_second" => "items_per_s".to_owned(),
        "bytes_per_second" => "bytes_per_s".to_owned(),
        "max_bytes_used" => "max_used_bytes".to_owned(),
        "net_heap_growth" => "net_heap_growth_bytes".to_owned(),
        // A counter of the user may have any name, and any unit.
        "time" | "cpu-time" => format!("counter-{counter}"),
        other => other.to_owned(),
    }
}

/// Reads `2026-11-21T09:52:03+01:00`; earlier versions wrote `2026/11/21-09:52:03` in local time.
fn date_of(date: &str, zone: &TimeZone) -> Option<(u64, bool)> {
    let old = || {
        let (day, clock) = date.split_once('-')?;
        time(&format!("{}T{clock}", day.replace('/', "-")), zone)
    };
    time(date, zone).or_else(old)
}
