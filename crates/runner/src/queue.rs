//! Remaining work. Pure: it follows from the order drawn and from the ends of the attempts.

use std::collections::BTreeMap;

use record::bakeoff::{FAILURES_MAX, Trial, TrialState};

/// Attempts so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// States at their ends, by the trial's index.
    attempts: BTreeMap<u32, Vec<TrialState>>,
    /// Reason of the first failure in this process.
    first_failure: Option<String>,
}

/// A series, or the rest of one: a fresh server, and the trials to be measured on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) series: u32,
    pub(crate) block: u32,
    pub(crate) trials: Vec<Trial>,
}

impl History {
    /// Records the end of an attempt.
    pub(crate) fn ended(&mut self, trial: u32, state: TrialState) {
        self.attempts.entry(trial).or_default().push(state);
    }

    /// Corrects the end of an attempt.
    pub(crate) fn replace(&mut self, trial: u32, attempt: u32, state: TrialState) {
        let attempts = self.attempts.entry(trial).or_default();
        match attempts.get_mut((attempt as usize).saturating_sub(1)) {
            Some(known) => *known = state,
            None => attempts.push(state),
        }
    }

    /// Records the reason of a failure.
    pub(crate) fn note_failure(&mut self, reason: &str) {
        self.first_failure.get_or_insert_with(|| reason.to_owned());
    }

    /// Returns the reason of the first failure.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Returns the end of an attempt, numbered from 1.
    pub(crate) fn attempt(&self, trial: u32, number: u32) -> Option<TrialState> {
        self.of(trial).get((number as usize).checked_sub(1)?).copied()
    }

    /// Returns the number of the next attempt at a trial, from 1.
    pub(crate) fn next_attempt(&self, trial: u32) -> u32 {
        u32::try_from(self.of(trial).len()).expect("attempts are few") + 1
    }

    /// Returns the final state of a trial; [`TrialState::Planned`] if it must still be done.
    pub(crate) fn state(&self, trial: u32) -> TrialState {
        let attempts = self.of(trial);
        let measured = attempts.iter().find(|s| matches!(s, TrialState::Sealed | TrialState::Invalid));
        let failures = attempts.iter().filter(|s| **s == TrialState::Failed).count();
        match measured {
            Some(state) => *state,
            None if failures >= FAILURES_MAX as usize => TrialState::Failed,
            None => TrialState::Planned,
        }
    }

    /// Returns the number of trials in that state.
    pub(crate) fn count(&self, trials: &[Trial], state: TrialState) -> u32 {
        let count = trials.iter().filter(|t| self.state(t.index) == state).count();
        u32::try_from(count).expect("trials are counted in 32 bits")
    }

    fn of(&self, trial: u32) -> &[TrialState] {
        self.attempts.get(&trial).map_or(&[], Vec::as_slice)
    }
}

/// Returns the next series: in the first block that lacks trials, those with the fewest attempts first, then
/// in the order drawn. So work is repeated at the end of its block.
///
/// - `is_dropped`: whether a trial is not to be measured.
pub(crate) fn next(trials: &[Trial], history: &History, is_dropped: &dyn Fn(&Trial) -> bool) -> Option<Work> {
    let is_open = |t: &&Trial| history.state(t.index) == TrialState::Planned && !is_dropped(t);
    let mut open = trials.iter().filter(is_open).peekable();
    let block = open.peek()?.block;
    let mut series: BTreeMap<u32, Vec<Trial>> = BTreeMap::new();
    for trial in open.filter(|t| t.block == block) {
        series.entry(trial.series).or_default().push(trial.clone());
    }
    let tries = |trials: &[Trial]| trials.iter().map(|t| history.next_attempt(t.index)).max();
    let (series, trials) = series.into_iter().min_by_key(|(number, trials)| (tries(trials), *number))?;
    Some(Work { series, block, trials })
}

/// Returns all series of the first block that lacks trials, in the order drawn.
pub(crate) fn rest_of_block(trials: &[Trial], history: &History) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    for trial in trials.iter().filter(|t| history.state(t.index) == TrialState::Planned) {
        match works.last_mut() {
            Some(work) if work.block != trial.block => break,
            Some(work) if work.series == trial.series => work.trials.push(trial.clone()),
            _ => works.push(Work { series: trial.series, block: trial.block, trials: vec![trial.clone()] }),
        }
    }
    works
}

#[cfg(test)]
mod tests {
    use record::bakeoff::Levels;

    use super::*;
    use TrialState::{Abandoned, Failed, Invalid, Sealed};

    /// Builds two blocks of two series of two trials.
    fn trials() -> Vec<Trial> {
        (0..8)
            .map(|i| Trial {
                index: i,
                block: i / 4 + 1,
                series: i / 2 + 1,
                position: i % 2 + 1,
                levels: Levels::new(),
            })
            .collect()
    }

    fn indexes(work: &Work) -> Vec<u32> {
        work.trials.iter().map(|t| t.index).collect()
    }

    /// Does all work; `fate` returns the end of each attempt. Returns the attempts in their order.
    fn play(history: &mut History, fate: impl Fn(u32, u32) -> TrialState) -> Vec<u32> {
        let mut done = Vec::new();
        while let Some(work) = next(&trials(), history, &|_| false) {
            for trial in work.trials {
                let attempt = history.next_attempt(trial.index);
                history.ended(trial.index, fate(trial.index, attempt));
                done.push(trial.index);
            }
        }
        done
    }

    #[test]
    fn what_goes_well_is_done_in_the_order_drawn() {
        let mut history = History::default();
        assert_eq!(play(&mut history, |_, _| Sealed), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(history.count(&trials(), Sealed), 8);
    }

    #[test]
    fn the_rest_of_a_block_has_all_its_series_that_lack_trials() {
        let mut history = History::default();
        let rest =
            |history: &History| rest_of_block(&trials(), history).iter().map(indexes).collect::<Vec<_>>();
        assert_eq!(rest(&history), [[0, 1], [2, 3]]);
        for trial in 0..2 {
            history.ended(trial, Sealed);
        }
        assert_eq!(rest(&history), [[2, 3]]);
        for (trial, end) in [(2, Sealed), (3, Failed), (3, Failed)] {
            history.ended(trial, end);
        }
        assert_eq!(rest(&history), [[4, 5], [6, 7]]);
    }

    #[test]
    fn what_was_abandoned_is_done_again_at_the_end_of_its_block() {
        let mut history = History::default();
        history.ended(0, Sealed);
        history.ended(1, Abandoned);
        assert_eq!(indexes(&next(&trials(), &history, &|_| false).unwrap()), [2, 3]);
        assert_eq!(play(&mut history, |_, _| Sealed), [2, 3, 1, 4, 5, 6, 7]);
    }

    #[test]
    fn what_fails_is_tried_once_more_and_what_is_invalid_stays() {
        let mut history = History::default();
        let fate = |trial, attempt| match (trial, attempt) {
            (0, _) | (1, 1) => Failed,
            (5, _) => Invalid,
            _ => Sealed,
        };
        assert_eq!(play(&mut history, fate), [0, 1, 2, 3, 0, 1, 4, 5, 6, 7]);
        let count = |state| history.count(&trials(), state);
        assert_eq!((count(Sealed), count(Invalid), count(Failed)), (6, 1, 1));
    }

    #[test]
    fn however_often_processes_die_each_trial_ends_once() {
        let mut history = History::default();
        for (trial, _) in (0..40).zip(0..) {
            history.ended(trial % 8, Abandoned);
        }
        let mut done = play(&mut history, |_, _| Sealed);
        done.sort_unstable();
        assert_eq!(done, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
