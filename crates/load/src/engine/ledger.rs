//! The stamps and outcomes of the events on a thread's connections: taken, tried, ended.
//!
//! Each thread has one ledger, whether it blocks on one connection or polls thousands.

use std::num::NonZeroU64;
use std::sync::Arc;

use record::event::{EventRow, Fate};

use crate::connection::{Failure, FailureClass, Laps};
use crate::engine::Engine;
use crate::engine::connection_slot::Gone;
use crate::measure::client::{self, Usage};
use crate::measure::counting::{By, Counting, PhasePosition};
use crate::measure::latency::{Recorder, Writer};
use crate::measure::outage::Failed;
use crate::measure::waits::Waits;
use crate::schedule::pace::Scratch;
use crate::schedule::taken::Taken;

/// A thread's recorder, and the state needed to write to it.
pub(crate) struct Ledger {
    engine: Arc<Engine>,
    writer: Writer,
    scratch: Scratch,
    /// The part of the last event's response that the generator caused, by connection slot.
    raised_ns: Vec<u64>,
    /// The thread's waits for a CPU, in an open loop.
    waits: Waits,
    /// Account of the waits when the event in flight started, by connection slot.
    waited_ns: Vec<u64>,
    has_begun: bool,
    /// CPU time when the first event of the measured phase was taken.
    usage_before: Option<Usage>,
    /// CPU time when the first event after the measured phase was taken.
    usage_after: Option<Usage>,
}

/// The stamps of an event when its first try begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) taken: Taken,
    /// Time at which the connection was free and the event was taken.
    pub(crate) claim_ns: u64,
    /// Time at which its request was about to be built and sent.
    pub(crate) start_ns: u64,
    /// Whether no connection was free when it was due.
    pub(crate) found_no_worker: bool,
}

/// The event that was in flight on a connection when it broke.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried {
    pub(crate) taken: Taken,
    pub(crate) try_start_ns: u64,
    /// An earlier connection has broken during this event.
    pub(crate) is_hit: bool,
}

impl Started {
    /// The same event on a connection made for it at `now_ns`; the time until then counts as wait.
    pub(crate) fn on_new_connection(self, now_ns: u64) -> Self {
        Self { claim_ns: now_ns.max(self.taken.due_ns), start_ns: now_ns.max(self.taken.due_ns), ..self }
    }

    /// Time that the event waited for a free worker.
    fn wait_ns(&self) -> u64 {
        self.claim_ns.saturating_sub(self.taken.due_ns)
    }

    /// Delay of the start that the generator caused.
    fn lateness_ns(&self) -> u64 {
        self.start_ns - self.taken.due_ns.max(self.claim_ns)
    }
}

impl Ledger {
    pub(crate) fn new(engine: Arc<Engine>, writer: Writer) -> Self {
        let of_each = vec![0; engine.connection_slots.len()];
        Self {
            engine,
            writer,
            scratch: Scratch::default(),
            raised_ns: of_each.clone(),
            waits: Waits::default(),
            waited_ns: of_each,
            has_begun: false,
            usage_before: None,
            usage_after: None,
        }
    }

    /// Counts the thread's waits for a CPU from now on, if the loop is open. In a closed loop they are part
    /// of the measurement: its workers always want the CPU, and on the server's machine they share it.
    pub(crate) fn count_waits(&mut self, waits: impl FnOnce(u64) -> Waits) {
        if self.is_open() {
            self.waits = waits(self.engine.clock.now_ns());
        }
    }

    fn is_open(&self) -> bool {
        self.engine.counting().by == By::Due
    }

    /// Takes the next event of an open loop into `connection_slot`; `None` if none is left or the books are
    /// closed.
    pub(crate) fn take_open(&mut self, worker: usize, connection_slot: usize) -> Option<Taken> {
        let _section = self.writer.enter()?;
        let taken = self.engine.take_open(worker, connection_slot, &mut self.scratch)?;
        note_usage(&mut self.usage_before, &taken);
        Some(taken)
    }

    /// Returns the event in `connection_slot` with its new due time, if a rate change moved it since `taken`.
    pub(crate) fn take_again(
        &mut self,
        taken: &Taken,
        worker: usize,
        connection_slot: usize,
    ) -> Option<Taken> {
        if !self.engine.may_have_changed(taken) {
            return None;
        }
        let _section = self.writer.enter()?;
        self.engine.take_again(taken, worker, connection_slot, &mut self.scratch)
    }

