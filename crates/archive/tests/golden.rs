//! Every released form stays readable: `testdata/` holds one archive of each version.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod example;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_archive::{Archive, Filter, Format, JournalEvent, Spool, Step, hlog};
use example::Dice;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use record::bakeoff::{Bakeoff, TrialState};
use record::clock::WallAnchor;
use record::histogram::{CensoredHistogram, CompactHistogram, Histogram};
use record::load::{LoadRecord, Operation};
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::series::{HistogramSlice, LatencyKind, Sample};
use record::target::Target;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// Latencies as of a server: most short, some long, no two seconds alike.
fn latencies(dice: &mut Dice, n: u64, mean_ns: f64) -> Histogram {
    let mut h = Histogram::new();
    for _ in 0..n {
        let u = (dice.below(1 << 53) as f64 + 0.5) / (1_u64 << 53) as f64;
        h.record(Duration::from_secs_f64(-u.ln() * mean_ns * 1e-9).as_nanos().try_into().unwrap());
    }
    h
}

/// A load of three seconds with all kinds of distributions.
fn load(dice: &mut Dice) -> LoadRecord {
    let mut load = example::load(dice);
    load.settings.target = Target::new("mysql://app@localhost/bench");
    load.settings.pace = example::load::open(dice, 500.0);
    let kinds = [
        (LatencyKind::Response, "", 3e6),
        (LatencyKind::Service, "", 2e6),
        (LatencyKind::Wait, "", 9e5),
        (LatencyKind::Lateness, "", 2e4),
        (LatencyKind::Service, "point-select", 3e5),
        (LatencyKind::Service, "a, b", 5e8),
    ];
    load.slices.clear();
    let mut sums = BTreeMap::<_, Histogram>::new();
    for second in 0..3_u64 {
        for (kind, operation, mean_ns) in kinds {
            let histogram = latencies(dice, 1000, mean_ns);
            sums.entry((kind, operation)).or_default().add(&histogram);
            load.slices.push(HistogramSlice {
                from_ns: second * 1_000_000_000 + 123_456_789,
                for_ns: 1_000_000_001,
                operation: operation.to_owned(),
                kind,
                histogram: CompactHistogram::from(&histogram),
            });
        }
    }
    let mut sum = |kind, operation| sums.remove(&(kind, operation)).unwrap();
    load.response =
        Ok(CensoredHistogram { known: sum(LatencyKind::Response, ""), at_least: Histogram::new() });
    load.service = sum(LatencyKind::Service, "").into();
    load.wait = Ok(sum(LatencyKind::Wait, "").into());
    load.lateness = Ok(sum(LatencyKind::Lateness, ""));
    load.operations = ["point-select", "a, b"]
        .map(|name| {
            (
                name.to_owned(),
                Operation {
                    service: sum(LatencyKind::Service, name).into(),
                    in_flight: 0,
                    generator_made: Vec::new(),
                },
            )
        })
        .into();
    load.measured = Duration::from_secs(3);
    load.measured_from_ns = 7_000_000_000;
    load
}

fn header(kind: RunKind, chance: u128) -> RunHeader {
    let anchor = WallAnchor { monotonic_ns: 5_000_000_000, unix_ns: 1_795_000_000_123_456_789 };
    RunHeader {
        id: RunId::new(anchor, chance),
        kind,
        state: RunState::Sealed,
        reason: None,
        anchor,
        title: "an example of version 1".into(),
        labels: [("machine".to_owned(), "büro".to_owned())].into(),
        bakeoff: None,
        tool_version: "0.1.0".into(),
        command: "bakeoff load mysql://app@localhost/bench --rate 500".into(),
    }
}

fn example_run() -> Run {
    let mut dice = Dice(1);
    let mut run =
        Run { header: header(RunKind::Load, 1), load: Some(load(&mut dice)), ..example::run(&mut dice) };
    run.environment.facts.insert("host.name".into(), Ok("box".into()));
    // Version 1 predates the other instruments.
    run.instruments = record::instruments::Instruments::default();
    run.turns = None;
    run.series = (0..3)
        .map(|i| Sample {
            t_ms: 1000 * (i + 1),
            host: "box".into(),
            name: "achieved_per_s".into(),
            labels: "".into(),
            value: 480.0 + 10.0 * i as f64,
        })
        .collect();
    run
}

fn example_bakeoff() -> Bakeoff {
    let planned = example::bakeoff(&mut Dice(2), 1);
    let header = RunHeader { state: RunState::Abandoned, ..header(RunKind::Bakeoff, 2) };
    Bakeoff { header, ..planned }
}

