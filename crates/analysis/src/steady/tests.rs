//! Simulated warm-ups of known classes, judged as a run judges them: after every batch, until steady.

use super::*;
use crate::chance::SplitMix;

const ROPE: f64 = 0.01;
const BATCHES_MAX: usize = 120;

/// Judges batch by batch from `first` on, up to `BATCHES_MAX`.
fn judged(first: usize, mut level: impl FnMut(usize) -> f64) -> Steadiness {
    let mut batches = Vec::new();
    let mut found = Steadiness::Unsteady(String::new());
    for batch in 0..BATCHES_MAX {
        batches.push(level(batch));
        if batches.len() < first {
            continue;
        }
        found = steadiness(&batches, ROPE);
        if !matches!(found, Steadiness::Unsteady(_)) {
            break;
        }
    }
    found
}

/// Share of 200 simulated warm-ups that have the right class.
fn right(noise: f64, level: fn(f64) -> f64, is_right: fn(&Steadiness) -> bool) -> f64 {
    right_from(0, noise, level, is_right)
}

/// Variant of [`right`] that judges after so many batches at the earliest, as with a plan's `min`.
fn right_from(first: usize, noise: f64, level: fn(f64) -> f64, is_right: fn(&Steadiness) -> bool) -> f64 {
    let mut chance = SplitMix(20_261_121);
    let mut right = 0;
    for _ in 0..200 {
        let found = judged(first, |batch| level(batch as f64) * (1.0 + noise * chance.normal()));
        right += u32::from(is_right(&found));
    }
    f64::from(right) / 200.0
}

fn is_flat(found: &Steadiness) -> bool {
    matches!(found, Steadiness::Flat)
}

#[test]
fn simulated_classes_are_right_in_19_of_20() {
    for (name, share) in [
        ("flat", right(0.02, |_| 1_000.0, is_flat)),
        ("flat, quiet", right(0.001, |_| 1_000.0, is_flat)),
        (
            "a cache that fills for 4 batches",
            right(
                0.02,
                |t| 1_000.0 * (1.0 - 0.6 * (-t / 2.0).exp()),
                |s| matches!(s, Steadiness::After { ratio, .. } if *ratio > 1.0),
            ),
        ),
        (
            "a slow start",
            right(
                0.02,
                |t| 1_000.0 * (1.0 - 0.5 * (-t / 12.0).exp()),
                |s| matches!(s, Steadiness::After { ratio, .. } if *ratio > 1.0),
            ),
        ),
        (
            "a slowdown after 4 batches",
            right(
                0.02,
                |t| if t < 4.0 { 1_000.0 } else { 700.0 },
                |s| matches!(s, Steadiness::After { ratio, .. } if *ratio < 1.0),
            ),
        ),
        ("a leak", right(0.002, |t| 1_000.0 * (1.0 + 0.02 * t), |s| matches!(s, Steadiness::Unsteady(_)))),
        (
            "a cycle of 12 batches",
            right_from(
                64,
                0.02,
                |t| 1_000.0 * (1.0 + 0.3 * (std::f64::consts::TAU * t / 12.0).sin()),
                |s| matches!(s, Steadiness::Cycles { period } if (period - 12.0).abs() < 1.5),
            ),
        ),
    ] {
        println!("{name}: {share}");
        assert!(share >= 0.95, "{name}: right in {share}");
    }
}

#[test]
fn a_level_that_never_changes_is_flat_and_a_few_batches_are_no_evidence() {
    assert_eq!(steadiness(&[7.0; 12], ROPE), Steadiness::Flat);
    assert!(matches!(steadiness(&[7.0; 9], ROPE), Steadiness::Unsteady(_)));
    assert_eq!(kpss(&[5.0; 20], 3).to_bits(), 0.0_f64.to_bits());
}

#[test]
fn a_step_just_before_the_end_is_not_steady() {
    let mut chance = SplitMix(3);
    let mut passed = 0;
    for _ in 0..200 {
        let batches: Vec<f64> = (0..30)
            .map(|t| (if t < 24 { 1_000.0 } else { 850.0 }) * (1.0 + 0.01 * chance.normal()))
            .collect();
        passed += u32::from(!matches!(steadiness(&batches, ROPE), Steadiness::Unsteady(_)));
    }
    assert!(passed <= 10, "{passed} of 200");
}

/// Share of 1,000 phases of `n` values in which a different beginning is found.
fn starts(n: usize, phi: f64, level: fn(f64) -> f64) -> f64 {
    let mut chance = SplitMix(5);
    let found = (0..1_000).filter(|_| {
        let mut noise = 0.0;
        let values: Vec<f64> = (0..n)
            .map(|t| {
                noise = phi * noise + 0.03 * chance.normal() * (1.0 - phi * phi).sqrt();
                level(t as f64 / n as f64) * (1.0 + noise)
            })
            .collect();
        different_start(&values).is_some()
    });
    found.count() as f64 / 1_000.0
}

#[test]
fn a_cold_beginning_is_found_and_even_phases_rarely_have_one() {
    for (n, phi) in [(8, 0.0), (10, 0.0), (10, 0.5), (20, 0.5), (60, 0.0), (60, 0.8)] {
        let (even, cold) =
            (starts(n, phi, |_| 100.0), starts(n, phi, |t| if t < 0.3 { 60.0 } else { 100.0 }));
        println!("{n} values, memory {phi}: {even} of even phases, {cold} of those with a cold beginning");
        // 1 % and an error and a half of 1,000 phases.
        assert!(even <= 0.015, "{n} {phi}: {even}");
        let found = if n < 10 { 0.7 } else { 0.9 };
        assert!(cold >= found || (n < 20 && phi > 0.0) || phi > 0.7, "{n} {phi}: {cold}");
    }
    assert_eq!(different_start(&[7.0; 20]), None);
    let cold = different_start(&[5.0, 5.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0]).unwrap();
    assert_eq!((cold.values, (cold.ratio * 10.0).round()), (2, 14.0));
    assert_eq!(different_start(&[5.0, 5.0, 7.0, 7.0, 7.0, 7.0, 7.0]), None);
}
