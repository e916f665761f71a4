//! Growth of the server's memory as slopes: of each trial and of each cell.

use record::bakeoff::{Bakeoff, Factor, Levels};
use record::missing::{Maybe, Missing};
use record::resources::SERVER_MEMORY;
use record::run::Run;

use crate::cell::{combinations, seen};
use crate::growth::Growth;
use crate::paired::Paired;
use crate::resources::known_levels;
use crate::trend::trend;

/// Whether a run read the server's memory, or tried to.
pub fn was_asked_for(run: &Run) -> bool {
    known_levels(run).is_ok() || run.instruments.missing.contains_key(SERVER_MEMORY)
}

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
    /// Bytes per second: the mean of the trials' slopes; missing if a trial has none.
    pub per_s: Maybe<f64>,
    /// Interval of the mean: t over the blocks.
    pub interval_per_s: Maybe<(f64, f64)>,
    /// Trials with a slope.
    pub trials: usize,
    /// Trials in which memory grew for certain, by their own intervals.
    pub grew: usize,
    /// Trials in which it shrank for certain.
    pub shrank: usize,
}

/// Growth of the server's memory in every cell in which a sealed trial read it, or tried to.
///
/// A cell in which a sealed trial has no slope has none: the others would be a selection. Trials of a control
/// arm, which read nothing, do not count.
///
/// - `alpha`: share of both tails of the intervals over blocks.
pub fn memory_trends(bakeoff: &Bakeoff, alpha: f64) -> Vec<MemoryTrend> {
    let seen = seen(bakeoff);
    let factors: Vec<&Factor> = bakeoff.factors.iter().collect();
    let of = |levels: Levels| {
        let sealed = seen.get(&levels)?.sealed.iter().map(|(_, run)| *run);
        let watched: Vec<&Run> = sealed.filter(|run| was_asked_for(run)).collect();
        (!watched.is_empty()).then(|| {
            let trends: Maybe<Vec<Growth>> = watched.iter().map(|run| memory_trend(run)).collect();
            of_cell(levels, trends, alpha)
        })
    };
    combinations(bakeoff, &factors).into_iter().filter_map(of).collect()
}

fn of_cell(levels: Levels, trends: Maybe<Vec<Growth>>, alpha: f64) -> MemoryTrend {
    let trends = match trends {
        Ok(trends) => trends,
        Err(why) => {
            let interval_per_s = Err(why.clone());
            return MemoryTrend { levels, per_s: Err(why), interval_per_s, trials: 0, grew: 0, shrank: 0 };
        }
    };
    let slopes: Vec<(f64, f64)> = trends.iter().map(|trend| (trend.per_s, trend.per_s)).collect();
    let one = || Missing::because("an interval needs at least 2 blocks");
    MemoryTrend {
        levels,
        per_s: Ok(trends.iter().map(|trend| trend.per_s).sum::<f64>() / trends.len() as f64),
        interval_per_s: Paired::in_order(&slopes).map(|p| p.interval(alpha)).ok_or_else(one),
        trials: trends.len(),
        grew: trends.iter().filter(|trend| trend.low > 0.0).count(),
        shrank: trends.iter().filter(|trend| trend.high < 0.0).count(),
    }
}
