//! Histories of other benchmark tools. The name of a sample states its tool and its peculiarity.

use std::path::Path;

use bakeoff_import::history::{History, HistoryError, Source, read};
use jiff::tz::TimeZone;

fn sample(name: &str) -> History {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/history");
    let text = std::fs::read_to_string(folder.join(name)).expect("a sample");
    let path = Path::new("target/criterion/sort/quick/new").join(name);
    of(&text, &path).expect("a history")
}

fn of(text: &str, path: &Path) -> Result<History, HistoryError> {
    read(text, Source { path, beside: None, zone: &TimeZone::UTC, with_failures: false })
}

fn values(history: &History) -> Vec<(String, Option<&str>, f64, Option<u64>)> {
    let of = |v: &bakeoff_import::history::HistoryValue| v.at_unix_ns.map(|ns| ns / 1_000_000_000);
    history.values.iter().map(|v| (v.metric.clone(), v.subject.as_deref(), v.value, of(v))).collect()
}

fn check(
    found: &[(String, Option<&str>, f64, Option<u64>)],
    expected: &[(&str, Option<&str>, f64, Option<u64>)],
) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((metric, subject, value, at), known) in found.iter().zip(expected) {
        assert_eq!((metric.as_str(), *subject, *at), (known.0, known.1, known.3), "{found:?}");
        assert!((value - known.2).abs() <= 1e-12 * known.2.abs(), "{value} is not {}", known.2);
    }
}

#[test]
fn hyperfine_has_means_by_command_that_succeeded_and_no_dates() {
    let history = sample("hyperfine-two-commands-one-failed.json");
    assert_eq!(history.tool, "hyperfine");
    check(
        &values(&history),
        &[("time", Some("sort words.txt"), 0.4125, None), ("cpu-time", Some("sort words.txt"), 0.4103, None)],
    );
    let failed = "sort, 'odd' = % is left out: 1 of 1 runs failed (--ignore-failure includes them)";
    assert_eq!(history.notes, [failed]);
    let text = include_str!("../testdata/history/hyperfine-two-commands-one-failed.json");
    let source = Source { path: Path::new("x"), beside: None, zone: &TimeZone::UTC, with_failures: true };
    let all = read(text, source).expect("a history");
    assert_eq!((all.values.len(), all.notes[0].as_str()), (4, "sort, 'odd' = %: 1 of 1 runs failed"));
}

/// Parameters need not be in the name, `-n` gives one name to several commands, and a signal, a time that is
/// clamped to 0 and an empty list are no times.
#[test]
fn hyperfine_keeps_apart_parameters_and_equal_names() {
    let history = sample("hyperfine-parameters-and-equal-names.json");
    check(
        &values(&history),
        &[
            ("time", Some("sort (by=key, n=10)"), 1.0, None),
            ("cpu-time", Some("sort (by=key, n=10)"), 0.95, None),
            ("memory_bytes", Some("sort (by=key, n=10)"), 2e6, None),
            ("time", Some("sort (by=key, n=20)"), 2.0, None),
            ("cpu-time", Some("sort (by=key, n=20)"), 1.95, None),
            ("time", Some("same"), 3.0, None),
            ("cpu-time", Some("same"), 0.0, None),
            ("time", Some("same #2"), 4.0, None),
            ("cpu-time", Some("same #2"), 0.0, None),
        ],
    );
    let about: Vec<&str> = history.notes.iter().filter_map(|note| note.split(" is left").next()).collect();
    assert_eq!(about[1..], ["killed", "clamped", "untimed"], "{:?}", history.notes);
}

#[test]
fn google_benchmark_has_the_median_of_repetitions_or_their_mean() {
    let history = sample("google-benchmark-repetitions.json");
    let at = Some(1_795_251_123);
    check(
        &values(&history),
        &[
            ("time", Some("bench: BM_Sort/1000"), 102.5e-6, at),
            ("cpu-time", Some("bench: BM_Sort/1000"), 99.5e-6, at),
            ("items_per_s", Some("bench: BM_Sort/1000"), 9_801.0, at),
            ("time", Some("bench: BM_Hash"), 41e-9, at),
            ("cpu-time", Some("bench: BM_Hash"), 40.5e-9, at),
        ],
    );
    assert_eq!((history.host.as_deref(), history.facts["cpu.count"].as_str()), (Some("lab1"), "8"));
    assert_eq!(
        history.notes,
        [
            "1 entry of stddev left out: only medians and means are read",
            "bench: BM_Broken is left out: it ended with an error",
            "bench: BM_Skipped is left out: it was skipped"
        ]
    );
    let old = sample("google-benchmark-old-date.json");
    check(
        &values(&old),
        &[
            ("time", Some("old_bench: BM_Old"), 7e-3, Some(1_795_254_723)),
            ("cpu-time", Some("old_bench: BM_Old"), 7e-3, Some(1_795_254_723)),
        ],
    );
    let notes =
        ["the benchmark library is a debug build", "its date has no time zone and is read as local time"];
    assert_eq!(old.notes, notes);
}

