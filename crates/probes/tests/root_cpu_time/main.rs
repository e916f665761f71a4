//! Events against known truths: needs root and BTF; without them it prints what it skips.
//!
//! Other work may run on this machine meanwhile, so nothing here assumes an idle machine: shares are compared
//! with the hog's report, and machine-wide sums with other counts of the same quantity.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod hog;
mod interrupts;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bakeoff_probes::cpu_list;
use bakeoff_probes::cpu_time::{self, CpuProbe, Options, Watch};
use bakeoff_probes::hog::{ping_pong, usable};
use bakeoff_probes::topology::Cores;
use record::clock::{Clock, Monotonic};
use record::cpu::{CpuInterval, CpuSample, Rung, TaskSample, UNOWNED_NS};

use crate::hog::Hog;

/// Runs itself in a PID namespace: the kernel's own walk shows a reader in it no thread of the outside.
#[test]
fn root_in_a_pid_namespace_the_threads_outside_of_it_have_their_time() {
    const NAME: &str = "root_in_a_pid_namespace_the_threads_outside_of_it_have_their_time";
    if std::env::var_os("BAKEOFF_TEST_INSIDE").is_some() {
        let mut probe = cpu_time::open(&Options::of_this_machine().with_tasks(Cores::default()));
        probe.start();
        sleep(Duration::from_millis(500));
        let interval = probe.read();
        let spins = probe.tasks().unwrap().iter().filter(|t| t.comm == "outside-spin");
        let share =
            spins.map(|t| t.on_cpu_ns).sum::<u64>() as f64 / (interval.until_ns - interval.from_ns) as f64;
        // Compilers and other tests may want the CPUs too.
        assert!(share > 0.1, "{share}: {:?}", probe.tasks());
        // One that begins and ends between two readings has its id of this namespace, too.
        let count = ["-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"];
        let mut child = Command::new("sh").args(count).spawn().unwrap();
        child.wait().unwrap();
        probe.read();
        let found = probe.tasks().unwrap().iter().find(|t| t.comm == "sh" && t.tid == child.id());
        assert!(found.is_some_and(|t| t.ended && t.pid == t.tid), "{}: {:?}", child.id(), probe.tasks());
        return;
    }
    let Some((probe, _alone)) = probe() else { return };
    drop(probe);
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--mount", "--fork", "--mount-proc"]).arg(std::env::current_exe().unwrap());
    inside.args(["--exact", "--nocapture", NAME]).env("BAKEOFF_TEST_INSIDE", "1");
    let stop = AtomicBool::new(false);
    let spin = || {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let ended = thread::scope(|scope| {
        thread::Builder::new().name("outside-spin".into()).spawn_scoped(scope, spin).unwrap();
        let ended = inside.output();
        stop.store(true, Ordering::Relaxed);
        ended
    });
    match ended {
        Ok(ended) => assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr)),
        Err(why) => eprintln!("skipped: no PID namespace can be had with unshare: {why}"),
    }
}

#[test]
fn root_a_process_that_ended_counts_once_also_where_nobody_waited_for_it_yet() {
    let Some((mut probe, _alone)) = probe() else { return };
    probe.start();
    let count = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
    let mut child = Command::new("sh").args(["-c", count]).spawn().unwrap();
    let stat = || fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    while !stat().contains(") Z ") {
        sleep(Duration::from_millis(20));
    }
    // It is a zombie a moment before it leaves its CPU for the last time.
    sleep(Duration::from_millis(100));
    let found: Vec<u64> = (0..3)
        .map(|_| {
            probe.read();
            probe.tasks().unwrap().iter().filter(|t| t.pid == child.id()).map(|t| t.on_cpu_ns).sum()
        })
        .collect();
    child.wait().unwrap();
    assert!(found[0] > 0 && found[1..] == [0, 0], "{found:?}");
}

