//! `hyperfine --export-json`. It has no dates.

use serde_json::Value;

use super::json::{list, number, text, unusable};
use super::value::{History, HistoryError, HistoryValue};

const TOOL: &str = "hyperfine";

/// Mean times by command.
pub(super) fn read(document: &Value) -> Result<History, HistoryError> {
    let mut history = History { tool: TOOL, ..History::default() };
    for result in list(document, "results", TOOL)? {
        let subject = text(&result["command"]).ok_or_else(|| unusable(TOOL, "results", "a `command`"))?;
        let mean = number(&result["mean"]).ok_or_else(|| unusable(TOOL, &subject, "a number `mean`"))?;
        let failed = result["exit_codes"].as_array().into_iter().flatten().filter(|code| **code != 0).count();
        if failed > 0 {
            history.notes.push(format!("{subject}: {failed} runs failed and are included in the mean"));
        }
        let value = |metric: &str, value: f64| HistoryValue {
            at_unix_ns: None,
            metric: metric.to_owned(),
            subject: Some(subject.clone()),
            host: None,
            value,
            labels: Vec::new(),
        };
        history.values.push(value("time", mean));
        if let (Some(user), Some(system)) = (number(&result["user"]), number(&result["system"])) {
            history.values.push(value("cpu-time", user + system));
        }
    }
    Ok(history)
}
