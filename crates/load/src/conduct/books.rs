//! Collects the workers' recorders: by interval, by phase, and in total.

use std::collections::BTreeMap;

use record::event::EventRow;
use record::histogram::{CensoredHistogram, CompactHistogram, Histogram};
use record::load::Operation;
use record::series::{HistogramSlice, LatencyKind};

use crate::conduct::audit::Unfinished;
use crate::connection::OperationShare;
use crate::judge::verdict::delayed;
use crate::measure::latency::{EventCounts, LateDistributions, OfHost, Reader, Recorder};
use crate::measure::recount::Recount;
use crate::measure::tally::Sum;

/// All records so far.
#[derive(Debug)]
pub(crate) struct Books {
    readers: Vec<Reader>,
    operations: Vec<OperationShare>,
    outcome_names: &'static [&'static str],
    is_open_loop: bool,
    /// An empty recorder to swap for the next worker's. Allocated before the first report, which would
    /// otherwise pay for it; `None` when the books are closed.
    spare: Option<Box<Recorder>>,
    /// Records since the last interval ended.
    interval: Distributions<Sum>,
    /// Records of all intervals that have ended.
    pub(crate) total: Distributions<Histogram>,
    /// Counts of events since the beginning.
    pub(crate) event_counts: EventCounts,
    /// Number of events by outcome in the measured phase.
    outcomes: Vec<u64>,
    /// Counts by host; empty if there is one host.
    pub(crate) hosts: Vec<OfHost>,
    /// Durations of events that ended after the measured phase.
    pub(crate) late: LateDistributions<Sum>,
    /// Events that have ended and were not handed over yet.
    pub(crate) logged: Vec<EventRow>,
    /// Events that found no room in the log.
    pub(crate) unlogged: u64,
    /// Count of all rows that were ever logged.
    pub(crate) recount: Recount,
}

/// One histogram of each kind: `H` is [`Sum`] for an interval, [`Histogram`] for the whole.
#[derive(Debug)]
pub(crate) struct Distributions<H> {
    pub(crate) response: H,
    pub(crate) service: H,
    pub(crate) wait: H,
    pub(crate) lateness: H,
    /// In the total only: no file has its slices.
    pub(crate) server_part: H,
    /// The same.
    pub(crate) delayed: H,
    /// Lower bounds of the response, or of the service in a closed loop.
    pub(crate) at_least: H,
    pub(crate) carried_in: H,
    pub(crate) failure: H,
    pub(crate) warmup: H,
    pub(crate) operations: Vec<H>,
}

impl<H> Distributions<H> {
    fn new(operations: usize, make: impl Fn() -> H) -> Self {
        Self {
            response: make(),
            service: make(),
            wait: make(),
            lateness: make(),
            server_part: make(),
            delayed: make(),
            at_least: make(),
            carried_in: make(),
            failure: make(),
            warmup: make(),
            operations: (0..operations).map(|_| make()).collect(),
        }
    }

    fn kinds(&mut self, is_open_loop: bool) -> [(LatencyKind, &mut H); 7] {
        let at_least = if is_open_loop { LatencyKind::ResponseAtLeast } else { LatencyKind::ServiceAtLeast };
        [
            (LatencyKind::Response, &mut self.response),
            (LatencyKind::Service, &mut self.service),
            (LatencyKind::Wait, &mut self.wait),
            (LatencyKind::Lateness, &mut self.lateness),
            (at_least, &mut self.at_least),
            (LatencyKind::CarriedIn, &mut self.carried_in),
            (LatencyKind::Failure, &mut self.failure),
        ]
    }
}

impl Distributions<Sum> {
    fn take(&mut self, recorder: &mut Recorder) {
        self.response.take(&mut recorder.response);
        self.service.take(&mut recorder.service);
        self.wait.take(&mut recorder.wait);
        self.lateness.take(&mut recorder.lateness);
        self.server_part.take(&mut recorder.server_part);
        self.delayed.take(&mut recorder.delayed);
        self.at_least.take(&mut recorder.at_least);
        self.carried_in.take(&mut recorder.carried_in);
        self.failure.take(&mut recorder.failure);
        self.warmup.take(&mut recorder.warmup);
        for (sum, operation) in self.operations.iter_mut().zip(&mut recorder.operations) {
            sum.take(operation);
        }
    }
}

