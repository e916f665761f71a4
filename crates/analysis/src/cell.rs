//! The result of each cell of the design, by block.

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, Trial, TrialState};
use record::missing::{Maybe, Missing};
use record::run::{Run, RunId};

use crate::metric::{Value, value};
use crate::paired::Paired;

/// One cell: a level of every factor, and the values of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Level of every factor.
    pub levels: Levels,
    /// The metric.
    pub metric: Metric,
    /// Value from the sealed run of each block, in order of blocks. Blocks without a sealed run are absent.
    pub values: Vec<BlockValue>,
    /// Blocks in which the trial ended without a sealed run.
    pub fell_out: BTreeSet<u32>,
    /// Blocks in which the trial failed at least once and a later attempt was sealed. Damage in the archive
    /// is not a failure.
    pub redone: BTreeSet<u32>,
    /// Blocks in which the process that measured the trial died or was stopped, and a later attempt was
    /// sealed.
    pub abandoned: BTreeSet<u32>,
    /// Summary over the blocks; missing if a block with a sealed run has no value: the others are a
    /// selection.
    pub summary: Maybe<CellSummary>,
}

/// Value of one block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockValue {
    /// The block.
    pub block: u32,
    /// Series within the bake-off.
    pub series: u32,
    /// Run that yielded the value.
    pub run: RunId,
    /// The metric's value.
    pub value: Maybe<Value>,
}

/// Summary of a cell over its blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSummary {
    /// Blocks with a value.
    pub n: usize,
    /// Geometric mean over the blocks of the middles of their values. With it, the ratio of two cells' means
    /// is the ratio that is tested.
    pub mean: f64,
    /// The same mean of the lower ends and of the upper ends of the values.
    pub bracket: (f64, f64),
    /// Ends of the t interval over the blocks, computed in logs; missing if only one block has a value.
    pub interval: Maybe<(f64, f64)>,
}

/// Most repeated trials that may still be an accident.
pub(crate) const REDONE_MORE_MAX: usize = 1;

/// State of one block of a cell, as far as a comparison needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum InBlock<'a> {
    /// The trial has not ended.
    Open,
    /// The trial ended without a sealed run, or with a value that cannot be judged.
    FellOut,
    /// A value that can be judged.
    Known(&'a Value),
}

impl Cell {
    /// Builds the cell of one metric from runs in order of blocks.
    fn of(levels: Levels, metric: Metric, seen: &Seen, alpha: f64) -> Self {
        let values = seen.sealed.iter().map(|(trial, run)| block_value(trial, run, metric)).collect();
        Self::with(levels, metric, values, seen, alpha)
    }

    pub(crate) fn with(
        levels: Levels,
        metric: Metric,
        values: Vec<BlockValue>,
        seen: &Seen,
        alpha: f64,
    ) -> Self {
        let summary = summary(&values, alpha);
        let (fell_out, redone, abandoned) =
            (seen.fell_out.clone(), seen.redone.clone(), seen.abandoned.clone());
        Self { levels, metric, values, fell_out, redone, abandoned, summary }
    }

