//! The time to profile.

use record::profile::ProfileKind;

use crate::cgroups::Cgroup;

/// Whose time is profiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which time.
    pub kind: ProfileKind,
    /// That of this process only.
    pub pid: Option<u32>,
    /// That of threads of this name only; of more than 15 bytes the first 15 are the name.
    pub comm: Option<String>,
    /// That of threads in this control group, or below it, only.
    pub cgroup: Option<Cgroup>,
    /// Combinations of process, thread name and stack that a tenth of a second has room for; more are counted
    /// as lost.
    pub room: u32,
    /// For tests: each so manyeth switch of that process is not looked at, as on kernels that do not show
    /// all; 0: none.
    pub leave_out: u32,
}

impl Options {
    /// Everyone's, with room for 16,384 combinations: some 20 MB of kernel memory.
    pub fn of_everyone(kind: ProfileKind) -> Self {
        Self { kind, pid: None, comm: None, cgroup: None, room: 16_384, leave_out: 0 }
    }
}
