//! Growth rate of a level: a slope with its interval.

use record::missing::{Maybe, Missing};

use crate::robust::median;
use crate::student::t_above;

/// Minimum number of differences that shows their spread.
pub const DIFFERENCES_MIN: usize = 6;

/// Growth per second over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Last level minus the first, divided by the time between.
    pub per_s: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// Growth of a level that was read at equal intervals.
///
/// The steps between readings are the sample. Levels of memory wander, so residuals about a fitted line are
/// autocorrelated, and that line's own interval would be far too narrow. If consecutive steps correlate (a
/// warm-up that fades), the interval is widened according to the first autocorrelation. The result does not
/// predict the level after the window.
///
/// - `levels`: in time order, any unit.
/// - `interval_s`: time from one to the next.
///
/// # Errors
///
/// Missing with fewer than [`DIFFERENCES_MIN`] steps.
pub fn growth(levels: &[f64], interval_s: f64) -> Maybe<Growth> {
    let steps: Vec<f64> = levels.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if steps.len() < DIFFERENCES_MIN {
        return Err(Missing::because(format!("a slope needs {DIFFERENCES_MIN} intervals")));
    }
    let n = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / n;
    let squares: f64 = steps.iter().map(|s| (s - mean).powi(2)).sum();
    let products: f64 = steps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // Negatively correlated steps (garbage that is collected) would narrow the interval; that is not relied
    // on.
    let lean = if squares > 0.0 { (products / squares).clamp(0.0, 0.9) } else { 0.0 };
    let error = (squares / (n - 1.0) / n * (1.0 + lean) / (1.0 - lean)).sqrt();
    let margin = t_above(0.025, n - 1.0) * error;
    let per_s = |steps: f64| steps / interval_s;
    Ok(Growth { per_s: per_s(mean), low: per_s(mean - margin), high: per_s(mean + margin) })
}

/// Slope of a level: the median of the slopes of all pairs of points; `None` without two different times.
///
/// Up to 29 % of the points may be wild.
///
/// - `points`: time and level, at most some thousands.
///
/// # Source
///
/// Sen, *Journal of the American Statistical Association* 63 (1968), 1379-1389.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    median(&pair_slopes(points))
}

/// Interval of the slope of Theil and Sen; `None` if so few points have none at this level.
///
/// Without a memory of the residuals it is exact for any distribution: the number of pairs with a slope
/// below the true one is that of inversions in a random order. A memory makes that number vary more, by the
/// factor by which it raises the variance of a mean.
///
/// - `points`: at different times, at most some hundreds.
/// - `tail`: largest probability that the true slope lies below the interval, and that it lies above.
/// - `memory`: first autocorrelation of the residuals, in [0, 1).
///
/// # Source
///
/// Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3rd ed. (2014), section 9.3; Kendall,
/// *Biometrika* 30 (1938), 81-93 (inversions).
pub(crate) fn theil_sen_interval(points: &[(f64, f64)], tail: f64, memory: f64) -> Option<(f64, f64)> {
    let mut slopes = pair_slopes(points);
    slopes.sort_by(f64::total_cmp);
    let half = slopes.len() as f64 / 2.0;
    let reach = (half - left_out(points.len(), tail)? as f64) * ((1.0 + memory) / (1.0 - memory)).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is not negative")]
    let ends = (reach <= half).then_some((half - reach) as usize)?;
    Some((*slopes.get(ends)?, *slopes.get(slopes.len().checked_sub(1 + ends)?)?))
}

/// Largest number of inversions such that a random order of `n` values has so many or fewer with a
/// probability of at most `tail`; `None` if even the order without inversions is more probable.
fn left_out(n: usize, tail: f64) -> Option<usize> {
    // Shares of the orders of 1, 2, ... values by their number of inversions: the last value makes 0 to all
    // of the others. Each share is a sum over a window.
    let mut shares = vec![1.0];
    for values in 2..=n {
        let mut window = 0.0;
        shares = (0..shares.len() + values - 1)
            .map(|inversions| {
                window += shares.get(inversions).copied().unwrap_or(0.0);
                window -= inversions.checked_sub(values).map_or(0.0, |gone| shares[gone]);
                window / values as f64
            })
            .collect();
    }
    let mut sum = 0.0;
    let few = shares.iter().take_while(|share| {
        sum += **share;
        sum <= tail
    });
    few.count().checked_sub(1)
}

/// First autocorrelation of residuals about a line; 0 if they are 0.
pub(crate) fn neighbors(residuals: &[f64]) -> f64 {
    let squares: f64 = residuals.iter().take(residuals.len().saturating_sub(1)).map(|r| r * r).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Autocorrelation of `n` residuals without its bias, which is -(2 + 4 phi) / n.
///
/// # Source
///
/// Kendall, *Biometrika* 41 (1954), 403-404.
pub(crate) fn unbiased_about_line(phi: f64, n: f64) -> f64 {
    if n > 4.0 { ((phi + 2.0 / n) / (1.0 - 4.0 / n)).clamp(-1.0, 1.0) } else { 1.0 }
}

/// Slopes of all pairs of points at different times.
fn pair_slopes(points: &[(f64, f64)]) -> Vec<f64> {
    points
        .iter()
        .enumerate()
        .flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (b.0 - a.0, b.1 - a.1)))
        .filter(|(time, _)| *time != 0.0)
        .map(|(time, level)| level / time)
        .collect()
}