    pub(crate) fn in_block(&self, block: u32) -> InBlock<'_> {
        if self.fell_out.contains(&block) {
            return InBlock::FellOut;
        }
        match self.of_block(block).map(|v| &v.value) {
            None => InBlock::Open,
            Some(Ok(value)) if value.judged().is_some() => InBlock::Known(value),
            Some(_) => InBlock::FellOut,
        }
    }

    /// The value of a block: they are in the order of blocks.
    fn of_block(&self, block: u32) -> Option<&BlockValue> {
        let at = self.values.partition_point(|v| v.block < block);
        self.values.get(at).filter(|v| v.block == block)
    }

    /// Reason that the value of a sealed run in this block is not judged.
    pub(crate) fn unjudged_in(&self, block: u32) -> Option<&Missing> {
        match &self.of_block(block)?.value {
            Err(why) => Some(why),
            Ok(value) => value.unjudged.as_ref(),
        }
    }

    /// Blocks with a value or a lost trial.
    pub(crate) fn blocks(&self) -> BTreeSet<u32> {
        self.values.iter().map(|v| v.block).chain(self.fell_out.iter().copied()).collect()
    }

    /// Reason that the values are a selection: a block has none, or none that may be judged, or its trials
    /// were repeated.
    pub(crate) fn selection(&self) -> Option<Missing> {
        self.selected().or_else(|| self.summary.as_ref().err().cloned())
    }

    /// Variant of [`Self::selection`] that takes a value without an upper end.
    pub(crate) fn selected(&self) -> Option<Missing> {
        let lost = self.fell_out.len();
        let all = self.blocks().len();
        let unjudged = |v: &BlockValue| match &v.value {
            Err(why) => Some(why.clone()),
            Ok(value) => value.unjudged.clone(),
        };
        if lost > 0 {
            let why = format!("trials were lost in {lost} of {all} blocks; the remaining ones may be biased");
            return Some(Missing::because(why));
        }
        if self.redone.len() > REDONE_MORE_MAX {
            let redone = self.redone.len();
            return Some(Missing::because(format!(
                "trials failed and were repeated in {redone} of {all} blocks; the values may be biased"
            )));
        }
        if self.values.is_empty() {
            return Some(Missing::because("no run of this cell was sealed"));
        }
        self.values.iter().find_map(unjudged)
    }

    /// Reason that this metric cannot judge any sealed run of the cell; `None` if it can judge one, or if no
    /// run was sealed.
    pub(crate) fn unable(&self) -> Option<&Missing> {
        let why = |value: &'_ BlockValue| -> bool {
            matches!(&value.value, Err(_) | Ok(Value { unjudged: Some(_), .. }))
        };
        if !self.values.iter().all(why) {
            return None;
        }
        match &self.values.first()?.value {
            Err(missing) | Ok(Value { unjudged: Some(missing), .. }) => Some(missing),
            Ok(_) => None,
        }
    }
}

/// Outcomes of the trials of one cell.
#[derive(Debug, Default)]
pub(crate) struct Seen<'a> {
    /// Sealed trials in order of blocks.
    pub(crate) sealed: Vec<(&'a Trial, &'a Run)>,
    pub(crate) fell_out: BTreeSet<u32>,
    pub(crate) redone: BTreeSet<u32>,
    pub(crate) abandoned: BTreeSet<u32>,
}

/// Outcomes of the trials, by cell.
pub(crate) fn seen(bakeoff: &Bakeoff) -> BTreeMap<&Levels, Seen<'_>> {
    let mut found: BTreeMap<&Levels, Seen<'_>> = BTreeMap::new();
    let attempts = bakeoff.attempts_by_trial();
    for trial in &bakeoff.trials {
        let seen = found.entry(&trial.levels).or_default();
        let ends = || attempts.get(&trial.index).into_iter().flatten();
        let sealed = ends().find(|a| a.state == TrialState::Sealed).and_then(|a| a.run.as_ref());
        let broke = ends().any(|a| is_loss(a.state));
        let failed = ends().any(|a| is_failure(a.state));
        match sealed {
            Some(run) => {
                seen.sealed.push((trial, run));
                if failed {
                    seen.redone.insert(trial.block);
                }
                if ends().any(|a| a.state == TrialState::Abandoned) {
                    seen.abandoned.insert(trial.block);
                }
            }
            None if broke => {
                seen.fell_out.insert(trial.block);
            }
            None => {}
        }
    }
    for seen in found.values_mut() {
        seen.sealed.sort_by_key(|(trial, _)| trial.block);
    }
    found
}

/// Whether an attempt that ended in this state is missing from the results. Stopped attempts and attempts
/// that never began are not.
pub(crate) fn is_loss(state: TrialState) -> bool {
    !matches!(state, TrialState::Sealed | TrialState::Planned | TrialState::Abandoned)
}

/// Whether the attempt failed during measurement. Damage to its files in the archive says nothing about the
/// arm.
pub(crate) fn is_failure(state: TrialState) -> bool {
    is_loss(state) && state != TrialState::Damaged
}

