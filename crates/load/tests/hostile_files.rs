//! A database file of another author: what it makes SQLite compute has a bounded cost.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod support;

use std::path::Path;
use std::time::Duration;

use record::load::{LoadSettings, Loop, PreparePolicy, Workload};
use rusqlite::Connection;

use support::{run, settings};

fn target(path: &Path) -> LoadSettings {
    let mut settings = settings(format!("sqlite:{}", path.display()));
    (settings.threads, settings.oltp.tables, settings.oltp.rows) = (2, 1, 1_000);
    LoadSettings { pace: Loop::CLOSED, events_max: Some(6), time: Duration::from_mins(10), ..settings }
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One value of 1.2 GB; 24 values of 60 MB at the same time.
#[test]
fn a_trigger_costs_a_bounded_amount_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let columns: Vec<String> = (0..24).map(|n| format!("hex(zeroblob(30000000)) AS c{n}")).collect();
    let lengths: Vec<String> = (0..24).map(|n| format!("length(c{n})")).collect();
    let many = format!(
        "WITH t AS MATERIALIZED (SELECT {}) SELECT {} FROM t ORDER BY c0",
        columns.join(", "),
        lengths.join(" + ")
    );
    for (name, costs, says) in [
        ("one", "SELECT length(hex(zeroblob(400000000)))", "string or blob too big"),
        ("many", many.as_str(), "out of memory"),
    ] {
        let settings = target(&folder.path().join(name));
        let read = LoadSettings { workload: Workload::OltpReadOnly, ..settings.clone() };
        assert_eq!(run(&read).counts.done, 6);
        let database = Connection::open(folder.path().join(name)).unwrap();
        let trigger = format!("CREATE TRIGGER cost BEFORE UPDATE ON sbtest1 BEGIN {costs}; END");
        database.execute_batch(&trigger).unwrap();
        drop(database);
        let writes = LoadSettings {
            workload: Workload::OltpUpdateIndex,
            prepare: PreparePolicy::Never,
            retries_max: 0,
            ..settings
        };
        let record = run(&writes);
        assert_eq!(record.counts.done, 0);
        assert!(
            record.error_samples.iter().any(|sample| sample.contains(says)),
            "{:?}",
            record.error_samples
        );
        let kib = peak_kib();
        assert!(kib < 500 << 10, "{name}: {kib} KiB");
    }
}

/// A sort of 360 MB: on disk, and in memory if the user asks for that. Caches and mappings have their sizes.
#[test]
fn memory_that_the_user_gives_to_sqlite_is_not_limited() {
    let folder = tempfile::tempdir().unwrap();
    let sort = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                SELECT length(max(x)) FROM (SELECT hex(zeroblob(600000)) AS x FROM n ORDER BY random())";
    for pragma in
        ["", "temp_store=memory", "cache_size=-2000000", "journal_mode=memory", "mmap_size=1073741824"]
    {
        let path = folder.path().join(pragma);
        let path = if pragma.is_empty() { folder.path().join("plain") } else { path };
        let base = settings(format!("sqlite:{}?{pragma}", path.display()));
        let mut base = LoadSettings { time: Duration::from_mins(10), threads: 1, ..base };
        (base.oltp.tables, base.oltp.rows, base.pace, base.events_max) = (1, 1_000, Loop::CLOSED, Some(2));
        assert_eq!(run(&base).counts.done, 2, "{pragma}");
        let database = Connection::open(&path).unwrap();
        let trigger = format!("CREATE TRIGGER cost BEFORE UPDATE ON sbtest1 BEGIN {sort}; END");
        database.execute_batch(&trigger).unwrap();
        drop(database);
        let record = run(&LoadSettings { workload: Workload::OltpUpdateIndex, ..base });
        assert_eq!(record.counts.done, 2, "{pragma}: {:?}", record.error_samples);
    }
}
