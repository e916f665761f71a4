//! Time in interrupts, against a thread that measures the rest.
//!
//! Packets are steered to a CPU on which a thread spins. That thread wants the CPU all the time: time in
//! which it neither ran, by its own readings of the clock, nor waited, by the scheduler's account
//! (`/proc/PID/task/TID/schedstat`), went to interrupts. So the truth comes from no instrument that is proved
//! here. It excludes interrupts that come while other threads have that CPU: the proof covers the time taken
//! from the spinning thread. Packets are work in softirqs; function calls ([`calls`]) are work in the
//! handlers of interrupts. On an idle CPU, the kernel's own accounts are the truth ([`alone`]).

mod alone;
mod calls;
mod terms;

use std::fs;
use std::path::Path;

use record::clock::{Clock, Monotonic};
use record::cpu::CpuInterval;
use record::missing::{Maybe, Missing};
use record::proof::{AGAIN, Proof};

use self::alone::Seen;
use self::calls::Calls;
use self::terms::{LIMIT, NAME, OTHERS_MAX, proof};
use super::{Bench, Subject, Workload};
use crate::cpu_time::{self, Options};
use crate::hog::{self, packets};
use crate::topology::Cores;

pub(super) const SUBJECT: Subject = Subject {
    name: NAME,
    about: "packets and function calls on a CPU on which a thread spins, and packets on an idle CPU",
    prove,
};

/// Source of the interrupts of the spinning thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupts {
    /// Almost nothing: shows what the thread loses to the timer and the hypervisor.
    Few,
    /// Softirqs: packets per second, and how many arrive under one interrupt.
    Packets(u64, u16),
    /// Interrupts with long handlers: [`calls`].
    Calls,
}

const WORKLOADS: [Interrupts; 4] = [
    Interrupts::Calls,
    Interrupts::Packets(50_000, 50),
    Interrupts::Packets(100_000, 50),
    Interrupts::Packets(200_000, 50),
];
/// Share of the truth, so that an instrument that misses most of a small truth fails. Entering and leaving a
/// handler takes up to 10 us in a virtual machine, which no event shows: a fifth to a quarter of the calls.
const LIMIT_OF_TRUTH: f64 = 0.3;
/// Two points. The truth excludes what the thread loses without packets and no event shows; beyond, too
/// little of it would be left to judge by.
const UNSEEN_MAX: f64 = 0.02;
fn prove(bench: &mut Bench<'_>) {
    let usable = hog::usable();
    let cpu = bench.settings.cpu.or(usable.last().copied()).unwrap_or(0);
    let of = 1 + WORKLOADS.len() + 2;
    bench.check_loading(SUBJECT.name, super::PROGRAMS_SINCE, super::cpu_programs());
    let mut unseen = Err(Missing::because("not measured"));
    for (number, what) in (1..).zip([Interrupts::Few].into_iter().chain(WORKLOADS)) {
        if !bench.begin(&what.name(), number, of) {
            return;
        }
        let seen = match watch(bench, cpu, what) {
            Ok(Some(seen)) => Ok(seen),
            Ok(None) => return,
            Err(why) => Err(why),
        };
        if what == Interrupts::Few {
            unseen = unseen_ratio(seen);
            continue;
        }
        for proof in proofs(what, seen.as_ref(), &unseen) {
            bench.tell(proof);
        }
    }
    on_an_idle_cpu(bench, cpu, WORKLOADS.len() + 2, of);
}

/// - `first`: number of the first window, of `of`.
fn on_an_idle_cpu(bench: &mut Bench<'_>, cpu: u32, first: usize, of: usize) {
    type Proofs = fn(&str, Result<&Seen, &Missing>) -> Vec<Proof>;
    let windows: [(&str, (u64, u16), Proofs); 2] = [
        ("100000 packets/s, idle CPU", alone::SOME, alone::of_an_idle_cpu),
        ("as many packets as possible, idle CPU", alone::ALL, alone::of_a_full_cpu),
    ];
    for (number, (name, packets, proofs)) in (first..).zip(windows) {
        if !bench.begin(name, number, of) {
            return;
        }
        let seen = match watch_alone(bench, cpu, packets) {
            Ok(Some(seen)) => Ok(seen),
            Ok(None) => return,
            Err(why) => Err(why),
        };
        for proof in proofs(name, seen.as_ref()) {
            bench.tell(proof);
        }
    }
}