/// Every cell of the design for every metric, in the plan's order of factors and levels. A combination that
/// the plan leaves out is not a cell.
///
/// - `alpha`: share of both tails of the intervals.
pub(crate) fn cells(bakeoff: &Bakeoff, alpha: f64) -> Vec<Cell> {
    let seen = seen(bakeoff);
    let factors: Vec<&Factor> = bakeoff.factors.iter().collect();
    let all = combinations(bakeoff, &factors);
    let none = Seen::default();
    let of = |levels: &Levels, metric: Metric| {
        Cell::of(levels.clone(), metric, seen.get(levels).unwrap_or(&none), alpha)
    };
    let judge = &bakeoff.judge;
    let is_named = |m: &Metric| judge.metrics.contains(m) || judge.gates.iter().any(|gate| gate.metric == *m);
    let metrics = Metric::OF_LOADS.into_iter().chain(Metric::ON_REQUEST.into_iter().filter(is_named));
    metrics.flat_map(|metric| all.iter().map(move |levels| of(levels, metric))).collect()
}

/// Combinations of these factors' levels that the design has, in the plan's order: the last factor varies
/// fastest. A factor is absent from a combination in which it does not exist. No factors give one empty
/// combination.
pub(crate) fn combinations(bakeoff: &Bakeoff, factors: &[&Factor]) -> Vec<Levels> {
    let place = |levels: &Levels| -> Vec<Option<usize>> {
        let of = |factor: &&Factor| {
            let level = levels.get(&factor.name)?;
            Some(factor.values.iter().position(|value| value == level).unwrap_or(factor.values.len()))
        };
        factors.iter().map(of).collect()
    };
    let is_asked = |name: &String| factors.iter().any(|factor| factor.name == *name);
    let only = |trial: &Trial| -> Levels {
        let asked = trial.levels.iter().filter(|(name, _)| is_asked(name));
        asked.map(|(name, level)| (name.clone(), level.clone())).collect()
    };
    let found: BTreeSet<Levels> = bakeoff.trials.iter().map(only).collect();
    let mut found: Vec<Levels> = found.into_iter().collect();
    found.sort_by_key(place);
    found
}

/// Compared factors of the reference: the levels of those that exist in it. If the design has no such
/// configuration, the reference levels of all.
pub(crate) fn reference(bakeoff: &Bakeoff, compared: &[&Factor]) -> Levels {
    let level = |name: &String| compared.iter().find(|f| f.name == *name).and_then(|f| f.reference.as_ref());
    let is_it = |side: &Levels| side.iter().all(|(name, value)| level(name) == Some(value));
    let all = || compared.iter().filter_map(|f| Some((f.name.clone(), f.reference.clone()?))).collect();
    combinations(bakeoff, compared).into_iter().find(is_it).unwrap_or_else(all)
}

fn block_value(trial: &Trial, run: &Run, metric: Metric) -> BlockValue {
    BlockValue { block: trial.block, series: trial.series, run: run.header.id, value: value(run, metric) }
}

/// Summary over the values, each of which needs two finite ends.
fn summary(values: &[BlockValue], alpha: f64) -> Maybe<CellSummary> {
    if values.is_empty() {
        return Err(Missing::because("no run of this cell was sealed"));
    }
    let known: Vec<(&Value, f64)> =
        values.iter().filter_map(|v| v.value.as_ref().ok().and_then(|v| Some((v, v.middle()?)))).collect();
    if known.len() < values.len() {
        return Err(values.iter().find_map(|v| v.value.as_ref().err().cloned()).unwrap_or_else(|| {
            let (open, all) = (values.len() - known.len(), values.len());
            Missing::because(format!(
                "unfinished or unanswered events leave its upper bound unknown in {open} of {all} blocks"
            ))
        }));
    }
    let mean = |of: &dyn Fn(&(&Value, f64)) -> f64| {
        (known.iter().map(|k| of(k).ln()).sum::<f64>() / known.len() as f64).exp()
    };
    let ends: Vec<(f64, f64)> = known.iter().map(|(v, _)| (v.low.ln(), v.high.ln())).collect();
    let interval = Paired::in_order(&ends).map(|p| p.interval(alpha));
    Ok(CellSummary {
        n: known.len(),
        mean: mean(&|(_, middle)| *middle),
        bracket: (mean(&|(v, _)| v.low), mean(&|(v, _)| v.high)),
        interval: interval
            .map(|(low, high)| (low.exp(), high.exp()))
            .ok_or_else(|| Missing::because("an interval needs at least 2 blocks")),
    })
}