#[test]
fn root_what_hides_between_ticks_is_seen_by_events_and_not_by_ticks() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let mut hog = Hog::start(&["hide", &cpu.to_string(), "70", "60"]);
    let (interval, shares) = watched(&mut probe, &mut hog, Duration::from_secs(3));
    let found = share_of(&probe, hog.child.id(), &interval);
    hog.stop();
    let sample = of(&interval, cpu);

    // The hog's share, by events, against its clocks. It gets less than 70 % if other threads use the CPU
    // too.
    assert!((shares.seen - 0.01..shares.most + 0.01).contains(&found), "by events {found}, {shares:?}");
    let truth = shares.least;
    let event = sample.event_ratio.clone().unwrap();
    assert!(event > truth - 0.01, "by events {event}, of which the hog alone {truth}");

    // 1 - idle/wall agrees, within its ticks of 10 ms and its noise.
    let not_idle = sample.not_idle_ratio.clone().unwrap();
    // A host that takes the CPU while an interrupt is due lets it come late, and then while the hog runs.
    let stolen = shares.stolen;
    assert!(
        (not_idle - event).abs() < 0.06 + stolen,
        "not idle {not_idle}, by events {event}, {stolen} stolen"
    );

    // A sampler that is out of phase with the tick sees it; three standard errors of 3,000 samples are 2.5
    // points.
    let sampled = sample.sampled_ratio.clone().unwrap();
    assert!(
        (sampled - event).abs() < 0.025 + stolen,
        "sampled {sampled}, by events {event}, {stolen} stolen"
    );

    // Ticks do not, but for those that hit another thread; with others on the CPU, this says nothing.
    let others = event - truth;
    if others < 0.01 && stolen < 0.01 {
        assert!(sample.unaccounted_ratio.clone().unwrap() > truth - 0.2, "{sample:?}");
        assert!(sample.procstat_busy_ratio.clone().unwrap() < 0.25, "{sample:?}");
        assert!(sample.tick_before_ratio.clone().unwrap() < 0.1, "{sample:?}");
        assert!(sample.tick_after_ratio.clone().unwrap() < 0.1, "{sample:?}");
    } else {
        let [others, stolen] = [others, stolen].map(|share| share * 100.0);
        eprintln!("others used {others:.1} % of CPU {cpu}, {stolen:.1} % was stolen: ticks are not checked");
    }
}

#[test]
fn root_what_runs_only_around_ticks_is_overstated_by_them() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let mut hog = Hog::start(&["antihide", &cpu.to_string(), "60"]);
    let (interval, shares) = watched(&mut probe, &mut hog, Duration::from_secs(3));
    let found = share_of(&probe, hog.child.id(), &interval);
    hog.stop();
    assert!((shares.seen - 0.005..shares.most + 0.005).contains(&found), "by events {found}, {shares:?}");
    let sample = of(&interval, cpu);
    if shares.least > 0.05 && shares.stolen < 0.01 {
        let tick_before = sample.tick_before_ratio.clone().unwrap();
        assert!(tick_before > shares.most + 0.2, "at the tick {tick_before}, {shares:?}");
    }
}

#[test]
fn root_stints_are_switches_and_on_cpu_time_is_the_schedulers() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu().to_string();
    let mut pinger = Hog::start(&["ping-pong", &cpu, "1000000000"]);
    let mut spinner = Hog::start(&["spin", &cpu, "60"]);
    // /proc is not read exactly at the window's edges, but just inside and just outside.
    let stolen_before_ns = stolen_ns(last_cpu());
    let outer = [pinger.totals(), spinner.totals()];
    probe.start();
    let inner = [pinger.totals(), spinner.totals()];
    sleep(Duration::from_secs(2));
    let inner = [pinger.totals().since(&inner[0]), spinner.totals().since(&inner[1])];
    probe.read();
    let outer = [pinger.totals().since(&outer[0]), spinner.totals().since(&outer[1])];
    // The scheduler's clock leaves out what the host stole; a switch cannot. `/proc/stat` has it to 10 ms, as
    // of the last tick.
    let stolen_ns = stolen_ns(last_cpu()) - stolen_before_ns + 20_000_000;
    for (pid, inner, outer) in
        [(pinger.child.id(), &inner[0], &outer[0]), (spinner.child.id(), &inner[1], &outer[1])]
    {
        let tasks = probe.tasks().unwrap().iter().filter(|t| t.pid == pid);
        // The scheduler's clock counts the interrupts that come while a thread runs.
        let add = |(ns, n), t: &TaskSample| (ns + t.on_cpu_ns + t.interrupted_ns, n + t.stints);
        let (on_cpu_ns, stints) = tasks.fold((0, 0), add);
        assert!(
            stints + 2 >= inner.switches && stints <= outer.switches + 2,
            "{stints}: {inner:?} to {outer:?}"
        );
        // The scheduler starts a stint some microseconds before the switch is traced.
        let per_stint_ns = 10_000 * stints + 1_000_000;
        assert!(on_cpu_ns + per_stint_ns >= inner.cpu_ns, "{on_cpu_ns}: {inner:?} to {outer:?}");
        assert!(
            on_cpu_ns <= outer.cpu_ns + per_stint_ns + stolen_ns,
            "{on_cpu_ns}: {inner:?} to {outer:?}, {stolen_ns} ns stolen"
        );
    }
    pinger.stop();
    spinner.stop();
}

