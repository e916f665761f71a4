//! When the server could not be reached, and whom that hit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// One stretch without a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "units end the name")]
pub(crate) struct Span {
    /// The first failure.
    pub(crate) from_ns: u64,
    /// The first success of something that began after it; `None` while there is none.
    pub(crate) until_ns: Option<u64>,
    /// Due times of the events that failed a try because of it; about one a worker, who connects again before the next.
    hits_due_ns: Vec<u64>,
}

impl Span {
    /// Events due from `from_ns` on, and before the first failure, that failed a try because of it.
    ///
    /// Counted when all is known: whom a failure seemed to hit first may turn out to be due after an earlier one.
    pub(crate) fn hit_before(&self, from_ns: u64) -> u64 {
        self.hits_due_ns.iter().filter(|due_ns| (from_ns..self.from_ns).contains(due_ns)).count() as u64
    }
}

/// All outages of a run. Workers write it only when a connection fails, and once when one succeeds again.
#[derive(Debug, Default)]
pub(crate) struct OutageLog {
    open: AtomicBool,
    spans: Mutex<Vec<Span>>,
}

impl OutageLog {
    /// A connection failed at `at_ns`; `due_ns` of the event that it carried, at its first such failure.
    pub(crate) fn failed(&self, at_ns: u64, due_ns: Option<u64>) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = spans.last().is_some_and(|s| s.until_ns.is_none());
        if !is_open {
            spans.push(Span { from_ns: at_ns, until_ns: None, hits_due_ns: Vec::new() });
            self.open.store(true, Ordering::SeqCst);
        }
        if let Some(span) = spans.last_mut() {
            // Two workers find out in any order: the earlier stamp is when it began.
            span.from_ns = span.from_ns.min(at_ns);
            span.hits_due_ns.extend(due_ns);
        }
    }

    /// Something that began at `began_ns` succeeded at `at_ns`.
    pub(crate) fn succeeded(&self, began_ns: u64, at_ns: u64) {
        if self.open.load(Ordering::Relaxed) {
            self.close(began_ns, at_ns);
        }
    }

    /// Whether the server cannot be reached at the moment.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// All outages so far, oldest first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self, began_ns: u64, at_ns: u64) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        // An answer that was under way when the server died is no sign of life: only what began afterwards is.
        if let Some(span) = spans.last_mut().filter(|s| s.until_ns.is_none() && began_ns > s.from_ns) {
            span.until_ns = Some(at_ns);
            self.open.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_the_first_failure_to_the_first_new_success() {
        let log = OutageLog::default();
        log.succeeded(1, 2);
        log.failed(100, Some(90));
        log.failed(101, Some(100));
        log.failed(150, None);
        assert!(log.is_open());
        log.succeeded(99, 102); // Was under way before.
        assert!(log.is_open());
        log.succeeded(160, 170);
        log.succeeded(161, 171);
        assert!(!log.is_open());
        log.failed(300, Some(290));
        let told: Vec<_> = log.spans().iter().map(|s| (s.from_ns, s.until_ns, s.hit_before(0))).collect();
        assert_eq!(told, [(100, Some(170), 1), (300, None, 1)]);
    }

    #[test]
    fn an_event_due_after_the_first_failure_is_not_counted_as_hit_before_it() {
        let log = OutageLog::default();
        log.failed(120, Some(110));
        log.failed(100, Some(90)); // Told later, stamped earlier.
        log.failed(130, Some(95));
        let span = &log.spans()[0];
        assert_eq!((span.from_ns, span.hit_before(0)), (100, 2));
        log.failed(80, None);
        assert_eq!((log.spans()[0].from_ns, log.spans()[0].hit_before(0)), (80, 0));
    }

    #[test]
    fn an_event_of_the_warm_up_is_not_hit() {
        let log = OutageLog::default();
        log.failed(100, Some(70));
        log.failed(101, Some(85));
        assert_eq!(log.spans()[0].hit_before(80), 1);
        assert_eq!(log.spans()[0].hit_before(200), 0, "an outage that began in the warm-up");
    }
}
