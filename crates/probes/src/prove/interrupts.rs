//! Time in interrupts, against a thread that measures the rest.
//!
//! Packets are steered to a CPU on which a thread spins. That thread wants the CPU all the time: time in
//! which it neither ran, by its own readings of the clock, nor waited, by the scheduler's account
//! (`/proc/PID/task/TID/schedstat`), went to interrupts. So the truth comes from no instrument that is proved
//! here. It excludes interrupts that come while other threads have that CPU: the proof covers the time taken
//! from the spinning thread.

use std::fs;
use std::path::Path;

use record::clock::{Clock, Monotonic};
use record::cpu::CpuInterval;
use record::missing::{Maybe, Missing};
use record::proof::{AGAIN, Proof, Unit};

use super::{Bench, Subject, Workload};
use crate::cpu_time::{self, Options};
use crate::hog::{self, packets};
use crate::topology::Cores;

pub(super) const SUBJECT: Subject = Subject {
    name: "interrupts",
    about: "packets steered to a CPU on which a thread spins, by their rate",
    prove,
};

/// Packets per second, and how many arrive under one interrupt.
///
/// The thread also loses the time to the handler and back, which no event shows: up to some microseconds an
/// interrupt under a hypervisor. The last row has one interrupt a packet, and so shows that overhead on this
/// machine.
const WORKLOADS: [(u64, u16); 4] = [(10_000, 50), (50_000, 50), (100_000, 50), (2_000, 1)];
/// One and a half points.
const LIMIT: f64 = 0.015;
/// Five points: the thread does not see how long it takes to leave the CPU and to come back.
const OTHERS_MAX: f64 = 0.05;

fn prove(bench: &mut Bench<'_>) {
    let usable = hog::usable();
    let cpu = bench.settings.cpu.or(usable.last().copied()).unwrap_or(0);
    for (number, (rate, together)) in (1..).zip(WORKLOADS) {
        let name = name(rate, together);
        if !bench.begin(&name, number, WORKLOADS.len()) {
            return;
        }
        let proofs = match watch(bench, cpu, rate, together) {
            Ok(Some(seen)) => proofs((rate, together), &seen),
            Ok(None) => return,
            Err(why) => {
                vec![Proof {
                    truth: Err(why.clone()),
                    found: Err(why),
                    ..proof(&name, "taken by interrupts")
                }]
            }
        };
        for proof in proofs {
            bench.tell(proof);
        }
    }
}

/// Shares of one CPU's time.
#[derive(Debug)]
struct CpuShares {
    /// Time that interrupts took from the spinning thread, by events.
    taken: f64,
    /// Time of the spinning thread, by events.
    thread: f64,
    /// Time of the spinning thread, by its readings of the clock.
    truth_of_thread: f64,
    /// Time in which it neither ran nor waited.
    truth: f64,
    /// Uncertainty of the truth, in either direction.
    unsure: f64,
    /// Time of other threads on that CPU.
    others: f64,
    /// Time that the hypervisor took from it.
    stolen: f64,
    cost: Maybe<f64>,
}

/// `None` if the user wants to stop.
fn watch(bench: &Bench<'_>, cpu: u32, rate: u64, together: u16) -> Maybe<Option<CpuShares>> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_tasks(Cores::default()));
    let words = format!("packets --spin --cpu {cpu} --rate {rate} --together {together}");
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let mut running = bench.start(&words)?;
    // Starts when the workload reports that it is ready.
    let give_up_ns = Monotonic.now_ns() + 10_000_000_000;
    let tid = loop {
        match tid_of(running.pid(), packets::SPINNER) {
            Some(tid) => break tid,
            None if Monotonic.now_ns() > give_up_ns => {
                return Err(Missing::because("the workload has no thread that spins"));
            }
            None => std::thread::yield_now(),
        }
    };
    let outer_delay_ns = delay_ns(&running, tid)?;
    probe.start();
    let (inner_ns, seen_ns, delay) = (Monotonic.now_ns(), running.seen_ns()?, delay_ns(&running, tid)?);
    if !bench.wait_until(Monotonic.now_ns() + bench.settings.seconds * 1_000_000_000) {
        return Ok(None);
    }
    let (delay, seen_ns) = (delay_ns(&running, tid)? - delay, running.seen_ns()? - seen_ns);
    let inner_ns = Monotonic.now_ns() - inner_ns;
    let interval: CpuInterval = probe.read();
    let outer_delay_ns = delay_ns(&running, tid)? - outer_delay_ns;
    drop(running);
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let most = 1.0 - (seen_ns + delay) as f64 / wall_ns;
    let least = (inner_ns as f64 - (seen_ns + outer_delay_ns) as f64) / wall_ns;
    let of_thread = |ns: u64| ns as f64 / wall_ns;
    // If interrupts are not timed, 0 would be a wrong answer.
    interval.mean(|cpu| cpu.irq_ratio.clone())?;
    let task = probe.tasks()?.iter().find(|t| t.tid == tid);
    let task = task.ok_or_else(|| Missing::because("the thread is not listed"))?;
    let (taken, thread) = (of_thread(task.interrupted_ns), of_thread(task.on_cpu_ns));
    let sample = interval.cpus.iter().find(|sample| sample.cpu == cpu);
    let sample = sample.ok_or_else(|| Missing::because("the CPU went offline"))?;
    let interrupts = sample.irq_ratio.clone()? + sample.softirq_ratio.clone()?;
    Ok(Some(CpuShares {
        taken,
        thread,
        truth_of_thread: seen_ns as f64 / wall_ns,
        truth: least.midpoint(most),
        unsure: (most - least) / 2.0,
        others: sample.event_ratio.clone()? - interrupts - thread,
        stolen: sample.stolen_ratio.clone().unwrap_or(0.0),
        cost: probe.cost().map(|c| c.ratio_of_one_cpu()),
    }))
}