/// `None` if the user wants to stop.
fn watch_alone(bench: &Bench<'_>, cpu: u32, (rate, together): (u64, u16)) -> Maybe<Option<Seen>> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_ticks().with_tasks(Cores::default()));
    let running = bench.start(&packet_words(cpu, rate, together, false))?;
    // The first packets come a moment after the workload is ready.
    if !bench.wait_until(Monotonic.now_ns() + 300_000_000) {
        return Ok(None);
    }
    probe.start();
    let threads_s = alone::threads_s(cpu)?;
    if !bench.wait_until(Monotonic.now_ns() + bench.settings.seconds * 1_000_000_000) {
        return Ok(None);
    }
    let threads_s = alone::threads_s(cpu)? - threads_s;
    let interval = probe.read();
    drop(running);
    let sample = interval.cpus.iter().find(|sample| sample.cpu == cpu).cloned();
    let sample = sample.ok_or_else(|| Missing::because("the CPU went offline"))?;
    let seconds = interval.seconds();
    let cost = probe.cost().map(|c| c.ratio_of_one_cpu());
    Ok(Some(Seen { sample, seconds, threads: threads_s / seconds, cost }))
}

/// Time of the spinning thread that no event shows and that is lost without packets, too: the way to the
/// timer's handler and back, and a hypervisor.
fn unseen_ratio(few: Maybe<CpuShares>) -> Maybe<f64> {
    let few = few?;
    few.is_judged(LIMIT)?;
    // An instrument that sees more than there is gets no allowance for it.
    let ratio = (few.truth - few.taken).max(0.0);
    if ratio > UNSEEN_MAX {
        let points = ratio * 100.0;
        return Err(Missing::because(format!(
            "without packets the thread lost {points:.1} points that no event shows: {AGAIN}"
        )));
    }
    Ok(ratio)
}

/// Largest error for this truth.
fn limit_of(truth: f64) -> f64 {
    LIMIT.min(LIMIT_OF_TRUTH * truth.max(0.0))
}

