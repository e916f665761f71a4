//! The agents of a fleet's load, as stored in the manifest.

use record::agents::{ClockOffset, OfAgent};
use record::load::Counts;
use serde::{Deserialize, Serialize};

use super::super::{Real, Reasons, Wrong};
use super::counts::EventCounts;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AgentForm {
    agent: String,
    host: String,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u32,
    counts: EventCounts,
    clock: Option<Clock>,
    start_skew_ns: Option<i64>,
    slices: u64,
    missing_slices: Vec<u64>,
    lost_at_s: Option<Real>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "each name ends in its unit")]
struct Clock {
    offset_ns: i64,
    bound_ns: u64,
    drift_ns: i64,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(weight: &u32) -> bool {
    *weight == 1
}

impl AgentForm {
    pub(super) fn of(agent: &OfAgent) -> Self {
        let OfAgent { agent, host, weight, counts, clock, start_skew_ns, slices, missing_slices, lost_at_s } =
            agent;
        let mut missing = Reasons::default();
        Self {
            agent: agent.clone(),
            host: host.clone(),
            weight: *weight,
            counts: EventCounts::of(*counts),
            clock: missing.split("clock", clock, |c| Clock {
                offset_ns: c.offset_ns,
                bound_ns: c.bound_ns,
                drift_ns: c.drift_ns,
            }),
            start_skew_ns: missing.split("start_skew_ns", start_skew_ns, |ns| *ns),
            slices: *slices,
            missing_slices: missing_slices.clone(),
            lost_at_s: lost_at_s.map(Real),
            missing,
        }
    }

    pub(super) fn read(self) -> Result<OfAgent, Wrong> {
        let missing = &self.missing;
        let clock =
            |c: Clock| Ok(ClockOffset { offset_ns: c.offset_ns, bound_ns: c.bound_ns, drift_ns: c.drift_ns });
        Ok(OfAgent {
            agent: self.agent,
            host: self.host,
            weight: self.weight,
            counts: Counts::from(self.counts),
            clock: missing.join("clock", self.clock, clock)?,
            start_skew_ns: missing.join("start_skew_ns", self.start_skew_ns, Ok)?,
            slices: self.slices,
            missing_slices: self.missing_slices,
            lost_at_s: self.lost_at_s.map(|s| s.0),
        })
    }
}
