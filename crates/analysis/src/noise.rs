//! Where the noise of a bake-off comes from, and how many blocks of which length a difference needs.
//!
//! The noise of one trial is the spread of its value about what its cell and its block explain. It has parts:
//! the fresh server of each series, the trials of a series, and chance within a trial, which a longer
//! measured phase averages out. Of the last, `causes` separates the parts that go with stolen time, with the
//! placement of threads and with I/O.

mod causes;

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Bakeoff, Levels, Metric, blocks_min};
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::run::Run;

pub use self::causes::{IoEvidence, OfIo, Subject};
use self::causes::{io, levels, placement, steal};
use crate::metric::value;
use crate::power::{self, POWER};
use crate::student::t_above;

/// Fewest intervals of a trial for its own variance.
const INTERVALS_MIN: usize = 6;
/// Fewest batches, and the autocorrelation from which intervals are joined into longer ones.
const BATCHES_MIN: usize = 5;
const CORRELATION_MAX: f64 = 0.2;

/// Noise of one trial's value, as variances of its logarithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Value that varies: throughput in a closed loop, mean latency in an open one.
    pub of: Subject,
    /// Variance of one trial about its cell and block.
    pub variance: f64,
    /// Part of the fresh server of each series; missing if each series has one trial.
    pub between_series: Maybe<f64>,
    /// Part of the trials of one series, beyond chance within them; includes that of the series if it is
    /// missing.
    pub between_trials: f64,
    /// Part within trials: chance, which shrinks with their length.
    pub within: f64,
    /// Share of the variation within trials that goes with stolen time; 0 if that may be chance, or if more
    /// is stolen when the work goes better.
    pub steal_ratio: Maybe<f64>,
    /// Share of the variation within trials that goes with an uneven use of the CPUs, under the same
    /// conditions.
    pub placement_ratio: Maybe<f64>,
    /// Part of the variation within trials that goes with I/O.
    pub io: Maybe<OfIo>,
    /// Trials behind these numbers.
    pub trials: usize,
    /// Length of a measured phase.
    pub trial_s: f64,
}

/// Difference that a design is to find, and the comparisons among which.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Distance of the difference from the region of practical equivalence, as a share.
    pub beyond: f64,
    /// Comparisons in the family.
    pub comparisons: u32,
    /// Accepted rate of any false verdict in the family.
    pub alpha: f64,
}

/// A design that finds a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Length of a measured phase.
    pub trial_s: f64,
    /// Number of blocks.
    pub blocks: u32,
    /// Half width of the interval of a single ratio, not adjusted for the family.
    pub half_width: f64,
}

impl Goal {
    fn with(&self, blocks: u32) -> power::Design {
        power::Design { blocks, comparisons: self.comparisons.max(1), alpha: self.alpha }
    }
}

impl Noise {
    /// Variance of one trial of another length.
    pub fn variance_at(&self, trial_s: f64) -> f64 {
        self.variance - self.within + self.within * self.trial_s / trial_s
    }

    /// Standard deviation of the log ratio of two configurations in a block. Both have this noise.
    fn sd_of_ratio(&self, trial_s: f64) -> f64 {
        (2.0 * self.variance_at(trial_s)).sqrt()
    }

    /// Half width of the interval of a single ratio of two configurations, as a share.
    pub fn half_width(&self, trial_s: f64, blocks: u32, alpha: f64) -> f64 {
        let error = self.sd_of_ratio(trial_s) / f64::from(blocks).sqrt();
        (t_above(alpha / 2.0, f64::from(blocks) - 1.0) * error).exp_m1()
    }

    /// Smallest difference beyond the region, as a share, that so many blocks find with a power of
    /// [`POWER`]; `None` if they allow no claim.
    pub fn found(&self, trial_s: f64, blocks: u32, goal: &Goal) -> Option<f64> {
        let in_sd = power::detectable_sd(&goal.with(blocks))?;
        Some((in_sd * self.sd_of_ratio(trial_s)).exp_m1())
    }

