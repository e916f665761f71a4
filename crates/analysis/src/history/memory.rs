//! Memory of the noise around levels: a first-order autoregression.
//!
//! What a machine does in one run resembles what it did in the run before. Such noise wanders, and a test for
//! independent values calls its wandering a change. The memory cannot be read from the values alone, because
//! a change of level looks like memory: it is estimated from the residuals around the best candidate levels.

use super::energy::SIDE_MIN;
use crate::mean::{AR1_MAX, lag_1, unbiased};
use crate::robust::TO_SD;

/// Values around candidate levels, and the memory of the residuals.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remembering {
    /// Values as they were given.
    pub(super) raw: Vec<f64>,
    /// Values, with outliers moved to a bound.
    pub(super) tamed: Vec<f64>,
    /// Correlation of neighbors, in [0, [`AR1_MAX`]].
    pub(super) ar1: f64,
}

/// Bounds of values and of their residuals, in standard deviations by the median.
const WILD: f64 = 5.0;
const WILD_FOR_MEMORY: f64 = 3.0;

impl Remembering {
    /// - `values`: at least `2 * SIDE_MIN`.
    pub(super) fn of(values: &[f64]) -> Self {
        let tamed = tamed(values);
        let levels = candidate_levels(&tamed);
        let left: Vec<f64> = tamed.iter().zip(&levels.fit).map(|(v, level)| v - level).collect();
        let bound = WILD_FOR_MEMORY * spread(&left);
        let ar1 = lag_1(&left.iter().map(|r| r.clamp(-bound, bound)).collect::<Vec<_>>());
        let each = values.len() as f64 / (levels.steps + 1) as f64;
        Self { raw: values.to_vec(), tamed, ar1: unbiased(ar1, each).clamp(0.0, AR1_MAX) }
    }

    /// One standard error above the memory, at most `ar1_max`: a memory that is taken too small makes false
    /// changes.
    pub(super) fn at_most(&self, ar1_max: f64) -> f64 {
        let error = ((1.0 - self.ar1 * self.ar1) / self.tamed.len() as f64).sqrt();
        (self.ar1 + error).min(ar1_max)
    }

    /// The values around the means of their levels, each as far as if its level's mean did not contain it.
    ///
    /// - `starts`: of the levels after the first one, in rising order.
    pub(super) fn around(&self, starts: &[usize]) -> Vec<f64> {
        let ends = starts.iter().copied().chain([self.tamed.len()]);
        let of_level = |(from, to): (usize, usize)| {
            let (level, n) = (&self.tamed[from..to], (to - from) as f64);
            let mean = level.iter().sum::<f64>() / n;
            level.iter().map(move |v| (v - mean) * n / (n - 1.0).max(1.0))
        };
        std::iter::once(0).chain(starts.iter().copied()).zip(ends).flat_map(of_level).collect()
    }

    /// Innovations of the values: each without the part that it remembers of the one before.
    pub(super) fn innovations(&self, ar1: f64) -> Vec<f64> {
        self.tamed.windows(2).map(|w| w[1] - ar1 * w[0]).collect()
    }
}

/// Values with outliers moved to a bound around the median of their neighborhood.
///
/// Fewer outliers in a row than the shortest level has values do not move that median; a level does.
pub(super) fn tamed(values: &[f64]) -> Vec<f64> {
    const REACH: usize = SIDE_MIN - 1;
    let around = |i: usize| {
        let (from, to) = (i.saturating_sub(REACH), (i + REACH + 1).min(values.len()));
        let mut near = [0.0; 2 * REACH + 1];
        let near = &mut near[..to - from];
        near.copy_from_slice(&values[from..to]);
        near.sort_unstable_by(f64::total_cmp);
        near[(to - from - 1) / 2].midpoint(near[(to - from) / 2])
    };
    let middles: Vec<f64> = (0..values.len()).map(around).collect();
    let off: Vec<f64> = values.iter().zip(&middles).map(|(v, middle)| v - middle).collect();
    let bound = WILD * spread(&off);
    off.iter().zip(&middles).map(|(off, middle)| middle + off.clamp(-bound, bound)).collect()
}

/// Standard deviation by the median of absolute values; infinite if that is 0, which bounds nothing.
fn spread(left: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = left.iter().map(|r| r.abs()).collect();
    let middle = sizes.len() / 2;
    let (_, size, _) = sizes.select_nth_unstable_by(middle, f64::total_cmp);
    if *size > 0.0 { *size * TO_SD } else { f64::INFINITY }
}

/// Piecewise constant fit.
pub(super) struct Levels {
    /// Level at each value.
    pub(super) fit: Vec<f64>,
    /// Number of steps in it.
    pub(super) steps: usize,
}

/// Least-squares levels with two steps, or one for fewer than [`TWO_STEPS_FROM`] values.
pub(super) fn candidate_levels(values: &[f64]) -> Levels {
    /// With fewer values, two steps leave too little to estimate a correlation from.
    const TWO_STEPS_FROM: usize = 40;
    let n = values.len();
    let middle = values.iter().sum::<f64>() / n as f64;
    // Sums about the mean keep the digits of a small spread far from 0.
    let mut sums = vec![0.0; n + 1];
    for (i, v) in values.iter().enumerate() {
        sums[i + 1] = sums[i] + (v - middle);
    }
    // A fit's sum of squares falls by the square of each stretch's sum over its length.
    let gain = |from: usize, to: usize| (sums[to] - sums[from]).powi(2) / (to - from) as f64;
    let one_step = |end: usize| {
        let starts = SIDE_MIN..=end - SIDE_MIN;
        let of = |at: usize| (gain(0, at) + gain(at, end), at);
        starts.map(of).fold((f64::NEG_INFINITY, 0), |best, one| if one.0 > best.0 { one } else { best })
    };
    let starts: Vec<usize> = if n < TWO_STEPS_FROM {
        vec![0, one_step(n).1, n]
    } else {
        let mut best = (f64::NEG_INFINITY, 0, 0);
        for second in 2 * SIDE_MIN..=n - SIDE_MIN {
            let (before, first) = one_step(second);
            let all = before + gain(second, n);
            if all > best.0 {
                best = (all, first, second);
            }
        }
        vec![0, best.1, best.2, n]
    };
    let level = |w: &[usize]| vec![middle + (sums[w[1]] - sums[w[0]]) / (w[1] - w[0]) as f64; w[1] - w[0]];
    Levels { fit: starts.windows(2).flat_map(level).collect(), steps: starts.len() - 2 }
}
