//! The CPU instruments against hogs.
//!
//! The truth of a hog is its `CLOCK_PROCESS_CPUTIME_ID`, which the scheduler maintains, read before and after
//! each edge of the window. If the prover waits for a CPU in between, it knows the truth less well; it
//! reports this uncertainty and does not count it as an error. That clock leaves out the time that a
//! hypervisor stole, which events cannot tell from running. It starts at the wake-up, before the work has the
//! CPU, and counts interrupts, which events do not. So the work also reports for how long it saw itself run,
//! and events are right if they lie between the two. Other work on the hog's CPU has no independent truth;
//! for an instrument that sees the whole CPU, its share by events is added to the truth. If that share is
//! large, the work is no longer the one to measure.

use std::collections::BTreeSet;
use std::path::Path;

use record::clock::{Clock, Monotonic};
use record::cpu::{CpuInterval, CpuSample, Rung};
use record::missing::{Maybe, Missing};
use record::proof::{AGAIN, Proof, Unit};

use super::{Bench, Subject};
use crate::cpu_list;
use crate::cpu_time::{self, CpuProbe, Options};
use crate::hog;
use crate::peers::{Peer, Tool};
use crate::topology::Cores;

pub(super) const SUBJECT: Subject = Subject {
    name: "cpu",
    about: "hide from the tick (10 to 90 %), run only around it, spin on 1 to 4 CPUs",
    prove,
};

/// A workload with a known truth.
#[derive(Debug, Clone, PartialEq)]
enum Hog {
    /// [`crate::hog::hide`].
    Hide { cpu: u32, ratio: f64 },
    /// [`crate::hog::antihide`].
    Antihide { cpu: u32 },
    /// [`crate::hog::spin`], one thread on each CPU.
    Spin { cpus: Vec<u32> },
}

fn prove(bench: &mut Bench<'_>) {
    // Only CPUs that a hog may use: a container or an affinity may exclude others.
    let mut usable = hog::usable();
    usable.retain(|cpu| cpu_list::online(Path::new("/")).is_none_or(|online| online.contains(cpu)));
    let usable: Vec<u32> = usable.into_iter().collect();
    let cpu = bench.settings.cpu.or(usable.last().copied()).unwrap_or(0);
    let hogs = Hog::all(cpu, &usable);
    bench.check_loading(SUBJECT.name, super::PROGRAMS_SINCE, super::cpu_programs());
    for (number, hog) in (1..).zip(&hogs) {
        if !bench.begin(&hog.name(), number, hogs.len()) {
            return;
        }
        match watch(bench, hog) {
            Ok(Some(window)) => {
                for proof in own_proofs(hog, &window).into_iter().chain(peers_proofs(hog, &window)) {
                    bench.tell(proof);
                }
            }
            Ok(None) => return,
            Err(why) => bench.tell(Proof {
                found: Err(why.clone()),
                truth: Err(why),
                ..proof(hog, "events", true, EVENTS_LIMIT)
            }),
        }
    }
}

/// Measurements of one hog, over one window.
struct Window {
    interval: CpuInterval,
    /// The hog's CPU time over the window's length, by its clock; more than 1 on several CPUs.
    truth: f64,
    /// Uncertainty of the truth, in either direction.
    unsure: f64,
    /// Lower bound: the time for which the hog saw itself run.
    seen: f64,
    /// The same by events.
    by_events: Maybe<f64>,
    /// Cost of our own programs.
    cost: Maybe<f64>,
    /// Each tool's result, and its own use of one CPU.
    peers: Vec<(Tool, Maybe<f64>, Maybe<f64>)>,
}

