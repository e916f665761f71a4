//! Limits on CPU time: affinity, CPU set, and the quotas of control groups, versions 1 and 2.
//!
//! *Traces* nothing: a few files of `/proc` and of the control group file system, read at the edges. *Yields*
//! the CPUs that a process may use ([`record::limits::CpuLimits`]) and how often a quota stopped it
//! ([`record::limits::Throttled`]). *Differs from* the number of online CPUs, which neither a CPU set nor a
//! quota changes, and from `sched_getaffinity`, which ignores quotas. *Blind to* the quota of a group outside
//! this control group namespace; since Linux 6.7 its effect shows in `cpu.stat.local` of the groups within,
//! and is reported without the number of periods. *Costs* about five file reads for each level of the group's
//! path at each edge, nothing in between.
//!
//! # Source
//!
//! Linux `Documentation/admin-guide/cgroup-v2.rst` (`cpu.max`, `cpu.stat`) and
//! `Documentation/scheduler/sched-bwc.rst`; cgroups(7), `cgroup_namespaces(7)`, `/proc/PID/mountinfo` in
//! `proc_pid_mountinfo(5)`.

mod quotas;

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::libc;
use record::limits::{CpuLimits, Quota, Throttled};
use record::missing::{Maybe, Missing};

use crate::cpu_list;

pub use self::quotas::Quotas;

/// Maximum number of folders in a search for a process's group.
const FOLDERS_MAX: usize = 20_000;

/// A control group, with its ancestors, as far as this process can see them.
#[derive(Debug, Clone)]
pub struct Limits {
    root: PathBuf,
    /// Process of which the affinity counts; `None` for a group that the user named.
    process: Option<String>,
    group: Maybe<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    /// The folder at which the hierarchy is mounted.
    mount: PathBuf,
    /// The group's folder.
    folder: PathBuf,
    /// The group's name as `/proc/PID/cgroup` writes it.
    name: String,
    /// Whether the hierarchy is version 1.
    is_v1: bool,
}

impl Limits {
    /// The limits of this process.
    pub fn of_self() -> Self {
        Self::under(Path::new("/"), "self")
    }

    /// The limits of another process, such as a server.
    pub fn of_process(pid: u32) -> Self {
        Self::under(Path::new("/"), &pid.to_string())
    }

    /// The limits of a control group.
    ///
    /// `name`: its path below the mounted hierarchy, or the path of its folder.
    pub fn of_cgroup(name: &Path) -> Self {
        Self::of_cgroup_under(Path::new("/"), name)
    }

    /// `root`: the folder that holds `proc` and `sys`, `/` on a live machine.
    fn under(root: &Path, process: &str) -> Self {
        let group = group_of(root, process);
        Self { root: root.to_owned(), process: Some(process.to_owned()), group }
    }

    fn of_cgroup_under(root: &Path, name: &Path) -> Self {
        let group = mounts(root, "self").and_then(|mounts| Group::named(root, &mounts, name));
        Self { root: root.to_owned(), process: None, group }
    }

    /// The control group's name.
    ///
    /// # Errors
    ///
    /// Missing if it cannot be found.
    pub fn cgroup(&self) -> Maybe<&str> {
        self.group.as_ref().map(|group| group.name.as_str()).map_err(Clone::clone)
    }

    /// CPU limits now: affinity, CPU set and quota.
    pub fn cpu(&self) -> CpuLimits {
        let allowed = match &self.process {
            Some(process) => allowed_to_process(&self.root, process),
            None => self.group.clone().and_then(|group| allowed_in_group(&self.root, &group)),
        };
        CpuLimits { allowed, quota: self.quota() }
    }

    fn quota(&self) -> Maybe<Option<Quota>> {
        let group = match &self.group {
            Ok(group) => group,
            Err(_) if self.is_without_quotas() => return Ok(None),
            Err(why) => return Err(why.clone()),
        };
        let mut tightest: Option<Quota> = None;
        for (folder, name) in group.chain() {
            let cpus = if group.is_v1 { quota_v1(&folder)? } else { quota_v2(&folder)? };
            if let Some(cpus) = cpus.filter(|cpus| tightest.as_ref().is_none_or(|t| *cpus < t.cpus)) {
                tightest = Some(Quota { cpus, cgroup: name });
            }
        }
        Ok(tightest)
    }

    /// Starts to count how often a quota stops the group.
    pub fn watch(&self) -> Throttling {
        let before = self.group.clone().map(Group::now);
        let before = before.or_else(|why| if self.is_without_quotas() { Ok(no_group()) } else { Err(why) });
        Throttling { before }
    }

