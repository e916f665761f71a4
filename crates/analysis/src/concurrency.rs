//! Growth of a bake-off's throughput with the concurrency of its load, and the evidence for what limits it.
//!
//! The laws are those of [`crate::usl`]; a repeat of the experiment is a block, in which one server meets
//! every level. Levels beyond the number of CPUs are a part of the fit: threads of a load wait for more than
//! CPUs. If the CPUs end the growth with a sharp bend, the levels miss every curve, and no law is chosen.

use std::collections::BTreeMap;

use record::bakeoff::{Bakeoff, Factor, Levels, Metric};
use record::missing::{Maybe, Missing};
use record::run::Run;

use crate::bakeoff::Comparisons;
use crate::cell::Cell;
use crate::machine::machine;
use crate::paired::Paired;
use crate::usl::{Scaling, Series, scaling};

/// Fewest levels for a law.
const LEVELS_MIN: usize = 3;
/// Probability outside of all intervals of the evidence of one configuration together.
const ALPHA: f64 = 0.05;
/// Busy share of all CPUs from which the machine has no CPU left.
pub const FULL_RATIO: f64 = 0.95;

/// Throughput of one configuration at every number of workers, under one condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Concurrency {
    /// Factor that sets the number of workers.
    pub factor: String,
    /// Compared factors of the configuration.
    pub a: Levels,
    /// The condition, without that factor.
    pub levels: Levels,
    /// Every number of workers with a sealed trial, rising.
    pub steps: Vec<Step>,
    /// Fitted laws.
    pub scaling: Scaling,
    /// Changes from the fewest workers to the most.
    pub evidence: Vec<Evidence>,
}

/// One number of workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Number of workers.
    pub workers: f64,
    /// Throughput of each block.
    pub blocks: Vec<(u32, f64)>,
    /// Mean throughput with its interval.
    pub throughput: Maybe<(f64, Maybe<(f64, f64)>)>,
    /// Throughput of a worker, relative to that with the fewest workers.
    pub efficiency: Maybe<f64>,
    /// CPU seconds of the server per event.
    pub cpu_per_event_s: Maybe<f64>,
    /// Share of the time of all CPUs that was spun for locks of the kernel.
    pub lock_cpu_ratio: Maybe<f64>,
    /// Busy share of all CPUs of the machine.
    pub busy_ratio: Maybe<f64>,
    /// Threads that waited for a CPU, on average.
    pub waiting: Maybe<f64>,
}

/// Quantity that may name what limits throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clue {
    /// CPU time of the server per event, as a ratio.
    CpuPerEvent,
    /// Share of the time of all CPUs that was spun for locks of the kernel, as a difference.
    LockCpu,
    /// Busy share of all CPUs, as a difference.
    Busy,
    /// Threads that waited for a CPU on average, as a difference.
    Waiting,
}

impl Clue {
    /// All clues.
    pub const ALL: [Self; 4] = [Self::CpuPerEvent, Self::LockCpu, Self::Busy, Self::Waiting];

    /// Name in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::CpuPerEvent => "cpu-per-event",
            Self::LockCpu => "lock-cpu",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
        }
    }
}

/// Change of one quantity from the fewest workers to the most.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The quantity.
    pub clue: Clue,
    /// Means with the fewest and with the most workers; of a ratio, the geometric mean.
    pub ends: (f64, f64),
    /// Ratio or difference: the mean over the blocks.
    pub change: f64,
    /// Interval over the blocks; all intervals of a configuration hold together at 95 %.
    pub interval: Maybe<(f64, f64)>,
}

impl Evidence {
    /// Whether the quantity grew for certain.
    pub fn grew(&self) -> bool {
        let none = if self.clue == Clue::CpuPerEvent { 1.0 } else { 0.0 };
        self.interval.as_ref().is_ok_and(|(low, _)| *low > none)
    }
}

