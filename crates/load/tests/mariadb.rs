//! Loads on a real MariaDB: counts when it answers, hangs, dies and refuses.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::process::Command;
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Stop};
use mysql::prelude::Queryable;
use record::clock::{Clock, Monotonic};
use record::load::{DataCheck, LoadSettings, Loop, PreparePolicy, ScriptFile, ScriptSettings, Workload};
use support::mariadb::{MariaDb, PASSWORD, installed};
use support::{
    STATEMENTS_AN_EVENT, TRANSFER_TABLES, assert_transfers, check_of, error_of, insert_accounts, run,
    run_with_trouble, settings, stop_a_build, stop_while_frozen, transfers,
};

#[test]
fn every_workload_does_what_it_says_prepared_and_as_text() {
    let Some(server) = MariaDb::start() else { return };
    let blocking = (None, support::jittered(50.0), None, Duration::from_secs(1));
    // As fast as possible, on nine connections of four threads.
    let looped = (Some(9), Loop::CLOSED, Some(50), Duration::from_mins(10));
    for (url, prepared, (connections, pace, events_max, time)) in [
        (server.url(), true, blocking.clone()),
        (server.socket_url(), false, blocking.clone()),
        (server.socket_url(), true, looped.clone()),
        (server.url(), false, looped.clone()),
    ] {
        for (workload, per_event) in STATEMENTS_AN_EVENT {
            let retries_max = 100;
            let base = LoadSettings {
                connections,
                pace: pace.clone(),
                events_max,
                time,
                retries_max,
                ..settings(&url)
            };
            let mut settings = LoadSettings { workload, ..base };
            settings.oltp.prepared = prepared;
            if workload == Workload::OltpReadWrite {
                settings.prepare = PreparePolicy::Always;
            }
            let record = run(&settings);
            assert_eq!((record.counts.planned, record.counts.failed), (50, 0), "{:?}", record.error_samples);
            let statements: u64 = record.operations.values().map(|o| o.service.known.count()).sum();
            assert_eq!(statements, per_event * record.counts.done, "{workload:?}");
            assert!(check_of(&record, "mix").ok, "{workload:?}");
            // A short run on a busy machine has too few random looks for this check, and then leaves it out.
            let littles_law = record.verdict.checks.iter().find(|check| check.name == "littles-law");
            assert!(pace == Loop::CLOSED || littles_law.is_none_or(|check| check.ok), "{workload:?}");
            let version = record.server_version.unwrap();
            assert!(version.starts_with("MariaDB 1"), "{version}");
        }
    }
    // Written rows exist: a read-write event leaves the number of rows unchanged, an insert adds one, a bulk
    // insert a hundred.
    let count = "SELECT (SELECT COUNT(*) FROM sbtest1) + (SELECT COUNT(*) FROM sbtest2)";
    assert_eq!(server.connect("root", None, "bench").query_first(count).unwrap(), Some(7_050));
}

#[test]
fn the_server_sees_exactly_the_events_that_were_counted() {
    let Some(server) = MariaDb::start() else { return };
    let settings = LoadSettings {
        workload: Workload::OltpPointSelect,
        pace: Loop::CLOSED,
        events_max: Some(1_000),
        time: Duration::from_mins(10),
        ..settings(server.url())
    };
    load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    let mut root = server.connect("root", None, "mysql");
    root.query_drop("SET GLOBAL log_output = 'TABLE'").unwrap();
    root.query_drop("SET GLOBAL general_log = ON").unwrap();
    let record = run(&settings);
    assert_eq!((record.counts.planned, record.counts.done), (1_000, 1_000));
    let executed =
        "SELECT COUNT(*) FROM general_log WHERE command_type = 'Execute' AND argument LIKE 'SELECT c %'";
    assert_eq!(root.query_first(executed).unwrap(), Some(1_000));
}

