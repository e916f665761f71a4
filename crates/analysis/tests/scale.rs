//! Synthetic scale runs with known truth.

mod copies;

use bakeoff_analysis as analysis;
use copies::{cpu, machine};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::TrialState;

#[test]
fn one_thread_on_256_cpus_is_at_its_limit_and_nobody_would_see_it_in_the_mean() {
    for (with_usage, says) in [
        (true, "one copy uses 0.39 % of this machine, the limit of a single thread"),
        (false, "beside one copy, 0.39 % of this machine is busy, the limit of a single thread"),
    ] {
        let only_one = analysis::scale::scale(&machine(256, &[1], |_| 10.0, with_usage));
        assert_eq!(only_one.seduction.unwrap(), says);
        assert_eq!(only_one.levels[0].saturated, Ok(vec![0]));
        assert!((only_one.levels[0].busy_ratio.clone().unwrap() - 1.0 / 256.0).abs() < 1e-12);
    }
    let mut unwatched = machine(256, &[1], |_| 10.0, true);
    unwatched.attempts.iter_mut().filter_map(|a| a.run.as_mut()).for_each(|run| run.cpu.clear());
    let said = analysis::scale::scale(&unwatched).seduction.unwrap();
    assert_eq!(said, "one copy keeps 1.00 CPUs busy, the limit of a single thread");
    let many = analysis::scale::scale(&machine(256, &[1, 64, 256], |n| 10.0 * f64::from(n), true));
    let sentence = many.seduction.unwrap();
    assert!(
        sentence.contains("256 copies do 256.00 times the work of one [25")
            && sentence.ends_with("] (100 % of 256 times)"),
        "{sentence}"
    );
    assert!(many.levels.iter().all(|l| (l.efficiency.clone().unwrap() - 1.0).abs() < 1e-9));
}

#[test]
fn room_on_cpus_that_the_copies_may_not_use_is_none_of_theirs() {
    // On 4 of 256 CPUs: linear up to 4 copies, constant from there, and nearly all of the machine idle.
    let mut few = machine(256, &[1, 2, 3, 4, 8, 16], |n| 10.0 * f64::from(n.min(4)), true);
    for run in few.attempts.iter_mut().filter_map(|a| a.run.as_mut()) {
        run.series.iter_mut().filter(|s| s.name == "cpus").for_each(|s| s.value = 4.0);
    }
    assert_eq!(analysis::scale::scale(&few).scaling.chosen, Ok(analysis::usl::Law::Linear));
}

#[test]
fn a_machine_that_seems_to_have_room_past_its_cpus_is_not_fitted_there() {
    // Short units leave 2 CPUs 93 % busy at 4 copies: starting and ending them is not contention.
    let mut short = machine(2, &[1, 2, 3, 4], |n| 10.0 * f64::from(n.min(2)), true);
    for run in short.attempts.iter_mut().filter_map(|a| a.run.as_mut()) {
        for sample in run.cpu.iter_mut().flat_map(|interval| &mut interval.cpus) {
            sample.event_ratio = sample.event_ratio.clone().map(|ratio| ratio.min(0.93));
        }
    }
    let scale = analysis::scale::scale(&short);
    assert!(scale.scaling.laws.iter().all(|law| law.band.iter().all(|(n, _)| *n <= 2.0)), "{scale:?}");
    assert!(scale.scaling.chosen.is_err(), "two levels tell no laws apart: {scale:?}");
}

#[test]
fn a_copy_that_waits_is_not_at_its_limit() {
    let mut waits = machine(4, &[1], |_| 10.0, true);
    for run in waits.attempts.iter_mut().filter_map(|a| a.run.as_mut()) {
        run.cpu = vec![cpu(4, 0)];
        run.series.iter_mut().filter(|s| s.name == "cpu_s_per_run").for_each(|s| s.value /= 2.0);
    }
    let sentence = analysis::scale::scale(&waits).seduction.unwrap();
    assert_eq!(sentence, "one copy uses 12.5 % of this machine");
}

