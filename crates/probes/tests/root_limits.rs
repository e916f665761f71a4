//! The reader of CPU limits against the kernel: a real quota, a real CPU set, and a process in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bakeoff_probes::limits::Limits;

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

    fn set_quota(&self, us: u32) {
        if self.is_v1 {
            fs::write(self.folder.join("cpu.cfs_period_us"), "10000").expect("root may");
            fs::write(self.folder.join("cpu.cfs_quota_us"), us.to_string()).expect("root may");
        } else {
            fs::write(self.folder.join("cpu.max"), format!("{us} 10000")).expect("root may");
        }
    }

    /// A process in the group that spins.
    fn spinner(&self) -> Child {
        let script = format!("echo $$ > {}/cgroup.procs; while :; do :; done", self.folder.display());
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
    group.set_quota(2_000);
    let mut spinner = group.spinner();
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
