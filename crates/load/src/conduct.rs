//! Conducts a load: data set, connections, phases, intervals, the end however it comes, the record.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::event::EventRow;
use record::histogram::{CensoredHistogram, CompactHistogram, Histogram};
use record::load::{ClientCost, Counts, LoadRecord, LoadSettings, Outage, Phase, Progress, Rate, RateChange};
use record::missing::{Maybe, Missing};
use record::series::{HistogramSlice, LatencyKind};
use record::verdict::{Check, Validity, Verdict};

use crate::books::Books;
use crate::client::{self, Usage};
use crate::control::Control;
use crate::dataset::{self, Cleaned, Prepared};
use crate::driver::{Driver, Failure, FailureClass, OperationShare};
use crate::engine::{Engine, SharedClock, Timeline, Unfinished, to_ns};
use crate::error::LoadError;
use crate::event_loop::EventLoop;
use crate::latency::{self, Log, Recorder, Writer};
use crate::ledger::Ledger;
use crate::pace::Scratch;
use crate::priority::{self, Awake};
use crate::stop::{Stop, StopLevel};
use crate::verdict::{self, Findings};
use crate::worker::Worker;
use crate::{Beside, Event, OnEvent, aside, closed, open};

/// How often the conductor looks whether it was asked to stop.
const POLL_NS: u64 = 50_000_000;
/// How often it looks where somebody may talk to it.
const ASKED_POLL_NS: u64 = 10_000_000;
/// How often it takes what is logged.
const LOG_POLL_NS: u64 = 10_000_000;
/// Events that are handed to the writer of the log at once, at least.
const LOG_BATCH: usize = 1 << 15;
/// Events that wait for a writer who is busy, at most.
const LOG_WAITING_MAX: usize = 1 << 22;
/// Events of all workers together that are logged between two looks.
const LOG_ROOM: usize = 1 << 20;
/// What a stopped run gives to what is in flight: with the rest, it is over within a second.
const GRACE_NS: u64 = 700_000_000;
/// How long workers may take to come back after their connections were cut.
const CUT_NS: u64 = 100_000_000;
/// From the last connection to the first event: every worker is asleep on its due time by then.
const LEAD_NS: u64 = 5_000_000;
/// Changes of the rate that a run has room for.
const CHANGES_MAX: usize = 1_000;
/// Tries of a worker to get its first connection: in a storm, some are turned away.
const CONNECT_TRIES: u32 = 3;
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 512 * 1024;

/// What looking at the target found and did.
pub(crate) struct Seen {
    pub(crate) version: Maybe<String>,
    pub(crate) prepared: Prepared,
    /// What was found out about the data, beside that it is there.
    pub(crate) checks: Vec<Check>,
}

