//! Loads that need no server but one of the test's own: nothing, commands, SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

#[path = "../support/mod.rs"]
mod support;

mod closed_loops;
mod event_log;
mod hogs;
mod sqlite;
mod stops;

use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, Stop};
use record::clock::{Clock as _, Monotonic};
use record::histogram::{Histogram, QUANTILES};
use record::load::{LatePolicy, LoadRecord, LoadSettings, Loop, OpenLoop, Phase, Schedule, Workload};
use record::requests::{ExecSettings, KvSettings};
use record::target::Target;
use record::verdict::Validity;
use support::cache::Cache;
use support::{assert_books, check_of, error_of, run, settings};

#[test]
fn the_number_of_planned_events_is_rate_times_time() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        let pace = Loop::Open(OpenLoop { schedule, ..support::open(1_000.0) });
        let record = run(&LoadSettings { pace, ..settings("null:") });
        assert_eq!(record.counts.planned, 1_000);
        assert_eq!(record.measured, Duration::from_secs(1));
        assert_eq!((record.counts.failed, record.counts.skipped), (0, 0));
        assert!(record.connected.is_err(), "{:?}: nothing has no sockets", record.connected);
    }
}

#[test]
fn a_worker_that_never_comes_to_the_measured_phase_was_busy_all_the_same() {
    // Many times the capacity of one thread: it spends all its time on the events of the warm-up.
    let half = Duration::from_millis(500);
    let record = run(&LoadSettings {
        threads: 1,
        pace: support::jittered(10_000_000.0),
        warmup: half,
        time: half,
        ..settings("null:")
    });
    assert_eq!(record.counts.done, 0);
    assert_eq!(record.verdict.state, Validity::Invalid);
    let check = check_of(&record, "client-cpu");
    assert!(check.found > 0.0, "{}", check.text);
}

#[test]
fn beside_hogs_no_valid_run_publishes_lateness_as_response() {
    let over = std::sync::atomic::AtomicBool::new(false);
    let hog = || {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let by_threads = |(threads, rate)| {
        let pace = Loop::Open(support::open(rate));
        LoadSettings { threads, pace, ..sqlite::sqlite(&dir, "journal_mode=wal") }
    };
    let mut loads: Vec<LoadSettings> =
        [(1, 200.0), (8, 500.0), (64, 500.0), (8, 2_000.0)].map(by_threads).into();
    let cache = Cache::redis(&[]);
    loads.extend(cache.iter().map(|cache| LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        threads: 2,
        connections: Some(16),
        pace: Loop::Open(support::open(500.0)),
        ..settings(format!("redis://127.0.0.1:{}", cache.port))
    }));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(hog);
        }
        let records: Vec<LoadRecord> = loads.iter().map(run).collect();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        records.iter().for_each(assert_tells_its_lateness);
    });
}

/// Asserts what must hold for a VALID load, and for an INVALID one too.
fn assert_tells_its_lateness(record: &LoadRecord) {
    let (response, late) = (record.response.as_ref().unwrap().merged(), record.lateness.as_ref().unwrap());
    let about = format!("{:?}: {:?} {:?}", record.settings.target, record.verdict, record.generator_made);
    let at = |of: &Histogram, quantile| of.quantile_ns(quantile).unwrap() as f64;
    let check = check_of(record, "lateness");
    let server_part = record.server_part.as_ref().unwrap();
    let found_ns = at(&response, 0.99) - at(server_part, 0.99);
    assert!((check.found - found_ns).abs() < 1.0, "{about}");
    assert!((check.limit - 0.5 * at(&response, 0.99)).abs() < 1.0, "{about}");
    assert!(check.found <= check.limit || record.verdict.state == Validity::Invalid, "{about}");
    // The server's part lacks the lateness, and the waits that it caused.
    let sum_ns = |of: &Histogram| of.summary().map_or(0.0, |s| s.mean_ns * s.count as f64);
    assert!(sum_ns(server_part) <= sum_ns(&response) - sum_ns(late) + 0.002 * sum_ns(&response), "{about}");
    for (name, quantile) in QUANTILES {
        let is_made = at(server_part, quantile) < 0.5 * at(&response, quantile);
        assert_eq!(record.generator_made.contains(&name), is_made, "{name} {about}");
    }
}

