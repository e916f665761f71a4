//! The workers' recorders, and how a reader takes them while the workers continue to record.
//!
//! Only the worker writes its [`Recorder`]. A reader can take the recorder at any moment and leave an empty
//! one, however long the worker sleeps or hangs: the worker marks the beginning and the end of each section
//! in which it records; the reader swaps the pointer and waits for at most one such section to end. The
//! worker never waits, allocates or locks.
//!
//! A lock would do the same, but a reader preempted while it holds the lock would stop the worker between an
//! event's due time and its record.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;

use record::event::{EventRow, Fate};
use record::load::ErrorCounts;

use crate::connection::FailureClass;
use crate::measure::counting::Counting;
use crate::measure::tally::Tally;

/// The data that one worker records between two readings.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Response times: from the intended start.
    pub(crate) response: Tally,
    /// Service times: from the actual start.
    pub(crate) service: Tally,
    /// Times from the intended start until the worker was free.
    pub(crate) wait: Tally,
    /// Times from then until the actual start.
    pub(crate) lateness: Tally,
    /// The response less the generator's part of it, event by event.
    pub(crate) server_part: Tally,
    /// Service times of which the generator made more than half.
    pub(crate) delayed: Tally,
    /// Lower bounds of the response of events that timed out; of their service in a closed loop.
    pub(crate) at_least: Tally,
    /// Latency, as progress shows it, of events that were due or began before the measured phase and ended in
    /// it.
    pub(crate) carried_in: Tally,
    /// Service time of failed tries.
    pub(crate) failure: Tally,
    /// Latency of events of the warm-up and of the falling load: displayed, never counted.
    pub(crate) warmup: Tally,
    /// Lower bounds for events of the measured phase that ended after it. In an open loop, events that timed
    /// out in the phase are here too, except for their response.
    pub(crate) late: LateDistributions<Tally>,
    /// Service time by operation.
    pub(crate) operations: Box<[Tally]>,
    /// Counts by outcome.
    pub(crate) outcomes: Box<[u64]>,
    /// Counts by host; empty if there is one host.
    pub(crate) hosts: Box<[OfHost]>,
    /// The events themselves, if they are logged.
    pub(crate) log: Log,
    /// Sums over all events.
    pub(crate) event_counts: EventCounts,
}

impl Recorder {
    /// An empty recorder.
    ///
    /// - `log_room`: number of events that it can log; 0 if events are not logged.
    pub(crate) fn new(operations: usize, outcomes: usize, log_room: usize) -> Self {
        Self {
            response: Tally::new(),
            service: Tally::new(),
            wait: Tally::new(),
            lateness: Tally::new(),
            server_part: Tally::new(),
            delayed: Tally::new(),
            at_least: Tally::new(),
            carried_in: Tally::new(),
            failure: Tally::new(),
            warmup: Tally::new(),
            late: LateDistributions::new(operations, Tally::new),
            operations: (0..operations).map(|_| Tally::new()).collect(),
            outcomes: vec![0; outcomes].into_boxed_slice(),
            hosts: Box::default(),
            log: Log::with_room(log_room),
            event_counts: EventCounts::default(),
        }
    }
}

impl Recorder {
    /// Variant of the recorder that also counts the events of each of several hosts.
    ///
    /// - `count`: the number of hosts; 0 if there is one.
    pub(crate) fn of_hosts(self, count: usize) -> Self {
        Self { hosts: vec![OfHost::default(); count].into_boxed_slice(), ..self }
    }

    /// Notes whether the generator made more than half of a service time: `delay_ns` of it.
    pub(crate) fn note_service(&mut self, service_ns: u64, delay_ns: u64) {
        if 2 * delay_ns > service_ns {
            self.delayed.record(service_ns);
        }
    }

    /// Counts a successful event of the measured phase.
    pub(crate) fn note_done(&mut self, host: usize) {
        self.event_counts.done += 1;
        if let Some(of_host) = self.hosts.get_mut(host) {
            of_host.done += 1;
        }
    }

