//! The rule that turns log ratios into verdicts, for a whole family at once.
//!
//! - *Better* or *worse*: the t interval of the ratio, at the level that Holm's procedure grants the pair within its
//!   family, lies wholly outside the region of practical equivalence; and the sign-flip test, which assumes no
//!   distribution, agrees at alpha. The rate of any false such verdict in the family is at most alpha, also where
//!   true differences sit at the very edge of the region.
//! - *Equivalent*: the 1 - 2 alpha interval lies wholly inside the region (two one-sided tests at alpha).
//! - *Inconclusive*: anything else, and everything that rests on fewer blocks than a claim at alpha needs.
//!
//! The region is symmetric in logs, [1 / (1 + rope), 1 + rope], so that naming the two the other way round turns
//! better into worse and changes nothing else.

use record::bakeoff::Metric;
use record::missing::{Maybe, Missing};

use crate::holm::{holm, levels};
use crate::paired::{Paired, hodges_lehmann};
use crate::sign_flip::{SignFlip, sign_flip};
use crate::student::t_above;

/// What is known of one configuration against another, as far as a claim goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Better by more than the region of practical equivalence.
    Better,
    /// Worse by more than that.
    Worse,
    /// No difference that matters.
    Equivalent,
    /// The data do not decide.
    Inconclusive,
}

impl Verdict {
    /// The word in JSON and on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// By what a family is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Differences inside this share are no difference.
    pub rope_ratio: f64,
    /// The rate of any false alarm in the family that is accepted.
    pub alpha: f64,
    /// What the sign-flip test draws from where there are too many blocks to count.
    pub seed: u64,
}

/// A ratio and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Geometric mean over the blocks of A's value over B's.
    pub ratio: f64,
    /// Lower end of its interval at 1 - alpha: t over the blocks' log ratios.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Lower end at the level that Holm's procedure grants the pair: the one that decides better and worse.
    pub low_adjusted: f64,
    /// Upper end.
    pub high_adjusted: f64,
    /// Lower end at 1 - 2 alpha: the one that decides equivalent.
    pub low_equivalence: f64,
    /// Upper end.
    pub high_equivalence: f64,
    /// Paired t test that there is no difference, two-sided.
    pub p: f64,
    /// The same, adjusted within the family by Holm.
    pub p_adjusted: f64,
    /// The same question without assuming a distribution, not adjusted.
    pub sign_flip: SignFlip,
    /// The ratio by the Hodges-Lehmann center: far from `ratio` where single blocks carry the result.
    pub hodges_lehmann: f64,
    /// Standard deviation of a block's log ratio.
    pub sd_ln: f64,
}

/// One member of a family, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The ratio; missing where fewer than two blocks have both sides.
    pub estimate: Maybe<Estimate>,
    /// What may be claimed.
    pub verdict: Verdict,
    /// Blocks that would probably (power 80 %) decide it if what was seen is how it is; missing where it is decided.
    pub blocks_needed: Maybe<u32>,
}

/// The fewest blocks whose sign-flip test can reach `alpha`: 6 at 5 %.
pub fn blocks_min(alpha: f64) -> u32 {
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is a share in (0, 1): {alpha}");
    let mut blocks = 2;
    while 2.0_f64.powi(1 - blocks) > alpha {
        blocks += 1;
    }
    blocks.cast_unsigned()
}

/// Judges every member of a family.
///
/// - `family`: for each comparison its metric's sense, and ln(A / B) for each block in which both were sealed.
pub fn judge(family: &[(Metric, &[f64])], rules: Rules) -> Vec<Judged> {
    let edge = rules.rope_ratio.ln_1p();
    let paired: Vec<Option<Paired>> = family.iter().map(|(_, d)| Paired::of(d)).collect();
    let p_beyond = |distance: f64| -> Vec<f64> {
        paired.iter().map(|p| p.map_or(1.0, |p| p.p_beyond(distance))).collect()
    };
    let p = p_beyond(0.0);
    let p_adjusted = holm(&p);
    // Stricter than `p_adjusted` against alpha, member by member: each of these p is at least the one above.
    let level = levels(&p_beyond(edge), rules.alpha);

    let member = |i: usize| {
        let (metric, log_ratios) = family[i];
        let Some(paired) = paired[i] else {
            let why = format!("{} of at least 2 blocks have both sides", log_ratios.len());
            let missing = Missing::because(why);
            return Judged {
                estimate: Err(missing.clone()),
                verdict: Verdict::Inconclusive,
                blocks_needed: Err(missing),
            };
        };
        let decision = Decision {
            paired,
            edge,
            rules,
            adjusted: paired.interval(level[i]),
            equivalence: paired.interval(2.0 * rules.alpha),
            p_flip: sign_flip(log_ratios, rules.seed),
        };
        let verdict = decision.verdict(metric);
        Judged {
            estimate: Ok(decision.estimate(p[i], p_adjusted[i], log_ratios)),
            verdict,
            blocks_needed: decision.blocks_needed(verdict, family.len()),
        }
    };
    (0..family.len()).map(member).collect()
}

