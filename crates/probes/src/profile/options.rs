//! The time to profile.

use record::profile::ProfileKind;

use crate::cgroups::Cgroup;

/// Filters of a profile, and room for its sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// On-CPU or off-CPU time.
    pub kind: ProfileKind,
    /// Only time of this process.
    pub pid: Option<u32>,
    /// Only time of threads of this name; at most 15 bytes count.
    pub comm: Option<String>,
    /// Only time of threads in this control group, or below it.
    pub cgroup: Option<Cgroup>,
    /// Combinations of process, thread name and stack that a tenth of a second has room for; more are counted
    /// as lost.
    pub room: u32,
    /// For tests: ignores every n-th switch of that process, as on kernels that hide some; 0: none.
    pub leave_out: u32,
}

impl Options {
    /// Time of all threads, with room for 16,384 combinations: some 20 MB of kernel memory.
    pub fn of_everyone(kind: ProfileKind) -> Self {
        Self { kind, pid: None, comm: None, cgroup: None, room: 16_384, leave_out: 0 }
    }
}
