//! `bakeoff.aa/1`: false verdicts among equal configurations.

use analysis::aa::FalseVerdicts;
use record::run::RunId;
use serde_json::{Value, json};

/// The document of a false-alarm rate.
///
/// - `bakeoffs`: the bake-offs that were judged; empty for a simulation.
/// - `not_judged`: bake-offs that made no claims, because trials were lost.
pub fn aa(found: &FalseVerdicts, bakeoffs: &[RunId], not_judged: u32) -> Value {
    json!({
        "schema": "bakeoff.aa/1",
        "families": found.families,
        "false_verdicts": found.wrong,
        "rate": found.rate(),
        "low": found.interval.0,
        "high": found.interval.1,
        "limit": found.limit,
        "is_broken": found.is_broken(),
        "bakeoffs": bakeoffs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "not_judged": not_judged,
    })
}
