//! How many trials of each configuration fell out. The trials that remain are a selection.

use record::bakeoff::{Bakeoff, Factor, Levels, TrialState};

use crate::cell::{combinations, is_failure, is_loss};

/// How the trials of one configuration ended that have no sealed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallenOut {
    /// The compared factors of the configuration.
    pub arm: Levels,
    /// Measured, and not fit for comparison.
    pub invalid: usize,
    /// Not measured.
    pub failed: usize,
    /// Measured, and damaged in the archive since.
    pub damaged: usize,
    /// Sealed, after at least one attempt that failed.
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

/// Every configuration, the reference among them, also those that lost nothing.
pub(crate) fn fallen_out(bakeoff: &Bakeoff, compared: &[&Factor]) -> Vec<FallenOut> {
    combinations(compared).into_iter().map(|arm| of_arm(bakeoff, arm)).collect()
}

fn of_arm(bakeoff: &Bakeoff, arm: Levels) -> FallenOut {
    let mut found = FallenOut { invalid: 0, failed: 0, damaged: 0, redone: 0, of: 0, arm };
    for trial in &bakeoff.trials {
        if !found.arm.iter().all(|(k, v)| trial.levels.get(k) == Some(v)) {
            continue;
        }
        let ends = || bakeoff.attempts.iter().filter(|a| a.trial == trial.index).map(|a| a.state);
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
