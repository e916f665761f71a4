//! What workers and conductor share: the timeline, who has taken which event, and when to stop.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use record::clock::Clock;
use record::event::{EventRow, Fate};
use record::histogram::Histogram;
use record::load::{Arrivals, LoadSettings, Rate, Schedule};

use crate::client::Usage;
use crate::driver::{Cut, Driver, FailureClass};
use crate::outage::OutageLog;
use crate::pace::{self, Pace, PaceSettings, Scratch};
use crate::worker::{PAUSE_FIRST_NS, PAUSE_LAST_NS};

/// The clock of a run: the kernel's, or a test's.
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Nobody's event.
const NONE: u64 = 0;

/// Tells the chance of the warm-up's events from that of the measured ones: those do not depend on the warm-up.
const WARMUP_CHANCE: u64 = 1 << 63;
/// The same for what comes while the load falls.
const AFTER_CHANCE: u64 = WARMUP_CHANCE | 1 << 62;

/// Everything that the threads of one run share.
pub(crate) struct Engine {
    pub(crate) settings: LoadSettings,
    /// Recorded due times, where the arrivals are such.
    pub(crate) recorded: Arc<[u64]>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: SharedClock,
    /// One a worker's thread.
    pub(crate) posts: Vec<Post>,
    /// One a connection; where each thread has one connection, they go by the same numbers.
    pub(crate) hands: Vec<Hand>,
    /// Set when every worker is connected; the workers wait for it.
    pub(crate) timeline: OnceLock<Timeline>,
    /// Shared schedule: the next slot. Closed loop: the next event of the measured phase.
    next: AtomicU64,
    /// Closed loop: the next event of the warm-up.
    next_warmup: AtomicU64,
    /// The measured phase ends: what ends later has not ended in it.
    end_ns: AtomicU64,
    /// No event is taken from here on; where the load falls at its end, later than `end_ns`.
    closes_ns: AtomicU64,
    /// Open loop: the next slot of the falling load.
    next_after: AtomicU64,
    /// What is in flight is not worth finishing any more.
    abandoned: AtomicBool,
    /// Workers that may still take or finish events.
    pub(crate) working: AtomicU32,
    /// When the next late event may start, where they are paced.
    catch_up_ns: AtomicU64,
    pub(crate) outages: OutageLog,
    /// How long the making of each connection took, before the load began.
    pub(crate) connects: Mutex<Histogram>,
    pub(crate) samples: ErrorSamples,
    pub(crate) usages: Mutex<Vec<Usage>>,
}

/// What one connection has in hand.
#[derive(Default)]
pub(crate) struct Hand {
    /// Number + 1 of the slot in hand; [`NONE`] while it has none. Written in sections of its recorder only.
    slot: AtomicU64,
    /// When the event in hand was due.
    due_ns: AtomicU64,
    /// Whether the event in hand belongs to the measured phase.
    is_measured: AtomicBool,
    /// When its last event ended.
    pub(crate) last_end_ns: AtomicU64,
}

/// What one worker's thread shows the conductor.
#[derive(Default)]
pub(crate) struct Post {
    /// Own schedule: this worker's next slot.
    next_own: AtomicU64,
    /// Its thread.
    pub(crate) thread_id: AtomicI32,
    /// How long its thread had waited for a CPU when it ended; 0 while it runs or where the kernel does not say.
    pub(crate) run_queue_wait_ns: AtomicU64,
    /// How its connection is cut.
    pub(crate) cut: Cut,
}

/// When the phases begin and end, and what is due in them.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) start_ns: u64,
    /// The load has its rate from here on.
    pub(crate) warmup_from_ns: u64,
    pub(crate) measured_from_ns: u64,
    /// The planned end; the actual one may come earlier.
    pub(crate) measured_until_ns: u64,
    /// The load has fallen to nothing.
    pub(crate) closes_ns: u64,
    /// `None` in a closed loop.
    pub(crate) due: Option<Due>,
}