/// Scaling of every configuration; empty if no factor sets the number of workers of a closed loop, or if the
/// bake-off is not over.
pub fn concurrency(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<Concurrency> {
    let Some(factor) = factor(bakeoff).filter(|_| !comparisons.unfinished) else { return Vec::new() };
    let mut groups: Vec<(Levels, Vec<&Cell>)> = Vec::new();
    for cell in comparisons.cells_of(Metric::Throughput).filter(|c| c.levels.contains_key(&factor.name)) {
        let mut rest = cell.levels.clone();
        rest.remove(&factor.name);
        match groups.iter_mut().find(|(levels, _)| *levels == rest) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((rest, vec![cell])),
        }
    }
    let all = groups.iter().map(|(rest, cells)| one(bakeoff, comparisons, factor, rest, cells));
    all.filter(|one| one.steps.len() >= LEVELS_MIN).collect()
}

/// The condition of which the levels are the numbers of workers, in a closed loop.
fn factor(bakeoff: &Bakeoff) -> Option<&Factor> {
    let is_workers = |factor: &&Factor| {
        let is_its = |levels: &Levels, run: &Run| {
            let load = run.load.as_ref()?;
            let workers = load.settings.connections.unwrap_or(load.settings.threads);
            let level: u32 = levels.get(&factor.name)?.parse().ok()?;
            (load.response.is_err() && level == workers).then_some(())
        };
        factor.reference.is_none()
            && factor.values.len() >= LEVELS_MIN
            && bakeoff.sealed().next().is_some()
            && bakeoff.sealed().all(|(trial, run)| is_its(&trial.levels, run).is_some())
    };
    bakeoff.factors.iter().find(is_workers)
}

/// Values of one number of workers, by block.
#[derive(Debug, Default)]
struct Values {
    throughput: BTreeMap<u32, f64>,
    clues: [BTreeMap<u32, f64>; 4],
}

impl Values {
    fn of(&self, clue: Clue) -> &BTreeMap<u32, f64> {
        &self.clues[clue as usize]
    }

    fn mean(&self, clue: Clue) -> Maybe<f64> {
        let values = self.of(clue);
        if values.is_empty() {
            return Err(Missing::because("no block has a value"));
        }
        Ok(values.values().sum::<f64>() / values.len() as f64)
    }
}

