//! Notifications of a run to its caller.

use std::time::Duration;

use record::load::{Phase, Progress, RateChange};
use record::series::HistogramSlice;

/// A notification about a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// One more worker has its connection.
    Connected {
        /// Connections made so far.
        made: u32,
        /// Connections needed.
        of: u32,
        /// Time that this connection took.
        took: Duration,
    },
    /// A table, or the contents of a cache, is being built.
    Preparing {
        /// Name of the table.
        table: String,
        /// Unit of its rows.
        unit: &'static str,
        /// Rows in it so far.
        rows_done: u64,
        /// Rows it will have.
        rows: u64,
    },
    /// A cache is not steady yet; the load waits for it. After two seconds of waiting, and every second.
    Settling {
        /// Time waited so far.
        waited: Duration,
        /// Longest wait: without a steady cache by then, the run is invalid.
        most: Duration,
    },
    /// A phase of the load begins.
    PhaseStarts {
        /// The phase.
        phase: Phase,
        /// Beginning of the phase on `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// The measured phase has ended. What is read at its end must be read now: its last interval, and events
    /// in flight, follow.
    MeasureEnds,
    /// An interval has ended.
    Interval(Progress),
    /// The distributions of a measured interval are complete: all of its events that count are in them. The
    /// load stores none of them.
    IntervalClosed(Vec<HistogramSlice>),
    /// The interval is in the books.
    Reported {
        /// CPU time that reading all workers, telling of it and closing it took the caller's thread.
        cpu: Duration,
    },
    /// The rate was changed.
    RateChanged(RateChange),
    /// The log of events is complete.
    Logged {
        /// Events in the last batch.
        last_rows: u64,
        /// Events that found no room and are not in it.
        lost: u64,
    },
}

/// Receiver of notifications; called on the caller's thread, never from a worker.
pub(crate) type OnEvent<'a> = &'a mut dyn FnMut(&Event);
