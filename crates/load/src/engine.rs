//! What workers and conductor share: the timeline, who has taken which event, and when to stop.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use record::clock::Clock;
use record::histogram::Histogram;
use record::load::{LoadSettings, Rate, RateChange, Schedule};

use crate::client::Usage;
use crate::control::RateAsk;
use crate::counting::{By, Counting};
use crate::driver::{Cut, Driver, FailureClass};
use crate::due::{Due, Slot};
use crate::lead::Lead;
use crate::outage::OutageLog;
use crate::pace::Scratch;
use crate::worker::{PAUSE_FIRST_NS, PAUSE_LAST_NS, SLICE_NS};

/// The clock of a run: the kernel's, or a test's.
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Nobody's event.
const NONE: u64 = 0;
/// When an event is due that is not, as far as is known.
pub(crate) const NEVER_NS: u64 = u64::MAX;
/// How often a worker looks whether a change of rate that was announced came in time.
const ANNOUNCED_NS: u64 = 20_000;
/// How long before it takes effect a change of rate is announced: by then whoever sleeps has woken up and looked.
const NOTICE_NS: u64 = SLICE_NS + 50_000_000;
/// So long before it takes effect, at the latest, everybody could know of it.
const MARGIN_NS: u64 = 1_000_000;
/// Slower than an event an hour is no load: it was meant to be stopped.
const CHANGED_RATE_MIN: f64 = 1.0 / 3_600.0;

/// Tells the chance of the warm-up's events from that of the measured ones: those do not depend on the warm-up.
pub(crate) const WARMUP_CHANCE: u64 = 1 << 63;
/// The same for what comes while the load falls.
const AFTER_CHANCE: u64 = WARMUP_CHANCE | 1 << 62;

/// Everything that the threads of one run share.
pub(crate) struct Engine {
    pub(crate) settings: LoadSettings,
    counted_by: By,
    /// How early its workers ask to be woken.
    pub(crate) lead: Lead,
    /// Recorded due times, where the arrivals are such.
    pub(crate) recorded: Arc<[u64]>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: SharedClock,
    /// One a worker's thread.
    pub(crate) posts: Vec<Post>,
    /// One a request in flight: of each connection its own, one connection after the other. If each thread has one connection
    /// and that one request, they go by the same numbers.
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
    /// When the event in hand began; 0 where it has not. Written without a section: after `wait_ns`, which goes with it.
    start_ns: AtomicU64,
    /// How long the event in hand had waited for a free worker when it began.
    wait_ns: AtomicU64,
    /// When its last event ended.
    pub(crate) last_end_ns: AtomicU64,
    /// Events that it has ended, of all phases.
    ended: AtomicU64,
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

/// An event in a worker's hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// What its chance follows from.
    pub(crate) chance: u64,
    /// When it is due; in a closed loop, when it was taken.
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
    /// Number of the row that says so.
    pub(crate) version: usize,
}

/// What a connection holds, as its thread knows it.
pub(crate) struct Held {
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
    /// `None` where it has not begun.
    pub(crate) begun: Option<Begun>,
}

/// What is known of an event that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) start_ns: u64,
    pub(crate) wait_ns: u64,
}

/// The first message of each class of error.
#[derive(Debug, Default)]
pub(crate) struct ErrorSamples {
    /// Whether there is one: what every failed try asks, without a lock.
    has: [AtomicBool; 5],
    texts: Mutex<[Option<String>; 5]>,
}

