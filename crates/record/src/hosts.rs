//! The hosts of a load: work done by each, and outages.

use crate::errors::ErrorCounts;

/// Interval in which the server was unreachable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// First failure, in seconds since the start of the measured phase.
    pub from_s: f64,
    /// Time from there to the next success.
    pub for_s: f64,
    /// Events that were due during the outage or failed because of it. With several hosts, only events with a
    /// try that failed because of it: the other hosts serve the rest.
    pub affected: u64,
    /// Whether the server became reachable before the run ended.
    pub ended: bool,
    /// Index of the unreachable host in [`crate::load::LoadRecord::hosts`]; `None` if there is one host.
    pub host: Option<usize>,
}

/// Outages of the measured phase that the record does not list: it lists the newest and the longest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UnlistedOutages {
    /// Number of these outages.
    pub count: u64,
    /// Total length of these outages.
    pub for_s: f64,
}

/// Work of one of several hosts in the measured phase. The record holds the sums over all hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfHost {
    /// `h1:3306`, or the path of the host's socket.
    pub host: String,
    /// Connections to the host.
    pub connections: u32,
    /// Completed events.
    pub done: u64,
    /// Abandoned events.
    pub failed: u64,
    /// Failed tries.
    pub errors: ErrorCounts,
}
