//! Changes of level in a series with a memory: permutation tests of greatest statistics, series within
//! series.

use super::energy::{Energy, SIDE_MIN};
use super::memory::Remembering;
use super::step::best_step;
use crate::chance::SplitMix;
use crate::mean::AR1_MAX;
use crate::robust::{TO_SD, median};

/// A change in a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    /// Index of the first value after the change.
    pub(super) at: usize,
    /// Probability that a series without a change shows one at least as clear anywhere.
    pub(super) p: f64,
}

/// Permutations of each test.
const PERMUTATIONS: u32 = 999;
/// Most of the newest values that are too few to be a level; a single one is an outlier.
const NEWEST: std::ops::RangeInclusive<usize> = 2..=SIDE_MIN - 1;
/// Times that all changes are placed anew.
const PLACINGS: usize = 2;
/// Tests of a series; each has its share of alpha.
const TESTS: f64 = 2.0;

/// Finds changes: first in the whole series, then in both sides of each change.
///
/// Two tests share alpha. The likelihood ratio of one step is the stronger one for a level that moves and
/// stays; the energy of E-divisive also finds a level that moves and moves back. Each takes its greatest
/// statistic over all positions. The distribution of that without a change comes from series of the same
/// innovations, permuted or with other signs, with the same memory. Everything is repeated on them: the
/// estimate of the memory, too.
///
/// - `values`: in time order, finite.
pub(super) fn changes(values: &[f64], alpha: f64, seed: u64) -> Vec<Found> {
    let mut tester = Tester::new(alpha / TESTS, seed);
    let mut found = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        if let Some(change) = tester.test(&values[from..to]) {
            if found.is_empty() {
                tester.ar1_max = most_memory(values);
            }
            let at = from + change.at;
            found.push(Found { at, ..change });
            open.extend([(from, at), (at, to)]);
        }
    }
    found.sort_by_key(|change| change.at);
    // Each was placed before the later ones were known.
    for _ in 0..PLACINGS {
        tester.place(values, &mut found);
    }
    found
}

/// Tests whether the newest values of a stretch lie apart from the others, and are too few to be a level.
///
/// The statistic is the greatest difference of the means in standard errors, over the numbers of newest
/// values.
///
/// - `values`: in time order, finite.
/// - `alpha`: accepted probability in a stretch without a change.
pub(super) fn newest(values: &[f64], alpha: f64, seed: u64) -> Option<Found> {
    let before = values.len().checked_sub(*NEWEST.end()).filter(|before| *before > 2 * SIDE_MIN)?;
    // Neither the bounds of outliers nor the memory come from the values that are tested.
    let known = Remembering::of(&values[..before]);
    let ar1 = known.at_most(AR1_MAX);
    let mut raw = values.to_vec();
    bound_farthest(&mut raw, before);
    let known = Remembering { tamed: [&known.tamed, &raw[before..]].concat(), raw, ar1 };
    let (at, statistic) = best_newest(&known.tamed);
    let asked = Asked { statistic, ar1, levels: vec![at] };
    let p = Tester::new(alpha, seed).chance_of(&asked, &known, |_, values: &[f64]| best_newest(values).1)?;
    Some(Found { at, p })
}

