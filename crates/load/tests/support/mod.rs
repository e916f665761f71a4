//! Code that the tests of whole loads share.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "it is test code, though no test function")]

pub(crate) mod cache;
pub(crate) mod certificates;
pub(crate) mod fake;
pub(crate) mod mariadb;
pub(crate) mod port;
pub(crate) mod postgres;
pub(crate) mod web;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, LoadError, Stop};
use record::load::{
    Arrivals, ClientSettings, DataCheck, Distribution, LoadRecord, LoadSettings, Loop, OltpMix, OltpSettings,
    OpenLoop, Phase, PreparePolicy, ScriptFile, ScriptSettings, Workload,
};
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::series::LatencyKind::{CarriedIn, Failure, Response, ResponseAtLeast, Service, ServiceAtLeast};
use record::target::Target;
use record::verdict::Validity;

/// A load on `target` with every default resolved, to be modified.
pub(crate) fn settings(target: impl Into<String>) -> LoadSettings {
    let target = Target::new(target);
    LoadSettings {
        workload: load::default_workload(&target),
        target,
        oltp: OltpSettings {
            tables: 2,
            rows: 1_000,
            point_selects: 10,
            range_size: 100,
            mix: OltpMix::USUAL,
            distribution: Distribution::Special,
            skip_transaction: false,
            prepared: true,
        },
        scripts: ScriptSettings::default(),
        kv: KvSettings::usual(),
        http: HttpSettings::plain(),
        exec: ExecSettings::plain(),
        verify: false,
        prepare: PreparePolicy::Auto,
        check: DataCheck::Quick,
        answer_bytes_max: LoadSettings::ANSWER_BYTES_MAX,
        threads: 4,
        connections: None,
        pace: jittered(200.0),
        warmup: Duration::ZERO,
        time: Duration::from_secs(1),
        events_max: None,
        interval: Duration::from_secs(1),
        retries_max: 3,
        drain: Duration::from_secs(5),
        seed: 1,
        draws: 0,
        connects_at_once: 8,
        errors_ratio_max: 0.0,
        ramp_up: Duration::ZERO,
        ramp_down: Duration::ZERO,
        client: ClientSettings::PLAIN,
    }
}

/// An open loop with jittered arrivals, as by default.
pub(crate) fn jittered(per_s: f64) -> Loop {
    Loop::Open(open(per_s))
}

/// The same, to be modified.
pub(crate) fn open(per_s: f64) -> OpenLoop {
    OpenLoop { arrivals: Arrivals::Jitter { ratio: 0.1 }, ..OpenLoop::plain(per_s) }
}

