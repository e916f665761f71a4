//! State that workers and conductor share: the timeline, the events taken, and the stop flags.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use record::histogram::Histogram;
use record::load::{LoadSettings, Phase};

use super::alone::Alone;
use super::backoff::{PAUSE_FIRST_NS, PAUSE_LAST_NS};
use super::connection_slot::ConnectionSlot;
use super::samples::ErrorSamples;
use super::stops::Stops;
use super::timeline::Timeline;
use super::worker_state::WorkerState;
use crate::connection::FailureClass;
use crate::control::bound::ThreadCpus;
use crate::control::start_line::FirstStart;
use crate::control::turns::Turns;
use crate::driver::hosts::Hosts;
use crate::measure::client::Usage;
use crate::measure::counting::{By, Counting};
use crate::measure::outage::OutageLog;
use crate::schedule::clock::{SharedClock, to_ns};
use crate::schedule::lead::Lead;
use crate::schedule::share::Share;

/// State that all threads of one run share.
pub(crate) struct Engine {
    pub(crate) settings: LoadSettings,
    counted_by: By,
    /// Time before a due time at which the workers ask to be woken.
    pub(crate) lead: Lead,
    /// Recorded due times, if arrivals are replayed.
    pub(crate) recorded: Arc<[u64]>,
    /// The part of the load that this generator plays.
    pub(crate) share: Share,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) clock: SharedClock,
    pub(crate) turns: Option<Arc<Turns>>,
    /// CPUs of the workers' threads.
    pub(crate) cpus: Option<ThreadCpus>,
    /// One for each worker's thread.
    pub(crate) workers: Vec<WorkerState>,
    /// One for each request in flight, grouped by connection. If each thread has one connection with one
    /// request in flight, slots and threads have the same numbers.
    pub(crate) connection_slots: Vec<ConnectionSlot>,
    /// Set when every worker is connected; the workers wait for it.
    pub(crate) timeline: OnceLock<Timeline>,
    /// Shared schedule: the next slot. Closed loop: the next event of the measured phase.
    pub(super) next: Alone<AtomicU64>,
    /// Closed loop: the next event of the warm-up.
    pub(super) next_warmup: Alone<AtomicU64>,
    /// End of the measured phase: an event that ends later has not ended in the phase.
    end_ns: AtomicU64,
    /// Time from which no event is taken; later than `end_ns` if the load falls at its end.
    closes_ns: AtomicU64,
    /// Open loop: the next slot of the falling load.
    pub(super) next_after: Alone<AtomicU64>,
    /// Events in flight need not be finished any more.
    abandoned: AtomicBool,
    /// Workers that may still take or finish events.
    pub(crate) working: AtomicU32,
    /// The earliest start of the next late event, if late events are paced.
    pub(super) catch_up_ns: Alone<AtomicU64>,
    /// The stops of the generator.
    pub(crate) stops: Stops,
    /// One for each host.
    pub(crate) outages: Box<[OutageLog]>,
    /// Connection times before the load began.
    pub(crate) connects: Mutex<Histogram>,
    samples: ErrorSamples,
    /// Earliest due time and earliest start of the workers' first events.
    first_due_ns: AtomicU64,
    first_start_ns: AtomicU64,
    pub(crate) usages: Mutex<Vec<Usage>>,
}

