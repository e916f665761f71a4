//! Locks of programs that threads wait for, the waiters, and the threads that wake them.
//!
//! *Traces* the futex system calls (`futex`, `futex_waitv`, `futex_wait`, `futex_wake`, `futex_requeue`) at
//! their entry and exit. A free lock makes no call, so it costs nothing; every other system call of the
//! machine pays for two programs that check its number and return. *Yields*, per process, lock, operation and
//! stack, and interval: waits (count), their time in total and at most (ns), its distribution by powers of
//! two, the waits that did not sleep and those that timed out, and the time of waits in which the thread did
//! not leave its CPU, which gives the share of all CPUs that they burned; the kind of lock, the library's
//! call, the function that made it, and the thread that last woke its waiters. *Differs from* probes on
//! `pthread_mutex_lock`, which cost microseconds on every call, contended or not. *Blind to* how long locks
//! are held, to spinning before the call, to waits that have not ended yet (they count when they end), to
//! 32-bit programs, to names of processes that live for less than an interval, and without frame pointers to
//! all callers but the first. *Costs*: see `docs/locks.md`; [`UserLockProbe::cost`] measures it on this
//! machine.

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
/// [`Refused`], with the cause and a remedy.
pub fn open(options: &Options) -> Result<UserLockProbe, Refused> {
    UserLockProbe::open(options)
}
