//! The loops under a clock that is moved by hand: one worker, no thread, no sleep, exact answers.

mod client;
mod closed_rate;
mod end;
mod loops;
mod open_rate;
mod outages;
mod rates;
mod search;
mod shares;
mod stops;

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use record::clock::Clock;
use record::histogram::Histogram;
use record::load::{
    Arrivals, ClientSettings, Counts, DataCheck, Distribution, LatePolicy, Loop, OltpMix, OltpSettings,
    OpenLoop, PreparePolicy, Schedule, ScriptSettings, Workload,
};
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::series::LatencyKind;
use record::target::Target;
use record::verdict::Validity;

use super::look::TargetReport;
use super::*;
use crate::connection::{Attempt, Connection, Cut, Idle, OperationShare};
use crate::connection::{Failure, FailureClass};
use crate::control::RateCommand;
use crate::driver::{Driver, Look};
use crate::engine::loops::worker::Worker;
use crate::engine::loops::{closed, open};
use crate::judge::verdict::Findings;
use crate::measure::client::Scheduled;
use crate::measure::latency::{self, Recorder};
use crate::measure::waits::Waits;
use crate::workload::tables::Prepared;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

#[derive(Default)]
struct HandClock {
    now_ns: AtomicU64,
    /// Delay of each wake-up, by the number of the sleep.
    late_ns: OnceLock<Box<dyn Fn(u64) -> u64 + Send + Sync>>,
    sleeps: AtomicU64,
    /// Account of the workers' waits for a CPU.
    waited_ns: AtomicU64,
}

impl HandClock {
    fn advance(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        if deadline_ns > self.now_ns() {
            let number = self.sleeps.fetch_add(1, Ordering::SeqCst);
            let late_ns = self.late_ns.get().map_or(0, |late_ns| late_ns(number));
            self.now_ns.store(deadline_ns + late_ns, Ordering::SeqCst);
        }
    }
}

/// Room for changes of the rate: it must make no difference to a load without changes.
const CHANGES: usize = 8;

/// The simulated server: duration and result of a try that begins now.
type Behaviour = dyn Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) + Send + Sync;

struct Scene<'a> {
    now_ns: u64,
    /// First number of the event's random stream.
    chance: u64,
    engine: &'a Engine,
}

struct Simulation {
    clock: Arc<HandClock>,
    engine: OnceLock<std::sync::Weak<Engine>>,
    serve: Box<Behaviour>,
    /// Time in which connections are refused.
    down_ns: std::ops::Range<u64>,
    keeping: Keeping,
    /// Time at which the connection was last used.
    used_ns: AtomicU64,
}

/// Treatment of idle connections by a server.
#[derive(Clone, Copy)]
struct Keeping {
    /// Idle time after which it closes them.
    for_ns: u64,
    /// Time that a new connection takes.
    connect_ns: u64,
}

impl Keeping {
    /// A server that keeps all connections.
    const ALL: Self = Self { for_ns: u64::MAX, connect_ns: 0 };
}

struct Server(Arc<Simulation>);

impl Driver for Server {
    fn connect(&self, _: &Cut) -> Result<Box<dyn Connection>, Failure> {
        if self.0.down_ns.contains(&self.0.clock.now_ns()) {
            return Err(Failure::new(FailureClass::Connection, "refused"));
        }
        // The first connection is made before the load begins.
        if self.0.clock.now_ns() > 0 {
            self.0.clock.advance(self.0.keeping.connect_ns);
        }
        self.0.used_ns.store(self.0.clock.now_ns(), Ordering::SeqCst);
        Ok(Box::new(Server(Arc::clone(&self.0))))
    }

    fn look(&self, _: &Cut) -> Result<Look, Failure> {
        Ok(Look { version: Err(Missing::because("simulated")), store: None })
    }

    fn operations(&self) -> Vec<OperationShare> {
        vec![OperationShare::always("serve", 1)]
    }
}

