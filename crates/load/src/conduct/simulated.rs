//! The loops under a clock that is moved by hand: one worker, no thread, no sleep, exact answers.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use record::clock::Clock;
use record::histogram::Histogram;
use record::load::{
    Arrivals, ClientSettings, Counts, Distribution, LatePolicy, OltpSettings, PreparePolicy, Schedule,
    ScriptSettings, Think, Workload,
};
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::series::LatencyKind;
use record::target::Target;
use record::verdict::Validity;

use super::*;
use crate::control::RateAsk;
use crate::driver::{Attempt, Connection, Cut, Look, OperationShare};
use crate::latency::Recorder;
use crate::verdict::{Findings, judged_quantile};
use crate::worker::Worker;
use crate::{closed, open};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

#[derive(Default)]
struct HandClock(AtomicU64);

impl HandClock {
    fn advance(&self, by_ns: u64) {
        self.0.fetch_add(by_ns, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.0.fetch_max(deadline_ns, Ordering::SeqCst);
    }
}

/// Room for changes of the rate: whether there is any must make no difference to a load that has none.
const CHANGES: usize = 8;

/// What the server of a simulation does with a try that begins now: how long it takes, and how it ends.
type Behaviour = dyn Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) + Send + Sync;

struct Scene<'a> {
    now_ns: u64,
    /// First number of the event's chance.
    chance: u64,
    engine: &'a Engine,
}

struct Simulation {
    clock: Arc<HandClock>,
    engine: OnceLock<std::sync::Weak<Engine>>,
    serve: Box<Behaviour>,
    /// When connections are refused.
    down_ns: std::ops::Range<u64>,
    keeping: Keeping,
    /// When the connection was used last.
    used_ns: AtomicU64,
}

/// What a server does with connections that are not in use.
#[derive(Clone, Copy)]
struct Keeping {
    /// It closes them after so long.
    for_ns: u64,
    /// So long it takes to make another.
    connect_ns: u64,
}

impl Keeping {
    /// It keeps them all.
    const ALL: Self = Self { for_ns: u64::MAX, connect_ns: 0 };
}

struct Server(Arc<Simulation>);

