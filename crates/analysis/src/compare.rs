//! The verdicts of a bake-off: every configuration against the reference, at each level of everything else.

use record::bakeoff::{Bakeoff, Factor, Levels, Metric};
use record::missing::Maybe;

use crate::cell::{Cell, cells, combinations};
use crate::judge::{Estimate, Judged, Rules, Verdict, blocks_min, judge};

/// What a bake-off says.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// Factors that have a reference: what is compared.
    pub compared: Vec<String>,
    /// The other factors: at each combination of their values, configurations are compared.
    pub conditions: Vec<String>,
    /// The compared factors at their references.
    pub reference: Levels,
    /// By what it was judged.
    pub rules: Rules,
    /// The fewest blocks for a claim at this alpha.
    pub blocks_min: u32,
    /// Whether the plan has fewer blocks than that, or is labelled so: no claim is made whatever the data say.
    pub exploratory: bool,
    /// The family, judged: configurations x conditions x metrics.
    pub pairs: Vec<Pair>,
    /// Every cell of the design by every metric there is, judged or not.
    pub cells: Vec<Cell>,
}

impl Comparisons {
    /// The cells of one metric, in the plan's order.
    pub fn cells_of(&self, metric: Metric) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |c| c.metric == metric)
    }

    /// How many pairs ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.pairs.iter().filter(|p| p.verdict == verdict).count()
    }
}

/// One configuration against the reference, under one condition, by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The compared factors of the configuration.
    pub a: Levels,
    /// The compared factors of the reference.
    pub b: Levels,
    /// The condition: the other factors' values.
    pub levels: Levels,
    /// What is compared.
    pub metric: Metric,
    /// A's value over B's, by block, where both sides are sealed and have one.
    pub blocks: Vec<(u32, f64)>,
    /// The ratio over all blocks.
    pub estimate: Maybe<Estimate>,
    /// What may be claimed.
    pub verdict: Verdict,
    /// Blocks that would probably decide it; missing where it is decided.
    pub blocks_needed: Maybe<u32>,
}

impl Pair {
    /// Blocks that it rests on.
    pub fn n(&self) -> usize {
        self.blocks.len()
    }
}

/// Judges every configuration against the reference at each combination of the other factors' values.
///
/// A factor with a reference is compared; one without is a condition. All pairs of all judged metrics form one family.
/// Only blocks in which both sides are sealed count, pair by pair: what a block's machine did to both cancels.
pub fn compare(bakeoff: &Bakeoff) -> Comparisons {
    let (compared, conditions): (Vec<&Factor>, Vec<&Factor>) =
        bakeoff.factors.iter().partition(|f| f.reference.is_some());
    let reference: Levels =
        compared.iter().filter_map(|f| Some((f.name.clone(), f.reference.clone()?))).collect();
    let rules =
        Rules { rope_ratio: bakeoff.judge.rope_ratio, alpha: bakeoff.judge.alpha, seed: bakeoff.seed };
    let cells = cells(bakeoff);

    let mut unjudged = Vec::new();
    for metric in &bakeoff.judge.metrics {
        for levels in combinations(&conditions) {
            for a in combinations(&compared).into_iter().filter(|a| *a != reference) {
                let blocks = ratios(&cells, *metric, &a, &reference, &levels);
                unjudged.push((a, levels.clone(), *metric, blocks));
            }
        }
    }
    let names = |factors: &[&Factor]| factors.iter().map(|f| f.name.clone()).collect();
    let blocks_min = blocks_min(rules.alpha);
    let exploratory = bakeoff.exploratory || bakeoff.blocks < blocks_min;
    let mut pairs = judged(unjudged, &reference, rules);
    if exploratory {
        for pair in &mut pairs {
            pair.verdict = Verdict::Inconclusive;
        }
    }
    Comparisons {
        compared: names(&compared),
        conditions: names(&conditions),
        pairs,
        reference,
        rules,
        blocks_min,
        exploratory,
        cells,
    }
}

type Unjudged = (Levels, Levels, Metric, Vec<(u32, f64)>);

fn judged(unjudged: Vec<Unjudged>, reference: &Levels, rules: Rules) -> Vec<Pair> {
    let logs: Vec<(Metric, Vec<f64>)> = unjudged
        .iter()
        .map(|(_, _, metric, blocks)| (*metric, blocks.iter().map(|(_, ratio)| ratio.ln()).collect()))
        .collect();
    let family: Vec<(Metric, &[f64])> =
        logs.iter().map(|(metric, logs)| (*metric, logs.as_slice())).collect();
    let pair = |((a, levels, metric, blocks), judged): (Unjudged, Judged)| Pair {
        a,
        b: reference.clone(),
        levels,
        metric,
        blocks,
        estimate: judged.estimate,
        verdict: judged.verdict,
        blocks_needed: judged.blocks_needed,
    };
    unjudged.into_iter().zip(judge(&family, rules)).map(pair).collect()
}

fn ratios(cells: &[Cell], metric: Metric, a: &Levels, b: &Levels, condition: &Levels) -> Vec<(u32, f64)> {
    let cell = |side: &Levels| {
        cells.iter().find(|c| {
            c.metric == metric && side.iter().chain(condition).all(|(k, v)| c.levels.get(k) == Some(v))
        })
    };
    let (Some(a), Some(b)) = (cell(a), cell(b)) else { return Vec::new() };
    a.values.iter().filter_map(|v| Some((v.block, v.value.as_ref().ok()? / b.in_block(v.block)?))).collect()
}