    /// Counts an event of the measured phase that was given up.
    pub(crate) fn note_failed(&mut self, host: usize) {
        self.event_counts.failed += 1;
        if let Some(of_host) = self.hosts.get_mut(host) {
            of_host.failed += 1;
        }
    }

    /// Counts a failed try.
    pub(crate) fn note_error(&mut self, host: usize, class: FailureClass) {
        count_error(&mut self.event_counts.errors, class);
        if let Some(of_host) = self.hosts.get_mut(host) {
            count_error(&mut of_host.errors, class);
        }
    }
}

/// The counts of one of several hosts in the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfHost {
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) errors: ErrorCounts,
}

impl OfHost {
    pub(crate) fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.failed += other.failed;
        add_errors(&mut self.errors, &other.errors);
    }
}

/// Distributions of events that ended after their phase; each value is a lower bound. `H` is [`Tally`], or
/// the sum of many.
#[derive(Debug)]
pub(crate) struct LateDistributions<H> {
    pub(crate) response: H,
    /// Events that had begun.
    pub(crate) service: H,
    /// Events that found no free worker until then; the wait of all others is known and is with the known
    /// waits.
    pub(crate) wait: H,
    pub(crate) operations: Box<[H]>,
}

impl<H> LateDistributions<H> {
    pub(crate) fn new(operations: usize, make: impl Fn() -> H) -> Self {
        Self {
            response: make(),
            service: make(),
            wait: make(),
            operations: (0..operations).map(|_| make()).collect(),
        }
    }
}

/// Events in the order in which they ended, in preallocated memory; if it has no room, nothing is logged.
#[derive(Debug, Default)]
pub(crate) struct Log {
    rows: Vec<EventRow>,
    /// Events that found no room.
    lost: u64,
}

impl Log {
    /// A log with room for `rows` events. Every page is touched now, so `push` causes no page fault.
    fn with_room(rows: usize) -> Self {
        let nothing = EventRow {
            due_ns: 1,
            claim_ns: None,
            start_ns: None,
            end_ns: None,
            operation: None,
            fate: Fate::Done,
        };
        let mut log = Self { rows: vec![nothing; rows], lost: 0 };
        log.rows.clear();
        log
    }

    pub(crate) fn push(&mut self, row: EventRow) {
        if self.rows.len() < self.rows.capacity() {
            self.rows.push(row);
        } else if self.rows.capacity() > 0 {
            self.lost += 1;
        }
    }

    /// Moves all events to `rows`; returns the number of events that found no room.
    pub(crate) fn drain_into(&mut self, rows: &mut Vec<EventRow>) -> u64 {
        rows.append(&mut self.rows);
        std::mem::take(&mut self.lost)
    }
}

/// Counts of events, as sums that can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventCounts {
    /// Closed loop only: events taken that may belong to the measured phase: all until its end, or, with a
    /// number of events, those taken in it.
    pub(crate) started: u64,
    pub(crate) done: u64,
    /// Part of `done` that began before the phase.
    pub(crate) done_carried_in: u64,
    /// Successful events that an edge of the phase cuts: the sum of their shares in the phase, in billionths.
    pub(crate) part_e9: u64,
    /// Time that those events took from the beginning of the phase on.
    pub(crate) cut_ns: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Measured events that ended or were skipped, and had been taken after they were due.
    pub(crate) found_no_worker: u64,
    pub(crate) retries: u64,
    pub(crate) errors: ErrorCounts,
    /// Failed tries outside the measured phase, for the lines of progress.
    pub(crate) uncounted_errors: u64,
    /// Events of the warm-up that have ended in any way and do not belong to the measured phase.
    pub(crate) warmup_ended: u64,
    /// Events of the warm-up that ended after it.
    pub(crate) warmup_ended_late: u64,
    /// Successful events of the warm-up and of the falling load.
    pub(crate) warmup_done: u64,
    /// Events of the measured phase that ended after it: unfinished.
    pub(crate) ended_late: u64,
    /// Part of `ended_late` that succeeded.
    pub(crate) drained: u64,
    /// Part of `ended_late` that failed in an operation that is not known.
    pub(crate) failed_late: u64,
    /// Time of the phase that connections spent with events that ended after it without success, and in a
    /// closed loop with those that timed out.
    pub(crate) held_ns: u64,
    /// Time of the phase from the loss of a connection to the next one, over all connections.
    pub(crate) lost_ns: u64,
    /// The same for connections that the server closed between two requests.
    pub(crate) closed_ns: u64,
    /// Events of the falling load that have ended in any way.
    pub(crate) after_ended: u64,
}

