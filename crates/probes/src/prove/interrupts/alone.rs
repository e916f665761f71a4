//! Packets that a CPU receives while nothing else runs there, against the kernel's own accounts: idle time in
//! `/proc/stat`, and the time of threads there, by ticks.

use std::path::Path;

use record::cpu::CpuSample;
use record::missing::{Maybe, Missing};
use record::proof::{AGAIN, Proof, Unit};

use super::terms::{LIMIT, OTHERS_MAX, proof};
use crate::proc_stat;
use crate::ticks::SAMPLE_PERIOD_NS;

/// Packets per second on an idle CPU, and how many arrive under one interrupt.
pub(super) const SOME: (u64, u16) = (100_000, 50);
/// The highest rate that the sender reaches.
pub(super) const ALL: (u64, u16) = (0, 50);

/// `/proc/stat` counts in steps of 10 ms.
const TICK_S: f64 = 0.01;
/// At both edges.
const STEPS_S: f64 = 2.0 * TICK_S;
/// Transition between idle and a handler: the kernel's idle time ends before the first event and begins after
/// the last one. On a virtual machine with a busy host.
const IDLE_EXIT_S: f64 = 3e-6;
/// Interrupts of the timer: 997 samples, and ticks.
const TIMER_PER_S: f64 = 1_300.0;
/// Below it, by the kernel's account, the packets did not fill the CPU.
const FILLED: f64 = 0.98;

/// Values of the CPU over one window.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) sample: CpuSample,
    pub(super) seconds: f64,
    /// Time of threads on that CPU, by ticks.
    pub(super) threads: f64,
    pub(super) cost: Maybe<f64>,
}

/// Time of threads on that CPU since boot, by the kernel's ticks, in seconds.
pub(super) fn threads_s(cpu: u32) -> Maybe<f64> {
    let stat = proc_stat::read(Path::new("/"));
    let ticks = stat.map_err(|e| Missing::because(format!("/proc/stat cannot be read: {e}")))?;
    let ticks = ticks.get(&cpu).ok_or_else(|| Missing::because("/proc/stat does not list the CPU"))?;
    Ok((ticks.user + ticks.nice + ticks.system) as f64 * TICK_S)
}

impl Seen {
    /// Busy time by the kernel's account, if the window was quiet enough to compare.
    fn not_idle(&self, others_max: f64) -> Maybe<f64> {
        let percent = |ratio: f64| ratio * 100.0;
        let stolen = self.sample.stolen_ratio.clone().unwrap_or(0.0);
        if stolen > LIMIT / 2.0 {
            let why = format!("the hypervisor took {:.1} % of the CPU: {AGAIN}", percent(stolen));
            return Err(Missing::because(why));
        }
        if self.threads > others_max {
            let why = format!("other work used {:.0} % of the CPU: {AGAIN}", percent(self.threads));
            return Err(Missing::because(why));
        }
        self.sample.not_idle_ratio.clone()
    }
}

pub(super) fn of_an_idle_cpu(name: &str, seen: Result<&Seen, &Missing>) -> Vec<Proof> {
    let truth = seen.map_err(Clone::clone).and_then(|seen| seen.not_idle(OTHERS_MAX));
    let threads = seen.map_or(0.0, |seen| seen.threads);
    let seconds = seen.map_or(1.0, |seen| seen.seconds);
    let per_s = (SOME.0 / u64::from(SOME.1)) as f64 + TIMER_PER_S;
    let limit = LIMIT + STEPS_S / seconds + per_s * IDLE_EXIT_S;
    let found =
        |of: fn(&CpuSample) -> Maybe<f64>| seen.map_err(Clone::clone).and_then(|seen| of(&seen.sample));
    // Three standard errors.
    let samples = seconds * 1e9 / SAMPLE_PERIOD_NS as f64;
    let spread = truth.clone().map_or(0.0, |p| 3.0 * (p * (1.0 - p) / samples).max(0.0).sqrt());
    let remark = format!(
        "the truth is 1 - idle of /proc/stat; {:.1} points of the limit are its own error",
        (limit - LIMIT) * 100.0
    );
    vec![
        Proof {
            truth: truth.clone(),
            found: found(|s| s.event_ratio.clone()),
            limit,
            cost_ratio: seen.map_err(Clone::clone).and_then(|seen| seen.cost.clone()),
            remark: Some(remark),
            ..proof(name, "event %")
        },
        Proof {
            truth: truth.clone().map(|not_idle| not_idle - threads),
            // By far the most of it is softirqs.
            found: found(|s| s.softirq_ratio.clone()),
            limit,
            ..proof(name, "softirq %")
        },
        Proof {
            truth,
            found: found(|s| s.sampled_ratio.clone()),
            limit: limit + spread,
            ..proof(name, "sampled %")
        },
    ]
}