#[test]
fn root_what_tasks_had_sums_up_to_what_cpus_were_busy() {
    let Some((mut probe, _alone)) = probe() else { return };
    let mut hog = Hog::start(&["ping-pong", &last_cpu().to_string(), "1000000000"]);
    probe.start();
    // Many short lives: none of their time may be lost.
    for _ in 0..200 {
        Command::new("true").status().unwrap();
    }
    let interval = probe.read();
    hog.stop();
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let busy_ns: f64 = interval.cpus.iter().map(|c| c.event_ratio.clone().unwrap() * wall_ns).sum();
    let tasks = probe.tasks().unwrap();
    let unowned_ns = interval.lost.get(UNOWNED_NS).copied().unwrap_or(0) as f64;
    let of_interrupts = |c: &CpuSample| c.irq_ratio.clone().unwrap() + c.softirq_ratio.clone().unwrap();
    let interrupts_ns = interval.cpus.iter().map(of_interrupts).sum::<f64>() * wall_ns;
    let tasks_ns = tasks.iter().map(|t| t.on_cpu_ns as f64).sum::<f64>() + interrupts_ns + unowned_ns;
    assert!((busy_ns - tasks_ns).abs() < 0.002 * busy_ns + 1e6, "CPUs {busy_ns} ns, tasks {tasks_ns} ns");
    assert!(tasks.iter().filter(|t| t.comm == "true" && t.ended).count() >= 190, "{}", tasks.len());
    for lost in ["task-sums", "task-end", "core-clock"] {
        assert!(!interval.lost.contains_key(lost), "{:?}", interval.lost);
    }
}

