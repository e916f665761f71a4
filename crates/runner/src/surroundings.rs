//! What else happened on the machine during a measured phase: work of others, time that the hypervisor took,
//! swapping, a wall clock that was set, a disk that filled up; and a warm-up that was too short.
//!
//! None of this makes a trial INVALID by itself: all configurations of a block may suffer alike. It is a flag
//! with its cause, a fact of the run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use analysis::steady::different_start;
use load::Event;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statvfs::statvfs;
use nix::unistd::{SysconfVar, sysconf};
use probes::proc_stat::{self, ProcStat, Ticks};
use record::bakeoff::FLAG;
use record::clock::WallAnchor;
use record::environment::Environment;
use record::load::{LoadRecord, Phase};
use record::missing::Maybe;
use record::server_cpu::ServerCpu;

use crate::server_use::Whose;

/// Maximum share of the time of all CPUs that others, the kernel's own threads included, may use.
const OTHERS_RATIO_MAX: f64 = 0.1;
/// Maximum share that the hypervisor may give to others.
const STOLEN_RATIO_MAX: f64 = 0.05;
/// Maximum swapping of the whole machine.
const SWAPPED_BYTES_MAX: u64 = 1 << 20;
/// Minimum of free space in the scratch folder.
const FREE_BYTES_MIN: u64 = 100 << 20;
/// Maximum step of the wall clock, and the part of a second that a daemon may correct it by in each second.
const STEP_S_MAX: f64 = 0.1;
const SLEW_MAX: f64 = 0.001;
/// Edges of a phase are off by up to a tick on each CPU.
const EDGES: f64 = 2.0;

/// State of the machine at one edge of the measured phase.
#[derive(Debug)]
pub(crate) struct Edge {
    at: WallAnchor,
    cpus: Option<ProcStat>,
    /// CPU time of this process and of the children that it has reaped.
    own_s: f64,
    swapped_pages: Option<u64>,
    /// Number of times that heat slowed a CPU down; `None` if the machine does not count them.
    slowed_by_heat: Option<u64>,
}

/// Follows a load.
#[derive(Debug)]
pub(crate) struct Surroundings {
    scratch: PathBuf,
    from: Option<Edge>,
    until: Option<Edge>,
    /// Level of each interval: throughput in a closed loop, median response in an open one.
    levels: Vec<f64>,
}

impl Surroundings {
    /// - `scratch`: folder of the series.
    pub(crate) fn of(scratch: &Path) -> Self {
        Self { scratch: scratch.to_owned(), from: None, until: None, levels: Vec::new() }
    }

    /// Reads the machine at both edges of the measured phase.
    pub(crate) fn follow(&mut self, event: &Event) {
        match event {
            Event::PhaseStarts { phase: Phase::Measure, .. } => self.from = Some(Edge::now()),
            Event::MeasureEnds => self.until = Some(Edge::now()),
            Event::Interval(progress) if progress.phase == Phase::Measure => {
                // The mean would show every stall.
                let response_ns = progress.latency.merged().quantile_ns(0.5).map_or(f64::NAN, |ns| ns as f64);
                let is_open = progress.offered_per_s.is_ok();
                self.levels.push(if is_open { response_ns } else { progress.achieved_per_s });
            }
            _ => {}
        }
    }

