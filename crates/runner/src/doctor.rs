//! `bakeoff doctor`: the abilities of this machine, each verified by a try where one is possible.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::libc;
use nix::sys::statvfs::statvfs;
use probes::cpu_time::Options;
use record::clock::WallAnchor;
use record::cpu::Rung;

/// Extent of an ability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// All of it.
    Good,
    /// A part of it, or with more noise.
    Limited,
    /// Nothing of it.
    Missing,
}

impl Ability {
    /// The word in JSON and on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// One ability of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symptom {
    /// The ability and its present state: `clocksource: tsc`.
    pub what: String,
    /// Extent to which it works.
    pub state: Ability,
    /// Losses of the commands without it: `cpu: no tick columns`.
    pub costs: Vec<String>,
    /// The change that mends it; `None` if it is good, or if nothing here can mend it.
    pub mend: Option<String>,
}

impl Symptom {
    fn good(what: String) -> Self {
        Self { what, state: Ability::Good, costs: Vec::new(), mend: None }
    }

    fn poor(what: String, state: Ability, costs: &[&str], mend: &str) -> Self {
        let mend = (!mend.is_empty()).then(|| mend.to_owned());
        Self { what, state, costs: costs.iter().map(|&cost| cost.to_owned()).collect(), mend }
    }

    fn or(what: String, is_good: bool, costs: &[&str], mend: &str) -> Self {
        if is_good { Self::good(what) } else { Self::poor(what, Ability::Limited, costs, mend) }
    }
}

/// Events of the tracing file system.
const TRACING: &str = "/sys/kernel/tracing";
/// Free space that an archive or a scratch folder should have.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// Open files of a program that watches many CPUs with many connections.
const FILES_MIN: u64 = 4_096;
/// Lateness of wake-ups that would change a p99 of a fast server.
const LATE_NS_MAX: u64 = 200_000;
/// Share of the CPUs' time that the hypervisor may have taken.
const STEAL_MAX: f64 = 0.01;
/// The mend of rights that root lacks.
const CONTAINER: &str = "give the container these capabilities (docker: --cap-add; systemd: CapabilityBoundingSet=, AmbientCapabilities=)";
/// Inode of the first PID namespace (`PROC_PID_INIT_INO` in the kernel's `include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Examines this machine; takes about a second.
///
/// - `archive`: folder of the archive.
pub fn examine(archive: &Path) -> Vec<Symptom> {
    let before = accounted();
    let mut found = vec![cpu()];
    // Power has a separate symptom.
    found.extend(probes::observe::KINDS.iter().filter(|kind| kind.name != "power").map(instrument));
    found.extend([pmu(), power(), btf(), capabilities(), tracing(), cgroups(), pid_namespace(), paranoid()]);
    found.extend([
        fifo(),
        wake_up(),
        clock_source(),
        governor(),
        steal(before),
        huge_pages(),
        swap(),
        files(),
    ]);
    found.push(room("archive", archive));
    found.push(room("scratch folder", &std::env::temp_dir()));
    found.push(peers());
    found
}

/// States of the machine that add noise to a measurement and can be mended.
pub(crate) fn noisy() -> impl Iterator<Item = Symptom> {
    [governor(), swap()].into_iter().filter(|symptom| symptom.mend.is_some())
}

/// Mounts the tracing file system if it is missing.
///
/// # Errors
///
/// A sentence for people, if the mount fails.
pub fn mount_tracing() -> Result<Option<String>, String> {
    if has_tracing() {
        return Ok(None);
    }
    let mounted = Command::new("mount").args(["-t", "tracefs", "nodev", TRACING]).output();
    let mounted = mounted.map_err(|error| format!("cannot run mount: {error}"))?;
    if mounted.status.success() && has_tracing() {
        return Ok(Some(format!("mounted the tracing file system on {TRACING}")));
    }
    let said = String::from_utf8_lossy(&mounted.stderr);
    Err(format!("cannot mount the tracing file system: {}", said.trim()))
}

