//! Resources that a server, or the machine, used over the measured phase of a load, besides CPU time.

use std::collections::BTreeMap;

use crate::missing::Maybe;
use crate::run::words;

/// A resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Bytes read from storage.
    Read,
    /// Bytes written to storage.
    Written,
    /// Share of the time of all CPUs that was spun for locks of the kernel.
    LockSpin,
    /// Energy in joules.
    Energy,
}

words!(Resource {
    Read = "io-read-bytes",
    Written = "io-written-bytes",
    LockSpin = "lock-spin-ratio",
    Energy = "energy-j",
});

/// Processes that an amount belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedBy {
    /// The server's own processes.
    Server,
    /// Everything on the machine, the load generator included.
    Machine,
}

words!(UsedBy { Server = "server", Machine = "machine" });

/// Amount of one resource between two readings, one at each end of the measured phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Used {
    /// Amount, in the unit of the resource.
    pub amount: f64,
    /// Processes that it belongs to.
    pub by: UsedBy,
    /// First reading, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Second reading.
    pub until_ns: u64,
}

impl Used {
    /// Seconds between the readings.
    pub fn span_s(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 * 1e-9
    }
}

/// Resources of a run; one that was not asked for is absent.
pub type Resources = BTreeMap<Resource, Maybe<Used>>;

/// Name of the series with the level of the server's own memory at the end of each interval: anonymous
/// memory and swap of its processes, and its shared memory once.
pub const SERVER_MEMORY: &str = "server_memory_bytes";

/// Name of the series with the share of its CPU time that each thread of the load had on a CPU.
pub const CLIENT_CPU_SHARE: &str = "client_cpu_share_ratio";
/// Name of the series with the share of its CPU time that the server had on a CPU, all its threads together.
pub const SERVER_CPU_SHARE: &str = "server_cpu_share_ratio";
