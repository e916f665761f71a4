//! Mean of values in order of time, with an interval that allows for a memory of their noise.
//!
//! A machine that drifts makes neighbors alike. The t interval for independent values is then too narrow: the
//! values are worth fewer than there are.

use crate::robust::mean_and_error;
use crate::student::t_above;

/// Upper bound of a correlation: beyond it, noise and changes of level are the same.
pub(crate) const AR1_MAX: f64 = 0.95;
/// Fewest values from which a correlation is estimated.
const MEMORY_FROM: usize = 13;

/// Interval of the mean of `values` that leaves `alpha` in both tails together; `None` with fewer than two.
///
/// The noise is a first-order autoregression. Of fewer than [`MEMORY_FROM`] values, it is independent.
pub(crate) fn interval(values: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let (mean, error) = mean_and_error(values);
    let memory = memory(values);
    let half = t_above(alpha / 2.0, memory.df) * error * memory.error_ratio;
    Some((mean - half, mean + half))
}

/// Effect of a memory of the noise on the standard error of a mean.
pub(crate) struct Memory {
    /// Standard error over that of independent values.
    pub(crate) error_ratio: f64,
    /// Degrees of freedom of its variance.
    pub(crate) df: f64,
}

impl Memory {
    /// Effect on the mean of `n` values, of which neighbors correlate by `ar1`.
    fn of(n: usize, ar1: f64) -> Self {
        let count = n as f64;
        let inflation = inflation(n, ar1);
        let (free, df) = freedom(count, inflation, ar1);
        Self { error_ratio: (inflation * (count - 1.0) / free).sqrt(), df }
    }
}

/// Memory of at least two `values` in order of time.
pub(crate) fn memory(values: &[f64]) -> Memory {
    let n = values.len();
    let ar1 = if n < MEMORY_FROM { 0.0 } else { unbiased(lag_1(values), n as f64).clamp(0.0, AR1_MAX) };
    Memory::of(n, ar1)
}

/// Correlation of neighbors in log ratios in order of time, and its effect, if it is clearly over 0; `None`
/// of fewer than [`MEMORY_FROM`].
///
/// The effect is that of one standard error more: an effect that is taken too small makes false verdicts. Of
/// few values that would leave no verdict at all, and a correlation by chance costs as much: it must be
/// clearer there. Without a clear one, log ratios are independent.
pub(crate) fn clear_memory(log_ratios: &[f64]) -> Option<(f64, Memory)> {
    /// Standard errors over 0 from which a correlation of few and of many values is clear: one tail of 1 %
    /// and of 5 %.
    const CLEAR: [f64; 2] = [2.326, 1.645];
    let n = log_ratios.len();
    if n < MEMORY_FROM {
        return None;
    }
    let (count, are_many) = (n as f64, n >= MANY_FROM);
    let ar1 = unbiased(lag_1(log_ratios), count).min(AR1_MAX);
    (ar1 * count.sqrt() > CLEAR[usize::from(are_many)]).then(|| (ar1, memory_of_clear(n, ar1)))
}

/// A correlation that few values show, but not clearly: their mean may be worth less than it seems.
pub(crate) fn unclear_memory(log_ratios: &[f64]) -> Option<f64> {
    /// In one of six comparisons of 20 independent rounds the estimate is over this.
    const NOTABLE: f64 = 0.3;
    let n = log_ratios.len();
    if !(MEMORY_FROM..MANY_FROM).contains(&n) || clear_memory(log_ratios).is_some() {
        return None;
    }
    let ar1 = unbiased(lag_1(log_ratios), n as f64).min(AR1_MAX);
    (ar1 > NOTABLE).then_some(ar1)
}

/// Fewest values that are many.
const MANY_FROM: usize = 40;

/// Effect of a clear correlation of neighbors on the mean of `n` values.
pub(crate) fn memory_of_clear(n: usize, ar1: f64) -> Memory {
    let error = if n >= MANY_FROM { ((1.0 - ar1 * ar1) / n as f64).sqrt() } else { 0.0 };
    Memory::of(n, (ar1 + error).min(AR1_MAX))
}

/// Divisor of the sum of squares of `n` values about their means, and degrees of freedom of the variance.
///
/// - `taken`: number of values that the means take up, which is the sum of their inflations.
pub(crate) fn freedom(n: f64, taken: f64, ar1: f64) -> (f64, f64) {
    let free = (n - taken).max(1.0);
    (free, (free * (1.0 - ar1) / (1.0 + ar1)).max(1.0))
}

