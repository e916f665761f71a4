//! sysbench: `sysbench [OPTIONS] TEST COMMAND`, and the names that versions before 1.0 had.
//!
//! # Source
//!
//! sysbench 1.0, README and `sysbench TEST help`; the names of 0.4 and 0.5 are those that 1.0 still accepts.

mod statements;
mod target;

use std::borrow::Cow;

use record::load::{Workload, settings};

use super::draft::{Draft, Given, rate, seconds};
use super::error::LikeError;
use super::options::Item;
use super::shell::Said;
use super::translation::RemarkKind;

/// Meaning of a test.
enum Test<'a> {
    /// A workload of the same name.
    Workload(&'static str),
    /// A script, by its path.
    Script(Cow<'a, str>),
}

/// The built-in test of versions before 0.5.
const OLDEST_TEST: (&str, &str) = ("oltp", "oltp-read-write");

/// Tests in the folders of versions before 1.0, and the workload of the same meaning. Newer names are those
/// of workloads.
const OLD_TESTS: [(&str, &str); 7] = [
    OLDEST_TEST,
    ("oltp_simple", "oltp-point-select"),
    ("select", "oltp-point-select"),
    ("insert", "oltp-insert"),
    ("delete", "oltp-delete"),
    ("update_index", "oltp-update-index"),
    ("update_non_index", "oltp-update-non-index"),
];

/// Options of versions before 1.0, and their names since.
const OLD_NAMES: [(&str, &str); 17] = [
    ("num_threads", "threads"),
    ("max_time", "time"),
    ("max_requests", "events"),
    ("oltp_table_size", "table_size"),
    ("oltp_tables_count", "tables"),
    ("oltp_point_selects", "point_selects"),
    ("oltp_range_size", "range_size"),
    ("oltp_simple_ranges", "simple_ranges"),
    ("oltp_sum_ranges", "sum_ranges"),
    ("oltp_order_ranges", "order_ranges"),
    ("oltp_distinct_ranges", "distinct_ranges"),
    ("oltp_index_updates", "index_updates"),
    ("oltp_non_index_updates", "non_index_updates"),
    ("oltp_skip_trx", "skip_trx"),
    ("oltp_secondary", "secondary"),
    ("oltp_auto_inc", "auto_inc"),
    ("oltp_dist_type", "rand_type"),
];

/// Use of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The server, the rate, the length, the threads.
    Load,
    /// The data set and its transactions; a script reads it.
    Data,
    /// Output of sysbench; a script may read it.
    Report,
    /// Output of sysbench, or the way that it runs its own threads.
    Own,
}

/// The options that this module knows; others are those of a script.
const OPTIONS: [(Use, &[&str]); 4] = [
    (
        Use::Load,
        &[
            "test",
            "threads",
            "time",
            "events",
            "rate",
            "report_interval",
            "warmup_time",
            "forced_shutdown",
            "db_driver",
            "db_ps_mode",
            "rand_seed",
            "tx_rate",
            "tx_jitter",
            "config_file",
            "mysql_host",
            "mysql_port",
            "mysql_socket",
            "mysql_user",
            "mysql_password",
            "mysql_db",
            "mysql_ssl",
            "mysql_ssl_ca",
            "mysql_ssl_cert",
            "mysql_ssl_key",
            "mysql_ssl_cipher",
            "mysql_compression",
            "mysql_dry_run",
            "pgsql_host",
            "pgsql_port",
            "pgsql_user",
            "pgsql_password",
            "pgsql_db",
            "pgsql_sslmode",
            "pgsql_sslcert",
            "pgsql_sslkey",
            "pgsql_sslrootcert",
        ],
    ),
    (
        Use::Data,
        &[
            "rand_type",
            "rand_spec_pct",
            "rand_spec_res",
            "rand_spec_iter",
            "rand_pareto_h",
            "rand_zipfian_exp",
            "table_size",
            "tables",
            "point_selects",
            "range_size",
            "range_selects",
            "simple_ranges",
            "sum_ranges",
            "order_ranges",
            "distinct_ranges",
            "index_updates",
            "non_index_updates",
            "delete_inserts",
            "skip_trx",
            "secondary",
            "create_secondary",
            "auto_inc",
            "mysql_storage_engine",
            "mysql_table_engine",
            "create_table_options",
            "pgsql_variant",
            "reconnect",
            "random_points",
            "number_of_ranges",
            "delta",
            "oltp_read_only",
            "oltp_test_mode",
            "mysql_ignore_errors",
        ],
    ),
    (Use::Report, &["percentile", "verbosity", "db_debug"]),
    (
        Use::Own,
        &[
            "histogram",
            "debug",
            "report_checkpoints",
            "thread_stack_size",
            "thread_init_timeout",
            "luajit_cmd",
            "mysql_debug",
            "mysql_engine_trx",
            "validate",
            "rand_init",
            "init_rng",
            "rand_seq",
            "help",
        ],
    ),
];

