//! Gates in the document of a bake-off.

use analysis::{GateComparison, GateResult};
use record::bakeoff::Metric;
use record::missing::Maybe;
use serde_json::{Value, json};

use super::object::Object;
use crate::number::plain;
use crate::words::configuration;

/// The gates with their comparisons, in the order of the plan.
pub(super) fn gates(results: &[GateResult]) -> Vec<Value> {
    results.iter().map(gate).collect()
}

fn gate(result: &GateResult) -> Value {
    json!({
        "gate": result.gate.to_string(),
        "metric": result.gate.metric.word(),
        "rule": result.gate.rule.to_string(),
        "on_inconclusive": result.gate.on_inconclusive.word(),
        "found": result.found.word(),
        "outcome": result.outcome.word(),
        "unit": result.unit.word(),
        "comparisons": result.comparisons.iter().map(|of| comparison(result.gate.metric, of)).collect::<Vec<_>>(),
    })
}

/// Values are ratios to the reference, or amounts in seconds or per second.
fn comparison(metric: Metric, of: &GateComparison) -> Value {
    let value = |value: &Maybe<f64>| value.clone().map(|value| plain(metric, value));
    Object::default()
        .with("a", configuration(&of.configuration))
        .with("a_levels", json!(of.configuration))
        .with("levels", json!(of.levels))
        .with("blocks", of.blocks)
        .maybe("value", value(&of.value))
        .maybe("low", value(&of.low))
        .maybe("high", value(&of.high))
        .with("outcome", of.outcome.word())
        .with("reason", of.why.as_ref().map(|why| why.reason.clone()))
        .finish()
}
