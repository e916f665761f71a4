//! The waits to watch.

use crate::cgroups::Cgroup;

/// Whose waits to watch, and how much room there is for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Those of this process only.
    pub pid: Option<u32>,
    /// Those of threads of this name only; of more than 15 bytes the first 15 are the name.
    pub comm: Option<String>,
    /// Those of threads in this control group, or below it.
    pub cgroup: Option<Cgroup>,
    /// Whether waits are told apart by their thread's control group.
    pub by_cgroup: bool,
    /// Also those of the process that watches.
    pub own_threads: bool,
    /// Combinations of process, lock and stack that an interval has room for; what is more is counted as
    /// lost.
    pub room: u32,
}

impl Options {
    /// Everyone's but our own, with room for 8,192 combinations: some 12 MB of kernel memory.
    pub fn of_everyone_else() -> Self {
        Self { pid: None, comm: None, cgroup: None, by_cgroup: false, own_threads: false, room: 8192 }
    }
}
