//! CPUs on which the threads of the load and of the server ran: the placement that the scheduler gave them.

use std::collections::BTreeMap;

use record::bakeoff::{Bakeoff, Factor, Levels};
use record::resources::{CLIENT_CPU_SHARE, SERVER_CPU_SHARE};
use record::run::Run;

use crate::cell::{combinations, seen};

/// Share of its CPU time from which a thread ran on one CPU.
pub const ONE_CPU_RATIO: f64 = 0.99;

/// Shares of CPU time by CPU.
pub type Shares = BTreeMap<u32, f64>;

/// Placement in one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Places {
    /// Shares of each thread of the load, by its name.
    pub client: BTreeMap<String, Shares>,
    /// Shares of the server, all its threads together.
    pub server: Shares,
}

/// Placement in a run; empty if it was not read.
pub fn places(run: &Run) -> Places {
    let mut places = Places::default();
    for sample in &run.series {
        let is_client = sample.name == CLIENT_CPU_SHARE;
        if !is_client && sample.name != SERVER_CPU_SHARE {
            continue;
        }
        let label = |name: &str| {
            sample.labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix('='))
        };
        let Some(cpu) = label("cpu").and_then(|cpu| cpu.parse().ok()) else { continue };
        let shares = match label("thread") {
            Some(thread) if is_client => places.client.entry(thread.to_owned()).or_default(),
            None if !is_client => &mut places.server,
            _ => continue,
        };
        *shares.entry(cpu).or_default() += sample.value;
    }
    places
}

/// Placement in the sealed runs of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellPlaces {
    /// Level of every factor.
    pub levels: Levels,
    /// Mean shares of the threads of the load.
    pub client: Shares,
    /// Threads of the load in all runs.
    pub threads: usize,
    /// Threads with at least [`ONE_CPU_RATIO`] of their time on one CPU.
    pub on_one: usize,
    /// Mean shares of the server.
    pub server: Shares,
    /// Runs with a placement.
    pub runs: usize,
}

/// Placement in every cell that has one.
pub fn by_cell(bakeoff: &Bakeoff) -> Vec<CellPlaces> {
    let seen = seen(bakeoff);
    let factors: Vec<&Factor> = bakeoff.factors.iter().collect();
    let of = |levels: Levels| {
        let all: Vec<Places> = seen.get(&levels)?.sealed.iter().map(|(_, run)| places(run)).collect();
        let all: Vec<Places> = all.into_iter().filter(|places| *places != Places::default()).collect();
        let threads: Vec<&Shares> = all.iter().flat_map(|places| places.client.values()).collect();
        let servers: Vec<&Shares> =
            all.iter().map(|places| &places.server).filter(|shares| !shares.is_empty()).collect();
        let is_on_one = |shares: &&&Shares| shares.values().any(|share| *share >= ONE_CPU_RATIO);
        (!all.is_empty()).then(|| CellPlaces {
            levels,
            client: mean(&threads),
            threads: threads.len(),
            on_one: threads.iter().filter(is_on_one).count(),
            server: mean(&servers),
            runs: all.len(),
        })
    };
    combinations(bakeoff, &factors).into_iter().filter_map(of).collect()
}

fn mean(all: &[&Shares]) -> Shares {
    let mut sums = Shares::new();
    for (cpu, share) in all.iter().flat_map(|shares| shares.iter()) {
        *sums.entry(*cpu).or_default() += share / all.len() as f64;
    }
    sums
}
