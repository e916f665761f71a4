//! Periodogram of values at uneven positions, tested against a background estimated from the same values.
//!
//! # Source
//!
//! J. D. Scargle, *Astrophysical Journal* 263 (1982), 835; with a floating mean, Zechmeister and Kürster,
//! *Astronomy and Astrophysics* 496 (2009), 577.

use crate::robust::median;

/// A significant period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    /// Length, in the unit of x.
    pub length: f64,
    /// Share of the variance that a sine of this length explains.
    pub strength: f64,
    /// Half of the distance from crest to trough.
    pub amplitude: f64,
    /// Probability that chance makes any of the tested periods at least this strong.
    pub p: f64,
}

/// Periods with a false-alarm probability of at most `alpha`, the strongest first; each is subtracted before
/// the search for the next.
///
/// - `points`: finite, at least 16.
/// - `shortest`, `longest`: the range of lengths; three cycles must fit in the measured range.
pub fn periods(points: &[(f64, f64)], shortest: f64, longest: f64, alpha: f64) -> Vec<Period> {
    assert!(shortest > 0.0, "periods have a length");
    let low = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let longest = longest.min((high - low) / CYCLES_MIN);
    if points.len() < POINTS_MIN || longest <= shortest {
        return Vec::new();
    }
    let frequencies = frequencies(1.0 / longest, 1.0 / shortest, 1.0 / (high - low));
    let step = frequencies.get(1).map_or(0.0, |second| second - frequencies[0]);
    let mut left = points.to_vec();
    let mut found = Vec::new();
    while found.len() < PERIODS_MAX {
        let waves: Vec<Wave> = frequencies.iter().map(|f| Wave::of(&left, *f)).collect();
        let Some(best) = waves.iter().max_by(|a, b| a.strength.total_cmp(&b.strength)) else { break };
        let strengths: Vec<f64> = waves.iter().map(|w| w.strength).collect();
        // Under noise alone powers are exponential, and their median is ln 2 of their mean; outliers do not
        // move the median.
        let mean = median(&strengths).unwrap_or(0.0) / std::f64::consts::LN_2;
        let z = if mean > 0.0 { best.strength / mean } else { 0.0 };
        // Frequencies closer than one over the span are dependent, so this p is too large rather than too
        // small.
        let p = 1.0 - (1.0 - (-z).exp()).powf(frequencies.len() as f64);
        if p > alpha {
            break;
        }
        // The best fit lies between the tested frequencies; subtracting it leaves less to be found again.
        let best = best.sharpened(&left, step);
        found.push(Period {
            length: 1.0 / best.frequency,
            strength: best.strength,
            amplitude: best.amplitude(),
            p,
        });
        for (x, y) in &mut left {
            *y -= best.at(*x);
        }
    }
    found
}

/// Amplitudes of waves with known lengths, in points that also bend.
///
/// Removing the bends removes a part of each wave: a running median, one eighth. So the bends are estimated
/// from the points without the waves, and the waves are fitted again to the points without those bends, until
/// both converge.
///
/// - `straightened`: points without their bends, at the same positions.
pub fn amplitudes(
    points: &[(f64, f64)],
    lengths: &[f64],
    straightened: impl Fn(&[(f64, f64)]) -> Vec<(f64, f64)>,
) -> Vec<f64> {
    let nothing =
        |length: &f64| Wave { frequency: length.recip(), mean: 0.0, cosine: 0.0, sine: 0.0, strength: 0.0 };
    let mut waves: Vec<Wave> = lengths.iter().map(nothing).collect();
    for _ in 0..FITS {
        let of_all = |x: f64| waves.iter().map(|wave| wave.at(x)).sum::<f64>();
        let without: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, y - of_all(*x))).collect();
        let mut left = straightened(&without);
        for wave in &mut waves {
            for (x, y) in &mut left {
                *y += wave.at(*x);
            }
            *wave = Wave::of(&left, wave.frequency);
            for (x, y) in &mut left {
                *y -= wave.at(*x);
            }
        }
    }
    waves.iter().map(Wave::amplitude).collect()
}

/// Each iteration leaves one eighth of the error.
const FITS: usize = 4;
/// Further periods are noise.
const PERIODS_MAX: usize = 5;
const POINTS_MIN: usize = 16;
/// Fewer cycles do not show a repetition.
const CYCLES_MIN: f64 = 3.0;
const OVERSAMPLING: f64 = 3.0;
/// More frequencies take longer and find nothing else.
const FREQUENCIES_MAX: f64 = 6_000.0;

