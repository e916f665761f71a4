//! What each connection has in hand, for those who look from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Engine;
use crate::schedule::pace::Scratch;

/// The slot of a hand that holds no event.
const NONE: u64 = 0;

/// What one connection has in hand.
#[derive(Default)]
pub(crate) struct Hand {
    /// Number + 1 of the slot in hand; [`NONE`] while it has none. Written in sections of its recorder only.
    slot: AtomicU64,
    /// When the event in hand was due.
    due_ns: AtomicU64,
    /// Whether the event in hand belongs to the measured phase.
    is_measured: AtomicBool,
    /// When the event in hand began; 0 where it has not. Written without a section: after `wait_ns`, which goes with it.
    start_ns: AtomicU64,
    /// How long the event in hand had waited for a free worker when it began.
    wait_ns: AtomicU64,
    /// When its last event ended.
    pub(crate) last_end_ns: AtomicU64,
    /// Events that it has ended, of all phases.
    ended: AtomicU64,
    /// When it found that no event of a limited number was left; 0 before.
    left_ns: AtomicU64,
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

impl Engine {
    /// What the connections hold: the thread, the number of the slot, and its due time as the thread knows it.
    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, u64, Held)> + '_ {
        let hands =
            (0..self.posts.len()).flat_map(|worker| self.hands_of(worker).map(move |hand| (worker, hand)));
        hands.filter_map(|(worker, hand)| {
            let hand = &self.hands[hand];
            let number = hand.number()?;
            let due_ns = hand.due_ns.load(Ordering::SeqCst);
            let is_measured = hand.is_measured.load(Ordering::SeqCst);
            Some((worker, number, Held { due_ns, is_measured, begun: hand.begun() }))
        })
    }

    /// Events that are due, or in a closed loop begun, and have not ended; counted without any stamp of theirs.
    pub(crate) fn in_system(&self, scratch: &mut Scratch) -> u64 {
        let ended = self.ended();
        match self.timeline().due_before(self.clock.now_ns(), scratch) {
            Some(due) => due.saturating_sub(ended),
            None => self.in_hand(),
        }
    }

    /// Events of all phases that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.hands.iter().map(|hand| hand.ended.load(Ordering::Relaxed)).sum()
    }

    /// For how long the connections had nothing to do before `until_ns`, on average, because no event was left.
    pub(crate) fn idle_s(&self, until_ns: u64) -> f64 {
        let left = self.hands.iter().map(|hand| hand.left_ns.load(Ordering::SeqCst)).filter(|ns| *ns > 0);
        let idle_ns: u64 = left.map(|left_ns| until_ns.saturating_sub(left_ns)).sum();
        idle_ns as f64 / 1e9 / self.hands.len() as f64
    }

    /// Events in the connections' hands.
    pub(crate) fn in_hand(&self) -> u64 {
        self.hands.iter().filter(|hand| hand.number().is_some()).count() as u64
    }
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

    fn begun(&self) -> Option<Begun> {
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