    /// Whether the kernel has no quotas at all, as opposed to a named group that does not exist.
    fn is_without_quotas(&self) -> bool {
        self.process.is_some() && !has_quotas(&self.root)
    }
}

/// A group's counters of throttling when watching began.
#[derive(Debug, Clone)]
pub struct Throttling {
    before: Maybe<Before>,
}

impl Throttling {
    /// Whether the counters could be read when watching began.
    pub fn has_begun(&self) -> bool {
        self.before.as_ref().is_ok_and(|(_, counters)| counters.iter().all(Result::is_ok))
    }

    /// Throttling since watching began.
    ///
    /// Only the group on the path that was stopped longest is named: the times of a group and of its ancestor
    /// overlap.
    ///
    /// # Errors
    ///
    /// Missing if the counters could not be read, or are not those of the start: a group is gone, or was
    /// created anew.
    pub fn so_far(&self) -> Maybe<Throttled> {
        let (group, before) = self.before.as_ref().map_err(Clone::clone)?;
        let mut found = Throttled { periods: 0, time_ns: 0, cgroup: group.name.clone() };
        let mut hidden_ns = 0;
        for ((folder, name), was) in group.chain().into_iter().zip(before) {
            let is = counters(&folder)?;
            let (periods, time_ns, local_ns) = is.since(&was.clone()?).ok_or_else(|| gone(&name, &is))?;
            hidden_ns = hidden_ns.max(local_ns);
            if (time_ns, periods) > (found.time_ns, found.periods) {
                found = Throttled { periods, time_ns, cgroup: name };
            }
        }
        // The local time includes that of ancestors; alone, it comes from an ancestor that cannot be read.
        if !found.is_any() {
            found.time_ns = hidden_ns;
        }
        Ok(found)
    }
}

/// A group, and the counters of it and of its ancestors.
type Before = (Group, Vec<Maybe<Counters>>);

/// Counters of a group since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    /// Inode of the folder. If it changes, the group was created anew. `None`: the group does not exist.
    inode: Option<u64>,
    /// In `cpu.stat`; `None` if that does not count throttling.
    periods: Option<u64>,
    time_ns: Option<u64>,
    /// In `cpu.stat.local`.
    local_ns: Option<u64>,
}

impl Counters {
    /// Periods, time and local time since `was`. `None` if these are not the same counters, continued.
    fn since(&self, was: &Self) -> Option<(u64, u64, u64)> {
        if was.inode.is_some() && was.inode != self.inode {
            return None;
        }
        // Counters that appeared meanwhile began at 0.
        let grown = |of: fn(&Self) -> Option<u64>| match (of(was), of(self)) {
            (was, Some(is)) => is.checked_sub(was.unwrap_or(0)),
            (None, None) => Some(0),
            (Some(_), None) => None,
        };
        Some((grown(|c| c.periods)?, grown(|c| c.time_ns)?, grown(|c| c.local_ns)?))
    }
}

/// Reason for counters that do not continue.
fn gone(name: &str, is: &Counters) -> Missing {
    let now = if is.inode.is_some() { "was created anew, or its counters are gone" } else { "is gone" };
    Missing::because(format!("throttling is unknown: control group {name} {now}"))
}

impl Group {
    /// The group of a name among the hierarchies that are mounted.
    fn named(root: &Path, mounts: &[Mount], name: &Path) -> Maybe<Self> {
        let relative = |mount: &Mount| {
            let below = name.strip_prefix(&mount.at).unwrap_or(name);
            below.strip_prefix("/").unwrap_or(below).to_owned()
        };
        let find = |mount: &Mount| {
            let below = relative(mount);
            let folder = inside(root, &mount.at).join(&below);
            folder.is_dir().then(|| Self {
                mount: inside(root, &mount.at),
                folder,
                name: Path::new("/").join(below).to_string_lossy().into_owned(),
                is_v1: mount.is_v1,
            })
        };
        mounts
            .iter()
            .filter(|mount| mount.has_cpu)
            .find_map(find)
            .ok_or_else(|| Missing::because(format!("there is no control group {} for CPUs", name.display())))
    }

    /// The group with its counters, and those of its ancestors, as they are.
    fn now(self) -> Before {
        let counters = self.chain().into_iter().map(|(folder, _)| counters(&folder)).collect();
        (self, counters)
    }

    /// The group's folder and those of its ancestors, each with its name.
    fn chain(&self) -> Vec<(PathBuf, String)> {
        let mut name = PathBuf::from(&self.name);
        let mut chain = Vec::new();
        for folder in self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount)) {
            chain.push((folder.to_owned(), name.to_string_lossy().into_owned()));
            if !name.pop() {
                name = PathBuf::from("/");
            }
        }
        chain
    }
}

