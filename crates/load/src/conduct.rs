//! Conducts a load: data set, phases, intervals, and the end, planned or not.

mod account;
pub(crate) mod aside;
mod attachments;
mod audit;
mod books;
pub(crate) mod dataset;
mod ending;
mod look;
mod pauses;
#[cfg(feature = "lua")]
mod script;
mod setup_error;
mod worker_threads;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use record::event::EventRow;
use record::load::{LoadRecord, LoadSettings, Loop, Phase, Progress, RateChange};
use record::missing::{Maybe, Missing};

use self::account::{Measured, Over, closed_loop, seconds};
pub use self::attachments::Attachments;
pub(crate) use self::look::{cleanup, look};
use self::pauses::Pauses;
#[cfg(feature = "lua")]
use self::script::ScriptSide;
#[cfg(feature = "lua")]
pub(crate) use self::script::script_command;
pub(crate) use self::setup_error::setup_error;
use self::worker_threads::{POLL_NS, WorkerThreads};
use crate::conduct::books::Books;
use crate::control::Control;
use crate::control::progress::{Event, OnEvent};
use crate::control::stop::Stop;
use crate::driver::hosts::Hosts;
use crate::engine::WorkerState;
use crate::engine::{Engine, Timeline};
use crate::error::LoadError;
use crate::measure::client::{self, RunQueueWaits};
use crate::measure::in_system::InSystemSamples;
use crate::measure::priority::{self, Awake};
use crate::measure::sockets::Sockets;
use crate::schedule::clock::{SharedClock, to_ns};
use crate::schedule::pace::Scratch;
use crate::schedule::random::Random;

/// Polling interval if a control socket is attached.
const ASKED_POLL_NS: u64 = 10_000_000;
/// Polling interval if events are logged.
const LOG_POLL_NS: u64 = 10_000_000;
/// Minimum number of events handed to the writer of the log at once.
const LOG_BATCH: usize = 1 << 15;
/// Maximum number of events that wait for a busy writer.
const LOG_WAITING_MAX: usize = 1 << 22;
/// Events of all workers together that can be logged between two readings.
const LOG_ROOM: usize = 1 << 20;
/// Interval at which the number of idle CPUs is read.
const IDLE_EVERY_NS: u64 = 500_000_000;
/// Separates the random stream of sampling times from all others.
const LOOK_SALT: u64 = 0x006c_6f6f_6b73;
/// Time from the last connection to the first event: by then every worker sleeps until its due time.
const LEAD_NS: u64 = 5_000_000;
/// Maximum wait for an absent server in a phase that ends after a number of events.
const AWAY_MAX_NS: u64 = 60_000_000_000;
/// Maximum number of rate changes in a run.
const CHANGES_MAX: usize = 1_000;