impl Driver for Server {
    fn connect(&self, _: &Cut) -> Result<Box<dyn Connection>, Failure> {
        if self.0.down_ns.contains(&self.0.clock.now_ns()) {
            return Err(Failure::new(FailureClass::Connection, "refused"));
        }
        // The first is made before the load begins.
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

    fn is_over(&mut self) -> bool {
        self.0.clock.now_ns() - self.0.used_ns.load(Ordering::SeqCst) >= self.0.keeping.for_ns
    }
}

fn settings(rate: Rate, time_s: u64) -> LoadSettings {
    LoadSettings {
        target: Target::new("simulated:"),
        workload: Workload::Native,
        oltp: OltpSettings {
            tables: 1,
            rows: 1,
            point_selects: 1,
            range_size: 1,
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
        threads: 1,
        connections: None,
        rate,
        arrivals: Arrivals::Period,
        schedule: Schedule::Shared,
        late: LatePolicy::Queue,
        warmup: Duration::ZERO,
        time: Duration::from_secs(time_s),
        events_max: None,
        interval: Duration::from_secs(1),
        retries_max: 3,
        drain: Duration::from_secs(5),
        seed: 1,
        connects_at_once: 1,
        errors_ratio_max: 0.0,
        think: Think::None,
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

/// The same, with a server that closes what is idle.
fn play(
    settings: LoadSettings,
    down_ns: std::ops::Range<u64>,
    keeping: Keeping,
    serve: Box<Behaviour>,
) -> LoadRecord {
    let clock = Arc::new(HandClock::default());
    let simulation = Arc::new(Simulation {
        clock: Arc::clone(&clock),
        engine: OnceLock::new(),
        serve,
        down_ns,
        keeping,
        used_ns: AtomicU64::new(0),
    });
    let driver: Arc<dyn Driver> = Arc::new(Server(Arc::clone(&simulation)));
    let is_open = settings.rate != Rate::Max;
    let engine =
        Arc::new(Engine::new(settings, Arc::from([]), Arc::clone(&driver), Arc::<HandClock>::clone(&clock)));
    simulation.engine.set(Arc::downgrade(&engine)).unwrap();
    engine.begin(Timeline::new(&engine.settings, &engine.recorded, 0, CHANGES));

    let (writer, reader) = latency::cell(Box::new(Recorder::new(1, 0, 0)));
    let connection = driver.connect(&engine.posts[0].cut).ok().unwrap();
    let mut worker = Worker::new(0, Arc::clone(&engine), writer, connection);
    if is_open {
        open::work(&mut worker);
    } else {
        closed::work(&mut worker);
    }
    engine.working.fetch_sub(1, Ordering::SeqCst);

    let mut books = Books::new(vec![reader], driver.operations(), &[], is_open, 0);
    books.close();
    let timeline = engine.timeline();
    let until_ns = engine.end_ns();
    let waits = || RunQueueWaits { of_each_ns: vec![Some(0)], ..RunQueueWaits::default() };
    let measured = Measured {
        until_ns,
        looked_until_ns: clock.now_ns().max(until_ns),
        interval_from_ns: timeline.measured_from_ns,
        gave_up_for: None,
        is_interrupted: false,
        waits: (waits(), waits()),
        awake_cpu: None,
    };
    let prepared = Prepared { found: 0, built: 0, rows: 0 };
    let seen = Seen { version: Err(Missing::because("simulated")), prepared, checks: Vec::new() };
    account::record(&engine, &mut books, &measured, Vec::new(), false, seen).0
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

/// A server that answers at once, but for a stall.
fn stalls(from_ns: u64, for_ns: u64) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) {
    move |scene| {
        let is_stalled = (from_ns..from_ns + for_ns).contains(&scene.now_ns);
        (if is_stalled { from_ns + for_ns - scene.now_ns } else { 0 }, Ok(()))
    }
}

#[test]
fn a_stall_of_one_second_puts_its_arrivals_evenly_between_nothing_and_a_second() {
    let record = simulate(settings(Rate::PerSecond(500.0), 10), stalls(4 * SECOND, SECOND));
    assert_eq!((record.counts.planned, record.counts.done), (5_000, 5_000));
    let response = &record.response.as_ref().unwrap().known;
    // 500 of 5,000 events came in the stall: the last tenth of the distribution is uniform on 0 to 1 s.
    for (quantile, expected_ms) in [(0.95, 500), (0.99, 900), (0.999, 990), (1.0, 1_000)] {
        let found_ms = response.quantile_ns(quantile).unwrap() as f64 / MS as f64;
        // Arrivals are 2 ms apart.
        assert!((found_ms - f64::from(expected_ms)).abs() <= 2.5, "{quantile}: {found_ms} ms");
    }
    // The server itself was slow once.
    assert_eq!(record.service.known.quantile_ns(0.9998), Some(0));
    assert_near(record.service.known.quantile_ns(1.0), SECOND);
    // Everything that was not service was waiting for the worker: this generator is never late.
    assert_eq!(record.lateness.as_ref().unwrap().quantile_ns(1.0), Some(0));
    assert_near(record.wait.as_ref().unwrap().known.quantile_ns(1.0), 998 * MS);
}

#[test]
fn response_is_wait_and_lateness_and_service() {
    // Two events, 100 ms apart; each takes 150 ms: the second waits 50 ms.
    let record = simulate(LoadSettings { events_max: Some(2), ..settings(Rate::PerSecond(10.0), 1) }, |_| {
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
    let record = simulate(settings(Rate::PerSecond(500.0), 2), |_| (10 * MS, Ok(())));
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.unfinished), (1_000, 199, 801));
    let response = record.response.as_ref().unwrap();
    assert_eq!(response.at_least.count(), 801);
    // The first that was never taken was due at 0.4 s.
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
fn an_event_in_flight_at_the_end_is_unfinished_but_kept_up() {
    let record = simulate(settings(Rate::PerSecond(10.0), 1), |_| (50 * MS, Ok(())));
    assert_eq!((record.counts.done, record.counts.unfinished), (10, 0));
    // Now the last one, due at 0.9 s, ends at 1.05 s.
    let record = simulate(settings(Rate::PerSecond(10.0), 1), |scene| {
        (if scene.now_ns == 900 * MS { 150 * MS } else { MS }, Ok(()))
    });
    assert_eq!((record.counts.done, record.counts.unfinished), (9, 1));
    assert!(check(&record, "achieved-rate"));
    assert_near(record.response.as_ref().unwrap().at_least.quantile_ns(1.0), 150 * MS);
    // It was begun in time: its service is known from below, and that it waited for nobody is known.
    assert_near(record.service.at_least.quantile_ns(1.0), 150 * MS);
    assert_near(record.operations["serve"].service.at_least.quantile_ns(1.0), 150 * MS);
    let wait = record.wait.as_ref().unwrap();
    assert_eq!((wait.known.count(), wait.at_least.count()), (10, 0));
    assert_eq!(
        record.service.summary().unwrap().lower_bounds,
        ["p95", "p99", "p99_9", "p99_99", "mean", "max"]
    );
}

#[test]
fn an_event_that_never_ends_raises_what_is_said_of_service_wait_and_operations() {
    let hang = |scene: &Scene<'_>| match scene.now_ns {
        ..SECOND => (MS, Ok(())),
        // Its connection breaks, and while it is tried again the run is given up.
        SECOND => (300 * MS, Err(FailureClass::Connection)),
        _ => {
            scene.engine.end_now();
            scene.engine.abandon();
            (200 * MS, Err(FailureClass::Connection))
        }
    };
    for (rate, done, unfinished) in [(Rate::PerSecond(100.0), 100, 30), (Rate::Max, 1_000, 1)] {
        let record = simulate(settings(rate, 10), hang);
        assert_eq!((record.counts.done, record.counts.unfinished), (done, unfinished));
        assert_eq!((record.service.known.count(), record.service.at_least.count()), (done, 1));
        assert_near(record.service.at_least.quantile_ns(1.0), 500 * MS);
        let bounds = record.service.summary().unwrap().lower_bounds;
        assert!(bounds.contains(&"max") && !bounds.contains(&"p50"), "{bounds:?}");
        // Which operation it hangs in, nobody knows.
        let operation = &record.operations["serve"];
        assert_eq!((operation.service.at_least.count(), operation.in_flight), (0, 1));
        assert_eq!(operation.summary().unwrap().lower_bounds, bounds);
        if let Ok(wait) = &record.wait {
            // It had a worker at once; those due after it had none until the end.
            assert_eq!((wait.known.count(), wait.at_least.count()), (done + 1, 29));
            assert_near(wait.at_least.quantile_ns(1.0), 290 * MS);
        }
    }
}

#[test]
fn what_a_phase_with_its_server_away_waits_for_ends() {
    let mut absence = Absence::default();
    assert!(!absence.is_too_long(true, 5 * SECOND));
    assert!(!absence.is_too_long(true, 64 * SECOND));
    assert!(!absence.is_too_long(false, 65 * SECOND), "it came back");
    assert!(!absence.is_too_long(true, 66 * SECOND));
    assert!(absence.is_too_long(true, 126 * SECOND));
}

#[test]
fn events_in_flight_are_forgiven_as_many_as_the_latency_explains() {
    let settings = settings(Rate::PerSecond(10.0), 2);
    // Rate, planned, done, ended after the phase, mean latency.
    for (per_s, planned, done, drained, mean_ms, ok) in [
        (10.0, 20, 1, 19, 1_900.0, false),
        (10.0, 20, 4, 16, 1_500.0, false),
        (100.0, 300, 176, 124, 0.2, false),
        (1_000.0, 10_000, 9_900, 100, 1.0, false),
        (10.0, 10, 9, 1, 1.0, true),
        (10.0, 600, 590, 10, 1_000.0, true),
        (10.0, 600, 590, 0, 1_000.0, false),
    ] {
        let counts = Counts { planned, done, unfinished: planned - done, ..Counts::default() };
        let findings = Findings {
            settings: &settings,
            rate_per_s: Some(per_s),
            counts: &counts,
            in_system_ns: 0,
            connected: 1,
            measured_s: planned as f64 / per_s,
            drained,
            lateness: None,
            in_system_mean_ns: Some(mean_ms * 1e6),
            starved_ratio: None,
            may_have_loops: false,
            preemptions: 0,
            busiest_ratio: 0.0,
            operations: &[],
        };
        let checks = crate::verdict::checks(&findings);
        let found = checks.iter().find(|c| c.name == "achieved-rate").unwrap();
        assert_eq!(found.ok, ok, "{}", found.text);
    }
}

#[test]
fn one_late_event_of_a_few_does_not_make_the_generator_late() {
    let late: Histogram = [(1_000, 19), (2_000_000, 1)].into_iter().collect();
    let (quantile, found_ns) = judged_quantile(&late).unwrap();
    assert!((quantile - 0.95).abs() < 1e-9 && found_ns < 1_100, "{quantile} {found_ns}");
    let late: Histogram = [(1_000, 980), (2_000_000, 20)].into_iter().collect();
    let (quantile, found_ns) = judged_quantile(&late).unwrap();
    assert!((quantile - 0.99).abs() < 1e-9 && found_ns >= 2_000_000, "{quantile} {found_ns}");
    assert_eq!(judged_quantile(&Histogram::new()), None);
}

#[test]
fn what_is_too_late_is_skipped_and_counted() {
    let late = LatePolicy::Skip { limit: Duration::from_millis(100) };
    let record =
        simulate(LoadSettings { late, ..settings(Rate::PerSecond(500.0), 10) }, stalls(4 * SECOND, SECOND));
    // Of the 500 that came in the stall, the one that met it ends with it, and 50 are within the limit.
    assert_eq!((record.counts.planned, record.counts.done, record.counts.skipped), (5_000, 4_551, 449));
    let response = &record.response.as_ref().unwrap().known;
    assert_near(response.quantile_ns(1.0), SECOND);
    assert_near(response.quantile_ns(1.0 - 1.5 / 4_551.0), 100 * MS);
}

#[test]
fn nothing_of_the_warm_up_counts_but_its_backlog_is_told() {
    // A stall from half a second before its end until half a second after it.
    let warmed = LoadSettings { warmup: Duration::from_secs(2), ..settings(Rate::PerSecond(100.0), 3) };
    let record = simulate(warmed, stalls(1_500 * MS, SECOND));
    assert_eq!(record.backlog_after_warmup, 50);
    assert_eq!((record.counts.planned, record.counts.done), (300, 300));
    // Of the measured events, those of the first half second waited: the first of them for all of it.
    assert_near(record.response.as_ref().unwrap().known.quantile_ns(1.0), 500 * MS);
}

#[test]
fn a_transient_error_is_retried_with_the_same_due_time_and_the_same_chance() {
    let tried = Mutex::new(std::collections::BTreeMap::<u64, u32>::new());
    let record = simulate(settings(Rate::PerSecond(100.0), 1), move |scene| {
        let mut tried = tried.lock().unwrap();
        let tries = tried.entry(scene.chance).or_default();
        *tries += 1;
        let fails = scene.chance.is_multiple_of(4) && *tries < 3;
        (MS, if fails { Err(FailureClass::Transient) } else { Ok(()) })
    });
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.failed), (100, 100, 0));
    assert!(counts.retries > 20, "a quarter of 100 events is tried three times: {}", counts.retries);
    assert_eq!(record.errors.transient, counts.retries);
    assert_eq!(record.failure.count(), counts.retries);
    assert_near(record.failure.quantile_ns(1.0), MS);
    // Three tries of a millisecond each are one event of three.
    assert_near(record.response.as_ref().unwrap().known.quantile_ns(1.0), 3 * MS);
    assert!(check(&record, "mix"), "an operation of a failed try does not count");
    assert_eq!(record.operations["serve"].service.known.count(), 100);
}

#[test]
fn what_a_server_closes_while_it_is_idle_costs_wait_and_no_error() {
    // A connection lives for a third of a second, and an event comes every second.
    let keeping = Keeping { for_ns: 333 * MS, connect_ns: 50 * MS };
    let record = play(settings(Rate::PerSecond(1.0), 10), 0..0, keeping, Box::new(|_| (MS, Ok(()))));
    assert_eq!((record.counts.done, record.counts.failed, record.counts.retries), (10, 0, 0));
    assert_eq!(record.errors, record::load::ErrorCounts::default());
    assert!(record.outages.is_empty(), "{:?}", record.outages);
    assert_near(record.service.known.quantile_ns(1.0), MS);
    assert_eq!(record.lateness.as_ref().unwrap().quantile_ns(1.0), Some(0));
    assert!(record.wait.as_ref().unwrap().known.quantile_ns(1.0) <= Some(50 * MS));
}

#[test]
fn a_connection_is_made_again_after_the_event_that_was_its_last_has_ended() {
    // It closes after each answer, and then takes two seconds to be reached.
    let keeping = Keeping { for_ns: 0, connect_ns: 2 * SECOND };
    let serve =
        |scene: &Scene<'_>| (MS, if scene.now_ns < SECOND { Ok(()) } else { Err(FailureClass::Application) });
    let record = play(settings(Rate::Max, 5), 0..0, keeping, Box::new(serve));
    assert_eq!((record.counts.done, record.counts.failed, record.counts.unfinished), (1, 2, 0));
    assert_near(record.service.known.quantile_ns(1.0), MS);
    assert_near(record.failure.quantile_ns(1.0), MS);
}

#[test]
fn an_event_that_fails_too_often_has_failed() {
    let failing = |class| {
        simulate(LoadSettings { retries_max: 2, ..settings(Rate::PerSecond(10.0), 1) }, move |_| {
            (MS, Err(class))
        })
    };
    let transient = failing(FailureClass::Transient);
    assert_eq!((transient.counts.failed, transient.counts.retries, transient.errors.transient), (10, 20, 30));
    let application = failing(FailureClass::Application);
    assert_eq!((application.counts.failed, application.counts.retries), (10, 0));
    assert_eq!(application.error_samples, ["application: simulated"]);
    assert!(!check(&application, "errors"));
    assert_eq!(application.response.as_ref().unwrap().summary(), None);
}

#[test]
fn an_outage_is_timed_and_costs_no_event() {
    let down_ns = 4 * SECOND..5 * SECOND;
    let is_down = down_ns.clone();
    let serve = move |scene: &Scene<'_>| {
        let result = if is_down.contains(&scene.now_ns) { Err(FailureClass::Connection) } else { Ok(()) };
        (MS, result)
    };
    let record = simulate_with_outage(settings(Rate::PerSecond(500.0), 10), down_ns, Box::new(serve));
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.failed, counts.retries), (5_000, 5_000, 0, 1));
    let [outage] = record.outages[..] else { panic!("{:?}", record.outages) };
    assert!(outage.ended);
    assert!((outage.from_s - 4.001).abs() < 1e-6, "{outage:?}");
    // Pauses are at most 1.5 s; the first that ends after the outage ends it.
    assert!((0.999..2.5).contains(&outage.for_s), "{outage:?}");
    let due_in_it = (outage.for_s * 500.0).ceil();
    assert!((outage.affected as f64 - due_in_it).abs() <= 1.0, "{outage:?}");
    assert!(record.errors.connection >= 3);
}

