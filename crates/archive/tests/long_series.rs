//! Runs with more numbers over time than any load has: they are read in bounded memory, or left out with a
//! reason.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::io;

use bakeoff_archive::{Archive, ArchiveError, Format};
use record::clock::WallAnchor;
use record::environment::Environment;
use record::run::{Run, RunHeader, RunId, RunKind};
use record::series::Sample;

/// Rows that are written at a time.
const CHUNK: u32 = 10_000;

/// Stores a run with `rows` numbers over time.
fn stored(archive: &Archive, rows: u32, labels: impl Fn(u32) -> String) -> RunId {
    let begun = RunHeader::running(RunKind::Import, WallAnchor::now(), "long".into(), String::new());
    let writer = archive.begin(&begun).unwrap();
    let mut spool = writer.spool();
    let sample = |i: u32| Sample {
        t_ms: i64::from(i),
        host: "a host with a name of some length".into(),
        name: "tool_operations_per_s".into(),
        labels: labels(i).into(),
        value: f64::from(i),
    };
    for from in (0..rows).step_by(CHUNK as usize) {
        spool.add_samples((from..rows.min(from + CHUNK)).map(sample));
    }
    let run = Run::unmeasured(begun.ended(None), Environment::default());
    writer.seal_with(&run, &spool).unwrap();
    run.header.id
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn many_rows_are_read_and_exported_in_300_mb_and_more_are_left_out_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let name = "a disk with a very long name, ".repeat(20);
    let label = |i: u32| format!("device={name},cpu={}", i % 7);
    let long = stored(&archive, 400_000, label);
    let run = archive.run(long).unwrap();
    assert_eq!((run.series.len(), run.unread_series()), (400_000, None));
    assert_eq!(
        (run.series[399_999].value, run.series[399_999].labels.as_str()),
        (399_999.0, &*label(399_999))
    );
    drop(run);
    for format in [Format::Json, Format::Csv, Format::Parquet] {
        assert!(archive.export(long, format, &mut io::sink()).unwrap(), "{format:?}");
    }
    let refused = archive.export(long, Format::OpenMetrics, &mut io::sink()).unwrap_err().to_string();
    assert!(refused.contains("at most 200000 values"), "{refused}");

    // What must be sorted has labels of some length.
    let wide = stored(&archive, 190_000, label);
    let refused = archive.export(wide, Format::OpenMetrics, &mut io::sink()).unwrap_err().to_string();
    assert!(refused.contains("64 MiB of labels"), "{refused}");

    // Each row has another label.
    let many = stored(&archive, 300_000, |i| format!("device={name},request={i}"));
    let run = archive.run(many).unwrap();
    let why = run.unread_series().unwrap().to_string();
    assert!(run.series.is_empty() && why.contains("2621440 values"), "{why}");
    let refused = archive.export(many, Format::Json, &mut io::sink());
    assert!(matches!(refused, Err(ArchiveError::TooLong { id, .. }) if id == many), "{refused:?}");
    assert!(archive.verify(&[many]).unwrap()[0].problems.is_empty(), "it is not damaged");

    let peak = peak_kib();
    assert!(peak < 300_000, "{peak} KiB");
}
