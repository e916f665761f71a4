//! Events against known truths: needs root and BTF; without them it prints what it skips.
//!
//! Others may work on this machine meanwhile, so nothing here is held against an idle machine: shares are held against
//! what the hog says of itself, and machine-wide sums against other counts of the same thing.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_probes::cpu_time::{self, CpuProbe, Options, Watch};
use bakeoff_probes::{cpu_list, hog};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use record::clock::{Clock, Monotonic};
use record::cpu::{CpuInterval, CpuSample, Rung};

#[test]
fn root_what_hides_between_ticks_is_seen_by_events_and_not_by_ticks() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let mut hog = Hog::start(&["hide", &cpu.to_string(), "70", "60"]);
    let truth_before = hog.cpu_ns();
    probe.start();
    sleep(Duration::from_secs(3));
    let interval = probe.read();
    let truth = (hog.cpu_ns() - truth_before) as f64 / (interval.until_ns - interval.from_ns) as f64;
    let sample = of(&interval, cpu);

    // The hog's own share, by events, against its own clock. It gets less than 70 % where others want the CPU too.
    let top = sample.top.as_ref().unwrap();
    assert_eq!(top.pid, hog.child.id());
    assert!((top.ratio - truth).abs() < 0.01, "by events {}, in truth {truth}", top.ratio);
    let event = sample.event_ratio.clone().unwrap();
    assert!(event > truth - 0.01, "by events {event}, of which the hog alone {truth}");

    // 1 - idle/wall agrees, within its ticks of 10 ms and its noise, and the ticks themselves hold next to none of it:
    // what they hold is at most what others ran, a whole tick each time one met them.
    let not_idle = sample.not_idle_ratio.clone().unwrap();
    assert!((not_idle - event).abs() < 0.06, "not idle {not_idle}, by events {event}");
    let unaccounted = sample.unaccounted_ratio.clone().unwrap();
    let others = event - truth;
    assert!(
        unaccounted > truth - 0.06 - 10.0 * others,
        "unaccounted {unaccounted} of {truth}, others {others}"
    );

    // A sampler that is out of phase with the tick sees it; three standard errors of 3,000 samples are 2.5 points.
    let sampled = sample.sampled_ratio.clone().unwrap();
    assert!((sampled - event).abs() < 0.025, "sampled {sampled}, by events {event}");
    if others < 0.01 {
        assert!(sample.procstat_busy_ratio.clone().unwrap() < 0.25, "{sample:?}");
        assert!(sample.tick_before_ratio.clone().unwrap() < 0.1, "{sample:?}");
        assert!(sample.tick_after_ratio.clone().unwrap() < 0.1, "{sample:?}");
    }
    hog.stop();
}

#[test]
fn root_what_runs_only_around_ticks_is_overstated_by_them() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let mut hog = Hog::start(&["antihide", &cpu.to_string(), "60"]);
    let truth_before = hog.cpu_ns();
    probe.start();
    sleep(Duration::from_secs(3));
    let interval = probe.read();
    let truth = (hog.cpu_ns() - truth_before) as f64 / (interval.until_ns - interval.from_ns) as f64;
    hog.stop();
    let sample = of(&interval, cpu);
    assert_eq!(sample.top.as_ref().unwrap().pid, hog.child.id(), "{sample:?}");
    let found = sample.top.as_ref().unwrap().ratio;
    assert!((found - truth).abs() < 0.01, "by events {found}, in truth {truth}");
    let tick_before = sample.tick_before_ratio.clone().unwrap();
    assert!(tick_before > truth + 0.2, "at the tick {tick_before}, in truth {truth}");
}

#[test]
fn root_busy_and_idle_make_up_the_wall_time_on_every_cpu() {
    let Some((mut probe, _alone)) = probe() else { return };
    let mut hog = Hog::start(&["spin", &last_cpu().to_string(), "60"]);
    probe.start();
    let intervals: Vec<CpuInterval> = (0..5)
        .map(|_| {
            sleep(Duration::from_secs(1));
            probe.read()
        })
        .collect();
    hog.stop();
    for interval in &intervals {
        for sample in &interval.cpus {
            // 1 ms in 10 s; one second alone may have waited a little at each of its edges.
            let balance = sample.balance_ns.clone().unwrap();
            assert!(balance.abs() <= 1_000_000, "CPU {}: {balance} ns in a second", sample.cpu);
        }
    }
    for cpu in intervals[0].cpus.iter().map(|s| s.cpu) {
        let sum: i64 = intervals.iter().map(|i| of(i, cpu).balance_ns.clone().unwrap()).sum();
        assert!(sum.abs() <= 1_000_000, "CPU {cpu}: {sum} ns in five seconds");
    }
    assert!(intervals.iter().all(|i| !i.lost.contains_key("clock-backward")), "{intervals:?}");
}

