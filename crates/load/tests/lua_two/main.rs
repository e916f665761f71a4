//! Scripts in Lua that collect rows, reconnect or report: what a look, a failure or an outage must not do.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "it is test code, though no test function")]

#[path = "../support/mod.rs"]
mod support;

mod rows;

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

/// A statement of `before_restart_event` fails as one of an event: with its connection, or alone.
#[test]
fn a_failed_hook_fails_its_event_and_the_load_continues() {
    let Some(server) = MariaDb::start() else { return };
    let text = "function thread_init() con = sysbench.sql.driver():connect(); n, calls = 0, 0 end
        function event()
          n = n + 1
          if n % 5 == 3 then con:query(\"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213\") end
          con:query('SELECT 1')
        end
        function sysbench.hooks.before_restart_event()
          calls = calls + 1
          if calls == 1 then con:query('KILL CONNECTION_ID()') end
          if calls == 3 then con:query('SELECT 1 FROM missing') end
        end
        function thread_done() assert(calls >= 6 and n > 20, calls .. ' calls, ' .. n .. ' tries') end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), text, 20) };
    let record = try_run(&settings).unwrap();
    support::assert_books(&record);
    let about = format!("{:?} {:?} {:?}", record.counts, record.errors, record.error_samples);
    assert_eq!((record.counts.done, record.counts.failed), (19, 1), "{about}");
    assert_eq!((record.errors.connection, record.errors.application), (1, 1), "{about}");
    // An error of the script itself ends the load.
    let own = text.replace("SELECT 1 FROM missing')", "' .. nil)");
    let error = try_run(&script(&server.url(), &own, 20)).unwrap_err().to_string();
    assert!(error.contains("own.lua:10: attempt to concatenate"), "{error}");
}

/// The hook fails by an error that an event may ignore: its event must not run without it.
#[test]
fn an_event_does_not_begin_again_without_its_hook() {
    let Some(server) = MariaDb::start() else { return };
    let text = "function thread_init() con = sysbench.sql.driver():connect(); n, ready = 0, true end
        function event()
          n = n + 1
          if not ready then error('the event runs without its hook') end
          if n == 3 then
            ready = false
            con:query(\"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213\")
          end
        end
        function sysbench.hooks.before_restart_event()
          ready = n > 3
          con:query(\"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213\")
        end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), text, 3) };
    let record = try_run(&settings).unwrap();
    assert_eq!((record.counts.done, record.counts.failed), (2, 1), "{:?}", record.error_samples);
    assert_eq!(record.errors.application, 1, "{:?}", record.errors);
}

/// The hook fails on the new connections: the rows that events have collected wait for the next one.
#[test]
fn a_hook_that_fails_after_a_lost_connection_loses_no_rows() {
    let Some(server) = MariaDb::start() else { return };
    let mut own = server.connect("app", Some(PASSWORD), "bench");
    own.query_drop("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let text = "function thread_init()
          con = sysbench.sql.driver():connect()
          con:bulk_insert_init('INSERT INTO t VALUES')
          n, calls = 0, 0
        end
        function event()
          n = n + 1
          con:bulk_insert_next('(' .. n .. ')')
          if n == 5 then con:query('KILL CONNECTION_ID()') end
        end
        function sysbench.hooks.before_restart_event()
          calls = calls + 1
          if calls < 3 then con:query(calls == 1 and 'SELECT 1 FROM missing' or 'KILL CONNECTION_ID()') end
        end
        function thread_done()
          con:bulk_insert_done()
          assert(calls == 3, calls)
        end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), text, 20) };
    let record = try_run(&settings).unwrap();
    let about = format!("{:?} {:?} {:?}", record.counts, record.errors, record.error_samples);
    assert_eq!((record.counts.done, record.counts.failed), (20, 0), "{about}");
    // The fifth event has added a row in each of its two tries.
    assert_eq!(number(&server, "SELECT COUNT(*) FROM t"), 21, "{about}");
    let check = record.verdict.checks.iter().find(|check| check.name == "thread-done");
    assert!(check.is_none_or(|check| check.ok), "{check:?}");
    // The hook never succeeds: the rows of the events before are lost, and the record says so.
    let never = text.replace("if calls < 3", "if true");
    let pace = support::jittered(50.0);
    let long = LoadSettings { events_max: None, time: Duration::from_secs(2), pace, ..script("", &never, 1) };
    let record =
        try_run(&LoadSettings { target: settings.target, prepare: PreparePolicy::Never, ..long }).unwrap();
    let check = record.verdict.checks.iter().find(|check| check.name == "thread-done");
    assert!(record.counts.done > 0 && check.is_some_and(|check| !check.ok), "{:?}", record.counts);
}

