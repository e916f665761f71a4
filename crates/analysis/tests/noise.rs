//! The parts of I/O, of stolen time and of placement in the noise, from bake-offs with a known truth.

#[allow(dead_code, reason = "this program uses a part of it")]
mod sample;

use std::collections::BTreeMap;

use bakeoff_analysis::noise::{IoEvidence, OfIo, noise};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::bakeoff::Bakeoff;
use record::block_io::{IoCounts, IoEvents, IoGroup, IoInterval, Latencies, LatencyBucket};
use record::missing::{Maybe, Missing};
use record::run::Run;
use record::series::{HistogramSlice, LatencyKind};
use sample::{Recipe, normal};

const S: u64 = 1_000_000_000;

/// Rates of one second of a trial.
struct Second {
    per_s: f64,
    request_ns: f64,
    bytes: f64,
    requests: u64,
}

fn bake() -> Bakeoff {
    Recipe { with_trouble: false, threads: vec![1], ..Recipe::journal() }.bake()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
fn filled(run: &mut Run, seconds: &[Second], with_io: bool) {
    let load = run.load.as_mut().expect("it is a load");
    let slice = |(second, of): (u64, &Second)| HistogramSlice {
        from_ns: second * S,
        for_ns: S,
        operation: String::new(),
        kind: LatencyKind::Service,
        histogram: [(1_000_000, of.per_s as u64)].into_iter().collect(),
    };
    load.slices = (0..).zip(seconds).map(slice).collect();
    let from_ns = load.measured_from_ns;
    let interval = |(second, of): (u64, &Second)| {
        let ns = of.request_ns as u64;
        let bucket = LatencyBucket { from_ns: ns, until_ns: ns + 1, count: of.requests };
        let group = IoGroup {
            count: of.requests,
            bytes: of.bytes as u64,
            from_start: Latencies {
                buckets: if of.requests > 0 { vec![bucket] } else { Vec::new() },
                sum_ns: ns * of.requests,
                max_ns: ns,
            },
            ..IoGroup::default()
        };
        IoInterval {
            from_ns: from_ns + second * S,
            until_ns: from_ns + (second + 1) * S,
            missed_deadline: false,
            events: IoEvents::StartToDone,
            counts: IoCounts::default(),
            groups: vec![group],
            in_flight: 0,
            unmatched: Ok(0),
            merged: Ok(0),
            lost: BTreeMap::new(),
        }
    };
    run.instruments.io = if with_io { (0..).zip(seconds).map(interval).collect() } else { Vec::new() };
}

/// The part of I/O if each second of each trial is drawn by `truth`.
fn found(seed: u64, truth: &dyn Fn(&mut ChaCha8Rng) -> Second) -> Maybe<OfIo> {
    let (mut bakeoff, mut chance) = (bake(), ChaCha8Rng::seed_from_u64(seed));
    for run in bakeoff.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
        // Levels that differ between trials explain nothing within them.
        let level = (0.5 * normal(&mut chance)).exp();
        let seconds: Vec<Second> =
            (0..10).map(|_| truth(&mut chance)).map(|s| Second { per_s: s.per_s * level, ..s }).collect();
        filled(run, &seconds, true);
    }
    noise(&bakeoff).expect("twelve trials of ten seconds").io
}

#[test]
fn a_device_that_is_slow_by_turns_has_its_share() {
    // ln throughput is -x / 5 by the device and 0.1 of other noise: the device has 80 % of the variance.
    let found = found(1, &|chance| {
        let (x, other) = (normal(chance), 0.1 * normal(chance));
        let per_s = 100_000.0 * (-0.2 * x + other).exp();
        Second { per_s, request_ns: 1e6 * (1.0 + 0.2 * x).max(0.1), bytes: 1e6, requests: 100 }
    })
    .unwrap();
    assert!((found.ratio - 0.8).abs() < 0.1 && found.correlation < -0.8, "{found:?}");
    assert_eq!(found.by, IoEvidence::Wait);
}

#[test]
fn another_writer_has_its_share_by_bytes() {
    let found = found(2, &|chance| {
        let is_writing = normal(chance) > 0.5;
        let per_s = 100_000.0 * (0.05 * normal(chance)).exp() * if is_writing { 0.6 } else { 1.0 };
        let bytes = if is_writing { 5e7 } else { 1e6 };
        Second { per_s, request_ns: 1e6 * (0.1 * normal(chance)).exp(), bytes, requests: 100 }
    })
    .unwrap();
    assert!(found.ratio > 0.9 && found.correlation < -0.9, "{found:?}");
    assert_eq!(found.by, IoEvidence::Bytes);
}

