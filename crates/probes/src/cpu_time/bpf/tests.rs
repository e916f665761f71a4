//! The programs against each other, and a core with known schedules.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::super::books::between;
use super::*;
use crate::topology::Cores;

#[test]
fn root_all_programs_on_the_switch_tell_the_same() {
    if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return;
    }
    let here = u32::try_from(sched_getcpu().unwrap()).unwrap();
    let all = [Hook::Btf, Hook::Raw, Hook::ByScheduler, Hook::WithTasks];
    let cores = Cores::default();
    let tasks = |hook: Hook| (hook == Hook::WithTasks).then_some(&cores);
    let mut all = all.map(|hook| {
        let possible = cpu_list::possible_count();
        Bpf::attach(
            hook,
            Setup { possible, tasks: tasks(hook), waits: false, ticks: false, walks_itself: false },
        )
        .unwrap()
    });
    // The scheduler's clock is known from the first switch after the first closing on.
    for bpf in &mut all {
        let _ = bpf.close(here);
    }
    hog::ping_pong(Some(here), 10).unwrap();
    let before = all.each_mut().map(|bpf| bpf.close(here).unwrap());
    hog::ping_pong(Some(here), 2_000).unwrap();
    thread::sleep(Duration::from_millis(200));
    let after = all.each_mut().map(|bpf| bpf.close(here).unwrap());
    let told: Vec<_> = before.iter().zip(&after).map(|(b, a)| between(b, a).unwrap()).collect();
    assert!(told[0].switches >= 3_998, "{told:?}");
    for one in &told {
        // The closings are some microseconds apart, and other threads may switch in that time.
        assert!(one.switches.abs_diff(told[0].switches) <= 20, "{told:?}");
        // They differ by the time around switches that were not shown.
        assert!((one.busy_ratio - told[0].busy_ratio).abs() < 0.05, "{told:?}");
        // A reading that a hypervisor interrupts is off by as much.
        assert!(one.balance_ns.abs() < 1_000_000, "{told:?}");
    }
}

#[test]
fn root_waits_that_the_kernel_does_not_stamp_are_missing_and_not_zero() {
    if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return;
    }
    let here = u32::try_from(sched_getcpu().unwrap()).unwrap();
    let mut bpf = Bpf::open(&Options::of_this_machine().with_tasks(Cores::default())).unwrap();
    assert!(bpf.sees_waits, "distributions' kernels do");
    bpf.sees_waits = false;
    bpf.next_edge();
    hog::ping_pong(Some(here), 10).unwrap();
    assert_eq!(bpf.close(here).unwrap().books.wait_ns, None);
    let tasks = bpf.tasks().unwrap();
    assert!(!tasks.is_empty());
    let is_missing =
        |wait: &Maybe<u64>| wait.as_ref().is_err_and(|why| why.reason.contains("CONFIG_SCHED_INFO"));
    assert!(tasks.iter().all(|task| is_missing(&task.wait_ns)), "{tasks:?}");
    assert!(bpf.waits().is_err());
}

/// The programs at each switch, without tasks; two CPUs that are online, of which this thread has the first.
fn on_two_cpus() -> Option<(Bpf, [u32; 2])> {
    if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return None;
    }
    let online: Vec<u32> = cpu_list::online(Path::new("/")).unwrap().into_iter().collect();
    let &[here, there, ..] = &online[..] else {
        eprintln!("skipped: needs two CPUs");
        return None;
    };
    pin(here);
    let possible = cpu_list::possible_count();
    let wanted = Setup { possible, tasks: None, waits: false, ticks: false, walks_itself: false };
    Some((Bpf::attach(Hook::Btf, wanted).unwrap(), [here, there]))
}

