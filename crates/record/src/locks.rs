//! Waits for locks of the kernel and of programs, and their duration.

use std::collections::BTreeMap;
use std::iter::Sum;

use crate::missing::{Maybe, Missing};
use crate::run::words;

/// Number and duration of waits for one lock. A wait counts in the interval in which it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits that ended.
    pub count: u64,
    /// Total time.
    pub ns_total: u64,
    /// Longest wait.
    pub ns_max: u64,
    /// Number of waits by duration: from each power of two (ns) to the next; the last bucket has no upper
    /// end.
    pub histogram: BTreeMap<u64, u64>,
}

impl Waits {
    /// Adds other waits.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.ns_total += other.ns_total;
        self.ns_max = self.ns_max.max(other.ns_max);
        for (from_ns, count) in &other.histogram {
            *self.histogram.entry(*from_ns).or_default() += count;
        }
    }

    /// Mean duration; 0 if there are no waits.
    pub fn ns_mean(&self) -> u64 {
        self.ns_total / self.count.max(1)
    }
}

impl<'a> Sum<&'a Self> for Waits {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, waits| {
            sum.add(waits);
            sum
        })
    }
}

/// Type of a kernel lock and mode of acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// Spins until the lock is free.
    Spinlock,
    /// Spins until no writer holds the lock.
    RwlockRead,
    /// Spins until no thread holds the lock.
    RwlockWrite,
    /// Spins for a while if its owner runs, then sleeps.
    Mutex,
    /// Sleeps until no writer holds it.
    RwsemRead,
    /// Sleeps until no thread holds the lock. The kernel does not report that writers spin first.
    RwsemWrite,
    /// A counting semaphore; sleeps.
    Semaphore,
    /// Sleeps; the owner inherits the waiter's priority.
    RtMutex,
    /// Reader's lock of a real-time kernel; sleeps.
    RtRwlockRead,
    /// Writer's lock of a real-time kernel; sleeps.
    RtRwlockWrite,
    /// Cheap for readers; they sleep while a writer holds the lock.
    PercpuRwsemRead,
    /// Cheap for readers, expensive for writers; writers sleep.
    PercpuRwsemWrite,
    /// Flags that are unknown to this version.
    Other,
}

words!(LockKind {
    Spinlock = "spinlock",
    RwlockRead = "rwlock-read",
    RwlockWrite = "rwlock-write",
    Mutex = "mutex",
    RwsemRead = "rwsem-read",
    RwsemWrite = "rwsem-write",
    Semaphore = "semaphore",
    RtMutex = "rt-mutex",
    RtRwlockRead = "rt-rwlock-read",
    RtRwlockWrite = "rt-rwlock-write",
    PercpuRwsemRead = "percpu-rwsem-read",
    PercpuRwsemWrite = "percpu-rwsem-write",
    Other = "other",
});

/// Waits for a kernel lock from one call site, over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct LockSample {
    /// Path of its waiters' cgroup v2, if the cgroup is a key.
    pub cgroup: Option<String>,
    /// Type of the lock and mode of acquisition.
    pub kind: LockKind,
    /// Address.
    pub address: u64,
    /// Name: a symbol if the lock is static, `mmap_lock` or `siglock` of the waiting process.
    ///
    /// Missing for an allocated lock, as most are: then the caller shows what the lock protects.
    pub name: Maybe<String>,
    /// Function that acquired the lock, without the locking functions themselves.
    pub caller: Maybe<String>,
    /// Call stack, from `caller` outward.
    pub stack: Vec<String>,
    /// The waits, spinning and sleeping.
    pub waits: Waits,
    /// The part of their time that was spun: CPU time without progress.
    pub spin_ns_total: u64,
}

/// All kernel locks over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct LockInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`.
    pub until_ns: u64,
    /// CPUs that were online at the end.
    pub cpus: usize,
    /// Whether the reader was so late that it missed a deadline.
    pub missed_deadline: bool,
    /// One entry for each kind, lock and stack; most time first.
    pub locks: Vec<LockSample>,
    /// Waits that are missing above, by reason. If not empty, the numbers are lower bounds.
    pub lost: BTreeMap<String, u64>,
}

impl LockInterval {
    /// Waits and spun time of all locks together.
    pub fn total(&self) -> (Waits, u64) {
        (self.locks.iter().map(|l| &l.waits).sum(), self.locks.iter().map(|l| l.spin_ns_total).sum())
    }

    /// Merges entries of the same kind, lock and caller, with any stack.
    ///
    /// Locks with one name are merged: `mmap_lock` stands for that of every process.
    #[must_use]
    pub fn by_caller(&self) -> Self {
        let mut merged: Vec<LockSample> = Vec::new();
        let mut places = BTreeMap::new();
        for lock in &self.locks {
            let caller = lock.caller.as_deref().unwrap_or_default();
            let (name, address) = lock.name.as_deref().map_or(("", lock.address), |name| (name, 0));
            let place =
                *places.entry((lock.kind, name, address, caller, &lock.cgroup)).or_insert(merged.len());
            match merged.get_mut(place) {
                Some(known) => {
                    known.waits.add(&lock.waits);
                    known.spin_ns_total += lock.spin_ns_total;
                }
                None => merged.push(lock.clone()),
            }
        }
        merged.sort_by_key(|l| std::cmp::Reverse(l.waits.ns_total));
        Self { locks: merged, ..self.clone() }
    }