#[test]
fn a_server_that_stays_away_leaves_its_event_unfinished() {
    let serve =
        |scene: &Scene<'_>| (MS, if scene.now_ns < SECOND { Ok(()) } else { Err(FailureClass::Connection) });
    let settings = LoadSettings { retries_max: 0, ..settings(Rate::PerSecond(100.0), 3) };
    let record = simulate_with_outage(settings, SECOND..u64::MAX, Box::new(serve));
    assert_eq!((record.counts.done, record.counts.failed, record.counts.unfinished), (100, 1, 199));
    assert!(!record.outages[0].ended);
    assert_eq!(record.outages[0].affected, 200);
}

#[test]
fn a_load_that_rises_and_falls_counts_only_what_lies_between() {
    let served = Arc::new(AtomicU64::new(0));
    let rising_and_falling = |rate, late_ms: u64| {
        served.store(0, Ordering::SeqCst);
        let settings = LoadSettings {
            ramp_up: Duration::from_secs(2),
            warmup: Duration::from_secs(1),
            ramp_down: Duration::from_secs(4),
            ..settings(rate, 10)
        };
        let count = Arc::clone(&served);
        simulate(settings, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            (late_ms * MS, Ok(()))
        })
    };
    let record = rising_and_falling(Rate::PerSecond(100.0), 1);
    assert_eq!((record.counts.planned, record.counts.done, record.backlog_after_warmup), (1_000, 1_000, 0));
    // Half the rate over the ramps: 100 + 100 + 1000 + 200.
    assert_eq!(served.load(Ordering::SeqCst), 1_400);
    // In overload the backlog of the measured phase is left where it is, and the falling load is offered all the same.
    let record = rising_and_falling(Rate::PerSecond(100.0), 50);
    assert_eq!(record.counts.planned, 1_000);
    assert!(record.counts.unfinished > 400 && record.counts.balance(), "{:?}", record.counts);
    assert!(record.backlog_after_warmup > 0);
    // A closed loop counts between the ramps as well.
    let record = rising_and_falling(Rate::Max, 1);
    // The last one ends with the phase, and so not in it.
    assert_eq!((record.counts.planned, record.counts.done), (10_000, 9_999));
}