/// Worked out by hand: each benchmark counts once, with or without aggregates. A standard deviation is not a
/// time. A benchmark with a failed repetition is left out. Two benchmarks may have the same name.
#[test]
fn google_benchmark_has_counters_and_neither_deviations_nor_failures() {
    let history = sample("google-benchmark-counters-and-failures.json");
    let at = Some(1_795_251_123);
    let mut found = values(&history);
    found.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    check(
        &found,
        &[
            ("bytes_per_s", Some("bench: BM_Copy/64"), 2.9e7, at),
            ("counter-time", Some("bench: BM_Copy/64"), 78.0, at),
            ("cpu-time", Some("bench: BM_Copy/64"), 2e-6, at),
            ("hits", Some("bench: BM_Copy/64"), 0.8, at),
            ("items_per_s", Some("bench: BM_Copy/64"), 4.5e5, at),
            ("time", Some("bench: BM_Copy/64"), 2.2e-6, at),
            ("allocs_per_iter", Some("bench: BM_Sums"), 2.0, at),
            ("cpu-time", Some("bench: BM_Sums"), 0.0, at),
            ("max_used_bytes", Some("bench: BM_Sums"), 4096.0, at),
            ("time", Some("bench: BM_Sums"), 5.0, at),
            ("cpu-time", Some("bench: BM_Twin"), 1e-9, at),
            ("time", Some("bench: BM_Twin"), 1e-9, at),
            ("cpu-time", Some("bench: BM_Twin #2"), 9e-9, at),
            ("time", Some("bench: BM_Twin #2"), 9e-9, at),
        ],
    );
    let facts = ["cpu.scaling", "benchmark.version"].map(|name| history.facts[name].as_str());
    assert_eq!(facts, ["true", "v1.9.1"]);
    let left_out: Vec<&String> = history.notes.iter().filter(|note| note.contains("left out")).collect();
    let known = [
        "2 entries of fitted curves (BigO, RMS) left out: no times",
        "3 entries of cv, stddev left out: only medians and means are read",
        "bench: BM_Flaky is left out: 1 of 3 repetitions: it ended with an error",
        "bench: BM_Zero/manual_time is left out: its `real_time` is not a time over 0, up to 1e60",
    ];
    assert_eq!(left_out, known);
}

/// Before 1.5 only their names mark aggregates. A benchmark may be named like one.
#[test]
fn google_benchmark_of_an_old_version_has_aggregates_by_their_names() {
    let at = Some(1_524_662_333);
    check(
        &values(&sample("google-benchmark-old-aggregates.json")),
        &[
            ("time", Some("BM_Sort/repeats:2"), 21e-9, at),
            ("cpu-time", Some("BM_Sort/repeats:2"), 20e-9, at),
            ("time", Some("BM_harmonic_mean"), 7e-9, at),
            ("cpu-time", Some("BM_harmonic_mean"), 7e-9, at),
        ],
    );
}

/// The name of a fitted curve's error may also be that of a counter.
#[test]
fn google_benchmark_with_a_counter_named_rms_has_its_times() {
    let text = r#"{"context":{"num_cpus":2,"library_version":"v1.9.0"},"benchmarks":[
        {"name":"BM_A","run_name":"BM_A","run_type":"iteration","real_time":5.0,"cpu_time":4.0,"time_unit":"ns","rms":0.5},
        {"name":"BM_A_RMS","run_name":"BM_A","run_type":"aggregate","aggregate_name":"RMS","rms":0.02}]}"#;
    let history = of(text, Path::new("x.json")).unwrap();
    let named = [
        ("time", Some("BM_A"), 5e-9, None),
        ("cpu-time", Some("BM_A"), 4e-9, None),
        ("rms", Some("BM_A"), 0.5, None),
    ];
    check(&values(&history), &named);
    assert!(
        history.notes.iter().any(|note| note.starts_with("1 entry of fitted curves")),
        "{:?}",
        history.notes
    );
}

#[test]
fn criterion_has_the_slope_in_both_forms() {
    for name in ["criterion-estimates.json", "criterion-messages.json"] {
        check(&values(&sample(name)), &[("time", Some("sort/quick"), 1.048e-6, None)]);
    }
    let old = sample("criterion-estimates-of-an-old-version.json");
    check(&values(&old), &[("time", Some("sort/quick"), 10.5e-9, None)]);
}

