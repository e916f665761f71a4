//! Profiles of threads with known times, by their own clocks. Without root or BTF the tests print what they
//! skip.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use bakeoff_probes::profile::{Options, Profiler, open};
use nix::time::{ClockId, clock_gettime};
use record::profile::{Profile, ProfileKind, ProfileStack, ThreadState};

const MS: u64 = 1_000_000;

/// A running profile; `None` if it is unavailable.
fn begin(options: &Options) -> Option<Profiler> {
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return None;
    }
    let mut profiler = open(options).unwrap();
    profiler.start();
    Some(profiler)
}

fn of_this_process(kind: ProfileKind, comm: &str) -> Options {
    Options { pid: Some(std::process::id()), comm: Some(comm.to_owned()), ..Options::of_everyone(kind) }
}

fn clock_ns(clock: ClockId) -> u64 {
    Duration::from(clock_gettime(clock).unwrap()).as_nanos().try_into().unwrap()
}

/// Gathers as the command does, until the work is done.
fn gather_until<T>(profiler: &mut Profiler, work: &thread::JoinHandle<T>) {
    while !work.is_finished() {
        profiler.gather().unwrap();
        thread::park_timeout(Duration::from_millis(100));
    }
}

/// Functions that burn CPU time by themselves: no callee has a part in it that matters.
macro_rules! burner {
    ($name:ident, $odd:literal) => {
        #[inline(never)]
        fn $name(ns: u64) -> u64 {
            let start = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
            let mut x: u64 = $odd;
            loop {
                let mut i = 0_u32;
                while i < 20_000 {
                    x = (x ^ (x >> 7)) | 1;
                    i += 1;
                }
                let now = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
                if now - start >= ns {
                    return std::hint::black_box(now - start + (x & 0));
                }
            }
        }
    };
}

burner!(burns_seventy, 3);
burner!(burns_twenty, 5);
burner!(burns_ten, 7);

/// Time that the hypervisor took from all CPUs since boot.
fn stolen_ns() -> f64 {
    let ticks = bakeoff_probes::proc_stat::read(Path::new("/")).unwrap();
    let steal: u64 = ticks.values().map(|cpu| cpu.steal).sum();
    let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap();
    steal as f64 * 1e9 / per_s as f64
}

#[test]
fn root_shares_of_functions_are_those_of_their_own_clocks() {
    let comm = "split";
    let stolen_before = stolen_ns();
    let Some(mut profiler) = begin(&of_this_process(ProfileKind::OnCpu, comm)) else { return };
    let work = || {
        let mut took = [0; 3];
        let mut random: u64 = 88_172_645_463_325_252;
        // Six seconds: by chance alone a share of so many samples is off by 0.6 points (one standard
        // deviation).
        while took.iter().sum::<u64>() < 6_000 * MS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Of any length, so that no phase of the sampler's fits it.
            let ns = 500_000 + random % (3 * MS);
            match random >> 32 & 1023 {
                0..717 => took[0] += burns_seventy(ns),
                717..922 => took[1] += burns_twenty(ns),
                _ => took[2] += burns_ten(ns),
            }
        }
        took
    };
    let work = thread::Builder::new().name(comm.to_owned()).spawn(work).unwrap();
    gather_until(&mut profiler, &work);
    let took = work.join().unwrap();
    let profile = profiler.finish().unwrap();
    let functions = profile.functions();
    let self_ns =
        |name: &str| functions.iter().filter(|f| f.name.contains(name)).map(|f| f.self_ns).sum::<u64>();
    let found = ["burns_seventy", "burns_twenty", "burns_ten"].map(self_ns);
    let share = |all: [u64; 3], i: usize| all[i] as f64 / all.iter().sum::<u64>() as f64;
    for i in 0..3 {
        assert!((share(found, i) - share(took, i)).abs() < 0.02, "{found:?} {took:?} {:?}", profile.lost);
    }
    // All of the thread's time. Its own clock includes interrupts, which no sample sees, and omits what a
    // hypervisor took, which samples count as the thread's.
    let (total, truth) = (profile.total_ns() as f64, took.iter().sum::<u64>() as f64);
    let stolen = stolen_ns() - stolen_before;
    assert!(
        total > 0.9 * truth && total < 1.05 * truth + stolen,
        "{total} {truth} {stolen} {:?}",
        profile.lost
    );
    assert!(profile.cost.is_ok_and(|c| c.events > 5_000));
}