/// `None` if the user wants to stop.
fn watch(bench: &Bench<'_>, hog: &Hog) -> Maybe<Option<Window>> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_ticks().with_tasks(Cores::default()));
    let mut running = bench.start(&hog.words())?;
    let (cpu, pid, seconds) = (hog.cpu(), running.pid(), bench.settings.seconds);
    let before_start_ns = running.cpu_ns()?;
    probe.start();
    let (after_start_ns, seen_start_ns) = (running.cpu_ns()?, running.seen_ns()?);
    let tools: &[Tool] = if bench.settings.peers { &Tool::ALL } else { &[] };
    let peers: Vec<(Tool, Peer)> =
        tools.iter().map(|tool| (*tool, Peer::start(*tool, cpu, pid, seconds))).collect();
    if !bench.wait_until(Monotonic.now_ns() + seconds * 1_000_000_000) {
        return Ok(None);
    }
    let pids: Vec<Option<u32>> = peers.iter().map(|(_, peer)| peer.pid()).collect();
    let said: Vec<(Tool, Maybe<f64>)> = peers.into_iter().map(|(tool, peer)| (tool, peer.finish())).collect();
    let (seen_end_ns, before_end_ns) = (running.seen_ns()?, running.cpu_ns()?);
    let interval = probe.read();
    let after_end_ns = running.cpu_ns()?;
    drop(running);
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let least_ns = before_end_ns.saturating_sub(after_start_ns) as f64;
    let most_ns = after_end_ns.saturating_sub(before_start_ns) as f64;
    let (truth, unsure) = (least_ns.midpoint(most_ns) / wall_ns, (most_ns - least_ns) / 2.0 / wall_ns);
    let seen = seen_end_ns.saturating_sub(seen_start_ns) as f64 / wall_ns;
    let cost_of = |pid: Option<u32>| match pid {
        Some(pid) => time_of(&probe, pid).map(|ns| ns / wall_ns),
        None => Err(Missing::because("it did not run")),
    };
    let peers = said.into_iter().zip(pids).map(|((tool, said), pid)| (tool, said, cost_of(pid))).collect();
    let by_events = time_of(&probe, pid).map(|ns| ns / wall_ns);
    let cost = probe.cost().map(|c| c.ratio_of_one_cpu());
    Ok(Some(Window { interval, truth, unsure, seen, by_events, cost, peers }))
}

/// Time of a process on all CPUs in the window, by events.
fn time_of(probe: &CpuProbe, pid: u32) -> Maybe<f64> {
    Ok(probe.tasks()?.iter().filter(|t| t.pid == pid).map(|t| t.on_cpu_ns).sum::<u64>() as f64)
}

impl Hog {
    /// Workloads for a machine with these CPUs.
    fn all(cpu: u32, usable: &[u32]) -> Vec<Self> {
        let hidden = [0.1, 0.3, 0.5, 0.7, 0.9].map(|ratio| Self::Hide { cpu, ratio });
        // Spread over the CPUs, several on each if there are fewer.
        let spin = (1..=4).map(|n| Self::Spin { cpus: usable.iter().copied().cycle().take(n).collect() });
        hidden.into_iter().chain([Self::Antihide { cpu }]).chain(spin).collect()
    }

    /// Name in a table.
    fn name(&self) -> String {
        match self {
            Self::Hide { ratio, .. } => format!("hide {:.0} %", ratio * 100.0),
            Self::Antihide { .. } => "antihide".to_owned(),
            Self::Spin { cpus } => format!("spin {}", cpus.len()),
        }
    }

