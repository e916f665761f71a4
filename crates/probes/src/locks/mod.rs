//! Which locks of the kernel are waited for, by whom, and what that costs.
//!
//! *Traces* `lock:contention_begin` and `lock:contention_end` on every CPU. They are on the slow path only, so a lock
//! that is free costs nothing; sums are kept in the kernel by kind, lock and caller.
//! *Yields*, per lock and caller and interval: waits (count), their time in total and at most (ns), its distribution by
//! powers of two, and the part of it that was spun (ns), from which follows the share of all CPUs that it burned.
//! *Differs from* `perf lock contention` in that spinning inside a mutex is kept apart from sleeping there, and in that
//! records do not travel to user space one by one.
//! *Blind to* how long locks are held, to waits that have not ended yet (they count when they end), to the spinning of
//! writers before they sleep on an rwsem, which the kernel does not tell, and to waits that began before the probe.
//! Kernels before 5.19 have no such tracepoints.
//! *Costs*: see `docs/locks.md`; [`LockProbe::cost`] measures it where it runs.

#[cfg(feature = "bpf")]
mod bpf;
#[cfg(feature = "bpf")]
mod form;
pub(crate) mod observe;

#[cfg(feature = "bpf")]
use record::clock::{Clock, Monotonic};
use record::locks::LockInterval;
#[cfg(feature = "bpf")]
use record::locks::LockSample;
use record::missing::{Maybe, Missing};

#[cfg(feature = "bpf")]
use self::form::kind;
#[cfg(feature = "bpf")]
use crate::cgroups;
use crate::cgroups::Cgroup;
use crate::cost::Cost;
#[cfg(feature = "bpf")]
use crate::cost::Meter;
#[cfg(feature = "bpf")]
use crate::cpu_list;
#[cfg(feature = "bpf")]
use crate::kernel_symbols::KernelSymbols;

#[cfg(feature = "bpf")]
pub(crate) use self::form::waits;

#[cfg(all(test, feature = "bpf"))]
pub(crate) use self::bpf::kernel_memory;

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
    /// Combinations of lock and caller that an interval has room for; what is more is counted as lost.
    pub room: u32,
}

impl Options {
    /// Everyone's, with room for 8,192 combinations: some 4 MB of kernel memory.
    pub fn of_everyone() -> Self {
        Self { pid: None, comm: None, cgroup: None, by_cgroup: false, room: 8192 }
    }
}

/// Why locks cannot be watched here.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    pub(crate) fn because(why: String) -> Self {
        Self(why)
    }
}

/// Watches the locks from [`open`] on.
#[derive(Debug)]
pub struct LockProbe {
    #[cfg(feature = "bpf")]
    programs: bpf::Bpf,
    #[cfg(feature = "bpf")]
    cgroups: cgroups::Names,
    #[cfg(feature = "bpf")]
    symbols: Maybe<KernelSymbols>,
    #[cfg(feature = "bpf")]
    meter: Meter<1>,
    #[cfg(feature = "bpf")]
    last_ns: u64,
    #[cfg(feature = "bpf")]
    seen: u64,
}

/// Attaches the programs.
///
/// # Errors
///
/// [`Refused`], with what is missing and how to get it.
#[cfg(feature = "bpf")]
pub fn open(options: &Options) -> Result<LockProbe, Refused> {
    let symbols = KernelSymbols::read(std::path::Path::new("/"));
    let programs = bpf::Bpf::open(options).map_err(Refused)?;
    let now_ns = Monotonic.now_ns();
    Ok(LockProbe {
        programs,
        cgroups: cgroups::Names::default(),
        symbols,
        meter: Meter::new(["a wait"]),
        last_ns: now_ns,
        seen: 0,
    })
}

/// Attaches nothing: this build has no programs.
///
/// # Errors
///
/// [`Refused`], always.
#[cfg(not(feature = "bpf"))]
pub fn open(_: &Options) -> Result<LockProbe, Refused> {
    Err(Refused("no locks without BPF: this build has none; build it with the feature `bpf`".into()))
}

