//! Time of a call as a + b x bytes + c x pages.

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};

use super::curve::{Estimate, estimate};
use crate::robust::mad;
use crate::usl::solve;

/// The three costs of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of the call itself.
    pub call_ns: Estimate,
    /// Of each byte.
    pub byte_ns: Estimate,
    /// Of each page that the bytes lie in. A size that is a multiple of the page meets fewer pages than its neighbours;
    /// by that alone pages and bytes are told apart.
    pub page_ns: Estimate,
}

const PAGE: u64 = 4_096;

impl Cost {
    /// The time of a call of so many bytes.
    pub fn call_ns(&self, size: u64) -> f64 {
        self.call_ns.value + self.byte_ns.value * size as f64 + self.page_ns.value * pages(size)
    }
}

/// Pages that `size` bytes lie in, mean over calls that follow each other from a page's start.
///
/// The offsets within a page are the multiples of the greatest common divisor, each equally often.
fn pages(size: u64) -> f64 {
    let (mut a, mut b) = (size, PAGE);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    1.0 + (size - a) as f64 / PAGE as f64
}

/// The three costs, fitted round by round to relative errors; intervals are over rounds.
pub(super) fn cost(rounds: &[BTreeMap<u64, f64>]) -> Maybe<Cost> {
    let fitted: Vec<[f64; 3]> = rounds.iter().filter_map(fit).collect();
    let of = |i: usize| estimate(&fitted.iter().map(|f| f[i]).collect::<Vec<_>>());
    if fitted.is_empty() {
        return Err(Missing::because("a fit needs a dozen sizes"));
    }
    let cost = Cost { call_ns: of(0)?, byte_ns: of(1)?, page_ns: of(2)? };
    let positive = rounds.iter().flat_map(BTreeMap::keys).all(|size| cost.call_ns(*size) > 0.0);
    if positive { Ok(cost) } else { Err(Missing::because("no sum of costs over 0 fits")) }
}

/// Weighted least squares, wild points taken back step by step (Huber).
fn fit(round: &BTreeMap<u64, f64>) -> Option<[f64; 3]> {
    if round.len() < 12 {
        return None;
    }
    let mut weights = vec![1.0; round.len()];
    let mut found = [0.0; 3];
    for _ in 0..8 {
        let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for ((size, ns), weight) in round.iter().zip(&weights) {
            let row = columns(*size).map(|v| v / ns);
            for i in 0..3 {
                right[i] += weight * row[i];
                for j in 0..3 {
                    matrix[i][j] += weight * row[i] * row[j];
                }
            }
        }
        found = solve(matrix, right, 3);
        let off: Vec<f64> = round
            .iter()
            .map(|(size, ns)| columns(*size).iter().zip(found).map(|(c, f)| c * f).sum::<f64>() / ns - 1.0)
            .collect();
        let limit = 1.5 * mad(&off)?.max(1e-9);
        weights = off.iter().map(|r| (limit / r.abs().max(limit)).min(1.0)).collect();
    }
    Some([found[0], found[1] / PAGE as f64, found[2]])
}

/// In units of one size, so that the three can be solved for.
fn columns(size: u64) -> [f64; 3] {
    [1.0, size as f64 / PAGE as f64, pages(size)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_as_offsets_meet_them() {
        for (size, n) in [(1, 1.0), (4_096, 1.0), (2_048, 1.0), (8_192, 2.0), (6_144, 2.0), (4_097, 2.0)] {
            assert!((pages(size) - n).abs() < 1e-12, "{size}");
        }
        // By walking: offsets 0, 4095, 8190, ... until they come round.
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
        let found = fit(&round).unwrap();
        assert!((found[0] / 400.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found[1] / 0.03 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found[2] / 20.0 - 1.0).abs() < 0.1, "{found:?}");
        assert_eq!(fit(&round.into_iter().take(11).collect()), None);
    }
}
