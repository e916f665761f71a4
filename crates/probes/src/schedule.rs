//! Deadlines that do not drift, and a count of missed ones.
//!
//! Tools that sleep one interval after each reading add the length of the reading to every interval: 17 to
//! 5,000 us each, as measured. Here every deadline is a fixed moment, counted from the start.

use std::time::Duration;

/// Equally spaced moments on `CLOCK_MONOTONIC`.
#[derive(Debug, Clone)]
pub struct Deadlines {
    start_ns: u64,
    interval_ns: u64,
    next: u64,
    missed: u64,
}

impl Deadlines {
    /// The first deadline is one interval after `start_ns`.
    ///
    /// # Panics
    ///
    /// If the interval is zero.
    pub fn new(start_ns: u64, interval: Duration) -> Self {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        assert!(interval_ns > 0, "an interval takes time");
        Self { start_ns, interval_ns, next: 1, missed: 0 }
    }

    /// The next deadline.
    pub fn next_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.next.saturating_mul(self.interval_ns))
    }

    /// Records that the next deadline was answered at `now_ns`; returns the number of later ones that have
    /// passed meanwhile.
    ///
    /// Those are missed: there was no reading at their time, and the last interval covers theirs too. An
    /// answer before its deadline (a stop) misses nothing.
    pub fn answered_at(&mut self, now_ns: u64) -> u64 {
        let reached = now_ns.saturating_sub(self.start_ns) / self.interval_ns;
        let missed = reached.saturating_sub(self.next);
        self.next += missed + 1;
        self.missed += missed;
        missed
    }

    /// Number of missed deadlines so far.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const S: u64 = 1_000_000_000;

    #[test]
    fn deadlines_do_not_drift_however_late_each_answer_is() {
        let mut deadlines = Deadlines::new(7, SECOND);
        for k in 1..=600 {
            assert_eq!(deadlines.next_ns(), 7 + k * S);
            assert_eq!(deadlines.answered_at(7 + k * S + 400_000_000), 0);
        }
        assert_eq!(deadlines.missed(), 0);
    }

    #[test]
    fn a_deadline_that_passed_unseen_is_counted_and_not_made_up_for() {
        let mut deadlines = Deadlines::new(0, SECOND);
        assert_eq!(deadlines.answered_at(3 * S + 1), 2);
        assert_eq!(deadlines.next_ns(), 4 * S);
        assert_eq!(deadlines.missed(), 2);
    }

    #[test]
    fn an_early_answer_misses_nothing() {
        let mut deadlines = Deadlines::new(S, SECOND);
        assert_eq!(deadlines.answered_at(S / 2), 0);
        assert_eq!(deadlines.next_ns(), 3 * S);
    }
}