    /// Merges all but the first `most` locks into one entry.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        let Some(rest) = split_off(&mut self.locks, most) else { return self };
        let together = || Err(Missing::because(format!("{} locks together", rest.len())));
        self.locks.push(LockSample {
            cgroup: None,
            kind: LockKind::Other,
            address: 0,
            name: together(),
            caller: together(),
            stack: Vec::new(),
            waits: rest.iter().map(|l| &l.waits).sum(),
            spin_ns_total: rest.iter().map(|l| l.spin_ns_total).sum(),
        });
        self
    }
}

/// Methods of both types of lock intervals.
macro_rules! interval_of_locks {
    ($interval:ident) => {
        impl $interval {
            /// Length of the interval in seconds.
            pub fn seconds(&self) -> f64 {
                (self.until_ns - self.from_ns) as f64 * 1e-9
            }

            /// Share of the time of all CPUs for a spin time of `spin_ns`.
            pub fn cpu_util_ratio(&self, spin_ns: u64) -> f64 {
                spin_ns as f64 * 1e-9 / (self.seconds() * self.cpus.max(1) as f64)
            }

            /// Joins several intervals, by caller; `None` without intervals.
            pub fn joined(intervals: &[Self]) -> Option<Self> {
                let (first, last) = (intervals.first()?, intervals.last()?);
                let whole = Self {
                    from_ns: first.from_ns,
                    missed_deadline: intervals.iter().any(|i| i.missed_deadline),
                    locks: intervals.iter().flat_map(|i| i.locks.iter().cloned()).collect(),
                    lost: lost_of_all(intervals.iter().map(|i| &i.lost)),
                    ..last.clone()
                };
                Some(whole.by_caller())
            }
        }
    };
}

interval_of_locks!(LockInterval);
interval_of_locks!(UserLockInterval);

/// Splits off all after the first `most`, if they are more than one.
fn split_off<T>(all: &mut Vec<T>, most: usize) -> Option<Vec<T>> {
    (all.len() > most + 1).then(|| {
        let rest = all.split_off(most);
        // Intervals stay in memory for long: free the capacity of the removed entries.
        all.shrink_to(most + 1);
        rest
    })
}

/// Sum of both, if both are known.
fn sum_of(a: &Maybe<u64>, b: &Maybe<u64>) -> Maybe<u64> {
    [a, b].into_iter().cloned().sum()
}

fn lost_of_all<'a>(all: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (reason, n) in all.flatten() {
        *sum.entry(reason.clone()).or_default() += n;
    }
    sum
}

/// Type of a program's lock, as far as its call shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UserLockKind {
    /// Mutual exclusion: another thread holds the lock.
    Mutex,
    /// Condition variable: a wait indicates idleness more often than contention.
    Condvar,
    /// A counting semaphore.
    Semaphore,
    /// Any other wait on a futex: a joined thread, a barrier, a runtime's own lock.
    Other,
}

words!(UserLockKind { Mutex = "mutex", Condvar = "condvar", Semaphore = "semaphore", Other = "other" });

/// Waits for a lock of a program from one call site, over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct UserLockSample {
    /// Path of its waiters' cgroup v2, if the cgroup is a key.
    pub cgroup: Option<String>,
    /// Process of the lock.
    pub pid: u32,
    /// Name of a thread that waited for it, at most 15 bytes.
    pub comm: String,
    /// Address in the process.
    pub address: u64,
    /// Type of the lock.
    pub kind: UserLockKind,
    /// Function of the thread library that waited: `pthread_cond_wait`.
    pub call: Maybe<String>,
    /// Function of the program that called it.
    pub caller: Maybe<String>,
    /// Call stack, from the futex call outward.
    pub stack: Vec<String>,
    /// Thread that last woke the waiters, as `comm/thread`, and its location.
    pub waker: Maybe<String>,
    /// Waits that slept or tried to sleep.
    pub waits: Waits,
    /// The part of their time that was spun: waits in which the thread did not leave its CPU, mostly because
    /// the lock had changed before it slept. Spinning in the program before the call is not measured. Missing
    /// in runs of earlier versions.
    pub spin_ns_total: Maybe<u64>,
    /// Waits that found the lock changed and did not sleep.
    pub not_slept: u64,
    /// Waits that ended by timeout.
    pub timed_out: u64,
}