impl Timeline {
    /// - `recorded`: due times, where the arrivals are recorded ones.
    /// - `changes_max`: how often the rate may be changed.
    pub(crate) fn new(
        settings: &LoadSettings,
        recorded: &Arc<[u64]>,
        start_ns: u64,
        changes_max: usize,
    ) -> Self {
        let warmup_from_ns = start_ns + to_ns(settings.ramp_up);
        let measured_from_ns = warmup_from_ns + to_ns(settings.warmup);
        let measured_until_ns = measured_from_ns + to_ns(settings.time);
        let closes_ns = measured_until_ns + to_ns(settings.ramp_down);
        let due = match settings.rate {
            Rate::Max => None,
            Rate::PerSecond(rate_per_s) => Some(Due::new(settings, rate_per_s, recorded, changes_max)),
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
        let row = self.due.as_ref()?.row();
        let since_ns = t_ns.saturating_sub(self.measured_until_ns);
        let after = row.after.as_ref().map_or(0, |after| after.count_before(since_ns, scratch));
        Some(row.due_before(t_ns.saturating_sub(self.start_ns), scratch) + after)
    }

    /// Events of the measured phase that are due before `t_ns`; 0 in a closed loop.
    pub(crate) fn measured_due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let since_ns = t_ns.saturating_sub(self.start_ns);
        self.due.as_ref().map_or(0, |due| due.row().measured_due_before(since_ns, scratch))
    }

    /// The highest rate of the measured phase until `t_ns`; `None` in a closed loop.
    pub(crate) fn rate_per_s_max(&self, t_ns: u64) -> Option<f64> {
        Some(self.due.as_ref()?.row().rate_per_s_max(t_ns.saturating_sub(self.start_ns)))
    }

    pub(crate) fn due_ns(&self, slot: &Slot) -> u64 {
        slot.due_ns.map_or(NEVER_NS, |due_ns| self.start_ns + due_ns)
    }
}

