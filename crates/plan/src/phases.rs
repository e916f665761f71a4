//! The phases of a series and of a trial: commands, the data set, the warm-up.

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

/// How long a load warms up before each measured phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// At least, and in this version exactly, so long.
    pub min: Duration,
    /// At most so long, where steadiness is judged.
    pub max: Option<Duration>,
    /// What is to be steady.
    pub judge: Vec<String>,
}

/// A command that a phase runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// For `sh -c`.
    pub command: String,
    /// Not ended by then, it has failed.
    pub timeout: Duration,
    /// Tries after the first.
    pub retries: u32,
}

/// How the data set of a series comes about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepare {
    /// By the load engine.
    Builtin,
    /// Not at all.
    Nothing,
    /// By a command.
    Run(Step),
}

impl RunPlan {
    pub(crate) fn step(&self, levels: &Levels, scratch: &Path) -> Step {
        Step { command: self.run.of(levels, &text_of(scratch)), timeout: self.timeout, retries: self.retries }
    }
}
