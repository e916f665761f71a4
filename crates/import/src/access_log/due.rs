//! Due times from timestamps, in the order of their lines.

use super::time::Stamp;

/// Age in seconds up to which a line counts as written late. Workers of a server write independently, and
/// nginx writes a line at the end of its request.
pub const DISORDER_S: u64 = 10;

const DISORDER_NS: i64 = DISORDER_S.cast_signed() * 1_000_000_000;

/// Due times while a log is read: requests with the same timestamp wait until the next one is known.
#[derive(Debug, Default)]
pub(super) struct DueTimes {
    due_ns: Vec<u64>,
    /// Nanoseconds that are added to the log's clock, because it was set back.
    shift_ns: i64,
    /// Time of the first line, and of the waiting requests.
    first_ns: Option<i64>,
    at_ns: i64,
    waiting: u64,
    resolution_ns: Option<u64>,
    late_lines: u64,
    set_back: Option<(u64, u64, u64)>,
}

impl DueTimes {
    /// Adds the request of line `line`.
    pub(super) fn push(&mut self, stamp: &Stamp, line: u64) {
        let finest_ns =
            self.resolution_ns.map_or(stamp.resolution_ns, |known| known.min(stamp.resolution_ns));
        let mut ns = stamp.ns.saturating_add(self.shift_ns);
        if self.first_ns.is_none() {
            (self.first_ns, self.at_ns) = (Some(ns), ns);
        } else if ns < self.at_ns.saturating_sub(DISORDER_NS) {
            let step_ns = self.at_ns.saturating_sub(ns);
            let (steps, first, longest_ns) = self.set_back.unwrap_or((0, line, 0));
            self.set_back = Some((steps + 1, first, longest_ns.max(step_ns.unsigned_abs())));
            self.shift_ns = self.shift_ns.saturating_add(step_ns);
            ns = self.at_ns;
        } else if ns < self.at_ns {
            self.late_lines += 1;
            ns = self.at_ns;
        }
        if ns > self.at_ns {
            self.settle(Some(ns));
            self.at_ns = ns;
        }
        self.resolution_ns = Some(finest_ns);
        self.waiting += 1;
    }

    /// Gives the waiting requests their due times: evenly over the resolution, and before `next_ns`.
    fn settle(&mut self, next_ns: Option<i64>) {
        let from_ns = self.at_ns.saturating_sub(self.first_ns.unwrap_or(self.at_ns)).unsigned_abs();
        let until_next_ns = next_ns.map_or(u64::MAX, |next| next.saturating_sub(self.at_ns).unsigned_abs());
        let span_ns = u128::from(self.resolution_ns.unwrap_or(1).min(until_next_ns));
        let waiting = u128::from(self.waiting);
        let due_ns = |k: u64| {
            let offset_ns = u64::try_from(u128::from(k) * span_ns / waiting);
            from_ns + offset_ns.expect("a part of 64 bits has 64 bits")
        };
        self.due_ns.extend((0..self.waiting).map(due_ns));
        self.waiting = 0;
    }

    /// Finest resolution of a timestamp.
    pub(super) fn resolution_ns(&self) -> u64 {
        self.resolution_ns.unwrap_or(0)
    }

    /// Lines that were written late.
    pub(super) fn late_lines(&self) -> u64 {
        self.late_lines
    }

    /// Times that the clock was set back, the first line, and the longest step in nanoseconds.
    pub(super) fn set_back(&self) -> Option<(u64, u64, u64)> {
        self.set_back
    }

    /// All due times since the first.
    pub(super) fn finish(mut self) -> Vec<u64> {
        self.settle(None);
        self.due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn due(stamps: &[(i64, u64)]) -> (Vec<u64>, u64, Option<(u64, u64, u64)>) {
        let mut due = DueTimes::default();
        for (line, (ns, resolution_ns)) in stamps.iter().enumerate() {
            due.push(&Stamp { ns: *ns, resolution_ns: *resolution_ns }, line as u64 + 1);
        }
        let (late, set_back) = (due.late_lines(), due.set_back());
        (due.finish(), late, set_back)
    }

    fn seconds(seconds: &[i64]) -> (Vec<u64>, u64, Option<(u64, u64, u64)>) {
        due(&seconds.iter().map(|s| (s * SECOND, 1_000_000_000)).collect::<Vec<_>>())
    }

    #[test]
    fn requests_of_one_second_are_spread_over_it() {
        let (found, late, set_back) = seconds(&[100, 100, 100, 101, 103, 103]);
        assert_eq!(found, [0, 333_333_333, 666_666_666, 1_000_000_000, 3_000_000_000, 3_500_000_000]);
        assert_eq!((late, set_back), (0, None));
    }

    #[test]
    fn exact_times_are_kept_and_never_pass_the_next_one() {
        let us = 1_000;
        let (found, ..) = due(&[(0, us), (250_000, us), (250_000, us), (251_000, us), (SECOND, us)]);
        assert_eq!(found, [0, 250_000, 250_500, 251_000, 1_000_000_000]);
        // A log that leaves out zeros: the second request is at 0.5 s exactly.
        let (found, ..) =
            due(&[(0, us), (SECOND / 2, 100_000_000), (SECOND / 2, us), (SECOND / 2 + 1_000, us)]);
        assert_eq!(found, [0, 500_000_000, 500_000_500, 500_001_000]);
        let (found, ..) = due(&[(0, 1_000_000_000), (0, 1_000_000_000), (10_000, us)]);
        assert_eq!(found, [0, 5_000, 10_000], "the first lines of such a log may look coarse");
    }

    #[test]
    fn a_line_that_was_written_late_keeps_its_place_in_the_order() {
        let (found, late, set_back) = seconds(&[100, 102, 101, 102, 103]);
        assert_eq!(found, [0, 2_000_000_000, 2_333_333_333, 2_666_666_666, 3_000_000_000]);
        assert_eq!((late, set_back), (1, None));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_burst_and_no_pause() {
        // An hour back, as at the end of summer time in a log without offsets.
        let (found, late, set_back) = seconds(&[7_198, 7_199, 3_600, 3_601, 3_602]);
        assert_eq!(found, [0, 1_000_000_000, 1_500_000_000, 2_000_000_000, 3_000_000_000]);
        assert_eq!((late, set_back), (0, Some((1, 3, 3_599 * 1_000_000_000))));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let (found, ..) = due(&[(i64::MIN, 1), (i64::MAX, u64::MAX), (i64::MIN, 1), (0, 1)]);
        assert!(found.is_sorted(), "{found:?}");
    }
}
