//! The noise that a pilot found, and the designs that it allows.

use analysis::noise::{Noise, Subject};
use record::missing::{Maybe, Missing};
use serde_json::{Value, json};

use super::object::Object;
use crate::noise::{Cost, Wanted, designs};

/// Sources of the noise of a bake-off, with their shares of it. Causes are a part of that within trials.
pub(super) fn sources(noise: &Noise) -> Vec<Value> {
    let of = |(source, share, evidence): (&str, Maybe<f64>, String)| {
        Object::default()
            .with("source", source)
            .maybe("share_ratio", share)
            .with("evidence", evidence)
            .finish()
    };
    crate::noise::sources(noise).into_iter().map(of).collect()
}

/// An object: shares of variance, what the plan finds, and designs that find a difference as large as its
/// region of practical equivalence beyond it.
pub fn noise(noise: &Noise, cost: &Cost, wanted: &Wanted) -> Value {
    let goal = &wanted.goal;
    let no_claim = || Missing::because("the plan's blocks allow no claim");
    let designs: Vec<Value> = designs(noise, goal)
        .iter()
        .map(|one| {
            json!({
                "blocks": one.blocks,
                "measured_s": one.trial_s,
                "half_width_ratio": one.half_width,
                "time_s": cost.of(one),
                "time_s_max": cost.at_most(one),
            })
        })
        .collect();
    let share = |variance: f64| if noise.variance > 0.0 { variance / noise.variance } else { 0.0 };
    Object::default()
        .with("of", if noise.of == Subject::Throughput { "throughput" } else { "mean-latency" })
        .with("trials", noise.trials)
        .with("measured_s", noise.trial_s)
        .with("sd_ln", noise.variance.sqrt())
        .maybe("between_series_ratio", noise.between_series.clone().map(share))
        .with("between_trials_ratio", share(noise.between_trials))
        .with("within_trials_ratio", share(noise.within))
        .maybe("within_by_steal_ratio", noise.steal_ratio.clone())
        .maybe("within_by_placement_ratio", noise.placement_ratio.clone())
        .maybe("within_by_io_ratio", noise.io.clone().map(|io| io.ratio))
        .maybe("io_correlation", noise.io.clone().map(|io| io.correlation))
        .maybe("io_evidence", noise.io.clone().map(|io| io.by.word()))
        .with("series_s", cost.of_series_s)
        .maybe(
            "found_beyond_rope_ratio",
            noise.found(wanted.trial_s, wanted.blocks, goal).ok_or_else(no_claim),
        )
        .with("wanted_beyond_rope_ratio", goal.beyond)
        .with("power", analysis::power::POWER)
        .with("comparisons", goal.comparisons)
        .with("alpha", goal.alpha)
        .with("designs", designs)
        .finish()
}
