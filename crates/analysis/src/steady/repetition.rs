//! Repetition of a pattern of any form: values of one place in it are alike.
//!
//! A spectrum sees a sine best. Of a short pulse that repeats, such as a checkpoint, half of the power lies
//! in harmonics, and noise with a memory explains much of the rest: five pulses in 60 values do not stand
//! out. But they are the same five times over.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

/// Fewest repetitions, and fewest values in each.
const TIMES_MIN: f64 = 3.0;
const VALUES_MIN: f64 = 3.0;
/// Largest probability of the pattern by chance, over all lengths that are tried. It is that of independent
/// noise: noise with a memory reaches small ones too, but not these.
const P_MAX: f64 = 1e-6;

/// Length of the pattern that repeats, in values; `None` without one.
///
/// # Source
///
/// One-way analysis of variance of the values by their place in the pattern.
pub(super) fn repetition(values: &[f64]) -> Option<f64> {
    let left = without_line(values);
    let total: f64 = left.iter().map(|z| z * z).sum();
    let n = left.len() as f64;
    let (mut best, mut tried, mut length) = (None, 0.0, VALUES_MIN);
    while length * TIMES_MIN <= n && total > 0.0 {
        tried += 1.0;
        let places = length.round();
        let within = within_places(&left, length, places);
        let f = (total - within) / (places - 1.0) / (within.max(1e-12 * total) / (n - places));
        let p = FisherSnedecor::new(places - 1.0, n - places).map_or(1.0, |law| law.sf(f));
        if best.is_none_or(|(least, largest, _)| p < least || (p <= least && f > largest * (1.0 + 1e-9))) {
            best = Some((p, f, length));
        }
        // A quarter of a value over all repetitions.
        length += 0.25 * length / (n / length).max(1.0);
    }
    best.filter(|(p, _, _)| p * tried <= P_MAX).map(|(_, _, length)| middle_of_alike(&left, length))
}

/// Middle of the lengths near this one that fit about as well.
fn middle_of_alike(values: &[f64], length: f64) -> f64 {
    const STEPS: i32 = 20;
    let reach = 0.5 * length * length / values.len() as f64;
    let near = (-STEPS..=STEPS).map(|step| length + reach * f64::from(step) / f64::from(STEPS));
    let fits: Vec<(f64, f64)> = near.map(|one| (one, within_places(values, one, length.round()))).collect();
    let least = fits.iter().map(|(_, within)| *within).fold(f64::INFINITY, f64::min);
    let alike: Vec<f64> =
        fits.iter().filter(|(_, within)| *within <= 1.1 * least).map(|(one, _)| *one).collect();
    alike.iter().sum::<f64>() / alike.len() as f64
}

/// Sum of squares about the mean of each place.
fn within_places(values: &[f64], length: f64, places: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let count = places as usize;
    let mut sums = vec![(0.0, 0.0, 0.0); count];
    for (at, value) in values.iter().enumerate() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let place = ((at as f64 / length).fract() * places) as usize;
        let sum = &mut sums[place.min(count - 1)];
        *sum = (sum.0 + value, sum.1 + value * value, sum.2 + 1.0);
    }
    let of = |(sum, squares, n): &(f64, f64, f64)| if *n > 0.0 { squares - sum * sum / n } else { 0.0 };
    sums.iter().map(of).sum::<f64>().max(0.0)
}

/// Values without their straight line of least squares.
fn without_line(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
    let at = |i: usize| i as f64 - middle;
    let (xx, xy) = values
        .iter()
        .enumerate()
        .fold((0.0, 0.0), |sum, (i, z)| (sum.0 + at(i) * at(i), sum.1 + at(i) * (z - mean)));
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    values.iter().enumerate().map(|(i, z)| z - mean - slope * at(i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    fn share(n: usize, phi: f64, pattern: impl Fn(f64) -> f64, is_so: impl Fn(Option<f64>) -> bool) -> f64 {
        let mut chance = SplitMix(31);
        let runs = 400;
        let so = (0..runs).filter(|_| {
            let mut noise = chance.normal();
            let values: Vec<f64> = (0..n)
                .map(|t| {
                    noise = phi * noise + (1.0 - phi * phi).sqrt() * chance.normal();
                    pattern(t as f64) + noise
                })
                .collect();
            is_so(repetition(&values))
        });
        so.count() as f64 / f64::from(runs)
    }

    #[test]
    fn a_pulse_is_found_with_its_length_and_noise_that_wanders_is_none() {
        for length in [12.0, 11.2] {
            let pulse = |t: f64| if (t / length).fract() < 0.27 { -5.0 } else { 0.0 };
            let found = share(45, 0.0, pulse, |found| found.is_some_and(|l| (l - length).abs() < 0.5));
            println!("a pulse each {length} values: found in {found}");
            assert!(found >= 0.9, "{length}: {found}");
        }
        for phi in [0.0, 0.5, 0.9, 0.99] {
            for (what, bend) in [("even", 0.0), ("a bend", 20.0)] {
                let found = share(60, phi, |t| bend * (-t / 12.0).exp(), |found| found.is_some());
                println!("memory {phi}, {what}: a pattern in {found}");
                assert!(found <= 0.005, "{phi} {what}: {found}");
            }
        }
        assert_eq!(repetition(&[5.0; 40]), None);
    }
}