    /// Returns what disturbed the measured phase, by name.
    ///
    /// - `server`: CPU time of the server of this phase.
    pub(crate) fn end(
        mut self,
        whose: Whose,
        server: &Maybe<ServerCpu>,
        load: &LoadRecord,
    ) -> BTreeMap<&'static str, String> {
        let mut flags = BTreeMap::new();
        flags.extend(self.start(load).map(|text| ("warm-up", text)));
        flags.extend(self.room().map(|text| ("disk", text)));
        let (Some(from), Some(until)) = (self.from.take(), self.until.take()) else { return flags };
        flags.extend(swapped(&from, &until).map(|text| ("swapping", text)));
        flags.extend(step(&from, &until).map(|text| ("wall-clock", text)));
        flags.extend(heat(&from, &until).map(|text| ("heat", text)));
        if let (Some(before), Some(after)) = (&from.cpus, &until.cpus) {
            let stolen = proc_stat::stolen_ratio(before, after).filter(|ratio| *ratio > STOLEN_RATIO_MAX);
            flags.extend(stolen.map(|ratio| {
                let limit = STOLEN_RATIO_MAX * 100.0;
                (
                    "steal",
                    format!(
                        "the hypervisor gave {:.1} % of the CPUs to other guests, limit {limit:.0} %",
                        ratio * 100.0
                    ),
                )
            }));
        }
        // The work of a server that the plan did not start cannot be told from that of others.
        let server_s = match whose {
            Whose::Server => server.as_ref().ok().map(|cpu| cpu.cpu_s),
            Whose::Commands | Whose::Embedded => Some(0.0),
            Whose::Nobody => None,
        };
        // A command counts when it has ended: at either edge, one of each worker is in doubt.
        let event_s = load.service.summary().map_or(0.0, |summary| summary.mean_ns * 1e-9);
        let in_doubt_s =
            if whose == Whose::Commands { event_s * f64::from(load.settings.threads) } else { 0.0 };
        let others = server_s.and_then(|server_s| others(&from, &until, server_s, in_doubt_s));
        flags.extend(others.map(|text| ("other-work", text)));
        flags
    }

    /// Tells of a beginning that differs from the rest.
    fn start(&self, load: &LoadRecord) -> Option<String> {
        let finite: Vec<f64> = self.levels.iter().copied().filter(|level| level.is_finite()).collect();
        let start = different_start(&finite)?;
        let interval_s = load.measured.as_secs_f64() / self.levels.len() as f64;
        let what = if load.response.is_ok() { "median response" } else { "throughput" };
        let change = (start.ratio - 1.0) * 100.0;
        if start.values * 2 >= finite.len() {
            return Some(format!(
                "the {what} still changes in the second half of the measured phase: {change:+.0} %"
            ));
        }
        let first_s = start.values as f64 * interval_s;
        Some(format!(
            "the {what} changes by {change:+.0} % after the first {first_s:.1} s: the warm-up is too short"
        ))
    }

    fn room(&self) -> Option<String> {
        let stat = statvfs(&self.scratch).ok()?;
        let free_bytes = stat.blocks_available() * stat.fragment_size();
        (free_bytes < FREE_BYTES_MIN)
            .then(|| format!("the disk of the scratch folder has only {} MiB left", free_bytes >> 20))
    }
}

impl Edge {
    pub(crate) fn now() -> Self {
        Self {
            at: WallAnchor::now(),
            cpus: proc_stat::read(Path::new("/")).ok(),
            own_s: cpu_s(UsageWho::RUSAGE_SELF) + cpu_s(UsageWho::RUSAGE_CHILDREN),
            swapped_pages: fs::read_to_string("/proc/vmstat").ok().and_then(|text| swapped_pages(&text)),
            slowed_by_heat: slowed_by_heat(Path::new("/sys/devices/system/cpu")),
        }
    }
}

/// Tells of work of others from one edge until now.
///
/// - `servers_s`: CPU time of all servers under test since then.
pub(crate) fn others_since(from: &Edge, servers_s: f64) -> Option<(&'static str, String)> {
    others(from, &Edge::now(), servers_s, 0.0).map(|text| ("other-work", text))
}

fn cpu_s(who: UsageWho) -> f64 {
    getrusage(who).map_or(0.0, |usage| {
        let s = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
        s(usage.user_time()) + s(usage.system_time())
    })
}

/// Pages that the machine has moved to and from swap; `None` for a kernel without swap.
fn swapped_pages(vmstat: &str) -> Option<u64> {
    let number =
        |name: &str| vmstat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(number("pswpin ")? + number("pswpout ")?)
}