#[test]
fn data_sets_of_sysbench_and_ours_serve_each_other() {
    let Some(server) = MariaDb::start() else { return };
    let Some(sysbench) = installed("sysbench") else {
        println!("skipped: sysbench is not installed (apt-get install sysbench)");
        return;
    };
    let sysbench = |command: &str| {
        let output = Command::new(&sysbench)
            .args(["oltp_read_write", "--db-driver=mysql", "--mysql-user=app", "--mysql-db=bench"])
            .arg(format!("--mysql-password={PASSWORD}"))
            .arg(format!("--mysql-socket={}", server.socket().display()))
            .args(["--tables=2", "--table-size=1000", "--threads=1", "--time=1", command])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let definition = || -> Vec<String> {
        let mut root = server.connect("root", None, "bench");
        let row: (String, String) = root.query_first("SHOW CREATE TABLE sbtest2").unwrap().unwrap();
        // The present value of the id counter is not part of the definition.
        row.1.lines().map(|line| line.split(" AUTO_INCREMENT=").next().unwrap().to_owned()).collect()
    };

    sysbench("prepare");
    let theirs = definition();
    let record = run(&LoadSettings {
        prepare: PreparePolicy::Never,
        pace: support::jittered(50.0),
        ..settings(server.url())
    });
    assert_eq!((record.counts.planned, record.counts.failed), (50, 0), "{:?}", record.error_samples);
    sysbench("cleanup");

    let prepared = load::prepare(&settings(server.url()), &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (0, 2));
    assert_eq!(definition(), theirs);
    assert!(sysbench("run").contains("transactions:"));
    assert_eq!(load::cleanup(&settings(server.url())).unwrap().removed, 2);
}

#[test]
fn a_frozen_server_shows_in_the_response_time_as_the_analysis_says() {
    let Some(server) = MariaDb::start() else { return };
    let settings = LoadSettings {
        workload: Workload::OltpPointSelect,
        pace: support::jittered(500.0),
        threads: 8,
        time: Duration::from_secs(10),
        warmup: Duration::from_secs(1),
        ..settings(server.url())
    };
    let frozen_once = || {
        let (record, ()) = run_with_trouble(&settings, || {
            thread::sleep(Duration::from_secs(4));
            server.freeze();
            thread::sleep(Duration::from_secs(1));
            server.thaw();
        });
        record
    };
    // The distribution is that of one stall on a machine that keeps up otherwise, and a run reports whether
    // its machine did.
    let mut runs = (0..5).map(|_| frozen_once());
    let Some(record) = runs.find(|record| check_of(record, "client-starvation").ok) else {
        println!("skipped: this machine is too busy, five runs in a row were starved of CPU");
        return;
    };
    assert_eq!((record.counts.planned, record.counts.failed, record.errors.connection), (5_000, 0, 0));
    let response = record.response.as_ref().unwrap().merged();
    // The server was away for as long as the event took in which it froze: a little over a second.
    let stalled_s = record.service.known.quantile_ns(1.0).unwrap() as f64 / 1e9;
    assert!(stalled_s > 0.99, "{stalled_s}");
    // An event due at t into a stall of T ends at T plus the time that the backlog before it takes to drain.
    // At five times the offered rate or more, that is at most t / 5: of the L = 10 s of the run, the share
    // 1 - q that is slower than the quantile was due in the first (1 - q) L of the stall, and its fastest
    // event took T - (1 - q) L or up to a fifth of (1 - q) L more.
    for quantile in [0.95, 0.99, 0.999] {
        let share_s = (1.0 - quantile) * 10.0;
        let found_s = response.quantile_ns(quantile).unwrap() as f64 / 1e9;
        let (low, high) = ((stalled_s - share_s) * 0.98, (stalled_s - 0.8 * share_s) * 1.02);
        assert!((low..=high).contains(&found_s), "{quantile}: {found_s} s, expected {low} to {high} s");
    }
    // Only events that were in the server when it froze have the stall in their service time.
    let slow = record.service.known.count() - record.service.known.count_at_or_below(900_000_000);
    assert!(slow <= 8, "{slow}");
    assert!(record.service.known.quantile_ns(0.99).unwrap() < 100_000_000);
}

#[test]
fn a_crash_and_a_restart_cost_no_event() {
    let Some(mut server) = MariaDb::start() else { return };
    let settings = LoadSettings {
        pace: support::jittered(100.0),
        // A server that recovers from its crash on a busy disk takes its time.
        time: Duration::from_secs(15),
        ..settings(server.url())
    };
    load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    let (record, down_s) = run_with_trouble(&settings, || {
        thread::sleep(Duration::from_secs(2));
        let from_ns = Monotonic.now_ns();
        server.crash();
        thread::sleep(Duration::from_secs(1));
        server.restart();
        (Monotonic.now_ns() - from_ns) as f64 / 1e9
    });
    assert_eq!(record.counts.planned, 1_500);
    assert_eq!(record.counts.failed, 0, "{:?}", record.error_samples);
    // Connections that are idle at that moment are made again without a retry of any event.
    assert!(record.errors.connection > 0, "{:?}", record.error_samples);
    let [outage] = record.outages[..] else { panic!("{:?}", record.outages) };
    assert!(outage.ended);
    assert!(outage.from_s > 1.9, "{outage:?}");
    // A worker retries at least every second and a half; a busy machine may add to that.
    assert!(outage.for_s > 1.0 && outage.for_s < down_s + 3.0, "{outage:?}, down for {down_s} s");
    let due_in_it = outage.for_s * 100.0;
    // Plus the events that a busy machine had not yet begun when the server fell.
    assert!((outage.affected as f64 - due_in_it).abs() < 10.0 + 0.05 * due_in_it, "{outage:?}");
}

#[test]
fn a_stop_gets_away_from_a_frozen_server() {
    let Some(server) = MariaDb::start() else { return };
    let record = stop_while_frozen(server.url(), || server.freeze());
    // The events that fell due in the second interval, except those answered before the freeze.
    assert!((1..=110).contains(&record.counts.unfinished), "{:?}", record.counts);
    server.thaw();
}

#[test]
fn a_drain_that_ends_in_vain_leaves_events_unfinished() {
    let Some(server) = MariaDb::start() else { return };
    let settings = LoadSettings {
        workload: Workload::OltpPointSelect,
        pace: support::jittered(100.0),
        time: Duration::from_secs(3),
        drain: Duration::from_millis(200),
        ..settings(server.url())
    };
    let (record, ()) = run_with_trouble(&settings, || {
        thread::sleep(Duration::from_secs(1));
        server.freeze();
    });
    assert_eq!(record.counts.planned, 300);
    // The events due after the freeze, and on a busy machine some from before.
    assert!(record.counts.done > 0 && record.counts.unfinished > 0, "{:?}", record.counts);
    assert!(!check_of(&record, "achieved-rate").ok);
}

#[test]
fn what_the_server_refuses_is_told_before_anything_is_measured() {
    let Some(server) = MariaDb::start() else { return };
    let url = server.url();
    for (target, says) in [
        (url.replace(PASSWORD, "wrong"), "check the user and the password"),
        (url.replace("app:", "nobody:"), "check the user and the password"),
        (url.replace("/bench", "/mysql"), "grant this user"),
    ] {
        let error = error_of(&settings(target));
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.to_string().contains(PASSWORD), "{error}");
    }
    let root = format!("mysql://root@localhost/nowhere?socket={}", server.socket().display());
    assert!(error_of(&settings(root)).to_string().contains("create that database first"));
    let never = LoadSettings { prepare: PreparePolicy::Never, ..settings(&url) };
    let error = error_of(&never);
    assert!(error.to_string().contains("table sbtest1 does not exist: build the data set"), "{error}");

    server.connect("root", None, "mysql").query_drop("SET GLOBAL max_connections = 10").unwrap();
    let error = error_of(&LoadSettings { threads: 40, ..settings(&url) });
    assert_eq!(error.class(), ErrorClass::Server);
    assert!(error.to_string().contains("of 40 connections to"), "{error}");
    assert!(error.to_string().contains("Too many connections"), "{error}");
}

