//! Requests to block devices: number, size, address, latency, origin and file.
//!
//! *Traces* `block_io_start`, `block_rq_issue` and `block_io_done` (Linux 6.5 and later; before,
//! `block_rq_insert`, `block_rq_issue` and `block_rq_complete`), `block_rq_error`, `block_rq_merge` and both
//! merges of a bio, and without a latency from the start `block_rq_requeue`. The key of a request is its
//! address, never device and sector; it counts once, however often its driver puts it back and gets it again.
//! *Yields*, per interval and group: requests, bytes and errors (counts); histograms of size (bytes), latency
//! from the start and from the issue (ns, in 32 buckets to each power of two), address and seek distance
//! (sectors of 512 bytes). *Differs from* `iostat`, which has means only; from `biolatency` and `bitesize`,
//! which find a latency's request by its address too but report one quantity at a time, and do not report
//! losses. *Blind to* what never becomes a request: reads that the page cache answers, devices that take bios
//! directly (md, dm, zram), and the file of most direct I/O (ext4's and xfs's is seen, through iomap). A
//! write-back belongs to the kernel thread that started it, not to the thread that dirtied the page. *Costs*:
//! see `docs/io.md`; [`IoProbe::cost`] measures it on this machine.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
mod devices;
mod observe;
mod options;

use record::missing::{Maybe, Missing};

#[cfg(feature = "bpf")]
pub use self::bpf::IoProbe;
pub use self::devices::{Device, DeviceError, aliases, find};
pub(crate) use self::observe::KIND;
pub use self::options::{IoLatency, Options};
#[cfg(not(feature = "bpf"))]
pub use crate::absent::IoProbe;

/// Attaches the programs.
///
/// # Errors
///
/// Missing, with a remedy: there is no lower rung, since `/proc/diskstats` has no distribution.
pub fn open(options: &Options) -> Maybe<IoProbe> {
    IoProbe::open(options).map_err(Missing::because)
}
