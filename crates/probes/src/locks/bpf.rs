//! The probe with BPF: the sums of the kernel's side, with names.

mod form;
mod programs;

use record::clock::{Clock, Monotonic};
use record::locks::{LockInterval, LockSample};
use record::missing::{Maybe, Missing};

use self::form::kind;
use super::{Options, Refused};
use crate::cgroups;
use crate::cost::{Cost, Meter};
use crate::cpu_list;
use crate::kernel_symbols::KernelSymbols;

pub(crate) use self::form::waits;
#[cfg(test)]
pub(crate) use self::programs::kernel_memory;

/// Watches the locks from [`super::open`] on.
#[derive(Debug)]
pub struct LockProbe {
    programs: programs::Bpf,
    cgroups: cgroups::Names,
    symbols: Maybe<KernelSymbols>,
    meter: Meter<1>,
    last_ns: u64,
    seen: u64,
    news: Vec<String>,
}

impl LockProbe {
    /// Attaches the programs.
    pub(super) fn open(options: &Options) -> Result<Self, Refused> {
        let symbols = KernelSymbols::read(std::path::Path::new("/"));
        let programs = programs::Bpf::open(options).map_err(Refused::because)?;
        Ok(Self {
            programs,
            cgroups: cgroups::Names::default(),
            symbols,
            meter: Meter::new(["a wait"]),
            last_ns: Monotonic.now_ns(),
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
    pub fn read(&mut self) -> Maybe<LockInterval> {
        let (until_ns, drained) = self.programs.drain()?;
        self.news.extend(self.programs.follow());
        self.cgroups.next_round();
        let from_ns = std::mem::replace(&mut self.last_ns, until_ns);
        let mut locks: Vec<LockSample> = drained.sums.iter().map(|sum| self.sample(sum)).collect();
        locks.sort_by_key(|l| std::cmp::Reverse(l.waits.ns_total));
        self.seen += locks.iter().map(|l| l.waits.count).sum::<u64>();
        let cpus = cpu_list::online_count();
        let lost = drained.lost;
        Ok(LockInterval { from_ns, until_ns, cpus, missed_deadline: false, locks, lost })
    }

    /// Sentences on what changed since the last call, such as a control group that was created anew.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// Measures the cost per wait with a burst of waits for one lock (some 50 ms), unless that was done
    /// before; needs the same rights as opening the probe.
    pub fn measure_cost(&mut self) {
        self.meter.measure(|| Ok([programs::ns_per_wait()?]));
    }

    /// Cost of watching since the start; measures now if [`Self::measure_cost`] was not called before.
    ///
    /// # Errors
    ///
    /// Missing if the kernel's run statistics are unavailable.
    pub fn cost(&mut self) -> Maybe<Cost> {
        self.measure_cost();
        self.meter.cost([self.seen])
    }

    fn sample(&mut self, sum: &programs::Sum) -> LockSample {
        let kind = kind(sum.flags);
        let stack = match (&self.symbols, &sum.frames) {
            (Ok(symbols), Ok(frames)) => Ok(symbols.callers(frames)),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        let name = match (sum.role, &self.symbols) {
            (Some(role), _) => Ok(role.to_owned()),
            (None, Ok(symbols)) => symbols.variable(sum.lock).ok_or_else(|| {
                Missing::because(
                    "no symbol covers its address: it was allocated, or the kernel has no names of variables",
                )
            }),
            (None, Err(why)) => Err(why.clone()),
        };
        let caller = stack.as_ref().map_err(Clone::clone).and_then(|stack| {
            stack.first().cloned().ok_or_else(|| Missing::because("its stack has only locking functions"))
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
