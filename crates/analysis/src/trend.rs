//! Trend of a level within one window: the slope of Theil and Sen with a block bootstrap interval.
//!
//! Levels of memory have a memory: some return to their trend (caches that are trimmed, garbage), some wander
//! and never return. An interval that takes readings as independent finds growth in nearly every wandering
//! level; one that assumes wandering misses a leak below a saw of garbage. So the residuals' memory is
//! estimated, at the upper end of its uncertainty, and blocks of what it leaves are drawn.

use record::missing::{Maybe, Missing};

use crate::chance::SplitMix;
use crate::growth::{Growth, neighbors, theil_sen, unbiased_about_line};
use crate::robust::{mad, median};
use crate::student::t_above;

/// Fewest levels of a window for a slope that is judged, and for its interval.
pub const LEVELS_MIN: usize = 8;
/// Most levels of which slopes are computed; more are averaged in neighbors.
const LEVELS_MAX: usize = 40;
/// Samples drawn.
const DRAWS: usize = 400;
/// Probability outside of the interval, and the normal quantile of its tail.
const ALPHA: f64 = 0.05;
const NORMAL: f64 = 1.96;
/// Standard deviations from which a residual is wild.
const WILD: f64 = 5.0;
/// Standard errors that are added to the memory: a margin that errs towards wandering.
const MEMORY_ERRORS: f64 = 2.0;

/// Slope of a level with its 95 % interval.
///
/// - `levels`: times in seconds at about equal distances, rising, and levels in any unit.
///
/// # Errors
///
/// Missing with fewer than [`LEVELS_MIN`] levels.
///
/// # Source
///
/// P. K. Sen, *JASA* 63 (1968), 1379-1389 (slope); H. R. Künsch, *Annals of Statistics* 17 (1989), 1217-1241
/// (blocks); M. G. Kendall, *Biometrika* 41 (1954), 403-404 (bias of an autocorrelation).
pub fn trend(levels: &[(f64, f64)]) -> Maybe<Growth> {
    let points = joined(levels);
    if points.len() < LEVELS_MIN {
        return Err(Missing::because(format!(
            "a slope with an interval needs {LEVELS_MIN} readings, and there are {}: measure longer, or in shorter \
             intervals",
            points.len()
        )));
    }
    let one_time = || Missing::because("all levels are of one time");
    let slope = theil_sen(&points).ok_or_else(one_time)?;
    let about: Vec<f64> = points.iter().map(|(time, level)| level - slope * time).collect();
    let middle = median(&about).unwrap_or(0.0);
    let residuals: Vec<f64> = about.iter().map(|level| level - middle).collect();
    // A wild level is one residual, and no example for many.
    let most = WILD * mad(&residuals).unwrap_or(0.0);
    let residuals: Vec<f64> =
        if most > 0.0 { residuals.iter().map(|r| r.clamp(-most, most)).collect() } else { residuals };
    let margin = margin(&points, &residuals);
    Ok(Growth { per_s: slope, low: slope - margin, high: slope + margin })
}

/// At most [`LEVELS_MAX`] points: means of neighbors.
fn joined(levels: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = levels.len().div_ceil(LEVELS_MAX).max(1);
    let mean = |part: &[(f64, f64)]| {
        let n = part.len() as f64;
        (part.iter().map(|p| p.0).sum::<f64>() / n, part.iter().map(|p| p.1).sum::<f64>() / n)
    };
    // A rest that is shorter has another variance.
    levels.chunks_exact(each).map(mean).collect()
}

/// Half width: the quantile of the slopes of samples with a true slope of 0.
fn margin(points: &[(f64, f64)], residuals: &[f64]) -> f64 {
    let n = residuals.len();
    let phi = memory(residuals);
    let mut left: Vec<f64> = residuals.windows(2).map(|pair| pair[1] - phi * pair[0]).collect();
    let mean = left.iter().sum::<f64>() / left.len() as f64;
    let block = block_length(left.len());
    // The fit takes two degrees of freedom, the memory one; sums of blocks vary less than those of all steps.
    let free = n as f64 - 3.0;
    let freed = n as f64 / (free * (n - block) as f64).sqrt() * t_above(ALPHA / 2.0, free) / NORMAL;
    for step in &mut left {
        *step = (*step - mean) * freed;
    }
    // The same levels give the same interval.
    let mut chance = SplitMix(n as u64);
    let mut slopes: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let mut level = residuals[chance.below(n)];
            let mut drawn = Vec::with_capacity(n);
            while drawn.len() < n {
                let from = chance.below(left.len() - block + 1);
                for step in &left[from..from + block] {
                    drawn.push(level);
                    level = phi * level + step;
                }
            }
            let sample: Vec<(f64, f64)> = points.iter().zip(&drawn).map(|(p, level)| (p.0, *level)).collect();
            theil_sen(&sample).map(f64::abs)
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
    let at = ((1.0 - ALPHA) * slopes.len() as f64).ceil() as usize;
    slopes.get(at.min(slopes.len().saturating_sub(1))).copied().unwrap_or(f64::INFINITY)
}

