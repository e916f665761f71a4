//! What the CPUs did while a load was measured.

use std::collections::BTreeMap;

use record::cpu::{CpuInterval, CpuSample, Rung, SATURATED_RATIO};
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};

/// Share of the measured phase that must have been watched for its CPU time to be told.
const WATCHED_RATIO_MIN: f64 = 0.95;

/// Share of the CPUs' time that lost events may leave on the wrong side of the books: the accuracy that the event
/// figure is trusted to.
const UNSURE_RATIO_MAX: f64 = 0.005;

/// The CPUs over the measured phase of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// How they were watched.
    pub rung: Maybe<Rung>,
    /// Busy share of all CPUs.
    pub busy_ratio: Maybe<f64>,
    /// Busy CPU seconds over the whole measured phase, all CPUs together.
    pub busy_cpu_s: Maybe<f64>,
    /// Share of the time that `/proc/stat` did not book.
    pub unaccounted_ratio: Maybe<f64>,
    /// CPUs that were busy for 99 % of the measured phase or more.
    pub saturated_cpus: Maybe<Vec<u32>>,
}

/// Weighs the intervals by their share in the measured phase of `load`.
///
/// Missing where less than 95 % of the phase was watched, where lost events leave more than 0.5 % of the time
/// unsure, or where a value is missing in any
/// interval: half a look is not the whole.
pub fn machine(load: &LoadRecord, intervals: &[CpuInterval]) -> Machine {
    let from = load.measured_from_ns;
    let until = from + u64::try_from(load.measured.as_nanos()).unwrap_or(u64::MAX - from);
    machine_between(from, until, intervals)
}

/// Weighs the intervals by their share in the time from `from_ns` to `until_ns`; otherwise as [`machine`].
pub fn machine_between(from_ns: u64, until_ns: u64, intervals: &[CpuInterval]) -> Machine {
    let measured_s = until_ns.saturating_sub(from_ns) as f64 * 1e-9;
    let window = match Window::of(from_ns, until_ns, intervals) {
        Ok(window) => window,
        Err(missing) => {
            return Machine {
                rung: Err(missing.clone()),
                busy_ratio: Err(missing.clone()),
                busy_cpu_s: Err(missing.clone()),
                unaccounted_ratio: Err(missing.clone()),
                saturated_cpus: Err(missing),
            };
        }
    };
    let busy = window.ratio_by_cpu(CpuSample::busy_ratio);
    let mean = |by_cpu: &BTreeMap<u32, f64>| by_cpu.values().sum::<f64>() / by_cpu.len() as f64;
    Machine {
        rung: Ok(window.rung),
        busy_ratio: busy.as_ref().map(mean).map_err(Clone::clone),
        busy_cpu_s: busy.as_ref().map(|b| b.values().sum::<f64>() * measured_s).map_err(Clone::clone),
        unaccounted_ratio: window.ratio_by_cpu(|s| s.unaccounted_ratio.clone()).map(|u| mean(&u)),
        saturated_cpus: busy
            .map(|b| b.into_iter().filter(|(_, r)| *r >= SATURATED_RATIO).map(|(cpu, _)| cpu).collect()),
    }
}

/// The intervals that overlap the measured phase, with the seconds of overlap.
struct Window<'a> {
    parts: Vec<(f64, &'a CpuInterval)>,
    rung: Rung,
}

impl<'a> Window<'a> {
    fn of(from: u64, until: u64, intervals: &'a [CpuInterval]) -> Maybe<Self> {
        let measured_s = until.saturating_sub(from) as f64 * 1e-9;
        let parts: Vec<(f64, &CpuInterval)> = intervals
            .iter()
            .map(|i| (i.until_ns.min(until).saturating_sub(i.from_ns.max(from)) as f64 * 1e-9, i))
            .filter(|(overlap_s, _)| *overlap_s > 0.0)
            .collect();
        let watched_s: f64 = parts.iter().map(|(s, _)| s).sum();
        let Some((_, first)) = parts.first() else {
            return Err(Missing::because("the CPUs were not watched"));
        };
        if watched_s < WATCHED_RATIO_MIN * measured_s {
            let share = 100.0 * watched_s / measured_s;
            return Err(Missing::because(format!(
                "the CPUs were watched for {share:.0} % of the measured phase"
            )));
        }
        if parts.iter().any(|(_, i)| i.rung != first.rung) {
            return Err(Missing::because("the CPUs were watched in two different ways"));
        }
        let unsure_s: f64 = parts.iter().map(|(s, i)| s * i.unsure_ratio()).sum();
        if unsure_s > UNSURE_RATIO_MAX * watched_s {
            let share = 100.0 * unsure_s / watched_s;
            return Err(Missing::because(format!(
                "the CPU probe lost events: {share:.1} % of the time is unsure"
            )));
        }
        Ok(Self { rung: first.rung, parts })
    }

    /// Mean over the window, by CPU.
    fn ratio_by_cpu(&self, of: impl Fn(&CpuSample) -> Maybe<f64>) -> Maybe<BTreeMap<u32, f64>> {
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (overlap_s, interval) in &self.parts {
            for sample in &interval.cpus {
                let (weighted, seconds) = sums.entry(sample.cpu).or_default();
                *weighted += of(sample)? * overlap_s;
                *seconds += overlap_s;
            }
        }
        if sums.is_empty() {
            return Err(Missing::because("no CPU was seen"));
        }
        Ok(sums.into_iter().map(|(cpu, (weighted, seconds))| (cpu, weighted / seconds)).collect())
    }
}