impl Books {
    pub(crate) fn new(
        readers: Vec<Reader>,
        operations: Vec<OperationShare>,
        outcome_names: &'static [&'static str],
        is_open_loop: bool,
        log_room: usize,
    ) -> Self {
        let count = operations.len();
        let spare = Box::new(Recorder::new(count, outcome_names.len(), log_room));
        Self {
            readers,
            operations,
            outcome_names,
            is_open_loop,
            spare: Some(spare),
            interval: Distributions::new(count, Sum::new),
            total: Distributions::new(count, Histogram::new),
            event_counts: EventCounts::default(),
            outcomes: vec![0; outcome_names.len()],
            hosts: Vec::new(),
            late: LateDistributions::new(count, Sum::new),
            logged: Vec::new(),
            unlogged: 0,
            recount: Recount::default(),
        }
    }

    /// Variant of the books that also counts the events of each of several hosts.
    ///
    /// - `hosts`: number of hosts; 0 if there is one.
    pub(crate) fn of_hosts(self, hosts: usize) -> Self {
        let spare = self.spare.map(|spare| Box::new(spare.of_hosts(hosts)));
        let of_each = spare.as_ref().map_or_else(Vec::new, |spare| spare.hosts.to_vec());
        Self { spare, hosts: of_each, ..self }
    }

    /// Takes the records of all workers since the last reading.
    pub(crate) fn read(&mut self) {
        for reader in 0..self.readers.len() {
            let Some(empty) = self.spare.take() else { return };
            let Some(mut taken) = self.readers[reader].swap(empty) else { return };
            self.take(&mut taken);
            self.spare = Some(taken);
        }
    }

    /// Variant of [`Self::read`] for the last time: later records are discarded.
    pub(crate) fn close(&mut self) {
        for reader in 0..self.readers.len() {
            if let Some(mut taken) = self.readers[reader].close() {
                self.take(&mut taken);
            }
        }
    }

    fn take(&mut self, taken: &mut Recorder) {
        self.interval.take(taken);
        self.event_counts.add(&std::mem::take(&mut taken.event_counts));
        self.late.response.take(&mut taken.late.response);
        self.late.service.take(&mut taken.late.service);
        self.late.wait.take(&mut taken.late.wait);
        for (sum, operation) in self.late.operations.iter_mut().zip(&mut taken.late.operations) {
            sum.take(operation);
        }
        let before = self.logged.len();
        self.unlogged += taken.log.drain_into(&mut self.logged);
        self.recount.add(&self.logged[before..]);
        for (host, sum) in taken.hosts.iter_mut().zip(&mut self.hosts) {
            sum.add(&std::mem::take(host));
        }
        for (tally, sum) in taken.outcomes.iter_mut().zip(&mut self.outcomes) {
            *sum += std::mem::take(tally);
        }
    }

    /// Adds the known times of unfinished events. Call it after the books were closed and before the last
    /// interval ends.
    pub(crate) fn take_unfinished(&mut self, unfinished: &Unfinished) {
        for begun in &unfinished.begun {
            self.interval.wait.record(begun.wait_ns);
            self.interval.lateness.record(begun.lateness_ns);
            self.interval.server_part.record(begun.server_ns);
        }
        if self.is_open_loop {
            // The generator's part of an event that no worker took is unknown.
            for (waited_ns, count) in unfinished.wait_at_least.buckets() {
                self.interval.server_part.record_n(waited_ns, count);
            }
        }
        let at_least = if self.is_open_loop { &unfinished.at_least } else { &unfinished.service_at_least };
        for (lasted_ns, count) in at_least.buckets() {
            self.interval.at_least.record_n(lasted_ns, count);
        }
    }

    /// Ends an interval of the warm-up: measured events so far belong to the first measured interval.
    pub(crate) fn end_warmup_interval(&mut self) {
        self.interval.warmup.clear();
    }

    /// Ends an interval of the measured phase: adds it to the total, and returns its distributions.
    pub(crate) fn end_interval(&mut self, from_ns: u64, for_ns: u64) -> Vec<HistogramSlice> {
        let mut slices = Vec::new();
        let is_open = self.is_open_loop;
        let kinds = self.interval.kinds(is_open).into_iter().zip(self.total.kinds(is_open));
        for ((kind, interval), (_, total)) in kinds {
            push_slice(&mut slices, from_ns, for_ns, "", kind, interval);
            interval.add_to(total);
            interval.clear();
        }
        self.interval.server_part.add_to(&mut self.total.server_part);
        self.interval.server_part.clear();
        self.interval.delayed.add_to(&mut self.total.delayed);
        self.interval.delayed.clear();
        let operations = self.interval.operations.iter_mut().zip(&mut self.total.operations);
        for (share, (interval, total)) in self.operations.iter().zip(operations) {
            push_slice(&mut slices, from_ns, for_ns, &share.name, LatencyKind::Service, interval);
            interval.add_to(total);
            interval.clear();
        }
        self.interval.warmup.clear();
        slices
    }

    /// The latency that the interval reports: response, or service in a closed loop. Events that timed out
    /// are in it with the time that they had lasted.
    pub(crate) fn shown(&self, is_warmup: bool) -> CensoredHistogram {
        let of = &self.interval;
        if is_warmup {
            return Histogram::from(&of.warmup).into();
        }
        let known = Histogram::from(if self.is_open_loop { &of.response } else { &of.service });
        CensoredHistogram { known, at_least: Histogram::from(&of.at_least) }
    }

    /// Lateness of the events that the interval reports. Empty in a closed loop.
    pub(crate) fn lateness(&self) -> Histogram {
        Histogram::from(&self.interval.lateness)
    }

    /// Operations as planned, each with the number done.
    pub(crate) fn operation_counts(&self) -> impl Iterator<Item = (&OperationShare, u64)> + '_ {
        self.operations.iter().zip(&self.total.operations).map(|(share, service)| (share, service.count()))
    }

    /// Number of events by outcome, as the driver distinguishes them.
    pub(crate) fn outcomes(&self) -> BTreeMap<String, u64> {
        self.outcome_names.iter().map(|n| (*n).to_owned()).zip(self.outcomes.iter().copied()).collect()
    }

    /// The total by operation; `in_flight` events may be in any.
    pub(crate) fn operations(&self, in_flight: u64) -> BTreeMap<String, Operation> {
        let all = self.operations.iter().zip(&self.total.operations).zip(&self.late.operations);
        all.map(|((share, known), late)| {
            let service = CensoredHistogram { known: known.clone(), at_least: Histogram::from(late) };
            let generator_made = delayed::made(&service.merged(), &self.total.delayed);
            (share.name.clone().into_owned(), Operation { service, in_flight, generator_made })
        })
        .collect()
    }
}

fn push_slice(
    slices: &mut Vec<HistogramSlice>,
    from_ns: u64,
    for_ns: u64,
    operation: &str,
    kind: LatencyKind,
    sum: &Sum,
) {
    if !sum.is_empty() {
        let (operation, histogram) = (operation.to_owned(), CompactHistogram::from(sum));
        slices.push(HistogramSlice { from_ns, for_ns, operation, kind, histogram });
    }
}
