//! Kernel locks that threads wait for, the waiters, and the cost of waiting.
//!
//! *Traces* `lock:contention_begin` and `lock:contention_end` on every CPU. They are on the slow path only,
//! so a free lock costs nothing; the kernel side sums by kind, lock and caller. *Yields*, per lock and caller
//! and interval: waits (count), their time in total and at most (ns), its distribution by powers of two, and
//! the part of it that was spun (ns), which gives the share of all CPUs that it burned. *Differs from* `perf
//! lock contention`: spinning inside a mutex is separate from sleeping there, and records do not travel to
//! user space one by one. *Blind to* how long locks are held, to waits that have not ended yet (they count
//! when they end), to the spinning of writers before they sleep on an rwsem, which the kernel does not
//! report, and to waits that began before the probe. Kernels before 5.19 lack these tracepoints. *Costs*: see
//! `docs/locks.md`; [`LockProbe::cost`] measures it on this machine.

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
/// [`Refused`], with the cause and a remedy.
pub fn open(options: &Options) -> Result<LockProbe, Refused> {
    LockProbe::open(options)
}