#[test]
fn a_build_that_is_stopped_leaves_no_table() {
    let Some(server) = MariaDb::start() else { return };
    stop_a_build(server.url());
    let prepared = load::prepare(&settings(server.url()), &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (0, 2));
}

#[test]
fn a_killed_connection_is_made_again_and_its_statements_with_it() {
    let Some(server) = MariaDb::start() else { return };
    let settings = LoadSettings { time: Duration::from_secs(3), ..settings(server.url()) };
    load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    let (record, killed) = run_with_trouble(&settings, || {
        thread::sleep(Duration::from_secs(1));
        let mut root = server.connect("root", None, "mysql");
        let ids: Vec<u64> =
            root.query("SELECT id FROM information_schema.processlist WHERE user = 'app'").unwrap();
        ids.iter().filter(|id| root.query_drop(format!("KILL {id}")).is_ok()).count()
    });
    assert_eq!(killed, 4);
    assert_eq!((record.counts.planned, record.counts.failed), (600, 0), "{:?}", record.error_samples);
    assert!(record.errors.connection >= 4);
    assert!(record.outages.iter().all(|outage| outage.ended));
}

#[test]
fn deadlocks_are_tried_again() {
    let Some(server) = MariaDb::start() else { return };
    // Eight writers on ten rows.
    let mut settings = LoadSettings {
        workload: Workload::OltpWriteOnly,
        pace: Loop::CLOSED,
        threads: 8,
        retries_max: 1_000,
        ..settings(server.url())
    };
    settings.oltp.tables = 1;
    settings.oltp.rows = 10;
    let record = run(&settings);
    assert!(record.errors.transient > 0 && record.counts.retries > 0, "{:?}", record.errors);
    assert_eq!((record.counts.failed, record.errors.application), (0, 0), "{:?}", record.error_samples);
}

