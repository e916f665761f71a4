//! What watching cost: blocks with instruments against their neighbors without.

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Bakeoff, CONTROL_ARM, Levels, Metric};
use record::missing::{Maybe, Missing};

use crate::metric::value;
use crate::paired::Paired;

/// Metrics for which the cost is computed: those that need no instrument.
const METRICS: [Metric; 3] = [Metric::Throughput, Metric::P99, Metric::CpuPerEvent];

/// Cost of the instruments in one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservingCost {
    /// The metric.
    pub metric: Metric,
    /// Pairs of blocks behind the ratio.
    pub pairs: usize,
    /// Value with instruments divided by that without: the geometric mean over the pairs.
    pub ratio: Maybe<f64>,
    /// Interval of the ratio at the bake-off's alpha; missing with one pair.
    pub interval: Maybe<(f64, f64)>,
}

/// Costs of the instruments; empty for a bake-off without a control arm.
///
/// A pair is two consecutive blocks, one of them without instruments. Its log ratio is the mean over the
/// cells that both blocks have. Drift from one block to the next does not cancel within a pair, but which of
/// the two has no instruments is drawn: it widens the interval and does not bias it. If a cell has a value in
/// only one block of a pair, the metric has no cost: what instruments overload would be left out of it.
pub fn costs(bakeoff: &Bakeoff) -> Vec<ObservingCost> {
    let control = control_blocks(bakeoff);
    if control.is_empty() {
        return Vec::new();
    }
    METRICS.iter().map(|metric| cost(bakeoff, &control, *metric)).collect()
}

/// Blocks of which a sealed run was measured without instruments.
pub fn control_blocks(bakeoff: &Bakeoff) -> BTreeSet<u32> {
    let is_control = |labels: &BTreeMap<String, String>| labels.contains_key(CONTROL_ARM);
    bakeoff.sealed().filter(|(_, run)| is_control(&run.header.labels)).map(|(trial, _)| trial.block).collect()
}

fn cost(bakeoff: &Bakeoff, control: &BTreeSet<u32>, metric: Metric) -> ObservingCost {
    let mut values: BTreeMap<u32, BTreeMap<&Levels, f64>> = BTreeMap::new();
    let mut why = None;
    for (trial, run) in bakeoff.sealed() {
        match value(run, metric) {
            Ok(found) => match found.judged() {
                Some(value) => {
                    values.entry(trial.block).or_default().insert(&trial.levels, value.ln());
                }
                None => why = found.unjudged.or(why),
            },
            Err(missing) => why = Some(missing),
        }
    }
    let none = BTreeMap::new();
    let pair = |first: u32| {
        let (observed, without) = match (control.contains(&first), control.contains(&(first + 1))) {
            (false, true) => (first, first + 1),
            (true, false) => (first + 1, first),
            _ => return None,
        };
        let (a, b) = (values.get(&observed).unwrap_or(&none), values.get(&without).unwrap_or(&none));
        let both: Vec<f64> = a.iter().filter_map(|(cell, a)| Some(a - b.get(cell)?)).collect();
        if both.len() < a.len().max(b.len()) {
            return Some(Err(()));
        }
        (!both.is_empty()).then(|| Ok(both.iter().sum::<f64>() / both.len() as f64))
    };
    let pairs: Vec<Result<f64, ()>> = (1..=bakeoff.blocks).step_by(2).filter_map(pair).collect();
    let one_sided = pairs.iter().filter(|pair| pair.is_err()).count();
    if one_sided > 0 {
        let of = pairs.len();
        why = Some(Missing::because(format!(
            "in {one_sided} of {of} pairs of blocks a cell has a value in one block only: the rest is a selection"
        )));
    }
    let pairs: Vec<f64> = pairs.into_iter().collect::<Result<_, ()>>().unwrap_or_default();
    let nothing = || why.clone().unwrap_or_else(|| Missing::because("no pair of blocks has both sides"));
    let few = || Missing::because("an interval needs two pairs of blocks, so four blocks");
    let mean = pairs.iter().sum::<f64>() / pairs.len() as f64;
    let interval = Paired::of(&pairs).map(|paired| paired.interval(bakeoff.judge.alpha));
    ObservingCost {
        metric,
        pairs: pairs.len(),
        ratio: if pairs.is_empty() { Err(nothing()) } else { Ok(mean.exp()) },
        interval: match (pairs.is_empty(), interval) {
            (true, _) => Err(nothing()),
            (false, None) => Err(few()),
            (false, Some((low, high))) => Ok((low.exp(), high.exp())),
        },
    }
}
