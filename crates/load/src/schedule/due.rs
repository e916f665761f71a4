//! The events due in an open loop, phase by phase, and the changes of rate.
//!
//! All events form one row of slots: those of the warm-up first, then those of the measured phase. The row
//! consists of *stretches*, each with its pace. A change of rate cuts the stretch that it falls into and lays
//! out the rest anew: events that were due before the change keep their slots and their due times, even if a
//! worker holds them; the schedule begins anew at the moment of the change, so its first event is due then.
//! Workers that hold a later event look up its due time again. A change is announced some time ahead and
//! takes effect for all workers at one moment, so no worker can have begun an event that is now due at
//! another time, and the books balance to the event.
//!
//! Rows are never removed: a worker that still reads an old row reads a true account of the past.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use record::load::{Arrivals, LoadSettings, OpenLoop, Schedule};

use crate::schedule::clock::to_ns;
use crate::schedule::pace::{self, Form, Pace, PaceSettings, Progress, Scratch};
use crate::schedule::share::Share;

/// Marks the random streams of warm-up events: those of measured events do not depend on the warm-up.
pub(crate) const WARMUP_CHANCE: u64 = 1 << 63;

/// All rows of events so far, and the current one.
#[derive(Debug)]
pub(crate) struct Due {
    plan: Plan,
    /// Room for the first row and for one row after each change of rate.
    rows: Box<[OnceLock<Row>]>,
    /// Rows made so far; only the conductor changes it.
    made: AtomicUsize,
    /// Number of the current row, times two; odd while it is undecided whether the next row comes in time.
    state: AtomicUsize,
}

/// The phases as planned.
#[derive(Debug)]
struct Plan {
    lead: Option<Part>,
    measured: Part,
    after: Option<Part>,
    schedule: Schedule,
    share: Share,
}

/// A phase. Times here and below count from the beginning of the load.
#[derive(Debug)]
struct Part {
    from_ns: u64,
    pace: PaceSettings,
    form: Form,
}

/// All events in order.
#[derive(Debug)]
pub(crate) struct Row {
    stretches: Vec<Stretch>,
    /// The falling load, with separate slots.
    pub(crate) after: Option<Pace>,
    /// The rate as a multiple of the planned rate.
    factor: f64,
    schedule: Schedule,
    /// The part of the events that this generator has; all slots are numbered, and none is left out.
    share: Share,
}

/// A part of a phase between two changes of the rate.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    from_ns: u64,
    until_ns: u64,
    pace: Arc<Pace>,
    /// Number of its first slot.
    pub(crate) first: u64,
    /// Events due in it.
    pub(crate) count: u64,
    pub(crate) is_measured: bool,
    rate_per_s: f64,
}

/// An event of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) number: u64,
    /// Due time; `None` if it is not due in this load, as far as is known.
    pub(crate) due_ns: Option<u64>,
    pub(crate) is_measured: bool,
    /// Number of its random stream.
    pub(crate) chance: u64,
}

impl Part {
    /// The pace of the phase after `progress`, at `factor` times its rate; `change` separates the random
    /// streams of the layouts.
    fn laid_out(&self, progress: Progress, factor: f64, change: usize) -> Arc<Pace> {
        let seed = self.pace.seed ^ (change as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let settings = PaceSettings { seed, ..self.pace.clone() };
        Arc::new(Pace::laid_out(&settings, self.form, progress, factor))
    }

    fn until_ns(&self) -> u64 {
        self.from_ns + to_ns(self.pace.span)
    }
}

impl Due {
    /// Lays out the first row.
    ///
    /// - `recorded`: due times, if arrivals are replayed.
    /// - `share`: the part of the events that this generator has.
    /// - `changes_max`: the maximum number of rate changes.
    pub(crate) fn new(
        settings: &LoadSettings,
        open: &OpenLoop,
        recorded: &Arc<[u64]>,
        share: Share,
        changes_max: usize,
    ) -> Self {
        let pace = PaceSettings {
            arrivals: open.arrivals.clone(),
            recorded: Arc::clone(recorded),
            rate_per_s: open.per_s,
            threads: share.threads_of_all(),
            seed: settings.event_seed(),
            span: settings.time,
            events_max: settings.events_max,
        };
        let lead_span = settings.ramp_up + settings.warmup;
        let form = if settings.ramp_up.is_zero() { Form::Arrivals } else { Form::Rising(settings.ramp_up) };
        let lead = (!lead_span.is_zero()).then(|| Part { from_ns: 0, pace: before(&pace, lead_span), form });
        let fall = PaceSettings { span: settings.ramp_down, events_max: None, ..pace.clone() };
        let measured = Part { from_ns: to_ns(lead_span), pace, form: Form::Arrivals };
        let after = Part { from_ns: measured.until_ns(), pace: fall, form: Form::Falling };
        let after = (!after.pace.span.is_zero()).then_some(after);
        let plan = Plan { lead, measured, after, schedule: open.schedule, share };
        let rows: Box<[OnceLock<Row>]> = (0..=changes_max).map(|_| OnceLock::new()).collect();
        let first = rows[0].set(plan.first_row());
        assert!(first.is_ok(), "the room is empty");
        Self { plan, rows, made: AtomicUsize::new(1), state: AtomicUsize::new(0) }
    }

