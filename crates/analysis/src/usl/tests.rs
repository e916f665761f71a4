use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::*;

/// Normal draw as the sum of twelve uniform values.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// `rounds` series of `truth`, with 2 % of noise that a series shares and 2 % separate for each level.
fn measured(truth: impl Fn(f64) -> f64, levels: &[f64], rounds: usize, seed: u64) -> Vec<Series> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let one = |random: &mut ChaCha8Rng| -> Series {
        let shared = 0.02 * noise(random);
        levels.iter().map(|n| (*n, truth(*n) * (shared + 0.02 * noise(random)).exp())).collect()
    };
    (0..rounds).map(|_| one(&mut random)).collect()
}

const LEVELS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

#[test]
fn a_curve_without_noise_is_found_as_it_is() {
    let truth = Curve { lambda: 995.6, sigma: 0.026_71, kappa: 0.000_769 };
    let points: Series = LEVELS.iter().map(|n| (*n, truth.at(*n))).collect();
    let found = fit(Law::Usl, &points);
    assert!((found.lambda / truth.lambda - 1.0).abs() < 1e-6, "{found:?}");
    assert!(
        (found.sigma - truth.sigma).abs() < 1e-7 && (found.kappa - truth.kappa).abs() < 1e-9,
        "{found:?}"
    );
    // By hand: sqrt((1 - 0.02671) / 0.000769) = 35.58.
    assert!((found.peak().unwrap() - 35.58).abs() < 0.01);
}

#[test]
fn what_grows_faster_than_its_number_keeps_its_sign() {
    let truth = Curve { lambda: 10.0, sigma: -0.002, kappa: 0.0 };
    let points: Series = LEVELS.iter().map(|n| (*n, truth.at(*n))).collect();
    assert!((fit(Law::Usl, &points).sigma - truth.sigma).abs() < 1e-6);
}

#[test]
fn a_truly_linear_one_claims_no_peak() {
    let claims = (0..100)
        .filter(|seed| {
            let found = scaling(&measured(|n| 50.0 * n, &LEVELS, 6, *seed), 128.0);
            found.peak.is_ok() || found.cliff.is_some() || found.retrograde
        })
        .count();
    assert!(claims <= 5, "{claims} of 100");
}

#[test]
fn a_fall_from_ninety_to_a_quarter_is_a_cliff_and_has_no_peak() {
    // Linear to 90 copies, and a quarter of that at 128, as with a contended lock.
    let truth = |n: f64| if n <= 90.0 { 10.0 * n } else { 225.0 };
    let levels = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 90.0, 128.0];
    for seed in 0..20 {
        let found = scaling(&measured(truth, &levels, 6, seed), 128.0);
        let cliff = found.cliff.expect("it is seen");
        assert_eq!((cliff.at, cliff.next), (90.0, 128.0));
        assert!((cliff.left_ratio - 0.25).abs() < 0.02 && cliff.allowed_ratio > 0.5, "{cliff:?}");
        assert!(found.peak.is_err() && found.chosen.is_err(), "{found:?}");
    }
}

#[test]
fn the_steepest_law_leaves_what_the_formula_says() {
    // By hand, sigma = 0, peak at 90: (128 / (1 + 128 * 127 / 8100)) / (90 / (1 + 90 * 89 / 8100)) = 0.9407.
    assert!((steepest(90.0, 128.0, (90.0, 90.0), 0.0) - 0.940_7).abs() < 5e-4);
}

#[test]
fn a_true_peak_is_found_and_its_interval_holds_it() {
    let truth = Curve { lambda: 100.0, sigma: 0.02, kappa: 0.000_5 };
    let (mut found, mut held) = (0, 0);
    for seed in 0..40 {
        let peak = scaling(&measured(|n| truth.at(n), &LEVELS, 6, seed), 128.0).peak;
        if let Ok((_, (low, high))) = peak {
            found += 1;
            held += u32::from((low..=high).contains(&truth.peak().unwrap()));
        }
    }
    assert!(found >= 38, "{found} of 40");
    assert!(held >= 34, "{held} of {found}");
}

#[test]
fn contention_alone_is_amdahl_and_levels_past_the_cpus_are_not_fitted() {
    let truth = |n: f64| 10.0 * n.min(64.0) / (1.0 + 0.05 * (n.min(64.0) - 1.0));
    let found = scaling(&measured(truth, &LEVELS, 6, 3), 64.0);
    assert_eq!(found.chosen, Ok(Law::Amdahl), "{found:?}");
    assert!(found.cliff.is_none() && found.laws.len() == 3);
    let sigma = found.laws[1].intervals.clone().unwrap()[1];
    assert!(sigma.0 < 0.05 && 0.05 < sigma.1, "{sigma:?}");
}

/// Share of `of` experiments of `rounds` rounds in which the interval of sigma holds its truth.
fn held(rounds: usize, of: u64) -> f64 {
    let truth = Curve { lambda: 10.0, sigma: 0.05, kappa: 0.0 };
    let levels = [1.0, 2.0, 4.0, 8.0];
    let held = (0..of).filter(|seed| {
        let series = measured(|n| truth.at(n), &levels, rounds, 1_000 + seed);
        let (low, high) = fitted(Law::Amdahl, &series, &levels).intervals.unwrap()[1];
        (low..=high).contains(&truth.sigma)
    });
    held.count() as f64 / of as f64
}

#[test]
fn an_interval_holds_its_truth_as_often_as_it_says() {
    // Of 1000 experiments a true 95 % gives 93.6 to 96.4 in 19 of 20.
    for rounds in [6, 10, 16, 30] {
        let found = held(rounds, 1_000);
        assert!((0.93..=0.97).contains(&found), "{rounds} rounds: {found}");
    }
}

