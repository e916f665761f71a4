//! Verdicts of a bake-off: every configuration against the reference, at each level of the other factors.

use std::collections::BTreeSet;

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, Trial, TrialState, blocks_min};
use record::missing::{Maybe, Missing};

use crate::cell::{Cell, cells, is_loss, reference};
use crate::contest::{Contest, Field, LeftOut, after, contests, is_over, judged};
use crate::fallen_out::{FallenOut, fallen_out};
use crate::functions::{Profiled, TrialProfiles};
use crate::gate::{GateResult, gates};
use crate::judge::{Estimate, Judged, Rules, Verdict, blocks_needed};
use crate::metric::Value;
use crate::sequential::{self, Dropped};
use crate::slope::{Slope, slopes};

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
    /// The bake-off's gates, judged.
    pub gates: Vec<GateResult>,
    /// Configurations that were dropped, because they are beaten.
    pub dropped: Vec<Dropped>,
    /// The server's CPU time per event without its background load, if the plan has several rates.
    pub slopes: Vec<Slope>,
    /// The functions behind the differences; empty until [`Self::add_profiles`].
    pub profiled: Profiled,
}

impl Comparisons {
    /// Compares the profiles of the trials. A bake-off is read without them: they are added one after
    /// another.
    ///
    /// The functions form a second family, with the alpha of that of the metrics.
    pub fn add_profiles(&mut self, bakeoff: &Bakeoff, profiles: &TrialProfiles) {
        let no_claim = self.exploratory || self.unfinished;
        self.profiled = profiles.compared(bakeoff, &self.reference, (self.rules, no_claim), &self.dropped);
    }

