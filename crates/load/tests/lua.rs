//! Scripts in Lua, with sysbench's interface.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "it is test code, though no test function")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "Lua's numbers are counts here")]

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

const BANK: &str = include_str!("scripts/bank.lua");
const VALUES: &str = include_str!("scripts/values.lua");

/// A load of a script, in a closed loop, which ends after some events.
fn script(target: &str, text: &str, options: &[(&str, &str)], events: u64) -> LoadSettings {
    let files = vec![ScriptFile { name: "folder/own.lua".to_owned(), weight: 1, text: text.to_owned() }];
    let defines = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    LoadSettings {
        workload: Workload::Script,
        scripts: ScriptSettings { files, defines },
        pace: Loop::CLOSED,
        events_max: Some(events),
        time: Duration::from_mins(10),
        threads: 2,
        retries_max: 1_000,
        ..support::settings(target)
    }
}

fn failure_of(text: &str) -> LoadError {
    load::run(&script("null:", text, &[], 3), &Stop::new(), &mut |_| {}).unwrap_err()
}

fn count(record: &LoadRecord, operation: &str) -> u64 {
    record.operations.get(operation).map_or(0, |o| o.service.known.count())
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Lines of the notes that begin with a word.
fn of<'a>(notes: &'a [String], word: &str) -> Vec<&'a str> {
    notes.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ').or(Some(""))).collect()
}

#[test]
fn each_function_of_a_script_is_called_as_often_as_sysbench_calls_it() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let text = format!(
        "local function note(...) local f = io.open('{}', 'a'); f:write(table.concat({{...}}, ' '), '\\n'); f:close() end
         sysbench.cmdline.options = {{ size = {{'x', 3}}, flag = {{'x', false}}, ['with-dash'] = {{'x', 'no'}} }}
         function init(...) note('init', select('#', ...), tostring((...))) end
         function thread_init(t) note('thread_init', t, sysbench.tid) end
         function event(t) note('event', t, sysbench.opt.size + 1, tostring(sysbench.opt.flag),
             sysbench.opt.with_dash, sysbench.opt.threads, sysbench.opt.events, sysbench.cmdline.command) end
         function thread_done(t) note('thread_done', t) end
         function done() note('done') end",
        notes.display()
    );
    let options = [("size", "4"), ("flag", "on"), ("with_dash", "yes")];
    let record = support::run(&script("null:", &text, &options, 20));
    assert_eq!((record.counts.done, record.counts.failed), (20, 0), "{:?}", record.error_samples);
    let notes = lines(&notes);
    assert_eq!(of(&notes, "init"), ["1 nil"], "{notes:?}");
    let mut begun = of(&notes, "thread_init");
    begun.sort_unstable();
    assert_eq!(begun, ["0 0", "1 1"]);
    assert_eq!(of(&notes, "thread_done").len(), 2);
    assert_eq!(of(&notes, "done"), [""]);
    let events = of(&notes, "event");
    assert_eq!(events.len(), 20);
    assert!(events.iter().all(|event| event[1..] == *" 5 true yes 2 20 run"), "{events:?}");
    assert!(notes[0].starts_with("init") && notes.last().unwrap().starts_with("done"), "{notes:?}");
}

#[test]
fn an_error_of_the_script_has_file_line_and_traceback() {
    let run_time =
        failure_of("local function inner()\n  return nil + 1\nend\nfunction event()\n  inner()\nend");
    let text = run_time.to_string();
    assert_eq!(run_time.class(), ErrorClass::Server, "{text}");
    assert!(text.starts_with("folder/own.lua:2: attempt to perform arithmetic on a nil value"), "{text}");
    assert!(text.contains("stack traceback:") && text.contains("folder/own.lua:5: in function"), "{text}");
    for (text, class, expected) in [
        ("function event(\n", ErrorClass::Usage, "folder/own.lua:2: "),
        ("function run() end", ErrorClass::Usage, "event()"),
        ("error('in the body')", ErrorClass::Server, "folder/own.lua:1: in the body"),
        (
            "function init() error('in init') end function event() end",
            ErrorClass::Server,
            "own.lua:1: in init",
        ),
        ("function thread_init() x.y = 1 end function event() end", ErrorClass::Server, "own.lua:1: attempt"),
        (
            "function event() end function thread_done() error('late') end",
            ErrorClass::Server,
            "own.lua:1: late",
        ),
        (
            "sysbench.cmdline.options = { {} } function event() end",
            ErrorClass::Usage,
            "wrong table structure",
        ),
        ("function event() sysbench.sql.driver() end", ErrorClass::Server, "no SQL server"),
    ] {
        let error = failure_of(text);
        assert!(error.to_string().contains(expected), "{text}: {error}");
        assert_eq!(error.class(), class, "{text}: {error}");
    }
    let unknown = script("null:", "function event() end", &[("unknown", "1")], 1);
    let error = support::error_of(&unknown);
    assert!(error.to_string().contains("no option '--unknown'"), "{error}");
    assert_eq!(error.class(), ErrorClass::Usage);
}

