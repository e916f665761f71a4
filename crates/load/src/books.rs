//! Gathers what the workers recorded: each interval, each phase, the whole.

use std::collections::BTreeMap;

use record::event::EventRow;
use record::histogram::{CompactHistogram, Histogram};
use record::load::Operation;
use record::series::{HistogramSlice, LatencyKind};

use crate::driver::OperationShare;
use crate::latency::{Fates, Log, Reader, Recorder};

/// Everything recorded so far.
#[derive(Debug)]
pub(crate) struct Books {
    readers: Vec<Reader>,
    operations: Vec<OperationShare>,
    outcome_names: &'static [&'static str],
    is_open_loop: bool,
    /// Empty; what the next worker gets for what is taken from it.
    spare: Option<Box<Recorder>>,
    /// What was recorded since the last interval ended.
    pub(crate) interval: Distributions,
    /// What was recorded in all intervals that have ended.
    pub(crate) total: Distributions,
    /// What became of events, since the beginning.
    pub(crate) fates: Fates,
    /// How often each outcome was noted in the measured phase.
    outcomes: Vec<u64>,
    pub(crate) slices: Vec<HistogramSlice>,
    /// How long events had lasted that ended after the measured phase.
    pub(crate) late: Histogram,
    /// Room for events in each recorder; 0 where they are not logged.
    log_room: usize,
    /// Events that have ended and were not handed over yet.
    pub(crate) logged: Vec<EventRow>,
    /// Events for which there was no room.
    pub(crate) unlogged: u64,
}

/// One histogram of each kind.
#[derive(Debug)]
pub(crate) struct Distributions {
    pub(crate) response: Histogram,
    pub(crate) service: Histogram,
    pub(crate) wait: Histogram,
    pub(crate) lateness: Histogram,
    pub(crate) failure: Histogram,
    pub(crate) warmup: Histogram,
    pub(crate) operations: Vec<Histogram>,
}

impl Distributions {
    fn new(operations: usize) -> Self {
        Self {
            response: Histogram::new(),
            service: Histogram::new(),
            wait: Histogram::new(),
            lateness: Histogram::new(),
            failure: Histogram::new(),
            warmup: Histogram::new(),
            operations: vec![Histogram::new(); operations],
        }
    }

    fn take(&mut self, recorder: &mut Recorder) {
        recorder.response.drain_into(&mut self.response);
        recorder.service.drain_into(&mut self.service);
        recorder.wait.drain_into(&mut self.wait);
        recorder.lateness.drain_into(&mut self.lateness);
        recorder.failure.drain_into(&mut self.failure);
        recorder.warmup.drain_into(&mut self.warmup);
        for (tally, histogram) in recorder.operations.iter_mut().zip(&mut self.operations) {
            tally.drain_into(histogram);
        }
    }

    fn kinds(&mut self) -> [(LatencyKind, &mut Histogram); 5] {
        [
            (LatencyKind::Response, &mut self.response),
            (LatencyKind::Service, &mut self.service),
            (LatencyKind::Wait, &mut self.wait),
            (LatencyKind::Lateness, &mut self.lateness),
            (LatencyKind::Failure, &mut self.failure),
        ]
    }
}

