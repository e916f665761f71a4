//! `bakeoff.compare/1`: archived runs against each other.

use analysis::sides::{Side, SidePair, Sided};
use serde_json::{Value, json};

use super::commands::with_estimate;
use super::object::Object;
use crate::differing::Difference;
use crate::number::plain;
use crate::text::{side_sentence, sides_answer};

/// The document. What differs between the sides comes first.
pub fn sides(sides: &[Side], differing: &[Difference], reference: usize, sided: &Sided) -> Value {
    json!({
        "schema": "bakeoff.compare/1",
        "differs": differing.iter().map(difference).collect::<Vec<_>>(),
        "caveats": sided.caveats,
        "sides": sides.iter().map(side).collect::<Vec<_>>(),
        "reference": sides[reference].name,
        "alpha": sided.rules.alpha,
        "level": 1.0 - sided.rules.alpha,
        "rope_ratio": sided.rules.rope_ratio,
        "family_size": sided.pairs.len(),
        "pairs": sided.pairs.iter().map(|p| pair(sides, sided, p)).collect::<Vec<_>>(),
        "gates": super::gates::gates(&sided.gates),
        "answer": sides_answer(sides, sided),
    })
}

fn difference(of: &Difference) -> Value {
    let values = of.values.iter().map(|(side, values)| json!({"side": side, "values": values}));
    json!({"what": of.what, "of_machine": of.of_machine, "values": values.collect::<Vec<_>>()})
}

fn side(side: &Side) -> Value {
    json!({"name": side.name, "values": side.observations.len(), "lost": side.lost, "bakeoffs": side.bakeoffs})
}

fn pair(sides: &[Side], sided: &Sided, pair: &SidePair) -> Value {
    let plain = |value: f64| plain(pair.metric, value);
    with_estimate(Object::default(), pair.metric, &pair.estimate)
        .with("a", sides[pair.a].name.clone())
        .with("b", sides[pair.b].name.clone())
        .with("condition", pair.condition.clone())
        .with("metric", pair.metric.word())
        .with("unit", pair.metric.unit())
        .with("level", 1.0 - sided.rules.alpha)
        .maybe("a_mean", pair.means.0.clone().map(plain))
        .maybe("b_mean", pair.means.1.clone().map(plain))
        .with("a_runs", pair.n.0)
        .with("b_runs", pair.n.1)
        .with("blocks", pair.n.0.min(pair.n.1))
        .maybe("blocks_needed", pair.runs_needed.clone())
        .with("family", sided.pairs.len())
        .with("verdict", pair.verdict.word())
        .with("answer", side_sentence(sides, sided, pair))
        .finish()
}
