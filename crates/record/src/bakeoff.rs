//! A bake-off: configurations against each other, in blocks, in random order.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::environment::Environment;
use crate::run::{Run, RunHeader, words};

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
}

words!(TrialState {
    Planned = "planned",
    Sealed = "sealed",
    Invalid = "invalid",
    Failed = "failed",
    Abandoned = "abandoned",
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
    /// Machine CPU time per done event.
    CpuPerEvent,
}

words!(Metric { Throughput = "throughput", P99 = "p99", CpuPerEvent = "cpu-per-event" });

impl Metric {
    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        self == Self::Throughput
    }
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
