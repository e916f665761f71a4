use super::*;

/// A machine in a folder: its files, and nothing else.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), files);
    root
}

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const STATUS: (&str, &str) = ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n");

#[test]
fn version_2_takes_the_tightest_quota_on_the_path() {
    let root = machine(&[
        STATUS,
        ("proc/self/mountinfo", V2),
        ("proc/self/cgroup", "0::/a.slice/b.scope\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n"),
        ("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n"),
    ]);
    let limits = Limits::under(root.path(), "self");
    let cpu = limits.cpu();
    assert_eq!(cpu.quota, Ok(Some(Quota { cpus: 1.5, cgroup: "/a.slice".into() })));
    assert_eq!((cpu.cpus(), cpu.whole_cpus()), (Ok(1.5), Ok(1)));
    // The scope itself is tighter.
    write(root.path(), &[("sys/fs/cgroup/a.slice/b.scope/cpu.max", "50000 100000\n")]);
    assert_eq!(limits.cpu().quota, Ok(Some(Quota { cpus: 0.5, cgroup: "/a.slice/b.scope".into() })));
}

#[test]
fn version_1_has_a_hierarchy_for_each_controller() {
    let root = machine(&[
        STATUS,
        (
            "proc/self/mountinfo",
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        ),
        ("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/docker/7\n0::/system.slice\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.cfs_quota_us", "200000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpuset/docker/7/cpuset.effective_cpus", "2\n"),
        ("sys/fs/cgroup/unified/system.slice/cpu.stat", "usage_usec 1\n"),
    ]);
    let quota = Quota { cpus: 2.0, cgroup: "/docker/7".into() };
    assert_eq!(Limits::under(root.path(), "self").cpu().quota, Ok(Some(quota.clone())));
    // The same group by its name, and by its folder.
    for name in ["/docker/7", "docker/7", "/sys/fs/cgroup/cpu,cpuacct/docker/7"] {
        let cpu = Limits::of_cgroup_under(root.path(), Path::new(name)).cpu();
        assert_eq!(cpu.quota, Ok(Some(quota.clone())), "{name}");
        assert_eq!((cpu.allowed.clone(), cpu.whole_cpus()), (Ok([2].into()), Ok(1)), "{name}");
    }
    let none = Limits::of_cgroup_under(root.path(), Path::new("/docker/8"));
    assert!(none.cpu().quota.is_err() && none.watch().so_far().is_err());
}

