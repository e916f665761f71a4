//! The knee of response against rate.

use analysis::Comparisons;
use analysis::knee::{Knee, knees};
use record::bakeoff::Bakeoff;
use serde_json::{Value, json};

use super::object::Object;

/// The knee of every configuration; `None` for a bake-off without several rates.
pub(super) fn all(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Value> {
    let all = knees(bakeoff, comparisons);
    (!all.is_empty()).then(|| all.iter().map(one).collect())
}

fn one(knee: &Knee) -> Value {
    let bend = &knee.bend;
    let interval = bend.clone().and_then(|bend| bend.interval_per_s);
    let ns =
        |of: fn(&analysis::knee::Bend) -> f64| bend.as_ref().map(|bend| of(bend) * 1e9).map_err(Clone::clone);
    Object::default()
        .with("a", json!(knee.a))
        .with("levels", json!(knee.levels))
        .with("rates_per_s", knee.rates_per_s.clone())
        .with("blocks", knee.blocks)
        .maybe("knee_per_s", bend.as_ref().map(|bend| bend.per_s).map_err(Clone::clone))
        .maybe("low_per_s", interval.clone().map(|(low, _)| low))
        .maybe("high_per_s", interval.map(|(_, high)| high))
        .maybe("p99_ns", ns(|bend| bend.p99_s))
        .maybe("p99_at_highest_ns", ns(|bend| bend.p99_at_highest_s))
        .finish()
}
