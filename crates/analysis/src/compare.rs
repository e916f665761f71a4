//! Verdicts of a bake-off: every configuration against the reference, at each level of the other factors.

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, blocks_min};
use record::missing::{Maybe, Missing};
use record::run::RunState;

use crate::cell::{Cell, InBlock, cells, combinations};
use crate::fallen_out::{FallenOut, fallen_out};
use crate::judge::{Estimate, Judged, Member, Rules, Verdict, blocks_needed, judge};
use crate::metric::Value;
use crate::slope::{Slope, Slopes, slopes};

/// Result of comparing the configurations of a bake-off.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// Factors that have a reference: the compared ones.
    pub compared: Vec<String>,
    /// Other factors: configurations are compared at each combination of their levels.
    pub conditions: Vec<String>,
    /// Compared factors at their reference levels.
    pub reference: Levels,
    /// Rules of judgement.
    pub rules: Rules,
    /// Minimum number of blocks for a claim at this alpha.
    pub blocks_min: u32,
    /// Whether the plan has fewer blocks than that, or is labelled exploratory. An exploratory bake-off makes
    /// no claim.
    pub exploratory: bool,
    /// Whether trials are still to be measured: a claim is made only after the last one.
    pub unfinished: bool,
    /// The judged family: configurations x conditions x metrics, as far as they can be judged.
    pub pairs: Vec<Pair>,
    /// Comparisons of the plan that no run can answer; they are not members of the family.
    pub left_out: Vec<LeftOut>,
    /// Every cell of the design for every metric, judged or not.
    pub cells: Vec<Cell>,
    /// Lost trials of each configuration.
    pub fallen_out: Vec<FallenOut>,
    /// The server's CPU time per event without its background load, if the plan has several rates.
    pub slopes: Vec<Slope>,
}

impl Comparisons {
    /// The cells of one metric, in the plan's order.
    pub fn cells_of(&self, metric: Metric) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |c| c.metric == metric)
    }

    /// Number of pairs with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.pairs.iter().filter(|p| p.verdict == verdict).count()
    }
}

/// One configuration against the reference, under one condition, by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Compared factors of the configuration.
    pub a: Levels,
    /// Compared factors of the reference.
    pub b: Levels,
    /// The condition: the other factors' levels. Without the rate if slopes over the rates are compared.
    pub levels: Levels,
    /// The metric.
    pub metric: Metric,
    /// A's value divided by B's, by block, for blocks in which both sides are sealed and have a value.
    pub blocks: Vec<(u32, f64)>,
    /// Geometric means of A and of B over these blocks; missing without blocks.
    pub means: Maybe<(f64, f64)>,
    /// Uncertainty of the ratio, as a share, from the values' own intervals.
    pub open_ratio: f64,
    /// The ratio over all blocks; missing if trials fell out unevenly.
    pub estimate: Maybe<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of blocks that would probably decide the pair; missing if it is decided, or if the bake-off
    /// makes no claims.
    pub blocks_needed: Maybe<u32>,
}

impl Pair {
    /// Number of blocks behind the ratio.
    pub fn n(&self) -> usize {
        self.blocks.len()
    }
}

/// A comparison that the plan asks for and that no run can answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Compared factors of the configuration.
    pub a: Levels,
    /// The condition.
    pub levels: Levels,
    /// The metric.
    pub metric: Metric,
    /// Reason that the comparison is left out.
    pub why: Missing,
}

/// Judges every configuration against the reference at each combination of the other factors' levels.
///
/// A factor with a reference is compared; one without is a condition. All pairs of all judged metrics form
/// one family, without the pairs for which no run of one side yields the metric. Only blocks in which both
/// sides are sealed count: drift of the machine within a block cancels in the ratio. A pair with unevenly
/// lost trials yields no claim.
pub fn compare(bakeoff: &Bakeoff) -> Comparisons {
    let (compared, conditions): (Vec<&Factor>, Vec<&Factor>) =
        bakeoff.factors.iter().partition(|f| f.reference.is_some());
    let reference: Levels =
        compared.iter().filter_map(|f| Some((f.name.clone(), f.reference.clone()?))).collect();
    let rules =
        Rules { rope_ratio: bakeoff.judge.rope_ratio, alpha: bakeoff.judge.alpha, seed: bakeoff.seed };
    let cells = cells(bakeoff);
    let slopes = slopes(bakeoff);

    let metrics = bakeoff.judge.metrics.iter();
    let fields = metrics.map(|m| Field::of(*m, &cells, slopes.as_ref(), &conditions, &compared));
    let (judged, left_out) = family(fields, &reference, rules);
    let members = judged.len();
    let pair = |(contest, judged): (Contest, Judged)| contest.pair(judged, &reference, members, rules);
    let mut pairs: Vec<Pair> = judged.into_iter().map(pair).collect();
    let names = |factors: &[&Factor]| factors.iter().map(|f| f.name.clone()).collect();
    let blocks_min = blocks_min(rules.alpha);
    let exploratory = bakeoff.exploratory || bakeoff.blocks < blocks_min;
    let unfinished = !is_over(bakeoff.header.state);
    if exploratory || unfinished {
        let why = if exploratory { "the plan is exploratory" } else { "the bake-off is not over" };
        for pair in pairs.iter_mut().filter(|pair| pair.verdict != Verdict::Inconclusive) {
            pair.verdict = Verdict::Inconclusive;
            pair.blocks_needed = Err(Missing::because(why));
        }
    }
    Comparisons {
        compared: names(&compared),
        conditions: names(&conditions),
        pairs,
        left_out,
        fallen_out: fallen_out(bakeoff, &compared),
        slopes: slopes.map_or(Vec::new(), |s| s.over_blocks(rules.alpha)),
        reference,
        rules,
        blocks_min,
        exploratory,
        unfinished,
        cells,
    }
}