/// Looks at the target and sees to its data set.
pub(crate) fn look(
    settings: &LoadSettings,
    driver: &Arc<dyn Driver>,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<Seen, LoadError> {
    let (settings, driver) = (settings.clone(), Arc::clone(driver));
    aside::run(stop, on_event, move |aside, on_event| {
        let look = driver.look(&aside.cut).map_err(|failure| setup_error(&settings, failure))?;
        let prepared = match look.store {
            Some(mut store) => dataset::ensure(&mut *store, &settings, &|| aside.is_stopped(), on_event)?,
            None => Prepared { found: 0, built: 0, rows: 0 },
        };
        let mut seen = Seen { version: look.version, prepared, checks: Vec::new() };
        let cache = driver.cache(&aside.cut).map_err(|failure| setup_error(&settings, failure))?;
        if let Some(mut cache) = cache {
            (seen.prepared, seen.checks) = cache.ensure(&settings, &|| aside.is_stopped(), on_event)?;
        }
        Ok(seen)
    })
}

/// Removes the data set.
pub(crate) fn cleanup(settings: &LoadSettings, driver: &Arc<dyn Driver>) -> Result<Cleaned, LoadError> {
    let (settings, driver) = (settings.clone(), Arc::clone(driver));
    aside::run(&Stop::new(), &mut |_| {}, move |aside, _| {
        let look = driver.look(&aside.cut).map_err(|failure| setup_error(&settings, failure))?;
        let cache = driver.cache(&aside.cut).map_err(|failure| setup_error(&settings, failure))?;
        match (look.store, cache) {
            (Some(mut store), _) => dataset::remove(&mut *store, &settings),
            (None, Some(mut cache)) => cache.remove(&settings),
            (None, None) => Ok(Cleaned { removed: 0 }),
        }
    })
}

/// Drives the load.
pub(crate) fn run(
    settings: &LoadSettings,
    beside: &Beside,
    driver: &Arc<dyn Driver>,
    clock: SharedClock,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<LoadRecord, LoadError> {
    if settings.client.fifo {
        priority::may_be_real_time().map_err(|source| LoadError::RealTime { source })?;
    }
    let seen = look(settings, driver, stop, on_event)?;
    let recorded = beside.recorded.clone().unwrap_or_else(|| Arc::from([]));
    let engine = Arc::new(Engine::new(settings.clone(), recorded, Arc::clone(driver), clock));
    let awake = settings.client.keep_awake.then(Awake::keep).transpose();
    let awake = awake.map_err(|source| LoadError::Thread { source })?;
    let log_room = beside.log.as_ref().map_or(0, |_| log_room(settings.threads));
    let mut crew = Crew::connect(&engine, log_room, stop, on_event)?;
    let mut conductor = Conductor::begin(&engine, &mut crew, beside, awake.as_ref(), stop, on_event);
    let ending = conductor.play();
    let (mut books, changes, on_event) = (conductor.books, conductor.changes, conductor.on_event);
    if let Some(control) = &beside.control {
        control.leave();
    }
    crew.dismiss();
    let Some(measured) = ending else { return Err(LoadError::Interrupted) };
    let (record, unfinished) = record(&engine, &books, &measured, changes, beside.log.is_some(), seen);
    if let Some(log) = &beside.log {
        books.logged.extend(unfinished.rows);
        let rows = books.logged.len() as u64;
        // The load is over: now there is time to wait for the writer. One that has failed tells so by itself.
        let _ = log.send(std::mem::take(&mut books.logged));
        on_event(&Event::Logged { last_rows: rows, lost: books.unlogged });
    }
    Ok(record)
}

/// What a failure before the first event means for the user.
pub(crate) fn setup_error(settings: &LoadSettings, failure: Failure) -> LoadError {
    let target = settings.target.clone();
    match failure.class {
        FailureClass::Configuration => LoadError::Refused { target, text: failure.text },
        FailureClass::Machine => LoadError::Machine { target, text: failure.text },
        _ => {
            LoadError::NotConnected { target, made: 0, of: settings.connections_in_all(), text: failure.text }
        }
    }
}

/// The workers' threads.
struct Crew {
    threads: Vec<JoinHandle<()>>,
    books: Option<Books>,
    gate: Arc<Gate>,
}

/// Where workers wait: first for their turn to connect, then for the start.
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

struct GateState {
    connects_left: u32,
    signal: Signal,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signal {
    Wait,
    Go,
    GoHome,
}

type Connected = Result<Duration, Failure>;

impl Crew {
    /// Starts the workers and waits until each has its connection.
    fn connect(
        engine: &Arc<Engine>,
        log_room: usize,
        stop: &Stop,
        on_event: OnEvent<'_>,
    ) -> Result<Self, LoadError> {
        let settings = &engine.settings;
        if let Err(text) = client::may_open(settings.connections_in_all()) {
            return Err(LoadError::Machine { target: settings.target.clone(), text });
        }
        let (operations, outcomes) = (engine.driver.operations(), engine.driver.outcomes());
        let state = GateState { connects_left: settings.connects_at_once, signal: Signal::Wait };
        let gate = Arc::new(Gate { state: Mutex::new(state), changed: Condvar::new() });
        let (sender, receiver) = mpsc::channel();
        let mut crew = Self { threads: Vec::new(), books: None, gate };
        let mut readers = Vec::new();
        for index in 0..settings.threads {
            let mut recorder = Box::new(Recorder::new(operations.len(), outcomes.len()));
            recorder.log = Log::with_room(log_room);
            let (writer, reader) = latency::cell(recorder);
            readers.push(reader);
            let spawned = crew.spawn(engine, index as usize, writer, sender.clone());
            if let Err(error) = spawned {
                crew.go_home(engine);
                return Err(error);
            }
        }
        drop(sender);
        let books = Books::new(readers, operations, outcomes, settings.rate != Rate::Max);
        crew.books = Some(books.with_log(log_room));
        match await_connections(engine, &receiver, stop, on_event) {
            Ok(()) => Ok(crew),
            Err(error) => {
                crew.go_home(engine);
                Err(error)
            }
        }
    }

    fn spawn(
        &mut self,
        engine: &Arc<Engine>,
        index: usize,
        writer: Writer,
        report: Sender<Connected>,
    ) -> Result<(), LoadError> {
        let (engine, gate) = (Arc::clone(engine), Arc::clone(&self.gate));
        let body = move || worker_thread(&engine, index, writer, &gate, &report);
        let thread = thread::Builder::new().name(format!("load-{index}")).stack_size(STACK_BYTES).spawn(body);
        self.threads.push(thread.map_err(|source| LoadError::Thread { source })?);
        Ok(())
    }

    fn go(&self) {
        self.gate.signal(Signal::Go);
    }

    fn go_home(&self, engine: &Engine) {
        self.gate.signal(Signal::GoHome);
        engine.abandon();
    }

    /// Joins who has come back; who still hangs in a call is left behind, and its event was counted unfinished.
    fn dismiss(self) {
        for thread in self.threads {
            if thread.is_finished()
                && let Err(panic) = thread.join()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        self.lock().signal = signal;
        self.changed.notify_all();
    }

    /// Waits for a turn to connect; false where there is no point any more.
    fn enter(&self) -> bool {
        let waits = |s: &mut GateState| s.connects_left == 0 && s.signal == Signal::Wait;
        let mut state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.signal == Signal::GoHome {
            return false;
        }
        state.connects_left -= 1;
        true
    }

    fn leave(&self) {
        self.lock().connects_left += 1;
        self.changed.notify_all();
    }

    fn await_start(&self) -> bool {
        let waits = |s: &mut GateState| s.signal == Signal::Wait;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        state.signal == Signal::Go
    }
}

/// The life of a worker's thread.
fn worker_thread(
    engine: &Arc<Engine>,
    index: usize,
    writer: Writer,
    gate: &Gate,
    report: &Sender<Connected>,
) {
    let post = &engine.posts[index];
    post.thread_id.store(nix::unistd::gettid().as_raw(), Ordering::SeqCst);
    // Sleeps end when they should, not up to 50 us later. Where the kernel refuses, the lateness tells.
    let _ = nix::sys::prctl::set_timerslack(1);
    if gate.enter() {
        let member = Member::connect(engine, index, writer, gate, report);
        gate.leave();
        if let Some(member) = member
            && gate.await_start()
        {
            if engine.settings.client.fifo {
                // It was tried before; where it is refused now, the lateness tells.
                let _ = priority::real_time();
            }
            let ledger = member.work(engine);
            let waited_ns = client::run_queue_wait_ns(post.thread_id.load(Ordering::SeqCst));
            post.run_queue_wait_ns.store(waited_ns.unwrap_or(0), Ordering::SeqCst);
            engine.usages.lock().unwrap_or_else(PoisonError::into_inner).extend(ledger.usage());
            engine.working.fetch_sub(1, Ordering::SeqCst);
        }
    }
    post.cut.disarm();
}

/// Who does the work of one thread.
enum Member {
    /// One connection, and waits for it.
    Worker(Box<Worker>),
    /// Many connections, and waits for any.
    EventLoop(Box<EventLoop>),
}

impl Member {
    /// Makes its connections; `None` where one cannot be made, which was reported.
    fn connect(
        engine: &Arc<Engine>,
        index: usize,
        writer: Writer,
        gate: &Gate,
        report: &Sender<Connected>,
    ) -> Option<Self> {
        let cut = &engine.posts[index].cut;
        let Some(multiplex) = engine.driver.multiplex().filter(|_| engine.settings.has_loops()) else {
            let connection = first_connection(engine, gate, report, || engine.driver.connect(cut))?;
            return Some(Self::Worker(Box::new(Worker::new(index, Arc::clone(engine), writer, connection))));
        };
        let hands = engine.hands_of(index);
        let mut opened = Vec::with_capacity(hands.len());
        for _ in hands.clone() {
            opened.push(first_connection(engine, gate, report, || multiplex.open(cut))?);
        }
        match EventLoop::new(index, hands.start, engine, writer, opened, cut) {
            Ok(event_loop) => Some(Self::EventLoop(Box::new(event_loop))),
            Err(e) => {
                let text = format!("cannot watch {} connections: {e}", hands.len());
                let _ = report.send(Err(Failure::new(FailureClass::Machine, text)));
                None
            }
        }
    }

    /// Takes and does events until none is left or the run ends.
    fn work(self, engine: &Engine) -> Ledger {
        match self {
            Self::Worker(mut worker) => {
                match engine.settings.rate {
                    Rate::PerSecond(_) => open::work(&mut worker),
                    Rate::Max => closed::work(&mut worker),
                }
                worker.ledger
            }
            Self::EventLoop(event_loop) => event_loop.work(),
        }
    }
}

/// A connection for the first time; `None` where it cannot be made, which was reported.
fn first_connection<T>(
    engine: &Engine,
    gate: &Gate,
    report: &Sender<Connected>,
    mut make: impl FnMut() -> Result<T, Failure>,
) -> Option<T> {
    let mut tries_left = CONNECT_TRIES;
    loop {
        tries_left -= 1;
        let began_ns = engine.clock.now_ns();
        match make() {
            Ok(connection) => {
                // The conductor may have given up meanwhile; then nobody listens.
                let _ = report.send(Ok(Duration::from_nanos(engine.clock.now_ns() - began_ns)));
                return Some(connection);
            }
            Err(failure) => {
                let may_pass = matches!(failure.class, FailureClass::Connection | FailureClass::Transient);
                if !may_pass || tries_left == 0 || gate.lock().signal == Signal::GoHome {
                    let _ = report.send(Err(failure));
                    return None;
                }
            }
        }
        thread::sleep(CONNECT_PAUSE);
    }
}

fn await_connections(
    engine: &Engine,
    receiver: &Receiver<Connected>,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<(), LoadError> {
    let of = engine.settings.connections_in_all();
    let mut made = 0;
    while made < of {
        match receiver.recv_timeout(Duration::from_nanos(POLL_NS)) {
            Ok(Ok(took)) => {
                made += 1;
                engine.connects.lock().unwrap_or_else(PoisonError::into_inner).record(to_ns(took));
                on_event(&Event::Connected { made, of, took });
            }
            Ok(Err(failure)) => {
                // Those that succeed meanwhile count: the message says how far the storm got.
                made += (0..).zip(receiver.try_iter().flatten()).map(|(n, _)| n + 1).last().unwrap_or(0);
                return Err(match setup_error(&engine.settings, failure) {
                    LoadError::NotConnected { target, text, .. } => {
                        LoadError::NotConnected { target, made, of, text }
                    }
                    other => other,
                });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("every worker reports before it ends"),
        }
        if stop.is_requested() {
            return Err(LoadError::Interrupted);
        }
    }
    Ok(())
}

/// Plays the phases and keeps the intervals.
struct Conductor<'a> {
    engine: &'a Engine,
    log: Option<&'a SyncSender<Vec<EventRow>>>,
    control: Option<&'a Control>,
    /// Each change of the rate, in order.
    changes: Vec<RateChange>,
    awake: Option<&'a Awake>,
    stop: &'a Stop,
    on_event: OnEvent<'a>,
    books: Books,
    scratch: Scratch,
    waits_before: Vec<Option<u64>>,
    awake_before: Option<Duration>,
    /// What had happened when the last interval ended.
    before: Mark,
}

/// Where an interval begins.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at_ns: u64,
    due: u64,
    done: u64,
    errors: u64,
}

/// The measured phase as it was.
struct Measured {
    until_ns: u64,
    looked_until_ns: u64,
    /// The record's last interval, whose slices are still to be closed, began here.
    interval_from_ns: u64,
    is_interrupted: bool,
    waits_before: Vec<Option<u64>>,
    waits_after: Vec<Option<u64>>,
    /// CPU time of the threads that kept the CPUs awake.
    awake_cpu: Option<Duration>,
}

/// Why waiting for a moment ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    OnTime,
    ByStop,
    /// No worker has anything left to do.
    ByIdleness,
}

impl<'a> Conductor<'a> {
    fn begin(
        engine: &'a Engine,
        crew: &mut Crew,
        beside: &'a Beside,
        awake: Option<&'a Awake>,
        stop: &'a Stop,
        on_event: OnEvent<'a>,
    ) -> Self {
        // The schedule may take a while to lay out; the workers wait at the gate.
        let control = beside.control.as_deref();
        let changes_max = if control.is_some() { CHANGES_MAX } else { 0 };
        let now_ns = engine.clock.now_ns();
        let timeline = Timeline::new(&engine.settings, &engine.recorded, now_ns, changes_max);
        let timeline = timeline.moved_to(engine.clock.now_ns() + LEAD_NS);
        let before = Mark { at_ns: timeline.start_ns, ..Mark::default() };
        engine.begin(timeline);
        crew.go();
        if let Some(control) = control {
            control.man(&engine.settings);
        }
        let books = crew.books.take().expect("a crew that is connected has its books");
        let (scratch, waits_before) = (Scratch::default(), Vec::new());
        Self {
            engine,
            log: beside.log.as_ref(),
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
        }
    }

    /// Plays to the end; `None` where the measured phase was not reached.
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
        self.waits_before = client::run_queue_waits_ns(&self.engine.posts);
        self.awake_before = self.awake.and_then(Awake::cpu);
        let woken = self.play_phase(Phase::Measure, from_ns, planned_until_ns);
        let awake_after = self.awake.and_then(Awake::cpu);
        let until_ns = match woken {
            Woken::OnTime => planned_until_ns,
            Woken::ByStop => self.engine.end_now(),
            Woken::ByIdleness => (self.last_end_ns() + 1).min(planned_until_ns),
        };
        if until_ns <= from_ns {
            self.finish_stopped();
            self.books.close();
            return None;
        }
        let interval_from_ns = self.before.at_ns.max(from_ns);
        if until_ns > interval_from_ns {
            self.show_interval(Phase::Measure, from_ns, until_ns);
        }
        let waits_after = client::run_queue_waits_ns(&self.engine.posts);
        match woken {
            Woken::OnTime if timeline.falls() => {
                match self.play_phase(Phase::RampDown, until_ns, timeline.closes_ns) {
                    Woken::ByStop => {
                        self.engine.end_now();
                        self.finish_stopped();
                    }
                    Woken::OnTime | Woken::ByIdleness => self.drain(),
                }
            }
            Woken::OnTime => self.drain(),
            Woken::ByStop => self.finish_stopped(),
            Woken::ByIdleness => {}
        }
        self.books.close();
        let for_ns = until_ns.saturating_sub(interval_from_ns);
        self.books.end_interval(interval_from_ns - from_ns, for_ns);
        Some(Measured {
            until_ns,
            looked_until_ns: self.engine.clock.now_ns(),
            interval_from_ns,
            is_interrupted: woken == Woken::ByStop,
            waits_before: std::mem::take(&mut self.waits_before),
            waits_after,
            awake_cpu: awake_after.zip(self.awake_before).map(|(after, before)| after.saturating_sub(before)),
        })
    }

    /// Plays one phase, interval by interval; the measured phase's last interval is left open.
    fn play_phase(&mut self, phase: Phase, from_ns: u64, until_ns: u64) -> Woken {
        self.tell_phase(phase, from_ns);
        self.before.at_ns = from_ns;
        let interval_ns = to_ns(self.engine.settings.interval);
        let mut tick_ns = from_ns;
        loop {
            tick_ns = tick_ns.saturating_add(interval_ns).min(until_ns);
            let woken = self.wait_until(tick_ns, phase);
            if woken != Woken::OnTime {
                return woken;
            }
            if tick_ns == until_ns && phase == Phase::Measure {
                return Woken::OnTime;
            }
            let interval_from_ns = self.before.at_ns;
            let cpu_before = client::thread_cpu();
            self.show_interval(phase, from_ns, tick_ns);
            match phase {
                Phase::Measure => {
                    self.books.end_interval(interval_from_ns - from_ns, tick_ns - interval_from_ns);
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
            if self.stop.is_requested() {
                return Woken::ByStop;
            }
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= deadline_ns {
                return Woken::OnTime;
            }
            if phase == Phase::Measure && self.is_done_early(now_ns) {
                return Woken::ByIdleness;
            }
            let poll_ns = match (self.log, self.control) {
                (Some(_), _) => LOG_POLL_NS,
                (None, Some(_)) => ASKED_POLL_NS,
                (None, None) => POLL_NS,
            };
            self.engine.clock.sleep_until_ns(deadline_ns.min(now_ns + poll_ns));
            self.hand_over_log();
            self.answer();
        }
    }

    /// Takes what the workers have logged, and hands it to the writer where that has time.
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

    /// Answers what was asked meanwhile.
    fn answer(&mut self) {
        while let Some(asked) = self.control.and_then(Control::next) {
            let answer = match self.engine.change_rate(asked.ask) {
                Ok(change) => {
                    self.changes.push(change);
                    self.control.inspect(|control| control.note_change(&change));
                    (self.on_event)(&Event::RateChanged(change));
                    let (from, to) = (change.from_per_s, change.per_s);
                    format!("ok rate_per_s={to} from_per_s={from} at_s={:.3}", change.at_s)
                }
                Err(problem) => format!("error: {problem}"),
            };
            // Whoever asked may have gone.
            let _ = asked.answer.try_send(answer);
        }
    }

    fn tell_phase(&mut self, phase: Phase, at_ns: u64) {
        self.control.inspect(|control| control.note_phase(phase, at_ns));
        (self.on_event)(&Event::PhaseStarts { phase, at_ns });
    }

    /// Whether a limit of events ends the phase before its time: all of them have ended, and in an open loop the
    /// time that they would take at their rate has passed.
    fn is_done_early(&self, now_ns: u64) -> bool {
        let Some(events_max) = self.engine.settings.events_max else { return false };
        if self.engine.is_anybody_working() {
            return false;
        }
        now_ns >= self.engine.timeline().measured_from_ns + span_of_ns(events_max, self.engine.settings.rate)
    }

    fn last_end_ns(&self) -> u64 {
        let last_ns =
            self.engine.hands.iter().map(|h| h.last_end_ns.load(Ordering::SeqCst)).max().unwrap_or(0);
        let events = self.engine.settings.events_max.unwrap_or(0);
        last_ns.max(self.engine.timeline().measured_from_ns + span_of_ns(events, self.engine.settings.rate))
    }

    /// Gives what is in flight at the planned end its time.
    fn drain(&mut self) {
        if self.engine.is_anybody_working() {
            let now_ns = self.engine.clock.now_ns();
            self.tell_phase(Phase::Drain, now_ns);
        }
        let deadline_ns = self.engine.clock.now_ns().saturating_add(to_ns(self.engine.settings.drain));
        while self.engine.is_anybody_working() && self.engine.clock.now_ns() < deadline_ns {
            if self.stop.is_requested() {
                return self.finish_stopped();
            }
            self.nap();
        }
        self.cut();
    }

    /// Gives what is in flight at an unplanned end a moment.
    fn finish_stopped(&self) {
        let deadline_ns = self.engine.clock.now_ns() + GRACE_NS;
        while self.engine.is_anybody_working()
            && self.stop.level() < StopLevel::Now
            && self.engine.clock.now_ns() < deadline_ns
        {
            self.nap();
        }
        self.cut();
    }

    /// Cuts the connections of workers that have not come back, and waits for them a last moment.
    fn cut(&self) {
        if !self.engine.is_anybody_working() {
            return;
        }
        self.engine.abandon();
        let deadline_ns = self.engine.clock.now_ns() + CUT_NS;
        while self.engine.is_anybody_working() && self.engine.clock.now_ns() < deadline_ns {
            self.nap();
        }
    }

    fn nap(&self) {
        self.engine.clock.sleep_until_ns(self.engine.clock.now_ns() + 1_000_000);
    }

    /// Reads the books and tells of the interval that ends at `until_ns`.
    fn show_interval(&mut self, phase: Phase, phase_from_ns: u64, until_ns: u64) {
        self.books.read();
        let fates = &self.books.fates;
        let due = self.engine.timeline().due_before(until_ns, &mut self.scratch);
        let after = Mark {
            at_ns: until_ns,
            due: due.unwrap_or(0),
            done: fates.done + fates.warmup_done,
            errors: latency::errors_total(&fates.errors),
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
            backlog: due.map_or_else(|| self.engine.in_hand(), |due| due.saturating_sub(fates.ended())),
            latency: self.books.shown(phase != Phase::Measure).clone(),
            errors: after.errors - before.errors,
            outage: self.engine.outages.is_open(),
        };
        self.control.inspect(|control| control.note_progress(&progress));
        (self.on_event)(&Event::Interval(progress));
    }
}

/// How long `events` take at their rate; no time in a closed loop.
fn span_of_ns(events: u64, rate: Rate) -> u64 {
    match rate {
        Rate::Max => 0,
        Rate::PerSecond(per_s) => {
            to_ns(Duration::try_from_secs_f64(events as f64 / per_s).unwrap_or(Duration::MAX))
        }
    }
}

/// Room for the log of each of `threads` workers.
fn log_room(threads: u32) -> usize {
    (LOG_ROOM / threads.max(1) as usize).clamp(1 << 10, 1 << 17)
}

fn record(
    engine: &Engine,
    books: &Books,
    measured: &Measured,
    changes: Vec<RateChange>,
    is_logged: bool,
    seen: Seen,
) -> (LoadRecord, Unfinished) {
    let timeline = engine.timeline();
    let mut scratch = Scratch::default();
    let until_ns = measured.until_ns;
    let is_open = timeline.due.is_some();
    let mut unfinished = engine.unfinished(until_ns, measured.looked_until_ns, is_logged, &mut scratch);
    unfinished.at_least.add(&books.late);
    let fates = &books.fates;
    let planned = if is_open { timeline.measured_due_before(until_ns, &mut scratch) } else { fates.started };
    let counts = Counts {
        planned,
        done: fates.done,
        failed: fates.failed,
        skipped: fates.skipped,
        unfinished: unfinished.at_least.count(),
        retries: fates.retries,
    };
    assert!(counts.balance(), "an event was lost or counted twice: {counts:?}");
    let span = Duration::from_nanos(until_ns - timeline.measured_from_ns);
    let measured_s = span.as_secs_f64();
    let cost = Cost::of(engine, measured, counts.done);
    let of_open = |histogram: &Histogram| if is_open { Ok(histogram.clone()) } else { Err(closed_loop()) };
    let response = of_open(&books.total.response)
        .map(|known| CensoredHistogram { known, at_least: unfinished.at_least.clone() });
    let mut slices = books.slices.clone();
    if is_open && !unfinished.at_least.is_empty() {
        slices.push(HistogramSlice {
            from_ns: measured.interval_from_ns - timeline.measured_from_ns,
            for_ns: until_ns - measured.interval_from_ns,
            operation: String::new(),
            kind: LatencyKind::ResponseAtLeast,
            histogram: CompactHistogram::from(&unfinished.at_least),
        });
    }
    let verdict = judge(engine, books, &counts, measured, &cost, seen.checks);
    let record = LoadRecord {
        settings: engine.settings.clone(),
        server_version: seen.version,
        measured_from_ns: timeline.measured_from_ns,
        measured: span,
        achieved_per_s: counts.done as f64 / measured_s,
        counts,
        response,
        service: books.total.service.clone(),
        wait: of_open(&books.total.wait),
        lateness: of_open(&books.total.lateness),
        failure: books.total.failure.clone(),
        connect: Ok(engine.connects.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        operations: books.operations(),
        outcomes: books.outcomes(),
        errors: fates.errors,
        error_samples: engine.samples.all(),
        outages: outages(engine, until_ns, &mut scratch),
        backlog_after_warmup: fates.warmup_ended_late + unfinished.warmup,
        found_no_worker: fates.found_no_worker,
        rate_changes: changes,
        connected: engine.settings.connections_in_all(),
        client: cost.client,
        slices,
        verdict,
    };
    (record, unfinished)
}

fn judge(
    engine: &Engine,
    books: &Books,
    counts: &Counts,
    measured: &Measured,
    cost: &Cost,
    seen: Vec<Check>,
) -> Verdict {
    let measured_s = seconds(engine.timeline().measured_from_ns, measured.until_ns);
    let mean_of = |h: &Histogram| h.summary().map(|s| s.mean_ns);
    let is_open = engine.timeline().due.is_some();
    let in_system = if is_open { &books.total.response } else { &books.total.service };
    let operations: Vec<(&OperationShare, u64)> = books.operation_counts().collect();
    let findings = Findings {
        settings: &engine.settings,
        rate_per_s: engine.timeline().rate_per_s_max(measured.until_ns),
        counts,
        in_system_ns: books.fates.in_system_ns,
        connected: engine.settings.connections_in_all(),
        measured_s,
        drained: books.fates.drained,
        lateness_p99_ns: books.total.lateness.quantile_ns(0.99),
        in_system_mean_ns: mean_of(in_system),
        starved_ratio: cost.starved_ratio,
        preemptions: cost.usage.preemptions,
        busiest_ratio: cost.busiest_ratio,
        operations: &operations,
    };
    let mut checks = verdict::checks(&findings);
    checks.extend(seen);
    if measured.is_interrupted {
        return Verdict { state: Validity::Interrupted, checks };
    }
    Verdict::of(checks)
}

/// What the workers used, as far as it is known.
struct Cost {
    usage: Usage,
    starved_ratio: Option<f64>,
    /// Share of the phase that the busiest worker was on a CPU.
    busiest_ratio: f64,
    client: Maybe<ClientCost>,
}

impl Cost {
    fn of(engine: &Engine, measured: &Measured, done: u64) -> Self {
        let measured_s = seconds(engine.timeline().measured_from_ns, measured.until_ns);
        let waited_ns = client::waited_ns(&measured.waits_before, &measured.waits_after);
        let not_counted = || Missing::because("this kernel does not count run-queue wait");
        let starved_ratio =
            waited_ns.as_ref().map(|w| w.iter().max().map_or(0.0, |worst| *worst as f64 / 1e9 / measured_s));
        let usages = engine.usages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut usage = Usage::default();
        for worker in &usages {
            usage.add(worker);
        }
        let left_behind = engine.working.load(Ordering::SeqCst);
        let client = if left_behind > 0 {
            Err(Missing::because(format!("{left_behind} workers had not come back from the server")))
        } else if done == 0 || usages.is_empty() {
            Err(Missing::because("no event was done"))
        } else {
            Ok(ClientCost {
                user_us_per_event: usage.user_us as f64 / done as f64,
                system_us_per_event: usage.system_us as f64 / done as f64,
                switches_per_event: usage.switches as f64 / done as f64,
                starved_ratio: starved_ratio.ok_or_else(not_counted),
                run_queue_wait_us_per_event: waited_ns
                    .map(|w| w.iter().sum::<u64>() as f64 / 1e3 / done as f64)
                    .ok_or_else(not_counted),
                keep_awake_cpu: measured.awake_cpu,
            })
        };
        let busiest_ratio = usages.iter().map(Usage::cpu_s).fold(0.0, f64::max) / measured_s;
        Self { usage, starved_ratio, busiest_ratio, client }
    }
}

/// The outages that touch the measured phase.
fn outages(engine: &Engine, until_ns: u64, scratch: &mut Scratch) -> Vec<Outage> {
    let timeline = engine.timeline();
    let from_ns = timeline.measured_from_ns;
    let spans = engine.outages.spans().into_iter();
    let touching = spans.filter(|s| s.from_ns < until_ns && s.until_ns.is_none_or(|end_ns| end_ns > from_ns));
    touching
        .map(|span| {
            let end_ns = span.until_ns.unwrap_or(until_ns);
            let due_before = timeline.measured_due_before(span.from_ns, scratch);
            let due_until = timeline.measured_due_before(end_ns.min(until_ns), scratch);
            Outage {
                from_s: (span.from_ns as f64 - from_ns as f64) / 1e9,
                for_s: seconds(span.from_ns, end_ns),
                affected: due_until - due_before + span.hit_before(from_ns),
                ended: span.until_ns.is_some(),
            }
        })
        .collect()
}

fn closed_loop() -> Missing {
    Missing::because("a closed loop has no intended starts")
}

fn seconds(from_ns: u64, until_ns: u64) -> f64 {
    until_ns.saturating_sub(from_ns) as f64 / 1e9
}

#[cfg(test)]
mod simulated;