#[test]
fn the_example_script_of_the_docs_runs_prepared_and_as_text() {
    let Some(server) = MariaDb::start() else { return };
    let mut root = server.connect("root", None, "bench");
    for sql in TRANSFER_TABLES.into_iter().chain([insert_accounts().as_str()]) {
        root.query_drop(sql).unwrap();
    }
    for (prepared, connections) in [(true, None), (false, None), (true, Some(9))] {
        let mut settings = LoadSettings { connections, ..transfers(server.url(), 200) };
        settings.oltp.prepared = prepared;
        assert_transfers(&run(&settings), 200);
    }
    assert_eq!(root.query_first("SELECT SUM(balance) FROM account").unwrap(), Some(100_000));
    let mut wrong = transfers(server.url(), 1);
    wrong.scripts.files[0].text = "SELEC 1;".to_owned();
    let error = error_of(&wrong);
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    assert!(error.to_string().contains("error in your SQL syntax"), "{error}");
}

#[test]
fn tables_are_built_at_the_same_time() {
    let Some(server) = MariaDb::start() else { return };
    let mut settings = LoadSettings { threads: 4, ..settings(server.url()) };
    (settings.oltp.tables, settings.oltp.rows) = (4, 30_000);
    let mut told = Vec::new();
    let prepared = load::prepare(&settings, &Stop::new(), &mut |event| {
        if let load::Event::Preparing { table, .. } = event {
            told.push(table.clone());
        }
    });
    assert_eq!(prepared.unwrap().built, 4);
    // Built one after another, no table would be reported again after another was.
    let mut runs = told.clone();
    runs.dedup();
    assert!(runs.len() > 4, "{told:?}");
    let mut root = server.connect("root", None, "bench");
    for table in 1..=4 {
        let rows: Option<u64> = root.query_first(format!("SELECT COUNT(*) FROM sbtest{table}")).unwrap();
        assert_eq!(rows, Some(30_000));
    }
    // Existing tables are found, and only missing ones are built.
    root.query_drop("DROP TABLE sbtest3").unwrap();
    let prepared = load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (3, 1));
}

