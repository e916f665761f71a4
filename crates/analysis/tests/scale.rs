//! Scale runs that were never measured: their truth is known.

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_analysis as analysis;
use record::bakeoff::{Attempt, Bakeoff, Judge, Page, Trial, TrialState};
use record::clock::WallAnchor;
use record::cpu::{CpuInterval, CpuSample, Rung};
use record::environment::Environment;
use record::missing::Missing;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::series::Sample;

const ANCHOR: WallAnchor = WallAnchor { monotonic_ns: 0, unix_ns: 1_795_254_723_250_000_000 };

fn header(kind: RunKind) -> RunHeader {
    RunHeader {
        id: RunId::new(ANCHOR, 1),
        kind,
        state: RunState::Sealed,
        reason: None,
        anchor: ANCHOR,
        title: "a synthetic machine".into(),
        labels: BTreeMap::new(),
        bakeoff: None,
        tool_version: "0".into(),
        command: "bakeoff scale -- true".into(),
    }
}

/// `busy` of `cpus` CPUs have a task all the time.
fn cpu(cpus: u32, busy: u32) -> CpuInterval {
    let missing = || Missing::because("synthetic");
    let sample = |cpu| CpuSample {
        cpu,
        event_ratio: Ok(f64::from(u8::from(cpu < busy))),
        tick_before_ratio: Err(missing()),
        tick_after_ratio: Err(missing()),
        sampled_ratio: Err(missing()),
        procstat_busy_ratio: Err(missing()),
        unaccounted_ratio: Err(missing()),
        not_idle_ratio: Err(missing()),
        stolen_ratio: Err(missing()),
        cycles: Err(missing()),
        instructions: Err(missing()),
        balance_ns: Err(missing()),
        switches: Err(missing()),
        top: Err(missing()),
    };
    CpuInterval {
        from_ns: 0,
        until_ns: 1_000_000_000,
        rung: Rung::Bpf,
        missed_deadline: false,
        cpus: (0..cpus).map(sample).collect(),
        lost: BTreeMap::new(),
    }
}

/// A run on `cpus` CPUs, on which `copies` copies do `work(copies)` per second, a little more in each round.
fn machine(cpus: u32, copies: &[u32], work: impl Fn(u32) -> f64, with_usage: bool) -> Bakeoff {
    let rounds = 4;
    let (mut trials, mut attempts) = (Vec::new(), Vec::new());
    for block in 1..=rounds {
        for (n, position) in copies.iter().zip(1..) {
            let index = u32::try_from(trials.len()).expect("a few");
            let levels = [("copies".to_owned(), n.to_string())].into();
            trials.push(Trial { index, block, series: block, position, levels });
            let sample = |name: &str, labels: String, value| Sample {
                t_ms: 1_000,
                host: String::new(),
                name: name.into(),
                labels,
                value,
            };
            let mut series = vec![sample("cpus", String::new(), f64::from(cpus))];
            let each = work(*n) / f64::from(*n) * (1.0 + 0.001 * f64::from(block));
            for copy in 0..*n {
                series.push(sample("work_per_s", format!("copy={copy}"), each));
                if with_usage {
                    let on_cpu = f64::from(cpus.min(*n)) / f64::from(*n);
                    series.push(sample("cpu_s_per_run", format!("copy={copy}"), on_cpu / each));
                }
            }
            let run = Run {
                header: header(RunKind::Scale),
                environment: Environment::default(),
                load: None,
                cpu: vec![cpu(cpus, (*n).min(cpus))],
                series,
                proofs: Vec::new(),
                recorded: None,
                instruments: record::instruments::Instruments::default(),
            };
            attempts.push(Attempt { trial: index, state: TrialState::Sealed, reason: None, run: Some(run) });
        }
    }
    Bakeoff {
        header: header(RunKind::Scale),
        question: String::new(),
        exploratory: false,
        factors: Vec::new(),
        blocks: rounds,
        seed: 1,
        trials,
        attempts,
        judge: Judge { rope_ratio: 0.01, alpha: 0.05, family: String::new(), metrics: Vec::new() },
        page: Page::default(),
        measure: Duration::from_secs(1),
        warmup: Duration::ZERO,
        environment: Environment::default(),
        plan_text: String::new(),
        plan_sha256: String::new(),
    }
}

