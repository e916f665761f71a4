//! The lock instruments against threads that wait for a lock which is held for a known time.
//!
//! The truth comes from the waiting threads: how often they waited, and for how long by their clocks, read
//! just before and just after the call that waits. It exceeds the wait by that call's own length.

use std::process;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use record::locks::Waits;
use record::missing::{Maybe, Missing};
use record::proof::{Proof, Unit};

use super::{Bench, Subject};
use crate::hog::Work;
use crate::hog::lock::{self, KernelLock, LockTruth};
use crate::locks::{self, Options};
use crate::user_locks;

pub(super) const SUBJECT: Subject = Subject {
    name: "locks",
    about: "threads wait for an inode's lock, for a pipe's and for a futex, each held for a known time",
    prove,
};

/// A lock, and its kind of waiters.
#[derive(Debug, Clone, Copy)]
enum TestedLock {
    Kernel(KernelLock),
    Futex,
}

const ALL: [(&str, TestedLock); 3] = [
    ("inode, 5 wait", TestedLock::Kernel(KernelLock::Inode)),
    ("pipe, 5 wait", TestedLock::Kernel(KernelLock::Pipe)),
    ("futex, 4 in turn", TestedLock::Futex),
];

/// Share of the truth: no wait is lost.
const COUNT_LIMIT: f64 = 0.01;
/// Share of the truth, which includes the call around the wait.
const TIME_LIMIT: f64 = 0.02;

/// Linux version from which on the programs of `locks` load: see `docs/kernels.md`.
const KERNEL_LOCKS_SINCE: (u32, u32) = (6, 1);

fn prove(bench: &mut Bench<'_>) {
    let opened = locks::open(&Options::of_everyone()).map(drop).map_err(|why| why.to_string());
    bench.check_loading(SUBJECT.name, KERNEL_LOCKS_SINCE, opened);
    let opened = user_locks::open(&user_locks::Options::of_everyone_else()).map(drop);
    bench.check_loading(SUBJECT.name, super::PROGRAMS_SINCE, opened.map_err(|why| why.to_string()));
    for (number, (name, held)) in (1..).zip(ALL) {
        if !bench.begin(name, number, ALL.len()) {
            return;
        }
        let length = Duration::from_secs(bench.settings.seconds);
        let (truth, found, cost_ratio) = match watch(held, length) {
            Ok((truth, found, cost)) => (Ok(truth), Ok(found), cost),
            Err(why) => (Err(why.clone()), Err(why.clone()), Err(why)),
        };
        let instrument = if matches!(held, TestedLock::Futex) { "ulocks" } else { "locks" };
        let proof =
            |what: &str, unit, limit: f64, of_truth: fn(&LockTruth) -> u64, of_found: fn(&Waits) -> u64| {
                let truth = truth.as_ref().map(|t| of_truth(t) as f64).map_err(Clone::clone);
                Proof {
                    subject: SUBJECT.name.to_owned(),
                    instrument: format!("{instrument}, {what}"),
                    ours: true,
                    workload: name.to_owned(),
                    limit: truth.clone().map_or(0.0, |t| limit * t),
                    truth,
                    found: found.as_ref().map(|f| of_found(f) as f64).map_err(Clone::clone),
                    unit,
                    cost_ratio: cost_ratio.clone(),
                    remark: None,
                }
            };
        let waits = proof("waits", Unit::Count, COUNT_LIMIT, |t| t.waits, |f| f.count);
        let time = proof("time", Unit::Ns, TIME_LIMIT, |t| t.wait_ns, |f| f.ns_total);
        bench.tell(waits);
        bench.tell(time);
    }
}

fn watch(held: TestedLock, length: Duration) -> Maybe<(LockTruth, Waits, Maybe<f64>)> {
    let never = AtomicBool::new(false);
    let work = Work { length, stop: &never };
    match held {
        TestedLock::Kernel(lock) => kernel(lock, &work),
        TestedLock::Futex => futex(&work),
    }
}

fn kernel(lock: KernelLock, work: &Work<'_>) -> Maybe<(LockTruth, Waits, Maybe<f64>)> {
    const WAITERS: u32 = 5;
    let hold = Duration::from_millis(50);
    let options = Options { pid: Some(process::id()), ..Options::of_everyone() };
    let mut probe = locks::open(&options).map_err(|e| Missing::because(e.to_string()))?;
    let truth = lock::hold_kernel_lock(lock, WAITERS, hold, work)
        .map_err(|e| Missing::because(format!("the lock cannot be held: {e}")))?;
    let interval = probe.read()?;
    // This process waits long for nothing else: the lock has the longest waits.
    let longest = interval.locks.iter().max_by_key(|l| l.waits.ns_total);
    let address = longest.map(|l| l.address).ok_or_else(|| Missing::because("no wait was observed"))?;
    let found = sum(interval.locks.iter().filter(|l| l.address == address).map(|l| &l.waits));
    Ok((truth, found, probe.cost().map(|c| c.ratio_of_one_cpu())))
}

fn futex(work: &Work<'_>) -> Maybe<(LockTruth, Waits, Maybe<f64>)> {
    const THREADS: u32 = 4;
    let own = user_locks::Options::of_everyone_else();
    let options = user_locks::Options { pid: Some(process::id()), own_threads: true, ..own };
    let mut probe = user_locks::open(&options).map_err(|e| Missing::because(e.to_string()))?;
    let truth = lock::hold_mutex(THREADS, Duration::from_millis(1), work);
    let interval = probe.read()?;
    let found = sum(interval.locks.iter().filter(|l| l.address == truth.address).map(|l| &l.waits));
    Ok((truth, found, probe.cost().map(|c| c.ratio_of_one_cpu())))
}

fn sum<'a>(all: impl Iterator<Item = &'a Waits>) -> Waits {
    let mut whole = Waits::default();
    all.for_each(|waits| whole.add(waits));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_one_lock_from_many_places_are_one_sum() {
        let one = Waits { count: 2, ns_total: 30, ns_max: 20, ..Waits::default() };
        let both = sum([one.clone(), one].iter());
        assert_eq!((both.count, both.ns_total, both.ns_max), (4, 60, 20));
    }
}
