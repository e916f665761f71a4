//! Due times from timestamps, in the order of their lines.

use super::time::Stamp;

/// Age in seconds up to which a line counts as written late. Workers of a server write independently, and
/// nginx writes a line at the end of its request.
pub const DISORDER_S: u64 = 10;

const DISORDER_NS: i64 = DISORDER_S.cast_signed() * 1_000_000_000;

/// Lines after an older one within which a line on the clock before shows that the clock was not set back.
const TRIAL_LINES: u64 = 100;

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
    steps: Steps,
    trial: Option<Trial>,
}

/// Lines that are older than one before them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    /// Lines that were written up to [`DISORDER_S`] too late.
    pub(super) late_lines: u64,
    /// Older lines, after which the clock goes on as before.
    pub(super) older: Option<Back>,
    /// Lines at which the clock was set back.
    pub(super) set_back: Option<Back>,
}

/// Lines that are more than [`DISORDER_S`] older than one before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Back {
    /// Number of lines.
    pub lines: u64,
    /// Number of the first one.
    pub first: u64,
    /// Age of the oldest, in nanoseconds.
    pub longest_ns: u64,
}

/// The state before an older line, while it is not known whether the clock was set back. Apache stamps a
/// line with the start of its request: a long request is such a line, too.
#[derive(Debug)]
struct Trial {
    shift_ns: i64,
    at_ns: i64,
    /// Number of due times.
    settled: usize,
    waiting: u64,
    steps: Steps,
    /// The lines since.
    since: Back,
    /// The lines since have no common clock.
    is_mixed: bool,
}

impl DueTimes {
    /// Adds the request of line `line`.
    pub(super) fn push(&mut self, stamp: &Stamp, line: u64) {
        let finest_ns =
            self.resolution_ns.map_or(stamp.resolution_ns, |known| known.min(stamp.resolution_ns));
        if self.first_ns.is_none() {
            (self.first_ns, self.at_ns) = (Some(stamp.ns), stamp.ns);
        }
        self.judge(stamp);
        let ns = stamp.ns.saturating_add(self.shift_ns);
        let age_ns = self.at_ns.saturating_sub(ns);
        if age_ns > DISORDER_NS {
            self.step_back(age_ns, line);
        } else if age_ns > 0 {
            self.steps.late_lines += 1;
        } else if age_ns < 0 {
            self.settle(Some(ns));
            self.at_ns = ns;
        }
        self.resolution_ns = Some(finest_ns);
        self.waiting += 1;
    }

    /// Takes a line that is older by `age_ns` as the first after the clock was set back.
    fn step_back(&mut self, age_ns: i64, line: u64) {
        let back = Back { lines: 1, first: line, longest_ns: age_ns.unsigned_abs() };
        if let Some(trial) = &mut self.trial {
            trial.is_mixed = true;
            return add(&mut self.steps.older, back);
        }
        self.trial = Some(Trial {
            shift_ns: self.shift_ns,
            at_ns: self.at_ns,
            settled: self.due_ns.len(),
            waiting: self.waiting,
            steps: self.steps,
            since: back,
            is_mixed: false,
        });
        add(&mut self.steps.set_back, back);
        self.shift_ns = self.shift_ns.saturating_add(age_ns);
    }

