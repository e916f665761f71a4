//! The slot of a connection: its event in flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `scheduled` of a connection slot without an event.
const NONE: u64 = 0;

/// The event in flight on one connection, or on one stream of it.
#[derive(Default)]
pub(crate) struct ConnectionSlot {
    /// Number + 1 of its event in the schedule; [`NONE`] while it has none. Written in sections of its
    /// recorder only.
    scheduled: AtomicU64,
    /// When the event was due.
    pub(super) due_ns: AtomicU64,
    /// Whether the event belongs to the measured phase.
    pub(super) is_measured: AtomicBool,
    /// When the event began; 0 where it has not. Written without a section: after `wait_ns`, which goes with
    /// it.
    start_ns: AtomicU64,
    /// How long the event had waited for a free worker when it began.
    wait_ns: AtomicU64,
    /// When its last event ended.
    pub(crate) last_end_ns: AtomicU64,
    /// Events that it has ended, of all phases.
    pub(super) ended: AtomicU64,
    /// When it found that no event of a limited number was left; 0 before.
    pub(super) left_ns: AtomicU64,
}

/// What a connection holds, as its thread knows it.
pub(crate) struct InFlight {
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
    /// `None` where it has not begun.
    pub(crate) begun: Option<Begun>,
}

/// What is known of an event that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) start_ns: u64,
    pub(crate) wait_ns: u64,
}

impl ConnectionSlot {
    /// Inside a section, whose end orders these stores before the audit's loads. Until then others only
    /// count.
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

    /// The event begins at `start_ns`, with the stamp that was taken for it anyway.
    pub(crate) fn begin(&self, wait_ns: u64, start_ns: u64) {
        self.wait_ns.store(wait_ns, Ordering::Relaxed);
        self.start_ns.store(start_ns, Ordering::Release);
    }

    pub(super) fn begun(&self) -> Option<Begun> {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        (start_ns > 0).then(|| Begun { start_ns, wait_ns: self.wait_ns.load(Ordering::Relaxed) })
    }

    /// There is no event left for it.
    pub(super) fn leave(&self, at_ns: u64) {
        let _ = self.left_ns.compare_exchange(0, at_ns, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The event has its fate in the recorder.
    pub(crate) fn release(&self, end_ns: u64) {
        self.last_end_ns.store(end_ns, Ordering::Relaxed);
        self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.scheduled.store(NONE, Ordering::Release);
    }
}