/// Moves this thread to a CPU.
fn pin(cpu: u32) {
    let mut set = CpuSet::new();
    set.set(cpu as usize).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

/// Closes the books of a CPU, and returns them.
fn closed(bpf: &mut Bpf, cpu: u32) -> cpu_time {
    bpf.run_closing(cpu).unwrap();
    let place = bpf.place(cpu).unwrap();
    // SAFETY: plain integers in memory that is mapped as long as `bpf` lives; only a closing writes them.
    unsafe { ptr::read_volatile(&raw const (*place).closed) }
}

/// Makes the books of a CPU look as if the kernel had hidden every switch since the books were `then`.
fn hide_switches_since(bpf: &Bpf, cpu: u32, then: &cpu_time) {
    let place = bpf.cpus.of(cpu).unwrap();
    // SAFETY: aligned words in memory that is mapped as long as `bpf` lives.
    unsafe {
        ptr::write_volatile(&raw mut (*place).books.running, then.running);
        ptr::write_volatile(&raw mut (*place).books.came_task, then.came_task);
        ptr::write_volatile(&raw mut (*place).books.came_sum_ns, then.came_sum_ns);
        ptr::write_volatile(&raw mut (*place).books.since_ns, then.since_ns);
    }
}

const MS: u64 = 1_000_000;
/// Minimum number of rounds of ten in which the CPU idled, for a test that needs an idle CPU.
const QUIET_MIN: usize = 3;

/// On an idle machine, the conductor of a load sleeps and wakes up, the kernel shows this to no tracer, and
/// the conductor closes the books. Its time on the CPU is known, so the idle time before is not in doubt. Of
/// a load, 8.5 % of the time were.
#[test]
fn root_a_thread_that_came_on_unseen_leaves_no_more_doubt_at_a_closing_than_it_ran() {
    let Some((mut bpf, [here, _])) = on_two_cpus() else { return };
    // What cannot be read is 0, which is the id of an idle task.
    let idle = 8;
    for _ in 0..5 {
        let before = closed(&mut bpf, here);
        thread::sleep(Duration::from_millis(2));
        let since_ns = Monotonic.now_ns() - 300 * MS;
        hide_switches_since(&bpf, here, &cpu_time { running: idle, since_ns, ..before });
        let after = closed(&mut bpf, here);
        assert!(after.unseen > before.unseen, "{before:?} {after:?}");
        let doubt_ns = after.unsure_ns - before.unsure_ns;
        assert!(doubt_ns < 50 * MS, "{doubt_ns} ns of {before:?} {after:?}");
        assert!(after.idle_ns - before.idle_ns > 250 * MS, "{before:?} {after:?}");
    }
}

/// Starts a thread that spins on a CPU for a time, by order, and blocks in between; it reports each start.
fn spinner() -> (mpsc::Sender<(u32, Duration)>, mpsc::Receiver<()>) {
    let (order, orders) = mpsc::channel::<(u32, Duration)>();
    let (tell, told) = mpsc::channel();
    // It ends with its orders.
    thread::spawn(move || {
        for (cpu, spin) in orders {
            pin(cpu);
            tell.send(()).unwrap();
            let until_ns = Monotonic.now_ns() + u64::try_from(spin.as_nanos()).unwrap();
            while Monotonic.now_ns() < until_ns {}
        }
    });
    (order, told)
}

/// The end of a stint was hidden, and the CPU idles. The thread ran for 20 ms since the books were closed
/// last, unless it ran elsewhere since: then that is not known.
#[test]
fn root_a_thread_that_went_off_unseen_has_its_stint_unless_it_ran_elsewhere_since() {
    let Some((mut bpf, [here, there])) = on_two_cpus() else { return };
    let (order, told) = spinner();
    // Other threads may take the CPU from it: not every time. An idle CPU cannot be made.
    let mut seen = Vec::new();
    for _ in 0..10 {
        closed(&mut bpf, there);
        order.send((there, Duration::from_millis(30))).unwrap();
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(10));
        let spins = closed(&mut bpf, there);
        thread::sleep(Duration::from_millis(200));
        hide_switches_since(&bpf, there, &spins);
        let after = closed(&mut bpf, there);
        let grown = |of: fn(&cpu_time) -> u64| (of(&after) - of(&spins)) / MS;
        seen.push((grown(|c| c.busy_ns), grown(|c| c.unsure_ns), grown(|c| c.idle_ns)));
        // It runs here, and then the same books are closed again.
        order.send((here, Duration::from_millis(1))).unwrap();
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(10));
        hide_switches_since(&bpf, there, &spins);
        let last = closed(&mut bpf, there);
        let grown = |of: fn(&cpu_time) -> u64| (of(&last) - of(&after)) / MS;
        assert!(grown(|c| c.idle_ns) < 150 || grown(|c| c.unsure_ns) > 150, "{after:?} {last:?}");
    }
    if seen.iter().filter(|(_, _, idle)| *idle > 350).count() < QUIET_MIN {
        return eprintln!("skipped: other work kept the CPU from idling");
    }
    let is_right =
        |(busy, doubt, idle): &(u64, u64, u64)| (15..80).contains(busy) && *doubt < 40 && *idle > 150;
    assert!(seen.iter().any(is_right), "busy, doubt and idle, ms: {seen:?}");
}

