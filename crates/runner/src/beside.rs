//! The CPUs beside a load, and other instruments with them: the books are opened and closed where the load begins and ends its measured phase, so
//! that both tell of the same time.

use std::collections::BTreeSet;

use probes::cpu_time::{self, CpuProbe};
use probes::observe::{Instrument, Kind, Reading};
use record::clock::WallAnchor;
use record::cpu::{CpuInterval, CpuSample, Rung};
use record::instruments::Instruments;
use record::limits::Throttled;
use record::load::Phase;
use record::missing::{Maybe, Missing};
use record::series::Sample;

use crate::quotas::Quotas;

/// What the load has room for between two intervals of its own is no interval.
const SHORTEST_NS: u64 = 1_000_000;

/// Watches the CPUs over the measured phases of one load after the other.
#[derive(Debug)]
pub struct Beside {
    probe: Option<CpuProbe>,
    others: Vec<Box<dyn Instrument>>,
    measuring: bool,
    intervals: Vec<CpuInterval>,
    /// What the others said, and when.
    readings: Vec<(u64, Reading)>,
    quotas: Quotas,
}

impl Beside {
    /// Opens the probe now and once, so that its opening costs no load anything.
    pub fn new(observe: bool) -> Self {
        let probe = observe.then(|| cpu_time::open(&cpu_time::Options::of_this_machine()));
        Self {
            probe,
            others: Vec::new(),
            measuring: false,
            intervals: Vec::new(),
            readings: Vec::new(),
            quotas: Quotas::new(),
        }
    }

    /// Reads these instruments too, whenever the CPUs are read.
    #[must_use]
    pub fn with(self, kinds: &[Kind]) -> Self {
        Self { others: kinds.iter().map(|kind| (kind.open)()).collect(), ..self }
    }

    /// What is missing for a better look, and how to get it; at the end, also what was lost.
    pub fn notes(&self) -> Vec<String> {
        let of_cpu = self.probe.iter().flat_map(|probe| probe.notes().to_vec());
        of_cpu.chain(self.others.iter().flat_map(|other| other.notes())).collect()
    }

    /// How the CPUs are watched; `None`: not at all.
    pub(crate) fn rung(&self) -> Option<Rung> {
        self.probe.as_ref().map(CpuProbe::rung)
    }

    /// Follows a load from phase to phase and interval to interval.
    pub fn follow(&mut self, event: &load::Event) {
        match event {
            load::Event::PhaseStarts { phase: Phase::Measure, .. } => self.open_books(),
            load::Event::PhaseStarts { .. } => self.close(),
            load::Event::Interval(progress) if progress.phase == Phase::Measure => self.read(),
            _ => {}
        }
    }

    /// Watches the CPU quota of this server too, from the next measured phase on.
    pub(crate) fn watch_quota_of(&mut self, server: Option<u32>) {
        self.quotas.also_of(server);
    }

    /// How often a CPU quota took effect in the measured phase that has ended.
    ///
    /// # Errors
    ///
    /// Missing if the counters cannot be read, or no phase was measured.
    pub fn take_throttled(&mut self) -> Maybe<Throttled> {
        self.quotas.take()
    }

    /// Opens the books of all CPUs: what is measured begins now.
    pub(crate) fn open_books(&mut self) {
        self.quotas.open();
        if let Some(probe) = &mut self.probe {
            self.others.iter_mut().for_each(|other| other.start());
            // Last, so that its window is the load's.
            probe.start();
            self.measuring = true;
        }
    }

    /// Ends an interval; the next one begins with it.
    pub(crate) fn close_interval(&mut self) {
        self.read();
    }

    /// The interval that was closed last.
    pub(crate) fn last(&self) -> Option<&CpuInterval> {
        self.intervals.last()
    }

    /// For how long these CPUs were busy in the intervals since the books were opened, summed; missing if they were not watched.
    pub(crate) fn busy_s(&self, cpus: &BTreeSet<u32>) -> Maybe<f64> {
        self.summed_s(cpus, CpuSample::busy_ratio)
    }

    /// For how long the hypervisor gave these CPUs to others, as [`Self::busy_s`].
    pub(crate) fn stolen_s(&self, cpus: &BTreeSet<u32>) -> Maybe<f64> {
        self.summed_s(cpus, |sample| sample.stolen_ratio.clone())
    }