#[test]
fn one_thread_on_256_cpus_is_at_its_limit_and_nobody_would_see_it_in_the_mean() {
    for with_usage in [true, false] {
        let only_one = analysis::scale::scale(&machine(256, &[1], |_| 10.0, with_usage));
        let sentence = only_one.seduction.unwrap();
        assert!(
            sentence.starts_with("one copy uses 0.39 % of this machine and is at its limit"),
            "{sentence}"
        );
        assert_eq!(only_one.levels[0].saturated, Ok(vec![0]));
        assert!((only_one.levels[0].busy_ratio.clone().unwrap() - 1.0 / 256.0).abs() < 1e-12);
    }
    let many = analysis::scale::scale(&machine(256, &[1, 64, 256], |n| 10.0 * f64::from(n), true));
    let sentence = many.seduction.unwrap();
    assert!(
        sentence.ends_with("256 copies do 256.00 times the work of one (100 % of 256 times)"),
        "{sentence}"
    );
    assert!(many.levels.iter().all(|l| (l.efficiency.clone().unwrap() - 1.0).abs() < 1e-9));
}

#[test]
fn a_copy_that_waits_is_not_at_its_limit() {
    let mut waits = machine(4, &[1], |_| 10.0, true);
    for run in waits.attempts.iter_mut().filter_map(|a| a.run.as_mut()) {
        run.cpu = vec![cpu(4, 0)];
        run.series.iter_mut().filter(|s| s.name == "cpu_s_per_run").for_each(|s| s.value /= 2.0);
    }
    let sentence = analysis::scale::scale(&waits).seduction.unwrap();
    assert!(sentence.starts_with("one copy uses 12.5 % of this machine; "), "{sentence}");
}

#[test]
fn a_fast_single_copy_seduces() {
    // The first machine is 20 % faster with one copy and does a third with all.
    let seducer = |n: u32| 12.0 * f64::from(n.min(4));
    let honest = |n: u32| 10.0 * f64::from(n.min(16));
    let levels = [1, 2, 4, 8, 16];
    let a = analysis::scale::scale(&machine(16, &levels, seducer, true));
    let b = analysis::scale::scale(&machine(16, &levels, honest, true));
    let versus = analysis::scale::versus(&a, &b);
    assert!((versus.one.unwrap().ratio - 1.2).abs() < 0.01);
    assert!((versus.all.unwrap().ratio - 0.3).abs() < 0.01);
    assert!(versus.sentence.ends_with("one copy seduces: it names the wrong machine"), "{}", versus.sentence);
    let same = analysis::scale::versus(&a, &a);
    assert!(same.sentence.ends_with("one copy and all copies agree"), "{}", same.sentence);
}

#[test]
fn a_level_whose_copies_died_is_told_and_not_used() {
    let mut run = machine(4, &[1, 2, 4], f64::from, true);
    for attempt in run.attempts.iter_mut().filter(|a| a.trial % 3 == 1) {
        attempt.state = TrialState::Invalid;
        attempt.reason = Some("copy 2 of 2 ended with exit status: 1".into());
    }
    let scale = analysis::scale::scale(&run);
    assert!(scale.levels[1].work_per_s.is_err() && scale.levels[1].rounds.is_empty());
    assert_eq!(scale.levels[1].invalid.len(), 4);
    assert_eq!(scale.levels[1].invalid[0], "round 1: copy 2 of 2 ended with exit status: 1");
    assert!(scale.levels[2].work_per_s.is_ok());
}