    /// Whether the rate may be changed.
    pub(crate) fn may_change(&self) -> bool {
        self.rows.len() > 1
    }

    /// Distribution of due times in the measured phase.
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.plan.measured.pace.arrivals
    }

    /// The rule by which threads take events.
    pub(crate) fn schedule(&self) -> Schedule {
        self.plan.schedule
    }

    /// The number of the current row; `None` while that is being decided, which takes microseconds.
    pub(crate) fn version(&self) -> Option<usize> {
        let state = self.state.load(Ordering::SeqCst);
        state.is_multiple_of(2).then_some(state / 2)
    }

    /// The current row. Only the conductor may rely on it; workers check [`Self::version`].
    pub(crate) fn row(&self) -> &Row {
        self.row_of(self.state.load(Ordering::SeqCst) / 2)
    }

    pub(crate) fn row_of(&self, version: usize) -> &Row {
        self.rows[version].get().expect("a row is there before its number is told")
    }

    /// The planned rate of the measured phase, as changed so far.
    pub(crate) fn rate_per_s(&self) -> f64 {
        self.plan.measured.pace.rate_per_s * self.row().factor
    }

    /// Publishes a row with the rate `per_s` from `at_ns` on, and makes it current if `is_in_time` holds
    /// after the row was published; `None` if no change is left.
    pub(crate) fn change(&self, at_ns: u64, per_s: f64, is_in_time: impl FnOnce() -> bool) -> Option<bool> {
        let made = self.made.load(Ordering::SeqCst);
        let room = self.rows.get(made)?;
        let before = self.state.load(Ordering::SeqCst);
        let factor = per_s / self.plan.measured.pace.rate_per_s;
        let set = room.set(self.plan.row_changed(self.row(), at_ns, factor, made));
        assert!(set.is_ok(), "one thread changes rates");
        self.made.store(made + 1, Ordering::SeqCst);
        self.state.store(before + 1, Ordering::SeqCst);
        let is_in_time = is_in_time();
        self.state.store(if is_in_time { 2 * made } else { before }, Ordering::SeqCst);
        Some(is_in_time)
    }

    /// The event `number` in `row`, for the thread `worker`. If threads own their events, an event that a
    /// change cut off is replaced by the thread's next.
    pub(crate) fn slot(&self, row: &Row, number: u64, worker: usize, scratch: &mut Scratch) -> Slot {
        let (at, number) = match self.plan.schedule {
            Schedule::Shared => (row.stretch_of(number), number),
            Schedule::Own => row.settled(number, self.plan.share.number(worker as u64), scratch),
        };
        let stretch = &row.stretches[at];
        let local = number - stretch.first;
        let is_there = local < stretch.count_of(self.plan.schedule);
        let due_ns = is_there.then(|| stretch.from_ns + stretch.due_ns(local, self.plan.schedule, scratch));
        let due_ns = due_ns.filter(|due_ns| *due_ns < stretch.until_ns);
        let chance = if stretch.is_measured { number - row.measured_first() } else { WARMUP_CHANCE | number };
        Slot { number, due_ns, is_measured: stretch.is_measured || due_ns.is_none(), chance }
    }