#[test]
fn progress_tells_phases_and_intervals() {
    const W: Phase = Phase::Warmup;
    const M: Phase = Phase::Measure;
    let warmup = Duration::from_millis(300);
    let settings = LoadSettings { warmup, interval: Duration::from_millis(250), ..settings("null:") };
    let (mut phases, mut intervals, mut late, mut connected) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let ended_after = std::cell::Cell::new(None);
    let mut on_progress = |event: &Event| match event {
        Event::PhaseStarts { phase, .. } => phases.push(*phase),
        Event::Interval(progress) => {
            late.push(progress.lateness.as_ref().ok().map(|late| late.count()));
            intervals.push((progress.phase, progress.t_s, progress.latency.count()));
        }
        Event::Connected { made, of: 4, .. } => connected = *made,
        Event::MeasureEnds => ended_after.set(Some(intervals.len())),
        Event::IntervalClosed(_) | Event::Reported { .. } => {}
        other => panic!("{other:?}"),
    };
    let record = load::run(&settings, &Stop::new(), &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!(phases[..2], [W, M]);
    assert_eq!(connected, 4);
    let times: Vec<_> = intervals.iter().map(|(phase, t_s, _)| (*phase, *t_s)).collect();
    assert_eq!(times, [(W, 0.25), (W, 0.3), (M, 0.25), (M, 0.5), (M, 0.75), (M, 1.0)]);
    assert_eq!(
        ended_after.get(),
        Some(5),
        "before the last interval, so that what is read then has its span"
    );
    let shown = |phase| intervals.iter().filter(|i| i.0 == phase).map(|i| i.2).sum::<u64>();
    assert!(shown(M) <= record.counts.done && shown(W) <= 60);
    // Each interval has the lateness of the events in it, and the warm-up has none: a zero would be a claim.
    assert!(late[..2] == [None; 2] && late[2..].iter().all(Option::is_some), "{late:?}");
    let of_all: u64 = late.into_iter().flatten().sum();
    assert!(of_all.abs_diff(shown(M)) <= 4, "{of_all} of {}", shown(M));
}

#[test]
fn progress_counts_the_failures_of_the_warm_up_and_the_result_does_not() {
    let warmup = Duration::from_millis(500);
    let settings =
        LoadSettings { warmup, events_max: Some(3), pace: support::jittered(20.0), ..settings("exec:false") };
    let (mut of_warmup, mut of_phase) = (0, 0);
    let mut on_progress = |event: &Event| match event {
        Event::Interval(progress) if progress.phase == Phase::Warmup => of_warmup += progress.errors,
        Event::Interval(progress) => of_phase += progress.errors,
        _ => {}
    };
    let record = load::run(&settings, &Stop::new(), &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!((record.counts.planned, record.errors.application), (3, 3), "{:?}", record.error_samples);
    // The last event of the warm-up may end after it.
    assert!((8..=10).contains(&of_warmup) && of_warmup + of_phase >= 12, "{of_warmup} and {of_phase}");
}

#[test]
fn a_command_is_run_once_an_event_and_its_status_is_its_fate() {
    let dir = tempfile::tempdir().unwrap();
    let marks = dir.path().join("marks");
    let target = format!("exec:echo x >> {}", marks.display());
    // A number of events, so that the phase lasts until the last of them has ended.
    let (pace, time) = (support::jittered(50.0), Duration::from_mins(10));
    let fifty = LoadSettings { pace, time, events_max: Some(50), ..settings("exec:true") };
    let record = run(&LoadSettings { target: Target::new(target), ..fifty.clone() });
    assert_eq!((record.counts.planned, record.counts.done), (50, 50));
    assert_eq!(std::fs::read_to_string(marks).unwrap().lines().count(), 50);

    let record = run(&LoadSettings { target: Target::new("exec:false"), ..fifty });
    assert_eq!((record.counts.failed, record.errors.application), (50, 50));
    assert_eq!(record.error_samples, ["application: the command ended with exit status: 1"]);
    assert_eq!(record.verdict.state, Validity::Invalid);
}

#[test]
fn overload_of_a_slow_target_loses_no_event() {
    let slow = |late| {
        let pace = Loop::Open(OpenLoop { late, ..support::open(1_000.0) });
        LoadSettings { pace, ..settings("exec:sleep 0.1") }
    };
    let record = run(&slow(LatePolicy::Queue));
    assert_eq!(record.counts.planned, 1_000);
    assert!(record.counts.done <= 40 && record.counts.unfinished >= 960, "{:?}", record.counts);
    assert!(!check_of(&record, "achieved-rate").ok);

    let late = LatePolicy::Skip { limit: Duration::from_millis(50) };
    let record = run(&slow(late));
    assert_eq!(record.counts.planned, 1_000);
    // The numbers of skipped and of unreached events depend on when the workers had a CPU; the capacity of
    // four workers in a second does not.
    assert!(record.counts.done <= 40 && record.counts.skipped > 0, "{:?}", record.counts);

    let record = run(&slow(LatePolicy::Drop));
    assert_eq!(record.counts.planned, 1_000);
    assert!(
        record.counts.done <= 40
            && record.counts.skipped > 0
            && record.found_no_worker >= record.counts.skipped,
        "{:?}",
        record.counts
    );

    // Late events wait for their turn; events that are never reached are unfinished.
    let record = run(&slow(LatePolicy::Pace { times: 2.0 }));
    assert_eq!((record.counts.planned, record.counts.skipped), (1_000, 0));
    assert!(record.counts.unfinished >= 960, "{:?}", record.counts);
}

#[test]
fn a_number_of_events_is_done_exactly() {
    for pace in [Loop::CLOSED, support::jittered(500.0)] {
        let time = Duration::from_mins(10);
        let record =
            run(&LoadSettings { events_max: Some(123), pace: pace.clone(), time, ..settings("null:") });
        assert_eq!((record.counts.planned, record.counts.done), (123, 123), "{pace:?}");
    }
}

#[test]
fn a_command_runs_in_the_environment_and_to_the_exit_status_asked_for() {
    let exec =
        ExecSettings { environment: vec![("BAKEOFF_STATUS".to_owned(), "3".to_owned())], expected_status: 3 };
    let few = LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(5),
        threads: 1,
        ..settings("exec:exit $BAKEOFF_STATUS")
    };
    let record = run(&LoadSettings { exec: exec.clone(), ..few.clone() });
    assert_eq!((record.counts.done, record.counts.failed), (5, 0), "{:?}", record.error_samples);
    let record = run(&LoadSettings { exec: ExecSettings { expected_status: 0, ..exec }, ..few });
    assert_eq!((record.counts.done, record.counts.failed), (0, 5));
    assert!(record.error_samples[0].ends_with("exit status: 3"), "{:?}", record.error_samples);
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    for (target, class, says) in [
        ("mysqll://x/y", ErrorClass::Usage, "did you mean `mysql:`?"),
        ("elsewhere://x/y", ErrorClass::Usage, "expected one of\n  sqlite:PATH"),
        ("null:x", ErrorClass::Usage, "write `null:`"),
        ("exec:", ErrorClass::Usage, "command after the colon is missing"),
        ("exec:no-such-program-anywhere", ErrorClass::Usage, "program `no-such-program-anywhere` not found"),
        ("sqlite:/no/such/folder/x.db", ErrorClass::Environment, "cannot open /no/such/folder/x.db"),
        ("sqlite:x.db?nonsense=1", ErrorClass::Usage, "unknown parameter `nonsense`"),
        ("mysql://app:geheim@no-such-host.invalid/bench", ErrorClass::Usage, "cannot resolve the host"),
        ("mysql://app:geheim@127.0.0.1:1/bench", ErrorClass::Server, "opened 0 of 4 connections"),
    ] {
        let error = error_of(&settings(target));
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.to_string().contains("geheim"), "{error}");
    }
    let mut wrong = settings("null:");
    wrong.pace = support::jittered(0.0);
    assert_eq!(error_of(&wrong).class(), ErrorClass::Usage);
    let wrong = LoadSettings { workload: Workload::OltpReadWrite, ..settings("null:") };
    assert!(error_of(&wrong).to_string().contains("does not support the workload oltp-read-write"));
    assert!(load::check_target(&Target::new("mysql://h/d")).is_ok());
    assert_eq!(load::default_workload(&Target::new("sqlite:x")), Workload::OltpReadWrite);
    assert_eq!(load::default_workload(&Target::new("null:")), Workload::Native);
}

