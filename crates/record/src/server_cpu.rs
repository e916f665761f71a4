//! CPU time of the server under test over the measured phase of a load.

use crate::missing::{Maybe, Missing};
use crate::run::words;

/// CPU time of the server's own tasks between two readings, one at each end of the measured phase.
///
/// This is the time that the kernel charges to those tasks: user and system time, without interrupts. Work
/// that the kernel does for the server in kernel threads (`kworker`, `ksoftirqd`) is excluded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerCpu {
    /// CPU seconds between the readings.
    pub cpu_s: f64,
    /// First reading, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Second reading.
    pub until_ns: u64,
    /// Counted tasks.
    pub tasks: ServerTasks,
}

/// Selection of the server's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTasks {
    /// Every task that ran in the server's cgroup.
    Cgroup,
    /// The server's process and its descendants.
    Tree,
    /// The commands that events ran, including the children that those waited for.
    Commands,
}

words!(ServerTasks { Cgroup = "cgroup", Tree = "process-tree", Commands = "commands" });

impl ServerCpu {
    /// Missing value of a run that did not measure a server's CPU time.
    ///
    /// # Errors
    ///
    /// Always: returns the missing value.
    pub fn not_measured() -> Maybe<Self> {
        Err(Missing::because("the server's own CPU time was not measured"))
    }

    /// Seconds between the readings.
    pub fn span_s(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 * 1e-9
    }
}
