//! Where the books of the CPUs come from: the ladder's rungs above `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use record::cpu::{Rung, TaskSample};
use record::missing::{Maybe, Missing};

use super::books::Edge;
#[cfg(feature = "bpf")]
use super::bpf;
use super::{Options, online, perf};

/// Where the books of the CPUs come from; without one, `/proc/stat` remains.
pub(super) trait Source: std::fmt::Debug {
    fn rung(&self) -> Rung;

    /// What keeps it from its own best, where anything does.
    fn note(&self) -> Option<&str> {
        None
    }

    /// Why interrupts are not timed, where they are not.
    fn no_interrupts(&self) -> Option<&str> {
        Some("interrupts are timed on the BPF rung only")
    }

    /// How many waits for these CPUs were how long, by the lower bound of each power of two in nanoseconds.
    fn waits(&self, _: &BTreeSet<u32>) -> Maybe<BTreeMap<u64, u64>> {
        Err(Missing::because("waits are seen on the BPF rung only"))
    }

    /// Says who becomes a member from now on.
    fn adopt(&mut self, adopt: Adopt) -> Maybe<()>;

    /// Called once, after the CPUs were closed for the first time.
    fn after_first_edge(&mut self, _online: &BTreeSet<u32>) {}

    /// Called before the CPUs are closed one by one.
    fn next_edge(&mut self);

    /// What each thread had since the edge before this one; called once they are closed.
    fn tasks(&mut self) -> Maybe<Vec<TaskSample>>;

    /// The books of that CPU as of now.
    fn close(&mut self, cpu: u32) -> Maybe<Edge>;

    /// Time of our programs for a context switch and for an interrupt.
    fn cost(&mut self) -> Maybe<[f64; 2]>;
}

/// Whose time is counted apart, as that of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopt {
    /// The processes that this one starts from now on, with everything that they start.
    Children,
    /// Nobody new; who is a member stays one.
    Nobody,
}

/// The best of those that can be had from the highest on; each that cannot leaves a note.
pub(super) fn best_source(options: &Options, notes: &mut Vec<String>) -> Option<Box<dyn Source>> {
    if options.root != Path::new("/") {
        notes.push(format!("context switches are not seen: {} is not this machine", options.root.display()));
        return None;
    }
    let mut tried = |source: Result<Box<dyn Source>, String>| source.map_err(|why| notes.push(why)).ok();
    let bpf = if options.highest <= Rung::Bpf { tried(bpf_source(options)) } else { None };
    bpf.or_else(|| if options.highest <= Rung::Perf { tried(perf_source(options)) } else { None })
}

#[cfg(feature = "bpf")]
fn bpf_source(options: &Options) -> Result<Box<dyn Source>, String> {
    Ok(Box::new(bpf::Bpf::open(options)?))
}

#[cfg(not(feature = "bpf"))]
fn bpf_source(_: &Options) -> Result<Box<dyn Source>, String> {
    Err("no context switches by BPF: this build has none; build it with the feature `bpf`".into())
}

fn perf_source(options: &Options) -> Result<Box<dyn Source>, String> {
    let online = online(&options.root);
    Ok(Box::new(perf::Perf::open(&online)?))
}
