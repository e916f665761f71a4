//! Growth of the server's memory as slopes: of each trial and of each cell.

use record::bakeoff::{Bakeoff, Factor, Levels};
use record::missing::{Maybe, Missing};
use record::run::Run;

use crate::cell::{combinations, seen};
use crate::growth::Growth;
use crate::paired::Paired;
use crate::resources::known_levels;
use crate::trend::trend;

/// Bytes per second by which the server's own memory grew over the measured phase of a trial, with an
/// interval that allows for the memory of its levels.
///
/// # Errors
///
/// The memory was not read, or too few times.
pub fn memory_trend(run: &Run) -> Maybe<Growth> {
    trend(&known_levels(run)?)
}

/// Growth of the server's memory in one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTrend {
    /// Level of every factor.
    pub levels: Levels,
    /// Bytes per second: the mean of the trials' slopes.
    pub per_s: f64,
    /// Interval of the mean: t over the blocks.
    pub interval_per_s: Maybe<(f64, f64)>,
    /// Trials with a slope.
    pub trials: usize,
    /// Trials in which memory grew for certain, by their own intervals.
    pub grew: usize,
    /// Trials in which it shrank for certain.
    pub shrank: usize,
}

/// Growth of the server's memory in every cell in which each sealed trial has a slope; the others would be a
/// selection.
///
/// - `alpha`: share of both tails of the intervals over blocks.
pub fn memory_trends(bakeoff: &Bakeoff, alpha: f64) -> Vec<MemoryTrend> {
    let seen = seen(bakeoff);
    let factors: Vec<&Factor> = bakeoff.factors.iter().collect();
    let of = |levels: Levels| {
        let sealed = &seen.get(&levels)?.sealed;
        let trends: Vec<Growth> =
            sealed.iter().map(|(_, run)| memory_trend(run)).collect::<Maybe<_>>().ok()?;
        let slopes: Vec<(f64, f64)> = trends.iter().map(|trend| (trend.per_s, trend.per_s)).collect();
        let one = || Missing::because("an interval needs at least 2 blocks");
        (!trends.is_empty()).then(|| MemoryTrend {
            levels,
            per_s: trends.iter().map(|trend| trend.per_s).sum::<f64>() / trends.len() as f64,
            interval_per_s: Paired::in_order(&slopes).map(|p| p.interval(alpha)).ok_or_else(one),
            trials: trends.len(),
            grew: trends.iter().filter(|trend| trend.low > 0.0).count(),
            shrank: trends.iter().filter(|trend| trend.high < 0.0).count(),
        })
    };
    combinations(bakeoff, &factors).into_iter().filter_map(of).collect()
}
