//! Loads that need no server: nothing, commands, SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, LoadError, Stop};
use record::clock::{Clock as _, Monotonic};
use record::load::{
    Arrivals, LatePolicy, LoadSettings, Loop, OpenLoop, Phase, PreparePolicy, Schedule, Workload,
};
use record::requests::ExecSettings;
use record::target::Target;
use record::verdict::Validity;
use support::{
    STATEMENTS_AN_EVENT, TRANSFER_TABLES, assert_books, assert_transfers, check_of, error_of,
    insert_accounts, run, settings, transfers,
};

fn sqlite(dir: &tempfile::TempDir, query: &str) -> LoadSettings {
    settings(format!("sqlite:{}?{query}", dir.path().join("x.db").display()))
}

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
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(hog);
        }
        for (threads, rate) in [(1, 200.0), (8, 500.0), (64, 500.0), (8, 2_000.0)] {
            let pace = Loop::Open(support::open(rate));
            let record = run(&LoadSettings { threads, pace, ..sqlite(&dir, "journal_mode=wal") });
            assert_books(&record);
            let (response, late) = (record.response.as_ref().unwrap(), record.lateness.as_ref().unwrap());
            let response = response.merged();
            let is_late = |q| late.quantile_ns(q).unwrap() * 2 > response.quantile_ns(q).unwrap();
            let about =
                format!("{threads} threads, {rate}/s: {:?} {:?}", record.verdict, record.generator_made);
            assert!(record.verdict.state == Validity::Invalid || !is_late(0.99), "{about}");
            assert!(record.generator_made.contains(&"p99_9") || !is_late(0.999), "{about}");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
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
    // Each interval has the lateness of the events in it; the warm-up has none: a zero would be a claim.
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
fn a_stopped_run_keeps_what_it_measured() {
    let stop = Stop::new();
    let long = LoadSettings { time: Duration::from_hours(1), ..settings("null:") };
    let mut on_progress = |event: &Event| {
        if let Event::Interval(_) = event {
            stop.request();
        }
    };
    let record = load::run(&long, &stop, &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!(record.verdict.state, Validity::Interrupted);
    let expected = 200.0 * record.measured.as_secs_f64();
    assert!((record.counts.planned as f64 - expected).abs() <= 2.0, "{:?} in {expected}", record.counts);
    assert!(record.counts.done > 0);
}

#[test]
fn a_run_stopped_in_its_warm_up_has_measured_nothing() {
    let stop = Stop::new();
    let warmup = Duration::from_hours(1);
    let mut on_progress = |event: &Event| {
        if let Event::PhaseStarts { .. } = event {
            stop.request();
        }
    };
    let error =
        load::run(&LoadSettings { warmup, ..settings("null:") }, &stop, &mut on_progress).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Interrupted);
}

/// A port on which connections are neither accepted nor refused, as of a host that is gone.
fn silent_port() -> (u16, Vec<socket2::Socket>) {
    use socket2::{Domain, SockAddr, Socket, Type};
    let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let listener = tcp();
    listener.bind(&SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = vec![listener];
    // Nothing accepts them: when the queue is full, the next attempts are not answered.
    loop {
        let client = tcp();
        let is_taken = client.connect_timeout(&address, Duration::from_millis(500)).is_ok();
        sockets.push(client);
        if !is_taken {
            return (address.as_socket().unwrap().port(), sockets);
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_a_host_that_does_not_answer() {
    let (port, _sockets) = silent_port();
    for target in [
        format!("mysql://root@127.0.0.1:{port}/bench"),
        format!("postgres://postgres@127.0.0.1:{port}/bench"),
        format!("memcached://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let stop = Stop::new();
        stop.request();
        // A wait to the end of the attempt would end with a failed connection.
        let error = load::run(&settings(&target), &stop, &mut |_| {}).unwrap_err();
        assert!(matches!(error, LoadError::Interrupted), "{target}: {error}");
    }
}

#[test]
fn a_command_that_hangs_is_killed_at_a_stop_and_counts_as_unfinished() {
    let stop = Stop::new();
    let settings = LoadSettings { time: Duration::from_hours(1), ..settings("exec:sleep 3000") };
    let mut on_progress = |event: &Event| {
        if let Event::Interval(_) = event {
            stop.request();
        }
    };
    let record = load::run(&settings, &stop, &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!((record.counts.done, record.counts.failed), (0, 0));
    assert_eq!(record.counts.unfinished, record.counts.planned);
    assert!(record.counts.planned >= 200);
}

#[test]
fn the_rate_of_a_closed_loop_of_commands_is_not_cut_at_the_ends_of_the_phase() {
    // Two or three commands for each connection: by the commands that begin and end in the phase, the rate
    // would be a third too low.
    let settings = LoadSettings {
        pace: Loop::CLOSED,
        threads: 8,
        warmup: Duration::from_millis(370),
        time: Duration::from_millis(1_650),
        ..settings("exec:sleep 0.5")
    };
    let mut completions = 0.0;
    let mut on_progress = |event: &Event| {
        if let Event::Interval(progress) = event
            && progress.phase == Phase::Measure
        {
            completions += progress.achieved_per_s * progress.interval_s;
        }
    };
    let record = load::run(&settings, &Stop::new(), &mut on_progress).unwrap();
    assert_books(&record);
    assert!((completions - record.counts.done as f64).abs() < 1e-6, "{completions}: {:?}", record.counts);
    // However slow the machine is: eight commands run all the time, but for the gaps between two commands.
    let mean_s = record.service.summary().unwrap().mean_ns / 1e9;
    let truth = 8.0 / mean_s;
    let n = truth * record.measured.as_secs_f64();
    assert!(
        (record.achieved_per_s / truth - 1.0).abs() <= 1.0 / n + 0.02,
        "{}/s of {truth}",
        record.achieved_per_s
    );
    assert!(
        check_of(&record, "littles-law").ok && check_of(&record, "phase-length").ok,
        "{:?}",
        record.verdict
    );
}

#[test]
fn a_closed_loop_is_not_valid_without_one_of_its_connections() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken");
    // The first event ends with the run; the others take 5 ms.
    let target = format!("exec:sh -c 'mkdir {} 2>/dev/null && exec sleep 600; sleep 0.005'", taken.display());
    let [warmup, time, drain] = [100, 2_000, 200].map(Duration::from_millis);
    let record =
        run(&LoadSettings { threads: 8, pace: Loop::CLOSED, warmup, time, drain, ..settings(target) });
    let check = check_of(&record, "stuck");
    assert!(!check.ok && (check.found - 0.125).abs() < 0.001, "{check:?}");
    assert_eq!(record.verdict.state, Validity::Invalid);
}

#[test]
fn a_phase_shorter_than_its_events_has_no_rate() {
    let time = Duration::from_millis(200);
    let record = run(&LoadSettings { pace: Loop::CLOSED, time, ..settings("exec:sleep 0.5") });
    assert!(!check_of(&record, "phase-length").ok, "{:?}", record.verdict);
    assert_eq!(record.verdict.state, Validity::Invalid);
}

#[test]
fn a_stop_is_heard_with_billions_of_events_ahead() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        for arrivals in [Arrivals::Poisson, Arrivals::Jitter { ratio: 0.1 }] {
            let stop = Stop::new();
            let time = Duration::from_hours(1);
            let pace = Loop::Open(OpenLoop { arrivals, schedule, ..OpenLoop::plain(1e6) });
            let settings = LoadSettings { pace, time, ..settings("null:") };
            let mut on_progress = |event: &Event| {
                if let Event::Interval(_) = event {
                    stop.request();
                }
            };
            let record = load::run(&settings, &stop, &mut on_progress).unwrap();
            assert_books(&record);
            assert_eq!(record.verdict.state, Validity::Interrupted);
            assert!(record.counts.planned > 0, "{:?}", record.counts);
        }
    }
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
fn the_rate_of_a_number_of_events_is_that_of_all_connections_or_none() {
    let closed = |threads, events| LoadSettings {
        pace: Loop::CLOSED,
        warmup: Duration::ZERO,
        time: Duration::from_mins(10),
        threads,
        events_max: Some(events),
        ..settings("exec:sleep 0.2")
    };
    // In the second round of the first, seven of eight find no event left.
    for (threads, events) in [(8, 9), (8, 8), (4, 11), (1, 2)] {
        let record = run(&closed(threads, events));
        let mean_s = record.service.summary().unwrap().mean_ns / 1e9;
        let truth = f64::from(threads) / mean_s;
        let about = format!("{events} events by {threads}: {}/s of {truth}/s", record.achieved_per_s);
        // A command's start and its wake-up are not part of its service, and take long on a busy machine: the
        // rate is never too high, and closer to the truth than if the idle time of connections without an
        // event counted (22/s of 40/s).
        assert!((0.7..1.0 + 1.0 / events as f64).contains(&(record.achieved_per_s / truth)), "{about}");
        assert!(check_of(&record, "events").ok, "{about}");
    }
    let few = run(&closed(8, 3));
    let events = check_of(&few, "events");
    assert!(!events.ok && events.text.contains("some connections had none"), "{}", events.text);
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
fn every_sql_workload_does_what_it_says_in_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    for query in ["journal_mode=wal&synchronous=normal", "journal_mode=delete&synchronous=off"] {
        for (workload, per_event) in STATEMENTS_AN_EVENT {
            let pace = support::jittered(50.0);
            let is_first = workload == Workload::OltpReadWrite;
            let prepare = if is_first { PreparePolicy::Always } else { PreparePolicy::Auto };
            let record = run(&LoadSettings { workload, pace, prepare, ..sqlite(&dir, query) });
            let done = record.counts.done;
            assert_eq!((record.counts.planned, record.counts.failed), (50, 0), "{:?}", record.error_samples);
            assert!(done > 0);
            let statements: u64 = record.operations.values().map(|o| o.service.known.count()).sum();
            assert_eq!(statements, per_event * done, "{workload:?}");
            assert!(check_of(&record, "mix").ok);
            assert!(record.server_version.unwrap().starts_with("SQLite 3."));
        }
    }
}

#[test]
fn text_statements_do_what_prepared_ones_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = sqlite(&dir, "journal_mode=wal");
    text.oltp.prepared = false;
    text.pace = support::jittered(50.0);
    let record = run(&text);
    assert_eq!((record.counts.failed, record.errors.application), (0, 0), "{:?}", record.error_samples);
    assert_eq!(record.operations["point-select"].service.known.count(), 10 * record.counts.done);
}

#[test]
fn a_locked_database_is_tried_again_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    // No wait for locks: conflicting writers fail at once.
    let settings = LoadSettings {
        workload: Workload::OltpWriteOnly,
        pace: Loop::CLOSED,
        retries_max: 1_000_000,
        ..sqlite(&dir, "journal_mode=delete&busy_timeout=0")
    };
    let record = run(&settings);
    assert!(record.errors.transient > 0 && record.counts.retries > 0);
    assert_eq!(record.counts.failed, 0);
    assert_eq!(record.errors.application, 0, "{:?}", record.error_samples);
}

#[test]
fn a_data_set_is_built_once_and_a_half_one_is_left_unless_told() {
    let dir = tempfile::tempdir().unwrap();
    let settings = sqlite(&dir, "");
    let prepare = |settings: &LoadSettings| load::prepare(settings, &Stop::new(), &mut |_| {});
    let (first, second) = (prepare(&settings).unwrap(), prepare(&settings).unwrap());
    assert_eq!((first.found, first.built, second.found, second.built), (0, 2, 2, 0));

    let database = rusqlite::Connection::open(dir.path().join("x.db")).unwrap();
    let one = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((one("SELECT COUNT(*) FROM sbtest2"), one("SELECT MAX(id) FROM sbtest2")), (1_000, 1_000));
    assert_eq!(one("SELECT COUNT(*) FROM sbtest1 WHERE length(c) = 119 AND length(pad) = 59"), 1_000);
    assert_eq!(one("SELECT COUNT(*) FROM sbtest1 WHERE k BETWEEN 1 AND 1000"), 1_000);

    database.execute_batch("DROP INDEX k_1; DELETE FROM sbtest2 WHERE id > 500").unwrap();
    let never = LoadSettings { prepare: PreparePolicy::Never, ..settings.clone() };
    let error = prepare(&never).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
    assert!(error.to_string().contains("sbtest2 has 500 of 1000 rows"), "{error}");

    let refused = |says: &str| {
        let error = prepare(&settings).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage);
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.to_string().contains("`bakeoff prepare --from-scratch`"), "{error}");
    };
    refused("sbtest1 has no index on k");
    database.execute_batch("CREATE INDEX k_1 ON sbtest1(k)").unwrap();
    refused("sbtest2 has 500 of 1000 rows: use --rows 500");
    assert_eq!((one("SELECT COUNT(*) FROM sbtest1"), one("SELECT COUNT(*) FROM sbtest2")), (1_000, 500));
    let again = prepare(&LoadSettings { prepare: PreparePolicy::Always, ..settings.clone() }).unwrap();
    assert_eq!((again.found, again.built, one("SELECT COUNT(*) FROM sbtest2")), (0, 2, 1_000));

    let mut fewer = settings.clone();
    fewer.oltp.rows = 100;
    assert!(prepare(&fewer).unwrap_err().to_string().contains("more than the requested 100"));
    assert_eq!(load::cleanup(&settings).unwrap().removed, 2);
    assert!(prepare(&never).unwrap_err().to_string().contains("table sbtest1 does not exist"));
}

#[test]
fn a_file_that_is_not_there_is_made_only_for_a_build() {
    let dir = tempfile::tempdir().unwrap();
    let settings = sqlite(&dir, "");
    let never = LoadSettings { prepare: PreparePolicy::Never, ..settings.clone() };
    for error in [error_of(&never), load::cleanup(&settings).unwrap_err()] {
        assert_eq!(error.class(), ErrorClass::Usage);
        assert!(error.to_string().contains("does not exist"), "{error}");
        assert!(!dir.path().join("x.db").exists());
    }
}

#[test]
fn an_interrupted_build_is_not_taken_for_a_data_set() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = sqlite(&dir, "");
    settings.oltp.rows = 200_000;
    let stop = Stop::new();
    let mut on_progress = |event: &Event| {
        if let Event::Preparing { rows_done, .. } = event {
            assert!(*rows_done <= 200_000);
            stop.request();
        }
    };
    let error = load::prepare(&settings, &stop, &mut on_progress).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Interrupted);
    settings.oltp.rows = 1_000;
    let prepared = load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (0, 2));
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