impl Connection for Server {
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure> {
        let engine = self.0.engine.get().and_then(std::sync::Weak::upgrade).unwrap();
        let now_ns = self.0.clock.now_ns();
        let scene = Scene { now_ns, chance: attempt.random.bits(), engine: &engine };
        let (took_ns, result) = (self.0.serve)(&scene);
        self.0.clock.advance(took_ns);
        self.0.used_ns.store(self.0.clock.now_ns(), Ordering::SeqCst);
        result.map_err(|class| Failure::new(class, "simulated"))?;
        attempt.laps.end_operation(0);
        Ok(())
    }

    fn idle(&mut self, _: bool) -> Idle {
        let idle_ns = self.0.clock.now_ns() - self.0.used_ns.load(Ordering::SeqCst);
        if idle_ns >= self.0.keeping.for_ns { Idle::Closed } else { Idle::Stands }
    }
}

fn settings(pace: Loop, time_s: u64) -> LoadSettings {
    LoadSettings {
        target: Target::new("simulated:"),
        workload: Workload::Native,
        oltp: OltpSettings {
            tables: 1,
            rows: 1,
            point_selects: 1,
            range_size: 1,
            mix: OltpMix::USUAL,
            distribution: Distribution::Uniform,
            skip_transaction: false,
            prepared: false,
        },
        scripts: ScriptSettings::default(),
        kv: KvSettings::usual(),
        http: HttpSettings::plain(),
        exec: ExecSettings::plain(),
        verify: false,
        prepare: PreparePolicy::Never,
        check: DataCheck::Quick,
        answer_bytes_max: LoadSettings::ANSWER_BYTES_MAX,
        threads: 1,
        connections: None,
        pace,
        warmup: Duration::ZERO,
        time: Duration::from_secs(time_s),
        events_max: None,
        interval: Duration::from_secs(1),
        retries_max: 3,
        drain: Duration::from_secs(5),
        seed: 1,
        draws: 0,
        connects_at_once: 1,
        errors_ratio_max: 0.0,
        ramp_up: Duration::ZERO,
        ramp_down: Duration::ZERO,
        client: ClientSettings::PLAIN,
    }
}

/// Plays one worker to its end and closes the books there.
fn simulate_with_outage(
    settings: LoadSettings,
    down_ns: std::ops::Range<u64>,
    serve: Box<Behaviour>,
) -> LoadRecord {
    play(settings, down_ns, Keeping::ALL, serve)
}

/// Variant of [`simulate_with_outage`] with a server that closes idle connections.
fn play(
    settings: LoadSettings,
    down_ns: std::ops::Range<u64>,
    keeping: Keeping,
    serve: Box<Behaviour>,
) -> LoadRecord {
    play_by(&Arc::new(HandClock::default()), settings, down_ns, keeping, serve)
}

fn play_by(
    clock: &Arc<HandClock>,
    settings: LoadSettings,
    down_ns: std::ops::Range<u64>,
    keeping: Keeping,
    serve: Box<Behaviour>,
) -> LoadRecord {
    let simulation = Arc::new(Simulation {
        clock: Arc::clone(clock),
        engine: OnceLock::new(),
        serve,
        down_ns,
        keeping,
        used_ns: AtomicU64::new(0),
    });
    let driver: Arc<dyn Driver> = Arc::new(Server(Arc::clone(&simulation)));
    let hosts = Arc::new(Hosts::one(Arc::clone(&driver)));
    let is_open = settings.pace.as_open().is_some();
    let engine = Arc::new(Engine::new(settings, Arc::from([]), hosts, Arc::<HandClock>::clone(clock)));
    simulation.engine.set(Arc::downgrade(&engine)).unwrap();
    engine.begin(Timeline::new(&engine.settings, &engine.recorded, &engine.share, 0, CHANGES));

    let mut readers = Vec::new();
    let mut over_ns = 0;
    for index in 0..engine.workers.len() {
        // Each worker plays through the same time: only the numbers of events connect them.
        clock.now_ns.store(0, Ordering::SeqCst);
        let (writer, reader) = latency::cell(Box::new(Recorder::new(1, 0, 0)));
        readers.push(reader);
        let connection = driver.connect(&engine.workers[index].cut).ok().unwrap();
        let mut worker = Worker::new(index, Arc::clone(&engine), writer, connection);
        let account = Arc::clone(clock);
        let read = Box::new(move || Some(account.waited_ns.load(Ordering::SeqCst)));
        worker.ledger.count_waits(|now_ns| Waits::by(read, now_ns));
        if is_open {
            open::work(&mut worker);
        } else {
            closed::work(&mut worker);
        }
        engine.working.fetch_sub(1, Ordering::SeqCst);
        over_ns = over_ns.max(clock.now_ns());
    }

    let mut books = Books::new(readers, driver.operations(), &[], is_open, 0);
    books.close();
    let timeline = engine.timeline();
    let until_ns = engine.end_ns();
    let of_each = || vec![Some(Scheduled::default())];
    let waits = || RunQueueWaits { from_ns: 0, until_ns: SECOND, of_each: of_each(), cpus: None };
    let measured = Measured {
        until_ns,
        looked_until_ns: over_ns.max(until_ns),
        interval_from_ns: timeline.measured_from_ns,
        gave_up_for: None,
        is_interrupted: false,
        waits: (waits(), waits()),
        open_sockets: Err(Missing::because("simulated")),
        in_system: None,
        paused_s: 0.0,
        awake_cpu: None,
    };
    let prepared = Prepared { found: 0, built: 0, rows: 0 };
    let seen = TargetReport { version: Err(Missing::because("simulated")), prepared, checks: Vec::new() };
    let over = account::record(&engine, &mut books, &measured, Vec::new(), false, seen);
    LoadRecord { slices: over.last, ..over.record }
}