/// Writes `testdata/v1`. Must not run again once version 1 is released: its files are the promise.
#[test]
fn maker_of_testdata() {
    let Some(dir) = std::env::var_os("BAKEOFF_MAKE_TESTDATA") else { return };
    let archive = Archive::open(Path::new(&dir)).unwrap();
    let (mut run, planned) = (example_run(), example_bakeoff());
    let log = fs::File::create(Path::new(&dir).join("latency.hlog")).unwrap();
    hlog::write(run.load.as_ref().unwrap(), &Spool::temporary(), run.header.anchor, &mut &log).unwrap();
    let text = fs::File::create(Path::new(&dir).join("service.hgrm")).unwrap();
    hlog::write_hgrm(&run.load.as_ref().unwrap().service.known.clone().into(), |_, _| false, &mut &text)
        .unwrap();
    let keep = |run: &Run| {
        let mut writer = archive.begin(&run.header).unwrap();
        writer.add_file("server.log", &mut &b"ready for connections\n"[..]).unwrap();
        writer.seal(run).unwrap();
    };
    keep(&run);
    archive.create_bakeoff(&planned).unwrap();
    let mut journal = archive.journal(planned.header.id).unwrap();
    run.header = RunHeader { bakeoff: Some(planned.header.id), ..header(RunKind::Load, 3) };
    keep(&run);
    let event = |trial, attempt, step| JournalEvent {
        at_unix_ns: 1_795_000_000_123_456_789,
        at_monotonic_ns: 5_000_000_000,
        series: Some(trial + 1),
        trial: Some(trial),
        attempt: Some(attempt),
        step,
    };
    let reason = "the server did not answer".to_owned();
    for (trial, attempt, step) in [
        (0, 1, Step::SeriesSetup),
        (0, 1, Step::TrialWarming),
        (0, 1, Step::TrialMeasuring),
        (0, 2, Step::TrialWarming),
        (0, 2, Step::TrialSealed { run: run.header.id }),
        (1, 1, Step::TrialFailed { reason }),
    ] {
        journal.append(&event(trial, attempt, step)).unwrap();
    }
    journal.say(Step::BakeoffDone).unwrap();
}

/// The measured phase begins after the run: latencies count from the one, the table from the other.
#[test]
fn an_exported_distribution_has_the_time_at_which_its_interval_ended() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut run = example_run();
    run.header.anchor.monotonic_ns = 1_000_000_000_000;
    let load = run.load.as_mut().unwrap();
    load.measured_from_ns = 1_005_000_000_000;
    load.slices.truncate(1);
    (load.slices[0].from_ns, load.slices[0].for_ns) = (0, 1_000_000_000);
    archive.begin(&run.header).unwrap().seal(&run).unwrap();
    let exported = |format| {
        let mut out = Vec::new();
        archive.export(run.header.id, format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let csv = exported(Format::Csv);
    let of_slices: Vec<&str> = csv.lines().filter(|row| row.contains("response_bucket_events")).collect();
    assert!(!of_slices.is_empty(), "{csv}");
    for row in of_slices {
        assert_eq!(row.split(',').nth(9), Some("6000"), "{row}");
    }
    let metrics = exported(Format::OpenMetrics);
    let mut of_slices = metrics.lines().filter(|line| line.starts_with("bakeoff_response_bucket_events{"));
    assert!(of_slices.all(|line| line.ends_with(" 1795000006.123")), "{metrics}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn an_archive_of_version_1_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    copy(&testdata("v1"), folder.path());
    let archive = Archive::open_existing(folder.path()).unwrap();
    let verified = archive.verify(&[]).unwrap();
    assert_eq!(verified.len(), 3);
    for found in verified {
        assert_eq!(found.problems, [], "{}", found.path.display());
    }
    let listed = archive.list(&Filter::default()).unwrap();
    assert_eq!(listed.len(), 3);
    for listed in &listed {
        assert_eq!(
            (listed.header.title.as_str(), listed.header.state),
            ("an example of version 1", RunState::Sealed)
        );
    }
    let (single, whole) = (header(RunKind::Load, 1).id, header(RunKind::Bakeoff, 2).id);
    let run = archive.run(single).unwrap();
    assert_eq!(run.header, header(RunKind::Load, 1));
    let load = run.load.as_ref().unwrap();
    assert_eq!((load.slices.len(), load.service.known.count(), run.series.len()), (18, 3000, 3));
    assert_eq!(archive.file(single, "server.log").unwrap(), b"ready for connections\n");
    let bakeoff = archive.bakeoff(whole).unwrap();
    let told: Vec<_> = bakeoff.attempts.iter().map(|a| (a.trial, a.state)).collect();
    assert_eq!(told, [(0, TrialState::Abandoned), (0, TrialState::Sealed), (1, TrialState::Failed)]);
    // All of it, to the last digit; a later version may add to this golden file, and change nothing in it.
    for (name, id) in [("run", single), ("bakeoff", whole)] {
        let mut json = Vec::new();
        archive.export(id, Format::Json, &mut json).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        insta::assert_snapshot!(name, serde_json::to_string_pretty(&outline(value)).unwrap());
    }
}

/// Replaces long lists and encoded distributions by their checksum, to keep the golden file readable.
fn outline(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    let sum = |text: &str| format!("{} bytes, crc {:08x}", text.len(), crc32(text.as_bytes()));
    match value {
        Value::Array(list) if list.len() > 4 => Value::String(sum(&Value::Array(list).to_string())),
        Value::Array(list) => list.into_iter().map(outline).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, outline(value))).collect(),
        Value::String(text) if text.len() > 100 => {
            Value::String(decoded(&text).unwrap_or_else(|| sum(&text)))
        }
        other => other,
    }
}

