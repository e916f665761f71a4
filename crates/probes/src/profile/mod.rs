//! Time of threads by stack: of threads that have a CPU, and of threads that have none.
//!
//! *Traces* on CPUs a `cpu-clock` perf event every 1/997 s on each of them; off CPUs every context switch
//! (`tp_btf/sched_switch`). *Yields*, by name of the threads and stack: samples, each of which stands for
//! 1/997 s; or times off the CPU (count) and their total length (ns), separately for blocked and runnable
//! threads. *Differs from* `perf record`: the kernel side sums the stacks, so nothing is written while it
//! runs; from bcc's `offcputime`: threads that are still off at the end count until then. *Blind to*: callers
//! in code without frame pointers; interrupts' handlers, which no sample interrupts (softirqs are seen);
//! waits that began before the profile; threads that never leave a CPU or never get one (off-CPU); names of
//! processes that live for less than a tenth of a second; names of code that is compiled while the program
//! runs. *Costs*: see `docs/profile.md`; each profile reports its cost.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;
pub(crate) mod observe;
mod options;

#[cfg(feature = "bpf")]
pub use self::bpf::Profiler;
pub use self::options::Options;
#[cfg(not(feature = "bpf"))]
pub use crate::absent::Profiler;
use crate::locks::Refused;

/// Attaches the program; counting starts with [`Profiler::start`].
///
/// # Errors
///
/// [`Refused`], with the cause and a remedy.
pub fn open(options: &Options) -> Result<Profiler, Refused> {
    Profiler::open(options)
}