/// The end of a stint was hidden, and the kernel shows that the same thread comes on again: for the
/// scheduler, the last stint of the thread is then the new one, of no time. All of 20 ms were booked as idle,
/// without doubt.
#[test]
fn root_a_thread_that_went_off_unseen_and_comes_back_had_its_stint() {
    let Some((mut bpf, [_, there])) = on_two_cpus() else { return };
    let (order, told) = spinner();
    let mut seen = Vec::new();
    for _ in 0..10 {
        closed(&mut bpf, there);
        order.send((there, Duration::from_millis(30))).unwrap();
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(10));
        let before = closed(&mut bpf, there);
        thread::sleep(Duration::from_millis(100));
        hide_switches_since(&bpf, there, &before);
        order.send((there, Duration::from_millis(1))).unwrap();
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(5));
        let after = closed(&mut bpf, there);
        let grown = |of: fn(&cpu_time) -> u64| (of(&after) - of(&before)) / MS;
        seen.push((grown(|c| c.busy_ns), grown(|c| c.unsure_ns), grown(|c| c.idle_ns)));
    }
    let quiet = seen.iter().filter(|(_, _, idle)| *idle > 140).collect::<Vec<_>>();
    if quiet.len() < QUIET_MIN {
        return eprintln!("skipped: other work kept the CPU from idling");
    }
    // If another thread came in between, the stint is not known, and all of the time is in doubt.
    assert!(quiet.into_iter().all(|(_, doubt, _)| *doubt >= 10), "busy, doubt and idle, ms: {seen:?}");
}

/// A CPU goes offline: the waits that it counted are still part of the total, before and after.
#[test]
fn root_waits_of_a_cpu_that_is_offline_are_not_taken_off_those_of_others() {
    if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
        return eprintln!("skipped: needs root and a kernel with BTF");
    }
    let offline = cpu_list::possible_count();
    let wanted =
        Setup { possible: offline + 1, tasks: None, waits: false, ticks: false, walks_itself: false };
    let bpf = Bpf::attach(Hook::Btf, wanted).unwrap();
    let place = bpf.cpus.of(offline).unwrap();
    // SAFETY: an aligned word in memory that is mapped as long as `bpf` lives; no program runs on that CPU.
    unsafe { ptr::write_volatile(&raw mut (*place).waits.histogram[5], 7) };
    // No histogram is counted.
    assert_eq!(bpf.waits(), Ok(BTreeMap::from([(32, 7)])));
}

/// The programs on a machine with one core of several CPUs, not attached; [`switch_at`] plays switches on
/// them.
fn one_core(possible: u32, cpus: &str) -> Option<(CpuTimeSkel<'static>, PerCpu<cpu>)> {
    if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
        return None;
    }
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = CpuTimeSkelBuilder::default().open(place).unwrap();
    let cores = Cores::declared(cpus).unwrap();
    set_up(
        &mut open,
        Hook::WithTasks,
        Setup { possible, tasks: Some(&cores), waits: false, ticks: false, walks_itself: false },
    )
    .unwrap();
    let skel = open.load().unwrap();
    let cpus = PerCpu::map(&skel.maps.cpus).unwrap();
    place_on_cores(&cpus, Some(&cores));
    Some((skel, cpus))
}

