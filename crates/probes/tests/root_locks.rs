//! Waits for locks against known truths: needs root and BTF; without them it prints what it skips.
//!
//! Nothing here is held against the clock of a quiet machine: waits are counted exactly, and their time is
//! never more than what the waiting threads say of themselves.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::io::ErrorKind;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_probes::hog::Work;
use bakeoff_probes::hog::lock::{self, KernelLock};
use bakeoff_probes::locks::{self, LockProbe, Options};
use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};
use record::locks::{LockInterval, LockKind, LockSample, Waits};

#[test]
fn root_waits_for_a_lock_of_the_kernel_are_counted_to_the_last_one() {
    for (lock, kind, caller) in
        [(KernelLock::Inode, LockKind::RwsemWrite, "write"), (KernelLock::Pipe, LockKind::Mutex, "pipe")]
    {
        let Some((mut probe, _alone)) = probe(&own()) else { return };
        let truth = match lock::hold_kernel_lock(lock, 5, Duration::from_millis(50), &for_ms(150)) {
            Ok(truth) => truth,
            Err(e) => return eprintln!("skipped: userfaultfd is not for us ({e})"),
        };
        let interval = probe.read().unwrap();
        let found = longest(&interval, kind);
        assert_eq!(found.waits.count, truth.waits, "{lock:?} {interval:#?}");
        // Waiting ends before the call does; a thread that is kept from its CPU between is at most late.
        assert!(found.waits.ns_total > 0 && found.waits.ns_total <= truth.wait_ns, "{truth:?} {found:?}");
        assert_eq!(found.waits.histogram.values().sum::<u64>(), truth.waits);
        assert!(found.caller.as_ref().unwrap().contains(caller), "{found:?}");
        assert!(found.spin_ns_total <= found.waits.ns_total);
        let later = probe.read().unwrap();
        assert!(later.locks.iter().all(|l| l.address != found.address), "{later:?}");
    }
}

#[test]
fn root_a_signal_ends_no_hold_early() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = SigHandler::Handler(nothing);
    // SAFETY: the handler does nothing, which it may do at any moment.
    unsafe { signal(Signal::SIGUSR1, handler) }.unwrap();
    // SAFETY: takes nothing, and cannot fail.
    let (holder, done) = (unsafe { libc::pthread_self() }, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread waits for this scope's end.
                unsafe { libc::pthread_kill(holder, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let held = lock::hold_kernel_lock(KernelLock::Pipe, 1, Duration::from_millis(1), &for_ms(300));
        done.store(true, Ordering::Relaxed);
        match held {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                eprintln!("skipped: userfaultfd is not for us ({e})");
            }
            held => assert!(held.unwrap().waits > 0),
        }
    });
}

#[test]
fn root_waits_of_others_are_left_out_where_one_process_is_asked_for() {
    let Some((mut probe, _alone)) = probe(&Options { pid: Some(1), ..Options::of_everyone() }) else {
        return;
    };
    lock::contend(2, Duration::from_millis(20)).unwrap();
    let asked = |l: &&LockSample| l.caller.as_deref().is_ok_and(|c| c.contains("anon_pipe"));
    assert_eq!(probe.read().unwrap().locks.iter().find(asked), None);
}

#[test]
fn root_a_full_map_loses_no_count_of_what_it_lost() {
    let Some((mut probe, _alone)) = probe(&Options { room: 1, ..own() }) else { return };
    let held = [KernelLock::Inode, KernelLock::Pipe]
        .map(|lock| lock::hold_kernel_lock(lock, 4, Duration::from_millis(5), &for_ms(0)));
    if held.iter().any(Result::is_err) {
        return eprintln!("skipped: userfaultfd is not for us");
    }
    let interval = probe.read().unwrap();
    assert_eq!(interval.locks.len(), 1);
    assert!(interval.lost["no-room"] >= 4, "{interval:?}");
}

#[test]
fn root_ten_thousand_threads_may_wait_for_one_lock() {
    let Some((mut probe, _alone)) = probe(&own()) else { return };
    match lock::hold_kernel_lock(KernelLock::Inode, 10_000, Duration::from_millis(1), &for_ms(0)) {
        Ok(truth) => {
            let interval = probe.read().unwrap();
            let found = longest(&interval, LockKind::RwsemWrite);
            let lost: u64 = interval.lost.values().sum();
            assert!(found.waits.count + lost >= truth.waits, "{found:?} {:?}", interval.lost);
            assert!(found.waits.count <= truth.waits, "{found:?}");
        }
        Err(e) => eprintln!("skipped: no ten thousand threads here ({e})"),
    }
}

#[test]
fn root_what_watching_costs_is_measured() {
    let Some((mut probe, _alone)) = probe(&own()) else { return };
    let cost = probe.cost().unwrap();
    assert!(cost.events[0].ns > 0.0, "{cost:?}");
}

fn for_ms(length: u64) -> Work<'static> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    Work { length: Duration::from_millis(length), stop: &NEVER }
}

fn own() -> Options {
    Options { pid: Some(process::id()), ..Options::of_everyone() }
}

/// One test at a time: all threads of this process are watched.
static ALONE: Mutex<()> = Mutex::new(());

fn probe(options: &Options) -> Option<(LockProbe, MutexGuard<'static, ()>)> {
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some((locks::open(options).unwrap(), alone))
}

/// The lock of that kind that was waited for longest, its callers together: other threads of this process
/// wait too.
fn longest(interval: &LockInterval, kind: LockKind) -> LockSample {
    let of_kind = || interval.locks.iter().filter(|l| l.kind == kind && l.name.is_err());
    let first = of_kind().max_by_key(|l| l.waits.ns_total).expect("such a lock was waited for");
    let mut whole = LockSample { waits: Waits::default(), ..first.clone() };
    of_kind().filter(|l| l.address == first.address).for_each(|l| whole.waits.add(&l.waits));
    whole
}