impl Engine {
    pub(crate) fn new(
        settings: LoadSettings,
        recorded: Arc<[u64]>,
        driver: Arc<dyn Driver>,
        clock: SharedClock,
    ) -> Self {
        let (threads, in_flight) = (settings.threads, settings.in_flight_max());
        Self {
            counted_by: By::of(&settings),
            lead: Lead::new(if settings.rate != Rate::Max && settings.client.spin.is_zero() {
                settings.client.spin_budget_ratio
            } else {
                0.0
            }),
            settings,
            recorded,
            catch_up_ns: AtomicU64::new(0),
            driver,
            clock,
            posts: (0..threads).map(|_| Post::default()).collect(),
            hands: (0..in_flight).map(|_| Hand::default()).collect(),
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
            post.next_own.store(worker, Ordering::SeqCst);
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

    /// The rule of what counts, as the phase is known now.
    pub(crate) fn counting(&self) -> Counting {
        let from_ns = self.timeline().measured_from_ns;
        Counting { from_ns, until_ns: self.end_ns(), by: self.counted_by }
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
        (u64::from(self.settings.connections_in_all()) * PAUSE_FIRST_NS).min(PAUSE_LAST_NS)
    }

    /// The hands of a thread's connections: dealt out as evenly as it goes.
    pub(crate) fn hands_of(&self, worker: usize) -> std::ops::Range<usize> {
        let depth = self.settings.depth() as usize;
        let (connections, threads) = (self.hands.len() / depth, self.posts.len());
        depth * (worker * connections / threads)..depth * ((worker + 1) * connections / threads)
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

    /// Takes the next event of an open loop into `hand`, for the thread `worker`; `None` where there is none left. Where
    /// the rate may change there is always one, though it may be due [`NEVER_NS`].
    ///
    /// Only inside a section of the worker's recorder: so the books are never closed between the taking and its note.
    pub(crate) fn take_open(&self, worker: usize, hand: usize, scratch: &mut Scratch) -> Option<Taken> {
        let due = self.timeline().due.as_ref()?;
        let number = match self.settings.schedule {
            Schedule::Shared => self.next.fetch_add(1, Ordering::Relaxed),
            Schedule::Own => self.posts[worker].next_own.load(Ordering::Relaxed),
        };
        let version = self.version(due);
        let slot = due.slot(due.row_of(version), number, worker, scratch);
        if slot.due_ns.is_none() && !due.may_change() {
            return None;
        }
        Some(self.hold(due, version, &slot, worker, hand))
    }

    /// The event in `hand` that `taken` is, where a change of the rate made it due at another time; inside a section, as
    /// [`Self::take_open`].
    pub(crate) fn take_again(
        &self,
        taken: &Taken,
        worker: usize,
        hand: usize,
        scratch: &mut Scratch,
    ) -> Option<Taken> {
        let due = self.timeline().due.as_ref()?;
        let version = self.version(due);
        let number = self.hands[hand].slot.load(Ordering::SeqCst).checked_sub(1)?;
        if version == taken.version || number & WARMUP_CHANCE != 0 {
            return None;
        }
        let slot = due.slot(due.row_of(version), number, worker, scratch);
        Some(self.hold(due, version, &slot, worker, hand))
    }

    /// Whether `taken` may be due at another time by now.
    pub(crate) fn may_have_changed(&self, taken: &Taken) -> bool {
        let due = self.timeline().due.as_ref();
        due.is_some_and(|due| due.may_change() && due.version() != Some(taken.version))
    }

    fn hold(&self, due: &Due, version: usize, slot: &Slot, worker: usize, hand: usize) -> Taken {
        if self.settings.schedule == Schedule::Own {
            self.posts[worker].next_own.store(due.next_own(slot.number), Ordering::Relaxed);
        }
        let due_ns = self.timeline().due_ns(slot);
        self.hands[hand].hold(slot.number, due_ns, slot.is_measured);
        Taken { chance: slot.chance, due_ns, is_measured: slot.is_measured, version }
    }

    /// The number of the row in force, waiting for what is announced to be certain.
    fn version(&self, due: &Due) -> usize {
        loop {
            if let Some(version) = due.version() {
                return version;
            }
            self.clock.sleep_until_ns(self.clock.now_ns() + ANNOUNCED_NS);
        }
    }

    /// Takes the next event of the falling load into `hand`; inside a section, as [`Self::take_open`].
    pub(crate) fn take_after(&self, hand: usize, scratch: &mut Scratch) -> Option<Taken> {
        let timeline = self.timeline();
        let after = timeline.due.as_ref()?.row().after.as_ref()?;
        let slot = self.next_after.fetch_add(1, Ordering::Relaxed);
        if slot >= after.count() {
            return None;
        }
        let due_ns = timeline.measured_until_ns + after.in_order_ns(slot, scratch);
        let chance = AFTER_CHANCE | slot;
        self.hands[hand].hold(chance, due_ns, false);
        Some(Taken { chance, due_ns, is_measured: false, version: 0 })
    }

    /// The rate as it is now; `None` in a closed loop.
    pub(crate) fn rate_per_s(&self) -> Option<f64> {
        Some(self.timeline().due.as_ref()?.rate_per_s())
    }

    /// Changes the rate a moment from now, for everybody at once. Only who conducts does.
    pub(crate) fn change_rate(&self, ask: RateAsk) -> Result<RateChange, String> {
        let timeline = self.timeline();
        let Some(due) = &timeline.due else { return Err("a closed loop has no rate to change".to_owned()) };
        let from_per_s = due.rate_per_s();
        let per_s = match ask {
            RateAsk::PerSecond(_) if due.says_its_rates() => {
                let arrivals = &self.settings.arrivals;
                return Err(format!(
                    "{arrivals} says its rates itself: change them by a share, as in `rate +10%`"
                ));
            }
            RateAsk::PerSecond(per_s) => per_s,
            RateAsk::Times(times) => in_words(from_per_s * times),
        };
        if !(CHANGED_RATE_MIN..=crate::RATE_MAX).contains(&per_s) {
            let wrong = if per_s > 1e9 { format!("{per_s:e}/s") } else { format!("{per_s}/s") };
            return Err(format!("{wrong} is no rate to change to: from 1/h to {}/s", crate::RATE_MAX));
        }
        let mut notice_ns = NOTICE_NS;
        loop {
            let at_ns = (self.clock.now_ns() + notice_ns).max(timeline.start_ns);
            if at_ns >= timeline.measured_until_ns {
                return Err("the measured phase ends before the rate could change".to_owned());
            }
            let is_in_time = || self.clock.now_ns() + MARGIN_NS < at_ns;
            match due.change(at_ns - timeline.start_ns, per_s, is_in_time) {
                None => return Err("the rate was changed too often already".to_owned()),
                Some(true) => {
                    let at_s = (at_ns as f64 - timeline.measured_from_ns as f64) / 1e9;
                    return Ok(RateChange { at_s, from_per_s, per_s });
                }
                // It took too long to lay out: longer notice.
                Some(false) => notice_ns *= 4,
            }
        }
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
        Some(Taken { chance, due_ns: now_ns, is_measured, version: 0 })
    }

    /// Shared schedule: the first slot that was not taken.
    pub(crate) fn next_shared(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Own schedule: the first slot of each thread that it did not take.
    pub(crate) fn next_own(&self) -> Vec<u64> {
        self.posts.iter().map(|post| post.next_own.load(Ordering::SeqCst)).collect()
    }

    /// What the connections hold: the thread, the number of the slot, and its due time as the thread knows it.
    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, u64, Held)> + '_ {
        let hands =
            (0..self.posts.len()).flat_map(|worker| self.hands_of(worker).map(move |hand| (worker, hand)));
        hands.filter_map(|(worker, hand)| {
            let hand = &self.hands[hand];
            let number = hand.slot.load(Ordering::SeqCst).checked_sub(NONE + 1)?;
            let due_ns = hand.due_ns.load(Ordering::SeqCst);
            let is_measured = hand.is_measured.load(Ordering::SeqCst);
            Some((worker, number, Held { due_ns, is_measured, begun: hand.begun() }))
        })
    }

    /// Events that are due, or in a closed loop begun, and have not ended; counted without any stamp of theirs.
    pub(crate) fn in_system(&self, scratch: &mut Scratch) -> u64 {
        let ended: u64 = self.hands.iter().map(|hand| hand.ended.load(Ordering::Relaxed)).sum();
        match self.timeline().due_before(self.clock.now_ns(), scratch) {
            Some(due) => due.saturating_sub(ended),
            None => self.in_hand(),
        }
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
        self.start_ns.store(0, Ordering::Relaxed);
        self.slot.store(slot + 1, Ordering::SeqCst);
    }

    /// The event in hand begins at `start_ns`, with the stamp that was taken for it anyway.
    pub(crate) fn begin(&self, wait_ns: u64, start_ns: u64) {
        self.wait_ns.store(wait_ns, Ordering::Relaxed);
        self.start_ns.store(start_ns, Ordering::Release);
    }

    fn begun(&self) -> Option<Begun> {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        (start_ns > 0).then(|| Begun { start_ns, wait_ns: self.wait_ns.load(Ordering::Relaxed) })
    }

    /// The event in hand has its fate in the recorder.
    pub(crate) fn release(&self, end_ns: u64) {
        self.last_end_ns.store(end_ns, Ordering::Relaxed);
        self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
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
            Self::Timeout => 4,
        }
    }

    fn word(self) -> &'static str {
        ["transient", "connection", "application", "verify", "timeout"][self.index()]
    }
}

/// A span in whole nanoseconds; 584 years where it is longer.
pub(crate) fn to_ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Without the last digits, which only the arithmetic has put there: 440 for 1.1 times 400.
fn in_words(per_s: f64) -> f64 {
    format!("{per_s:.11e}").parse().unwrap_or(per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_rate_is_as_a_person_would_write_it() {
        for (per_s, said) in [(400.0 * 1.1, "440"), (0.3 * 3.0, "0.9"), (1e6 / 3.0, "333333.333333")] {
            assert_eq!(in_words(per_s).to_string(), said);
        }
    }
}
