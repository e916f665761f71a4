//! Number of events in the system, sampled at random moments.
//!
//! The count does not use the latencies that the workers stamp, so it can contradict them: see `littles-law`
//! in [`crate::judge::verdict`].

/// Samples taken during the measured phase.
#[derive(Debug, Default)]
pub(crate) struct InSystemSamples {
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
}

impl InSystemSamples {
    pub(crate) fn note(&mut self, at_ns: u64, events: u64) {
        if let Some((before_ns, before)) = self.last {
            let span_ns = at_ns.saturating_sub(before_ns) as f64;
            self.area += span_ns * (before as f64).midpoint(events as f64);
        }
        self.first_ns.get_or_insert(at_ns);
        self.last = Some((at_ns, events));
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
        Some(InSystem { mean: self.area / span_ns as f64, error: (variance / n).sqrt(), looks: self.count })
    }
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
}
