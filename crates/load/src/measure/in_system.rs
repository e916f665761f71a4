//! Number of events in the system, sampled at random moments.
//!
//! The count does not use the latencies that the workers stamp, so it can contradict them: see `littles-law`
//! in [`crate::judge::verdict`].

use std::collections::BTreeMap;
use std::ops::Range;

/// Samples that each end of the phase needs for a trend.
const TREND_LOOKS_MIN: u64 = 10;

/// Samples taken during the measured phase.
#[derive(Debug, Default)]
pub(crate) struct InSystemSamples {
    phase: Range<u64>,
    /// The samples in the first and in the last quarter of the phase: how often which number was found.
    ends: [BTreeMap<u64, u64>; 2],
    first_ns: Option<u64>,
    last: Option<(u64, u64)>,
    /// Events times nanoseconds, by the trapezoidal rule: a late sample stands for all the time before it.
    area: f64,
    count: u64,
    sum: f64,
    sum_of_squares: f64,
}

/// The mean number of events in the system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InSystem {
    pub(crate) mean: f64,
    /// Standard error of the mean.
    pub(crate) error: f64,
    pub(crate) looks: u64,
    /// `None` if there were too few samples, or the rate was changed.
    pub(crate) trend: Option<Trend>,
}

/// The median numbers of events in the system at both ends of the phase: a stall that the target has made up
/// for moves a mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// In the first quarter.
    pub(crate) first: f64,
    /// In the last quarter.
    pub(crate) last: f64,
}

impl InSystemSamples {
    /// - `phase`: begin and planned end of the measured phase.
    pub(crate) fn new(phase: Range<u64>) -> Self {
        Self { phase, ..Self::default() }
    }

    /// Adds a sample. One before the phase does not count: between turns, the clock also shows such times.
    pub(crate) fn note(&mut self, at_ns: u64, events: u64) {
        if at_ns < self.phase.start {
            return;
        }
        if let Some((before_ns, before)) = self.last {
            let span_ns = at_ns.saturating_sub(before_ns) as f64;
            self.area += span_ns * (before as f64).midpoint(events as f64);
        }
        self.first_ns.get_or_insert(at_ns);
        self.last = Some((at_ns, events));
        let quarter_ns = (self.phase.end - self.phase.start) / 4;
        if at_ns < self.phase.start + quarter_ns {
            *self.ends[0].entry(events).or_insert(0) += 1;
        } else if at_ns >= self.phase.end - quarter_ns {
            *self.ends[1].entry(events).or_insert(0) += 1;
        }
        self.count += 1;
        self.sum += events as f64;
        self.sum_of_squares += (events as f64).powi(2);
    }

    /// The mean; `None` if there were fewer than two samples.
    pub(crate) fn mean(&self) -> Option<InSystem> {
        let span_ns = self.last?.0.saturating_sub(self.first_ns?);
        if self.count < 2 || span_ns == 0 {
            return None;
        }
        let n = self.count as f64;
        let variance = (self.sum_of_squares - self.sum * self.sum / n).max(0.0) / (n - 1.0);
        Some(InSystem {
            mean: self.area / span_ns as f64,
            error: (variance / n).sqrt(),
            looks: self.count,
            trend: self.trend(),
        })
    }

    fn trend(&self) -> Option<Trend> {
        let [first, last] = &self.ends;
        Some(Trend { first: median(first)?, last: median(last)? })
    }
}

/// `None` if there are too few samples for a trend.
fn median(samples: &BTreeMap<u64, u64>) -> Option<f64> {
    let count: u64 = samples.values().sum();
    let mut left = count / 2;
    let middle = samples.iter().find(|(_, times)| {
        let is_here = left < **times;
        left = left.saturating_sub(**times);
        is_here
    });
    middle.filter(|_| count >= TREND_LOOKS_MIN).map(|(events, _)| *events as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_stands_for_the_time_before_it() {
        let mut looks = InSystemSamples::default();
        assert_eq!(looks.mean(), None);
        // Nothing for 2 s; then a stall of 1 s in which 500 events arrive and no sample is taken.
        for (at_s, events) in [(0, 0), (1, 0), (2, 0), (3, 500), (3, 0), (4, 0)] {
            looks.note(at_s * 1_000_000_000, events);
        }
        let found = looks.mean().unwrap();
        assert!((found.mean - 62.5).abs() < 1e-9, "250 events through one of four seconds: {found:?}");
        assert!(found.error > found.mean, "one look of six decides: {found:?}");
    }

    /// The clock of a load in turns shows times before the load while its target settles.
    #[test]
    fn a_look_before_the_phase_counts_for_nothing() {
        let mut looks = InSystemSamples::new(5_000..9_000);
        for (at_ns, events) in [(5_000, 2), (6_000, 2), (7, 2), (20, 2), (7_000, 2), (8_000, 2)] {
            looks.note(at_ns, events);
        }
        let found = looks.mean().unwrap();
        assert_eq!((found.mean, found.looks), (2.0, 4), "{found:?}");
    }

    #[test]
    fn a_trend_compares_the_quarters_at_the_ends_of_the_phase() {
        let mut looks = InSystemSamples::new(1_000..2_000);
        // A backlog that grows from 0 to 100.
        (0..100).for_each(|n| looks.note(1_000 + n * 10, n));
        let trend = looks.mean().unwrap().trend.unwrap();
        assert_eq!(trend, Trend { first: 12.0, last: 87.0 });
        // A stall in the last quarter, of which nothing is left.
        let mut looks = InSystemSamples::new(1_000..2_000);
        (0..100).for_each(|n| looks.note(1_000 + n * 10, if (80..90).contains(&n) { 500 } else { 3 }));
        assert_eq!(looks.mean().unwrap().trend, Some(Trend { first: 3.0, last: 3.0 }));
        // Too few at one end.
        let mut looks = InSystemSamples::new(1_000..2_000);
        (0..75).for_each(|n| looks.note(1_000 + n * 10, n));
        assert_eq!(looks.mean().unwrap().trend, None);
    }
}
