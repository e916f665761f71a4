//! What a driver must be able to do.
//!
//! A driver is what all workers share: the target, read and understood. Each worker has a [`Connection`],
//! made and used on its own thread, one event at a time.

use std::sync::Arc;

use record::load::{LoadSettings, Workload};
use record::missing::Maybe;
use record::target::Target;

use crate::connection::{Connection, Cut, Failure, OperationShare};
use crate::net::Multiplex;
use crate::net::address::ServerAddress;
use crate::workload::tables::{Cache, Store};

/// A kind of target.
pub(crate) struct Scheme {
    /// What stands before the colon.
    pub(crate) name: &'static str,
    /// How it is written.
    pub(crate) form: &'static str,
    /// What its events can do; the first is what they do where nobody says.
    pub(crate) workloads: &'static [Workload],
    /// Judges the form of a target, without connecting; the problem says what to write instead.
    pub(crate) check: fn(&Target) -> Result<(), String>,
    /// Where its server takes connections; `None` if it has none, or the target is none.
    pub(crate) address: fn(&LoadSettings) -> Option<ServerAddress>,
    /// The driver of a target whose form is good.
    pub(crate) open: fn(&LoadSettings) -> Result<Arc<dyn Driver>, Failure>,
}

/// A target, read and understood; shared by all workers.
pub(crate) trait Driver: Send + Sync {
    /// Opens one worker's connection, ready for its first event.
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure>;

    /// Looks at the target before any worker does: whether it is there and what it calls itself.
    fn look(&self, cut: &Cut) -> Result<Look, Failure>;

    /// So many connections will be made before the load begins.
    fn expect(&self, _connections: u32) {}

    /// The operations inside an event; empty where it has none.
    fn operations(&self) -> Vec<OperationShare>;

    /// The ways in which events that end well are told apart, such as hits and misses; empty where there is
    /// one.
    fn outcomes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The cache that has to be filled and settled before the load, on a connection of its own; `None` where
    /// there is none.
    fn cache(&self, _: &Cut) -> Result<Option<Box<dyn Cache>>, Failure> {
        Ok(None)
    }

    /// Whether an event is a command, which starts with the priority that this process had.
    fn starts_commands(&self) -> bool {
        false
    }

    /// Sockets that this many connections take in this process.
    fn sockets(&self, connections: u32) -> u32 {
        connections
    }

    /// How one thread drives many connections; `None` where each connection needs a thread of its own.
    fn multiplex(&self) -> Option<&dyn Multiplex> {
        None
    }
}

/// What a first look at a target found.
pub(crate) struct Look {
    /// What the server calls itself.
    pub(crate) version: Maybe<String>,
    /// Where its data set is kept; `None` where it has none.
    pub(crate) store: Option<Box<dyn Store>>,
}