/// Drives the load.
#[cfg(feature = "lua")]
pub(crate) fn run(
    settings: &LoadSettings,
    attachments: &Attachments,
    hosts: &Arc<Hosts>,
    clock: SharedClock,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<LoadRecord, LoadError> {
    let failed = |error: LoadError| hosts.script_failure().unwrap_or(error);
    let mut side = ScriptSide::begin(settings, hosts, stop).map_err(failed)?;
    let record = drive(settings, attachments, hosts, clock, stop, &mut |event| {
        if let Some(side) = &mut side {
            side.follow(event);
        }
        on_event(event);
    });
    let mut record = match record {
        Err(LoadError::Interrupted) if stop.is_requested() => return Err(LoadError::Interrupted),
        record => record.map_err(failed)?,
    };
    if let Some(side) = &mut side {
        side.end(&mut record, stop);
    }
    match hosts.script_failure() {
        Some(error) if !stop.is_requested() => Err(error),
        _ => Ok(record),
    }
}

/// Drives the load.
#[cfg(not(feature = "lua"))]
pub(crate) use self::drive as run;

/// Drives the load, from its data set to its record.
pub(crate) fn drive(
    settings: &LoadSettings,
    attachments: &Attachments,
    hosts: &Arc<Hosts>,
    clock: SharedClock,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<LoadRecord, LoadError> {
    if settings.pace.as_open().is_some_and(|open| open.fifo) {
        priority::may_be_real_time().map_err(|source| LoadError::RealTime { source })?;
    }
    let seen = look(settings, hosts, stop, on_event)?;
    let recorded = attachments.recorded.clone().unwrap_or_else(|| Arc::from([]));
    let engine = Engine::new(settings.clone(), recorded, Arc::clone(hosts), clock)
        .in_turns(attachments.turns.clone())
        .bound_to(attachments.cpus.clone());
    let engine = Arc::new(match &attachments.share {
        Some(share) => engine.of_share(share.clone()),
        None => engine,
    });
    let awake = settings.client.keep_awake.then(Awake::keep).transpose();
    let awake = awake.map_err(|source| LoadError::Thread { source })?;
    let log_room = attachments.log.as_ref().map_or(0, |_| log_room(settings.threads));
    let sockets_before = Sockets::of_this_process();
    let mut worker_threads = WorkerThreads::connect(&engine, log_room, stop, on_event)?;
    let open_sockets = open_sockets(&engine, sockets_before.as_ref());
    let mut conductor =
        Conductor::begin(&engine, &mut worker_threads, attachments, awake.as_ref(), stop, on_event);
    conductor.open_sockets = open_sockets;
    let ending = conductor.play();
    let (mut books, changes, on_event) = (conductor.books, conductor.changes, conductor.on_event);
    if let Some(control) = &attachments.control {
        control.leave();
    }
    worker_threads.dismiss();
    if let Some(line) = &attachments.start {
        line.note_first(engine.first_start());
    }
    let Some(measured) = ending else { return Err(LoadError::Interrupted) };
    let Over { record, last, unfinished } =
        account::record(&engine, &mut books, &measured, changes, attachments.log.is_some(), seen);
    on_event(&Event::IntervalClosed(last));
    if let Some(log) = &attachments.log {
        books.logged.extend(unfinished.rows);
        books.unlogged += unfinished.unlogged;
        let rows = books.logged.len() as u64;
        // The load is over, so there is time to wait for the writer. A writer that has failed reports it
        // itself.
        let _ = log.send(std::mem::take(&mut books.logged));
        on_event(&Event::Logged { last_rows: rows, lost: books.unlogged });
    }
    Ok(record)
}

/// Number of the new connections that the kernel has open.
fn open_sockets(engine: &Engine, before: Option<&Sockets>) -> Maybe<u32> {
    let driver = engine.hosts.driver();
    if driver.multiplex().is_none() {
        let why = if driver.waits_for_server() {
            "the script opens its own connections"
        } else {
            "the target has no sockets"
        };
        return Err(Missing::because(why));
    }
    let open = before.and_then(|before| Sockets::of_this_process()?.connected_since(before));
    open.ok_or_else(|| Missing::because("/proc does not list the sockets of this process"))
}

/// Plays the phases and reports the intervals.
struct Conductor<'a> {
    engine: &'a Engine,
    log: Option<&'a SyncSender<Vec<EventRow>>>,
    control: Option<&'a Control>,
    /// The changes of the rate, in order.
    changes: Vec<RateChange>,
    awake: Option<&'a Awake>,
    stop: &'a Stop,
    on_event: OnEvent<'a>,
    books: Books,
    scratch: Scratch,
    waits_before: RunQueueWaits,
    awake_before: Option<Duration>,
    /// Counts at the end of the last interval.
    before: Mark,
    absence: Absence,
    /// Events that had ended when the server's absence was last checked.
    ended: u64,
    looks: InSystemSamples,
    pauses: Pauses,
    open_sockets: Maybe<u32>,
    /// Time and value of the last reading of the CPUs' idle time.
    idle_before: Option<(u64, f64)>,
    /// Random sampling times: a period of the load must not coincide with them.
    chance: Random,
}

/// Counts at the beginning of an interval.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at_ns: u64,
    due: u64,
    done: u64,
    errors: u64,
}

