//! Bands of the size curve: repetitions along the sizes.

use crate::period::{Period, amplitudes, periods};

use crate::robust::median;

/// A repetition along the sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Period in bytes: each wave fits into it a whole number of times.
    pub period_bytes: f64,
    /// Waves of the band, the strongest first; at least one.
    pub waves: Vec<Period>,
}

impl Band {
    /// Number of times that each wave fits into the period: 1 is the period itself.
    pub fn harmonics(&self) -> impl Iterator<Item = u32> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a dozen")]
        let times = |w: &Period| (self.period_bytes / w.length).round() as u32;
        self.waves.iter().map(times)
    }

    /// Half of the distance from crest to trough of the strongest wave, as a share of the curve.
    pub fn amplitude(&self) -> f64 {
        self.waves[0].amplitude
    }

    /// Share of the variance that all waves explain.
    pub fn strength(&self) -> f64 {
        self.waves.iter().map(|w| w.strength).sum()
    }
}

/// Highest harmonic: waves that need more to share a period do not belong together.
const HARMONICS_MAX: u32 = 12;
/// False-alarm probability in all rounds, and in each half of them.
const ALPHA: f64 = 0.01;
const ALPHA_OF_HALF: f64 = 0.05;

/// Bands of `curve` with waves that both halves of the rounds also show.
pub(super) fn bands(bent: &[(f64, f64)], halves: Option<&[Vec<(f64, f64)>; 2]>) -> Vec<Band> {
    let (Some(halves), Some(first), Some(last)) = (halves, bent.first(), bent.last()) else {
        return Vec::new();
    };
    let curve = &detrended(bent);
    let span = last.0 - first.0;
    let shortest = 4.0 * span / curve.len() as f64;
    // Longer periods are bends of the curve, which were removed.
    let longest = span / 12.0;
    let of = |points: &[(f64, f64)], alpha| periods(points, shortest, longest, alpha);
    let seen: Vec<Vec<Period>> = halves.iter().map(|half| of(&detrended(half), ALPHA_OF_HALF)).collect();
    let same = |a: &Period, b: &Period| (1.0 / a.length - 1.0 / b.length).abs() < 2.0 / span;
    let mut found = of(curve, ALPHA);
    found.retain(|p| seen.iter().all(|half| half.iter().any(|q| same(p, q))));
    let lengths: Vec<f64> = found.iter().map(|p| p.length).collect();
    for (period, amplitude) in found.iter_mut().zip(amplitudes(bent, &lengths, detrended)) {
        period.amplitude = amplitude;
    }
    grouped(found, span, longest)
}

/// Groups waves that fit into one period a whole number of times.
///
/// A repeating curve is not a sine: its periodogram has a line at every harmonic, sometimes without one at
/// the period itself. The period is the shortest one into which the strongest wave and most of the others
/// fit.
fn grouped(mut waves: Vec<Period>, span: f64, longest: f64) -> Vec<Band> {
    let mut bands = Vec::new();
    while let Some(strongest) = waves.first().copied() {
        let fits = |period: f64, wave: &Period| {
            let times = period / wave.length;
            // Two lengths are distinguishable if their frequencies differ by one over the span.
            (times - times.round()).abs() < (1.5 * period / span).min(0.25)
                && (1.0..=12.5).contains(&times.round())
        };
        let candidates = (1..=HARMONICS_MAX).map(|k| strongest.length * f64::from(k));
        let period_bytes = candidates
            .take_while(|period| *period <= longest)
            .fold((strongest.length, 0), |(best, most), period| {
                let n = waves.iter().filter(|w| fits(period, w)).count();
                if n > most { (period, n) } else { (best, most) }
            })
            .0;
        let (of_band, others): (Vec<Period>, Vec<Period>) =
            waves.into_iter().partition(|w| fits(period_bytes, w));
        let mut band = Band { period_bytes, waves: Vec::new() };
        for wave in of_band {
            let times = (period_bytes / wave.length).round();
            // A second match is the residue of the first sine.
            if band.waves.iter().all(|w| ((period_bytes / w.length).round() - times).abs() > 0.5) {
                band.waves.push(wave);
            }
        }
        bands.push(band);
        waves = others;
    }
    bands
}

/// The residual minus its running median, without slow bends.
pub(super) fn detrended(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const REACH: usize = 100;
    let at = |i: usize| {
        let near = &curve[i.saturating_sub(REACH)..(i + REACH + 1).min(curve.len())];
        let values: Vec<f64> = near.iter().map(|p| p.1).collect();
        (curve[i].0, curve[i].1 - median(&values).expect("there is one at least"))
    };
    (0..curve.len()).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    /// A curve of 1,700 sizes with noise of 1 %, plus `tooth`.
    fn curve(seed: u64, tooth: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut chance = SplitMix(seed);
        let mut point = |i: u32| {
            let x = 60.0 * f64::from(i) + chance.below(60) as f64;
            let noise: f64 = (0..12).map(|_| chance.below(1_000) as f64 / 1_000.0 - 0.5).sum();
            (x, 0.01 * noise + tooth(x))
        };
        (0..1_700).map(&mut point).collect()
    }

    fn found(tooth: impl Fn(f64) -> f64) -> Vec<Band> {
        let halves = [curve(2, &tooth), curve(3, &tooth)];
        bands(&curve(1, tooth), Some(&halves))
    }

    #[test]
    fn harmonics_of_one_period_are_one_band() {
        for period in [1_024.0, 2_048.0, 4_096.0] {
            // A tooth: slower just below every multiple.
            let bands = found(|x: f64| 0.04 * (x / period).fract().powi(6));
            assert_eq!(bands.len(), 1, "{period}: {bands:?}");
            assert!((bands[0].period_bytes / period - 1.0).abs() < 0.02, "{period}: {bands:?}");
            assert!(bands[0].waves.len() > 1, "{period}: {bands:?}");
        }
    }

    #[test]
    fn a_period_without_a_wave_of_its_own_is_found_by_its_harmonics() {
        let wave = |x: f64, length: f64| (std::f64::consts::TAU * x / length).sin();
        let bands = found(|x| 0.02 * wave(x, 1_024.0 / 3.0) + 0.018 * wave(x, 1_024.0 / 2.0));
        assert_eq!(bands.len(), 1, "{bands:?}");
        assert!((bands[0].period_bytes / 1_024.0 - 1.0).abs() < 0.01, "{bands:?}");
        assert_eq!(bands[0].harmonics().collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn the_amplitude_of_a_wave_is_its_own_although_a_running_median_takes_a_part_of_it() {
        for length in [1_499.0, 3_000.0, 5_000.0] {
            let bands =
                found(|x| 0.02 * (std::f64::consts::TAU * x / length).sin() + 0.2 * (x / 1e5 - 0.5).powi(2));
            assert_eq!(bands.len(), 1, "{bands:?}");
            assert!((bands[0].amplitude() / 0.02 - 1.0).abs() < 0.05, "{length}: {bands:?}");
        }
    }

    #[test]
    fn waves_that_have_nothing_in_common_are_two_bands_and_noise_is_none() {
        let wave = |x: f64, length: f64| (std::f64::consts::TAU * x / length).sin();
        let two = found(|x| 0.02 * wave(x, 4_096.0) + 0.018 * wave(x, 1_499.0));
        assert_eq!(two.len(), 2, "{two:?}");
        assert!(found(|_| 0.0).is_empty());
    }
}