#[test]
fn root_what_a_thread_sleeps_is_off_cpu_time_of_the_function_that_sleeps() {
    let comm = "sleeps";
    let Some(mut profiler) = begin(&of_this_process(ProfileKind::OffCpu, comm)) else { return };
    let work = || {
        let begin = clock_ns(ClockId::CLOCK_MONOTONIC);
        for _ in 0..40 {
            thread::sleep(Duration::from_millis(25));
        }
        let slept = clock_ns(ClockId::CLOCK_MONOTONIC) - begin;
        (slept, clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID))
    };
    let work = thread::Builder::new().name(comm.to_owned()).spawn(work).unwrap();
    gather_until(&mut profiler, &work);
    let (slept_ns, ran_ns) = work.join().unwrap();
    let profile = profiler.finish().unwrap();
    // By its clocks: it was off whenever it was not running. Preempted, it was off too, and not blocked.
    let off = profile.total_ns() as f64;
    let truth = slept_ns.saturating_sub(ran_ns) as f64;
    assert!((off / truth - 1.0).abs() < 0.02, "{off} {truth} {profile:?}");
    let blocked: u64 = profile.ns_of(ThreadState::Blocked);
    assert!(blocked >= 40 * 25 * MS, "{blocked} {profile:?}");
    let is_sleep = |s: &&ProfileStack| {
        s.state == ThreadState::Blocked && s.frames.iter().any(|f| f.contains("nanosleep"))
    };
    let asleep: Vec<&ProfileStack> = profile.stacks.iter().filter(is_sleep).collect();
    // Some kernels hide some switches, and do not report of which thread.
    let unseen = profile.lost.get("switch-unseen").copied().unwrap_or(0);
    let count = asleep.iter().map(|s| s.count).sum::<u64>();
    assert!(count <= 40 && count + unseen >= 40, "{profile:?}");
}

#[test]
fn root_time_off_the_cpu_is_whole_where_switches_are_not_shown() {
    let comm = "half-hidden";
    // Never two in a row of one thread.
    let options = Options { leave_out: 7, ..of_this_process(ProfileKind::OffCpu, comm) };
    let Some(mut profiler) = begin(&options) else { return };
    let work = || {
        let begin = clock_ns(ClockId::CLOCK_MONOTONIC);
        for _ in 0..80 {
            thread::sleep(Duration::from_millis(10));
            burns_ten(2 * MS);
        }
        let took = clock_ns(ClockId::CLOCK_MONOTONIC) - begin;
        (took, clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID))
    };
    let work = thread::Builder::new().name(comm.to_owned()).spawn(work).unwrap();
    gather_until(&mut profiler, &work);
    let (took_ns, ran_ns) = work.join().unwrap();
    let profile = profiler.finish().unwrap();
    // Stolen time is off the CPU by the first clock, and not by the scheduler's.
    let (off, truth) = (profile.total_ns() as f64, took_ns.saturating_sub(ran_ns) as f64);
    assert!((off / truth - 1.0).abs() < 0.05, "{off} {truth} {profile:?}");
    assert!(profile.lost["switch-unseen"] > 0 && profile.doubts.without_stack_ns > 0, "{profile:?}");
    assert_eq!(profile.still_off, 0, "it has ended: {profile:?}");
}

#[test]
fn root_a_sleep_that_outlasts_the_profile_counts_until_its_end() {
    let comm = "outlasts";
    let Some(mut profiler) = begin(&of_this_process(ProfileKind::OffCpu, comm)) else { return };
    let (tell, told) = std::sync::mpsc::channel::<u64>();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let work = move || {
        tell.send(clock_ns(ClockId::CLOCK_MONOTONIC)).unwrap();
        // Until the test has its profile.
        let _ = stopped.recv();
    };
    let work = thread::Builder::new().name(comm.to_owned()).spawn(work).unwrap();
    let began = told.recv().unwrap();
    while clock_ns(ClockId::CLOCK_MONOTONIC) < began + 1_000 * MS {
        profiler.gather().unwrap();
        thread::park_timeout(Duration::from_millis(100));
    }
    let profile = profiler.finish().unwrap();
    let until = clock_ns(ClockId::CLOCK_MONOTONIC);
    stop.send(()).unwrap();
    work.join().unwrap();
    let off = profile.ns_of(ThreadState::Blocked);
    // Less the time that the thread needed from its clock to its sleep.
    assert!(off <= until - began && off > 900 * MS, "{off} {} {profile:?}", until - began);
    assert_eq!(profile.still_off, 1, "{profile:?}");
}