    /// Takes the next event of the falling load into `connection_slot`; `None` as in [`Self::take_open`].
    pub(crate) fn take_after(&mut self, connection_slot: usize) -> Option<Taken> {
        let _section = self.writer.enter()?;
        let taken = self.engine.take_after(connection_slot, &mut self.scratch)?;
        note_end(self.usage_before.as_ref(), &mut self.usage_after, &taken);
        Some(taken)
    }

    /// Takes the next event of a closed loop into `connection_slot`, at `now_ns`.
    // Inlined: a result returned through memory is read back in other widths than it was written, which
    // stalls the CPU.
    #[inline]
    pub(crate) fn take_closed(&mut self, connection_slot: usize, now_ns: u64) -> Option<Taken> {
        let section = self.writer.enter()?;
        let taken = self.engine.take_closed(connection_slot, now_ns)?;
        let belongs = taken.is_measured || self.engine.counting().has_taken(taken.due_ns, false);
        section.recorder.event_counts.started += u64::from(belongs);
        note_usage(&mut self.usage_before, &taken);
        note_end(self.usage_before.as_ref(), &mut self.usage_after, &taken);
        Some(taken)
    }

    /// CPU time and switches of this thread during its measured events.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let (before, after) = (self.usage_before?, self.usage_after.or_else(client::thread_usage)?);
        Some(after.since(&before))
    }

    /// Records that the event is too late to be done.
    pub(crate) fn skip(&mut self, connection_slot: usize, taken: &Taken) {
        let now_ns = self.engine.clock.now_ns();
        let counting = self.engine.counting();
        let Some(section) = self.writer.enter() else { return };
        let recorder = &mut *section.recorder;
        let place = counting.place(taken, now_ns);
        match place {
            PhasePosition::Before { .. } | PhasePosition::After => note_uncounted(recorder, place, None),
            PhasePosition::Cut => return,
            PhasePosition::CarriedOut => {
                let row = EventRow { fate: Fate::Unfinished, ..row_of_untaken(taken, now_ns) };
                recorder.late.wait.record(now_ns - taken.due_ns);
                note_late(recorder, row, false);
            }
            PhasePosition::CarriedIn | PhasePosition::Within => {
                recorder.log.push(row_of_untaken(taken, now_ns));
                recorder.event_counts.skipped += 1;
                recorder.event_counts.found_no_worker += 1;
            }
        }
        note_backlog(recorder, &counting, taken, place);
        self.engine.connection_slots[connection_slot].release(now_ns);
    }

    /// Marks the event in `connection_slot` as begun, and stores the stamps that the audit needs if it never
    /// ends.
    pub(crate) fn begun(&mut self, connection_slot: usize, event: &Started) {
        // An event that starts late ends late. The next event in this slot is late by the same amount, but
        // only as far as it waited.
        if !self.has_begun {
            self.has_begun = true;
            self.engine.note_first(event.taken.due_ns, event.start_ns);
        }
        let caused_ns = event.wait_ns().min(self.raised_ns[connection_slot]);
        self.raised_ns[connection_slot] = event.lateness_ns() + caused_ns;
        self.waited_ns[connection_slot] = self.waits.begin(event.start_ns, event.lateness_ns());
        self.engine.connection_slots[connection_slot].begin(event.claim_ns, event.start_ns);
    }

    /// Adds the generator's part of an event's service to its part of the response, and returns it: the time
    /// for which the generator was stopped, or the thread waited for a CPU.
    ///
    /// The next event in the slot waits for this one, so its wait has that part too.
    fn note_delay(&mut self, connection_slot: usize, event: &Started, end_ns: u64) -> u64 {
        let stops = &self.engine.stops;
        let begun = self.waited_ns[connection_slot];
        let waited_ns = self.waits.within(begun, event.start_ns, end_ns);
        // A stop before the start is lateness, or part of the wait for the event before.
        let stopped_in_all_ns = stops.within_ns(event.taken.due_ns.min(event.start_ns), end_ns);
        let stopped_ns = if stopped_in_all_ns > 0 { stops.within_ns(event.start_ns, end_ns) } else { 0 };
        let delay_ns = (stopped_ns + waited_ns).min(end_ns.saturating_sub(event.start_ns));
        let raised_ns = &mut self.raised_ns[connection_slot];
        *raised_ns = (*raised_ns + delay_ns).max(stopped_in_all_ns);
        delay_ns
    }

    /// Records that the event in `connection_slot` succeeded at `end_ns`; its operations and outcome are in
    /// `laps`.
    pub(crate) fn done(&mut self, connection_slot: usize, event: &Started, end_ns: u64, laps: &Laps) {
        let Started { taken, start_ns, .. } = *event;
        self.engine.stops.note_event(start_ns);
        let delay_ns = self.note_delay(connection_slot, event, end_ns);
        let engine = &*self.engine;
        let counting = engine.counting();
        let Some(section) = self.writer.enter() else { return };
        let recorder = &mut *section.recorder;
        let host = engine.host_of(connection_slot);
        let (response_ns, service_ns) = (end_ns - taken.due_ns, end_ns - start_ns);
        let is_open = counting.by == By::Due;
        let server_ns = response_ns.saturating_sub(self.raised_ns[connection_slot]);
        let place = counting.place(&taken, end_ns);
        match place {
            PhasePosition::Before { .. } | PhasePosition::After => {
                let shown_ns = if is_open { response_ns } else { service_ns };
                // The phase does not count the event, but its rate gets the event's share of time in the
                // phase, and the interval in which it ended gets the completion.
                if place == (PhasePosition::Before { ended_in_phase: true }) {
                    recorder.event_counts.note_cut(&counting, start_ns, end_ns);
                    if end_ns < counting.until_ns {
                        recorder.carried_in.record(shown_ns);
                    }
                }
                note_uncounted(recorder, place, Some(shown_ns));
            }
            // The event stays in its slot: it belongs to no phase.
            PhasePosition::Cut => return,
            PhasePosition::CarriedOut => {
                recorder.event_counts.note_cut(&counting, start_ns, end_ns);
                note_begun_late(recorder, event, end_ns, is_open.then_some(server_ns));
                recorder.note_service(service_ns, delay_ns);
                for (operation, took_ns) in laps.taken() {
                    recorder.late.operations[*operation].record(*took_ns);
                }
                note_late(recorder, row(event, end_ns, laps.taken(), Fate::Unfinished), true);
            }
            PhasePosition::CarriedIn => {
                recorder.note_done(host);
                recorder.event_counts.done_carried_in += 1;
                recorder.carried_in.record(service_ns);
                recorder.event_counts.note_cut(&counting, start_ns, end_ns);
                recorder.log.push(row(event, end_ns, laps.taken(), Fate::Done));
            }
            PhasePosition::Within => {
                recorder.note_done(host);
                recorder.event_counts.found_no_worker += u64::from(event.found_no_worker);
                recorder.service.record(service_ns);
                recorder.note_service(service_ns, delay_ns);
                if is_open {
                    recorder.response.record(response_ns);
                    recorder.wait.record(event.wait_ns());
                    recorder.lateness.record(event.lateness_ns());
                    recorder.server_part.record(server_ns);
                }
                recorder.log.push(row(event, end_ns, laps.taken(), Fate::Done));
                for (operation, took_ns) in laps.taken() {
                    recorder.operations[*operation].record(*took_ns);
                }
            }
        }
        if matches!(place, PhasePosition::Within | PhasePosition::CarriedIn) {
            for (outcome, times) in laps.outcomes().into_iter().filter(|(_, times)| *times > 0) {
                recorder.outcomes[outcome] += times;
            }
        }
        note_backlog(recorder, &counting, &taken, place);
        engine.connection_slots[connection_slot].release(end_ns);
    }

    /// Records that the event in `connection_slot` was given up after `failure`, at `end_ns`.
    pub(crate) fn failed(&mut self, connection_slot: usize, event: &Started, end_ns: u64, failure: &Failure) {
        let delay_ns = self.note_delay(connection_slot, event, end_ns);
        let engine = &*self.engine;
        let host = engine.host_of(connection_slot);
        let counting = engine.counting();
        let Some(section) = self.writer.enter() else { return };
        let recorder = &mut *section.recorder;
        let is_open = counting.by == By::Due;
        let service_ns = end_ns.saturating_sub(event.start_ns);
        let raised_ns = self.raised_ns[connection_slot];
        let server_ns = is_open.then(|| (end_ns - event.taken.due_ns).saturating_sub(raised_ns));
        let place = counting.place(&event.taken, end_ns);
        match place {
            PhasePosition::Before { .. } | PhasePosition::After => note_uncounted(recorder, place, None),
            PhasePosition::Cut => return,
            PhasePosition::CarriedOut => {
                note_begun_late(recorder, event, end_ns, server_ns);
                recorder.note_service(service_ns, delay_ns);
                recorder.event_counts.held_ns += counting.inside_ns(event.taken.due_ns, end_ns);
                match failure.operation {
                    Some(operation) => recorder.late.operations[operation].record(service_ns),
                    // It may have been in any.
                    None => recorder.event_counts.failed_late += 1,
                }
                note_late(recorder, row(event, end_ns, &[], Fate::Unfinished), false);
            }
            PhasePosition::CarriedIn | PhasePosition::Within => {
                recorder.log.push(row(event, end_ns, &[], Fate::Failed));
                recorder.note_failed(host);
                recorder.event_counts.found_no_worker += u64::from(event.found_no_worker);
                let is_timeout = failure.class == FailureClass::Timeout;
                if is_timeout && !is_open {
                    recorder.event_counts.held_ns += counting.inside_ns(event.start_ns, end_ns);
                }
                if is_timeout && place == PhasePosition::Within {
                    if is_open {
                        note_begun_late(recorder, event, end_ns, server_ns);
                        recorder.at_least.record(end_ns - event.taken.due_ns);
                    } else {
                        recorder.at_least.record(service_ns);
                    }
                    recorder.note_service(service_ns, delay_ns);
                    if let Some(operation) = failure.operation {
                        recorder.late.operations[operation].record(service_ns);
                    }
                }
            }
        }
        note_backlog(recorder, &counting, &event.taken, place);
        engine.connection_slots[connection_slot].release(end_ns);
    }

    /// Counts a failed try in `connection_slot`.
    pub(crate) fn note_failure(
        &mut self,
        connection_slot: usize,
        failure: &Failure,
        taken: &Taken,
        start_ns: u64,
        end_ns: u64,
    ) {
        // A try that fails because the run cut its connection is not the server's failure.
        if !self.engine.is_abandoned() {
            self.engine.note_sample(connection_slot, failure.class, &failure.text);
        }
        let host = self.engine.host_of(connection_slot);
        let is_counted = self.engine.counting().has_try(taken, end_ns);
        if let Some(section) = self.writer.enter() {
            if !is_counted {
                section.recorder.event_counts.uncounted_errors += 1;
                return;
            }
            section.recorder.failure.record(end_ns - start_ns);
            if let Some(outcome) = failure.outcome {
                section.recorder.outcomes[outcome] += 1;
            }
            section.recorder.note_error(host, failure.class);
        }
    }

    /// Counts a connection that broke, with or without an event in flight.
    ///
    /// - `connection_slot`: any slot of the connection.
    /// - `made_ns`, `has_answered`: when it was made, and whether it carried an answer.
    /// - `carried`: the event in flight; `None` if the connection broke between two events.
    pub(crate) fn note_lost(
        &mut self,
        connection_slot: usize,
        failure: &Failure,
        (made_ns, has_answered): (u64, bool),
        at_ns: u64,
        carried: Option<&Carried>,
    ) {
        match carried {
            Some(event) => {
                self.note_failure(connection_slot, failure, &event.taken, event.try_start_ns, at_ns);
            }
            None => self.note_connection(connection_slot, failure, at_ns),
        }
        let due_ns = carried.filter(|event| !event.is_hit).map(|event| event.taken.due_ns);
        self.note_outage(connection_slot, Failed::Lost { made_ns, has_answered, at_ns, due_ns });
    }

    /// Counts a failure of a connection without an event in flight.
    fn note_connection(&mut self, connection_slot: usize, failure: &Failure, at_ns: u64) {
        // A connection that fails because the run cut it is not the server's failure.
        if self.engine.is_abandoned() {
            return;
        }
        // Any message to a client that was connected before may be transient: the server may be restarting.
        self.engine.note_sample(connection_slot, FailureClass::Connection, &failure.text);
        let host = self.engine.host_of(connection_slot);
        let is_measured = at_ns >= self.engine.timeline().measured_from_ns && at_ns < self.engine.end_ns();
        if let Some(section) = self.writer.enter() {
            if is_measured {
                section.recorder.note_error(host, FailureClass::Connection);
            } else {
                section.recorder.event_counts.uncounted_errors += 1;
            }
        }
    }

    /// Counts a retry that begins at `start_ns`.
    pub(crate) fn note_retry(&mut self, taken: &Taken, start_ns: u64) {
        if self.engine.counting().has_try(taken, start_ns)
            && let Some(section) = self.writer.enter()
        {
            section.recorder.event_counts.retries += 1;
        }
    }

    /// Notes that a connection has replaced the one that ended, for the event in `connection_slot` or the
    /// next one. In a closed loop the time in between is in no service time, and there is no wait.
    pub(crate) fn note_reconnected(&mut self, connection_slot: usize, now_ns: u64) {
        let slot = &self.engine.connection_slots[connection_slot];
        let Some((gone_ns, gone)) = slot.gone_since() else { return };
        let away_ns = self.engine.counting().inside_ns(gone_ns, now_ns);
        // If the books are closed, the audit counts it.
        let Some(section) = self.writer.enter() else { return };
        match gone {
            Gone::Lost => section.recorder.event_counts.lost_ns += away_ns,
            Gone::Closed => section.recorder.event_counts.closed_ns += away_ns,
        }
        slot.regain();
    }

    /// Counts a failed reconnection.
    pub(crate) fn note_unconnected(
        &mut self,
        connection_slot: usize,
        failure: &Failure,
        began_ns: u64,
        now_ns: u64,
    ) {
        self.note_connection(connection_slot, failure, now_ns);
        self.engine.connection_slots[connection_slot].refused();
        self.note_outage(connection_slot, Failed::Refused { began_ns, at_ns: now_ns });
    }

    fn note_outage(&self, connection_slot: usize, failed: Failed) {
        let outages = self.engine.outages_of(connection_slot);
        outages.failed(failed);
        outages.shorten(&self.engine.counting());
    }
}