impl EventCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.done += other.done;
        self.done_carried_in += other.done_carried_in;
        self.part_e9 += other.part_e9;
        self.cut_ns += other.cut_ns;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.found_no_worker += other.found_no_worker;
        self.retries += other.retries;
        add_errors(&mut self.errors, &other.errors);
        self.uncounted_errors += other.uncounted_errors;
        self.warmup_ended += other.warmup_ended;
        self.warmup_ended_late += other.warmup_ended_late;
        self.warmup_done += other.warmup_done;
        self.ended_late += other.ended_late;
        self.drained += other.drained;
        self.failed_late += other.failed_late;
        self.held_ns += other.held_ns;
        self.lost_ns += other.lost_ns;
        self.closed_ns += other.closed_ns;
        self.after_ended += other.after_ended;
    }

    /// Adds the share of a successful event that an edge of the phase cuts.
    pub(crate) fn note_cut(&mut self, phase: &Counting, start_ns: u64, end_ns: u64) {
        self.part_e9 += phase.part_e9(start_ns, end_ns);
        self.cut_ns += end_ns - start_ns.max(phase.from_ns).min(end_ns);
    }

    /// Events of all phases that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.done + self.failed + self.skipped + self.ended_late + self.warmup_ended + self.after_ended
    }
}

fn add_errors(errors: &mut ErrorCounts, others: &ErrorCounts) {
    errors.transient += others.transient;
    errors.connection += others.connection;
    errors.application += others.application;
    errors.verify += others.verify;
    errors.timeout += others.timeout;
}

fn count_error(errors: &mut ErrorCounts, class: FailureClass) {
    match class {
        FailureClass::Transient => errors.transient += 1,
        FailureClass::Connection | FailureClass::Unprocessed => errors.connection += 1,
        FailureClass::Application | FailureClass::Configuration | FailureClass::Machine => {
            errors.application += 1;
        }
        FailureClass::Verify => errors.verify += 1,
        FailureClass::Timeout => errors.timeout += 1,
    }
}

/// State shared by a worker and the reader of its recorder.
#[derive(Debug)]
struct Cell {
    /// Odd while the worker records.
    sections: AtomicU64,
    /// The current recorder; null when the books are closed. Owned by the cell.
    active: AtomicPtr<Recorder>,
    _owns: PhantomData<Recorder>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        let active = *self.active.get_mut();
        if !active.is_null() {
            // SAFETY: the pointer came from `Box::into_raw`, and no other reference is left.
            drop(unsafe { Box::from_raw(active) });
        }
    }
}

/// The worker's end. Each cell has one and it cannot be cloned, so sections never overlap.
#[derive(Debug)]
pub(crate) struct Writer(Arc<Cell>);

/// The reader's end. Each cell has one.
#[derive(Debug)]
pub(crate) struct Reader(Arc<Cell>);

/// A time during which the worker may record.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) recorder: &'a mut Recorder,
    sections: &'a AtomicU64,
    /// The section counter's value after this section.
    next: u64,
}

