//! A worker's use of its connection: one attempt at one event at a time.

use super::failure::Failure;
use super::laps::Laps;
use crate::schedule::random::Random;

/// One worker's connection to the target. Opened and used on one thread.
pub(crate) trait Connection {
    /// Makes one attempt at one event; the caller times it.
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure>;

    /// Checks the state of the connection between two events, without blocking.
    ///
    /// - `has_rested`: its worker has slept since the last event.
    fn idle(&mut self, _has_rested: bool) -> Idle {
        Idle::Stands
    }

    /// Whether the server has sent something on this connection: the kernel accepts connections for a server
    /// that does not answer.
    fn has_heard(&self) -> bool {
        true
    }

    /// Whether the worker is to take no more events: the script of its events ends the worker.
    fn is_over(&self) -> bool {
        false
    }
}

/// State of a connection between two events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Idle {
    Stands,
    /// The server has closed an idle connection, as servers of this kind do: not a failure, but the next
    /// event needs a new connection.
    Closed,
    /// Broken, or closed by the server for another reason.
    Lost(Failure),
}

/// One attempt at one event.
pub(crate) struct Attempt<'a> {
    /// Random generator of the event: the same at each attempt.
    pub(crate) random: Random,
    /// Timer of the event's operations.
    pub(crate) laps: &'a mut Laps,
}
