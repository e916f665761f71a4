//! Sequential designs: a configuration that is beaten beyond doubt is not measured in further blocks.
//!
//! After each block, the mean log ratio of a configuration to the reference has an interval that is valid at
//! any time: the rate at which it *ever* misses the truth, over any number of blocks, is at most its level. A
//! configuration is *beaten* if, by the first judged metric, this interval lies beyond the region of
//! practical equivalence on the worse side in every condition. It is dropped, and the interval at that block
//! is its result. Looking after each block costs nothing more, unlike looking at a p value.
//!
//! Dropping has a fifth of alpha, divided by the number of comparisons by the first metric. The
//! configurations that are left are judged at the end, at the rest of alpha, in the same family as without
//! dropping: a dropped one counts as a member that shows nothing, which makes no other claim easier. So the
//! rate of any false verdict is at most alpha.
//!
//! The decision follows from the archived blocks alone, so a bake-off that is resumed, and its page, find the
//! same one.
//!
//! # Source
//!
//! The interval inverts the Bayes factor of the t statistic with a normal prior of the effect in standard
//! deviations, which is a martingale if the mean is true, whatever the standard deviation is: T. L. Lai,
//! *Annals of Statistics* 4 (1976), 265-280; H. Wang and A. Ramdas, *Anytime-valid t-tests and confidence
//! sequences for Gaussian means with unknown variance*, Sequential Analysis 44 (2025), section 4.

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, SEQUENTIAL_SHARE, blocks_min};

use crate::cell::{cells, reference};
use crate::contest::{Contest, Field};
use crate::judge::{Estimate, Rules};
use crate::paired::{Paired, hodges_lehmann};
use crate::sign_flip::sign_flip;
use crate::slope::slopes;

/// Variance of the prior of the effect, in squared standard deviations of a block's log ratio. A larger one
/// drops clear losers earlier, and close ones later.
const PRIOR_VARIANCE: f64 = 25.0;

/// A configuration that was dropped, so that bakeoff no longer measures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Compared factors of the configuration.
    pub arm: Levels,
    /// The last block in which it counts.
    pub after_block: u32,
    /// The metric by which it is beaten.
    pub metric: Metric,
}

/// Configurations that the blocks so far have beaten; empty if the design is not sequential.
///
/// A block counts if every trial of the configuration and of the reference in it, and in all blocks before
/// it, has a value, and if up to it neither side had more repeated trials than a verdict allows. Whether CPU
/// use is a line over the rates follows from all blocks, so a slope drops nothing.
pub fn dropped(bakeoff: &Bakeoff) -> Vec<Dropped> {
    let Some(metric) = bakeoff.judge.metrics.first().filter(|_| bakeoff.judge.sequential) else {
        return Vec::new();
    };
    let (compared, conditions): (Vec<&Factor>, Vec<&Factor>) =
        bakeoff.factors.iter().partition(|f| f.reference.is_some());
    let cells = cells(bakeoff, bakeoff.judge.alpha);
    let slopes = slopes(bakeoff);
    let field = Field::of(*metric, &cells, slopes.as_ref(), bakeoff, (&conditions, &compared));
    in_field(&field, &reference(bakeoff, &compared), &rules(bakeoff))
}

/// Rules of the whole bake-off, before its alpha is shared.
pub(crate) fn rules(bakeoff: &Bakeoff) -> Rules {
    Rules { rope_ratio: bakeoff.judge.rope_ratio, alpha: bakeoff.judge.alpha, seed: bakeoff.seed }
}

/// Variant of [`dropped`] for the cells of one metric.
pub(crate) fn in_field(field: &Field<'_>, reference: &Levels, rules: &Rules) -> Vec<Dropped> {
    let all = field.contests(reference);
    let members = all.len();
    let edge = rules.edge(field.metric);
    if field.is_slopes {
        return Vec::new();
    }
    let arm = |arm: &&Levels| {
        let own = all.iter().filter(|contest| contest.as_ref().map_or_else(|out| &out.a, |c| &c.a) == *arm);
        let own: Result<Vec<&Contest>, _> = own.map(Result::as_ref).collect();
        let pairs: Vec<Vec<(u32, f64, f64)>> = own.ok()?.into_iter().map(losses).collect();
        let mut first = blocks_min(rules.alpha);
        let after_block = loop {
            let block = beaten_after(&pairs, edge, level(rules.alpha, members), first)?;
            if field.is_even(arm, reference, block) {
                break block;
            }
            first = block + 1;
        };
        Some(Dropped { arm: (*arm).clone(), after_block, metric: field.metric })
    };
    field.compared.iter().filter(|side| *side != reference).filter_map(|side| arm(&side)).collect()
}

