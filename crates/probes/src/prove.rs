//! Calibration: each instrument against workloads whose truth is known, on this very machine.
//!
//! The truth of a hog is its own `CLOCK_PROCESS_CPUTIME_ID`, which the scheduler keeps, read at both edges of the window.
//! What else ran on the hog's CPU has no truth of its own; where an instrument sees the whole CPU, the others' part by
//! events is added to the truth, and it is small on a quiet machine.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use record::clock::{Clock, Monotonic};
use record::cpu::{CpuInterval, CpuSample, Rung};
use record::missing::{Maybe, Missing};
use record::proof::Proof;

use crate::cpu_list;
use crate::cpu_time::{self, CpuProbe, Options};
use crate::peers::{Peer, Tool};
use crate::topology::Cores;

/// How the CPU's instruments are proved.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For how long each workload is watched, in whole seconds: the others' tools know no parts of one.
    pub seconds: u64,
    /// The CPU on which hogs hide; the last one where it does not matter.
    pub cpu: Option<u32>,
    /// Run mpstat, vmstat, pidstat and top beside, where they are installed.
    pub peers: bool,
}

/// A workload with a known truth.
#[derive(Debug, Clone, PartialEq)]
pub enum Hog {
    /// [`crate::hog::hide`].
    Hide {
        /// Where.
        cpu: u32,
        /// How much of it.
        ratio: f64,
    },
    /// [`crate::hog::antihide`].
    Antihide {
        /// Where.
        cpu: u32,
    },
    /// [`crate::hog::spin`].
    Spin {
        /// One thread on each.
        cpus: Vec<u32>,
    },
}

/// Why nothing could be proved.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// No CPU is known to be online.
    #[error("the list of CPUs that are online cannot be read")]
    NoCpus,
    /// A hog did not start.
    #[error("the workload `{workload}` did not start: {found}")]
    Hog {
        /// Which.
        workload: String,
        /// What it printed instead of `ready`.
        found: String,
    },
    /// A hog's process could not be made or asked.
    #[error("the workload `{workload}` cannot be run")]
    System {
        /// Which.
        workload: String,
        /// Why.
        source: io::Error,
    },
}

impl Hog {
    /// The workloads of `prove cpu`, on a machine with these CPUs.
    pub fn all(cpu: u32, online: &[u32]) -> Vec<Self> {
        let hidden = [0.1, 0.3, 0.5, 0.7, 0.9].map(|ratio| Self::Hide { cpu, ratio });
        // Spread over the CPUs, several on each where there are fewer.
        let spin = (1..=4).map(|n| Self::Spin { cpus: online.iter().copied().cycle().take(n).collect() });
        hidden.into_iter().chain([Self::Antihide { cpu }]).chain(spin).collect()
    }

    /// Its name in a table.
    pub fn name(&self) -> String {
        match self {
            Self::Hide { ratio, .. } => format!("hide {:.0} %", ratio * 100.0),
            Self::Antihide { .. } => "antihide".to_owned(),
            Self::Spin { cpus } => format!("spin {}", cpus.len()),
        }
    }
}

/// Runs every workload under every instrument.
///
/// `command`: makes the command that runs a hog in a process of its own: it prints `ready` when the work starts, and works
/// until its input ends. `on_proof` is told of each proof as it is made.
///
/// # Errors
///
/// [`ProveError`]: an instrument that cannot be had is a proof that says so, a workload that cannot is an error.
pub fn cpu(
    settings: &Settings,
    command: &dyn Fn(&Hog) -> Command,
    on_proof: &mut dyn FnMut(&Proof),
) -> Result<Vec<Proof>, ProveError> {
    let root = PathBuf::from("/");
    let online: Vec<u32> = cpu_list::online(&root).ok_or(ProveError::NoCpus)?.into_iter().collect();
    let cpu = settings.cpu.or(online.last().copied()).ok_or(ProveError::NoCpus)?;
    let mut proofs = Vec::new();
    for hog in Hog::all(cpu, &online) {
        let window = watch(settings, &hog, command(&hog))?;
        let mut made = own_proofs(&hog, &window);
        made.extend(peers_proofs(&hog, &window, online.len()));
        made.iter().for_each(&mut *on_proof);
        proofs.extend(made);
    }
    Ok(proofs)
}