/// Variance of the mean of `n` values over that of independent ones.
pub(crate) fn inflation(n: usize, ar1: f64) -> f64 {
    let n = n as f64;
    // The sum over all pairs, in closed form.
    let pairs = ar1 / (1.0 - ar1) - ar1 * (1.0 - ar1.powf(n)) / (n * (1.0 - ar1).powi(2));
    1.0 + 2.0 * pairs
}

/// Correlation of neighbors in `values` about their mean; 0 if they are equal.
pub(crate) fn lag_1(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// A correlation without the bias that the estimation of a mean from each `n` values causes.
///
/// # Source
///
/// M. G. Kendall, *Biometrika* 41 (1954), 403-404, solved for the true value.
pub(crate) fn unbiased(ar1: f64, n: f64) -> f64 {
    if n > 4.0 { (n * ar1 + 1.0) / (n - 3.0) } else { AR1_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    /// Share of 1,000 series of `n` values in which the interval holds the true mean, 0.
    fn coverage(n: usize, ar1: f64) -> f64 {
        let holds = |seed: &u64| {
            let mut chance = SplitMix(*seed << 8 | 0x3e);
            let mut now = chance.normal();
            let next = |_| {
                let value = now;
                now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * chance.normal();
                value
            };
            let values: Vec<f64> = (0..n).map(next).collect();
            let (low, high) = interval(&values, 0.05).unwrap();
            low <= 0.0 && 0.0 <= high
        };
        (0..1_000).filter(holds).count() as f64 / 1_000.0
    }

    #[test]
    fn the_interval_of_a_drifting_machine_holds_its_mean() {
        for (n, ar1, least) in [
            (8, 0.0, 0.935),
            (13, 0.0, 0.935),
            (40, 0.0, 0.935),
            (40, 0.5, 0.90),
            (300, 0.5, 0.935),
            (300, 0.9, 0.90),
        ] {
            let found = coverage(n, ar1);
            println!("{n} values, memory {ar1}: the interval holds the mean in {:.1} %", 100.0 * found);
            assert!(found >= least, "{n} values, {ar1}: {found}");
        }
    }

    /// `cos(0.9*i) + 0.5*sin(2.3*i) + (1.5 if i >= 14 else 0) + (0.8 if i >= 29 else 0)` for i of 0 to 39:
    /// `testdata/history.py` computes the interval with statsmodels and scipy.
    #[test]
    fn with_a_memory_it_is_that_of_statsmodels_and_scipy() {
        let value = |i: u32| {
            let x = f64::from(i);
            let steps = if i >= 14 { 1.5 } else { 0.0 } + if i >= 29 { 0.8 } else { 0.0 };
            (0.9 * x).cos() + 0.5 * (2.3 * x).sin() + steps
        };
        let (low, high) = interval(&(0..40).map(value).collect::<Vec<f64>>(), 0.05).unwrap();
        assert!((low + 0.298_389_254_139_153_3).abs() < 1e-9, "{low}");
        assert!((high - 2.684_101_708_230_671_5).abs() < 1e-9, "{high}");
    }

    /// The same values as log ratios that wander: `testdata/history.py`, by dense matrices.
    #[test]
    fn the_interval_of_a_ratio_that_wanders_is_that_of_numpy_and_scipy() {
        let value = |i: u32| {
            let x = f64::from(i);
            let steps = if i >= 14 { 1.5 } else { 0.0 } + if i >= 29 { 0.8 } else { 0.0 };
            (0.9 * x).cos() + 0.5 * (2.3 * x).sin() + steps
        };
        let values: Vec<(f64, f64)> = (0..40).map(|i| (value(i), value(i))).collect();
        let paired = crate::paired::Paired::of_blocks(&values).unwrap();
        let (low, high) = paired.interval(0.05);
        for (found, known) in [
            (paired.neighbors().unwrap(), 0.769_142_414_487_526_3),
            (paired.df(), 1.954_947_643_679_912_3),
            (low, -2.245_956_606_937_74),
            (high, 4.631_669_061_029_259),
        ] {
            assert!((found - known).abs() < 1e-9, "{found} instead of {known}");
        }
    }

    #[test]
    fn without_a_memory_it_is_the_interval_of_t() {
        // scipy 1.17.1: t.interval(0.95, 4, mean, sem) of 1, 2, 3, 4, 10.
        let (low, high) = interval(&[1.0, 2.0, 3.0, 4.0, 10.0], 0.05).unwrap();
        assert!((low + 0.389_945_165_425_421_8).abs() < 1e-9, "{low}");
        assert!((high - 8.389_945_165_425_422).abs() < 1e-9, "{high}");
        assert_eq!((interval(&[1.0], 0.05), interval(&[2.0; 20], 0.05)), (None, Some((2.0, 2.0))));
    }
}
