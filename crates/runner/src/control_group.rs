//! Control groups: they hold the processes of a series, whatever process group, session or parent these
//! choose.
//!
//! A process cannot leave its control group unless it may write to another one. Version 2 is used if it is
//! mounted, also together with version 1; otherwise a hierarchy of version 1, preferably the one that
//! accounts CPU time.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use load::Stop;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{Pid, getpid};
use probes::cgroups::{self, Cgroup};
use record::clock::{Clock as _, Monotonic};

use crate::account;
use crate::pidfd;
use crate::process::{Waited, wait_for};
use crate::random;

/// Prefix of the names of our control groups.
const PREFIX: &str = "bakeoff-";
/// Time limit for killed processes to leave their control group, which needs the kernel to free their memory.
const PATIENCE: Duration = Duration::from_mins(1);
/// Hierarchies of version 1, best first.
const HIERARCHIES: [&str; 5] = ["cpuacct", "pids", "freezer", "name=systemd", "cpu"];

/// A control group that this process created.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    path: PathBuf,
    procs: File,
    /// Groups of the same name in other hierarchies of version 1, which limit the same processes.
    limiting: Vec<(PathBuf, File)>,
}

/// Limits of all processes of a series together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Limits {
    /// CPU time per time.
    pub(crate) cpus: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
}

/// File that freezes a group of version 2.
const FREEZE: &str = "cgroup.freeze";
/// Time limit for the processes of a group to stop or to go on: one may be in the middle of a system call.
const FREEZE_PATIENCE_NS: u64 = 10_000_000_000;
/// Interval at which that is checked. The kernel notifies at most every 10 ms.
const FREEZE_LOOK_NS: u64 = 100_000;

/// Period of a CPU quota, which is the kernel's default.
const PERIOD_US: f64 = 100_000.0;

impl ControlGroup {
    /// Returns the path of a control group with that name; `None` if this process cannot create one.
    pub(crate) fn place(token: &str) -> Option<PathBuf> {
        let own = own_folders().into_iter().find(|folder| {
            // Only an attempt shows whether one can be created.
            let trial = folder.join(format!("{PREFIX}{token}-probe"));
            let can = fs::create_dir(&trial).is_ok() && open_procs(&trial).is_ok();
            let _ = fs::remove_dir(&trial);
            can
        })?;
        Some(own.join(format!("{PREFIX}{token}")))
    }

