//! Memory does not grow with the length of a run. The only test of this binary, so no other test allocates
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use archive::{Archive, Spool};
use bakeoff_runner::{Beside, Spooled};
use load::{Event, Stop};
use record::clock::WallAnchor;
use record::load::{LoadRecord, LoadSettings, Phase, PreparePolicy};
use record::run::{Run, RunHeader, RunKind};
use record::series::LatencyKind;

/// Tolerated difference between two measurements, for buffers that fill up once.
const DIFFERENCE_BYTES_MAX: u64 = 2 << 20;
const FEW: u32 = 600;
const MANY: u32 = 6_000;

const PLAN: &str = r#"
schema = 1
title  = "Nothing under two names"
[factors.name]
values = ["one", "other"]
level  = "sub-plot"
[design]
blocks = 2
[load]
target = "null:"
rate   = 20000
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "1s", interval = "100ms" }
"#;

/// Returns the anonymous memory of this process, without pages of its program.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// Returns settings as a plan resolves them.
fn settings(intervals: u32) -> LoadSettings {
    let plan = plan::read(PLAN, "plan.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let trial = plan.trials().remove(0);
    LoadSettings {
        prepare: PreparePolicy::Never,
        threads: 2,
        warmup: Duration::ZERO,
        // Even such short intervals end one after the other when the machine is busy.
        interval: Duration::from_millis(2),
        time: Duration::from_millis(2) * intervals,
        ..plan.load_settings(&trial, std::path::Path::new("/"))
    }
}

fn header(anchor: WallAnchor) -> RunHeader {
    RunHeader::running(RunKind::Load, anchor, "a long run".to_owned(), "bakeoff".to_owned()).ended(None)
}

/// Runs a load of `intervals` intervals. Returns its record, its spool on disk, and the memory after [`FEW`]
/// and [`MANY`].
fn drive(
    beside: &mut Beside,
    spool: Spool,
    anchor: WallAnchor,
    intervals: u32,
) -> (LoadRecord, Spool, Vec<u64>) {
    let mut spooled = Spooled::new(beside, spool, "here", anchor);
    let (mut ended, mut looks) = (0, Vec::new());
    let settings = settings(intervals);
    let record = load::run_with(&settings, &load::Attachments::default(), &Stop::new(), &mut |event| {
        spooled.follow(event);
        if matches!(event, Event::Interval(progress) if progress.phase == Phase::Measure) {
            ended += 1;
            if [FEW, MANY].contains(&ended) {
                looks.push(anonymous_bytes());
            }
        }
    });
    (record.unwrap(), spooled.end(), looks)
}

#[test]
fn six_thousand_intervals_take_no_more_memory_than_six_hundred_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let anchor = WallAnchor::now();
    // Other kinds do not fit: `locks` stores the symbols of every program that it meets, and `io` takes long
    // to read.
    let kinds = probes::observe::named(["nic"]).unwrap();
    let mut beside = Beside::new(true).with(&kinds);

    let header = header(anchor);
    let writer = archive.begin(&header).unwrap();
    let (load, spool, _) = drive(&mut beside, writer.spool(), anchor, 100);
    let run = Run {
        load: Some(load),
        instruments: beside.take_instruments(),
        throttled: beside.take_throttled(),
        ..Run::unmeasured(header, record::environment::Environment::default())
    };
    writer.seal_with(&run, &spool).unwrap();
    let read = archive.run(run.header.id).unwrap();
    let load = read.load.unwrap();
    let whole = load.slices.iter().filter(|s| s.kind == LatencyKind::Response && s.operation.is_empty());
    let counted: u64 = whole.map(|s| s.histogram.count()).sum();
    assert_eq!(counted, load.counts.done, "each event is in one interval");
    let starts: BTreeSet<u64> = load.slices.iter().map(|s| s.from_ns).collect();
    // On a busy machine some intervals have no event, and the CPUs are not read twice within a millisecond.
    assert!(starts.len() > 1 && read.cpu.len() > 1, "{} and {} intervals", starts.len(), read.cpu.len());
    assert!(archive.verify(&[]).is_ok_and(|all| all.iter().all(|one| one.problems.is_empty())));

    let (_, _, looks) = drive(&mut beside, Spool::temporary(), anchor, MANY + 1);
    let grown = looks[1].saturating_sub(looks[0]);
    assert!(grown <= DIFFERENCE_BYTES_MAX, "{looks:?}: {grown} bytes more after {MANY} intervals");
}
