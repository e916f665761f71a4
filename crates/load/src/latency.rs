//! What the workers record, and how it is read while they go on recording.
//!
//! A worker writes its own [`Recorder`]; nobody else writes it. A reader takes a worker's recorder away at any
//! moment and leaves an empty one, however long the worker sleeps or hangs: the worker announces with one store that
//! it is about to record, and with another that it has; the reader, having swapped the pointer, waits for at most one
//! such section to end. The worker never waits, allocates or locks.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;

use record::event::{EventRow, Fate};
use record::histogram::{Histogram, LATENCY_NS_MAX};
use record::load::ErrorCounts;

/// Values of one octave that [`record::histogram`]'s layout tells apart.
const PER_OCTAVE: u64 = 1024;
const BUCKETS: usize = bucket_of(LATENCY_NS_MAX) + 1;
/// Buckets that share one bit of the map of what is occupied.
const BUCKETS_PER_BIT: usize = 64;
const OCCUPIED_WORDS: usize = BUCKETS.div_ceil(BUCKETS_PER_BIT).div_ceil(64);

/// A worker's histogram: the buckets of [`Histogram`], and a map of those in use.
///
/// To empty one of these costs what was put in, not its size: sixteen of them a worker are read each interval.
pub(crate) struct Tally {
    counts: Box<[u64]>,
    occupied: [u64; OCCUPIED_WORDS],
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), occupied: [0; OCCUPIED_WORDS] }
    }

    pub(crate) fn record(&mut self, value_ns: u64) {
        let bucket = bucket_of(value_ns.min(LATENCY_NS_MAX));
        self.counts[bucket] += 1;
        let bit = bucket / BUCKETS_PER_BIT;
        self.occupied[bit / 64] |= 1 << (bit % 64);
    }

    /// Moves all values to `histogram`, without loss.
    pub(crate) fn drain_into(&mut self, histogram: &mut Histogram) {
        for (word_index, word) in self.occupied.iter_mut().enumerate() {
            while *word != 0 {
                let first = (word_index * 64 + word.trailing_zeros() as usize) * BUCKETS_PER_BIT;
                let last = (first + BUCKETS_PER_BIT).min(BUCKETS);
                for (bucket, count) in self.counts[first..last].iter_mut().enumerate() {
                    if *count > 0 {
                        histogram.record_n(lowest_of(first + bucket), std::mem::take(count));
                    }
                }
                *word &= *word - 1;
            }
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tally({})", self.counts.iter().sum::<u64>())
    }
}

/// The bucket of a value in the layout of three significant digits: 2,048 single values, then 1,024 an octave.
#[expect(clippy::cast_possible_truncation, reason = "below 50,000 for any value that is recorded")]
const fn bucket_of(value_ns: u64) -> usize {
    let octave = (u64::BITS - (value_ns | (2 * PER_OCTAVE - 1)).leading_zeros()) as u64 - 11;
    (octave * PER_OCTAVE + (value_ns >> octave)) as usize
}

/// The lowest value of a bucket, the inverse of [`bucket_of`].
const fn lowest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / PER_OCTAVE).saturating_sub(1);
    (bucket - octave * PER_OCTAVE) << octave
}

/// Everything that one worker records between two readings.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// From the intended start.
    pub(crate) response: Tally,
    /// From the actual start.
    pub(crate) service: Tally,
    /// From the intended start until the worker was free.
    pub(crate) wait: Tally,
    /// From then until the actual start.
    pub(crate) lateness: Tally,
    /// Service time of tries that failed.
    pub(crate) failure: Tally,
    /// Latency of events of the warm-up and of the falling load: shown, never counted.
    pub(crate) warmup: Tally,
    /// How long events of the measured phase had lasted that ended after it.
    pub(crate) late: Tally,
    /// Service time by operation.
    pub(crate) operations: Box<[Tally]>,
    /// How often each outcome was noted.
    pub(crate) outcomes: Box<[u64]>,
    /// The events themselves, where they are logged.
    pub(crate) log: Log,
    /// What became of the events.
    pub(crate) fates: Fates,
}