#[test]
fn root_siblings_are_busy_for_as_long_as_both_run() {
    let Some((probe, _alone)) = probe() else { return };
    drop(probe);
    let online: Vec<u32> = cpu_list::online(Path::new("/")).unwrap().into_iter().collect();
    let [first, second] = online[..2] else { return eprintln!("skipped: needs two CPUs") };
    let cores = Cores::declared(&format!("{first},{second}")).unwrap();
    let mut probe = cpu_time::open(&Options::of_this_machine().with_tasks(cores));
    let mut hogs = [first, second].map(|cpu| Hog::start(&["spin", &cpu.to_string(), "60"]));
    probe.start();
    sleep(Duration::from_secs(2));
    let interval = probe.read();
    for hog in &mut hogs {
        hog.stop();
    }
    let wall_ns = interval.until_ns - interval.from_ns;
    // With a hog on each, the core's two CPUs are both busy nearly all the time, whatever else runs on them.
    let idle_ns = |cpu: u32| {
        let sample = interval.cpus.iter().find(|c| c.cpu == cpu).unwrap();
        (1.0 - sample.event_ratio.clone().unwrap()) * wall_ns as f64
    };
    let tasks = probe.tasks().unwrap();
    for (hog, sibling) in hogs.iter().zip([second, first]) {
        let mut threads = tasks.iter().filter(|t| t.pid == hog.child.id());
        // Most time first: the one that spins.
        let task = threads.next().unwrap();
        assert!((task.alone_ns as f64) < 1e6 + idle_ns(sibling), "{task:?}: {interval:?}");
        let share_ns = task.alone_ns + task.sibling_busy_ns / 2;
        assert!(task.core_share_ns.abs_diff(share_ns) < 1_000_000, "{task:?}");
    }
    let shares: u64 = tasks.iter().map(|t| t.core_share_ns).sum();
    // The core is idle while both are: not longer than either is.
    let idle_ns_max = idle_ns(first).min(idle_ns(second));
    assert!(shares < wall_ns + 1_000_000, "{shares} of {wall_ns}");
    // Busy time without a thread, and interrupts, are in no thread's share.
    let of_interrupts = |c: &CpuSample| c.irq_ratio.clone().unwrap() + c.softirq_ratio.clone().unwrap();
    let interrupts_ns = interval.cpus.iter().map(of_interrupts).sum::<f64>() * wall_ns as f64;
    let unowned_ns = interval.lost.get(UNOWNED_NS).copied().unwrap_or(0) as f64;
    assert!(
        shares as f64 + idle_ns_max + interrupts_ns + unowned_ns + 1e6 > wall_ns as f64,
        "{shares} of {wall_ns}: {interval:?}"
    );
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
            // 1 ms in 10 s; a single second may have waited a little at each of its edges.
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
    // Threads that ran on this CPU only had no more of it than the named one.
    let top = sample.top.as_ref().unwrap();
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let spinners = probe.tasks().unwrap().iter().filter(|t| t.pid == hog.child.id());
    let most = spinners.map(|t| t.on_cpu_ns).max().unwrap() as f64 / wall_ns;
    assert!(most > 0.0 && top.ratio > most - 0.01, "{most}, {top:?}");
}

#[test]
fn root_every_context_switch_is_counted_once() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let all_before = context_switches();
    probe.start();
    let all_first = context_switches();
    let truth = ping_pong(Some(cpu), 20_000).unwrap();
    let all_last = context_switches();
    let interval = probe.read();
    let all_after = context_switches();

    let unseen = interval.lost.get("switch-unseen").copied().unwrap_or(0);
    let on_cpu = of(&interval, cpu).switches.clone().unwrap();
    assert!(on_cpu + unseen >= truth.switches, "{on_cpu} on CPU {cpu}, {} in truth", truth.switches);
    let all: u64 = interval.cpus.iter().map(|s| s.switches.clone().unwrap()).sum();
    // The kernel's count, read just inside and just outside of the same window.
    let (inside, outside) = (all_last - all_first, all_after - all_before);
    // A gap in the switches that we saw may hide more than one.
    assert!(all + 3 * unseen >= inside, "{all} seen and {unseen} not, {inside} by /proc/stat");
    assert!(all <= outside, "{all} seen, {outside} by /proc/stat");
}

#[test]
fn root_the_perf_rung_tells_what_the_bpf_rung_tells() {
    let Some((mut by_bpf, _alone)) = probe() else { return };
    let mut by_perf = cpu_time::open(&Options { highest: Rung::Perf, ..Options::of_this_machine() });
    assert_eq!(by_perf.rung(), Rung::Perf, "{:?}", by_perf.notes());
    let cpu = last_cpu();
    let mut hog = Hog::start(&["hide", &cpu.to_string(), "50", "60"]);
    by_perf.start();
    by_bpf.start();
    sleep(Duration::from_secs(2));
    let (by_bpf, by_perf) = (by_bpf.read(), by_perf.read());
    hog.stop();
    let doubt_ns: u64 = [&by_bpf, &by_perf].iter().filter_map(|i| i.lost.get("unsure-ns")).sum();
    // Perf's window contains the other one, by what this thread waits for a CPU in between.
    let apart_ns = by_bpf.from_ns.abs_diff(by_perf.from_ns) + by_bpf.until_ns.abs_diff(by_perf.until_ns);
    let doubt = (doubt_ns + apart_ns) as f64 / 2e9;
    for bpf in &by_bpf.cpus {
        let perf = of(&by_perf, bpf.cpu);
        let (bpf_ratio, perf_ratio) = (bpf.event_ratio.clone().unwrap(), perf.event_ratio.clone().unwrap());
        assert!((bpf_ratio - perf_ratio).abs() < 0.02 + doubt, "{bpf_ratio}, {perf_ratio}, doubt {doubt}");
    }
    let count = |i: &CpuInterval| of(i, cpu).switches.clone().unwrap();
    let lost: u64 = ["switch-unseen", "switch-record"].iter().filter_map(|l| by_perf.lost.get(*l)).sum();
    let (bpf, perf) = (count(&by_bpf), count(&by_perf));
    assert!(perf + 3 * lost >= bpf, "{bpf} switches, {perf} by perf, which lost {lost}");
}

