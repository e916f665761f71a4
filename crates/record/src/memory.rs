//! Memory of the machine and of each process over an interval.

use crate::missing::Maybe;

/// Memory of the machine at the end of an interval, and its activity in the interval.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineMemory {
    /// Memory that the kernel manages.
    pub total_bytes: u64,
    /// Memory that programs could still use without swapping, by the kernel's estimate.
    pub available_bytes: u64,
    /// Unused memory; memory of caches is not in it.
    pub free_bytes: u64,
    /// Swap space; 0 if there is no swap.
    pub swap_total_bytes: u64,
    /// Swap space in use.
    pub swap_used_bytes: u64,
    /// Increase of `available_bytes`; negative: decrease.
    pub available_change_bytes: i64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Bytes of pages that reclaim scanned.
    pub scanned_bytes: u64,
    /// Bytes that reclaim freed.
    pub reclaimed_bytes: u64,
    /// Part of `reclaimed_bytes` that was freed in control groups at their limit, while the machine may have
    /// had enough; 0 before Linux 5.8, which does not count it.
    pub reclaimed_at_limits_bytes: u64,
    /// Part of `reclaimed_bytes` that threads freed themselves because the machine had too little free
    /// (direct reclaim).
    pub reclaimed_direct_bytes: u64,
    /// Number of times that a thread did direct reclaim, without control groups at their limit.
    pub stalls: u64,
    /// Bytes read back from swap.
    pub swapped_in_bytes: u64,
    /// Bytes written to swap.
    pub swapped_out_bytes: u64,
    /// Processes that the OOM killer killed.
    pub oom_kills: Maybe<u64>,
    /// Share of time in which at least one thread waited for memory.
    pub pressure_some_ratio: Maybe<f64>,
}

/// One process over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessMemory {
    /// Process id.
    pub pid: u32,
    /// Start time in ticks since boot; distinguishes processes that had the same id at different times.
    pub started: u64,
    /// Name.
    pub comm: String,
    /// Resident set at the end.
    pub rss_bytes: u64,
    /// Memory in swap.
    pub swap_bytes: u64,
    /// Increase of `rss_bytes`; all of it if the process began in the interval.
    pub rss_change_bytes: i64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
}

/// Memory over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`.
    pub until_ns: u64,
    /// Whether the reader was so late that it missed a deadline.
    pub missed_deadline: bool,
    /// The machine.
    pub machine: Maybe<MachineMemory>,
    /// Processes that exist at the end, largest first.
    pub processes: Vec<ProcessMemory>,
    /// Processes that ended in the interval; only the machine's counts include their faults.
    pub ended: u64,
}

impl MemoryInterval {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 * 1e-9
    }
}