#[test]
fn rounds_of_more_and_less_than_a_cpu_are_no_thread_at_its_limit() {
    // Every other round uses 1.4 CPUs and the others 0.56: 0.98 on average.
    let mut mixed = machine(4, &[1], |_| 10.0, true);
    for (round, attempt) in mixed.attempts.iter_mut().enumerate() {
        let series = attempt.run.iter_mut().flat_map(|run| &mut run.series);
        let busy = if round % 2 == 0 { 1.4 } else { 0.56 };
        series.filter(|s| s.name == "cpu_s_per_run").for_each(|s| s.value *= busy);
    }
    assert_eq!(analysis::scale::scale(&mixed).seduction.unwrap(), "one copy uses 24.5 % of this machine");
}

#[test]
fn that_no_number_of_copies_did_more_comes_with_how_much_more_they_may_do() {
    let flat = analysis::scale::scale(&machine(16, &[1, 2, 4], |n| if n > 1 { 99.0 } else { 100.0 }, true));
    let said = flat.seduction.unwrap();
    assert!(
        said.contains("; more copies did not do more: ")
            && said.contains(" copies do 0.99 times the work of one ["),
        "{said}"
    );
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
    assert!(
        versus.sentence.ends_with("one copy misleads: it favours the wrong machine"),
        "{}",
        versus.sentence
    );
    let same = analysis::scale::versus(&a, &a);
    assert!(same.sentence.ends_with("one copy and all copies agree within 5.00 %"), "{}", same.sentence);
}

#[test]
fn intervals_that_overlap_are_no_agreement() {
    // Noise of 20 %: the machines may differ by far more when they are full, and nothing would show it.
    let noisy = |seed: u32| {
        let mut run = machine(16, &[1, 2, 4, 8, 16], |n| 10.0 * f64::from(n), true);
        for (index, attempt) in (0_u32..).zip(run.attempts.iter_mut()) {
            let factor = 1.0 + 0.2 * (f64::from((index * 7919 + seed * 104_729) % 1000) / 500.0 - 1.0);
            let series = attempt.run.iter_mut().flat_map(|run| &mut run.series);
            series.filter(|s| s.name == "work_per_s").for_each(|s| s.value *= factor);
        }
        analysis::scale::scale(&run)
    };
    for seed in 0..20 {
        let versus = analysis::scale::versus(&noisy(seed), &noisy(seed + 100));
        assert!(!versus.sentence.contains(": one copy and all copies agree within"), "{}", versus.sentence);
    }
}

/// Scale run of a machine with 16 CPUs, with noise that a round shares, and as much separate for each level.
fn measured(work: impl Fn(u32) -> f64, share: f64, seed: u64) -> analysis::scale::Scale {
    let mut run = machine(16, &[1, 2, 4, 8, 16], work, true);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
    let shared: Vec<f64> = (0..=run.blocks).map(|_| share * normal()).collect();
    for attempt in &mut run.attempts {
        let block =
            run.trials.iter().find(|trial| trial.index == attempt.trial).map_or(0, |trial| trial.block);
        let factor = (shared[block as usize] + share * normal()).exp();
        let series = attempt.run.iter_mut().flat_map(|run| &mut run.series);
        series.filter(|s| s.name == "work_per_s").for_each(|s| s.value *= factor);
    }
    analysis::scale::scale(&run)
}

#[test]
fn machines_that_do_not_agree_within_5_percent_are_rarely_said_to() {
    // All copies of the first machine do `times` as much as one copy suggests.
    let said_to_agree = |times: f64| {
        let machine = |of_all: f64, seed: u64| {
            measured(|n| 10.0 * f64::from(n) * if n > 1 { of_all } else { 1.0 }, 0.01, seed)
        };
        let agree = |seed: &u64| {
            let versus = analysis::scale::versus(&machine(times, 2 * seed), &machine(1.0, 2 * seed + 1));
            versus.sentence.contains(": one copy and all copies agree within")
        };
        (0..200_u64).filter(agree).count()
    };
    for times in [1.05, 1.0 / 1.05, 1.07] {
        let count = said_to_agree(times);
        assert!(count <= 10, "{times}: {count} of 200");
    }
    let count = said_to_agree(1.0);
    assert!(count >= 150, "the same machines: {count} of 200");
}

