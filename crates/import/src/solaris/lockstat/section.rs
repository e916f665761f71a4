//! Facts that follow only from a whole section.

use super::{Counts, Event, Form, Lock, Percent, Section, Time, Unit};

impl Section {
    pub(super) fn new(line: u64, event: Event, events: Option<u64>) -> Self {
        Self {
            line,
            event,
            events,
            counts: Counts::Events,
            unit: Unit::Untimed,
            percent: Percent::Unknown,
            hottest_lock: false,
            hottest_caller: false,
            locks: Vec::new(),
        }
    }

    /// Sets the unit for forms without a header, and the base of the percentages. Both need the whole
    /// section.
    pub(super) fn settle(&mut self, form: Form) {
        match form {
            Form::Tables => {
                if self.percent == Percent::Unknown && self.counts == Counts::Events {
                    self.percent = self.percent_of();
                }
            }
            Form::Counts => {}
            Form::Parsable | Form::Trace => {
                let timed = self.locks.iter().any(|lock| match lock.time {
                    Time::Total(total) => form == Form::Parsable || total > 0,
                    Time::Mean(_) => true,
                    Time::Unmeasured => false,
                });
                // Only Solaris 8 counts references, and only its trace contains durations; its spins are
                // iterations.
                let solaris_8 =
                    form == Form::Trace || self.locks.iter().any(|lock| lock.references > Some(0.0));
                self.unit = match (timed, self.event.class.is_cpu(), solaris_8) {
                    (false, ..) => Unit::Untimed,
                    (true, true, true) => Unit::Spins,
                    (true, true, false) => Unit::NsecAssumed,
                    (true, false, _) => Unit::Nsec,
                };
                if self.unit == Unit::Untimed {
                    self.locks.iter_mut().for_each(|lock| lock.time = Time::Unmeasured);
                }
            }
        }
    }

    /// Finds the base of the percentages. `-P` leaves no other trace, so the base that reproduces them all is
    /// the right one.
    fn percent_of(&self) -> Percent {
        let times = self.locks.iter().map(|lock| lock.total_time(self.counts).unwrap_or(0.0));
        let time_sum: f64 = times.clone().sum();
        let count_sum = self.events.unwrap_or(0) as f64;
        let fits =
            |share: f64, lock: &Lock| lock.share_pct.is_some_and(|pct| (pct as f64 - share).abs() <= 0.51);
        if self.locks.is_empty() {
            Percent::Unknown
        } else if self.locks.iter().all(|lock| fits(100.0 * lock.count as f64 / count_sum, lock)) {
            Percent::Count
        } else if self.cut().is_some() {
            // The time of missing rows is unknown, but counts do not explain the percentages.
            Percent::Time
        } else if self.locks.iter().zip(times).all(|(lock, time)| {
            let share = 100.0 * time / time_sum;
            // The mean was truncated to a whole number, so the share is reproduced only approximately.
            lock.share_pct.is_some_and(|pct| (pct as f64 - share).abs() <= 1.0)
        }) {
            Percent::Time
        } else {
            Percent::Unknown
        }
    }
}