/// Level of one interval: the share of dropping, divided by the number of comparisons.
pub fn level(alpha: f64, members: usize) -> f64 {
    alpha * SEQUENTIAL_SHARE / members.max(1) as f64
}

/// Losses of A in each block, in logs: block, lower and upper bound.
fn losses(contest: &Contest) -> Vec<(u32, f64, f64)> {
    let blocks = contest.blocks.iter().map(|(block, ..)| *block);
    let ends = contest.log_ratios();
    let more = contest.metric.more_is_better();
    blocks
        .zip(ends)
        .map(|(block, (low, high))| if more { (block, -high, -low) } else { (block, low, high) })
        .collect()
}

/// The first block, from `first` on, after which A is worse by more than `edge` in every pair; `None` before
/// that, and without a pair.
///
/// - `pairs`: for each condition, by how much A is worse in each block, in order of blocks from 1.
pub fn beaten_after(pairs: &[Vec<(u32, f64, f64)>], edge: f64, level: f64, first: u32) -> Option<u32> {
    let last = pairs.iter().map(Vec::len).min()?;
    let last = u32::try_from(last).unwrap_or(u32::MAX);
    (first..=last).find(|&block| {
        pairs.iter().all(|losses| {
            let so_far = &losses[..block as usize];
            let is_whole = (1..).zip(so_far).all(|(number, loss)| number == loss.0);
            let ends: Vec<(f64, f64)> = so_far.iter().map(|loss| (loss.1, loss.2)).collect();
            let interval = Paired::bracketed(&ends).and_then(|paired| always(&paired, level));
            is_whole && interval.is_some_and(|(low, _)| low > edge)
        })
    })
}

/// Interval of the mean that is valid after any number of values; `None` if it has no ends yet.
pub fn always(paired: &Paired, level: f64) -> Option<(f64, f64)> {
    let n = paired.n() as f64;
    let a = 1.0 + n * PRIOR_VARIANCE;
    let k = (a / (level * level)).powf(1.0 / n);
    if k >= a {
        return None;
    }
    let t = ((n - 1.0) * (k - 1.0) / (1.0 - k / a)).sqrt();
    let half = paired.open() + t * paired.error();
    Some((paired.mean() - half, paired.mean() + half))
}

/// p of no difference that is valid after any number of values: the inverse of the Bayes factor.
fn p_always(paired: &Paired) -> f64 {
    let n = paired.n() as f64;
    let over = (paired.mean().abs() - paired.open()).max(0.0);
    if over <= 0.0 {
        return 1.0;
    }
    let a = 1.0 + n * PRIOR_VARIANCE;
    let y = (over / paired.error()).powi(2) / (n - 1.0);
    let factor = a.powf(-0.5) * ((1.0 + y / a) / (1.0 + y)).powf(-n / 2.0);
    (1.0 / factor).min(1.0)
}