/// Names of the options of one use.
fn names(of: Use) -> &'static [&'static str] {
    OPTIONS.iter().find(|(other, _)| *other == of).map(|(_, names)| *names).unwrap_or_default()
}

/// Translates the words after `sysbench`.
pub(super) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    let items: Vec<Item> = said.words.iter().map(|word| item(word)).collect();
    let given = Given::new(&items, draft.tool());
    let mut words = given.words();
    let test = given.value("test").or_else(|| words.next());
    let test =
        test.ok_or_else(|| draft.malformed("the name of a test is missing, such as oltp_read_write"))?;
    let command = words.next().ok_or_else(|| {
        draft.malformed("the command is missing: run, prepare, cleanup, or another one of the script")
    })?;
    let is_oldest = test == OLDEST_TEST.0;
    let is_old = statements::is_in_old_folder(test);
    let test = known(test, draft)?;
    verb(draft, &test, command);
    target::put(&given, draft)?;
    if let Test::Workload(name) = test
        && command == "run"
    {
        let name = of_mode(&given, name, is_oldest, draft);
        draft.put("workload", name);
    }
    if let (Test::Script(path), true) = (&test, command == "run") {
        draft.put("script", path);
    }
    if command == "run" {
        pace(&given, draft)?;
    } else {
        of_command(&given, draft, matches!(test, Test::Script(_)), command)?;
    }
    every_command(&given, draft);
    match test {
        Test::Workload(name) => {
            dataset(&given, draft, (name, command))?;
            if command == "run" {
                statements::put(&given, draft, name, is_old);
            }
        }
        Test::Script(path) => of_script(&given, draft, path.starts_with(FOLDER)),
    }
    Ok(())
}

/// Reads `--name=value`; sysbench treats `-` and `_` in names alike, and an option without a value is on.
fn item(word: &str) -> Item {
    let Some(bare) = word.strip_prefix("--").filter(|bare| !bare.is_empty()) else {
        return if word.len() > 1 && word.starts_with('-') {
            Item::Unknown(word.to_owned())
        } else {
            Item::Word(word.to_owned())
        };
    };
    let (name, value) = bare.split_once('=').unwrap_or((bare, "on"));
    let name = name.replace('-', "_");
    let name = OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name.as_str(), |(_, new)| new);
    match OPTIONS.iter().flat_map(|(_, names)| *names).find(|known| **known == name) {
        Some(name) => Item::Option { name, written: word.to_owned(), value: value.to_owned() },
        None => Item::Unknown(word.to_owned()),
    }
}

/// Folder of sysbench's scripts.
const FOLDER: &str = "/usr/share/sysbench/";

/// The meaning of a test's name. Only a name alone, or a file in a folder that sysbench installs, is a test
/// of sysbench: a script of that name elsewhere may have been changed.
fn known<'a>(test: &'a str, draft: &mut Draft) -> Result<Test<'a>, LikeError> {
    let file = test.rsplit('/').next().unwrap_or(test);
    let bare = file.strip_suffix(".lua");
    let name = bare.unwrap_or(file);
    let folder = test.strip_suffix(file).unwrap_or_default();
    let is_alone = folder.is_empty() && bare.is_none();
    let is_old = statements::is_in_old_folder(test);
    let mut old = OLD_TESTS.iter().filter(|(old, _)| is_old || is_alone && *old == OLDEST_TEST.0);
    let old = old.find(|(old, _)| *old == name).map(|(_, workload)| *workload);
    let is_installed = is_alone || is_old || folder.ends_with("share/sysbench/");
    if let Some(workload) = old.or_else(|| workload(name).filter(|_| is_installed)) {
        return Ok(Test::Workload(workload));
    }
    let not_a_load =
        |instead| LikeError::NotALoad { tool: "sysbench", what: format!("the test `{name}`"), instead };
    match name {
        "cpu" | "threads" | "mutex" | "memory" if is_alone => Err(not_a_load(
            "`bakeoff scale -- COMMAND` runs copies of any command and finds how many saturate the machine",
        )),
        "fileio" if is_alone => Err(not_a_load("`bakeoff dder` reads a file with blocks of every size")),
        "bulk_insert" | "select_random_points" | "select_random_ranges" if is_alone || is_old => {
            let path = format!("{FOLDER}{name}.lua");
            // The scripts of versions before 1.0 use functions that no longer exist.
            draft.differs(test, &format!("bakeoff runs the script of sysbench 1.0, {path}"));
            Ok(Test::Script(path.into()))
        }
        _ if is_alone => Ok(Test::Script(format!("{name}.lua").into())),
        _ => {
            if folder.is_empty() && workload(name).is_some() {
                let text =
                    format!("bakeoff runs the script in this folder; `{name}` names the test of sysbench");
                draft.differs(test, &text);
            }
            Ok(Test::Script(test.into()))
        }
    }
}

