//! Plateau, knee and peak of the bandwidth.

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};

use crate::robust::{mean_and_error, median};
use crate::student::t_above;
use crate::usl::SERIES_MIN;

/// A value with its 95 % interval over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean of the rounds.
    pub value: f64,
    /// Its interval, Student's t; `None` of fewer than six rounds, which say next to nothing about the next one.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Whether it is 0 in every round: a cost that its bound holds.
    pub fn is_nothing(&self) -> bool {
        self.value <= 0.0
    }
}

/// The mean of some rounds' values.
pub(super) fn estimate(values: &[f64]) -> Maybe<Estimate> {
    if values.is_empty() {
        return Err(Missing::because("no round was measured"));
    }
    let (value, error) = mean_and_error(values);
    let half = |n: usize| t_above(0.025, n as f64 - 1.0) * error;
    let interval =
        (values.len() >= SERIES_MIN).then(|| (value - half(values.len()), value + half(values.len())));
    Ok(Estimate { value, interval })
}

/// The form of the bandwidth over the sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Bandwidth of the largest tenth of the sizes, by a curve that never falls.
    pub plateau_bytes_per_s: Estimate,
    /// The size from which the curve has 90 % of that.
    pub knee_bytes: Estimate,
    /// The size with the most, by the middle of five neighbours.
    pub peak_bytes: Estimate,
    /// What it has.
    pub peak_bytes_per_s: Estimate,
    /// Whether the curve still rises at the end: half the largest size has less than 97 % of the plateau.
    pub still_rises: bool,
}

const KNEE: f64 = 0.9;
const RISES: f64 = 0.97;

/// Each round's own form; intervals are over rounds.
pub(super) fn shape(rounds: &[BTreeMap<u64, f64>]) -> Maybe<Shape> {
    let all: Vec<One> = rounds.iter().filter_map(one).collect();
    let of = |value: fn(&One) -> f64| estimate(&all.iter().map(value).collect::<Vec<_>>());
    if all.is_empty() {
        return Err(Missing::because("a form needs twenty sizes"));
    }
    let halfway = of(|o| o.halfway)?.value;
    let plateau = of(|o| o.plateau)?;
    Ok(Shape {
        plateau_bytes_per_s: plateau,
        knee_bytes: of(|o| o.knee)?,
        peak_bytes: of(|o| o.peak.0)?,
        peak_bytes_per_s: of(|o| o.peak.1)?,
        still_rises: halfway < RISES * plateau.value,
    })
}

struct One {
    plateau: f64,
    knee: f64,
    peak: (f64, f64),
    halfway: f64,
}

fn one(round: &BTreeMap<u64, f64>) -> Option<One> {
    if round.len() < 20 {
        return None;
    }
    let sizes: Vec<f64> = round.keys().map(|size| *size as f64).collect();
    let rates: Vec<f64> = round.iter().map(|(size, ns)| *size as f64 / ns * 1e9).collect();
    let rising = never_falling(&rates);
    let tenth = (sizes.len() / 10).max(1);
    let plateau = median(&rising[rising.len() - tenth..])?;
    let knee = sizes[rising.iter().position(|r| *r >= KNEE * plateau)?];
    let half = sizes.partition_point(|s| *s < sizes[sizes.len() - 1] / 2.0);
    let peak = (2..rates.len() - 2)
        .filter_map(|i| Some((sizes[i], median(&rates[i - 2..=i + 2])?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(One { plateau, knee, peak, halfway: rising[half] })
}

/// The nearest curve that never falls: neighbours that do are pooled (Ayer and others, 1955).
fn never_falling(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some(before) = pools.last().filter(|b| b.0 > pool.0) {
            let n = before.1 + pool.1;
            pool = ((before.0 * before.1 as f64 + pool.0 * pool.1 as f64) / n as f64, n);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(value, n)| std::iter::repeat_n(value, n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falling_neighbours_are_pooled() {
        assert_eq!(never_falling(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(never_falling(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert!(never_falling(&[]).is_empty());
    }

    #[test]
    fn knee_and_plateau_are_those_of_the_formula() {
        // 500 ns + 0.1 ns a byte: the plateau of the last tenth is near 95,000 / 10,000 ns, and 90 % of it needs the
        // size n with n / (500 + 0.1 n) = 0.9 x 9.5, by hand n = 29,500.
        let round: BTreeMap<u64, f64> = (1..=1_000).map(|i| (i * 100, 500.0 + 10.0 * i as f64)).collect();
        let shape = shape(&vec![round; 6]).unwrap();
        assert!((shape.knee_bytes.value / 29_500.0 - 1.0).abs() < 0.02, "{shape:?}");
        assert!((shape.plateau_bytes_per_s.value / 9.5e9 - 1.0).abs() < 0.01, "{shape:?}");
        assert!(shape.still_rises && shape.knee_bytes.interval.is_some());
    }
}