impl Recorder {
    pub(crate) fn new(operations: usize, outcomes: usize) -> Self {
        Self {
            response: Tally::new(),
            service: Tally::new(),
            wait: Tally::new(),
            lateness: Tally::new(),
            failure: Tally::new(),
            warmup: Tally::new(),
            late: Tally::new(),
            operations: (0..operations).map(|_| Tally::new()).collect(),
            outcomes: vec![0; outcomes].into_boxed_slice(),
            log: Log::default(),
            fates: Fates::default(),
        }
    }
}

/// Events as they ended, in room made beforehand; without room, none.
#[derive(Debug, Default)]
pub(crate) struct Log {
    rows: Vec<EventRow>,
    /// Events that came when the room was full.
    lost: u64,
}

impl Log {
    /// Room for so many events, every page of it touched.
    pub(crate) fn with_room(rows: usize) -> Self {
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

    /// Moves all events to `rows`; yields how many had found no room.
    pub(crate) fn drain_into(&mut self, rows: &mut Vec<EventRow>) -> u64 {
        rows.append(&mut self.rows);
        std::mem::take(&mut self.lost)
    }
}

/// What became of events, as sums that can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    /// Closed loop only: events started in the measured phase.
    pub(crate) started: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Measured events that ended or were skipped, and had been taken after they were due.
    pub(crate) found_no_worker: u64,
    pub(crate) retries: u64,
    pub(crate) errors: ErrorCounts,
    /// Time that done events spent in the system, from their stamps: Little's other side.
    pub(crate) in_system_ns: u128,
    /// Events of the warm-up that have ended, however.
    pub(crate) warmup_ended: u64,
    /// Those of them that ended in the measured phase.
    pub(crate) warmup_ended_late: u64,
    /// Events of the warm-up and of the falling load that ended well.
    pub(crate) warmup_done: u64,
    /// Events of the measured phase that ended after it: unfinished.
    pub(crate) ended_late: u64,
    /// Those of them that ended well.
    pub(crate) drained: u64,
    /// Events of the falling load that have ended, however.
    pub(crate) after_ended: u64,
}

impl Fates {
    pub(crate) fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.done += other.done;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.found_no_worker += other.found_no_worker;
        self.retries += other.retries;
        self.errors.transient += other.errors.transient;
        self.errors.connection += other.errors.connection;
        self.errors.application += other.errors.application;
        self.errors.verify += other.errors.verify;
        self.in_system_ns += other.in_system_ns;
        self.warmup_ended += other.warmup_ended;
        self.warmup_ended_late += other.warmup_ended_late;
        self.warmup_done += other.warmup_done;
        self.ended_late += other.ended_late;
        self.drained += other.drained;
        self.after_ended += other.after_ended;
    }

    /// Events of all phases that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.done + self.failed + self.skipped + self.ended_late + self.warmup_ended + self.after_ended
    }
}

/// Tries that failed, of all classes.
pub(crate) fn errors_total(errors: &ErrorCounts) -> u64 {
    errors.transient + errors.connection + errors.application + errors.verify
}

/// What a worker and the reader of its recorder share.
#[derive(Debug)]
struct Cell {
    /// Odd while the worker records.
    sections: AtomicU64,
    /// The recorder in use; null when the books are closed. Owned by the cell.
    active: AtomicPtr<Recorder>,
    _owns: PhantomData<Recorder>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        let active = *self.active.get_mut();
        if !active.is_null() {
            // SAFETY: the pointer came from `Box::into_raw` and nobody else is left to use it.
            drop(unsafe { Box::from_raw(active) });
        }
    }
}

/// The worker's end. There is one a cell, and it is not cloned: sections never overlap.
#[derive(Debug)]
pub(crate) struct Writer(Arc<Cell>);

/// The reader's end. There is one a cell.
#[derive(Debug)]
pub(crate) struct Reader(Arc<Cell>);

/// A moment in which the worker may record.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) recorder: &'a mut Recorder,
    sections: &'a AtomicU64,
}

/// Both ends of a cell around `recorder`.
pub(crate) fn cell(recorder: Box<Recorder>) -> (Writer, Reader) {
    let active = AtomicPtr::new(Box::into_raw(recorder));
    let cell = Arc::new(Cell { sections: AtomicU64::new(0), active, _owns: PhantomData });
    (Writer(Arc::clone(&cell)), Reader(cell))
}

