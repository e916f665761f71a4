//! Assignment of events to connection slots, and the due time of each event.

use std::sync::atomic::Ordering;

use record::load::Schedule;

use super::shared::Engine;
use crate::schedule::due::WARMUP_CHANCE;
use crate::schedule::due::{Due, Slot};
use crate::schedule::pace::Scratch;
use crate::schedule::taken::Taken;

/// Interval at which a worker polls for the outcome of an announced rate change.
const ANNOUNCED_NS: u64 = 20_000;
/// Marks the random streams of events in the falling load.
const AFTER_CHANCE: u64 = WARMUP_CHANCE | 1 << 62;

impl Engine {
    /// Takes the next event of an open loop into `connection_slot`, for the thread `worker`; `None` if no
    /// event is left. If the rate may change there is always a next event, though it may be due
    /// [`crate::schedule::clock::NEVER_NS`].
    ///
    /// Must be called inside a section of the worker's recorder, so the books cannot close between taking an
    /// event and recording it.
    pub(crate) fn take_open(
        &self,
        worker: usize,
        connection_slot: usize,
        scratch: &mut Scratch,
    ) -> Option<Taken> {
        let due = self.timeline().due.as_ref()?;
        let number = match due.schedule() {
            // Relaxed: slots must be distinct, and the section orders the rest for the audit.
            Schedule::Shared => self.share.number(self.next.fetch_add(1, Ordering::Relaxed)),
            Schedule::Own => self.workers[worker].next_own.load(Ordering::Relaxed),
        };
        let version = self.version(due);
        let slot = due.slot(due.row_of(version), number, worker, scratch);
        if slot.due_ns.is_none() && !due.may_change() {
            return None;
        }
        Some(self.hold(due, version, &slot, worker, connection_slot))
    }

    /// Returns the event in `connection_slot` with its new due time, if a rate change moved it since `taken`;
    /// call it inside a section, as [`Self::take_open`].
    pub(crate) fn take_again(
        &self,
        taken: &Taken,
        worker: usize,
        connection_slot: usize,
        scratch: &mut Scratch,
    ) -> Option<Taken> {
        let due = self.timeline().due.as_ref()?;
        let version = self.version(due);
        let number = self.connection_slots[connection_slot].number()?;
        if version == taken.version || number & WARMUP_CHANCE != 0 {
            return None;
        }
        let slot = due.slot(due.row_of(version), number, worker, scratch);
        Some(self.hold(due, version, &slot, worker, connection_slot))
    }

    /// Whether a rate change may have moved the due time of `taken`.
    pub(crate) fn may_have_changed(&self, taken: &Taken) -> bool {
        let due = self.timeline().due.as_ref();
        due.is_some_and(|due| due.may_change() && due.version() != Some(taken.version))
    }

    fn hold(&self, due: &Due, version: usize, slot: &Slot, worker: usize, connection_slot: usize) -> Taken {
        if due.schedule() == Schedule::Own {
            self.workers[worker].next_own.store(due.next_own(slot.number), Ordering::Relaxed);
        }
        let due_ns = self.timeline().due_ns(slot);
        self.connection_slots[connection_slot].hold(slot.number, due_ns, slot.is_measured);
        Taken { chance: slot.chance, due_ns, is_measured: slot.is_measured, version }
    }

    /// The number of the current row; waits while an announced change is undecided.
    fn version(&self, due: &Due) -> usize {
        loop {
            if let Some(version) = due.version() {
                return version;
            }
            self.clock.sleep_until_ns(self.clock.now_ns() + ANNOUNCED_NS);
        }
    }

    /// Takes the next event of the falling load into `connection_slot`; call it inside a section, as
    /// [`Self::take_open`].
    pub(crate) fn take_after(&self, connection_slot: usize, scratch: &mut Scratch) -> Option<Taken> {
        let timeline = self.timeline();
        let after = timeline.due.as_ref()?.row().after.as_ref()?;
        let slot = self.share.number(self.next_after.fetch_add(1, Ordering::Relaxed));
        if slot >= after.count() {
            return None;
        }
        let due_ns = timeline.measured_until_ns + after.in_order_ns(slot, scratch);
        let chance = AFTER_CHANCE | slot;
        self.connection_slots[connection_slot].hold(chance, due_ns, false);
        Some(Taken { chance, due_ns, is_measured: false, version: 0 })
    }

    /// The time from which a late event that asks at `now_ns` may start: late events start at least `gap_ns`
    /// apart.
    pub(crate) fn turn_ns(&self, now_ns: u64, gap_ns: u64) -> u64 {
        let next = |turn_ns: u64| Some(turn_ns.max(now_ns) + gap_ns);
        let turn_ns = self.catch_up_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        turn_ns.expect("there is always a next turn").max(now_ns)
    }

    /// Takes the next event of a closed loop into `connection_slot`, at `now_ns`; call it inside a section,
    /// as [`Self::take_open`].
    #[inline]
    pub(crate) fn take_closed(&self, connection_slot: usize, now_ns: u64) -> Option<Taken> {
        let is_measured = (self.timeline().measured_from_ns..self.end_ns()).contains(&now_ns);
        let chance = if is_measured {
            let number = self.share.number(self.next.fetch_add(1, Ordering::Relaxed));
            if self.settings.events_max.is_some_and(|max| number >= max) {
                self.connection_slots[connection_slot].leave(now_ns);
                return None;
            }
            number
        } else {
            WARMUP_CHANCE | self.share.number(self.next_warmup.fetch_add(1, Ordering::Relaxed))
        };
        self.connection_slots[connection_slot].hold(chance, now_ns, is_measured);
        Some(Taken { chance, due_ns: now_ns, is_measured, version: 0 })
    }

    /// Shared schedule: the first slot of this share that no thread has taken, counted within the share.
    pub(crate) fn next_shared(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Own schedule: the first slot of each thread that the thread has not taken.
    pub(crate) fn next_own(&self) -> Vec<u64> {
        self.workers.iter().map(|worker_state| worker_state.next_own.load(Ordering::SeqCst)).collect()
    }
}