/// The clock of programs is 50,000,000 s ahead of the kernel's there.
#[test]
fn root_a_process_that_hangs_all_the_time_is_not_one_without_waits() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let status = || fs::read_to_string(format!("/proc/{}/status", sleeper.id())).unwrap();
    while !status().contains("Name:\tsleep") || !status().contains("State:\tS") {
        thread::yield_now();
    }
    let options = Options { pid: Some(sleeper.id()), ..Options::of_everyone(ProfileKind::OffCpu) };
    let profile = begin(&options).map(|mut profiler| profiler.finish().unwrap());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let Some(profile) = profile else { return };
    assert_eq!(profile.count(), 0, "{profile:?}");
    assert!(
        profile.notes.iter().any(|note| note.starts_with("1 thread of the process had no CPU")),
        "{profile:?}"
    );
}

#[test]
fn root_in_a_time_namespace_such_a_sleep_counts_until_its_end_too() {
    let mut inside = Command::new("unshare");
    inside.args(["--time", "--monotonic", "50000000", "--fork"]).arg(std::env::current_exe().unwrap());
    inside.args(["--exact", "root_a_sleep_that_outlasts_the_profile_counts_until_its_end"]);
    let has_namespaces = Path::new("/proc/self/timens_offsets").exists() && nix::unistd::geteuid().is_root();
    match inside.output() {
        Ok(ended) if has_namespaces => {
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        }
        other => eprintln!("skipped: no time namespace can be had with unshare: {other:?}"),
    }
}

#[test]
fn root_a_thread_that_another_keeps_off_its_cpu_waits_for_a_cpu() {
    let comm = "kept-off";
    let Some(mut profiler) = begin(&of_this_process(ProfileKind::OffCpu, comm)) else { return };
    // Two threads that never block, on one CPU: each waits while the other runs.
    let spin = || {
        let mut one = nix::sched::CpuSet::new();
        one.set(0).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
        burns_ten(700 * MS);
        (clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID), clock_ns(ClockId::CLOCK_MONOTONIC))
    };
    let start = || thread::Builder::new().name(comm.to_owned()).spawn(spin).unwrap();
    let spinners = [start(), start()];
    for spinner in &spinners {
        gather_until(&mut profiler, spinner);
    }
    for spinner in spinners {
        spinner.join().unwrap();
    }
    let profile = profiler.finish().unwrap();
    // The thread that ends last has had 700 ms, in which the other had about as many; other processes may
    // have had some too.
    let waited = profile.ns_of(ThreadState::Runnable);
    assert!(waited > 900 * MS, "{waited} {profile:?}");
    let is_named = |s: &ProfileStack| s.frames.last().is_some_and(|f| f == "[waits for a CPU]");
    assert!(profile.stacks.iter().filter(|s| s.state == ThreadState::Runnable).all(is_named), "{profile:?}");
}

/// A C program of three functions: `main` calls `outer`, which calls `inner`, which burns the given
/// milliseconds of CPU time.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <time.h>
static volatile unsigned long x = 1;
static unsigned long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000UL + t.tv_nsec;
}
__attribute__((noinline)) static void inner(unsigned long ns) {
	while (now() < ns)
		for (int i = 0; i < 100000; i++)
			x = x * 3 + 1;
	x++;
}
__attribute__((noinline)) static void outer(unsigned long ns) { inner(ns); x++; }
int main(int argc, char **argv) { outer(atol(argv[1]) * 1000000UL); x++; return 0; }
";