#[test]
fn a_container_sees_its_own_group_at_the_mount() {
    // Without a namespace the mount begins at the container's group, and the name is the host's.
    let root = machine(&[
        STATUS,
        ("proc/self/mountinfo", "30 23 0:26 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
        ("proc/self/cgroup", "0::/docker/7/worker\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cpu.max", "100000 100000\n"),
        ("sys/fs/cgroup/worker/cpu.max", "max 100000\n"),
    ]);
    let quota = Limits::under(root.path(), "self").cpu().quota;
    assert_eq!(quota, Ok(Some(Quota { cpus: 1.0, cgroup: "/docker/7".into() })));
    // With a namespace, the name is its root.
    write(root.path(), &[("proc/self/mountinfo", V2), ("proc/self/cgroup", "0::/\n")]);
    let quota = Limits::under(root.path(), "self").cpu().quota;
    assert_eq!(quota, Ok(Some(Quota { cpus: 1.0, cgroup: "/".into() })));
}

#[test]
fn a_mount_of_another_namespace_is_searched_for_the_process() {
    let pid = std::process::id().to_string();
    let root = machine(&[
        STATUS,
        // A new namespace over an old mount: the name says nothing about the folder.
        ("proc/self/mountinfo", "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cgroup.procs", "1\n"),
        ("sys/fs/cgroup/other/cgroup.procs", "1\n2\n"),
        ("sys/fs/cgroup/a/b/cgroup.procs", &format!("3\n{pid}\n")),
        ("sys/fs/cgroup/a/b/cpu.max", "30000 100000\n"),
    ]);
    let quota = Limits::under(root.path(), "self").cpu().quota.unwrap().unwrap();
    assert!((quota.cpus - 0.3).abs() < 1e-12, "{quota:?}");
    write(root.path(), &[("sys/fs/cgroup/a/b/cgroup.procs", "3\n")]);
    let why = Limits::under(root.path(), "self").cpu().quota.unwrap_err();
    assert_eq!(why.reason, "control group / cannot be read at /sys/fs/cgroup");
}

#[test]
fn throttling_is_the_difference_of_the_counters() {
    let stat = |throttled: u64, us: u64| {
        format!("usage_usec 9\nnr_periods 50\nnr_throttled {throttled}\nthrottled_usec {us}\n")
    };
    let root = machine(&[
        STATUS,
        ("proc/self/mountinfo", V2),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 77\n"),
        ("sys/fs/cgroup/a/cpu.stat", &stat(40, 4_000)),
        ("sys/fs/cgroup/a/b/cpu.stat", &stat(0, 0)),
        ("sys/fs/cgroup/a/b/cpu.stat.local", "throttled_usec 4000\n"),
    ]);
    let watch = Limits::under(root.path(), "self").watch();
    assert_eq!(watch.so_far(), Ok(Throttled { periods: 0, time_ns: 0, cgroup: "/a/b".into() }));
    write(
        root.path(),
        &[
            ("sys/fs/cgroup/a/cpu.stat", &stat(43, 5_500)),
            ("sys/fs/cgroup/a/b/cpu.stat.local", "throttled_usec 5500\n"),
        ],
    );
    assert_eq!(watch.so_far(), Ok(Throttled { periods: 3, time_ns: 1_500_000, cgroup: "/a".into() }));
    // Only the local time moves: an ancestor outside of the namespace did it.
    write(root.path(), &[("sys/fs/cgroup/a/cpu.stat", &stat(40, 4_000))]);
    assert_eq!(watch.so_far(), Ok(Throttled { periods: 0, time_ns: 1_500_000, cgroup: "/a/b".into() }));
}

#[test]
fn a_quota_above_several_groups_is_named_once_an_interval() {
    let stat = |periods: u64, us: u64| format!("nr_throttled {periods}\nthrottled_usec {us}\n");
    let root = machine(&[
        STATUS,
        ("proc/self/mountinfo", V2),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/a/cpu.stat", &stat(40, 4_000)),
        ("sys/fs/cgroup/a/b/cpu.stat", &stat(0, 0)),
        ("sys/fs/cgroup/a/c/cpu.stat", &stat(0, 0)),
    ]);
    let mut quotas = Quotas::under(root.path());
    let mut since_last = || quotas.since_last(["/a/b", "/a/c", "(cgroup 7)"].into_iter());
    assert_eq!(since_last(), (Vec::new(), BTreeSet::new()));
    write(root.path(), &[("sys/fs/cgroup/a/cpu.stat", &stat(43, 5_500))]);
    let found = vec![Throttled { periods: 3, time_ns: 1_500_000, cgroup: "/a".into() }];
    assert_eq!(since_last(), (found, BTreeSet::new()));
    assert_eq!(since_last(), (Vec::new(), BTreeSet::new()));
    // One goes; its quota and those above it may have stopped it until then.
    fs::remove_dir_all(root.path().join("sys/fs/cgroup/a/c")).unwrap();
    let why = "throttling is unknown: control group /a/c is gone".to_owned();
    assert_eq!(since_last(), (Vec::new(), [why].into()));
    assert_eq!(since_last(), (Vec::new(), BTreeSet::new()), "once");
}

#[test]
fn the_throttling_of_a_group_that_is_gone_or_was_created_anew_is_unknown_and_not_none() {
    let stat = |periods: u64| format!("nr_throttled {periods}\nthrottled_usec {periods}000\n");
    let root = machine(&[
        STATUS,
        ("proc/self/mountinfo", V2),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/a/cpu.stat", &stat(40)),
        ("sys/fs/cgroup/a/b/cpu.stat", &stat(0)),
    ]);
    let watch = Limits::of_cgroup_under(root.path(), Path::new("/a/b")).watch();
    let unknown = |said: &str| {
        let why = watch.so_far().unwrap_err().reason;
        assert!(why.contains(said), "{why}");
    };
    assert!(!watch.so_far().unwrap().is_any());
    let folder = root.path().join("sys/fs/cgroup/a/b");
    // Kept elsewhere, so that its inode is not free for another one.
    fs::rename(&folder, root.path().join("gone")).unwrap();
    unknown("control group /a/b is gone");
    write(root.path(), &[("sys/fs/cgroup/a/b/cpu.stat", &stat(5))]);
    unknown("control group /a/b was created anew");
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(root.path().join("gone"), &folder).unwrap();
    assert!(!watch.so_far().unwrap().is_any(), "it is the same again");
    // The controller is turned off: from 40 to nothing is not 0.
    write(root.path(), &[("sys/fs/cgroup/a/cpu.stat", "usage_usec 7\n")]);
    unknown("control group /a ");
    write(root.path(), &[("sys/fs/cgroup/a/cpu.stat", &stat(39))]);
    unknown("control group /a ");
}

#[test]
fn a_kernel_without_the_controller_has_no_quota_and_a_file_that_cannot_be_read_has_an_unknown_one() {
    let root = machine(&[
        STATUS,
        ("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n"),
        ("proc/self/cgroup", ""),
        ("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t0\n"),
    ]);
    let limits = Limits::under(root.path(), "self");
    assert_eq!((limits.cpu().quota, limits.cpu().whole_cpus()), (Ok(None), Ok(4)));
    assert!(!limits.watch().so_far().unwrap().is_any());
    // The controller is on and its files are not there: that is not the same as no quota.
    write(root.path(), &[("proc/cgroups", "cpu\t1\t1\t1\n")]);
    assert!(limits.cpu().quota.is_err() && limits.watch().so_far().is_err());
    let odd = machine(&[
        STATUS,
        ("proc/self/mountinfo", V2),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/cpu.max", "a lot\n"),
    ]);
    assert!(Limits::under(odd.path(), "self").cpu().quota.unwrap_err().reason.ends_with("reads `a lot`"));
}