/// Moves the value from index `from` on that is farthest from the median before to the distance of the second
/// farthest: a single value is an outlier.
fn bound_farthest(values: &mut [f64], from: usize) {
    let (before, newest) = values.split_at_mut(from);
    let middle = median(before).expect("the values before are several");
    let mut distances: Vec<f64> = newest.iter().map(|v| (v - middle).abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let bound = distances[distances.len() - 2];
    for v in newest {
        *v = v.clamp(middle - bound, middle + bound);
    }
}

/// Index from which on the newest values differ most from the others, and the difference in standard errors.
fn best_newest(values: &[f64]) -> (usize, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let of = |newest: usize| {
        let at = values.len() - newest;
        let sum: f64 = values[at..].iter().map(|v| v - mean).sum();
        let gain = sum * sum * n / (newest as f64 * at as f64);
        let rest = (squares - gain).max(0.0);
        (at, if gain > 0.0 { (gain * (n - 2.0) / rest).sqrt() } else { 0.0 })
    };
    NEWEST.map(of).fold((0, f64::NEG_INFINITY), |best, one| if one.1 > best.1 { one } else { best })
}

/// Upper bound of the memory in parts of a series: two standard errors above that of the whole.
///
/// A part is too short to show that what looks like a step is not a long memory; the whole shows it.
fn most_memory(values: &[f64]) -> f64 {
    let ar1 = Remembering::of(values).ar1;
    (ar1 + 2.0 * ((1.0 - ar1 * ar1) / values.len() as f64).sqrt()).min(AR1_MAX)
}

/// A greatest statistic, to be compared with its distribution without a change.
struct Asked {
    statistic: f64,
    /// Memory of the noise.
    ar1: f64,
    /// Starts of the levels after the first one, if there is a change: one or two.
    levels: Vec<usize>,
}

/// Whether the level moves so far at an index that no spread of the values near it explains it.
fn is_far(values: &[f64], at: usize) -> bool {
    /// Values on each side.
    const NEAR: usize = 10;
    /// Distance of the medians, in standard deviations of the noise between neighbors, on the side that has
    /// more.
    const FAR: f64 = 3.0;
    let (from, to) = (at.saturating_sub(NEAR), (at + NEAR).min(values.len()));
    let (before, after) = (&values[from..at], &values[at..to]);
    let noise = |side: &[f64]| {
        let steps: Vec<f64> = side.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
        median(&steps).unwrap_or(0.0) * TO_SD / std::f64::consts::SQRT_2
    };
    let noise = noise(before).max(noise(after));
    median(before).zip(median(after)).is_some_and(|(before, after)| (after - before).abs() > FAR * noise)
}

struct Tester {
    /// Accepted probability of each test.
    alpha: f64,
    chance: SplitMix,
    energy: Energy,
    sums: Vec<f64>,
    ar1_max: f64,
}

impl Tester {
    fn new(alpha: f64, seed: u64) -> Self {
        let (chance, energy) = (SplitMix(seed), Energy::default());
        Self { alpha, chance, energy, sums: Vec::new(), ar1_max: AR1_MAX }
    }

    fn test(&mut self, values: &[f64]) -> Option<Found> {
        if values.len() < 2 * SIDE_MIN + 1 {
            return None;
        }
        let known = self.remembering(values);
        // Of values without any spread no change can be told from a rounding error.
        self.energy.best_split(&known.innovations(known.ar1))?;
        self.step(&known).or_else(|| self.split(&known))
    }

    fn remembering(&self, values: &[f64]) -> Remembering {
        let known = Remembering::of(values);
        Remembering { ar1: known.ar1.min(self.ar1_max), ..known }
    }

    /// Moves each change to the best step between its neighbors.
    fn place(&mut self, values: &[f64], found: &mut [Found]) {
        for i in 0..found.len() {
            let from = if i == 0 { 0 } else { found[i - 1].at };
            let to = found.get(i + 1).map_or(values.len(), |next| next.at);
            if to - from >= 2 * SIDE_MIN {
                let known = Remembering::of(&values[from..to]);
                found[i].at = from + best_step(&known.tamed, self.ar1_max, &mut self.sums).at;
            }
        }
    }

    /// Tests for one step.
    fn step(&mut self, known: &Remembering) -> Option<Found> {
        let found = best_step(&known.tamed, self.ar1_max, &mut self.sums);
        let ratio =
            |tester: &mut Self, values: &[f64]| best_step(values, tester.ar1_max, &mut tester.sums).ratio;
        let asked = Asked { statistic: found.ratio, ar1: found.ar1, levels: vec![found.at] };
        let p = self.chance_of(&asked, known, ratio)? * TESTS;
        Some(Found { at: found.at, p })
    }

    /// Tests for any split of the innovations.
    fn split(&mut self, known: &Remembering) -> Option<Found> {
        let found = self.energy.best_split(&known.innovations(known.ar1))?;
        let energy = |tester: &mut Self, values: &[f64]| {
            let memory = tester.remembering(values);
            let split = tester.energy.best_split(&memory.innovations(memory.ar1));
            split.map_or(f64::INFINITY, |split| split.energy)
        };
        // The first innovation belongs to the second value.
        let (at, until) = (found.at + 1, found.until + 1);
        let is_last = known.tamed.len() - until < SIDE_MIN;
        let levels = if is_last { vec![at] } else { vec![at, until] };
        let ar1 = known.at_most(self.ar1_max);
        let asked = Asked { statistic: found.energy, ar1, levels };
        let p = self.chance_of(&asked, known, energy)? * TESTS;
        Some(Found { at, p })
    }

    /// Probability of a statistic at least as great without a change; `None` if it is above alpha.
    ///
    /// It is the larger one of two: with the innovations in another order, and with each in its place but
    /// with another sign. The order tells more about a level, but calls a spread that changes a change of
    /// level; signs leave the spread as it is. A level that moves far beyond the spread needs no second test.
    fn chance_of(
        &mut self,
        asked: &Asked,
        known: &Remembering,
        statistic: impl Fn(&mut Self, &[f64]) -> f64,
    ) -> Option<f64> {
        let (ar1, n) = (asked.ar1, known.tamed.len());
        let mut innovations = known.innovations(ar1);
        let mean = innovations.iter().sum::<f64>() / innovations.len() as f64;
        for e in &mut innovations {
            *e -= mean;
        }
        let in_another_order = |chance: &mut SplitMix, drawn: &mut [f64]| {
            chance.shuffle(&mut innovations);
            drawn[0] = innovations[chance.below(innovations.len())] / (1.0 - ar1 * ar1).sqrt();
            drawn[1..].copy_from_slice(&innovations);
        };
        let of_order = self.share_of(asked, n, in_another_order, &statistic)?;
        if is_far(&known.raw, asked.levels[0]) {
            return Some(of_order);
        }
        let left = known.around(&asked.levels);
        let with_other_signs = |chance: &mut SplitMix, drawn: &mut [f64]| {
            for i in 0..n {
                let innovation = if i == 0 { left[0] } else { left[i] - ar1 * left[i - 1] };
                drawn[i] = if chance.below(2) == 0 { innovation } else { -innovation };
            }
        };
        let of_signs = self.share_of(asked, n, with_other_signs, &statistic)?;
        Some(of_order.max(of_signs))
    }

    /// Share of the series of `n` values with a statistic at least as great; `None` if it is above alpha.
    ///
    /// - `draw`: fills in a first value and innovations.
    fn share_of(
        &mut self,
        asked: &Asked,
        n: usize,
        mut draw: impl FnMut(&mut SplitMix, &mut [f64]),
        statistic: &impl Fn(&mut Self, &[f64]) -> f64,
    ) -> Option<f64> {
        let all = f64::from(PERMUTATIONS + 1);
        let most = (self.alpha * all).floor();
        let (mut as_great, mut series) = (1.0, vec![0.0; n]);
        for _ in 0..PERMUTATIONS {
            if as_great > most {
                return None;
            }
            draw(&mut self.chance, &mut series);
            for i in 1..n {
                series[i] += asked.ar1 * series[i - 1];
            }
            as_great += f64::from(u8::from(statistic(self, &series) >= asked.statistic));
        }
        (as_great <= most).then_some(as_great / all)
    }
}