/// The log row of a skipped event.
fn row_of_untaken(taken: &Taken, now_ns: u64) -> EventRow {
    EventRow {
        due_ns: taken.due_ns,
        claim_ns: None,
        start_ns: None,
        end_ns: NonZeroU64::new(now_ns),
        operation: None,
        fate: Fate::Skipped,
    }
}

/// Records the known times of an event that began in the measured phase and ended after it, or timed out.
///
/// - `server_ns`: its response less the generator's part; `None` in a closed loop.
fn note_begun_late(recorder: &mut Recorder, event: &Started, end_ns: u64, server_ns: Option<u64>) {
    recorder.late.service.record(end_ns - event.start_ns);
    if let Some(server_ns) = server_ns {
        recorder.wait.record(event.wait_ns());
        recorder.lateness.record(event.lateness_ns());
        recorder.server_part.record(server_ns);
    }
}

/// Records an event of the measured phase that ended after it: it is unfinished and lasted at least this
/// long.
fn note_late(recorder: &mut Recorder, row: EventRow, is_well: bool) {
    recorder.late.response.record(row.end_ns.map_or(0, NonZeroU64::get) - row.due_ns);
    recorder.event_counts.ended_late += 1;
    recorder.event_counts.drained += u64::from(is_well);
    recorder.log.push(row);
}

