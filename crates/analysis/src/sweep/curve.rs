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
    /// Student's t interval; `None` of fewer than six rounds, which say little about the next one.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Whether the value is 0: a cost held at its bound.
    pub fn is_nothing(&self) -> bool {
        self.value <= 0.0
    }
}

/// Mean of the rounds' values, with its interval.
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

/// Shape of the bandwidth over the sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Bandwidth of the largest tenth of the sizes, by a curve that never falls.
    pub plateau_bytes_per_s: Estimate,
    /// Size at which the curve reaches 90 % of the plateau.
    pub knee_bytes: Estimate,
    /// Size with the greatest bandwidth, by the median of about five neighbors; its interval spans the sizes
    /// that are not certainly below it.
    pub peak_bytes: Estimate,
    /// Bandwidth at the peak: each round's own, at the position that the other rounds choose, because a
    /// round's own maximum is biased upwards. It has no interval, and is at least the plateau.
    pub peak_bytes_per_s: Estimate,
    /// Whether the curve still rises at the end: half the largest size has less than 97 % of the plateau.
    pub still_rises: bool,
}

const KNEE: f64 = 0.9;
const RISES: f64 = 0.97;
/// Minimum number of sizes for a shape.
const SIZES_MIN: usize = 20;

/// Shape of the rounds, fitted to each; intervals are over rounds.
pub(super) fn shape(rounds: &[BTreeMap<u64, f64>]) -> Maybe<Shape> {
    let rounds: Vec<&BTreeMap<u64, f64>> = rounds.iter().filter(|round| round.len() >= SIZES_MIN).collect();
    let all: Vec<One> = rounds.iter().filter_map(|round| one(round)).collect();
    let of = |value: fn(&One) -> f64| estimate(&all.iter().map(value).collect::<Vec<_>>());
    if all.is_empty() {
        return Err(Missing::because("a shape needs 20 sizes"));
    }
    let halfway = of(|o| o.halfway)?.value;
    let plateau = of(|o| o.plateau)?;
    let (peak_bytes, mut peak_bytes_per_s) = peak(&rounds)?;
    // The plateau is a bandwidth that was reached, so the peak is at least that. If rounds disagree about the
    // position of the peak, its estimate is lower.
    peak_bytes_per_s.value = peak_bytes_per_s.value.max(plateau.value);
    Ok(Shape {
        plateau_bytes_per_s: plateau,
        knee_bytes: of(|o| o.knee)?,
        peak_bytes,
        peak_bytes_per_s,
        still_rises: halfway < RISES * plateau.value,
    })
}

struct One {
    plateau: f64,
    knee: f64,
    halfway: f64,
}

fn one(round: &BTreeMap<u64, f64>) -> Option<One> {
    let sizes: Vec<f64> = round.keys().map(|size| *size as f64).collect();
    let rates: Vec<f64> = round.iter().map(|(size, ns)| *size as f64 / ns * 1e9).collect();
    let rising = never_falling(&rates);
    let tenth = (sizes.len() / 10).max(1);
    let plateau = median(&rising[rising.len() - tenth..])?;
    let knee = sizes[rising.iter().position(|r| *r >= KNEE * plateau)?];
    let half = sizes.partition_point(|s| *s < sizes[sizes.len() - 1] / 2.0);
    Some(One { plateau, knee, halfway: rising[half] })
}

/// Sizes per round in a window, so that one outlier does not make a peak.
const WINDOW: usize = 5;

