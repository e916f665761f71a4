//! Waves of one cycle: a fundamental and its whole multiples.
//!
//! What happens at nine every day is a narrow rise. Its power is spread over all multiples of the daily
//! frequency, and any of them may be the strongest, or the only one that stands out alone. So the powers at
//! all multiples of a candidate are added: that is the test of the values folded at its period.

use super::rules::{CYCLES_MIN, SAME};
use crate::period::Wave;

/// Powers over noise at rising frequencies.
pub(super) struct Spectrum {
    /// Distance of neighbors, and the first frequency.
    pub(super) step: f64,
    /// Powers; under noise alone, exponential with mean 1.
    pub(super) z: Vec<f64>,
}

impl Spectrum {
    fn at(&self, frequency: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
        let place = (frequency / self.step).round() as usize;
        place.checked_sub(1).and_then(|place| self.z.get(place)).copied().unwrap_or(0.0)
    }
}

/// A cycle's waves.
pub(super) struct Family {
    /// Frequency of the cycle, whether or not it has a wave of it.
    pub(super) frequency: f64,
    /// Multiples, each with its wave.
    pub(super) waves: Vec<(u32, Wave)>,
    /// Whether it is more than a sine.
    pub(super) is_shaped: bool,
}

/// Highest multiple.
const MULTIPLES_MAX: u32 = 512;
/// Most waves that are subtracted.
const WAVES_MAX: usize = 128;
/// Power up to which a wave adds to the evidence: one other cycle at a multiple is no family.
const CAP: f64 = 6.0;
/// Power of a wave in a family of waves that stand out together.
const MEMBER: f64 = 3.0;
/// Steps to each side in which the frequency is looked for, in eighths of the resolution of the highest
/// multiple.
const STEPS: i32 = 4;

/// A candidate for the fundamental.
struct Candidate {
    frequency: f64,
    /// Multiple of it that the earlier fundamental is.
    times: u32,
    /// Logarithm of the probability of its evidence under noise, over all frequencies that were tried.
    ln_p: f64,
    /// Mean power at its multiples.
    mean: f64,
}

/// Powers of values over their noise.
type SpectrumOf<'a> = dyn Fn(&[(f64, f64)]) -> Spectrum + 'a;