#[test]
fn the_interval_of_times_the_work_of_one_holds_the_truth() {
    /// Name, work by number of copies, and the best number's work divided by that of one.
    type Truth = (&'static str, fn(u32) -> f64, f64);
    let truths: [Truth; 3] = [
        ("rises", f64::from, 16.0),
        ("flat from 4 on", |n| f64::from(n.min(4)), 4.0),
        ("hardly more", |n| if n > 1 { 1.02 } else { 1.0 }, 1.02),
    ];
    for (name, work, truth) in truths {
        for share in [0.005, 0.02, 0.05] {
            // Without the sentence, one copy did most.
            let interval = |seed: u64| {
                let said = measured(work, share, seed).seduction.unwrap();
                let (_, rest) = said.split_once("times the work of one [")?;
                let (low, high) = rest.split_once("] ")?.0.split_once(", ")?;
                Some((low.parse::<f64>().unwrap(), high.parse::<f64>().unwrap()))
            };
            let all: Vec<(f64, f64)> = (0..200).filter_map(interval).collect();
            // Printed to two digits.
            let held = all.iter().filter(|(low, high)| low - 0.005 <= truth && truth <= high + 0.005).count();
            assert!(held * 100 >= all.len() * 93, "{name} {share}: {held} of {}", all.len());
        }
    }
}

#[test]
fn an_efficiency_over_100_percent_has_a_caveat_and_the_error_of_weights_is_in_the_interval() {
    let faster = machine(16, &[1, 2, 4], |n| f64::from(n) * if n == 2 { 11.25 } else { 10.0 }, true);
    let scale = analysis::scale::scale(&faster);
    let [caveat] = &scale.caveats[..] else { panic!("{:?}", scale.caveats) };
    assert!(
        caveat.starts_with("2 copies have an efficiency of 112 %")
            || caveat.starts_with("2 copies have an efficiency of 113 %"),
        "{caveat}"
    );
    // With two rounds, chance may explain all of it.
    let mut few = faster.clone();
    let blocks: Vec<u32> = few.trials.iter().map(|trial| trial.block).collect();
    few.attempts.retain(|attempt| blocks[attempt.trial as usize] <= 2);
    let caveat = analysis::scale::scale(&few).caveats.remove(0);
    assert!(caveat.ends_with("or it is chance, which 2 rounds cannot rule out"), "{caveat}");
    let mut weighed = machine(16, &[1, 2, 4], |n| 10.0 * f64::from(n), true);
    let without = analysis::scale::scale(&weighed);
    assert_eq!(without.caveats, Vec::<String>::new());
    for run in weighed.attempts.iter_mut().filter_map(|a| a.run.as_mut()) {
        let mut sample = run.series[0].clone();
        (sample.name, sample.labels, sample.value) = ("unit_work_error_ratio".into(), "".into(), 0.1);
        run.series.push(sample);
    }
    let with = analysis::scale::scale(&weighed);
    let ends = |scale: &analysis::scale::Scale| scale.levels[1].work_per_s.clone().unwrap().1.unwrap();
    assert!((ends(&with).1 / ends(&without).1 - 1.1).abs() < 1e-9 && ends(&with).0 < ends(&without).0);
    assert!(with.caveats[0].contains("known within 10.0 %"), "{:?}", with.caveats);
    // Less certain weights do not allow comparing many copies with one.
    for run in weighed.attempts.iter_mut().filter_map(|a| a.run.as_mut()) {
        run.series.iter_mut().filter(|s| s.name == "unit_work_error_ratio").for_each(|s| s.value = 0.408);
    }
    let unknown = analysis::scale::scale(&weighed);
    assert!(unknown.levels[0].efficiency.is_ok() && unknown.levels[1].efficiency.is_err());
    assert!(unknown.scaling.chosen.is_err() && unknown.caveats.is_empty(), "{:?}", unknown.caveats);
    let said = unknown.seduction.clone().unwrap();
    assert!(said.contains("is known only within 40.8 %") && !said.contains("times the work"), "{said}");
    let versus = analysis::scale::versus(&unknown, &unknown);
    assert!(
        versus.one.is_ok() && versus.all.is_err() && versus.sentence.contains("40.8 %"),
        "{}",
        versus.sentence
    );
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
    assert_eq!(scale.levels[1].invalid.len(), 6);
    assert_eq!(scale.levels[1].invalid[0], "round 1: copy 2 of 2 ended with exit status: 1");
    assert!(scale.levels[2].work_per_s.is_ok());
}
