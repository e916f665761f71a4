//! Scripts in Lua that collect rows, reconnect or report: what a look, a failure or an outage must not do.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "it is test code, though no test function")]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, LoadError, Stop};
use mysql::prelude::Queryable;
use record::load::{LoadRecord, LoadSettings, Loop, PreparePolicy, ScriptFile, ScriptSettings, Workload};
use support::mariadb::{MariaDb, PASSWORD};
use support::postgres::Postgres;

/// sysbench's own script, as Debian installs it.
const BULK_INSERT: &str = "/usr/share/sysbench/bulk_insert.lua";

/// A load of a script by one thread, in a closed loop, which ends after some events.
fn script(target: &str, text: &str, events: u64) -> LoadSettings {
    let files = vec![ScriptFile { name: "folder/own.lua".to_owned(), weight: 1, text: text.to_owned() }];
    LoadSettings {
        workload: Workload::Script,
        scripts: ScriptSettings { files, defines: Vec::new() },
        pace: Loop::CLOSED,
        events_max: Some(events),
        time: Duration::from_mins(10),
        threads: 1,
        retries_max: 1_000,
        ..support::settings(target)
    }
}

fn try_run(settings: &LoadSettings) -> Result<LoadRecord, LoadError> {
    load::run(settings, &Stop::new(), &mut |_| {})
}

fn number(server: &MariaDb, sql: &str) -> i64 {
    server.connect("app", Some(PASSWORD), "bench").query_first(sql).unwrap().unwrap()
}

/// Each row of `bulk_insert.lua` arrives once: the tables are missing, or they are there and empty.
#[test]
fn a_look_finds_the_missing_tables_of_a_bulk_insert_and_writes_nothing() {
    let Some(server) = MariaDb::start() else { return };
    let Ok(text) = fs::read_to_string(BULK_INSERT) else {
        return println!("skipped: {BULK_INSERT} is not installed (apt-get install sysbench)");
    };
    let rows = "SELECT COUNT(*) + 0 * SUM(id = k) FROM sbtest1";
    for (events, is_there) in [(300, false), (60_000, true)] {
        if is_there {
            server.connect("app", Some(PASSWORD), "bench").query_drop("TRUNCATE sbtest1").unwrap();
        }
        let record = try_run(&script(&server.url(), &text, events)).unwrap();
        let about = format!("{:?} {:?}", record.counts, record.error_samples);
        assert_eq!((record.counts.done, record.counts.failed), (events, 0), "{about}");
        assert_eq!(number(&server, rows), i64::try_from(events).unwrap(), "{about}");
    }
    let Some(server) = Postgres::start() else { return };
    let record = try_run(&script(&server.url(), &text, 300)).unwrap();
    assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
    assert_eq!(server.ask("bench", "SELECT count(*) FROM sbtest1").trim(), "300");
}

/// The look ends without `thread_done`: its writes would be in the user's tables.
#[test]
fn a_look_calls_no_thread_done_and_a_restart_shows_a_missing_table_too() {
    let Some(server) = MariaDb::start() else { return };
    let mut own = server.connect("app", Some(PASSWORD), "bench");
    own.query_drop("CREATE TABLE done (id INT)").unwrap();
    let text = "function prepare() sysbench.sql.driver():connect():query('CREATE TABLE t (id INT)') end
        function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query('INSERT INTO t VALUES (1)') end
        function thread_done() con:query('INSERT INTO done VALUES (1)') end";
    let mut settings = script(&server.url(), text, 5);
    // With each error ignored, a missing table begins the event again.
    settings.scripts.defines.push(("mysql-ignore-errors".to_owned(), "all".to_owned()));
    let record = try_run(&LoadSettings { retries_max: 3, ..settings.clone() }).unwrap();
    assert_eq!((record.counts.done, record.counts.failed), (5, 0), "{:?}", record.error_samples);
    assert_eq!(number(&server, "SELECT COUNT(*) FROM done"), 1);
    // The list is read before anything runs.
    settings.scripts.defines = vec![("mysql-ignore-errors".to_owned(), "1213;1062".to_owned())];
    let error = try_run(&settings).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    assert!(error.to_string().contains("1213;1062"), "{error}");
}

