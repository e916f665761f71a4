//! Turns of a load that was measured in slices.

use std::time::Duration;

/// Turns in which a load went on while the other series of its block rested.
///
/// The times of the load count only its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// Number of turns, those of the warm-up included.
    pub count: u32,
    /// Length of a turn; it ends with the last event that began in it.
    pub slice: Duration,
    /// Time after each thaw that does not count.
    pub settle: Duration,
    /// Number of series that took turns, this one included, when the turns began.
    pub series: u32,
}
