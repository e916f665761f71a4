//! Choice and content of the rows that an event uses, as in sysbench 1.0.

use record::load::Distribution;

use crate::schedule::random::Random;

/// Digits of a `c` value: ten groups of eleven, joined by dashes.
pub(crate) const C_LENGTH: usize = 119;
/// Digits of a `pad` value: five such groups.
pub(crate) const PAD_LENGTH: usize = 59;

/// Draws row numbers from 1 to the number of rows.
#[derive(Debug, Clone)]
pub(crate) struct RowPicker {
    rows: u64,
    law: Law,
}

#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Special,
    Pareto { power: f64 },
    Zipfian(Zipf),
}

/// Share of the draws of `special` that follows a bell curve over all rows.
const SPECIAL_BELL: f64 = 0.25;
/// Number of uniform numbers that are averaged for a draw from the bell curve.
const SPECIAL_ITERATIONS: u32 = 12;
/// Share of the rows, in the middle, that gets the other draws.
const SPECIAL_ROWS: f64 = 0.01;

impl RowPicker {
    pub(crate) fn new(distribution: Distribution, rows: u64) -> Self {
        assert!(rows > 0, "there is no row to pick");
        let law = match distribution {
            Distribution::Uniform => Law::Uniform,
            Distribution::Special => Law::Special,
            Distribution::Pareto { h } => Law::Pareto { power: h.ln() / (1.0 - h).ln() },
            Distribution::Zipfian { exponent } => Law::Zipfian(Zipf::new(rows, exponent)),
        };
        Self { rows, law }
    }

    /// Draws a row number.
    pub(crate) fn pick(&self, random: &mut Random) -> u64 {
        let offset = match &self.law {
            Law::Uniform => random.below(self.rows),
            Law::Special => special(self.rows, random),
            Law::Pareto { power } => whole(self.rows as f64 * random.unit().powf(*power)),
            Law::Zipfian(zipf) => zipf.draw(random) - 1,
        };
        1 + offset.min(self.rows - 1)
    }
}

/// Draws a number from 1 to `n` by Zipf's law.
pub(crate) fn zipfian(n: u64, exponent: f64, random: &mut Random) -> u64 {
    Zipf::new(n, exponent).draw(random).min(n)
}

/// A quarter of the draws follows a bell curve over all rows; the rest is uniform over a hundredth of them in
/// the middle.
///
/// sysbench derives the latter from the number that also made the choice, so they only reach the upper three
/// quarters of that hundredth. This function does the same, to have the same hot rows.
fn special(rows: u64, random: &mut Random) -> u64 {
    let width = (rows - 1) as f64;
    let choice = random.unit();
    if choice < SPECIAL_BELL {
        let sum: f64 = (0..SPECIAL_ITERATIONS).map(|_| random.unit()).sum();
        return whole(sum * width / f64::from(SPECIAL_ITERATIONS));
    }
    let hot = width * SPECIAL_ROWS;
    whole(choice * (hot + 1.0) + width / 2.0 - hot / 2.0)
}

/// Zipf's law on 1 ..= n by rejection-inversion.
///
/// # Source
///
/// Hörmann and Derflinger, *Rejection-inversion to generate variates from monotone discrete distributions*,
/// ACM TOMACS 6.3 (1996), with the integral rewritten so the exponent 1 needs no special case.
#[derive(Debug, Clone)]
struct Zipf {
    n: f64,
    exponent: f64,
    /// The hat's integral at its left end.
    from: f64,
    /// The hat's integral at its right end.
    to: f64,
    /// Distance below which a draw is accepted without computing the hat.
    squeeze: f64,
}

