//! Histories of other benchmark tools. The name of a sample states its tool and its peculiarity.

use std::path::Path;

use bakeoff_import::history::{History, read};
use jiff::tz::TimeZone;

fn sample(name: &str) -> History {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/history");
    let text = std::fs::read_to_string(folder.join(name)).expect("a sample");
    let path = Path::new("target/criterion/sort/quick/new").join(name);
    read(&text, &path, &TimeZone::UTC).expect("a history")
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
        assert!((value - known.2).abs() < 1e-12 * known.2.abs(), "{value} is not {}", known.2);
    }
}

#[test]
fn hyperfine_has_means_by_command_and_no_dates() {
    let history = sample("hyperfine-two-commands-one-failed.json");
    assert_eq!(history.tool, "hyperfine");
    check(
        &values(&history),
        &[
            ("time", Some("sort words.txt"), 0.4125, None),
            ("cpu-time", Some("sort words.txt"), 0.4103, None),
            ("time", Some("sort, 'odd' = %"), 0.2, None),
            ("cpu-time", Some("sort, 'odd' = %"), 0.2, None),
        ],
    );
    assert!(history.notes[0].contains("1 runs failed"), "{:?}", history.notes);
}

#[test]
fn google_benchmark_has_the_median_of_repetitions_or_their_mean() {
    let history = sample("google-benchmark-repetitions.json");
    let at = Some(1_795_251_123);
    check(
        &values(&history),
        &[
            ("time", Some("BM_Sort/1000"), 102.5e-6, at),
            ("cpu-time", Some("BM_Sort/1000"), 99.5e-6, at),
            ("items_per_s", Some("BM_Sort/1000"), 9_801.0, at),
            ("time", Some("BM_Hash"), 41e-9, at),
            ("cpu-time", Some("BM_Hash"), 40.5e-9, at),
        ],
    );
    assert_eq!((history.host.as_deref(), history.facts["cpu.count"].as_str()), (Some("lab1"), "8"));
    assert_eq!(
        history.notes,
        ["BM_Broken ended with an error and is left out", "BM_Skipped was skipped and is left out"]
    );
    let old = sample("google-benchmark-old-date.json");
    check(
        &values(&old),
        &[
            ("time", Some("BM_Old"), 7e-3, Some(1_795_254_723)),
            ("cpu-time", Some("BM_Old"), 7e-3, Some(1_795_254_723)),
        ],
    );
    assert_eq!(old.notes, ["the benchmark library is a debug build"]);
}

#[test]
fn criterion_has_the_slope_in_both_forms() {
    for name in ["criterion-estimates.json", "criterion-messages.json"] {
        check(&values(&sample(name)), &[("time", Some("sort/quick"), 1.048e-6, None)]);
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
    assert_eq!(history.values[0].labels, [("commit".to_owned(), "0123abcd".to_owned())]);
    assert_eq!(history.facts["kernel.release"], "6.12.4");
    assert_eq!(history.notes.len(), 1);
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
    let wrong = |text: &str| read(text, Path::new("x.json"), &TimeZone::UTC).unwrap_err().to_string();
    assert!(wrong("{}").starts_with("found JSON of an unknown form"));
    assert!(wrong("[1,2").starts_with("not JSON"));
    assert!(wrong(r#"{"results":[]}"#).contains("no entries in `results`"));
    assert!(wrong(r#"{"results":[{"command":"x","mean":null}]}"#).contains("x: expected a number `mean`"));
    assert!(wrong(r#"{"results":[{"command":"x","mean":1e999}]}"#).contains("not JSON"));
    assert!(wrong(r#"{"results":7}"#).contains("no entries"));
    assert!(wrong(r#"{"machine_info":{},"benchmarks":[{"name":"a","stats":{}}]}"#).contains("`stats.mean`"));
    assert!(
        wrong(r#"{"context":{},"benchmarks":[{"name":"a","real_time":1,"time_unit":"h"}]}"#).contains("`h`")
    );
    assert!(wrong(r#"{"reason":"x"}"#).contains("benchmark-complete"));
    assert!(wrong("name,value\nx,1\n").starts_with("1:1: found `name`"));
}
