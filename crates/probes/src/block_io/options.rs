//! The requests to watch, and how to tell them apart.

use record::block_io::{IoBy, IoOp};

use super::devices::Device;
use crate::cgroups::Cgroup;

/// What to watch, and how to tell it apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How requests are told apart.
    pub by: IoBy,
    /// Only this device.
    pub device: Option<Device>,
    /// Only requests that a thread of this process started.
    pub pid: Option<u32>,
    /// Only requests that a thread of this name started; at most 15 bytes count.
    pub comm: Option<String>,
    /// Only requests that a thread in this control group, or below it, started.
    pub cgroup: Option<Cgroup>,
    /// Only these; all where it is empty.
    pub ops: Vec<IoOp>,
    /// Which latencies are measured: the fewer, the less it costs.
    pub latency: IoLatency,
    /// How many requests may be under way at once, rounded up to 16 times a power of two and at most 32,768;
    /// more are counted as lost.
    pub flights_max: u32,
    /// How many groups an interval may have; more are counted as lost.
    pub groups_max: u32,
}

/// Which latencies are measured. Sizes, addresses and seeks are in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoLatency {
    /// From the start and from the issue: three of our programs run for a request.
    Both,
    /// From the issue alone: two.
    Issue,
    /// None, and requests count when they are issued, not when they end: one.
    None,
}

impl Options {
    /// All devices and everybody.
    pub fn everything(by: IoBy) -> Self {
        Self {
            by,
            device: None,
            pid: None,
            comm: None,
            cgroup: None,
            ops: Vec::new(),
            latency: IoLatency::Both,
            flights_max: 32_768,
            groups_max: if by.comm || by.file || by.cgroup { 2_048 } else { 256 },
        }
    }
}
