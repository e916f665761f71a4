//! Background of a spectrum: noise with a memory, a first-order autoregression.

/// First-order autoregression, at even or uneven times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Background {
    /// Correlation of neighbors that are one median step apart, in [0, 1).
    pub ar1: f64,
    /// Variance of the values.
    pub variance: f64,
}

/// Maximum correlation that differs from a random walk.
const AR1_MAX: f64 = 0.9999;

impl Background {
    /// Most likely autoregression of values with mean 0.
    ///
    /// - `points`: time in steps and value; times rise.
    ///
    /// # Source
    ///
    /// M. Mudelsee, *Computers & Geosciences* 28 (2002), 69-72, with the likelihood in place of its sum of
    /// squares.
    pub(super) fn of(points: &[(f64, f64)]) -> Self {
        let cost = |ar1: f64| -Self::log_likelihood(points, ar1).0;
        let golden = f64::midpoint(5.0_f64.sqrt(), -1.0);
        let (mut low, mut high) = (0.0, AR1_MAX);
        for _ in 0..40 {
            let (left, right) = (high - golden * (high - low), low + golden * (high - low));
            if cost(left) < cost(right) {
                high = right;
            } else {
                low = left;
            }
        }
        let ar1 = f64::midpoint(low, high);
        Self { ar1, variance: Self::log_likelihood(points, ar1).1 }
    }

    /// Logarithm of the likelihood at the best variance, and that variance.
    pub(super) fn log_likelihood(points: &[(f64, f64)], ar1: f64) -> (f64, f64) {
        let n = points.len() as f64;
        let first = points.first().map_or(0.0, |p| p.1.powi(2));
        let (mut squares, mut logs) = (first, 0.0);
        for pair in points.windows(2) {
            let gap = pair[1].0 - pair[0].0;
            let kept = if (gap - 1.0).abs() < 1e-9 { ar1 } else { ar1.powf(gap) };
            let new_share = 1.0 - kept * kept;
            squares += (pair[1].1 - kept * pair[0].1).powi(2) / new_share;
            logs += new_share.ln();
        }
        let variance = squares / n;
        (-0.5 * (n * (std::f64::consts::TAU * variance).ln() + logs + n), variance)
    }

    /// Expected power at a frequency, in cycles a step, of values at even times.
    pub(super) fn at(&self, frequency: f64) -> f64 {
        let turn = (std::f64::consts::TAU * frequency).cos();
        let share = (1.0 - self.ar1.powi(2)) / (1.0 + self.ar1.powi(2) - 2.0 * self.ar1 * turn);
        share * self.variance
    }
}