/// Reason why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    OnTime,
    ByStop,
    /// All workers have finished.
    ByIdleness,
    /// The server has been away for [`AWAY_MAX_NS`], and only a number of events would end the phase.
    ByAbsence,
}

/// Duration of the server's present absence.
#[derive(Debug, Default)]
struct Absence {
    since_ns: Option<u64>,
}

impl Absence {
    /// Whether the server was away at each check of the last [`AWAY_MAX_NS`]; this check is at `now_ns`.
    fn is_too_long(&mut self, is_away: bool, now_ns: u64) -> bool {
        self.since_ns = is_away.then(|| self.since_ns.unwrap_or(now_ns));
        self.since_ns.is_some_and(|since_ns| now_ns - since_ns >= AWAY_MAX_NS)
    }
}

impl<'a> Conductor<'a> {
    fn begin(
        engine: &'a Engine,
        worker_threads: &mut WorkerThreads,
        attachments: &'a Attachments,
        awake: Option<&'a Awake>,
        stop: &'a Stop,
        on_event: OnEvent<'a>,
    ) -> Self {
        // Laying out the schedule may take a while; the workers wait at the gate.
        let control = attachments.control.as_deref();
        let changes_max = if control.is_some() { CHANGES_MAX } else { 0 };
        let now_ns = engine.clock.now_ns();
        let timeline = Timeline::new(&engine.settings, &engine.recorded, &engine.share, now_ns, changes_max);
        let told_ns = attachments.start.as_ref().and_then(|line| line.wait(stop));
        if let Some(at_ns) = told_ns {
            sleep_unless_stopped(engine, stop, at_ns.saturating_sub(LEAD_NS));
        }
        let start_ns = told_ns.unwrap_or_else(|| engine.clock.now_ns() + LEAD_NS);
        let timeline = timeline.moved_to(start_ns);
        let before = Mark { at_ns: timeline.start_ns, ..Mark::default() };
        let phase = timeline.measured_from_ns..timeline.measured_until_ns;
        let (pauses, looks) = (Pauses::new(phase.clone()), InSystemSamples::new(phase));
        engine.begin(timeline);
        worker_threads.go();
        if let Some(control) = control {
            control.man(&engine.settings);
        }
        let books = worker_threads.books.take().expect("a crew that is connected has its books");
        let (scratch, waits_before) = (Scratch::default(), RunQueueWaits::default());
        Self {
            engine,
            log: attachments.log.as_ref(),
            control,
            changes: Vec::new(),
            awake,
            stop,
            on_event,
            books,
            scratch,
            waits_before,
            awake_before: None,
            before,
            absence: Absence::default(),
            ended: 0,
            looks,
            pauses,
            open_sockets: Err(Missing::because("no connection was opened")),
            idle_before: None,
            chance: Random::of(engine.settings.seed ^ LOOK_SALT, 0),
        }
    }