/// Everything that was seen of one hog, over one window.
struct Window {
    interval: CpuInterval,
    /// The hog's CPU time over the window's length, by its own clock; more than 1 on several CPUs.
    truth: f64,
    /// The same by events.
    by_events: Maybe<f64>,
    /// What our own programs took.
    cost: Maybe<f64>,
    /// What each tool said, and what it took of one CPU.
    peers: Vec<(Tool, Maybe<f64>, Maybe<f64>)>,
}

fn watch(settings: &Settings, hog: &Hog, command: Command) -> Result<Window, ProveError> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_ticks().with_tasks(Cores::default()));
    let running = Running::start(hog, command)?;
    let (cpu, pid) = (hog.cpu(), running.child.id());
    probe.start();
    let (truth_before_ns, truth_from_ns) = (running.cpu_ns()?, Monotonic.now_ns());
    let tools: &[Tool] = if settings.peers { &Tool::ALL } else { &[] };
    let peers: Vec<(Tool, Peer)> =
        tools.iter().map(|tool| (*tool, Peer::start(*tool, cpu, pid, settings.seconds))).collect();
    let deadline_ns = Monotonic.now_ns() + settings.seconds * 1_000_000_000;
    while Monotonic.now_ns() < deadline_ns {
        Monotonic.sleep_until_ns(deadline_ns);
    }
    let pids: Vec<Option<u32>> = peers.iter().map(|(_, peer)| peer.pid()).collect();
    let said: Vec<(Tool, Maybe<f64>)> = peers.into_iter().map(|(tool, peer)| (tool, peer.finish())).collect();
    // Its own window lies a little inside of the probe's: so the truth is a share of that.
    let (truth_ns, truth_wall_ns) = (running.cpu_ns()? - truth_before_ns, Monotonic.now_ns() - truth_from_ns);
    let interval = probe.read();
    drop(running);
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let cost_of = |pid: Option<u32>| match pid {
        Some(pid) => time_of(&probe, pid).map(|ns| ns / wall_ns),
        None => Err(Missing::because("it did not run")),
    };
    let peers = said.into_iter().zip(pids).map(|((tool, said), pid)| (tool, said, cost_of(pid))).collect();
    let by_events = time_of(&probe, pid).map(|ns| ns / wall_ns);
    let cost = probe.cost().map(|c| c.ratio_of_one_cpu);
    Ok(Window { interval, truth: truth_ns as f64 / truth_wall_ns as f64, by_events, cost, peers })
}

/// What a process had of all CPUs in the window, by events.
fn time_of(probe: &CpuProbe, pid: u32) -> Maybe<f64> {
    Ok(probe.tasks()?.iter().filter(|t| t.pid == pid).map(|t| t.on_cpu_ns).sum::<u64>() as f64)
}

impl Hog {
    /// The CPU that tells of it where an instrument sees one CPU only.
    fn cpu(&self) -> u32 {
        match self {
            Self::Hide { cpu, .. } | Self::Antihide { cpu } => *cpu,
            Self::Spin { cpus } => cpus[0],
        }
    }
}

impl Window {
    fn sample(&self, hog: &Hog) -> Maybe<&CpuSample> {
        let found = self.interval.cpus.iter().find(|c| c.cpu == hog.cpu());
        found.ok_or_else(|| Missing::because("the CPU went offline"))
    }

    /// The truth of the hog's CPU: its own time and, by events, that of the others there.
    ///
    /// A hog on several CPUs fills each of them.
    fn truth_of_cpu(&self, hog: &Hog) -> Maybe<f64> {
        let event = self.sample(hog)?.event_ratio.clone()?;
        match hog {
            Hog::Spin { .. } => Ok(event),
            _ => Ok(self.truth + event - self.by_events.clone()?),
        }
    }
}

