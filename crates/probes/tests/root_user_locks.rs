//! Futex waits against the waiting threads' own counts: needs root and BTF, else prints what it skips.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bakeoff_probes::hog::{Work, lock};
use bakeoff_probes::user_locks::{self, Options, UserLockProbe};
use nix::unistd::{Pid, gettid};
use record::locks::{UserLockInterval, UserLockKind, UserLockSample, Waits};

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
fn root_the_waker_is_who_held_the_mutex_and_never_who_waited_for_it() {
    let Some(_) = probe(&own()) else { return };
    let Some(mut child) = program("holder", HOLDER) else {
        return eprintln!("skipped: there is no C compiler");
    };
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut probe, _alone) = probe(&Options { pid: Some(child.id()), ..own() }).unwrap();
    let mut lines = BufReader::new(output).lines();
    input.write_all(b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "done");
    let interval = probe.read().unwrap();
    drop(input);
    child.wait().unwrap();
    let of_waiter: Vec<_> =
        interval.locks.iter().filter(|l| l.comm == "waiter" && l.waits.count > 0).collect();
    let wakers: Vec<_> = of_waiter.iter().filter_map(|l| l.waker.as_deref().ok()).collect();
    assert!(!wakers.is_empty() && wakers.iter().all(|name| name.starts_with("holder/")), "{interval:#?}");
}

#[test]
fn root_callers_of_one_lock_are_told_apart_without_frame_pointers() {
    let Some(_) = probe(&own()) else { return };
    let Some(mut child) = two_callers() else { return eprintln!("skipped: there is no C compiler") };
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut probe, _alone) = probe(&Options { pid: Some(child.id()), ..own() }).unwrap();
    let mut lines = BufReader::new(output).lines();
    input.write_all(b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "done");
    let interval = probe.read().unwrap().by_caller();
    drop(input);
    child.wait().unwrap();
    let of = |caller: &str| {
        let by = |l: &&UserLockSample| l.caller.as_deref() == Ok(caller);
        interval.locks.iter().filter(by).map(|l| l.waits.count).sum::<u64>()
    };
    assert_eq!((of("rarely"), of("often")), (3, 27), "{interval:#?}");
}

#[test]
fn root_a_wait_keeps_its_stack_while_room_is_made() {
    const THREADS: usize = 40;
    // The lock of a type of this program is compiled here, with frame pointers: that of `()` may come from
    // another crate, and end the stack.
    struct Held;
    let Some((mut probe, _alone)) = probe(&Options { room: 64, ..own() }) else { return };
    let locks: Vec<Mutex<Held>> = (0..THREADS).map(|_| Mutex::new(Held)).collect();
    let (tell, told) = channel();
    thread::scope(|scope| {
        let guards: Vec<_> = locks.iter().map(|lock| lock.lock().unwrap()).collect();
        for lock in &locks {
            let tell = tell.clone();
            scope.spawn(move || {
                { tell }.send(gettid()).unwrap();
                drop(lock.lock().unwrap());
            });
        }
        told.iter().take(THREADS).for_each(wait_until_asleep);
        // More than half of the room is taken: it is cleared.
        probe.read().unwrap();
        drop(guards);
    });
    let interval = probe.read().unwrap();
    let of_mutexes = interval.locks.iter().filter(|l| l.kind == UserLockKind::Mutex && l.caller.is_ok());
    assert!(of_mutexes.map(|l| l.waits.count).sum::<u64>() >= THREADS as u64, "{interval:#?}");
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
    // Filter for another process: the cost of a wait does not depend on the filter.
    let options = Options { pid: Some(1), ..Options::of_everyone_else() };
    let Some((mut probe, _alone)) = probe(&options) else { return };
    probe.start().unwrap();
    for _ in 0..1_000 {
        nix::unistd::gettid();
    }
    let cost = probe.cost().unwrap();
    let [wait, other, waking] = cost.events[..] else { panic!("{cost:?}") };
    // A wait takes a stack and adds to a map, any other call is checked and ignored.
    assert!(wait.ns > 3.0 * other.ns, "{cost:?}");
    assert!(other.count >= 1_000 && waking.ns > 0.0, "{cost:?}");
}

/// A program of which one thread holds a mutex and another one waits for it, again and again.
const HOLDER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int round;
static void *hold(void *none)
{
	for (int i = 1; i <= 20; i++) {
		pthread_mutex_lock(&mutex);
		round = i;
		usleep(3000);
		pthread_mutex_unlock(&mutex);
		usleep(3000);
	}
	return none;
}
int main(void)
{
	pthread_t holder;
	getchar();
	pthread_create(&holder, NULL, hold, NULL);
	pthread_setname_np(holder, "holder");
	pthread_setname_np(pthread_self(), "waiter");
	for (int i = 1; i <= 20; i++) {
		while (round < i)
			usleep(50);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
"#;

/// A program without frame pointers, of which two functions wait for one semaphore, from `go` on until it
/// prints `done`.
fn two_callers() -> Option<Child> {
    const PROGRAM: &str = r#"
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
static sem_t never;
static inline __attribute__((always_inline)) int wait_for_it(void)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec = (at.tv_nsec + 1000000) % 1000000000;
	at.tv_sec += at.tv_nsec < 1000000;
	return sem_timedwait(&never, &at);
}
__attribute__((noinline, noclone)) int rarely(void) { return wait_for_it() * 3; }
__attribute__((noinline, noclone)) int often(void) { return wait_for_it() * 5; }
int main(void)
{
	int sum = 0;
	sem_init(&never, 0, 0);
	getchar();
	for (int i = 0; i < 30; i++)
		sum += i % 10 == 9 ? rarely() : often();
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return sum == 0;
}
"#;
    program("two_callers", PROGRAM)
}

fn program(name: &str, text: &str) -> Option<Child> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (place.join(format!("{name}.c")), place.join(name));
    fs::write(&source, text).unwrap();
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-ipa-icf", "-pthread", "-o"];
    let made = Command::new("cc").args(flags).arg(&program).arg(&source).status();
    if made.is_err() {
        return None;
    }
    assert!(made.unwrap().success());
    Some(Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
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

/// These threads sleep only for the lock.
fn wait_until_asleep(thread: Pid) {
    let sleeps = || {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    while !sleeps() {
        thread::yield_now();
    }
}
