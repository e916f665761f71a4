//! The hosts of a load: what each did, and when it could not be reached.

use crate::errors::ErrorCounts;

/// A stretch of time in which the server could not be reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// First failure, seconds since the start of the measured phase.
    pub from_s: f64,
    /// Until the first success after it.
    pub for_s: f64,
    /// Events that were due within it, or failed because of it; if it is one of several hosts, only those that failed a try because of
    /// it: others are done elsewhere.
    pub affected: u64,
    /// Whether the server was reachable again before the run ended.
    pub ended: bool,
    /// Number of the host that could not be reached, of those of [`crate::load::LoadRecord::hosts`]; `None` if there is one.
    pub host: Option<usize>,
}

/// What one of several hosts did in the measured phase. The sums over all hosts are those of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfHost {
    /// `h1:3306`, or the path of its socket.
    pub host: String,
    /// Connections that go there.
    pub connections: u32,
    /// Events that were done there.
    pub done: u64,
    /// Events that were given up there.
    pub failed: u64,
    /// Tries that failed there.
    pub errors: ErrorCounts,
}