#[test]
fn a_value_from_an_event_ends_its_thread() {
    for (value, ended) in [("0", 1), ("true", 1), ("{}", 1), ("false", 6), ("nil", 6)] {
        let text = format!("function event() return {value} end");
        let record = support::run(&LoadSettings { threads: 1, ..script("null:", &text, &[], 6) });
        assert_eq!(record.counts.done, ended, "{value}");
    }
}

#[test]
fn a_script_may_have_its_own_loop_over_the_events() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let text = format!(
        "ffi.cdef[[bool sb_more_events(int); void sb_event_start(int); void sb_event_stop(int);]]
        local function note(text) local f = io.open('{}', 'a'); f:write(text, '\\n'); f:close() end
        function event() error('not called') end
        function thread_run(thread)
          local n = 0
          while ffi.C.sb_more_events(thread) do
            ffi.C.sb_event_start(thread)
            n = n + 1
            if n == 100 then error('the loop fails') end
            ffi.C.sb_event_stop(thread)
          end
          note('loop ' .. n)
        end
        function thread_done() note('thread_done') end",
        notes.display()
    );
    let record = support::run(&LoadSettings { threads: 1, ..script("null:", &text, &[], 20) });
    assert_eq!(record.counts.done, 20);
    assert_eq!(lines(&notes), ["loop 20", "thread_done"]);
    let error = support::error_of(&LoadSettings { threads: 1, ..script("null:", &text, &[], 200) });
    let error = error.to_string();
    assert!(error.contains("own.lua:9: the loop fails") && error.contains("stack traceback"), "{error}");
    let once = "function event() end function thread_run() end";
    let record = support::run(&LoadSettings { threads: 1, ..script("null:", once, &[], 20) });
    assert_eq!(record.counts.done, 1);
}