    /// Creates the group, empty.
    pub(crate) fn make(path: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        match open_procs(&path) {
            Ok(procs) => Ok(Self { path, procs, limiting: Vec::new() }),
            Err(e) => {
                let _ = fs::remove_dir(&path);
                Err(e)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns it as a group of version 2; `None` if it is of version 1.
    pub(crate) fn of_version_2(&self) -> Option<Cgroup> {
        cgroups::find(self.path.to_str()?).ok()
    }

    /// Whether this process can create groups here that it can freeze: those of version 2.
    ///
    /// # Errors
    ///
    /// The reason, with advice.
    pub(crate) fn can_freeze_here() -> Result<(), String> {
        let advice = "`design.mode = \"slices\"` needs a control group of version 2 that bakeoff may create and freeze: run \
                      as root, or with `systemd-run --scope -p Delegate=yes`; or use `mode = \"series\"`";
        let why = match Self::place(&random::token()).map(Self::make) {
            None => "no control group can be created here".to_owned(),
            Some(Err(e)) => e.to_string(),
            Some(Ok(group)) => match group.freeze().and_then(|()| group.thaw()) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            },
        };
        Err(format!("{advice} ({why})"))
    }

    /// Stops all processes of the group where they are, and waits until all have stopped.
    pub(crate) fn freeze(&self) -> Result<(), String> {
        self.set_frozen(true)
    }

    /// Lets all processes of the group run, and waits until none is stopped.
    pub(crate) fn thaw(&self) -> Result<(), String> {
        self.set_frozen(false)
    }

    fn set_frozen(&self, is_frozen: bool) -> Result<(), String> {
        let (digit, verb) = if is_frozen { ("1", "freeze") } else { ("0", "thaw") };
        let group = self.path.display();
        fs::write(self.path.join(FREEZE), digit).map_err(|e| format!("cannot {verb} {group}: {e}"))?;
        let until_ns = Monotonic.now_ns() + FREEZE_PATIENCE_NS;
        let line = format!("frozen {digit}");
        loop {
            let state = fs::read_to_string(self.path.join("cgroup.events"));
            let state = state.map_err(|e| format!("cannot {verb} {group}: {e}"))?;
            if state.lines().any(|found| found == line) {
                return Ok(());
            }
            let now_ns = Monotonic.now_ns();
            if now_ns >= until_ns {
                let limit_s = FREEZE_PATIENCE_NS / 1_000_000_000;
                return Err(format!(
                    "cannot {verb} {group}: cgroup.events does not show `{line}` after {limit_s} s"
                ));
            }
            Monotonic.sleep_until_ns(now_ns + FREEZE_LOOK_NS);
        }
    }

    /// Whether the kernel can kill the whole group at once: since Linux 5.14, in version 2.
    pub(crate) fn dies_at_once(&self) -> bool {
        self.path.join("cgroup.kill").exists()
    }

    /// Returns the files to which a process writes `0` to join.
    pub(crate) fn procs(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.procs).chain(self.limiting.iter().map(|(_, procs)| procs))
    }

    /// Limits the processes that join from now on.
    pub(crate) fn limit(&mut self, limits: &Limits) -> Result<(), String> {
        if let Some(cpus) = limits.cpus {
            let quota_us = format!("{:.0}", cpus * PERIOD_US);
            let text = format!("{quota_us} {PERIOD_US:.0}");
            self.set("cpu", ("cpu.max", text.as_str()), ("cpu.cfs_quota_us", quota_us.as_str()))?;
        }
        if let Some(bytes) = limits.memory_bytes {
            let text = bytes.to_string();
            self.set("memory", ("memory.max", text.as_str()), ("memory.limit_in_bytes", text.as_str()))?;
        }
        Ok(())
    }

    /// Writes a limit: into this group if its hierarchy has the controller, else into one of version 1.
    fn set(&mut self, controller: &str, own: (&str, &str), v1: (&str, &str)) -> Result<(), String> {
        let cannot = |path: &Path, why: &io::Error| {
            format!("cannot limit `{}`: {}: {why}", controller, path.display())
        };
        let file = self.path.join(own.0);
        if file.exists() {
            return fs::write(&file, own.1).map_err(|why| cannot(&file, &why));
        }
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let folder = of_controller(controller, &read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let name = self.path.file_name().expect("a group has a name");
        let Some(path) = folder.map(|folder| folder.join(name)) else {
            return Err(format!(
                "cannot limit `{controller}`: this process's control group lacks that controller; with \
                 cgroup v2, write +{controller} to its cgroup.subtree_control"
            ));
        };
        fs::create_dir(&path).map_err(|why| cannot(&path, &why))?;
        let procs = open_procs(&path);
        // From here on the group is removed with this one.
        self.limiting.push((path.clone(), procs.map_err(|why| cannot(&path, &why))?));
        fs::write(path.join(v1.0), v1.1).map_err(|why| cannot(&path.join(v1.0), &why))
    }

    /// Returns the processes in the group and in groups below it.
    pub(crate) fn members(&self) -> Vec<Pid> {
        members(&self.path)
    }

    /// Kills all processes in the group and waits until it is empty. Returns the number of processes, or an
    /// error if some do not die.
    pub(crate) fn empty(&self) -> Result<usize, String> {
        let mut found = BTreeSet::new();
        let waited = wait_for(PATIENCE, &Stop::new(), || {
            let members = self.members();
            kill_all(&self.path, &members);
            found.extend(members.iter().copied());
            members.is_empty()
        });
        if waited == Waited::Done { Ok(found.len()) } else { Err(immortal(&self.path)) }
    }

    /// Kills all processes in the group, waits until it is empty, and removes it. Returns whether it is gone.
    pub(crate) fn end(&self) -> bool {
        // The processes have left the other groups with their end.
        end(&self.path) && self.limiting.iter().all(|(path, _)| remove_tree(path).is_ok())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if self.path.exists() {
            let _ = self.end();
        }
    }
}

/// Whether a path has the name of the group that [`ControlGroup::place`] returns for a token.
pub(crate) fn is_named(path: &Path, token: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_str() == Some(&format!("{PREFIX}{token}")))
}

/// Ends the control group of a dead process. Returns the number of processes killed.
///
/// - `path`: from the journal, which another user may have written. Only a control group with a name of ours
///   is touched.
pub(crate) fn end_left(path: &Path) -> Result<usize, String> {
    let Ok(path) = fs::canonicalize(path) else { return Ok(0) };
    let name = path.file_name().and_then(|name| name.to_str());
    let is_ours = name.and_then(|name| name.strip_prefix(PREFIX)).is_some_and(random::is_token);
    let is_ours_to_clear = || fs::metadata(&path).is_ok_and(|found| account::is_ours_to_clear(found.uid()));
    if !is_ours || !is_control_group(&path) || !is_ours_to_clear() {
        return Ok(0);
    }
    let found = members(&path).len();
    if end(&path) {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        for controller in ["cpu", "memory"] {
            let folder = of_controller(controller, &read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
            if let Some(left) = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name)) {
                let _ = remove_tree(&left);
            }
        }
        return Ok(found);
    }
    Err(immortal(&path))
}

