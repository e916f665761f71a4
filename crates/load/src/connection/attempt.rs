//! What a worker does with its connection: one try of one event at a time.

use super::failure::Failure;
use super::laps::Laps;
use crate::schedule::random::Random;

/// One worker's way to the target. Made and used on one thread.
pub(crate) trait Connection {
    /// Does one event, once; timed from the outside.
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure>;

    /// Looks, without waiting, what became of it between two events.
    ///
    /// - `has_rested`: its worker has slept since the last event.
    fn idle(&mut self, _has_rested: bool) -> Idle {
        Idle::Stands
    }
}

/// State of a connection between two events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Idle {
    Stands,
    /// The server has closed it, as servers of this kind do with what is not in use: no failure, but the next
    /// event needs another.
    Closed,
    /// Broken, or ended by the server.
    Lost(Failure),
}

/// One try of one event.
pub(crate) struct Attempt<'a> {
    /// The event's own chance: the same at each try.
    pub(crate) random: Random,
    /// The timer of its operations.
    pub(crate) laps: &'a mut Laps,
}