/// Shares of one CPU's time.
#[derive(Debug)]
struct CpuShares {
    /// Time that interrupts took from the spinning thread, by events.
    taken: f64,
    /// Time in handlers of interrupts, whatever they interrupted.
    irq: f64,
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
    fn is_judged(&self, limit: f64) -> Maybe<()> {
        if self.unsure > limit / 2.0 {
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
fn watch(bench: &Bench<'_>, cpu: u32, what: Interrupts) -> Maybe<Option<CpuShares>> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_tasks(Cores::default()));
    let (rate, together) = what.packets();
    let mut running = bench.start(&packet_words(cpu, rate, together, true))?;
    let _calls = if what == Interrupts::Calls { Some(Calls::start(cpu)?) } else { None };
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
    Ok(Some(CpuShares {
        taken,
        irq: sample.irq_ratio.clone()?,
        thread,
        truth_of_thread: seen_ns as f64 / wall_ns,
        truth: least.midpoint(most),
        unsure: (most - least) / 2.0,
        others: sample.event_ratio.clone()? - sample.interrupts_ratio()? - thread,
        stolen: sample.stolen_ratio.clone().unwrap_or(0.0),
        cost: probe.cost().map(|c| c.ratio_of_one_cpu()),
    }))
}

fn proofs(what: Interrupts, seen: Result<&CpuShares, &Missing>, unseen: &Maybe<f64>) -> Vec<Proof> {
    let workload = &what.name();
    let both = seen.map_err(Clone::clone).and_then(|seen| Ok((seen, unseen.clone()?)));
    let lost = both.clone().map(|(seen, unseen)| seen.truth - unseen);
    let limit = lost.clone().map_or(LIMIT, limit_of);
    let known = |truth: fn(&CpuShares, f64) -> f64| {
        let (seen, unseen) = both.clone()?;
        seen.is_judged(limit).map(|()| truth(seen, unseen))
    };
    let found = |of: fn(&CpuShares) -> f64| seen.map(of).map_err(Clone::clone);
    let remark = both.clone().ok().map(|(seen, unseen)| {
        let way = (what == Interrupts::Calls).then(|| {
            let way_us = ((seen.truth - unseen - seen.taken) / calls::PER_S as f64 * 1e6).max(0.0);
            format!("; entering and leaving a handler takes {way_us:.1} us")
        });
        format!(
            "the truth excludes {:.2} % that is lost without packets, too{}",
            unseen * 100.0,
            way.unwrap_or_default()
        )
    });
    let taken = Proof {
        truth: known(|seen, unseen| seen.truth - unseen),
        found: found(|seen| seen.taken),
        limit,
        cost_ratio: seen.map_err(Clone::clone).and_then(|seen| seen.cost.clone()),
        remark,
        ..proof(workload, "taken by interrupts")
    };
    let thread = Proof {
        truth: known(|seen, unseen| seen.truth_of_thread + unseen),
        found: found(|seen| seen.thread),
        limit,
        ..proof(workload, "the interrupted thread")
    };
    let irq = Proof { found: found(|seen| seen.irq), remark: None, ..taken.clone() };
    let irq = (what == Interrupts::Calls).then(|| Proof {
        instrument: "irq %".to_owned(),
        cost_ratio: proof(workload, "").cost_ratio,
        ..irq
    });
    [taken].into_iter().chain(irq).chain([thread]).collect()
}

impl Interrupts {
    fn name(self) -> String {
        match self {
            Self::Few => "hardly any interrupts".to_owned(),
            Self::Packets(per_s, together) => format!("{per_s} packets/s, {together} an interrupt"),
            Self::Calls => format!("{} function calls/s", calls::PER_S),
        }
    }

    /// Packets per second beside the spinning thread, and how many arrive under one interrupt.
    fn packets(self) -> (u64, u16) {
        match self {
            Self::Packets(per_s, together) => (per_s, together),
            Self::Few | Self::Calls => (1, 1),
        }
    }
}

fn packet_words(cpu: u32, rate: u64, together: u16, spin: bool) -> Vec<String> {
    let words = format!("packets --cpu {cpu} --rate {rate} --together {together}");
    words.split(' ').chain(spin.then_some("--spin")).map(str::to_owned).collect()
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

    const SOME: Interrupts = Interrupts::Packets(100_000, 50);

    #[test]
    fn beside_others_and_under_a_hypervisor_that_takes_the_cpu_nothing_is_judged() {
        let quiet = || CpuShares { taken: 0.01, thread: 0.5, truth_of_thread: 0.45, truth: 0.06, ..shares() };
        let verdicts = |seen: &CpuShares| verdicts(SOME, seen, &Ok(0.0));
        assert_eq!(verdicts(&quiet()), [ProofVerdict::Fail; 2]);
        assert_eq!(verdicts(&CpuShares { others: 0.45, ..quiet() }), [ProofVerdict::Cannot; 2]);
        assert_eq!(verdicts(&CpuShares { stolen: 0.02, ..quiet() }), [ProofVerdict::Cannot; 2]);
        assert_eq!(verdicts(&CpuShares { unsure: 0.006, ..quiet() }), [ProofVerdict::Cannot; 2]);
        let unknown = unseen_ratio(Ok(CpuShares { stolen: 0.02, ..quiet() }));
        assert_eq!(super::proofs(SOME, Ok(&quiet()), &unknown)[0].verdict(), ProofVerdict::Cannot);
    }

    // An instrument that misses the timer's interrupts too would excuse itself by what it misses.
    #[test]
    fn what_is_lost_without_packets_is_allowed_for_up_to_two_points() {
        let few = |truth, taken| unseen_ratio(Ok(CpuShares { taken, truth, ..shares() }));
        assert!((few(0.012, 0.002).unwrap() - 0.01).abs() < 1e-9);
        assert!(few(0.03, 0.002).unwrap_err().reason.ends_with(AGAIN));
        assert_eq!(few(0.01, 0.05), Ok(0.0));
    }

    // 1 % is lost without packets, and 1 us a packet is work.
    #[test]
    fn what_is_lost_without_packets_is_left_out_and_lost_work_is_not() {
        let window = |what: Interrupts, of_the_work_seen: f64| {
            let work = what.packets().0 as f64 * 1e-6;
            let (truth, taken) = (0.01 + work, work * of_the_work_seen);
            CpuShares { taken, thread: 1.0 - taken, truth_of_thread: 1.0 - truth, truth, ..shares() }
        };
        let of_packets = |of_the_work_seen| {
            let unseen = unseen_ratio(Ok(window(Interrupts::Few, of_the_work_seen)));
            WORKLOADS[1..]
                .iter()
                .map(|what| verdicts(*what, &window(*what, of_the_work_seen), &unseen))
                .collect::<Vec<_>>()
        };
        assert_eq!(of_packets(1.0), [[ProofVerdict::Pass; 2]; 3]);
        assert_eq!(of_packets(0.75), [[ProofVerdict::Fail; 2]; 3]);
        assert_eq!(of_packets(0.85)[1..], [[ProofVerdict::Fail; 2]; 2]);
        assert_eq!(of_packets(0.0), [[ProofVerdict::Fail; 2]; 3]);
    }

    // Handlers of 80 us, 500 times a second, and 10 us for the way there and back.
    #[test]
    fn handlers_that_are_not_timed_fail() {
        let seen = |irq, taken| CpuShares {
            truth: 0.055,
            irq,
            taken,
            thread: 0.95,
            truth_of_thread: 0.945,
            ..shares()
        };
        let verdicts = |irq, taken| verdicts(Interrupts::Calls, &seen(irq, taken), &Ok(0.01));
        assert_eq!(verdicts(0.04, 0.041), [ProofVerdict::Pass; 3]);
        assert_eq!(verdicts(0.01, 0.041), [ProofVerdict::Pass, ProofVerdict::Fail, ProofVerdict::Pass]);
        assert_eq!(verdicts(0.01, 0.01)[..2], [ProofVerdict::Fail; 2]);
    }

    fn verdicts(what: Interrupts, seen: &CpuShares, unseen: &Maybe<f64>) -> Vec<ProofVerdict> {
        super::proofs(what, Ok(seen), unseen).iter().map(Proof::verdict).collect()
    }

    fn shares() -> CpuShares {
        CpuShares {
            taken: 0.0,
            irq: 0.0,
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