fn swapped(from: &Edge, until: &Edge) -> Option<String> {
    let mib = swapped_bytes(from, until)? as f64 / f64::from(1 << 20);
    Some(format!("the machine swapped {mib:.1} MiB in the measured phase"))
}

/// Bytes that the machine has swapped between two edges, if they are too many.
pub(crate) fn swapped_bytes(from: &Edge, until: &Edge) -> Option<u64> {
    let pages = until.swapped_pages?.saturating_sub(from.swapped_pages?);
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page_bytes).ok()?).filter(|bytes| *bytes > SWAPPED_BYTES_MAX)
}

/// Number of times that heat slowed a core or its package down, over all CPUs.
///
/// - `cpus`: folder with a folder for each CPU.
fn slowed_by_heat(cpus: &Path) -> Option<u64> {
    let of_cpu = |folder: PathBuf| {
        let count = |name: &str| fs::read_to_string(folder.join("thermal_throttle").join(name)).ok();
        let counts = ["core_throttle_count", "package_throttle_count"].map(count);
        counts
            .into_iter()
            .flatten()
            .filter_map(|text| text.trim().parse::<u64>().ok())
            .reduce(u64::saturating_add)
    };
    let folders = fs::read_dir(cpus).ok()?.flatten().map(|entry| entry.path());
    folders.filter_map(of_cpu).reduce(u64::saturating_add)
}

fn heat(from: &Edge, until: &Edge) -> Option<String> {
    let times = slowed_by_heat_times(from, until)?;
    Some(format!("heat slowed CPUs down {times} times in the measured phase"))
}

/// Number of times that heat has slowed a CPU down between two edges, if it has.
pub(crate) fn slowed_by_heat_times(from: &Edge, until: &Edge) -> Option<u64> {
    Some(until.slowed_by_heat?.saturating_sub(from.slowed_by_heat?)).filter(|times| *times > 0)
}

fn step(from: &Edge, until: &Edge) -> Option<String> {
    let s = |ns: u64| ns as f64 * 1e-9;
    let (monotonic_s, wall_s) = (
        s(until.at.monotonic_ns) - s(from.at.monotonic_ns),
        (i128::from(until.at.unix_ns) - i128::from(from.at.unix_ns)) as f64 * 1e-9,
    );
    let step_s = wall_s - monotonic_s;
    (step_s.abs() > STEP_S_MAX + SLEW_MAX * monotonic_s).then(|| {
        format!(
            "the wall clock jumped by {step_s:+.2} s: this affects times of day in logs, but not latencies"
        )
    })
}

/// Tells of CPU time that belongs neither to the server nor to the load generator.
///
/// - `in_doubt_s`: CPU time that may belong to the server or to another phase.
fn others(from: &Edge, until: &Edge, server_s: f64, in_doubt_s: f64) -> Option<String> {
    let wall_s = until.at.monotonic_ns.saturating_sub(from.at.monotonic_ns) as f64 * 1e-9;
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok()?? as f64;
    let (before, after) = (from.cpus.as_ref()?, until.cpus.as_ref()?);
    let mut cpus = 0.0;
    let mut unused_s = 0.0;
    for (cpu, now) in after {
        let Some(then) = before.get(cpu) else { continue };
        // The idle columns may go back by a tick.
        let since = |of: fn(&Ticks) -> u64| of(now).saturating_sub(of(then)) as f64 / ticks_per_s;
        cpus += 1.0;
        unused_s += since(|t| t.idle) + since(|t| t.iowait) + since(|t| t.steal);
        // Interrupts work for all programs.
        unused_s += since(|t| t.irq) + since(|t| t.softirq);
    }
    let all_s = wall_s * cpus;
    let ratio = (all_s - unused_s - server_s - (until.own_s - from.own_s)) / all_s;
    let limit = OTHERS_RATIO_MAX + (EDGES * cpus / ticks_per_s + in_doubt_s) / all_s;
    (ratio > limit).then(|| {
        format!(
            "other work used {:.1} % of the CPUs in the measured phase, limit {:.1} %",
            ratio * 100.0,
            limit * 100.0
        )
    })
}

