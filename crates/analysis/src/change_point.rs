//! Where a series of numbers changes its level.
//!
//! Two questions, two methods. In *time* order a level may move at any moment and stay: [`levels`] cuts the series so
//! that squares within and a price for each cut are least. Over a *size* the curve itself is smooth and bends: a level
//! shift is where the curve seen from the left and the curve seen from the right do not meet, and [`jumps`] looks for
//! that alone, so that a bend is no shift.

use crate::robust::{median, noise};
use crate::usl::solve;

/// The fewest values of a stretch in [`levels`].
const STRETCH_MIN: usize = 5;

/// Cuts `values` into stretches of one level each; yields where each stretch after the first begins.
///
/// Exact segmentation with a price of 10 ln n times the noise's variance for each cut (PELT, without its shortcut where
/// that would lose a cut); noise is taken from the differences of neighbours and made larger by their correlation.
///
/// - `values`: in time order, finite.
///
/// # Source
///
/// Killick, Fearnhead and Eckley, *JASA* 107 (2012), 1590-1598.
pub fn levels(values: &[f64]) -> Vec<usize> {
    assert!(values.iter().all(|v| v.is_finite()), "values are finite");
    let n = values.len();
    if n < 2 * STRETCH_MIN {
        return Vec::new();
    }
    let Some(sd) = noise(values).filter(|sd| *sd > 0.0) else { return Vec::new() };
    let price = 10.0 * (n as f64).ln() * sd * sd;
    let sums = Sums::of(values);
    // best[i]: the least cost of the first i values; last[i]: where their last stretch begins.
    let (mut best, mut last) = (vec![f64::INFINITY; n + 1], vec![0; n + 1]);
    best[0] = -price;
    let mut starts = vec![0];
    for end in STRETCH_MIN..=n {
        for start in &starts {
            let cost = best[*start] + sums.cost(*start, end) + price;
            if cost < best[end] {
                (best[end], last[end]) = (cost, *start);
            }
        }
        // A start that is no good now, even for nothing, will never be (the shortcut).
        starts.retain(|start| best[*start] + sums.cost(*start, end) <= best[end]);
        let next = end + 1 - STRETCH_MIN;
        if next >= STRETCH_MIN {
            starts.push(next);
        }
    }
    let mut cuts = Vec::new();
    let mut at = last[n];
    while at > 0 {
        cuts.push(at);
        at = last[at];
    }
    cuts.reverse();
    cuts
}

