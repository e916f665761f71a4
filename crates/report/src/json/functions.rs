//! The functions behind the differences of a bake-off.

use analysis::functions::{FunctionDifference, Functions, Profiled, Share, SideFacts};
use record::missing::Maybe;
use serde_json::{Value, json};

use super::object::Object;
use crate::functions::verdict;

/// The comparisons of profiles; `None` for a bake-off without profiles.
pub(super) fn profiles(profiled: &Profiled, alpha: f64) -> Option<Value> {
    let has_any = !profiled.pairs.is_empty() || !profiled.left_out.is_empty();
    has_any.then(|| {
        json!({
            "alpha": alpha,
            "family_size": profiled.family,
            "pairs": profiled.pairs.iter().map(pair).collect::<Vec<_>>(),
            "left_out": profiled.left_out,
        })
    })
}

fn pair(pair: &Functions) -> Value {
    let [a, b] = &pair.sides;
    Object::default()
        .with("kind", pair.kind.word())
        .with("of", pair.of.word())
        .with("a", json!(pair.a))
        .with("b", json!(pair.b))
        .with("levels", json!(pair.levels))
        .with("blocks", pair.blocks)
        .with("a_profiles", side(a))
        .with("b_profiles", side(b))
        .with("refused", pair.refused.as_ref().map(|why| why.reason.clone()))
        .with("whole", function(&pair.whole))
        .with("functions", pair.functions.iter().map(function).collect::<Vec<_>>())
        .finish()
}

fn side(of: &SideFacts) -> Value {
    json!({
        "runs": of.runs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "events": of.events,
        "samples": of.samples,
        "lost": of.lost,
        "summed_ratio": of.summed_ratio,
        "unnamed_ratio": of.unnamed_ratio,
        "without_callers_ratio": of.without_callers_ratio,
    })
}

fn function(f: &FunctionDifference) -> Value {
    let estimate = |of: fn(&analysis::Estimate) -> f64| -> Maybe<f64> {
        f.estimate.as_ref().map(|e| of(e).ln()).map_err(Clone::clone)
    };
    let share = |of: Share| json!({"ratio": of.ratio, "half_ratio": of.half});
    let named = Object::default();
    let named = if f.name.is_empty() { named } else { named.with("function", f.name.as_str()) };
    named
        .with("a_ns_per_event", f.ns_per_event[0])
        .with("b_ns_per_event", f.ns_per_event[1])
        .with("a_share", share(f.share[0]))
        .with("b_share", share(f.share[1]))
        .with("a_samples", f.samples[0])
        .with("b_samples", f.samples[1])
        .with("difference_ratio", f.difference_ratio)
        .maybe("low_ratio", estimate(|e| e.low))
        .maybe("high_ratio", estimate(|e| e.high))
        .maybe("low_adjusted_ratio", estimate(|e| e.low_adjusted))
        .maybe("high_adjusted_ratio", estimate(|e| e.high_adjusted))
        .maybe("p", f.estimate.as_ref().map(|e| e.p).map_err(Clone::clone))
        .maybe("p_adjusted", f.estimate.as_ref().map(|e| e.p_adjusted).map_err(Clone::clone))
        .with("time", verdict(f))
        .finish()
}