/// The example of `docs/scripts.md`, run `events` times on existing tables.
pub(crate) fn transfers(target: impl Into<String>, events: u64) -> LoadSettings {
    let page = include_str!("../../../../docs/scripts.md");
    let text = page.split("```sql\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let files = vec![ScriptFile { name: "transfer.sql".to_owned(), weight: 1, text }];
    let defines = vec![("scale".to_owned(), "1".to_owned())];
    LoadSettings {
        workload: Workload::Script,
        scripts: ScriptSettings { files, defines },
        pace: Loop::CLOSED,
        events_max: Some(events),
        time: Duration::from_mins(10),
        retries_max: 1_000,
        ..settings(target)
    }
}

/// Asserts what must hold for a record of [`transfers`].
pub(crate) fn assert_transfers(record: &LoadRecord, events: u64) {
    assert_eq!((record.counts.done, record.counts.failed), (events, 0), "{:?}", record.error_samples);
    let count = |name: &str| record.operations[name].service.known.count();
    for (name, expected) in
        [("transfer:07-begin", events), ("transfer:08-select", events), ("transfer:14-commit", events)]
    {
        assert_eq!(count(name), expected, "{name}: {:?}", record.operations.keys());
    }
    assert_eq!(count("transfer:12-insert"), count("transfer:10-update"));
}

/// The tables of [`transfers`].
pub(crate) const TRANSFER_TABLES: [&str; 2] = [
    "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)",
    "CREATE TABLE transfer (sender INTEGER NOT NULL, receiver INTEGER NOT NULL, amount INTEGER NOT NULL)",
];

/// Fills the accounts.
pub(crate) fn insert_accounts() -> String {
    let rows: Vec<_> = (1..=1_000).map(|id| format!("({id}, 100)")).collect();
    format!("INSERT INTO account VALUES {}", rows.join(", "))
}

/// Eight connections: one each on eight threads, and all of them on two.
pub(crate) fn both_ways(settings: &LoadSettings) -> [LoadSettings; 2] {
    let threads = LoadSettings { threads: 8, connections: None, ..settings.clone() };
    [threads, LoadSettings { threads: 2, connections: Some(8), ..settings.clone() }]
}

/// Asserts that each connection broke once, and the attempts to reconnect, are all errors of a load that lost
/// its server once, and that at most the events in flight were retried.
pub(crate) fn assert_lost_once(record: &LoadRecord) {
    let connections = u64::from(record.settings.connections_in_all());
    let away_s: f64 = record.outages.iter().map(|outage| outage.for_s).sum();
    let about =
        format!("{:?} {:?} {:?} {:?}", record.counts, record.errors, record.outages, record.error_samples);
    assert!(!record.outages.is_empty() && record.outages.iter().all(|outage| outage.ended), "{about}");
    // All connections together try a hundred times a second, with up to half as long pauses, and a few times
    // each before that.
    let most = (connections as f64) * 5.0 + 200.0 * away_s;
    let errors = record.errors.connection;
    assert!(errors >= connections && errors as f64 <= most, "at most {most}: {about}");
    // Deadlocks are retried too.
    assert!(record.counts.retries <= connections + record.errors.transient, "{about}");
}

/// Runs a load to its planned end, and checks what must hold for every run.
pub(crate) fn run(settings: &LoadSettings) -> LoadRecord {
    let mut shown = 0.0;
    let mut on_progress = |event: &Event| {
        if let Event::Interval(progress) = event
            && progress.phase == Phase::Measure
        {
            shown += progress.achieved_per_s * progress.interval_s;
        }
    };
    let record = load::run(settings, &Stop::new(), &mut on_progress).unwrap();
    assert_books(&record);
    assert_completions(&record, shown);
    record
}

/// Asserts that the series has as many completions as progress showed.
fn assert_completions(record: &LoadRecord, shown: f64) {
    let measured = if record.response.is_ok() { Response } else { Service };
    let is_ended = |kind| kind == measured || kind == CarriedIn;
    let ended = record.slices.iter().filter(|s| s.operation.is_empty() && is_ended(s.kind));
    let in_series = ended.map(|s| s.histogram.count()).sum::<u64>() as f64;
    // Progress is read a little after the end of an interval.
    let apart_max = f64::from(record.settings.in_flight_max()) + 0.05 * in_series;
    assert!((shown - in_series).abs() <= apart_max, "{in_series} in the series, {shown} shown");
}

/// Runs a load and `trouble` beside it, from the beginning of its measured phase.
pub(crate) fn run_with_trouble<T: Send>(
    settings: &LoadSettings,
    trouble: impl FnOnce() -> T + Send,
) -> (LoadRecord, T) {
    thread::scope(|scope| {
        let (begins, may_begin) = mpsc::channel();
        let troubled = scope.spawn(move || {
            may_begin.recv().unwrap();
            trouble()
        });
        let mut on_progress = |event: &Event| {
            if let Event::PhaseStarts { phase: Phase::Measure, .. } = event {
                begins.send(()).unwrap();
            }
        };
        let record = load::run(settings, &Stop::new(), &mut on_progress).unwrap();
        assert_books(&record);
        (record, troubled.join().unwrap())
    })
}

/// Statements in an event of each OLTP workload with repeatable events.
pub(crate) const STATEMENTS_AN_EVENT: [(Workload, u64); 10] = [
    (Workload::OltpReadWrite, 20),
    (Workload::OltpReadOnly, 16),
    (Workload::OltpWriteOnly, 6),
    (Workload::OltpPointSelect, 1),
    (Workload::OltpUpdateIndex, 1),
    (Workload::OltpUpdateNonIndex, 1),
    (Workload::SelectRandomPoints, 1),
    (Workload::SelectRandomRanges, 1),
    (Workload::OltpInsert, 1),
    (Workload::BulkInsert, 1),
];

/// Runs a load on a server that freezes after a second, and stops it a second later.
pub(crate) fn stop_while_frozen(target: String, freeze: impl Fn()) -> LoadRecord {
    let settings = LoadSettings {
        workload: Workload::OltpPointSelect,
        pace: jittered(100.0),
        time: Duration::from_hours(1),
        ..settings(target)
    };
    let stop = Stop::new();
    let mut intervals = 0;
    let mut on_progress = |event: &Event| {
        if let Event::Interval(_) = event {
            intervals += 1;
            match intervals {
                1 => freeze(),
                2 => stop.request(),
                _ => {}
            }
        }
    };
    // The server is still frozen: a wait for it would never end.
    let record = load::run(&settings, &stop, &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!(record.verdict.state, Validity::Interrupted);
    assert!(record.client.is_ok(), "every worker came back when its connection was cut: {:?}", record.client);
    record
}

/// Begins to build a large data set and stops at once.
pub(crate) fn stop_a_build(target: String) {
    let mut settings = settings(target);
    settings.oltp.rows = 500_000;
    let stop = Stop::new();
    // A second request would end it at once, and leave the table behind.
    let mut ask_once = |_: &Event| {
        if !stop.is_requested() {
            stop.request();
        }
    };
    let error = load::prepare(&settings, &stop, &mut ask_once).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Interrupted);
}

/// The error of a load that does not run.
pub(crate) fn error_of(settings: &LoadSettings) -> LoadError {
    load::run(settings, &Stop::new(), &mut |_| {}).unwrap_err()
}

/// Asserts what must hold for every record, however its run ended.
pub(crate) fn assert_books(record: &LoadRecord) {
    assert!(record.counts.balance(), "{:?}", record.counts);
    let begun_and_done = record.service.known.count();
    if record.response.is_ok() {
        assert_eq!(begun_and_done, record.counts.done);
    } else {
        // A connection may have ended one event that began before the phase.
        let carried_in = record.counts.done - begun_and_done;
        assert!(carried_in <= u64::from(record.settings.in_flight_max()), "{:?}", record.counts);
    }
    let slices = |kind| record.slices.iter().filter(move |s| s.kind == kind && s.operation.is_empty());
    let in_slices = |kind| slices(kind).map(|s| s.histogram.count()).sum::<u64>();
    assert_eq!(in_slices(Service), begun_and_done);
    // In an open loop, and with a number of events, the phase does not count what began before it.
    let counts_carried_in = record.response.is_err() && record.settings.events_max.is_none();
    if counts_carried_in {
        assert_eq!(in_slices(Service) + in_slices(CarriedIn), record.counts.done);
    }
    assert_eq!(in_slices(Failure), record.failure.count());
    if let Ok(response) = &record.response {
        assert_eq!((response.known.count(), in_slices(Response)), (record.counts.done, record.counts.done));
        // An event times out once: it is not retried.
        let lasted_longer = record.counts.unfinished + record.errors.timeout;
        assert_eq!(response.at_least.count(), lasted_longer);
        assert_eq!(in_slices(ResponseAtLeast), lasted_longer);
        let server_part = record.server_part.as_ref().unwrap();
        assert_eq!(server_part.count(), response.merged().count(), "the server's part of each event");
        let mut rebuilt = record::histogram::Histogram::new();
        slices(Response).for_each(|s| rebuilt.add(&s.histogram.expand()));
        assert!(rebuilt.buckets().eq(response.known.buckets()), "the slices make the whole without loss");
    } else {
        assert_eq!(in_slices(ServiceAtLeast), record.service.at_least.count());
    }
}

/// The verdict's check with this name.
#[track_caller]
pub(crate) fn check_of<'a>(record: &'a LoadRecord, name: &str) -> &'a record::verdict::Check {
    record.verdict.checks.iter().find(|c| c.name == name).unwrap()
}
