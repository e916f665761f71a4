//! Mean difference and its uncertainty: from the differences of the blocks, or from two independent samples.

use crate::mean::{Memory, clear_memory, memory, unclear_memory};
use crate::student::{p_above, p_two_sided, t_above};

/// Mean log ratio and its spread: of one log ratio per block, or between two independent samples of logs.
/// Each value is bounded by an interval.
///
/// The intervals widen every conclusion by the most that any choice of values inside them could change it:
/// with middles m and half widths h, the mean moves by at most the mean of h, and the root of the sum of
/// squares about it by at most the root of the sum of h^2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    n: usize,
    mean: f64,
    standard_error: f64,
    /// Degrees of freedom of the standard error.
    df: f64,
    /// Standard deviation of the log ratio of one pair of values.
    sd: f64,
    /// Largest shift of `mean` that the intervals allow.
    open: f64,
    /// Largest increase of the standard error that the intervals allow.
    open_error: f64,
    /// Correlation of log ratios of neighboring blocks, if the standard error allows for it.
    neighbors: Option<f64>,
    /// The same, if it is notable but not clear, so that the standard error does not allow for it.
    unclear: Option<f64>,
}

impl Paired {
    /// Computes the statistics from one log ratio per block, all finite; `None` of fewer than two, which have
    /// no spread.
    pub fn of(log_ratios: &[f64]) -> Option<Self> {
        let exact: Vec<(f64, f64)> = log_ratios.iter().map(|d| (*d, *d)).collect();
        Self::bracketed(&exact)
    }

    /// Computes the statistics from the bounds of each block's log ratio, all finite; `None` of fewer than
    /// two.
    pub fn bracketed(log_ratios: &[(f64, f64)]) -> Option<Self> {
        assert!(log_ratios.iter().all(|(low, high)| low.is_finite() && low <= high && high.is_finite()));
        let n = log_ratios.len();
        if n < 2 {
            return None;
        }
        let blocks = n as f64;
        let middle = |(low, high): &(f64, f64)| low.midpoint(*high);
        let half = |(low, high): &(f64, f64)| (high - low) / 2.0;
        let mean = log_ratios.iter().map(middle).sum::<f64>() / blocks;
        let squares: f64 = log_ratios.iter().map(|d| (middle(d) - mean).powi(2)).sum();
        let half_squares: f64 = log_ratios.iter().map(|d| half(d).powi(2)).sum();
        let error = |squares: f64| (squares / (blocks - 1.0) / blocks).sqrt();
        Some(Self {
            n,
            mean,
            standard_error: error(squares),
            df: blocks - 1.0,
            sd: error(squares) * blocks.sqrt(),
            open: log_ratios.iter().map(half).sum::<f64>() / blocks,
            open_error: error(half_squares),
            neighbors: None,
            unclear: None,
        })
    }

    /// Variant of [`Self::bracketed`] for values in order of time, with one value for each block: what a
    /// machine does in one block resembles what it did in the block before.
    pub(crate) fn in_order(logs: &[(f64, f64)]) -> Option<Self> {
        let alike = Self::bracketed(logs)?;
        let middles: Vec<f64> = logs.iter().map(|(low, high)| low.midpoint(*high)).collect();
        let Memory { error_ratio, df } = memory(&middles);
        Some(Self {
            standard_error: alike.standard_error * error_ratio,
            open_error: alike.open_error * error_ratio,
            df,
            ..alike
        })
    }

    /// Variant of [`Self::bracketed`] for log ratios of blocks in order of time.
    ///
    /// The drift of a machine cancels in them. A side that becomes faster or slower itself does not: its log
    /// ratios resemble their neighbors, and are worth fewer than there are.
    pub(crate) fn of_blocks(log_ratios: &[(f64, f64)]) -> Option<Self> {
        let alike = Self::bracketed(log_ratios)?;
        let middles: Vec<f64> = log_ratios.iter().map(|(low, high)| low.midpoint(*high)).collect();
        let Some((neighbors, Memory { error_ratio, df })) = clear_memory(&middles) else {
            return Some(Self { unclear: unclear_memory(&middles), ..alike });
        };
        Some(Self {
            standard_error: alike.standard_error * error_ratio,
            open_error: alike.open_error * error_ratio,
            df,
            neighbors: Some(neighbors),
            ..alike
        })
    }

