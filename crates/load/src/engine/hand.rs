//! What one connection has in hand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The slot of a hand that holds no event.
const NONE: u64 = 0;

/// What one connection has in hand.
#[derive(Default)]
pub(crate) struct Hand {
    /// Number + 1 of the slot in hand; [`NONE`] while it has none. Written in sections of its recorder only.
    slot: AtomicU64,
    /// When the event in hand was due.
    pub(super) due_ns: AtomicU64,
    /// Whether the event in hand belongs to the measured phase.
    pub(super) is_measured: AtomicBool,
    /// When the event in hand began; 0 where it has not. Written without a section: after `wait_ns`, which goes with it.
    start_ns: AtomicU64,
    /// How long the event in hand had waited for a free worker when it began.
    wait_ns: AtomicU64,
    /// When its last event ended.
    pub(crate) last_end_ns: AtomicU64,
    /// Events that it has ended, of all phases.
    pub(super) ended: AtomicU64,
    /// When it found that no event of a limited number was left; 0 before.
    pub(super) left_ns: AtomicU64,
}

/// What a connection holds, as its thread knows it.
pub(crate) struct Held {
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

impl Hand {
    /// Inside a section, whose end orders these stores before the audit's loads. Until then others only count.
    pub(super) fn hold(&self, slot: u64, due_ns: u64, is_measured: bool) {
        self.due_ns.store(due_ns, Ordering::Relaxed);
        self.is_measured.store(is_measured, Ordering::Relaxed);
        self.start_ns.store(0, Ordering::Relaxed);
        self.slot.store(slot + 1, Ordering::Release);
    }

    /// The number of the slot in hand.
    pub(super) fn number(&self) -> Option<u64> {
        self.slot.load(Ordering::SeqCst).checked_sub(NONE + 1)
    }

    /// The event in hand begins at `start_ns`, with the stamp that was taken for it anyway.
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

    /// The event in hand has its fate in the recorder.
    pub(crate) fn release(&self, end_ns: u64) {
        self.last_end_ns.store(end_ns, Ordering::Relaxed);
        self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.slot.store(NONE, Ordering::Release);
    }
}
