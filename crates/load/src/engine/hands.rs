//! What each connection has in hand, for those who look from outside.

use std::sync::atomic::Ordering;

use super::hand::Held;
use super::shared::Engine;
use crate::schedule::pace::Scratch;

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