/// Without control groups for CPUs there is no quota.
fn no_group() -> Before {
    let nowhere = PathBuf::from("/dev/null/none");
    let group = Group { mount: PathBuf::from("/none"), folder: nowhere, name: "/".into(), is_v1: false };
    (group, Vec::new())
}

/// Whether a control group file system is mounted, or the kernel has the controller at all.
fn has_quotas(root: &Path) -> bool {
    let of_kernel = fs::read_to_string(root.join("proc/cgroups")).unwrap_or_default();
    let enabled = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.first() == Some(&"cpu") && fields.last() == Some(&"1")
    };
    let mounted = mounts(root, "self").is_ok_and(|mounts| mounts.iter().any(|mount| mount.has_cpu));
    mounted || of_kernel.lines().any(enabled)
}

/// `200000 100000`, or `max 100000`; a group in which the controller is off has no file.
fn quota_v2(folder: &Path) -> Maybe<Option<f64>> {
    let Some(text) = text_if_there(&folder.join("cpu.max"))? else { return Ok(None) };
    let mut words = text.split_ascii_whitespace();
    let quota = words.next().unwrap_or_default();
    if quota == "max" {
        return Ok(None);
    }
    let period = words.next().and_then(|p| p.parse::<f64>().ok()).filter(|p| *p > 0.0);
    match (quota.parse::<f64>().ok(), period) {
        (Some(quota), Some(period)) => Ok(Some(quota / period)),
        _ => Err(Missing::because(format!("{}/cpu.max reads `{}`", folder.display(), text.trim()))),
    }
}

/// Reads `cpu.cfs_quota_us`; -1 is no quota.
fn quota_v1(folder: &Path) -> Maybe<Option<f64>> {
    let Some(quota) = text_if_there(&folder.join("cpu.cfs_quota_us"))? else { return Ok(None) };
    let period = text_if_there(&folder.join("cpu.cfs_period_us"))?.unwrap_or_default();
    match (quota.trim().parse::<f64>().ok(), period.trim().parse::<f64>().ok()) {
        (Some(quota), _) if quota < 0.0 => Ok(None),
        (Some(quota), Some(period)) if period > 0.0 => Ok(Some(quota / period)),
        _ => Err(Missing::because(format!("{}/cpu.cfs_quota_us cannot be read", folder.display()))),
    }
}

/// The root of a hierarchy has counters in some versions, and a group without the controller in none.
fn counters(folder: &Path) -> Maybe<Counters> {
    let value = |text: &str, key: &str| {
        text.lines()
            .find_map(|line| line.split_once(' ').filter(|(k, _)| *k == key)?.1.trim().parse::<u64>().ok())
    };
    let time_ns = |text: &str| {
        let in_us = value(text, "throttled_usec").map(|us| us * 1_000);
        in_us.or_else(|| value(text, "throttled_time"))
    };
    let inode = fs::metadata(folder).ok().map(|found| found.ino());
    let mut found = Counters { inode, ..Counters::default() };
    if let Some(text) = text_if_there(&folder.join("cpu.stat"))? {
        (found.periods, found.time_ns) = (value(&text, "nr_throttled"), time_ns(&text));
    }
    if let Some(text) = text_if_there(&folder.join("cpu.stat.local"))? {
        found.local_ns = time_ns(&text);
    }
    Ok(found)
}

fn text_if_there(path: &Path) -> Maybe<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // A group that is removed between opening and reading has no such device.
        Err(e) if e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(e) => Err(Missing::because(format!("{}: {e}", path.display()))),
    }
}

fn allowed_to_process(root: &Path, process: &str) -> Maybe<BTreeSet<u32>> {
    let path = root.join("proc").join(process).join("status");
    let status =
        text_if_there(&path)?.ok_or_else(|| Missing::because(format!("there is no {}", path.display())))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list =
        list.ok_or_else(|| Missing::because(format!("{} has no Cpus_allowed_list", path.display())))?;
    cpu_list::parse(list).map_err(|e| Missing::because(e.to_string()))
}