fn simulate(
    settings: LoadSettings,
    serve: impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) + Send + Sync + 'static,
) -> LoadRecord {
    simulate_with_outage(settings, 0..0, Box::new(serve))
}

fn check(record: &LoadRecord, name: &str) -> bool {
    record.verdict.checks.iter().find(|c| c.name == name).unwrap().ok
}

#[track_caller]
fn assert_near(found: Option<u64>, expected: u64) {
    let found = found.unwrap();
    assert!(found.abs_diff(expected) * 1_000 <= expected, "{found} is not within 0.1 % of {expected}");
}

/// A server that answers at once, except for a stall.
fn stalls(from_ns: u64, for_ns: u64) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) {
    move |scene| {
        let is_stalled = (from_ns..from_ns + for_ns).contains(&scene.now_ns);
        (if is_stalled { from_ns + for_ns - scene.now_ns } else { 0 }, Ok(()))
    }
}

#[test]
fn a_stall_of_one_second_puts_its_arrivals_evenly_between_nothing_and_a_second() {
    let record = simulate(settings(Loop::open(500.0), 10), stalls(4 * SECOND, SECOND));
    assert_eq!((record.counts.planned, record.counts.done), (5_000, 5_000));
    let response = &record.response.as_ref().unwrap().known;
    // 500 of 5,000 events arrived in the stall: the last tenth of the distribution is uniform on 0 to 1 s.
    for (quantile, expected_ms) in [(0.95, 500), (0.99, 900), (0.999, 990), (1.0, 1_000)] {
        let found_ms = response.quantile_ns(quantile).unwrap() as f64 / MS as f64;
        // Arrivals are 2 ms apart.
        assert!((found_ms - f64::from(expected_ms)).abs() <= 2.5, "{quantile}: {found_ms} ms");
    }
    // The server itself was slow once.
    assert_eq!(record.service.known.quantile_ns(0.9998), Some(0));
    assert_near(record.service.known.quantile_ns(1.0), SECOND);
    // All time outside of service was wait for the worker: this generator is never late.
    assert_eq!(record.lateness.as_ref().unwrap().quantile_ns(1.0), Some(0));
    assert_near(record.wait.as_ref().unwrap().known.quantile_ns(1.0), 998 * MS);
}

#[test]
fn response_is_wait_and_lateness_and_service() {
    // Two events, 100 ms apart; each takes 150 ms: the second waits 50 ms.
    let record = simulate(LoadSettings { events_max: Some(2), ..settings(Loop::open(10.0), 1) }, |_| {
        (150 * MS, Ok(()))
    });
    let ends = |h: &Histogram| (h.quantile_ns(0.5), h.quantile_ns(1.0));
    let (low, high) = ends(&record.response.as_ref().unwrap().known);
    assert_near(low, 150 * MS);
    assert_near(high, 200 * MS);
    let (low, high) = ends(&record.wait.as_ref().unwrap().known);
    assert_eq!(low, Some(0));
    assert_near(high, 50 * MS);
    assert_near(record.service.known.quantile_ns(1.0), 150 * MS);
}