    /// Fewest blocks, of trials of this length, that find a difference with a power of [`POWER`]; `None`
    /// beyond a thousand.
    pub fn design(&self, trial_s: f64, goal: &Goal) -> Option<Design> {
        const BLOCKS_MAX: u32 = 1_000;
        let sd = self.sd_of_ratio(trial_s);
        let in_sd = if sd > 0.0 { goal.beyond.ln_1p() / sd } else { f64::INFINITY };
        let finds = |blocks: u32| power::found(&goal.with(blocks), in_sd) >= POWER;
        let (mut too_few, mut enough) = (blocks_min(goal.alpha).max(2) - 1, BLOCKS_MAX);
        if !finds(enough) {
            return None;
        }
        while enough - too_few > 1 {
            let blocks = u32::midpoint(too_few, enough);
            if finds(blocks) { enough = blocks } else { too_few = blocks }
        }
        let half_width = self.half_width(trial_s, enough, goal.alpha);
        Some(Design { trial_s, blocks: enough, half_width })
    }
}

/// One trial's value and the numbers within it.
struct Measured<'a> {
    series: u32,
    block: u32,
    levels: &'a Levels,
    ln: f64,
    /// Variance of `ln` by chance within the trial.
    within: Option<f64>,
}

/// Noise of a bake-off.
///
/// # Errors
///
/// Missing with fewer than four comparable trials, or if each has too few intervals.
pub fn noise(bakeoff: &Bakeoff) -> Maybe<Noise> {
    let is_open =
        bakeoff.sealed().any(|(_, run)| run.load.as_ref().is_some_and(|load| load.response.is_ok()));
    let of = if is_open { Subject::Latency } else { Subject::Throughput };
    let measured: Vec<Measured<'_>> = bakeoff
        .sealed()
        .filter_map(|(trial, run)| {
            let load = run.load.as_ref()?;
            let points = levels(load, of);
            let ln = value_of(run, load, of)?.ln();
            let within = variance_of_mean(&points.iter().map(|(_, level)| *level).collect::<Vec<f64>>());
            Some(Measured { series: trial.series, block: trial.block, levels: &trial.levels, ln, within })
        })
        .filter(|measured| measured.ln.is_finite())
        .collect();
    let trial_s = bakeoff.measure.as_secs_f64();
    let within: Vec<f64> = measured.iter().filter_map(|m| m.within).collect();
    if within.is_empty() {
        let why = format!(
            "noise within trials needs {INTERVALS_MIN} intervals: measure longer, or in shorter intervals"
        );
        return Err(Missing::because(why));
    }
    let within = within.iter().sum::<f64>() / within.len() as f64;
    let Some(parts) = parts(&measured) else {
        return Err(Missing::because("noise needs at least two blocks with two trials each"));
    };
    let (between_series, of_trial) = parts;
    // What chance within the trials explains of the spread of trials; never more than all of it.
    let variance = of_trial + between_series.clone().unwrap_or(0.0);
    let within = within.min(of_trial);
    Ok(Noise {
        of,
        variance,
        between_series,
        between_trials: of_trial - within,
        within,
        steal_ratio: steal(bakeoff, of),
        placement_ratio: placement(bakeoff, of),
        io: io(bakeoff, of),
        trials: measured.len(),
        trial_s,
    })
}

fn value_of(run: &Run, load: &LoadRecord, of: Subject) -> Option<f64> {
    match of {
        Subject::Throughput => value(run, Metric::Throughput).ok()?.middle(),
        Subject::Latency => Some(load.response.as_ref().ok()?.summary()?.mean_ns),
    }
}

