//! Waiting for a CPU, against the scheduler's account.
//!
//! Four threads spin on one CPU, so three of them wait at any time. The scheduler reports in
//! `/proc/PID/task/TID/schedstat` how long each has waited, and counts a wait when it ends: pending waits at
//! an edge are part of the truth's uncertainty.

use std::fs;

use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};
use record::proof::{AGAIN, Proof, Unit};

use super::{Bench, Subject, Workload};
use crate::cpu_time::{self, Options};
use crate::hog;
use crate::topology::Cores;

pub(super) const SUBJECT: Subject =
    Subject { name: "run-queue", about: "threads that share one CPU, by how long they wait for it", prove };

const SPINNERS: u32 = 4;
/// Share of the truth.
const LIMIT: f64 = 0.02;

fn prove(bench: &mut Bench<'_>) {
    let usable = hog::usable();
    let cpu = bench.settings.cpu.or(usable.last().copied()).unwrap_or(0);
    let name = format!("{SPINNERS} threads on one CPU");
    bench.check_loading(SUBJECT.name, super::PROGRAMS_SINCE, super::cpu_programs());
    if !bench.begin(&name, 1, 1) {
        return;
    }
    let seen = match watch(bench, cpu) {
        Ok(Some(seen)) => Ok(seen),
        Ok(None) => return,
        Err(why) => Err(why),
    };
    let truth = seen.clone().and_then(|seen| seen.known());
    let cost_ratio = seen.clone().and_then(|seen| seen.cost);
    bench.tell(Proof {
        subject: SUBJECT.name.to_owned(),
        instrument: "waits for a CPU".to_owned(),
        ours: true,
        workload: name,
        limit: truth.as_ref().map_or(0.0, |truth| LIMIT * truth),
        truth,
        found: seen.map(|seen| seen.found_ns),
        unit: Unit::Ns,
        cost_ratio,
        remark: None,
    });
}

#[derive(Debug, Clone)]
struct Reading {
    /// Result of our instrument.
    found_ns: f64,
    /// Result of the scheduler, within the interval and around it.
    inner_ns: u64,
    outer_ns: u64,
    cost: Maybe<f64>,
}

impl Reading {
    /// The truth, if it is known well enough to judge by.
    fn known(&self) -> Maybe<f64> {
        let (inner, outer) = (self.inner_ns as f64, self.outer_ns as f64);
        let (truth, unsure) = (inner.midpoint(outer), (outer - inner).abs() / 2.0);
        if unsure > LIMIT / 2.0 * truth {
            let percent = unsure / truth.max(1.0) * 100.0;
            return Err(Missing::because(format!(
                "the prover itself waited for a CPU, so the truth is only known within {percent:.1} %: {AGAIN}"
            )));
        }
        Ok(truth)
    }
}

/// `None` if the user wants to stop.
fn watch(bench: &Bench<'_>, cpu: u32) -> Maybe<Option<Reading>> {
    let mut probe = cpu_time::open(&Options::of_this_machine().with_tasks(Cores::default()));
    let words = format!("spin --threads {SPINNERS} --cpus {cpu}");
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let running = bench.start(&words)?;
    let outer_ns = waited_ns(&running)?;
    probe.start();
    let inner_ns = waited_ns(&running)?;
    if !bench.wait_until(Monotonic.now_ns() + bench.settings.seconds * 1_000_000_000) {
        return Ok(None);
    }
    let inner_ns = waited_ns(&running)?.saturating_sub(inner_ns);
    probe.read();
    let outer_ns = waited_ns(&running)?.saturating_sub(outer_ns);
    let pid = running.pid();
    drop(running);
    let of_pid = probe.tasks()?.iter().filter(|task| task.pid == pid);
    let found_ns = of_pid.map(|task| task.wait_ns.clone()).sum::<Maybe<u64>>()? as f64;
    let cost = probe.cost().map(|cost| cost.ratio_of_one_cpu());
    Ok(Some(Reading { found_ns, inner_ns, outer_ns, cost }))
}

/// Time for which all threads of the workload have waited for a CPU so far.
fn waited_ns(running: &Workload) -> Maybe<u64> {
    let not_told = || Missing::because("the kernel does not report how long a thread waited (schedstat)");
    let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).map_err(|_| not_told())?;
    let one = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.flatten().map(|task| one(task.path()).ok_or_else(not_told)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truth_that_is_known_too_badly_is_none() {
        let seen = |inner_ns, outer_ns| {
            let cost = Err(Missing::because("not measured"));
            Reading { found_ns: 1.0, inner_ns, outer_ns, cost }.known()
        };
        assert_eq!(seen(990, 1_010), Ok(1_000.0));
        assert!(seen(900, 1_100).unwrap_err().reason.contains("10.0 %"));
    }
}
