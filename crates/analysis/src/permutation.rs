//! Permutation test of two independent samples: if both come from one distribution, every division of the
//! values into groups of these sizes is equally likely.

use crate::chance::SplitMix;
use crate::sign_flip::SignFlip;

/// Most divisions that are all tried; beyond it, they are drawn at random from the seed.
const EXACT_MAX: u64 = 200_000;
/// Random divisions drawn if there are too many to try them all.
const DRAWS: u32 = 20_000;

/// Smallest p that samples of these sizes can yield: 2 of all divisions.
pub(crate) fn smallest_p(a: usize, b: usize) -> f64 {
    if a == 0 || b == 0 { 1.0 } else { (2.0 / divisions(a + b, a)).min(1.0) }
}

/// Fewest values of each of two samples for which the test can reach `alpha`: 4 at 5 %.
pub(crate) fn least(alpha: f64) -> u32 {
    (2_u32..1_000).find(|n| smallest_p(*n as usize, *n as usize) <= alpha).unwrap_or(1_000)
}

/// Number of ways to choose `k` of `n`.
fn divisions(n: usize, k: usize) -> f64 {
    (1..=k.min(n - k)).fold(1.0, |ways, i| ways * (n + 1 - i) as f64 / i as f64)
}

/// Two-sided permutation test of the difference of the means.
///
/// It assumes that the samples have one shape under the null hypothesis; with sizes that differ, also one
/// spread. A sample without values gives p = 1.
///
/// # Source
///
/// E. J. G. Pitman, *Supplement to the Journal of the Royal Statistical Society* 4 (1937), 119-130.
pub(crate) fn test(a: &[f64], b: &[f64], seed: u64) -> SignFlip {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    assert!(all.iter().all(|v| v.is_finite()), "values are finite");
    if a.is_empty() || b.is_empty() {
        return SignFlip { p: 1.0, exact: true };
    }
    let (n, k, sum) = (all.len() as f64, a.len(), all.iter().sum::<f64>());
    // The difference of the means follows from the sum of one group: its distance from the sum that equal
    // means would give.
    let even = sum * k as f64 / n;
    let slack = 1e-12 * all.iter().map(|v| v.abs()).sum::<f64>();
    let seen = (a.iter().sum::<f64>() - even).abs() - slack;
    if divisions(all.len(), k) <= EXACT_MAX as f64 {
        let (mut as_far, mut ways) = (0_u64, 0_u64);
        each_sum(&all, k, 0.0, &mut |of_group| {
            ways += 1;
            as_far += u64::from((of_group - even).abs() >= seen);
        });
        return SignFlip { p: as_far as f64 / ways as f64, exact: true };
    }
    let (mut chance, mut shuffled) = (SplitMix(seed), all);
    let mut as_far = 0_u32;
    for _ in 0..DRAWS {
        for i in 0..k {
            let left = (shuffled.len() - i) as u64;
            let other = i + usize::try_from(chance.next() % left).expect("below a length");
            shuffled.swap(i, other);
        }
        as_far += u32::from((shuffled[..k].iter().sum::<f64>() - even).abs() >= seen);
    }
    SignFlip { p: f64::from(as_far + 1) / f64::from(DRAWS + 1), exact: false }
}

/// Calls `each` with the sum of every group of `k` values.
fn each_sum(values: &[f64], k: usize, sum: f64, each: &mut impl FnMut(f64)) {
    if k == 0 {
        return each(sum);
    }
    if values.len() < k {
        return;
    }
    each_sum(&values[1..], k - 1, sum + values[0], each);
    each_sum(&values[1..], k, sum, each);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_against_four_is_the_fewest_that_reach_five_percent() {
        // By hand: 2 of 70 and 2 of 20 divisions.
        assert!((smallest_p(4, 4) - 2.0 / 70.0).abs() < 1e-15 && (smallest_p(3, 3) - 0.1).abs() < 1e-15);
        assert_eq!([0.05, 0.01].map(least), [4, 5]);
        assert!(smallest_p(0, 9) >= 1.0 && smallest_p(1, 1) >= 1.0);
        let apart = test(&[1.0, 1.1, 1.2, 1.3], &[2.0, 2.1, 2.2, 2.3], 1);
        assert!(apart.exact && (apart.p - 2.0 / 70.0).abs() < 1e-15, "{apart:?}");
    }

    #[test]
    fn equal_samples_and_ties_are_no_evidence() {
        assert!((test(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 1).p - 1.0).abs() < 1e-15);
        assert!((test(&[0.1; 5], &[0.1; 6], 1).p - 1.0).abs() < 1e-15);
        assert!((test(&[], &[1.0], 1).p - 1.0).abs() < 1e-15);
    }

    /// scipy 1.17.1: `permutation_test((a, b), lambda x, y: mean(x) - mean(y),
    /// permutation_type='independent', n_resamples=inf).pvalue`.
    #[test]
    fn the_exact_p_is_that_of_scipy() {
        let a = [0.31, 0.12, 0.54, 0.77, 0.45, 0.23];
        let b = [0.02, 0.18, 0.33, -0.11, 0.05];
        let found = test(&a, &b, 1);
        assert!(found.exact && (found.p - SCIPY_P).abs() < 1e-12, "{found:?}");
    }
    const SCIPY_P: f64 = 18.0 / 462.0;

    #[test]
    fn draws_agree_with_counting() {
        let a: Vec<f64> = (0..10).map(|i| f64::from(i % 7) * 0.1).collect();
        let b: Vec<f64> = (0..10).map(|i| f64::from(i % 5) * 0.1 + 0.02).collect();
        let exact = test(&a, &b, 1);
        // One more value in the middle of each sample changes little, and makes the divisions too many to
        // try.
        let longer = |v: &[f64]| v.iter().copied().chain([0.25]).collect::<Vec<f64>>();
        let drawn = test(&longer(&a), &longer(&b), 1);
        assert!(exact.exact && !drawn.exact && (exact.p - drawn.p).abs() < 0.05, "{exact:?} {drawn:?}");
    }
}