    /// Computes the difference of the means of two independent samples of logs, `a` minus `b`, by Welch's
    /// unequal-variances t test; `None` if either has fewer than two values.
    ///
    /// - `a`, `b`: bounds of each value's logarithm, all finite.
    ///
    /// # Source
    ///
    /// B. L. Welch, *Biometrika* 34 (1947), 28-35; degrees of freedom by Satterthwaite, *Biometrics Bulletin*
    /// 2 (1946), 110-114.
    pub fn independent(a: &[(f64, f64)], b: &[(f64, f64)]) -> Option<Self> {
        let (a, b) = (Self::bracketed(a)?, Self::bracketed(b)?);
        let (of_a, of_b) = (a.standard_error.powi(2), b.standard_error.powi(2));
        let all = of_a + of_b;
        let df =
            if all > 0.0 { all.powi(2) / (of_a.powi(2) / a.df + of_b.powi(2) / b.df) } else { a.df + b.df };
        Some(Self {
            n: a.n.min(b.n),
            mean: a.mean - b.mean,
            standard_error: all.sqrt(),
            df,
            sd: a.sd.hypot(b.sd),
            open: a.open + b.open,
            open_error: a.open_error + b.open_error,
            neighbors: None,
            unclear: None,
        })
    }

    /// Number of blocks; of independent samples, the size of the smaller one.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Mean log ratio.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Standard deviation of the log ratio of a block, or of one value of each sample.
    pub fn sd(&self) -> f64 {
        self.sd
    }

    /// Degrees of freedom of the error: the number of blocks minus one, fewer of blocks with a memory, or
    /// those of Welch's test.
    pub fn df(&self) -> f64 {
        self.df
    }

    /// Correlation of log ratios of neighboring blocks; `None` unless it is clearly over 0.
    pub(crate) fn neighbors(&self) -> Option<f64> {
        self.neighbors
    }

    /// Correlation that few blocks show, but not clearly: if it is real, the intervals are too narrow.
    pub(crate) fn unclear(&self) -> Option<f64> {
        self.unclear
    }

    /// Largest shift of the mean that the values' own intervals allow.
    pub fn open(&self) -> f64 {
        self.open
    }

    /// Two-sided p of the t test that the mean log ratio is at most `distance` from 0.
    ///
    /// With `distance` 0, this is the paired t test. Otherwise it tests for a difference larger than that:
    /// the interval at 1 - p just touches the nearer edge.
    pub fn p_beyond(&self, distance: f64) -> f64 {
        let over = self.mean.abs() - self.open - distance;
        if over <= 0.0 {
            return 1.0;
        }
        p_two_sided(over / self.error(), self.df())
    }

    /// One-sided p of the t test that the mean log ratio is at most `distance`; 1 unless the mean is over it.
    pub(crate) fn p_over(&self, distance: f64) -> f64 {
        let over = self.mean - self.open - distance;
        if over <= 0.0 {
            return 1.0;
        }
        p_above(over / self.error(), self.df())
    }

    /// One-sided p of the t test that the mean log ratio is at least `distance` from 0: the larger of two
    /// one-sided ones.
    pub fn p_within(&self, distance: f64) -> f64 {
        let inside = distance - self.mean.abs() - self.open;
        if inside <= 0.0 {
            return 1.0;
        }
        p_above(inside / self.error(), self.df())
    }

    /// Interval of the mean log ratio that leaves `level` in both tails together: 0.05 gives 95 %.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = self.open + t_above(level / 2.0, self.df()) * self.error();
        (self.mean - half, self.mean + half)
    }

    /// Standard error, with the largest increase that the values' own intervals allow.
    pub(crate) fn error(&self) -> f64 {
        self.standard_error + self.open_error
    }
}