/// Switches a CPU to a task or to idle; returns the time alone and the share of the stint that ended, in ns.
fn switch_at(skel: &mut CpuTimeSkel<'_>, cpu: usize, now_ns: u64, to_task: bool) -> (u64, f64) {
    let words = [cpu as u64, now_ns, u64::from(to_task)];
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
    skel.progs.replay.test_run(input).unwrap();
    let had = &skel.maps.bss_data.as_deref().unwrap().replayed;
    (had.alone_ns, had.share as f64 / 840.0)
}

/// Brute-force truth: the busy CPUs in each stretch between two switches.
#[derive(Default)]
struct Witness {
    busy: [bool; 8],
    alone_ns: [u64; 8],
    share_ns: [f64; 8],
    core_busy_ns: u64,
    last_ns: u64,
}

impl Witness {
    fn until(&mut self, now_ns: u64) {
        let ns = now_ns - std::mem::replace(&mut self.last_ns, now_ns);
        let count = self.busy.iter().filter(|b| **b).count();
        for cpu in (0..8).filter(|cpu| self.busy[*cpu]) {
            self.alone_ns[cpu] += if count == 1 { ns } else { 0 };
            self.share_ns[cpu] += ns as f64 / count as f64;
        }
        self.core_busy_ns += if count > 0 { ns } else { 0 };
    }
}

#[test]
fn root_shares_of_a_core_are_right_in_a_thousand_random_schedules() {
    let mut chance: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut draw = |below: u64| {
        // xorshift64: any numbers will do, the same in each run.
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance % below
    };
    let machine = |threads: u32| one_core(8, &format!("0-{}", threads - 1));
    let Some(mut machines) = [2, 4, 8].into_iter().map(machine).collect::<Option<Vec<_>>>() else {
        eprintln!("skipped: needs root and a kernel with BTF");
        return;
    };
    for schedule in 0..1_000_u64 {
        let kind = usize::try_from(schedule % 3).unwrap();
        let (skel, threads) = (&mut machines[kind].0, 2_usize << kind);
        // Each schedule starts with every CPU idle, at a separate time.
        let start_ns = (schedule + 1) * 1_000_000_000_000;
        for cpu in 0..8 {
            switch_at(skel, cpu, start_ns, false);
        }
        let mut witness = Witness { last_ns: start_ns, ..Witness::default() };
        let (mut alone_ns, mut share_ns) = ([0; 8], [0.0; 8]);
        let mut now_ns = start_ns;
        for _ in 0..60 {
            now_ns += draw(5_000_000);
            let cpu = usize::try_from(draw(threads as u64)).unwrap();
            let to_task = draw(3) > 0;
            witness.until(now_ns);
            let had = switch_at(skel, cpu, now_ns, to_task);
            if witness.busy[cpu] {
                alone_ns[cpu] += had.0;
                share_ns[cpu] += had.1;
            }
            witness.busy[cpu] = to_task;
        }
        now_ns += 1_000_000;
        witness.until(now_ns);
        for cpu in 0..8 {
            let had = switch_at(skel, cpu, now_ns, false);
            if witness.busy[cpu] {
                alone_ns[cpu] += had.0;
                share_ns[cpu] += had.1;
            }
            assert_eq!(alone_ns[cpu], witness.alone_ns[cpu], "schedule {schedule}, CPU {cpu}");
            assert!((share_ns[cpu] - witness.share_ns[cpu]).abs() < 1.0, "schedule {schedule}, CPU {cpu}");
        }
        let sum: f64 = share_ns.iter().sum();
        assert!((sum - witness.core_busy_ns as f64).abs() < 1_000.0, "schedule {schedule}: {sum}");
        assert!(share_ns[threads..].iter().all(|s| *s == 0.0));
    }
}

