//! What a plan takes and what it can find, told before it starts.

use std::time::Duration;

use record::bakeoff::Plot;

use crate::meant::Plan;
use crate::{matrix, power};

/// What a plan takes and what it can find.
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
    /// What the design can find; missing where nothing is compared, or with one block.
    pub power: Option<Power>,
}

/// What the blocks can find, in standard deviations of the log ratio between blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// The chance to find it.
    pub power: f64,
    /// The accepted rate of false alarms of the family.
    pub alpha: f64,
    /// The difference that a single comparison finds.
    pub detectable_sd: f64,
    /// Comparisons of one metric in the family.
    pub comparisons: u32,
    /// The difference that is found where the correction for the family is at its hardest (alpha over comparisons).
    pub detectable_sd_in_family: f64,
    /// The smallest p that the exact sign-flip test can yield with these blocks.
    pub smallest_p: f64,
}

impl Plan {
    /// What the plan takes and what it can find.
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
            power: self.power((configurations - 1) * cells_per_series),
        }
    }

    fn power(&self, comparisons: u32) -> Option<Power> {
        let alpha = self.judge.alpha;
        if comparisons == 0 {
            return None;
        }
        Some(Power {
            power: power::POWER,
            alpha,
            detectable_sd: power::detectable_sd(self.blocks, alpha)?,
            comparisons,
            detectable_sd_in_family: power::detectable_sd(self.blocks, alpha / f64::from(comparisons))?,
            smallest_p: power::smallest_p(self.blocks),
        })
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("check limits the number of trials")
}
