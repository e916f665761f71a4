//! A generator's share of a load that several generators play together.
//!
//! Everything in a load has a number: its events, its threads, its connections. Of `of` equal generators,
//! number `index` has the numbers `index`, `index + of`, `index + 2 of`, ... If the generators have weights,
//! a pattern of as many numbers as the sum of the weights deals them out, again and again. The whole schedule
//! stays the pure function that it is: a share only leaves out the numbers of the others, so the union of all
//! shares is the schedule of one generator, event for event, with the same due times and the same random
//! streams.

use std::sync::Arc;

use record::load::{LoadSettings, Schedule};

/// Largest weight of a generator, and the most generators with weights: the pattern stays short.
const WEIGHT_MAX: u32 = 100;
const WEIGHTS_MAX: usize = 1_000;

/// A generator's share of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The share's numbers below `period`, in order; they repeat with it.
    numbers: Arc<[u64]>,
    period: u64,
    /// Threads of all generators together.
    threads: u32,
}

impl Share {
    /// The share of a load that has only one generator.
    pub fn whole(settings: &LoadSettings) -> Self {
        Self { numbers: Arc::from([0]), period: 1, threads: settings.threads }
    }

    /// The share of generator `index`, from 0, of `of` equal ones, in the load of `settings`.
    ///
    /// `None` if there is no such generator, or one would have no thread.
    pub fn new(index: u32, of: u32, settings: &LoadSettings) -> Option<Self> {
        (index < of && of <= settings.threads).then(|| Self {
            numbers: Arc::from([u64::from(index)]),
            period: of.into(),
            threads: settings.threads,
        })
    }

    /// The share of generator `index`, from 0, of as many as there are weights, from 1 to 100. Of the first
    /// numbers, however many, each generator has its part to within one.
    ///
    /// `None` if `index` names no generator, a weight is out of range, or a generator would get no thread.
    pub fn weighted(index: u32, weights: &[u32], settings: &LoadSettings) -> Option<Self> {
        let is_good = |weight: &u32| (1..=WEIGHT_MAX).contains(weight);
        if index as usize >= weights.len()
            || weights.len() > WEIGHTS_MAX
            || !weights.iter().all(is_good)
            || threads_min(weights) > settings.threads
        {
            return None;
        }
        if weights.iter().all(|weight| *weight == weights[0]) {
            return Self::new(index, u32::try_from(weights.len()).ok()?, settings);
        }
        let owners = pattern(weights);
        let own = (0..).zip(&owners).filter(|(_, owner)| **owner == index as usize);
        Some(Self {
            numbers: own.map(|(number, _)| number).collect(),
            period: owners.len() as u64,
            threads: settings.threads,
        })
    }

    /// The settings of this share: its threads and its connections; rates and numbers of events remain those
    /// of the whole.
    pub fn of_settings(&self, whole: &LoadSettings) -> LoadSettings {
        let part = |all: u32| u32::try_from(self.below(all.into())).expect("a part of the whole");
        LoadSettings {
            threads: part(whole.threads),
            connections: whole.connections.map(part),
            ..whole.clone()
        }
    }

    /// The number, in the whole load, of this share's `own`-th event, thread or connection.
    pub(crate) fn number(&self, own: u64) -> u64 {
        let per_period = self.numbers.len() as u64;
        let at = usize::try_from(own % per_period).expect("an index");
        own / per_period * self.period + self.numbers[at]
    }

    /// Count of the numbers below `number` that are in this share.
    pub(crate) fn below(&self, number: u64) -> u64 {
        let rest = number % self.period;
        let in_rest = self.numbers.partition_point(|own| *own < rest) as u64;
        number / self.period * self.numbers.len() as u64 + in_rest
    }

    /// Threads of all generators together.
    pub(crate) fn threads_of_all(&self) -> u32 {
        self.threads
    }

    /// Whether there are no other generators.
    pub(crate) fn is_whole(&self) -> bool {
        self.period == 1
    }

    /// Numbers of this share after which its pattern begins anew.
    pub(crate) fn per_period(&self) -> usize {
        self.numbers.len()
    }

    /// The share's part of a rate. If threads own their events, its part is that of its threads.
    pub(crate) fn of_rate(&self, per_s: f64, schedule: Schedule) -> f64 {
        match schedule {
            Schedule::Shared => per_s * self.numbers.len() as f64 / self.period as f64,
            Schedule::Own => per_s * self.below(self.threads.into()) as f64 / f64::from(self.threads),
        }
    }

    /// Largest difference between the events of this share in a phase and its part of all: each end of the
    /// phase rounds.
    pub(crate) fn rounding(&self, schedule: Schedule) -> f64 {
        if schedule == Schedule::Shared && self.numbers.len() == 1 { 1.0 } else { 2.0 }
    }
}

/// The fewest threads with which each generator has one.
pub fn threads_min(weights: &[u32]) -> u32 {
    let owners = pattern(weights);
    let first = |of: usize| owners.iter().position(|owner| *owner == of).expect("a weight is not 0");
    let last = (0..weights.len()).map(first).max().unwrap_or(0);
    u32::try_from(last + 1).expect("the sum of the weights is small")
}

/// The owner of each number below the sum of the weights, which have no common divisor left. Of the first
/// numbers, however many, each owner has its part to within one.
///
/// # Source
///
/// R. Tijdeman, *The chairman assignment problem*, Discrete Mathematics 32 (1980), 323-330: of the owners
/// with a part that has grown far enough, the one takes the number that would be the first to have too few.
fn pattern(weights: &[u32]) -> Vec<usize> {
    let divisor = weights.iter().fold(0, |a, b| greatest_common_divisor(a, *b)).max(1);
    let weights: Vec<u64> = weights.iter().map(|weight| u64::from(weight / divisor)).collect();
    let all: u64 = weights.iter().sum();
    // Parts of a number: with `k` owners, an owner may lack all but one of `2k - 2` parts.
    let parts = (2 * weights.len() as u64).saturating_sub(2).max(1);
    let mut taken = vec![0_u64; weights.len()];
    let mut owners = Vec::with_capacity(usize::try_from(all).unwrap_or(0));
    for number in 1..=all {
        let may = |of: &usize| (weights[*of] * number).saturating_sub(taken[*of] * all) * parts >= all;
        // Its part exceeds what it has by all but one part of a number at this time, as a fraction.
        let due = |of: usize| (taken[of] * parts + parts - 1, weights[of]);
        let sooner = |a: &usize, b: &usize| {
            let ((time_a, weight_a), (time_b, weight_b)) = (due(*a), due(*b));
            (time_a * weight_b).cmp(&(time_b * weight_a)).then(a.cmp(b))
        };
        let owner = (0..weights.len()).filter(may).min_by(sooner).expect("the parts add up to the numbers");
        taken[owner] += 1;
        owners.push(owner);
    }
    owners
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_equal_weights_is_that_of_no_weights() {
        for weight in [1, 30] {
            assert_eq!(pattern(&[weight; 4]), [0, 1, 2, 3]);
        }
        assert_eq!(pattern(&[1, 2]), [1, 0, 1]);
        assert_eq!(threads_min(&[1, 1, 2]), 3);
    }
}
