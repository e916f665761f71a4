//! Time budget of a plan. It includes setup, start and prepare, so the first series shows whether it is
//! sufficient. A bake-off that has used up its budget is interrupted and can be resumed.

use std::time::Duration;

/// Time budget and the time that the series so far took.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Option<Duration>,
    began_ns: u64,
    conducted: u32,
    noted: bool,
}

impl Budget {
    /// Starts the budget.
    ///
    /// - `limit`: the plan's `time_budget`.
    /// - `now_ns`: `CLOCK_MONOTONIC`, before the first series of this process.
    pub(crate) fn new(limit: Option<Duration>, now_ns: u64) -> Self {
        Self { limit, began_ns: now_ns, conducted: 0, noted: false }
    }

    /// Returns the reason to stop if the next series would exceed the budget, assuming the mean duration of
    /// the previous ones. The first series of a process always runs, so each `resume` makes progress.
    ///
    /// - `left`: number of series that remain.
    pub(crate) fn used_up(&self, left: u32, now_ns: u64) -> Option<String> {
        let limit = self.limit.filter(|_| self.conducted > 0)?;
        let so_far = Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        let each = so_far / self.conducted;
        (so_far + each > limit).then(|| {
            format!(
                "`time_budget` ({:.0} s) is used up: {:.0} s for {}, including setup, start and prepare; \
                 {left} remain",
                limit.as_secs_f64(),
                so_far.as_secs_f64(),
                if self.conducted == 1 {
                    "1 series".to_owned()
                } else {
                    format!("{} series", self.conducted)
                },
            )
        })
    }

    /// Counts finished series. Returns a note, once, if the budget will not suffice.
    ///
    /// - `finished`: their number.
    /// - `left`: number of series that remain.
    pub(crate) fn after_series(&mut self, finished: u32, left: u32, now_ns: u64) -> Option<String> {
        self.conducted += finished;
        let limit = self.limit.filter(|_| !self.noted)?;
        let so_far = Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        let each = so_far / self.conducted;
        let needed = so_far.saturating_add(each.saturating_mul(left));
        if needed <= limit {
            return None;
        }
        self.noted = true;
        Some(format!(
            "`time_budget` is {:.0} s and will not suffice: a series takes {:.0} s, including setup, start \
             and prepare, and {left} remain: about {:.0} s in all",
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
        // 10 s per series: 6 fit in 60 s.
        assert_eq!(budget.after_series(1, 5, 15 * S), None);
        // The second took 20 s: 30 s and 4 times 15 s are 90 s.
        let said = budget.after_series(1, 4, 35 * S).unwrap();
        assert!(said.ends_with("and 4 remain: about 90 s in all"), "{said}");
        assert_eq!(budget.after_series(1, 3, 65 * S), None);
        assert_eq!(Budget::new(None, 0).after_series(1, 1_000, u64::MAX), None);
    }

    #[test]
    fn no_series_is_begun_that_would_end_beyond_the_budget() {
        let mut budget = Budget::new(Some(Duration::from_mins(1)), 5 * S);
        assert_eq!(budget.used_up(6, 500 * S), None, "the first one is always begun");
        budget.after_series(1, 5, 30 * S);
        // 25 s so far: the next one ends at 50 s.
        assert_eq!(budget.used_up(5, 30 * S), None);
        budget.after_series(1, 4, 55 * S);
        // 50 s for two: the third one would end at 75 s.
        let said = budget.used_up(4, 55 * S).unwrap();
        assert_eq!(
            said,
            "`time_budget` (60 s) is used up: 50 s for 2 series, including setup, start and prepare; 4 remain"
        );
        let mut endless = Budget::new(None, 0);
        endless.after_series(1, 1, S);
        assert_eq!(endless.used_up(1, u64::MAX), None);
    }
}
