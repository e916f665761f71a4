//! The waits to watch.

use crate::cgroups::Cgroup;

/// Filters of waits, and room for their sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Only waits of this process.
    pub pid: Option<u32>,
    /// Only waits of threads of this name; at most 15 bytes count.
    pub comm: Option<String>,
    /// Only waits of threads in this control group, or below it.
    pub cgroup: Option<Cgroup>,
    /// Whether waits are grouped by their thread's control group.
    pub by_cgroup: bool,
    /// Include the threads of the process that watches.
    pub own_threads: bool,
    /// Combinations of process, lock and stack that an interval has room for; more are counted as lost.
    pub room: u32,
}

impl Options {
    /// All waits but our own, with room for 8,192 combinations: some 12 MB of kernel memory.
    pub fn of_everyone_else() -> Self {
        Self { pid: None, comm: None, cgroup: None, by_cgroup: false, own_threads: false, room: 8192 }
    }
}
