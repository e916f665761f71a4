//! The inputs of the checks, and the forms of a check.

use record::load::{Counts, LoadSettings, OfHost};
use record::missing::Maybe;
use record::verdict::Check;

use crate::connection::OperationShare;
use crate::measure::client::CpuShare;
use crate::measure::in_system::InSystem;
use crate::measure::recount::Recount;

/// The inputs of the checks.
pub(crate) struct Findings<'a> {
    pub(crate) settings: &'a LoadSettings,
    /// Highest rate of the phase; `None` in a closed loop.
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) counts: &'a Counts,
    /// The published rate.
    pub(crate) achieved_per_s: f64,
    /// Events in the system, counted at random moments; `None` if there were too few samples.
    pub(crate) in_system: Option<InSystem>,
    /// Time for which the whole generator stood still in the phase.
    pub(crate) paused_s: f64,
    /// Number of events with counted operations: done, and begun in the phase.
    pub(crate) service_count: u64,
    /// Events of the phase that had not ended well when the drain was over, and were cut.
    pub(crate) never_ended: u64,
    /// Events of the phase that timed out.
    pub(crate) timeouts: u64,
    /// Total time of the phase that connections spent with `never_ended`, and in a closed loop with
    /// `timeouts`.
    pub(crate) held_s: f64,
    /// Total time of the phase from the loss of a connection to the next one, over all connections.
    pub(crate) lost_s: f64,
    /// The same for connections that the server closed between two requests.
    pub(crate) closed_s: f64,
    /// Sockets that the kernel had open for the connections before the first event; missing if they have no
    /// sockets.
    pub(crate) open_sockets: Maybe<u32>,
    /// A second count of the events, from the log of events; `None` if there is no log, or it is incomplete.
    pub(crate) recount: Option<Recount>,
    pub(crate) measured_s: f64,
    /// The planned rate times the length of the phase; `None` in a closed loop, and if no rate was planned.
    pub(crate) schedule_events: Option<f64>,
    /// Events of an open loop that began in the phase and had no answer for all of the drain.
    pub(crate) hung: u64,
    /// Events that were in flight at the end of the phase and ended within the drain.
    pub(crate) drained: u64,
    /// The check of the generator's lateness; `None` in a closed loop or with fewer than two events.
    pub(crate) lateness: Option<Check>,
    /// The check of the service time's p99 in a closed loop, if it fails: the generator stood still for most
    /// of it.
    pub(crate) delayed: Option<Check>,
    /// The published mean of the response, or of the service in a closed loop; `None` if there is no such
    /// event.
    pub(crate) in_system_mean_ns: Option<f64>,
    /// Coefficient of variation of the same latencies; 0 without latencies.
    pub(crate) in_system_spread_ratio: f64,
    /// Coefficient of variation of the service times; 0 if there are no service times.
    pub(crate) service_spread_ratio: f64,
    /// Longest service time of the sample; 0 if there are no service times.
    pub(crate) service_longest_s: f64,
    /// Total time, from the beginning of the phase on, of events that an edge of the phase cuts.
    pub(crate) cut_s: f64,
    pub(crate) starved_ratio: Option<f64>,
    /// The target supports all connections on fewer threads.
    pub(crate) may_have_loops: bool,
    /// The workers wait for a server; the workers of an embedded database do its work themselves.
    pub(crate) waits_for_server: bool,
    /// Connections that broke or could not be made.
    pub(crate) connection_errors: u64,
    /// The outage in the measured phase; `None` if the server could always be reached.
    pub(crate) away: Option<Away>,
    pub(crate) preemptions: i64,
    /// Share of the phase that the busiest worker was on a CPU; `None` if the kernel does not report it.
    pub(crate) busiest_ratio: Option<f64>,
    /// The workers' part of the CPUs on which they may run; `None` if it is unknown.
    pub(crate) share: Option<CpuShare>,
    /// Counts of each of several hosts; empty if there is one.
    pub(crate) hosts: &'a [OfHost],
    /// Operations as planned, each with the number done.
    pub(crate) operations: &'a [(&'a OperationShare, u64)],
}

/// Time for which a host could not be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Away {
    /// Number of the host; `None` if it is the only one.
    pub(crate) host: Option<usize>,
    pub(crate) for_s: f64,
}

pub(super) fn at_least(name: &'static str, found: f64, limit: f64, text: String) -> Check {
    Check { name, ok: found >= limit, found, limit, text }
}

pub(super) fn at_most(name: &'static str, found: f64, limit: f64, text: String) -> Check {
    Check { name, ok: found <= limit, found, limit, text }
}

pub(super) fn percent(ratio: f64) -> String {
    format!("{:.2} %", 100.0 * ratio)
}