    /// The number of the thread's event after `number`, if threads own their events.
    pub(crate) fn next_own(&self, number: u64) -> u64 {
        number + self.plan.threads()
    }
}

impl Plan {
    fn first_row(&self) -> Row {
        let mut row = self.row(Vec::new(), 1.0);
        if let Some(lead) = &self.lead {
            self.push(&mut row.stretches, lead, lead.from_ns, 1.0, 0);
        }
        self.push(&mut row.stretches, &self.measured, self.measured.from_ns, 1.0, 0);
        row
    }

    fn row(&self, stretches: Vec<Stretch>, factor: f64) -> Row {
        let after = self.after.as_ref().map(|after| Self::falling(after, factor));
        Row { stretches, after, factor, schedule: self.schedule, share: self.share.clone() }
    }

    /// Threads of all generators.
    fn threads(&self) -> u64 {
        self.share.threads_of_all().into()
    }

    /// The events of `row` until `at_ns`, and from there on all events at `factor` times the planned rate.
    fn row_changed(&self, row: &Row, at_ns: u64, factor: f64, change: usize) -> Row {
        let mut stretches: Vec<Stretch> =
            row.stretches.iter().filter(|s| s.from_ns < at_ns).cloned().collect();
        if let Some(cut) = stretches.last_mut().filter(|s| s.until_ns > at_ns) {
            cut.until_ns = at_ns;
            cut.count = cut.pace.count_before(at_ns - cut.from_ns, &mut Scratch::default());
        }
        for part in self.lead.iter().chain([&self.measured]).filter(|part| part.until_ns() > at_ns) {
            self.push(&mut stretches, part, at_ns.max(part.from_ns), factor, change);
        }
        self.row(stretches, factor)
    }

    /// Adds the rest of `part` from `from_ns` on.
    fn push(&self, stretches: &mut Vec<Stretch>, part: &Part, from_ns: u64, factor: f64, change: usize) {
        let before = stretches.iter().filter(|s| s.from_ns >= part.from_ns);
        let played_s: f64 =
            before.map(|s| (s.until_ns - s.from_ns) as f64 / 1e9 * s.rate_per_s / part.pace.rate_per_s).sum();
        let progress = Progress {
            offset: Duration::from_nanos(from_ns - part.from_ns),
            played: Duration::from_secs_f64(played_s),
        };
        let pace = part.laid_out(progress, factor, change);
        let first = stretches.last().map_or(0, |last| match self.schedule {
            Schedule::Shared => last.first + last.count,
            // A thread's number after its last event stays below the next stretch.
            Schedule::Own => last.first + last.pace.count() + self.threads(),
        });
        stretches.push(Stretch {
            from_ns,
            until_ns: part.until_ns(),
            first,
            count: pace.count(),
            pace,
            is_measured: part.from_ns == self.measured.from_ns,
            rate_per_s: part.pace.rate_per_s * factor,
        });
    }

    fn falling(after: &Part, factor: f64) -> Pace {
        let rate_per_s = after.pace.rate_per_s * factor;
        let settings = PaceSettings { rate_per_s, ..after.pace.clone() };
        Pace::laid_out(&settings, after.form, Progress::default(), 1.0)
    }
}

