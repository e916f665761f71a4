//! CPU time of the server under test, read at both ends of a measured phase.
//!
//! Source: its cgroup if it has a separate one; else its process and all descendants; for a target `exec:`,
//! the commands that ended. Other processes on the machine are never included.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use load::Event;
use nix::libc;
use nix::unistd::{Pid, SysconfVar, sysconf};
use probes::process_time;
use record::clock::{Clock as _, Monotonic};
use record::load::Phase;
use record::missing::{Maybe, Missing};
use record::server_cpu::{ServerCpu, ServerTasks};

/// Prefix of the name of a cgroup that holds exactly one series.
const OWN_CGROUP: &str = "bakeoff-";
const NS_PER_S: u64 = 1_000_000_000;
/// Bit of SIGCHLD in the masks of `/proc/PID/status`.
const SIGCHLD_BIT: u64 = 1 << (libc::SIGCHLD - 1);

/// Source of the CPU time.
#[derive(Debug, Clone)]
enum Source {
    /// File of the counter, and its form.
    Cgroup(PathBuf, Counter),
    /// Process of the server.
    Tree(Pid),
    /// All commands that this process has reaped.
    Commands,
}

/// Form of a cgroup's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counter {
    /// `cpu.stat` of version 2: the line `usage_usec`.
    Stat,
    /// `cpuacct.usage` of version 1: nanoseconds.
    Usage,
}

/// Follows a load and reads the CPU time at the beginning and the end of its measured phase.
#[derive(Debug)]
pub(crate) struct ServerMeter {
    source: Maybe<Source>,
    from: Option<Maybe<Reading>>,
    until: Option<Maybe<Reading>>,
}

#[derive(Debug, Clone)]
struct Reading {
    at_ns: u64,
    cpu_ns: u64,
    /// For a tree: its processes, so a process that vanished with its time is detected.
    processes: BTreeMap<Identity, Process>,
}

/// Process id and start time.
type Identity = (i32, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    cpu_ns: u64,
}

impl ServerMeter {
    /// Creates a meter.
    ///
    /// - `servers`: the processes of the plan's server command; those of one series share a cgroup.
    /// - `scheme`: scheme of the load's target.
    pub(crate) fn of(servers: &[Pid], scheme: &str) -> Self {
        let source = match (servers, scheme) {
            ([pid], _) => Ok(cgroup_of(*pid, Path::new("/")).unwrap_or(Source::Tree(*pid))),
            ([pid, ..], _) => cgroup_of(*pid, Path::new("/")).ok_or_else(|| {
                Missing::because("reading the CPU time of several instances needs a control group")
            }),
            ([], "exec") => Ok(Source::Commands),
            ([], "sqlite" | "null") => Err(Missing::because(
                "the target runs inside the load generator, so its CPU time cannot be separated",
            )),
            ([], _) => Err(Missing::because("the plan starts no server, so the server's tasks are unknown")),
        };
        Self { source, from: None, until: None }
    }

    /// Returns the CPU time that the server has used so far, in seconds.
    pub(crate) fn so_far_s(&self) -> Maybe<f64> {
        let reading = self.source.as_ref().map_err(Clone::clone)?.read()?;
        Ok(reading.cpu_ns as f64 / NS_PER_S as f64)
    }

    /// Reads the CPU time at the beginning and the end of the measured phase.
    pub(crate) fn follow(&mut self, event: &Event) {
        let Ok(source) = &self.source else { return };
        match event {
            Event::PhaseStarts { phase: Phase::Measure, .. } => self.from = Some(source.read()),
            Event::MeasureEnds => self.until = Some(source.read()),
            _ => {}
        }
    }

    /// Returns the CPU time that the server's control group has used so far, in nanoseconds.
    pub(crate) fn of_group_ns(&self) -> Maybe<u64> {
        match self.source.as_ref().map_err(Clone::clone)? {
            source @ Source::Cgroup(..) => Ok(source.read()?.cpu_ns),
            _ => Err(Missing::because("the server has no separate control group")),
        }
    }

