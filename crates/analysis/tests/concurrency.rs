//! Scaling of a bake-off's throughput with the threads of its load, against known laws.

mod sample;

use bakeoff_analysis::compare;
use bakeoff_analysis::concurrency::{Clue, Concurrency, concurrency};
use bakeoff_analysis::usl::Law;
use record::bakeoff::Bakeoff;
use record::run::RunState;
use sample::Recipe;

/// Contention and coherency of `wal`; `delete` is linear.
const SIGMA: f64 = 0.06;
const KAPPA: f64 = 0.01;

fn usl(value: usize, threads: u32) -> f64 {
    let n = f64::from(threads);
    let divisor = if value == 1 { 1.0 + SIGMA * (n - 1.0) + KAPPA * n * (n - 1.0) } else { 1.0 };
    // The sample grows with the 0.7th power.
    0.3 * n.ln() - divisor.ln()
}

/// Two CPUs' worth of work, whatever the number of threads.
fn bent(_: usize, threads: u32) -> f64 {
    f64::from(threads.min(2)).ln() - 0.7 * f64::from(threads).ln()
}

fn bake(blocks: u32, effect_ln: fn(usize, u32) -> f64) -> Bakeoff {
    let threads = vec![1, 2, 4, 8, 16];
    Recipe { blocks, threads, effect_ln, with_trouble: false, noise_ln: 0.004, ..Recipe::journal() }.bake()
}

fn found(bakeoff: &Bakeoff) -> Vec<Concurrency> {
    concurrency(bakeoff, &compare(bakeoff))
}

fn of<'a>(all: &'a [Concurrency], mode: &str) -> &'a Concurrency {
    all.iter().find(|one| one.a["journal_mode"] == mode).expect("every configuration is there")
}

#[test]
fn each_configuration_has_its_own_law_with_intervals_that_hold_the_truth() {
    let all = found(&bake(8, usl));
    assert_eq!((all.len(), all[0].factor.as_str()), (2, "threads"));
    let wal = of(&all, "wal");
    assert_eq!(wal.scaling.chosen, Ok(Law::Usl), "{:?}", wal.scaling);
    let fitted = wal.scaling.laws.iter().find(|f| f.law == Law::Usl).unwrap();
    let [_, sigma, kappa] = fitted.intervals.clone().unwrap();
    assert!(sigma.0 < SIGMA && SIGMA < sigma.1 && kappa.0 < KAPPA && KAPPA < kappa.1, "{fitted:?}");
    // sqrt(0.94 / 0.01).
    let (at, (low, high)) = wal.scaling.peak.clone().unwrap();
    assert!(low < 9.695 && 9.695 < high && (at - 9.695).abs() < 0.5, "{at} [{low}, {high}]");
    assert!(wal.scaling.retrograde, "16 threads do less than 8");
    let workers: Vec<(f64, usize)> = wal.steps.iter().map(|s| (s.workers, s.blocks.len())).collect();
    assert_eq!(workers, [(1.0, 8), (2.0, 8), (4.0, 8), (8.0, 8), (16.0, 8)]);
    // 1 / (1 + 0.06 * 15 + 0.01 * 240).
    let efficiency = wal.steps[4].efficiency.clone().unwrap();
    assert!((efficiency - 0.232_6).abs() < 0.01, "{efficiency}");
    assert_eq!(of(&all, "delete").scaling.chosen, Ok(Law::Linear), "{:?}", of(&all, "delete").scaling);
}

#[test]
fn the_evidence_is_the_change_from_the_fewest_threads_to_the_most() {
    let all = found(&bake(8, usl));
    let evidence = |mode: &str, clue: Clue| {
        of(&all, mode).evidence.iter().find(|e| e.clue == clue).unwrap_or_else(|| panic!("{clue:?}")).clone()
    };
    // The sample's server uses 0.4 CPUs with one thread and 0.97 with 16: CPU time per event changes by
    // 2.425 / 16 of linear growth.
    let cpu = evidence("wal", Clue::CpuPerEvent);
    let truth = 2.425 / (16.0 * 0.232_6);
    let (low, high) = cpu.interval.clone().unwrap();
    assert!(low < truth && truth < high && !cpu.grew(), "{cpu:?} is not {truth}");
    let busy = evidence("wal", Clue::Busy);
    // One of the sample's two CPUs is busy for 0.7 of that.
    let truth = [0.4, 0.97].map(|busy| 0.85 * busy);
    assert!((busy.ends.0 - truth[0]).abs() < 0.02 && (busy.ends.1 - truth[1]).abs() < 0.02, "{busy:?}");
    assert!(busy.grew(), "{busy:?}");
    assert!(!of(&all, "wal").evidence.iter().any(|e| e.clue == Clue::LockCpu), "locks were not observed");
}

#[test]
fn a_bend_where_the_cpus_end_is_no_law() {
    let all = found(&bake(8, bent));
    let why = of(&all, "wal").scaling.chosen.clone().unwrap_err();
    assert!(why.reason.contains("miss the curve"), "{why}");
}

#[test]
fn there_is_no_law_of_few_blocks_or_of_rates_or_of_a_bakeoff_that_runs() {
    let few = found(&bake(5, usl));
    assert!(of(&few, "wal").scaling.chosen.is_err() && of(&few, "wal").steps.len() == 5);
    let open = Recipe { rate_per_s: Some(500.0), with_trouble: false, ..Recipe::journal() }.bake();
    assert_eq!(found(&open), []);
    let mut running = bake(8, usl);
    running.header.state = RunState::Interrupted;
    assert_eq!(found(&running), []);
    // The factor has another meaning: the load always has one worker.
    let mut other = bake(8, usl);
    for run in other.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
        run.load.as_mut().unwrap().settings.threads = 1;
    }
    assert_eq!(found(&other), []);
    let two = Recipe { threads: vec![1, 2], with_trouble: false, ..Recipe::journal() }.bake();
    assert_eq!(found(&two), []);
}
