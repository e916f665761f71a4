//! What was asked of the block devices: how much, how large, where, how long it took, by whom and of which file.
//!
//! *Traces* `block_io_start`, `block_rq_issue` and `block_io_done` (Linux 6.5 and later; before, `block_rq_insert`,
//! `block_rq_issue` and `block_rq_complete`), `block_rq_error`, `block_rq_merge` and both merges of a bio, and without a
//! latency from the start `block_rq_requeue`; each request is known by its own address, never by device and sector, and counts
//! once, however often its driver puts it back and is given it again.
//! *Yields*, per interval and group: requests, bytes and errors (counts); histograms of size (bytes), latency from the start
//! and from the issue (ns, in 32 buckets to each power of two), address and seek distance (sectors of 512 bytes).
//! *Differs from* `iostat`, which has means only; from `biolatency` and `bitesize`, which find a latency's request by its
//! address too but tell of one thing at a time, and do not say what they lost.
//! *Blind to* what never becomes a request: reads that the page cache answers, devices that take bios directly (md, dm,
//! zram), and the file of most direct I/O (ext4's and xfs's is seen, by way of iomap). Who started a write-back is the
//! kernel's thread, not who dirtied the page.
//! *Costs*: see `docs/io.md`; [`IoProbe::cost`] measures it where it runs.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
mod devices;
mod observe;

use record::block_io::{IoBy, IoOp};
use record::missing::{Maybe, Missing};

#[cfg(feature = "bpf")]
pub use self::bpf::IoProbe;
pub use self::devices::{Device, DeviceError, aliases, find};
pub(crate) use self::observe::KIND;
#[cfg(not(feature = "bpf"))]
pub use crate::absent::IoProbe;
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
    /// How many requests may be under way at once, rounded up to 16 times a power of two and at most 32,768; more are
    /// counted as lost.
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

/// Attaches the programs.
///
/// # Errors
///
/// Missing, with what to do about it: there is no lower rung, since `/proc/diskstats` has no distribution.
pub fn open(options: &Options) -> Maybe<IoProbe> {
    IoProbe::open(options).map_err(Missing::because)
}
