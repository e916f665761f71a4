//! Time of a call as a + b x bytes + c x pages.

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};

use super::curve::{Estimate, estimate};
use crate::robust::mad;
use crate::usl::solve;

/// Costs of a call, each at least 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Cost of the call itself.
    pub call_ns: Estimate,
    /// Cost of each byte.
    pub byte_ns: Estimate,
    /// Cost of each byte if every call starts at a multiple of 64. Many machines copy aligned lines faster,
    /// which would otherwise look like fewer pages. Missing if too few such sizes were measured; then
    /// `byte_ns` covers all sizes.
    pub aligned_byte_ns: Maybe<Estimate>,
    /// Cost of each page that the bytes span. A size that is a multiple of a large power of two spans fewer
    /// pages than its neighbors; only this distinguishes pages from bytes.
    pub page_ns: Estimate,
}

const PAGE: u64 = 4_096;
/// Copies work in lines of this many bytes.
const LINE: u64 = 64;
/// Minimum number of sizes that are multiples of a line for a separate cost.
const ALIGNED_MIN: usize = 8;

impl Cost {
    /// Time of a call of `size` bytes.
    pub fn call_ns(&self, size: u64) -> f64 {
        let byte_ns =
            self.aligned_byte_ns.as_ref().ok().filter(|_| is_aligned(size)).unwrap_or(&self.byte_ns);
        self.call_ns.value + byte_ns.value * size as f64 + self.page_ns.value * pages(size)
    }
}

fn is_aligned(size: u64) -> bool {
    size.is_multiple_of(LINE)
}

/// Pages that `size` bytes span, mean over the offsets within a page that consecutive calls meet.
///
/// Those are the multiples of the greatest common divisor, each equally often.
fn pages(size: u64) -> f64 {
    let (mut a, mut b) = (size, PAGE);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    1.0 + (size - a) as f64 / PAGE as f64
}

/// Fits the costs round by round to relative errors; intervals are over rounds.
///
/// A cost that would be negative for all rounds together is held at 0, because sizes that deviate from the
/// sum of three costs do not make data travel for less than nothing. The choice is made once for all rounds:
/// cutting each round's noise off at 0 would make a cost of nothing look significantly positive.
pub(super) fn cost(rounds: &[BTreeMap<u64, f64>]) -> Maybe<Cost> {
    let rounds: Vec<&BTreeMap<u64, f64>> = rounds.iter().filter(|round| round.len() >= SIZES_MIN).collect();
    if rounds.is_empty() {
        return Err(Missing::because("a fit needs 12 sizes"));
    }
    let aligned = |round: &&BTreeMap<u64, f64>| round.keys().filter(|size| is_aligned(**size)).count();
    let knows_aligned = rounds.iter().map(aligned).all(|n| n >= ALIGNED_MIN);
    let all = rounds.iter().flat_map(|round| round.iter().map(|(size, ns)| (*size, *ns)));
    let together = fit(&all.collect::<Vec<_>>(), knows_aligned, &solve_from_zero);
    let mut free = together.map(|v| v > 0.0);
    let fitted = loop {
        let fitted: Vec<[f64; COLUMNS]> = rounds
            .iter()
            .map(|round| {
                let round: Vec<(u64, f64)> = round.iter().map(|(size, ns)| (*size, *ns)).collect();
                fit(&round, knows_aligned, &|matrix, right| solve_some(matrix, right, free))
            })
            .collect();
        // The rounds together weigh differently from each alone, so they may disagree about the sign of a
        // tiny cost.
        let below = (0..COLUMNS).find(|i| fitted.iter().map(|f| f[*i]).sum::<f64>() < 0.0);
        match below {
            Some(i) => free[i] = false,
            None => break fitted,
        }
    };
    let of = |i: usize, unit: f64| {
        let Estimate { value, interval } = estimate(&fitted.iter().map(|f| f[i] / unit).collect::<Vec<_>>())?;
        Ok(Estimate { value, interval: interval.map(|(low, high)| (low.max(0.0), high)) })
    };
    let few = || Missing::because("too few sizes are multiples of 64");
    let cost = Cost {
        call_ns: of(0, 1.0)?,
        byte_ns: of(1, PAGE as f64)?,
        aligned_byte_ns: if knows_aligned { of(2, PAGE as f64) } else { Err(few()) },
        page_ns: of(3, 1.0)?,
    };
    let positive = rounds.iter().flat_map(|round| round.keys()).all(|size| cost.call_ns(*size) > 0.0);
    if positive { Ok(cost) } else { Err(Missing::because("the fit gives a negative cost")) }
}