/// The schedules of both phases, as one row of slots: the warm-up's first.
#[derive(Debug)]
pub(crate) struct Due {
    warmup: Option<Pace>,
    warmup_count: u64,
    measured: Pace,
    /// What comes while the load falls: slots of its own.
    after: Option<Pace>,
}

/// An event in a worker's hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// What its chance follows from.
    pub(crate) chance: u64,
    /// When it is due; in a closed loop, when it was taken.
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
}

/// What became of the events that nobody ended.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// Of the measured phase: how long each had lasted.
    pub(crate) at_least: Histogram,
    /// Of the warm-up.
    pub(crate) warmup: u64,
    /// Of the measured phase, as they go into the log of events.
    pub(crate) rows: Vec<EventRow>,
}

/// The first message of each class of error.
#[derive(Debug, Default)]
pub(crate) struct ErrorSamples {
    /// Whether there is one: what every failed try asks, without a lock.
    has: [AtomicBool; 4],
    texts: Mutex<[Option<String>; 4]>,
}

impl Timeline {
    /// - `recorded`: due times, where the arrivals are recorded ones.
    pub(crate) fn new(settings: &LoadSettings, recorded: &Arc<[u64]>, start_ns: u64) -> Self {
        let warmup_from_ns = start_ns + to_ns(settings.ramp_up);
        let measured_from_ns = warmup_from_ns + to_ns(settings.warmup);
        let measured_until_ns = measured_from_ns + to_ns(settings.time);
        let closes_ns = measured_until_ns + to_ns(settings.ramp_down);
        let due = match settings.rate {
            Rate::Max => None,
            Rate::PerSecond(rate_per_s) => {
                let measured = PaceSettings {
                    arrivals: settings.arrivals.clone(),
                    recorded: Arc::clone(recorded),
                    rate_per_s,
                    threads: settings.threads,
                    seed: settings.seed,
                    span: settings.time,
                    events_max: settings.events_max,
                };
                let lead = before(&measured, settings.ramp_up + settings.warmup);
                let warmup = match (settings.ramp_up.is_zero(), lead.span.is_zero()) {
                    (_, true) => None,
                    (true, false) => Some(Pace::new(&lead)),
                    (false, false) => Some(Pace::rising(&lead, settings.ramp_up)),
                };
                let warmup_count = warmup.as_ref().map_or(0, Pace::count);
                let fall = PaceSettings { span: settings.ramp_down, events_max: None, ..measured.clone() };
                let after = (!fall.span.is_zero()).then(|| Pace::falling(&fall));
                Some(Due { warmup, warmup_count, measured: Pace::new(&measured), after })
            }
        };
        Self { start_ns, warmup_from_ns, measured_from_ns, measured_until_ns, closes_ns, due }
    }

    /// The same, beginning at another moment.
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
        let due = self.due.as_ref()?;
        let warmup =
            due.warmup.as_ref().map_or(0, |w| w.count_before(t_ns.saturating_sub(self.start_ns), scratch));
        let since_ns = t_ns.saturating_sub(self.measured_until_ns);
        let after = due.after.as_ref().map_or(0, |after| after.count_before(since_ns, scratch));
        Some(warmup + self.measured_due_before(t_ns, scratch) + after)
    }

    /// Events of the measured phase that are due before `t_ns`; 0 in a closed loop.
    pub(crate) fn measured_due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let since_ns = t_ns.saturating_sub(self.measured_from_ns);
        self.due.as_ref().map_or(0, |due| due.measured.count_before(since_ns, scratch))
    }

    fn slots(&self) -> u64 {
        self.due.as_ref().map_or(0, |due| due.warmup_count + due.measured.count())
    }

    fn is_measured(&self, slot: u64) -> bool {
        self.due.as_ref().is_some_and(|due| slot >= due.warmup_count)
    }

    /// Due time of a slot.
    fn slot_ns(&self, slot: u64, schedule: Schedule, scratch: &mut Scratch) -> u64 {
        let due = self.due.as_ref().expect("a closed loop has no slots");
        let in_phase = |pace: &Pace, slot, scratch: &mut Scratch| match schedule {
            Schedule::Shared => pace.in_order_ns(slot, scratch),
            Schedule::Own => pace.of_slot_ns(slot, scratch),
        };
        match &due.warmup {
            Some(warmup) if slot < due.warmup_count => self.start_ns + in_phase(warmup, slot, scratch),
            _ => self.measured_from_ns + in_phase(&due.measured, slot - due.warmup_count, scratch),
        }
    }

    /// Worker `worker`'s slot after `slot`, in its own schedule: each phase is dealt out from worker 0 on.
    fn next_own(&self, slot: u64, worker: u64, threads: u64) -> u64 {
        let warmup_count = self.due.as_ref().map_or(0, |due| due.warmup_count);
        let next = slot + threads;
        if slot < warmup_count && next >= warmup_count { warmup_count + worker } else { next }
    }

    fn first_own(&self, worker: u64) -> u64 {
        let warmup_count = self.due.as_ref().map_or(0, |due| due.warmup_count);
        if worker < warmup_count { worker } else { warmup_count + worker }
    }
}

