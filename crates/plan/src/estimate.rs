//! What a plan takes, known before it starts. What it can find is `analysis::power`'s to say.

use std::time::Duration;

use record::bakeoff::Plot;

use crate::matrix;
use crate::plan::Plan;

/// What a plan takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Configurations: combinations of whole-plot values.
    pub configurations: u32,
    /// Cells within a series: combinations of sub-plot values.
    pub cells_per_series: u32,
    /// Blocks.
    pub blocks: u32,
    /// Fresh servers: configurations by blocks.
    pub series: u32,
    /// Trials: cells by blocks.
    pub trials: u32,
    /// Warm-up, measuring and cool-down of all trials: the time it takes at least. What starting, preparing and
    /// stopping take is known only once it has been done.
    pub time_min: Duration,
}

impl Plan {
    /// What the plan takes.
    pub fn estimate(&self) -> Estimate {
        let configurations = count(self.configurations().len());
        let cells_per_series = count(matrix::cells(&self.factors, Plot::Sub).len());
        let series = configurations * self.blocks;
        let trials = series * cells_per_series;
        let each = self.warmup.min + self.measure + self.cooldown;
        Estimate {
            configurations,
            cells_per_series,
            blocks: self.blocks,
            series,
            trials,
            time_min: each.saturating_mul(trials),
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("check limits the number of trials")
}
