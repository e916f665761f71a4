//! Power of a design: one model for the plan before it starts and for the blocks that an undecided pair
//! needs.
//!
//! The model is the rule of `judge`: the t test at the strictest level of the family on the error of the
//! pair's own blocks, and the sign-flip test. With few blocks the sign-flip test decides: with six, every
//! block must have the same sign. The model does not depend on the correlation between comparisons;
//! `simulated.rs` tests it with families of independent and of strongly correlated trials.

use std::f64::consts::LN_2;

use record::bakeoff::{blocks_min, smallest_p};
use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::function::gamma::ln_gamma;

use crate::chance::SplitMix;
use crate::sign_flip::sign_flip;
use crate::student::t_above;

/// Power at which a design is described: the probability of finding a true difference.
pub const POWER: f64 = 0.8;

/// Maximum number of blocks for which the sign-flip test is simulated; with more, every result that passes
/// the t test passes it too.
const FLIPPED_BLOCKS_MAX: u32 = 12;
/// Simulated sets of blocks: the standard error of a power of 80 % is 0.6 points.
const DRAWS: usize = 4_000;

/// Size and level of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Number of blocks.
    pub blocks: u32,
    /// Comparisons in the family: configurations against the reference x conditions x metrics that can be
    /// judged.
    pub comparisons: u32,
    /// Accepted rate of any false verdict in the family.
    pub alpha: f64,
}

/// Smallest true difference that is found with [`POWER`] if it is the only one of the family: its distance
/// from the region of practical equivalence, in standard deviations of the log ratio between blocks.
///
/// `None` if the design allows no claim at any difference.
pub fn detectable_sd(design: &Design) -> Option<f64> {
    can_claim(design).then(|| bisect(0.0, 1e3, |sd| found(design, sd) >= POWER))
}

/// Smallest half width of the region of practical equivalence, in the same standard deviations, at which
/// configurations that do not differ are found equivalent with [`POWER`], each by itself.
///
/// `None` under the conditions of [`detectable_sd`].
pub fn equivalence_sd(design: &Design) -> Option<f64> {
    can_claim(design).then(|| bisect(0.0, 1e3, |edge| equivalent(design, edge) >= POWER))
}

/// Probability of finding a difference that lies `difference_sd` standard deviations beyond the region.
pub fn found(design: &Design, difference_sd: f64) -> f64 {
    let level = design.alpha / f64::from(design.comparisons);
    Claim { blocks: design.blocks, df: free(design.blocks), level, alpha: design.alpha }
        .power(difference_sd, 0.0)
}

/// Probability of finding a pair without any difference equivalent within `edge_sd` standard deviations.
pub fn equivalent(design: &Design, edge_sd: f64) -> f64 {
    let level = design.alpha / 2.0 / f64::from(design.comparisons);
    within((design.blocks, free(design.blocks)), level, 0.0, edge_sd)
}

/// Degrees of freedom of the spread of independent blocks.
fn free(blocks: u32) -> f64 {
    f64::from(blocks - 1)
}

fn can_claim(design: &Design) -> bool {
    design.comparisons > 0 && design.blocks >= blocks_min(design.alpha)
}

/// Assumed truth about a pair, from which to compute the number of blocks that would decide it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    /// Mean log ratio, without its sign.
    pub(crate) mean: f64,
    /// Standard deviation of a block's log ratio; of blocks that resemble each other, that of independent
    /// ones with the same error of the mean.
    pub(crate) sd: f64,
    /// Degrees of freedom that a block adds: 1 if blocks are independent.
    pub(crate) df_of_a_block: f64,
    /// Largest shift of the mean that the values' own intervals allow.
    pub(crate) open: f64,
    /// ln(1 + rope).
    pub(crate) edge: f64,
    pub(crate) alpha: f64,
    /// Number of members of the family.
    pub(crate) comparisons: usize,
}