    /// The cells of one metric, in the plan's order.
    pub fn cells_of(&self, metric: Metric) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |c| c.metric == metric)
    }

    /// Trials that were not measured because their configuration was dropped.
    pub fn dropped_trials(&self, bakeoff: &Bakeoff) -> usize {
        let sealed = bakeoff.attempts.iter().filter(|a| a.state == TrialState::Sealed);
        let sealed: BTreeSet<u32> = sealed.map(|a| a.trial).collect();
        let is_sealed = |trial: &Trial| sealed.contains(&trial.index);
        bakeoff.trials.iter().filter(|trial| self.is_dropped(trial) && !is_sealed(trial)).count()
    }

    /// Whether the configuration of a trial was dropped before its block.
    pub fn is_dropped(&self, trial: &Trial) -> bool {
        self.dropped.iter().any(|of| trial.block > of.after_block && is_of(trial, &of.arm))
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

/// Judges every configuration against the reference at each combination of the other factors' levels.
///
/// A factor with a reference is compared; one without is a condition. All pairs of all judged metrics form
/// one family, without the pairs for which no run of one side yields the metric. Only blocks in which both
/// sides are sealed count: drift of the machine within a block cancels in the ratio. A pair with unevenly
/// lost trials yields no claim.
pub fn compare(bakeoff: &Bakeoff) -> Comparisons {
    let (compared, conditions): (Vec<&Factor>, Vec<&Factor>) =
        bakeoff.factors.iter().partition(|f| f.reference.is_some());
    let reference = reference(bakeoff, &compared);
    let whole = sequential::rules(bakeoff);
    let rules = Rules { alpha: bakeoff.judge.alpha_at_end(), ..whole };
    let mut cells = cells(bakeoff, bakeoff.judge.alpha);
    let slopes = slopes(bakeoff);

    let metrics = bakeoff.judge.metrics.iter();
    let field = |metric| Field::of(metric, &cells, slopes.as_ref(), bakeoff, (&conditions, &compared));
    let fields = metrics.map(|m| field(*m));
    let (mut contests, left_out) = contests(fields, &reference);
    let first = bakeoff.judge.metrics.first().filter(|_| bakeoff.judge.sequential);
    let dropped = first.map_or(Vec::new(), |m| sequential::in_field(&field(*m), &reference, &whole));
    drop_beaten(&mut contests, &dropped, bakeoff);
    let by_first = contests.iter().filter(|c| Some(&c.metric) == first).count()
        + left_out.iter().filter(|out| Some(&out.metric) == first).count();
    let members = contests.len();
    let beaten: Vec<Option<Estimate>> = contests
        .iter()
        .map(|c| {
            let decides = c.dropped.is_some() && Some(&c.metric) == first;
            decides.then(|| sequential::estimate(c, by_first, &whole)).flatten()
        })
        .collect();
    let judged = judged(contests, rules);
    let pair = |(contest, judged): (Contest, Judged)| self::pair(contest, judged, &reference, members, rules);
    let mut pairs: Vec<Pair> = judged.into_iter().map(pair).collect();
    for (pair, estimate) in pairs.iter_mut().zip(beaten) {
        if let Some(estimate) = estimate {
            (pair.estimate, pair.verdict) = (Ok(estimate), Verdict::Worse);
            pair.blocks_needed = Err(Missing::because("the comparison is already decided"));
        }
    }
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
    let gates = gates(bakeoff, &reference, &field);
    let mut slopes = slopes.map_or(Vec::new(), |s| s.over_blocks(rules.alpha, bakeoff.seed));
    withdraw_intervals((&mut cells, &mut slopes), &dropped);
    Comparisons {
        compared: names(&compared),
        conditions: names(&conditions),
        gates,
        pairs,
        left_out,
        fallen_out: fallen_out(bakeoff, &compared),
        slopes,
        dropped,
        reference,
        rules,
        blocks_min,
        exploratory,
        unfinished,
        cells,
        profiled: Profiled::default(),
    }
}

fn is_of(trial: &Trial, arm: &Levels) -> bool {
    arm.iter().all(|(name, level)| trial.levels.get(name) == Some(level))
}

/// Whether a trial of the configuration has no end.
fn lacks_trials(bakeoff: &Bakeoff, arm: &Levels) -> bool {
    let is_end = |state| state == TrialState::Sealed || is_loss(state);
    let ended: BTreeSet<u32> = bakeoff.attempts.iter().filter(|a| is_end(a.state)).map(|a| a.trial).collect();
    bakeoff.trials.iter().any(|trial| is_of(trial, arm) && !ended.contains(&trial.index))
}

/// Drops the configurations that are beaten, in a sequential design. If another one lacks trials at the end,
/// the choice of the others may depend on their values: it gets no verdict.
fn drop_beaten(contests: &mut [Contest], dropped: &[Dropped], bakeoff: &Bakeoff) {
    let is_final = bakeoff.judge.sequential && is_over(bakeoff.header.state);
    for contest in contests {
        if let Some(of) = dropped.iter().find(|of| of.arm == contest.a) {
            contest.drop_after(of.after_block);
        } else if is_final && lacks_trials(bakeoff, &contest.a) {
            let why = "blocks were not measured, although the configuration is not beaten";
            contest.uneven = Some(Missing::because(why));
        }
    }
}

/// Removes the intervals of dropped configurations: one for a fixed number of blocks does not hold if the
/// values end the measurement.
fn withdraw_intervals((cells, slopes): (&mut [Cell], &mut [Slope]), dropped: &[Dropped]) {
    for cell in cells {
        let is_its = |of: &&Dropped| of.arm.iter().all(|(k, v)| cell.levels.get(k) == Some(v));
        if let (Some(of), Ok(summary)) = (dropped.iter().find(is_its), &mut cell.summary) {
            summary.interval = Err(after(of.after_block));
        }
    }
    for slope in slopes.iter_mut().filter(|slope| slope.interval_s.is_ok()) {
        if let Some(of) = dropped.iter().find(|of| of.arm == slope.arm) {
            slope.interval_s = Err(after(of.after_block));
            slope.robust_interval_s = Err(after(of.after_block));
        }
    }
}

fn pair(contest: Contest, judged: Judged, reference: &Levels, members: usize, rules: Rules) -> Pair {
    let ratio =
        |((block, ..), (low, high)): (&(u32, Value, Value), (f64, f64))| (*block, low.midpoint(high).exp());
    Pair {
        b: reference.clone(),
        blocks: contest.blocks.iter().zip(contest.log_ratios()).map(ratio).collect(),
        means: contest.means(),
        open_ratio: judged.open_ln.exp_m1(),
        a: contest.a,
        levels: contest.levels,
        metric: contest.metric,
        blocks_needed: blocks_needed(&judged, members, rules),
        estimate: judged.estimate,
        verdict: judged.verdict,
    }
}
