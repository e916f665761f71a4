//! The newest few values: apart from a level, and too few to be one.

use super::*;

/// The history of 60 values of 1 with a noise of 1 %, of which the newest are multiplied.
fn with_newest(seed: u64, newest: usize, by: f64) -> History {
    let mut chance = SplitMix(seed);
    let value = |i| (if i >= 60 - newest { by } else { 1.0 }) * (1.0 + 0.01 * chance.normal());
    told((0..60).map(value).collect::<Vec<_>>().into_iter())
}

#[test]
fn the_newest_two_to_four_runs_apart_are_named_and_are_no_change() {
    for (by, least) in [(1.3, 20), (0.7, 20), (1.05, 18)] {
        for newest in [4, 3, 2] {
            let mut named = 0;
            for seed in 0..20 {
                let found = with_newest(seed, newest, by);
                let what = format!("{newest} by {by}, {seed}: {:?}, {:?}", found.changes, found.excursions);
                assert!(found.changes.is_empty(), "{what}");
                let Some(one) = found.excursions.iter().find(|one| found.is_open(one)) else { continue };
                assert!(one.then.is_none() && !one.is_back, "{what}");
                let (ratio, low, high) = one.ratio.clone().unwrap();
                let is_right =
                    one.from == 60 - newest && low <= by && by <= high && (ratio / by - 1.0).abs() < 0.03;
                named += usize::from(is_right);
            }
            assert!(named >= least, "{newest} by {by}: {named} of 20");
        }
    }
    // Five are a level, one is an outlier.
    let found = with_newest(1, 5, 1.3);
    assert_eq!((found.changes.len(), found.excursions.len(), found.changes[0].at), (1, 0, 55), "{found:?}");
    let found = with_newest(1, 1, 1.3);
    assert_eq!((found.changes.len(), found.excursions.len()), (0, 0), "{found:?}");
}

#[test]
fn noise_rarely_has_newest_runs_apart() {
    // 200 series each; 1 % is promised. The rates over more series are in docs/validation.md.
    for (n, ar1) in [(20, 0.0), (60, 0.0), (60, 0.5)] {
        let apart = |seed: &u64| {
            let values = red(&mut SplitMix(7 * seed + 1), n, ar1);
            divisive::newest(&values, 0.01, *seed).is_some()
        };
        let wrong = (0..200).filter(apart).count();
        assert!(wrong <= 7, "{n} values, {ar1}: {wrong} of 200");
    }
    // Equal values, few values, an outlier at the end.
    let mut values = vec![1.0; 40];
    assert_eq!((divisive::newest(&values, 0.01, 1), divisive::newest(&values[..14], 0.01, 1)), (None, None));
    values[39] = 1e6;
    assert_eq!(divisive::newest(&values, 0.01, 1), None);
}

/// Beside 400 values, a spike in the last two places is rare enough to be no chance.
#[test]
fn one_spike_is_no_newest_runs_apart_however_many_runs_there_are() {
    for (n, earlier) in [(400, &[][..]), (400, &[100, 250, 320]), (1_000, &[]), (1_000, &[100, 500, 990])] {
        for place in [1, 2, 4] {
            for seed in 0..2 {
                let mut chance = SplitMix(seed);
                let is_spike = |i: usize| i == n - place || earlier.contains(&i);
                let value = |i| (if is_spike(i) { 1.3 } else { 1.0 }) * (1.0 + 0.01 * chance.normal());
                let values: Vec<f64> = (0..n).map(value).collect();
                let found = divisive::newest(&values, 0.01, seed);
                assert_eq!(found, None, "{n} values, {earlier:?}, the {place}. newest, {seed}");
            }
        }
    }
    // Two are no chance.
    let mut values = red(&mut SplitMix(1), 400, 0.0);
    values[398..].iter_mut().for_each(|v| *v += 30.0);
    assert_eq!(divisive::newest(&values, 0.01, 1).map(|found| found.at), Some(398));
}

#[test]
fn an_excursion_that_goes_on_to_another_level_is_not_back() {
    let of = |then: f64, length: usize| {
        let mut chance = SplitMix(4);
        let level = |i: usize| match i {
            30..=33 => 1.5,
            34.. => then,
            _ => 1.0,
        };
        let value = |i| level(i) * (1.0 + 0.01 * chance.normal());
        let found = told((0..length).map(value).collect::<Vec<_>>().into_iter());
        let one = found.excursions.first().expect("there is one");
        (one.from, one.until, one.is_back, (one.then.unwrap() * 20.0).round() / 20.0)
    };
    assert_eq!(of(1.2, 60), (30, 34, false, 1.2));
    assert_eq!(of(1.0, 60), (30, 34, true, 1.0));
}