struct Sums {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Sums {
    fn of(values: &[f64]) -> Self {
        // About their middle, so that a small spread far from 0 keeps its digits.
        let middle = values.iter().sum::<f64>() / values.len() as f64;
        let running = |power: i32| {
            let mut sum = 0.0;
            let sums = values.iter().map(move |v| {
                sum += (v - middle).powi(power);
                sum
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        Self { first: running(1), second: running(2) }
    }

    /// Sum of squares about the mean of values `start` up to `end`.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let (n, sum) = ((end - start) as f64, self.first[end] - self.first[start]);
        (self.second[end] - self.second[start] - sum * sum / n).max(0.0)
    }
}

/// A place where a smooth curve breaks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jump {
    /// Number of the first value after it.
    pub at: usize,
    /// By how much the curve jumps, up or down.
    pub by: f64,
    /// The jump over its standard error.
    pub z: f64,
}

/// Values on each side of a place that are looked at.
const REACH: usize = 120;
/// The fewest, near the ends.
const REACH_MIN: usize = 25;
/// A jump over so many standard errors is one: of two thousand places noise reaches that about once in a thousand series.
const Z_MIN: f64 = 5.0;
/// Parabolas know a jump half as well as lines; of that surety they must have this share.
const PARABOLA_SURE: f64 = 0.7;

/// Where the curve through `(x, y)` jumps: what fits the values on either side of a place does not meet there, neither as
/// straight lines, which see a small jump, nor as parabolas, which are not taken in by a bend.
///
/// Noise may have wild values, as long as it comes to neighbours by chance: values far from their neighbours' median are
/// taken back to the edge of it, and the standard error is from what the values about a place do differ by.
///
/// - `points`: x rising, finite.
/// - `jump_min`: smaller ones are not told.
///
/// # Source
///
/// H.-G. Müller, "Change-points in nonparametric regression analysis", *Annals of Statistics* 20 (1992), 737-761.
pub fn jumps(points: &[(f64, f64)], jump_min: f64) -> Vec<Jump> {
    let points = tamed(points);
    let mut found: Vec<Jump> = Vec::new();
    search(&points, 0, points.len(), jump_min, &mut found);
    found.sort_by_key(|j| j.at);
    found
}

/// What the curve does at `x`, whether or not that is much; `None` too near the ends.
pub fn jump_near(points: &[(f64, f64)], x: f64) -> Option<Jump> {
    let at = points.partition_point(|p| p.0 < x);
    if at < REACH_MIN || at + REACH_MIN > points.len() {
        return None;
    }
    Some(jump_at(&tamed(points), 0, at, points.len()))
}

/// Values that are so many times as far from the median of their neighbourhood as nine in ten values about them, are wild.
///
/// Nine in ten and not half: where a machine has two speeds, neither is wild, and what lies about the middle of one must
/// not be the measure for the other.
const WILD: f64 = 2.0;
const USUAL: f64 = 0.9;
/// Neighbours on either side, for the median; and for how far values usually are from it, which must not follow the few
/// wild ones that happen to be near: what was taken back would then be alike among neighbours, and no chance.
const NEAR: usize = 12;
const WIDE: usize = 120;

/// The points with wild values taken back to the edge of their neighbourhood.
fn tamed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let about = |i: usize, reach: usize| i.saturating_sub(reach)..(i + reach + 1).min(points.len());
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let middle: Vec<f64> =
        (0..points.len()).map(|i| median(&values[about(i, NEAR)]).expect("there is one at least")).collect();
    let off: Vec<f64> = values.iter().zip(&middle).map(|(v, m)| (v - m).abs()).collect();
    let at = |i: usize| {
        let mut near = off[about(i, WIDE)].to_vec();
        let usual = (USUAL * (near.len() - 1) as f64).floor();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among them")]
        let (_, usual, _) = near.select_nth_unstable_by(usual as usize, f64::total_cmp);
        let far = WILD * *usual;
        (points[i].0, values[i].clamp(middle[i] - far, middle[i] + far))
    };
    (0..points.len()).map(at).collect()
}

/// The greatest jump between `from` and `to`, then those on either side of it: windows never reach over a jump.
fn search(points: &[(f64, f64)], from: usize, to: usize, jump_min: f64, found: &mut Vec<Jump>) {
    if to - from < 2 * REACH_MIN {
        return;
    }
    let all = (from + REACH_MIN..=to - REACH_MIN).map(|at| jump_at(points, from, at, to));
    let Some(greatest) = all.max_by(|a, b| a.z.abs().total_cmp(&b.z.abs())) else { return };
    if greatest.z.abs() < Z_MIN || greatest.by.abs() < jump_min {
        return;
    }
    let greatest = Jump { at: placed(points, from, greatest.at, to), ..greatest };
    found.push(greatest);
    search(points, from, greatest.at, jump_min, found);
    search(points, greatest.at, to, jump_min, found);
}

/// By straight lines; nothing where parabolas do not agree.
fn jump_at(points: &[(f64, f64)], from: usize, at: usize, to: usize) -> Jump {
    let left = &points[at.saturating_sub(REACH).max(from)..at];
    let right = &points[at..(at + REACH).min(to)];
    let place = left[left.len() - 1].0.midpoint(right[0].0);
    let [line, parabola] = [2, 3].map(|terms| {
        let (a, b) = (fitted_at(left, place, terms), fitted_at(right, place, terms));
        let free = (left.len() + right.len() - 2 * terms) as f64;
        let variance = (a.squares + b.squares) / free * (a.variance + b.variance);
        (b.value - a.value, (b.value - a.value) / variance.max(f64::MIN_POSITIVE).sqrt())
    });
    let agree = line.1 * parabola.1 > 0.0 && parabola.1.abs() >= PARABOLA_SURE * line.1.abs().min(Z_MIN);
    Jump { at, by: line.0, z: if agree { line.1 } else { 0.0 } }
}

/// What a polynomial through some points says of a place.
struct Fitted {
    value: f64,
    /// In units of the noise's.
    variance: f64,
    /// Sum of squares that it leaves.
    squares: f64,
}

/// The polynomial of so many terms, at most three, through `points` by least squares, at `x`.
fn fitted_at(points: &[(f64, f64)], x: f64, terms: usize) -> Fitted {
    let reach = (points[0].0 - x).abs().max((points[points.len() - 1].0 - x).abs()).max(f64::MIN_POSITIVE);
    let row = |p: &(f64, f64)| {
        let t = (p.0 - x) / reach;
        [1.0, t, t * t]
    };
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for p in points {
        let row = row(p);
        for i in 0..terms {
            right[i] += row[i] * p.1;
            for j in 0..terms {
                matrix[i][j] += row[i] * row[j];
            }
        }
    }
    let found = solve(matrix, right, terms);
    let squares = points.iter().map(|p| {
        let fitted: f64 = row(p).iter().zip(found).take(terms).map(|(c, f)| c * f).sum();
        (p.1 - fitted).powi(2)
    });
    Fitted { value: found[0], variance: solve(matrix, [1.0, 0.0, 0.0], terms)[0], squares: squares.sum() }
}

/// The place near `at` from which two separate straight lines leave the least squares.
fn placed(points: &[(f64, f64)], from: usize, at: usize, to: usize) -> usize {
    let (low, high) = (at.saturating_sub(REACH).max(from), (at + REACH).min(to));
    let squares = |points: &[(f64, f64)]| fitted_at(points, points[0].0, 2).squares;
    let near =
        at.saturating_sub(REACH / 2).max(low + REACH_MIN / 2)..=(at + REACH / 2).min(high - REACH_MIN / 2);
    let cost = |at: usize| squares(&points[low..at]) + squares(&points[at..high]);
    near.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    fn noise(random: &mut ChaCha8Rng) -> f64 {
        (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    #[test]
    fn a_level_that_moves_and_moves_back_is_cut_twice() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let values: Vec<f64> =
            (0..600).map(|i| noise(&mut random) + if (200..320).contains(&i) { 4.0 } else { 0.0 }).collect();
        let cuts = levels(&values);
        assert_eq!(cuts.len(), 2, "{cuts:?}");
        assert!(cuts[0].abs_diff(200) <= 3 && cuts[1].abs_diff(320) <= 3, "{cuts:?}");
    }

    #[test]
    fn noise_alone_has_no_level_but_its_own() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let with_cuts = (0..100)
            .filter(|_| !levels(&(0..300).map(|_| noise(&mut random)).collect::<Vec<_>>()).is_empty())
            .count();
        assert!(with_cuts <= 2, "{with_cuts} of 100");
        assert!(levels(&[1.0; 100]).is_empty() && levels(&[]).is_empty());
    }

    /// A curve that bends all the way, with 2 % of noise, and a jump where there is one.
    fn curve(random: &mut ChaCha8Rng, jump: Option<(f64, f64)>) -> Vec<(f64, f64)> {
        curve_with(random, jump, noise)
    }

    fn curve_with(
        random: &mut ChaCha8Rng,
        jump: Option<(f64, f64)>,
        noise: fn(&mut ChaCha8Rng) -> f64,
    ) -> Vec<(f64, f64)> {
        (0..1_900)
            .map(|i| {
                let x = 54.0 * (f64::from(i) + 1.0);
                let bend = 0.15 * (x / 30_000.0).tanh() + 0.02 * (x / 9_000.0).sin();
                let jump = jump.filter(|(at, _)| x > *at).map_or(0.0, |(_, by)| by);
                // Small calls bend most.
                let bend = bend - 0.3 * (-x / 6_000.0).exp();
                (x, bend + jump + 0.02 * noise(random))
            })
            .collect()
    }

    #[test]
    fn a_bend_is_no_jump() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let false_ones = (0..100).filter(|_| !jumps(&curve(&mut random, None), 0.01).is_empty()).count();
        assert!(false_ones <= 2, "{false_ones} of 100");
    }