struct Decision {
    paired: Paired,
    /// ln(1 + rope).
    edge: f64,
    rules: Rules,
    /// At Holm's level for this pair.
    adjusted: (f64, f64),
    /// At 1 - 2 alpha.
    equivalence: (f64, f64),
    p_flip: SignFlip,
}

impl Decision {
    fn verdict(&self, metric: Metric) -> Verdict {
        if self.paired.n() < blocks_min(self.rules.alpha) as usize {
            return Verdict::Inconclusive;
        }
        let (low, high) = self.adjusted;
        let outside = low > self.edge || high < -self.edge;
        if outside && self.p_flip.p <= self.rules.alpha {
            let more = self.paired.mean() > 0.0;
            return if more == metric.more_is_better() { Verdict::Better } else { Verdict::Worse };
        }
        let (low, high) = self.equivalence;
        if low > -self.edge && high < self.edge { Verdict::Equivalent } else { Verdict::Inconclusive }
    }

    fn estimate(&self, p: f64, p_adjusted: f64, log_ratios: &[f64]) -> Estimate {
        let (low, high) = self.paired.interval(self.rules.alpha);
        Estimate {
            ratio: self.paired.mean().exp(),
            low: low.exp(),
            high: high.exp(),
            low_adjusted: self.adjusted.0.exp(),
            high_adjusted: self.adjusted.1.exp(),
            low_equivalence: self.equivalence.0.exp(),
            high_equivalence: self.equivalence.1.exp(),
            p,
            p_adjusted,
            sign_flip: self.p_flip,
            hodges_lehmann: hodges_lehmann(log_ratios).unwrap_or(self.paired.mean()).exp(),
            sd_ln: self.paired.sd(),
        }
    }

    /// The least number of blocks over those there are whose interval would clear the edge with power 80 %.
    ///
    /// Taken at the strictest level of the family, so that it does not promise too much.
    fn blocks_needed(&self, verdict: Verdict, family_size: usize) -> Maybe<u32> {
        if verdict != Verdict::Inconclusive {
            return Err(Missing::because("it is decided"));
        }
        let from_edge = self.paired.mean().abs() - self.edge;
        let tail =
            if from_edge > 0.0 { self.rules.alpha / family_size as f64 / 2.0 } else { self.rules.alpha };
        let enough = |n: u32| {
            let df = f64::from(n - 1);
            let error = self.paired.sd() / f64::from(n).sqrt();
            from_edge.abs() >= (t_above(tail, df) + t_above(0.2, df)) * error
        };
        let first = (u32::try_from(self.paired.n()).unwrap_or(u32::MAX).saturating_add(1))
            .max(blocks_min(self.rules.alpha));
        if first > BLOCKS_NEEDED_MAX || !enough(BLOCKS_NEEDED_MAX) {
            let why = "the difference is about as large as the region of equivalence";
            return Err(Missing::because(format!("more than {BLOCKS_NEEDED_MAX}: {why}")));
        }
        // More blocks never make it worse, so halving finds the first that is enough.
        let (mut low, mut high) = (first, BLOCKS_NEEDED_MAX);
        while low < high {
            let middle = low.midpoint(high);
            if enough(middle) { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }
}

/// Where the search for a number of blocks gives up.
const BLOCKS_NEEDED_MAX: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 7 };
    const NOISE: [f64; 6] = [0.004, -0.006, 0.002, -0.003, 0.007, -0.004];

    fn shifted(by: f64, noise_times: f64) -> Vec<f64> {
        NOISE.iter().map(|n| by + n * noise_times).collect()
    }

    fn verdict(metric: Metric, log_ratios: &[f64]) -> Verdict {
        judge(&[(metric, log_ratios)], RULES)[0].verdict
    }

