//! Drift: a level that rises or falls over a whole stretch, in which no single step stands out.
//!
//! The noise that the tests for a step allow for wanders, and a slow drift looks like wandering. So the
//! straight line has a test of its slope, against noise with the memory of the values around the line.

use super::memory::tamed;
use crate::chance::SplitMix;
use crate::mean::{AR1_MAX, freedom, inflation};
use crate::student::t_above;

/// Line through the values of a stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// First value of the line.
    pub(super) before: f64,
    /// Last value of the line.
    pub(super) after: f64,
    /// 95 % interval of the difference.
    pub(super) interval: (f64, f64),
    /// Probability that a series without a drift has a line at least as clear.
    pub(super) p: f64,
}

/// Fewest values in which a drift is looked for: fewer do not show a memory of 0.8 beside a line.
pub(super) const DRIFT_MIN: usize = 30;
/// Series that are drawn.
const DRAWN: u32 = 999;
/// Share of both tails of the interval.
const TAILS: f64 = 0.05;
/// Smallest drift whatever the band is: less is rounding.
const ROUNDING: f64 = 1e-9;

/// Drift of at least `band` in a stretch without a change; `None` if its line may be noise.
///
/// The statistic is the slope over its standard error, which allows for the memory of the noise. Its
/// distribution without a drift comes from series of the same innovations in another order, with a memory two
/// standard errors above that of the values. Everything is estimated again on them.
///
/// - `values`: in time order, finite.
pub(super) fn drift(values: &[f64], (alpha, band): (f64, f64), seed: u64) -> Option<Line> {
    if values.len() < DRIFT_MIN {
        return None;
    }
    let fit = Fit::of(&tamed(values));
    let steps = (values.len() - 1) as f64;
    let by = fit.slope * steps;
    let half = t_above(TAILS / 2.0, fit.df) * fit.error * steps;
    if by.abs() < band.max(ROUNDING) || half >= by.abs() {
        return None;
    }
    let p = fit.chance(alpha, seed)?;
    let (before, after) = (fit.mean - by / 2.0, fit.mean + by / 2.0);
    Some(Line { before, after, interval: (by - half, by + half), p })
}

/// Least squares of a line.
struct Fit {
    mean: f64,
    slope: f64,
    /// Standard error of the slope.
    error: f64,
    /// Degrees of freedom of the error.
    df: f64,
    /// Values around the line.
    left: Vec<f64>,
    /// Correlation of neighbors among those, without the bias of a line.
    ar1: f64,
}

