//! Trials that fell out, by configuration. The trials that remain are a selection.

use std::collections::BTreeMap;

use record::bakeoff::{Attempt, Bakeoff, Factor, Levels, TrialState};

use crate::cell::{combinations, is_failure, is_loss};

/// Outcomes of the trials of one configuration that have no sealed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallenOut {
    /// Compared factors of the configuration.
    pub arm: Levels,
    /// Trials that were measured and are not fit for comparison.
    pub invalid: usize,
    /// Trials that were not measured.
    pub failed: usize,
    /// Trials that were measured and damaged in the archive since.
    pub damaged: usize,
    /// Trials that were sealed after at least one failed attempt.
    pub redone: usize,
    /// Trials of the configuration that have ended.
    pub of: usize,
}

impl FallenOut {
    /// Trials without a sealed run.
    pub fn lost(&self) -> usize {
        self.invalid + self.failed + self.damaged
    }
}

/// Lost trials of every configuration, including the reference and those that lost nothing.
pub(crate) fn fallen_out(bakeoff: &Bakeoff, compared: &[&Factor]) -> Vec<FallenOut> {
    let attempts = bakeoff.attempts_by_trial();
    combinations(bakeoff, compared).into_iter().map(|arm| of_arm(bakeoff, &attempts, arm)).collect()
}

fn of_arm(bakeoff: &Bakeoff, attempts: &BTreeMap<u32, Vec<&Attempt>>, arm: Levels) -> FallenOut {
    let mut found = FallenOut { invalid: 0, failed: 0, damaged: 0, redone: 0, of: 0, arm };
    for trial in &bakeoff.trials {
        if !found.arm.iter().all(|(k, v)| trial.levels.get(k) == Some(v)) {
            continue;
        }
        let ends = || attempts.get(&trial.index).into_iter().flatten().map(|a| a.state);
        let is_sealed = ends().any(|state| state == TrialState::Sealed);
        let Some(last) = ends().rfind(|state| is_loss(*state)) else {
            found.of += usize::from(is_sealed);
            continue;
        };
        found.of += 1;
        match last {
            _ if is_sealed => found.redone += usize::from(ends().any(is_failure)),
            TrialState::Invalid => found.invalid += 1,
            TrialState::Failed => found.failed += 1,
            _ => found.damaged += 1,
        }
    }
    found
}