/// If the failure of an INSERT begins the event again, its rows are sent again.
#[test]
fn a_failed_bulk_insert_is_sent_again_and_one_that_fails_at_the_end_is_reported() {
    let Some(server) = MariaDb::start() else { return };
    let mut own = server.connect("app", Some(PASSWORD), "bench");
    own.query_drop("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let conflict = "CREATE TRIGGER conflict BEFORE INSERT ON t FOR EACH ROW
        IF @conflict = 1 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF";
    server.connect("root", None, "bench").query_drop(conflict).unwrap();
    // By `bulk_insert_done`, and by a row that has no place in the batch any more.
    let by_done = "function thread_init() con = sysbench.sql.driver():connect(); try = 0 end
        function event()
          try = try + 1
          if try == 1 then
            con:bulk_insert_init('INSERT INTO t VALUES')
            con:bulk_insert_next('(1)')
            con:bulk_insert_next('(2)')
          end
          con:query('SET @conflict = ' .. (try == 1 and 1 or 0))
          con:bulk_insert_done()
        end";
    let by_next = "function thread_init() con = sysbench.sql.driver():connect(); try, id = 0, 0 end
        function event()
          try = try + 1
          if try == 1 then con:bulk_insert_init('INSERT INTO t VALUES') end
          con:query('SET @conflict = ' .. (try == 1 and 1 or 0))
          repeat
            con:bulk_insert_next(string.format('(%d)', id + 1))
            id = id + 1
          until id == 200000
          con:bulk_insert_done()
        end";
    for (text, rows) in [(by_done, 2), (by_next, 200_000)] {
        own.query_drop("DELETE FROM t").unwrap();
        let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), text, 1) };
        let record = try_run(&settings).unwrap();
        let about = format!("{:?} {:?}", record.counts, record.error_samples);
        assert_eq!((record.counts.done, record.counts.retries), (1, 1), "{about}");
        assert_eq!(number(&server, "SELECT COUNT(*) FROM t"), rows, "{about}");
    }
    own.query_drop("DELETE FROM t").unwrap();
    let at_the_end = "function thread_init()
          con = sysbench.sql.driver():connect()
          con:bulk_insert_init('INSERT INTO t VALUES')
        end
        function event() con:bulk_insert_next('(7)') end
        function thread_done() con:bulk_insert_done() end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), at_the_end, 2) };
    let error = try_run(&settings).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Server, "{error}");
    assert!(error.to_string().contains("own.lua:6") && error.to_string().contains("1062"), "{error}");
    assert_eq!(number(&server, "SELECT COUNT(*) FROM t"), 0);
}

/// The connection is lost in `thread_done`, or the server is gone when the load ends.
#[test]
fn rows_that_a_lost_server_did_not_take_make_the_load_invalid() {
    let Some(mut server) = MariaDb::start() else { return };
    let mut own = server.connect("app", Some(PASSWORD), "bench");
    own.query_drop("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let gone = server.socket().with_file_name("gone");
    let text = format!(
        "function thread_init()
          con = sysbench.sql.driver():connect()
          id = con:query_row('SELECT CONNECTION_ID()')
          con:bulk_insert_init('INSERT INTO t VALUES')
          n = 0
        end
        function event()
          n = n + 1
          con:bulk_insert_next('(' .. n .. ')')
          if n == 20 then os.execute('touch {}') end
          con:query('SELECT 1')
        end
        function thread_done()
          if n < 20 then sysbench.sql.driver():connect():query('KILL ' .. id) end
          con:bulk_insert_done()
        end",
        gone.display()
    );
    let few = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), &text, 2) };
    let unsent = |record: &LoadRecord| {
        let check = record.verdict.checks.iter().find(|check| check.name == "thread-done");
        let about = format!("{:?} {:?}", record.counts, record.error_samples);
        assert!(check.is_some_and(|check| !check.ok), "{about}");
    };
    let record = try_run(&few).unwrap();
    unsent(&record);
    assert_eq!((record.counts.done, number(&server, "SELECT COUNT(*) FROM t")), (2, 0));
    let pace = support::jittered(50.0);
    let long = LoadSettings { events_max: None, time: Duration::from_secs(3), pace, ..few };
    let (record, ()) = support::run_with_trouble(&long, || {
        while !gone.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        server.crash();
    });
    unsent(&record);
    assert!(record.counts.done > 0, "{:?}", record.counts);
}