/// Replaces the flags among the facts of a run.
pub(crate) fn note(flags: &BTreeMap<&'static str, String>, environment: &mut Environment) {
    environment.facts.retain(|name, _| !name.starts_with(FLAG));
    environment.facts.extend(flags.iter().map(|(name, text)| (format!("{FLAG}{name}"), Ok(text.clone()))));
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Two CPUs that were idle so many ticks of 10 ms.
    fn edge(at_s: u64, idle: u64, own_s: f64) -> Edge {
        let ticks = Ticks { idle, ..Ticks::default() };
        Edge {
            at: WallAnchor { monotonic_ns: at_s * S, unix_ns: (1_000 + at_s) * S },
            cpus: Some(ProcStat::from([(0, ticks), (1, ticks)])),
            own_s,
            swapped_pages: Some(0),
            slowed_by_heat: Some(7),
        }
    }

    #[test]
    fn work_of_others_is_what_neither_server_nor_generator_used() {
        // 10 s of two CPUs, 12 s of them idle. Server 4 s, generator 2 s: 2 s are others', 10 %.
        let from = edge(0, 0, 1.0);
        assert_eq!(others(&from, &edge(10, 600, 3.0), 4.0, 0.0), None);
        let text = others(&from, &edge(10, 550, 3.0), 4.0, 0.0).unwrap();
        assert_eq!(text, "other work used 15.0 % of the CPUs in the measured phase, limit 10.2 %");
        assert_eq!(others(&from, &edge(10, 550, 3.0), 4.0, 1.0), None, "1 s may be the server's");
        // An idle column that went back by a tick is no work.
        assert_eq!(others(&edge(0, 5, 0.0), &edge(10, 4, 0.0), 19.0, 0.0), None);
    }

    #[test]
    fn a_clock_that_was_set_and_a_machine_that_swapped_are_told() {
        let (from, mut until) = (edge(0, 0, 0.0), edge(10, 0, 0.0));
        assert_eq!((step(&from, &until), swapped(&from, &until)), (None, None));
        until.at.unix_ns -= S / 2;
        until.swapped_pages = Some(1_000);
        assert!(step(&from, &until).unwrap().contains("-0.50 s"));
        assert!(swapped(&from, &until).unwrap().contains("3.9 MiB"));
        until.swapped_pages = None;
        assert_eq!(swapped(&from, &until), None);
        assert_eq!(swapped_pages("pgpgin 5\npswpin 3\npswpout 4\n"), Some(7));
        assert_eq!(swapped_pages("pgpgin 5\n"), None);
    }

    #[test]
    fn heat_is_told_if_a_cpu_was_slowed_down_in_the_phase() {
        let (from, mut until) = (edge(0, 0, 0.0), edge(10, 0, 0.0));
        assert_eq!(heat(&from, &until), None);
        until.slowed_by_heat = Some(10);
        assert_eq!(heat(&from, &until).unwrap(), "heat slowed CPUs down 3 times in the measured phase");
        until.slowed_by_heat = None;
        assert_eq!(heat(&from, &until), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(slowed_by_heat(folder.path()), None, "a machine that does not count");
        for (cpu, core, package) in [("cpu0", "3\n", "10\n"), ("cpu1", "0\n", "many\n")] {
            let counts = folder.path().join(cpu).join("thermal_throttle");
            fs::create_dir_all(&counts).unwrap();
            fs::write(counts.join("core_throttle_count"), core).unwrap();
            fs::write(counts.join("package_throttle_count"), package).unwrap();
        }
        assert_eq!(slowed_by_heat(folder.path()), Some(13));
    }
}
