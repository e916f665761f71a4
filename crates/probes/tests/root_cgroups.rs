//! Control groups as filters and keys, against groups with known processes: needs root, BTF and a writable
//! hierarchy of version 2; the test names what is missing.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_probes::block_io::{self, Options as IoOptions};
use bakeoff_probes::cgroups::{self, Cgroup};
use bakeoff_probes::cpu_time::{self, Options as CpuOptions};
use bakeoff_probes::locks::{self, Options as LockOptions};
use bakeoff_probes::observe::{self, Instrument};
use bakeoff_probes::profile::{self, Options as ProfileOptions};
use bakeoff_probes::topology::Cores;
use bakeoff_probes::user_locks::{self, Options as UserLockOptions};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use record::block_io::IoBy;
use record::clock::{Clock, Monotonic};
use record::cpu::{CgroupSample, CpuSample, UNOWNED_NS, by_cgroup};
use record::instruments::Instruments;
use record::profile::{ProfileKind, RunProfile, ThreadState};
use record::resources::UsedBy;

#[test]
fn root_groups_have_what_their_processes_had_and_sum_up_to_the_books() {
    let Some(groups) = Groups::new(&["a", "b", "b/below"]) else { return };
    let cpus: Vec<u32> = bakeoff_probes::hog::usable().into_iter().collect();
    let (first, last) = (cpus[0].to_string(), cpus[cpus.len() - 1].to_string());
    let mut probe = cpu_time::open(&CpuOptions::of_this_machine().with_tasks(Cores::default()));
    let spinners = [
        groups.start("a", &hog(&["spin", &first, "60"])),
        groups.start("b", &hog(&["spin", &last, "60"])),
        groups.start("b/below", &hog(&["spin", &last, "60"])),
    ];
    let (stolen_before_ns, outer) = (stolen_ns(), spinners.each_ref().map(Process::cpu_ns));
    probe.start();
    let inner = spinners.each_ref().map(Process::cpu_ns);
    sleep(Duration::from_secs(2));
    let until = spinners.each_ref().map(Process::cpu_ns);
    // A process that ends within the interval still belongs to its group.
    let mut shell = groups.start("b", &["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
    assert!(shell.wait());
    let interval = probe.read();
    let after = spinners.each_ref().map(Process::cpu_ns);
    // The clock of a process leaves out time that the host stole; two CPUs are counted to a tick of 10 ms
    // each.
    let stolen_ns = stolen_ns() - stolen_before_ns + 20_000_000;
    let tasks = probe.tasks().unwrap();
    let found = by_cgroup(tasks);
    let of = |name: &str| -> &CgroupSample {
        found.iter().find(|g| g.cgroup.as_deref() == Ok(&groups.name(name))).unwrap()
    };
    for (k, name) in ["a", "b", "b/below"].into_iter().enumerate() {
        // The scheduler's clock counts interrupts too, and starts a stint a little before the switch is
        // traced.
        let had_ns = of(name).on_cpu_ns + of(name).interrupted_ns;
        let slack_ns = 10_000 * of(name).stints + 1_000_000;
        assert!(had_ns + slack_ns >= until[k] - inner[k], "{name}: {had_ns} of {}", until[k] - inner[k]);
        if name != "b" {
            let most_ns = after[k] - outer[k] + stolen_ns + slack_ns;
            assert!(had_ns <= most_ns, "{name}: {had_ns} of {}", after[k] - outer[k]);
        }
    }
    let shell = tasks.iter().find(|t| t.pid == shell.child.id() && t.ended);
    assert_eq!(shell.unwrap().cgroup.as_deref(), Ok(groups.name("b").as_str()), "{shell:?}");

    // The time of groups, interrupts and unknown threads adds up to the busy time of the CPUs.
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let ratios = |of: fn(&CpuSample) -> f64| interval.cpus.iter().map(of).sum::<f64>() * wall_ns;
    let busy_ns = ratios(|c| c.event_ratio.clone().unwrap());
    let interrupts_ns = ratios(|c| c.irq_ratio.clone().unwrap() + c.softirq_ratio.clone().unwrap());
    let unowned_ns = interval.lost.get(UNOWNED_NS).copied().unwrap_or(0) as f64;
    let sum_ns = found.iter().map(|g| g.on_cpu_ns as f64).sum::<f64>() + interrupts_ns + unowned_ns;
    assert!((busy_ns - sum_ns).abs() < 0.002 * busy_ns + 1e6, "busy {busy_ns} ns, groups {sum_ns} ns");

    let asked = groups.asked("b");
    let held: Vec<&str> =
        found.iter().filter_map(|g| g.cgroup.as_deref().ok()).filter(|name| asked.holds(name)).collect();
    assert_eq!(held.len(), 2, "itself and the group below it: {held:?}");
}

#[test]
fn root_a_group_that_lives_and_goes_between_two_readings_counts_below_its_parent() {
    let Some(groups) = Groups::new(&["p"]) else { return };
    let mut probe = cpu_time::open(&CpuOptions::of_this_machine().with_tasks(Cores::default()));
    probe.start();
    let below = groups.folder.join("p/x/y");
    fs::create_dir_all(&below).unwrap();
    let mut shell = groups.start("p/x/y", &["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
    shell.wait_until_ended();
    let had_ns = shell.cpu_ns();
    shell.wait();
    for folder in [below.as_path(), below.parent().unwrap()] {
        while fs::remove_dir(folder).is_err() {
            std::thread::yield_now();
        }
    }
    let interval = probe.read();
    let asked = groups.asked("p");
    let of_p = |g: &&CgroupSample| g.cgroup.as_ref().is_ok_and(|name| asked.holds(name));
    let all = by_cgroup(probe.tasks().unwrap());
    let found_ns: u64 = all.iter().filter(of_p).map(|g| g.on_cpu_ns + g.interrupted_ns).sum();
    // A switch that the kernel hides leaves time that no thread's is.
    let unowned_ns = interval.lost.get(UNOWNED_NS).copied().unwrap_or(0);
    assert!(found_ns + unowned_ns + 2_000_000 >= had_ns, "{found_ns} of {had_ns}: {all:#?} {interval:?}");
}

#[test]
fn root_waits_are_of_the_group_that_was_asked_for_and_told_apart_by_group() {
    let Some(groups) = Groups::new(&["a", "b", "empty"]) else { return };
    let asked = |name: &str| Some(groups.asked(name));
    let everyones = UserLockOptions { by_cgroup: true, ..UserLockOptions::of_everyone_else() };
    let mut of_all = user_locks::open(&everyones).unwrap();
    let mut of_a = user_locks::open(&UserLockOptions { cgroup: asked("a"), ..everyones.clone() }).unwrap();
    let mut of_none = user_locks::open(&UserLockOptions { cgroup: asked("empty"), ..everyones }).unwrap();
    let words = example("one_lock", &["mutex", "shared", "3", "1"]);
    let mut processes = ["a", "b"].map(|name| groups.start(name, &words));
    let pids = processes.each_ref().map(|p| p.child.id());
    // Until they have ended, and before their ids mean nothing any more.
    processes.iter().for_each(Process::wait_until_ended);
    let [all, a, none] = [&mut of_all, &mut of_a, &mut of_none].map(|probe| probe.read().unwrap());
    assert!(processes.each_mut().map(Process::wait).iter().all(|ended_well| *ended_well));
    assert!(none.locks.is_empty(), "{none:#?}");
    assert!(!a.locks.is_empty() && a.locks.iter().all(|l| l.pid == pids[0]), "{pids:?}: {a:#?}");
    let name = |group: &str| Some(groups.name(group));
    for (pid, group) in pids.into_iter().zip(["a", "b"]) {
        let mut of_pid = all.locks.iter().filter(|l| l.pid == pid).peekable();
        assert!(of_pid.peek().is_some(), "{group}: {all:#?}");
        assert!(of_pid.all(|l| l.cgroup == name(group)), "{group}: {all:#?}");
    }
    let waits_of_a = |of: &[record::locks::UserLockSample]| -> u64 {
        of.iter().filter(|l| l.pid == pids[0]).map(|l| l.waits.count).sum()
    };
    // Both saw the whole life of the process.
    let lost: u64 = all.lost.values().chain(a.lost.values()).sum();
    assert!(waits_of_a(&all.locks).abs_diff(waits_of_a(&a.locks)) <= lost, "{all:#?} {a:#?}");
}

#[test]
fn root_waits_for_the_kernels_locks_are_told_apart_by_group() {
    let Some(groups) = Groups::new(&["a", "b", "empty"]) else { return };
    let everyones = LockOptions { by_cgroup: true, ..LockOptions::of_everyone() };
    let [mut of_all, mut of_a, mut of_none] = [None, Some("a"), Some("empty")].map(|name| {
        let cgroup = name.map(|name| groups.asked(name));
        locks::open(&LockOptions { cgroup, ..everyones.clone() }).unwrap()
    });
    let words = example("one_lock", &["pipe", "shared", "3", "1"]);
    let mut processes = ["a", "b"].map(|name| groups.start(name, &words));
    assert!(processes.each_mut().map(Process::wait).iter().all(|ended_well| *ended_well));
    let [all, a, none] = [&mut of_all, &mut of_a, &mut of_none].map(|probe| probe.read().unwrap());
    let waits = |interval: &record::locks::LockInterval, group: &str| -> u64 {
        let name = Some(groups.name(group));
        interval.locks.iter().filter(|l| l.cgroup == name).map(|l| l.waits.count).sum()
    };
    assert_eq!(none.total().0.count, 0, "{none:#?}");
    assert!(waits(&all, "a") > 0 && waits(&all, "b") > 0, "{all:#?}");
    assert_eq!(a.total().0.count, waits(&a, "a"), "no other group's: {a:#?}");
    // Both saw all of the group's life, except when the programs of one held off those of the other.
    let lost: u64 = all.lost.values().chain(a.lost.values()).sum();
    let (by_all, by_a) = (waits(&all, "a"), waits(&a, "a"));
    assert!(by_all.abs_diff(by_a) <= lost + by_all / 100, "{by_all} and {by_a}, lost {lost}");
}

#[test]
fn root_requests_are_of_the_group_that_started_them() {
    let Some(groups) = Groups::new(&["a", "b", "empty"]) else { return };
    let file = std::env::current_exe().unwrap();
    // Right after a build its pages may still be in memory only: dd's reads past the cache would first write
    // them.
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let this = format!("if={}", file.display());
    let everyones = IoOptions::everything(IoBy { comm: true, cgroup: true, ..IoBy::default() });
    let [mut of_all, mut of_a, mut of_none] = [None, Some("a"), Some("empty")].map(|name| {
        let cgroup = name.map(|name| groups.asked(name));
        let mut probe = block_io::open(&IoOptions { cgroup, ..everyones.clone() }).unwrap();
        probe.start().unwrap();
        probe
    });
    // Beside builds, 33 of the first 64 requests were counted in 2 of 13 runs. The cause is not known; the
    // pause rules out that hooks are attached late.
    std::thread::sleep(std::time::Duration::from_millis(200));
    for (group, count) in [("a", 64), ("b", 96)] {
        let count = format!("count={count}");
        let mut dd = groups.start(group, &["dd", &this, "of=/dev/null", "bs=4k", "iflag=direct", &count]);
        if !dd.wait() {
            return eprintln!("skipped: nothing can be read past the page cache here");
        }
    }
    let [all, a, none] = [&mut of_all, &mut of_a, &mut of_none].map(|probe| probe.read().unwrap());
    assert_eq!(none.total().count, 0, "{none:#?}");
    let of = |group: &str| -> u64 {
        let name = Some(groups.name(group));
        let is_its = |g: &&record::block_io::IoGroup| g.cgroup == name && g.comm.as_deref() == Some("dd");
        all.groups.iter().filter(is_its).map(|g| g.count).sum()
    };
    // dd may also have read itself in, and the end of a group's last request may be counted after its reader
    // was woken.
    assert!(
        (63..96).contains(&of("a")) && (95..128).contains(&of("b")),
        "{:#?}",
        all.groups.iter().map(|g| (&g.cgroup, &g.comm, g.count)).collect::<Vec<_>>()
    );
    assert!(a.groups.iter().all(|g| g.cgroup == Some(groups.name("a"))), "{a:#?}");
    let of_dd: u64 = a.groups.iter().filter(|g| g.comm.as_deref() == Some("dd")).map(|g| g.count).sum();
    assert!(of_dd.abs_diff(of("a")) <= 1, "{of_dd} {}", of("a"));
}

/// A service that restarts has another group at the same path.
#[test]
fn root_a_group_that_is_created_anew_is_followed_and_that_is_reported() {
    let Some(groups) = Groups::new(&["a"]) else { return };
    let cgroup = Some(groups.asked("a"));
    let mut waits =
        user_locks::open(&UserLockOptions { cgroup: cgroup.clone(), ..UserLockOptions::of_everyone_else() })
            .unwrap();
    let mut kernel =
        locks::open(&LockOptions { cgroup: cgroup.clone(), ..LockOptions::of_everyone() }).unwrap();
    let everything = IoOptions::everything(IoBy { comm: true, ..IoBy::default() });
    let mut io = block_io::open(&IoOptions { cgroup: cgroup.clone(), ..everything }).unwrap();
    let of_everyone = ProfileOptions::of_everyone(ProfileKind::OnCpu);
    let mut profiler = profile::open(&ProfileOptions { cgroup, ..of_everyone }).unwrap();
    profiler.start();
    let folder = groups.folder.join("a");
    let mut edge = || {
        waits.read().unwrap();
        kernel.read().unwrap();
        io.read().unwrap();
        profiler.gather().unwrap();
        [waits.take_news(), kernel.take_news(), io.take_news()]
    };
    assert_eq!(edge(), [const { Vec::<String>::new() }; 3], "it is the same group");
    fs::remove_dir(&folder).unwrap();
    for news in edge() {
        assert!(news.len() == 1 && news[0].contains("is gone"), "{news:?}");
    }
    assert_eq!(edge(), [const { Vec::<String>::new() }; 3], "once");
    fs::create_dir(&folder).unwrap();
    for news in edge() {
        assert!(news.len() == 1 && news[0].contains("was created anew"), "{news:?}");
    }
    let mut process = groups.start("a", &example("one_lock", &["mutex", "shared", "3", "1"]));
    process.wait_until_ended();
    let seen = waits.read().unwrap();
    assert!(!seen.locks.is_empty() && seen.locks.iter().all(|l| l.pid == process.child.id()), "{seen:#?}");
    assert!(process.wait());
    assert!(groups.start("a", &example("one_lock", &["pipe", "shared", "3", "1"])).wait());
    assert!(kernel.read().unwrap().total().0.count > 0);
    let this = format!("if={}", std::env::current_exe().unwrap().display());
    if groups.start("a", &["dd", &this, "of=/dev/null", "bs=4k", "iflag=direct", "count=64"]).wait() {
        assert!(io.read().unwrap().total().count >= 63);
    }
    let profile = profiler.finish().unwrap();
    let of_group = |stack: &record::profile::ProfileStack| ["one_lock", "dd"].contains(&stack.comm.as_str());
    assert!(profile.total_ns() > 0 && profile.stacks.iter().any(of_group), "{profile:#?}");
    let news: Vec<&String> = profile.notes.iter().filter(|note| note.contains("control group")).collect();
    assert_eq!(news.len(), 2, "{news:?}");
}

/// The profile beside a load that has ended.
fn ended(watch: &mut dyn Instrument) -> RunProfile {
    watch.end();
    let mut seen = Instruments::default();
    watch.hand_over(&mut seen);
    assert!(seen.profiles.is_empty(), "intervals are taken while the load runs");
    watch.hand_over_whole(&mut seen);
    assert_eq!((seen.profiles.len(), seen.missing.len()), (1, 0), "{seen:?}");
    seen.profiles.remove(0)
}

fn beside(name: &str) -> Box<dyn Instrument> {
    (observe::named([name]).unwrap()[0].open)()
}

fn names_of(taken: &RunProfile) -> BTreeSet<&str> {
    taken.profile.stacks.iter().map(|stack| stack.comm.as_str()).collect()
}

const SPIN: [&str; 3] = ["sh", "-c", "while :; do :; done"];

#[test]
fn root_a_profile_beside_a_load_is_the_servers_alone_or_is_called_the_machines() {
    let Some(groups) = Groups::new(&["server", "other"]) else { return };
    let server = groups.start("server", &SPIN);
    let _neighbor = groups.start("other", &hog(&["spin", "0", "60"]));
    let mut watch = beside("profile");
    watch.follow_server(Some(&groups.asked("server")));
    let before_ns = server.cpu_ns();
    watch.start();
    sleep(Duration::from_secs(2));
    let taken = ended(&mut *watch);
    let had_ns = server.cpu_ns() - before_ns;
    assert_eq!((taken.of, names_of(&taken)), (UsedBy::Server, BTreeSet::from(["sh"])));
    assert_eq!(taken.profile.only.as_ref().unwrap().cgroup, Some(groups.name("server")));
    let (found, had) = (taken.profile.total_ns() as f64, had_ns as f64);
    // The clock of the process runs a little longer; the hypervisor's time counts for the samples only.
    assert!(found > had * 0.8 - 1e7 && found < had * 1.2 + 1e8, "{found} of {had}");

    // A second load of the same instrument: nothing is left of the first.
    watch.start();
    sleep(Duration::from_millis(300));
    let second = ended(&mut *watch);
    assert!(second.profile.elapsed_ns < 1_500_000_000, "{}", second.profile.elapsed_ns);
    assert!(second.profile.total_ns() < 2 * second.profile.elapsed_ns, "{}", second.profile.total_ns());

    watch.follow_server(None);
    watch.start();
    sleep(Duration::from_secs(1));
    let taken = ended(&mut *watch);
    assert_eq!(taken.of, UsedBy::Machine);
    assert!(names_of(&taken).is_superset(&BTreeSet::from(["sh", "hog"])), "{:?}", names_of(&taken));
    // The reader's part of the cost is that of its thread, not of all threads of this process.
    let cost = taken.profile.cost.unwrap();
    assert!(cost.reader_s < taken.profile.elapsed_ns as f64 * 1e-9, "{cost:?}");
}

#[test]
fn root_a_server_that_ends_in_the_middle_leaves_its_names_and_a_note() {
    let Some(groups) = Groups::new(&["server"]) else { return };
    let mut server = groups.start("server", &SPIN);
    let mut watch = beside("profile");
    watch.follow_server(Some(&groups.asked("server")));
    watch.start();
    sleep(Duration::from_millis(700));
    server.child.kill().unwrap();
    server.wait();
    while fs::remove_dir(groups.folder.join("server")).is_err() {
        std::thread::yield_now();
    }
    sleep(Duration::from_millis(500));
    let taken = ended(&mut *watch);
    assert_eq!((taken.of, names_of(&taken)), (UsedBy::Server, BTreeSet::from(["sh"])));
    assert!(taken.profile.total_ns() > 50_000_000, "{taken:?}");
    // It lived for several reads: its functions have names, or its file's.
    assert!(taken.profile.doubts.ended_ns * 4 < taken.profile.total_ns(), "{:?}", taken.profile.doubts);
    assert!(taken.profile.notes.iter().any(|note| note.contains("is gone")), "{:?}", taken.profile.notes);
}

#[test]
fn root_what_a_server_waits_for_is_told_apart_from_what_a_neighbor_waits_for() {
    let Some(groups) = Groups::new(&["server", "other"]) else { return };
    let _server = groups.start("server", &["perl", "-e", "select(undef, undef, undef, 0.01) while 1"]);
    let _neighbor = groups.start("other", &["sh", "-c", "while :; do sleep 0.01; done"]);
    let mut watch = beside("off-cpu");
    watch.follow_server(Some(&groups.asked("server")));
    watch.start();
    sleep(Duration::from_secs(1));
    let taken = ended(&mut *watch);
    assert_eq!((taken.of, names_of(&taken)), (UsedBy::Server, BTreeSet::from(["perl"])));
    let elapsed_ns = taken.profile.elapsed_ns;
    assert!(taken.profile.total_ns() > elapsed_ns / 2 && taken.profile.count() > 20, "{taken:?}");
    assert!(taken.profile.stacks.iter().all(|stack| stack.state != ThreadState::Running), "{taken:?}");
}

#[test]
fn root_a_profile_that_is_not_wanted_any_more_costs_nothing() {
    let Some(groups) = Groups::new(&["server"]) else { return };
    // The blocks of a control arm have no instruments: no sampler may be left, no program, no thread.
    let links = || -> Vec<String> {
        let of = |entry: fs::DirEntry| Some(fs::read_link(entry.path()).ok()?.display().to_string());
        let all = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(of);
        all.filter(|link| link.contains("perf_event") || link.contains("bpf")).collect()
    };
    let threads = || {
        let name = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("comm")).ok();
        fs::read_dir("/proc/self/task")
            .unwrap()
            .flatten()
            .filter_map(name)
            .filter(|n| n == "profile\n")
            .count()
    };
    let before = links();
    for name in ["profile", "off-cpu"] {
        let mut watch = beside(name);
        watch.follow_server(Some(&groups.asked("server")));
        watch.start();
        assert!(links().len() > before.len() && threads() == 1, "{:?}", links());
        // It may be dropped in the middle, as at an error of the load.
        drop(watch);
        assert_eq!((links(), threads()), (before.clone(), 0));
    }
}

/// Time that the host stole from all CPUs since the machine started, by the kernel's account.
fn stolen_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = stat.lines().next().unwrap().split_ascii_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * 10_000_000
}

/// Groups for one test, and the exclusive right to measure; removed when dropped.
struct Groups {
    folder: PathBuf,
    names: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

impl Groups {
    /// `None`, and the reason printed, if something is absent.
    fn new(names: &[&str]) -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
            eprintln!("skipped: needs root and a kernel with BTF");
            return None;
        }
        let mount = match cgroups::mounted() {
            Ok(mount) => mount,
            Err(why) => {
                eprintln!("skipped: {why}");
                return None;
            }
        };
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = mount.join(format!("bakeoff-test-{}", process::id()));
        if let Err(why) = fs::create_dir_all(&folder) {
            eprintln!("skipped: no group can be made in {}: {why}", mount.display());
            return None;
        }
        for name in names {
            fs::create_dir(folder.join(name)).unwrap();
        }
        Some(Self { folder, names: names.iter().map(|n| (*n).to_owned()).collect(), _alone: alone })
    }

    fn name(&self, group: &str) -> String {
        self.asked(group).name
    }

    fn asked(&self, group: &str) -> Cgroup {
        cgroups::find(self.folder.join(group).to_str().unwrap()).unwrap()
    }

    /// Starts a program that is in the group from its first instruction on, and returns when its work has
    /// begun, if it reports that.
    fn start<S: AsRef<str>>(&self, group: &str, words: &[S]) -> Process {
        let members = self.folder.join(group).join("cgroup.procs");
        let mut command = Command::new(words[0].as_ref());
        command.args(words[1..].iter().map(AsRef::as_ref));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // SAFETY: opens and writes a file, which takes no lock that another thread may hold.
        unsafe { command.pre_exec(move || fs::write(&members, "0")) };
        let mut child = command.spawn().unwrap();
        if words[0].as_ref().ends_with("/hog") {
            let mut line = String::new();
            let stdout = child.stdout.as_mut().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
            assert_eq!(line, "ready\n");
        }
        Process { child }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for name in self.names.iter().rev() {
            // A process that was waited for may stay in its group a moment longer.
            let folder = self.folder.join(name);
            let until_ns = Monotonic.now_ns() + 5_000_000_000;
            while fs::remove_dir(&folder).is_err() && Monotonic.now_ns() < until_ns {
                std::thread::yield_now();
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// A process that is killed when this is dropped.
struct Process {
    child: Child,
}

impl Process {
    fn cpu_ns(&self) -> u64 {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let t = clock_gettime(clock_getcpuclockid(pid).unwrap()).unwrap();
        t.tv_sec().cast_unsigned() * 1_000_000_000 + t.tv_nsec().cast_unsigned()
    }

    /// Waits until it has ended, without reaping it.
    fn wait_until_ended(&self) {
        let id = Id::Pid(Pid::from_raw(self.child.id().cast_signed()));
        waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    }

    /// Whether it ended successfully.
    fn wait(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hog(words: &[&str]) -> Vec<String> {
    example("hog", words)
}

/// A program that cargo builds with the tests.
fn example(name: &str, words: &[&str]) -> Vec<String> {
    // target/debug/deps/this-test -> target/debug/examples
    let this = std::env::current_exe().unwrap();
    let program = this.parent().unwrap().parent().unwrap().join("examples").join(name);
    let program = program.to_str().unwrap().to_owned();
    std::iter::once(program).chain(words.iter().map(|w| (*w).to_owned())).collect()
}

fn sleep(span: Duration) {
    let until_ns = Monotonic.now_ns() + u64::try_from(span.as_nanos()).unwrap();
    while Monotonic.now_ns() < until_ns {
        Monotonic.sleep_until_ns(until_ns);
    }
}
