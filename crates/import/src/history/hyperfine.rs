//! `hyperfine --export-json`. It has no dates.

use serde_json::Value;

use super::json::{Names, list, number, part, text, time, unusable};
use super::value::{History, HistoryError};

const TOOL: &str = "hyperfine";

/// Mean times by command and parameters, and the memory if the file has it.
///
/// - `with_failures`: whether a command that failed has a time, too.
pub(super) fn read(document: &Value, with_failures: bool) -> Result<History, HistoryError> {
    let mut history = History { tool: TOOL, ..History::default() };
    let mut names = Names::default();
    for result in list(document, "results", TOOL)? {
        let name = names.of(name_of(result)?, &mut history.notes);
        // `null` stands for a signal.
        let codes = result["exit_codes"].as_array().map_or(&[][..], Vec::as_slice);
        let failed = codes.iter().filter(|code| **code != 0).count();
        if failed > 0 && with_failures {
            history.notes.push(format!("{name}: {failed} of {} runs failed", codes.len()));
        } else if failed > 0 {
            let why = format!("{failed} of {} runs failed (--ignore-failure includes them)", codes.len());
            history.leave_out(&name, &why);
            continue;
        }
        let has_no_times = result["times"].as_array().is_some_and(Vec::is_empty);
        let Some(mean) = time(&result["mean"]).filter(|_| !has_no_times) else {
            history.leave_out(&name, "its `mean` is not a time over 0, up to 1e60");
            continue;
        };
        history.put(None, &name, "time", mean);
        if let (Some(user), Some(system)) = (part(&result["user"]), part(&result["system"])) {
            history.put(None, &name, "cpu-time", user + system);
        }
        let memory = result["memory_usage_byte"].as_array().map_or(&[][..], Vec::as_slice);
        let bytes: Vec<f64> = memory.iter().filter_map(number).filter(|bytes| *bytes > 0.0).collect();
        if !bytes.is_empty() && bytes.len() == memory.len() {
            history.put(None, &name, "memory_bytes", bytes.iter().sum::<f64>() / bytes.len() as f64);
        }
    }
    Ok(history)
}

/// The command with its parameters, which the name of `--command-name` need not contain: `sort (n=10)`.
fn name_of(result: &Value) -> Result<String, HistoryError> {
    let command = text(&result["command"]).ok_or_else(|| unusable(TOOL, "results", "a `command`"))?;
    let Some(parameters) = result["parameters"].as_object().filter(|all| !all.is_empty()) else {
        return Ok(command);
    };
    let mut parameters: Vec<String> = parameters
        .iter()
        .map(|(name, value)| {
            format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    parameters.sort();
    Ok(format!("{command} ({})", parameters.join(", ")))
}