/// Opens the probe of the CPUs and reads an interval.
fn cpu() -> Symptom {
    let mut probe = probes::cpu_time::open(&Options::of_this_machine().with_ticks());
    probe.start();
    std::thread::sleep(Duration::from_millis(50));
    let interval = probe.read();
    let notes = probe.notes().to_vec();
    let what = format!("cpu: by {}", interval.rung.word());
    if interval.rung == Rung::Bpf && notes.is_empty() {
        return Symptom::good(what);
    }
    let mend =
        if is_root() { CONTAINER } else { "run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_RESOURCE" };
    let costs = notes.into_iter().map(|note| format!("cpu: {note}")).collect();
    let mend = (interval.rung != Rung::Bpf).then(|| mend.to_owned());
    Symptom { what, state: Ability::Limited, costs, mend }
}

/// Opens an instrument and reads it.
fn instrument(kind: &probes::observe::Kind) -> Symptom {
    let mut opened = (kind.open)();
    opened.start();
    let readings = opened.read();
    let notes = opened.notes();
    if notes.is_empty() {
        return Symptom::good(format!("{}: works", kind.name));
    }
    let state = if readings.is_empty() { Ability::Missing } else { Ability::Limited };
    let costs = notes.iter().map(|note| format!("{}: {note}", kind.name)).collect();
    // The notes of an instrument name the remedy.
    let mend =
        if is_root() { "do what the line above says" } else { "run as root, or do what the line above says" };
    let mend = Some(mend.to_owned());
    Symptom { what: kind.name.to_owned(), state, costs, mend }
}

/// Counts the instructions of nothing: whether the processor's counters are lent to this machine.
fn pmu() -> Symptom {
    let costs = ["compare, record: no instructions", "cpu --tasks: no cycles"];
    match probes::instructions::Instructions::open() {
        Ok(_) => Symptom::good("PMU: instructions can be counted".to_owned()),
        // The reason may be the machine's, or that the process lacks a right.
        Err(why) => Symptom::poor(format!("PMU: {why}"), Ability::Missing, &costs, ""),
    }
}

fn power() -> Symptom {
    match probes::power::open(Path::new("/")) {
        Ok(_) => Symptom::good("energy: the processor's counters are readable".to_owned()),
        Err(why) => {
            let costs = ["record, load: no energy values"];
            Symptom::poor(format!("energy: {why}"), Ability::Missing, &costs, "")
        }
    }
}

fn btf() -> Symptom {
    let path = "/sys/kernel/btf/vmlinux";
    let is_good = fs::read(path).is_ok_and(|bytes| bytes.starts_with(&[0x9f, 0xeb]));
    let costs = ["cpu, io, locks, ulocks, profile: no event-based values"];
    let mend = "a kernel with CONFIG_DEBUG_INFO_BTF=y";
    if is_good {
        return Symptom::good("BTF: the kernel describes its types".to_owned());
    }
    Symptom::poor(format!("BTF: cannot read {path}"), Ability::Missing, &costs, mend)
}

/// Names the capabilities of probes and real-time priority that this process lacks.
fn capabilities() -> Symptom {
    const BY_EVENTS: &str = "cpu, io, locks, ulocks, profile: no event-based values";
    const NEEDED: [(u32, &str, &str); 4] = [
        (39, "CAP_BPF", BY_EVENTS),
        (38, "CAP_PERFMON", BY_EVENTS),
        (24, "CAP_SYS_RESOURCE", "all: the hard limit on open files applies"),
        (23, "CAP_SYS_NICE", "load: no --fifo"),
    ];
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let lacking = || NEEDED.iter().filter(|(bit, ..)| set & 1 << bit == 0);
    let lacks: Vec<&str> = lacking().map(|(_, name, _)| *name).collect();
    if lacks.is_empty() {
        return Symptom::good("capabilities: all that the instruments need are present".to_owned());
    }
    let what = format!("capabilities: without {}", lacks.join(", "));
    let mut costs: Vec<&str> = lacking().map(|(.., cost)| *cost).collect();
    costs.dedup();
    let state = if lacks.len() == NEEDED.len() { Ability::Missing } else { Ability::Limited };
    let mend = if is_root() {
        CONTAINER
    } else {
        "run as root, or install with `make install GROUP=NAME` and run bakeoff-observe as a member of that group"
    };
    Symptom::poor(what, state, &costs, mend)
}

