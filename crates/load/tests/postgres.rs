//! Loads on a real PostgreSQL: counts when it answers, hangs, dies and refuses.
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
use record::load::{LoadSettings, Loop, PreparePolicy, ScriptFile, ScriptSettings, Workload};
use support::mariadb::installed;
use support::postgres::{PASSWORD, Postgres};
use support::{
    STATEMENTS_AN_EVENT, TRANSFER_TABLES, assert_lost_once, assert_transfers, both_ways, check_of, error_of,
    insert_accounts, run, run_with_trouble, settings, stop_a_build, stop_while_frozen, transfers,
};

/// A closed loop of `events` events.
fn events(events: u64, target: impl Into<String>) -> LoadSettings {
    let time = Duration::from_mins(10);
    LoadSettings { pace: Loop::CLOSED, events_max: Some(events), time, ..settings(target) }
}

#[test]
fn every_workload_does_what_it_says_prepared_and_as_text() {
    let Some(server) = Postgres::start() else { return };
    for (url, prepared, connections) in [
        (server.url(), true, None),
        (server.socket_url(), false, None),
        (server.socket_url(), true, Some(9)),
        (server.url(), false, Some(9)),
    ] {
        for (workload, per_event) in STATEMENTS_AN_EVENT {
            let mut settings = LoadSettings { workload, connections, retries_max: 100, ..events(50, &url) };
            settings.oltp.prepared = prepared;
            if workload == Workload::OltpReadWrite {
                settings.prepare = PreparePolicy::Always;
            }
            let record = run(&settings);
            assert_eq!((record.counts.done, record.counts.failed), (50, 0), "{:?}", record.error_samples);
            let statements: u64 = record.operations.values().map(|o| o.service.known.count()).sum();
            assert_eq!(statements, per_event * 50, "{workload:?}");
            assert!(check_of(&record, "mix").ok);
            assert!(record.server_version.unwrap().starts_with("PostgreSQL "));
        }
        // Read-write events leave the number of rows unchanged; the inserts follow the last row.
        let count = "SELECT count(*) FROM (TABLE sbtest1 UNION ALL TABLE sbtest2) t";
        assert_eq!(server.ask("bench", count), "7050");
    }
    let record = run(&LoadSettings {
        workload: Workload::OltpDelete,
        prepare: PreparePolicy::Never,
        ..events(50, server.url())
    });
    assert_eq!((record.counts.done, record.errors.application), (50, 0), "{:?}", record.error_samples);
}