#[cfg(feature = "bpf")]
impl LockProbe {
    /// The first interval starts here: at the moment that this yields, on `CLOCK_MONOTONIC`. Without it, when the probe
    /// was opened.
    ///
    /// # Errors
    ///
    /// Missing where the kernel does not hand out the sums.
    pub fn start(&mut self) -> Maybe<u64> {
        self.read()?;
        self.seen = 0;
        self.meter.start(self.last_ns);
        Ok(self.last_ns)
    }

    /// What was waited for since the last reading, or since the probe was opened.
    ///
    /// The next interval starts where this one ends. Whether a deadline was missed is the caller's to know.
    ///
    /// # Errors
    ///
    /// Missing where the kernel does not hand out the sums.
    pub fn read(&mut self) -> Maybe<LockInterval> {
        let (until_ns, drained) = self.programs.drain()?;
        self.cgroups.next_round();
        let from_ns = std::mem::replace(&mut self.last_ns, until_ns);
        let mut locks: Vec<LockSample> = drained.sums.iter().map(|sum| self.sample(sum)).collect();
        locks.sort_by_key(|l| std::cmp::Reverse(l.waits.ns_total));
        self.seen += locks.iter().map(|l| l.waits.count).sum::<u64>();
        let cpus = cpu_list::online_count();
        let lost = drained.lost;
        Ok(LockInterval { from_ns, until_ns, cpus, missed_deadline: false, locks, lost })
    }

    /// Measures what watching costs, by a burst of waits for one lock (some 50 ms), unless that was done before; needs the rights that opening the
    /// probe needs.
    pub fn measure_cost(&mut self) {
        self.meter.measure(|| Ok([bpf::ns_per_wait()?]));
    }

    /// What watching has cost since the start; measured now, where [`Self::measure_cost`] was not called before.
    ///
    /// # Errors
    ///
    /// Missing where the kernel's run statistics cannot be had.
    pub fn cost(&mut self) -> Maybe<Cost> {
        self.measure_cost();
        self.meter.cost([self.seen])
    }

    fn sample(&mut self, sum: &bpf::Sum) -> LockSample {
        let kind = kind(sum.flags);
        let stack = match (&self.symbols, &sum.frames) {
            (Ok(symbols), Ok(frames)) => Ok(symbols.callers(frames)),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        let name = match (sum.role, &self.symbols) {
            (Some(role), _) => Ok(role.to_owned()),
            (None, Ok(symbols)) => symbols.variable(sum.lock).ok_or_else(|| {
                Missing::because(
                    "no symbol covers it: it was allocated, or the kernel keeps no names of variables",
                )
            }),
            (None, Err(why)) => Err(why.clone()),
        };
        let caller = stack.as_ref().map_err(Clone::clone).and_then(|stack| {
            stack.first().cloned().ok_or_else(|| Missing::because("its stack shows nothing but locking"))
        });
        let stack = stack.unwrap_or_default();
        let cgroup = (sum.cgroup != 0).then(|| self.cgroups.name(sum.cgroup));
        LockSample {
            cgroup,
            kind,
            address: sum.lock,
            name,
            caller,
            stack,
            waits: sum.waits.clone(),
            spin_ns_total: sum.spun_ns,
        }
    }
}

#[cfg(not(feature = "bpf"))]
impl LockProbe {
    /// Never called: [`open`] refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(&mut self) -> Maybe<u64> {
        Err(Missing::because("this build has no BPF"))
    }

    /// Never called: [`open`] refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn read(&mut self) -> Maybe<LockInterval> {
        Err(Missing::because("this build has no BPF"))
    }

    /// Never called: [`open`] refuses.
    pub fn measure_cost(&mut self) {}

    /// Never called: [`open`] refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn cost(&mut self) -> Maybe<Cost> {
        Err(Missing::because("this build has no BPF"))
    }
}
