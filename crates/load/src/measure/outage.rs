//! Outages of the server, and the events that failed because of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::measure::counting::Counting;

/// One outage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "units end the name")]
pub(crate) struct Span {
    /// Time of the first failure.
    pub(crate) from_ns: u64,
    /// Time of its end; `None` if nothing that began after the first failure has succeeded yet.
    ///
    /// The time of the first such success, or of `made_ns` if the new connection was idle for longer than the
    /// outage had lasted: the time until the next event is due says nothing about the server.
    pub(crate) until_ns: Option<u64>,
    /// Time at which a connection was made that has carried nothing yet; `None` if there was none, or an
    /// attempt failed later.
    made_ns: Option<u64>,
    /// Due times of the events that failed a try because of it; about one for each worker, since a worker
    /// reconnects before its next event.
    hits_due_ns: Vec<u64>,
}

impl Span {
    /// Time of its end, as known at `now_ns`.
    pub(crate) fn until_ns(&self, now_ns: u64) -> Option<u64> {
        self.until_ns.or_else(|| self.idle_since_ns(now_ns))
    }

    /// Time at which the new connection was made, if it was idle until `now_ns` for longer than the outage
    /// had lasted.
    ///
    /// A shorter time proves less: the kernel accepts connections for a server that is starting.
    fn idle_since_ns(&self, now_ns: u64) -> Option<u64> {
        self.made_ns.filter(|made_ns| now_ns.saturating_sub(*made_ns) > made_ns.saturating_sub(self.from_ns))
    }

    /// Events due from `from_ns` on, and before the first failure, that failed a try because of it.
    ///
    /// Counted at the end: a failure that seemed to be the first may turn out to follow an earlier one.
    pub(crate) fn hit_before(&self, from_ns: u64) -> u64 {
        self.hits_due_ns.iter().filter(|due_ns| (from_ns..self.from_ns).contains(due_ns)).count() as u64
    }

    /// Events due from `from_ns` on that failed a try because of it.
    pub(crate) fn hit_from(&self, from_ns: u64) -> u64 {
        self.hits_due_ns.iter().filter(|due_ns| **due_ns >= from_ns).count() as u64
    }
}

/// A failure of a connection, as its worker reports it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failed {
    /// A connection that was made at `made_ns` broke.
    Lost {
        /// Time at which it was made.
        made_ns: u64,
        /// Whether it carried an answer. One that did not counts as refused: the kernel accepts connections
        /// for a server that is away.
        has_answered: bool,
        /// Time at which its end was detected.
        at_ns: u64,
        /// Due time of the event in flight, if this is the first such failure of the event.
        due_ns: Option<u64>,
    },
    /// A connection could not be made.
    Refused {
        /// Time of the attempt.
        began_ns: u64,
        /// Time at which the failure was detected.
        at_ns: u64,
    },
}

impl Failed {
    /// Time from which the connection or the attempt can tell something of the server.
    fn began_ns(self) -> u64 {
        match self {
            Self::Lost { made_ns, .. } => made_ns,
            Self::Refused { began_ns, .. } => began_ns,
        }
    }

    /// Whether the failure belongs to `span` and not to a later one, however late its worker reports it.
    fn belongs_to(&self, span: &Span) -> bool {
        span.until_ns.is_none_or(|until_ns| match *self {
            Self::Lost { made_ns, has_answered: true, at_ns, .. } => {
                made_ns <= span.from_ns || at_ns <= until_ns
            }
            Self::Lost { made_ns, has_answered: false, .. } => made_ns <= until_ns,
            Self::Refused { began_ns, .. } => began_ns <= until_ns,
        })
    }
}

/// Number of outages that the log lists: half of them the newest, half of them the longest of the others.
const LISTED_MAX: usize = 1_000;

/// The outages of a run. Workers write to it only when a connection fails, and once when one succeeds again.
///
/// A server that breaks every second event has thousands of outages a second: the log lists some of them, and
/// counts the others.
#[derive(Debug, Default)]
pub(crate) struct OutageLog {
    open: AtomicBool,
    spans: Mutex<Vec<Span>>,
    unlisted: Mutex<Unlisted>,
}

/// The outages of the measured phase that the log does not list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unlisted {
    pub(crate) count: u64,
    /// Total time of these outages in the phase.
    pub(crate) for_ns: u64,
}

impl OutageLog {
    /// Records that a connection failed.
    pub(crate) fn failed(&self, failed: Failed) {
        let (at_ns, due_ns) = match failed {
            Failed::Lost { at_ns, due_ns, .. } => (at_ns, due_ns),
            Failed::Refused { at_ns, .. } => (at_ns, None),
        };
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(span) = spans.last_mut().filter(|span| failed.belongs_to(span)) {
            // Workers report in any order: the earliest stamp is the beginning.
            span.from_ns = span.from_ns.min(at_ns);
            span.hits_due_ns.extend(due_ns);
            span.made_ns = span.made_ns.filter(|made_ns| failed.began_ns() < *made_ns);
        } else {
            let hits_due_ns = Vec::from_iter(due_ns);
            spans.push(Span { from_ns: at_ns, until_ns: None, made_ns: None, hits_due_ns });
            self.open.store(true, Ordering::SeqCst);
        }
    }

