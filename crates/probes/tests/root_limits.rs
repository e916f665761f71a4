//! The reader of CPU limits against the kernel: a real quota, a real CPU set, and a process in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bakeoff_probes::cpu_time::{self, Options};
use bakeoff_probes::hog::usable;
use bakeoff_probes::limits::Limits;
use bakeoff_probes::topology::Cores;
use record::clock::{Clock as _, Monotonic};
use record::cpu::Rung;

/// A control group that is removed at the end, with its processes.
struct Group {
    folder: PathBuf,
    is_v1: bool,
}

impl Group {
    /// `None` if a group cannot be created here: no root, no controller.
    fn make(name: &str) -> Option<Self> {
        let (mount, is_v1) =
            [("/sys/fs/cgroup/cpu", true), ("/sys/fs/cgroup/cpu,cpuacct", true), ("/sys/fs/cgroup", false)]
                .into_iter()
                .find(|(mount, is_v1)| {
                    let file = if *is_v1 { "cpu.cfs_quota_us" } else { "cgroup.subtree_control" };
                    let text = fs::read_to_string(Path::new(mount).join(file)).unwrap_or_default();
                    // The root group of version 1 has the file on some kernels only; its shares are always
                    // there.
                    text.contains("cpu") || (*is_v1 && Path::new(mount).join("cpu.shares").exists())
                })?;
        let folder = Path::new(mount).join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        Some(Self { folder, is_v1 })
    }

    fn set_quota(&self, us: u32, period_us: u32) {
        if self.is_v1 {
            fs::write(self.folder.join("cpu.cfs_period_us"), period_us.to_string()).expect("root may");
            fs::write(self.folder.join("cpu.cfs_quota_us"), us.to_string()).expect("root may");
        } else {
            fs::write(self.folder.join("cpu.max"), format!("{us} {period_us}")).expect("root may");
        }
    }

    /// A process in the group that spins, after `first`.
    fn spinner(&self, first: &str) -> Child {
        let script = format!("{first}echo $$ > {}/cgroup.procs; while :; do :; done", self.folder.display());
        Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().expect("root may")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A killed process leaves the group when it is reaped; that has happened.
        while fs::read_to_string(self.folder.join("cgroup.procs")).is_ok_and(|p| !p.is_empty()) {
            std::thread::yield_now();
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn root_a_quota_is_read_and_its_throttling_counted() {
    let Some(group) = Group::make("bakeoff-test-limits") else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    group.set_quota(2_000, 10_000);
    let mut spinner = group.spinner("");
    // Until the shell has moved itself, its group is ours.
    let limits = loop {
        let limits = Limits::of_process(spinner.id());
        if limits.cgroup().is_ok_and(|name| name.contains("bakeoff-test-limits")) {
            break limits;
        }
        std::thread::yield_now();
    };
    let quota = limits.cpu().quota.unwrap().expect("it was set");
    let watch = limits.watch();
    let by_name = Limits::of_cgroup(&group.folder);
    let watch_by_name = by_name.watch();
    let throttled = loop {
        let throttled = watch.so_far().unwrap();
        if throttled.periods >= 5 {
            break throttled;
        }
        std::thread::yield_now();
    };
    let later = watch_by_name.so_far().unwrap();
    spinner.kill().unwrap();
    spinner.wait().unwrap();
    assert!((quota.cpus - 0.2).abs() < 1e-9, "{quota:?}");
    assert!(quota.cgroup.contains("bakeoff-test-limits"), "{quota:?}");
    assert_eq!(by_name.cpu().quota.unwrap().unwrap().cpus.to_bits(), quota.cpus.to_bits());
    // A fifth of the time is granted: of each period of 10 ms it was stopped for some of the other 8.
    assert!(throttled.time_ns > 0 && throttled.cgroup.contains("bakeoff-test-limits"), "{throttled:?}");
    assert!(later.periods + 1 >= throttled.periods, "{later:?} {throttled:?}");
    // Its counters go with it: what it was stopped for is unknown, not nothing.
    drop(group);
    let gone = watch.so_far().unwrap_err().reason;
    assert!(gone.contains("bakeoff-test-limits") && gone.ends_with("is gone"), "{gone}");
}

/// A thread that a quota holds stays runnable: it waits for the quota, not for the CPU.
#[test]
fn root_a_cpu_that_idles_while_a_quota_holds_its_thread_is_not_full() {
    let options = Options::of_this_machine().with_tasks(Cores::default());
    if !nix::unistd::geteuid().is_root()
        || !Path::new("/sys/kernel/btf/vmlinux").exists()
        || usable().len() < 2
    {
        return eprintln!("skipped: needs root, a kernel with BTF and two CPUs");
    }
    let mut probe = cpu_time::open(&options);
    assert_eq!(probe.rung(), Rung::Bpf, "root and BTF are there: {:?}", probe.notes());
    let Some(group) = Group::make("bakeoff-test-throttled") else {
        return eprintln!("skipped: needs a control group with the CPU controller");
    };
    let cpu = usable().into_iter().max().expect("more than one");
    group.set_quota(20_000, 100_000);
    let mut spinner = group.spinner(&format!("taskset -cp {cpu} $$ > /dev/null; "));
    let watch = Limits::of_cgroup(&group.folder).watch();
    while watch.so_far().unwrap().periods < 3 {
        std::thread::yield_now();
    }
    probe.start();
    // Other work may have the CPU now and then, and the thread then waits for it: the quietest interval
    // counts.
    let mut quietest = (1.0, 0.0, 0.0, 0.0);
    for _ in 0..12 {
        Monotonic.sleep_until_ns(Monotonic.now_ns() + 300_000_000);
        let interval = probe.read();
        let sample = interval.cpus.iter().find(|c| c.cpu == cpu).expect("it is online");
        let of_thread = probe.tasks().unwrap().iter().find(|t| t.pid == spinner.id());
        let thread = of_thread.map_or((0, 0), |t| (t.wait_ns.clone().unwrap(), t.on_cpu_ns));
        let share = |ns: u64| ns as f64 * 1e-9 / interval.seconds();
        let waiting = sample.waiting(interval.seconds()).unwrap();
        let found = (sample.event_ratio.clone().unwrap(), waiting, share(thread.0), share(thread.1));
        if found.0 < quietest.0 {
            quietest = found;
        }
        if quietest.0 < 0.35 {
            break;
        }
    }
    spinner.kill().unwrap();
    spinner.wait().unwrap();
    let (busy, waiting, of_thread, ran) = quietest;
    // While it waited for the CPU, another thread had it.
    assert!(of_thread < busy - ran + 0.05, "{busy:.3} busy, it ran {ran:.3} and waited {of_thread:.3}");
    if busy > 0.35 {
        return eprintln!("skipped in part: other work has CPU {cpu}");
    }
    assert!(waiting < 0.1 + busy - ran, "{busy:.3} busy, it ran {ran:.3}; {waiting:.3} waiting");
}

#[test]
fn an_affinity_is_a_limit() {
    let own = Limits::of_self().cpu().allowed.unwrap();
    let one = own.first().unwrap();
    let mut child =
        Command::new("taskset").args(["-c", &one.to_string(), "cat"]).stdin(Stdio::piped()).spawn();
    let Ok(child) = &mut child else { return eprintln!("skipped: needs taskset") };
    // taskset becomes cat after it has set the affinity.
    let name = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
    while name().trim() != "cat" {
        std::thread::yield_now();
    }
    let cpu = Limits::of_process(child.id()).cpu();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!((cpu.allowed.clone(), cpu.whole_cpus()), (Ok([*one].into()), Ok(1)));
}
