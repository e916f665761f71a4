//! Targets that answer each request over a socket: code shared by memcached, Redis and HTTP.

use std::time::Duration;

use super::interface::Look;
use crate::connection::{Cut, Failure, OperationShare};
use crate::net::{Dialogue, Endpoint, Talk};
use crate::workload::tables::Cache;

/// A target of this kind: its address, protocol and operations.
pub(crate) trait Exchange: Send + Sync {
    /// The address of the server.
    fn endpoint(&self) -> &Endpoint;

    /// Creates the dialogue of a new connection.
    fn dialogue(&self) -> Result<Box<dyn Dialogue>, Failure>;

    /// Creates the dialogue of a connection that only checks whether the server is up.
    fn look_dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        self.dialogue()
    }

    /// See [`crate::driver::Driver::operations`].
    fn operations(&self) -> Vec<OperationShare>;

    /// See [`crate::driver::Driver::outcomes`].
    fn outcomes(&self) -> &'static [&'static str];

    /// Name and version of the server, read on a separate connection.
    fn look(&self, talk: &mut Talk) -> Result<Look, Failure>;

    /// The server's data set, on a separate connection; `None` if it has none.
    fn cache(&self, talk: Talk) -> Option<Box<dyn Cache>>;

    /// Whether servers of this kind close idle connections without being down.
    fn closes_idle(&self) -> bool;

    /// Time limit of an event; `None`: unlimited.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// Connects and completes the greeting; blocks.
pub(crate) fn open(exchange: &dyn Exchange, cut: &Cut) -> Result<Talk, Failure> {
    open_for(exchange, exchange.dialogue()?, cut)
}

/// Connects and completes the greeting with `dialogue`.
pub(crate) fn open_for(
    exchange: &dyn Exchange,
    dialogue: Box<dyn Dialogue>,
    cut: &Cut,
) -> Result<Talk, Failure> {
    Talk::open(exchange.endpoint(), dialogue, exchange.timeout(), exchange.closes_idle(), cut)
}