/// Estimate of a pair of a configuration that was dropped: all its intervals are the one that dropped it.
///
/// - `members`: number of comparisons by the metric.
pub(crate) fn estimate(contest: &Contest, members: usize, rules: &Rules) -> Option<Estimate> {
    let ends = contest.log_ratios();
    let paired = Paired::bracketed(&ends)?;
    let (low, high) = always(&paired, level(rules.alpha, members))?;
    let (low, high) = (low.exp(), high.exp());
    let middles: Vec<f64> = ends.iter().map(|(low, high)| low.midpoint(*high)).collect();
    let p = p_always(&paired);
    Some(Estimate {
        ratio: paired.mean().exp(),
        low,
        high,
        low_adjusted: low,
        high_adjusted: high,
        low_equivalence: low,
        high_equivalence: high,
        p,
        p_adjusted: (p * members as f64 / SEQUENTIAL_SHARE).min(1.0),
        sign_flip: sign_flip(&middles, rules.seed),
        hodges_lehmann: hodges_lehmann(&middles)?.exp(),
        sd_ln: paired.sd(),
        df: paired.df(),
        neighbors: None,
        unclear: None,
        blocks: u32::try_from(paired.n()).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    /// The Bayes factor is the ratio of two marginal likelihoods, integrated numerically over the standard
    /// deviation (1 / sigma) and the effect: 0.151213586.
    #[test]
    fn the_p_is_the_inverse_of_the_bayes_factor_and_the_interval_inverts_it() {
        let values = [0.012, -0.008, 0.021, 0.004, -0.015, 0.009, 0.017];
        let paired = Paired::of(&values).unwrap();
        assert!((p_always(&paired) - 1.0).abs() < 1e-12, "a factor below 1 is no evidence");
        let clear: Vec<f64> = values.iter().map(|v| v + 0.05).collect();
        let paired = Paired::of(&clear).unwrap();
        let p = p_always(&paired);
        assert!((always(&paired, p).unwrap().0).abs() < 1e-12, "{p}");
        // By hand, for 7 values at 5 %: 4.922949 standard errors.
        let (low, high) = always(&paired, 0.05).unwrap();
        assert!(((high - low) / 2.0 / paired.error() - 4.922_949_173_810_631).abs() < 1e-9);
        assert_eq!(always(&Paired::of(&clear[..2]).unwrap(), 0.001), None);
    }

    /// Looks after each of 60 blocks, at the level of one interval: a t interval at the same level misses the
    /// truth far more often.
    #[test]
    fn the_interval_seldom_ever_misses_the_truth_whatever_the_noise_is_like() {
        const SERIES: u32 = 1_000;
        let mut chance = SplitMix(20_261_126);
        for heavy in [false, true] {
            let (mut ever, mut naive) = (0, 0);
            for _ in 0..SERIES {
                let mut values = Vec::new();
                let (mut missed, mut missed_by_t) = (false, false);
                for _ in 0..60 {
                    // Heavy: one block in ten is ten times as noisy.
                    let scale = if heavy && chance.below(10) == 0 { 10.0 } else { 1.0 };
                    values.push(0.02 * scale * chance.normal());
                    let Some(paired) = Paired::of(&values).filter(|p| p.n() >= 6) else { continue };
                    let misses = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
                    missed |= always(&paired, 0.05).is_some_and(misses);
                    missed_by_t |= misses(paired.interval(0.05));
                }
                ever += u32::from(missed);
                naive += u32::from(missed_by_t);
            }
            println!("heavy {heavy}: {ever} always valid, {naive} by t, of {SERIES}");
            assert!(ever <= 50, "heavy {heavy}: {ever}");
            assert!(naive > 120, "heavy {heavy}: {naive}");
        }
    }

    #[test]
    fn a_configuration_is_beaten_only_in_whole_blocks_and_in_every_condition() {
        let losing: Vec<(u32, f64, f64)> =
            (1..=12).map(|block| (block, 0.2 + 0.001 * f64::from(block % 3), 0.203)).collect();
        let even: Vec<(u32, f64, f64)> = losing.iter().map(|l| (l.0, l.1 - 0.2, l.2 - 0.2)).collect();
        let of = |pairs: &[Vec<(u32, f64, f64)>]| beaten_after(pairs, 0.01, 0.001, 6);
        assert_eq!(of(std::slice::from_ref(&losing)), Some(6));
        assert_eq!(of(&[losing.clone(), even]), None);
        // The third block lost a trial, so the remaining blocks are a selection.
        let lost: Vec<_> = losing.iter().filter(|l| l.0 != 3).copied().collect();
        assert_eq!(of(&[losing.clone(), lost]), None);
        assert_eq!(of(&[losing[..5].to_vec()]), None);
        assert_eq!(of(&[]), None);
    }
}