    /// Plays to the end; `None` if the measured phase was not reached.
    fn play(&mut self) -> Option<Measured> {
        let timeline = self.engine.timeline();
        let (from_ns, planned_until_ns) = (timeline.measured_from_ns, timeline.measured_until_ns);
        for (phase, begins_ns, ends_ns) in [
            (Phase::RampUp, timeline.start_ns, timeline.warmup_from_ns),
            (Phase::Warmup, timeline.warmup_from_ns, from_ns),
        ] {
            if begins_ns < ends_ns && self.play_phase(phase, begins_ns, ends_ns) == Woken::ByStop {
                self.engine.end_now();
                self.finish_stopped();
                self.books.close();
                return None;
            }
        }
        self.waits_before = self.read_waits();
        self.awake_before = self.awake.and_then(Awake::cpu);
        let woken = self.play_phase(Phase::Measure, from_ns, planned_until_ns);
        let awake_after = self.awake.and_then(Awake::cpu);
        let waits_after = self.read_waits();
        let until_ns = match woken {
            Woken::OnTime => planned_until_ns,
            Woken::ByStop | Woken::ByAbsence => self.engine.end_now(),
            Woken::ByIdleness => self.ended_ns().min(planned_until_ns),
        };
        if until_ns <= from_ns {
            self.finish_stopped();
            self.books.close();
            return None;
        }
        (self.on_event)(&Event::MeasureEnds);
        let interval_from_ns = self.before.at_ns.max(from_ns);
        if until_ns > interval_from_ns {
            self.show_interval(Phase::Measure, from_ns, until_ns);
        }
        match woken {
            Woken::OnTime if timeline.falls() => {
                match self.play_phase(Phase::RampDown, until_ns, timeline.closes_ns) {
                    Woken::ByStop => {
                        self.engine.end_now();
                        self.finish_stopped();
                    }
                    Woken::OnTime | Woken::ByIdleness | Woken::ByAbsence => self.drain(),
                }
            }
            Woken::OnTime => self.drain(),
            Woken::ByStop | Woken::ByAbsence => self.finish_stopped(),
            Woken::ByIdleness => {}
        }
        self.books.close();
        Some(Measured {
            until_ns,
            looked_until_ns: self.engine.clock.now_ns(),
            interval_from_ns,
            // `is_interrupted` also covers a stop requested after the measured phase: the rest was cut short.
            gave_up_for: (woken == Woken::ByAbsence).then_some(Duration::from_nanos(AWAY_MAX_NS)),
            is_interrupted: self.stop.is_requested(),
            waits: (std::mem::take(&mut self.waits_before), waits_after),
            open_sockets: self.open_sockets.clone(),
            in_system: self.looks.mean(),
            paused_s: self.pauses.total_s(),
            awake_cpu: awake_after.zip(self.awake_before).map(|(after, before)| after.saturating_sub(before)),
        })
    }

    fn read_waits(&self) -> RunQueueWaits {
        let bound = self.engine.cpus.as_ref().map(|bound| bound.cpus.as_slice());
        RunQueueWaits::read(self.engine.workers.iter().map(WorkerState::thread), bound, &*self.engine.clock)
    }

    /// Plays one phase, interval by interval; the measured phase's last interval is left open.
    fn play_phase(&mut self, phase: Phase, from_ns: u64, until_ns: u64) -> Woken {
        self.tell_phase(phase, from_ns);
        self.before.done *= self.engine.shows_warmup_in(phase);
        self.before.at_ns = from_ns;
        let interval_ns = to_ns(self.engine.settings.interval);
        let mut tick_ns = from_ns;
        loop {
            tick_ns = tick_ns.saturating_add(interval_ns).min(until_ns);
            let woken = self.wait_until(tick_ns, phase);
            if woken != Woken::OnTime {
                return woken;
            }
            if phase == Phase::Measure && tick_ns == until_ns {
                return Woken::OnTime;
            }
            // If a limit of events ends with an interval, no other interval begins.
            if phase == Phase::Measure && self.is_done_early(tick_ns) {
                return Woken::ByIdleness;
            }
            let interval_from_ns = self.before.at_ns;
            let cpu_before = client::thread_cpu();
            self.show_interval(phase, from_ns, tick_ns);
            match phase {
                Phase::Measure => {
                    let slices =
                        self.books.end_interval(interval_from_ns - from_ns, tick_ns - interval_from_ns);
                    (self.on_event)(&Event::IntervalClosed(slices));
                }
                _ => self.books.end_warmup_interval(),
            }
            if let (Some(before), Some(after)) = (cpu_before, client::thread_cpu()) {
                (self.on_event)(&Event::Reported { cpu: after.saturating_sub(before) });
            }
            if tick_ns == until_ns {
                return Woken::OnTime;
            }
        }
    }