/// The server writes for each event: bytes and throughput are the same noise, and neither is its cause.
#[test]
fn bytes_that_follow_the_work_are_no_cause() {
    let found = found(3, &|chance| {
        let per_s = 100_000.0 * (0.1 * normal(chance)).exp();
        Second { per_s, request_ns: 1e6 * (0.1 * normal(chance)).exp(), bytes: 100.0 * per_s, requests: 100 }
    })
    .unwrap();
    assert!(found.ratio.abs() < f64::EPSILON, "{found:?}");
}

/// Shares of stolen time and of placement if both rise by turns, and ln throughput by `by` with them.
fn of_cpus(seed: u64, by: f64) -> [f64; 2] {
    let (mut bakeoff, mut chance) = (bake(), ChaCha8Rng::seed_from_u64(seed));
    for run in bakeoff.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
        let turns: Vec<f64> = (0..10).map(|_| normal(&mut chance).clamp(-1.9, 1.9)).collect();
        let second = |x: &f64| {
            let per_s = 100_000.0 * (by * x + 0.05 * normal(&mut chance)).exp();
            Second { per_s, request_ns: 1e6, bytes: 1e6, requests: 10 }
        };
        let seconds: Vec<Second> = turns.iter().map(second).collect();
        filled(run, &seconds, false);
        for (interval, x) in run.cpu.iter_mut().zip(&turns) {
            for (sample, busy) in interval.cpus.iter_mut().zip([0.6 + 0.1 * x, 0.4]) {
                (sample.stolen_ratio, sample.event_ratio) = (Ok(0.1 + 0.05 * x), Ok(busy));
            }
        }
    }
    let found = noise(&bakeoff).expect("twelve trials of ten seconds");
    [found.steal_ratio, found.placement_ratio].map(Maybe::unwrap)
}

#[test]
fn stolen_time_and_uneven_cpus_are_causes_only_against_the_work() {
    // ln throughput is -x / 10 by the cause and 0.05 of other noise: 80 % of the variance.
    for share in of_cpus(5, -0.1) {
        assert!((share - 0.8).abs() < 0.1, "{share}");
    }
    // More work makes the busiest CPU busier, and there is more time to steal.
    for share in of_cpus(6, 0.1) {
        assert!(share.abs() < f64::EPSILON, "{share}");
    }
}

#[test]
fn chance_has_no_share_and_idle_devices_neither() {
    let runs = 200;
    let is_named = |seed: &u64| {
        let found = found(100 + seed, &|chance| Second {
            per_s: 100_000.0 * (0.1 * normal(chance)).exp(),
            request_ns: 1e6 * (0.3 * normal(chance)).exp(),
            bytes: 1e6 * (0.3 * normal(chance)).exp(),
            requests: 100,
        });
        found.unwrap().ratio > 0.0
    };
    let named = (0..runs).filter(is_named).count();
    println!("{named} of {runs} bake-offs without a cause name I/O");
    // 1 % of 200, and two standard errors.
    assert!(named <= 4, "{named}");
    let idle = found(4, &|chance| Second {
        per_s: 100_000.0 * (0.1 * normal(chance)).exp(),
        request_ns: 0.0,
        bytes: 0.0,
        requests: 0,
    });
    assert!(idle.unwrap().ratio.abs() < f64::EPSILON);
}

#[test]
fn without_the_instrument_or_with_losses_the_share_is_missing() {
    let mut bakeoff = bake();
    let seconds = || -> Vec<Second> {
        let second =
            |i: u32| Second { per_s: 1e5 + f64::from(i % 3), request_ns: 1e6, bytes: 1e6, requests: 10 };
        (0..10).map(second).collect()
    };
    let mut io = |change: &dyn Fn(&mut Run)| {
        for run in bakeoff.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
            filled(run, &seconds(), true);
            change(run);
        }
        noise(&bakeoff).expect("twelve trials of ten seconds").io
    };
    let why = io(&|run| run.instruments.io.clear()).unwrap_err();
    assert_eq!(why.reason, "`io` is not among the instruments");
    let why = io(&|run| {
        run.instruments.io.clear();
        run.instruments.missing.insert("io".into(), Missing::because("no BTF"));
    });
    assert_eq!(why.unwrap_err().reason, "no BTF");
    let why = io(&|run| {
        run.instruments.io[3].lost.insert("full".into(), 1);
    });
    assert_eq!(why.unwrap_err().reason, "block requests were lost");
}
