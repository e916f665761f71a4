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

/// One value of 800 MB.
#[test]
fn a_trigger_costs_a_bounded_amount_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (name, costs, says) = ("one", "SELECT length(hex(zeroblob(400000000)))", "string or blob too big");
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
    assert!(record.error_samples.iter().any(|sample| sample.contains(says)), "{:?}", record.error_samples);
    let kib = peak_kib();
    assert!(kib < 500 << 10, "{name}: {kib} KiB");
}