    /// Judges whether the clock was set back at the last older line. It was not if this line goes on from the
    /// line before that one, and would be a gap on the other clock: then the lines between were only late.
    fn judge(&mut self, stamp: &Stamp) {
        let Some(trial) = &mut self.trial else { return };
        let age_ns = trial.at_ns.saturating_sub(stamp.ns.saturating_add(trial.shift_ns));
        let gap_ns = stamp.ns.saturating_add(self.shift_ns).saturating_sub(self.at_ns);
        let is_gap = trial.is_mixed || gap_ns > self.at_ns.saturating_sub(trial.at_ns);
        if age_ns > DISORDER_NS || !is_gap {
            trial.since.lines += 1;
            if age_ns > 0 {
                trial.since.longest_ns = trial.since.longest_ns.max(age_ns.unsigned_abs());
            }
            if trial.since.lines > TRIAL_LINES {
                self.trial = None;
            }
            return;
        }
        self.due_ns.truncate(trial.settled);
        (self.shift_ns, self.at_ns, self.steps) = (trial.shift_ns, trial.at_ns, trial.steps);
        self.waiting = trial.waiting + trial.since.lines;
        add(&mut self.steps.older, trial.since);
        self.trial = None;
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

    /// Lines that are older than one before them.
    pub(super) fn steps(&self) -> Steps {
        match &self.trial {
            // One line does not show that the clock was set back.
            Some(Trial { steps, since, .. }) if since.lines == 1 => {
                let mut steps = *steps;
                add(&mut steps.older, *since);
                steps
            }
            _ => self.steps,
        }
    }

    /// All due times since the first.
    pub(super) fn finish(mut self) -> Vec<u64> {
        self.settle(None);
        self.due_ns
    }
}

fn add(to: &mut Option<Back>, back: Back) {
    let known = to.get_or_insert(Back { lines: 0, ..back });
    known.lines += back.lines;
    known.longest_ns = known.longest_ns.max(back.longest_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn due(stamps: &[(i64, u64)]) -> (Vec<u64>, Steps) {
        let mut due = DueTimes::default();
        for (line, (ns, resolution_ns)) in stamps.iter().enumerate() {
            due.push(&Stamp { ns: *ns, resolution_ns: *resolution_ns }, line as u64 + 1);
        }
        let steps = due.steps();
        (due.finish(), steps)
    }

    fn seconds(seconds: &[i64]) -> (Vec<u64>, Steps) {
        due(&seconds.iter().map(|s| (s * SECOND, 1_000_000_000)).collect::<Vec<_>>())
    }

    fn back(lines: u64, first: u64, longest_s: u64) -> Back {
        Back { lines, first, longest_ns: longest_s * 1_000_000_000 }
    }

    fn is(steps: Steps, late_lines: u64, older: Option<Back>, set_back: Option<Back>) -> bool {
        (steps.late_lines, steps.older, steps.set_back) == (late_lines, older, set_back)
    }

    #[test]
    fn requests_of_one_second_are_spread_over_it() {
        let (found, steps) = seconds(&[100, 100, 100, 101, 103, 103]);
        assert_eq!(found, [0, 333_333_333, 666_666_666, 1_000_000_000, 3_000_000_000, 3_500_000_000]);
        assert!(is(steps, 0, None, None), "{steps:?}");
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
        let (found, steps) = seconds(&[100, 102, 101, 102, 103]);
        assert_eq!(found, [0, 2_000_000_000, 2_333_333_333, 2_666_666_666, 3_000_000_000]);
        assert!(is(steps, 1, None, None), "{steps:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_burst_and_no_pause() {
        // An hour back, as at the end of summer time in a log without offsets.
        let (found, steps) = seconds(&[7_198, 7_199, 3_600, 3_601, 3_602]);
        assert_eq!(found, [0, 1_000_000_000, 1_500_000_000, 2_000_000_000, 3_000_000_000]);
        assert!(is(steps, 0, None, Some(back(1, 3, 3_599))), "{steps:?}");
        // A line every 100 s, until the clock is where it was, and on.
        let stamps: Vec<i64> = (70..72).chain(36..90).map(|n| n * 100).collect();
        let (found, steps) = seconds(&stamps);
        assert!(found[3..].windows(2).all(|pair| pair[1] - pair[0] == 100_000_000_000), "{found:?}");
        assert!(is(steps, 0, None, Some(back(1, 3, 3_500))), "{steps:?}");
    }

    #[test]
    fn a_line_of_a_long_request_does_not_move_the_lines_after_it() {
        let s = 1_000_000_000;
        let (found, steps) = seconds(&[100, 101, 50, 102]);
        assert_eq!(found, [0, s, s + s / 2, 2 * s]);
        assert!(is(steps, 0, Some(back(1, 3, 51)), None), "{steps:?}");
        // Several of them, in and out of order, and a line that was late on the clock itself.
        for long in [&[50, 51][..], &[50, 55, 20, 90], &[50, 20, 21, 22, 90, 5]] {
            let stamps = [&[100, 101][..], long, &[99, 102, 103]].concat();
            let (found, steps) = seconds(&stamps);
            assert_eq!(found[found.len() - 2..], [2 * s, 3 * s], "{long:?}: {found:?}");
            assert!(found.is_sorted() && found.len() == stamps.len(), "{found:?}");
            let oldest = 101 - *long.iter().min().unwrap();
            assert!(is(steps, 1, Some(back(long.len() as u64, 3, oldest.unsigned_abs())), None), "{steps:?}");
        }
        // One now and then: none of them moves the end.
        let stamps: Vec<i64> =
            (0..1_000).flat_map(|n| [n, if n % 100 == 99 { n - 60 } else { n }]).map(|n| n + 1_000).collect();
        let (found, steps) = seconds(&stamps);
        assert_eq!(found.last().map(|ns| ns / s), Some(999), "{steps:?}");
        assert!(is(steps, 0, Some(back(10, 200, 60)), None), "{steps:?}");
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let (found, ..) = due(&[(i64::MIN, 1), (i64::MAX, u64::MAX), (i64::MIN, 1), (0, 1)]);
        assert!(found.is_sorted(), "{found:?}");
    }
}
