//! A bake-off: configurations against each other, in blocks, in random order.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::environment::Environment;
use crate::run::{Run, RunHeader, RunState, words};

/// Something that is varied on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Its name: `allocator`.
    pub name: String,
    /// Its values, as the plan orders them.
    pub values: Vec<String>,
    /// The value that the others are compared with, where the plan compares them.
    pub reference: Option<String>,
    /// At which level of the design it is varied.
    pub plot: Plot,
}

/// At which level of a split-plot design a factor is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plot {
    /// Changing it needs a fresh, rebuilt, warmed server: the unit of replication is the series.
    Whole,
    /// It is varied within one warmed series.
    Sub,
}

words!(Plot { Whole = "whole-plot", Sub = "sub-plot" });

/// One value of each factor, by the factor's name.
pub type Levels = BTreeMap<String, String>;

/// One cell of the design in one block: the smallest thing that is measured, in the order drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Its place in the order drawn, from 0.
    pub index: u32,
    /// The block, from 1.
    pub block: u32,
    /// The series (one fresh server) over the whole bake-off, from 1.
    pub series: u32,
    /// The place within its series, from 1.
    pub position: u32,
    /// Its value of every factor.
    pub levels: Levels,
}

/// How an attempt at a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialState {
    /// Not begun.
    Planned,
    /// Measured, valid, kept.
    Sealed,
    /// Measured, not fit for comparison.
    Invalid,
    /// It could not be measured.
    Failed,
    /// Begun, and left behind by a process that died.
    Abandoned,
    /// Measured, but what the archive holds of it is not what was written.
    Damaged,
}

/// The state of a bake-off whose trials have all ended: it has a result only if a trial of it is sealed.
///
/// - `ends`: how its trials ended, in any order; earlier attempts at them may stand among these.
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

/// One attempt at a trial. A trial that was redone has several, of which at most one is sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The trial's index.
    pub trial: u32,
    /// How it ended.
    pub state: TrialState,
    /// Why it is not sealed.
    pub reason: Option<String>,
    /// What was measured, where anything was.
    pub run: Option<Run>,
}

/// How a bake-off is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// Differences inside this share are no difference: the region of practical equivalence.
    pub rope_ratio: f64,
    /// The family-wise rate of false alarms that is accepted.
    pub alpha: f64,
    /// What is compared, in the plan's words: `allocator vs reference at each threads`.
    pub family: String,
    /// What is judged.
    pub metrics: Vec<Metric>,
}

/// A number by which configurations are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Done events per second.
    Throughput,
    /// 99th percentile of response time; of service time in a closed loop.
    P99,
    /// CPU time of the server's own tasks per done event.
    CpuPerEvent,
}

words!(Metric { Throughput = "throughput", P99 = "p99", CpuPerEvent = "cpu-per-event" });

impl Metric {
    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// The fewest events of a trial from which the metric is judged.
    ///
    /// 10,000 events leave 100 beyond their p99. With fewer, the p99 of a sample depends on the number of its events, so
    /// that a slower configuration has another bias than a faster one.
    pub fn events_min(self) -> u64 {
        match self {
            Self::P99 => 10_000,
            Self::Throughput | Self::CpuPerEvent => 1,
        }
    }
}

/// The smallest p that the exact sign-flip test over `blocks` blocks can yield: 2 of 2^R.
pub fn smallest_p(blocks: u32) -> f64 {
    2.0 * 0.5_f64.powi(i32::try_from(blocks).unwrap_or(i32::MAX))
}

/// The fewest blocks whose exact sign-flip test can reach `alpha`: 6 at 5 %.
///
/// - `alpha`: a share in (0, 1).
pub fn blocks_min(alpha: f64) -> u32 {
    /// From here on the smallest p is no normal number any more.
    const MAX: u32 = 1_000;
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is a share in (0, 1): {alpha}");
    (2..MAX).find(|&blocks| smallest_p(blocks) <= alpha).unwrap_or(MAX)
}

/// What the author wants on the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Who ran and paid.
    pub sponsor: Option<String>,
    /// `base` or `peak`.
    pub tuning: Option<String>,
    /// Key points and best practices, the author's own text (Markdown).
    pub notes: Option<String>,
}

/// A bake-off with everything that was measured in it, as read back from the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Bakeoff {
    /// Name, state, start.
    pub header: RunHeader,
    /// The question in the author's words.
    pub question: String,
    /// Whether it has too few blocks for a claim at its alpha.
    pub exploratory: bool,
    /// What is varied.
    pub factors: Vec<Factor>,
    /// Number of blocks.
    pub blocks: u32,
    /// What the order was drawn from.
    pub seed: u64,
    /// The trials in the order drawn.
    pub trials: Vec<Trial>,
    /// The attempts in the order they were made.
    pub attempts: Vec<Attempt>,
    /// How it is judged.
    pub judge: Judge,
    /// What the author wants on the page.
    pub page: Page,
    /// Length of the measured phase of a trial.
    pub measure: Duration,
    /// Warm-up before it.
    pub warmup: Duration,
    /// The machine.
    pub environment: Environment,
    /// The plan as it was written.
    pub plan_text: String,
    /// Its checksum.
    pub plan_sha256: String,
}

impl Bakeoff {
    /// Sealed runs with their trials, in the order drawn.
    pub fn sealed(&self) -> impl Iterator<Item = (&Trial, &Run)> {
        self.trials.iter().filter_map(|trial| {
            let sealed = |a: &&Attempt| a.trial == trial.index && a.state == TrialState::Sealed;
            self.attempts.iter().find(sealed).and_then(|a| a.run.as_ref()).map(|run| (trial, run))
        })
    }

    /// Number of attempts that ended so.
    pub fn attempts_that_ended(&self, state: TrialState) -> usize {
        self.attempts.iter().filter(|a| a.state == state).count()
    }

    /// The factor of that level whose values are compared with a reference.
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