#[test]
fn the_capacity_of_a_server_is_found_within_three_percent() {
    use record::search::{Answer, Promise};

    use crate::search::{Next, Room, Search, judge};

    // One worker and a fixed service time: the capacity is known.
    for (service_ns, capacity_per_s) in [(2 * MS, 500.0), (25 * MS, 40.0)] {
        let promise = Promise::parse("p99<200ms").unwrap();
        let mut search = Search::new(10.0, Room::above_floor(&promise, 30.0, 1e6));
        let answer = loop {
            match search.next() {
                Next::Done(answer) => break answer,
                Next::Probe { rate_per_s, .. } => {
                    let record =
                        simulate(settings(Rate::PerSecond(rate_per_s), 30), move |_| (service_ns, Ok(())));
                    search.note(judge(&promise, &record).0);
                }
            }
        };
        let Answer::Found { rate_per_s, .. } = answer else { panic!("{answer:?}") };
        assert!((rate_per_s / capacity_per_s - 1.0).abs() < 0.03, "{rate_per_s} of {capacity_per_s}");
    }
}

#[test]
fn a_search_blames_who_is_slow_where_a_run_fell_behind() {
    use record::search::{ProbeEnd, Promise};

    let promise = Promise::parse("mean<10ms").unwrap();
    // The worker is busy all the time, or it has time left and was kept from its CPU, or is busy with one event that does
    // not end: its service is known from below.
    for (service_ns, expected) in
        [(2 * MS, ProbeEnd::Broken), (MS / 100, ProbeEnd::Unclear), (60 * SECOND, ProbeEnd::Broken)]
    {
        let mut record = simulate(settings(Rate::PerSecond(1_000.0), 3), move |_| (service_ns, Ok(())));
        for check in &mut record.verdict.checks {
            check.ok &= !["achieved-rate", "client-starvation"].contains(&check.name);
        }
        let (end, found) = crate::search::judge(&promise, &record);
        assert_eq!(end, expected, "{found}");
    }
}