#[test]
fn root_threads_that_share_a_cpu_wait_for_it_as_long_as_the_scheduler_says() {
    let Some((mut probe, _alone)) = probe() else { return };
    let cpu = last_cpu();
    let mut hog = Hog::start(&["spin", &format!("{cpu},{cpu},{cpu},{cpu}"), "60"]);
    let pid = hog.child.id();
    let outer_ns = hog.run_delay_of_all_ns();
    probe.start();
    let inner_ns = hog.run_delay_of_all_ns();
    sleep(Duration::from_secs(3));
    let inner_ns = hog.run_delay_of_all_ns() - inner_ns;
    let interval = probe.read();
    let outer_ns = hog.run_delay_of_all_ns() - outer_ns;
    hog.stop();
    let task_ns: u64 =
        probe.tasks().unwrap().iter().filter(|t| t.pid == pid).map(|t| t.wait_ns.clone().unwrap()).sum();
    // /proc counts a wait when it has ended: each thread has one pending at each edge.
    let under_way_ns = 4 * 20_000_000;
    let within = |found: u64| {
        found + under_way_ns >= inner_ns / 100 * 98 && found <= outer_ns / 100 * 102 + under_way_ns
    };
    assert!(within(task_ns), "threads {task_ns}, by /proc {inner_ns} to {outer_ns}");
    let sample = of(&interval, cpu);
    let cpu_ns = sample.run_queue_wait_ns.clone().unwrap();
    // Other threads may have waited for this CPU too.
    assert!(cpu_ns + under_way_ns >= inner_ns / 100 * 98, "CPU {cpu_ns}, by /proc {inner_ns} to {outer_ns}");
    assert_eq!(sample.full(interval.seconds()), Ok(true), "{sample:?}");
}

#[test]
fn root_the_thread_that_ran_most_goes_by_the_name_that_it_took() {
    let Some((mut probe, _alone)) = probe() else { return };
    probe.start();
    // A shell that becomes another program, which then spins until it is ended.
    let cpu = last_cpu().to_string();
    let mut child = Command::new("taskset")
        .args(["-c", &cpu, "sh", "-c", "while :; do :; done"])
        .spawn()
        .expect("util-linux is there");
    sleep(Duration::from_secs(1));
    let interval = probe.read();
    child.kill().unwrap();
    child.wait().unwrap();
    let top = of(&interval, last_cpu()).top.clone().unwrap();
    if top.pid == child.id() {
        assert_eq!(top.comm, "sh");
    } else {
        eprintln!("others had more of the CPU: {top:?}");
    }
}