/// Whether a folder is on the kernel's file system of control groups. Elsewhere any user may have written its
/// content.
fn is_control_group(path: &Path) -> bool {
    let kind = statfs(path).map(|found| found.filesystem_type());
    kind.is_ok_and(|kind| [CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&kind))
}

/// Returns the message for a control group that cannot be ended.
pub(crate) fn immortal(path: &Path) -> String {
    format!("processes in the control group {} survive SIGKILL", path.display())
}

fn kill_all(path: &Path, members: &[Pid]) {
    if members.is_empty() {
        return;
    }
    // A process that is stopped cannot end by itself, and its parent may wait for that.
    let _ = thaw_at(path);
    // Since Linux 5.14; this also kills processes that are being forked.
    if fs::write(path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in members {
        pidfd::kill_if(*pid, || is_member(path, *pid));
    }
}

/// Lets the processes of a group run, if it is one of version 2.
fn thaw_at(path: &Path) -> io::Result<()> {
    let file = path.join(FREEZE);
    if file.exists() { fs::write(file, "0") } else { Ok(()) }
}

fn end(path: &Path) -> bool {
    let ended = wait_for(PATIENCE, &Stop::new(), || {
        kill_all(path, &members(path));
        remove_tree(path).is_ok()
    });
    ended == Waited::Done
}

fn remove_tree(path: &Path) -> io::Result<()> {
    for folder in subfolders(path) {
        remove_tree(&folder)?;
    }
    match fs::remove_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Whether a process is in the group now.
fn is_member(path: &Path, pid: Pid) -> bool {
    members(path).contains(&pid)
}

fn members(path: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process outside our PID namespace.
    let own = text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid > 0).map(Pid::from_raw);
    own.chain(subfolders(path).iter().flat_map(|folder| members(folder))).collect()
}

fn subfolders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

fn open_procs(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path.join("cgroup.procs"))
}

/// Returns the folders of the control groups of this process, best first.
fn own_folders() -> Vec<PathBuf> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let own = getpid().to_string();
    let mut folders = candidates(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    // The mount may show another part of the tree than that of this process.
    folders.retain(|folder| {
        fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|pids| pids.lines().any(|pid| pid == own))
    });
    folders
}

