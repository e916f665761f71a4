//! Changes of level in a series with a memory: permutation tests of greatest statistics, series within
//! series.

use super::energy::{Energy, SIDE_MIN};
use super::memory::Remembering;
use super::step::best_step;
use crate::chance::SplitMix;
use crate::mean::AR1_MAX;

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
/// Times that all changes are placed anew.
const PLACINGS: usize = 2;
/// Tests of a series; each has its share of alpha.
const TESTS: f64 = 2.0;

/// Finds changes: first in the whole series, then in both sides of each change.
///
/// Two tests share alpha. The likelihood ratio of one step is the stronger one for a level that moves and
/// stays; the energy of E-divisive also finds a level that moves and moves back. Each takes its greatest
/// statistic over all positions. The distribution of that without a change comes from series of permuted
/// innovations with the same memory, on which everything is repeated: the estimate of the memory, too.
///
/// - `values`: in time order, finite.
pub(super) fn changes(values: &[f64], alpha: f64, seed: u64) -> Vec<Found> {
    let mut tester = Tester {
        alpha,
        chance: SplitMix(seed),
        energy: Energy::default(),
        sums: Vec::new(),
        ar1_max: AR1_MAX,
    };
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

/// Upper bound of the memory in parts of a series: two standard errors above that of the whole.
///
/// A part is too short to show that what looks like a step is not a long memory; the whole shows it.
fn most_memory(values: &[f64]) -> f64 {
    let ar1 = Remembering::of(values).ar1;
    (ar1 + 2.0 * ((1.0 - ar1 * ar1) / values.len() as f64).sqrt()).min(AR1_MAX)
}

struct Tester {
    alpha: f64,
    chance: SplitMix,
    energy: Energy,
    sums: Vec<f64>,
    ar1_max: f64,
}

impl Tester {
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
        let p = self.chance_of(found.ratio, known, found.ar1, ratio)?;
        Some(Found { at: found.at, p })
    }

    /// Tests for any split of the innovations.
    ///
    /// The memory of series without a change is one standard error above the estimate, because a memory that
    /// is taken too small makes false changes.
    fn split(&mut self, known: &Remembering) -> Option<Found> {
        let found = self.energy.best_split(&known.innovations(known.ar1))?;
        let error = ((1.0 - known.ar1 * known.ar1) / known.tamed.len() as f64).sqrt();
        let energy = |tester: &mut Self, values: &[f64]| {
            let memory = tester.remembering(values);
            let split = tester.energy.best_split(&memory.innovations(memory.ar1));
            split.map_or(f64::INFINITY, |split| split.energy)
        };
        let p = self.chance_of(found.energy, known, (known.ar1 + error).min(self.ar1_max), energy)?;
        // The first innovation belongs to the second value.
        Some(Found { at: found.at + 1, p })
    }

    /// Probability of a statistic at least as great without a change; `None` if it is above alpha's share.
    fn chance_of(
        &mut self,
        found: f64,
        known: &Remembering,
        ar1: f64,
        statistic: impl Fn(&mut Self, &[f64]) -> f64,
    ) -> Option<f64> {
        let all = f64::from(PERMUTATIONS + 1);
        let most = (self.alpha / TESTS * all).floor();
        let mut innovations = known.innovations(ar1);
        let mean = innovations.iter().sum::<f64>() / innovations.len() as f64;
        for e in &mut innovations {
            *e -= mean;
        }
        let (mut as_great, mut series) = (1.0, vec![0.0; known.tamed.len()]);
        for _ in 0..PERMUTATIONS {
            if as_great > most {
                return None;
            }
            self.chance.shuffle(&mut innovations);
            let first = innovations[self.chance.below(innovations.len())];
            series[0] = first / (1.0 - ar1 * ar1).sqrt();
            for i in 1..series.len() {
                series[i] = ar1 * series[i - 1] + innovations[i - 1];
            }
            as_great += f64::from(u8::from(statistic(self, &series) >= found));
        }
        (as_great <= most).then_some(as_great * TESTS / all)
    }
}