    /// Returns the CPU time that the server used in the turns between the two readings.
    ///
    /// - `turns`: [`Self::of_group_ns`] at the beginning and the end of each turn. CPU time between turns, to
    ///   settle, does not count.
    /// - `phase_ns`: the measured phase on the clock of the load, which counts only turns.
    pub(crate) fn end_of_turns(
        mut self,
        turns: &[Maybe<(u64, u64)>],
        phase_ns: (u64, u64),
    ) -> Maybe<ServerCpu> {
        let unread = || Missing::because("the measured phase did not begin or did not end");
        let from_ns = self.from.take().ok_or_else(unread)??.cpu_ns;
        let until_ns = self.until.take().ok_or_else(unread)??.cpu_ns;
        let mut used_ns = 0;
        for turn in turns {
            let (opened_ns, closed_ns) = turn.clone()?;
            // The counter only grows, so it is also a clock.
            used_ns += closed_ns.min(until_ns).saturating_sub(opened_ns.max(from_ns));
        }
        Ok(ServerCpu {
            cpu_s: used_ns as f64 / NS_PER_S as f64,
            from_ns: phase_ns.0,
            until_ns: phase_ns.1,
            tasks: ServerTasks::Cgroup,
        })
    }

    /// Returns the CPU time that the server used between the two readings.
    pub(crate) fn end(mut self) -> Maybe<ServerCpu> {
        let source = self.source?;
        let unread = || Missing::because("the measured phase did not begin");
        let from = self.from.take().ok_or_else(unread)??;
        let until = self.until.take().ok_or_else(|| Missing::because("the measured phase did not end"))??;
        unaccounted(&from, &until)?;
        let used_ns = until.cpu_ns.checked_sub(from.cpu_ns);
        let used_ns = used_ns.ok_or_else(|| Missing::because("the server's CPU time went backwards"))?;
        Ok(ServerCpu {
            cpu_s: used_ns as f64 / NS_PER_S as f64,
            from_ns: from.at_ns,
            until_ns: until.at_ns,
            tasks: match source {
                Source::Cgroup(..) => ServerTasks::Cgroup,
                Source::Tree(_) => ServerTasks::Tree,
                Source::Commands => ServerTasks::Commands,
            },
        })
    }
}

impl Source {
    fn read(&self) -> Maybe<Reading> {
        let before_ns = Monotonic.now_ns();
        let (cpu_ns, processes) = match self {
            Self::Cgroup(file, counter) => (read_counter(file, *counter)?, BTreeMap::new()),
            Self::Tree(root) => {
                let processes = tree(*root, Path::new("/proc"))?;
                (processes.values().map(|p| p.cpu_ns).sum(), processes)
            }
            Self::Commands => (ended_commands()?, BTreeMap::new()),
        };
        Ok(Reading { at_ns: before_ns.midpoint(Monotonic.now_ns()), cpu_ns, processes })
    }
}

/// Returns the counter of the process's separate cgroup; `None` if it shares its cgroup, or the kernel does
/// not count.
fn cgroup_of(pid: Pid, root: &Path) -> Option<Source> {
    let text = fs::read_to_string(root.join(format!("proc/{pid}/cgroup"))).ok()?;
    let folder = root.join("sys/fs/cgroup");
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?.trim_start_matches('/'));
        if !Path::new(path).file_name()?.to_str()?.starts_with(OWN_CGROUP) {
            return None;
        }
        let found = if controllers.is_empty() {
            [folder.join(path), folder.join("unified").join(path)]
                .map(|folder| (folder.join("cpu.stat"), Counter::Stat))
        } else if controllers.split(',').any(|c| c == "cpuacct") {
            [folder.join(controllers).join(path), folder.join("cpuacct").join(path)]
                .map(|folder| (folder.join("cpuacct.usage"), Counter::Usage))
        } else {
            return None;
        };
        let counts = |(file, counter): &(PathBuf, Counter)| read_counter(file, *counter).is_ok();
        found.into_iter().find(counts).map(|(file, counter)| Source::Cgroup(file, counter))
    })
}

fn read_counter(file: &Path, counter: Counter) -> Maybe<u64> {
    let missing = |why: &str| Missing::because(format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|e| missing(&e.to_string()))?;
    let number = match counter {
        Counter::Usage => text.trim().parse().ok(),
        Counter::Stat => text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<u64>().ok())
            .and_then(|us| us.checked_mul(1_000)),
    };
    number.ok_or_else(|| missing("it contains no CPU time"))
}

