//! Control groups: they hold the processes of a series, whatever process group, session or parent these
//! choose.
//!
//! A process cannot leave its control group unless it may write to another one. Version 2 is used if it is
//! mounted, also together with version 1; otherwise a hierarchy of version 1, preferably the one that
//! accounts CPU time.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use load::Stop;
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{Pid, getpid};
use probes::cgroups::{self, Cgroup};

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
}

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
            Ok(procs) => Ok(Self { path, procs }),
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

    /// Whether the kernel can kill the whole group at once: since Linux 5.14, in version 2.
    pub(crate) fn dies_at_once(&self) -> bool {
        self.path.join("cgroup.kill").exists()
    }

    /// Returns the file to which a process writes `0` to join.
    pub(crate) fn procs(&self) -> &File {
        &self.procs
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
        end(&self.path)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if self.path.exists() {
            let _ = self.end();
        }
    }
}

/// Ends the control group of a dead process. Returns the number of processes killed.
///
/// - `path`: from the journal, which another user may have written. Only a control group with a name of ours
///   is touched.
pub(crate) fn end_left(path: &Path) -> Result<usize, String> {
    let Ok(path) = fs::canonicalize(path) else { return Ok(0) };
    let name = path.file_name().and_then(|name| name.to_str());
    let is_ours = name.and_then(|name| name.strip_prefix(PREFIX)).is_some_and(random::is_token);
    if !is_ours || !is_control_group(&path) {
        return Ok(0);
    }
    let found = members(&path).len();
    if end(&path) {
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
    format!("processes in the control group {} do not die", path.display())
}

fn kill_all(path: &Path, members: &[Pid]) {
    if members.is_empty() {
        return;
    }
    // Since Linux 5.14; this also kills processes that are being forked.
    let _ = fs::write(path.join("cgroup.kill"), "1");
    for pid in members {
        // It may have ended just now.
        let _ = kill(*pid, Signal::SIGKILL);
    }
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
    let path_of = |controller: &str| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|c| c == controller).then(|| path.to_owned())
        })
    };
    let mut found: Vec<(usize, PathBuf)> = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(point), Some(kind), Some(options)) =
            (left.get(3), left.get(4), right.first(), right.get(2))
        else {
            continue;
        };
        let rank_and_path = match *kind {
            "cgroup2" => path_of("").map(|path| (0, path)),
            "cgroup" => HIERARCHIES
                .iter()
                .position(|name| options.split(',').any(|option| option == *name))
                .and_then(|at| Some((at + 1, path_of(HIERARCHIES[at])?))),
            _ => None,
        };
        let Some((rank, path)) = rank_and_path else { continue };
        let below = Path::new(&path).strip_prefix(root).unwrap_or(Path::new(path.trim_start_matches('/')));
        found.push((rank, Path::new(point).join(below)));
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, path)| path).collect()
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
