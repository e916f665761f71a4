//! The key `throttled` of every document of a measurement.

use record::bakeoff::Bakeoff;
use record::limits::{Throttled, not_watched};
use record::missing::Maybe;
use serde_json::{Value, json};

/// The value of the key.
pub(crate) fn throttled(found: &Maybe<Throttled>) -> Maybe<Value> {
    found.as_ref().map(one).map_err(Clone::clone)
}

/// Builds the document of the quotas that took effect in an interval.
pub fn throttled_groups(found: &[Throttled]) -> Value {
    found.iter().map(one).collect()
}

fn one(t: &Throttled) -> Value {
    json!({"periods": t.periods, "time_s": t.time_ns as f64 * 1e-9, "cgroup": t.cgroup})
}

/// The value for a run of many trials: the sum over all measured trials, including those that throttling made
/// INVALID.
pub(crate) fn of_all(bakeoff: &Bakeoff) -> Maybe<Value> {
    let all = bakeoff.attempts.iter().filter_map(|attempt| Some(attempt.run.as_ref()?.throttled.clone()));
    throttled(&all.reduce(|a, b| Ok(a?.and(b?))).unwrap_or_else(|| Err(not_watched())))
}

/// Adds the key to a document; a missing value carries its reason.
pub(crate) fn put(document: &mut Value, found: Maybe<Value>) {
    match found {
        Ok(value) => document["throttled"] = value,
        Err(missing) => {
            document["throttled"] = Value::Null;
            document["missing"]["throttled"] = json!(missing.reason);
        }
    }
}