/// Size with the greatest bandwidth, and its bandwidth.
///
/// A maximum of noisy values is biased upwards. So the other rounds choose the position, and the left-out
/// round provides the value. A size is certainly below the peak if the round's value there is, by Student's t
/// over the rounds.
fn peak(rounds: &[&BTreeMap<u64, f64>]) -> Maybe<(Estimate, Estimate)> {
    let windows = windows(rounds);
    let few = || Missing::because("a peak needs 20 sizes that all rounds share");
    // For each round, ln of bandwidth in each window.
    let all: Vec<Vec<f64>> =
        rounds.iter().map(|round| in_windows(round, &windows)).collect::<Option<_>>().ok_or_else(few)?;
    let best = |left_out: Option<usize>| {
        let of = |w: usize| {
            let others = all.iter().enumerate().filter(|(i, _)| Some(*i) != left_out);
            others.map(|(_, logs)| logs[w]).sum::<f64>()
        };
        (0..windows.len()).max_by(|a, b| of(*a).total_cmp(&of(*b)))
    };
    let alone = all.len() == 1;
    let of_round = |i: usize| best(if alone { None } else { Some(i) });
    let places: Vec<usize> = (0..all.len()).map(of_round).collect::<Option<_>>().ok_or_else(few)?;
    let rates: Vec<f64> = all.iter().zip(&places).map(|(logs, w)| logs[*w].exp()).collect();
    let middle = |w: usize| (windows[w].0 as f64).midpoint(windows[w].1 as f64);
    let value = middle(best(None).ok_or_else(few)?);
    let may_be_it = |w: &usize| {
        let below: Vec<f64> = all.iter().zip(&places).map(|(logs, place)| logs[*place] - logs[*w]).collect();
        let (mean, error) = mean_and_error(&below);
        mean <= t_above(0.025, below.len() as f64 - 1.0) * error
    };
    let interval = (all.len() >= SERIES_MIN).then(|| {
        let within: Vec<usize> = (0..windows.len()).filter(may_be_it).collect();
        // The median of a window with the peak at its edge may be below that of its neighbor.
        let from = within.first().map(|w| windows[w.saturating_sub(1)].0 as f64);
        let to = within.last().map(|w| windows[(w + 1).min(windows.len() - 1)].1 as f64);
        (from.unwrap_or(value).min(value), to.unwrap_or(value).max(value))
    });
    // The rounds share their choices: an interval over them would be too narrow.
    Ok((Estimate { value, interval }, Estimate { interval: None, ..estimate(&rates)? }))
}

/// Windows of about `WINDOW` sizes of each round, as their first and last size.
fn windows(rounds: &[&BTreeMap<u64, f64>]) -> Vec<(u64, u64)> {
    let mut sizes: Vec<u64> = rounds.iter().flat_map(|round| round.keys().copied()).collect();
    sizes.sort_unstable();
    let mut windows: Vec<(u64, u64)> =
        sizes.chunks(WINDOW * rounds.len().max(1)).map(|chunk| (chunk[0], chunk[chunk.len() - 1])).collect();
    // A size is in only one window.
    for i in 1..windows.len() {
        windows[i].0 = windows[i].0.max(windows[i - 1].1 + 1);
    }
    windows.retain(|(from, to)| from <= to);
    windows
}

/// Median of ln of bandwidth in each window; `None` if the round lacks one.
fn in_windows(round: &BTreeMap<u64, f64>, windows: &[(u64, u64)]) -> Option<Vec<f64>> {
    let rate = |(size, ns): (&u64, &f64)| (*size as f64 / ns * 1e9).ln();
    windows.iter().map(|(from, to)| median(&round.range(from..=to).map(rate).collect::<Vec<_>>())).collect()
}

