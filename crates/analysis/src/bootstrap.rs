//! Intervals by resampling whole blocks: what a block shares (its server, its moment) stays together.

use record::missing::{Maybe, Missing};
use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::chance::SplitMix;
use crate::student::t_above;

/// Fewest blocks for an interval: fewer give too few different samples.
pub(crate) const BLOCKS_MIN: usize = 6;
/// Samples drawn: about ten lie outside of the interval of six blocks at 5 %.
const DRAWS: usize = 2_000;

/// Expanded percentile interval of a statistic over `blocks` blocks.
///
/// The plain percentile interval of few blocks is too narrow, by the factor of a normal quantile to that of t
/// and by the root of (n - 1) / n. The expanded one takes more distant percentiles by the same factor.
///
/// - `statistic`: of the blocks with these numbers, of which some are there more than once; `None` if they
///   have none.
///
/// # Errors
///
/// Missing with fewer than six blocks, or if more than a tenth of the samples have no statistic.
///
/// # Source
///
/// T. C. Hesterberg, *The American Statistician* 69 (2015), 371-386 (expanded percentile interval).
pub(crate) fn over_blocks(
    blocks: usize,
    alpha: f64,
    seed: u64,
    statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Maybe<(f64, f64)> {
    let mut found = drawn(blocks, seed, statistic)?;
    found.sort_by(f64::total_cmp);
    let tail = tail(blocks as f64, alpha);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
    let beyond = (tail * found.len() as f64) as usize;
    Ok((found[beyond], found[found.len() - 1 - beyond]))
}

/// Interval of t about `value` with the standard error of the samples, for a statistic such as a median: the
/// samples of few blocks take so few values that their percentiles are too close.
///
/// - `statistic`: as of [`over_blocks`].
///
/// # Errors
///
/// As [`over_blocks`].
pub(crate) fn about(
    value: f64,
    (blocks, alpha, seed): (usize, f64, u64),
    statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Maybe<(f64, f64)> {
    let found = drawn(blocks, seed, statistic)?;
    let n = found.len() as f64;
    let mean = found.iter().sum::<f64>() / n;
    let error = (found.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let margin = far(blocks as f64, alpha) * error;
    Ok((value - margin, value + margin))
}

/// The statistic of each sample of the blocks.
fn drawn(blocks: usize, seed: u64, mut statistic: impl FnMut(&[usize]) -> Option<f64>) -> Maybe<Vec<f64>> {
    if blocks < BLOCKS_MIN {
        return Err(Missing::because(format!("an interval by bootstrap needs {BLOCKS_MIN} blocks")));
    }
    let mut chance = SplitMix(seed);
    let mut found = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let drawn: Vec<usize> = (0..blocks).map(|_| chance.below(blocks)).collect();
        found.extend(statistic(&drawn).filter(|value| value.is_finite()));
    }
    if found.len() < DRAWS - DRAWS / 10 {
        return Err(Missing::because("too many samples of the blocks have no value"));
    }
    Ok(found)
}

/// The t quantile of a tail, with the factor by which samples of few blocks vary too little.
fn far(n: f64, alpha: f64) -> f64 {
    t_above(alpha / 2.0, n - 1.0) * (n / (n - 1.0)).sqrt()
}

/// Share of the samples beyond each end.
fn tail(n: f64, alpha: f64) -> f64 {
    Normal::standard().sf(far(n, alpha))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy: `norm.sf(t.isf(0.025, n - 1) * sqrt(n / (n - 1)))`.
    #[test]
    fn few_blocks_take_more_distant_percentiles() {
        for (n, expected) in [(6.0, 0.002_432), (10.0, 0.008_549), (1e6, 0.025)] {
            assert!((tail(n, 0.05) / expected - 1.0).abs() < 0.002, "{n}: {}", tail(n, 0.05));
        }
    }

    #[test]
    fn the_interval_of_a_mean_covers_it_as_often_as_promised() {
        let mut chance = SplitMix(5);
        let runs = 600;
        let covers = |_: &u64| {
            let values: Vec<f64> = (0..6).map(|_| chance.normal()).collect();
            let mean = |drawn: &[usize]| Some(drawn.iter().map(|i| values[*i]).sum::<f64>() / 6.0);
            let (low, high) = over_blocks(6, 0.05, chance.next(), mean).unwrap();
            low <= 0.0 && 0.0 <= high
        };
        let covered = (0..runs).filter(covers).count();
        println!("{covered} of {runs} intervals of six blocks cover the mean");
        // Plain percentiles cover 87 %.
        assert!(covered * 100 >= 92 * 600, "{covered} of {runs}");
    }

    #[test]
    fn too_few_blocks_or_values_have_no_interval() {
        assert!(over_blocks(5, 0.05, 1, |_| Some(1.0)).is_err());
        assert!(over_blocks(6, 0.05, 1, |drawn| (drawn[0] > 0).then_some(1.0)).is_err());
        assert_eq!(over_blocks(6, 0.05, 1, |_| Some(2.0)), Ok((2.0, 2.0)));
    }
}