    #[test]
    fn wild_values_are_no_jump() {
        // One in five is slower by 30 %, or one in thirty by a factor: what a busy machine does to the medians of rounds.
        let often = |random: &mut ChaCha8Rng| {
            noise(random) + if random.next_u64().is_multiple_of(5) { 15.0 } else { 0.0 }
        };
        let wildly = |random: &mut ChaCha8Rng| {
            noise(random) + if random.next_u64().is_multiple_of(30) { 60.0 } else { 0.0 }
        };
        let mut random = ChaCha8Rng::seed_from_u64(5);
        // Two speeds, as beside another program on the same core.
        let either = |random: &mut ChaCha8Rng| {
            noise(random) + if random.next_u64().is_multiple_of(2) { 20.0 } else { 0.0 }
        };
        for noise in [often, wildly, either as fn(&mut ChaCha8Rng) -> f64] {
            let false_ones =
                (0..60).filter(|_| !jumps(&curve_with(&mut random, None, noise), 0.01).is_empty()).count();
            assert!(false_ones <= 1, "{false_ones} of 60");
        }
    }

    #[test]
    fn five_percent_above_32_kib_is_found_at_its_place() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        for i in 0..50 {
            let points = curve(&mut random, Some((32_768.0, 0.048_8)));
            let found = jumps(&points, 0.01);
            assert_eq!(found.len(), 1, "{i}: {found:?}");
            let place = points[found[0].at - 1].0.midpoint(points[found[0].at].0);
            assert!((place / 32_768.0 - 1.0).abs() < 0.01, "{i}: {place}");
            assert!((found[0].by - 0.048_8).abs() < 0.025, "{i}: {found:?}");
        }
    }
}
