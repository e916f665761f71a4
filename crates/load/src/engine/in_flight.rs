//! The events in flight, as the conductor and the audit read them.

use std::sync::atomic::Ordering;

use super::connection_slot::{ConnectionSlot, Gone, InFlight};
use super::shared::Engine;
use crate::schedule::pace::Scratch;

impl Engine {
    /// The events that the connections hold: thread, slot number in the schedule, and the event as the thread
    /// stored it.
    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, u64, InFlight)> + '_ {
        let connection_slots = (0..self.workers.len()).flat_map(|worker| {
            self.connection_slots_of(worker).map(move |connection_slot| (worker, connection_slot))
        });
        connection_slots.filter_map(|(worker, connection_slot)| {
            let connection_slot = &self.connection_slots[connection_slot];
            let number = connection_slot.number()?;
            let due_ns = connection_slot.due_ns.load(Ordering::SeqCst);
            let is_measured = connection_slot.is_measured.load(Ordering::SeqCst);
            Some((worker, number, InFlight { due_ns, is_measured, begun: connection_slot.begun() }))
        })
    }

    /// Number of events that are due, or in a closed loop begun, and have not ended; uses no stamps of the
    /// events.
    pub(crate) fn in_system(&self, scratch: &mut Scratch) -> u64 {
        let ended = self.ended();
        match self.timeline().due_before(self.clock.now_ns(), scratch) {
            Some(due) => due.saturating_sub(ended),
            None => self.in_hand(),
        }
    }

    /// Events of all phases that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.connection_slots
            .iter()
            .map(|connection_slot| connection_slot.ended.load(Ordering::Relaxed))
            .sum()
    }

    /// Mean idle time of the connections before `until_ns`, for want of events.
    pub(crate) fn idle_s(&self, until_ns: u64) -> f64 {
        let left = self
            .connection_slots
            .iter()
            .map(|connection_slot| connection_slot.left_ns.load(Ordering::SeqCst))
            .filter(|ns| *ns > 0);
        let idle_ns: u64 = left.map(|left_ns| until_ns.saturating_sub(left_ns)).sum();
        idle_ns as f64 / 1e9 / self.connection_slots.len() as f64
    }

    /// The times at which connections were lost that have no successor, and no event that waits for one.
    pub(crate) fn lost_since_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let idle = self.connection_slots.iter().filter(|connection_slot| connection_slot.number().is_none());
        let gone = idle.filter_map(ConnectionSlot::gone_since);
        gone.filter(|(_, gone)| *gone == Gone::Lost).map(|(gone_ns, _)| gone_ns)
    }

    /// Number of events in flight.
    pub(crate) fn in_hand(&self) -> u64 {
        self.connection_slots.iter().filter(|connection_slot| connection_slot.number().is_some()).count()
            as u64
    }
}
