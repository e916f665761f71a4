//! What is known of one agent when its load is over.

use std::collections::BTreeMap;

use record::agents::ClockOffset;
use record::series::LatencyKind;

use crate::received::Received;

/// The known facts of one agent at the end.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) index: u32,
    pub(crate) agent: String,
    pub(crate) host: String,
    pub(crate) received: &'a Received,
    /// `None` if its clock could not be read before and after the load.
    pub(crate) clock: Option<ClockOffset>,
    /// The ordered start, on the agent's clock.
    pub(crate) start_ns: u64,
    pub(crate) lost_at_s: Option<f64>,
    pub(crate) failed: Option<String>,
}

/// Buckets by kind of latency and operation: lowest value and count.
pub(crate) type Totals = BTreeMap<(LatencyKind, String), BTreeMap<u64, u64>>;
