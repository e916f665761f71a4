//! The CPUs beside a load: the books are closed where the load closes its intervals, so that both tell of the
//! same time.

use probes::cpu_time::{self, CpuProbe};
use record::cpu::CpuInterval;
use record::load::Phase;

/// Watches the CPUs over the measured phase of a load.
#[derive(Debug)]
pub(crate) struct Beside {
    probe: Option<CpuProbe>,
    measuring: bool,
    intervals: Vec<CpuInterval>,
}

impl Beside {
    /// Opens the probe now, so that its opening costs the measured phase nothing.
    pub(crate) fn new(observe: bool) -> Self {
        let probe = observe.then(|| cpu_time::open(&cpu_time::Options::of_this_machine()));
        Self { probe, measuring: false, intervals: Vec::new() }
    }

    /// What is missing for a better look, and how to get it.
    pub(crate) fn notes(&self) -> &[String] {
        self.probe.as_ref().map_or(&[], CpuProbe::notes)
    }

    /// Follows the load from phase to phase and interval to interval.
    pub(crate) fn follow(&mut self, event: &load::Event) {
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

    /// The intervals of the measured phase.
    pub(crate) fn finish(mut self) -> Vec<CpuInterval> {
        self.close();
        self.intervals
    }

    fn close(&mut self) {
        self.read();
        self.measuring = false;
    }

    fn read(&mut self) {
        if let (Some(probe), true) = (&mut self.probe, self.measuring) {
            let interval = probe.read();
            // The last interval of a phase ends where the next phase starts: nothing is left between the two.
            if interval.until_ns > interval.from_ns + 1_000_000 {
                self.intervals.push(interval);
            }
        }
    }
}
