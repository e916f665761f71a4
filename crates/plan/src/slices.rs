//! Turns of the series of a block, which are alive at once.

use std::time::Duration;

/// Turns of the series of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    /// Length of a turn.
    pub slice: Duration,
    /// Time after each thaw that does not count.
    pub settle: Duration,
}

impl Slices {
    /// Shortest and longest slice.
    pub(crate) const BOUNDS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
    /// Slice of a plan that does not name one.
    pub(crate) const DEFAULT: Duration = Duration::from_millis(300);
    /// Time to settle.
    pub(crate) const SETTLE: Duration = Duration::from_millis(20);

    /// Least time that a load takes in turns, including the time to settle.
    pub(crate) fn stretched(&self, load: Duration) -> Duration {
        load + load.mul_f64(self.settle.as_secs_f64() / self.slice.as_secs_f64())
    }
}
