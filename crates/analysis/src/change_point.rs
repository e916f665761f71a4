//! Change points: positions at which a series of numbers changes its level.
//!
//! Two questions need two methods. Over *time* a level may move at any moment and stay there: [`levels`] cuts
//! the series to minimize the squares within stretches plus a price per cut. Over a *size* the curve is
//! smooth and may bend: a level shift is a position at which the curve fitted from the left and the curve
//! fitted from the right do not meet. [`jumps`] tests for that alone, so a bend does not count as a shift.

use crate::robust::{median, noise};
use crate::usl::solve;

/// Minimum number of values in a stretch of [`levels`].
const STRETCH_MIN: usize = 5;

/// Cuts `values` into stretches of one level each; returns the start of each stretch after the first.
///
/// Exact segmentation with a price of 10 ln n times the noise variance per cut (PELT, without its shortcut in
/// cases in which that would lose a cut). The noise is estimated from the differences of neighbors and
/// enlarged by their correlation.
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
    // best[i]: minimum cost of the first i values; last[i]: start of their last stretch.
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
        // PELT's shortcut: a start that loses now, even without the price of a cut, loses at every later end.
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
        // Subtracting the mean keeps the digits of a small spread far from 0.
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

/// A discontinuity in a smooth curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jump {
    /// Index of the first value after the jump.
    pub at: usize,
    /// Height of the jump, positive or negative.
    pub by: f64,
    /// Jump divided by its standard error.
    pub z: f64,
}

/// Maximum number of values used on each side of a position.
const REACH: usize = 120;
/// Minimum number of values on each side, which applies near the ends.
const REACH_MIN: usize = 25;
/// Threshold of a jump in standard errors. In series of 2000 positions, noise reaches it in about one series
/// in a thousand.
const Z_MIN: f64 = 5.0;
/// Minimum z of the parabolas as a share of the lines' z (at most [`Z_MIN`]): parabolas are half as precise.
const PARABOLA_SURE: f64 = 0.7;

/// Finds the positions at which the curve through `(x, y)` jumps.
///
/// At a jump, the fits to the values on either side do not meet. Both a straight line and a parabola must
/// agree: lines detect a small jump, parabolas are not misled by a bend.
///
/// The noise may have outliers if neighbors are independent: values far from their neighbors' median are
/// clipped, and the standard error comes from the actual spread of the values around the position.
///
/// - `points`: x rising, finite.
/// - `jump_min`: smaller jumps are left out.
///
/// # Source
///
/// H.-G. Müller, "Change-points in nonparametric regression analysis", *Annals of Statistics* 20 (1992),
/// 737-761.
pub fn jumps(points: &[(f64, f64)], jump_min: f64) -> Vec<Jump> {
    let points = tamed(points);
    let mut found: Vec<Jump> = Vec::new();
    search(&points, 0, points.len(), jump_min, &mut found);
    found.sort_by_key(|j| j.at);
    found
}

/// Jump of the curve at `x`, however small; `None` too near the ends.
pub fn jump_near(points: &[(f64, f64)], x: f64) -> Option<Jump> {
    let at = points.partition_point(|p| p.0 < x);
    if at < REACH_MIN || at + REACH_MIN > points.len() {
        return None;
    }
    Some(jump_at(&tamed(points), 0, at, points.len()))
}

/// A value is an outlier if its distance from the local median exceeds this multiple of the local 90th
/// percentile of distances.
///
/// The 90th percentile and not the median: on a machine with two speeds neither speed is an outlier, and the
/// spread around one of them must not be the scale for the other.
const WILD: f64 = 2.0;
const USUAL: f64 = 0.9;
/// Neighbors on either side for the median, and for the usual distance from it. The second window is wide
/// because it must not follow a few outliers nearby: clipped values would then be alike among neighbors, and
/// no longer independent.
const NEAR: usize = 12;
const WIDE: usize = 120;

/// Clips outliers to the edge of their neighborhood.
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

/// Finds the greatest jump between `from` and `to`, then searches both sides of it: no window spans a jump.
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

/// Jump by straight lines; zero if parabolas do not agree.
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

/// Value of a fitted polynomial at one position.
struct Fitted {
    value: f64,
    /// In units of the noise variance.
    variance: f64,
    /// Residual sum of squares.
    squares: f64,
}

/// Least-squares polynomial of `terms` terms, at most three, through `points`, evaluated at `x`.
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

/// Position near `at` at which two separate straight lines leave the least squares.
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

    /// A curve that bends throughout, with 2 % of noise and an optional jump.
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
        // One in five is slower by 30 %, or one in thirty by a factor, as on a busy machine's medians of
        // rounds.
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