/// The nearest nondecreasing curve: falling neighbors are pooled (Ayer and others, 1955).
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
        // 500 ns + 0.1 ns per byte: the plateau of the last tenth is near 95,000 / 10,000 ns, and 90 % of it
        // needs the size n with n / (500 + 0.1 n) = 0.9 x 9.5, by hand n = 29,500.
        let round: BTreeMap<u64, f64> = (1..=1_000).map(|i| (i * 100, 500.0 + 10.0 * i as f64)).collect();
        let shape = shape(&vec![round; 6]).unwrap();
        assert!((shape.knee_bytes.value / 29_500.0 - 1.0).abs() < 0.02, "{shape:?}");
        assert!((shape.plateau_bytes_per_s.value / 9.5e9 - 1.0).abs() < 0.01, "{shape:?}");
        assert!(shape.still_rises && shape.knee_bytes.interval.is_some());
    }

    #[test]
    fn the_peak_is_not_below_the_plateau_however_noisy_rounds_are() {
        let mut state = 1_u64;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        for _ in 0..50 {
            let mut round = || -> BTreeMap<u64, f64> {
                (1..=100).map(|i| (i * 1_000, i as f64 * 100.0 * (0.5 + 2.0 * noise()))).collect()
            };
            let rounds: Vec<_> = (0..6).map(|_| round()).collect();
            let shape = shape(&rounds).unwrap();
            assert!(shape.peak_bytes_per_s.value >= shape.plateau_bytes_per_s.value, "{shape:?}");
        }
    }

    /// Bandwidth curves: name, bandwidth by size, and the smallest and largest size with the maximum.
    type Truth = (&'static str, fn(f64) -> f64, [f64; 2]);

    const SIZES: u64 = 400;
    const STEP: u64 = 256;
    const TRUTHS: [Truth; 6] = [
        ("rises to the end", |size| size / (350.0 + 0.01 * size), [102_400.0; 2]),
        (
            "rises to 51,200, then falls",
            |size| size / (350.0 + 0.01 * size + 0.01 * (size - 51_200.0).max(0.0)),
            [51_200.0; 2],
        ),
        (
            "rises to 51,200, then falls by 2 % to the end",
            |size| 1.0 - 0.1 * (1.0 - size / 51_200.0).max(0.0) - 0.02 * (size / 51_200.0 - 1.0).max(0.0),
            [51_200.0; 2],
        ),
        ("the same from 40,960 on", |size| (size / 40_960.0).min(1.0), [40_960.0, 102_400.0]),
        (
            "2 % more from 20,480 to 25,600",
            |size| if (20_480.0..=25_600.0).contains(&size) { 1.02 } else { 1.0 },
            [20_480.0, 25_600.0],
        ),
        ("falls from the first size on", |size| 1.0 - 0.3 * size / 102_400.0, [256.0; 2]),
    ];

    /// Shapes of sweeps of `rounds` rounds with this noise, from fixed seeds.
    fn simulated((_, bandwidth, _): Truth, rounds: u64, noise: f64, sweeps: u64) -> Vec<Shape> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let mut round = || -> BTreeMap<u64, f64> {
            let shared = 1.0 + noise * normal();
            let mut ns = |size: f64| size / bandwidth(size) * shared * (1.0 + noise * normal());
            (1..=SIZES).map(|i| (i * STEP, ns((i * STEP) as f64))).collect()
        };
        (0..sweeps).map(|_| shape(&(0..rounds).map(|_| round()).collect::<Vec<_>>()).unwrap()).collect()
    }

    /// Percentages of sweeps with an interval of the peak's size that holds a size with the maximum, with one
    /// that holds all of them, and with a peak within 1 % of the true bandwidth.
    fn peaks(truth: Truth, rounds: u64, noise: f64, sweeps: u64) -> [f64; 3] {
        let (_, bandwidth, [from, to]) = truth;
        let found = simulated(truth, rounds, noise, sweeps);
        let share = |is: &dyn Fn(&Shape) -> bool| {
            100.0 * found.iter().filter(|shape| is(shape)).count() as f64 / sweeps as f64
        };
        let interval = |shape: &Shape| shape.peak_bytes.interval.unwrap();
        let most = bandwidth(to) * 1e9;
        [
            share(&|shape| interval(shape).0 <= to && interval(shape).1 >= from),
            share(&|shape| interval(shape).0 <= from && interval(shape).1 >= to),
            share(&|shape| (shape.peak_bytes_per_s.value / most - 1.0).abs() < 0.01),
        ]
    }

    #[test]
    fn the_interval_of_the_peaks_size_holds_the_size_that_has_most() {
        for truth in TRUTHS {
            for noise in [0.005, 0.015, 0.05] {
                let [some, all, _] = peaks(truth, 6, noise, 200);
                assert!(some >= 95.0 && all >= 90.0, "{} {noise}: {some} % {all} %", truth.0);
            }
        }
    }
}