#[test]
fn a_script_that_never_returns_does_not_keep_the_load() {
    let text = "function event() while true do end end";
    let settings = LoadSettings {
        events_max: None,
        time: Duration::from_millis(300),
        drain: Duration::from_millis(200),
        ..script("null:", text, &[], 1)
    };
    let record = load::run(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((record.counts.done, record.counts.unfinished), (0, 2));
}

/// A hook that takes longer than the intervals delays neither them nor the end of the load.
#[test]
fn a_slow_report_hook_does_not_hold_up_the_load() {
    let text = "function event() end
        function sysbench.hooks.report_intermediate() local till = os.clock() + 0.12; while os.clock() < till do end end";
    let settings = LoadSettings {
        events_max: None,
        pace: support::jittered(200.0),
        time: Duration::from_secs(1),
        interval: Duration::from_millis(100),
        ..script("null:", text, &[], 1)
    };
    let mut done = Vec::new();
    let record = load::run(&settings, &Stop::new(), &mut |event| {
        if let load::Event::Interval(progress) = event
            && progress.phase == record::load::Phase::Measure
        {
            done.push(progress.latency.count());
        }
    });
    // The last ones may be late on a busy machine, and end after the phase.
    let counted = record.unwrap().counts.done;
    assert!((190..=200).contains(&counted), "{counted}");
    assert_eq!(done.iter().sum::<u64>(), counted);
    // Each interval has the events of its tenth of a second, and not those of the hook's time.
    assert!(done.len() == 10 && done.iter().all(|n| (12..=28).contains(n)), "{done:?}");
    let endless = "function event() end function sysbench.hooks.report_intermediate() while true do end end";
    let files = vec![ScriptFile { name: "own.lua".to_owned(), weight: 1, text: endless.to_owned() }];
    let scripts = ScriptSettings { files, defines: Vec::new() };
    let endless = LoadSettings { scripts, drain: Duration::from_millis(100), ..settings };
    let error = support::error_of(&endless).to_string();
    assert!(error.contains("report_intermediate did not return"), "{error}");
    let percentile = script("null:", "function event() end", &[("percentile", "200")], 1);
    assert!(support::error_of(&percentile).to_string().contains("expected 0 to 100"));
}

#[test]
fn declarations_are_read_without_a_server_and_without_output() {
    let read = |text: &str| load::declarations("own.lua", text, Some("run"));
    let found = read(BANK).unwrap();
    let names: Vec<_> = found.options.iter().map(|option| option.name.as_str()).collect();
    assert_eq!(names, ["accounts", "balance", "crash-every", "report", "sorted"]);
    assert_eq!(found.options[0].default.as_deref(), Some("100"));
    assert_eq!(found.commands, ["audit", "cleanup", "prepare"]);
    assert!(found.usual.iter().any(|option| option.name == "rand-type"));
    let connects = "sysbench.cmdline.options = { a = {'x'} } con = sysbench.sql.driver():connect()";
    assert_eq!(read(connects).unwrap().options.len(), 1);
    assert_eq!(read("x y").unwrap_err().class(), ErrorClass::Usage);
    assert_eq!(read("error('x')").unwrap_err().class(), ErrorClass::Server);
}

/// Checks that are the same on each server.
///
/// - `sum`: the sum of the balances of [`BANK`].
fn check_server(target: &str, sum: &dyn Fn() -> i64) {
    check_values(target);
    check_transfers(target, sum);
    check_errors(target, sum);
    check_commands(target);
    check_statements(target);
}

/// Statements that a script forgets are closed, and a look at the tables ends also if an event waits for
/// rows.
fn check_statements(target: &str) {
    let is_postgres = target.starts_with("postgres");
    let count = if is_postgres {
        "SELECT COUNT(*) FROM pg_prepared_statements"
    } else {
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'PREPARED_STMT_COUNT'"
    };
    let text = format!(
        "function thread_init() con = sysbench.sql.driver():connect() end
         function event() con:prepare('SELECT 1'); con:prepare('SELECT 2'):execute() end
         function thread_done()
           collectgarbage() collectgarbage()
           local left = tonumber((con:query_row(\"{count}\")))
           assert(left == 0, left .. ' statements are left')
         end"
    );
    let record = support::run(&LoadSettings { threads: 1, ..script(target, &text, &[], 500) });
    assert_eq!((record.counts.done, record.counts.failed), (500, 0), "{:?}", record.error_samples);
    let waits = "function prepare() error('not called') end
        function thread_init() con = sysbench.sql.driver():connect() end
        function event() while con:query('SELECT 1') == nil do end end";
    let settings = LoadSettings { prepare: PreparePolicy::Auto, ..script(target, waits, &[], 5) };
    assert_eq!(support::run(&settings).counts.done, 5);
}

fn check_values(target: &str) {
    let values = support::run(&LoadSettings { threads: 1, ..script(target, VALUES, &[], 3) });
    assert_eq!((values.counts.done, values.counts.failed), (3, 0), "{:?}", values.error_samples);
    let mut as_text = LoadSettings { threads: 1, ..script(target, VALUES, &[], 2) };
    as_text.oltp.prepared = false;
    let values = load::run(&as_text, &Stop::new(), &mut |_| {});
    // Without prepared statements, nothing is prepared that could be refused.
    assert!(matches!(values, Err(LoadError::Script { .. })), "{values:?}");
}

fn check_transfers(target: &str, sum: &dyn Fn() -> i64) {
    let dir = tempfile::tempdir().unwrap();
    // Nothing exists: the script's own command prepares.
    let never = LoadSettings { prepare: PreparePolicy::Never, ..script(target, BANK, &[], 10) };
    let error = support::error_of(&never).to_string();
    assert!(error.contains("own.lua:") && error.contains("account"), "{error}");
    let notes = dir.path().join("notes");
    let options = [("report", notes.to_str().unwrap()), ("accounts", "50")];
    let record = support::run(&script(target, BANK, &options, 400));
    support::assert_books(&record);
    assert_eq!((record.counts.done, record.counts.failed), (400, 0), "{:?}", record.error_samples);
    assert_eq!(sum(), 50_000);
    let tries = 400 + record.counts.retries;
    for (operation, least, most) in [
        ("begin", 400, tries),
        ("select", 400, tries),
        ("update", 800, 2 * tries),
        ("insert", 400, tries),
        ("commit", 400, 400),
    ] {
        let found = count(&record, operation);
        assert!((least..=most).contains(&found), "{operation}: {found}");
    }
    let notes = lines(&notes);
    let whole: Vec<u64> =
        of(&notes, "whole")[0].split(' ').map(|n| n.parse::<f64>().unwrap() as u64).collect();
    assert_eq!(whole[0], 400);
    // Without a warm-up no statement is missed; an event that began again counts its statements again.
    let [reads, writes, others] = [whole[1], whole[2], whole[3]];
    assert!(reads >= 400 && writes >= 1_200 && others >= 800, "{notes:?}");
}

fn check_errors(target: &str, sum: &dyn Fn() -> i64) {
    let is_postgres = target.starts_with("postgres");
    // A transfer that breaks off in its middle leaves nothing behind.
    let options = [("accounts", "50"), ("crash-every", "10")];
    let settings = LoadSettings { retries_max: 0, threads: 1, ..script(target, BANK, &options, 100) };
    let record = support::run(&settings);
    assert_eq!((record.counts.done, record.counts.failed), (90, 10), "{:?}", record.error_samples);
    let class = if is_postgres { record.errors.transient } else { record.errors.application };
    assert_eq!(class, 10, "{:?}", record.errors);
    assert!(record.error_samples[0].contains(if is_postgres { "23505" } else { "1062" }), "{record:?}");
    assert_eq!(sum(), 50_000);

    // Transfers in both directions deadlock, and begin again.
    let options = [("accounts", "3"), ("sorted", "off")];
    let settings =
        LoadSettings { threads: 6, prepare: PreparePolicy::Never, ..script(target, BANK, &options, 1_500) };
    let record = support::run(&settings);
    support::assert_books(&record);
    assert_eq!((record.counts.done, record.counts.failed), (1_500, 0), "{:?}", record.error_samples);
    assert!(record.counts.retries > 0 && record.errors.transient == record.counts.retries, "{record:?}");
    assert_eq!(sum(), 50_000);
}

fn check_commands(target: &str) {
    let run = |command: &str, options: &[(&str, &str)]| {
        load::script_command(&script(target, BANK, options, 1), Some(command), &Stop::new())
    };
    run("audit", &[("accounts", "50")]).unwrap();
    let error = run("audit", &[("accounts", "60")]).unwrap_err();
    assert!(error.to_string().contains("money was made or lost"), "{error}");
    let error = run("absent", &[]).unwrap_err();
    assert!(error.to_string().contains("its commands are audit, cleanup, prepare"), "{error}");
    run("cleanup", &[]).unwrap();
    run("prepare", &[("accounts", "50")]).unwrap();
    let error = run("prepare", &[("accounts", "50")]).unwrap_err();
    assert!(error.to_string().contains("account"), "{error}");
}

#[test]
fn scripts_run_on_mariadb() {
    let Some(mut server) = MariaDb::start() else { return };
    let ask = |server: &MariaDb, sql: &str| -> i64 {
        server.connect("app", Some(PASSWORD), "bench").query_first(sql).unwrap().unwrap()
    };
    check_server(&server.url(), &|| ask(&server, "SELECT SUM(balance) FROM account"));
    // The server's own counters.
    let com = |server: &MariaDb, name: &str| -> u64 {
        let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row: (String, u64) = server.connect("root", None, "mysql").query_first(sql).unwrap().unwrap();
        row.1
    };
    let names = ["Com_select", "Com_update", "Com_insert", "Com_commit"];
    // A reading of the counters connects, and the client of this test asks the server for its settings then.
    let first = names.map(|name| com(&server, name));
    let before = names.map(|name| com(&server, name));
    let own: Vec<u64> = first.iter().zip(before).map(|(first, before)| before - first).collect();
    let options = [("accounts", "50")];
    let settings =
        LoadSettings { prepare: PreparePolicy::Never, ..script(&server.url(), BANK, &options, 500) };
    let record = support::run(&settings);
    let after = names.map(|name| com(&server, name));
    for (((name, before), after), own) in names.iter().zip(before).zip(after).zip(own) {
        let operation = name.trim_start_matches("Com_");
        assert_eq!(after - before - own, count(&record, operation), "{name}");
    }
    // A script that catches the loss of its connection gets another one for the event after it.
    let catches = "function thread_init() con = sysbench.sql.driver():connect(); n = 0 end
        function event()
          n = n + 1
          if n == 5 then assert(not pcall(con.query, con, 'KILL CONNECTION_ID()')) return end
          con:query('SELECT 1')
        end";
    let settings = LoadSettings { threads: 1, ..script(&server.url(), catches, &[], 20) };
    let record = support::run(&settings);
    assert_eq!((record.counts.done, record.counts.failed), (20, 0), "{:?}", record.error_samples);
    assert_eq!((record.errors.connection, count(&record, "select")), (1, 19), "{:?}", record.errors);
    crash(&mut server);
}

/// A server that crashes: the Lua states continue on new connections.
fn crash(server: &mut MariaDb) {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let options = [("accounts", "50"), ("report", notes.to_str().unwrap())];
    let settings = LoadSettings {
        events_max: None,
        time: Duration::from_secs(6),
        pace: support::jittered(100.0),
        prepare: PreparePolicy::Never,
        ..script(&server.url(), BANK, &options, 1)
    };
    let (record, ()) = support::run_with_trouble(&settings, || {
        server.crash();
        server.restart();
    });
    support::assert_books(&record);
    assert_eq!(record.counts.planned, 600);
    assert_eq!((record.counts.done, record.counts.failed), (600, 0), "{:?}", record.error_samples);
    assert_eq!(record.outages.len(), 1, "{:?}", record.outages);
    assert!(record.errors.connection >= 1);
    let notes = lines(&notes);
    // Each thread began once, and counted its events through the outage.
    assert_eq!(of(&notes, "thread_init").len(), 2, "{notes:?}");
    // A connection that is lost between two events has no event to begin again.
    assert!(of(&notes, "restart").iter().all(|restart| restart.contains("2013")), "{notes:?}");
    let counted: u64 = of(&notes, "thread_done")
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(counted >= 600, "{notes:?}");
}

#[test]
fn scripts_run_on_postgresql() {
    let Some(server) = Postgres::start() else { return };
    let sum = || server.ask("bench", "SELECT sum(balance) FROM account").trim().parse().unwrap();
    check_server(&server.url(), &sum);
}

/// Files in a folder, by name; the script is the first.
fn files_in(folder: &Path, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }
    folder.join(files[0].0).to_str().unwrap().to_owned()
}

/// A script of a module, of a file and of a chunk, which writes what it has to `notes`.
fn of_modules(notes: &Path) -> String {
    format!(
        "local folder = sysbench.cmdline.script_path:match('(.*/)')
         local a, b, c = require('own.module'), dofile(folder .. 'old.lua'), loadfile(folder .. 'chunk.lua')()
         function event() end
         function thread_init()
           local f = io.open('{}', 'a')
           f:write('has ', a, ' ', b, ' ', c, ' ', tostring(package.loaders[3]), '\\n')
           f:close()
         end",
        notes.display()
    )
}

#[test]
fn a_run_has_the_modules_of_its_record_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let text = of_modules(&notes);
    let one = [
        ("own.lua", &*text),
        ("own/module.lua", "#!/usr/bin/lua\nreturn 'm1'"),
        ("old.lua", "return 'd1'"),
        ("chunk.lua", "return 'l1'"),
    ];
    let path = files_in(dir.path(), &one);
    let files = load::LuaScript::read(&path).unwrap().into_files();
    let names: Vec<_> =
        files.iter().map(|file| file.name.strip_prefix(dir.path().to_str().unwrap())).collect();
    assert_eq!(names, [Some("/own.lua"), Some("/own/module.lua"), Some("/old.lua"), Some("/chunk.lua")]);
    // The modules are edited after the record was begun.
    files_in(
        dir.path(),
        &[("own/module.lua", "return 'm2'"), ("old.lua", "return 'd2'"), ("chunk.lua", "return 'l2'")],
    );
    let scripts = ScriptSettings { files: files.clone(), defines: Vec::new() };
    support::run(&LoadSettings { scripts, ..script("null:", "", &[], 3) });
    assert_eq!(of(&lines(&notes), "has"), ["m1 d1 l1 nil"; 2]);

    // As `resume` reads a script: with the texts of the record, found by their ends in another folder.
    let otherwise = "name the plan";
    let moved: Vec<ScriptFile> = files
        .iter()
        .map(|file| ScriptFile {
            name: file.name.replace(dir.path().to_str().unwrap(), "/elsewhere"),
            ..file.clone()
        })
        .collect();
    for files in [&files, &moved] {
        assert_eq!(load::LuaScript::known(files, otherwise).unwrap().into_files(), *files);
    }
    let unknown = load::LuaScript::known(&files[..1], otherwise).unwrap_err().to_string();
    assert!(unknown.contains("module 'own.module' is not recorded: name the plan"), "{unknown}");
    // A module that the body does not load has no text in the record.
    for late in [
        "require('own.module')",
        "dofile('chunk.lua')",
        "assert(loadfile('chunk.lua'))",
        "package.loadlib('x', 'y')",
    ] {
        let failed = failure_of(&format!("function event() {late} end")).to_string();
        assert!(failed.contains("is not recorded") || failed.contains("loadlib"), "{late}: {failed}");
    }
}

#[test]
fn a_module_that_an_event_loads_by_its_name_is_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes");
    let text = format!(
        "function event()
           local inspect = require(\"inspect\")
           local f = io.open('{}', 'a')
           f:write('has ', inspect.of(), '\\n')
           f:close()
         end",
        notes.display()
    );
    let deep = "return {of = function() return require 'own.deep' end}";
    let files =
        [("own.lua", &*text), ("inspect.lua", deep), ("own/deep.lua", "return 'd1'"), ("other.lua", "")];
    let path = files_in(dir.path(), &files);
    let files = load::LuaScript::read(&path).unwrap().into_files();
    let names: Vec<_> =
        files.iter().map(|file| file.name.strip_prefix(dir.path().to_str().unwrap())).collect();
    assert_eq!(names, [Some("/own.lua"), Some("/inspect.lua"), Some("/own/deep.lua")]);
    files_in(dir.path(), &[("own/deep.lua", "return 'd2'")]);
    let scripts = ScriptSettings { files, defines: Vec::new() };
    support::run(&LoadSettings { scripts, ..script("null:", "", &[], 3) });
    assert!(of(&lines(&notes), "has").iter().all(|found| *found == "d1"));
}

/// In a private folder, another user may write a folder.
#[test]
fn a_module_below_the_working_folder_that_others_can_change_is_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let planted = dir.path().join("planted");
    let module = format!("io.open('{}', 'w'):close() return 1", planted.display());
    files_in(
        dir.path(),
        &[
            ("own.lua", "ok, why = pcall(require, 'm')\nfunction event() assert(ok, why) end"),
            ("src/lua/m.lua", &module),
            ("m/init.lua", &module),
        ],
    );
    let drive = || {
        let here = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(here);
        command.args(["--exact", "reads_a_script_in_its_folder", "--nocapture"]).current_dir(dir.path());
        assert!(command.env("READS_A_SCRIPT", "own.lua").status().unwrap().success());
        std::fs::remove_file(&planted).is_ok()
    };
    let open = |name: &str, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(dir.path().join(name), mode).unwrap();
    };
    assert!(drive(), "the control");
    open("m", 0o777);
    open("src", 0o777);
    assert!(!drive(), "it ran what another user can write");
    open("src", 0o755);
    open("src/lua/m.lua", 0o666);
    assert!(!drive(), "it ran what another user can write");
}

/// The part of the test above that needs another working folder.
#[test]
fn reads_a_script_in_its_folder() {
    if let Ok(name) = std::env::var("READS_A_SCRIPT") {
        load::LuaScript::read(&name).unwrap();
    }
}