/// Returns the process and its descendants, each with its CPU time and that of its reaped children.
fn tree(root: Pid, proc: &Path) -> Maybe<BTreeMap<Identity, Process>> {
    let cannot = |e: io::Error| Missing::because(format!("cannot list the processes: {e}"));
    let mut all: BTreeMap<i32, (Identity, Stat)> = BTreeMap::new();
    for entry in fs::read_dir(proc).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        // A process that ended since it was listed has no file any more.
        let Ok(text) = process_time::text(proc.join(format!("{pid}/stat"))) else { continue };
        let Some(stat) = Stat::read(&text) else { continue };
        all.insert(pid, ((pid, stat.started), stat));
    }
    let mut found = BTreeMap::new();
    let mut open = vec![root.as_raw()];
    while let Some(pid) = open.pop() {
        let Some((identity, stat)) = all.get(&pid) else { continue };
        open.extend(all.values().filter(|(_, child)| child.parent == pid).map(|((child, _), _)| *child));
        if ignores_children(proc, pid) {
            return Err(Missing::because(format!(
                "process {pid} of the server ignores SIGCHLD, so the CPU time of its exited children is lost"
            )));
        }
        let Some(own_ns) = clock_of(pid) else { continue };
        found.insert(*identity, Process { parent: stat.parent, cpu_ns: own_ns + stat.waited_for_ns });
    }
    if found.is_empty() {
        return Err(Missing::because("the server's process has ended"));
    }
    Ok(found)
}

/// Fields of `/proc/PID/stat` that are needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) started: u64,
    /// CPU time of reaped children.
    waited_for_ns: u64,
}

impl Stat {
    pub(crate) fn read(text: &str) -> Option<Self> {
        // The name may contain blanks and parentheses; the last parenthesis ends it.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok()??;
        let ticks = number(16)? + number(17)?;
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            started: number(22)?,
            waited_for_ns: ticks * (NS_PER_S / u64::try_from(ticks_per_s).ok()?),
        })
    }
}

pub(crate) fn ignores_children(proc: &Path, pid: i32) -> bool {
    let status = process_time::text(proc.join(format!("{pid}/status"))).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & SIGCHLD_BIT != 0)
}

/// Returns the CPU time of a process in nanoseconds, including its ended threads; `None` if it is gone.
fn clock_of(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes one number, which lives in this frame.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in one structure, which lives in this frame.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(u64::try_from(time.tv_sec).ok()? * NS_PER_S + u64::try_from(time.tv_nsec).ok()?)
}

