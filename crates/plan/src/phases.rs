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

/// Length of the warm-up before each measured phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// Minimum and, in this version, exact length.
    pub min: Duration,
    /// Maximum, if steadiness is judged.
    pub max: Option<Duration>,
    /// Metrics that must be steady.
    pub judge: Vec<String>,
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
