//! Agreement with scipy and statsmodels; `testdata/known_answers.py` computes the expected numbers.

use bakeoff_analysis::steady::{kpss, kpss_lags, mser, pelt};
use bakeoff_analysis::{Member, Paired, Rules, hodges_lehmann, judge, sign_flip};
use record::bakeoff::Metric;
use serde_json::Value;

#[test]
fn every_number_is_that_of_scipy_and_statsmodels() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../testdata/known-answers.json")).unwrap();
    let log_ratios: Vec<Vec<f64>> = cases.iter().map(|c| numbers(&c["log_ratios"])).collect();
    let family: Vec<Member> = log_ratios.iter().map(|d| Member::exact(Metric::Throughput, d)).collect();
    let judged = judge(&family, Rules { rope_ratio: 0.01, alpha: 0.05, seed: 0 });
    for ((case, d), judged) in cases.iter().zip(&log_ratios).zip(judged) {
        let known = |name: &str| case[name].as_f64().unwrap();
        let paired = Paired::of(d).unwrap();
        let estimate = judged.estimate.unwrap();
        check(case, "p", paired.p_beyond(0.0), known("p"));
        check(case, "p", estimate.p, known("p"));
        check(case, "p_adjusted", estimate.p_adjusted, known("p_adjusted"));
        check(case, "p_beyond_1_percent", paired.p_beyond(0.01_f64.ln_1p()), known("p_beyond_1_percent"));
        check(case, "p_sign_flip", sign_flip(d, 0).p, known("p_sign_flip"));
        check(case, "hodges_lehmann", hodges_lehmann(d).unwrap(), known("hodges_lehmann"));
        let known_95 = numbers(&case["interval_95"]);
        check(case, "low", estimate.low.ln(), known_95[0]);
        check(case, "high", estimate.high.ln(), known_95[1]);
        let known_90 = numbers(&case["interval_90"]);
        check(case, "low of 90 %", paired.interval(0.1).0, known_90[0]);
        check(case, "high of 90 %", paired.interval(0.1).1, known_90[1]);
    }
}

/// `testdata/steady.py` computes the expected numbers.
#[test]
fn series_are_judged_as_by_statsmodels_and_ruptures() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../testdata/steady.json")).unwrap();
    for case in &cases {
        let values = numbers(&case["values"]);
        let whole = |name: &str| usize::try_from(case[name].as_u64().unwrap()).unwrap();
        let lags = kpss_lags(values.len());
        assert_eq!(lags, whole("lags"), "{}", case["name"]);
        check(case, "kpss", kpss(&values, lags), case["kpss"].as_f64().unwrap());
        assert_eq!(mser(&values), whole("mser"), "{}", case["name"]);
        let changes: Vec<f64> =
            pelt(&values, case["penalty"].as_f64().unwrap(), 2).into_iter().map(|c| c as f64).collect();
        assert_eq!(changes, numbers(&case["changes"]), "{}", case["name"]);
    }
}

fn check(case: &Value, what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() < 1e-9, "{} {what}: {ours} instead of {theirs}", case["name"]);
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().expect("a list of numbers");
    values.iter().map(|v| v.as_f64().expect("a number")).collect()
}
