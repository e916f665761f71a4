//! Rates that are found before the first trial: shares of a capacity, or the highest rate that keeps a limit.

use record::bakeoff::{Levels, Plot, Trial};
use record::quantity;
use record::search::Promise;

use super::Plan;
use crate::load::{ParsedRate, RATE};

/// A rate that is measured before the first trial, on the reference configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum RateToFind {
    /// Completed events per second of a closed loop.
    Capacity,
    /// The highest rate that keeps a promise.
    Promise(Promise),
}

impl Plan {
    /// Rate that must be found before the first trial; `None` if the plan gives its rates.
    pub fn rate_to_find(&self) -> Option<RateToFind> {
        match &self.load.rate {
            Some(ParsedRate::Shares(_)) => Some(RateToFind::Capacity),
            Some(ParsedRate::Promise(promise)) => Some(RateToFind::Promise(promise.clone())),
            Some(ParsedRate::Plain(_)) | None => None,
        }
    }

    /// One trial of the reference configuration for each rate to be found; each with other levels of the
    /// sub-plot factors, except the rate.
    pub fn rate_searches(&self) -> Vec<(Levels, Trial)> {
        if self.rate_to_find().is_none() {
            return Vec::new();
        }
        let is_reference = |trial: &Trial| {
            let mut whole = self.factors.iter().filter(|f| f.plot == Plot::Whole);
            // A nested factor may not exist in the reference configuration.
            whole.all(|f| {
                trial.levels.get(&f.name).is_none_or(|l| Some(l) == f.reference.as_ref().or(f.values.first()))
            })
        };
        let mut searches: Vec<(Levels, Trial)> = Vec::new();
        for trial in self.trials().into_iter().filter(|t| t.block == 1).filter(is_reference) {
            let cell = self.rate_cell(&trial.levels);
            if searches.iter().all(|(known, _)| *known != cell) {
                searches.push((cell, trial));
            }
        }
        searches.sort_by(|(a, _), (b, _)| a.cmp(b));
        searches
    }

    /// Levels that a found rate depends on: those of the sub-plot factors, except the rate.
    pub fn rate_cell(&self, levels: &Levels) -> Levels {
        let sub = self.factors.iter().filter(|f| f.plot == Plot::Sub && !self.is_share_factor(&f.name));
        sub.filter_map(|f| Some((f.name.clone(), levels.get(&f.name)?.clone()))).collect()
    }

    /// Plan with the rate that was found for a cell of [`Plan::rate_cell`].
    #[must_use]
    pub fn with_rate(mut self, cell: Levels, per_s: f64) -> Self {
        self.found.insert(cell, per_s);
        self
    }

    /// Whether the rate of a cell of [`Plan::rate_cell`] was found.
    pub fn is_rate_known(&self, cell: &Levels) -> bool {
        self.found.contains_key(cell)
    }

    /// The found rate that a trial's rate says; the inverse of the share.
    pub fn rate_behind(&self, levels: &Levels, offered_per_s: f64) -> f64 {
        offered_per_s / self.share(levels)
    }

    pub(crate) fn found_per_s(&self, levels: &Levels) -> Option<f64> {
        let found = self.found.get(&self.rate_cell(levels))?;
        Some(found * self.share(levels))
    }

    fn share(&self, levels: &Levels) -> f64 {
        let share = levels.get(RATE).filter(|_| self.is_share_factor(RATE));
        share.and_then(|text| quantity::ratio(text).ok()).unwrap_or(1.0)
    }

    fn is_share_factor(&self, name: &str) -> bool {
        name == RATE && matches!(self.load.rate, Some(ParsedRate::Shares(_)))
    }
}
