//! The agents of a fleet: what each of several generators did of one load.

use crate::counts::Counts;
use crate::missing::Maybe;

/// Part of one agent in the measured phase. The record holds the sums over all agents.
#[derive(Debug, Clone, PartialEq)]
pub struct OfAgent {
    /// Name of the agent.
    pub agent: String,
    /// Machine that the agent ran on.
    pub host: String,
    /// Outcomes of its events. A lost agent's events of unknown outcome are unfinished.
    pub counts: Counts,
    /// Offset of its clock from the conductor's; missing if the agent was lost before or after the load.
    pub clock: Maybe<ClockOffset>,
    /// Time from its first event's due time, or in a closed loop from the start of the load, to that event's
    /// start.
    pub start_skew_ns: Maybe<i64>,
    /// Intervals that arrived.
    pub slices: u64,
    /// Numbers of the intervals that did not, from 0.
    pub missing_slices: Vec<u64>,
    /// Time at which it was declared lost, in seconds since the start of the measured phase.
    pub lost_at_s: Option<f64>,
}

/// The clock of an agent against that of the conductor, before and after a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// The agent's clock less the conductor's, before the load.
    pub offset_ns: i64,
    /// The true offset lies within this distance of [`Self::offset_ns`], before and after the load.
    pub bound_ns: u64,
    /// Change of the offset over the load.
    pub drift_ns: i64,
}