/// The workload of a test of sysbench. Three have no equal: `bulk_insert` inserts one row an event, into a
/// table for each thread; each thread of `select_random_points` and `select_random_ranges` reads a part of
/// the table that depends on the number of threads.
fn workload(name: &str) -> Option<&'static str> {
    name.starts_with("oltp_")
        .then(|| Workload::from_word(&name.replace('_', "-")))
        .flatten()
        .map(Workload::word)
}

/// The workload, which `--oltp-read-only` and `--oltp-test-mode` change in versions before 1.0.
fn of_mode(given: &Given<'_>, workload: &'static str, is_oldest: bool, draft: &mut Draft) -> &'static str {
    match given.value("oltp_test_mode") {
        None => {}
        Some("complex") => given.remark(draft, RemarkKind::LeftOut, &["oltp_test_mode"], ""),
        Some("simple") if is_oldest => return "oltp-point-select",
        Some(_) => {
            let text = "bakeoff has the mode complex, and simple for --test=oltp";
            given.remark(draft, RemarkKind::Missing, &["oltp_test_mode"], text);
        }
    }
    let is_read_only = given.value("oltp_read_only") == Some("on") && workload == "oltp-read-write";
    if is_read_only { "oltp-read-only" } else { workload }
}

fn verb(draft: &mut Draft, test: &Test<'_>, command: &str) {
    match (test, command) {
        (_, "run") => {}
        (Test::Workload(_), "prepare" | "cleanup") => draft.verb([command]),
        (Test::Workload(_), _) => draft.missing(command, "bakeoff has `prepare`, `load` and `cleanup`"),
        (Test::Script(path), _) => draft.verb(["script", &**path, command]),
    }
}

/// Options of the load's rate and length, and of its threads.
fn pace(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    draft.put("threads", given.count("threads")?.unwrap_or(1));
    let per_s = match given.value("rate").or_else(|| given.value("tx_rate")) {
        None | Some("0") => None,
        Some(text) => {
            Some(rate(text).ok_or_else(|| draft.malformed(format!("--rate={text}: expected a rate")))?)
        }
    };
    if let Some(per_s) = per_s {
        draft.put("rate", per_s);
        if given.has("tx_rate") {
            if let Some(jitter_us) = given.whole("tx_jitter")? {
                draft.put("tx-jitter", jitter_us);
            }
            draft.put("schedule", "own");
        } else {
            draft.put("arrivals", "poisson");
        }
        let text = "bakeoff measures latency from the time at which an event was due; sysbench from the \
             time at which it was queued, and it exits if its queue is full";
        draft.differs("--rate", text);
    }
    length(given, draft)?;
    if let Some(s) = given.whole("report_interval")?.filter(|s| *s > 0) {
        draft.put("interval", format!("{s}s"));
    }
    match given.whole("rand_seed")?.filter(|seed| *seed > 0) {
        Some(seed) => draft.put("seed", seed),
        None => draft.has_fixed_seed("--rand-seed"),
    }
    let text = "sysbench begins an event again after an error that it ignores (by default, deadlocks and lock \
         timeouts) without a limit; bakeoff at most 3 times (--retry)";
    draft.differs("errors", text);
    given.remark(
        draft,
        RemarkKind::LeftOut,
        &["forced_shutdown"],
        "--drain bounds the wait for events in flight",
    );
    if given.value("mysql_ignore_errors") == Some("all") {
        draft.put("max-errors", "100%");
    }
    Ok(())
}

