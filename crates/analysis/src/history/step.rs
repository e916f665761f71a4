//! One lasting step in noise with a memory: how much better it explains a series than the memory alone.
//!
//! A step and a long memory look alike. So both explanations get their best memory: the likelihood of an
//! autoregression with one step is compared with that of an autoregression without.

use super::energy::SIDE_MIN;

/// Best step of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// Index of the first value after the step.
    pub(super) at: usize,
    /// Twice the log likelihood ratio of the step.
    pub(super) ratio: f64,
    /// Memory of the noise around the step.
    pub(super) ar1: f64,
}

/// Correlations of neighbors that are tried; those of the likelihood lie between them.
const GRID: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// Finds the step with the greatest likelihood.
///
/// - `values`: at least `2 * SIDE_MIN`.
/// - `ar1_max`: upper bound of the memory, 0 or more.
/// - `sums`: buffer that is reused.
pub(super) fn best_step(values: &[f64], ar1_max: f64, sums: &mut Vec<f64>) -> Step {
    let n = values.len() as f64;
    let mut without = f64::INFINITY;
    let mut best = Step { at: 0, ratio: f64::INFINITY, ar1: 0.0 };
    for ar1 in GRID.into_iter().take_while(|ar1| *ar1 <= ar1_max) {
        let (squares, gain, at) = fitted(values, ar1, sums);
        let determinant = -(1.0 - ar1 * ar1).ln();
        let deviance = |squares: f64| n * (squares / n).max(f64::MIN_POSITIVE).ln() + determinant;
        without = without.min(deviance(squares));
        if deviance(squares - gain) < best.ratio {
            best = Step { at, ratio: deviance(squares - gain), ar1 };
        }
    }
    Step { ratio: without - best.ratio, ..best }
}

/// Generalized least squares with a known memory: squares around one level, the most that a step takes off
/// them, and its position.
fn fitted(values: &[f64], ar1: f64, sums: &mut Vec<f64>) -> (f64, f64, usize) {
    let n = values.len();
    // Whitened, the first value and a level in it have this weight, later levels `rest`.
    let (first, rest) = ((1.0 - ar1 * ar1).sqrt(), 1.0 - ar1);
    sums.clear();
    sums.push(0.0);
    let mut squares = (first * values[0]).powi(2);
    for (i, pair) in values.windows(2).enumerate() {
        let innovation = pair[1] - ar1 * pair[0];
        sums.push(sums[i] + innovation);
        squares += innovation * innovation;
    }
    // `sums[i]`: innovations of the values 1 to i.
    let level = first * first + (n - 1) as f64 * rest * rest;
    let with_level = first * first * values[0] + rest * sums[n - 1];
    let mut best = (f64::NEG_INFINITY, 0);
    for at in SIDE_MIN..=n - SIDE_MIN {
        // A step is whole in the first innovation after it, and `rest` in each later one.
        let later = (n - at - 1) as f64;
        let with_step = sums[at] - sums[at - 1] + rest * (sums[n - 1] - sums[at]);
        let both = rest + later * rest * rest;
        let alone = 1.0 + later * rest * rest - both * both / level;
        let effect = with_step - both * with_level / level;
        let gain = effect * effect / alone;
        if gain > best.0 {
            best = (gain, at);
        }
    }
    (squares - with_level * with_level / level, best.0, best.1)
}