#[test]
fn a_stop_counts_what_was_due_until_then() {
    let record = simulate(settings(Rate::PerSecond(100.0), 10), |scene| {
        if scene.now_ns >= 3 * SECOND {
            scene.engine.end_now();
        }
        (MS, Ok(()))
    });
    let counts = record.counts;
    // The event that is due at 3 s is in flight, and due after the end.
    assert_eq!((counts.planned, counts.done, counts.unfinished), (300, 300, 0));
    assert_eq!(record.measured, Duration::from_secs(3));
}

/// A server that answers at once; at `at_ns` somebody asks for another rate.
fn asks(at_ns: u64, ask: RateAsk) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) {
    let asked = std::sync::atomic::AtomicBool::new(false);
    move |scene| {
        if scene.now_ns >= at_ns && !asked.swap(true, Ordering::SeqCst) {
            scene.engine.change_rate(ask).unwrap();
        }
        (0, Ok(()))
    }
}

#[test]
fn a_change_of_the_rate_keeps_what_was_due_and_lays_out_the_rest_anew() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        let settings = LoadSettings { schedule, ..settings(Rate::PerSecond(100.0), 10) };
        for (to_per_s, expected) in [(1_000.0, 415 + 5_850), (10.0, 415 + 59), (100.0, 415 + 585)] {
            // Asked at 4 s: 100/s until 4.15 s, and the other rate from there on.
            let record = simulate(settings.clone(), asks(4 * SECOND, RateAsk::PerSecond(to_per_s)));
            assert_eq!((record.counts.planned, record.counts.done), (expected, expected), "{to_per_s}");
            assert!(record.counts.balance() && check(&record, "achieved-rate"));
            // Nobody was late for the change: the hand-moved clock wakes everybody when they want.
            assert_eq!(record.response.as_ref().unwrap().known.quantile_ns(1.0), Some(0), "{to_per_s}");
        }
    }
}