/// Median of the means of all pairs of `values`, including each value with itself: one outlier cannot move it
/// far.
///
/// `None` for an empty slice.
///
/// # Source
///
/// Hodges and Lehmann, *Annals of Mathematical Statistics* 34 (1963), 598-611.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut means: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(i, a)| values[i..].iter().map(move |b| a.midpoint(*b)))
        .collect();
    means.sort_by(f64::total_cmp);
    let upper = means.get(means.len() / 2)?;
    Some(if means.len().is_multiple_of(2) { means[means.len() / 2 - 1].midpoint(*upper) } else { *upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_has_no_spread() {
        assert_eq!(Paired::of(&[0.1]), None);
        assert_eq!(Paired::of(&[]), None);
    }

    #[test]
    fn p_and_interval_are_two_views_of_one_test() {
        let paired = Paired::of(&[0.031, 0.052, 0.047, 0.029, 0.06, 0.041]).unwrap();
        let p = paired.p_beyond(0.01);
        assert!((paired.interval(p).0 - 0.01).abs() < 1e-9, "{:?}", paired.interval(p));
        assert!((paired.p_beyond(0.2) - 1.0).abs() < 1e-15);
    }

    /// statsmodels 0.15: `DescrStatsW(d).ttost_mean(-0.03, 0.03)[0]`; scipy 1.17.1: `ttest_1samp(d, 0.001,
    /// alternative="greater")`.
    #[test]
    fn one_sided_tests_are_those_of_statsmodels_and_scipy() {
        let paired = Paired::of(&[0.012, -0.008, 0.021, 0.004, -0.015, 0.009, 0.017]).unwrap();
        assert!(
            (paired.p_within(0.03) - 0.001_354_520_883_875_482).abs() < 1e-9,
            "{}",
            paired.p_within(0.03)
        );
        assert!((paired.p_over(0.001) - 0.189_089_833_608_120_15).abs() < 1e-9, "{}", paired.p_over(0.001));
    }

    #[test]
    fn blocks_that_agree_exactly_leave_no_doubt() {
        let paired = Paired::of(&[0.5; 6]).unwrap();
        assert!(paired.p_beyond(0.1) < 1e-300);
        assert_eq!(Paired::of(&[0.0; 6]).unwrap().p_beyond(0.0).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn an_interval_holds_the_interval_of_every_choice_of_values_within_the_brackets() {
        let brackets =
            [(0.01, 0.013), (-0.02, 0.01), (0.005, 0.006), (0.03, 0.05), (0.0, 0.0), (-0.01, 0.02)];
        let wide = Paired::bracketed(&brackets).unwrap();
        // Every corner of the box, and its middle: the ends of an interval are convex in the values.
        for corner in 0..1_u32 << brackets.len() {
            let chosen: Vec<f64> = brackets
                .iter()
                .enumerate()
                .map(|(i, (low, high))| if corner >> i & 1 == 1 { *high } else { *low })
                .collect();
            let exact = Paired::of(&chosen).unwrap();
            for level in [0.05, 0.000_8] {
                let (low, high) = exact.interval(level);
                assert!(wide.interval(level).0 <= low && high <= wide.interval(level).1);
            }
            assert!(wide.p_beyond(0.0) >= exact.p_beyond(0.0));
            assert!(wide.p_within(0.1) >= exact.p_within(0.1));
        }
    }

    #[test]
    fn within_is_decided_where_the_interval_lies_inside() {
        let paired = Paired::of(&[0.004, -0.006, 0.002, -0.003, 0.007, -0.004]).unwrap();
        let p = paired.p_within(0.01);
        let (low, high) = paired.interval(2.0 * p);
        assert!((low.abs().max(high.abs()) - 0.01).abs() < 1e-9, "{low} {high}");
        assert!((Paired::of(&[0.5; 6]).unwrap().p_within(0.1) - 1.0).abs() < 1e-15);
        assert!(Paired::of(&[0.0; 6]).unwrap().p_within(0.1) < 1e-300);
    }

    #[test]
    fn one_wild_block_hardly_moves_the_hodges_lehmann_center() {
        // By hand: the Walsh averages of 1, 2, 30 are 1, 1.5, 2, 15.5, 16, 30.
        assert!((hodges_lehmann(&[1.0, 2.0, 30.0]).unwrap() - 8.75).abs() < 1e-12);
        assert!((hodges_lehmann(&[1.0, 2.0, 3.0, 4.0, 300.0]).unwrap() - 3.0).abs() < 1e-12);
        assert_eq!(hodges_lehmann(&[]), None);
    }
}
