//! A bake-off compares configurations in blocks, in random order.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::environment::Environment;
use crate::gate::Gate;
pub use crate::metric::{Metric, Scale};
use crate::run::{Run, RunHeader, RunState, words};

/// Variable of the design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Name: `allocator`.
    pub name: String,
    /// Values, in the order of the plan.
    pub values: Vec<String>,
    /// Value that the others are compared with, if the plan compares them.
    pub reference: Option<String>,
    /// Level of the design at which it varies.
    pub plot: Plot,
}

/// Level of a split-plot design at which a factor varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plot {
    /// A change needs a fresh, rebuilt, warmed server: the unit of replication is the series.
    Whole,
    /// Varies within one warmed series.
    Sub,
}

words!(Plot { Whole = "whole-plot", Sub = "sub-plot" });

/// Most trials of a bake-off. Only a mistake exceeds it: with trials of a minute, it takes a month.
pub const TRIALS_MAX: u32 = 50_000;

/// One value of each factor, by the factor's name.
pub type Levels = BTreeMap<String, String>;

/// One cell of the design in one block: the smallest unit of measurement, in the order drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Position in the order drawn, from 0.
    pub index: u32,
    /// Block, from 1.
    pub block: u32,
    /// Series (one fresh server) over the whole bake-off, from 1.
    pub series: u32,
    /// Position within its series, from 1.
    pub position: u32,
    /// Value of every factor.
    pub levels: Levels,
}

/// Label, with the value `yes`, of a run that was measured without instruments to show what they cost.
pub const CONTROL_ARM: &str = "control-arm";

/// Prefix of the facts of a run that name a disturbance and tell of it: `trial.flag.other-work`.
pub const FLAG: &str = "trial.flag.";

/// Number of failures after which a trial has failed for good.
pub const FAILURES_MAX: u32 = 2;

/// Outcome of an attempt at a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialState {
    /// Not started.
    Planned,
    /// Measured, valid, stored.
    Sealed,
    /// Measured, but not fit for comparison.
    Invalid,
    /// Could not be measured.
    Failed,
    /// Started by a process that died before the end.
    Abandoned,
    /// Measured, but the archive's data differ from what was written.
    Damaged,
}

/// State of a bake-off after all its trials: it has a result only if at least one trial is sealed.
///
/// - `ends`: outcomes of the trials, in any order; may include earlier attempts.
pub fn state_when_done(ends: impl IntoIterator<Item = TrialState>) -> RunState {
    let ends: Vec<TrialState> = ends.into_iter().collect();
    let best = [TrialState::Sealed, TrialState::Invalid, TrialState::Failed];
    match best.into_iter().find(|state| ends.contains(state)) {
        Some(TrialState::Invalid) => RunState::Invalid,
        Some(TrialState::Failed) => RunState::Failed,
        _ => RunState::Sealed,
    }
}

words!(TrialState {
    Planned = "planned",
    Sealed = "sealed",
    Invalid = "invalid",
    Failed = "failed",
    Abandoned = "abandoned",
    Damaged = "damaged",
});

/// One attempt at a trial. A repeated trial has several attempts; at most one is sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Index of the trial.
    pub trial: u32,
    /// Outcome.
    pub state: TrialState,
    /// Reason if it is not sealed.
    pub reason: Option<String>,
    /// Measurements, if there are any.
    pub run: Option<Run>,
}

/// Rules for the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// Region of practical equivalence: a difference within this share counts as none.
    pub rope_ratio: f64,
    /// Accepted family-wise rate of false alarms.
    pub alpha: f64,
    /// Family of comparisons, in the plan's words: `allocator vs reference at each threads`.
    pub family: String,
    /// Compared metrics.
    pub metrics: Vec<Metric>,
    /// Conditions on the result, in the order of the plan.
    pub gates: Vec<Gate>,
    /// Whether a configuration is dropped as soon as it is beaten.
    pub sequential: bool,
}

/// Share of alpha for dropping, in a sequential design.
pub const SEQUENTIAL_SHARE: f64 = 0.2;

