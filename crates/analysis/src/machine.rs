//! CPU use while a load was measured.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use record::cpu::{CpuInterval, CpuSample, RECORDS_LOST, Rung, SATURATED_RATIO};
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};

/// Minimum share of the measured phase with samples for its CPU time to be reported.
const WATCHED_RATIO_MIN: f64 = 0.95;

/// Maximum share of the CPUs' time that may be on the wrong side, because switches were lost or not shown:
/// the accuracy of the event-based figures.
const UNSURE_RATIO_MAX: f64 = 0.005;

/// CPU use over the measured phase of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Source of the samples.
    pub rung: Maybe<Rung>,
    /// Busy share of all CPUs.
    pub busy_ratio: Maybe<f64>,
    /// Busy CPU seconds over the whole measured phase, all CPUs together.
    pub busy_cpu_s: Maybe<f64>,
    /// Share of the time that `/proc/stat` did not account for.
    pub unaccounted_ratio: Maybe<f64>,
    /// Share of the CPUs' time that the hypervisor gave to other machines, by `/proc/stat`.
    pub stolen_ratio: Maybe<f64>,
    /// CPUs that were busy for at least 99 % of the measured phase.
    pub saturated_cpus: Maybe<Vec<u32>>,
}

impl Machine {
    /// All values missing for one reason.
    pub fn missing(why: Missing) -> Self {
        Self {
            rung: Err(why.clone()),
            busy_ratio: Err(why.clone()),
            busy_cpu_s: Err(why.clone()),
            unaccounted_ratio: Err(why.clone()),
            stolen_ratio: Err(why.clone()),
            saturated_cpus: Err(why),
        }
    }
}

/// Averages the intervals, weighted by their overlap with the measured phase of `load`; each is read once and
/// not stored.
///
/// Missing if samples cover less than 95 % of the phase, if switches that were lost or not shown leave more
/// than 0.5 % of the time unsure, or if any interval lacks a value.
pub fn machine(load: &LoadRecord, intervals: impl IntoIterator<Item: Borrow<CpuInterval>>) -> Machine {
    let from = load.measured_from_ns;
    let until = from + u64::try_from(load.measured.as_nanos()).unwrap_or(u64::MAX - from);
    machine_between(from, until, intervals)
}

/// Averages the intervals, weighted by their overlap with `from_ns` to `until_ns`, under the rules of
/// [`machine`].
pub fn machine_between(
    from_ns: u64,
    until_ns: u64,
    intervals: impl IntoIterator<Item: Borrow<CpuInterval>>,
) -> Machine {
    let mut window = Window::default();
    for interval in intervals {
        window.add(from_ns, until_ns, interval.borrow());
    }
    let measured_s = until_ns.saturating_sub(from_ns) as f64 * 1e-9;
    let rung = match window.rung(measured_s) {
        Ok(rung) => rung,
        Err(missing) => return Machine::missing(missing),
    };
    let busy = window.busy.by_cpu();
    let mean = |by_cpu: &BTreeMap<u32, f64>| by_cpu.values().sum::<f64>() / by_cpu.len() as f64;
    Machine {
        rung: Ok(rung),
        busy_ratio: busy.as_ref().map(mean).map_err(Clone::clone),
        busy_cpu_s: busy.as_ref().map(|b| b.values().sum::<f64>() * measured_s).map_err(Clone::clone),
        unaccounted_ratio: window.unaccounted.by_cpu().map(|u| mean(&u)),
        stolen_ratio: window.stolen.by_cpu().map(|s| mean(&s)),
        saturated_cpus: busy
            .map(|b| b.into_iter().filter(|(_, r)| *r >= SATURATED_RATIO).map(|(cpu, _)| cpu).collect()),
    }
}

/// Sums over the intervals that overlap the measured phase.
#[derive(Default)]
struct Window {
    /// Source of the first interval, and whether all intervals have the same.
    rung: Option<(Rung, bool)>,
    watched_s: f64,
    unsure_s: f64,
    /// Whether records of switches were lost, as opposed to switches that the kernel never showed.
    has_lost: bool,
    busy: Ratios,
    unaccounted: Ratios,
    stolen: Ratios,
}

impl Window {
    fn add(&mut self, from_ns: u64, until_ns: u64, interval: &CpuInterval) {
        let overlap_ns = interval.until_ns.min(until_ns).saturating_sub(interval.from_ns.max(from_ns));
        if overlap_ns == 0 {
            return;
        }
        let overlap_s = overlap_ns as f64 * 1e-9;
        let (first, is_one) = self.rung.unwrap_or((interval.rung, true));
        self.rung = Some((first, is_one && interval.rung == first));
        self.watched_s += overlap_s;
        self.unsure_s += overlap_s * interval.unsure_ratio();
        self.has_lost |= interval.lost.get(RECORDS_LOST).is_some_and(|n| *n > 0);
        self.busy.add(overlap_s, interval, CpuSample::busy_ratio);
        self.unaccounted.add(overlap_s, interval, |sample| sample.unaccounted_ratio.clone());
        self.stolen.add(overlap_s, interval, |sample| sample.stolen_ratio.clone());
    }

    /// Source of the samples, if they cover enough of the phase.
    fn rung(&self, measured_s: f64) -> Maybe<Rung> {
        let Some((rung, is_one)) = self.rung else {
            return Err(Missing::because("the CPUs were not watched"));
        };
        if self.watched_s < WATCHED_RATIO_MIN * measured_s {
            let share = 100.0 * self.watched_s / measured_s;
            return Err(Missing::because(format!(
                "the CPUs were watched for {share:.0} % of the measured phase"
            )));
        }
        if !is_one {
            return Err(Missing::because("the source of CPU data (rung) changed during the phase"));
        }
        if self.unsure_s > UNSURE_RATIO_MAX * self.watched_s {
            let share = 100.0 * self.unsure_s / self.watched_s;
            let why = if self.has_lost {
                "records of context switches were lost"
            } else {
                "the kernel did not show every context switch"
            };
            return Err(Missing::because(format!("{why}: {share:.1} % of the CPUs' time is uncertain")));
        }
        Ok(rung)
    }
}

/// One ratio of each CPU, weighted by time.
#[derive(Default)]
struct Ratios {
    sums: BTreeMap<u32, (f64, f64)>,
    /// Reason of the first missing value.
    missing: Option<Missing>,
}

impl Ratios {
    fn add(&mut self, overlap_s: f64, interval: &CpuInterval, of: impl Fn(&CpuSample) -> Maybe<f64>) {
        for sample in &interval.cpus {
            let (weighted, seconds) = self.sums.entry(sample.cpu).or_default();
            match of(sample) {
                Ok(ratio) => *weighted += ratio * overlap_s,
                Err(missing) => _ = self.missing.get_or_insert(missing),
            }
            *seconds += overlap_s;
        }
    }

    /// Mean over the window, by CPU.
    fn by_cpu(&self) -> Maybe<BTreeMap<u32, f64>> {
        if let Some(missing) = &self.missing {
            return Err(missing.clone());
        }
        if self.sums.is_empty() {
            return Err(Missing::because("no CPU was measured"));
        }
        Ok(self.sums.iter().map(|(cpu, (weighted, seconds))| (*cpu, weighted / seconds)).collect())
    }
}