impl Growth {
    /// Whether the interval excludes 0.
    pub fn is_certain(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    #[test]
    fn a_steady_leak_is_its_rate() {
        let levels: Vec<f64> = (0..20).map(|i| 1e6 + f64::from(i) * 500.0).collect();
        let found = growth(&levels, 0.5).unwrap();
        assert!((found.per_s - 1_000.0).abs() < 1e-6 && found.is_certain(), "{found:?}");
        assert!(growth(&levels[..6], 0.5).is_err());
    }

    #[test]
    fn one_jump_is_no_growth_and_a_level_that_stays_has_none() {
        let jump: Vec<f64> = (0..20).map(|i| if i < 9 { 0.0 } else { 64e6 }).collect();
        assert!(!growth(&jump, 1.0).unwrap().is_certain());
        let flat = growth(&[5.0; 12], 1.0).unwrap();
        assert!(flat.per_s == 0.0 && !flat.is_certain());
    }

    #[test]
    fn a_saw_of_garbage_is_no_growth_in_whichever_phase_it_is_cut() {
        for phase in 0..7 {
            let levels: Vec<f64> = (0..30).map(|i| f64::from((i + phase) % 7) * 1e6).collect();
            let found = growth(&levels, 1.0).unwrap();
            assert!(!found.is_certain(), "{phase}: {found:?}");
        }
    }

    #[test]
    fn a_level_that_wanders_is_said_to_grow_no_more_often_than_one_time_in_twenty_or_so() {
        let mut chance = SplitMix(7);
        let mut certain = 0;
        for _ in 0..2_000 {
            let mut level = 0.0;
            let levels: Vec<f64> = (0..30)
                .map(|_| {
                    level += chance.normal();
                    level
                })
                .collect();
            certain += u32::from(growth(&levels, 1.0).unwrap().is_certain());
        }
        // 100 expected; three standard deviations are 29.
        assert!(certain <= 130, "{certain} of 2,000");
    }

    /// Hollander, Wolfe and Chicken, table A.30 (Kendall's K): with 10 values, P(K >= 23) = 0.023; of the 45
    /// pairs, 11 are then inverted. With 5, P(K >= 10) = 1/120 and P(K >= 8) = 5/120.
    #[test]
    fn the_interval_of_few_points_is_that_of_kendalls_distribution() {
        assert_eq!(left_out(10, 0.023_5), Some(11));
        assert_eq!(left_out(10, 0.022), Some(10));
        assert_eq!([0.008, 0.009, 0.042].map(|tail| left_out(5, tail)), [None, Some(0), Some(1)]);
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (3.0, 5.0), (4.0, 4.0)];
        // The slopes of the ten pairs lie from -1 to 3.
        assert_eq!(theil_sen_interval(&points, 0.009, 0.0), Some((-1.0, 3.0)));
        assert_eq!(theil_sen_interval(&points, 0.008, 0.0), None);
        assert_eq!(theil_sen_interval(&points, 0.009, 0.5), None, "a memory makes it wider than the points");
    }

    #[test]
    fn the_interval_covers_the_slope_whatever_the_noise_and_its_memory() {
        let covered = |n: u32, phi: f64, is_wild: bool| {
            let mut chance = SplitMix(u64::from(n) + 17);
            let covers = |_: &u32| {
                let mut noise = 0.0;
                let points: Vec<(f64, f64)> = (0..n)
                    .map(|t| {
                        let drawn = chance.normal();
                        noise = phi * noise + if is_wild { drawn.powi(3) } else { drawn };
                        (f64::from(t), 0.3 * f64::from(t) + noise)
                    })
                    .collect();
                let slope = theil_sen(&points).unwrap();
                let about: Vec<f64> = points.iter().map(|(t, level)| level - slope * t).collect();
                let middle = median(&about).unwrap();
                let residuals: Vec<f64> = about.iter().map(|level| level - middle).collect();
                let memory = unbiased_about_line(neighbors(&residuals), f64::from(n)).clamp(0.0, 0.9);
                theil_sen_interval(&points, 0.025, memory).is_none_or(|(low, high)| low <= 0.3 && 0.3 <= high)
            };
            (0..1_000).filter(covers).count()
        };
        for (n, phi, is_wild, least) in
            [(10, 0.0, false, 940), (30, 0.0, false, 940), (30, 0.0, true, 940), (48, 0.5, false, 900)]
        {
            let found = covered(n, phi, is_wild);
            println!("{n} points, memory {phi}, wild {is_wild}: {found} of 1,000 intervals cover the slope");
            assert!(found >= least, "{n} {phi} {is_wild}: {found}");
        }
    }
}
