//! The time that a plan gives itself: whether it holds is known when a series has been set up, started and prepared.

use std::time::Duration;

/// What the series so far took, beside what the plan has.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Option<Duration>,
    began_ns: u64,
    conducted: u32,
    noted: bool,
}

impl Budget {
    /// - `limit`: the plan's `time_budget`.
    /// - `now_ns`: `CLOCK_MONOTONIC`, before the first series of this process.
    pub(crate) fn new(limit: Option<Duration>, now_ns: u64) -> Self {
        Self { limit, began_ns: now_ns, conducted: 0, noted: false }
    }

    /// Counts a series that has ended; yields, once, that the budget will not hold.
    ///
    /// - `left`: series that are still to come.
    pub(crate) fn after_series(&mut self, left: u32, now_ns: u64) -> Option<String> {
        self.conducted += 1;
        let limit = self.limit.filter(|_| !self.noted)?;
        let so_far = Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        let each = so_far / self.conducted;
        let needed = so_far.saturating_add(each.saturating_mul(left));
        if needed <= limit {
            return None;
        }
        self.noted = true;
        Some(format!(
            "`time_budget` is {:.0} s and will not hold: with setup, start and prepare a series takes {:.0} s, and {left} \
             are left: about {:.0} s in all",
            limit.as_secs_f64(),
            each.as_secs_f64(),
            needed.as_secs_f64()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_setup_takes_counts_and_is_said_once() {
        let mut budget = Budget::new(Some(Duration::from_mins(1)), 5 * S);
        // 10 s a series: 6 fit in 60 s.
        assert_eq!(budget.after_series(5, 15 * S), None);
        // The second took 20 s: 30 s and 4 times 15 s are 90 s.
        let said = budget.after_series(4, 35 * S).unwrap();
        assert!(said.ends_with("a series takes 15 s, and 4 are left: about 90 s in all"), "{said}");
        assert_eq!(budget.after_series(3, 65 * S), None);
        assert_eq!(Budget::new(None, 0).after_series(1_000, u64::MAX), None);
    }
}
