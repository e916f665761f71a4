//! The requests to watch, and how to tell them apart.

use record::block_io::{IoBy, IoOp};

use super::devices::Device;
use crate::cgroups::Cgroup;

/// Options of [`super::open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Grouping of requests.
    pub by: IoBy,
    /// Only this device.
    pub device: Option<Device>,
    /// Only requests that a thread of this process started.
    pub pid: Option<u32>,
    /// Only requests that a thread of this name started; at most 15 bytes count.
    pub comm: Option<String>,
    /// Only requests that a thread in this control group, or below it, started.
    pub cgroup: Option<Cgroup>,
    /// Only these operations; all if empty.
    pub ops: Vec<IoOp>,
    /// Latencies to measure: fewer cost less.
    pub latency: IoLatency,
    /// Maximum number of requests in flight, rounded up to 16 times a power of two and at most 32,768; more
    /// are counted as lost.
    pub flights_max: u32,
    /// Maximum number of groups in an interval; more are counted as lost.
    pub groups_max: u32,
}

/// Latencies to measure. Sizes, addresses and seeks are always measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoLatency {
    /// Latency from the start and from the issue: three of our programs run for a request.
    Both,
    /// Latency from the issue alone: two programs.
    Issue,
    /// Neither; requests count when they are issued, not when they end: one program.
    None,
}

impl Options {
    /// All devices and all threads.
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