/// A custom measurement counts cycles; the estimates of a change are ratios.
#[test]
fn criterion_has_no_times_that_are_none() {
    let messages = sample("criterion-messages-of-counts-and-equal-names.json");
    check(
        &values(&messages),
        &[("time", Some("sort/quick"), 2e-9, None), ("time", Some("sort/quick #2"), 4e-3, None)],
    );
    assert_eq!(messages.notes[1], "cycles is left out: its unit `cycles` is not a time");
    let estimates = include_str!("../testdata/history/criterion-estimates.json");
    let change = r#"{"mean":{"point_estimate":-0.02},"median":{"point_estimate":0.01}}"#;
    let sizes = r#"{"sampling_mode":"Linear","iters":[1.0],"times":[5.0]}"#;
    for (text, folder) in [(estimates, "change"), (change, "new"), (sizes, "new")] {
        let path = format!("target/criterion/a/{folder}/estimates.json");
        let refused = of(text, Path::new(&path)).unwrap_err().to_string();
        assert!(refused.contains("expected the `estimates.json` of the folder `new`"), "{refused}");
    }
}

#[test]
fn pytest_benchmark_has_commit_machine_and_utc_dates() {
    let history = sample("pytest-benchmark-two-tests.json");
    let at = Some(1_795_254_723);
    check(
        &values(&history),
        &[
            ("time", Some("tests/test_x.py::test_sort"), 0.002, at),
            ("time", Some("tests/test_x.py::test_hash[10]"), 2e-6, at),
        ],
    );
    assert_eq!(history.values[0].labels, [("commit".to_owned(), "0123abcd-dirty".to_owned())]);
    assert_eq!(history.facts["kernel.release"], "6.12.4");
    assert_eq!(history.notes.len(), 1);
}

#[test]
fn pytest_benchmark_has_the_time_of_its_timer_and_no_commit_that_is_none() {
    let history = sample("pytest-benchmark-cpu-timer-without-commit.json");
    let at = Some(1_795_254_723);
    check(
        &values(&history),
        &[
            ("time", Some("tests/a.py::test_x"), 0.001, at),
            ("cpu-time", Some("tests/b.py::test_x"), 0.002, at),
            ("time", Some("tests/a.py::test_x #2"), 0.003, at),
        ],
    );
    assert!(history.values.iter().all(|value| value.labels.is_empty()), "{history:?}");
    assert!(history.notes[1].starts_with("tests/a.py::test_y is left out"), "{:?}", history.notes);
}

#[test]
fn a_table_has_a_value_for_each_cell_with_a_number() {
    let history = sample("csv-two-metrics-with-commits.csv");
    check(
        &values(&history),
        &[
            ("p99_ms", None, 1.5, Some(1_795_219_200)),
            ("throughput", None, 1_000.0, Some(1_795_219_200)),
            ("throughput", None, 1_010.0, Some(1_795_305_600)),
            ("p99_ms", None, 1.52, Some(1_795_392_000)),
        ],
    );
    assert_eq!(history.notes, ["2 cells have no value and are left out"]);
}

#[test]
fn other_documents_are_refused_with_what_was_expected() {
    let wrong = |text: &str| of(text, Path::new("x.json")).unwrap_err().to_string();
    assert!(wrong("{}").starts_with("found JSON of an unknown form"));
    assert!(
        wrong("\u{feff}{}").starts_with("found JSON of an unknown form"),
        "a mark of PowerShell is no fault"
    );
    assert!(wrong("[1,2").starts_with("not JSON"));
    assert!(wrong(r#"{"results":[]}"#).contains("no entries in `results`"));
    assert!(wrong(r#"{"results":[{"command":"x","mean":null}]}"#).contains("x is left out: its `mean`"));
    assert!(wrong(r#"{"results":[{"command":"x","mean":1e999}]}"#).contains("not JSON"));
    assert!(wrong(r#"{"results":7}"#).contains("no entries"));
    assert!(
        wrong(r#"{"machine_info":{},"benchmarks":[{"name":"a","stats":{}}]}"#)
            .contains("a is left out: its `stats.mean`")
    );
    assert!(
        wrong(r#"{"context":{},"benchmarks":[{"name":"a","real_time":1,"time_unit":"h"}]}"#).contains("`h`")
    );
    assert!(wrong(r#"{"reason":"x"}"#).contains("benchmark-complete"));
    assert!(wrong("name,value\nx,1\n").starts_with("1:1: found `name`"));
}