impl Fit {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let mean = values.iter().sum::<f64>() / count;
        let squares_x = count * (count * count - 1.0) / 12.0;
        let x = |i: usize| i as f64 - middle;
        let slope = values.iter().enumerate().map(|(i, v)| x(i) * (v - mean)).sum::<f64>() / squares_x;
        let left: Vec<f64> = values.iter().enumerate().map(|(i, v)| v - mean - slope * x(i)).collect();
        let squares: f64 = left.iter().map(|r| r * r).sum();
        let products: f64 = left.windows(2).map(|w| w[0] * w[1]).sum();
        let lag_1 = if squares > 0.0 { products / squares } else { 0.0 };
        // About a line, n values lose 2 + 4 times the correlation, over n.
        let ar1 = ((count * lag_1 + 2.0) / (count - 4.0)).clamp(0.0, AR1_MAX);
        // Variance of the slope over that in independent noise.
        let (mut all, mut remembered) = (0.0, 0.0);
        for i in 0..values.len() {
            all += x(i) * x(i) + 2.0 * x(i) * remembered;
            remembered = ar1 * (remembered + x(i));
        }
        let of_slope = all / squares_x;
        let (free, df) = freedom(count, inflation(values.len(), ar1) + of_slope, ar1);
        Self { mean, slope, error: (squares / free * of_slope / squares_x).sqrt(), df, left, ar1 }
    }

    /// The slope in standard errors.
    fn statistic(&self) -> f64 {
        if self.error > 0.0 { self.slope.abs() / self.error } else { 0.0 }
    }

    /// Probability of a slope at least as clear without a drift; `None` if it is above alpha.
    fn chance(&self, alpha: f64, seed: u64) -> Option<f64> {
        let n = self.left.len();
        let error = ((1.0 - self.ar1 * self.ar1) / n as f64).sqrt();
        let ar1 = (self.ar1 + 2.0 * error).min(AR1_MAX);
        let mut innovations: Vec<f64> = self.left.windows(2).map(|w| w[1] - ar1 * w[0]).collect();
        let mean = innovations.iter().sum::<f64>() / innovations.len() as f64;
        for e in &mut innovations {
            *e -= mean;
        }
        let (all, mut chance) = (f64::from(DRAWN + 1), SplitMix(seed));
        let most = (alpha * all).floor();
        let (mut as_clear, mut series) = (1.0, vec![0.0; n]);
        for _ in 0..DRAWN {
            if as_clear > most {
                return None;
            }
            chance.shuffle(&mut innovations);
            series[0] = innovations[chance.below(n - 1)] / (1.0 - ar1 * ar1).sqrt();
            for i in 1..n {
                series[i] = innovations[i - 1] + ar1 * series[i - 1];
            }
            // Values on a line leave no noise: no draw is as clear.
            let drawn = Self::of(&series).statistic();
            as_clear += f64::from(u8::from(self.error > 0.0 && drawn >= self.statistic()));
        }
        (as_clear <= most).then_some(as_clear / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise with a standard deviation of 1 and this memory, with a drift of `slope` for each value.
    fn noise(seed: u64, (n, ar1): (usize, f64), slope: f64) -> Vec<f64> {
        let mut chance = SplitMix(seed << 16 | 0xd1);
        let mut now = chance.normal();
        let next = |i| {
            let value = now + slope * i as f64;
            now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * chance.normal();
            value
        };
        (0..n).map(next).collect()
    }

    fn share_with_a_drift(series: u64, kind: (usize, f64), slope: f64) -> f64 {
        let is_one = |seed: &u64| drift(&noise(*seed, kind, slope), (0.05, 0.0), *seed).is_some();
        (0..series).filter(is_one).count() as f64 / series as f64
    }

    /// `testdata/history.py` computes the line with statsmodels, and its error by dense matrices.
    #[test]
    fn a_line_in_noise_with_a_memory_is_that_of_statsmodels_and_numpy() {
        let value = |i: u32| {
            let x = f64::from(i);
            0.05 * x + (0.9 * x).cos() + 0.5 * (2.3 * x).sin()
        };
        let fit = Fit::of(&(0..40).map(value).collect::<Vec<f64>>());
        for (found, known) in [
            (fit.slope, 0.044_776_623_094_080_29),
            (fit.error, 0.018_332_156_263_899_183),
            (fit.df, 12.923_148_039_663_964),
            (fit.ar1, 0.459_669_448_361_902_16),
        ] {
            assert!((found - known).abs() < 1e-9, "{found} instead of {known}");
        }
    }

    /// Drifts large enough that nearly all are found: the interval of one that is just found is biased.
    #[test]
    fn the_interval_of_a_drift_holds_the_true_one() {
        let series = std::env::var("BAKEOFF_SIMULATE").ok().and_then(|n| n.parse().ok()).unwrap_or(300_u64);
        for (n, ar1, by) in [(60, 0.0, 5.0), (60, 0.5, 12.0), (100, 0.5, 10.0), (100, 0.8, 20.0)] {
            let slope = by / (n - 1) as f64;
            let line = |seed| drift(&noise(seed, (n, ar1), slope), (0.05, 0.0), seed);
            let found: Vec<Line> = (0..series).filter_map(line).collect();
            let holds = found.iter().filter(|l| l.interval.0 <= by && by <= l.interval.1).count();
            let rate = holds as f64 / found.len() as f64;
            println!("{n} values, memory {ar1}: {:.1} % of {} intervals hold", 100.0 * rate, found.len());
            assert!(found.len() as u64 > series * 9 / 10, "{} found", found.len());
            let allowed = 0.9 - 2.0 * (0.9 * 0.1 / series as f64).sqrt();
            assert!(rate >= allowed, "{n} values, memory {ar1}: {rate}");
        }
    }

    /// `BAKEOFF_SIMULATE=SERIES` repeats what `docs/validation.md` prints.
    #[test]
    fn noise_of_any_memory_has_a_drift_at_most_as_often_as_promised() {
        let series = std::env::var("BAKEOFF_SIMULATE").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
        for n in [30, 60, 100] {
            for ar1 in [0.0, 0.3, 0.5, 0.8] {
                let rate = share_with_a_drift(series, (n, ar1), 0.0);
                println!("{n} values, memory {ar1}: {:.1} % of {series} have a drift", 100.0 * rate);
                let allowed = 0.05 + 2.0 * (0.05 * 0.95 / series as f64).sqrt();
                assert!(rate <= allowed, "{n} values, memory {ar1}: {rate}");
            }
        }
    }

    #[test]
    fn a_drift_of_three_deviations_over_sixty_values_is_found() {
        let rate = share_with_a_drift(100, (60, 0.0), 0.05);
        println!("found: {:.0} %", 100.0 * rate);
        assert!(rate > 0.95, "{rate}");
    }
}