    /// Arguments of the command `hog` for this workload.
    fn words(&self) -> Vec<String> {
        let words = match self {
            Self::Hide { cpu, ratio } => format!("hide --cpu {cpu} --share {:.0}%", ratio * 100.0),
            Self::Antihide { cpu } => format!("antihide --cpu {cpu}"),
            Self::Spin { cpus } => {
                let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
                format!("spin --threads {} --cpus {}", cpus.len(), cpus.join(","))
            }
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// The CPUs that it works on.
    fn cpus(&self) -> BTreeSet<u32> {
        match self {
            Self::Hide { cpu, .. } | Self::Antihide { cpu } => [*cpu].into(),
            Self::Spin { cpus } => cpus.iter().copied().collect(),
        }
    }

    /// The CPU to compare if an instrument sees only one CPU.
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

    /// The truth of the hog alone, if it is known well enough to judge events.
    fn own_truth(&self, hog: &Hog) -> Maybe<f64> {
        let within = |points: f64, why: &str| {
            Err(Missing::because(format!(
                "{why}, so the truth is only known within {:.2} points: {AGAIN}",
                points * 100.0
            )))
        };
        let stolen = self.stolen(hog);
        if self.unsure > EVENTS_LIMIT / 2.0 {
            return within(self.unsure, "the prover itself waited for a CPU");
        }
        if stolen > EVENTS_LIMIT {
            return within(stolen, "the hypervisor took the CPU from the work");
        }
        if self.truth - self.seen > SEEN_MAX {
            return within(self.truth - self.seen, "the work was interrupted too much");
        }
        // The possible truth that is nearest to the result.
        let found = self.by_events.clone().unwrap_or(self.truth);
        Ok(found.clamp(self.seen.min(self.truth), self.truth))
    }

    /// Range of the possible truth, if it is wider than one value.
    fn range(&self) -> Option<String> {
        let (least, most) = (self.seen * 100.0, self.truth * 100.0);
        (most - least > 0.1).then(|| {
            format!("in truth {least:.2} to {most:.2} %: the work's clock starts at its wake-up and counts interrupts")
        })
    }

    /// CPU time that the hypervisor took from the CPUs of the hog.
    fn stolen(&self, hog: &Hog) -> f64 {
        let cpus = hog.cpus();
        let of_hog = self.interval.cpus.iter().filter(|c| cpus.contains(&c.cpu));
        of_hog.filter_map(|c| c.stolen_ratio.as_ref().ok()).sum()
    }

    /// The truth of the hog's CPU: the hog's time and, by events, that of other threads there.
    ///
    /// A hog on several CPUs fills each of them.
    fn truth_of_cpu(&self, hog: &Hog) -> Maybe<f64> {
        let event = self.sample(hog)?.event_ratio.clone()?;
        if matches!(hog, Hog::Spin { .. }) {
            return Ok(event);
        }
        let others = event - self.by_events.clone()?;
        if others > OTHERS_MAX {
            let percent = others * 100.0;
            return Err(Missing::because(format!("other work used {percent:.0} % of the CPU: {AGAIN}")));
        }
        Ok(self.truth + others)
    }
}

/// An empty proof for this hog.
fn proof(hog: &Hog, instrument: &str, ours: bool, limit: f64) -> Proof {
    let unknown = || Err(Missing::because("nobody looked"));
    Proof {
        subject: SUBJECT.name.to_owned(),
        instrument: instrument.to_owned(),
        ours,
        workload: hog.name(),
        truth: unknown(),
        found: unknown(),
        limit,
        unit: Unit::Ratio,
        cost_ratio: Err(Missing::because("it is part of the instrument above")),
        remark: None,
    }
}

/// Proofs of our instruments, and of samplers.
fn own_proofs(hog: &Hog, window: &Window) -> Vec<Proof> {
    let cpu_truth = if window.by_events.is_ok() { window.truth_of_cpu(hog) } else { Ok(window.truth) };
    let proof = |instrument: &str, ours: bool, found: Maybe<f64>, limit: f64| Proof {
        truth: cpu_truth.clone(),
        found,
        ..proof(hog, instrument, ours, limit)
    };
    let of = |value: fn(&CpuSample) -> &Maybe<f64>| window.sample(hog).and_then(|s| value(s).clone());
    let events = Proof {
        truth: window.own_truth(hog),
        cost_ratio: window.cost.clone(),
        remark: crowded(hog, window.truth).or_else(|| window.range()),
        ..proof("events", true, window.by_events.clone(), EVENTS_LIMIT)
    };
    let not_idle = match hog {
        Hog::Antihide { .. } => Proof {
            remark: Some("idle time is counted in ticks while the tick is on: known to err here".into()),
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

/// Proofs of other tools. Each sees a CPU, a process or the whole machine, and is compared with the truth of
/// that.
fn peers_proofs(hog: &Hog, window: &Window) -> Vec<Proof> {
    let machine = window.interval.mean(|s| s.event_ratio.clone());
    let cpus = window.interval.cpus.len().max(1) as f64;
    let truth = |tool: Tool| match tool {
        Tool::Mpstat if window.by_events.is_ok() => window.truth_of_cpu(hog),
        Tool::Vmstat => machine.clone().or(Ok(window.truth / cpus)),
        Tool::Mpstat | Tool::Pidstat | Tool::Top => Ok(window.truth),
    };
    let proof = |(tool, found, cost): &(Tool, Maybe<f64>, Maybe<f64>)| Proof {
        truth: truth(*tool),
        found: found.clone(),
        cost_ratio: cost.clone(),
        remark: (*tool == Tool::Vmstat).then(|| "of all CPUs together".into()),
        ..proof(hog, tool.name(), false, EVENTS_LIMIT)
    };
    window.peers.iter().map(proof).collect()
}

/// Note for a hog that did not get its CPU time: ticks then hit the thread that had the CPU instead.
fn crowded(hog: &Hog, truth: f64) -> Option<String> {
    let wanted = match hog {
        Hog::Hide { ratio, .. } => *ratio,
        Hog::Antihide { .. } => ANTIHIDE_RATIO,
        Hog::Spin { .. } => hog.cpus().len() as f64,
    };
    let percent = |ratio: f64| ratio * 100.0;
    (truth < 0.8 * wanted).then(|| {
        format!(
            "other work competed for the CPU, it got {:.0} of {:.0} %: only a quiet machine shows what ticks \
             miss",
            percent(truth),
            percent(wanted)
        )
    })
}

/// A twentieth of the period before the tick and one after; less in reality, since waking takes time.
const ANTIHIDE_RATIO: f64 = 0.1;
/// Three points between the time that the work saw and its clock; beyond, the truth is not known well enough.
const SEEN_MAX: f64 = 0.03;
/// Half a point.
const EVENTS_LIMIT: f64 = 0.005;
/// Two points: ticks of 10 ms at both edges, and the noise between.
const NOT_IDLE_LIMIT: f64 = 0.02;
/// Five points of the hog's CPU: beyond, other threads dominate the result.
const OTHERS_MAX: f64 = 0.05;
/// Six points; about four were measured.
const NOT_IDLE_ANTIHIDE_LIMIT: f64 = 0.06;
/// Three standard errors of the samples of two seconds or more, at most.
const SAMPLED_LIMIT: f64 = 0.034;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const HOG: Hog = Hog::Hide { cpu: 1, ratio: 0.7 };

    /// A window in which the hog had 70 % of CPU 1, by its clock and by events.
    fn window(unsure: f64, stolen: f64, event: f64) -> Window {
        let none = || Err(Missing::because("nobody looked"));
        let sample = CpuSample {
            event_ratio: Ok(event),
            sampled_ratio: Ok(0.9),
            not_idle_ratio: Ok(0.71),
            stolen_ratio: Ok(stolen),
            balance_ns: Ok(0),
            switches: Ok(1),
            ..CpuSample::without_values(1, "nobody looked")
        };
        let interval = CpuInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            rung: Rung::Bpf,
            missed_deadline: false,
            cpus: vec![sample],
            psi_some_ratio: none(),
            lost: BTreeMap::new(),
        };
        let (by_events, cost) = (Ok(0.7), Err(Missing::because("nobody looked")));
        Window { interval, truth: 0.7, unsure, seen: 0.7, by_events, cost, peers: Vec::new() }
    }

    /// Instrument and verdict of each proof of ours, and whether it must be repeated.
    fn verdicts(window: &Window) -> Vec<(String, &'static str, bool)> {
        let ours = own_proofs(&HOG, window).into_iter().filter(|p| p.ours);
        ours.map(|p| (p.instrument.clone(), p.verdict().word(), p.is_for_another_time())).collect()
    }

    #[test]
    fn on_a_quiet_machine_errors_are_errors() {
        let found = verdicts(&window(0.001, 0.0, 0.71));
        let words: Vec<_> = found.iter().map(|(_, verdict, again)| (*verdict, *again)).collect();
        assert_eq!(words, [("pass", false), ("pass", false), ("fail", false)], "{found:?}");
    }

    #[test]
    fn a_truth_that_is_not_known_well_enough_is_held_against_nobody() {
        for (window, again) in [
            (window(0.004, 0.0, 0.71), "events"),
            (window(0.001, 0.01, 0.71), "events"),
            (window(0.001, 0.0, 0.95), "sampled at 997 Hz"),
        ] {
            let found = verdicts(&window);
            let of = found.iter().find(|(instrument, ..)| instrument == again).unwrap();
            assert_eq!((of.1, of.2), ("cannot", true), "{found:?}");
        }
    }
}
