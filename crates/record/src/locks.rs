//! What was waited for, and for how long: locks of the kernel and locks of programs.

use std::collections::BTreeMap;
use std::iter::Sum;

use crate::missing::{Maybe, Missing};
use crate::run::words;

/// How often and how long one lock was waited for. A wait counts in the interval in which it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits that ended.
    pub count: u64,
    /// Their time together.
    pub ns_total: u64,
    /// The longest of them.
    pub ns_max: u64,
    /// How many took how long: from each power of two (ns) to the next; the last bucket has no end.
    pub histogram: BTreeMap<u64, u64>,
}

impl Waits {
    /// Adds the waits of another place.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.ns_total += other.ns_total;
        self.ns_max = self.ns_max.max(other.ns_max);
        for (from_ns, count) in &other.histogram {
            *self.histogram.entry(*from_ns).or_default() += count;
        }
    }

    /// Their mean length; 0 where there were none.
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

/// What a lock of the kernel is, and how it was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// Burns CPU until it is free.
    Spinlock,
    /// Burns CPU until no writer holds it.
    RwlockRead,
    /// Burns CPU until nobody holds it.
    RwlockWrite,
    /// Spins for a while if its owner runs, then sleeps.
    Mutex,
    /// Sleeps until no writer holds it.
    RwsemRead,
    /// Sleeps until nobody holds it. That writers spin first is not told by the kernel.
    RwsemWrite,
    /// A counting semaphore; sleeps.
    Semaphore,
    /// Sleeps, and lends its priority to the owner.
    RtMutex,
    /// A reader's lock of a real-time kernel; sleeps.
    RtRwlockRead,
    /// A writer's lock of a real-time kernel; sleeps.
    RtRwlockWrite,
    /// Cheap for readers, who sleep while there is a writer.
    PercpuRwsemRead,
    /// Cheap for readers, dear for its writers, who sleep.
    PercpuRwsemWrite,
    /// Flags that no kernel had when this was written.
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

/// A lock of the kernel, from one place in the code, over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct LockSample {
    /// The path of its waiters' control group, of version 2, where they are told apart by it.
    pub cgroup: Option<String>,
    /// What it is.
    pub kind: LockKind,
    /// Where it lies.
    pub address: u64,
    /// What it is called: a symbol where it is static, `mmap_lock` and `siglock` of the waiting process.
    ///
    /// Missing where it was allocated, as most are: then the caller tells what it protects.
    pub name: Maybe<String>,
    /// The function that asked for it, the locking functions themselves left out.
    pub caller: Maybe<String>,
    /// How that function was reached, from `caller` outward.
    pub stack: Vec<String>,
    /// The waits, spinning and sleeping.
    pub waits: Waits,
    /// The part of their time that was spun: CPU time that did nothing.
    pub spin_ns_total: u64,
}

/// All locks of the kernel over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct LockInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`.
    pub until_ns: u64,
    /// CPUs that were online at its end.
    pub cpus: usize,
    /// Whether the reader came so late that a deadline passed unseen.
    pub missed_deadline: bool,
    /// One for each kind, lock and stack; most time first.
    pub locks: Vec<LockSample>,
    /// Waits that are missing above, by reason. Where this is not empty, the numbers are lower bounds.
    pub lost: BTreeMap<String, u64>,
}

impl LockInterval {
    /// Waits and spun time of all locks together.
    pub fn total(&self) -> (Waits, u64) {
        (self.locks.iter().map(|l| &l.waits).sum(), self.locks.iter().map(|l| l.spin_ns_total).sum())
    }

    /// The same with one entry for each kind, lock and caller, however it was reached.
    ///
    /// Locks of one name are one: `mmap_lock` stands for that of every process.
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

