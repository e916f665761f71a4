//! What workers and conductor share: the timeline, who has taken which event, and when to stop.

pub(crate) mod closed;
pub(crate) mod event_loop;
mod hands;
pub(crate) mod ledger;
pub(crate) mod open;
mod rates;
mod samples;
mod taking;
pub(crate) mod worker;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use record::clock::Clock;
use record::histogram::Histogram;
use record::load::LoadSettings;

pub(crate) use self::hands::Begun;
use self::hands::Hand;
use self::samples::ErrorSamples;
pub(crate) use self::taking::{Taken, WARMUP_CHANCE};
use crate::driver::hosts::Hosts;
use crate::driver::{Cut, FailureClass};
use crate::engine::worker::{PAUSE_FIRST_NS, PAUSE_LAST_NS};
use crate::measure::client::{Scheduled, Usage};
use crate::measure::counting::{By, Counting};
use crate::measure::outage::OutageLog;
use crate::schedule::due::{Due, Slot};
use crate::schedule::lead::Lead;
use crate::schedule::pace::Scratch;

/// The clock of a run: the kernel's, or a test's.
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// When an event is due that is not, as far as is known.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// Everything that the threads of one run share.
pub(crate) struct Engine {
    pub(crate) settings: LoadSettings,
    counted_by: By,
    /// How early its workers ask to be woken.
    pub(crate) lead: Lead,
    /// Recorded due times, where the arrivals are such.
    pub(crate) recorded: Arc<[u64]>,
    pub(crate) hosts: Arc<Hosts>,
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
    /// One a host.
    pub(crate) outages: Box<[OutageLog]>,
    /// How long the making of each connection took, before the load began.
    pub(crate) connects: Mutex<Histogram>,
    samples: ErrorSamples,
    pub(crate) usages: Mutex<Vec<Usage>>,
}

/// What one worker's thread shows the conductor.
#[derive(Default)]
pub(crate) struct Post {
    /// Own schedule: this worker's next slot.
    next_own: AtomicU64,
    /// Its thread.
    pub(crate) thread_id: AtomicI32,
    /// The kernel's account of its thread when it ended.
    pub(crate) scheduled: OnceLock<Option<Scheduled>>,
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
        let due = settings.pace.as_open().map(|open| Due::new(settings, open, recorded, changes_max));
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
        hosts: Arc<Hosts>,
        clock: SharedClock,
    ) -> Self {
        let (threads, in_flight) = (settings.threads, settings.in_flight_max());
        Self {
            counted_by: By::of(&settings),
            lead: Lead::new(match settings.pace.as_open() {
                Some(open) if settings.client.spin.is_zero() => open.spin_budget_ratio,
                _ => 0.0,
            }),
            settings,
            recorded,
            catch_up_ns: AtomicU64::new(0),
            outages: hosts.all().iter().map(|_| OutageLog::default()).collect(),
            hosts,
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
        // Asked for each event, and the division below is the slowest of all that an event costs us.
        if time.is_zero() {
            return 0;
        }
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

    /// The number of the host that the connection of `hand` goes to.
    pub(crate) fn host_of(&self, hand: usize) -> usize {
        if self.hosts.are_several() { self.hosts.number_of(hand / self.settings.depth() as usize) } else { 0 }
    }

    /// When that host could not be reached.
    pub(crate) fn outages_of(&self, hand: usize) -> &OutageLog {
        &self.outages[self.host_of(hand)]
    }

    /// Hosts that cannot be reached at the moment.
    pub(crate) fn hosts_away(&self) -> usize {
        self.outages.iter().filter(|outages| outages.is_open()).count()
    }

    /// Keeps what the host of `hand` said, or was said of it, where it is the first of its class.
    pub(crate) fn note_sample(&self, hand: usize, class: FailureClass, text: &str) {
        self.samples.note(class, || self.hosts.all()[self.host_of(hand)].says(text));
    }

    /// The first message of each class of error.
    pub(crate) fn samples(&self) -> Vec<String> {
        self.samples.all()
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
}

/// A span in whole nanoseconds; 584 years where it is longer.
pub(crate) fn to_ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