impl Books {
    pub(crate) fn new(
        readers: Vec<Reader>,
        operations: Vec<OperationShare>,
        outcome_names: &'static [&'static str],
        is_open_loop: bool,
    ) -> Self {
        let count = operations.len();
        Self {
            readers,
            operations,
            outcome_names,
            is_open_loop,
            spare: None,
            interval: Distributions::new(count),
            total: Distributions::new(count),
            fates: Fates::default(),
            outcomes: vec![0; outcome_names.len()],
            slices: Vec::new(),
            late: Histogram::new(),
            log_room: 0,
            logged: Vec::new(),
            unlogged: 0,
        }
    }

    /// The same, with recorders that have room for so many events.
    pub(crate) fn with_log(self, log_room: usize) -> Self {
        Self { log_room, ..self }
    }

    /// Takes over what the workers have recorded since the last time.
    pub(crate) fn read(&mut self) {
        for reader in 0..self.readers.len() {
            let spare = self.spare.take();
            let empty = spare.unwrap_or_else(|| {
                let mut empty = Box::new(Recorder::new(self.operations.len(), self.outcome_names.len()));
                empty.log = Log::with_room(self.log_room);
                empty
            });
            let Some(mut taken) = self.readers[reader].swap(empty) else { continue };
            self.take(&mut taken);
            self.spare = Some(taken);
        }
    }

    /// As [`Self::read`], for the last time: what a worker still tries to record is not recorded any more.
    pub(crate) fn close(&mut self) {
        for reader in 0..self.readers.len() {
            if let Some(mut taken) = self.readers[reader].close() {
                self.take(&mut taken);
            }
        }
    }

    fn take(&mut self, taken: &mut Recorder) {
        self.interval.take(taken);
        self.fates.add(&std::mem::take(&mut taken.fates));
        taken.late.drain_into(&mut self.late);
        self.unlogged += taken.log.drain_into(&mut self.logged);
        for (tally, sum) in taken.outcomes.iter_mut().zip(&mut self.outcomes) {
            *sum += std::mem::take(tally);
        }
    }

    /// Ends an interval of the warm-up: what was measured already belongs to the first measured interval.
    pub(crate) fn end_warmup_interval(&mut self) {
        self.interval.warmup.clear();
    }

    /// Ends an interval of the measured phase: keeps its slices, adds it to the total.
    pub(crate) fn end_interval(&mut self, from_ns: u64, for_ns: u64) {
        for ((kind, interval), (_, total)) in self.interval.kinds().into_iter().zip(self.total.kinds()) {
            total.add(interval);
            push_slice(&mut self.slices, from_ns, for_ns, "", kind, interval);
            interval.clear();
        }
        let operations = self.interval.operations.iter_mut().zip(&mut self.total.operations);
        for (share, (interval, total)) in self.operations.iter().zip(operations) {
            total.add(interval);
            push_slice(&mut self.slices, from_ns, for_ns, &share.name, LatencyKind::Service, interval);
            interval.clear();
        }
        self.interval.warmup.clear();
    }

    /// What is shown of the interval: response, or service in a closed loop.
    pub(crate) fn shown(&self, is_warmup: bool) -> &Histogram {
        match (is_warmup, self.is_open_loop) {
            (true, _) => &self.interval.warmup,
            (false, true) => &self.interval.response,
            (false, false) => &self.interval.service,
        }
    }

    /// Each operation as planned, with the number that was done in all.
    pub(crate) fn operation_counts(&self) -> impl Iterator<Item = (&OperationShare, u64)> + '_ {
        self.operations.iter().zip(&self.total.operations).map(|(share, service)| (share, service.count()))
    }

    /// How often events ended in each way that the driver tells apart.
    pub(crate) fn outcomes(&self) -> BTreeMap<String, u64> {
        self.outcome_names.iter().map(|n| (*n).to_owned()).zip(self.outcomes.iter().copied()).collect()
    }

    /// The whole, by operation.
    pub(crate) fn operations(&self) -> BTreeMap<String, Operation> {
        let all = self.operations.iter().zip(&self.total.operations);
        all.map(|(share, service)| (share.name.clone().into_owned(), Operation { service: service.clone() }))
            .collect()
    }
}

fn push_slice(
    slices: &mut Vec<HistogramSlice>,
    from_ns: u64,
    for_ns: u64,
    operation: &str,
    kind: LatencyKind,
    histogram: &Histogram,
) {
    if !histogram.is_empty() {
        let (operation, histogram) = (operation.to_owned(), CompactHistogram::from(histogram));
        slices.push(HistogramSlice { from_ns, for_ns, operation, kind, histogram });
    }
}
