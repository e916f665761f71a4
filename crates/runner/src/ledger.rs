//! State of a bake-off: its trials, the ends of their attempts, and the journal that records them.

use std::collections::{BTreeMap, BTreeSet};

use analysis::sequential::Dropped;
use archive::{
    ATTEMPT_LABEL as ATTEMPT, Archive, Filter, Journal, JournalEvent, PartOf, Step, TRIAL_LABEL as TRIAL,
};
use record::bakeoff::{Bakeoff, Trial, TrialState, state_when_done};
use record::clock::WallAnchor;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::target::mask_text;

use crate::error::RunnerError;
use crate::queue::{self, History, Work};
use crate::{Event, Outcome};

/// Labels of a trial's run, besides the levels of its factors.
pub(crate) const BLOCK: &str = "block";
pub(crate) const SERIES: &str = "series";

/// Label of a run, and of its bake-off, with a shortened measuring time.
pub(crate) const SHORTENED: &str = "shortened";
/// Label of a run, and of its bake-off, that other work on the machine may have disturbed.
pub(crate) const BESIDE_OTHERS: &str = "beside-others";

/// Label of a run, and of its bake-off, of a plan's reference against itself: the number of the repetition.
pub(crate) const AGAINST_ITSELF: &str = "against-itself";

/// A label; most have the value `yes`.
pub(crate) type Mark = (String, String);

/// Returns the mark `name`.
pub(crate) fn mark(name: &str) -> Mark {
    (name.to_owned(), "yes".to_owned())
}

/// Returns the command line of this process, with passwords masked.
pub(crate) fn command_line() -> String {
    mask_text(&record::run::command_line(std::env::args()))
}

/// The trials of a bake-off, their attempts, and the journal of both.
pub(crate) struct Ledger {
    pub(crate) id: RunId,
    pub(crate) trials: Vec<Trial>,
    pub(crate) history: History,
    pub(crate) journal: Journal,
    /// Trials of configurations that were dropped: they have no end.
    dropped: BTreeSet<u32>,
}

impl Ledger {
    /// Opens the ledger of a bake-off that was just put into the archive.
    pub(crate) fn begin(archive: &Archive, bakeoff: &Bakeoff) -> Result<Self, RunnerError> {
        let id = bakeoff.header.id;
        let journal = archive.journal(id)?;
        let (trials, history) = (bakeoff.trials.clone(), History::default());
        Ok(Self { id, trials, history, journal, dropped: BTreeSet::new() })
    }

    /// Opens the ledger of a bake-off that was begun before, and adopts its complete runs.
    pub(crate) fn go_on(archive: &Archive, bakeoff: &Bakeoff, journal: Journal) -> Result<Self, RunnerError> {
        let mut history = History::default();
        for attempt in &bakeoff.attempts {
            history.ended(attempt.trial, attempt.state);
        }
        let (id, trials) = (bakeoff.header.id, bakeoff.trials.clone());
        let mut ledger = Self { id, trials, history, journal, dropped: BTreeSet::new() };
        ledger.adopt(archive, bakeoff)?;
        ledger.note_abandoned(bakeoff)?;
        Ok(ledger)
    }

    /// Returns the next work.
    pub(crate) fn next(&self) -> Option<Work> {
        let dropped = |trial: &Trial| self.dropped.contains(&trial.index);
        queue::next(&self.trials, &self.history, &dropped)
    }

    /// Returns the next work, of all series of a block.
    pub(crate) fn rest_of_block(&self) -> Vec<Work> {
        queue::rest_of_block(&self.trials, &self.history)
    }

