//! CPUs and other instruments during a load. They start and stop with the measured phase, so both describe
//! the same period.

use std::collections::BTreeSet;

use probes::cgroups::Cgroup;
use probes::cpu_time::{self, CpuProbe};
use probes::observe::{Instrument, Kind, Reading};
use record::clock::WallAnchor;
use record::cpu::{CpuInterval, CpuSample, Rung};
use record::instruments::Instruments;
use record::limits::Throttled;
use record::load::Phase;
use record::missing::{Maybe, Missing};
use record::resources::Resources;
use record::series::{Sample, SharedText};

use crate::quotas::Quotas;

/// Minimum length of an interval. A shorter rest between two intervals of the load is not one.
const SHORTEST_NS: u64 = 1_000_000;

/// Watches the CPUs during the measured phases of successive loads.
#[derive(Debug)]
pub struct Beside {
    probe: Option<CpuProbe>,
    others: Vec<Box<dyn Instrument>>,
    /// Names of `others`.
    names: Vec<&'static str>,
    measuring: bool,
    intervals: Vec<CpuInterval>,
    /// Readings of the other instruments, with their times.
    readings: Vec<(u64, Reading)>,
    quotas: Quotas,
}

impl Beside {
    /// Opens the probe once and now, so opening it does not disturb a load.
    pub fn new(observe: bool) -> Self {
        let probe = observe.then(|| cpu_time::open(&cpu_time::Options::of_this_machine()));
        Self {
            probe,
            others: Vec::new(),
            names: Vec::new(),
            measuring: false,
            intervals: Vec::new(),
            readings: Vec::new(),
            quotas: Quotas::new(),
        }
    }

    /// Adds instruments that are read whenever the CPUs are read.
    #[must_use]
    pub fn with(self, kinds: &[Kind]) -> Self {
        let names = kinds.iter().map(|kind| kind.name).collect();
        Self { others: kinds.iter().map(|kind| (kind.open)()).collect(), names, ..self }
    }

    /// Variant of [`Self::with`]: instruments tell the tasks of a server from others if they can.
    #[must_use]
    pub fn with_server(self, kinds: &[Kind]) -> Self {
        let open = |kind: &Kind| kind.open_for_server.unwrap_or(kind.open)();
        let names = kinds.iter().map(|kind| kind.name).collect();
        Self { others: kinds.iter().map(open).collect(), names, ..self }
    }

    /// Whether any instrument watches.
    pub(crate) fn is_on(&self) -> bool {
        self.probe.is_some()
    }

    /// Names the control group of the server, from the next measured phase on.
    pub fn follow_server(&mut self, group: Option<&Cgroup>) {
        self.others.iter_mut().for_each(|other| other.follow_server(group));
    }

    /// Returns the resources that the instruments counted over the last measured phase.
    pub(crate) fn take_used(&mut self) -> Resources {
        self.others.iter_mut().flat_map(|other| other.used()).collect()
    }

    /// Returns each instrument's name, and the reason if it cannot observe here.
    pub(crate) fn abilities(&self) -> Vec<(&'static str, Maybe<()>)> {
        self.names.iter().copied().zip(self.others.iter().map(|other| other.is_able())).collect()
    }

    /// Returns the reasons why the CPUs are not watched by the best method; `None` if they are.
    pub(crate) fn lacks_of_cpu(&self) -> Option<String> {
        let notes = self.probe.as_ref().map(CpuProbe::notes).filter(|notes| !notes.is_empty());
        notes.map(|notes| notes.join("; "))
    }

    /// Reads the instruments of intervals once before a measured phase, so the names that they look up for
    /// the first time delay no interval of it.
    ///
    /// - `meanwhile`: waits; the readings are of this time.
    pub(crate) fn rehearse(&mut self, meanwhile: impl FnOnce()) {
        let mut of_intervals: Vec<_> =
            self.others.iter_mut().filter(|other| other.is_of_intervals()).collect();
        for other in &mut of_intervals {
            other.start();
        }
        meanwhile();
        for other in &mut of_intervals {
            drop(other.read());
        }
        self.take_intervals();
    }

    /// Returns notes on data that is missing and how to get it; at the end, also on data that was lost.
    pub fn notes(&self) -> Vec<String> {
        let of_cpu = self.probe.iter().flat_map(|probe| probe.notes().to_vec());
        let of_others = self.others.iter().flat_map(|other| other.notes());
        of_cpu.chain(of_others).chain(self.quota_lost().map(str::to_owned)).collect()
    }

    /// Returns the method by which the CPUs are watched; `None` if they are not.
    pub(crate) fn rung(&self) -> Option<Rung> {
        self.probe.as_ref().map(CpuProbe::rung)
    }

