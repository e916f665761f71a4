//! Size and duration of a plan, known before it starts. `analysis::power` computes the effects that it can
//! detect.

use std::time::Duration;

use record::bakeoff::Plot;

use crate::matrix;
use crate::plan::Plan;

/// Size and duration of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Configurations: combinations of whole-plot values.
    pub configurations: u32,
    /// Cells within a series: combinations of sub-plot values.
    pub cells_per_series: u32,
    /// Blocks.
    pub blocks: u32,
    /// Fresh servers: configurations times blocks.
    pub series: u32,
    /// Trials: cells times blocks.
    pub trials: u32,
    /// Sum of warm-up, measured phases and cool-down of all trials: the least duration. The time to start,
    /// prepare and stop servers is known only afterwards.
    pub time_min: Duration,
}

impl Plan {
    /// Size and duration of the plan.
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
