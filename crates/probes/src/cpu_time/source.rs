//! A source of CPU counters, which each rung above `/proc` implements.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use record::cpu::{Rung, TaskSample};
use record::missing::{Maybe, Missing};

use super::books::Edge;
use crate::ticks::Ticks;

/// Source of the counters of the CPUs; without one, `/proc/stat` remains.
pub(super) trait Source: std::fmt::Debug {
    fn rung(&self) -> Rung;

    /// Reason why this is not the best mode, if it is not.
    fn note(&self) -> Option<&str> {
        None
    }

    /// Reason why interrupts are not timed, if they are not.
    fn no_interrupts(&self) -> Option<&str> {
        Some("only the BPF rung times interrupts")
    }

    /// Reason why waits for a CPU are not measured, if they are not.
    fn no_waits(&self) -> &'static str {
        "only tp_btf observes waits for a CPU"
    }

    /// Number of waits for all CPUs, by the lower bound of each power of two in nanoseconds.
    fn waits(&self) -> Maybe<BTreeMap<u64, u64>> {
        Err(Missing::because("only the BPF rung observes waits"))
    }

    /// The map in which the programs note when tasks ran, for the samplers.
    fn task_spans(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sets which processes become members from now on.
    fn adopt(&mut self, adopt: Adopt) -> Maybe<()>;

    /// Called once, after the CPUs were read for the first time.
    fn after_first_edge(&mut self, _online: &BTreeSet<u32>) {}

    /// Called before the CPUs are read one by one.
    fn next_edge(&mut self);

    /// Time of each thread since the previous edge; called after the CPUs were read.
    fn tasks(&mut self) -> Maybe<Vec<TaskSample>>;

    /// Reads the counters of that CPU as of now.
    fn close(&mut self, cpu: u32) -> Maybe<Edge>;

    /// Time of our programs for a context switch, an interrupt and a timer, those of the samplers included.
    fn cost(&mut self, samplers: Option<&Ticks>) -> Maybe<[f64; 3]>;
}

/// Processes that become members: their time is counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopt {
    /// The processes that this one starts from now on, with everything that they start.
    Children,
    /// Stops adopting; present members stay.
    Nobody,
}