const COLUMNS: usize = 4;
/// Minimum number of sizes for a fit.
const SIZES_MIN: usize = 12;
/// Iterations after which a fit has converged.
const STEPS: usize = 8;

type Solver<'a> = &'a dyn Fn(&[[f64; COLUMNS]; COLUMNS], &[f64; COLUMNS]) -> [f64; COLUMNS];

/// Weighted least squares of relative errors, with outliers downweighted iteratively (Huber).
///
/// An error is relative to the previous iteration's fit. Relative to the measured time, times that are too
/// long by chance would count less: with a standard deviation of `s`, every cost would be too low by 1.5 `s`
/// squared.
fn fit(points: &[(u64, f64)], knows_aligned: bool, solver: Solver<'_>) -> [f64; COLUMNS] {
    let columns = |size: u64| columns(size, knows_aligned);
    let mut weights = vec![1.0; points.len()];
    let mut expected: Vec<f64> = points.iter().map(|(_, ns)| *ns).collect();
    let mut found = [0.0; COLUMNS];
    for _ in 0..STEPS {
        let (mut matrix, mut right) = ([[0.0; COLUMNS]; COLUMNS], [0.0; COLUMNS]);
        for (((size, ns), weight), expected) in points.iter().zip(&weights).zip(&expected) {
            let row = columns(*size).map(|v| v / expected);
            for i in 0..COLUMNS {
                right[i] += weight * row[i] * ns / expected;
                for j in 0..COLUMNS {
                    matrix[i][j] += weight * row[i] * row[j];
                }
            }
        }
        found = solver(&matrix, &right);
        let fitted = |size: u64| columns(size).iter().zip(found).map(|(c, f)| c * f).sum::<f64>();
        expected =
            points.iter().map(|(size, ns)| Some(fitted(*size)).filter(|f| *f > 0.0).unwrap_or(*ns)).collect();
        let off: Vec<f64> =
            points.iter().zip(&expected).map(|((_, ns), expected)| ns / expected - 1.0).collect();
        let limit = 1.5 * mad(&off).unwrap_or(0.0).max(1e-9);
        weights = off.iter().map(|r| (limit / r.abs().max(limit)).min(1.0)).collect();
    }
    found
}

/// Bytes are in units of a page, which keeps the matrix well conditioned.
fn columns(size: u64, knows_aligned: bool) -> [f64; COLUMNS] {
    let bytes = size as f64 / PAGE as f64;
    let (byte, aligned) = if knows_aligned && is_aligned(size) { (0.0, bytes) } else { (bytes, 0.0) };
    [1.0, byte, aligned, pages(size)]
}

/// Least squares of normal equations without negative values.
///
/// Some of the values are 0 and the others free; there are few enough to try every combination.
fn solve_from_zero(matrix: &[[f64; COLUMNS]; COLUMNS], right: &[f64; COLUMNS]) -> [f64; COLUMNS] {
    let explained = |x: &[f64; COLUMNS]| x.iter().zip(right).map(|(x, r)| x * r).sum::<f64>();
    (1..1_u32 << COLUMNS)
        .map(|choice| solve_some(matrix, right, std::array::from_fn(|i| choice & 1 << i != 0)))
        .filter(|x| x.iter().all(|v| v.is_finite() && *v >= 0.0))
        .max_by(|a, b| explained(a).total_cmp(&explained(b)))
        .unwrap_or([0.0; COLUMNS])
}

