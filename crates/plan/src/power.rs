//! What a number of blocks can find.
//!
//! The comparison is paired: one log ratio per block. With R blocks, a t test on R - 1 degrees of freedom finds a true
//! difference of d standard deviations (of that log ratio between blocks) with a probability that follows from the
//! noncentral t distribution with noncentrality d times the root of R.

/// Power that a design is told by: the chance to find a difference that is there.
pub(crate) const POWER: f64 = 0.8;

/// From here on the smallest p is no normal number any more.
const BLOCKS_MAX: u32 = 1_000;

/// The smallest true difference, in standard deviations of the log ratio between blocks, that a two-sided paired t
/// test at `alpha` finds with [`POWER`].
///
/// `None` below two blocks: no spread, no test.
///
/// # Source
///
/// Cohen, *Statistical Power Analysis*, 2nd ed. (1988), section 2.3.3; the distribution by Johnson, Kotz and
/// Balakrishnan, *Continuous Univariate Distributions* 2, chapter 31, as a mean over the chi distribution.
pub(crate) fn detectable_sd(blocks: u32, alpha: f64) -> Option<f64> {
    let degrees = blocks.checked_sub(1).filter(|&d| d > 0)?;
    let critical = bisect(0.0, 1e7, |t| above(degrees, 0.0, t) * 2.0 <= alpha);
    let root = f64::from(blocks).sqrt();
    Some(bisect(0.0, 2.0 * critical + 20.0, |d| above(degrees, d * root, critical) >= POWER))
}

/// The smallest p that the exact sign-flip test over `blocks` blocks can yield: 2 of 2^R.
pub(crate) fn smallest_p(blocks: u32) -> f64 {
    2.0 * 0.5_f64.powi(i32::try_from(blocks).unwrap_or(i32::MAX))
}

/// Blocks from which the exact sign-flip test can reach `alpha`.
pub(crate) fn blocks_needed(alpha: f64) -> u32 {
    (1..=BLOCKS_MAX).find(|&blocks| smallest_p(blocks) <= alpha).unwrap_or(BLOCKS_MAX)
}

/// P(T > t) for a noncentral t variable: the mean of P(Z > t s - noncentrality) over s, where s^2 is chi square over
/// its degrees of freedom. Simpson's rule over the range of s that holds all but 1e-12 of the weight.
fn above(degrees: u32, noncentrality: f64, t: f64) -> f64 {
    const STEPS: u32 = 1_000;
    let v = f64::from(degrees);
    // The density of s, up to a constant that the sum of weights divides out: s^(v-1) exp(-v s^2 / 2).
    let (low, high) = (0.0, 1.0 + 8.0 / v.sqrt());
    let step = (high - low) / f64::from(STEPS);
    let (mut sum, mut weights) = (0.0, 0.0);
    for i in 0..=STEPS {
        let s = low + f64::from(i) * step;
        let simpson = if i == 0 || i == STEPS { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        // Scaled by its value at s = 1, so that many degrees of freedom do not underflow.
        let log_density = if s == 0.0 && v > 1.0 {
            f64::NEG_INFINITY
        } else {
            (v - 1.0) * if v > 1.0 { s.ln() } else { 0.0 } - v * (s * s - 1.0) / 2.0
        };
        let weight = simpson * log_density.exp();
        weights += weight;
        sum += weight * (1.0 - normal(t * s - noncentrality));
    }
    sum / weights
}

/// Distribution function of the standard normal: 0.5 erfc(-x / sqrt 2), by its continued fraction far out and its
/// series near 0 (Abramowitz and Stegun 26.2.11 and 26.2.14).
fn normal(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 4.0 {
        let (mut term, mut sum) = (x, x);
        for i in 1..100 {
            term *= x * x / f64::from(2 * i + 1);
            sum += term;
            if term.abs() < 1e-17 {
                break;
            }
        }
        0.5 + density * sum
    } else {
        let fraction = (1..60).rev().fold(x.abs(), |below, k| x.abs() + f64::from(k) / below);
        let tail = density / fraction;
        if x > 0.0 { 1.0 - tail } else { tail }
    }
}

/// The point in the range from which `holds` is true, to within 1e-7 of its size.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    while high - low > 1e-7 * high.max(1e-3) {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} is not {expected} within {within}");
    }

    #[test]
    fn the_normal_distribution_has_its_tabled_values() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_1),
            (1.959_963_985, 0.975),
            (-3.0, 0.001_349_898),
            (4.5, 0.999_996_602_3),
        ] {
            near(normal(x), p, 1e-9);
        }
    }

    #[test]
    fn the_t_distribution_has_its_tabled_quantiles() {
        for (degrees, t, p) in [
            (1, 12.706_204_7, 0.025),
            (5, 2.570_581_8, 0.025),
            (9, 3.249_835_5, 0.005),
            (30, 2.042_272_5, 0.025),
        ] {
            near(above(degrees, 0.0, t), p, 2e-7);
        }
    }

    /// The simulated table of the method this design follows: 2.1 SD with 4 blocks, 1.4 with 6, 1.2 with 8, 1.0 with
    /// 10, 0.66 with 20.
    #[test]
    fn the_difference_that_blocks_find_is_the_simulated_one() {
        for (blocks, sd) in [(4, 2.1), (6, 1.4), (8, 1.2), (10, 1.0), (20, 0.66)] {
            near(detectable_sd(blocks, 0.05).unwrap(), sd, 0.05);
        }
        assert_eq!(detectable_sd(1, 0.05), None);
    }

    #[test]
    fn five_blocks_cannot_reach_five_percent_and_six_can() {
        near(smallest_p(5), 0.0625, 0.0);
        near(smallest_p(6), 0.031_25, 0.0);
        assert_eq!(blocks_needed(0.05), 6);
        assert_eq!(blocks_needed(0.01), 8);
    }
}