/// The program, compiled under that name; `None` if there is no compiler.
fn compiled(folder: &Path, name: &str, option: &str) -> Option<PathBuf> {
    let (source, program) = (folder.join("work.c"), folder.join(name));
    fs::write(&source, PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-optimize-sibling-calls", option, "-o"]).arg(&program).arg(&source);
    match cc.status() {
        Err(_) => {
            eprintln!("skipped: there is no C compiler");
            None
        }
        Ok(status) => {
            assert!(status.success());
            Some(program)
        }
    }
}

fn profile_of_program(name: &str, option: &str) -> Option<Profile> {
    let folder = tempfile::TempDir::new().unwrap();
    let program = compiled(folder.path(), name, option)?;
    let options = Options { comm: Some(name.to_owned()), ..Options::of_everyone(ProfileKind::OnCpu) };
    let mut profiler = begin(&options)?;
    let mut child = Command::new(program).arg("800").stdin(Stdio::null()).spawn().unwrap();
    let work = thread::spawn(move || child.wait().unwrap());
    gather_until(&mut profiler, &work);
    assert!(work.join().unwrap().success());
    Some(profiler.finish().unwrap())
}

#[test]
fn root_callers_are_found_by_frame_pointers() {
    let Some(profile) = profile_of_program("with-frames", "-fno-omit-frame-pointer") else { return };
    let through = |s: &&ProfileStack| s.frames.windows(3).any(|w| w == ["main", "outer", "inner"]);
    let ns: u64 = profile.stacks.iter().filter(through).map(|s| s.ns).sum();
    assert!(ns as f64 > 0.9 * profile.total_ns() as f64, "{profile:?}");
    assert!((profile.doubts.without_callers_ns as f64) < 0.05 * profile.total_ns() as f64, "{profile:?}");
}

#[test]
fn root_without_frame_pointers_the_function_is_right_and_its_callers_are_said_to_be_missing() {
    let Some(profile) = profile_of_program("without-frames", "-fomit-frame-pointer") else { return };
    let inner = profile.functions().into_iter().find(|f| f.name == "inner").unwrap();
    assert!(inner.self_ns as f64 > 0.9 * profile.total_ns() as f64, "{profile:?}");
    let lacking: u64 = profile
        .stacks
        .iter()
        .filter(|s| s.frames.last().is_some_and(|f| f == "inner") && !s.frames.contains(&"outer".to_owned()))
        .map(|s| s.ns)
        .sum();
    assert!(lacking > 0 && profile.doubts.without_callers_ns as f64 > 0.9 * lacking as f64, "{profile:?}");
}

#[test]
fn root_of_a_control_group_only_what_is_in_it_is_profiled() {
    let folder = Path::new("/sys/fs/cgroup").join(format!("bakeoff-profile-{}", std::process::id()));
    if !nix::unistd::geteuid().is_root() || fs::create_dir(&folder).is_err() {
        return eprintln!("skipped: no control group of version 2 can be made");
    }
    if !folder.join("cgroup.procs").exists() {
        fs::remove_dir(&folder).unwrap();
        return eprintln!("skipped: this hierarchy is not of version 2");
    }
    let cgroup = Some(bakeoff_probes::cgroups::find(folder.to_str().unwrap()).unwrap());
    let options = Options { cgroup, ..Options::of_everyone(ProfileKind::OnCpu) };
    let Some(mut profiler) = begin(&options) else { return };
    let script = format!(
        "echo $$ > {}/cgroup.procs; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done",
        folder.display()
    );
    let mut inside = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let work = thread::spawn(move || inside.wait().unwrap());
    // Another one, outside of it.
    burns_ten(300 * MS);
    gather_until(&mut profiler, &work);
    assert!(work.join().unwrap().success());
    let profile = profiler.finish().unwrap();
    fs::remove_dir(&folder).unwrap();
    assert!(profile.total_ns() > 0 && profile.stacks.iter().all(|s| s.comm == "sh"), "{profile:?}");
}

#[test]
fn root_time_of_processes_that_end_at_once_is_counted_with_or_without_a_name() {
    let folder = tempfile::TempDir::new().unwrap();
    let name = "ends-at-once";
    let Some(program) = compiled(folder.path(), name, "-fno-omit-frame-pointer") else { return };
    let options = Options { comm: Some(name.to_owned()), ..Options::of_everyone(ProfileKind::OnCpu) };
    let Some(mut profiler) = begin(&options) else { return };
    let burn = move || {
        // Two at a time.
        let start = || Command::new(&program).arg("30").stdin(Stdio::null()).spawn().unwrap();
        let mut last = start();
        for _ in 1..60 {
            let next = start();
            assert!(std::mem::replace(&mut last, next).wait().unwrap().success());
        }
        assert!(last.wait().unwrap().success());
    };
    let work = thread::spawn(burn);
    gather_until(&mut profiler, &work);
    work.join().unwrap();
    let profile = profiler.finish().unwrap();
    // Each stops within a loop of its 30 ms, and needed some to start and to end, which another name may have
    // had.
    let (found, truth) = (profile.total_ns() as f64, 60.0 * 30e6);
    assert!((0.9..1.25).contains(&(found / truth)), "{found} {truth} {:?}", profile.doubts);
    // Names are right, and time without names is reported.
    let named: u64 =
        profile.stacks.iter().filter(|s| s.frames.iter().any(|f| f == "inner")).map(|s| s.ns).sum();
    assert!(named > 0 && named as f64 + profile.doubts.ended_ns as f64 > 0.85 * found, "{profile:?}");
}

/// Switches the highest CPU off, and on again when it is dropped.
struct Hotplug(PathBuf);

impl Hotplug {
    /// `None` unless the user of the machine allows it: other programs lose a CPU for a moment, and those
    /// that are bound to it are moved for good.
    fn off() -> Option<(u32, Self)> {
        let allowed = std::env::var_os("BAKEOFF_TEST_HOTPLUG").is_some();
        let cpu = bakeoff_probes::cpu_list::online(Path::new("/")).unwrap().into_iter().max().unwrap();
        let switch = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        if !allowed || fs::write(&switch, "0").is_err() {
            eprintln!("skipped: needs BAKEOFF_TEST_HOTPLUG=1, root, and a CPU that can be switched off");
            return None;
        }
        Some((cpu, Self(switch)))
    }
}

impl Drop for Hotplug {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "1");
    }
}