    fn wait_until(&mut self, deadline_ns: u64, phase: Phase) -> Woken {
        loop {
            if self.stop.is_requested() || self.engine.hosts.script_failure().is_some() {
                return Woken::ByStop;
            }
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= deadline_ns {
                return Woken::OnTime;
            }
            if phase == Phase::Measure && self.is_done_early(now_ns) {
                return Woken::ByIdleness;
            }
            if phase == Phase::Measure && self.engine.settings.events_max.is_some() {
                let is_away = self.is_away();
                if self.absence.is_too_long(is_away, now_ns) {
                    return Woken::ByAbsence;
                }
            }
            let poll_ns = match (self.log, self.control) {
                (Some(_), _) => LOG_POLL_NS,
                (None, Some(_)) => ASKED_POLL_NS,
                (None, None) => POLL_NS,
            };
            // Between half and three halves of the interval: a periodic load is not always sampled at the
            // same phase.
            let poll_ns = poll_ns / 2 + self.chance.below(poll_ns);
            let asked_ns = deadline_ns.min(now_ns + poll_ns);
            self.pauses.sleep(self.engine, asked_ns);
            if phase == Phase::Measure && !self.engine.is_between_turns() {
                let events = self.engine.in_system(&mut self.scratch);
                self.looks.note(self.engine.clock.now_ns(), events);
            }
            self.note_idle();
            self.hand_over_log();
            self.answer();
        }
    }

    /// Updates the lead's budget with the number of idle CPUs.
    fn note_idle(&mut self) {
        let now_ns = self.engine.clock.now_ns();
        let is_early = self.idle_before.is_some_and(|(at_ns, _)| now_ns < at_ns + IDLE_EVERY_NS);
        if is_early || !self.engine.lead.is_on() {
            return;
        }
        let Some(idle_s) = client::idle_s() else { return };
        // Threads that keep the CPUs awake yield to everything else.
        let awake = self.awake.and_then(Awake::cpu).unwrap_or_default();
        let idle_s = idle_s + awake.as_secs_f64();
        if let Some((at_ns, before_s)) = self.idle_before.replace((now_ns, idle_s)) {
            self.engine.lead.note_idle_cpus((idle_s - before_s) / seconds(at_ns, now_ns));
        }
    }

    /// Takes the workers' logged events, and hands them to the writer unless it is busy.
    fn hand_over_log(&mut self) {
        let Some(log) = self.log else { return };
        self.books.read();
        if self.books.logged.len() < LOG_BATCH {
            return;
        }
        if let Err(TrySendError::Full(rows) | TrySendError::Disconnected(rows)) =
            log.try_send(std::mem::take(&mut self.books.logged))
        {
            self.books.logged = rows;
            if self.books.logged.len() > LOG_WAITING_MAX {
                self.books.unlogged += self.books.logged.len() as u64;
                self.books.logged.clear();
            }
        }
    }

    /// Answers pending requests for another rate.
    fn answer(&mut self) {
        while let Some(asked) = self.control.and_then(Control::next) {
            let answer = match self.engine.change_rate(asked.ask) {
                Ok(change) => {
                    self.changes.push(change);
                    let at_ns = self.engine.timeline().measured_from_ns as f64 + change.at_s * 1e9;
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a stamp")]
                    self.control.inspect(|control| control.note_change(&change, at_ns as u64));
                    (self.on_event)(&Event::RateChanged(change));
                    let (from, to) = (change.from_per_s, change.per_s);
                    format!("ok rate_per_s={to} from_per_s={from} at_s={:.3}", change.at_s)
                }
                Err(problem) => format!("error: {problem}"),
            };
            // The client may have gone.
            let _ = asked.answer.try_send(answer);
        }
    }

    fn tell_phase(&mut self, phase: Phase, at_ns: u64) {
        self.control.inspect(|control| control.note_phase(phase, at_ns));
        (self.on_event)(&Event::PhaseStarts { phase, at_ns });
    }

    /// Whether no host completes events. One of several may be away as long as the others complete events.
    fn is_away(&mut self) -> bool {
        let ended = self.engine.ended();
        let goes_on = std::mem::replace(&mut self.ended, ended) != ended;
        let away = self.engine.hosts_away();
        let hosts = self.engine.hosts.reached(self.engine.settings.connections_in_all());
        away == hosts || away > 0 && !goes_on
    }