/// Options of a load that another command has, such as `prepare`; it has no rate and no length.
fn of_command(given: &Given<'_>, draft: &mut Draft, is_script: bool, command: &str) -> Result<(), LikeError> {
    let threads = given.count("threads")?;
    match threads {
        Some(threads) if is_script || command == "prepare" => draft.put("threads", threads),
        _ => given.remark(draft, RemarkKind::LeftOut, &["threads"], ""),
    }
    if let Some(seed) = given.whole("rand_seed")?.filter(|seed| *seed > 0) {
        draft.put("seed", seed);
    }
    given.remark(draft, RemarkKind::LeftOut, &OF_A_RUN, "");
    Ok(())
}

/// Options of a load's rate and length.
const OF_A_RUN: [&str; 8] =
    ["time", "events", "rate", "tx_rate", "tx_jitter", "report_interval", "warmup_time", "forced_shutdown"];

/// Remarks on options that every command has.
fn every_command(given: &Given<'_>, draft: &mut Draft) {
    given.remark(draft, RemarkKind::LeftOut, names(Use::Own), "");
    given.remark(draft, RemarkKind::Missing, &["config_file"], "write its options on the command line");
    if given.value("mysql_dry_run").is_some_and(is_on) {
        let text = "the target `null:` measures the client alone";
        given.remark(draft, RemarkKind::Missing, &["mysql_dry_run"], text);
    }
}

/// Number of events after which sysbench ends before version 1.0, unless `--max-requests` names another.
const EVENTS_BEFORE_1: u64 = 10_000;

/// Whether the line is one of sysbench before 1.0: it names the test by `--test`, and neither threads nor the
/// length as versions since then do.
fn is_before_1(given: &Given<'_>) -> bool {
    let is_new = |name: &str| given.all(name).any(|(_, written)| written.starts_with(&format!("--{name}")));
    given.has("test") && !["threads", "time", "events"].into_iter().any(is_new)
}

/// Length of the load: sysbench ends by time, by events, or by the earlier of both.
fn length(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let is_old = is_before_1(given);
    let time = given.read("time", "seconds", seconds)?;
    let mut events = given.whole("events")?;
    if is_old && events.is_none() {
        let text = "before version 1.0, sysbench ends after 10,000 events unless it is given";
        draft.differs("--max-requests", text);
        events = Some(EVENTS_BEFORE_1);
    }
    let events = events.filter(|n| *n > 0);
    let warmup = given.read("warmup_time", "seconds", seconds)?;
    match (time, events) {
        (Some(time), None) if time.is_zero() => return Err(draft.malformed(ENDLESS)),
        (None, None) if is_old => return Err(draft.malformed(ENDLESS)),
        (Some(time), _) if !time.is_zero() => draft.duration("time", time),
        (None, None) => draft.put("time", settings::TIME.default_text()),
        // sysbench 1.0 measures for 10 s unless the time is 0.
        (None, Some(_)) if !is_old => draft.put("time", "10s"),
        _ => {}
    }
    if let Some(events) = events {
        draft.put("events", events);
    }
    match (warmup, events) {
        (Some(warmup), _) => draft.duration("warmup", warmup),
        (None, Some(_)) => draft.put("warmup", "0s"),
        (None, None) => draft.warms_up(),
    }
    Ok(())
}

/// Text about a load without an end.
const ENDLESS: &str = "without a time and a number of events, it never ends: set one of them";

/// Options of the data set and of its transactions.
fn dataset(given: &Given<'_>, draft: &mut Draft, (workload, command): (&str, &str)) -> Result<(), LikeError> {
    if let Some(tables) = given.count("tables")? {
        draft.put("tables", tables);
    }
    if let Some(rows) = given.count("table_size")? {
        draft.put("rows", rows);
    }
    let seen = "affects the table: bakeoff creates it with a secondary index and auto-increment ids";
    let is_other = |name: &str, usual: &[&str]| given.value(name).is_some_and(|v| !usual.contains(&v));
    for (name, usual) in [
        ("secondary", &["off"][..]),
        ("create_secondary", &["on", "true"]),
        ("auto_inc", &["on", "true"]),
        ("mysql_storage_engine", &["innodb", "InnoDB", "INNODB"]),
        ("mysql_table_engine", &["innodb", "InnoDB", "INNODB"]),
        ("create_table_options", &[""]),
        ("pgsql_variant", &[""]),
    ] {
        if is_other(name, usual) {
            // Without auto-increment, an insert has a random id.
            let changes_events = name == "auto_inc" && workload == "oltp-insert";
            let is_missing = command == "prepare" || changes_events;
            let kind = if is_missing { RemarkKind::Missing } else { RemarkKind::Differs };
            given.remark(draft, kind, &[name], seen);
        }
    }
    given.remark_unknown(draft);
    if command == "run" { transaction(given, draft, workload) } else { Ok(()) }
}