impl Zipf {
    fn new(n: u64, exponent: f64) -> Self {
        let mut zipf = Self { n: n as f64, exponent, from: 0.0, to: 0.0, squeeze: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.to + random.unit() * (self.from - self.to);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.weight(k) {
                return whole(k);
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// Integral of the weight from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let (log, q) = (x.ln(), 1.0 - self.exponent);
        if (q * log).abs() < 1e-8 { log } else { (q * log).exp_m1() / q }
    }

    fn inverse(&self, y: f64) -> f64 {
        let q = 1.0 - self.exponent;
        let log = if (q * y).abs() < 1e-8 { y } else { (q * y).max(-1.0).ln_1p() / q };
        log.exp()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "row numbers and offsets, over 0"
)]
fn whole(x: f64) -> u64 {
    x as u64
}

/// A text of groups of eleven digits joined by dashes, written in place.
#[derive(Debug, Clone)]
pub(crate) struct Digits<const LENGTH: usize>([u8; LENGTH]);

impl<const LENGTH: usize> Digits<LENGTH> {
    pub(crate) fn new() -> Self {
        Self([b'-'; LENGTH])
    }

    /// Draws new digits.
    pub(crate) fn draw(&mut self, random: &mut Random) -> &str {
        for group in self.0.chunks_mut(12) {
            // Eleven digits are 37 bits.
            let mut number = random.below(100_000_000_000);
            for digit in &mut group[..11] {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        std::str::from_utf8(&self.0).expect("digits and dashes are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, rows: u64, draws: u64) -> Vec<u64> {
        let picker = RowPicker::new(distribution, rows);
        let mut random = Random::of(3, 0);
        let mut counts = vec![0; usize::try_from(rows).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(picker.pick(&mut random)).unwrap() - 1] += 1;
        }
        counts
    }

    #[test]
    fn uniform_treats_all_rows_alike_and_reaches_both_ends() {
        let counts = counts(Distribution::Uniform, 10, 100_000);
        assert!(counts.iter().all(|n| (9_500..10_500).contains(n)), "{counts:?}");
    }

    #[test]
    fn zipfian_frequencies_follow_the_law() {
        for exponent in [0.8, 1.0, 1.3] {
            let counts = counts(Distribution::Zipfian { exponent }, 1_000, 1_000_000);
            let norm: f64 = (1..=1_000).map(|k| f64::from(k).powf(-exponent)).sum();
            for k in [1u32, 2, 3, 10, 100] {
                let expected = 1e6 * f64::from(k).powf(-exponent) / norm;
                let found = counts[k as usize - 1] as f64;
                assert!(
                    (found - expected).abs() < 5.0 * expected.sqrt(),
                    "{exponent} {k}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn special_puts_three_quarters_into_the_middle_hundredth() {
        let counts = counts(Distribution::Special, 10_000, 1_000_000);
        // The hundredth is rows 4,951 to 5,051; its lower quarter only gets draws of the bell curve.
        let hot: u64 = counts[4_970..5_052].iter().sum();
        // Three quarters, and about 1 % of the bell curve (a quarter of the draws, standard deviation 833
        // rows).
        assert!((750_000..770_000).contains(&hot), "{hot}");
        let below: u64 = counts[..4_970].iter().sum();
        assert!((115_000..130_000).contains(&below), "{below}");
    }

    #[test]
    fn pareto_at_one_fifth_puts_four_fifths_into_one_fifth() {
        let counts = counts(Distribution::Pareto { h: 0.2 }, 1_000, 1_000_000);
        let first: u64 = counts[..200].iter().sum();
        assert!((795_000..805_000).contains(&first), "{first}");
    }

    #[test]
    fn one_row_is_always_row_one() {
        for name in Distribution::NAMES {
            let distribution = Distribution::named(name).unwrap();
            assert_eq!(counts(distribution, 1, 1_000), [1_000], "{name}");
        }
    }

    #[test]
    fn texts_are_groups_of_eleven_digits() {
        let mut random = Random::of(1, 1);
        let mut c = Digits::<C_LENGTH>::new();
        let text = c.draw(&mut random).to_owned();
        assert_eq!((text.len(), text.split('-').count()), (119, 10));
        assert!(text.split('-').all(|g| g.len() == 11 && g.bytes().all(|b| b.is_ascii_digit())));
        assert_ne!(c.draw(&mut random), text);
        assert_eq!(Digits::<PAD_LENGTH>::new().draw(&mut random).split('-').count(), 5);
    }
}
