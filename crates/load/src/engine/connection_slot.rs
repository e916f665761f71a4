//! The slot of a connection: its event in flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `scheduled` of a connection slot without an event.
const NONE: u64 = 0;

/// The event in flight on one connection, or on one stream of it. Its thread writes it for each event: slots
/// of different threads share no cache line.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ConnectionSlot {
    /// Number + 1 of its event in the schedule; [`NONE`] if it has no event. Written only inside a section of
    /// its recorder.
    scheduled: AtomicU64,
    /// Due time of the event.
    pub(super) due_ns: AtomicU64,
    /// Whether the event belongs to the measured phase.
    pub(super) is_measured: AtomicBool,
    /// Start of the event; 0 before. Written outside of sections, after `claim_ns`, which it publishes.
    start_ns: AtomicU64,
    /// Time at which a worker was free for the event.
    claim_ns: AtomicU64,
    /// End of this slot's last event.
    pub(crate) last_end_ns: AtomicU64,
    /// Events of all phases that this slot has ended.
    pub(super) ended: AtomicU64,
    /// Time at which the slot found that a limited number of events was used up; 0 before.
    pub(super) left_ns: AtomicU64,
    /// Time at which its connection ended; 0 while it has one.
    gone_ns: AtomicU64,
    /// Whether the server closed that connection between two requests.
    is_closed: AtomicBool,
}

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Broken, or given up after a time-out.
    Lost,
    /// Closed by the server between two requests, as its protocol allows.
    Closed,
}

/// The event in a slot, as the slot's thread stored it.
pub(crate) struct InFlight {
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
    /// `None` if the event has not begun.
    pub(crate) begun: Option<Begun>,
}

/// The stamps of an event that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) claim_ns: u64,
    pub(crate) start_ns: u64,
}

impl ConnectionSlot {
    /// Stores the event. Call it inside a section: the section's end orders these stores before the audit's
    /// loads. Until then, other threads only count the slots that hold an event.
    pub(super) fn hold(&self, slot: u64, due_ns: u64, is_measured: bool) {
        self.due_ns.store(due_ns, Ordering::Relaxed);
        self.is_measured.store(is_measured, Ordering::Relaxed);
        self.start_ns.store(0, Ordering::Relaxed);
        self.scheduled.store(slot + 1, Ordering::Release);
    }

    /// The number of the event in the schedule.
    pub(super) fn number(&self) -> Option<u64> {
        self.scheduled.load(Ordering::SeqCst).checked_sub(NONE + 1)
    }

    /// Marks the event as begun at `start_ns`. The caller has that stamp anyway, so this reads no clock.
    pub(crate) fn begin(&self, claim_ns: u64, start_ns: u64) {
        self.claim_ns.store(claim_ns, Ordering::Relaxed);
        self.start_ns.store(start_ns, Ordering::Release);
    }

    pub(super) fn begun(&self) -> Option<Begun> {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        (start_ns > 0).then(|| Begun { claim_ns: self.claim_ns.load(Ordering::Relaxed), start_ns })
    }

    /// Notes that no event is left for this slot.
    pub(super) fn leave(&self, at_ns: u64) {
        let _ = self.left_ns.compare_exchange(0, at_ns, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Notes that the connection ended at `at_ns`, unless no event is left for this slot.
    pub(crate) fn lose(&self, at_ns: u64, gone: Gone) {
        let has_connection = self.gone_ns.load(Ordering::SeqCst) == 0;
        if has_connection && self.left_ns.load(Ordering::SeqCst) == 0 {
            self.is_closed.store(gone == Gone::Closed, Ordering::SeqCst);
            self.gone_ns.store(at_ns, Ordering::SeqCst);
        }
    }

    /// Notes that no connection could be made: whatever ended the last one, the server is away.
    pub(crate) fn refused(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
    }

    /// Moves the end of the connection to the time at which a new one is wanted: a worker that thinks needs
    /// none.
    pub(crate) fn wants(&self, now_ns: u64) {
        let _ = self
            .gone_ns
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |gone_ns| (gone_ns > 0).then_some(now_ns));
    }

    /// Time and manner of the end of the connection; `None` while the slot has a connection.
    pub(crate) fn gone_since(&self) -> Option<(u64, Gone)> {
        let gone = if self.is_closed.load(Ordering::SeqCst) { Gone::Closed } else { Gone::Lost };
        Some((self.gone_ns.load(Ordering::SeqCst), gone)).filter(|(gone_ns, _)| *gone_ns > 0)
    }

    /// Notes that there is a connection again.
    pub(crate) fn regain(&self) {
        self.gone_ns.store(0, Ordering::SeqCst);
    }

    /// Frees the slot once the recorder has the event's outcome.
    pub(crate) fn release(&self, end_ns: u64) {
        self.last_end_ns.store(end_ns, Ordering::Relaxed);
        // Only the slot's thread writes the count, so it needs no locked addition.
        self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.scheduled.store(NONE, Ordering::Release);
    }
}