/// The first autocorrelation of residuals about a line, without its bias and [`MEMORY_ERRORS`] higher, in
/// [0, 1]; 1 is a level that wanders.
fn memory(residuals: &[f64]) -> f64 {
    let (n, phi) = (residuals.len() as f64, neighbors(residuals));
    if residuals.iter().all(|r| *r == 0.0) {
        return 0.0;
    }
    (unbiased_about_line(phi, n) + MEMORY_ERRORS * ((1.0 - phi * phi).max(0.0) / n).sqrt()).clamp(0.0, 1.0)
}

/// Cube root of the number of steps, at least 2.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a root of a small number")]
fn block_length(steps: usize) -> usize {
    ((steps as f64).cbrt().ceil() as usize).clamp(2, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels with a true slope of 3 and noise: `phi` is its memory, 1 wanders.
    fn levels(n: u32, phi: f64, slope: f64, chance: &mut SplitMix) -> Vec<(f64, f64)> {
        let mut noise = 0.0;
        let level = |t: u32| {
            noise = phi * noise + chance.normal();
            (f64::from(t), 1e4 + slope * f64::from(t) + noise)
        };
        (0..n).map(level).collect()
    }

    fn covered(n: u32, phi: f64, runs: u32, seed: u64) -> u32 {
        let mut chance = SplitMix(seed);
        let covers = |_: &u32| {
            let found = trend(&levels(n, phi, 3.0, &mut chance)).unwrap();
            found.low <= 3.0 && 3.0 <= found.high
        };
        u32::try_from((0..runs).filter(covers).count()).unwrap()
    }

    #[test]
    fn the_interval_covers_the_slope_of_levels_with_any_memory() {
        // 11 are those of a phase of 3 s in intervals of 300 ms.
        for (n, phi, seed) in [
            (8, 0.0, 11),
            (8, 0.9, 12),
            (8, 1.0, 13),
            (11, 0.0, 14),
            (11, 0.5, 15),
            (11, 1.0, 16),
            (20, 0.0, 1),
            (40, 0.0, 2),
            (40, 0.5, 3),
            (40, 0.9, 4),
            (20, 1.0, 5),
            (40, 1.0, 6),
        ] {
            let covered = covered(n, phi, 200, seed);
            println!("{n} levels with a memory of {phi}: {covered} of 200 intervals cover the slope");
            // 95 % less two standard errors of the simulation: 92 %. A random walk, and a memory that a few
            // levels do not tell from one, is covered in 90 %.
            let wanders = phi >= if n < 20 { 0.9 } else { 1.0 };
            assert!(covered >= if wanders { 176 } else { 184 }, "{n} {phi}: {covered}");
        }
    }

    #[test]
    fn a_leak_below_noise_is_found_and_a_wild_level_moves_nothing() {
        let mut chance = SplitMix(7);
        let mut points = levels(60, 0.3, 0.2, &mut chance);
        points[30].1 += 1e6;
        let found = trend(&points).unwrap();
        assert!(found.is_certain() && found.low < 0.2 && 0.2 < found.high, "{found:?}");
        assert!((found.per_s - 0.2).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_saw_of_garbage_and_one_jump_are_no_trend() {
        for phase in 0..7 {
            let saw: Vec<(f64, f64)> =
                (0..60).map(|i| (f64::from(i), f64::from((i + phase) % 7) * 1e6)).collect();
            assert!(!trend(&saw).unwrap().is_certain(), "{phase}: {:?}", trend(&saw));
        }
        let jump: Vec<(f64, f64)> =
            (0..60).map(|i| (f64::from(i), if i < 29 { 0.0 } else { 64e6 })).collect();
        assert!(!trend(&jump).unwrap().is_certain(), "{:?}", trend(&jump));
        let flat: Vec<(f64, f64)> = (0..60).map(|i| (f64::from(i), 5.0)).collect();
        assert!(!trend(&flat).unwrap().is_certain());
    }

    #[test]
    fn many_levels_are_joined_and_few_have_no_interval() {
        let mut chance = SplitMix(8);
        let found = trend(&levels(3_600, 0.3, 0.01, &mut chance)).unwrap();
        assert!(found.is_certain() && (found.per_s - 0.01).abs() < 0.001, "{found:?}");
        let why = trend(&levels(7, 0.0, 3.0, &mut chance)).unwrap_err().reason;
        assert!(why.contains("needs 8 readings, and there are 7"), "{why}");
        assert!(trend(&[(1.0, 2.0); 20]).is_err());
    }
}