/// A script that reconnects while the server is away waits for it, as one that sends a statement.
#[test]
fn a_reconnect_during_an_outage_does_not_end_the_load() {
    let Some(mut server) = MariaDb::start() else { return };
    let (gone, pid) = (server.socket().with_file_name("gone"), server.socket().with_file_name("pid"));
    let text = format!(
        "function thread_init() con = sysbench.sql.driver():connect(); n = 0 end
        function event()
          n = n + 1
          if n == 20 then os.execute('kill -9 $(cat {}); touch {}') end
          con:reconnect()
          con:query('SELECT 1')
        end",
        pid.display(),
        gone.display()
    );
    let settings = LoadSettings {
        events_max: None,
        time: Duration::from_secs(6),
        pace: support::jittered(50.0),
        prepare: PreparePolicy::Never,
        ..script(&server.url(), &text, 1)
    };
    let (record, ()) = support::run_with_trouble(&settings, || {
        while !gone.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        server.crash();
        server.restart();
    });
    assert_eq!(record.counts.planned, 300);
    assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
    assert!(record.errors.connection >= 1 && record.outages.len() == 1, "{:?}", record.outages);
}

/// Lines of numbers that a script has written.
fn numbers(path: &Path) -> Vec<Vec<u64>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.split(' ').map(|n| n.parse().unwrap()).collect()).collect()
}

/// `concurrency` is the number of busy threads, and `queue_length` that of the events that wait for one.
#[test]
fn a_report_has_the_events_in_progress_and_those_that_wait() {
    let dir = tempfile::tempdir().unwrap();
    // Three threads, of which none is busy; or two that answer 100 events/s of 200.
    for (threads, sleep_us, per_s) in [(3, 0, 20.0), (2, 20_000, 200.0)] {
        let notes = dir.path().join(threads.to_string());
        let text = format!(
            "ffi.cdef[[int usleep(unsigned);]]
            function event() if {sleep_us} > 0 then ffi.C.usleep({sleep_us}) end end
            function sysbench.hooks.report_intermediate(stat)
              local file = io.open('{}', 'a')
              file:write(stat.concurrency, ' ', stat.queue_length, '\\n')
              file:close()
            end",
            notes.display()
        );
        let settings = LoadSettings {
            events_max: None,
            time: Duration::from_secs(2),
            interval: Duration::from_millis(250),
            pace: support::jittered(per_s),
            threads,
            ..script("null:", &text, 1)
        };
        let record = try_run(&settings).unwrap();
        let found = numbers(&notes);
        assert!(found.len() >= 4, "{found:?} {:?}", record.counts);
        // On a busy machine, a look may fall between two events, or into one.
        let usual = if sleep_us == 0 { 0 } else { 2 };
        let is_usual = |line: &&Vec<u64>| line[0] == usual && (sleep_us > 0 || line[1] == 0);
        assert!(2 * found.iter().filter(is_usual).count() > found.len(), "{found:?}");
        assert!(found.iter().all(|line| line[0] <= u64::from(threads)), "{found:?}");
        if sleep_us > 0 {
            // Each interval adds a quarter of the 100 events/s that no thread takes.
            let (first, last) = (found[0][1], found[found.len() - 1][1]);
            assert!(last > first + 10 * (found.len() as u64 - 1), "{found:?}");
        }
    }
}
