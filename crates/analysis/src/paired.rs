//! What differences from block to block say about the difference itself.

use crate::student::{p_two_sided, t_above};

/// Mean and spread of log ratios, one a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    n: usize,
    mean: f64,
    standard_error: f64,
}

impl Paired {
    /// From one log ratio a block, all finite; `None` of fewer than two, which have no spread.
    pub fn of(log_ratios: &[f64]) -> Option<Self> {
        assert!(log_ratios.iter().all(|d| d.is_finite()), "log ratios are finite");
        let n = log_ratios.len();
        if n < 2 {
            return None;
        }
        let mean = log_ratios.iter().sum::<f64>() / n as f64;
        let variance = log_ratios.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        Some(Self { n, mean, standard_error: (variance / n as f64).sqrt() })
    }

    /// Number of blocks.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Mean log ratio.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Standard deviation of a block's log ratio.
    pub fn sd(&self) -> f64 {
        self.standard_error * (self.n as f64).sqrt()
    }

    /// Two-sided p of the t test that the mean log ratio is no further than `distance` from 0.
    ///
    /// With `distance` 0, the paired t test. Else it asks whether the difference is larger than that: the interval at
    /// 1 - p just touches the nearer edge.
    pub fn p_beyond(&self, distance: f64) -> f64 {
        let over = self.mean.abs() - distance;
        if over <= 0.0 {
            return 1.0;
        }
        p_two_sided(over / self.standard_error, self.df())
    }

    /// Interval of the mean log ratio that leaves out `level` in both tails together: 0.05 gives 95 %.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = t_above(level / 2.0, self.df()) * self.standard_error;
        (self.mean - half, self.mean + half)
    }

    fn df(&self) -> f64 {
        (self.n - 1) as f64
    }
}

/// Median of the means of all pairs of `values`, each with itself too: a center that one wild block cannot move far.
///
/// `None` of none.
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

    #[test]
    fn blocks_that_agree_exactly_leave_no_doubt() {
        let paired = Paired::of(&[0.5; 6]).unwrap();
        assert!(paired.p_beyond(0.1) < 1e-300);
        assert_eq!(Paired::of(&[0.0; 6]).unwrap().p_beyond(0.0).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn one_wild_block_hardly_moves_the_hodges_lehmann_center() {
        // By hand: the Walsh averages of 1, 2, 30 are 1, 1.5, 2, 15.5, 16, 30.
        assert!((hodges_lehmann(&[1.0, 2.0, 30.0]).unwrap() - 8.75).abs() < 1e-12);
        assert!((hodges_lehmann(&[1.0, 2.0, 3.0, 4.0, 300.0]).unwrap() - 3.0).abs() < 1e-12);
        assert_eq!(hodges_lehmann(&[]), None);
    }
}
