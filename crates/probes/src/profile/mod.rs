//! Where threads spend their time: stacks of those that have a CPU, and of those that have none.
//!
//! *Traces* on CPUs a `cpu-clock` perf event every 1/997 s on each of them; off CPUs every context switch
//! (`tp_btf/sched_switch`).
//! *Yields*, by name of the threads and stack: samples, each of which stands for 1/997 s; or times off the CPU (count) and
//! how long they took together (ns), blocked and runnable apart.
//! *Differs from* `perf record` in that stacks are summed up in the kernel, so that nothing is written while it runs; from
//! bcc's `offcputime` in that it also counts threads that are still off at the end, until then.
//! *Blind to*: callers in code without frame pointers; interrupts' handlers, which no sample interrupts (softirqs are
//! seen); waits that began before the profile; threads that never leave a CPU or never get one (off-CPU); names of
//! processes that live for less than a tenth of a second; names of code that is compiled while the program runs.
//! *Costs*: see `docs/profile.md`; each profile says what it cost.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;

use record::profile::ProfileKind;

#[cfg(feature = "bpf")]
pub use self::bpf::Profiler;
#[cfg(not(feature = "bpf"))]
pub use crate::absent::Profiler;
use crate::cgroups::Cgroup;
use crate::locks::Refused;

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
    /// Combinations of process, thread name and stack that a tenth of a second has room for; more are counted as lost.
    pub room: u32,
    /// For tests: each so manyeth switch of that process is not looked at, as on kernels that do not show all; 0: none.
    pub leave_out: u32,
}

impl Options {
    /// Everyone's, with room for 16,384 combinations: some 20 MB of kernel memory.
    pub fn of_everyone(kind: ProfileKind) -> Self {
        Self { kind, pid: None, comm: None, cgroup: None, room: 16_384, leave_out: 0 }
    }
}

/// Attaches the program; nothing is counted before [`Profiler::start`].
///
/// # Errors
///
/// [`Refused`], with what is missing and how to get it.
pub fn open(options: &Options) -> Result<Profiler, Refused> {
    Profiler::open(options)
}
