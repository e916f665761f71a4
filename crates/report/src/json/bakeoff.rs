//! `bakeoff.run/1` and `bakeoff.compare/1`: a bake-off and its verdicts.

use analysis::{Comparisons, Estimate, Pair};
use record::bakeoff::{Bakeoff, TrialState};
use serde_json::{Map, Value, json};

use super::object::Object;
use crate::words::configuration;

/// The document of a bake-off: how its cells and the attempts at them ended, and every verdict.
pub fn run(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Value {
    let ends: Vec<TrialState> = bakeoff.trials.iter().map(|t| end(bakeoff, t.index)).collect();
    let cells = |state| ends.iter().filter(|end| **end == state).count();
    json!({
        "schema": "bakeoff.run/1",
        "bakeoff": bakeoff.header.id.to_string(),
        "title": bakeoff.header.title,
        "state": bakeoff.header.state.word(),
        "exploratory": comparisons.exploratory,
        "cells": {
            "planned": bakeoff.trials.len(),
            "sealed": cells(TrialState::Sealed),
            "invalid": cells(TrialState::Invalid),
            "failed": cells(TrialState::Failed),
            "abandoned": cells(TrialState::Abandoned),
            "not_begun": cells(TrialState::Planned),
        },
        "attempts": {
            "made": bakeoff.attempts.len(),
            "sealed": bakeoff.attempts_that_ended(TrialState::Sealed),
            "invalid": bakeoff.attempts_that_ended(TrialState::Invalid),
            "failed": bakeoff.attempts_that_ended(TrialState::Failed),
            "abandoned": bakeoff.attempts_that_ended(TrialState::Abandoned),
        },
        "comparisons": pairs(comparisons),
    })
}

/// What a trial has come to: the attempt that measured it, or else the last one.
fn end(bakeoff: &Bakeoff, trial: u32) -> TrialState {
    let attempts = || bakeoff.attempts.iter().filter(|a| a.trial == trial).map(|a| a.state);
    let measured = |state: TrialState| attempts().find(|s| *s == state);
    measured(TrialState::Sealed)
        .or_else(|| measured(TrialState::Invalid))
        .or_else(|| attempts().next_back())
        .unwrap_or(TrialState::Planned)
}

/// The document of the verdicts alone.
pub fn compare(comparisons: &Comparisons) -> Value {
    json!({
        "schema": "bakeoff.compare/1",
        "alpha": comparisons.rules.alpha,
        "rope_ratio": comparisons.rules.rope_ratio,
        "exploratory": comparisons.exploratory,
        "family_size": comparisons.pairs.len(),
        "pairs": pairs(comparisons),
    })
}

fn pairs(comparisons: &Comparisons) -> Vec<Value> {
    comparisons.pairs.iter().map(pair).collect()
}

fn pair(pair: &Pair) -> Value {
    let estimate = |of: fn(&Estimate) -> f64| pair.estimate.as_ref().map(of).map_err(Clone::clone);
    let blocks: Map<String, Value> =
        pair.blocks.iter().map(|(block, ratio)| (block.to_string(), json!(ratio))).collect();
    Object::default()
        .with("a", configuration(&pair.a))
        .with("b", configuration(&pair.b))
        .with("a_levels", json!(pair.a))
        .with("b_levels", json!(pair.b))
        .with("levels", json!(pair.levels))
        .with("metric", pair.metric.word())
        .with("n", pair.n())
        .with("block_ratios", blocks)
        .maybe("ratio", estimate(|e| e.ratio))
        .maybe("low", estimate(|e| e.low))
        .maybe("high", estimate(|e| e.high))
        .maybe("low_adjusted", estimate(|e| e.low_adjusted))
        .maybe("high_adjusted", estimate(|e| e.high_adjusted))
        .maybe("low_equivalence", estimate(|e| e.low_equivalence))
        .maybe("high_equivalence", estimate(|e| e.high_equivalence))
        .maybe("p", estimate(|e| e.p))
        .maybe("p_adjusted", estimate(|e| e.p_adjusted))
        .maybe("p_sign_flip", estimate(|e| e.sign_flip.p))
        .maybe("sign_flip_exact", pair.estimate.as_ref().map(|e| e.sign_flip.exact).map_err(Clone::clone))
        .maybe("hodges_lehmann_ratio", estimate(|e| e.hodges_lehmann))
        .maybe("blocks_needed", pair.blocks_needed.clone())
        .with("verdict", pair.verdict.word())
        .finish()
}