#[test]
fn a_quick_check_finds_what_is_too_short_and_takes_the_rest_for_granted() {
    let Some(server) = MariaDb::start() else { return };
    let base = LoadSettings { prepare: PreparePolicy::Never, ..settings(server.url()) };
    let at = |check| LoadSettings { check, ..base.clone() };
    let prepare = |settings: &LoadSettings| load::prepare(settings, &Stop::new(), &mut |_| {});
    let problem = |check| prepare(&at(check)).unwrap_err().to_string();
    for check in [DataCheck::Quick, DataCheck::Full] {
        assert!(problem(check).contains("table sbtest1 does not exist"));
    }
    assert!(prepare(&at(DataCheck::None)).is_ok());
    prepare(&LoadSettings { prepare: PreparePolicy::Auto, ..base.clone() }).unwrap();
    let mut root = server.connect("root", None, "bench");
    // Rows in between are not checked.
    root.query_drop("DELETE FROM sbtest1 WHERE id BETWEEN 500 AND 510").unwrap();
    assert_eq!(prepare(&at(DataCheck::Quick)).unwrap().found, 2);
    assert!(problem(DataCheck::Full).contains("sbtest1 has 989 of 1000 rows"));
    for (delete, holds) in [("id > 900", 900), ("id <= 100", 800)] {
        root.query_drop(format!("DELETE FROM sbtest2 WHERE {delete}")).unwrap();
        let text = problem(DataCheck::Quick);
        assert!(text.contains(&format!("sbtest2 has {holds} of 1000 rows")), "{text}");
    }
    assert!(prepare(&at(DataCheck::None)).is_ok());
}

#[test]
fn several_result_sets_and_rows_and_requests_of_more_than_16_mib_leave_the_session_in_order() {
    let Some(server) = MariaDb::start_with(vec!["--max-allowed-packet=64M".to_owned()]) else { return };
    let mut root = server.connect("root", None, "bench");
    root.query_drop("CREATE TABLE got (kind INT NOT NULL, n BIGINT NOT NULL)").unwrap();
    root.query_drop(
        "CREATE PROCEDURE two(IN x INT) BEGIN SELECT x, 2; SELECT x + 1 UNION ALL SELECT NULL; UPDATE got SET n = n; END",
    )
    .unwrap();
    // After each, the next answer read must belong to the next request.
    let after = "SELECT 7 AS n \\gset\nINSERT INTO got VALUES (KIND, :n);\n";
    let many = 17_000_000;
    let scripts = [
        ("CALL two(5);\n".to_owned(), 1, true),
        (format!("SELECT REPEAT('x', {many}), 1;\n"), 2, true),
        // Exactly enough to fill a packet, with its header: an empty packet follows.
        (format!("SELECT REPEAT('x', {});\n", 0xff_ffff - 4), 3, true),
        // A server accepts a statement of this length as text.
        (
            format!("SELECT LENGTH('{}') AS n \\gset\nINSERT INTO got VALUES (0, :n);\n", "y".repeat(many)),
            4,
            false,
        ),
    ];
    for (script, kind, may_prepare) in scripts {
        let text = format!("{script}{}", after.replace("KIND", &kind.to_string()));
        let files = vec![ScriptFile { name: "big.sql".to_owned(), weight: 1, text }];
        for prepared in [false, true].into_iter().filter(|prepared| may_prepare || !prepared) {
            for connections in [None, Some(2)] {
                let mut settings = LoadSettings {
                    workload: Workload::Script,
                    scripts: ScriptSettings { files: files.clone(), defines: Vec::new() },
                    threads: 1,
                    connections,
                    pace: Loop::CLOSED,
                    events_max: Some(6),
                    time: Duration::from_mins(10),
                    retries_max: 0,
                    ..settings(server.url())
                };
                settings.oltp.prepared = prepared;
                root.query_drop("DELETE FROM got").unwrap();
                let record = run(&settings);
                let counts = record.counts;
                let told = (kind, prepared, connections, &record.error_samples);
                assert_eq!((counts.done, counts.failed), (6, 0), "{told:?}");
                let query = format!("SELECT COUNT(*) FROM got WHERE kind = {kind} AND n = 7");
                assert_eq!(root.query_first::<i64, _>(query).unwrap(), Some(6), "{told:?}");
                if kind == 4 {
                    let query = format!("SELECT COUNT(*) FROM got WHERE kind = 0 AND n = {many}");
                    assert_eq!(root.query_first::<i64, _>(query).unwrap(), Some(6), "{told:?}");
                }
            }
        }
    }
}