/// The pace of a warm-up of length `span` before `measured`: the same arrivals, or, where those change their rate,
/// even ones at the rate with which they begin.
fn before(measured: &PaceSettings, span: std::time::Duration) -> PaceSettings {
    let (arrivals, rate_per_s) = if measured.arrivals.say_their_rate() {
        let opening_per_s = pace::opening_rate_per_s(&measured.arrivals, measured.span);
        (Arrivals::Period, opening_per_s.unwrap_or(measured.rate_per_s))
    } else {
        (measured.arrivals.clone(), measured.rate_per_s)
    };
    let seed = measured.seed ^ WARMUP_CHANCE;
    PaceSettings { arrivals, rate_per_s, seed, span, events_max: None, ..measured.clone() }
}

impl Engine {
    pub(crate) fn new(
        settings: LoadSettings,
        recorded: Arc<[u64]>,
        driver: Arc<dyn Driver>,
        clock: SharedClock,
    ) -> Self {
        let (threads, connections) = (settings.threads, settings.connections_in_all());
        Self {
            settings,
            recorded,
            catch_up_ns: AtomicU64::new(0),
            driver,
            clock,
            posts: (0..threads).map(|_| Post::default()).collect(),
            hands: (0..connections).map(|_| Hand::default()).collect(),
            timeline: OnceLock::new(),
            next: AtomicU64::new(0),
            next_warmup: AtomicU64::new(0),
            end_ns: AtomicU64::new(u64::MAX),
            closes_ns: AtomicU64::new(u64::MAX),
            next_after: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            working: AtomicU32::new(threads),
            outages: OutageLog::default(),
            connects: Mutex::default(),
            samples: ErrorSamples::default(),
            usages: Mutex::default(),
        }
    }

    /// Fixes when everything happens.
    pub(crate) fn begin(&self, timeline: Timeline) {
        for (worker, post) in (0..).zip(&self.posts) {
            post.next_own.store(timeline.first_own(worker), Ordering::SeqCst);
        }
        self.end_ns.store(timeline.measured_until_ns, Ordering::SeqCst);
        self.closes_ns.store(timeline.closes_ns, Ordering::SeqCst);
        assert!(self.timeline.set(timeline).is_ok(), "a run begins once");
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        self.timeline.get().expect("workers begin after the timeline was set")
    }