/// Decodes a distribution, because another version of deflate may encode it in other bytes.
fn decoded(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let h = Histogram::from_hdr(&Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]).ok()?);
    Some(format!("{:?}", h.summary()?))
}

fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    }) ^ !0
}

/// `testdata/python.csv` is the output of the Python package `hdrhistogram` 0.10.8 for
/// `testdata/v1/latency.hlog`, by the program in `docs/archive.md`. With 3000 values every requested rank is
/// whole; otherwise that package rounds it, while ours and the Java implementation take the next higher.
#[test]
fn another_reader_finds_the_same_percentiles_in_a_log() {
    let log = fs::read(testdata("v1/latency.hlog")).unwrap();
    let mut sums = BTreeMap::<String, Histogram>::new();
    for entry in IntervalLogIterator::new(&log) {
        if let Ok(LogEntry::Interval(line)) = entry {
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD.decode(line.encoded_histogram()).unwrap();
            let hdr = Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]).unwrap();
            sums.entry(line.tag().unwrap().as_str().to_owned()).or_default().add(&Histogram::from_hdr(&hdr));
        }
    }
    let mut ours = String::new();
    for (tag, h) in &sums {
        let q = |quantile| h.quantile_ns(quantile).unwrap();
        writeln!(ours, "{tag} {} {} {} {} {} {}", h.count(), q(0.5), q(0.9), q(0.99), q(0.999), q(1.0))
            .unwrap();
    }
    assert_eq!(ours, fs::read_to_string(testdata("python.csv")).unwrap());
}

/// `testdata/python.hgrm` is the output of the same package for the tag `service`. It chooses other
/// percentiles than the Java implementation and ours; each line must hold nevertheless.
#[test]
fn the_percentile_text_agrees_with_that_of_another_writer() {
    let folder = tempfile::tempdir().unwrap();
    copy(&testdata("v1"), folder.path());
    let archive = Archive::open_existing(folder.path()).unwrap();
    let service = archive.run(header(RunKind::Load, 1).id).unwrap().load.unwrap().service.known;
    let mut ours = Vec::new();
    hlog::write_hgrm(&service.clone().into(), |_, _| false, &mut ours).unwrap();
    let ours = String::from_utf8(ours).unwrap();
    assert_eq!(ours, fs::read_to_string(testdata("v1/service.hgrm")).unwrap());

    let python = fs::read_to_string(testdata("python.hgrm")).unwrap();
    let buckets = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(buckets(&ours), buckets(&python));
    let mut upto = 0;
    let steps: Vec<(String, u64)> = service
        .as_hdr()
        .iter_recorded()
        .map(|bucket| {
            upto += bucket.count_since_last_iteration();
            (format!("{:.3}", bucket.value_iterated_to() as f64 / 1e6), upto)
        })
        .collect();
    let mut lines = 0;
    for text in [&ours, &python] {
        assert!(text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"));
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [value_ms, quantile, count, ..] = fields[..] else { continue };
            let (Ok(quantile), Ok(count)) = (quantile.parse::<f64>(), count.parse::<u64>()) else { continue };
            assert!(steps.contains(&(value_ms.to_owned(), count)), "{line}");
            assert!(count as f64 > quantile * 3000.0 - 1.0, "{line}");
            lines += 1;
        }
    }
    assert!(lines > 100, "{lines}");
}
