//! CPU time over an interval, by events and by ticks, side by side.

use std::collections::BTreeMap;

use crate::missing::{Maybe, Missing};
use crate::run::words;

/// Source of the CPU times. Every result names it, because the sources can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// An eBPF program on every context switch.
    Bpf,
    /// The kernel's context-switch records, by `perf_event_open`.
    Perf,
    /// `/proc/stat` alone: busy is all time that is not idle.
    Proc,
}

words!(Rung { Bpf = "bpf", Perf = "perf", Proc = "proc" });

/// The thread that ran most on a CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct TopThread {
    /// Process id (thread group).
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name, at most 15 bytes.
    pub comm: String,
    /// Share of the interval on that CPU.
    pub ratio: f64,
}

/// One CPU over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuSample {
    /// The kernel's number of the CPU.
    pub cpu: u32,
    /// Share of wall time in which a task other than idle or an interrupt had the CPU, by events.
    pub event_ratio: Maybe<f64>,
    /// The part of it in interrupt handlers.
    pub irq_ratio: Maybe<f64>,
    /// The part of it in softirqs, including those that run in the kernel threads `ksoftirqd`.
    pub softirq_ratio: Maybe<f64>,
    /// Total time that threads waited for this CPU before they got it; a wait counts when it ends.
    pub run_queue_wait_ns: Maybe<u64>,
    /// Share of ticks that interrupted a task: the figure that most systems report.
    pub tick_before_ratio: Maybe<f64>,
    /// Share of ticks after which a task was runnable.
    pub tick_after_ratio: Maybe<f64>,
    /// Share of phase-free samples that found a task running.
    pub sampled_ratio: Maybe<f64>,
    /// Busy share by `/proc/stat`: busy ticks over all ticks booked.
    pub procstat_busy_ratio: Maybe<f64>,
    /// 1 - (everything that `/proc/stat` booked) / wall: the lie detector. Negative if more was booked than
    /// elapsed.
    pub unaccounted_ratio: Maybe<f64>,
    /// 1 - (idle + iowait by `/proc/stat`) / wall: the busy share that needs no root.
    pub not_idle_ratio: Maybe<f64>,
    /// Share of wall time that the hypervisor gave to other guests, by `/proc/stat`. By events this time
    /// belongs to the task that had the CPU.
    pub stolen_ratio: Maybe<f64>,
    /// Clock cycles while the CPU was not halted.
    pub cycles: Maybe<u64>,
    /// Retired instructions.
    pub instructions: Maybe<u64>,
    /// busy + idle - wall by events: 0 if the times add up.
    pub balance_ns: Maybe<i64>,
    /// Context switches.
    pub switches: Maybe<u64>,
    /// Thread that ran most.
    pub top: Maybe<TopThread>,
}

impl CpuSample {
    /// Sample without values, to be filled: every value is missing because of `reason`.
    pub fn without_values(cpu: u32, reason: &str) -> Self {
        let why = Missing::because(reason);
        Self {
            cpu,
            event_ratio: Err(why.clone()),
            irq_ratio: Err(why.clone()),
            softirq_ratio: Err(why.clone()),
            run_queue_wait_ns: Err(why.clone()),
            tick_before_ratio: Err(why.clone()),
            tick_after_ratio: Err(why.clone()),
            sampled_ratio: Err(why.clone()),
            procstat_busy_ratio: Err(why.clone()),
            unaccounted_ratio: Err(why.clone()),
            not_idle_ratio: Err(why.clone()),
            stolen_ratio: Err(why.clone()),
            cycles: Err(why.clone()),
            instructions: Err(why.clone()),
            balance_ns: Err(why.clone()),
            switches: Err(why.clone()),
            top: Err(why),
        }
    }

    /// Best available estimate of the busy share: by events, else the share that was not idle.
    ///
    /// # Errors
    ///
    /// The reason that neither is available.
    pub fn busy_ratio(&self) -> Maybe<f64> {
        self.event_ratio.clone().or_else(|_| self.not_idle_ratio.clone())
    }

    /// Whether the CPU was saturated: busy for 99 % of the interval or more.
    pub fn saturated(&self) -> bool {
        self.busy_ratio().is_ok_and(|r| r >= SATURATED_RATIO)
    }

