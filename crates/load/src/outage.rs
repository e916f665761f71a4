//! When the server could not be reached, and whom that hit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// One stretch without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first failure.
    pub(crate) from_ns: u64,
    /// The first success of something that began after it; `None` while there is none.
    pub(crate) until_ns: Option<u64>,
    /// Events due before the first failure that failed a try because of it.
    pub(crate) hit_before: u64,
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
            spans.push(Span { from_ns: at_ns, until_ns: None, hit_before: 0 });
            self.open.store(true, Ordering::SeqCst);
        }
        if let (Some(span), Some(due_ns)) = (spans.last_mut(), due_ns) {
            // Two workers find out in any order: the earlier stamp is when it began.
            span.from_ns = span.from_ns.min(at_ns);
            span.hit_before += u64::from(due_ns < span.from_ns);
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
        assert_eq!(
            log.spans(),
            [
                Span { from_ns: 100, until_ns: Some(170), hit_before: 1 },
                Span { from_ns: 300, until_ns: None, hit_before: 1 }
            ]
        );
    }
}
