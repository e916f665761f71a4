//! Interface for many connections on one thread.

use std::io;
use std::time::Duration;

use socket2::Socket;

use super::dialogue::Dialogue;
use super::socket::connection_failure;
use crate::connection::{Cut, Failure};

/// Opens and drives many connections to a target on one thread.
pub(crate) trait Multiplex: Send + Sync {
    /// Opens a connection that is ready for its first event; blocks.
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure>;

    /// Starts to open a connection without blocking; `attempt` selects the address.
    fn begin_open(&self, attempt: usize) -> Result<Opening, Failure>;

    /// Maps an error of a started connection attempt to a failure.
    fn cannot_connect(&self, error: &io::Error) -> Failure {
        connection_failure("cannot connect", error)
    }

    /// Whether servers of this kind close idle connections without being down.
    fn closes_idle(&self) -> bool;

    /// Time limit of an event; `None`: unlimited.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// A connection that is being opened.
pub(crate) enum Opening {
    /// The socket is connecting; then its dialogue sends the greeting.
    Connecting(Socket, Box<dyn Dialogue>),
    /// Opening needs a login dialogue: [`Multiplex::open`] does it on a separate thread.
    Aside,
}