    /// Mean number of threads that waited for the CPU over an interval of `seconds`.
    ///
    /// # Errors
    ///
    /// The reason that waits were not measured.
    pub fn waiting(&self, seconds: f64) -> Maybe<f64> {
        Ok(self.run_queue_wait_ns.clone()? as f64 * 1e-9 / seconds)
    }

    /// Share of interrupt handlers and softirqs.
    ///
    /// # Errors
    ///
    /// The reason that interrupts were not timed.
    pub fn interrupts_ratio(&self) -> Maybe<f64> {
        Ok(self.irq_ratio.clone()? + self.softirq_ratio.clone()?)
    }

    /// Whether work had to wait for the CPU: [`FULL_WAITING`] threads or more on average, or the CPU was
    /// saturated and spent [`FULL_INTERRUPTS_RATIO`] or more in interrupts and softirqs. A CPU that one
    /// thread keeps busy is saturated but not full; a CPU that many short tasks want at once can be full
    /// below 99 %.
    ///
    /// # Errors
    ///
    /// The reason that waits were not measured.
    pub fn full(&self, seconds: f64) -> Maybe<bool> {
        // Interrupts and softirqs keep threads and each other off the CPU, and no thread's wait shows that:
        // packets wait in the network stack.
        if self.saturated() && self.interrupts_ratio().is_ok_and(|r| r >= FULL_INTERRUPTS_RATIO) {
            return Ok(true);
        }
        Ok(self.waiting(seconds)? >= FULL_WAITING)
    }
}

/// Largest accepted difference of busy + idle and wall time on one CPU, over up to ten seconds.
pub const IMBALANCE_NS_MAX: f64 = 1e6;

/// One thread over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSample {
    /// Process id (thread group).
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name, at most 15 bytes.
    pub comm: String,
    /// Path of its cgroup v2 when the interval was read or the thread ended.
    pub cgroup: Maybe<String>,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// The part of it in which no sibling of its core was busy; all of it if the core has one CPU.
    pub alone_ns: u64,
    /// The part of it in which at least one sibling was busy: the rest.
    pub sibling_busy_ns: u64,
    /// Time on a CPU, divided at each moment by the number of busy CPUs of its core.
    pub core_share_ns: u64,
    /// Number of times that it left a CPU.
    pub stints: u64,
    /// Time in which interrupts had its CPU; not part of the times above.
    pub interrupted_ns: u64,
    /// Time for which it was runnable and waited for a CPU.
    pub wait_ns: Maybe<u64>,
    /// The part of its time in user mode, by ticks.
    pub user_ns: Maybe<u64>,
    /// The part of its time in the kernel, by ticks.
    pub system_ns: Maybe<u64>,
    /// Whether it ended in this interval.
    pub ended: bool,
}

/// The threads of one control group over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupSample {
    /// Path; missing for threads of an unknown cgroup.
    pub cgroup: Maybe<String>,
    /// Time of its threads on a CPU.
    pub on_cpu_ns: u64,
    /// Time for which its threads were runnable and waited for a CPU.
    pub wait_ns: Maybe<u64>,
    /// Time in which interrupts had the CPUs of its threads; not part of the time above.
    pub interrupted_ns: u64,
    /// Number of times that its threads left a CPU.
    pub stints: u64,
    /// Number of its threads with any of these times.
    pub threads: u64,
}

impl CgroupSample {
    /// Adds the times and counts of another group.
    pub fn add(&mut self, other: &Self) {
        self.on_cpu_ns += other.on_cpu_ns;
        self.wait_ns = self.wait_ns.clone().and_then(|ns| Ok(ns + other.wait_ns.clone()?));
        self.interrupted_ns += other.interrupted_ns;
        self.stints += other.stints;
        self.threads += other.threads;
    }
}

