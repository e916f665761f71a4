//! A source of the CPUs' books: what each rung above `/proc` yields.

use std::collections::{BTreeMap, BTreeSet};

use record::cpu::{Rung, TaskSample};
use record::missing::{Maybe, Missing};

use super::books::Edge;

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
