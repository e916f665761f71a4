//! Random numbers with sysbench's meaning.
//!
//! # Source
//!
//! The documentation of sysbench 1.0 (`--rand-*`); the law of `special` is that of 1.0, which 1.1 removed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::schedule::random::Random;
use crate::workload::rows::zipfian;

/// Distribution of `sysbench.rand.default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Law {
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

impl Law {
    pub(crate) const NAMES: [&str; 5] = ["uniform", "gaussian", "special", "pareto", "zipfian"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "gaussian" => Some(Self::Gaussian),
            "special" => Some(Self::Special),
            "pareto" => Some(Self::Pareto),
            "zipfian" => Some(Self::Zipfian),
            _ => None,
        }
    }
}

/// The laws with their parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Laws {
    pub(crate) default: Law,
    /// Uniform numbers that are averaged for a Gaussian one.
    pub(crate) iterations: u32,
    /// Percentage of the range that is special.
    pub(crate) special_pct: u32,
    /// Percentage of the draws that are special.
    pub(crate) special_draws_pct: u32,
    pub(crate) pareto_h: f64,
    pub(crate) zipfian_exponent: f64,
}

impl Laws {
    /// Defaults of sysbench 1.0.
    pub(crate) const USUAL: Self = Self {
        default: Law::Special,
        iterations: 12,
        special_pct: 1,
        special_draws_pct: 75,
        pareto_h: 0.2,
        zipfian_exponent: 0.8,
    };

    /// Draws a number from `from` to `to` by the default law.
    pub(crate) fn default(&self, random: &mut Random, from: u32, to: u32) -> u32 {
        match self.default {
            Law::Uniform => uniform(random, from, to),
            Law::Gaussian => self.gaussian(random, from, to),
            Law::Special => self.special(random, from, to),
            Law::Pareto => self.pareto(random, from, to),
            Law::Zipfian => self.zipfian(random, from, to),
        }
    }

    pub(crate) fn gaussian(&self, random: &mut Random, from: u32, to: u32) -> u32 {
        let width = width(from, to);
        let sum: f64 = (0..self.iterations).map(|_| random.unit() * width).sum();
        at(from, to, sum / f64::from(self.iterations.max(1)))
    }

    /// A share of the draws falls into a small part in the middle of the range; the others are Gaussian.
    ///
    /// The number that makes the choice also picks the special number, so the lower end of that part is not
    /// reached. sysbench does the same, and so do our own workloads: the hot rows are the same.
    pub(crate) fn special(&self, random: &mut Random, from: u32, to: u32) -> u32 {
        let distance = width(from, to) - 1.0;
        let choice = random.unit();
        if choice < 1.0 - f64::from(self.special_draws_pct) / 100.0 {
            let sum: f64 = (0..self.iterations).map(|_| random.unit()).sum();
            return at(from, to, sum * distance / f64::from(self.iterations.max(1)));
        }
        let hot = distance * f64::from(self.special_pct) / 100.0;
        at(from, to, choice * (hot + 1.0) + distance / 2.0 - hot / 2.0)
    }

    pub(crate) fn pareto(&self, random: &mut Random, from: u32, to: u32) -> u32 {
        let power = self.pareto_h.ln() / (1.0 - self.pareto_h).ln();
        at(from, to, width(from, to) * random.unit().powf(power))
    }

    pub(crate) fn zipfian(&self, random: &mut Random, from: u32, to: u32) -> u32 {
        let many = u64::from(to.wrapping_sub(from)) + 1;
        let drawn = zipfian(many, self.zipfian_exponent, random) - 1;
        from.wrapping_add(u32::try_from(drawn).unwrap_or(0))
    }
}

/// Draws a number from `from` to `to`, all with the same probability.
pub(crate) fn uniform(random: &mut Random, from: u32, to: u32) -> u32 {
    at(from, to, random.unit() * width(from, to))
}

/// Writes `form` with random characters: `#` becomes a digit, `@` a small letter.
pub(crate) fn write_form(random: &mut Random, form: &[u8], out: &mut [u8]) {
    // One draw yields several characters: multiplying takes the upper bits, and leaves the rest for the next.
    let (mut bits, mut left) = (0u64, 0);
    for (c, out) in form.iter().zip(out) {
        let (first, many) = match c {
            b'#' => (b'0', 10),
            b'@' => (b'a', 26),
            other => {
                *out = *other;
                continue;
            }
        };
        if left == 0 {
            // Eight draws of at most 26 use 38 bits: the bias of the last is below 2^-26.
            (bits, left) = (random.bits(), 8);
        }
        left -= 1;
        let product = u128::from(bits) * many;
        let (upper, lower) = (product >> 64, product & u128::from(u64::MAX));
        bits = u64::try_from(lower).expect("the lower half");
        *out = first + u8::try_from(upper).expect("below 26");
    }
}