/// One thread writes, and SQLite's lock makes the others wait during the whole phase: their events begin
/// before it.
#[test]
fn threads_that_a_lock_starves_do_not_contradict_littles_law() {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("sqlite:{}?journal_mode=delete&synchronous=off", dir.path().join("x.db").display());
    let settings = LoadSettings {
        pace: Loop::CLOSED,
        warmup: Duration::from_millis(400),
        time: Duration::from_millis(1_600),
        ..settings(target)
    };
    let record = run(&settings);
    let broken: Vec<_> = record.verdict.checks.iter().filter(|c| c.name == "littles-law" && !c.ok).collect();
    assert!(broken.is_empty(), "{broken:?}, {:?}", record.service.summary());
}

#[test]
fn the_example_script_of_the_docs_runs_on_sqlite_prepared_and_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("x.db")).unwrap();
    database.execute_batch("PRAGMA journal_mode=wal").unwrap();
    for sql in TRANSFER_TABLES.into_iter().chain([insert_accounts().as_str()]) {
        database.execute_batch(sql).unwrap();
    }
    let target = format!("sqlite:{}", dir.path().join("x.db").display());
    for prepared in [true, false] {
        let mut settings = LoadSettings { threads: 1, ..transfers(&target, 100) };
        settings.oltp.prepared = prepared;
        assert_transfers(&run(&settings), 100);
    }
    let one = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(one("SELECT SUM(balance) FROM account"), 100_000);
    assert!(one("SELECT COUNT(*) FROM transfer") > 100);

    let mut wrong = transfers(&target, 1);
    wrong.scripts.files[0].text = "SELECT x FROM nowhere;".to_owned();
    let error = error_of(&wrong);
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    assert!(error.to_string().contains("no such table: nowhere"), "{error}");
    wrong.scripts.files[0].text = "SELECT 1;\n\\set x rand(1, 2)".to_owned();
    let error = error_of(&wrong);
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    assert!(error.to_string().contains("transfer.sql:2:8: unknown function `rand`"), "{error}");
}