    fn summed_s(&self, cpus: &BTreeSet<u32>, of: fn(&CpuSample) -> Maybe<f64>) -> Maybe<f64> {
        if self.intervals.is_empty() {
            return Err(Missing::because("the CPUs were not watched"));
        }
        let of_interval = |interval: &CpuInterval| -> Maybe<f64> {
            let samples = interval.cpus.iter().filter(|sample| cpus.contains(&sample.cpu));
            let ratios = samples.map(of).collect::<Maybe<Vec<f64>>>()?;
            // Of a CPU that is not among them, as in a container with CPUs of other numbers, nothing is known: it is not idle.
            if ratios.len() < cpus.len() {
                return Err(Missing::because("not all of these CPUs were watched"));
            }
            Ok(ratios.iter().sum::<f64>() * interval.seconds())
        };
        self.intervals.iter().map(of_interval).sum()
    }

    /// Share of all CPUs' time that the hypervisor gave to others in the interval that was closed last.
    pub(crate) fn steal_ratio(&self) -> Option<f64> {
        self.last()?.mean(|cpu| cpu.stolen_ratio.clone()).ok()
    }

    /// The intervals that are complete and were not taken before; a load that goes on, goes on.
    pub(crate) fn take_complete(&mut self) -> Vec<CpuInterval> {
        std::mem::take(&mut self.intervals)
    }

    /// The intervals of the load that has ended, but for those that were taken before.
    pub fn take(&mut self) -> Vec<CpuInterval> {
        self.close();
        std::mem::take(&mut self.intervals)
    }

    /// What the other instruments saw of the load that has ended, interval by interval.
    pub fn take_instruments(&mut self) -> Instruments {
        let mut seen = Instruments::default();
        self.others.iter_mut().for_each(|other| other.hand_over(&mut seen));
        seen
    }

    /// What the other instruments said of the load that has ended.
    ///
    /// - `anchor`: what the series count from.
    pub fn take_series(&mut self, host: &str, anchor: WallAnchor) -> Vec<Sample> {
        let start_ns = anchor.unix_ns.cast_signed();
        let sample = |(at_ns, reading): (u64, Reading)| Sample {
            t_ms: (anchor.unix_ns_at(at_ns).cast_signed() - start_ns) / 1_000_000,
            host: host.to_owned(),
            name: reading.name,
            labels: reading.labels,
            value: reading.value,
        };
        std::mem::take(&mut self.readings).into_iter().map(sample).collect()
    }

    fn close(&mut self) {
        self.quotas.close();
        self.read();
        self.measuring = false;
    }

    fn read(&mut self) {
        if let (Some(probe), true) = (&mut self.probe, self.measuring) {
            let interval = probe.read();
            let readings = self.others.iter_mut().flat_map(|other| other.read());
            if interval.until_ns > interval.from_ns + SHORTEST_NS {
                self.readings.extend(readings.map(|reading| (interval.until_ns, reading)));
                self.intervals.push(interval);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs over two seconds: one is busy all the time, and the hypervisor takes a quarter of the other.
    fn watched() -> Beside {
        let sample = |cpu: u32| CpuSample {
            event_ratio: Ok(1.0 - f64::from(cpu)),
            stolen_ratio: Ok(0.25 * f64::from(cpu)),
            ..CpuSample::without_values(cpu, "not measured")
        };
        let interval = CpuInterval {
            from_ns: 0,
            until_ns: 2_000_000_000,
            rung: Rung::Bpf,
            missed_deadline: false,
            cpus: (0..2).map(sample).collect(),
            psi_some_ratio: Err(Missing::because("not measured")),
            lost: std::collections::BTreeMap::new(),
        };
        Beside { intervals: vec![interval], ..Beside::new(false) }
    }

    #[test]
    fn time_is_that_of_the_cpus_that_are_asked_for_and_of_a_cpu_that_was_not_watched_it_is_unknown() {
        let beside = watched();
        let both = BTreeSet::from([0, 1]);
        assert_eq!((beside.busy_s(&both), beside.stolen_s(&both)), (Ok(2.0), Ok(0.5)));
        assert_eq!(beside.busy_s(&BTreeSet::from([1])), Ok(0.0));
        assert!(beside.busy_s(&BTreeSet::from([1, 2])).is_err());
        assert!(Beside::new(false).busy_s(&both).is_err());
    }
}