#[test]
fn the_address_of_a_server_is_the_one_that_its_load_connects_to() {
    let of = |settings: &LoadSettings| {
        let addresses: Vec<String> =
            load::server_addresses(settings).iter().map(ToString::to_string).collect();
        (!addresses.is_empty()).then(|| addresses.join(" "))
    };
    for (target, address) in [
        ("mysql://root@localhost/test?socket=/s/my%20sql.sock", Some("/s/my sql.sock")),
        ("mysql://u:p@h:3307/db", Some("h:3307")),
        ("mysql:///db", Some("127.0.0.1:3306")),
        ("postgres://u@%2Frun%2Fpg/db", Some("/run/pg/.s.PGSQL.5432")),
        ("postgres://u@localhost/db?host=/run/pg", Some("/run/pg/.s.PGSQL.5432")),
        ("postgres://u@h:1/db?port=99&host=other", Some("other:99")),
        ("postgres://u@[::1]:6000/db", Some("[::1]:6000")),
        ("redis://127.0.0.1", Some("127.0.0.1:6379")),
        ("redis://:a@b@h:7/2", Some("h:7")),
        ("rediss://h", Some("h:6379")),
        ("redis+unix:/s/r.sock?db=1", Some("/s/r.sock")),
        ("memcached://h", Some("h:11211")),
        ("memcached+unix:/s/m.sock", Some("/s/m.sock")),
        ("http://u:p@h/path?x=1@2", Some("h:80")),
        ("https://h/", Some("h:443")),
        ("mysql://u:a,b@h1,h2:3307/db", Some("h1:3306 h2:3307")),
        ("postgres://u@[::1],h2:7/db", Some("[::1]:5432 h2:7")),
        ("postgres:///db?host=/s/a,/s/b&port=1,2", Some("/s/a/.s.PGSQL.1 /s/b/.s.PGSQL.2")),
        ("redis://h1,h2:1/3", Some("h1:6379 h2:1")),
        ("memcached://h1,h2", Some("h1:11211 h2:11211")),
        ("https://h1,h2:1/a,b", Some("h1:443 h2:1")),
        ("sqlite:/x.db", None),
        ("exec:curl http://h", None),
        ("null:", None),
        ("nobody:", None),
        ("mysql://", None),
    ] {
        assert_eq!(of(&settings(target)).as_deref(), address, "{target}");
    }
    let mut through_socket = settings("http://localhost/");
    through_socket.http.unix_socket = Some("/s/web.sock".into());
    assert_eq!(of(&through_socket).as_deref(), Some("/s/web.sock"));
}