    /// What ends from here on has not ended in the measured phase.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::SeqCst)
    }

    /// No event is taken from here on.
    pub(crate) fn closes_ns(&self) -> u64 {
        self.closes_ns.load(Ordering::SeqCst)
    }

    /// The part of `time` after which the connection of `hand` joins a closed loop that rises: one after the other.
    pub(crate) fn share_ns(&self, time: std::time::Duration, hand: usize) -> u64 {
        let share = u128::from(to_ns(time)) * hand as u128 / self.hands.len() as u128;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Ends the measured phase now, before its time, and returns its end.
    ///
    /// The clock is read again after the store: a worker that had not seen the store has stamped its event before.
    pub(crate) fn end_now(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.closes_ns.fetch_min(now_ns, Ordering::SeqCst);
        self.end_ns.fetch_min(now_ns, Ordering::SeqCst);
        self.clock.now_ns().min(self.timeline().measured_until_ns)
    }

    /// The longest pause before a connection is tried again, but for chance: all together they try some hundred times a
    /// second, so that the end of an outage is seen when it comes, and each tries once a second at least.
    pub(crate) fn pause_last_ns(&self) -> u64 {
        (self.hands.len() as u64 * PAUSE_FIRST_NS).min(PAUSE_LAST_NS)
    }

    /// The hands of a thread's connections: dealt out as evenly as it goes.
    pub(crate) fn hands_of(&self, worker: usize) -> std::ops::Range<usize> {
        let (hands, threads) = (self.hands.len(), self.posts.len());
        worker * hands / threads..(worker + 1) * hands / threads
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Gives up what is in flight: cuts every connection.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        for post in &self.posts {
            post.cut.cut();
        }
    }

    pub(crate) fn is_anybody_working(&self) -> bool {
        self.working.load(Ordering::SeqCst) > 0
    }

    /// Takes the next event of an open loop into `hand`, for the thread `worker`; `None` where there is none left.
    ///
    /// Only inside a section of the worker's recorder: so the books are never closed between the taking and its note.
    pub(crate) fn take_open(&self, worker: usize, hand: usize, scratch: &mut Scratch) -> Option<Taken> {
        let timeline = self.timeline();
        let post = &self.posts[worker];
        let slot = match self.settings.schedule {
            Schedule::Shared => self.next.fetch_add(1, Ordering::Relaxed),
            Schedule::Own => {
                let slot = post.next_own.load(Ordering::Relaxed);
                let next = timeline.next_own(slot, worker as u64, self.settings.threads.into());
                post.next_own.store(next, Ordering::Relaxed);
                slot
            }
        };
        if slot >= timeline.slots() {
            return None;
        }
        let due_ns = timeline.slot_ns(slot, self.settings.schedule, scratch);
        let is_measured = timeline.is_measured(slot);
        let warmup_count = timeline.due.as_ref().map_or(0, |due| due.warmup_count);
        let chance = if is_measured { slot - warmup_count } else { WARMUP_CHANCE | slot };
        self.hands[hand].hold(slot, due_ns, is_measured);
        Some(Taken { chance, due_ns, is_measured })
    }

    /// Takes the next event of the falling load into `hand`; inside a section, as [`Self::take_open`].
    pub(crate) fn take_after(&self, hand: usize, scratch: &mut Scratch) -> Option<Taken> {
        let timeline = self.timeline();
        let after = timeline.due.as_ref()?.after.as_ref()?;
        let slot = self.next_after.fetch_add(1, Ordering::Relaxed);
        if slot >= after.count() {
            return None;
        }
        let due_ns = timeline.measured_until_ns + after.in_order_ns(slot, scratch);
        let chance = AFTER_CHANCE | slot;
        self.hands[hand].hold(chance, due_ns, false);
        Some(Taken { chance, due_ns, is_measured: false })
    }

    /// When a late event that asks at `now_ns` may start: late ones start at least `gap_ns` apart.
    pub(crate) fn turn_ns(&self, now_ns: u64, gap_ns: u64) -> u64 {
        let next = |turn_ns: u64| Some(turn_ns.max(now_ns) + gap_ns);
        let turn_ns = self.catch_up_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        turn_ns.expect("there is always a next turn").max(now_ns)
    }

    /// Takes the next event of a closed loop into `hand`, at `now_ns`; inside a section, as [`Self::take_open`].
    pub(crate) fn take_closed(&self, hand: usize, now_ns: u64) -> Option<Taken> {
        let is_measured = (self.timeline().measured_from_ns..self.end_ns()).contains(&now_ns);
        let chance = if is_measured {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if self.settings.events_max.is_some_and(|max| number >= max) {
                return None;
            }
            number
        } else {
            WARMUP_CHANCE | self.next_warmup.fetch_add(1, Ordering::Relaxed)
        };
        self.hands[hand].hold(chance, now_ns, is_measured);
        Some(Taken { chance, due_ns: now_ns, is_measured })
    }

    /// Finds every event that was due and has not ended. Only after the books were closed.
    ///
    /// - `until_ns`: end of the measured phase.
    /// - `looked_until_ns`: when we stopped looking at what was in flight then.
    /// - `is_logged`: whether each goes into the log of events.
    pub(crate) fn unfinished(
        &self,
        until_ns: u64,
        looked_until_ns: u64,
        is_logged: bool,
        scratch: &mut Scratch,
    ) -> Unfinished {
        let row = |due_ns| EventRow {
            due_ns,
            claim_ns: None,
            start_ns: None,
            end_ns: None,
            operation: None,
            fate: Fate::Unfinished,
        };
        let timeline = self.timeline();
        let mut unfinished = Unfinished::default();
        for hand in self.hands.iter().filter(|h| h.slot.load(Ordering::SeqCst) != NONE) {
            let due_ns = hand.due_ns.load(Ordering::SeqCst);
            if !hand.is_measured.load(Ordering::SeqCst) {
                unfinished.warmup += u64::from(due_ns < timeline.measured_from_ns);
            } else if due_ns < until_ns {
                unfinished.at_least.record(looked_until_ns.saturating_sub(due_ns));
                unfinished.rows.extend(is_logged.then(|| row(due_ns)));
            }
        }
        let mut never_taken = |slot| {
            if !timeline.is_measured(slot) {
                unfinished.warmup += 1;
                return;
            }
            let due_ns = timeline.slot_ns(slot, self.settings.schedule, scratch);
            if due_ns < until_ns {
                unfinished.at_least.record(until_ns - due_ns);
                unfinished.rows.extend(is_logged.then(|| row(due_ns)));
            }
        };
        match self.settings.schedule {
            _ if timeline.due.is_none() => {}
            Schedule::Shared => {
                (self.next.load(Ordering::SeqCst)..timeline.slots()).for_each(&mut never_taken);
            }
            Schedule::Own => {
                for (worker, post) in (0..).zip(&self.posts) {
                    let mut slot = post.next_own.load(Ordering::SeqCst);
                    while slot < timeline.slots() {
                        never_taken(slot);
                        slot = timeline.next_own(slot, worker, self.settings.threads.into());
                    }
                }
            }
        }
        unfinished
    }

    /// Events in the connections' hands.
    pub(crate) fn in_hand(&self) -> u64 {
        self.hands.iter().filter(|h| h.slot.load(Ordering::SeqCst) != NONE).count() as u64
    }
}