/// Both ends of a cell around `recorder`.
pub(crate) fn cell(recorder: Box<Recorder>) -> (Writer, Reader) {
    let active = AtomicPtr::new(Box::into_raw(recorder));
    let cell = Arc::new(Cell { sections: AtomicU64::new(0), active, _owns: PhantomData });
    (Writer(Arc::clone(&cell)), Reader(cell))
}

impl Writer {
    /// The worker's recorder, until the section is dropped; `None` if the books are closed.
    pub(crate) fn enter(&mut self) -> Option<Section<'_>> {
        let cell = &*self.0;
        // Sequential consistency orders this addition before the load. If the load returns the pointer that a
        // reader is about to take, the addition precedes the reader's swap too, so the reader sees the odd
        // number.
        let next = cell.sections.fetch_add(1, Ordering::SeqCst) + 2;
        let active = cell.active.load(Ordering::SeqCst);
        if active.is_null() {
            cell.sections.store(next, Ordering::Release);
            return None;
        }
        // SAFETY: the pointer comes from a box. A reader that has swapped it away does not touch it before
        // `sections` is even again (see `Reader::take`), and `&mut self` keeps a second section from
        // beginning.
        let recorder = unsafe { &mut *active };
        Some(Section { recorder, sections: &cell.sections, next })
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        // Only the worker writes the number, so a plain store suffices. It releases the section's writes to
        // the reader that finds the number even. A locked addition here cost 6 ns for each of an event's two
        // sections.
        self.sections.store(self.next, Ordering::Release);
    }
}

impl Reader {
    /// Takes the recorder and leaves `empty` in its place; `None` if the books are closed already.
    pub(crate) fn swap(&mut self, empty: Box<Recorder>) -> Option<Box<Recorder>> {
        self.take(Box::into_raw(empty))
    }

    /// Takes the recorder and closes the books: the worker's next section finds them closed.
    pub(crate) fn close(&mut self) -> Option<Box<Recorder>> {
        self.take(ptr::null_mut())
    }

    fn take(&mut self, replacement: *mut Recorder) -> Option<Box<Recorder>> {
        let cell = &*self.0;
        let taken = cell.active.swap(replacement, Ordering::SeqCst);
        let section = cell.sections.load(Ordering::SeqCst);
        if !section.is_multiple_of(2) {
            // Some hundred nanoseconds, unless the worker was preempted in its section.
            while cell.sections.load(Ordering::SeqCst) == section {
                thread::yield_now();
            }
        }
        if taken.is_null() {
            return None;
        }
        // SAFETY: it came from `Box::into_raw`; no section began with it after the swap, and the last that
        // did is over.
        Some(unsafe { Box::from_raw(taken) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use record::histogram::Histogram;

    use super::*;
    use crate::measure::tally::Sum;

    #[test]
    fn a_reader_that_swaps_all_the_time_gets_every_value_once() {
        let (mut writer, mut reader) = cell(Box::new(Recorder::new(0, 0, 0)));
        let over = AtomicBool::new(false);
        let mut service = Sum::new();
        let mut event_counts = EventCounts::default();
        let mut read = |mut taken: Box<Recorder>| {
            service.take(&mut taken.service);
            event_counts.add(&std::mem::take(&mut taken.event_counts));
            taken
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..200_000u64 {
                    let section = writer.enter().unwrap();
                    section.recorder.service.record(1 + i % 1_000);
                    section.recorder.event_counts.done += 1;
                }
                over.store(true, Ordering::SeqCst);
            });
            let mut empty = Box::new(Recorder::new(0, 0, 0));
            while !over.load(Ordering::SeqCst) {
                empty = read(reader.swap(empty).unwrap());
            }
        });
        read(reader.close().unwrap());
        assert!(writer.enter().is_none());
        assert!(reader.close().is_none());
        let total = Histogram::from(&service);
        assert_eq!((event_counts.done, total.count()), (200_000, 200_000));
        assert!(total.buckets().all(|(_, n)| n == 200), "each value was recorded 200 times");
    }
}