impl Writer {
    /// The worker's recorder, until the section is dropped; `None` where the books are closed.
    pub(crate) fn enter(&mut self) -> Option<Section<'_>> {
        let cell = &*self.0;
        // In the order of sequential consistency this store comes before the load. Where the load finds the pointer
        // that a reader is about to take, it comes before the reader's swap, and so the reader sees the odd number.
        cell.sections.fetch_add(1, Ordering::SeqCst);
        let active = cell.active.load(Ordering::SeqCst);
        if active.is_null() {
            cell.sections.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        // SAFETY: the pointer comes from a box. A reader that has swapped it away does not touch it before
        // `sections` is even again (see `Reader::take`), and `&mut self` keeps a second section from beginning.
        let recorder = unsafe { &mut *active };
        Some(Section { recorder, sections: &cell.sections })
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.sections.fetch_add(1, Ordering::SeqCst);
    }
}

impl Reader {
    /// Takes what was recorded and leaves `empty` in its place.
    ///
    /// `None` where the books are closed already.
    pub(crate) fn swap(&mut self, empty: Box<Recorder>) -> Option<Box<Recorder>> {
        self.take(Box::into_raw(empty))
    }

    /// Takes what was recorded and closes the books: the worker's next attempt to record finds them closed.
    pub(crate) fn close(&mut self) -> Option<Box<Recorder>> {
        self.take(ptr::null_mut())
    }

    fn take(&mut self, replacement: *mut Recorder) -> Option<Box<Recorder>> {
        let cell = &*self.0;
        let taken = cell.active.swap(replacement, Ordering::SeqCst);
        let section = cell.sections.load(Ordering::SeqCst);
        if !section.is_multiple_of(2) {
            // Some hundred nanoseconds, unless the worker was preempted in between.
            while cell.sections.load(Ordering::SeqCst) == section {
                thread::yield_now();
            }
        }
        if taken.is_null() {
            return None;
        }
        // SAFETY: it came from `Box::into_raw`; no section began with it after the swap, and the last that did is
        // over.
        Some(unsafe { Box::from_raw(taken) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn buckets_are_those_of_the_common_layout() {
        for value in (0..5_000).chain((0..42).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])) {
            let mut h = Histogram::new();
            h.record(value);
            let expected = h.buckets().next().map(|(lowest, _)| lowest);
            assert_eq!(Some(lowest_of(bucket_of(value))), expected, "{value}");
        }
        assert_eq!(bucket_of(lowest_of(BUCKETS - 1)), BUCKETS - 1);
    }

    #[test]
    fn a_tally_drained_twice_loses_nothing_and_doubles_nothing() {
        let (mut tally, mut drained, mut direct) = (Tally::new(), Histogram::new(), Histogram::new());
        for i in 0..10_000u64 {
            let value = i * i * i;
            tally.record(value);
            direct.record(value);
            if i == 5_000 {
                tally.drain_into(&mut drained);
            }
        }
        tally.record(u64::MAX);
        direct.record(u64::MAX);
        tally.drain_into(&mut drained);
        tally.drain_into(&mut drained);
        assert!(drained.buckets().eq(direct.buckets()));
        assert_eq!(drained.summary().map(|s| s.max_ns), direct.summary().map(|s| s.max_ns));
    }

    #[test]
    fn a_reader_that_swaps_all_the_time_gets_every_value_once() {
        let (mut writer, mut reader) = cell(Box::new(Recorder::new(0, 0)));
        let over = AtomicBool::new(false);
        let mut total = Histogram::new();
        let mut fates = Fates::default();
        let mut read = |mut taken: Box<Recorder>| {
            taken.service.drain_into(&mut total);
            fates.add(&std::mem::take(&mut taken.fates));
            taken
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..200_000u64 {
                    let section = writer.enter().unwrap();
                    section.recorder.service.record(1 + i % 1_000);
                    section.recorder.fates.done += 1;
                }
                over.store(true, Ordering::SeqCst);
            });
            let mut empty = Box::new(Recorder::new(0, 0));
            while !over.load(Ordering::SeqCst) {
                empty = read(reader.swap(empty).unwrap());
            }
        });
        read(reader.close().unwrap());
        assert!(writer.enter().is_none());
        assert!(reader.close().is_none());
        assert_eq!((fates.done, total.count()), (200_000, 200_000));
        assert!(total.buckets().all(|(_, n)| n == 200), "each value was recorded 200 times");
    }
}