/// Returns the possible folders of this process's control groups.
///
/// - `own`: `/proc/self/cgroup`, lines `hierarchy:controllers:path`.
/// - `mounts`: `/proc/self/mountinfo`.
fn candidates(own: &str, mounts: &str) -> Vec<PathBuf> {
    let rank = |kind: &str, options: &str| match kind {
        "cgroup2" => Some((0, "")),
        _ => HIERARCHIES
            .iter()
            .position(|name| options.split(',').any(|option| option == *name))
            .map(|at| (at + 1, HIERARCHIES[at])),
    };
    let mut found = folders(own, mounts, rank);
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the folder of this process's control group in the hierarchy of version 1 with that controller.
fn of_controller(controller: &str, own: &str, mounts: &str) -> Option<PathBuf> {
    let of = |kind: &str, options: &str| {
        let has = kind == "cgroup" && options.split(',').any(|option| option == controller);
        has.then_some((0, controller))
    };
    folders(own, mounts, of).into_iter().map(|(_, path)| path).find(|path| path.is_dir())
}

/// Returns the folders of this process's control groups in the mounted hierarchies that have a rank, with it.
///
/// - `rank`: of a kind of file system with its options; with it, the controller: its line in
///   `/proc/self/cgroup` has the path.
fn folders<'a>(
    own: &str,
    mounts: &str,
    rank: impl Fn(&str, &str) -> Option<(usize, &'a str)>,
) -> Vec<(usize, PathBuf)> {
    let path_of = |controller: &str| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|c| c == controller).then(|| path.to_owned())
        })
    };
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(point), Some(kind), Some(options)) =
            (left.get(3), left.get(4), right.first(), right.get(2))
        else {
            continue;
        };
        if !matches!(*kind, "cgroup" | "cgroup2") {
            continue;
        }
        let Some((rank, path)) = rank(kind, options).and_then(|(rank, of)| Some((rank, path_of(of)?))) else {
            continue;
        };
        let below = Path::new(&path).strip_prefix(root).unwrap_or(Path::new(path.trim_start_matches('/')));
        found.push((rank, Path::new(point).join(below)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_comes_first_and_then_the_hierarchy_that_counts_cpu_time() {
        let own = "4:memory:/a/b\n2:cpuacct,cpu:/x\n1:name=systemd:/\n0::/user.slice/s\n";
        let mounts = "24 30 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                      25 30 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpuacct,cpu\n\
                      26 30 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw\n\
                      27 30 0:24 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(
            candidates(own, mounts),
            ["/sys/fs/cgroup/unified/user.slice/s", "/sys/fs/cgroup/cpu/x", "/sys/fs/cgroup/systemd"]
                .map(PathBuf::from)
        );
        // In a container, only a part of the tree is mounted.
        let mounts = "26 30 0:23 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(candidates(own, mounts), [PathBuf::from("/sys/fs/cgroup/s")]);
    }

    #[test]
    fn root_a_process_that_is_limited_gets_no_more_cpu_time_and_memory_than_that() {
        let _alone = crate::strays::alone();
        let Some(path) = ControlGroup::place(&random::token()) else {
            println!("skipped: no control group can be made here");
            return;
        };
        let mut group = ControlGroup::make(path).unwrap();
        if let Err(why) = group.limit(&Limits { cpus: Some(0.25), memory_bytes: Some(64 << 20) }) {
            assert!(why.contains("cannot limit"), "{why}");
            println!("skipped: {why}");
            return;
        }
        let limiting: Vec<PathBuf> = group.limiting.iter().map(|(path, _)| path.clone()).collect();
        let group = std::sync::Arc::new(group);
        let placement =
            crate::process::Placement { group: Some(group.clone()), ..crate::process::Placement::ANYWHERE };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
        let began_ns = Monotonic.now_ns();
        let mut child = crate::process::Process::spawn(command, &placement).unwrap();
        let cpu_s = child.watch_cpu_time().unwrap().as_secs_f64();
        let wall_s = (Monotonic.now_ns() - began_ns) as f64 * 1e-9;
        assert!(child.finish_by_itself().unwrap());
        // It may use the first period's quota at once.
        assert!(cpu_s < 0.25 * wall_s + 0.05, "{cpu_s} s of CPU in {wall_s} s");
        let mut command = std::process::Command::new("dd");
        command
            .args(["if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"])
            .stderr(std::process::Stdio::null());
        let mut child = crate::process::Process::spawn(command, &placement).unwrap();
        assert!(!child.finish_by_itself().unwrap(), "200 MB do not fit into 64");
        assert!(group.end() && limiting.iter().all(|path| !path.exists()));
    }

    /// The unkind truth: a process in the middle of forking, and one in a separate session.
    #[test]
    fn root_a_group_that_is_frozen_stands_still_and_can_be_ended_all_the_same() {
        let _alone = crate::strays::alone();
        if let Err(why) = ControlGroup::can_freeze_here() {
            println!("skipped: {why}");
            return;
        }
        let group = ControlGroup::make(ControlGroup::place(&random::token()).unwrap()).unwrap();
        let group = std::sync::Arc::new(group);
        let placement =
            crate::process::Placement { group: Some(group.clone()), ..crate::process::Placement::ANYWHERE };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "setsid sh -c 'while :; do /bin/true; done' & while :; do :; done"]);
        let mut child = crate::process::Process::spawn(command, &placement).unwrap();
        let used_us = || {
            let text = fs::read_to_string(group.path().join("cpu.stat")).unwrap();
            text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<u64>().ok()).unwrap()
        };
        let rest = |ms: u64| Monotonic.sleep_until_ns(Monotonic.now_ns() + ms * 1_000_000);
        for _ in 0..20 {
            rest(5);
            group.freeze().unwrap();
            let before_us = used_us();
            rest(20);
            let used_us = used_us() - before_us;
            assert!(used_us < 2_000, "it used {used_us} us of 20 ms although it stands still");
            group.thaw().unwrap();
        }
        group.freeze().unwrap();
        // As `resume` finds it after kill -9.
        assert!(end_left(group.path()).unwrap() >= 2);
        assert!(!child.finish().unwrap().success());
        assert!(!group.path().exists());
    }

    #[test]
    fn only_a_control_group_of_ours_is_ended() {
        assert_eq!(end_left(Path::new("/sys/fs/cgroup")), Ok(0));
        assert_eq!(end_left(Path::new("/sys/fs/cgroup/unified/system.slice")), Ok(0));
        assert_eq!(end_left(Path::new("/nonexistent/bakeoff-1")), Ok(0));
    }

    #[test]
    fn everything_in_a_control_group_dies_with_it() {
        let _alone = crate::strays::alone();
        let Some(path) = ControlGroup::place(&random::token()) else {
            println!("skipped: no control group can be made here");
            return;
        };
        let group = ControlGroup::make(path.clone()).unwrap();
        let mut child = std::process::Command::new("setsid").args(["-w", "sleep", "1000"]).spawn().unwrap();
        fs::write(path.join("cgroup.procs"), child.id().to_string()).unwrap();
        assert!(group.members().contains(&Pid::from_raw(child.id().cast_signed())));
        // Reaps it when it is killed, as its own parent does in a real series.
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        assert!(group.end());
        assert!(!reaper.join().unwrap().success());
        assert!(!path.exists());
    }
}