/// Loops that wait for rows, or for anything else that the look does not bring about.
#[test]
fn a_look_ends_though_the_script_catches_each_error() {
    let Some(server) = MariaDb::start() else { return };
    for waits in [
        "local function try() return con:query_row('SELECT 1') + 1 end repeat local ok = pcall(try) until ok",
        // The fields of a result without rows.
        "local rs = con:query('SELECT 1') assert(rs.nrows <= 1 and rs.nfields <= 1) rs:fetch_all() rs:free()",
        "local try = coroutine.wrap(function() while true do
           pcall(con.query, con, 'SELECT 1') coroutine.yield(sysbench.tid == nil) end end)
         repeat until try() or con:query_row('SELECT 1')",
        "local st = con:prepare('SELECT 1')
         while not pcall(function() return st:execute():fetch_row()[1] end) do end",
    ] {
        let text = format!(
            "function prepare() error('not called') end
             function thread_init() con = sysbench.sql.driver():connect() end
             function event() {waits} end"
        );
        let settings = LoadSettings { prepare: PreparePolicy::Auto, ..script(&server.url(), &text, 5) };
        assert_eq!(try_run(&settings).unwrap().counts.done, 5, "{waits}");
    }
    let text = "function prepare() error('not called') end
        function thread_init() con = sysbench.sql.driver():connect() end
        function event() if not con:query_row('SELECT 1') then while true do end end end";
    let settings = LoadSettings { prepare: PreparePolicy::Auto, ..script(&server.url(), text, 5) };
    assert_eq!(try_run(&settings).unwrap().counts.done, 5);
}

/// The script catches the error that shows the missing table, and tries again.
#[test]
fn a_look_finds_a_missing_table_though_the_script_catches_each_error() {
    let Some(server) = MariaDb::start() else { return };
    let text = "function prepare()
          con = sysbench.sql.driver():connect()
          con:query('CREATE TABLE t (id INT)')
          con:query('INSERT INTO t VALUES (7)')
        end
        function thread_init() con = sysbench.sql.driver():connect() end
        local function try() return con:query_row('SELECT id FROM t') + 0 end
        function event() repeat local ok = pcall(try) until ok end";
    for _ in 0..2 {
        let settings = LoadSettings { prepare: PreparePolicy::Auto, ..script(&server.url(), text, 5) };
        assert_eq!(try_run(&settings).unwrap().counts.done, 5);
        assert_eq!(number(&server, "SELECT COUNT(*) FROM t"), 1);
    }
}

/// An `UPDATE` yields a result that equals nil and is not false, as in sysbench. Reading a field of it ended
/// the program with a signal, as it ends sysbench.
#[test]
fn a_field_of_a_result_without_rows_is_an_error_that_names_the_statement() {
    let Some(server) = MariaDb::start() else { return };
    let text = "function thread_init()
          con = sysbench.sql.driver():connect()
          con:query('CREATE TABLE IF NOT EXISTS t (id INT)')
          st = con:prepare('DELETE FROM t WHERE id = 5')
        end
        local function fails(of, kind)
          local is_well, why = pcall(of)
          assert(not is_well and why:find(kind, 1, true) and why:find('returns no rows', 1, true), why)
        end
        function event()
          local rs = con:query('  update t SET id = 1')
          assert(rs == nil and tostring(rs) == '<sql_result>' and rs:fetch_row() == nil)
          assert(not rs == false, 'if rs then')
          fails(function() return rs.nrows end, 'no `nrows`: UPDATE')
          fails(function() return rs:fetch_all() end, 'no `fetch_all`: UPDATE')
          local none = st:execute()
          assert(none == nil)
          fails(function() return none.nfields end, 'no `nfields`: DELETE')
          assert(con:query('SELECT 1').nrows == 1)
          return con:query('INSERT INTO t VALUES (7)').nrows
        end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), text, 3) };
    // The script catches all but the last.
    let Err(LoadError::Script { text }) = try_run(&settings) else { panic!("the script failed") };
    assert!(text.starts_with("folder/own.lua:20: no `nrows`: INSERT returns no rows"), "{text}");
    assert_eq!(number(&server, "SELECT COUNT(*) FROM t"), 1);
}