    #[test]
    fn six_blocks_are_the_fewest_for_five_percent() {
        assert_eq!(blocks_min(0.05), 6);
        assert_eq!(blocks_min(0.01), 8);
        assert_eq!(blocks_min(0.5), 2);
    }

    #[test]
    fn which_way_is_better_depends_on_the_metric() {
        let up = shifted(0.1, 1.0);
        let down = shifted(-0.1, 1.0);
        assert_eq!(verdict(Metric::Throughput, &up), Verdict::Better);
        assert_eq!(verdict(Metric::Throughput, &down), Verdict::Worse);
        assert_eq!(verdict(Metric::P99, &up), Verdict::Worse);
        assert_eq!(verdict(Metric::CpuPerEvent, &down), Verdict::Better);
    }

    #[test]
    fn a_difference_inside_the_region_is_equivalent_and_one_across_its_edge_undecided() {
        assert_eq!(verdict(Metric::Throughput, &shifted(0.0, 1.0)), Verdict::Equivalent);
        // Surely not 0, and surely inside 1 %: significant is not the same as relevant.
        let small = judge(&[(Metric::Throughput, &shifted(0.005, 0.2))], RULES).remove(0);
        assert_eq!(small.verdict, Verdict::Equivalent);
        assert!(small.estimate.unwrap().p_adjusted < 0.05);
        assert_eq!(verdict(Metric::Throughput, &shifted(0.012, 1.0)), Verdict::Inconclusive);
        assert_eq!(verdict(Metric::Throughput, &shifted(0.0, 10.0)), Verdict::Inconclusive);
    }

    #[test]
    fn five_blocks_decide_nothing_however_clear_they_are() {
        let clear = vec![0.5, 0.51, 0.49, 0.5, 0.52];
        let judged = judge(&[(Metric::Throughput, &clear)], RULES).remove(0);
        assert_eq!(judged.verdict, Verdict::Inconclusive);
        assert_eq!(judged.blocks_needed, Ok(6));
    }

    #[test]
    fn one_block_has_no_estimate() {
        let judged = judge(&[(Metric::Throughput, &[0.5])], RULES).remove(0);
        assert!(judged.estimate.is_err() && judged.verdict == Verdict::Inconclusive);
    }

    #[test]
    fn naming_the_two_the_other_way_round_mirrors_everything() {
        for (by, noise) in [(0.1, 1.0), (0.012, 1.0), (0.005, 0.2), (-0.03, 2.0)] {
            let there = shifted(by, noise);
            let back: Vec<f64> = there.iter().map(|d| -d).collect();
            let judged = judge(&[(Metric::Throughput, &there), (Metric::Throughput, &back)], RULES);
            let mirrored = match judged[0].verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                same => same,
            };
            assert_eq!(judged[1].verdict, mirrored);
            let (a, b) = (judged[0].estimate.clone().unwrap(), judged[1].estimate.clone().unwrap());
            assert!((a.low * b.high - 1.0).abs() < 1e-12);
            assert!((a.hodges_lehmann * b.hodges_lehmann - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_claim_always_has_an_adjusted_p_within_alpha_and_a_larger_family_claims_less() {
        let edge_case = shifted(0.021, 1.2);
        assert_eq!(verdict(Metric::Throughput, &edge_case), Verdict::Better);
        let undecided = shifted(0.0, 30.0);
        let mut family: Vec<(Metric, &[f64])> = vec![(Metric::Throughput, &undecided); 40];
        family.push((Metric::Throughput, &edge_case));
        let judged = judge(&family, RULES);
        assert_eq!(judged[40].verdict, Verdict::Inconclusive);
        for j in judged.iter().filter(|j| matches!(j.verdict, Verdict::Better | Verdict::Worse)) {
            assert!(j.estimate.as_ref().unwrap().p_adjusted <= RULES.alpha);
        }
    }

    #[test]
    fn blocks_needed_grow_with_the_noise_and_have_an_end() {
        let needed =
            |by, noise| judge(&[(Metric::Throughput, &shifted(by, noise))], RULES)[0].blocks_needed.clone();
        let (few, many) = (needed(0.05, 9.0).unwrap(), needed(0.05, 18.0).unwrap());
        assert!(6 < few && few < many, "{few} {many}");
        assert!(needed(RULES.rope_ratio.ln_1p(), 1.0).is_err());
        assert!(needed(0.1, 1.0).is_err());
    }
}