/// Records the end of an uncounted event, of the warm-up or of the falling load; `done_ns` is its latency if
/// it succeeded.
fn note_uncounted(recorder: &mut Recorder, place: PhasePosition, done_ns: Option<u64>) {
    if place == PhasePosition::After {
        recorder.event_counts.after_ended += 1;
    } else {
        recorder.event_counts.warmup_ended += 1;
    }
    if let Some(latency_ns) = done_ns {
        recorder.event_counts.warmup_done += 1;
        recorder.warmup.record(latency_ns);
    }
}

/// Counts an event of the warm-up that had not ended when the warm-up did.
fn note_backlog(recorder: &mut Recorder, counting: &Counting, taken: &Taken, place: PhasePosition) {
    let is_backlog = match place {
        PhasePosition::Before { ended_in_phase } => ended_in_phase,
        PhasePosition::CarriedIn | PhasePosition::CarriedOut => taken.due_ns < counting.from_ns,
        PhasePosition::Within | PhasePosition::After | PhasePosition::Cut => false,
    };
    recorder.event_counts.warmup_ended_late += u64::from(is_backlog);
}

/// The log row of an event that began.
fn row(event: &Started, end_ns: u64, operations: &[(usize, u64)], fate: Fate) -> EventRow {
    let operation = match operations {
        [(operation, _)] => u16::try_from(*operation).ok(),
        _ => None,
    };
    EventRow {
        due_ns: event.taken.due_ns,
        claim_ns: NonZeroU64::new(event.claim_ns),
        start_ns: NonZeroU64::new(event.start_ns),
        end_ns: NonZeroU64::new(end_ns),
        operation,
        fate,
    }
}

fn note_usage(usage_before: &mut Option<Usage>, taken: &Taken) {
    if taken.is_measured && usage_before.is_none() {
        *usage_before = client::thread_usage();
    }
}

/// Stores the thread's CPU time when the first event after the measured ones is taken.
fn note_end(usage_before: Option<&Usage>, usage_after: &mut Option<Usage>, taken: &Taken) {
    if !taken.is_measured && usage_before.is_some() && usage_after.is_none() {
        *usage_after = client::thread_usage();
    }
}
