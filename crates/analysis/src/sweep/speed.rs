//! Steadiness of the machine during the measurement: its speed in stretches of time, over all rounds.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::cost::Cost;
use super::curve::Shape;
use super::round::Round;
use super::time::{TimeShift, middle, residuals};
use crate::robust::{mad, median};

/// Steadiness of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Whether its speed changed by no more than an interval over rounds covers.
    pub is_steady: bool,
    /// 5 % quantile of the time of a call relative to its median, over moments of five consecutive calls.
    pub low: f64,
    /// 95 % quantile.
    pub high: f64,
}

/// Stretches per round.
const STRETCHES: usize = 4;
/// Calls per moment, and minimum per stretch.
const MOMENT: usize = 5;
/// One-sided probability of calling a steady machine unsteady.
const ALPHA: f64 = 0.01;
/// Standard deviation between stretches below which the machine counts as steady: an interval over rounds,
/// each at its own speed, covers as much.
const SPREAD_MIN: f64 = 0.01;

impl Speed {
    /// Consequences of an unsteady machine for the results.
    pub fn sentence(&self) -> Option<String> {
        (!self.is_steady).then(|| {
            format!(
                "the machine changed its speed: calls took {:.2} to {:.2} times their median time; costs and \
                 plateau have no interval",
                self.low, self.high
            )
        })
    }
}

/// Speed of the machine, from the residuals of each call.
pub(super) fn speed(rounds: &[Round], cost: &Cost, shifts: &[TimeShift]) -> Speed {
    let of_rounds: Vec<Vec<(f64, f64)>> = rounds.iter().map(|round| residuals(round, cost)).collect();
    let all: Vec<f64> = of_rounds.iter().flatten().map(|p| p.1).filter(|v| v.is_finite()).collect();
    let about = median(&all).unwrap_or(0.0);
    let mut moments: Vec<f64> =
        of_rounds.iter().flat_map(|round| round.chunks(MOMENT)).map(|calls| middle(calls) - about).collect();
    moments.sort_by(f64::total_cmp);
    let last = moments.len().saturating_sub(1);
    let at = |place: usize| moments.get(place).map_or(1.0, |v| v.exp());
    // An outlying call does not set the speed of a stretch.
    let limit = 3.0 * mad(&all).unwrap_or(0.0);
    let tame = |p: &(f64, f64)| (p.1 - about).clamp(-limit, limit);
    let stretches: Vec<Vec<f64>> = of_rounds
        .iter()
        .flat_map(|round| round.chunks(round.len().div_ceil(STRETCHES).max(MOMENT)))
        .filter(|calls| calls.len() >= MOMENT)
        .map(|calls| calls.iter().map(tame).collect())
        .collect();
    Speed {
        is_steady: shifts.is_empty() && !differ(&stretches),
        low: at(last / 20),
        high: at(last - last / 20),
    }
}

/// Whether stretches differ by more than their calls do, and by enough: an analysis of variance.
fn differ(stretches: &[Vec<f64>]) -> bool {
    let calls = stretches.iter().map(Vec::len).sum::<usize>() as f64;
    let (of_between, of_within) = (stretches.len() as f64 - 1.0, calls - stretches.len() as f64);
    if of_between < 1.0 || of_within < 1.0 {
        return false;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let whole = stretches.iter().flatten().sum::<f64>() / calls;
    let between =
        stretches.iter().map(|s| s.len() as f64 * (mean(s) - whole).powi(2)).sum::<f64>() / of_between;
    let within = stretches.iter().map(|s| s.iter().map(|v| (v - mean(s)).powi(2)).sum::<f64>()).sum::<f64>()
        / of_within;
    let of_each = calls / stretches.len() as f64;
    if (between - within).max(0.0) / of_each < SPREAD_MIN * SPREAD_MIN {
        return false;
    }
    let f_of = FisherSnedecor::new(of_between, of_within).expect("degrees of freedom are over 0");
    within <= 0.0 || f_of.sf(between / within) < ALPHA
}

/// Removes the intervals of costs and plateau, which a change of speed invalidates.
pub(super) fn without_intervals(cost: &mut Cost, shape: Option<&mut Shape>) {
    let aligned = cost.aligned_byte_ns.as_mut().ok();
    let costs = [&mut cost.call_ns, &mut cost.byte_ns, &mut cost.page_ns].into_iter().chain(aligned);
    let plateau = shape.map(|s| &mut s.plateau_bytes_per_s);
    costs.chain(plateau).for_each(|estimate| estimate.interval = None);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::missing::Missing;

    use super::super::curve::Estimate;
    use super::*;
    use crate::chance::SplitMix;

    fn cost() -> Cost {
        let exactly = |value| Estimate { value, interval: None };
        let aligned_byte_ns = Err(Missing::because("synthetic"));
        Cost { call_ns: exactly(400.0), byte_ns: exactly(0.1), aligned_byte_ns, page_ns: exactly(0.0) }
    }

    /// Six rounds of 400 calls of a millisecond, each round at its own speed; a call's noise is up to `noise`
    /// either way, and one call in fifty has thirty times that.
    fn rounds(slowness: [f64; 6], noise: f64, seed: u64) -> Vec<Round> {
        let mut chance = SplitMix(seed);
        let mut call = |i: u32, slowness: f64| {
            let size = chance.below(100_000) as u64 + 1;
            let wild = if chance.below(50) == 0 { 30.0 } else { 1.0 };
            let off = wild * noise * (chance.below(2_001) as f64 / 1_000.0 - 1.0);
            (f64::from(i) * 1e-3, size, cost().call_ns(size) * slowness * off.exp())
        };
        let mut round = |slowness: f64| Round {
            points: (0..400).map(|i| call(i, slowness)).collect(),
            references: Vec::new(),
            windows: BTreeMap::new(),
        };
        slowness.map(&mut round).into()
    }

    #[test]
    fn rounds_of_two_speeds_or_with_a_drift_are_unsteady_although_none_has_a_shift_inside() {
        for slowness in [[1.0, 1.0, 1.0, 1.05, 1.05, 1.05], [1.0, 1.01, 1.02, 1.03, 1.04, 1.05]] {
            let found = speed(&rounds(slowness, 0.02, 1), &cost(), &[]);
            assert!(!found.is_steady && found.high / found.low > 1.03, "{found:?}");
        }
    }

    #[test]
    fn a_still_machine_is_rarely_called_unsteady_however_noisy_its_calls_are() {
        for noise in [0.001, 0.02, 0.2] {
            let alarms =
                (0..300).filter(|seed| !speed(&rounds([1.0; 6], noise, *seed), &cost(), &[]).is_steady);
            // 1 %, and three standard errors of 300 experiments.
            let alarms = alarms.count();
            assert!(alarms <= 8, "noise {noise}: {alarms} of 300");
        }
    }
}