impl Family {
    /// The family of the strongest wave in `left`.
    ///
    /// - `spectrum`: powers of values over their noise.
    pub(super) fn of(left: &[(f64, f64)], peak: Wave, alpha: f64, spectrum: &SpectrumOf<'_>) -> Self {
        /// A fundamental's fundamental, and so on.
        const DEEPEST: usize = 4;
        /// Times that multiples are added: each addition places the frequency better.
        const ADDITIONS: usize = 3;
        let span = left[left.len() - 1].0;
        let mut family = Self { frequency: peak.frequency, waves: vec![(1, peak)], is_shaped: false };
        for _ in 0..DEEPEST {
            let mut powers = spectrum(&family.without(left));
            for _ in 0..ADDITIONS {
                if !family.add_multiples(left, &powers, span, alpha) {
                    break;
                }
                powers = spectrum(&family.without(left));
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded here")]
            let most = (family.frequency * span / CYCLES_MIN).min(f64::from(MULTIPLES_MAX)) as u32;
            let bound = (alpha / f64::from(most.max(1))).ln();
            let longer = (2..=most).filter_map(|times| family.candidate(&powers, times, span));
            let longer = longer.filter(|one| one.ln_p <= bound);
            let Some(best) = longer.max_by(|a, b| a.mean.total_cmp(&b.mean)) else { break };
            family.frequency = best.frequency;
            family.is_shaped = true;
            family.waves.iter_mut().for_each(|(multiple, _)| *multiple *= best.times);
        }
        family
    }

    /// Multiples of the fundamental that stand out, in rising order.
    pub(super) fn harmonics(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.waves.iter().map(|(multiple, _)| *multiple).filter(|m| *m > 1).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The values without its waves.
    pub(super) fn without(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().map(|(x, y)| (*x, y - self.at(*x))).collect()
    }

    /// Sum of its waves.
    pub(super) fn at(&self, x: f64) -> f64 {
        self.waves.iter().map(|(_, wave)| wave.at(x)).sum()
    }

    /// Number of times that the frequency holds the fundamental; `None` if it is not a multiple.
    ///
    /// - `span`: its inverse is the resolution.
    pub(super) fn multiple(&self, frequency: f64, span: f64) -> Option<u32> {
        let times = (frequency / self.frequency).round();
        let apart = (frequency - times * self.frequency).abs() * span;
        // Of few cycles in the span, every frequency is near a multiple.
        let near = SAME.min(self.frequency * span / 4.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        (times >= 1.0 && apart <= near).then_some(times as u32)
    }

    fn highest(frequency: f64, span: f64) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded here")]
        let highest = ((0.5 - 1.0 / span) / frequency).min(f64::from(MULTIPLES_MAX)) as u32;
        highest
    }

    /// Evidence that the fundamental is a multiple of a lower one; for 1, that it has multiples itself.
    ///
    /// Only multiples count that belong to no frequency between the two.
    fn candidate(&self, powers: &Spectrum, times: u32, span: f64) -> Option<Candidate> {
        let mut frequency = self.frequency / f64::from(times);
        let highest = Self::highest(frequency, span);
        let taken: Vec<u32> = self.waves.iter().map(|(multiple, _)| multiple * times).collect();
        let free = (1..=highest).filter(|m| greatest_divisor(*m, times) == 1 && !taken.contains(m));
        let free: Vec<u32> = free.collect();
        let (mut best, mut tried, mut to): (Option<Candidate>, f64, u32) = (None, 0.0, times.max(2));
        loop {
            to = to.min(highest);
            let those = &free[..free.partition_point(|m| *m <= to)];
            let sum = |frequency: f64, of: fn(f64) -> f64| -> f64 {
                those.iter().map(|m| of(powers.at(f64::from(*m) * frequency))).sum()
            };
            let step = 1.0 / (8.0 * span * f64::from(to.max(1)));
            let near = (-STEPS..=STEPS).map(|i| frequency + f64::from(i) * step);
            // Capped powers are alike at many frequencies, and one strong power must not place all.
            let near = near.map(|f| (sum(f, f64::ln_1p), f)).max_by(|a, b| a.0.total_cmp(&b.0));
            let (_, at) = near.expect("the middle is one of them");
            tried += f64::from(2 * STEPS + 1);
            if !those.is_empty() {
                frequency = at;
                let ln_p = ln_gamma_above(those.len(), sum(at, |z| z.min(CAP)));
                let mean = sum(at, |z| z) / those.len() as f64;
                if best.as_ref().is_none_or(|best| ln_p < best.ln_p) {
                    best = Some(Candidate { frequency, times, ln_p, mean });
                }
            }
            if to >= highest {
                break;
            }
            to *= 2;
        }
        best.map(|best| Candidate { ln_p: best.ln_p + tried.ln(), ..best })
    }

    /// Adds the multiples that stand out in what is left; whether there are any.
    fn add_multiples(&mut self, points: &[(f64, f64)], powers: &Spectrum, span: f64, alpha: f64) -> bool {
        let together = self.candidate(powers, 1, span).filter(|own| own.ln_p <= alpha.ln());
        self.is_shaped |= together.is_some();
        let frequency = together.map_or(self.frequency, |own| own.frequency);
        let highest = Self::highest(frequency, span);
        let least = if self.is_shaped { MEMBER } else { (f64::from(highest) / alpha).ln() };
        let is_taken = |m: u32| self.waves.iter().any(|(taken, _)| *taken == m);
        let free = (1..=highest).filter(|m| !is_taken(*m));
        let mut new: Vec<(u32, f64)> = free.map(|m| (m, powers.at(f64::from(m) * frequency))).collect();
        new.retain(|(_, z)| *z >= least);
        new.sort_by(|a, b| b.1.total_cmp(&a.1));
        new.truncate(WAVES_MAX.saturating_sub(self.waves.len()));
        if new.is_empty() {
            return false;
        }
        self.is_shaped = true;
        let known = self.waves.iter().map(|(m, _)| *m);
        let multiples: Vec<u32> = known.chain(new.iter().map(|(m, _)| *m)).collect();
        self.fit(points, &multiples, frequency);
        true
    }

    /// Fits waves at multiples of the frequency near `frequency` that explains most.
    fn fit(&mut self, points: &[(f64, f64)], multiples: &[u32], frequency: f64) {
        /// Waves that place the frequency.
        const PLACING: usize = 16;
        /// Times that each wave is fitted without the others.
        const PASSES: usize = 3;
        let span = points[points.len() - 1].0;
        let power = |m: u32, f: f64| Wave::of(points, f64::from(m) * f).amplitude().powi(2);
        // The higher the multiple, the more an error of the frequency costs it.
        let weight = |m: &u32| (*m, power(*m, frequency) * f64::from(*m).powi(2));
        let mut telling: Vec<(u32, f64)> = multiples.iter().map(weight).collect();
        telling.sort_by(|a, b| b.1.total_cmp(&a.1));
        telling.truncate(PLACING);
        let explained = |f: f64| telling.iter().map(|(m, _)| power(*m, f)).sum::<f64>();
        let highest = f64::from(telling.iter().map(|(m, _)| *m).max().unwrap_or(1));
        let mut best = (explained(frequency), frequency);
        for part in [8.0, 16.0, 32.0, 64.0, 128.0] {
            let step = 1.0 / (span * highest * part);
            let near = [-2.0, -1.0, 1.0, 2.0].map(|by| best.1 + by * step).map(|f| (explained(f), f));
            best = near.into_iter().fold(best, |a, b| if b.0 > a.0 { b } else { a });
        }
        self.frequency = best.1;
        let mut left = points.to_vec();
        self.waves.clear();
        for pass in 0..PASSES {
            for (i, multiple) in multiples.iter().enumerate() {
                if pass > 0 {
                    let wave = self.waves[i].1;
                    for (x, y) in &mut left {
                        *y += wave.at(*x);
                    }
                }
                let wave = Wave::of(&left, f64::from(*multiple) * self.frequency);
                for (x, y) in &mut left {
                    *y -= wave.at(*x);
                }
                if pass > 0 {
                    self.waves[i].1 = wave;
                } else {
                    self.waves.push((*multiple, wave));
                }
            }
        }
    }
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// Logarithm of the probability that a sum of `n` exponential values of mean 1 is above `sum`.
fn ln_gamma_above(n: usize, sum: f64) -> f64 {
    if sum <= 0.0 {
        return 0.0;
    }
    // The sum over i below n of sum^i / i!, as a factor of its largest term.
    let (mut ln_term, mut ln_all) = (0.0_f64, 0.0_f64);
    for i in 1..n {
        ln_term += (sum / i as f64).ln();
        let (low, high) = (ln_term.min(ln_all), ln_term.max(ln_all));
        ln_all = high + (low - high).exp().ln_1p();
    }
    (ln_all - sum).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_exponential_values_is_that_of_scipy() {
        // scipy 1.17.1: gamma.logsf(30, 11), gamma.logsf(3, 1).
        assert!((ln_gamma_above(11, 30.0) + 10.708_739_015_208_106).abs() < 1e-9);
        assert!((ln_gamma_above(1, 3.0) + 3.0).abs() < 1e-12);
    }
}