    /// Drops configurations, in the journal first: their trials in later blocks are not measured. Returns
    /// those that were not dropped before.
    ///
    /// - `dropped`: what the archived blocks say; the same blocks always say the same.
    pub(crate) fn drop_trials<'a>(
        &mut self,
        dropped: &'a [Dropped],
    ) -> Result<Vec<&'a Dropped>, RunnerError> {
        let mut new = Vec::new();
        for of in dropped {
            let is_its = |trial: &&Trial| {
                trial.block > of.after_block
                    && of.arm.iter().all(|(name, level)| trial.levels.get(name) == Some(level))
                    && self.history.state(trial.index) == TrialState::Planned
                    && !self.dropped.contains(&trial.index)
            };
            let trials: Vec<u32> = self.trials.iter().filter(is_its).map(|trial| trial.index).collect();
            if trials.is_empty() {
                continue;
            }
            let (arm, after_block) = (of.arm.clone(), of.after_block);
            self.journal.say(Step::ConfigurationDropped { arm, after_block })?;
            self.dropped.extend(trials);
            new.push(of);
        }
        Ok(new)
    }

    /// Returns the number of series with a larger number, without those that were dropped.
    pub(crate) fn series_after(&self, number: u32) -> u32 {
        let later = self.trials.iter().filter(|t| t.series > number && !self.dropped.contains(&t.index));
        let series: BTreeSet<u32> = later.map(|trial| trial.series).collect();
        u32::try_from(series.len()).expect("plans limit their trials")
    }

    /// Reports the name of the bake-off, and how much of it is done.
    pub(crate) fn tell_start(&self, on_event: &mut dyn FnMut(&Event<'_>)) {
        let (done, trials) = self.progress();
        on_event(&Event::Started { id: self.id, trials, done });
    }

    /// Writes a line about a trial to disk.
    pub(crate) fn say_of_trial(&mut self, trial: &Trial, step: Step) -> Result<(), RunnerError> {
        let attempt = self.history.next_attempt(trial.index);
        Ok(self.journal.append(&event(Some(trial.series), Some(trial.index), attempt, step))?)
    }

    /// Builds the header of the next attempt at a trial.
    ///
    /// - `title`: the part of the plan that the trial belongs to: `sqlite, block 3`.
    /// - `marks`: labels besides the levels and the numbers of the trial.
    pub(crate) fn header_of(
        &self,
        trial: &Trial,
        (kind, anchor): (RunKind, WallAnchor),
        title: &str,
        marks: impl IntoIterator<Item = Mark>,
    ) -> RunHeader {
        let attempt = self.history.next_attempt(trial.index);
        let numbers =
            [(TRIAL, trial.index), (ATTEMPT, attempt), (BLOCK, trial.block), (SERIES, trial.series)];
        let mut labels = trial.levels.clone();
        labels.extend(numbers.map(|(name, number)| (name.to_owned(), number.to_string())));
        labels.extend(marks);
        let levels: Vec<String> =
            trial.levels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let title = format!("{title}: {}", levels.join(" "));
        RunHeader {
            labels,
            bakeoff: Some(self.id),
            ..RunHeader::running(kind, anchor, title, command_line())
        }
    }

    /// Records the end of an attempt at a trial, in the journal first.
    pub(crate) fn end(
        &mut self,
        trial: &Trial,
        end: Step,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), RunnerError> {
        let masked = |reason: &String| Some(mask_text(reason));
        let (state, reason) = match &end {
            Step::TrialSealed { .. } => (TrialState::Sealed, None),
            Step::TrialInvalid { reason, .. } => (TrialState::Invalid, masked(reason)),
            Step::TrialFailed { reason } => (TrialState::Failed, masked(reason)),
            other => unreachable!("{other:?} ends no trial"),
        };
        self.say_of_trial(trial, end)?;
        self.history.ended(trial.index, state);
        if let (TrialState::Failed, Some(reason)) = (state, &reason) {
            self.history.note_failure(reason);
        }
        let (done, trials) = self.progress();
        on_event(&Event::Ended { trial, state, reason: reason.as_deref(), done, trials });
        Ok(())
    }

    /// Returns an error if every trial of the block failed: later blocks would fail too.
    pub(crate) fn give_up_where_nothing_works(&mut self, block: u32) -> Result<(), RunnerError> {
        let of_block = || self.trials.iter().filter(|t| t.block == block && !self.dropped.contains(&t.index));
        if of_block().any(|t| self.history.state(t.index) != TrialState::Failed) {
            return Ok(());
        }
        self.journal.say(Step::Interrupted)?;
        let reason = self.history.first_failure().unwrap_or("the reason was not recorded").to_owned();
        Err(RunnerError::BlockFailed { id: self.id, block, reason })
    }

    /// Writes the last line: every trial has its end.
    pub(crate) fn close(mut self) -> Result<Outcome, RunnerError> {
        self.journal.say(Step::BakeoffDone)?;
        let state = state_when_done(self.trials.iter().map(|t| self.history.state(t.index)));
        Ok(self.outcome(state))
    }

    /// Writes the last line of an interrupted bake-off, which can be resumed.
    pub(crate) fn leave(mut self) -> Result<Outcome, RunnerError> {
        self.journal.say(Step::Interrupted)?;
        Ok(self.outcome(RunState::Interrupted))
    }

    fn outcome(&self, state: RunState) -> Outcome {
        let count = |state| self.history.count(&self.trials, state);
        Outcome {
            id: self.id,
            state,
            sealed: count(TrialState::Sealed),
            invalid: count(TrialState::Invalid),
            failed: count(TrialState::Failed),
            planned: count(TrialState::Planned).saturating_sub(self.dropped_trials()),
        }
    }

    /// Returns the number of trials that are done, and of all trials.
    fn progress(&self) -> (u32, u32) {
        let trials = u32::try_from(self.trials.len()).expect("plans limit their trials");
        let planned = self.history.count(&self.trials, TrialState::Planned);
        (trials - planned, trials - self.dropped_trials())
    }

    /// Returns the number of trials that were dropped.
    fn dropped_trials(&self) -> u32 {
        u32::try_from(self.dropped.len()).expect("plans limit their trials")
    }

    /// Records, once, the end of the attempts that a dead process left behind.
    fn note_abandoned(&mut self, bakeoff: &Bakeoff) -> Result<(), RunnerError> {
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for attempt in &bakeoff.attempts {
            let number = numbers.entry(attempt.trial).or_default();
            *number += 1;
            let has_end = self.journal.before().iter().any(|event| {
                event.trial == Some(attempt.trial)
                    && event.attempt == Some(*number)
                    && matches!(event.step, Step::TrialAbandoned { .. })
            });
            let is_abandoned = self.history.attempt(attempt.trial, *number) == Some(TrialState::Abandoned);
            if is_abandoned && !has_end {
                let series = self.trials.get(attempt.trial as usize).map(|t| t.series);
                let step = Step::TrialAbandoned { reason: attempt.reason.clone() };
                self.journal.append(&event(series, Some(attempt.trial), *number, step))?;
            }
        }
        Ok(())
    }

    /// Adopts runs that were complete in the archive when their process died before it could record that.
    ///
    /// Their attempts count as abandoned so far, since the journal has no end for them. Now they get one:
    /// each run is complete and was measured like any other, so it is neither lost nor repeated.
    fn adopt(&mut self, archive: &Archive, bakeoff: &Bakeoff) -> Result<(), RunnerError> {
        let known: Vec<RunId> =
            bakeoff.attempts.iter().filter_map(|a| a.run.as_ref()).map(|r| r.header.id).collect();
        let filter = Filter { part_of: PartOf::Bakeoff(self.id), ..Filter::default() };
        for listed in archive.list(&filter)? {
            if known.contains(&listed.header.id) {
                continue;
            }
            // A damaged run is measured again. The run itself is checked, not the index.
            let header = match archive.run(listed.header.id) {
                Ok(Run { header, .. }) => header,
                Err(error) if error.is_damage() => continue,
                Err(error) => return Err(error.into()),
            };
            let number = |label: &str| header.labels.get(label).and_then(|n| n.parse::<u32>().ok());
            let (Some(trial), Some(attempt)) = (number(TRIAL), number(ATTEMPT)) else { continue };
            if self.history.state(trial) != TrialState::Planned {
                continue;
            }
            let series = self.trials.get(trial as usize).map(|t| t.series);
            let (step, state) = match header.state {
                RunState::Sealed => (Step::TrialSealed { run: header.id }, TrialState::Sealed),
                RunState::Invalid => {
                    let reason = header.reason.unwrap_or_default();
                    (Step::TrialInvalid { run: header.id, reason }, TrialState::Invalid)
                }
                _ => continue,
            };
            self.journal.append(&event(series, Some(trial), attempt, step))?;
            self.history.replace(trial, attempt, state);
        }
        Ok(())
    }
}

/// Returns notes on files of the bake-off that were damaged and have just been rewritten.
pub(crate) fn mended(journal: &Journal) -> Vec<String> {
    let files = journal.mended_files().iter();
    let mut notes: Vec<String> = files.map(|damage| format!("{damage}; bakeoff rewrote it")).collect();
    if let Some(Step::JournalMended { damage }) = journal.before().last().map(|event| &event.step) {
        notes.push(format!(
            "the journal was damaged ({damage}): bakeoff rewrote it, and adopted the runs that it no longer \
             names"
        ));
    }
    notes
}

/// Builds a line of the journal with the current time.
pub(crate) fn event(series: Option<u32>, trial: Option<u32>, attempt: u32, step: Step) -> JournalEvent {
    let now = WallAnchor::now();
    JournalEvent {
        at_unix_ns: now.unix_ns,
        at_monotonic_ns: now.monotonic_ns,
        series,
        trial,
        attempt: Some(attempt),
        step,
    }
}