#[test]
fn every_arrival_process_can_be_asked_for_another_rate() {
    for (text, halves, tenfold) in [
        ("jitter", [500, 500], 10),
        ("poisson", [500, 500], 10),
        ("ramp:0-200", [250, 750], 10),
        ("step:100,100", [500, 500], 10),
        ("burst:10-910@1s/10s", [950, 50], 10),
        ("sine:0-200@5s", [500, 500], 10),
    ] {
        let arrivals = Arrivals::parse(text).unwrap();
        let rate_per_s = crate::pace::mean_rate_per_s(&arrivals, Duration::from_secs(10)).unwrap_or(100.0);
        let settings = LoadSettings { arrivals, ..settings(Rate::PerSecond(rate_per_s), 10) };
        let record = simulate(settings, asks(4_850 * MS, RateAsk::Times(f64::from(tenfold))));
        let expected = halves[0] + halves[1] * u64::try_from(tenfold).unwrap();
        // The first event after 4.85 s asks, so the change comes up to a gap later; Poisson has its chance.
        let spread = if text == "poisson" { 400 } else { 250 };
        assert!(record.counts.planned.abs_diff(expected) <= spread, "{text}: {:?}", record.counts);
        assert_eq!(record.counts.done, record.counts.planned, "{text}");
    }
}