fn frequencies(low: f64, high: f64, step: f64) -> Vec<f64> {
    let step = (step / OVERSAMPLING).max((high - low) / FREQUENCIES_MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most FREQUENCIES_MAX")]
    let count = ((high - low) / step).floor() as u32;
    (0..=count).map(|i| low + f64::from(i) * step).collect()
}

/// Best-fitting sine of one frequency, with a free mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wave {
    pub(crate) frequency: f64,
    mean: f64,
    cosine: f64,
    sine: f64,
    /// Share of the variance that it explains.
    pub(crate) strength: f64,
}

impl Wave {
    pub(crate) fn of(points: &[(f64, f64)], frequency: f64) -> Self {
        let n = points.len() as f64;
        let turn = |x: f64| (std::f64::consts::TAU * frequency * x).sin_cos();
        let my = points.iter().map(|p| p.1).sum::<f64>() / n;
        let (mut ms, mut mc) = (0.0, 0.0);
        let turns: Vec<(f64, f64)> = points.iter().map(|p| turn(p.0)).collect();
        for (s, c) in &turns {
            ms += s / n;
            mc += c / n;
        }
        let (mut ss, mut cc, mut sc, mut ys, mut yc, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        for ((s, c), (_, y)) in turns.iter().zip(points) {
            let (s, c, y) = (s - ms, c - mc, y - my);
            ss += s * s;
            cc += c * c;
            sc += s * c;
            ys += y * s;
            yc += y * c;
            yy += y * y;
        }
        let d = ss * cc - sc * sc;
        if d <= 1e-9 * ss * cc || yy <= 0.0 {
            return Self { frequency, mean: my, cosine: 0.0, sine: 0.0, strength: 0.0 };
        }
        let (sine, cosine) = ((ys * cc - yc * sc) / d, (yc * ss - ys * sc) / d);
        let strength = (sine * ys + cosine * yc) / yy;
        Self { frequency, mean: my - sine * ms - cosine * mc, cosine, sine, strength }
    }

    /// Best frequency within `step` of this one, to a sixteenth of `step`.
    pub(crate) fn sharpened(self, points: &[(f64, f64)], step: f64) -> Self {
        let mut best = self;
        for part in [2.0, 4.0, 8.0, 16.0] {
            let near = [-step, step].map(|by| Self::of(points, best.frequency + by / part));
            best = near.into_iter().fold(best, |a, b| if b.strength > a.strength { b } else { a });
        }
        best
    }

    pub(crate) fn at(&self, x: f64) -> f64 {
        let (s, c) = (std::f64::consts::TAU * self.frequency * x).sin_cos();
        self.mean + self.sine * s + self.cosine * c
    }

    pub(crate) fn amplitude(&self) -> f64 {
        self.sine.hypot(self.cosine)
    }

    /// Position of the first crest at or after 0.
    pub(crate) fn crest(&self) -> f64 {
        (self.sine.atan2(self.cosine) / std::f64::consts::TAU).rem_euclid(1.0) / self.frequency
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    fn uniform(random: &mut ChaCha8Rng) -> f64 {
        random.next_u64() as f64 / u64::MAX as f64
    }

    /// Points at 600 uneven positions up to 100,000, with noise of 1 and a wave of `amplitude`.
    fn series(seed: u64, amplitude: f64) -> Vec<(f64, f64)> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut point = |i: i32| {
            let x = 100_000.0 / 600.0 * (f64::from(i) + uniform(&mut random));
            let noise = (0..12).map(|_| uniform(&mut random)).sum::<f64>() - 6.0;
            (x, noise + amplitude * (std::f64::consts::TAU * x / 4_096.0).sin())
        };
        (0..600).map(&mut point).collect()
    }

    #[test]
    fn a_wave_is_found_by_its_length() {
        for seed in 0..10 {
            let found = periods(&series(seed, 0.5), 300.0, 50_000.0, 0.01);
            assert!(!found.is_empty(), "{seed}");
            assert!((found[0].length / 4_096.0 - 1.0).abs() < 0.02, "{found:?}");
            assert!((found[0].amplitude - 0.5).abs() < 0.2, "{found:?}");
        }
    }

    #[test]
    fn noise_has_no_period() {
        let false_ones =
            (100..160).filter(|seed| !periods(&series(*seed, 0.0), 300.0, 50_000.0, 0.01).is_empty()).count();
        assert!(false_ones <= 3, "{false_ones} of 60");
    }

    #[test]
    fn too_few_cycles_tell_nothing() {
        let one: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), (f64::from(i) / 16.0).sin())).collect();
        assert!(periods(&one, 90.0, 200.0, 0.01).is_empty());
        assert!(periods(&[], 1.0, 10.0, 0.01).is_empty());
    }
}
