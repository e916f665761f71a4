//! Which locks of the kernel are waited for, by whom, and what that costs.
//!
//! *Traces* `lock:contention_begin` and `lock:contention_end` on every CPU. They are on the slow path only,
//! so a lock that is free costs nothing; sums are kept in the kernel by kind, lock and caller. *Yields*, per
//! lock and caller and interval: waits (count), their time in total and at most (ns), its distribution by
//! powers of two, and the part of it that was spun (ns), from which follows the share of all CPUs that it
//! burned. *Differs from* `perf lock contention` in that spinning inside a mutex is kept apart from sleeping
//! there, and in that records do not travel to user space one by one. *Blind to* how long locks are held, to
//! waits that have not ended yet (they count when they end), to the spinning of writers before they sleep on
//! an rwsem, which the kernel does not tell, and to waits that began before the probe. Kernels before 5.19
//! have no such tracepoints. *Costs*: see `docs/locks.md`; [`LockProbe::cost`] measures it where it runs.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
pub(crate) mod observe;
mod options;

#[cfg(feature = "bpf")]
pub use self::bpf::LockProbe;
pub use self::options::{Options, Refused};
#[cfg(not(feature = "bpf"))]
pub use crate::absent::LockProbe;

/// Attaches the programs.
///
/// # Errors
///
/// [`Refused`], with what is missing and how to get it.
pub fn open(options: &Options) -> Result<LockProbe, Refused> {
    LockProbe::open(options)
}