/// Sums over threads by cgroup, most time first. Every thread is in exactly one group, so the groups add up
/// to all threads.
pub fn by_cgroup(tasks: &[TaskSample]) -> Vec<CgroupSample> {
    let mut groups: BTreeMap<Option<&str>, CgroupSample> = BTreeMap::new();
    for task in tasks {
        let fresh = || CgroupSample {
            cgroup: task.cgroup.clone(),
            on_cpu_ns: 0,
            wait_ns: Ok(0),
            interrupted_ns: 0,
            stints: 0,
            threads: 0,
        };
        let of_task = CgroupSample {
            on_cpu_ns: task.on_cpu_ns,
            wait_ns: task.wait_ns.clone(),
            interrupted_ns: task.interrupted_ns,
            stints: task.stints,
            threads: 1,
            ..fresh()
        };
        groups.entry(task.cgroup.as_deref().ok()).or_insert_with(fresh).add(&of_task);
    }
    let mut groups: Vec<CgroupSample> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.on_cpu_ns));
    groups
}

/// One kind of interrupt on one CPU over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptSample {
    /// The kernel's number of the CPU.
    pub cpu: u32,
    /// Kernel name of the softirq, or `device`, `timer`, `call` and `work` for interrupts.
    pub kind: &'static str,
    /// Time in it.
    pub ns: u64,
}

/// Mean number of waiting threads from which a CPU counts as full.
pub const FULL_WAITING: f64 = 0.5;

/// Share of interrupts and softirqs from which a saturated CPU counts as full.
pub const FULL_INTERRUPTS_RATIO: f64 = 0.5;

/// Busy share from which a CPU counts as saturated.
pub const SATURATED_RATIO: f64 = 0.99;

/// All CPUs over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`; the interval's length is measured, never assumed.
    pub until_ns: u64,
    /// Source of the CPU times.
    pub rung: Rung,
    /// Whether the reader was so late that it missed a deadline.
    pub missed_deadline: bool,
    /// The CPUs that were online, by number.
    pub cpus: Vec<CpuSample>,
    /// Share of time in which at least one thread of the machine waited for a CPU, by `/proc/pressure/cpu`.
    pub psi_some_ratio: Maybe<f64>,
    /// Number of events by reason that were lost or not shown, and the times that follow from it
    /// ([`UNSURE_NS`], [`UNOWNED_NS`]); empty if none.
    pub lost: BTreeMap<String, u64>,
}

/// Entry of [`CpuInterval::lost`] that is a time, not a number of events: time, over all CPUs, that may be
/// booked as busy instead of idle or as idle instead of busy.
pub const UNSURE_NS: &str = "unsure-ns";

/// Entry of [`CpuInterval::lost`]: time, over all CPUs, that is booked as busy but to no thread, because the
/// kernel did not show which thread had it.
pub const UNOWNED_NS: &str = "unowned-ns";

/// Entry of [`CpuInterval::lost`]: context switches that the kernel did not show, at least. No record of them
/// was lost.
pub const SWITCHES_UNSEEN: &str = "switch-unseen";

/// Entry of [`CpuInterval::lost`]: records of context switches for which the kernel had no room.
pub const RECORDS_LOST: &str = "switch-record";

impl CpuInterval {
    /// Events that were lost, by reason; without switches that the kernel did not show.
    pub fn events_lost(&self) -> impl Iterator<Item = (&str, u64)> {
        let is_lost = |reason: &str| ![UNSURE_NS, UNOWNED_NS, SWITCHES_UNSEEN].contains(&reason);
        let counts = self.lost.iter().map(|(reason, n)| (reason.as_str(), *n));
        counts.filter(move |(reason, n)| *n > 0 && is_lost(reason))
    }

    /// Number of context switches that the kernel did not show, at least.
    pub fn switches_unseen(&self) -> u64 {
        self.lost.get(SWITCHES_UNSEEN).copied().unwrap_or(0)
    }

    /// Share of the time of all CPUs that may be booked wrongly as busy or idle because events were lost or
    /// not shown.
    pub fn unsure_ratio(&self) -> f64 {
        let ns = self.lost.get(UNSURE_NS).copied().unwrap_or(0);
        ns as f64 * 1e-9 / (self.seconds() * self.cpus.len().max(1) as f64)
    }