/// Whether every trial has ended. The verdict waits for that: a bake-off that stops at a pleasing
/// result finds false differences.
fn is_over(state: RunState) -> bool {
    matches!(state, RunState::Sealed | RunState::Invalid | RunState::Failed)
}

/// Judges as one family every comparison in these fields that can be judged; the others are left out.
pub(crate) fn family<'a>(
    fields: impl Iterator<Item = Field<'a>>,
    reference: &Levels,
    rules: Rules,
) -> (Vec<(Contest, Judged)>, Vec<LeftOut>) {
    let (mut contests, mut left_out) = (Vec::new(), Vec::new());
    for contest in fields.flat_map(|field| field.contests(reference)) {
        match contest {
            Ok(contest) => contests.push(contest),
            Err(out) => left_out.push(out),
        }
    }
    let members: Vec<Member> = contests.iter().map(Contest::member).collect();
    let judged = judge(&members, rules);
    (contests.into_iter().zip(judged).collect(), left_out)
}

/// The cells of one metric, with the conditions and configurations to compare.
pub(crate) struct Field<'a> {
    pub(crate) metric: Metric,
    pub(crate) cells: Vec<&'a Cell>,
    pub(crate) conditions: Vec<Levels>,
    pub(crate) compared: Vec<Levels>,
}

impl<'a> Field<'a> {
    fn of(
        metric: Metric,
        cells: &'a [Cell],
        slopes: Option<&'a Slopes>,
        conditions: &[&Factor],
        compared: &[&Factor],
    ) -> Self {
        let slopes = slopes.filter(|_| metric == Metric::CpuPerEvent);
        let conditions: Vec<&Factor> = conditions
            .iter()
            .copied()
            .filter(|f| slopes.is_none_or(|slopes| f.name != slopes.rate_factor()))
            .collect();
        let cells = match slopes {
            Some(slopes) => slopes.cells().iter().collect(),
            None => cells.iter().filter(|c| c.metric == metric).collect(),
        };
        Self { metric, cells, conditions: combinations(&conditions), compared: combinations(compared) }
    }

    fn cell(&self, side: &Levels, condition: &Levels) -> Option<&'a Cell> {
        let is_it = |c: &&&Cell| side.iter().chain(condition).all(|(k, v)| c.levels.get(k) == Some(v));
        self.cells.iter().find(is_it).copied()
    }

    /// Trials of one side, over all conditions, that failed or were abandoned before one was sealed. Summed,
    /// because a rare failure may be seldom in each condition; abandoned ones count, because a crash of the
    /// machine leaves no failure.
    fn redone(&self, side: &Levels) -> usize {
        let is_its = |cell: &&&Cell| side.iter().all(|(k, v)| cell.levels.get(k) == Some(v));
        self.cells.iter().filter(is_its).map(|cell| cell.redone.union(&cell.abandoned).count()).sum()
    }

    fn contests(&self, reference: &Levels) -> Vec<Result<Contest, LeftOut>> {
        let mut contests = Vec::new();
        for condition in &self.conditions {
            for a in self.compared.iter().filter(|a| *a != reference) {
                let sides = self.cell(a, condition).zip(self.cell(reference, condition));
                let Some((one, other)) = sides else { continue };
                let redone = (self.redone(a), self.redone(reference));
                contests.push(match one.unable().or(other.unable()) {
                    None => Ok(Contest::of(one, other, a.clone(), condition.clone(), redone)),
                    Some(why) => Err(LeftOut {
                        a: a.clone(),
                        levels: condition.clone(),
                        metric: self.metric,
                        why: why.clone(),
                    }),
                });
            }
        }
        contests
    }
}

