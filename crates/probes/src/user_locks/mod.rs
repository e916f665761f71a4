//! Which locks of programs are waited for, by whom, and who lets go of them.
//!
//! *Traces* the futex system calls (`futex`, `futex_waitv`, `futex_wait`, `futex_wake`, `futex_requeue`) at their entry
//! and exit. A lock that is free makes no call, so it costs nothing; every other system call of the machine pays for two
//! programs that look at its number and return.
//! *Yields*, per process, lock, operation and stack, and interval: waits (count), their time in total and at most (ns),
//! its distribution by powers of two, those that did not sleep and those whose time was over, and the time of those in
//! which the thread did not leave its CPU, from which follows the share of all CPUs that they burned; what kind of lock it is,
//! the library's call, the function that made it, and who woke its waiters last.
//! *Differs from* probes on `pthread_mutex_lock`, which cost microseconds on every call, contended or not.
//! *Blind to* how long locks are held, to spinning before the call, to waits that have not ended yet (they count when
//! they end), to 32-bit programs, to names of processes that live for less than an interval, and without frame
//! pointers to all callers but the first.
//! *Costs*: see `docs/locks.md`; [`UserLockProbe::cost`] measures it where it runs.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
pub(crate) mod observe;

#[cfg(feature = "bpf")]
pub use self::bpf::UserLockProbe;
#[cfg(not(feature = "bpf"))]
pub use crate::absent::UserLockProbe;
use crate::cgroups::Cgroup;
use crate::locks::Refused;

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
    /// Combinations of process, lock and stack that an interval has room for; what is more is counted as lost.
    pub room: u32,
}

impl Options {
    /// Everyone's but our own, with room for 8,192 combinations: some 12 MB of kernel memory.
    pub fn of_everyone_else() -> Self {
        Self { pid: None, comm: None, cgroup: None, by_cgroup: false, own_threads: false, room: 8192 }
    }
}

/// Attaches the programs.
///
/// # Errors
///
/// [`Refused`], with what is missing and how to get it.
pub fn open(options: &Options) -> Result<UserLockProbe, Refused> {
    UserLockProbe::open(options)
}
