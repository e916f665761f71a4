//! E-divisive: the split of a series at which the two sides differ most in distribution.
//!
//! # Source
//!
//! Matteson and James, *JASA* 109 (2014), 334-345, with distances to the power of 1.

use super::series::LEVEL_MIN;

/// Fewest values on each side of a split.
pub(super) const SIDE_MIN: usize = LEVEL_MIN;

/// Best split of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Split {
    /// Index of the first value after the split.
    pub(super) at: usize,
    /// End of the values after the split that the statistic compares.
    pub(super) until: usize,
    /// Energy statistic, divided by the mean distance of all pairs: independent of the unit.
    pub(super) energy: f64,
}

/// Sums of distances over rectangles of a table of pairs; its memory is reused.
#[derive(Debug, Default)]
pub(super) struct Energy {
    width: usize,
    /// `sums[i * width + j]`: sum of the distances between the first `i` and the first `j` values.
    sums: Vec<f64>,
}

impl Energy {
    /// Split with the greatest statistic over all positions and all ends of the second side.
    ///
    /// A free end finds a level that moves and moves back: against all later values, the first split of the
    /// two would be weak. `None` if there are fewer than two sides of values, or all are equal.
    pub(super) fn best_split(&mut self, values: &[f64]) -> Option<Split> {
        let n = values.len();
        if n < 2 * SIDE_MIN {
            return None;
        }
        self.fill(values);
        let pairs = (n * (n - 1)) as f64;
        let mean = self.sum(n, n) / pairs;
        if mean <= 0.0 {
            return None;
        }
        let mut best = Split { at: 0, until: 0, energy: f64::NEG_INFINITY };
        for at in SIDE_MIN..=n - SIDE_MIN {
            for until in at + SIDE_MIN..=n {
                let energy = self.statistic(at, until);
                if energy > best.energy {
                    best = Split { at, until, energy };
                }
            }
        }
        Some(Split { energy: best.energy / mean, ..best })
    }

    /// Statistic of the values before `at` against those from `at` up to `until`.
    pub(super) fn statistic(&self, at: usize, until: usize) -> f64 {
        let (m, n) = (at as f64, (until - at) as f64);
        let before = self.sum(at, at);
        let across = self.sum(at, until) - before;
        let after = self.sum(until, until) - 2.0 * self.sum(at, until) + before;
        m * n / (m + n) * (2.0 * across / (m * n) - before / (m * (m - 1.0)) - after / (n * (n - 1.0)))
    }

    pub(super) fn fill(&mut self, values: &[f64]) {
        self.width = values.len() + 1;
        self.sums.clear();
        self.sums.resize(self.width * self.width, 0.0);
        for (i, x) in values.iter().enumerate() {
            let (above, row) = self.sums[i * self.width..].split_at_mut(self.width);
            let mut sum = 0.0;
            for (j, y) in values.iter().enumerate() {
                sum += (x - y).abs();
                row[j + 1] = above[j + 1] + sum;
            }
        }
    }

    fn sum(&self, rows: usize, columns: usize) -> f64 {
        self.sums[rows * self.width + columns]
    }
}