/// A pair before judgement.
#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) a: Levels,
    levels: Levels,
    metric: Metric,
    pub(crate) blocks: Vec<(u32, Value, Value)>,
    uneven: Option<Missing>,
}

/// Difference in repeated trials between two sides that may still be an accident.
const REDONE_MORE_MAX: usize = 1;

/// Below this p of the sign test, the trials of one side fail more often, whatever the condition.
const REDONE_P_MIN: f64 = 0.05;

/// Two-sided p of the sign test: each of `a + b` failures hits either side with equal chance.
fn p_of_shares(a: usize, b: usize) -> f64 {
    let n = a + b;
    let mut ways = 1.0;
    let mut tail = 0.0;
    for i in 0..=a.min(b) {
        tail += ways;
        ways *= (n - i) as f64 / (i + 1) as f64;
    }
    (2.0 * tail * 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX))).min(1.0)
}

impl Contest {
    /// - `redone`: trials of either side, over all conditions, that failed or were abandoned before one was
    ///   sealed.
    fn of(a: &Cell, b: &Cell, side: Levels, levels: Levels, redone: (usize, usize)) -> Self {
        let mut blocks = Vec::new();
        let (mut lost_by_a, mut lost_by_b) = (0, 0);
        for block in a.blocks().union(&b.blocks()) {
            match (a.in_block(*block), b.in_block(*block)) {
                (InBlock::Known(a), InBlock::Known(b)) => blocks.push((*block, a.clone(), b.clone())),
                (InBlock::FellOut, InBlock::Known(_)) => lost_by_a += 1,
                (InBlock::Known(_), InBlock::FellOut) => lost_by_b += 1,
                _ => {}
            }
        }
        let (redone_a, redone_b) = (a.redone.len(), b.redone.len());
        let uneven = if lost_by_a + lost_by_b > 0 {
            Some(Missing::because(format!(
                "trials fell out unevenly: in {} only that of the configuration, in {} only that of the reference; what \
                 is left is a selection",
                blocks_word(lost_by_a),
                blocks_word(lost_by_b)
            )))
        } else if redone_a.abs_diff(redone_b) > REDONE_MORE_MAX {
            Some(Missing::because(format!(
                "trials failed unevenly before they were sealed at a later attempt: in {} of the configuration, in {} \
                 of the reference",
                blocks_word(redone_a),
                blocks_word(redone_b)
            )))
        } else if p_of_shares(redone.0, redone.1) <= REDONE_P_MIN {
            Some(Missing::because(format!(
                "trials failed or were abandoned unevenly before they were sealed at a later attempt: {} of the \
                 configuration over all conditions, {} of the reference",
                redone.0, redone.1
            )))
        } else {
            None
        };
        Self { a: side, levels, metric: a.metric, blocks, uneven }
    }

    /// Lower and upper bound of each block's log ratio.
    fn log_ratios(&self) -> Vec<(f64, f64)> {
        self.blocks.iter().map(|(_, a, b)| ((a.low / b.high).ln(), (a.high / b.low).ln())).collect()
    }

    fn member(&self) -> Member {
        Member { metric: self.metric, log_ratios: self.log_ratios(), refused: self.uneven.clone() }
    }

    fn pair(self, judged: Judged, reference: &Levels, members: usize, rules: Rules) -> Pair {
        let ratio = |((block, ..), (low, high)): (&(u32, Value, Value), (f64, f64))| {
            (*block, low.midpoint(high).exp())
        };
        Pair {
            b: reference.clone(),
            blocks: self.blocks.iter().zip(self.log_ratios()).map(ratio).collect(),
            means: self.means(),
            open_ratio: judged.open_ln.exp_m1(),
            a: self.a,
            levels: self.levels,
            metric: self.metric,
            blocks_needed: blocks_needed(&judged, members, rules),
            estimate: judged.estimate,
            verdict: judged.verdict,
        }
    }

    fn means(&self) -> Maybe<(f64, f64)> {
        if self.blocks.is_empty() {
            return Err(Missing::because("no block has both sides"));
        }
        let mean = |of: &dyn Fn(&(u32, Value, Value)) -> f64| {
            (self.blocks.iter().map(|b| of(b).ln()).sum::<f64>() / self.blocks.len() as f64).exp()
        };
        Ok((mean(&|(_, a, _)| a.middle().unwrap_or(a.low)), mean(&|(_, _, b)| b.middle().unwrap_or(b.low))))
    }
}

fn blocks_word(n: usize) -> String {
    if n == 1 { "1 block".to_owned() } else { format!("{n} blocks") }
}
