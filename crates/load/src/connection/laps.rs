//! Service times of the operations inside an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use record::clock::Clock;

use super::answer::{Answer, Keys};
use super::operation::OperationShare;

/// Service times of the operations of an event, in preallocated memory.
pub(crate) struct Laps {
    clock: Arc<dyn Clock + Send + Sync>,
    /// Whether the run has cut its connection.
    is_cut: Arc<AtomicBool>,
    start_ns: u64,
    last_ns: u64,
    taken: Vec<(usize, u64)>,
    outcomes: [(usize, u64); 2],
}

impl Laps {
    /// Allocates memory for the operations of one event.
    pub(crate) fn new(
        clock: Arc<dyn Clock + Send + Sync>,
        operations: &[OperationShare],
        is_cut: Arc<AtomicBool>,
    ) -> Self {
        let room = operations.iter().map(|o| o.per_event_max as usize).sum();
        Self {
            clock,
            is_cut,
            start_ns: 0,
            last_ns: 0,
            taken: Vec::with_capacity(room),
            outcomes: [(0, 0); 2],
        }
    }

    /// Begins an attempt at `start_ns`.
    pub(crate) fn begin(&mut self, start_ns: u64) {
        self.taken.clear();
        self.outcomes = [(0, 0); 2];
        (self.start_ns, self.last_ns) = (start_ns, start_ns);
    }

    /// Ends an operation, an index into [`crate::driver::Driver::operations`]; the next one begins.
    pub(crate) fn end_operation(&mut self, operation: usize) {
        assert!(self.taken.len() < self.taken.capacity(), "more operations than the driver announced");
        let now_ns = self.clock.now_ns();
        self.taken.push((operation, now_ns - self.last_ns));
        self.last_ns = now_ns;
    }

    /// Variant of [`Self::end_operation`] for an event of any number of operations: allocates memory for
    /// those beyond the announced ones.
    #[cfg(feature = "lua")]
    pub(crate) fn end_operation_of_many(&mut self, operation: usize) {
        let now_ns = self.clock.now_ns();
        self.taken.push((operation, now_ns - self.last_ns));
        self.last_ns = now_ns;
    }

    /// Records the outcome of the event.
    pub(crate) fn note_outcome(&mut self, answer: &Answer) {
        self.outcomes = match (answer.keys, answer.outcome) {
            (Some(Keys { found, missed }), _) => [(0, found), (1, missed)],
            (None, Some(outcome)) => [(outcome, 1), (0, 0)],
            (None, None) => [(0, 0); 2],
        };
    }

    /// The recorded outcomes: index into [`crate::driver::Driver::outcomes`], and count.
    pub(crate) fn outcomes(&self) -> [(usize, u64); 2] {
        self.outcomes
    }

    /// Ends an operation that spans the others, from the start of the attempt to the end of the last of them.
    pub(crate) fn end_span(&mut self, operation: usize) {
        assert!(self.taken.len() < self.taken.capacity(), "more operations than the driver announced");
        self.last_ns = self.end_ns();
        self.taken.push((operation, self.last_ns - self.start_ns));
    }

    /// Marks the end of a pause inside the event; a pause belongs to no operation.
    pub(crate) fn rested(&mut self) {
        self.last_ns = self.clock.now_ns();
    }

    /// Pauses inside the event; a pause belongs to no operation.
    pub(crate) fn rest(&mut self, for_ns: u64) {
        let until_ns = self.clock.now_ns().saturating_add(for_ns);
        loop {
            let now_ns = self.clock.now_ns();
            self.last_ns = now_ns;
            if now_ns >= until_ns || self.is_cut.load(Ordering::SeqCst) {
                return;
            }
            self.clock.sleep_until_ns(until_ns.min(now_ns + REST_SLICE_NS));
        }
    }

    /// The end of the last operation, or now if the event has none.
    pub(crate) fn end_ns(&self) -> u64 {
        if self.taken.is_empty() { self.clock.now_ns() } else { self.last_ns }
    }

    /// Index and service time of each operation.
    pub(crate) fn taken(&self) -> &[(usize, u64)] {
        &self.taken
    }
}

/// Length of the slices of a pause inside an event; a stop is noticed between two slices.
const REST_SLICE_NS: u64 = 20_000_000;
