//! The probe with BPF: the sums of the kernel's side, with names.

mod calls;
mod programs;

use record::clock::{Clock, Monotonic};
use record::locks::{UserLockInterval, UserLockKind, UserLockSample};
use record::missing::{Maybe, Missing};

use super::Options;
use crate::cgroups;
use crate::cost::{Cost, Meter};
use crate::cpu_list;
use crate::locks::Refused;
use crate::user_symbols::UserSymbols;

#[cfg(test)]
pub(crate) use self::programs::kernel_memory;

/// Watches the locks from [`super::open`] on.
#[derive(Debug)]
pub struct UserLockProbe {
    programs: programs::Bpf,
    cgroups: cgroups::Names,
    symbols: UserSymbols,
    meter: Meter<3>,
    calls_before: u64,
    wakings_before: u64,
    last_ns: u64,
    seen: u64,
    news: Vec<String>,
}

impl UserLockProbe {
    /// Attaches the programs.
    pub(super) fn open(options: &Options) -> Result<Self, Refused> {
        let programs = programs::Bpf::open(options).map_err(Refused::because)?;
        let now_ns = Monotonic.now_ns();
        let symbols = UserSymbols::new();
        let meter = Meter::new(["a wait", "another system call", "a wake-up"]);
        let cgroups = cgroups::Names::default();
        Ok(Self {
            programs,
            cgroups,
            symbols,
            meter,
            calls_before: 0,
            wakings_before: 0,
            last_ns: now_ns,
            seen: 0,
            news: Vec::new(),
        })
    }

    /// Starts the first interval and returns its start on `CLOCK_MONOTONIC`. Without this call, it starts
    /// when the probe is opened.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return the sums.
    pub fn start(&mut self) -> Maybe<u64> {
        // Waits before the start get no names: those of a day would delay it by seconds.
        (self.last_ns, _) = self.programs.drain()?;
        self.news.extend(self.programs.follow());
        self.seen = 0;
        self.calls_before = self.programs.calls();
        self.wakings_before = self.programs.wakings();
        self.meter.start(self.last_ns);
        Ok(self.last_ns)
    }

    /// Waits since the last reading, or since the probe was opened.
    ///
    /// The next interval starts where this one ends. The caller checks whether it missed a deadline.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return the sums.
    pub fn read(&mut self) -> Maybe<UserLockInterval> {
        let (until_ns, drained) = self.programs.drain()?;
        self.news.extend(self.programs.follow());
        self.cgroups.next_round();
        let from_ns = std::mem::replace(&mut self.last_ns, until_ns);
        self.symbols.next_round();
        let mut locks: Vec<UserLockSample> = drained.sums.into_iter().map(|sum| self.sample(sum)).collect();
        locks.sort_by_key(|l| std::cmp::Reverse(l.waits.ns_total));
        self.seen += locks.iter().map(|l| l.waits.count).sum::<u64>();
        let (cpus, lost) = (cpu_list::online_count(), drained.lost);
        Ok(UserLockInterval { from_ns, until_ns, cpus, missed_deadline: false, locks, lost })
    }

    /// Sentences on what changed since the last call, such as a control group that was created anew.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// Measures the cost per call with bursts of waits for one lock and of other system calls (some 100 ms),
    /// unless that was done before; needs the same rights as opening the probe.
    pub fn measure_cost(&mut self) {
        self.meter.measure(programs::ns_of_calls);
    }

    /// Cost of watching since the start; measures now if [`Self::measure_cost`] was not called before.
    ///
    /// # Errors
    ///
    /// Missing if the kernel's run statistics are unavailable.
    pub fn cost(&mut self) -> Maybe<Cost> {
        self.measure_cost();
        let others = self.programs.calls().saturating_sub(self.calls_before + self.seen);
        let wakings = self.programs.wakings().saturating_sub(self.wakings_before);
        self.meter.cost([self.seen, others, wakings])
    }

    fn sample(&mut self, sum: programs::Sum) -> UserLockSample {
        let cgroup = (sum.cgroup != 0).then(|| self.cgroups.name(sum.cgroup));
        UserLockSample { cgroup, ..self.without_cgroup(sum) }
    }

    fn without_cgroup(&mut self, sum: programs::Sum) -> UserLockSample {
        if sum.is_outside {
            let why = Missing::because("its process is outside of this PID namespace");
            return sample_of(sum, calls::CallSite::missing(&why), Err(why));
        }
        self.symbols.meet(sum.pid);
        let reached = match &sum.stack {
            Ok(stack) => calls::reached(&mut self.symbols, sum.pid, stack),
            Err(why) => calls::CallSite::missing(why),
        };
        let mut reached = reached;
        if programs::is_priority_inheriting(sum.op) {
            reached.kind = UserLockKind::Mutex;
        }
        let waker = sum.waker.as_ref().map_err(Clone::clone).map(|waker| {
            let Ok(stack) = &waker.stack else { return waker.name.clone() };
            let woke = calls::reached(&mut self.symbols, sum.pid, stack);
            // The waiter's stack may show no name; the waker's usually does: `sem_post`.
            if reached.kind == UserLockKind::Other {
                reached.kind = woke.kind;
            }
            woke.caller.map_or_else(|_| waker.name.clone(), |from| format!("{} in {from}", waker.name))
        });
        sample_of(sum, reached, waker)
    }
}

fn sample_of(sum: programs::Sum, reached: calls::CallSite, waker: Maybe<String>) -> UserLockSample {
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