    /// Possible error of the sums over threads (alone, sibling busy, core share), as a share of busy time.
    /// Time of unknown threads is in none of these sums, and the clocks of a core continue through it.
    pub fn tasks_unsure_ratio(&self) -> f64 {
        let ns: u64 = [UNSURE_NS, UNOWNED_NS].iter().filter_map(|reason| self.lost.get(*reason)).sum();
        let busy: f64 = self.cpus.iter().filter_map(|c| c.event_ratio.as_ref().ok()).sum();
        let busy_s = busy * self.seconds();
        if busy_s > 0.0 { ns as f64 * 1e-9 / busy_s } else { 0.0 }
    }

    /// Length of the interval in seconds.
    pub fn seconds(&self) -> f64 {
        (self.until_ns - self.from_ns) as f64 * 1e-9
    }

    /// CPUs with busy + idle off from wall time by more than [`IMBALANCE_NS_MAX`] per ten seconds, or in all
    /// if the interval is shorter; and by how much.
    pub fn imbalances(&self) -> impl Iterator<Item = (u32, i64)> {
        let limit_ns = IMBALANCE_NS_MAX * (self.seconds() / 10.0).max(1.0);
        let balances = self.cpus.iter().filter_map(|s| Some((s.cpu, *s.balance_ns.as_ref().ok()?)));
        balances.filter(move |(_, ns)| ns.unsigned_abs() as f64 > limit_ns)
    }

    /// Mean over the CPUs of the value that `of` yields; missing if it is missing on any CPU.
    ///
    /// # Errors
    ///
    /// The reason on the first CPU without a value, or that there is no CPU.
    pub fn mean(&self, of: impl Fn(&CpuSample) -> Maybe<f64>) -> Maybe<f64> {
        let values: Vec<f64> = self.cpus.iter().map(of).collect::<Result<_, _>>()?;
        if values.is_empty() {
            return Err(crate::missing::Missing::because("no CPU was measured"));
        }
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(seconds: u64, balances: &[Maybe<i64>]) -> CpuInterval {
        let sample = |(cpu, balance): (u32, &Maybe<i64>)| CpuSample {
            balance_ns: balance.clone(),
            ..CpuSample::without_values(cpu, "nobody looked")
        };
        CpuInterval {
            from_ns: 0,
            until_ns: seconds * 1_000_000_000,
            rung: Rung::Bpf,
            missed_deadline: false,
            cpus: (0..).zip(balances).map(sample).collect(),
            psi_some_ratio: Err(Missing::because("nobody looked")),
            lost: BTreeMap::new(),
        }
    }

    #[test]
    fn a_cpu_that_interrupts_fill_is_full_without_a_waiting_thread() {
        let full = |busy, softirq, wait: Maybe<u64>| {
            let sample = CpuSample {
                event_ratio: Ok(busy),
                irq_ratio: Ok(0.01),
                softirq_ratio: Ok(softirq),
                run_queue_wait_ns: wait,
                ..CpuSample::without_values(1, "nobody looked")
            };
            sample.full(1.0)
        };
        let nobody = || Err(Missing::because("nobody looked"));
        assert_eq!(full(0.999, 0.98, Ok(0)), Ok(true));
        assert_eq!(full(0.999, 0.98, nobody()), Ok(true));
        // A thread fills most of it.
        assert_eq!(full(0.999, 0.3, Ok(0)), Ok(false));
        // There is room for more.
        assert_eq!(full(0.95, 0.93, Ok(0)), Ok(false));
        assert_eq!(full(0.95, 0.93, nobody()), Err(Missing::because("nobody looked")));
        assert_eq!(full(0.95, 0.0, Ok(500_000_000)), Ok(true));
    }

    #[test]
    fn books_may_be_off_by_a_millisecond_in_ten_seconds_and_no_more() {
        let found = |seconds, ns: &[i64]| -> Vec<(u32, i64)> {
            let balances: Vec<Maybe<i64>> = ns.iter().map(|n| Ok(*n)).collect();
            interval(seconds, &balances).imbalances().collect()
        };
        assert_eq!(found(1, &[0, -1_000_001, 1_000_000]), [(1, -1_000_001)]);
        assert_eq!(found(20, &[1_999_999, 2_000_001]), [(1, 2_000_001)]);
        assert_eq!(interval(1, &[Err(Missing::because("x"))]).imbalances().count(), 0);
    }
}