impl Judge {
    /// Rate of false alarms that is left for the judgement at the end.
    pub fn alpha_at_end(&self) -> f64 {
        if self.sequential { self.alpha_by(1.0 - SEQUENTIAL_SHARE) } else { self.alpha }
    }

    /// Rate of false alarms of dropping, in a sequential design.
    pub fn alpha_of_dropping(&self) -> f64 {
        self.alpha_by(SEQUENTIAL_SHARE)
    }

    /// Share of alpha without the last digits, which binary fractions leave: it is printed.
    fn alpha_by(&self, share: f64) -> f64 {
        (self.alpha * share * 1e12).round() / 1e12
    }
}

/// Smallest p that the exact sign-flip test over `blocks` blocks can yield: 2 of 2^R.
pub fn smallest_p(blocks: u32) -> f64 {
    2.0 * 0.5_f64.powi(i32::try_from(blocks).unwrap_or(i32::MAX))
}

/// Fewest blocks for which the exact sign-flip test can reach `alpha`: 6 at 5 %.
///
/// - `alpha`: in (0, 1).
pub fn blocks_min(alpha: f64) -> u32 {
    /// Upper limit: beyond it, the smallest p is not a normal number.
    const MAX: u32 = 1_000;
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is a share in (0, 1): {alpha}");
    (2..MAX).find(|&blocks| smallest_p(blocks) <= alpha).unwrap_or(MAX)
}

/// The author's text for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Sponsor of the bake-off.
    pub sponsor: Option<String>,
    /// `base` or `peak`.
    pub tuning: Option<String>,
    /// Key points and best practices, the author's own text (Markdown).
    pub notes: Option<String>,
}

/// A bake-off with all its measurements, as read from the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Bakeoff {
    /// Name, state, start.
    pub header: RunHeader,
    /// The question in the author's words.
    pub question: String,
    /// Whether it has too few blocks for a claim at its alpha.
    pub exploratory: bool,
    /// Factors.
    pub factors: Vec<Factor>,
    /// Number of blocks.
    pub blocks: u32,
    /// Random seed of the order.
    pub seed: u64,
    /// Trials in the order drawn.
    pub trials: Vec<Trial>,
    /// Attempts in chronological order.
    pub attempts: Vec<Attempt>,
    /// Rules for the comparison.
    pub judge: Judge,
    /// The author's text for the report.
    pub page: Page,
    /// Length of the measured phase of a trial.
    pub measure: Duration,
    /// Length of the warm-up before it.
    pub warmup: Duration,
    /// The machine.
    pub environment: Environment,
    /// Plan text as the user wrote it.
    pub plan_text: String,
    /// SHA-256 of the plan text.
    pub plan_sha256: String,
}

impl Bakeoff {
    /// Sealed runs with their trials, in the order drawn.
    pub fn sealed(&self) -> impl Iterator<Item = (&Trial, &Run)> {
        let mut first: BTreeMap<u32, &Attempt> = BTreeMap::new();
        for attempt in self.attempts.iter().filter(|a| a.state == TrialState::Sealed) {
            first.entry(attempt.trial).or_insert(attempt);
        }
        self.trials.iter().filter_map(move |trial| Some((trial, first.get(&trial.index)?.run.as_ref()?)))
    }

    /// Attempts of each trial that has any, in chronological order.
    pub fn attempts_by_trial(&self) -> BTreeMap<u32, Vec<&Attempt>> {
        let mut all: BTreeMap<u32, Vec<&Attempt>> = BTreeMap::new();
        for attempt in &self.attempts {
            all.entry(attempt.trial).or_default().push(attempt);
        }
        all
    }

    /// Number of attempts with this outcome.
    pub fn attempts_that_ended(&self, state: TrialState) -> usize {
        self.attempts.iter().filter(|a| a.state == state).count()
    }

    /// First factor with a reference value.
    pub fn compared_factor(&self) -> Option<&Factor> {
        self.factors.iter().find(|f| f.reference.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_blocks_are_the_fewest_for_five_percent() {
        assert_eq!([0.05, 0.01, 0.5].map(blocks_min), [6, 8, 2]);
        assert!((smallest_p(5) - 0.0625).abs() < 1e-15 && (smallest_p(6) - 0.031_25).abs() < 1e-15);
    }
}
