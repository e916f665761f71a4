//! Targets that answer each request over a socket: what memcached, Redis and HTTP share.

use std::time::Duration;

use super::interface::Look;
use crate::connection::{Cut, Failure, OperationShare};
use crate::net::{Dialogue, Endpoint, Talk};
use crate::workload::tables::Cache;

/// A target of this kind: where it is, what is spoken there, what its events are.
pub(crate) trait Exchange: Send + Sync {
    /// The address of the server.
    fn endpoint(&self) -> &Endpoint;

    /// A new connection's part of the protocol.
    fn dialogue(&self) -> Result<Box<dyn Dialogue>, Failure>;

    /// A new connection's part of the protocol where it is only looked whether the server is there.
    fn look_dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        self.dialogue()
    }

    /// See [`crate::driver::Driver::operations`].
    fn operations(&self) -> Vec<OperationShare>;

    /// See [`crate::driver::Driver::outcomes`].
    fn outcomes(&self) -> &'static [&'static str];

    /// Name and version of the server, read on a separate connection.
    fn look(&self, talk: &mut Talk) -> Result<Look, Failure>;

    /// The server's data set, on a separate connection; `None` where it has none.
    fn cache(&self, talk: Talk) -> Option<Box<dyn Cache>>;

    /// Whether servers of this kind close connections that are not in use, without being down.
    fn closes_idle(&self) -> bool;

    /// After this time an event is given up; `None`: never.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// Connects and greets, waiting for it.
pub(crate) fn open(exchange: &dyn Exchange, cut: &Cut) -> Result<Talk, Failure> {
    open_for(exchange, exchange.dialogue()?, cut)
}

/// Connects and greets with `dialogue`.
pub(crate) fn open_for(
    exchange: &dyn Exchange,
    dialogue: Box<dyn Dialogue>,
    cut: &Cut,
) -> Result<Talk, Failure> {
    Talk::open(exchange.endpoint(), dialogue, exchange.timeout(), exchange.closes_idle(), cut)
}