impl Engine {
    pub(crate) fn new(
        settings: LoadSettings,
        recorded: Arc<[u64]>,
        hosts: Arc<Hosts>,
        clock: SharedClock,
    ) -> Self {
        let (threads, in_flight) = (settings.threads, settings.in_flight_max());
        Self {
            counted_by: By::of(&settings),
            share: Share::whole(&settings),
            lead: Lead::new(match settings.pace.as_open() {
                Some(open) if settings.client.spin.is_zero() => open.spin_budget_ratio,
                _ => 0.0,
            }),
            settings,
            recorded,
            catch_up_ns: Alone::new(AtomicU64::new(0)),
            stops: Stops::default(),
            outages: hosts.all().iter().map(|_| OutageLog::default()).collect(),
            hosts,
            clock,
            turns: None,
            cpus: None,
            workers: (0..threads).map(|_| WorkerState::default()).collect(),
            connection_slots: (0..in_flight).map(|_| ConnectionSlot::default()).collect(),
            timeline: OnceLock::new(),
            next: Alone::new(AtomicU64::new(0)),
            next_warmup: Alone::new(AtomicU64::new(0)),
            end_ns: AtomicU64::new(u64::MAX),
            closes_ns: AtomicU64::new(u64::MAX),
            next_after: Alone::new(AtomicU64::new(0)),
            abandoned: AtomicBool::new(false),
            working: AtomicU32::new(threads),
            connects: Mutex::default(),
            samples: ErrorSamples::default(),
            first_due_ns: AtomicU64::new(u64::MAX),
            first_start_ns: AtomicU64::new(u64::MAX),
            usages: Mutex::default(),
        }
    }

    /// Variant that plays a share of a larger load, of which `settings` are this generator's.
    pub(crate) fn of_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Variant that goes on in turns.
    pub(crate) fn in_turns(self, turns: Option<Arc<Turns>>) -> Self {
        Self { turns, ..self }
    }

    /// Variant with these CPUs for its threads.
    pub(crate) fn bound_to(self, cpus: Option<ThreadCpus>) -> Self {
        Self { cpus, ..self }
    }