#[test]
fn root_its_own_cost_is_measured() {
    let Some((mut probe, _alone)) = probe() else { return };
    probe.start();
    ping_pong(None, 1_000).unwrap();
    probe.read();
    sleep(Duration::from_millis(300));
    probe.read();
    let cost = probe.cost().unwrap();
    assert!(cost.events[0].count >= 2_000, "{cost:?}");
    for event in &cost.events {
        assert!(event.count > 0 && (1.0..5_000.0).contains(&event.ns), "{cost:?}");
    }
    // The samplers' programs are ours, too.
    let [_, _, timers] = cost.events[..] else { panic!("{cost:?}") };
    assert!(timers.name == "a timer" && timers.count >= 200, "{cost:?}");
    let mut events_only = cpu_time::open(&Options::of_this_machine());
    events_only.start();
    assert_eq!(events_only.cost().unwrap().events.len(), 2);
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

/// A probe on the best rung, and the exclusive right to measure; `None`, and the reason printed, if this
/// machine lacks that rung.
fn probe() -> Option<(CpuProbe, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let root = nix::unistd::geteuid().is_root();
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !root || !btf {
        eprintln!("skipped: needs root (here: {root}) and a kernel with BTF (here: {btf})");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = cpu_time::open(&Options::of_this_machine().with_ticks().with_tasks(Cores::default()));
    assert_eq!(probe.rung(), Rung::Bpf, "root and BTF are there: {:?}", probe.notes());
    assert_eq!(probe.notes(), [] as [&str; 0]);
    Some((probe, alone))
}

/// Time of the hog in an interval, by its clocks.
#[derive(Debug)]
struct Shares {
    /// Time that it saw itself run. Excludes interrupts, and the path from the switch to its first
    /// instruction.
    seen: f64,
    /// The scheduler's clock, which starts at the wake-up, inside of the interval.
    least: f64,
    /// The same around the interval, since the interval's edges lie between two readings, however long this
    /// thread waits; and the time that the host stole from that CPU: the scheduler's clock leaves it out, a
    /// switch cannot.
    most: f64,
    /// The part that the host stole, to 10 ms.
    stolen: f64,
}

fn watched(probe: &mut CpuProbe, hog: &mut Hog, time: Duration) -> (CpuInterval, Shares) {
    let stolen_before_ns = stolen_ns(last_cpu());
    let before_start_ns = hog.cpu_ns();
    probe.start();
    let (seen_after_start_ns, after_start_ns) = (hog.seen_ns(), hog.cpu_ns());
    sleep(time);
    let (before_read_ns, seen_before_read_ns) = (hog.cpu_ns(), hog.seen_ns());
    let interval = probe.read();
    let after_read_ns = hog.cpu_ns();
    let stolen_ns = stolen_ns(last_cpu()) - stolen_before_ns;
    let of_interval = |ns: u64| ns as f64 / (interval.until_ns - interval.from_ns) as f64;
    let shares = Shares {
        seen: of_interval(seen_before_read_ns - seen_after_start_ns),
        least: of_interval(before_read_ns - after_start_ns),
        most: of_interval(after_read_ns - before_start_ns + stolen_ns),
        stolen: of_interval(stolen_ns),
    };
    (interval, shares)
}

/// Time that the host stole from that CPU so far, to the 10 ms of `/proc/stat`.
fn stolen_ns(cpu: u32) -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().find_map(|l| l.strip_prefix(&format!("cpu{cpu} "))).unwrap();
    line.split_ascii_whitespace().nth(7).map_or(0, |ticks| ticks.parse::<u64>().unwrap() * 10_000_000)
}

/// Share of a process in one CPU's time.
fn share_of(probe: &CpuProbe, pid: u32, interval: &CpuInterval) -> f64 {
    let tasks = probe.tasks().unwrap().iter().filter(|t| t.pid == pid);
    tasks.map(|t| t.on_cpu_ns).sum::<u64>() as f64 / (interval.until_ns - interval.from_ns) as f64
}

fn last_cpu() -> u32 {
    cpu_list::online(Path::new("/")).unwrap().into_iter().max().unwrap()
}

/// The last CPU and another one; `None`, and the reason printed, if there is only one.
fn two_cpus() -> Option<(u32, u32)> {
    let usable = usable();
    let other = usable.iter().copied().find(|cpu| *cpu != last_cpu());
    if other.is_none() {
        eprintln!("skipped: needs two CPUs");
    }
    Some((last_cpu(), other?))
}

fn of(interval: &CpuInterval, cpu: u32) -> &CpuSample {
    interval.cpus.iter().find(|s| s.cpu == cpu).unwrap()
}

/// The kernel's count of context switches since boot.
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
