//! The rule that turns log ratios into verdicts, for a whole family at once.
//!
//! - *Better* or *worse*: the t interval of the ratio, at the level that Holm's procedure grants the pair
//!   within its family, lies wholly outside the region of practical equivalence; and the sign-flip test,
//!   which assumes no distribution, agrees at alpha.
//! - *Equivalent*: the t interval at the level that Hochberg's procedure grants the pair, among those that
//!   are neither better nor worse, lies wholly inside the region. For a single pair this is the 1 - alpha
//!   interval.
//! - *Inconclusive*: anything else, and every pair with fewer blocks than a claim at alpha needs.
//!
//! The rate of any false verdict in the family is at most alpha, even if true differences lie exactly on the
//! edge of the region: there a false *better* and a false *equivalent* have a tail of alpha / 2 each.
//!
//! The standard error of a pair comes from the differences within its own blocks. Decision 0043 gives the
//! reason. If the ratio changes over the blocks, so that neighbors resemble each other, it is wider: decision
//! 1260.
//!
//! The region is symmetric in logs, [1 / (1 + rope), 1 + rope]: swapping the two sides turns better into
//! worse and changes nothing else. Of a share, which is compared in points, it is the rope in points.

use record::bakeoff::{Metric, Scale, blocks_min};
use record::missing::{Maybe, Missing};

use crate::holm::{hochberg, holm, levels};
use crate::mean::memory_of_clear;
use crate::paired::{Paired, hodges_lehmann};
use crate::permutation;
use crate::power::{self, Truth};
use crate::sign_flip::{SignFlip, sign_flip};

/// Outcome of comparing one configuration with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Better by more than the region of practical equivalence.
    Better,
    /// Worse by more than that.
    Worse,
    /// Equal within the region.
    Equivalent,
    /// The data do not decide.
    Inconclusive,
}

impl Verdict {
    /// Verdict as printed in JSON and in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Whether verdicts answer the question of a comparison: one claims a difference, or all claim that there is
/// none that matters.
pub fn is_answered(verdicts: impl IntoIterator<Item = Verdict>) -> bool {
    let verdicts: Vec<Verdict> = verdicts.into_iter().collect();
    verdicts.iter().any(|verdict| matches!(verdict, Verdict::Better | Verdict::Worse))
        || (!verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == Verdict::Equivalent))
}

/// Parameters by which a family is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Half width of the region of practical equivalence, as a share.
    pub rope_ratio: f64,
    /// Accepted rate of any false verdict in the family.
    pub alpha: f64,
    /// Random seed of the sign-flip test, used if there are too many blocks to enumerate.
    pub seed: u64,
}

impl Rules {
    /// Half width of the region in logs: of a share, which is compared in points, the region itself.
    pub(crate) fn edge(self, metric: Metric) -> f64 {
        match metric.scale() {
            Scale::Ratio => self.rope_ratio.ln_1p(),
            Scale::Points => self.rope_ratio,
        }
    }
}

/// A ratio and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Geometric mean over the blocks of A's value divided by B's.
    pub ratio: f64,
    /// Lower end of its 1 - alpha interval: t over the blocks' log ratios.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Lower end at the level that Holm's procedure grants the pair; it decides better and worse.
    pub low_adjusted: f64,
    /// Upper end.
    pub high_adjusted: f64,
    /// Lower end at the level that Hochberg's procedure grants the pair; it decides equivalent.
    pub low_equivalence: f64,
    /// Upper end.
    pub high_equivalence: f64,
    /// Two-sided p of the paired t test of no difference.
    pub p: f64,
    /// The same p, adjusted within the family by Holm.
    pub p_adjusted: f64,
    /// Distribution-free test of the same hypothesis, not adjusted.
    pub sign_flip: SignFlip,
    /// The ratio by the Hodges-Lehmann center; far from `ratio` if single blocks dominate the result.
    pub hodges_lehmann: f64,
    /// Standard deviation of a block's log ratio.
    pub sd_ln: f64,
    /// Degrees of freedom: the number of blocks minus one, fewer if neighbors correlate.
    pub df: f64,
    /// Correlation of the log ratios of neighboring blocks, if it is clearly over 0: the ratio changes over
    /// the blocks, and all intervals allow for that.
    pub neighbors: Option<f64>,
    /// Correlation that is notable but not clear in so few blocks: if it is real, all intervals are too
    /// narrow.
    pub unclear: Option<f64>,
    /// Number of blocks.
    pub blocks: u32,
}