    /// Rests until the next turn, in a load that takes turns. Returns whether it rested.
    #[inline]
    pub(crate) fn rest_between_turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| {
            turns.pass(|| self.is_abandoned() || self.clock.now_ns() >= self.closes_ns())
        })
    }

    /// 1 if an interval of the phase shows events of the warm-up, else 0. In a load that takes turns, such
    /// events settle the target while the phase is measured.
    pub(crate) fn shows_warmup_in(&self, phase: Phase) -> u64 {
        u64::from(self.turns.is_none() || phase != Phase::Measure)
    }

    /// Whether the load rests, in a load that takes turns.
    pub(crate) fn is_between_turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.stands())
    }

    /// Notes a worker's first event.
    pub(crate) fn note_first(&self, due_ns: u64, start_ns: u64) {
        self.first_due_ns.fetch_min(due_ns, Ordering::Relaxed);
        self.first_start_ns.fetch_min(start_ns, Ordering::Relaxed);
    }

    /// The first event; `None` if none has begun.
    pub(crate) fn first_start(&self) -> Option<FirstStart> {
        let start_ns = self.first_start_ns.load(Ordering::SeqCst);
        let due_ns = self.first_due_ns.load(Ordering::SeqCst);
        (start_ns != u64::MAX).then_some(FirstStart { due_ns, start_ns })
    }

    /// Sets the timeline of the run.
    pub(crate) fn begin(&self, timeline: Timeline) {
        for (worker, worker_state) in (0..).zip(&self.workers) {
            worker_state.next_own.store(self.share.number(worker), Ordering::SeqCst);
        }
        self.end_ns.store(timeline.measured_until_ns, Ordering::SeqCst);
        self.closes_ns.store(timeline.closes_ns, Ordering::SeqCst);
        assert!(self.timeline.set(timeline).is_ok(), "a run begins once");
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        self.timeline.get().expect("workers begin after the timeline was set")
    }

    /// End of the measured phase: an event that ends at or after it has not ended in the phase.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::SeqCst)
    }

    /// Time from which no event is taken.
    pub(crate) fn closes_ns(&self) -> u64 {
        self.closes_ns.load(Ordering::SeqCst)
    }

    /// The counting rule, with the phase as it is known now.
    pub(crate) fn counting(&self) -> Counting {
        let from_ns = self.timeline().measured_from_ns;
        Counting { from_ns, until_ns: self.end_ns(), by: self.counted_by }
    }

    /// The delay within `time` after which the connection of `connection_slot` joins a rising closed loop, or
    /// leaves a falling one; connections do so one after another.
    pub(crate) fn share_ns(&self, time: std::time::Duration, connection_slot: usize) -> u64 {
        // Called for each event. The division below would be the slowest part of what an event costs us.
        if time.is_zero() {
            return 0;
        }
        let share = u128::from(to_ns(time)) * connection_slot as u128 / self.connection_slots.len() as u128;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Ends the measured phase now, before its planned end, and returns its end.
    ///
    /// The clock is read again after the store: a worker that did not see the store stamped its event before
    /// this reading.
    pub(crate) fn end_now(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.closes_ns.fetch_min(now_ns, Ordering::SeqCst);
        self.end_ns.fetch_min(now_ns, Ordering::SeqCst);
        self.clock.now_ns().min(self.timeline().measured_until_ns)
    }

    /// The longest pause between reconnection attempts, before jitter. All connections together try some
    /// hundred times a second, so the end of an outage is detected promptly; each tries at least once a
    /// second.
    pub(crate) fn pause_last_ns(&self) -> u64 {
        (u64::from(self.settings.connections_in_all()) * PAUSE_FIRST_NS).min(PAUSE_LAST_NS)
    }

    /// The slots of a thread's connections; connections are distributed evenly.
    pub(crate) fn connection_slots_of(&self, worker: usize) -> std::ops::Range<usize> {
        let depth = self.settings.depth() as usize;
        let (connections, threads) = (self.connection_slots.len() / depth, self.workers.len());
        depth * (worker * connections / threads)..depth * ((worker + 1) * connections / threads)
    }

    /// The number of the host that the connection of `connection_slot` goes to.
    pub(crate) fn host_of(&self, connection_slot: usize) -> usize {
        if self.hosts.are_several() {
            self.hosts.number_of(connection_slot / self.settings.depth() as usize)
        } else {
            0
        }
    }

    /// The outages of that host.
    pub(crate) fn outages_of(&self, connection_slot: usize) -> &OutageLog {
        &self.outages[self.host_of(connection_slot)]
    }

    /// Hosts that cannot be reached at the moment.
    pub(crate) fn hosts_away(&self) -> usize {
        self.outages.iter().filter(|outages| outages.is_open()).count()
    }

    /// Stores an error message of the host of `connection_slot`, if it is the first of its class.
    pub(crate) fn note_sample(&self, connection_slot: usize, class: FailureClass, text: &str) {
        self.samples.note(class, || self.hosts.all()[self.host_of(connection_slot)].says(text));
    }

    /// The first message of each class of error.
    pub(crate) fn samples(&self) -> Vec<String> {
        self.samples.all()
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Gives up all events in flight: cuts every connection.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        for worker_state in &self.workers {
            worker_state.cut.cut();
        }
    }

    pub(crate) fn is_anybody_working(&self) -> bool {
        self.working.load(Ordering::SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Size of two cache lines, which processors fetch together.
    const LINES_BYTES: usize = 128;

    #[test]
    fn what_threads_write_for_each_event_is_not_beside_what_they_read() {
        let written = [
            offset_of!(Engine, next),
            offset_of!(Engine, next_warmup),
            offset_of!(Engine, next_after),
            offset_of!(Engine, catch_up_ns),
        ];
        let read = [offset_of!(Engine, end_ns), offset_of!(Engine, closes_ns), offset_of!(Engine, abandoned)];
        for (n, written_at) in written.iter().enumerate() {
            let mut others = written.iter().skip(n + 1).chain(&read);
            assert!(others.all(|at| at / LINES_BYTES != written_at / LINES_BYTES), "{written:?} {read:?}");
        }
        assert!(
            align_of::<Engine>() >= LINES_BYTES && size_of::<ConnectionSlot>().is_multiple_of(LINES_BYTES)
        );
    }
}