impl Row {
    /// Events of both phases that are due before `t_ns`.
    pub(crate) fn due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        self.stretches.iter().map(|stretch| self.shared_before(stretch, t_ns, scratch)).sum()
    }

    /// Events of the measured phase that are due before `t_ns`.
    pub(crate) fn measured_due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let measured = self.stretches.iter().filter(|s| s.is_measured);
        measured.map(|stretch| self.shared_before(stretch, t_ns, scratch)).sum()
    }

    /// Events of the falling load that are due before `t_ns`, from its beginning.
    pub(crate) fn after_due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        self.after.as_ref().map_or(0, |after| self.share.below(after.count_before(t_ns, scratch)))
    }

    /// Events of this share in `stretch` that are due before `t_ns`.
    fn shared_before(&self, stretch: &Stretch, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let share = &self.share;
        match self.schedule {
            _ if share.is_whole() => stretch.due_before(t_ns, scratch),
            Schedule::Shared => {
                let end = stretch.first + stretch.due_before(t_ns, scratch);
                share.below(end) - share.below(stretch.first)
            }
            Schedule::Own => {
                let threads = u64::from(share.threads_of_all());
                let own = (0..share.below(threads)).map(|own| share.number(own));
                own.map(|thread| stretch.due_before_of(thread, threads, t_ns, scratch)).sum()
            }
        }
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The number after the last event of the stretch that slot `number` is in, if threads own their events.
    pub(crate) fn own_end(&self, number: u64) -> u64 {
        let stretch = &self.stretches[self.stretch_of(number)];
        stretch.first + stretch.pace.count()
    }

    /// The highest rate of the measured phase before `until_ns`, in this share.
    pub(crate) fn rate_per_s_max(&self, until_ns: u64) -> f64 {
        let measured = self.stretches.iter().filter(|s| s.is_measured && s.from_ns < until_ns);
        self.share.of_rate(measured.map(|s| s.rate_per_s).fold(0.0, f64::max), self.schedule)
    }

    fn measured_first(&self) -> u64 {
        self.stretches.iter().find(|s| s.is_measured).map_or(0, |s| s.first)
    }

    /// The last stretch that begins at or before slot `number`; a stretch without events ends at its
    /// beginning.
    fn stretch_of(&self, number: u64) -> usize {
        self.stretches.iter().rposition(|s| s.first <= number).expect("the first one begins at slot 0")
    }

    fn settled(&self, number: u64, worker: u64, scratch: &mut Scratch) -> (usize, u64) {
        let (mut at, mut number) = (self.stretch_of(number), number);
        loop {
            let stretch = &self.stretches[at];
            let local = number - stretch.first;
            let is_there = local < stretch.pace.count()
                && stretch.due_ns(local, Schedule::Own, scratch) < stretch.until_ns - stretch.from_ns;
            if is_there || at + 1 == self.stretches.len() {
                return (at, number);
            }
            at += 1;
            number = self.stretches[at].first + worker;
        }
    }
}

impl Stretch {
    fn due_before(&self, t_ns: u64, scratch: &mut Scratch) -> u64 {
        if t_ns >= self.until_ns {
            return self.count;
        }
        self.pace.count_before(t_ns.saturating_sub(self.from_ns), scratch)
    }

    /// Events of `thread`, one of `threads` that own their events, that are due before `t_ns`.
    fn due_before_of(&self, thread: u64, threads: u64, t_ns: u64, scratch: &mut Scratch) -> u64 {
        let t_ns = t_ns.min(self.until_ns).saturating_sub(self.from_ns);
        let (mut low, mut high) = (0, self.pace.count().saturating_sub(thread).div_ceil(threads));
        while low < high {
            let middle = low.midpoint(high);
            if self.pace.of_slot_ns(thread + middle * threads, scratch) < t_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn count_of(&self, schedule: Schedule) -> u64 {
        match schedule {
            Schedule::Shared => self.count,
            Schedule::Own => self.pace.count(),
        }
    }

    /// Due time of the stretch's event `local`, from the beginning of the stretch.
    fn due_ns(&self, local: u64, schedule: Schedule, scratch: &mut Scratch) -> u64 {
        match schedule {
            Schedule::Shared => self.pace.in_order_ns(local, scratch),
            Schedule::Own => self.pace.of_slot_ns(local, scratch),
        }
    }
}

/// The pace of a warm-up of length `span` before `measured`: the same arrivals, or, if those change their
/// rate, even arrivals at the rate with which they begin.
fn before(measured: &PaceSettings, span: Duration) -> PaceSettings {
    let (arrivals, rate_per_s) = if measured.arrivals.say_their_rate() {
        let opening_per_s = pace::opening_rate_per_s(&measured.arrivals, measured.span);
        (Arrivals::Period, opening_per_s.unwrap_or(measured.rate_per_s))
    } else {
        (measured.arrivals.clone(), measured.rate_per_s)
    };
    let seed = measured.seed ^ WARMUP_CHANCE;
    PaceSettings { arrivals, rate_per_s, seed, span, events_max: None, ..measured.clone() }
}
