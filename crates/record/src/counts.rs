//! Outcomes of the events of a load.

/// Outcomes of the planned events: `planned = done + failed + skipped + unfinished`, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events with a due time in the measured phase; in a closed loop, those that started in it.
    pub planned: u64,
    /// Completed successfully.
    pub done: u64,
    /// Abandoned after an error.
    pub failed: u64,
    /// Skipped for lateness, by the late policy.
    pub skipped: u64,
    /// Due, but not completed at the end of the measurement: their latency is a lower bound.
    pub unfinished: u64,
    /// Tries after the first; they do not count as events.
    pub retries: u64,
}

impl Counts {
    /// Whether no event is lost or counted twice.
    pub fn balance(&self) -> bool {
        self.planned == self.done + self.failed + self.skipped + self.unfinished
    }
}