/// Functions and names of sysbench 1.0 for scripts before it.
#[test]
fn names_of_older_versions_are_those_of_sysbench() {
    let text = "local body = test
        function event()
          assert(body == sysbench.cmdline.script_path and body:match('(.*/)') == 'folder/', body)
          assert(mysql_table_engine == 'innodb' and myisam_max_rows == 1000000)
          assert(DB_ERROR_NONE == 0 and DB_ERROR_RESTART_TRANSACTION == 1 and DB_ERROR_FAILED == 2)
          local found, seen = 0, {}
          for i = 1, 50 do
            local n = sb_rand_uniq(7, 56)
            assert(n >= 7 and n <= 56 and n % 1 == 0 and not seen[n], n)
            seen[n] = true
          end
          -- The range is used up; the next round begins.
          assert(sb_rand_uniq(7, 56) <= 56 and sb_rand_uniq(3, 3) == 3 and sb_rand_uniq(3, 3) == 3)
          for i = 1, 2000 do
            assert(sb_rand_uniq() <= 4294967295 and sb_rand_uniq(100) >= 100)
            local n = sb_rnd()
            assert(type(n) == 'number' and n >= 0 and n < 4294967296 and n % 1 == 0, n)
            if n > 2147483647 then found = found + 1 end
          end
          assert(found > 800 and found < 1200, found)
          assert(not pcall(sb_rand_uniq, 5, 4))
        end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script("null:", text, 1) };
    assert_eq!(try_run(&settings).unwrap().counts.done, 1);
}

/// A parameter of text has a length: without one, its first value would be written beyond it.
#[test]
fn a_parameter_of_text_without_a_length_is_an_error() {
    let Some(server) = MariaDb::start() else { return };
    let text = "function thread_init()
          con = sysbench.sql.driver():connect()
          st = con:prepare('SELECT ?')
        end
        function event()
          for _, kind in ipairs({sysbench.sql.type.CHAR, sysbench.sql.type.VARCHAR}) do
            for _, length in ipairs({false, -1, 0/0, '8', 2^32}) do
              local ok, why = pcall(st.bind_create, st, kind, length or nil)
              assert(not ok and tostring(why):find('length'), tostring(length) .. ': ' .. tostring(why))
            end
          end
          local p = st:bind_create(sysbench.sql.type.VARCHAR, 3)
          st:bind_param(p)
          p:set('abcdef')
          assert(st:execute():fetch_row()[1] == 'abc')
        end";
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), text, 1) };
    assert_eq!(try_run(&settings).unwrap().counts.done, 1);
}

/// A misspelt field is nil, and would be a null pointer.
#[test]
fn a_parameter_that_is_nil_is_an_error_with_its_place() {
    let Some(server) = MariaDb::start() else { return };
    let text = "function thread_init()
          con = sysbench.sql.driver():connect()
          st = con:prepare('SELECT ?, ?')
          param = {id = st:bind_create(sysbench.sql.type.INT)}
        end
        function event()
          st:bind_param(param.id, param.idd)
          st:execute()
        end";
    for prepare in [PreparePolicy::Auto, PreparePolicy::Never] {
        let settings = LoadSettings { prepare, ..script(&server.url(), text, 3) };
        let Err(LoadError::Script { text }) = try_run(&settings) else { panic!("the script failed") };
        assert!(text.starts_with("folder/own.lua:7: bind_param: parameter 2 is nil"), "{text}");
    }
}