#[test]
fn data_sets_of_sysbench_and_ours_serve_each_other() {
    let Some(server) = Postgres::start() else { return };
    let sysbench = installed("sysbench").filter(|program| {
        let drivers = Command::new(program).arg("--help").output().unwrap().stdout;
        String::from_utf8_lossy(&drivers).contains("pgsql")
    });
    let Some(sysbench) = sysbench else {
        println!("skipped: no sysbench that talks to PostgreSQL is installed (apt-get install sysbench)");
        return;
    };
    let sysbench = |command: &str| {
        let output = Command::new(&sysbench)
            .args(["oltp_read_write", "--db-driver=pgsql", "--pgsql-user=app", "--pgsql-db=bench"])
            .arg(format!("--pgsql-password={PASSWORD}"))
            .arg(format!("--pgsql-port={}", server.port()))
            .args([
                "--pgsql-host=127.0.0.1",
                "--tables=2",
                "--table-size=1000",
                "--threads=1",
                "--time=1",
                command,
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let definition = || {
        let columns = "SELECT column_name, data_type, character_maximum_length, is_nullable, column_default \
                       FROM information_schema.columns WHERE table_name = 'sbtest2' ORDER BY ordinal_position";
        let indexes = "SELECT indexdef FROM pg_indexes WHERE tablename = 'sbtest2' ORDER BY 1";
        [server.ask("bench", columns), server.ask("bench", indexes)]
    };

    sysbench("prepare");
    let theirs = definition();
    let record = run(&LoadSettings { prepare: PreparePolicy::Never, ..events(50, server.url()) });
    assert_eq!((record.counts.done, record.counts.failed), (50, 0), "{:?}", record.error_samples);
    sysbench("cleanup");

    let prepared = load::prepare(&settings(server.url()), &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (0, 2));
    assert_eq!(definition(), theirs);
    assert!(sysbench("run").contains("transactions:"));
    assert_eq!(load::cleanup(&settings(server.url())).unwrap().removed, 2);
}

#[test]
fn pgbenchs_scripts_use_all_branches_that_pgbench_built() {
    let Some(server) = Postgres::start() else { return };
    let Some(pgbench) = installed("pgbench") else {
        println!("skipped: pgbench is not installed (apt-get install postgresql-contrib)");
        return;
    };
    let text =
        "\\set bid random(1, :scale)\nUPDATE pgbench_branches SET bbalance = 1 WHERE bid = :bid;".to_owned();
    let files = vec![ScriptFile { name: "builtin-simple-update".to_owned(), weight: 1, text }];
    let scripts = ScriptSettings { files, defines: Vec::new() };
    let settings = LoadSettings { workload: Workload::Script, scripts, ..events(200, server.socket_url()) };
    let error = load::run(&settings, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("build the tables with `pgbench -i`, or give --define scale=N"),
        "{error}"
    );
    let built = Command::new(&pgbench)
        .args(["-i", "-I", "dtg", "-s", "2", "-q", "-U", "app", "-p", &server.port().to_string(), "-h"])
        .arg(server.folder())
        .arg("bench")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for connections in [None, Some(9)] {
        server.ask("bench", "UPDATE pgbench_branches SET bbalance = 0");
        let record = run(&LoadSettings { connections, ..settings.clone() });
        assert_eq!((record.counts.done, record.counts.failed), (200, 0), "{:?}", record.error_samples);
        // Of 200 draws, all take the same branch with a probability of 2^-199.
        assert_eq!(server.ask("bench", "SELECT sum(bbalance) FROM pgbench_branches"), "2");
        let scale = check_of(&record, "scale");
        assert_eq!((scale.ok, scale.found), (true, 2.0), "{}", scale.text);
    }
}

#[test]
fn a_crash_and_a_restart_cost_no_event() {
    let Some(mut server) = Postgres::start() else { return };
    let settings = LoadSettings {
        pace: support::jittered(100.0),
        // A server that recovers from its crash on a busy disk takes its time.
        time: Duration::from_secs(8),
        retries_max: 100,
        ..settings(server.url())
    };
    load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    for settings in both_ways(&settings) {
        let server = &mut server;
        let (record, ()) = run_with_trouble(&settings, move || {
            thread::sleep(Duration::from_secs(1));
            server.crash();
            server.restart();
        });
        assert_eq!((record.counts.planned, record.counts.failed), (800, 0), "{:?}", record.error_samples);
        // No event is retried if the crash hit none: a session that ends between two events is a separate
        // error.
        assert_lost_once(&record);
    }
}

#[test]
fn a_stop_gets_away_from_a_frozen_server() {
    let Some(server) = Postgres::start() else { return };
    let record = stop_while_frozen(server.url(), || server.freeze());
    assert!(record.counts.unfinished >= 1, "{:?}", record.counts);
    server.thaw();
}

#[test]
fn a_killed_connection_is_made_again_and_its_statements_with_it() {
    let Some(server) = Postgres::start() else { return };
    let settings = LoadSettings { time: Duration::from_secs(3), ..settings(server.url()) };
    load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    let (record, ()) = run_with_trouble(&settings, || {
        thread::sleep(Duration::from_secs(1));
        let killed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'";
        assert_eq!(server.ask("bench", killed), "4");
    });
    assert_eq!((record.counts.planned, record.counts.failed), (600, 0), "{:?}", record.error_samples);
    assert!(record.errors.connection >= 4);
    assert!(record.outages.iter().all(|outage| outage.ended));
}

#[test]
fn what_the_server_refuses_is_told_before_anything_is_measured() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url();
    let without_password = format!("postgres://app@127.0.0.1:{}/bench", server.port());
    for (target, says) in [
        (url.replace(PASSWORD, "wrong"), "check the user and the password"),
        (url.replace("app:", "nobody:"), "check the user and the password"),
        (url.replace("/bench", "/nowhere"), "create that database first"),
        (without_password, "the server requests a password"),
    ] {
        let error = error_of(&settings(target));
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.to_string().contains(PASSWORD), "{error}");
    }
    let never = LoadSettings { prepare: PreparePolicy::Never, ..settings(&url) };
    assert!(error_of(&never).to_string().contains("table sbtest1 does not exist: build the data set"));
    let error = error_of(&LoadSettings { threads: 80, ..settings(&url) });
    assert_eq!(error.class(), ErrorClass::Server);
    assert!(
        error.to_string().contains("of 80 connections to") && error.to_string().contains("53300"),
        "{error}"
    );
}

#[test]
fn a_build_that_is_stopped_leaves_no_table() {
    let Some(server) = Postgres::start() else { return };
    stop_a_build(server.url());
    assert_eq!(server.ask("bench", "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'sbtest%'"), "0");
}

#[test]
fn conflicts_are_tried_again() {
    let Some(server) = Postgres::start() else { return };
    server.ask("bench", "ALTER DATABASE bench SET default_transaction_isolation = 'repeatable read'");
    // Eight writers on ten rows.
    let mut settings = LoadSettings {
        workload: Workload::OltpWriteOnly,
        threads: 8,
        retries_max: 10_000,
        ..events(100, server.url())
    };
    settings.oltp.tables = 1;
    settings.oltp.rows = 10;
    let record = run(&settings);
    assert!(record.errors.transient > 0 && record.counts.retries > 0, "{:?}", record.errors);
    assert_eq!(record.counts.done, 100, "{:?}", record.error_samples);
}

#[test]
fn a_script_rests_keeps_rows_and_is_rolled_back_whoever_waits_for_the_server() {
    let Some(server) = Postgres::start() else { return };
    let script = |text: &str, connections| {
        let mut settings = transfers(server.url(), 20);
        settings.scripts.files[0].text = text.to_owned();
        run(&LoadSettings { connections, errors_ratio_max: 1.0, ..settings })
    };
    // A pause at the beginning and at the end, an answer that decides the next request, and a script without
    // any request.
    let good = "\\sleep 1 ms\nSELECT 41 + 1 AS n \\gset\n\\if :n = 42\nSELECT :n;\n\\endif\n\\sleep 1 ms";
    for connections in [None, Some(9)] {
        let record = script(good, connections);
        assert_eq!((record.counts.done, record.counts.failed), (20, 0), "{:?}", record.error_samples);
        let counts: Vec<_> = record.operations.values().map(|o| o.service.known.count()).collect();
        assert_eq!(counts, [20, 20]);
        assert!(record.service.known.summary().unwrap().min_ns >= 2_000_000);
        assert_eq!(script("\\sleep 1 ms", connections).counts.done, 20);

        let left_open = script("BEGIN;\nSELECT 1;", connections);
        assert_eq!((left_open.counts.failed, left_open.errors.application), (20, 20));
        assert!(left_open.error_samples[0].contains("ends inside a transaction"));
        // Each was rolled back: otherwise the second event of a connection would have failed at its BEGIN.
        let refused = script("BEGIN;\nSELECT 1 / 0;\nEND;", connections);
        assert_eq!((refused.counts.failed, refused.errors.application), (20, 20));
        assert!(refused.error_samples[0].contains("22012"), "{:?}", refused.error_samples);
        assert_eq!(refused.operations.values().map(|o| o.service.known.count()).max(), Some(0));
    }
}

#[test]
fn the_example_script_of_the_docs_runs_prepared_and_as_text() {
    let Some(server) = Postgres::start() else { return };
    for sql in TRANSFER_TABLES.into_iter().chain([insert_accounts().as_str()]) {
        server.ask("bench", sql);
    }
    server.ask("bench", "GRANT ALL ON account, transfer TO app");
    for (prepared, connections) in [(true, None), (false, None), (true, Some(9))] {
        let mut settings = LoadSettings { connections, ..transfers(server.url(), 200) };
        settings.oltp.prepared = prepared;
        assert_transfers(&run(&settings), 200);
    }
    assert_eq!(server.ask("bench", "SELECT sum(balance) FROM account"), "100000");
    let mut wrong = transfers(server.url(), 1);
    wrong.scripts.files[0].text = "SELEC 1;".to_owned();
    let error = error_of(&wrong);
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    assert!(error.to_string().contains("42601"), "{error}");
}