impl UserLockSample {
    /// Whether idleness is a more likely cause of the waits than contention: the lock is a condition
    /// variable, or most waits ended by timeout.
    pub fn is_likely_idleness(&self) -> bool {
        self.kind == UserLockKind::Condvar || 2 * self.timed_out > self.waits.count
    }
}

/// All locks of programs over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct UserLockInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`.
    pub until_ns: u64,
    /// CPUs that were online at the end.
    pub cpus: usize,
    /// Whether the reader was so late that it missed a deadline.
    pub missed_deadline: bool,
    /// One entry for each process, lock and stack; most time first.
    pub locks: Vec<UserLockSample>,
    /// Waits that are missing above, by reason. If not empty, the numbers are lower bounds.
    pub lost: BTreeMap<String, u64>,
}

impl UserLockInterval {
    /// Waits and spun time of all locks together.
    pub fn total(&self) -> (Waits, Maybe<u64>) {
        let spun_ns = self.locks.iter().map(|l| l.spin_ns_total.clone()).sum();
        (self.locks.iter().map(|l| &l.waits).sum(), spun_ns)
    }

    /// Merges entries of the same process, lock and call site, with any stack.
    #[must_use]
    pub fn by_caller(&self) -> Self {
        let mut merged: Vec<UserLockSample> = Vec::new();
        let mut places = BTreeMap::new();
        for lock in &self.locks {
            let words = |m: &Maybe<String>| m.as_deref().unwrap_or_default().to_owned();
            let key =
                (lock.pid, lock.address, lock.kind, words(&lock.call), words(&lock.caller), &lock.cgroup);
            let place = *places.entry(key).or_insert(merged.len());
            match merged.get_mut(place) {
                Some(known) => {
                    known.waits.add(&lock.waits);
                    known.spin_ns_total = sum_of(&known.spin_ns_total, &lock.spin_ns_total);
                    known.not_slept += lock.not_slept;
                    known.timed_out += lock.timed_out;
                }
                None => merged.push(lock.clone()),
            }
        }
        merged.sort_by_key(|l| std::cmp::Reverse(l.waits.ns_total));
        Self { locks: merged, ..self.clone() }
    }

    /// Moves likely idleness behind everything else.
    #[must_use]
    pub fn idleness_last(mut self) -> Self {
        self.locks.sort_by_key(UserLockSample::is_likely_idleness);
        self
    }

    /// Merges all but the first `most` locks into one entry.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        let Some(rest) = split_off(&mut self.locks, most) else { return self };
        let together = || Err(Missing::because(format!("{} locks together", rest.len())));
        self.locks.push(UserLockSample {
            cgroup: None,
            pid: 0,
            comm: "(others)".to_owned(),
            address: 0,
            kind: UserLockKind::Other,
            call: together(),
            caller: together(),
            stack: Vec::new(),
            waker: together(),
            waits: rest.iter().map(|l| &l.waits).sum(),
            spin_ns_total: rest.iter().map(|l| l.spin_ns_total.clone()).sum(),
            not_slept: rest.iter().map(|l| l.not_slept).sum(),
            timed_out: rest.iter().map(|l| l.timed_out).sum(),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(address: u64, caller: &str, ns: u64, stack: &[&str]) -> LockSample {
        LockSample {
            cgroup: None,
            kind: LockKind::Mutex,
            address,
            name: Err(Missing::because("it was allocated")),
            caller: Ok(caller.to_owned()),
            stack: stack.iter().map(|s| (*s).to_owned()).collect(),
            waits: Waits { count: 1, ns_total: ns, ns_max: ns, histogram: BTreeMap::from([(64, 1)]) },
            spin_ns_total: ns / 2,
        }
    }

    #[test]
    fn a_caller_is_one_line_however_it_was_reached_and_no_wait_is_lost() {
        let interval = LockInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            cpus: 2,
            missed_deadline: false,
            locks: vec![
                sample(1, "a", 100, &["x"]),
                sample(1, "b", 150, &["x"]),
                sample(1, "a", 120, &["y"]),
                sample(2, "a", 10, &["x"]),
            ],
            lost: BTreeMap::new(),
        };
        let merged = interval.by_caller();
        let lines: Vec<_> = merged
            .locks
            .iter()
            .map(|l| (l.address, l.caller.as_deref().unwrap(), l.waits.ns_total))
            .collect();
        assert_eq!(lines, [(1, "a", 220), (1, "b", 150), (2, "a", 10)]);
        assert_eq!(merged.total(), interval.total());
        assert_eq!(merged.locks[0].waits.histogram[&64], 2);
        // Merging and joining lose no wait.
        let short = interval.clone().at_most(1);
        assert_eq!((short.locks.len(), short.total()), (2, interval.total()));
        let both = LockInterval::joined(&[interval.clone(), interval.clone()]).unwrap();
        assert_eq!((both.locks.len(), both.total().0.count), (3, 2 * interval.total().0.count));
        assert!((interval.cpu_util_ratio(interval.total().1) - 190e-9 / 2.0).abs() < 1e-18);
    }
}
