//! Which locks of programs are waited for, by whom, and who lets go of them.
//!
//! *Traces* the futex system calls (`futex`, `futex_waitv`, `futex_wait`, `futex_wake`, `futex_requeue`) at
//! their entry and exit. A lock that is free makes no call, so it costs nothing; every other system call of
//! the machine pays for two programs that look at its number and return. *Yields*, per process, lock,
//! operation and stack, and interval: waits (count), their time in total and at most (ns), its distribution
//! by powers of two, those that did not sleep and those whose time was over, and the time of those in which
//! the thread did not leave its CPU, from which follows the share of all CPUs that they burned; what kind of
//! lock it is, the library's call, the function that made it, and who woke its waiters last. *Differs from*
//! probes on `pthread_mutex_lock`, which cost microseconds on every call, contended or not. *Blind to* how
//! long locks are held, to spinning before the call, to waits that have not ended yet (they count when they
//! end), to 32-bit programs, to names of processes that live for less than an interval, and without frame
//! pointers to all callers but the first. *Costs*: see `docs/locks.md`; [`UserLockProbe::cost`] measures it
//! where it runs.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
pub(crate) mod observe;
mod options;

#[cfg(feature = "bpf")]
pub use self::bpf::UserLockProbe;
pub use self::options::Options;
#[cfg(not(feature = "bpf"))]
pub use crate::absent::UserLockProbe;
use crate::locks::Refused;

/// Attaches the programs.
///
/// # Errors
///
/// [`Refused`], with what is missing and how to get it.
pub fn open(options: &Options) -> Result<UserLockProbe, Refused> {
    UserLockProbe::open(options)
}