#[test]
fn hiccups_are_named_and_even_noise_is_not() {
    let of = |hit: f64, rounds: usize| {
        let named = (0..400).filter(|seed| {
            let mut random = ChaCha8Rng::seed_from_u64(77_000 + seed);
            let mut hiccup = || if (random.next_u64() as f64 / u64::MAX as f64) < hit { 0.9 } else { 1.0 };
            let mut series = measured(|n| 10.0 * n / (1.0 + 0.05 * (n - 1.0)), &LEVELS, rounds, *seed);
            series.iter_mut().flatten().for_each(|point| point.1 *= hiccup());
            slow_tail(&series)
        });
        named.count()
    };
    for rounds in [6, 16, 30] {
        assert!(of(0.0, rounds) <= 20, "{rounds} rounds of even noise: {} of 400", of(0.0, rounds));
    }
    assert!(of(0.1, 16) >= 320, "{} of 400", of(0.1, 16));
}

#[test]
fn contention_alone_is_rarely_called_a_usl_beside_hiccups() {
    let usl = (0..400).filter(|seed| {
        let mut random = ChaCha8Rng::seed_from_u64(88_000 + seed);
        let truth = |n: f64| 10.0 * n / (1.0 + 0.05 * (n - 1.0));
        let mut series = measured(truth, &[1.0, 2.0, 4.0, 8.0, 16.0], 10, *seed);
        let mut hiccup = || if random.next_u64().is_multiple_of(10) { 0.9 } else { 1.0 };
        series.iter_mut().flatten().for_each(|point| point.1 *= hiccup());
        scaling(&series, 16.0).chosen == Ok(Law::Usl)
    });
    // 5 %, and two standard errors of 400 experiments; by the information criterion alone it is 9 %.
    let usl = usl.count();
    assert!(usl <= 28, "{usl} of 400");
}

#[test]
fn under_six_rounds_there_is_no_interval_and_nothing_that_needs_one() {
    for rounds in 1..SERIES_MIN {
        let found = scaling(&measured(|n| 10.0 * n / (1.0 + 0.05 * (n - 1.0)), &LEVELS, rounds, 7), 128.0);
        assert!(found.laws.iter().all(|f| f.intervals.is_err()), "{rounds} rounds: {found:?}");
        assert!(found.peak.is_err() && found.cliff.is_none() && !found.retrograde, "{found:?}");
    }
}

#[test]
fn the_best_of_equal_levels_is_rarely_called_better_than_the_last() {
    // Eight equal levels: 5 % may be called otherwise; 1000 experiments show that to 1.4 %.
    let alarms = (0..1_000).filter(|seed| retrograde(&measured(|_| 50.0, &LEVELS, 6, 5_000 + seed))).count();
    assert!(alarms <= 64, "{alarms} of 1000");
    let truly = (0..100).filter(|seed| {
        let truth = |n: f64| if n > 100.0 { 40.0 } else { 50.0 };
        retrograde(&measured(truth, &LEVELS, 6, 9_000 + seed))
    });
    assert!(truly.count() >= 95, "a fall by a fifth is seen");
}

#[test]
fn too_little_is_said_to_be_too_little() {
    let two = measured(|n| n, &[1.0, 2.0], 6, 1);
    let found = scaling(&two, 2.0);
    assert_eq!(found.laws.iter().map(|f| f.law).collect::<Vec<_>>(), [Law::Linear]);
    let once = measured(|n| n, &LEVELS, 1, 1);
    assert!(scaling(&once, 128.0).chosen.is_err());
    assert!(scaling(&[], 1.0).chosen.is_err());
}

#[test]
fn what_a_law_leaves_out_lies_in_the_interval_that_is_printed_beside_it() {
    // Too little coherency to detect, with noise of rounds and of levels.
    let truth = Curve { lambda: 10.0, sigma: 0.02, kappa: 0.000_2 };
    let levels = [1.0, 2.0, 4.0, 8.0, 16.0];
    let (mut amdahl, mut held) = (0, 0);
    for seed in 0..300 {
        let found = scaling(&measured(|n| truth.at(n), &levels, 6, 30_000 + seed), 16.0);
        let usl = found.laws[2].last.clone().unwrap();
        amdahl += u32::from(found.chosen == Ok(Law::Amdahl));
        held += u32::from((usl.0..=usl.1).contains(&truth.kappa));
    }
    // Contention alone would be printed too high: it holds only if coherency is 0.
    assert!(amdahl >= 200 && held >= 285, "{amdahl} called Amdahl, {held} of 300 held");
}

#[test]
fn what_every_round_shows_is_in_the_law_however_much_rounds_differ() {
    // Rounds differ by 5 %, and levels of a round by 0.2 %: the information criterion counts only the former.
    let truth = Curve { lambda: 10.0, sigma: 0.002, kappa: 0.0 };
    let amdahl = (0..100).filter(|seed| {
        let mut random = ChaCha8Rng::seed_from_u64(40_000 + seed);
        let mut round = || -> Series {
            let shared = 0.05 * noise(&mut random);
            let mut at = |n: &f64| (*n, truth.at(*n) * (shared + 0.002 * noise(&mut random)).exp());
            [1.0, 2.0, 4.0, 8.0, 16.0].iter().map(&mut at).collect()
        };
        let series: Vec<Series> = (0..6).map(|_| round()).collect();
        scaling(&series, 16.0).chosen == Ok(Law::Amdahl)
    });
    let amdahl = amdahl.count();
    assert!(amdahl >= 90, "{amdahl} of 100");
}
