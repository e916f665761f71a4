//! One event of a load, as the event log stores it: timestamps and outcome.

use std::num::NonZeroU64;

use crate::run::words;

/// Outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Completed successfully.
    Done,
    /// Abandoned after an error.
    Failed,
    /// Not executed, by the late policy.
    Skipped,
    /// Due, but not completed in the measured phase.
    Unfinished,
}

words!(Fate { Done = "done", Failed = "failed", Skipped = "skipped", Unfinished = "unfinished" });

/// One event of the measured phase. All timestamps are `CLOCK_MONOTONIC`, the clock of every probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRow {
    /// Due time; in a closed loop, the time at which a worker took it.
    pub due_ns: u64,
    /// Time at which a free worker took it; `None` if no worker did.
    pub claim_ns: Option<NonZeroU64>,
    /// Time just before its first byte was sent; `None` if it never began.
    pub start_ns: Option<NonZeroU64>,
    /// End time, even if too late to count; `None` if the end was not observed.
    pub end_ns: Option<NonZeroU64>,
    /// Index of its operation in the load if it has exactly one; `None` if it has several or the load has
    /// none.
    pub operation: Option<u16>,
    /// Outcome.
    pub fate: Fate,
}
