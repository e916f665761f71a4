//! Phases of a series and of a trial: commands, data set, warm-up.

use std::path::Path;
use std::time::Duration;

use record::bakeoff::Levels;

use crate::template::{Templated, text_of};

#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) run: Templated<String>,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum PreparePlan {
    Builtin,
    Nothing,
    Run(RunPlan),
}

/// The build of a plan, as written.
#[derive(Debug, Clone)]
pub(crate) struct BuildPlan {
    pub(crate) run: RunPlan,
    pub(crate) source: Option<String>,
    pub(crate) revision: Option<Templated<String>>,
    pub(crate) env: Vec<String>,
}

/// Time at which the command of a value runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// After the measured phase.
    End,
    /// At the end of each of its intervals.
    Interval,
    /// Before the warm-up and after the measured phase: the server's settings.
    Settings,
}

impl When {
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "end" => Some(Self::End),
            "interval" => Some(Self::Interval),
            "settings" => Some(Self::Settings),
            _ => None,
        }
    }
}

/// A number of each trial, or numbers over time.
#[derive(Debug, Clone)]
pub(crate) struct ValuePlan {
    pub(crate) name: String,
    pub(crate) run: RunPlan,
    pub(crate) when: When,
    pub(crate) keep: Option<Vec<String>>,
}

/// Statements of the server about itself: numbers at the end of each interval, or its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerValues {
    /// Name of the series.
    pub name: String,
    /// Command that prints a line for each.
    pub step: Step,
    /// Names to store; `None`: all.
    pub keep: Option<Vec<String>>,
}

/// Longest batch of a judged warm-up, and fewest batches up to its end.
const BATCH_MAX: Duration = Duration::from_secs(5);
const BATCHES: u32 = 20;

/// Length of the warm-up before each measured phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// Minimum length; the exact length if steadiness is not judged.
    pub min: Duration,
    /// Maximum, if steadiness is judged.
    pub max: Option<Duration>,
    /// Metrics that must be steady.
    pub judge: Vec<String>,
}

impl Warmup {
    /// Whether the warm-up lasts until these metrics are steady.
    pub fn is_judged(&self) -> bool {
        !self.judge.is_empty() && self.max.is_some()
    }

    /// Length of a batch for judging: 5 s, or a twentieth of the longest warm-up if that is less.
    pub fn batch(&self) -> Duration {
        BATCH_MAX.min(self.max.unwrap_or(self.min) / BATCHES)
    }
}

/// Command of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Command line for `sh -c`.
    pub command: String,
    /// Time after which the command counts as failed.
    pub timeout: Duration,
    /// Retries.
    pub retries: u32,
}

/// Source of the data set of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepare {
    /// The load engine builds it.
    Builtin,
    /// The data set is not prepared.
    Nothing,
    /// A command builds it.
    Run(Step),
}

impl RunPlan {
    pub(crate) fn step(&self, levels: &Levels, scratch: &Path) -> Step {
        Step { command: self.run.of(levels, &text_of(scratch)), timeout: self.timeout, retries: self.retries }
    }
}