/// Relative variance of the mean of a series, by batches that are joined until they hardly correlate.
fn variance_of_mean(levels: &[f64]) -> Option<f64> {
    if levels.len() < INTERVALS_MIN {
        return None;
    }
    let mut batches = levels.to_vec();
    loop {
        let n = batches.len() as f64;
        let mean = batches.iter().sum::<f64>() / n;
        let residuals: Vec<f64> = batches.iter().map(|z| z - mean).collect();
        let squares: f64 = residuals.iter().map(|r| r * r).sum();
        let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let is_correlated = squares > 0.0 && products / squares > CORRELATION_MAX;
        if !is_correlated || batches.len() / 2 < BATCHES_MIN {
            // Batches that still correlate: the variance of the mean of a process with a memory of one step.
            let phi = if squares > 0.0 { (products / squares).clamp(0.0, 0.9) } else { 0.0 };
            return Some(squares / (n - 1.0) / n / (mean * mean) * (1.0 + phi) / (1.0 - phi));
        }
        batches = batches.chunks_exact(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    }
}

/// Variance between series, if there are several trials in each, and that of the trials of a series.
fn parts(measured: &[Measured<'_>]) -> Option<(Maybe<f64>, f64)> {
    let residuals = residuals(measured);
    let cells = measured.iter().map(|m| m.levels).collect::<BTreeSet<_>>().len();
    let blocks = measured.iter().map(|m| m.block).collect::<BTreeSet<_>>().len();
    let mut series: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (one, residual) in measured.iter().zip(&residuals) {
        series.entry(one.series).or_default().push(*residual);
    }
    let all = measured.len() as f64;
    let df = all - cells as f64 - blocks as f64 + 1.0;
    if blocks < 2 || df < 1.0 {
        return None;
    }
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let groups = series.len() as f64;
    let each = all / groups;
    let squared: f64 = series.values().map(|r| (r.len() as f64).powi(2)).sum();
    let between: f64 = series.values().map(|r| r.iter().sum::<f64>().powi(2) / r.len() as f64).sum();
    // Of the degrees of freedom, those of series that neither cells nor blocks take.
    let configurations = groups / blocks as f64;
    let df_between = (configurations - 1.0) * (blocks as f64 - 1.0);
    let df_within = df - df_between;
    if each < 1.5 || df_between < 1.0 || df_within < 1.0 {
        let why =
            "each series has one trial: noise between series and noise between trials cannot be separated";
        return Some((Err(Missing::because(why)), squares / df));
    }
    let (of_series, of_trial) = (between / df_between, (squares - between).max(0.0) / df_within);
    if of_series <= of_trial {
        return Some((Ok(0.0), squares / df));
    }
    // Trials of a series, as the variance between series counts them: fewer than the mean, if configurations
    // have different numbers of cells.
    let each = (all / blocks as f64 - squared / all) / (configurations - 1.0);
    Some((Ok((of_series - of_trial) / each), of_trial))
}

/// Values without the means of their cells and of their blocks, by turns until both are 0.
fn residuals(measured: &[Measured<'_>]) -> Vec<f64> {
    let mut left: Vec<f64> = measured.iter().map(|m| m.ln).collect();
    for _ in 0..50 {
        remove_means(&mut left, measured, |m| format!("{:?}", m.levels));
        remove_means(&mut left, measured, |m| m.block.to_string());
    }
    left
}

fn remove_means<'a>(left: &mut [f64], measured: &[Measured<'a>], key: fn(&Measured<'a>) -> String) {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (one, value) in measured.iter().zip(left.iter()) {
        let sum = sums.entry(key(one)).or_default();
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    for (one, value) in measured.iter().zip(left.iter_mut()) {
        let (sum, n) = sums[&key(one)];
        *value -= sum / n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    /// Two configurations, `blocks` blocks, `cells` trials in a series of each; `sd`: standard deviations of
    /// series and trials.
    fn simulated(blocks: u32, cells: [u32; 2], sd: (f64, f64), chance: &mut SplitMix) -> (Maybe<f64>, f64) {
        let level = |arm: u32, cell: u32| {
            Levels::from([("arm".into(), arm.to_string()), ("threads".into(), cell.to_string())])
        };
        let levels: Vec<Vec<Levels>> =
            (0..2).zip(cells).map(|(arm, n)| (0..n).map(|cell| level(arm, cell)).collect()).collect();
        let mut measured = Vec::new();
        for block in 0..blocks {
            let drift = 0.1 * chance.normal();
            for (arm, of_arm) in (0..2).zip(&levels) {
                let of_series = sd.0 * chance.normal();
                for (cell, levels) in (0_u32..).zip(of_arm) {
                    let ln = f64::from(cell) + drift + of_series + sd.1 * chance.normal();
                    measured.push(Measured { series: 2 * block + arm, block, levels, ln, within: None });
                }
            }
        }
        parts(&measured).unwrap()
    }

    #[test]
    fn the_parts_of_series_and_of_trials_are_told_apart_and_drift_between_blocks_is_in_neither() {
        let mut chance = SplitMix(11);
        // The last: a plan that leaves most cells of one configuration out.
        for (sd, cells) in
            [((0.03, 0.01), [3, 3]), ((0.0, 0.02), [3, 3]), ((0.01, 0.03), [3, 3]), ((0.03, 0.01), [1, 9])]
        {
            let found: Vec<(f64, f64)> = (0..300)
                .map(|_| simulated(6, cells, sd, &mut chance))
                .map(|(series, trial)| (series.unwrap(), trial))
                .collect();
            let mean = |of: fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
            let (series, trial) = (mean(|f| f.0), mean(|f| f.1));
            println!("{sd:?}: {:.4} {:.4}", series.sqrt(), trial.sqrt());
            // Cutting at 0 biases the part of series upwards; a tenth of the trials' variance is that bias.
            assert!((series - sd.0 * sd.0).abs() < 0.12 * sd.1 * sd.1 + 0.1 * sd.0 * sd.0, "{sd:?} {series}");
            assert!((trial / (sd.1 * sd.1) - 1.0).abs() < 0.15, "{sd:?} {trial}");
        }
        let (series, all) = simulated(200, [1, 1], (0.03, 0.04), &mut chance);
        assert!(series.is_err() && (all.sqrt() / 0.05 - 1.0).abs() < 0.1, "{all}");
    }

    #[test]
    fn the_variance_of_a_mean_knows_that_intervals_remember() {
        let mut chance = SplitMix(3);
        for (phi, n) in [(0.0_f64, 40), (0.7, 120)] {
            let (mut of_means, mut said) = (0.0, 0.0);
            for _ in 0..400 {
                let mut x = 0.0;
                let levels: Vec<f64> = (0..n)
                    .map(|_| {
                        x = phi * x + chance.normal() * (1.0 - phi * phi).sqrt();
                        100.0 + 3.0 * x
                    })
                    .collect();
                let mean = levels.iter().sum::<f64>() / f64::from(n);
                of_means += (mean / 100.0 - 1.0).powi(2) / 400.0;
                said += variance_of_mean(&levels).unwrap() / 400.0;
            }
            assert!((said / of_means - 1.0).abs() < 0.3, "{phi}: {said} is not {of_means}");
        }
        assert_eq!(variance_of_mean(&[1.0; 5]), None);
    }

    #[test]
    fn blocks_needed_fall_with_length_only_as_far_as_chance_is_within_trials() {
        let noise = Noise {
            of: Subject::Throughput,
            variance: 0.05_f64.powi(2),
            between_series: Ok(0.03_f64.powi(2)),
            between_trials: 0.0,
            within: 0.04_f64.powi(2),
            steal_ratio: Ok(0.0),
            placement_ratio: Ok(0.0),
            io: Err(Missing::because("not watched")),
            trials: 12,
            trial_s: 4.0,
        };
        let of = |comparisons| Goal { beyond: 0.05, comparisons, alpha: 0.05 };
        let blocks = |trial_s, comparisons| noise.design(trial_s, &of(comparisons)).unwrap().blocks;
        // 5 % are 0.69 standard deviations of a log ratio, sqrt(2) * 0.05; with trials a hundred times as
        // long 1.14. docs/statistics.md: 20 blocks find 0.66, and 10 find 1.05.
        assert!((18..=20).contains(&blocks(4.0, 1)), "{}", blocks(4.0, 1));
        assert!((8..=10).contains(&blocks(400.0, 1)), "{}", blocks(400.0, 1));
        // A family shares its alpha: a design for one comparison is too small for many.
        assert!(blocks(4.0, 63) > blocks(4.0, 1) + 8, "{}", blocks(4.0, 63));
        for comparisons in [1, 63] {
            let goal = of(comparisons);
            let found = |less: u32| noise.found(4.0, blocks(4.0, comparisons) - less, &goal).unwrap();
            assert!(found(0) <= 0.050_1 && found(1) > 0.05, "{} {}", found(0), found(1));
        }
        // The interval of one ratio is as wide as the difference with far fewer: it promises nothing.
        assert!(noise.half_width(4.0, 11, 0.05) < 0.05);
        assert_eq!(noise.design(4.0, &Goal { beyond: 0.000_1, ..of(1) }), None);
        assert_eq!(noise.found(4.0, 5, &of(1)), None, "five blocks allow no claim");
    }
}