#[test]
fn a_sleep_in_a_script_is_seen_in_the_event_and_ends_at_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("sqlite:{}", dir.path().join("x.db").display());
    let mut settings = LoadSettings { threads: 1, ..transfers(&target, 3) };
    settings.scripts.files[0].text = "SELECT 1;\n\\sleep 5 ms\nSELECT 2;".to_owned();
    let record = run(&settings);
    assert!(record.service.known.quantile_ns(0.0).unwrap() >= 5_000_000 * 99 / 100);
    let statements: u128 =
        record.operations.values().map(|o| u128::from(o.service.known.quantile_ns(1.0).unwrap())).sum();
    assert!(statements > 0 && record.operations.len() == 2);

    settings.scripts.files[0].text = "SELECT 1;\n\\sleep 3000 s".to_owned();
    settings.interval = Duration::from_millis(200);
    let stop = Stop::new();
    let mut on_progress = |event: &Event| {
        if let Event::Interval(_) = event {
            stop.request();
        }
    };
    let record = load::run(&settings, &stop, &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!((record.counts.done, record.counts.unfinished), (0, 1));
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
fn a_stop_after_the_measured_phase_is_an_interruption_too() {
    let falling = LoadSettings { ramp_down: Duration::from_mins(10), ..settings("null:") };
    // One event is in flight when the phase ends, for longer than the drain.
    let hanging = LoadSettings { drain: Duration::from_mins(10), ..settings("exec:sleep 600") };
    for (settings, asked_in) in [(falling, Phase::RampDown), (hanging, Phase::Drain)] {
        let stop = Stop::new();
        let mut on_progress = |event: &Event| match event {
            Event::PhaseStarts { phase, .. } if *phase == asked_in => stop.request(),
            _ => {}
        };
        let record = load::run(&settings, &stop, &mut on_progress).unwrap();
        assert_books(&record);
        assert_eq!(record.verdict.state, Validity::Interrupted, "{asked_in:?}");
        assert_eq!(record.measured, settings.time);
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
