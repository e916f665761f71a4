//! The audit at the end of a load: every event that was due, or taken, and has not ended.

use std::num::NonZeroU64;

use record::event::{EventRow, Fate};
use record::histogram::Histogram;
use record::load::Schedule;

use crate::engine::{Begun, Engine};
use crate::measure::counting::Counting;
use crate::schedule::due::WARMUP_CHANCE;
use crate::schedule::due::{Due, Row};
use crate::schedule::pace::Scratch;

/// Maximum number of rows of unfinished events in the log of events.
const ROWS_MAX: usize = 1 << 22;

/// The events that did not end.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// Duration so far of each event of the measured phase.
    pub(crate) at_least: Histogram,
    /// Duration since the start, of those that had begun.
    pub(crate) service_at_least: Histogram,
    /// Wait so far, of those that had not begun.
    pub(crate) wait_at_least: Histogram,
    /// The events that had begun. Empty in a closed loop.
    pub(crate) begun: Vec<BegunTimes>,
    /// Time of the measured phase that connections spent with events that never ended.
    pub(crate) held_ns: u64,
    /// Time of the measured phase for which connections were lost that have no successor.
    pub(crate) lost_ns: u64,
    /// Number of events of the warm-up.
    pub(crate) warmup: u64,
    /// Rows of the measured phase for the log of events.
    pub(crate) rows: Vec<EventRow>,
    /// Rows that found no room in the log.
    pub(crate) unlogged: u64,
}

/// Times of an event that had begun and not ended.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "each has its unit")]
pub(crate) struct BegunTimes {
    pub(crate) wait_ns: u64,
    pub(crate) lateness_ns: u64,
    /// Duration so far, less the generator's part.
    pub(crate) server_ns: u64,
}

/// State of the audit.
struct Audit<'a> {
    engine: &'a Engine,
    counting: Counting,
    until_ns: u64,
    /// Time at which the last look at the events in flight ended.
    looked_until_ns: u64,
    is_logged: bool,
    found: Unfinished,
}

/// Finds every event that was due and has not ended. Call it after the books were closed.
///
/// - `until_ns`: end of the measured phase.
/// - `looked_until_ns`: the time until which the events in flight were observed.
/// - `is_logged`: whether each gets a row in the log of events.
pub(crate) fn unfinished(
    engine: &Engine,
    until_ns: u64,
    looked_until_ns: u64,
    is_logged: bool,
    scratch: &mut Scratch,
) -> Unfinished {
    let found = Unfinished::default();
    let mut audit =
        Audit { engine, counting: engine.counting(), until_ns, looked_until_ns, is_logged, found };
    let Some(due) = &engine.timeline().due else {
        for (_, _, held) in engine.held() {
            audit.note_held(held.due_ns, held.is_measured, held.begun);
        }
        let lost = engine.lost_since_ns().map(|lost_ns| audit.counting.inside_ns(lost_ns, until_ns));
        audit.found.lost_ns = lost.sum();
        return audit.found;
    };
    // Use the last row: a thread may hold an event and not know yet that its due time has changed.
    let row = due.row();
    let mut next_own = engine.next_own();
    for (worker, number, held) in engine.held() {
        if number & WARMUP_CHANCE != 0 {
            audit.note_held(held.due_ns, held.is_measured, held.begun);
            continue;
        }
        let slot = due.slot(row, number, worker, scratch);
        audit.note_held(engine.timeline().due_ns(&slot), slot.is_measured, held.begun);
        if slot.number != number {
            next_own[worker] = due.next_own(slot.number);
        }
    }
    match due.schedule() {
        Schedule::Shared => audit.note_shared(due, row, scratch),
        Schedule::Own => {
            for (worker, next) in next_own.into_iter().enumerate() {
                audit.note_own(due, row, worker, next, scratch);
            }
        }
    }
    audit.found
}

