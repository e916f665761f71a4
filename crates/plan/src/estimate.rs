//! Size and duration of a plan, known before it starts. `analysis::power` computes the effects that it can
//! detect.

use std::time::Duration;

use record::quantity;

use crate::matrix;
use crate::plan::Plan;

/// Size and duration of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Configurations: combinations of whole-plot values.
    pub configurations: u32,
    /// Cells within a series: combinations of sub-plot values; the most, if series differ.
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

/// `2 configurations x 7 cells x 6 blocks`; `9 cells in 2 configurations x 6 blocks` if the configurations
/// have different numbers of cells.
impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |n: u32, word: &str| quantity::plural(n.into(), word);
        let (configurations, blocks) =
            (plural(self.configurations, "configuration"), plural(self.blocks, "block"));
        if self.series * self.cells_per_series == self.trials {
            write!(f, "{configurations} x {} x {blocks}", plural(self.cells_per_series, "cell"))
        } else {
            write!(f, "{} in {configurations} x {blocks}", plural(self.trials / self.blocks.max(1), "cell"))
        }
    }
}

impl Plan {
    /// Size and duration of the plan.
    pub fn estimate(&self) -> Estimate {
        let all = matrix::series(&self.factors, &self.limits);
        let configurations = count(all.len());
        let cells_per_series = count(all.iter().map(|(_, cells)| cells.len()).max().unwrap_or_default());
        let series = configurations * self.blocks;
        let trials = self.blocks * count(all.iter().map(|(_, cells)| cells.len()).sum());
        let load = self.warmup.least() + self.measure;
        let time_min = match self.slices {
            None => (load + self.cooldown).saturating_mul(trials),
            Some(slices) => {
                slices.stretched(load).saturating_mul(trials) + self.cooldown.saturating_mul(self.blocks)
            }
        };
        Estimate { configurations, cells_per_series, blocks: self.blocks, series, trials, time_min }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("check limits the number of trials")
}
