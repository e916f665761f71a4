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
const WORKLOADS: [(u64, u16); 3] = [(10_000, 50), (50_000, 50), (100_000, 50)];
/// Almost no packets: shows what the thread loses to the timer and the hypervisor.
const IDLE: (u64, u16) = (1, 1);
/// Many interrupts with little work each: shows the way to a handler and back.
const SINGLE: (u64, u16) = (2_000, 1);
/// One point.
const LIMIT: f64 = 0.01;
/// Five points: the thread does not see how long it takes to leave the CPU and to come back.
const OTHERS_MAX: f64 = 0.05;

fn prove(bench: &mut Bench<'_>) {
    let usable = hog::usable();
    let cpu = bench.settings.cpu.or(usable.last().copied()).unwrap_or(0);
    let mut windows = Vec::new();
    for (number, (rate, together)) in (1..).zip([IDLE, SINGLE].into_iter().chain(WORKLOADS)) {
        if !bench.begin(&name(rate, together), number, WORKLOADS.len() + 2) {
            return;
        }
        match watch(bench, cpu, rate, together) {
            Ok(Some(seen)) => windows.push(Ok(seen)),
            Ok(None) => return,
            Err(why) => windows.push(Err(why)),
        }
    }
    let mut windows = windows.into_iter();
    let (Some(idle), Some(single)) = (windows.next(), windows.next()) else { return };
    let unseen = Unseen::of(idle, single);
    for (workload, seen) in WORKLOADS.into_iter().zip(windows) {
        for proof in proofs(workload, seen.as_ref(), unseen.as_ref()) {
            bench.tell(proof);
        }
    }
}

/// Time of the spinning thread that no event shows, and that every tracer counts as the thread's.
#[derive(Debug)]
struct Unseen {
    /// Share of the time, without packets: the way to the timer's handler and back, and a hypervisor.
    idle_ratio: f64,
    /// The way to a handler and back for a single packet: up to ten microseconds and more under a hypervisor.
    /// The truth keeps it: with 50 packets to an interrupt it did not show (24 November 2026).
    way_s: f64,
}