#[test]
fn a_change_in_the_warm_up_and_one_after_the_other_and_a_stop_leave_balanced_books() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        let settings = LoadSettings {
            schedule,
            ramp_up: Duration::from_secs(1),
            warmup: Duration::from_secs(1),
            ramp_down: Duration::from_secs(1),
            arrivals: Arrivals::Jitter { ratio: 0.1 },
            ..settings(Rate::PerSecond(100.0), 10)
        };
        let last_ns = AtomicU64::new(0);
        let record = simulate(settings, move |scene| {
            // Every half second from the ramp on, until there is no room left.
            if scene.now_ns - last_ns.load(Ordering::SeqCst) > SECOND / 2 {
                last_ns.store(scene.now_ns, Ordering::SeqCst);
                let ask =
                    if scene.now_ns.is_multiple_of(2) { RateAsk::Times(3.0) } else { RateAsk::Times(0.4) };
                let _ = scene.engine.change_rate(ask);
            }
            if scene.now_ns > 8 * SECOND {
                scene.engine.end_now();
            }
            // Slow enough that some are always late.
            (7 * MS, Ok(()))
        });
        assert!(record.counts.planned > 0 && record.counts.balance(), "{:?}", record.counts);
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused_and_changes_nothing() {
    let refused = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&refused);
    let settings = LoadSettings {
        arrivals: Arrivals::parse("ramp:100-100").unwrap(),
        ..settings(Rate::PerSecond(100.0), 2)
    };
    let record = simulate(settings, move |scene| {
        let asks = [RateAsk::PerSecond(50.0), RateAsk::Times(1e9), RateAsk::Times(1.0)];
        let ask = match scene.now_ns / SECOND {
            0 if scene.now_ns == 0 => asks[0],
            1 if scene.now_ns == SECOND => asks[1],
            1 if scene.now_ns >= 1_900 * MS => asks[2],
            _ => return (0, Ok(())),
        };
        theirs.lock().unwrap().push(scene.engine.change_rate(ask).unwrap_err());
        (0, Ok(()))
    });
    assert_eq!((record.counts.planned, record.counts.done), (200, 200));
    let refused = refused.lock().unwrap();
    assert!(refused[0].contains("says its rates itself") && refused[1].contains("no rate"), "{refused:?}");
    assert!(refused[2].contains("ends before"), "{refused:?}");
}

#[test]
fn a_closed_loop_has_no_response_time_and_goes_as_fast_as_the_server() {
    let record = simulate(settings(Rate::Max, 1), |_| (3 * MS, Ok(())));
    assert_eq!((record.counts.planned, record.counts.done, record.counts.unfinished), (334, 333, 1));
    assert!(record.response.is_err() && record.wait.is_err() && record.lateness.is_err());
    assert_near(record.service.known.quantile_ns(0.5), 3 * MS);
    assert_eq!(record.verdict.state, Validity::Valid);
}

#[test]
fn a_closed_loop_stops_at_its_number_of_events() {
    let record = simulate(LoadSettings { events_max: Some(10), ..settings(Rate::Max, 1) }, |_| (MS, Ok(())));
    assert_eq!((record.counts.planned, record.counts.done), (10, 10));
}

#[test]
fn a_thread_that_owns_its_slots_plays_them_all() {
    let owned = LoadSettings { schedule: Schedule::Own, ..settings(Rate::PerSecond(100.0), 2) };
    let warmed = LoadSettings {
        warmup: Duration::from_secs(1),
        arrivals: Arrivals::Jitter { ratio: 0.1 },
        ..owned.clone()
    };
    for settings in [owned, warmed] {
        let record = simulate(settings, |_| (MS, Ok(())));
        assert_eq!((record.counts.planned, record.counts.done), (200, 200));
    }
}