pub(super) fn of_a_full_cpu(name: &str, seen: Result<&Seen, &Missing>) -> Vec<Proof> {
    // Too many softirqs run in a kernel thread.
    let filled = seen.map_err(Clone::clone).and_then(|seen| seen.not_idle(1.0)).and_then(|not_idle| {
        let percent = not_idle * 100.0;
        let why = || Missing::because(format!("the packets filled the CPU to {percent:.1} % only: {AGAIN}"));
        if not_idle >= FILLED { Ok(1.0) } else { Err(why()) }
    });
    let named = |seen: &Seen| {
        let top = seen.sample.top.as_ref().map_or(0.0, |top| top.ratio);
        let is_full = seen.sample.full(seen.seconds)?;
        Ok(f64::from(u8::from(is_full && seen.sample.softirq_ratio.clone()? > top)))
    };
    let seen_or_why = || seen.map_err(Clone::clone);
    vec![
        Proof {
            truth: filled.clone(),
            found: seen_or_why().and_then(|seen| seen.sample.event_ratio.clone()),
            cost_ratio: seen_or_why().and_then(|seen| seen.cost.clone()),
            ..proof(name, "event %")
        },
        Proof {
            truth: filled,
            found: seen_or_why().and_then(named),
            limit: 0.0,
            unit: Unit::Count,
            ..proof(name, "full, by softirqs")
        },
    ]
}

#[cfg(test)]
mod tests {
    use record::proof::ProofVerdict::{self, Cannot, Fail, Pass};

    use super::*;

    fn seen(not_idle: f64, event: f64, softirq: f64, sampled: f64) -> Seen {
        let sample = CpuSample {
            event_ratio: Ok(event),
            irq_ratio: Ok(0.002),
            softirq_ratio: Ok(softirq),
            sampled_ratio: Ok(sampled),
            not_idle_ratio: Ok(not_idle),
            stolen_ratio: Ok(0.0),
            run_queue_wait_ns: Ok(0),
            ..CpuSample::without_values(1, "nobody looked")
        };
        Seen { sample, seconds: 3.0, threads: 0.005, cost: Ok(0.0) }
    }

    fn verdicts(proofs: &[Proof]) -> Vec<ProofVerdict> {
        proofs.iter().map(Proof::verdict).collect()
    }

    #[test]
    fn softirqs_that_are_booked_as_idle_time_fail() {
        let of = |seen: &Seen| verdicts(&of_an_idle_cpu("x", Ok(seen)));
        assert_eq!(of(&seen(0.12, 0.115, 0.108, 0.13)), [Pass; 3]);
        // As it was before interrupts were timed.
        assert_eq!(of(&seen(0.233, 0.061, 0.0, 0.05)), [Fail; 3]);
        // Twice and half.
        assert_eq!(of(&seen(0.12, 0.24, 0.23, 0.24)), [Fail; 3]);
        assert_eq!(of(&seen(0.12, 0.06, 0.06, 0.04)), [Fail; 3]);
        assert_eq!(of(&Seen { threads: 0.1, ..seen(0.12, 0.06, 0.06, 0.06) }), [Cannot; 3]);
    }

    #[test]
    fn a_cpu_that_softirqs_fill_is_full_by_them_or_the_proof_fails() {
        let of = |seen: &Seen| verdicts(&of_a_full_cpu("x", Ok(seen)));
        assert_eq!(of(&seen(1.0, 0.999, 0.98, 1.0)), [Pass; 2]);
        assert_eq!(of(&seen(1.0, 0.95, 0.93, 1.0)), [Fail; 2]);
        // Busy, but no event names the cause.
        assert_eq!(of(&seen(1.0, 0.999, 0.0, 1.0)), [Pass, Fail]);
        // The sender was too slow.
        assert_eq!(of(&seen(0.9, 0.9, 0.88, 0.9)), [Cannot; 2]);
    }
}