fn proofs((per_s, together): (u64, u16), seen: &CpuShares) -> Vec<Proof> {
    let workload = &name(per_s, together);
    let known = |truth: f64| {
        if seen.unsure > LIMIT / 2.0 {
            let points = seen.unsure * 100.0;
            return Err(Missing::because(format!(
                "the prover itself waited for a CPU, so the truth is only known within {points:.2} points: {AGAIN}"
            )));
        }
        // The thread loses that time too, and neither waits nor is interrupted.
        if seen.stolen > LIMIT / 2.0 {
            let percent = seen.stolen * 100.0;
            return Err(Missing::because(format!("the hypervisor took {percent:.1} % of the CPU: {AGAIN}")));
        }
        if seen.others > OTHERS_MAX {
            let percent = seen.others * 100.0;
            return Err(Missing::because(format!("others had {percent:.0} % of the CPU: {AGAIN}")));
        }
        Ok(truth)
    };
    let way_us = (seen.truth - seen.taken) * 1e6 / per_s as f64;
    let of_interrupts = Proof {
        truth: known(seen.truth),
        found: Ok(seen.taken),
        cost_ratio: seen.cost.clone(),
        remark: (together == 1 && known(seen.truth).is_ok()).then(|| {
            format!("the way to a handler and back takes {way_us:.1} us here, and every tracer counts it as the thread's")
        }),
        ..proof(workload, "taken by interrupts")
    };
    let of_thread = Proof {
        truth: known(seen.truth_of_thread),
        found: Ok(seen.thread),
        ..proof(workload, "the interrupted thread")
    };
    vec![of_interrupts, of_thread]
}

fn name(per_s: u64, together: u16) -> String {
    format!("{per_s} packets/s, {together} an interrupt")
}

fn proof(workload: &str, instrument: &str) -> Proof {
    let none = || Err(Missing::because("not measured"));
    Proof {
        subject: SUBJECT.name.to_owned(),
        instrument: instrument.to_owned(),
        ours: true,
        workload: workload.to_owned(),
        truth: none(),
        found: none(),
        limit: LIMIT,
        unit: Unit::Ratio,
        cost_ratio: Err(Missing::because("it is part of the instrument above")),
        remark: None,
    }
}

/// Id of the thread with that name.
fn tid_of(pid: u32, name: &str) -> Option<u32> {
    let is_it = |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut paths = tasks.filter_map(|task| Some(task.ok()?.path())).filter(|path| is_it(path));
    paths.find_map(|path| path.file_name()?.to_str()?.parse().ok())
}

/// Time for which a thread of the workload waited for a CPU so far.
fn delay_ns(running: &Workload, tid: u32) -> Maybe<u64> {
    let text = fs::read_to_string(format!("/proc/{}/task/{tid}/schedstat", running.pid()));
    let words = text.as_deref().unwrap_or_default().split_ascii_whitespace().nth(1);
    let ns = words.and_then(|word| word.parse().ok());
    ns.ok_or_else(|| Missing::because("the kernel does not say for how long a thread waited (schedstat)"))
}

#[cfg(test)]
mod tests {
    use record::proof::ProofVerdict;

    use super::*;

    #[test]
    fn beside_others_and_under_a_hypervisor_that_takes_the_cpu_nothing_is_judged() {
        let quiet = || CpuShares {
            taken: 0.01,
            thread: 0.5,
            truth_of_thread: 0.45,
            truth: 0.06,
            unsure: 0.0,
            others: 0.01,
            stolen: 0.0,
            cost: Ok(0.0),
        };
        let verdicts =
            |seen: &CpuShares| proofs((10_000, 50), seen).iter().map(Proof::verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&quiet()), [ProofVerdict::Fail; 2]);
        assert_eq!(verdicts(&CpuShares { others: 0.45, ..quiet() }), [ProofVerdict::Cannot; 2]);
        assert_eq!(verdicts(&CpuShares { stolen: 0.02, ..quiet() }), [ProofVerdict::Cannot; 2]);
    }

    #[test]
    fn the_threads_of_a_workload_are_told_apart_by_their_names() {
        let own = std::process::id();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let body = move || {
                tell.send(nix::unistd::gettid().as_raw().cast_unsigned()).unwrap();
                let _ = ended.recv();
            };
            std::thread::Builder::new().name("told-apart".into()).spawn_scoped(scope, body).unwrap();
            let tid = told.recv().unwrap();
            assert_eq!(tid_of(own, "told-apart"), Some(tid));
            assert_eq!(tid_of(own, "no such thread"), None);
            drop(end);
        });
    }
}
