//! Futex waits against what the waiting threads counted themselves: needs root and BTF, else prints what it skips.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::fs;
use std::path::Path;
use std::process;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bakeoff_probes::hog::{Work, lock};
use bakeoff_probes::user_locks::{self, Options, UserLockProbe};
use nix::unistd::{Pid, gettid};
use record::locks::{UserLockInterval, UserLockKind, Waits};

#[test]
fn root_waits_for_a_lock_of_a_program_are_as_many_as_it_counted() {
    let Some((mut probe, _alone)) = probe(&own()) else { return };
    let truth = lock::hold_mutex(4, Duration::from_millis(1), &for_ms(300));
    let interval = probe.read().unwrap();
    let found = of_address(&interval, truth.address);
    assert_eq!(found.count, truth.waits, "{:?}", interval.lost);
    assert!(found.ns_total <= truth.wait_ns && found.ns_total > 0, "{found:?} {truth:?}");
    let lock = interval.locks.iter().find(|l| l.address == truth.address).unwrap();
    assert_eq!(lock.pid, process::id());
    assert!(lock.caller.as_ref().unwrap().contains("hog::lock"), "{lock:?}");
    assert!(lock.waker.is_ok(), "{lock:?}");
}

#[test]
fn root_a_condition_is_told_from_a_mutex() {
    let Some((mut probe, _alone)) = probe(&own()) else { return };
    let (held, ready) = (Mutex::new(()), Mutex::new(false));
    let changed = Condvar::new();
    let (tell, told) = channel();
    thread::scope(|scope| {
        let guard = held.lock().unwrap();
        let (one, other) = (tell.clone(), tell);
        scope.spawn(|| {
            { one }.send(gettid()).unwrap();
            drop(changed.wait_while(ready.lock().unwrap(), |ready| !*ready));
        });
        scope.spawn(|| {
            { other }.send(gettid()).unwrap();
            drop(held.lock().unwrap());
        });
        told.iter().take(2).for_each(wait_until_asleep);
        drop(guard);
        *ready.lock().unwrap() = true;
        changed.notify_all();
    });
    let interval = probe.read().unwrap();
    let kinds: Vec<UserLockKind> = interval.locks.iter().map(|l| l.kind).collect();
    assert!(kinds.contains(&UserLockKind::Mutex) && kinds.contains(&UserLockKind::Condvar), "{interval:#?}");
}

#[test]
fn root_our_own_threads_are_left_out_where_they_are_not_asked_for() {
    let Some((mut probe, _alone)) = probe(&Options::of_everyone_else()) else { return };
    lock::hold_mutex(2, Duration::from_micros(100), &for_ms(20));
    assert!(probe.read().unwrap().locks.iter().all(|l| l.pid != process::id()));
}

#[test]
fn root_a_full_map_loses_no_count_of_what_it_lost() {
    let Some((mut probe, _alone)) = probe(&Options { room: 1, ..own() }) else { return };
    let truths = [(); 2].map(|()| lock::hold_mutex(3, Duration::from_millis(1), &for_ms(30)).waits);
    let interval = probe.read().unwrap();
    assert_eq!(interval.locks.len(), 1);
    assert!(interval.lost["no-room"] + interval.locks[0].waits.count >= truths.iter().sum(), "{interval:?}");
}

#[test]
fn root_what_watching_costs_is_measured() {
    let Some((mut probe, _alone)) = probe(&own()) else { return };
    match probe.cost() {
        Ok(cost) => assert!(cost.ns_per_wait > 0.0, "{cost:?}"),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

fn for_ms(length: u64) -> Work<'static> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    Work { length: Duration::from_millis(length), stop: &NEVER }
}

fn own() -> Options {
    Options { pid: Some(process::id()), own_threads: true, ..Options::of_everyone_else() }
}

/// One test at a time: all threads of this process are watched.
static ALONE: Mutex<()> = Mutex::new(());

fn probe(options: &Options) -> Option<(UserLockProbe, MutexGuard<'static, ()>)> {
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some((user_locks::open(options).unwrap(), alone))
}

fn of_address(interval: &UserLockInterval, address: u64) -> Waits {
    let mut whole = Waits::default();
    for lock in interval.locks.iter().filter(|l| l.address == address) {
        whole.add(&lock.waits);
    }
    whole
}

/// Neither of these threads has anything to sleep for but the lock.
fn wait_until_asleep(thread: Pid) {
    let sleeps = || {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    while !sleeps() {
        thread::yield_now();
    }
}
