//! Sizes that are multiples of a number, compared with their neighbors.

use std::collections::BTreeMap;

use super::point::{EFFECT_MIN, Point};
use crate::robust::mean_and_error;
use crate::student::{p_two_sided, t_above};

/// Effect of sizes that are multiples of a number, relative to their neighbors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multiple {
    /// The number.
    pub of_bytes: u64,
    /// Time of a call at a multiple, divided by that at its two neighbors.
    pub ratio: f64,
    /// Lower end of the 95 % interval, over the multiples.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of multiples.
    pub n: usize,
    /// Whether the effect is significant and both halves of the rounds show it.
    pub confirmed: bool,
    /// Whether the effect certainly differs from that of half the number, or from 0 for the smallest number:
    /// then the number itself is a period, not one of its divisors.
    pub is_period: bool,
}

impl Multiple {
    /// Effect of the multiples in a sentence.
    pub fn sentence(&self) -> String {
        let of = self.of_bytes;
        if !self.confirmed {
            return format!(
                "multiples of {of} bytes are like their neighbours, and those of {} are not",
                of / 2
            );
        }
        let word = if self.ratio < 1.0 { "faster" } else { "slower" };
        let by = match 100.0 * (self.ratio - 1.0).abs() {
            percent if percent < 99.95 => format!("{percent:.1} %"),
            _ => format!("{:.1} times", self.ratio),
        };
        format!("multiples of {of} bytes are {by} {word} than their neighbours")
    }
}

/// Numbers of which the multiples are compared with their neighbors.
const MULTIPLES: [u64; 5] = [1_024, 2_048, 4_096, 8_192, 16_384];
/// Minimum number of multiples.
const FEW: usize = 3;
/// Level of significance, all tests together; and in each half of the rounds.
const ALPHA: f64 = 0.01;
const ALPHA_OF_HALF: f64 = 0.05;

/// Effects of every number with enough odd multiples. Odd ones only, so that an effect of twice the number is
/// not attributed to it.
pub(super) fn multiples(whole: &[Point], halves: Option<&[Vec<Point>; 2]>) -> Vec<Multiple> {
    let mut found: Vec<Multiple> = Vec::new();
    let mut smaller: Option<[Vec<f64>; 3]> = None;
    for of_bytes in MULTIPLES {
        let all = effects(whole, of_bytes);
        if all.len() < FEW {
            continue;
        }
        let of_halves = halves.map(|h| h.each_ref().map(|half| effects(half, of_bytes)));
        let (mean, error) = mean_and_error(&all);
        let half_width = t_above(0.025, all.len() as f64 - 1.0) * error;
        let nothing = [vec![0.0], vec![0.0], vec![0.0]];
        let [first, second] = of_halves.unwrap_or_default();
        let these = [all, first, second];
        let confirmed = differ(&these, &nothing);
        found.push(Multiple {
            of_bytes,
            ratio: mean.exp(),
            low: (mean - half_width).exp(),
            high: (mean + half_width).exp(),
            n: these[0].len(),
            confirmed,
            is_period: differ(&these, smaller.as_ref().unwrap_or(&nothing)),
        });
        smaller = Some(these);
    }
    found
}

/// Log of the time of a call at each odd multiple, divided by that at its neighbors.
fn effects(points: &[Point], of_bytes: u64) -> Vec<f64> {
    let by_size: BTreeMap<u64, f64> = points.iter().map(|p| (p.size_bytes, p.call_ns.ln())).collect();
    let odd = |n: &&u64| n.is_multiple_of(of_bytes) && !n.is_multiple_of(2 * of_bytes);
    let effect = |n: &u64| {
        let (before, after) = (by_size.get(&(n - 1))?, by_size.get(&(n + 1))?);
        Some(by_size[n] - before.midpoint(*after))
    };
    by_size.keys().filter(odd).filter_map(effect).collect()
}