fn has_tracing() -> bool {
    fs::read_dir(format!("{TRACING}/events")).is_ok_and(|mut entries| entries.next().is_some())
}

fn tracing() -> Symptom {
    if has_tracing() {
        return Symptom::good(format!("tracefs: events in {TRACING}"));
    }
    // No instrument of ours needs it.
    let costs = ["other tracers: perf trace and bpftrace cannot run at the same time"];
    let mend = "as root: bakeoff doctor --fix";
    Symptom::poor("tracefs: no events".to_owned(), Ability::Limited, &costs, mend)
}

fn cgroups() -> Symptom {
    match probes::cgroups::mounted() {
        Ok(path) => Symptom::good(format!("cgroup v2: {}", path.display())),
        Err(error) => Symptom::poor(
            format!("cgroup v2: {error}"),
            Ability::Missing,
            &["cpu, io, locks: no --by cgroup", "load: CPU quotas are not detected"],
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}

fn pid_namespace() -> Symptom {
    let found = fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string());
    match found {
        Ok(name) if name == FIRST_PID_NAMESPACE => {
            Symptom::good("PID namespace: the machine's own".to_owned())
        }
        found => Symptom::poor(
            format!("PID namespace: {}", found.unwrap_or_else(|error| error.to_string())),
            Ability::Limited,
            &[
                "cpu --tasks, locks: processes outside the container have no name",
                "before Linux 6.7: no cpu --tasks, no cpu --by cgroup",
            ],
            "run outside the container, or with --pid=host",
        ),
    }
}

/// Samplers and counters of a whole CPU need 0 or less; 1 lends only those of own threads.
fn paranoid() -> Symptom {
    let value = number("/proc/sys/kernel/perf_event_paranoid");
    let what = value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let costs = ["without root: no perf rung, no counters"];
    let mend = "sysctl kernel.perf_event_paranoid=0";
    let is_good = value.is_some_and(|value| value <= 0) || is_root();
    Symptom::or(format!("perf_event_paranoid: {what}"), is_good, &costs, mend)
}

/// Gives a new thread real-time priority.
fn fifo() -> Symptom {
    let tried = std::thread::spawn(|| {
        let parameters = libc::sched_param { sched_priority: 1 };
        // SAFETY: 0 names the calling thread, and the parameters live until the call returns.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
    });
    if tried.join().unwrap_or(false) {
        return Symptom::good("SCHED_FIFO: allowed".to_owned());
    }
    let mend = "run as root, with CAP_SYS_NICE, or raise `ulimit -r`";
    Symptom::poor("SCHED_FIFO: refused".to_owned(), Ability::Missing, &["load: no --fifo"], mend)
}

/// Measures how late sleeps of 1 ms end.
fn wake_up() -> Symptom {
    const SLEEP: Duration = Duration::from_millis(1);
    const SLEEPS: usize = 200;
    let mut late_ns: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let before = WallAnchor::now().monotonic_ns;
            std::thread::sleep(SLEEP);
            (WallAnchor::now().monotonic_ns - before).saturating_sub(1_000_000)
        })
        .collect();
    late_ns.sort_unstable();
    let p99_ns = late_ns[SLEEPS * 99 / 100 - 1];
    let what = format!("timers: {} us late at p99 of {SLEEPS} sleeps", p99_ns / 1_000);
    let costs = ["load: wake-up delay affects p99 of a fast server"];
    Symptom::or(
        what,
        p99_ns <= LATE_NS_MAX,
        &costs,
        "use an idle machine, load --fifo or the performance governor",
    )
}

