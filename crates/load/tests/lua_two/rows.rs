//! Rows of bulk inserts: none is lost in silence, and none is counted without the server's time for it.

use std::time::Duration;

use bakeoff_load::ErrorClass;
use mysql::prelude::Queryable;
use record::load::{LoadRecord, LoadSettings, PreparePolicy};

use super::support::mariadb::{MariaDb, PASSWORD};
use super::{number, script, support, try_run};

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

/// All rows are sent in `thread_done`, after the clock has stopped.
#[test]
fn a_load_that_sends_its_rows_after_the_measured_phase_is_invalid() {
    let Some(server) = MariaDb::start() else { return };
    let mut client = server.connect("app", Some(PASSWORD), "bench");
    client.query_drop("CREATE TABLE late (id INT)").unwrap();
    for (every, ramp_s, is_late) in
        [(1_000_000, 0, true), (10, 0, false), (1_000_000, 1, true), (10, 1, false)]
    {
        let text = format!(
            "local n = 0
            function thread_init()
              con = sysbench.sql.driver():connect() con:bulk_insert_init('INSERT INTO late VALUES')
            end
            function event()
              con:bulk_insert_next('(1)') n = n + 1
              if n % {every} == 0 then con:bulk_insert_done() con:bulk_insert_init('INSERT INTO late VALUES') end
            end
            function thread_done() con:bulk_insert_done() end"
        );
        let mut settings =
            LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), &text, 2_000) };
        if ramp_s > 0 {
            // The rows of a warm-up and a ramp-down are not those of the measured phase.
            (settings.events_max, settings.pace) = (None, support::jittered(500.0));
            (settings.warmup, settings.time, settings.ramp_down) =
                (Duration::from_secs(1), Duration::from_secs(1), Duration::from_secs(ramp_s));
        }
        let record = try_run(&settings).unwrap();
        let check = record.verdict.checks.iter().find(|check| check.name == "bulk-rows");
        assert_eq!(check.is_some(), is_late, "{every} {ramp_s} {:?}", record.verdict);
        assert!(check.is_none_or(|check| check.found <= 1.0), "{check:?}");
    }
    assert!(number(&server, "SELECT COUNT(*) FROM late") >= 4_000);
}

/// Rows of one connection wait until `thread_done`, or are dropped, while another one sends at each event.
#[test]
fn rows_that_one_of_two_connections_keeps_are_not_sent() {
    let Some(server) = MariaDb::start() else { return };
    let mut client = server.connect("app", Some(PASSWORD), "bench");
    client.query_drop("CREATE TABLE kept (id INT)").unwrap();
    for last in ["b:bulk_insert_done()", "b:disconnect()"] {
        let text = format!(
            "function thread_init()
              a = sysbench.sql.driver():connect() b = sysbench.sql.driver():connect()
              b:bulk_insert_init('INSERT INTO kept VALUES')
            end
            function event()
              a:bulk_insert_init('INSERT INTO kept VALUES') a:bulk_insert_next('(1)') a:bulk_insert_done()
              b:bulk_insert_next('(2)')
            end
            function thread_done() {last} end"
        );
        let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), &text, 500) };
        let record = try_run(&settings).unwrap();
        let check = record.verdict.checks.iter().find(|check| check.name == "bulk-rows");
        assert!(check.is_some_and(|check| (check.found - 0.5).abs() < 0.01), "{last}: {check:?}");
    }
}