#[test]
fn root_a_cpu_that_never_switches_still_balances() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let mut hog = Hog::start(&["spin", &format!("{cpu},{cpu}"), "60"]);
    probe.start();
    sleep(Duration::from_secs(2));
    let interval = probe.read();
    hog.stop();
    let sample = of(&interval, cpu);
    let event = sample.event_ratio.clone().unwrap();
    assert!((event - 1.0).abs() < 0.001, "two spinners leave no idle time, but {event} was busy");
    assert!(sample.saturated());
    // Each of the two has about half, whatever else runs there; a rule that forgets one of them would say next to none.
    assert!(sample.top.as_ref().unwrap().ratio > 0.25, "{sample:?}");
}

#[test]
fn root_every_context_switch_is_counted_once() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let all_before = context_switches();
    probe.start();
    let all_first = context_switches();
    let truth = hog::ping_pong(Some(cpu), 20_000).unwrap();
    let all_last = context_switches();
    let interval = probe.read();
    let all_after = context_switches();

    let unseen = interval.lost.get("switch-unseen").copied().unwrap_or(0);
    let on_cpu = of(&interval, cpu).switches.clone().unwrap();
    assert!(on_cpu + unseen >= truth.switches, "{on_cpu} on CPU {cpu}, {} in truth", truth.switches);
    let all: u64 = interval.cpus.iter().map(|s| s.switches.clone().unwrap()).sum();
    // What the kernel counts itself, read just inside and just outside of the same window.
    let (inside, outside) = (all_last - all_first, all_after - all_before);
    assert!(all + unseen >= inside, "{all} seen and {unseen} not, {inside} by /proc/stat");
    assert!(all <= outside, "{all} seen, {outside} by /proc/stat");
}

#[test]
fn root_its_own_cost_is_measured() {
    let Some((mut probe, _alone)) = probe() else { return };
    probe.start();
    hog::ping_pong(None, 1_000).unwrap();
    probe.read();
    let cost = probe.cost().unwrap();
    assert!(cost.switches >= 2_000, "{cost:?}");
    assert!((1.0..5_000.0).contains(&cost.ns_per_switch), "{cost:?}");
    assert!(cost.ratio_of_one_cpu > 0.0, "{cost:?}");
}

#[test]
fn root_a_watch_tiles_the_time_without_gaps() {
    let Some((probe, _alone)) = probe() else { return };
    drop(probe);
    let watch = Watch::start(Duration::from_millis(100), Options::of_this_machine());
    assert_eq!(watch.rung(), Rung::Bpf);
    sleep(Duration::from_millis(1_050));
    let watched = watch.stop();
    assert!(watched.intervals.len() as u64 + watched.missed >= 10, "{}", watched.intervals.len());
    for pair in watched.intervals.windows(2) {
        assert_eq!(pair[0].until_ns, pair[1].from_ns);
    }
    assert!(watched.cost.is_ok(), "{:?}", watched.cost);
}

/// A probe on the best rung, and the right to be the only test that measures; `None`, and the reason printed, where
/// this machine does not give it.
fn probe() -> Option<(CpuProbe, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let root = nix::unistd::geteuid().is_root();
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !root || !btf {
        eprintln!("skipped: needs root (here: {root}) and a kernel with BTF (here: {btf})");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = cpu_time::open(&Options::of_this_machine().with_ticks());
    assert_eq!(probe.rung(), Rung::Bpf, "root and BTF are there: {:?}", probe.notes());
    assert_eq!(probe.notes(), [] as [&str; 0]);
    Some((probe, alone))
}

fn last_cpu() -> u32 {
    cpu_list::online(Path::new("/")).unwrap().into_iter().max().unwrap()
}

fn of(interval: &CpuInterval, cpu: u32) -> &CpuSample {
    interval.cpus.iter().find(|s| s.cpu == cpu).unwrap()
}

/// The kernel's own count of context switches since boot.
fn context_switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.lines().find_map(|l| l.strip_prefix("ctxt ")).unwrap().parse().unwrap()
}

fn sleep(span: Duration) {
    let until_ns = Monotonic.now_ns() + u64::try_from(span.as_nanos()).unwrap();
    while Monotonic.now_ns() < until_ns {
        Monotonic.sleep_until_ns(until_ns);
    }
}

/// A hog in a process of its own; ends when this is dropped.
struct Hog {
    child: Child,
    _stdin: ChildStdin,
    _stdout: BufReader<ChildStdout>,
}

impl Hog {
    /// Returns when it is at work.
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(hog_binary())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo builds the examples with the tests");
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "hog {words:?} did not start");
        Self { child, _stdin: stdin, _stdout: stdout }
    }

    /// CPU time of its process so far, by the scheduler's own clock.
    fn cpu_ns(&self) -> u64 {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let t = clock_gettime(clock_getcpuclockid(pid).unwrap()).unwrap();
        t.tv_sec().cast_unsigned() * 1_000_000_000 + t.tv_nsec().cast_unsigned()
    }

    fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop();
    }
}

fn hog_binary() -> PathBuf {
    // target/debug/deps/this-test -> target/debug/examples/hog
    let this = std::env::current_exe().unwrap();
    this.parent().unwrap().parent().unwrap().join("examples/hog")
}
