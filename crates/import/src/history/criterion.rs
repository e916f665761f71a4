//! criterion's `estimates.json`, and the messages of `cargo criterion`. Neither has a date.

use std::path::Path;

use serde_json::Value;

use super::json::{Names, document, per_second, text, time, unusable};
use super::value::{History, HistoryError, HistoryValue};

const TOOL: &str = "criterion";

/// Whether a text consists of messages, one a line.
pub(super) fn is_messages(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    document(first).is_ok_and(|message| message.get("reason").is_some())
}

/// Typical times of the benchmarks that completed.
pub(super) fn of_messages(text: &str) -> Result<History, HistoryError> {
    let mut history = History { tool: TOOL, ..History::default() };
    let (mut names, mut completed) = (Names::default(), 0);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let message =
            document(line).map_err(|error| HistoryError::NotJson(format!("line {}: {error}", number + 1)))?;
        if message["reason"] == "benchmark-complete" {
            completed += 1;
            add_message(&message, &mut names, &mut history)?;
        }
    }
    if completed == 0 {
        return Err(unusable(TOOL, "messages", "one with the reason `benchmark-complete`"));
    }
    Ok(history)
}

fn add_message(message: &Value, names: &mut Names, history: &mut History) -> Result<(), HistoryError> {
    let name = text(&message["id"]).ok_or_else(|| unusable(TOOL, "benchmark-complete", "an `id`"))?;
    let name = names.of(name, &mut history.notes);
    let typical = &message["typical"];
    let unit = text(&typical["unit"]).unwrap_or_default();
    match (per_second(&unit), time(&typical["estimate"])) {
        (Some(per_second), Some(estimate)) => history.put(None, &name, "time", estimate / per_second),
        (None, _) => history.leave_out(&name, &format!("its unit `{unit}` is not a time")),
        (_, None) => history.leave_out(&name, "its `estimate` is not a time over 0, up to 1e60"),
    }
    Ok(())
}

/// Whether a document is one of the files that criterion writes for a benchmark.
pub(super) fn is_of_benchmark(document: &Value) -> bool {
    let has = |name: &str| document.get(name).is_some();
    let is_estimated = ["mean", "Mean"].iter().any(|name| document[*name].get("point_estimate").is_some());
    is_estimated || has("directory_name") || (has("iters") && has("times"))
}

/// An estimate of a statistic. Versions before 0.3.4 begin its name with a capital.
fn estimate(document: &Value, statistic: &str) -> Option<f64> {
    let old = statistic[..1].to_uppercase() + &statistic[1..];
    [statistic, old.as_str()].into_iter().find_map(|name| time(&document[name]["point_estimate"]))
}

/// Typical time of one benchmark: the slope over iterations if there is one, else the mean, as criterion
/// prints it.
///
/// - `beside`: text of `benchmark.json`.
pub(super) fn of_estimates(
    document: &Value,
    path: &Path,
    beside: Option<&str>,
) -> Result<History, HistoryError> {
    let of_file = |expected: &str| unusable(TOOL, "file", expected);
    let is_change = path.parent().is_some_and(|folder| folder.ends_with("change"));
    if is_change || (document.get("std_dev").is_none() && document.get("StdDev").is_none()) {
        return Err(of_file(
            "the `estimates.json` of the folder `new`: this one has relative changes, or no estimates",
        ));
    }
    let found = estimate(document, "slope").or_else(|| estimate(document, "mean"));
    let ns = found.ok_or_else(|| of_file("a `point_estimate` over 0"))?;
    let subject = beside.and_then(name_in).or_else(|| name_of(path));
    let value = HistoryValue {
        at_unix_ns: None,
        metric: "time".to_owned(),
        unit: String::new(),
        subject,
        host: None,
        value: ns / 1e9,
        labels: Vec::new(),
    };
    Ok(History { tool: TOOL, values: vec![value], ..History::default() })
}

/// Name of the benchmark in `benchmark.json`. A second benchmark of the same name has another folder.
fn name_in(beside: &str) -> Option<String> {
    let beside = document(beside).ok()?;
    let (name, folder) = (text(&beside["full_id"])?, text(&beside["directory_name"]).unwrap_or_default());
    let safe = |part: &str| part.replace(['?', '"', '/', '\\', '*', '<', '>', ':', '|', '^'], "_");
    let parts = ["group_id", "function_id", "value_str"].map(|part| text(&beside[part]));
    let own: Vec<String> = parts.into_iter().flatten().map(|part| safe(&part)).collect();
    let number =
        folder.strip_prefix(&own.join("/")).and_then(|rest| rest.strip_prefix('_')?.parse::<u32>().ok());
    Some(number.map_or_else(|| name.clone(), |number| format!("{name} #{number}")))
}

/// Name of the benchmark with its files in `.../criterion/GROUP/FUNCTION/VALUE/BASELINE/estimates.json`;
/// `None` without criterion's folder.
fn name_of(path: &Path) -> Option<String> {
    let folders = path.parent()?.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let folders: Vec<String> = folders.collect();
    // A group, or the folder of the project, may have the same name.
    let is_output = |at: &usize| folders[*at] == "criterion" && *at > 0 && folders[at - 1] == "target";
    let from = (0..folders.len())
        .find(is_output)
        .or_else(|| folders.iter().rposition(|name| name == "criterion"))?;
    let name = &folders[from + 1..folders.len().saturating_sub(1).max(from + 1)];
    (!name.is_empty()).then(|| name.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_named_by_its_folders() {
        for (path, name) in [
            ("target/criterion/sort/quick/new/estimates.json", Some("sort/quick")),
            ("target/criterion/sort/quick/10/new/estimates.json", Some("sort/quick/10")),
            ("/x/target/criterion/hash/base/estimates.json", Some("hash")),
            ("/x/target/criterion/hash/before-the-change/estimates.json", Some("hash")),
            ("/criterion/target/criterion/criterion/new/estimates.json", Some("criterion")),
            ("/cache/criterion/a/b/new/estimates.json", Some("a/b")),
            ("a/b/c/estimates.json", None),
            ("criterion/estimates.json", None),
            ("estimates.json", None),
        ] {
            assert_eq!(name_of(Path::new(path)).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn the_file_beside_has_the_whole_name() {
        let beside = |folder: &str| {
            format!(
                r#"{{"group_id":"a:b","function_id":"f","value_str":null,"full_id":"a:b/f","directory_name":"{folder}"}}"#
            )
        };
        assert_eq!(name_in(&beside("a_b/f")).as_deref(), Some("a:b/f"));
        assert_eq!(name_in(&beside("a_b/f_2")).as_deref(), Some("a:b/f #2"));
        assert_eq!(name_in("{}"), None);
    }
}