/// Writes between `least` and `out.len()` characters from `0` to `z`; returns their number.
pub(crate) fn write_any(random: &mut Random, least: u32, out: &mut [u8]) -> u32 {
    let most = u32::try_from(out.len()).unwrap_or(u32::MAX);
    let many = uniform(random, least, most);
    for c in &mut out[..many as usize] {
        let drawn = random.below(u64::from(b'z' - b'0') + 1);
        *c = b'0' + u8::try_from(drawn).expect("below 75");
    }
    many
}

fn width(from: u32, to: u32) -> f64 {
    f64::from(to.wrapping_sub(from)) + 1.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an offset, from 0 on")]
fn at(from: u32, to: u32, offset: f64) -> u32 {
    from.wrapping_add((offset as u32).min(to.wrapping_sub(from)))
}

/// A sequence of 32-bit numbers in which none repeats, over all threads.
///
/// # Source
///
/// Preshing, *How to generate a sequence of unique random integers* (2012): quadratic residues of a prime
/// that is 3 modulo 4.
#[derive(Debug)]
pub(crate) struct Unique {
    next: AtomicU32,
    offset: u32,
    /// Numbers drawn from each smaller range.
    drawn: Mutex<BTreeMap<(u32, u32), u64>>,
}

/// Smaller ranges that are remembered; after more, all begin anew.
const RANGES_MAX: usize = 1_024;

impl Unique {
    pub(crate) fn new(random: &mut Random) -> Self {
        let half = |random: &mut Random| u32::try_from(random.bits() >> 32).expect("32 bits");
        let next = permuted(permuted(half(random)).wrapping_add(0x682f_0161));
        let offset = permuted(permuted(half(random)).wrapping_add(0x4679_0905));
        Self { next: AtomicU32::new(next), offset, drawn: Mutex::default() }
    }

    pub(crate) fn draw(&self) -> u32 {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        permuted(permuted(index).wrapping_add(self.offset) ^ 0x5bf0_3635)
    }

    /// Draws a number of a range. None repeats until each was drawn.
    pub(crate) fn draw_within(&self, from: u32, to: u32) -> u32 {
        let width = u64::from(to.max(from) - from) + 1;
        if width > u64::from(u32::MAX) {
            return self.draw();
        }
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.len() >= RANGES_MAX && !drawn.contains_key(&(from, to)) {
            drawn.clear();
        }
        let next = drawn.entry((from, to)).or_default();
        let mut index = *next % width;
        *next += 1;
        drop(drawn);
        // A Feistel network permutes the next power of four; numbers beyond the range are permuted again.
        let bits = (u64::BITS - (width - 1).leading_zeros()).div_ceil(2).max(1);
        let mask = (1 << bits) - 1;
        loop {
            let (mut left, mut right) = (index >> bits, index & mask);
            for round in 0..4 {
                let low = u32::try_from(right).expect("at most 16 bits");
                let mixed = permuted(permuted(low ^ (round << 16)).wrapping_add(self.offset) ^ 0x5bf0_3635);
                (left, right) = (right, left ^ (u64::from(mixed.wrapping_mul(0x9e37_79b1) >> 16) & mask));
            }
            index = left << bits | right;
            if index < width {
                return from + u32::try_from(index).expect("within the range");
            }
        }
    }
}

fn permuted(x: u32) -> u32 {
    const PRIME: u32 = 4_294_967_291;
    if x >= PRIME {
        return x;
    }
    let residue = u64::from(x) * u64::from(x) % u64::from(PRIME);
    let residue = u32::try_from(residue).expect("below the prime");
    if x <= PRIME / 2 { residue } else { PRIME - residue }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shares(laws: &Laws, law: Law, many: u32, draws: u32) -> Vec<f64> {
        let laws = Laws { default: law, ..*laws };
        let mut random = Random::of(7, 0);
        let mut counts = vec![0.0; many as usize];
        for _ in 0..draws {
            counts[(laws.default(&mut random, 100, 99 + many) - 100) as usize] += 1.0 / f64::from(draws);
        }
        counts
    }

    #[test]
    fn every_law_stays_in_its_range_also_at_its_ends() {
        for name in Law::NAMES {
            let laws = Laws { default: Law::named(name).unwrap(), ..Laws::USUAL };
            let mut random = Random::of(1, 1);
            for (from, to) in [(5, 5), (0, u32::MAX), (0, 1), (u32::MAX, u32::MAX), (1, 3)] {
                for _ in 0..2_000 {
                    let drawn = laws.default(&mut random, from, to);
                    assert!((from..=to).contains(&drawn), "{name} {from} {to}: {drawn}");
                }
            }
        }
    }

    #[test]
    fn uniform_is_flat_and_gaussian_is_not() {
        let flat = shares(&Laws::USUAL, Law::Uniform, 10, 200_000);
        assert!(flat.iter().all(|share| (0.097..0.103).contains(share)), "{flat:?}");
        // The mean of twelve uniform numbers has a standard deviation of a twelfth of the range: 68 % lie in
        // the middle sixth.
        let bell = shares(&Laws::USUAL, Law::Gaussian, 60, 200_000);
        let middle: f64 = bell[25..35].iter().sum();
        assert!((0.675..0.70).contains(&middle), "{middle}");
    }

    #[test]
    fn three_quarters_of_the_special_draws_fall_into_a_hundredth_in_the_middle() {
        let found = shares(&Laws::USUAL, Law::Special, 10_000, 400_000);
        // The hundredth begins at 4,950; the draws that choose it are from a quarter up.
        let hot: f64 = found[4_975..5_051].iter().sum();
        // And so does 3.6 % of the Gaussian quarter.
        assert!((0.750..0.769).contains(&hot), "{hot}");
        assert!(found[4_976..5_049].iter().all(|share| *share > 0.005), "each row of it");
        assert!(found[..4_000].iter().sum::<f64>() > 0.02);
    }

    #[test]
    fn pareto_puts_four_fifths_into_one_fifth() {
        let found = shares(&Laws::USUAL, Law::Pareto, 1_000, 400_000);
        let first: f64 = found[..200].iter().sum();
        assert!((0.795..0.805).contains(&first), "{first}");
    }

    #[test]
    fn zipfian_follows_its_exponent() {
        let found = shares(&Laws { zipfian_exponent: 1.0, ..Laws::USUAL }, Law::Zipfian, 100, 400_000);
        assert!((found[0] / found[1] - 2.0).abs() < 0.05, "{}", found[0] / found[1]);
        assert!((found[0] / found[9] - 10.0).abs() < 0.5, "{}", found[0] / found[9]);
    }

    #[test]
    fn unique_numbers_do_not_repeat_also_across_threads() {
        let unique = Unique::new(&mut Random::of(3, 3));
        let of_threads: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let draw = || (0..100_000).map(|_| unique.draw()).collect();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: BTreeSet<u32> = of_threads.into_iter().flatten().collect();
        assert_eq!(all.len(), 300_000);
        assert_eq!(permuted(u32::MAX), u32::MAX);
    }

    #[test]
    fn unique_numbers_of_a_range_are_all_of_it() {
        let unique = Unique::new(&mut Random::of(3, 3));
        for (from, to) in
            [(0, 0), (u32::MAX, u32::MAX), (5, 6), (7, 56), (1, 10_000), (0, 65_535), (9, 65_545)]
        {
            let mut rounds = Vec::new();
            for _ in 0..2 {
                let round: Vec<u32> = (from..=to).map(|_| unique.draw_within(from, to)).collect();
                let all: BTreeSet<u32> = round.iter().copied().collect();
                assert!(all.iter().copied().eq(from..=to), "{from} {to}");
                rounds.push(round);
            }
            assert_eq!(rounds[0], rounds[1]);
            // Neighbours are apart as random ones are: a third of the range on average.
            if to - from > 1_000 {
                let steps = rounds[0].windows(2).map(|two| f64::from(two[0].abs_diff(two[1])));
                let mean = steps.sum::<f64>() / f64::from(to - from);
                assert!((mean / f64::from(to - from) - 1.0 / 3.0).abs() < 0.02, "{mean}");
            }
        }
        let wide: BTreeSet<u32> = (0..100_000).map(|_| unique.draw_within(1, u32::MAX)).collect();
        assert_eq!((wide.len(), wide.contains(&0)), (100_000, false));
        for from in 0..5_000 {
            unique.draw_within(from, from + 1);
        }
        assert!(unique.drawn.lock().unwrap().len() <= RANGES_MAX);
    }

    #[test]
    fn forms_are_filled_evenly() {
        let (form, mut random) = ([b'#', b'-', b'@'].repeat(40), Random::of(5, 5));
        let (mut digits, mut letters) = ([0u32; 10], [0u32; 26]);
        let mut out = vec![0; form.len()];
        for _ in 0..5_000 {
            write_form(&mut random, &form, &mut out);
            for three in out.chunks(3) {
                assert_eq!(three[1], b'-');
                digits[usize::from(three[0] - b'0')] += 1;
                letters[usize::from(three[2] - b'a')] += 1;
            }
        }
        assert!(digits.iter().all(|n| (19_300..20_700).contains(n)), "{digits:?}");
        assert!(letters.iter().all(|n| (7_200..8_200).contains(n)), "{letters:?}");
        let mut any = [0; 23];
        let lengths: BTreeSet<u32> = (0..2_000).map(|_| write_any(&mut random, 1, &mut any)).collect();
        assert_eq!((lengths.first(), lengths.last(), lengths.len()), (Some(&1), Some(&23), 23));
        assert!(any.iter().all(|c| (b'0'..=b'z').contains(c)));
    }
}