/// Probability that `blocks` blocks find the true verdict: better or worse, or equivalent.
pub(crate) fn of_verdict(truth: &Truth, blocks: u32) -> f64 {
    let (alpha, comparisons) = (truth.alpha, truth.comparisons as f64);
    let df = (free(blocks) * truth.df_of_a_block).max(1.0);
    let in_sd = |ln: f64| if ln == 0.0 { 0.0 } else { ln / truth.sd };
    if truth.mean - truth.open > truth.edge {
        let claim = Claim { blocks, df, level: alpha / comparisons, alpha };
        claim.power(in_sd(truth.mean), in_sd(truth.edge + truth.open))
    } else {
        within((blocks, df), alpha / 2.0 / comparisons, in_sd(truth.mean + truth.open), in_sd(truth.edge))
    }
}

/// The two tests that make a pair better or worse.
struct Claim {
    blocks: u32,
    /// Degrees of freedom of the t test.
    df: f64,
    /// Level of the t test, two-sided.
    level: f64,
    /// Level of the sign-flip test.
    alpha: f64,
}

impl Claim {
    /// Probability that both tests find a mean of `mean` standard deviations beyond `edge`; a claim with the
    /// wrong sign does not count.
    fn power(&self, mean: f64, edge: f64) -> f64 {
        if !mean.is_finite() {
            return 1.0;
        }
        let t = t_above(self.level / 2.0, self.df);
        if self.blocks > FLIPPED_BLOCKS_MAX {
            return above(self.df, (mean - edge) * f64::from(self.blocks).sqrt(), t);
        }
        let mut chance = SplitMix(2);
        let claims = (0..DRAWS).filter(|_| self.is_claimed(mean, edge, t, &mut chance)).count();
        claims as f64 / DRAWS as f64
    }

    fn is_claimed(&self, mean: f64, edge: f64, t: f64, chance: &mut SplitMix) -> bool {
        let blocks: Vec<f64> = (0..self.blocks).map(|_| mean + chance.normal()).collect();
        let n = f64::from(self.blocks);
        let found = blocks.iter().sum::<f64>() / n;
        let squares: f64 = blocks.iter().map(|d| (d - found).powi(2)).sum();
        found - edge > t * (squares / (n - 1.0) / n).sqrt() && self.flips(&blocks)
    }

    fn flips(&self, blocks: &[f64]) -> bool {
        if blocks.iter().all(|d| *d > 0.0) {
            return smallest_p(self.blocks) <= self.alpha;
        }
        sign_flip(blocks, 0).p <= self.alpha
    }
}

/// Probability that two one-sided t tests at `level` find a mean of `mean` within `edge`, both in standard
/// deviations.
fn within((blocks, df): (u32, f64), level: f64, mean: f64, edge: f64) -> f64 {
    if !edge.is_finite() {
        return if mean < edge || mean.is_finite() { 1.0 } else { 0.0 };
    }
    let (root, t) = (f64::from(blocks).sqrt(), t_above(level, df));
    mean_over_spread(df, edge * root / t, |s| {
        let reach = (edge * root - t * s).max(0.0);
        normal(reach - mean * root) - normal(-reach - mean * root)
    })
}

/// P(T > t) for a noncentral t variable: the mean of P(Z > t s - noncentrality) over s, with s^2 chi square
/// divided by its degrees of freedom.
///
/// # Source
///
/// Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2, chapter 31.
fn above(df: f64, noncentrality: f64, t: f64) -> f64 {
    mean_over_spread(df, f64::INFINITY, |s| normal(noncentrality - t * s))
}