/// One member of a family, before judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The metric, which knows whether more is better.
    pub metric: Metric,
    /// Lower and upper bound of ln(A / B), for each block in which both have a value; finite. Of independent
    /// samples, of ln(A).
    pub log_ratios: Vec<(f64, f64)>,
    /// The other sample, ln(B), if the two are independent.
    pub against: Option<Vec<(f64, f64)>>,
    /// Reason to refuse a verdict, whatever the values are.
    pub refused: Option<Missing>,
}

impl Member {
    /// Member with exact values.
    pub fn exact(metric: Metric, log_ratios: &[f64]) -> Self {
        let log_ratios = log_ratios.iter().map(|d| (*d, *d)).collect();
        Self { metric, log_ratios, against: None, refused: None }
    }

    fn paired(&self) -> Maybe<Paired> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        if let Some(against) = &self.against {
            let (a, b) = (self.log_ratios.len(), against.len());
            let too_few =
                || Missing::because(format!("one side has {a} values, the other {b}: each needs at least 2"));
            return Paired::independent(&self.log_ratios, against).ok_or_else(too_few);
        }
        let too_few =
            || Missing::because(format!("{} of at least 2 blocks have both sides", self.log_ratios.len()));
        Paired::of_blocks(&self.log_ratios).ok_or_else(too_few)
    }

    /// Whether there are enough values for a verdict at `alpha`: the distribution-free test can then reach
    /// it.
    fn is_enough(&self, alpha: f64) -> bool {
        match &self.against {
            None => self.log_ratios.len() >= blocks_min(alpha) as usize,
            Some(against) => permutation::smallest_p(self.log_ratios.len(), against.len()) <= alpha,
        }
    }

    /// Middle of each value.
    fn middles(&self) -> Vec<f64> {
        self.log_ratios.iter().map(|d| d.0.midpoint(d.1)).collect()
    }

    /// The ratio by the Hodges-Lehmann center, in logs: of the blocks, or of all differences between the
    /// samples.
    fn center(&self) -> Option<f64> {
        let Some(against) = &self.against else { return hodges_lehmann(&self.middles()) };
        let b: Vec<f64> = against.iter().map(|d| d.0.midpoint(d.1)).collect();
        let mut all: Vec<f64> = self.middles().iter().flat_map(|a| b.iter().map(move |b| a - b)).collect();
        all.sort_by(f64::total_cmp);
        let upper = *all.get(all.len() / 2)?;
        Some(if all.len().is_multiple_of(2) { all[all.len() / 2 - 1].midpoint(upper) } else { upper })
    }

    /// Sign-flip test with the largest p among those for the lower ends, the middles and the upper ends of
    /// the values; of independent samples, the permutation test of their middles.
    fn sign_flip(&self, seed: u64) -> SignFlip {
        if let Some(against) = &self.against {
            let b: Vec<f64> = against.iter().map(|d| d.0.midpoint(d.1)).collect();
            return permutation::test(&self.middles(), &b, seed);
        }
        let of = |choose: fn(&(f64, f64)) -> f64| {
            sign_flip(&self.log_ratios.iter().map(choose).collect::<Vec<f64>>(), seed)
        };
        let middle = of(|d| d.0.midpoint(d.1));
        if self.log_ratios.iter().all(|(low, high)| high - low < f64::EPSILON) {
            return middle;
        }
        let tests = [of(|d| d.0), middle, of(|d| d.1)];
        tests.into_iter().max_by(|a, b| a.p.total_cmp(&b.p)).expect("three tests")
    }
}

/// One member of a family, after judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The ratio; missing if fewer than two blocks have both sides, or if a verdict is refused.
    pub estimate: Maybe<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// Uncertainty of the mean log ratio from the values' own intervals.
    pub open_ln: f64,
    /// Half width of the region of practical equivalence in logs.
    pub edge_ln: f64,
}