/// The CPU is off and on again between two looks: the lists of CPUs do not differ.
#[test]
fn root_a_cpu_that_was_away_for_a_moment_is_reported() {
    let Some(mut profiler) = begin(&Options::of_everyone(ProfileKind::OnCpu)) else { return };
    profiler.gather().unwrap();
    let Some((cpu, off)) = Hotplug::off() else { return };
    drop(off);
    profiler.gather().unwrap();
    let profile = profiler.finish().unwrap();
    let said = format!("CPU {cpu} came online");
    assert!(profile.notes.iter().any(|note| note.starts_with(&said)), "{:?}", profile.notes);
}

#[test]
fn root_a_cpu_that_comes_online_is_not_sampled_and_that_is_reported() {
    for was_there_before in [false, true] {
        let mut profiler = was_there_before.then(|| begin(&Options::of_everyone(ProfileKind::OnCpu)));
        if profiler.as_ref().is_some_and(Option::is_none) {
            return;
        }
        let Some((cpu, off)) = Hotplug::off() else { return };
        // A CPU that was there has lost its sampler when it comes back.
        let profiler = profiler.take().unwrap_or_else(|| begin(&Options::of_everyone(ProfileKind::OnCpu)));
        let Some(mut profiler) = profiler else { return };
        profiler.gather().unwrap();
        drop(off);
        let until_ns = clock_ns(ClockId::CLOCK_MONOTONIC) + 500 * MS;
        while clock_ns(ClockId::CLOCK_MONOTONIC) < until_ns {
            profiler.gather().unwrap();
            thread::park_timeout(Duration::from_millis(100));
        }
        let profile = profiler.finish().unwrap();
        let said = format!("CPU {cpu} came online");
        assert!(profile.notes.iter().any(|note| note.starts_with(&said)), "{:?}", profile.notes);
        let lost = profile.lost["cpu-that-came-online"];
        assert!((480..2_000).contains(&lost), "{:?}", profile.lost);
    }
}
