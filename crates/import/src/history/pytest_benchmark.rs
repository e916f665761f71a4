//! `pytest --benchmark-json` and `--benchmark-save`.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::json::{Names, list, text, time as time_over_0, unusable};
use super::value::{History, HistoryError};
use crate::table::time;

const TOOL: &str = "pytest-benchmark";
/// Ids of a commit that is not known.
const NO_COMMIT: [&str; 2] = ["unversioned", "unknown"];
/// Timers of Python that count CPU time.
const CPU_TIMERS: [&str; 3] = ["process_time", "thread_time", "clock"];

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
    let is_dirty = document["commit_info"]["dirty"].as_bool() == Some(true);
    let commit = text(&document["commit_info"]["id"]).filter(|id| !NO_COMMIT.contains(&id.as_str()));
    // The measured code is not that of the commit.
    let commit = commit.map(|id| if is_dirty { format!("{id}-dirty") } else { id });
    let labels: Vec<(String, String)> = commit.into_iter().map(|id| ("commit".to_owned(), id)).collect();
    if is_dirty {
        history.notes.push("the working tree had changes besides its commit".to_owned());
    }
    let mut names = Names::default();
    for benchmark in list(document, "benchmarks", TOOL)? {
        let name = text(&benchmark["fullname"]).or_else(|| text(&benchmark["name"]));
        let name = name.ok_or_else(|| unusable(TOOL, "benchmarks", "a `name`"))?;
        let name = names.of(name, &mut history.notes);
        let Some(mean) = time_over_0(&benchmark["stats"]["mean"]) else {
            history.leave_out(&name, "its `stats.mean` is not a time over 0, up to 1e60");
            continue;
        };
        let timer = text(&benchmark["options"]["timer"]).unwrap_or_default();
        let is_cpu = timer.rsplit('.').next().is_some_and(|timer| CPU_TIMERS.contains(&timer));
        history.put(at_unix_ns, &name, if is_cpu { "cpu-time" } else { "time" }, mean);
    }
    history.values.iter_mut().for_each(|value| value.labels.clone_from(&labels));
    Ok(history)
}
