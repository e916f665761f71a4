//! Measurements: latencies, counts and outages of events, and the generator's own CPU time, waits and
//! sockets.

pub(crate) mod client;
pub(crate) mod counting;
pub(crate) mod in_system;
pub(crate) mod latency;
pub(crate) mod outage;
pub(crate) mod priority;
pub(crate) mod recount;
pub(crate) mod sockets;
pub(crate) mod tally;
pub(crate) mod waits;
