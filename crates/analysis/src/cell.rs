//! What each cell of the design gave, block by block.

use std::collections::BTreeMap;

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, Trial};
use record::missing::{Maybe, Missing};
use record::run::{Run, RunId};

use crate::metric::value;
use crate::paired::Paired;

/// One cell: a value of every factor, and what one metric was there.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its value of every factor.
    pub levels: Levels,
    /// What was measured.
    pub metric: Metric,
    /// What each block's sealed run gave, in order of blocks. A block without a sealed run is not there.
    pub values: Vec<BlockValue>,
    /// Over the blocks; missing where no block has a value.
    pub summary: Maybe<CellSummary>,
}

/// What one block gave.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockValue {
    /// The block.
    pub block: u32,
    /// The series within the bake-off.
    pub series: u32,
    /// The run behind it.
    pub run: RunId,
    /// The metric's value.
    pub value: Maybe<f64>,
}

/// A cell over its blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSummary {
    /// Blocks with a value.
    pub n: usize,
    /// Geometric mean over the blocks, so that two cells' means divide to the ratio that is tested.
    pub mean: f64,
    /// Ends of the t interval over the blocks, taken in logs; missing where one block alone has a value.
    pub interval: Maybe<(f64, f64)>,
}

impl Cell {
    /// The value of a block.
    pub fn in_block(&self, block: u32) -> Option<f64> {
        self.values.iter().find(|v| v.block == block)?.value.as_ref().ok().copied()
    }
}

/// Every cell of the design by every metric, in the order that the plan writes factors and values.
pub(crate) fn cells(bakeoff: &Bakeoff) -> Vec<Cell> {
    let mut sealed: BTreeMap<&Levels, Vec<(&Trial, &Run)>> = BTreeMap::new();
    for (trial, run) in bakeoff.sealed() {
        sealed.entry(&trial.levels).or_default().push((trial, run));
    }
    for runs in sealed.values_mut() {
        runs.sort_by_key(|(trial, _)| trial.block);
    }
    let factors: Vec<&Factor> = bakeoff.factors.iter().collect();
    let all = combinations(&factors);
    let of = |levels: &Levels, metric: Metric| {
        let runs = sealed.get(levels).map_or(&[][..], Vec::as_slice);
        cell(levels.clone(), metric, runs, bakeoff.judge.alpha)
    };
    Metric::ALL.iter().flat_map(|metric| all.iter().map(|levels| of(levels, *metric))).collect()
}

/// Every combination of the factors' values; the last factor varies fastest. One empty one of no factors.
pub(crate) fn combinations(factors: &[&Factor]) -> Vec<Levels> {
    factors.iter().fold(vec![Levels::new()], |so_far, factor| {
        let with = |levels: &Levels, value: &String| {
            let mut levels = levels.clone();
            levels.insert(factor.name.clone(), value.clone());
            levels
        };
        so_far.iter().flat_map(|levels| factor.values.iter().map(move |v| with(levels, v))).collect()
    })
}

fn cell(levels: Levels, metric: Metric, runs: &[(&Trial, &Run)], alpha: f64) -> Cell {
    let values: Vec<BlockValue> = runs.iter().map(|(trial, run)| block_value(trial, run, metric)).collect();
    let known: Vec<f64> = values.iter().filter_map(|v| v.value.as_ref().ok().copied()).collect();
    let summary = summary(&known, alpha).ok_or_else(|| match values.first() {
        None => Missing::because("no run of this cell was sealed"),
        Some(first) => first.value.clone().err().unwrap_or_else(|| Missing::because("no value")),
    });
    Cell { levels, metric, values, summary }
}

fn block_value(trial: &Trial, run: &Run, metric: Metric) -> BlockValue {
    BlockValue { block: trial.block, series: trial.series, run: run.header.id, value: value(run, metric) }
}

fn summary(values: &[f64], alpha: f64) -> Option<CellSummary> {
    if values.is_empty() {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let interval = Paired::of(&logs).map(|p| p.interval(alpha)).map(|(low, high)| (low.exp(), high.exp()));
    Some(CellSummary {
        n: values.len(),
        mean: (logs.iter().sum::<f64>() / logs.len() as f64).exp(),
        interval: interval.ok_or_else(|| Missing::because("one block has no spread")),
    })
}