/// Judges every member of a family.
pub fn judge(family: &[Member], rules: Rules) -> Vec<Judged> {
    let edges: Vec<f64> = family.iter().map(|member| rules.edge(member.metric)).collect();
    let paired: Vec<Maybe<Paired>> = family.iter().map(Member::paired).collect();
    let p_of = |test: &dyn Fn(&Paired, f64) -> f64| -> Vec<f64> {
        paired.iter().zip(&edges).map(|(p, edge)| p.as_ref().map_or(1.0, |p| test(p, *edge))).collect()
    };
    let p = p_of(&|p, _| p.p_beyond(0.0));
    let p_adjusted = holm(&p);
    // Stricter than `p_adjusted` against alpha, member by member: each of these p is at least the one above.
    let level = levels(&p_of(&|p, edge| p.p_beyond(edge)), rules.alpha);

    let mut decisions: Vec<Maybe<Decision>> = Vec::new();
    for (((member, paired), edge), level) in family.iter().zip(&paired).zip(&edges).zip(level) {
        decisions.push(paired.clone().map(|paired| Decision {
            paired,
            edge: *edge,
            rules,
            level,
            enough: member.is_enough(rules.alpha),
            equivalence: (rules.alpha / 2.0 / family.len() as f64, false),
            p_flip: member.sign_flip(rules.seed),
        }));
    }
    decide_equivalence(&mut decisions, rules.alpha / 2.0);
    let judged = |(i, decision): (usize, Maybe<Decision>)| {
        let edge_ln = edges[i];
        let missing = |missing| Judged {
            estimate: Err(missing),
            verdict: Verdict::Inconclusive,
            open_ln: 0.0,
            edge_ln,
        };
        decision.map_or_else(missing, |decision| {
            let verdict = decision.verdict(family[i].metric);
            Judged {
                estimate: Ok(decision.estimate(p[i], p_adjusted[i], &family[i])),
                verdict,
                open_ln: decision.paired.open(),
                edge_ln,
            }
        })
    };
    decisions.into_iter().enumerate().map(judged).collect()
}

/// Tests every pair that is neither better nor worse for equivalence. These pairs form one family. A pair
/// without a result is a member with p = 1.
fn decide_equivalence(decisions: &mut [Maybe<Decision>], alpha: f64) {
    let open: Vec<usize> =
        (0..decisions.len()).filter(|i| !decisions[*i].as_ref().is_ok_and(Decision::is_beyond)).collect();
    let p = |i: &usize| decisions[*i].as_ref().map_or(1.0, |d| d.paired.p_within(d.edge));
    let p: Vec<f64> = open.iter().map(p).collect();
    for (i, outcome) in open.into_iter().zip(hochberg(&p, alpha)) {
        if let Ok(decision) = &mut decisions[i] {
            decision.equivalence = outcome;
        }
    }
}

struct Decision {
    paired: Paired,
    /// Half width of the region in logs.
    edge: f64,
    rules: Rules,
    /// Holm's level for this pair, two-sided.
    level: f64,
    /// Whether there are enough values for a verdict.
    enough: bool,
    /// Hochberg's level for this pair, one-sided, and whether the pair is equivalent at it.
    equivalence: (f64, bool),
    p_flip: SignFlip,
}

impl Decision {
    /// Whether the pair is better or worse by more than the region.
    fn is_beyond(&self) -> bool {
        let (low, high) = self.paired.interval(self.level);
        let outside = low > self.edge || high < -self.edge;
        outside && self.p_flip.p <= self.rules.alpha && self.enough
    }

    fn verdict(&self, metric: Metric) -> Verdict {
        if self.is_beyond() {
            let more = self.paired.mean() > 0.0;
            return if more == metric.more_is_better() { Verdict::Better } else { Verdict::Worse };
        }
        if self.equivalence.1 && self.enough { Verdict::Equivalent } else { Verdict::Inconclusive }
    }

    fn estimate(&self, p: f64, p_adjusted: f64, member: &Member) -> Estimate {
        let (low, high) = self.paired.interval(self.rules.alpha);
        let adjusted = self.paired.interval(self.level);
        let equivalence = self.paired.interval(2.0 * self.equivalence.0);
        Estimate {
            ratio: self.paired.mean().exp(),
            low: low.exp(),
            high: high.exp(),
            low_adjusted: adjusted.0.exp(),
            high_adjusted: adjusted.1.exp(),
            low_equivalence: equivalence.0.exp(),
            high_equivalence: equivalence.1.exp(),
            p,
            p_adjusted,
            sign_flip: self.p_flip,
            hodges_lehmann: member.center().unwrap_or(self.paired.mean()).exp(),
            sd_ln: self.paired.sd(),
            df: self.paired.df(),
            neighbors: self.paired.neighbors(),
            unclear: self.paired.unclear(),
            blocks: u32::try_from(self.paired.n()).unwrap_or(u32::MAX),
        }
    }
}

