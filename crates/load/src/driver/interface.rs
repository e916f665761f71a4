//! The driver interface.
//!
//! A driver is the parsed target, shared by all workers. Each worker has a [`Connection`], opened and used on
//! its own thread, one event at a time.

use std::sync::Arc;

use record::load::{LoadSettings, Workload};
use record::missing::Maybe;
use record::target::Target;

use crate::connection::{Connection, Cut, Failure, OperationShare};
#[cfg(feature = "lua")]
use crate::lua::program::Program;
use crate::net::Multiplex;
use crate::net::address::ServerAddress;
use crate::workload::tables::{Cache, Store};

/// A kind of target.
pub(crate) struct Scheme {
    /// The scheme, without its colon.
    pub(crate) name: &'static str,
    /// The form of a target, as shown to users.
    pub(crate) form: &'static str,
    /// The workloads of this kind of target; the first is the default.
    pub(crate) workloads: &'static [Workload],
    /// Checks the form of a target, without connecting; the error gives the correct form.
    pub(crate) check: fn(&Target) -> Result<(), String>,
    /// Address of the server; `None` if it has none or the target is invalid.
    pub(crate) address: fn(&LoadSettings) -> Option<ServerAddress>,
    /// Opens the driver of a target with a valid form.
    pub(crate) open: fn(&LoadSettings) -> Result<Arc<dyn Driver>, Failure>,
}

/// A parsed target, shared by all workers.
pub(crate) trait Driver: Send + Sync {
    /// Opens one worker's connection, ready for its first event.
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure>;

    /// Examines the target before any worker connects: whether it is up, and its version.
    fn look(&self, cut: &Cut) -> Result<Look, Failure>;

    /// The operations inside an event; empty if an event has none.
    fn operations(&self) -> Vec<OperationShare>;

    /// Rows of `pgbench_branches` that the look at the target found, if the load depends on them.
    fn scale(&self) -> Option<i64> {
        None
    }

    /// Names of the outcomes of successful events, such as hits and misses; empty if there is only one
    /// outcome.
    fn outcomes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The cache to fill and settle before the load, on a separate connection; `None` for other targets.
    fn cache(&self, _: &Cut) -> Result<Option<Box<dyn Cache>>, Failure> {
        Ok(None)
    }

    /// Whether an event is a command; it starts with the priority that this process had.
    fn starts_commands(&self) -> bool {
        false
    }

    /// Number of sockets that this many connections need in this process.
    fn sockets(&self, connections: u32) -> u32 {
        connections
    }

    /// The script in Lua that the driver runs, if it runs one.
    #[cfg(feature = "lua")]
    fn script(&self) -> Option<&Arc<Program>> {
        None
    }

    /// Whether events wait for a server, which may do its work elsewhere.
    fn waits_for_server(&self) -> bool {
        self.multiplex().is_some()
    }

    /// Drives many connections on one thread; `None` if each connection needs a thread.
    fn multiplex(&self) -> Option<&dyn Multiplex> {
        None
    }
}

/// Result of the first look at a target.
pub(crate) struct Look {
    /// Version that the server reports.
    pub(crate) version: Maybe<String>,
    /// The server's data set; `None` if it has none.
    pub(crate) store: Option<Box<dyn Store>>,
}
