//! SQLite: workloads, data sets, scripts.

use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, Stop};
use record::load::{LoadSettings, Loop, PreparePolicy, Workload};

use crate::support::{
    self, STATEMENTS_AN_EVENT, TRANSFER_TABLES, assert_books, assert_transfers, check_of, error_of,
    insert_accounts, run, settings, transfers,
};

pub(crate) fn sqlite(dir: &tempfile::TempDir, query: &str) -> LoadSettings {
    settings(format!("sqlite:{}?{query}", dir.path().join("x.db").display()))
}

#[test]
fn every_sql_workload_does_what_it_says_in_sqlite() {
    std::thread::scope(|scope| {
        for query in ["journal_mode=wal&synchronous=normal", "journal_mode=delete&synchronous=off"] {
            scope.spawn(move || assert_every_workload_does_what_it_says(query));
        }
    });
}

fn assert_every_workload_does_what_it_says(query: &str) {
    let dir = tempfile::tempdir().unwrap();
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