impl Audit<'_> {
    /// Counts an event in flight.
    fn note_held(&mut self, due_ns: u64, is_measured: bool, begun: Option<Begun>) {
        let found = &mut self.found;
        found.held_ns += self.counting.inside_ns(due_ns, self.until_ns);
        found.warmup += u64::from(!is_measured && due_ns < self.counting.from_ns);
        if due_ns >= self.until_ns || !self.counting.has_taken(due_ns, is_measured) {
            return;
        }
        let lasted_ns = self.looked_until_ns.saturating_sub(due_ns);
        found.at_least.record(lasted_ns);
        if let Some(Begun { claim_ns, start_ns }) = begun {
            found.service_at_least.record(self.looked_until_ns.saturating_sub(start_ns));
            if self.engine.timeline().due.is_some() {
                let wait_ns = claim_ns.saturating_sub(due_ns);
                let lateness_ns = start_ns.saturating_sub(due_ns + wait_ns);
                let stopped_ns = self.engine.stops.within_ns(due_ns, self.looked_until_ns);
                let server_ns = lasted_ns.saturating_sub(lateness_ns.max(stopped_ns));
                found.begun.push(BegunTimes { wait_ns, lateness_ns, server_ns });
            }
        } else {
            found.wait_at_least.record(lasted_ns);
        }
        if self.is_logged {
            self.found.push_row(due_ns, begun);
        }
    }

    /// Counts the events that no thread took, if all threads share the events.
    fn note_shared(&mut self, due: &Due, row: &Row, scratch: &mut Scratch) {
        let (share, next) = (self.engine.share.clone(), self.engine.next_shared());
        for stretch in row.stretches() {
            let first = share.below(stretch.first).max(next);
            let end = share.below(stretch.first + stretch.count);
            if first < end {
                let due_ns = |k| {
                    let slot = due.slot(row, share.number(first + k), 0, scratch);
                    self.engine.timeline().due_ns(&slot)
                };
                self.found.note_untaken(
                    end - first,
                    stretch.is_measured,
                    self.until_ns,
                    self.is_logged,
                    due_ns,
                );
            }
        }
    }

    /// Counts the events of the thread `worker` that it did not take, from `next` on.
    fn note_own(&mut self, due: &Due, row: &Row, worker: usize, next: u64, scratch: &mut Scratch) {
        let mut slot = due.slot(row, next, worker, scratch);
        while slot.due_ns.is_some() && self.engine.timeline().due_ns(&slot) < self.until_ns {
            let (first, is_measured) = (slot.number, slot.is_measured);
            let count = (row.own_end(first) - first).div_ceil(due.next_own(0));
            let due_ns = |k| {
                let number = first + k * due.next_own(0);
                let slot = due.slot(row, number, worker, scratch);
                // A change of the rate cut it off: the thread's next event is in the next stretch.
                if slot.number == number { self.engine.timeline().due_ns(&slot) } else { u64::MAX }
            };
            let noted = self.found.note_untaken(count, is_measured, self.until_ns, self.is_logged, due_ns);
            slot = due.slot(row, first + noted * due.next_own(0), worker, scratch);
        }
    }
}

impl Unfinished {
    /// Counts those of `count` untaken events that were due before `until_ns`. `due_ns` returns the due time
    /// of each by its position and rises. Returns their number.
    ///
    /// Evaluates a few events for each bucket of the histogram, not every event: after an hour of overload
    /// there are billions.
    fn note_untaken(
        &mut self,
        count: u64,
        is_measured: bool,
        until_ns: u64,
        is_logged: bool,
        mut due_ns: impl FnMut(u64) -> u64,
    ) -> u64 {
        let due = first(0, count, |k| due_ns(k) >= until_ns);
        if !is_measured {
            self.warmup += due;
            return due;
        }
        let mut end = due;
        while end > 0 {
            let lasted_ns = until_ns - due_ns(end - 1);
            let bucket_ns = self.at_least.as_hdr().highest_equivalent(lasted_ns);
            let is_in_bucket = |k: u64| until_ns - due_ns(k) <= bucket_ns;
            let begin = first_of_last_run(end, is_in_bucket);
            self.at_least.record_n(lasted_ns, end - begin);
            self.wait_at_least.record_n(lasted_ns, end - begin);
            end = begin;
        }
        if is_logged {
            for k in 0..due {
                if self.rows.len() >= ROWS_MAX {
                    self.unlogged += due - k;
                    break;
                }
                self.push_row(due_ns(k), None);
            }
        }
        due
    }

    fn push_row(&mut self, due_ns: u64, begun: Option<Begun>) {
        self.rows.push(EventRow {
            due_ns,
            claim_ns: begun.and_then(|begun| NonZeroU64::new(begun.claim_ns)),
            start_ns: begun.and_then(|begun| NonZeroU64::new(begun.start_ns)),
            end_ns: None,
            operation: None,
            fate: Fate::Unfinished,
        });
    }
}

/// The first of `low` .. `high` for which `holds`, which holds for all after it; `high` if for none.
fn first(mut low: u64, mut high: u64, mut holds: impl FnMut(u64) -> bool) -> u64 {
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Variant of [`first`] for 0 .. `end`, if it holds for `end - 1` and for few before that: searches from the
/// end.
fn first_of_last_run(end: u64, mut holds: impl FnMut(u64) -> bool) -> u64 {
    let (mut known, mut step) = (end - 1, 1);
    while known > 0 {
        let probe = known.saturating_sub(step);
        if !holds(probe) {
            return first(probe + 1, known, holds);
        }
        (known, step) = (probe, step * 2);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_counted_by_buckets_as_it_would_be_one_by_one() {
        let due_ns = |k: u64| k * k * 7;
        for (count, until_ns) in [(0, 100), (1, 1), (10, 0), (5_000, 100_000_000), (5_000, 1_000_000_000)] {
            let mut found = Unfinished::default();
            let noted = found.note_untaken(count, true, until_ns, true, due_ns);
            let mut expected = Histogram::new();
            (0..count)
                .map(due_ns)
                .filter(|due| *due < until_ns)
                .for_each(|due| expected.record(until_ns - due));
            assert_eq!((noted, found.rows.len() as u64), (expected.count(), expected.count()));
            assert!(found.at_least.buckets().eq(expected.buckets()), "{count} until {until_ns}");
            assert!(found.wait_at_least.buckets().eq(expected.buckets()));
        }
    }

    #[test]
    fn billions_are_counted_without_looking_at_each() {
        let mut found = Unfinished::default();
        let mut looks = 0u64;
        let noted = found.note_untaken(3_600_000_000, true, 3_600_000_000_000, false, |k| {
            looks += 1;
            k * 1_000
        });
        assert_eq!((noted, found.at_least.count()), (3_600_000_000, 3_600_000_000));
        assert!(looks < 1_000_000, "{looks} looks");
    }
}
