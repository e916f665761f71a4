//! Fields of foreign documents.

use serde_json::Value;

use super::value::HistoryError;

/// A finite number.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

/// A text that is not empty.
pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Entries of a list that a document must have.
pub(super) fn list<'a>(
    document: &'a Value,
    name: &str,
    tool: &'static str,
) -> Result<&'a [Value], HistoryError> {
    let found = document[name].as_array().filter(|all| !all.is_empty());
    found.map(Vec::as_slice).ok_or_else(|| {
        let what = format!("found no entries in `{name}`, expected at least one result");
        HistoryError::Unusable { tool, what }
    })
}

/// Error of an entry.
pub(super) fn unusable(tool: &'static str, name: &str, expected: &str) -> HistoryError {
    HistoryError::Unusable { tool, what: format!("{name}: expected {expected}") }
}
