//! Cost of the generator itself, and its time without a CPU.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sched::sched_getaffinity;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};
use record::clock::Clock;

/// CPU time and switches of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) user_us: i64,
    pub(crate) system_us: i64,
    pub(crate) switches: i64,
    /// Switches that the thread did not ask for.
    pub(crate) preemptions: i64,
}

impl Usage {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            user_us: self.user_us - before.user_us,
            system_us: self.system_us - before.system_us,
            switches: self.switches - before.switches,
            preemptions: self.preemptions - before.preemptions,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.switches += other.switches;
        self.preemptions += other.preemptions;
    }
}

/// Raises the limit of open files for `connections` connections by `threads` threads; the error says what to
/// do.
///
/// A process may raise its soft limit up to the hard limit.
pub(crate) fn may_open(connections: u32, threads: u32) -> Result<(), String> {
    // Each thread reads its account of waits.
    let needed = u64::from(connections) + u64::from(threads) + OTHER_FILES;
    let limits = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|e| format!("cannot read the limit of open files: {e}"))?;
    let (soft, hard) = limits;
    if connections == 0 || soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(format!(
            "{connections} connections need {needed} open files, but the hard limit is {hard}: raise it \
             (`ulimit -Hn {needed}` as root, or nofile in /etc/security/limits.conf)"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
        .map_err(|e| format!("cannot raise the limit of open files: {e}"))
}

/// Open files beside the connections: the archive's, the instruments', two for each thread.
const OTHER_FILES: u64 = 1_024;

/// CPU time and switches of the calling thread so far.
pub(crate) fn thread_usage() -> Option<Usage> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    let preemptions = usage.involuntary_context_switches();
    Some(Usage {
        user_us: usage.user_time().num_microseconds(),
        system_us: usage.system_time().num_microseconds(),
        switches: usage.voluntary_context_switches() + preemptions,
        preemptions,
    })
}

/// CPU time of the calling thread, to the nanosecond.
pub(crate) fn thread_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

/// Each worker thread's time in the run queue and on a CPU, since the thread began.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunQueueWaits {
    /// Beginning of the reading: reading a thousand threads takes a while.
    pub(crate) from_ns: u64,
    /// End of the reading.
    pub(crate) until_ns: u64,
    /// One for each worker; `None` if the kernel does not count it.
    pub(crate) of_each: Vec<Option<Scheduled>>,
    /// The CPUs that they share; `None` if the kernel does not report their idle time.
    pub(crate) cpus: Option<AllowedCpus>,
}

/// The workers' part of the CPUs on which they may run, over a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuShare {
    pub(crate) cpus: u32,
    /// Share of the CPUs' time that the workers used.
    pub(crate) used_ratio: f64,
    /// Share of it in which the CPUs were idle.
    pub(crate) idle_ratio: f64,
}

/// The kernel's account of one thread.
///
/// # Source
///
/// `/proc/PID/task/TID/schedstat`, first and second field: Documentation/scheduler/sched-stats.rst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scheduled {
    pub(crate) on_cpu_ns: u64,
    /// Time runnable without running.
    pub(crate) waited_ns: u64,
}

impl RunQueueWaits {
    /// Reads all accounts now.
    ///
    /// - `threads`: each worker's thread, and its account if it has ended.
    /// - `bound`: the CPUs that they are bound to.
    pub(crate) fn read<'a>(
        threads: impl Iterator<Item = (i32, &'a OnceLock<Option<Scheduled>>)>,
        bound: Option<&[u32]>,
        clock: &dyn Clock,
    ) -> Self {
        let from_ns = clock.now_ns();
        let of_each = threads.map(|(thread, at_its_end)| account(at_its_end, || scheduled(thread))).collect();
        let until_ns = clock.now_ns();
        Self { from_ns, until_ns, of_each, cpus: allowed_cpus(bound) }
    }