    /// Whether a limit of events ends the phase early: all of them have ended, and in an open loop the time
    /// that they take at their rate has passed.
    fn is_done_early(&self, now_ns: u64) -> bool {
        let Some(events_max) = self.engine.settings.events_max else { return false };
        if self.engine.is_anybody_working() {
            return false;
        }
        let span_ns = span_of_ns(events_max, &self.engine.settings.pace);
        now_ns >= self.engine.timeline().measured_from_ns.saturating_add(span_ns)
    }

    /// End of a phase with a limit of events: just after the last of them ended.
    fn ended_ns(&self) -> u64 {
        let last_ns = self
            .engine
            .connection_slots
            .iter()
            .map(|h| h.last_end_ns.load(Ordering::SeqCst))
            .max()
            .unwrap_or(0);
        let events = self.engine.settings.events_max.unwrap_or(0);
        let span_ns = span_of_ns(events, &self.engine.settings.pace);
        (last_ns + 1).max(self.engine.timeline().measured_from_ns.saturating_add(span_ns))
    }

    /// Reads the books and reports the interval that ends at `until_ns`.
    fn show_interval(&mut self, phase: Phase, phase_from_ns: u64, until_ns: u64) {
        self.books.read();
        let event_counts = &self.books.event_counts;
        let due = self.engine.timeline().due_before(until_ns, &mut self.scratch);
        let after = Mark {
            at_ns: until_ns,
            due: due.unwrap_or(0),
            done: event_counts.done + self.engine.shows_warmup_in(phase) * event_counts.warmup_done,
            errors: event_counts.errors.all() + event_counts.uncounted_errors,
        };
        let before = std::mem::replace(&mut self.before, after);
        let interval_s = seconds(before.at_ns, until_ns);
        let offered_per_s = match due {
            Some(due) => Ok((due - before.due) as f64 / interval_s),
            None => Err(closed_loop()),
        };
        let progress = Progress {
            phase,
            t_s: seconds(phase_from_ns, until_ns),
            interval_s,
            offered_per_s,
            achieved_per_s: (after.done - before.done) as f64 / interval_s,
            backlog: due
                .map_or_else(|| self.engine.in_hand(), |due| due.saturating_sub(event_counts.ended())),
            latency: Box::new(self.books.shown(phase != Phase::Measure)),
            lateness: match (due, phase) {
                (None, _) => Err(closed_loop()),
                (Some(_), Phase::Measure) => Ok(Box::new(self.books.lateness())),
                (Some(_), _) => Err(Missing::because("only the measured phase has it")),
            },
            errors: after.errors - before.errors,
            outage: self.engine.outages.iter().any(|log| log.touches(before.at_ns, until_ns)),
        };
        self.control.inspect(|control| control.note_progress(&progress));
        (self.on_event)(&Event::Interval(progress));
    }
}

/// Sleeps until `until_ns`; returns earlier if the run is stopped.
fn sleep_unless_stopped(engine: &Engine, stop: &Stop, until_ns: u64) {
    while !stop.is_requested() {
        let now_ns = engine.clock.now_ns();
        if now_ns >= until_ns {
            return;
        }
        engine.clock.sleep_until_ns(until_ns.min(now_ns + POLL_NS));
    }
}

/// Duration of `events` at their rate; 0 in a closed loop.
fn span_of_ns(events: u64, pace: &Loop) -> u64 {
    pace.per_s()
        .map_or(0, |per_s| to_ns(Duration::try_from_secs_f64(events as f64 / per_s).unwrap_or(Duration::MAX)))
}

/// Log capacity of each of `threads` workers.
fn log_room(threads: u32) -> usize {
    (LOG_ROOM / threads.max(1) as usize).clamp(1 << 10, 1 << 17)
}

#[cfg(test)]
mod simulated;