/// The CPU set of the nearest group that has one, else all CPUs.
fn allowed_in_group(root: &Path, group: &Group) -> Maybe<BTreeSet<u32>> {
    let mut at = group.clone();
    if group.is_v1 {
        // The cpuset controller has a separate hierarchy, in which the same name is the same container.
        let mounts = mounts(root, "self")?;
        if let Some(mount) = mounts.iter().find(|mount| mount.has_cpuset) {
            at.mount = inside(root, &mount.at);
            at.folder = at.mount.join(group.name.trim_start_matches('/'));
        }
    }
    for (folder, _) in at.chain() {
        for file in ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"] {
            if let Some(list) = text_if_there(&folder.join(file))?.filter(|list| !list.trim().is_empty()) {
                return cpu_list::parse(&list).map_err(|e| Missing::because(e.to_string()));
            }
        }
    }
    cpu_list::online(root).ok_or_else(|| Missing::because("/sys/devices/system/cpu/online cannot be read"))
}

/// A mounted control group hierarchy.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) at: PathBuf,
    /// Group at the root of the mount.
    of: String,
    pub(crate) is_v1: bool,
    has_cpu: bool,
    has_cpuset: bool,
}

/// Lists the hierarchies that a process can see, first those of version 1 with a CPU controller: a mixed
/// system has the controller there.
pub(crate) fn mounts(root: &Path, process: &str) -> Maybe<Vec<Mount>> {
    let path = root.join("proc").join(process).join("mountinfo");
    let text = fs::read_to_string(&path).map_err(|e| Missing::because(format!("{}: {e}", path.display())))?;
    let one = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        let (of, at) = (unescaped(fields.get(3)?), PathBuf::from(unescaped(fields.get(4)?)));
        let mut after = after.split(' ');
        let is_v1 = match after.next()? {
            "cgroup" => true,
            "cgroup2" => false,
            _ => return None,
        };
        let options = after.nth(1).unwrap_or_default();
        let has = |name: &str| is_v1 && options.split(',').any(|option| option == name);
        let controllers = if is_v1 {
            String::new()
        } else {
            fs::read_to_string(inside(root, &at).join("cgroup.controllers")).unwrap_or_default()
        };
        let has_cpu = has("cpu") || controllers.split_ascii_whitespace().any(|word| word == "cpu");
        Some(Mount { at, of, is_v1, has_cpu, has_cpuset: has("cpuset") })
    };
    let mut mounts: Vec<Mount> = text.lines().filter_map(one).collect();
    mounts.sort_by_key(|mount| !mount.is_v1);
    Ok(mounts)
}

/// mountinfo writes blanks and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The group for CPU time of a process: of version 1 if the controller is there, else of version 2.
fn group_of(root: &Path, process: &str) -> Maybe<Group> {
    let path = root.join("proc").join(process).join("cgroup");
    let text = fs::read_to_string(&path).map_err(|e| Missing::because(format!("{}: {e}", path.display())))?;
    let named = |is_v1: bool| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, name) = (parts.next()?, parts.next()?, parts.next()?);
            let fits = if is_v1 { controllers.split(',').any(|c| c == "cpu") } else { number == "0" };
            fits.then(|| name.to_owned())
        })
    };
    let mounts = mounts(root, "self")?;
    let mount = mounts
        .iter()
        .find(|mount| mount.has_cpu)
        .ok_or_else(|| Missing::because("no control group file system with a CPU controller is mounted"))?;
    let name = named(mount.is_v1).ok_or_else(|| Missing::because("the process is in no control group"))?;
    let at = inside(root, &mount.at);
    let folder = below_mount(&name, &mount.of).map(|below| at.join(below)).filter(|folder| folder.is_dir());
    let folder = match folder {
        Some(folder) => folder,
        // The name is from another namespace than the mount: only the list of processes identifies the group.
        None => search(&at, process).ok_or_else(|| {
            Missing::because(format!("control group {name} cannot be read at {}", mount.at.display()))
        })?,
    };
    Ok(Group { mount: at, folder, name, is_v1: mount.is_v1 })
}

/// Path of a group below a mount that begins at the group `of`; `None` if the mount does not show it.
fn below_mount(name: &str, of: &str) -> Option<PathBuf> {
    if of.starts_with("/..") || name.starts_with("/..") {
        return None;
    }
    let below = Path::new(name).strip_prefix(of).ok()?;
    Some(below.to_owned())
}

/// Searches for the folder that lists this process.
fn search(mount: &Path, process: &str) -> Option<PathBuf> {
    let pid = if process == "self" { std::process::id().to_string() } else { process.to_owned() };
    let mut waiting = VecDeque::from([mount.to_owned()]);
    for _ in 0..FOLDERS_MAX {
        let folder = waiting.pop_front()?;
        let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        if members.lines().any(|line| line == pid) {
            return Some(folder);
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        waiting.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    None
}

/// Path under `root` of an absolute path.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests;