/// Least number of blocks, from the present number up, that would decide a pair with a power of 80 % if the
/// observed effect is real: as better or worse if its mean lies outside the region, else as equivalent.
///
/// Computed at the strictest level of the family, which errs towards more blocks.
///
/// # Errors
///
/// The pair is decided, its verdict is refused, or more than 1,000 blocks would be needed.
pub(crate) fn blocks_needed(judged: &Judged, family_size: usize, rules: Rules) -> Maybe<u32> {
    if judged.verdict != Verdict::Inconclusive {
        return Err(Missing::because("the comparison is already decided"));
    }
    let estimate = judged.estimate.clone()?;
    // Blocks that resemble each other say less: the error of their mean, and its degrees of freedom, are the
    // verdict's own.
    let memory = estimate.neighbors.map(|ar1| memory_of_clear(estimate.blocks as usize, ar1));
    let truth = Truth {
        mean: estimate.ratio.ln().abs(),
        sd: estimate.sd_ln * memory.as_ref().map_or(1.0, |memory| memory.error_ratio),
        df_of_a_block: memory.map_or(1.0, |memory| memory.df / f64::from(estimate.blocks - 1)),
        open: judged.open_ln,
        edge: judged.edge_ln,
        alpha: rules.alpha,
        comparisons: family_size,
    };
    let enough = |n: u32| power::of_verdict(&truth, n) >= power::POWER;
    let first = estimate.blocks.saturating_add(1).max(blocks_min(rules.alpha));
    if first > BLOCKS_NEEDED_MAX || !enough(BLOCKS_NEEDED_MAX) {
        let why = "the noise is too large for a difference this close to the ROPE";
        return Err(Missing::because(format!("more than {BLOCKS_NEEDED_MAX}: {why}")));
    }
    // More blocks never lower the power, so bisection finds the first number that is enough.
    let (mut low, mut high) = (first, BLOCKS_NEEDED_MAX);
    while low < high {
        let middle = low.midpoint(high);
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    Ok(low)
}

/// Upper bound of the search for a number of blocks.
const BLOCKS_NEEDED_MAX: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 7 };
    #[test]
    fn one_equivalent_metric_beside_undecided_ones_is_no_answer() {
        use Verdict::{Better, Equivalent, Inconclusive, Worse};
        assert!(is_answered([Inconclusive, Worse]) && is_answered([Better]));
        assert!(is_answered([Equivalent, Equivalent]));
        assert!(!is_answered([Equivalent, Inconclusive]) && !is_answered([]));
    }

    const NOISE: [f64; 6] = [0.004, -0.006, 0.002, -0.003, 0.007, -0.004];

    fn shifted(by: f64, noise_times: f64) -> Vec<f64> {
        NOISE.iter().map(|n| by + n * noise_times).collect()
    }

    fn verdict(metric: Metric, log_ratios: &[f64]) -> Verdict {
        judge(&[Member::exact(metric, log_ratios)], RULES)[0].verdict
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
        // Certainly not 0, and certainly inside 1 %: significant is not the same as relevant.
        let small = judge(&[Member::exact(Metric::Throughput, &shifted(0.005, 0.2))], RULES).remove(0);
        assert_eq!(small.verdict, Verdict::Equivalent);
        assert!(small.estimate.unwrap().p_adjusted < 0.05);
        assert_eq!(verdict(Metric::Throughput, &shifted(0.012, 1.0)), Verdict::Inconclusive);
        assert_eq!(verdict(Metric::Throughput, &shifted(0.0, 10.0)), Verdict::Inconclusive);
    }

    /// The share is e to the value: a log ratio is a difference of shares.
    #[test]
    fn the_region_of_a_share_is_in_points() {
        let of = |metric, by: f64| {
            let log_ratios: Vec<f64> = NOISE.iter().map(|noise| by + 1e-4 * noise).collect();
            let rules = Rules { rope_ratio: 0.2, ..RULES };
            judge(&[Member::exact(metric, &log_ratios)], rules)[0].verdict
        };
        // ln(1.2) is 0.182: 19 points lie within 20, and 19 in logs are 20.9 %.
        assert_eq!(of(Metric::LockCpu, 0.19), Verdict::Equivalent);
        assert_eq!(of(Metric::LockCpu, 0.21), Verdict::Worse);
        assert_eq!(of(Metric::CpuPerEvent, 0.19), Verdict::Worse);
    }

    #[test]
    fn five_blocks_decide_nothing_however_clear_they_are() {
        let clear = vec![0.5, 0.51, 0.49, 0.5, 0.52];
        let judged = judge(&[Member::exact(Metric::Throughput, &clear)], RULES).remove(0);
        assert_eq!(judged.verdict, Verdict::Inconclusive);
        assert_eq!(blocks_needed(&judged, 1, RULES), Ok(6));
    }

    #[test]
    fn one_block_has_no_estimate() {
        let judged = judge(&[Member::exact(Metric::Throughput, &[0.5])], RULES).remove(0);
        assert!(judged.estimate.is_err() && judged.verdict == Verdict::Inconclusive);
    }

    #[test]
    fn naming_the_two_the_other_way_round_mirrors_everything() {
        for (by, noise) in [(0.1, 1.0), (0.012, 1.0), (0.005, 0.2), (-0.03, 2.0)] {
            let there = shifted(by, noise);
            let back: Vec<f64> = there.iter().map(|d| -d).collect();
            let judged = judge(&[&there, &back].map(|d| Member::exact(Metric::Throughput, d)), RULES);
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
        let mut family = vec![Member::exact(Metric::Throughput, &undecided); 40];
        family.push(Member::exact(Metric::Throughput, &edge_case));
        let judged = judge(&family, RULES);
        assert_eq!(judged[40].verdict, Verdict::Inconclusive);
        for j in judged.iter().filter(|j| matches!(j.verdict, Verdict::Better | Verdict::Worse)) {
            assert!(j.estimate.as_ref().unwrap().p_adjusted <= RULES.alpha);
        }
    }

    #[test]
    fn blocks_needed_grow_with_the_noise_and_have_an_end() {
        let needed = |by, noise| {
            let judged = judge(&[Member::exact(Metric::Throughput, &shifted(by, noise))], RULES).remove(0);
            blocks_needed(&judged, 1, RULES)
        };
        let (few, many) = (needed(0.05, 9.0).unwrap(), needed(0.05, 18.0).unwrap());
        assert!(6 < few && few < many, "{few} {many}");
        assert!(needed(RULES.rope_ratio.ln_1p(), 1.0).is_err());
        assert!(needed(0.1, 1.0).is_err());
    }

    /// Log ratios of a command that is 10 % slower and wanders (0.9): the number of blocks that 60 of them
    /// ask for decides most comparisons of as many blocks.
    #[test]
    fn blocks_needed_of_a_ratio_that_wanders_are_enough() {
        let drawn = |seed: u64, n: usize| -> Vec<f64> {
            let mut chance = crate::chance::SplitMix(seed << 8 | 0x77);
            let mut now = chance.normal();
            let step = |_| {
                let value = 0.1 + 0.08 * now;
                now = 0.9 * now + (1.0_f64 - 0.81).sqrt() * chance.normal();
                value
            };
            (0..n).map(step).collect()
        };
        let judged = |log_ratios: &[f64]| judge(&[Member::exact(Metric::Time, log_ratios)], RULES).remove(0);
        // Only of a mean near the truth does the number answer the question.
        let asked: Vec<u32> = (0..150)
            .filter_map(|seed| {
                let judged = judged(&drawn(seed, 60));
                let estimate = judged.estimate.as_ref().ok()?;
                let is_near = (estimate.ratio.ln() - 0.1).abs() < 0.02 && estimate.neighbors.is_some();
                is_near.then(|| blocks_needed(&judged, 1, RULES).ok())?
            })
            .collect();
        assert!(asked.len() > 25, "{}", asked.len());
        let is_decided = |(seed, n): (usize, &u32)| {
            judged(&drawn(10_000 + seed as u64, *n as usize)).verdict == Verdict::Worse
        };
        let decided = asked.iter().enumerate().filter(|one| is_decided(*one)).count();
        let share = decided as f64 / asked.len() as f64;
        println!("{share:.2} of {} decided, {asked:?}", asked.len());
        assert!(share >= 0.6, "{share} of {}", asked.len());
    }
}