    /// Records that a connection was made at `at_ns`, before it has carried anything.
    pub(crate) fn made(&self, at_ns: u64) {
        if !self.open.load(Ordering::Relaxed) {
            return;
        }
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(span) = spans.last_mut().filter(|s| s.until_ns.is_none() && at_ns > s.from_ns) {
            span.made_ns.get_or_insert(at_ns);
        }
    }

    /// Whether there was an outage at any time from `from_ns` until `until_ns`.
    pub(crate) fn touches(&self, from_ns: u64, until_ns: u64) -> bool {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        // They are in order: one that ended before has only earlier ones before it.
        let newest = spans.iter().rev();
        let mut recent = newest.take_while(|s| s.until_ns(until_ns).is_none_or(|end_ns| end_ns > from_ns));
        recent.any(|s| s.from_ns < until_ns)
    }

    /// Counts the shorter of the older outages instead of listing them, if there are many.
    pub(crate) fn shorten(&self, phase: &Counting) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() < 2 * LISTED_MAX {
            return;
        }
        let older = spans.len() - LISTED_MAX / 2;
        let newest = spans.split_off(older);
        // All but the newest have ended.
        let ended_ns = |span: &Span| span.until_ns.unwrap_or(span.from_ns);
        spans.sort_by_key(|span| std::cmp::Reverse(ended_ns(span).saturating_sub(span.from_ns)));
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        for span in spans.drain(LISTED_MAX / 2..) {
            let for_ns = phase.inside_ns(span.from_ns, ended_ns(&span));
            unlisted.count += u64::from(for_ns > 0);
            unlisted.for_ns += for_ns;
        }
        spans.sort_by_key(|span| span.from_ns);
        spans.extend(newest);
        spans.shrink_to(2 * LISTED_MAX);
    }

    /// The outages of the measured phase that are not in [`Self::spans`].
    pub(crate) fn unlisted(&self) -> Unlisted {
        *self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that something that began at `began_ns` succeeded at `at_ns`.
    pub(crate) fn succeeded(&self, began_ns: u64, at_ns: u64) {
        if self.open.load(Ordering::Relaxed) {
            self.close(began_ns, at_ns);
        }
    }

    /// Whether the server cannot be reached at the moment.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// The listed outages so far, oldest first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self, began_ns: u64, at_ns: u64) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        // An answer that was already on its way when the server died proves nothing: only what began
        // afterwards does.
        if let Some(span) = spans.last_mut().filter(|s| s.until_ns.is_none() && began_ns > s.from_ns) {
            span.until_ns = Some(span.idle_since_ns(began_ns).unwrap_or(at_ns));
            self.open.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::counting::By;

    /// A connection made at the very beginning, and lost at `at_ns`.
    fn lost(at_ns: u64, due_ns: Option<u64>) -> Failed {
        Failed::Lost { made_ns: 0, has_answered: true, at_ns, due_ns }
    }

    #[test]
    fn an_outage_lasts_from_the_first_failure_to_the_first_new_success() {
        let log = OutageLog::default();
        log.succeeded(1, 2);
        log.failed(lost(100, Some(90)));
        log.failed(lost(101, Some(100)));
        log.failed(lost(150, None));
        assert!(log.is_open());
        log.succeeded(99, 102); // Was under way before.
        assert!(log.is_open());
        log.succeeded(160, 170);
        log.succeeded(161, 171);
        assert!(!log.is_open());
        log.failed(Failed::Lost { made_ns: 165, has_answered: true, at_ns: 300, due_ns: Some(290) });
        let told: Vec<_> = log.spans().iter().map(|s| (s.from_ns, s.until_ns, s.hit_before(0))).collect();
        assert_eq!(told, [(100, Some(170), 1), (300, None, 1)]);
    }

    #[test]
    fn a_worker_that_says_late_what_it_saw_begins_no_second_outage() {
        let log = OutageLog::default();
        log.failed(lost(100, Some(90)));
        log.succeeded(160, 170);
        // The attempt began before the server was back; its worker lost its core before it could report the
        // refusal.
        log.failed(Failed::Refused { began_ns: 159, at_ns: 175 });
        // Its connection died with the first, and was used again only now.
        log.failed(lost(180, Some(95)));
        // The kernel accepted it for the server, which closed it; this was detected after another's answer.
        log.failed(Failed::Lost { made_ns: 150, has_answered: false, at_ns: 172, due_ns: None });
        // It had answered, and ended before the server was back.
        log.failed(Failed::Lost { made_ns: 120, has_answered: true, at_ns: 169, due_ns: None });
        assert!(!log.is_open());
        let told: Vec<_> = log.spans().iter().map(|s| (s.from_ns, s.until_ns, s.hit_before(0))).collect();
        assert_eq!(told, [(100, Some(170), 2)]);
    }

    /// At 4 events per second, one connection breaks, and the next is made 1 us later.
    #[test]
    fn the_time_until_the_next_event_is_due_is_no_outage() {
        let log = OutageLog::default();
        log.failed(lost(1_000, Some(900)));
        log.made(2_000);
        assert!(
            !log.touches(5_000, 6_000) && log.touches(0, 1_001),
            "its end is known before the next event"
        );
        assert_eq!(log.spans()[0].until_ns(240_000), Some(2_000), "a phase may end before the next event");
        log.succeeded(240_000, 240_300);
        assert_eq!(log.spans()[0].until_ns, Some(2_000));
        // A server that is starting: the kernel accepts the connection at once, and an event waited for it.
        log.failed(lost(300_000, Some(299_000)));
        log.failed(Failed::Refused { began_ns: 310_000, at_ns: 310_100 });
        log.made(400_000);
        log.succeeded(400_010, 700_000);
        assert_eq!(log.spans()[1].until_ns, Some(700_000));
        // A connection that was accepted, and closed by a server that was not there.
        log.failed(lost(800_000, None));
        log.made(800_500);
        log.failed(Failed::Lost { made_ns: 800_500, has_answered: false, at_ns: 900_000, due_ns: None });
        log.made(950_000);
        log.made(960_000);
        // A connection of before the outage, of which its worker tells late, does not change what is known.
        log.failed(lost(800_001, None));
        log.succeeded(2_000_000, 2_000_100);
        assert_eq!(log.spans()[2].until_ns, Some(950_000));
        assert!(!log.is_open());
    }

    #[test]
    fn an_event_due_after_the_first_failure_is_not_counted_as_hit_before_it() {
        let log = OutageLog::default();
        log.failed(lost(120, Some(110)));
        log.failed(lost(100, Some(90))); // Told later, stamped earlier.
        log.failed(lost(130, Some(95)));
        let span = &log.spans()[0];
        assert_eq!((span.from_ns, span.hit_before(0)), (100, 2));
        log.failed(lost(80, None));
        assert_eq!((log.spans()[0].from_ns, log.spans()[0].hit_before(0)), (80, 0));
    }

    #[test]
    fn a_flood_of_outages_takes_bounded_memory_and_loses_none() {
        let log = OutageLog::default();
        let phase = Counting { from_ns: 100_000, until_ns: u64::MAX, by: By::Part };
        // Each lasts 10 ns, and each thousandth 500 ns.
        let count = 1_000_000;
        let length_ns = |n: u64| if n.is_multiple_of(1_000) { 500 } else { 10 };
        for n in 0..count {
            let from_ns = 1_000 * n;
            log.failed(Failed::Lost {
                made_ns: from_ns,
                has_answered: true,
                at_ns: from_ns,
                due_ns: Some(from_ns),
            });
            log.shorten(&phase);
            log.succeeded(from_ns + 1, from_ns + length_ns(n));
        }
        let (spans, unlisted) = (log.spans(), log.unlisted());
        assert!(spans.len() <= 2 * LISTED_MAX, "{}", spans.len());
        assert!(spans.is_sorted_by_key(|span| span.from_ns));
        let in_phase = spans.iter().filter(|span| span.from_ns >= 100_000);
        let listed_ns: u64 = in_phase.clone().map(|span| span.until_ns.unwrap() - span.from_ns).sum();
        let all_ns: u64 = (100..count).map(length_ns).sum();
        assert_eq!(in_phase.count() as u64 + unlisted.count, count - 100);
        assert_eq!(listed_ns + unlisted.for_ns, all_ns);
        // The newest, and the longest.
        assert_eq!(spans.last().map(|span| span.from_ns), Some(1_000 * (count - 1)));
        let long = spans.iter().filter(|span| span.until_ns == Some(span.from_ns + 500)).count();
        assert!(long >= LISTED_MAX / 2, "{long}");
        assert!(log.touches(1_000 * (count - 1), u64::MAX) && !log.touches(1_000 * count, u64::MAX));
        assert!(log.touches(1_000 * (count - 3), 1_000 * (count - 3) + 5));
    }

    #[test]
    fn an_event_of_the_warm_up_is_not_hit() {
        let log = OutageLog::default();
        log.failed(lost(100, Some(70)));
        log.failed(lost(101, Some(85)));
        assert_eq!(log.spans()[0].hit_before(80), 1);
        assert_eq!(log.spans()[0].hit_before(200), 0, "an outage that began in the warm-up");
    }
}
