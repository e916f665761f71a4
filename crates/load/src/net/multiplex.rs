//! How one thread opens and drives many connections.

use std::io;
use std::time::Duration;

use socket2::Socket;

use super::dialogue::Dialogue;
use super::socket::connection_failure;
use crate::connection::{Cut, Failure};

/// How one thread drives many connections to a target.
pub(crate) trait Multiplex: Send + Sync {
    /// Opens a connection that may begin its first event at once, waiting for it.
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure>;

    /// Begins to open one, while nobody waits; which address is tried follows from `attempt`.
    fn begin_open(&self, attempt: usize) -> Result<Opening, Failure>;

    /// What it means that one could not be connected that was begun.
    fn cannot_connect(&self, error: &io::Error) -> Failure {
        connection_failure("cannot connect", error)
    }

    /// Whether servers of this kind close connections that are not in use, without being down.
    fn closes_idle(&self) -> bool;

    /// After this time an event is given up; `None`: never.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// A connection on its way.
pub(crate) enum Opening {
    /// The socket connects; then its dialogue greets.
    Connecting(Socket, Box<dyn Dialogue>),
    /// Its opening is a conversation of its own: [`Multiplex::open`] does it, on a thread aside.
    Aside,
}