#[test]
fn root_eight_hogs_on_one_core_have_an_eighth_of_it_each() {
    let Some((mut skel, _)) = one_core(8, "0-7") else { return };
    for cpu in 0..8 {
        switch_at(&mut skel, cpu, 1_000, true);
    }
    for cpu in 0..8 {
        let (alone_ns, share_ns) = switch_at(&mut skel, cpu, 20_000_001_000, false);
        assert_eq!(alone_ns, 0);
        assert!((share_ns - 2.5e9).abs() < 1.0, "{share_ns}");
    }
}

#[test]
fn root_a_machine_may_have_any_number_of_cpus_and_has_no_more() {
    // Declared cores need not exist on the machine.
    let Some((mut skel, cpus)) = one_core(3_000, "2998-3001") else { return };
    let counted = |cpu| {
        // SAFETY: an aligned word in memory that is mapped as long as `cpus` lives.
        cpus.of(cpu).map(|place| unsafe { ptr::read_volatile(&raw const (*place).stint.counted) })
    };
    for cpu in 2_997..3_002 {
        switch_at(&mut skel, cpu, 1_000, true);
    }
    assert_eq!([2_997, 2_998, 2_999, 3_000].map(counted), [Some(0), Some(1), Some(1), None]);
    // Both had a half of their core, CPU 2997 has one for itself, and the others have no counters.
    let (alone_ns, share_ns) = switch_at(&mut skel, 2_999, 3_000, false);
    assert!(alone_ns == 0 && (share_ns - 1_000.0).abs() < 1.0, "{alone_ns} {share_ns}");
}

/// Plays a switch on CPU 0: from or to the idle task, or neither, to a thread that was queued then; returns
/// the time that threads have waited, and the time for which this one was held.
fn wait_until(
    skel: &mut CpuTimeSkel<'_>,
    cpus: &PerCpu<cpu>,
    idle: &str,
    now_ns: u64,
    queued_ns: u64,
) -> (u64, u64) {
    let idle = ["", "from idle", "to idle"].iter().position(|word| *word == idle).unwrap();
    let words = [0, idle as u64, now_ns, queued_ns];
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
    skel.progs.replay_wait.test_run(input).unwrap();
    // SAFETY: an aligned word in memory that is mapped as long as `cpus` lives; the program has ended.
    let waited_ns = unsafe { ptr::read_volatile(&raw const (*cpus.of(0).unwrap()).books.wait_ns) };
    (waited_ns, skel.maps.bss_data.as_deref().unwrap().replayed_held_ns)
}

#[test]
fn root_nobody_waits_for_a_cpu_that_idles() {
    let Some((mut skel, cpus)) = one_core(2, "0-1") else { return };
    let mut at = |idle: &str, now_ns, queued_ns| wait_until(&mut skel, &cpus, idle, now_ns, queued_ns);
    // Preempted by another thread, it waits for it.
    assert_eq!(at("", 1_000, 900), (100, 0));
    // Queued at 1,200, and held by a quota while its CPU idles from 1,300 to 9,000: another thread first.
    assert_eq!(at("to idle", 1_300, 0), (100, 0));
    assert_eq!(at("from idle", 9_000, 8_990), (110, 0));
    assert_eq!(at("", 9_050, 1_200), (160, 7_800));
    // A thread that wakes an idle CPU waits until that is awake.
    assert_eq!(at("to idle", 9_100, 0), (160, 0));
    assert_eq!(at("from idle", 9_300, 9_270), (190, 0));
    // Held by a quota, alone on its CPU: the switch that queues it is the one to the idle task.
    assert_eq!(at("to idle", 9_320, 0), (190, 0));
    assert_eq!(at("from idle", 9_380, 9_320), (190, 60));
    // The end of the idle time was not shown.
    assert_eq!(at("to idle", 9_400, 0), (190, 0));
    assert_eq!(at("", 9_500, 9_350), (290, 50));
}
