//! The waits to watch, and why they cannot be watched.

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
    /// Combinations of lock and caller that an interval has room for; more are counted as lost.
    pub room: u32,
}

impl Options {
    /// Waits of all threads, with room for 8,192 combinations: some 4 MB of kernel memory.
    pub fn of_everyone() -> Self {
        Self { pid: None, comm: None, cgroup: None, by_cgroup: false, room: 8192 }
    }
}

/// Reason why locks cannot be watched here.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    pub(crate) fn because(why: String) -> Self {
        Self(why)
    }
}