impl Hand {
    fn hold(&self, slot: u64, due_ns: u64, is_measured: bool) {
        self.due_ns.store(due_ns, Ordering::SeqCst);
        self.is_measured.store(is_measured, Ordering::SeqCst);
        self.slot.store(slot + 1, Ordering::SeqCst);
    }

    /// The event in hand has its fate in the recorder.
    pub(crate) fn release(&self, end_ns: u64) {
        self.last_end_ns.store(end_ns, Ordering::Relaxed);
        self.slot.store(NONE, Ordering::SeqCst);
    }
}

impl ErrorSamples {
    /// Keeps the message where it is the first of its class.
    pub(crate) fn note(&self, class: FailureClass, text: &str) {
        let has = &self.has[class.index()];
        if has.load(Ordering::Relaxed) {
            return;
        }
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts[class.index()].get_or_insert_with(|| format!("{}: {text}", class.word()));
        has.store(true, Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect()
    }
}

impl FailureClass {
    /// The class under which a failed try is counted.
    fn index(self) -> usize {
        match self {
            Self::Transient => 0,
            Self::Connection => 1,
            Self::Application | Self::Configuration | Self::Machine => 2,
            Self::Verify => 3,
        }
    }

    fn word(self) -> &'static str {
        ["transient", "connection", "application", "verify"][self.index()]
    }
}

/// A span in whole nanoseconds; 584 years where it is longer.
pub(crate) fn to_ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