/// The hook at the end has the statements of the measured phase, as its time and its events are.
#[test]
fn the_last_report_has_no_statements_of_a_ramp_down() {
    let Some(server) = MariaDb::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let text = format!(
        "function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query('SELECT 1') end
        function sysbench.hooks.report_cumulative(stat)
          local file = io.open('{}', 'a') file:write(stat.reads, ' ', stat.events, '\\n') file:close()
        end",
        notes.display()
    );
    let settings = LoadSettings {
        events_max: None,
        time: Duration::from_secs(1),
        ramp_down: Duration::from_secs(3),
        pace: support::jittered(100.0),
        prepare: PreparePolicy::Never,
        ..script(&server.url(), &text, 1)
    };
    try_run(&settings).unwrap();
    let found = numbers(&notes);
    // The ramp-down has 150 events.
    assert!(found[0][0].abs_diff(found[0][1]) < 30, "{found:?}");
}

#[test]
fn a_script_knows_whether_its_statements_are_prepared() {
    let of = |prepared: bool, given: &[(&str, &str)], expected: &str| {
        let text = format!("function event() assert(sysbench.opt.db_ps_mode == '{expected}') end");
        let mut settings = LoadSettings { prepare: PreparePolicy::Never, ..script("null:", &text, 1) };
        settings.oltp.prepared = prepared;
        settings.scripts.defines = given.iter().map(|(n, value)| ((*n).into(), (*value).into())).collect();
        try_run(&settings)
    };
    for (prepared, given, expected) in [
        (true, &[][..], "auto"),
        (false, &[], "disable"),
        (true, &[("db-ps-mode", "disable")], "disable"),
        (false, &[("db_ps_mode", "auto")], "disable"),
    ] {
        assert_eq!(of(prepared, given, expected).unwrap().counts.done, 1, "{prepared} {given:?}");
    }
    let wrong = of(true, &[("db-ps-mode", "disabled")], "auto").unwrap_err().to_string();
    assert!(
        wrong.contains("invalid value 'disabled' for '--db-ps-mode': expected auto or disable"),
        "{wrong}"
    );
}

/// Both hosts are one server: a number that both draw would be a key twice.
#[test]
fn hosts_of_one_database_draw_no_unique_number_twice() {
    let Some(server) = MariaDb::start() else { return };
    let mut client = server.connect("app", Some(PASSWORD), "bench");
    client.query_drop("CREATE TABLE u (id INT PRIMARY KEY)").unwrap();
    let text = "function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query('INSERT INTO u VALUES (' .. sb_rand_uniq(1, 4000) .. ')') end";
    let url = server.url();
    let place = url[url.find('@').unwrap() + 1..url.rfind('/').unwrap()].to_owned();
    let both = url.replace(&place, &format!("{place},{}", place.replace("127.0.0.1", "localhost")));
    let settings = LoadSettings { prepare: PreparePolicy::Never, threads: 2, ..script(&both, text, 4_000) };
    let record = try_run(&settings).unwrap();
    assert_eq!((record.counts.done, record.counts.failed), (4_000, 0), "{:?}", record.error_samples);
    assert_eq!(number(&server, "SELECT COUNT(*) FROM u"), 4_000);
}

#[test]
fn a_load_with_threads_that_the_script_ended_is_invalid() {
    let text = "local n = 0 function event() n = n + 1 return n == 5 or nil end";
    let settings = LoadSettings { threads: 2, ..script("null:", text, 1_000) };
    let record = try_run(&LoadSettings { prepare: PreparePolicy::Never, ..settings }).unwrap();
    let check = record.verdict.checks.iter().find(|check| check.name == "threads-ended").unwrap();
    assert!(!check.ok && check.found > 0.0 && check.text.contains("of 2 threads"), "{check:?}");
}