/// Least squares of normal equations; values that are not free are 0.
fn solve_some(
    matrix: &[[f64; COLUMNS]; COLUMNS],
    right: &[f64; COLUMNS],
    free: [bool; COLUMNS],
) -> [f64; COLUMNS] {
    let free: Vec<usize> = (0..COLUMNS).filter(|i| free[*i] && matrix[*i][*i] > 0.0).collect();
    let (mut m, mut r) = ([[0.0; COLUMNS]; COLUMNS], [0.0; COLUMNS]);
    for (i, from) in free.iter().enumerate() {
        r[i] = right[*from];
        for (j, by) in free.iter().enumerate() {
            m[i][j] = matrix[*from][*by];
        }
    }
    let mut all = [0.0; COLUMNS];
    for (value, place) in solve(m, r, free.len()).into_iter().zip(&free) {
        all[*place] = value;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_as_offsets_meet_them() {
        for (size, n) in [(1, 1.0), (4_096, 1.0), (2_048, 1.0), (8_192, 2.0), (6_144, 2.0), (4_097, 2.0)] {
            assert!((pages(size) - n).abs() < 1e-12, "{size}");
        }
        // By walking: offsets 0, 4095, 8190, ... until they repeat.
        let walked: u64 = (0..4_096_u64)
            .map(|k| {
                let (first, last) = (k * 4_095, k * 4_095 + 4_094);
                last / PAGE - first / PAGE + 1
            })
            .sum();
        assert!((pages(4_095) - walked as f64 / 4_096.0).abs() < 1e-9);
    }

    #[test]
    fn three_costs_are_found_beside_wild_points() {
        let truth = |size: u64| 400.0 + 0.03 * size as f64 + 20.0 * pages(size);
        let sizes =
            (1..400).map(|i| i * 251).chain((1..25).flat_map(|k| [k * 4_096 - 1, k * 4_096, k * 4_096 + 1]));
        let mut round: BTreeMap<u64, f64> = sizes.map(|n| (n, truth(n))).collect();
        for (i, ns) in round.values_mut().enumerate() {
            if i % 17 == 0 {
                *ns *= 3.0;
            }
        }
        let found = cost(&[round.clone()]).unwrap();
        assert!((found.call_ns.value / 400.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.byte_ns.value / 0.03 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.page_ns.value / 20.0 - 1.0).abs() < 0.1, "{found:?}");
        assert!(cost(&[round.into_iter().take(11).collect()]).is_err());
    }

    /// Sizes of a typical sweep.
    fn sizes() -> impl Iterator<Item = u64> {
        (1..=1_600)
            .map(|i| i * 64 - 37)
            .chain((1..=100).flat_map(|k| [k * 1_024 - 1, k * 1_024, k * 1_024 + 1]))
    }

    #[test]
    fn noise_moves_no_cost_to_one_side() {
        // A tenth of noise makes a bias of its square visible: 1.5 %.
        let mut chance = crate::chance::SplitMix(1);
        let truth = |size: u64| 400.0 + 0.03 * size as f64 + 20.0 * pages(size);
        let mut round = || sizes().map(|n| (n, truth(n) * (1.0 + 0.1 * chance.normal()))).collect();
        let rounds: Vec<BTreeMap<u64, f64>> = (0..40).map(|_| round()).collect();
        let found = cost(&rounds).unwrap();
        for size in [1, 64, 1_000, 10_000, 100_000] {
            assert!((found.call_ns(size) / truth(size) - 1.0).abs() < 0.005, "{size}: {found:?}");
        }
    }

    #[test]
    fn an_interval_holds_its_truth_as_often_as_it_says() {
        // Errors of 5 %: a bias of their square would be larger than the standard error.
        let truth = |size: u64| 400.0 + 0.03 * size as f64;
        let mut chance = crate::chance::SplitMix(7);
        let mut round =
            || sizes().step_by(8).map(|n| (n, truth(n) * (1.0 + 0.05 * chance.normal()))).collect();
        let mut held = 0;
        for _ in 0..200 {
            let rounds: Vec<BTreeMap<u64, f64>> = (0..6).map(|_| round()).collect();
            let (low, high) = cost(&rounds).unwrap().call_ns.interval.unwrap();
            held += u32::from((low..=high).contains(&400.0));
        }
        // 95 %, and three standard errors of 200 experiments.
        assert!(held >= 181, "{held} of 200");
    }

    #[test]
    fn faster_copies_of_whole_lines_are_not_taken_for_pages() {
        let truth = |size: u64| 300.0 + if is_aligned(size) { 0.018 } else { 0.020 } * size as f64;
        let rounds = vec![sizes().map(|n| (n, truth(n))).collect::<BTreeMap<_, _>>(); 3];
        let found = cost(&rounds).unwrap();
        assert!((found.byte_ns.value / 0.020 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.aligned_byte_ns.as_ref().unwrap().value / 0.018 - 1.0).abs() < 1e-3, "{found:?}");
        assert!(found.page_ns.value < 0.1, "{found:?}");
    }

    #[test]
    fn no_cost_is_below_nothing() {
        // A curve that falls within every page by more than its bytes cost: least squares alone would give
        // bytes a negative cost.
        let truth = |size: u64| 300.0 - 0.004 * size as f64 + 80.0 * pages(size);
        let rounds = vec![sizes().map(|n| (n, truth(n))).collect::<BTreeMap<_, _>>(); 6];
        let found = cost(&rounds).unwrap();
        let all = [found.call_ns, found.byte_ns, found.aligned_byte_ns.clone().unwrap(), found.page_ns];
        assert!(
            all.iter().all(|e| e.value >= 0.0 && e.interval.is_some_and(|(low, _)| low >= 0.0)),
            "{found:?}"
        );
        assert!(all[2].is_nothing() && !found.page_ns.is_nothing(), "{found:?}");
    }
}