/// Our instruments, and what samplers would have said.
fn own_proofs(hog: &Hog, window: &Window) -> Vec<Proof> {
    let cpu_truth = window.truth_of_cpu(hog).or(Ok(window.truth));
    let proof = |instrument: &str, ours: bool, found: Maybe<f64>, limit: f64| Proof {
        instrument: instrument.to_owned(),
        ours,
        workload: hog.name(),
        truth: cpu_truth.clone(),
        found,
        limit,
        unit: "ratio",
        cost_ratio: Err(Missing::because("it is part of the instrument above")),
        remark: None,
    };
    let of = |value: fn(&CpuSample) -> &Maybe<f64>| window.sample(hog).and_then(|s| value(s).clone());
    let events = Proof {
        truth: Ok(window.truth),
        cost_ratio: window.cost.clone(),
        ..proof("events", true, window.by_events.clone(), EVENTS_LIMIT)
    };
    let not_idle = match hog {
        Hog::Antihide { .. } => Proof {
            remark: Some("idle time is counted in ticks while the tick is on: known to err here"),
            ..proof("/proc/stat, 1 - idle", true, of(|s| &s.not_idle_ratio), NOT_IDLE_ANTIHIDE_LIMIT)
        },
        _ => proof("/proc/stat, 1 - idle", true, of(|s| &s.not_idle_ratio), NOT_IDLE_LIMIT),
    };
    let mut proofs = vec![events, not_idle];
    if window.interval.rung == Rung::Bpf {
        proofs.extend([
            proof("sampled at 997 Hz", true, of(|s| &s.sampled_ratio), SAMPLED_LIMIT),
            proof("tick-before", false, of(|s| &s.tick_before_ratio), EVENTS_LIMIT),
            proof("tick-after", false, of(|s| &s.tick_after_ratio), EVENTS_LIMIT),
        ]);
    }
    proofs.push(proof("/proc/stat, busy", false, of(|s| &s.procstat_busy_ratio), EVENTS_LIMIT));
    proofs
}

/// What others' tools said. Each sees a CPU, a process or the whole machine, and is held against the truth of that.
fn peers_proofs(hog: &Hog, window: &Window, cpus: usize) -> Vec<Proof> {
    let machine = window.interval.mean(|s| s.event_ratio.clone());
    let truth = |tool: Tool| match tool {
        Tool::Mpstat => window.truth_of_cpu(hog).or(Ok(window.truth)),
        Tool::Vmstat => machine.clone().or(Ok(window.truth / cpus as f64)),
        Tool::Pidstat | Tool::Top => Ok(window.truth),
    };
    let proof = |(tool, found, cost): &(Tool, Maybe<f64>, Maybe<f64>)| Proof {
        instrument: tool.name().to_owned(),
        ours: false,
        workload: hog.name(),
        truth: truth(*tool),
        found: found.clone(),
        limit: EVENTS_LIMIT,
        unit: "ratio",
        cost_ratio: cost.clone(),
        remark: (*tool == Tool::Vmstat).then_some("of all CPUs together"),
    };
    window.peers.iter().map(proof).collect()
}

/// Half a point.
const EVENTS_LIMIT: f64 = 0.005;
/// Two points: ticks of 10 ms at both edges, and the noise between.
const NOT_IDLE_LIMIT: f64 = 0.02;
/// Six points; about four were seen.
const NOT_IDLE_ANTIHIDE_LIMIT: f64 = 0.06;
/// Three standard errors of the samples of two seconds or more, at most.
const SAMPLED_LIMIT: f64 = 0.034;

/// A hog at work in a process of its own; ends when this is dropped.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Open until it has said its last words.
    stdout: BufReader<ChildStdout>,
    workload: String,
}

impl Running {
    fn start(hog: &Hog, mut command: Command) -> Result<Self, ProveError> {
        let workload = hog.name();
        let system = |source: io::Error| ProveError::System { workload: workload.clone(), source };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(system)?;
        let stdin = child.stdin.take();
        let mut line = String::new();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut running = Self { child, stdin, stdout, workload: workload.clone() };
        running.stdout.read_line(&mut line).map_err(system)?;
        if line.trim() == "ready" { Ok(running) } else { Err(ProveError::Hog { workload, found: line }) }
    }

    fn cpu_ns(&self) -> Result<u64, ProveError> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let time = clock_getcpuclockid(pid).and_then(clock_gettime);
        let time = time.map_err(|e| ProveError::System {
            workload: self.workload.clone(),
            source: io::Error::from(e),
        })?;
        let span = Duration::from(time);
        Ok(u64::try_from(span.as_nanos()).expect("less than 584 years"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends when its input does; should it hang, it is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
