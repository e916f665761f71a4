//! Converts a tree of stored values to rows of a table, one for each number.
//!
//! The names of its fields form a number's name. Texts next to it, and numbers that identify something (a
//! CPU, a process), become labels. Missing values have no row.

use serde::Serialize;
use serde_json::Value;

/// A number of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: f64,
}

/// Fields that identify something.
const IDENTITIES: [&str; 6] = ["cpu", "pid", "tid", "address", "major", "minor"];
/// Fields that the row holds elsewhere, or that are not measurements.
const LEFT_OUT: [&str; 4] = ["missing", "from_ns", "until_ns", "schema"];

/// Every number in `form`.
pub(super) fn leaves(prefix: &str, form: &impl Serialize) -> Vec<Leaf> {
    let mut found = Vec::new();
    // Stored values can be serialized: they have been before.
    if let Ok(value) = serde_json::to_value(form) {
        walk(prefix, &value, &[], &mut found);
    }
    found
}

fn walk(name: &str, value: &Value, labels: &[(String, String)], found: &mut Vec<Leaf>) {
    let mut leaf = |value: f64| found.push(Leaf { name: name.to_owned(), labels: labels.to_vec(), value });
    match value {
        Value::Null | Value::String(_) => {}
        Value::Bool(is) => leaf(f64::from(u8::from(*is))),
        Value::Number(number) => leaf(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                match item {
                    Value::Object(_) => walk(name, item, labels, found),
                    // A bucket: its lowest value, and its count.
                    Value::Array(pair) if pair.len() == 2 => {
                        walk(name, &pair[1], &with(labels, "bucket", &pair[0]), found);
                    }
                    _ => walk(name, item, &with(labels, "index", &index.into()), found),
                }
            }
        }
        Value::Object(fields) => {
            let mut labels = labels.to_vec();
            for (key, value) in fields.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
                match value {
                    Value::String(_) => labels = with(&labels, key, value),
                    Value::Number(_) if IDENTITIES.contains(&key.as_str()) => {
                        labels = with(&labels, key, value);
                    }
                    Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => {
                        let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                        labels.push((key.clone(), texts.join(";")));
                    }
                    _ => {}
                }
            }
            for (key, value) in fields.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
                if IDENTITIES.contains(&key.as_str()) && value.is_number() {
                    continue;
                }
                if key.parse::<u64>().is_ok() {
                    walk(name, value, &with(&labels, "bucket", &Value::String(key.clone())), found);
                } else if value.is_array() && value.as_array().is_some_and(|a| a.iter().any(Value::is_object))
                {
                    // The list's name adds nothing to the names of its rows.
                    walk(name, value, &labels, found);
                } else {
                    // `latency_ns` of `max_ns` is one time with one unit.
                    let name =
                        if key.ends_with("_ns") { name.strip_suffix("_ns").unwrap_or(name) } else { name };
                    walk(&format!("{name}_{key}"), value, &labels, found);
                }
            }
        }
    }
}

fn with(labels: &[(String, String)], name: &str, value: &Value) -> Vec<(String, String)> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut labels = labels.to_vec();
    labels.push((name.to_owned(), text));
    labels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_number_has_a_row_and_what_names_it_is_a_label() {
        let tree = json!({
            "until_ns": 7,
            "rung": "bpf",
            "cpus": [{"cpu": 3, "event_ratio": 0.5, "top": {"tid": 9, "comm": "x", "ratio": 0.25}, "switches": null,
                      "missing": {"switches": "why"}}],
            "size_bytes": {"512": 2, "1024": 1},
            "stack": ["a", "b"],
            "latency_ns": {"count": 4, "max_ns": 8},
        });
        let found: Vec<String> = leaves("cpu", &tree)
            .into_iter()
            .map(|leaf| {
                let labels: Vec<String> =
                    leaf.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{}{{{}}} {}", leaf.name, labels.join(","), leaf.value)
            })
            .collect();
        assert_eq!(
            found,
            [
                "cpu_event_ratio{rung=bpf,stack=a;b,cpu=3} 0.5",
                "cpu_top_ratio{rung=bpf,stack=a;b,cpu=3,comm=x,tid=9} 0.25",
                "cpu_latency_ns_count{rung=bpf,stack=a;b} 4",
                "cpu_latency_max_ns{rung=bpf,stack=a;b} 8",
                "cpu_size_bytes{rung=bpf,stack=a;b,bucket=1024} 1",
                "cpu_size_bytes{rung=bpf,stack=a;b,bucket=512} 2",
            ]
        );
    }
}