    /// The workers' part of their CPUs since `before` was read; `None` if an account is unknown.
    pub(crate) fn share_since(&self, before: &Self) -> Option<CpuShare> {
        let (cpus, cpus_before) = (self.cpus?, before.cpus?);
        let used_s = self.on_cpu_since(before)?.iter().sum::<u64>() as f64 / 1e9;
        let all_s = self.between_s(before) * f64::from(cpus.count);
        (all_s > 0.0).then(|| CpuShare {
            cpus: cpus.count,
            used_ratio: used_s / all_s,
            idle_ratio: (cpus.idle_s - cpus_before.idle_s).max(0.0) / all_s,
        })
    }

    /// Time that each worker waited for a CPU since `before` was read; `None` if any account is unknown. A
    /// wait is at most the time from the beginning of the one reading to the end of the other.
    pub(crate) fn since(&self, before: &Self) -> Option<Vec<u64>> {
        self.differences(before, |s| s.waited_ns)
    }

    /// Time that each worker was on a CPU since `before` was read; `None` if any account is unknown.
    pub(crate) fn on_cpu_since(&self, before: &Self) -> Option<Vec<u64>> {
        self.differences(before, |s| s.on_cpu_ns)
    }

    fn differences(&self, before: &Self, of: impl Fn(&Scheduled) -> u64) -> Option<Vec<u64>> {
        let pairs = before.of_each.iter().zip(&self.of_each);
        pairs.map(|(b, a)| Some(of(a.as_ref()?).saturating_sub(of(b.as_ref()?)))).collect()
    }

    /// Time from the beginning of the one reading to the end of the other.
    pub(crate) fn between_s(&self, before: &Self) -> f64 {
        self.until_ns.saturating_sub(before.from_ns) as f64 / 1e9
    }
}

/// The account of a thread that may end meanwhile: the one it left at its end, or the present one, `now`.
fn account(
    at_its_end: &OnceLock<Option<Scheduled>>,
    now: impl FnOnce() -> Option<Scheduled>,
) -> Option<Scheduled> {
    // A thread leaves its account before it ends, so if `now` fails, the account is there.
    let left = || at_its_end.get().copied();
    left().unwrap_or_else(|| now().or_else(|| left().flatten()))
}

/// The account of one thread of this process; `None` if the kernel has none.
pub(crate) fn scheduled(thread_id: i32) -> Option<Scheduled> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    Some(Scheduled { on_cpu_ns: fields.next()??, waited_ns: fields.next()?? })
}

/// The kernel's account of the thread that opened it. It stays open: a reading is then one call.
#[derive(Debug)]
pub(crate) struct OwnAccount(Option<fs::File>);

impl OwnAccount {
    pub(crate) fn open() -> Self {
        Self(fs::File::open("/proc/thread-self/schedstat").ok())
    }

    /// Time for which the thread was runnable and did not run; `None` if the kernel does not count it.
    ///
    /// Allocates nothing.
    pub(crate) fn waited_ns(&self) -> Option<u64> {
        let mut room = [0; 128];
        let bytes = self.0.as_ref()?.read_at(&mut room, 0).ok()?;
        let mut fields = std::str::from_utf8(&room[..bytes]).ok()?.split_ascii_whitespace();
        fields.nth(1)?.parse().ok()
    }
}

/// The CPUs on which the workers may run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AllowedCpus {
    pub(crate) count: u32,
    /// Idle time of these CPUs since the machine started.
    pub(crate) idle_s: f64,
}

/// Idle time of all CPUs on which this process may run; `None` if the kernel does not report it.
pub(crate) fn idle_s() -> Option<f64> {
    allowed_cpus(None).map(|cpus| cpus.idle_s)
}

