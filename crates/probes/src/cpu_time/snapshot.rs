//! The readings at one edge of an interval.

use std::collections::{BTreeMap, BTreeSet};

use record::missing::{Maybe, Missing};

use super::books::Edge;
use crate::cycles::Counted;
use crate::proc_stat::ProcStat;
use crate::ticks::Tally;

/// The readings at one edge of a window.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) at_ns: u64,
    pub(super) online: BTreeSet<u32>,
    /// The stay of each CPU that is online, see [`crate::cpu_list::stays`].
    pub(super) stays: BTreeMap<u32, u64>,
    pub(super) edges: BTreeMap<u32, Maybe<Edge>>,
    pub(super) tally: Maybe<Tally>,
    pub(super) cycles: BTreeMap<u32, Maybe<Counted>>,
    pub(super) stat: Maybe<(u64, ProcStat)>,
    /// Time in which some thread waited for a CPU, and when that was read.
    pub(super) pressure: Maybe<(u64, u64)>,
    pub(super) waits: Maybe<BTreeMap<u64, u64>>,
}

impl Snapshot {
    /// A snapshot without readings, at the same time.
    pub(super) fn empty(&self) -> Self {
        let never = || Missing::because("the probe was not started before it was read");
        let edges = self.edges.keys().map(|cpu| (*cpu, Err(never()))).collect();
        Self {
            at_ns: self.at_ns,
            online: self.online.clone(),
            stays: self.stays.clone(),
            edges,
            tally: Err(never()),
            cycles: BTreeMap::new(),
            stat: Err(never()),
            pressure: Err(never()),
            waits: Err(never()),
        }
    }
}

/// Whether a CPU of two looks was offline between them.
pub(super) fn was_away(cpu: u32, before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> bool {
    before.get(&cpu).zip(after.get(&cpu)).is_some_and(|(before, after)| before != after)
}

/// Cycles and instructions of one CPU between two snapshots.
pub(super) fn counted(cpu: u32, before: &Snapshot, after: &Snapshot) -> Maybe<Counted> {
    let of = |look: &Snapshot| {
        let gone = || Err(Missing::because("the CPU was not online at both ends of the interval"));
        look.cycles.get(&cpu).cloned().unwrap_or_else(gone)
    };
    let (before, after) = (of(before)?, of(after)?);
    Ok(Counted {
        cycles: after.cycles.saturating_sub(before.cycles),
        instructions: after.instructions.saturating_sub(before.instructions),
    })
}
