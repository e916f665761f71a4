//! Fields of foreign documents.

use std::collections::BTreeMap;

use record::unit::NUMBER_MAX;
use serde_json::Value;

use super::value::{History, HistoryError, HistoryValue};

/// A document. Google Benchmark and Python write `NaN` and `Infinity`, which JSON lacks: they are `null`.
pub(super) fn document(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&without_nan(text)).map_err(|_| error))
}

/// The text with `null` for each `NaN` and `Infinity` outside of strings.
fn without_nan(text: &str) -> String {
    const NO_NUMBER: [&str; 4] = ["nan", "inf", "infinity", "-infinity"];
    let (mut out, mut word) = (String::with_capacity(text.len()), String::new());
    let (mut is_string, mut is_escaped) = (false, false);
    for c in text.chars().chain(['\n']) {
        if !is_string && (c.is_ascii_alphabetic() || c == '-') {
            word.push(c);
            continue;
        }
        let plain = word.to_lowercase();
        let is_number =
            !NO_NUMBER.contains(&plain.as_str()) && !NO_NUMBER.contains(&plain.trim_start_matches('-'));
        out += if is_number { &word } else { "null" };
        word.clear();
        is_string ^= c == '"' && !is_escaped;
        is_escaped = is_string && c == '\\' && !is_escaped;
        out.push(c);
    }
    out
}

/// A number that a measurement can be.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.abs() <= NUMBER_MAX)
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

/// Divisor that makes seconds of numbers in a unit of time.
pub(super) fn per_second(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e9),
        "us" | "\u{b5}s" => Some(1e6),
        "ms" => Some(1e3),
        "s" => Some(1.0),
        _ => None,
    }
}

/// Names of the results of a file, with the number that the next result of the name gets: a second result of
/// one name is another benchmark.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, u64>);

impl Names {
    /// The name; of a second result with it, `name #2`.
    pub(super) fn of(&mut self, name: String, notes: &mut Vec<String>) -> String {
        let mut numbered = name.clone();
        let mut number = self.0.get(&name).copied().unwrap_or(1);
        while self.0.contains_key(&numbered) {
            numbered = format!("{name} #{number}");
            number += 1;
        }
        if numbered != name {
            notes.push(format!("another result is named `{name}`, too: it is `{numbered}`"));
            self.0.insert(name, number);
        }
        self.0.insert(numbered.clone(), 2);
        numbered
    }
}

impl History {
    /// Adds a value of a benchmark; a negative time or count is a fault of the file.
    pub(super) fn put(&mut self, at_unix_ns: Option<u64>, subject: &str, metric: &str, value: f64) {
        self.values.push(HistoryValue {
            at_unix_ns,
            metric: metric.to_owned(),
            unit: String::new(),
            subject: Some(subject.to_owned()),
            host: None,
            value,
            labels: Vec::new(),
        });
    }

    /// Notes that a benchmark has no value.
    pub(super) fn leave_out(&mut self, name: &str, why: &str) {
        self.notes.push(format!("{name} is left out: {why}"));
    }
}

/// A time that was measured: a number over 0.
pub(super) fn time(value: &Value) -> Option<f64> {
    number(value).filter(|time| *time > 0.0)
}

/// A share of a time, which may be 0: no tick fell into it.
pub(super) fn part(value: &Value) -> Option<f64> {
    number(value).filter(|time| *time >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_missing_and_texts_stay() {
        let text = r#"{"a": NaN, "b": [-NaN, -Infinity, Infinity, inf, -1.5e-5, 1E+3], "NaN": "x \" NaN, -inf", "t": true}"#;
        let read = document(text).unwrap();
        let b: Vec<Option<f64>> = read["b"].as_array().unwrap().iter().map(number).collect();
        assert_eq!((number(&read["a"]), b), (None, vec![None, None, None, None, Some(-1.5e-5), Some(1e3)]));
        assert_eq!((read["NaN"].as_str(), read["t"].as_bool()), (Some("x \" NaN, -inf"), Some(true)));
        let large = document("[1e308, -1e61, 1e60]").unwrap();
        assert_eq!([0, 1, 2].map(|i| number(&large[i])), [None, None, Some(1e60)]);
        assert!(document("[1, nul]").is_err() && document("[1,").is_err());
    }

    #[test]
    fn results_of_one_name_get_names() {
        let (mut names, mut notes) = (Names::default(), Vec::new());
        let all: Vec<String> =
            ["x", "x #2", "x", "y", "x"].map(|name| names.of(name.to_owned(), &mut notes)).to_vec();
        assert_eq!(all, ["x", "x #2", "x #3", "y", "x #4"]);
        assert_eq!(notes.len(), 2);
    }
}
