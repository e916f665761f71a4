//! Memory over an interval: of the machine and of each process.

use crate::missing::Maybe;

/// The machine's memory at the end of an interval, and what happened to it meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineMemory {
    /// All that the kernel manages.
    pub total_bytes: u64,
    /// What programs could still have without swapping, by the kernel's estimate.
    pub available_bytes: u64,
    /// What nothing uses, not even as a cache.
    pub free_bytes: u64,
    /// Swap space; 0 where there is none.
    pub swap_total_bytes: u64,
    /// Swap space in use.
    pub swap_used_bytes: u64,
    /// What `available_bytes` grew by; negative: shrank..
    pub available_change_bytes: i64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Bytes of pages that reclaim looked at.
    pub scanned_bytes: u64,
    /// Bytes that reclaim freed.
    pub reclaimed_bytes: u64,
    /// Bytes that threads freed themselves, because they found too little: a part of `reclaimed_bytes`.
    pub reclaimed_direct_bytes: u64,
    /// Times that a thread had to.
    pub stalls: u64,
    /// Bytes read back from swap.
    pub swapped_in_bytes: u64,
    /// Bytes written to swap.
    pub swapped_out_bytes: u64,
    /// Processes that the kernel killed for their memory.
    pub oom_kills: Maybe<u64>,
    /// Share of the time in which some thread waited for memory.
    pub pressure_some_ratio: Maybe<f64>,
}

/// One process over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessMemory {
    /// Its id.
    pub pid: u32,
    /// When it was started, in ticks since boot: another process may have its id later.
    pub started: u64,
    /// Its name.
    pub comm: String,
    /// Memory that it has in use (resident set) at the end.
    pub rss_bytes: u64,
    /// Memory of it that lies in swap.
    pub swap_bytes: u64,
    /// What `rss_bytes` grew by; of a process that began in the interval, all of it.
    pub rss_change_bytes: i64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
}

/// Memory over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryInterval {
    /// Where it began, on `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Where it ended.
    pub until_ns: u64,
    /// Whether a deadline passed before it was read.
    pub missed_deadline: bool,
    /// The machine.
    pub machine: Maybe<MachineMemory>,
    /// Processes that live at its end, largest first.
    pub processes: Vec<ProcessMemory>,
    /// Processes that ended in it: their faults are in the machine's alone.
    pub ended: u64,
}

impl MemoryInterval {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 * 1e-9
    }
}