/// The CPUs on which the workers may run; `None` if the kernel does not report their idle time.
///
/// - `bound`: those that they are bound to; `None`: all on which this process may run.
///
/// # Source
///
/// `/proc/stat`, fields 4 and 5 of each CPU, in ticks: proc(5).
pub(crate) fn allowed_cpus(bound: Option<&[u32]>) -> Option<AllowedCpus> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let may_use = |cpu: usize| match bound {
        Some(cpus) => cpus.iter().any(|of| *of as usize == cpu),
        None => allowed.is_set(cpu).unwrap_or(false),
    };
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok()?? as f64;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let idle_ticks = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu: usize = fields.next()?.parse().ok()?;
        let is_ours = line.starts_with(&format!("cpu{cpu}")) && may_use(cpu);
        let ticks: u64 = fields.skip(3).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        is_ours.then_some(ticks)
    };
    let of_each = text.lines().filter_map(idle_ticks);
    let (count, ticks) = of_each.fold((0, 0), |(count, all), ticks| (count + 1, all + ticks));
    (count > 0).then(|| AllowedCpus { count, idle_s: ticks as f64 / ticks_per_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_differences_and_an_unknown_one_leaves_them_open() {
        let waits = |of_each_ns: &[Option<u64>]| {
            let account = |waited_ns| Scheduled { on_cpu_ns: 2 * waited_ns, waited_ns };
            let of_each = of_each_ns.iter().map(|waited_ns| waited_ns.map(account)).collect();
            RunQueueWaits { of_each, ..RunQueueWaits::default() }
        };
        let before = waits(&[Some(1_000_000_000), Some(0)]);
        let after = waits(&[Some(1_500_000_000), Some(200_000_000)]);
        assert_eq!(after.since(&before), Some(vec![500_000_000, 200_000_000]));
        assert_eq!(after.on_cpu_since(&before), Some(vec![1_000_000_000, 400_000_000]));
        assert_eq!(waits(&[Some(1_500_000_000), None]).since(&before), None);
    }

    #[test]
    fn all_workers_share_their_cpus() {
        let at = |ns: u64, idle_s: f64| RunQueueWaits {
            from_ns: 2 * ns,
            until_ns: 2 * ns,
            of_each: vec![Some(Scheduled { on_cpu_ns: ns, waited_ns: 0 }); 3],
            cpus: Some(AllowedCpus { count: 2, idle_s }),
        };
        let share = at(5_000_000_000, 8.0).share_since(&at(3_000_000_000, 7.0));
        assert_eq!(share, Some(CpuShare { cpus: 2, used_ratio: 0.75, idle_ratio: 0.125 }));
        let unknown = RunQueueWaits { cpus: None, ..at(5_000_000_000, 8.0) };
        assert_eq!(unknown.share_since(&at(3_000_000_000, 7.0)), None);
        let (all, one) = (allowed_cpus(None).unwrap(), allowed_cpus(Some(&[0])).unwrap());
        assert!(one.count == 1 && all.count >= 1 && one.idle_s >= 0.0);
        assert_eq!(allowed_cpus(Some(&[])), None);
    }

    #[test]
    fn a_thread_that_ends_while_it_is_looked_at_has_an_account() {
        let (left, own) = (OnceLock::new(), Scheduled { on_cpu_ns: 7, waited_ns: 3 });
        let gone = || {
            left.set(Some(own)).unwrap();
            None
        };
        assert_eq!(account(&left, gone), Some(own));
        assert_eq!(account(&left, || unreachable!("it has ended")), Some(own));
        assert_eq!(account(&OnceLock::new(), || None), None, "a kernel without accounts");
    }

    #[test]
    fn a_thread_knows_its_own_wait_for_a_cpu() {
        let account = OwnAccount::open();
        let Some(before) = account.waited_ns() else { return };
        let own = scheduled(nix::unistd::gettid().as_raw()).unwrap().waited_ns;
        // Each reading is a new one.
        assert!(before <= own && own <= account.waited_ns().unwrap());
    }

    #[test]
    fn idle_time_does_not_fall() {
        let before = idle_s().unwrap();
        assert!(before > 0.0 && idle_s().unwrap() >= before);
    }

    #[test]
    fn a_thread_that_burns_cpu_sees_it_in_its_usage() {
        let before = thread_usage().unwrap();
        let mut random = crate::schedule::random::Random::of(1, 1);
        let burnt = || thread_usage().unwrap().since(&before);
        while burnt().user_us + burnt().system_us < 20_000 {
            // Mostly user time: asking the kernel would be system time.
            for _ in 0..10_000 {
                std::hint::black_box(random.bits());
            }
        }
        assert!(burnt().user_us > 0);
    }
}
