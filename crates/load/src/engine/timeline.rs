//! Beginning and end of the phases of a load.

use std::sync::Arc;

use record::load::LoadSettings;

use crate::schedule::clock::{NEVER_NS, to_ns};
use crate::schedule::due::{Due, Slot};
use crate::schedule::pace::Scratch;
use crate::schedule::share::Share;

/// Beginning and end of the phases, and the events due in them.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) start_ns: u64,
    /// The load has reached its full rate.
    pub(crate) warmup_from_ns: u64,
    pub(crate) measured_from_ns: u64,
    /// The planned end; the actual one may come earlier.
    pub(crate) measured_until_ns: u64,
    /// The load has fallen to nothing.
    pub(crate) closes_ns: u64,
    /// `None` in a closed loop.
    pub(crate) due: Option<Due>,
}

impl Timeline {
    /// - `recorded`: due times, if arrivals are replayed.
    /// - `changes_max`: the maximum number of rate changes.
    pub(crate) fn new(
        settings: &LoadSettings,
        recorded: &Arc<[u64]>,
        share: &Share,
        start_ns: u64,
        changes_max: usize,
    ) -> Self {
        let warmup_from_ns = start_ns + to_ns(settings.ramp_up);
        let measured_from_ns = warmup_from_ns + to_ns(settings.warmup);
        let measured_until_ns = measured_from_ns + to_ns(settings.time);
        let closes_ns = measured_until_ns + to_ns(settings.ramp_down);
        let due = settings
            .pace
            .as_open()
            .map(|open| Due::new(settings, open, recorded, share.clone(), changes_max));
        Self { start_ns, warmup_from_ns, measured_from_ns, measured_until_ns, closes_ns, due }
    }

    /// The same timeline, with another beginning.
    pub(crate) fn moved_to(self, start_ns: u64) -> Self {
        let moved = |ns: u64| ns - self.start_ns + start_ns;
        Self {
            start_ns,
            warmup_from_ns: moved(self.warmup_from_ns),
            measured_from_ns: moved(self.measured_from_ns),
            measured_until_ns: moved(self.measured_until_ns),
            closes_ns: moved(self.closes_ns),
            due: self.due,
        }
    }

    /// Whether the load falls at its end.
    pub(crate) fn falls(&self) -> bool {
        self.closes_ns > self.measured_until_ns
    }

    /// Events of all phases that are due before `t_ns`; `None` in a closed loop.
    pub(crate) fn due_before(&self, t_ns: u64, scratch: &mut Scratch) -> Option<u64> {
        let row = self.due.as_ref()?.row();
        let since_ns = t_ns.saturating_sub(self.measured_until_ns);
        let after = row.after_due_before(since_ns, scratch);
        Some(row.due_before(t_ns.saturating_sub(self.start_ns), scratch) + after)
    }

    /// Events of the measured phase that are due before `t_ns`; 0 in a closed loop.
    pub(crate) fn measured_due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let since_ns = t_ns.saturating_sub(self.start_ns);
        self.due.as_ref().map_or(0, |due| due.row().measured_due_before(since_ns, scratch))
    }

    /// The highest rate of the measured phase until `t_ns`, in this share; `None` in a closed loop.
    pub(crate) fn rate_per_s_max(&self, t_ns: u64) -> Option<f64> {
        Some(self.due.as_ref()?.row().rate_per_s_max(t_ns.saturating_sub(self.start_ns)))
    }

    pub(crate) fn due_ns(&self, slot: &Slot) -> u64 {
        // A log that is replayed slowly may have due times in centuries.
        slot.due_ns.map_or(NEVER_NS, |due_ns| self.start_ns.saturating_add(due_ns).min(NEVER_NS - 1))
    }
}