    /// Follows a load through its phases and intervals.
    pub fn follow(&mut self, event: &load::Event) {
        match event {
            load::Event::PhaseStarts { phase: Phase::Measure, .. } => self.open_books(),
            load::Event::MeasureEnds => self.close(),
            load::Event::Interval(progress) if progress.phase == Phase::Measure => self.read(),
            _ => {}
        }
    }

    /// Adds the CPU quota of this server, from the next measured phase on.
    pub(crate) fn watch_quota_of(&mut self, server: Option<u32>) {
        self.quotas.also_of(server);
    }

    /// Returns the throttling by a CPU quota in the last measured phase.
    ///
    /// # Errors
    ///
    /// Missing if the counters cannot be read, or no phase was measured.
    pub fn take_throttled(&mut self) -> Maybe<Throttled> {
        self.quotas.take()
    }

    /// Returns the reason why throttling in the last measured phase is unknown, if it was watched.
    pub(crate) fn quota_lost(&self) -> Option<&str> {
        self.quotas.lost()
    }

    /// Starts the measurement of all CPUs.
    pub(crate) fn open_books(&mut self) {
        self.quotas.open();
        if let Some(probe) = &mut self.probe {
            self.others.iter_mut().for_each(|other| other.start());
            // The CPU probe starts last, so its window is that of the load.
            probe.start();
            self.measuring = true;
        }
    }

    /// Ends an interval and begins the next.
    pub(crate) fn close_interval(&mut self) {
        self.read();
    }

    /// Returns the interval that was closed last.
    pub(crate) fn last(&self) -> Option<&CpuInterval> {
        self.intervals.last()
    }

    /// Returns the sum of the busy time of these CPUs since the start; missing if they were not watched.
    pub(crate) fn busy_s(&self, cpus: &BTreeSet<u32>) -> Maybe<f64> {
        self.summed_s(cpus, CpuSample::busy_ratio)
    }

    /// Variant of [`Self::busy_s`] that returns the time that the hypervisor gave to others.
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
            // A CPU that was not watched, as in a container in which CPUs have other numbers, is unknown and
            // not idle.
            if ratios.len() < cpus.len() {
                return Err(Missing::because("not all of these CPUs were watched"));
            }
            Ok(ratios.iter().sum::<f64>() * interval.seconds())
        };
        self.intervals.iter().map(of_interval).sum()
    }

    /// Returns the share of all CPU time that the hypervisor gave to others in the last closed interval.
    pub(crate) fn steal_ratio(&self) -> Option<f64> {
        self.last()?.mean(|cpu| cpu.stolen_ratio.clone()).ok()
    }

    /// Returns the complete intervals that were not taken before. The load may still run.
    pub(crate) fn take_complete(&mut self) -> Vec<CpuInterval> {
        std::mem::take(&mut self.intervals)
    }

    /// Returns the remaining intervals of the load that has ended.
    pub fn take(&mut self) -> Vec<CpuInterval> {
        self.close();
        std::mem::take(&mut self.intervals)
    }

    /// Returns the complete intervals of the other instruments that were not taken before. The load may still
    /// run.
    pub(crate) fn take_intervals(&mut self) -> Instruments {
        let mut seen = Instruments::default();
        self.others.iter_mut().for_each(|other| other.hand_over(&mut seen));
        seen
    }

    /// Returns the remaining data of the other instruments for the load that has ended. Only afterwards,
    /// [`Self::notes`] has all losses.
    pub fn take_instruments(&mut self) -> Instruments {
        let mut seen = self.take_intervals();
        self.others.iter_mut().for_each(|other| other.hand_over_whole(&mut seen));
        seen
    }

    /// Returns the values of the other instruments for the load that has ended.
    ///
    /// - `anchor`: time origin of the series.
    pub fn take_series(&mut self, host: &str, anchor: WallAnchor) -> Vec<Sample> {
        let (start_ns, host) = (anchor.unix_ns.cast_signed(), SharedText::from(host));
        let sample = |(at_ns, reading): (u64, Reading)| Sample {
            t_ms: (anchor.unix_ns_at(at_ns).cast_signed() - start_ns) / 1_000_000,
            host: host.clone(),
            name: reading.name.into(),
            labels: reading.labels.into(),
            value: reading.value,
        };
        std::mem::take(&mut self.readings).into_iter().map(sample).collect()
    }

    fn close(&mut self) {
        self.others.iter_mut().for_each(|other| other.end());
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

    /// Builds two CPUs over two seconds: one is busy all the time, and the hypervisor takes a quarter of the
    /// other.
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