/// Mean of `of` over s up to `until`, with s^2 chi square divided by its degrees of freedom: Simpson's rule
/// over the range with all but 1e-12 of the weight. Beyond `until`, `of` is 0; a corner inside the range
/// would cost digits.
fn mean_over_spread(df: f64, until: f64, of: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 1_000;
    let high = (1.0 + 8.0 / df.sqrt()).min(until);
    let step = high / f64::from(STEPS);
    // The density of s is s^(v-1) exp(-v s^2 / 2) over this constant; both are scaled by their value at s =
    // 1, because they would underflow for many degrees of freedom.
    let half = df / 2.0;
    let log_constant = half + (half - 1.0) * LN_2 + ln_gamma(half) - half * df.ln();
    let mut sum = 0.0;
    for i in 0..=STEPS {
        let s = f64::from(i) * step;
        let simpson = if i == 0 || i == STEPS { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        let log_density = if s == 0.0 && df > 1.0 {
            f64::NEG_INFINITY
        } else {
            (df - 1.0) * if df > 1.0 { s.ln() } else { 0.0 } - df * (s * s - 1.0) / 2.0
        };
        sum += simpson * (log_density - log_constant).exp() * of(s);
    }
    sum * step / 3.0
}

fn normal(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

/// Point in the range from which `holds` is true, to within a thousandth of it.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    while high - low > 1e-3 * high.max(1e-3) {
        let middle = if low == 0.0 && high > 1.0 { high / 8.0 } else { f64::midpoint(low, high) };
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
    fn the_t_distribution_has_its_tabled_quantiles() {
        for (df, t, p) in [(1.0, 12.706_204_7, 0.025), (5.0, 2.570_581_8, 0.025), (9.0, 3.249_835_5, 0.005)] {
            near(above(df, 0.0, t), p, 2e-7);
        }
    }

    /// scipy 1.17.1: `nct.sf(t, df, noncentrality)`; of `within`, the integral over the chi distribution of
    /// the spread by `integrate.quad`.
    #[test]
    fn powers_are_those_of_scipy() {
        for (df, noncentrality, t, p) in [
            (12.0, 3.5, 2.178_812_829_663_417_7, 0.894_185_114_077_050_3),
            (19.0, 2.0, 2.5, 0.332_761_238_742_567_2),
            (5.0, 4.0, 2.57, 0.887_358_566_096_982_9),
            (299.0, 3.0, 1.967_9, 0.848_592_661_707_839_8),
        ] {
            near(above(df, noncentrality, t), p, 1e-9);
        }
        for (blocks, level, mean, edge, p) in [
            (20, 0.025, 0.3, 0.9, 0.720_097_377_748_206_7),
            (13, 0.012_5, 0.0, 1.2, 0.892_828_565_196_827_7),
            (300, 0.025, 0.1, 0.25, 0.735_551_662_410_851_5),
        ] {
            near(within((blocks, free(blocks)), level, mean, edge), p, 1e-9);
        }
    }

    fn design(blocks: u32, comparisons: u32) -> Design {
        Design { blocks, comparisons, alpha: 0.05 }
    }

    /// Derivation: the t test alone would find 1.4 standard deviations with 6 blocks. But all six must have
    /// one sign, which at 1.4 happens in 0.919^6 = 60 % of cases, and at 1.8 in 0.964^6 = 80 %.
    #[test]
    fn with_six_blocks_the_sign_flip_test_decides() {
        near(detectable_sd(&design(6, 1)).unwrap(), 1.8, 0.06);
        near(detectable_sd(&design(10, 1)).unwrap(), 1.05, 0.06);
        near(detectable_sd(&design(20, 1)).unwrap(), 0.66, 0.01);
        assert_eq!(detectable_sd(&design(5, 1)), None);
        assert_eq!(detectable_sd(&design(6, 0)), None);
    }

    /// The table in docs/statistics.md, by blocks and comparisons.
    #[test]
    fn the_table_in_the_documentation_is_what_is_promised() {
        let table =
            [(6, 1, 1.8), (6, 6, 2.2), (6, 63, 3.7), (8, 6, 1.6), (8, 63, 2.4), (10, 63, 1.9), (12, 4, 1.1)];
        for (blocks, comparisons, sd) in table {
            let found = detectable_sd(&design(blocks, comparisons)).unwrap();
            println!("{blocks} blocks, {comparisons} comparisons: {found:.3}");
            near(found, sd, 0.05);
        }
    }

    #[test]
    fn more_blocks_find_less_and_show_equivalence_within_less() {
        let sd = |blocks| detectable_sd(&design(blocks, 9)).unwrap();
        let edge = |blocks| equivalence_sd(&design(blocks, 9)).unwrap();
        assert!(sd(6) > sd(8) && sd(8) > sd(12) && sd(12) > sd(13) && sd(13) > sd(40));
        assert!(edge(6) > edge(8) && edge(8) > edge(40));
    }
}