    /// The same with the first `most` locks and one more that stands for all others.
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

/// What intervals of either side's locks are to the same words.
macro_rules! interval_of_locks {
    ($interval:ident) => {
        impl $interval {
            /// Length of the interval in seconds.
            pub fn seconds(&self) -> f64 {
                (self.until_ns - self.from_ns) as f64 * 1e-9
            }

            /// Share of the time of all CPUs that `spin_ns` is.
            pub fn cpu_util_ratio(&self, spin_ns: u64) -> f64 {
                spin_ns as f64 * 1e-9 / (self.seconds() * self.cpus.max(1) as f64)
            }

            /// Several intervals as one, by caller; `None` where there is none.
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

/// What lies behind the first `most`, where that is more than one.
fn split_off<T>(all: &mut Vec<T>, most: usize) -> Option<Vec<T>> {
    (all.len() > most + 1).then(|| {
        let rest = all.split_off(most);
        // Intervals are kept for long: not with the room of what left them.
        all.shrink_to(most + 1);
        rest
    })
}

/// Both together, where both are known.
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

/// What a program's lock is, as far as its call tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UserLockKind {
    /// Mutual exclusion: somebody else has it.
    Mutex,
    /// A condition that is waited for: idleness more often than contention.
    Condvar,
    /// A counting semaphore.
    Semaphore,
    /// Anything else that waits on a futex: a joined thread, a barrier, a runtime of its own.
    Other,
}

words!(UserLockKind { Mutex = "mutex", Condvar = "condvar", Semaphore = "semaphore", Other = "other" });

/// A lock of a program, from one place in its code, over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct UserLockSample {
    /// The path of its waiters' control group, of version 2, where they are told apart by it.
    pub cgroup: Option<String>,
    /// Whose it is.
    pub pid: u32,
    /// The name of a thread that waited for it, at most 15 bytes.
    pub comm: String,
    /// Where it lies in the process.
    pub address: u64,
    /// What it is.
    pub kind: UserLockKind,
    /// The call of the threads' library that waited: `pthread_cond_wait`.
    pub call: Maybe<String>,
    /// The program's function that made that call.
    pub caller: Maybe<String>,
    /// How it was reached, from the futex call outward.
    pub stack: Vec<String>,
    /// Who woke the waiters last, as `comm/thread`, and from where.
    pub waker: Maybe<String>,
    /// The waits that slept or tried to.
    pub waits: Waits,
    /// The part of their time that was spun: of those in which the thread did not leave its CPU, mostly because the lock
    /// had changed before it slept. That of the program before its call is not seen. Missing in runs of earlier versions.
    pub spin_ns_total: Maybe<u64>,
    /// Those of them that found the lock changed and did not sleep.
    pub not_slept: u64,
    /// Those that ended because their time was over.
    pub timed_out: u64,
}

impl UserLockSample {
    /// Whether it is waited for because there is nothing to do, more likely than because somebody else has it: a condition, or
    /// waits of which most ended because their time was over.
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
    /// CPUs that were online at its end.
    pub cpus: usize,
    /// Whether the reader came so late that a deadline passed unseen.
    pub missed_deadline: bool,
    /// One for each process, lock and stack; most time first.
    pub locks: Vec<UserLockSample>,
    /// Waits that are missing above, by reason. Where this is not empty, the numbers are lower bounds.
    pub lost: BTreeMap<String, u64>,
}

impl UserLockInterval {
    /// Waits and spun time of all locks together.
    pub fn total(&self) -> (Waits, Maybe<u64>) {
        let spun_ns = self.locks.iter().map(|l| l.spin_ns_total.clone()).sum();
        (self.locks.iter().map(|l| &l.waits).sum(), spun_ns)
    }

    /// The same with one entry for each process, lock and place in its code, however it was reached.
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

    /// The same with what is likely idleness behind everything else.
    #[must_use]
    pub fn idleness_last(mut self) -> Self {
        self.locks.sort_by_key(UserLockSample::is_likely_idleness);
        self
    }

    /// The same with the first `most` locks and one more that stands for all others.
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
        // Cut short or joined, no wait is lost either.
        let short = interval.clone().at_most(1);
        assert_eq!((short.locks.len(), short.total()), (2, interval.total()));
        let both = LockInterval::joined(&[interval.clone(), interval.clone()]).unwrap();
        assert_eq!((both.locks.len(), both.total().0.count), (3, 2 * interval.total().0.count));
        assert!((interval.cpu_util_ratio(interval.total().1) - 190e-9 / 2.0).abs() < 1e-18);
    }
}