#[test]
fn overload_loses_nothing_and_says_how_long_the_rest_has_waited() {
    // A hundred a second can be done, 500 are due.
    let record = simulate(settings(Loop::open(500.0), 2), |_| (10 * MS, Ok(())));
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.unfinished), (1_000, 199, 801));
    let response = record.response.as_ref().unwrap();
    assert_eq!(response.at_least.count(), 801);
    // The first event that was never taken was due at 0.4 s.
    assert_near(response.at_least.quantile_ns(1.0), 1_602 * MS);
    let summary = response.summary().unwrap();
    assert_eq!(summary.lower_bounds, ["p50", "p90", "p95", "p99", "p99_9", "p99_99", "mean", "max"]);
    assert_eq!(record.verdict.state, Validity::Invalid);
    assert!(record.verdict.failures().any(|c| c.name == "achieved-rate"));
    assert!(
        record.slices.iter().any(|s| s.kind == LatencyKind::ResponseAtLeast && s.histogram.count() == 801)
    );
}

#[test]
fn what_is_too_late_is_skipped_and_counted() {
    let late = LatePolicy::Skip { limit: Duration::from_millis(100) };
    let record = simulate(
        settings(Loop::Open(OpenLoop { late, ..OpenLoop::plain(500.0) }), 10),
        stalls(4 * SECOND, SECOND),
    );
    // Of the 500 that arrived in the stall, the one in service ends with it, and 50 are within the limit.
    assert_eq!((record.counts.planned, record.counts.done, record.counts.skipped), (5_000, 4_551, 449));
    let response = &record.response.as_ref().unwrap().known;
    assert_near(response.quantile_ns(1.0), SECOND);
    assert_near(response.quantile_ns(1.0 - 1.5 / 4_551.0), 100 * MS);
}

#[test]
fn nothing_of_the_warm_up_counts_but_its_backlog_is_told() {
    // A stall from half a second before its end until half a second after it.
    let warmed = LoadSettings { warmup: Duration::from_secs(2), ..settings(Loop::open(100.0), 3) };
    let record = simulate(warmed, stalls(1_500 * MS, SECOND));
    assert_eq!(record.backlog_after_warmup, 50);
    assert_eq!((record.counts.planned, record.counts.done), (300, 300));
    // Of the measured events, those of the first half second waited: the first of them for all of it.
    assert_near(record.response.as_ref().unwrap().known.quantile_ns(1.0), 500 * MS);
}

#[test]
fn a_closed_loop_has_no_response_time_and_goes_as_fast_as_the_server() {
    let record = simulate(settings(Loop::CLOSED, 1), |_| (3 * MS, Ok(())));
    assert_eq!((record.counts.planned, record.counts.done, record.counts.unfinished), (334, 333, 1));
    assert!(record.response.is_err() && record.wait.is_err() && record.lateness.is_err());
    assert_near(record.service.known.quantile_ns(0.5), 3 * MS);
    assert_eq!(record.verdict.state, Validity::Valid);
}

#[test]
fn a_closed_loop_stops_at_its_number_of_events() {
    let record =
        simulate(LoadSettings { events_max: Some(10), ..settings(Loop::CLOSED, 1) }, |_| (MS, Ok(())));
    assert_eq!((record.counts.planned, record.counts.done), (10, 10));
}

#[test]
fn a_thread_that_owns_its_slots_plays_them_all() {
    let owned = settings(Loop::Open(OpenLoop { schedule: Schedule::Own, ..OpenLoop::plain(100.0) }), 2);
    let open = OpenLoop {
        schedule: Schedule::Own,
        arrivals: Arrivals::Jitter { ratio: 0.1 },
        ..OpenLoop::plain(100.0)
    };
    let warmed = LoadSettings { warmup: Duration::from_secs(1), pace: Loop::Open(open), ..owned.clone() };
    for settings in [owned, warmed] {
        let record = simulate(settings, |_| (MS, Ok(())));
        assert_eq!((record.counts.planned, record.counts.done), (200, 200));
    }
}