impl Unseen {
    /// The difference between truth and events without packets, and with almost nothing but interrupts.
    fn of(idle: Maybe<CpuShares>, single: Maybe<CpuShares>) -> Maybe<Self> {
        let (idle, single) = (idle?, single?);
        let missed = |seen: &CpuShares| seen.is_judged().map(|()| seen.truth - seen.taken);
        let idle_ratio = missed(&idle)?;
        Ok(Self { idle_ratio, way_s: ((missed(&single)? - idle_ratio) / SINGLE.0 as f64).max(0.0) })
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

impl CpuShares {
    /// `Ok` if the window was quiet enough to compare truth and events.
    fn is_judged(&self) -> Maybe<()> {
        if self.unsure > LIMIT / 2.0 {
            let points = self.unsure * 100.0;
            return Err(Missing::because(format!(
                "the prover itself waited for a CPU, so the truth is only known within {points:.2} points: {AGAIN}"
            )));
        }
        // The thread loses that time too, and neither waits nor is interrupted.
        if self.stolen > LIMIT / 2.0 {
            let percent = self.stolen * 100.0;
            return Err(Missing::because(format!("the hypervisor took {percent:.1} % of the CPU: {AGAIN}")));
        }
        if self.others > OTHERS_MAX {
            let percent = self.others * 100.0;
            return Err(Missing::because(format!("other work used {percent:.0} % of the CPU: {AGAIN}")));
        }
        Ok(())
    }
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

fn proofs(
    (per_s, together): (u64, u16),
    seen: Result<&CpuShares, &Missing>,
    unseen: Result<&Unseen, &Missing>,
) -> [Proof; 2] {
    let workload = &name(per_s, together);
    let both = seen.and_then(|seen| Ok((seen, unseen?))).map_err(Clone::clone);
    let lost = both.clone().map(|(_, unseen)| unseen.idle_ratio);
    let known = |truth: fn(&CpuShares, f64) -> f64| {
        let ((seen, _), lost) = (both.clone()?, lost.clone()?);
        seen.is_judged().map(|()| truth(seen, lost))
    };
    let remark = both.clone().ok().map(|(_, unseen)| {
        let (idle, way_us) = (unseen.idle_ratio * 100.0, unseen.way_s * 1e6);
        format!(
            "the truth excludes {idle:.2} % that no event shows and that is spent without packets, too; \
             entering and leaving a handler takes {way_us:.1} us for a single packet"
        )
    });
    let of_interrupts = Proof {
        truth: known(|seen, lost| seen.truth - lost),
        found: seen.map(|seen| seen.taken).map_err(Clone::clone),
        cost_ratio: seen.map_err(Clone::clone).and_then(|seen| seen.cost.clone()),
        remark,
        ..proof(workload, "taken by interrupts")
    };
    let of_thread = Proof {
        truth: known(|seen, lost| seen.truth_of_thread + lost),
        found: seen.map(|seen| seen.thread).map_err(Clone::clone),
        ..proof(workload, "the interrupted thread")
    };
    [of_interrupts, of_thread]
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
    ns.ok_or_else(|| Missing::because("the kernel does not report how long a thread waited (schedstat)"))
}

#[cfg(test)]
mod tests {
    use record::proof::ProofVerdict;

    use super::*;

    #[test]
    fn beside_others_and_under_a_hypervisor_that_takes_the_cpu_nothing_is_judged() {
        let quiet = || CpuShares { taken: 0.01, thread: 0.5, truth_of_thread: 0.45, truth: 0.06, ..shares() };
        let verdicts = |seen: &CpuShares| {
            let unseen = Unseen { idle_ratio: 0.0, way_s: 0.0 };
            proofs((10_000, 50), Ok(seen), Ok(&unseen)).map(|proof| proof.verdict())
        };
        assert_eq!(verdicts(&quiet()), [ProofVerdict::Fail; 2]);
        assert_eq!(verdicts(&CpuShares { others: 0.45, ..quiet() }), [ProofVerdict::Cannot; 2]);
        assert_eq!(verdicts(&CpuShares { stolen: 0.02, ..quiet() }), [ProofVerdict::Cannot; 2]);
        let unknown = Unseen::of(Ok(CpuShares { stolen: 0.02, ..quiet() }), Ok(quiet()));
        let proofs = proofs((10_000, 50), Ok(&quiet()), unknown.as_ref());
        assert_eq!(proofs.map(|proof| proof.verdict()), [ProofVerdict::Cannot; 2]);
    }

    // 1 % is lost without packets, and 1 us a packet is work.
    #[test]
    fn what_is_lost_without_packets_is_left_out_and_lost_work_is_not() {
        let window = |(per_s, _): (u64, u16), of_the_work_seen: f64| {
            let truth = 0.01 + per_s as f64 * 1e-6;
            let taken = per_s as f64 * 1e-6 * of_the_work_seen;
            CpuShares { taken, thread: 1.0 - taken, truth_of_thread: 1.0 - truth, truth, ..shares() }
        };
        let verdicts = |of_the_work_seen| {
            let unseen = Unseen::of(Ok(window(IDLE, of_the_work_seen)), Ok(window(SINGLE, of_the_work_seen)));
            let verdict = |workload| {
                let seen = window(workload, of_the_work_seen);
                proofs(workload, Ok(&seen), unseen.as_ref()).map(|proof| proof.verdict())
            };
            WORKLOADS.map(verdict)
        };
        assert_eq!(verdicts(1.0), [[ProofVerdict::Pass; 2]; 3]);
        assert_eq!(verdicts(0.85)[2], [ProofVerdict::Fail; 2]);
        assert_eq!(verdicts(0.5)[1..], [[ProofVerdict::Fail; 2]; 2]);
    }

    fn shares() -> CpuShares {
        CpuShares {
            taken: 0.0,
            thread: 1.0,
            truth_of_thread: 1.0,
            truth: 0.0,
            unsure: 0.0,
            others: 0.01,
            stolen: 0.0,
            cost: Ok(0.0),
        }
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