/// Independent of our own counters: a server stamps each arrival itself.
#[test]
fn a_server_sees_every_event_once_and_none_before_its_time() {
    const EVENTS: usize = 60;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut stamps: Vec<u64> = listener
            .incoming()
            .take(EVENTS)
            .map(|client| client.map(|_| Monotonic.now_ns()).unwrap())
            .collect();
        stamps.sort_unstable();
        // One connection too many would be waiting by the time that the load has ended.
        listener.set_nonblocking(true).unwrap();
        (stamps, listener)
    });
    let record = run(&LoadSettings {
        pace: Loop::open(50.0),
        time: Duration::from_mins(10),
        events_max: Some(EVENTS as u64),
        ..settings(format!("exec:bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"))
    });
    assert_eq!(record.counts.done, EVENTS as u64, "{:?}", record.error_samples);
    let (stamps, listener) = server.join().unwrap();
    assert!(listener.accept().is_err(), "an event came twice");
    for (number, stamp_ns) in (0..).zip(&stamps) {
        let due_ns = record.measured_from_ns + number * 20_000_000;
        assert!(*stamp_ns >= due_ns, "event {number} came {} ns early", due_ns - stamp_ns);
    }
}

#[test]
fn a_number_of_events_at_a_rate_lasts_as_long_as_they_take_at_it() {
    let settings = LoadSettings {
        pace: support::jittered(1.0),
        events_max: Some(1),
        time: Duration::from_mins(10),
        interval: Duration::from_millis(500),
        ..settings("null:")
    };
    let mut intervals = Vec::new();
    let mut on_progress = |event: &Event| {
        if let Event::Interval(progress) = event {
            intervals.push(progress.interval_s);
        }
    };
    let record = load::run(&settings, &Stop::new(), &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!(record.measured, Duration::from_secs(1));
    assert_eq!(intervals, [0.5, 0.5]);
}

#[test]
fn a_target_that_falls_behind_shows_how_its_backlog_grew() {
    // Eight commands of 50 ms at a time: at most 160 a second.
    let record = run(&LoadSettings {
        pace: support::jittered(240.0),
        threads: 8,
        time: Duration::from_secs(3),
        ..settings("exec:sleep 0.05")
    });
    let check = check_of(&record, "achieved-rate");
    assert!(!check.ok && check.text.contains("; it grew: "), "{}", check.text);
}
