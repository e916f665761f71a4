//! Sign-flip test: if the configurations were alike, each block's difference could equally have had the other
//! sign.
//!
//! It assumes no distribution. The random order within a block justifies it: the two configurations could
//! have swapped places.

use crate::chance::SplitMix;

/// Maximum number of blocks for which all 2^n sign flips are tried.
pub const EXACT_BLOCKS_MAX: usize = 20;
/// Random sign flips drawn if there are too many to try them all.
const DRAWS: u32 = 100_000;

/// Outcome of a sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// Share of the sign flips with a mean at least as far from 0 as the observed one.
    pub p: f64,
    /// Whether every sign flip was tried; otherwise they were drawn at random from the seed.
    pub exact: bool,
}

/// Two-sided sign-flip test of the mean of `differences` against 0.
///
/// - `differences`: one value per block, finite. An empty slice gives p = 1.
/// - `seed`: random seed of the draws, used with more than [`EXACT_BLOCKS_MAX`] blocks.
///
/// The smallest p that n blocks can give is 2 / 2^n.
///
/// # Source
///
/// R. A. Fisher, *The Design of Experiments* (1935), section 21; for the `+ 1` of the drawn form, Phipson and
/// Smyth, *Statistical Applications in Genetics and Molecular Biology* 9 (2010), article 39.
pub fn sign_flip(differences: &[f64], seed: u64) -> SignFlip {
    assert!(differences.iter().all(|d| d.is_finite()), "differences are finite");
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    // Sums of the same numbers in another order differ by rounding; sums that are equal on paper must count
    // as equal.
    let slack = 1e-12 * sizes.iter().sum::<f64>();
    let seen = differences.iter().sum::<f64>().abs() - slack;
    let n = sizes.len();
    if n <= EXACT_BLOCKS_MAX {
        return SignFlip { p: ways_as_far(&sizes, 0.0, seen) as f64 / (1_u64 << n) as f64, exact: true };
    }
    let mut chance = SplitMix(seed);
    let as_far = (0..DRAWS).filter(|_| drawn_sum(&sizes, &mut chance).abs() >= seen).count();
    SignFlip { p: (as_far + 1) as f64 / f64::from(DRAWS + 1), exact: false }
}

/// Number of ways to add or subtract each of `sizes` to `sum` that end at least as far from 0 as `seen`.
fn ways_as_far(sizes: &[f64], sum: f64, seen: f64) -> u64 {
    match sizes {
        [] => u64::from(sum.abs() >= seen),
        [first, rest @ ..] => ways_as_far(rest, sum + first, seen) + ways_as_far(rest, sum - first, seen),
    }
}

fn flipped_sum(sizes: &[f64], signs: u64) -> f64 {
    sizes.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).sum()
}

fn drawn_sum(sizes: &[f64], chance: &mut SplitMix) -> f64 {
    sizes.chunks(64).map(|chunk| flipped_sum(chunk, chance.next())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_blocks_that_agree_give_one_in_thirty_two() {
        let out = sign_flip(&[0.1, 0.2, 0.05, 0.3, 0.15, 0.12], 1);
        assert_eq!(out, SignFlip { p: 2.0 / 64.0, exact: true });
    }

    #[test]
    fn ties_count_as_equal_whatever_the_order_of_summing() {
        // By hand: |sum| of (1, 1, -1) is 1, and every one of the 8 ways gives 1 or 3.
        assert_eq!(sign_flip(&[0.1, 0.1, -0.1], 1).p.to_bits(), 1.0_f64.to_bits());
        // Two zeros change nothing: 2 of 4 ways, times 4 for the zeros.
        assert_eq!(sign_flip(&[0.3, 0.3, 0.0, 0.0], 1).p.to_bits(), 0.5_f64.to_bits());
    }

    #[test]
    fn nothing_seen_is_no_evidence() {
        assert_eq!(sign_flip(&[], 1).p.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn draws_agree_with_counting_and_follow_from_the_seed() {
        let some: Vec<f64> = (0..20).map(|i| f64::from((i * 7) % 11) - 3.9).collect();
        let exact = sign_flip(&some, 1);
        // A 21st block without a difference leaves the distribution of sums unchanged.
        let more: Vec<f64> = some.iter().copied().chain([0.0]).collect();
        let drawn = sign_flip(&more, 1);
        assert!(exact.exact && !drawn.exact);
        // Three standard errors of a share from 100,000 draws.
        assert!((exact.p - drawn.p).abs() < 3.0 * (exact.p / f64::from(DRAWS)).sqrt(), "{exact:?} {drawn:?}");
        assert_eq!(drawn, sign_flip(&more, 1));
        assert_ne!(drawn.p.to_bits(), sign_flip(&more, 2).p.to_bits());
    }
}