fn one(
    bakeoff: &Bakeoff,
    comparisons: &Comparisons,
    factor: &Factor,
    rest: &Levels,
    cells: &[&Cell],
) -> Concurrency {
    let mut found: Vec<(f64, &Cell, Values)> = cells
        .iter()
        .filter_map(|cell| {
            Some((cell.levels[&factor.name].parse().ok()?, *cell, values(bakeoff, comparisons, cell)))
        })
        .filter(|(.., values): &(f64, &Cell, Values)| !values.throughput.is_empty())
        .collect();
    found.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut series: BTreeMap<u32, Series> = BTreeMap::new();
    for (workers, _, values) in &found {
        for (block, x) in &values.throughput {
            series.entry(*block).or_default().push((*workers, *x));
        }
    }
    let scaling = scaling(&series.into_values().collect::<Vec<_>>(), f64::INFINITY);
    let first = found.first().map(|(workers, cell, _)| (*workers, cell.summary.as_ref().map(|s| s.mean)));
    let step = |(workers, cell, values): &(f64, &Cell, Values)| {
        let throughput = cell.summary.as_ref().map(|s| (s.mean, s.interval.clone())).map_err(Clone::clone);
        let efficiency = match (&throughput, first) {
            (Ok((x, _)), Some((fewest, Ok(alone)))) => Ok(x / workers / (alone / fewest)),
            _ => Err(Missing::because("the fewest workers have no throughput")),
        };
        Step {
            workers: *workers,
            blocks: values.throughput.iter().map(|(block, x)| (*block, *x)).collect(),
            throughput,
            efficiency,
            cpu_per_event_s: values.mean(Clue::CpuPerEvent),
            lock_cpu_ratio: values.mean(Clue::LockCpu),
            busy_ratio: values.mean(Clue::Busy),
            waiting: values.mean(Clue::Waiting),
        }
    };
    let evidence = match (found.first(), found.last()) {
        (Some((.., first)), Some((.., last))) => {
            Clue::ALL.iter().filter_map(|clue| evidence(*clue, first, last)).collect()
        }
        _ => Vec::new(),
    };
    let part = |is_compared: bool| -> Levels {
        let wanted = rest.iter().filter(|(name, _)| comparisons.compared.contains(name) == is_compared);
        wanted.map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    Concurrency {
        factor: factor.name.clone(),
        a: part(true),
        levels: part(false),
        steps: found.iter().map(step).collect(),
        scaling,
        evidence,
    }
}

/// Values of one cell.
fn values(bakeoff: &Bakeoff, comparisons: &Comparisons, cell: &Cell) -> Values {
    let by_block = |metric: Metric, of: fn(f64) -> f64| -> BTreeMap<u32, f64> {
        let cell = comparisons.cells_of(metric).find(|c| c.levels == cell.levels);
        let known = cell.into_iter().flat_map(|c| &c.values);
        known.filter_map(|v| Some((v.block, of(v.value.as_ref().ok()?.middle()?)))).collect()
    };
    let (mut busy, mut waiting) = (BTreeMap::new(), BTreeMap::new());
    for (trial, run) in bakeoff.sealed().filter(|(trial, _)| trial.levels == cell.levels) {
        let Some(load) = &run.load else { continue };
        if let Ok(ratio) = machine(load, &run.cpu).busy_ratio {
            busy.insert(trial.block, ratio);
        }
        if let Ok(threads) = waiting_threads(run) {
            waiting.insert(trial.block, threads);
        }
    }
    Values {
        throughput: by_block(Metric::Throughput, |x| x),
        // The value of a share is e to it.
        clues: [by_block(Metric::CpuPerEvent, |x| x), by_block(Metric::LockCpu, f64::ln), busy, waiting],
    }
}

/// Threads that waited for a CPU, on average.
fn waiting_threads(run: &Run) -> Maybe<f64> {
    let seconds: f64 = run.cpu.iter().map(record::cpu::CpuInterval::seconds).sum();
    if seconds <= 0.0 {
        return Err(Missing::because("the CPUs were not watched"));
    }
    let waits = run.cpu.iter().flat_map(|interval| &interval.cpus).map(|cpu| cpu.run_queue_wait_ns.clone());
    let waited_s = waits.map(|ns| ns.map(|ns| ns as f64 * 1e-9)).sum::<Maybe<f64>>()?;
    Ok(waited_s / seconds)
}

/// Change of a quantity over the blocks that have it with both numbers of workers.
fn evidence(clue: Clue, first: &Values, last: &Values) -> Option<Evidence> {
    let is_ratio = clue == Clue::CpuPerEvent;
    let scaled = |x: f64| if is_ratio { x.ln() } else { x };
    let plain = |x: f64| if is_ratio { x.exp() } else { x };
    let both: Vec<(f64, f64)> = first
        .of(clue)
        .iter()
        .filter_map(|(block, x)| Some((scaled(*x), scaled(*last.of(clue).get(block)?))))
        .collect();
    if both.is_empty() {
        return None;
    }
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
    let changes: Vec<f64> = both.iter().map(|(x, y)| y - x).collect();
    let interval = Paired::of(&changes).map(|paired| paired.interval(ALPHA / Clue::ALL.len() as f64));
    Some(Evidence {
        clue,
        ends: (plain(mean(&|(x, _)| *x)), plain(mean(&|(_, y)| *y))),
        change: plain(mean(&|(x, y)| y - x)),
        interval: interval
            .map(|(low, high)| (plain(low), plain(high)))
            .ok_or_else(|| Missing::because("an interval needs at least 2 blocks")),
    })
}
