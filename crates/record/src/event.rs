//! One event of a load, as the log of events has it: its stamps and its fate.

use std::num::NonZeroU64;

use crate::run::words;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Ended well.
    Done,
    /// Given up after an error.
    Failed,
    /// Not done, by the late policy.
    Skipped,
    /// Due, and not ended in the measured phase.
    Unfinished,
}

words!(Fate { Done = "done", Failed = "failed", Skipped = "skipped", Unfinished = "unfinished" });

/// One event of the measured phase. All stamps are `CLOCK_MONOTONIC`, as those of every probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRow {
    /// When it was due; in a closed loop, when it was taken.
    pub due_ns: u64,
    /// When a worker was free and took it; `None` where none did.
    pub claim_ns: Option<NonZeroU64>,
    /// When its first byte was about to be sent; `None` where it never began.
    pub start_ns: Option<NonZeroU64>,
    /// When it ended, also where that was too late to count; `None` where nobody saw it end.
    pub end_ns: Option<NonZeroU64>,
    /// Number of the operation among those of the load, where it consists of one; `None` where it has none or several.
    pub operation: Option<u16>,
    /// What became of it.
    pub fate: Fate,
}
