//! The CPUs beside a load: the books are opened and closed where the load begins and ends its measured phase, so
//! that both tell of the same time.

use probes::cpu_time::{self, CpuProbe};
use record::cpu::{CpuInterval, Rung};
use record::load::Phase;

/// What the load has room for between two intervals of its own is no interval.
const SHORTEST_NS: u64 = 1_000_000;

/// Watches the CPUs over the measured phases of one load after the other.
#[derive(Debug)]
pub struct Beside {
    probe: Option<CpuProbe>,
    measuring: bool,
    intervals: Vec<CpuInterval>,
}

impl Beside {
    /// Opens the probe now and once, so that its opening costs no load anything.
    pub fn new(observe: bool) -> Self {
        let probe = observe.then(|| cpu_time::open(&cpu_time::Options::of_this_machine()));
        Self { probe, measuring: false, intervals: Vec::new() }
    }

    /// What is missing for a better look, and how to get it.
    pub fn notes(&self) -> &[String] {
        self.probe.as_ref().map_or(&[], CpuProbe::notes)
    }

    /// How the CPUs are watched; `None`: not at all.
    pub(crate) fn rung(&self) -> Option<Rung> {
        self.probe.as_ref().map(CpuProbe::rung)
    }

    /// Follows a load from phase to phase and interval to interval.
    pub fn follow(&mut self, event: &load::Event) {
        match event {
            load::Event::PhaseStarts { phase: Phase::Measure, .. } => {
                if let Some(probe) = &mut self.probe {
                    probe.start();
                    self.measuring = true;
                }
            }
            load::Event::PhaseStarts { .. } => self.close(),
            load::Event::Interval(progress) if progress.phase == Phase::Measure => self.read(),
            _ => {}
        }
    }

    /// The intervals of the load that has ended.
    pub fn take(&mut self) -> Vec<CpuInterval> {
        self.close();
        std::mem::take(&mut self.intervals)
    }

    fn close(&mut self) {
        self.read();
        self.measuring = false;
    }

    fn read(&mut self) {
        if let (Some(probe), true) = (&mut self.probe, self.measuring) {
            let interval = probe.read();
            if interval.until_ns > interval.from_ns + SHORTEST_NS {
                self.intervals.push(interval);
            }
        }
    }
}