/// Returns the CPU time of all commands that this process has reaped, including the children that those
/// reaped.
fn ended_commands() -> Maybe<u64> {
    // SAFETY: all zeros is a valid value of the structure; the kernel fills it in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives until the call returns.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        let why = io::Error::last_os_error();
        return Err(Missing::because(format!("cannot read the CPU time of commands: {why}")));
    }
    let ns = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(time.tv_usec).unwrap_or(0) * 1_000
    };
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// Checks that every process that ended between the readings left its CPU time to a process that still
/// counts.
///
/// # Errors
///
/// Missing if the parent of such a process had ended too, which loses its time.
fn unaccounted(from: &Reading, until: &Reading) -> Maybe<()> {
    let there = |pid: i32| until.processes.keys().any(|(known, _)| *known == pid);
    let lost = from
        .processes
        .iter()
        .find(|(identity, process)| !until.processes.contains_key(identity) && !there(process.parent));
    match lost {
        None => Ok(()),
        Some(((pid, _), _)) => Err(Missing::because(format!(
            "process {pid} of the server ended together with its parent, so its CPU time is unknown"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn used_by(script: &str) -> (Pid, std::process::Child) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = io::BufReader::new(child.stdout.take().unwrap());
        io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "ready\n");
        (Pid::from_raw(child.id().cast_signed()), child)
    }

    /// The shell runs children that use CPU time and end before it reports; the readings count exactly what
    /// `times` prints.
    #[test]
    fn a_tree_has_the_time_of_children_that_ended_and_of_children_that_run() {
        let (pid, mut child) =
            used_by("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo ready; read x; :");
        let reading = Source::Tree(pid).read().unwrap();
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let ended_ns = Stat::read(&text).unwrap().waited_for_ns;
        assert!(ended_ns > 0 && reading.cpu_ns >= ended_ns, "{reading:?} {ended_ns}");
        assert!(reading.cpu_ns - ended_ns < ended_ns.max(NS_PER_S), "the shell itself did little");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_server_that_ignores_its_children_has_no_time_that_can_be_trusted() {
        let (pid, mut child) = used_by("{ echo ready; cat; } | env --ignore-signal=CHLD cat; :");
        let found = Source::Tree(pid).read();
        assert!(found.is_err_and(|m| m.reason.contains("ignores SIGCHLD")));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_took_its_time_with_it_is_found_out() {
        let reading = |processes: &[(i32, i32)]| Reading {
            at_ns: 0,
            cpu_ns: 0,
            processes: processes
                .iter()
                .map(|(pid, parent)| ((*pid, 7), Process { parent: *parent, cpu_ns: 5 }))
                .collect(),
        };
        let from = reading(&[(10, 1), (11, 10), (12, 11)]);
        assert!(unaccounted(&from, &reading(&[(10, 1), (11, 10)])).is_ok());
        assert!(unaccounted(&from, &reading(&[(10, 1)])).is_err());
    }

    #[test]
    fn only_a_cgroup_of_its_own_counts_for_the_server() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/5/cgroup", "0::/user.slice/bakeoff-ab12\n");
        write("sys/fs/cgroup/user.slice/bakeoff-ab12/cpu.stat", "usage_usec 1500\nuser_usec 1000\n");
        write("proc/6/cgroup", "4:cpu,cpuacct:/bakeoff-cd34\n1:name=systemd:/x\n");
        write("sys/fs/cgroup/cpu,cpuacct/bakeoff-cd34/cpuacct.usage", "1500000\n");
        write("proc/7/cgroup", "0::/user.slice\n");
        write("sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 99\n");
        for pid in [5, 6] {
            let source = cgroup_of(Pid::from_raw(pid), root.path()).unwrap();
            assert_eq!(source.read().unwrap().cpu_ns, 1_500_000, "{source:?}");
        }
        assert!(cgroup_of(Pid::from_raw(7), root.path()).is_none());
        assert!(cgroup_of(Pid::from_raw(8), root.path()).is_none());
    }

    #[test]
    fn a_child_whose_name_is_no_utf_8_counts() {
        let proc = tempfile::tempdir().unwrap();
        let (own, parent) = (std::process::id().cast_signed(), i32::MAX);
        // The process that exists keeps its id, so its clock can be read.
        for (pid, parent, name) in [(parent, 1, b"server".as_slice()), (own, parent, b"\x9bwork")] {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            let head = format!("{pid} (");
            let tail = format!(") S {parent} 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 4242 0");
            let stat = [head.as_bytes(), name, tail.as_bytes()].concat();
            fs::write(folder.join("stat"), stat).unwrap();
        }
        let found = tree(Pid::from_raw(parent), proc.path()).unwrap();
        assert!(found.contains_key(&(own, 4242)), "{found:?}");
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_is_no_field() {
        let text = "7 (a ) b) S 3 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 4242 0";
        let stat = Stat::read(text).unwrap();
        assert_eq!((stat.parent, stat.started), (3, 4242));
        assert!(stat.waited_for_ns > 0);
        assert_eq!(Stat::read("7 (a"), None);
    }

    #[test]
    fn cpu_time_between_turns_and_outside_the_phase_is_not_that_of_the_load() {
        let reading = |cpu_ns| Some(Ok(Reading { at_ns: 0, cpu_ns, processes: BTreeMap::new() }));
        let source = Source::Cgroup(PathBuf::new(), Counter::Stat);
        let meter = ServerMeter { source: Ok(source), from: reading(150), until: reading(450) };
        // 20 to settle before each turn; the phase begins in the second turn, and ends after the last one.
        let turns = [(20, 100), (120, 200), (220, 300), (320, 400)].map(Ok);
        let found = meter.end_of_turns(&turns, (0, 10)).unwrap();
        assert!((found.cpu_s * 1e9 - 210.0).abs() < 1e-6, "{found:?}");
        assert_eq!((found.from_ns, found.until_ns), (0, 10));
        let meter = ServerMeter { source: Ok(Source::Commands), from: reading(1), until: reading(2) };
        let lost = [Ok((0, 5)), Err(Missing::because("gone"))];
        assert_eq!(meter.end_of_turns(&lost, (0, 10)), Err(Missing::because("gone")));
    }

    #[test]
    fn a_target_without_a_server_says_why_it_has_no_time() {
        for (scheme, why) in [("sqlite", "inside the load generator"), ("mysql", "starts no server")] {
            let missing = ServerMeter::of(&[], scheme).end().unwrap_err();
            assert!(missing.reason.contains(why), "{missing}");
        }
    }
}
