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
mod bpf;
#[cfg(feature = "bpf")]
mod calls;
pub(crate) mod observe;

#[cfg(feature = "bpf")]
use std::collections::HashMap;

#[cfg(feature = "bpf")]
use record::clock::{Clock, Monotonic};
use record::locks::UserLockInterval;
#[cfg(feature = "bpf")]
use record::locks::{UserLockKind, UserLockSample};
use record::missing::{Maybe, Missing};

#[cfg(feature = "bpf")]
use crate::cgroups;
use crate::cgroups::Cgroup;
use crate::cost::Cost;
#[cfg(feature = "bpf")]
use crate::cost::Meter;
#[cfg(feature = "bpf")]
use crate::cpu_list;
use crate::locks::Refused;
#[cfg(feature = "bpf")]
use crate::process_ids;
#[cfg(feature = "bpf")]
use crate::user_symbols::UserSymbols;

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

/// Watches the locks of programs from [`open`] on.
#[derive(Debug)]
pub struct UserLockProbe {
    #[cfg(feature = "bpf")]
    programs: bpf::Bpf,
    #[cfg(feature = "bpf")]
    cgroups: cgroups::Names,
    #[cfg(feature = "bpf")]
    symbols: UserSymbols,
    /// Processes of a PID namespace by the machine's ids; `None` outside of one.
    #[cfg(feature = "bpf")]
    ids: Option<HashMap<u32, u32>>,
    #[cfg(feature = "bpf")]
    namespace: Option<process_ids::Namespace>,
    #[cfg(feature = "bpf")]
    meter: Meter<2>,
    #[cfg(feature = "bpf")]
    calls_before: u64,
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
pub fn open(options: &Options) -> Result<UserLockProbe, Refused> {
    let programs = bpf::Bpf::open(options).map_err(Refused::because)?;
    let now_ns = Monotonic.now_ns();
    let (symbols, ids) = (UserSymbols::new(), None);
    let namespace = process_ids::Namespace::open().map_err(|why| Refused::because(why.reason))?;
    let meter = Meter::new(["a wait", "another system call"]);
    let cgroups = cgroups::Names::default();
    Ok(UserLockProbe {
        programs,
        cgroups,
        symbols,
        ids,
        namespace,
        meter,
        calls_before: 0,
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
pub fn open(_: &Options) -> Result<UserLockProbe, Refused> {
    Err(Refused::because("no locks without BPF: this build has none; build it with the feature `bpf`".into()))
}

#[cfg(feature = "bpf")]
impl UserLockProbe {
    /// The first interval starts here: at the moment that this yields, on `CLOCK_MONOTONIC`. Without it, when the probe
    /// was opened.
    ///
    /// # Errors
    ///
    /// Missing where the kernel does not hand out the sums.
    pub fn start(&mut self) -> Maybe<u64> {
        self.read()?;
        self.seen = 0;
        self.calls_before = self.programs.calls();
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
    pub fn read(&mut self) -> Maybe<UserLockInterval> {
        let (until_ns, drained) = self.programs.drain()?;
        self.cgroups.next_round();
        let from_ns = std::mem::replace(&mut self.last_ns, until_ns);
        self.symbols.next_round();
        self.ids = self.namespace.as_ref().map(process_ids::Namespace::own_by_machines).transpose()?;
        let mut locks: Vec<UserLockSample> = drained.sums.into_iter().map(|sum| self.sample(sum)).collect();
        locks.sort_by_key(|l| std::cmp::Reverse(l.waits.ns_total));
        self.seen += locks.iter().map(|l| l.waits.count).sum::<u64>();
        let (cpus, lost) = (cpu_list::online_count(), drained.lost);
        Ok(UserLockInterval { from_ns, until_ns, cpus, missed_deadline: false, locks, lost })
    }

    /// Measures what watching costs, by bursts of waits for one lock and of other system calls (some 100 ms), unless that was done before; needs the rights that opening the
    /// probe needs.
    pub fn measure_cost(&mut self) {
        self.meter.measure(bpf::ns_of_calls);
    }

    /// What watching has cost since the start; measured now, where [`Self::measure_cost`] was not called before.
    ///
    /// # Errors
    ///
    /// Missing where the kernel's run statistics cannot be had.
    pub fn cost(&mut self) -> Maybe<Cost> {
        self.measure_cost();
        self.meter.cost([self.seen, self.programs.calls().saturating_sub(self.calls_before + self.seen)])
    }

    fn sample(&mut self, sum: bpf::Sum) -> UserLockSample {
        let cgroup = (sum.cgroup != 0).then(|| self.cgroups.name(sum.cgroup));
        UserLockSample { cgroup, ..self.without_cgroup(sum) }
    }

    fn without_cgroup(&mut self, sum: bpf::Sum) -> UserLockSample {
        let own = self.ids.as_ref().map_or(Some(sum.pid), |ids| ids.get(&sum.pid).copied());
        let Some(pid) = own else {
            let why = Missing::because("its process is outside of this PID namespace");
            return sample_of(sum, calls::Reached::missing(&why), Err(why));
        };
        let sum = bpf::Sum { pid, ..sum };
        self.symbols.meet(sum.pid);
        let reached = match &sum.stack {
            Ok(stack) => calls::reached(&mut self.symbols, sum.pid, stack),
            Err(why) => calls::Reached::missing(why),
        };
        let mut reached = reached;
        if bpf::is_priority_inheriting(sum.op) {
            reached.kind = UserLockKind::Mutex;
        }
        let waker = sum.waker.as_ref().map_err(Clone::clone).map(|waker| {
            let Ok(stack) = &waker.stack else { return waker.name.clone() };
            let woke = calls::reached(&mut self.symbols, sum.pid, stack);
            // Who waits may have left no name behind, who wakes it mostly does: `sem_post`.
            if reached.kind == UserLockKind::Other {
                reached.kind = woke.kind;
            }
            woke.caller.map_or_else(|_| waker.name.clone(), |from| format!("{} in {from}", waker.name))
        });
        sample_of(sum, reached, waker)
    }
}

#[cfg(feature = "bpf")]
fn sample_of(sum: bpf::Sum, reached: calls::Reached, waker: Maybe<String>) -> UserLockSample {
    UserLockSample {
        cgroup: None,
        pid: sum.pid,
        comm: sum.comm,
        address: sum.address,
        kind: reached.kind,
        call: reached.call,
        caller: reached.caller,
        stack: reached.stack,
        waker,
        waits: sum.waits,
        spin_ns_total: Ok(sum.spun_ns),
        not_slept: sum.not_slept,
        timed_out: sum.timed_out,
    }
}

#[cfg(not(feature = "bpf"))]
impl UserLockProbe {
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
    pub fn read(&mut self) -> Maybe<UserLockInterval> {
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