fn clock_source() -> Symptom {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = word(path).unwrap_or_else(|| "unknown".to_owned());
    let is_good = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].contains(&&*name);
    let costs = ["load, cpu: reading the time costs a system call"];
    let mend = format!("echo tsc > {path}, if the kernel lists it as available");
    Symptom::or(format!("clocksource: {name}"), is_good, &costs, &mend)
}

fn governor() -> Symptom {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    match word(path) {
        None => Symptom::poor(
            "governor: not visible here".to_owned(),
            Ability::Limited,
            &["all: the CPU's frequency may change unnoticed"],
            "",
        ),
        Some(name) => {
            let is_good = name == "performance";
            let costs = ["all: the CPU's frequency follows the load"];
            Symptom::or(format!("governor: {name}"), is_good, &costs, "cpupower frequency-set -g performance")
        }
    }
}

/// All time of the CPUs that the kernel has accounted, and the part that a hypervisor took, in ticks.
fn accounted() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
    (ticks.iter().sum(), ticks.get(7).copied().unwrap_or(0.0))
}

/// Compares the time that a hypervisor took, since the machine started and during this examination.
fn steal(before: (f64, f64)) -> Symptom {
    let now = accounted();
    let ratio = |all: f64, stolen: f64| if all > 0.0 { stolen / all } else { 0.0 };
    let (since_boot, lately) = (ratio(now.0, now.1), ratio(now.0 - before.0, now.1 - before.1));
    let what = format!("steal: {:.1} % just now, {:.2} % since boot", 100.0 * lately, 100.0 * since_boot);
    Symptom::or(
        what,
        since_boot.max(lately) <= STEAL_MAX,
        &["all: other guests take CPU time"],
        "use a machine without other guests",
    )
}

fn huge_pages() -> Symptom {
    let text = word("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap_or("unknown");
    let costs = ["run: memory and p99 of a server vary from start to start"];
    let mend = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    Symptom::or(format!("transparent huge pages: {chosen}"), chosen != "always", &costs, mend)
}

fn swap() -> Symptom {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let used = kib("SwapTotal:").unwrap_or(0).saturating_sub(kib("SwapFree:").unwrap_or(0));
    let costs = ["all: pages of a server may be on disk"];
    Symptom::or(format!("swap: {} MiB in use", used >> 10), used == 0, &costs, "swapoff -a; swapon -a")
}

fn files() -> Symptom {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap_or_default();
    let hard = line.split_whitespace().nth(1).unwrap_or("0");
    let is_good = hard == "unlimited" || hard.parse::<u64>().is_ok_and(|hard| hard >= FILES_MIN);
    let costs = ["load: fewer connections", "cpu, locks: too few files for many CPUs"];
    Symptom::or(format!("open files: {hard} allowed"), is_good, &costs, "ulimit -Hn 65536, as root")
}

fn room(name: &str, folder: &Path) -> Symptom {
    // A folder that is not there yet lies on the file system of the nearest one that is.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let Ok(stat) = statvfs(there) else {
        let what = format!("{name}: cannot read the free space of {}", there.display());
        return Symptom::poor(what, Ability::Missing, &["all: nothing can be stored"], "");
    };
    let free_bytes = stat.blocks_available() * stat.fragment_size();
    let what =
        format!("{name}: {:.1} GiB free in {}", free_bytes as f64 / f64::from(1 << 30), folder.display());
    Symptom::or(what, free_bytes >= FREE_BYTES_MIN, &["all: a run may not fit"], "free some space there")
}

/// Looks for the tools that `prove` runs beside its own instruments.
fn peers() -> Symptom {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let absent: Vec<&str> =
        ["mpstat", "vmstat", "iostat", "nicstat"].into_iter().filter(|name| !is_there(name)).collect();
    if absent.is_empty() {
        return Symptom::good("tools for prove: all installed".to_owned());
    }
    let what = format!("tools for prove: {} not installed", absent.join(", "));
    Symptom::poor(
        what,
        Ability::Limited,
        &["prove: fewer tools to compare with"],
        "apt install sysstat procps nicstat",
    )
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn word(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    word(path)?.parse().ok()
}