/// Whether effects differ significantly, by a reportable amount, and in both halves of the rounds in the same
/// direction.
fn differ(a: &[Vec<f64>; 3], b: &[Vec<f64>; 3]) -> bool {
    let (by, p) = difference(&a[0], &b[0]);
    let in_half = |i: usize| {
        let (m, p) = difference(&a[i], &b[i]);
        m * by > 0.0 && p < ALPHA_OF_HALF
    };
    p < ALPHA / MULTIPLES.len() as f64 && by.abs() >= EFFECT_MIN && in_half(1) && in_half(2)
}

/// Difference of two means and its p value, with unequal variances; a single value counts as exact.
fn difference(a: &[f64], b: &[f64]) -> (f64, f64) {
    if a.len() < FEW || b.is_empty() {
        return (0.0, 1.0);
    }
    let ((ma, ea), (mb, eb)) = (mean_and_error(a), mean_and_error(b));
    let (va, vb) = (ea * ea, eb * eb);
    let sum = (va + vb).max(f64::MIN_POSITIVE);
    let share = |v: f64, n: usize| if n > 1 { v * v / (n as f64 - 1.0) } else { 0.0 };
    let df = sum * sum / (share(va, a.len()) + share(vb, b.len())).max(f64::MIN_POSITIVE);
    (ma - mb, p_two_sided((ma - mb) / sum.sqrt(), df.clamp(1.0, 1e6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    /// Every multiple of 1 KiB with its neighbors, with 1 % of noise; multiples of `of` cost more by `by`,
    /// all multiples of 1 KiB 5 % less.
    fn points(seed: u64, of: u64, by: f64) -> Vec<Point> {
        let mut chance = SplitMix(seed);
        let mut point = |size_bytes: u64| {
            let noise = 0.98 + 0.04 * chance.below(1_000) as f64 / 1_000.0;
            let cheap = if size_bytes.is_multiple_of(1_024) { 0.95 } else { 1.0 };
            let dear = if size_bytes.is_multiple_of(of) { 1.0 + by } else { 1.0 };
            let call_ns = (400.0 + 0.02 * size_bytes as f64) * noise * cheap * dear;
            Point { size_bytes, call_ns, call_ns_range: (call_ns, call_ns), n: 3, fitted_ns: call_ns }
        };
        (1..=100).flat_map(|k| [k * 1_024 - 1, k * 1_024, k * 1_024 + 1]).map(&mut point).collect()
    }

    fn periods(of: u64, by: f64) -> Vec<u64> {
        let halves = [points(2, of, by), points(3, of, by)];
        let found = multiples(&points(1, of, by), Some(&halves));
        found.iter().filter(|m| m.is_period).map(|m| m.of_bytes).collect()
    }

    #[test]
    fn each_period_is_named_beside_what_its_divisors_do_anyhow() {
        assert_eq!(periods(4_096, 40.0), [1_024, 4_096]);
        assert_eq!(periods(4_096, 0.2), [1_024, 4_096]);
        assert_eq!(periods(4_096, 0.05), [1_024, 4_096], "which takes back what 1,024 gives");
        assert_eq!(periods(8_192, 0.3), [1_024, 8_192]);
        assert_eq!(periods(4_096, 0.0), [1_024]);
    }

    #[test]
    fn sentences_say_how_much() {
        let of = |of_bytes, ratio, confirmed| {
            Multiple { of_bytes, ratio, low: ratio, high: ratio, n: 9, confirmed, is_period: true }.sentence()
        };
        assert_eq!(of(1_024, 0.948, true), "multiples of 1024 bytes are 5.2 % faster than their neighbours");
        assert_eq!(
            of(4_096, 41.0, true),
            "multiples of 4096 bytes are 41.0 times slower than their neighbours"
        );
        assert_eq!(
            of(4_096, 1.0, false),
            "multiples of 4096 bytes are like their neighbours, and those of 2048 are not"
        );
    }

    #[test]
    fn one_half_alone_confirms_nothing() {
        let halves = [points(2, 4_096, 0.3), points(3, 4_096, 0.0)];
        let found = multiples(&points(1, 4_096, 0.3), Some(&halves));
        assert!(found.iter().all(|m| !m.is_period || m.of_bytes == 1_024), "{found:?}");
        assert!(multiples(&points(1, 4_096, 0.3), None).iter().all(|m| !m.confirmed));
    }
}