fn transaction(given: &Given<'_>, draft: &mut Draft, workload: &str) -> Result<(), LikeError> {
    for (only, option) in
        [("oltp-update-index", "index_updates"), ("oltp-update-non-index", "non_index_updates")]
    {
        if workload == only && given.value(option).is_some_and(|n| n != "1") {
            given.remark(draft, RemarkKind::Missing, &[option], "an event of this workload is one update");
        }
    }
    given.remark(draft, RemarkKind::LeftOut, names(Use::Report), "");
    if given.value("reconnect").is_some_and(|n| n != "0") {
        given.remark(
            draft,
            RemarkKind::Missing,
            &["reconnect"],
            "bakeoff keeps its connections open for the whole load",
        );
    }
    let text = "bakeoff retries transient errors, and counts all others instead of ending";
    given.remark(draft, RemarkKind::Differs, &["mysql_ignore_errors"], text);
    for (option, ours) in [
        ("point_selects", "point-selects"),
        ("range_size", "range-size"),
        ("index_updates", "index-updates"),
        ("non_index_updates", "non-index-updates"),
        ("delete_inserts", "delete-inserts"),
        ("random_points", "random-points"),
        ("number_of_ranges", "number-of-ranges"),
        ("delta", "delta"),
    ] {
        if let Some(n) = given.whole(option)? {
            draft.put(ours, n);
        }
    }
    ranges(given, draft);
    if given.value("skip_trx").is_some_and(is_on) {
        draft.flag("skip-trx");
    }
    match given.value("rand_type") {
        Some(law @ ("uniform" | "special" | "pareto" | "zipfian")) => draft.put("distribution", law),
        Some(_) => {
            let text = "bakeoff chooses rows by --distribution uniform, special, pareto or zipfian";
            given.remark(draft, RemarkKind::Missing, &["rand_type"], text);
        }
        None => {}
    }
    for (name, usual) in [
        ("rand_spec_pct", 1.0),
        ("rand_spec_res", 75.0),
        ("rand_spec_iter", 12.0),
        ("rand_pareto_h", 0.2),
        ("rand_zipfian_exp", 0.8),
    ] {
        let is_usual = |text: &str| text.parse().is_ok_and(|n: f64| (n - usual).abs() < 1e-9);
        if given.value(name).is_some_and(|text| !is_usual(text)) {
            let text = format!("bakeoff's distribution has this parameter fixed at {usual}");
            given.remark(draft, RemarkKind::Missing, &[name], &text);
        }
    }
    Ok(())
}

/// The four range queries, which bakeoff has all or not at all.
fn ranges(given: &Given<'_>, draft: &mut Draft) {
    const NAMES: [&str; 4] = ["simple_ranges", "sum_ranges", "order_ranges", "distinct_ranges"];
    let counts = NAMES.map(|name| given.value(name).unwrap_or("1"));
    if given.value("range_selects").is_some_and(|text| !is_on(text)) || counts == ["0"; 4] {
        draft.put("range-selects", "off");
    } else if counts != ["1"; 4] {
        let text = "a transaction has all four range queries once, or none of them (--range-selects off)";
        given.remark(draft, RemarkKind::Missing, &NAMES, text);
    }
}

/// Passes the options that the load does not have to the script.
///
/// - `is_of_1`: whether the script is one of sysbench 1.0, of which options have new names.
fn of_script(given: &Given<'_>, draft: &mut Draft, is_of_1: bool) {
    for item in given.items() {
        match item {
            Item::Unknown(written) => match written.strip_prefix("--") {
                Some(text) => draft.script_option(text),
                None => draft.missing(written, "bakeoff does not know this option"),
            },
            Item::Option { name, written, value }
                if names(Use::Data).contains(name) || names(Use::Report).contains(name) =>
            {
                let written = written.trim_start_matches('-');
                let is_old = !written.replace('-', "_").starts_with(name);
                if is_of_1 && is_old {
                    draft.script_option(&format!("{}={value}", name.replace('_', "-")));
                } else {
                    draft.script_option(written);
                }
            }
            _ => {}
        }
    }
    if given.value("db_ps_mode") == Some("disable") {
        draft.put("prepared", "no");
    }
}

fn is_on(text: &str) -> bool {
    matches!(text, "on" | "true" | "1" | "yes")
}
