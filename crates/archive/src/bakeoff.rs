//! A bake-off on disk: plan and order are written once, the journal records its progress, and readers rebuild
//! it from the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use record::bakeoff::{Attempt, Bakeoff, Levels, TrialState};
use record::environment::Environment;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::target;

use crate::copies::{self, CopiedFile};
use crate::error::ArchiveError;
use crate::reader::in_file;
use crate::schema::bakeoff::{self as form, Order};
use crate::schema::environment::{self, EnvironmentFile};
use crate::schema::event::{JournalEvent, Step};
use crate::schema::manifest::{StoredFile, check_names};
use crate::schema::{DOCUMENT_BYTES_MAX, Wrong, document, line};
use crate::{Archive, Filter, PartOf, checksum, disk, journal, lock, masking, written};

pub(crate) const ORDER: &str = "order.json";
pub(crate) const ORDER_SUM: &str = "order.sha256";
pub(crate) const PLAN: &str = "plan.toml";
pub(crate) const ENVIRONMENT: &str = "env.json";
pub(crate) const EVENTS: &str = "events.jsonl";
/// Label of a trial's run with the trial's index in the order.
pub const TRIAL_LABEL: &str = "trial";
/// Label with the number of the attempt at the trial, from 1.
pub const ATTEMPT_LABEL: &str = "attempt";

/// Most trials of an order with indentation, which would be most of a longer one.
const INDENTED_TRIALS_MAX: usize = 1_000;

/// Reader of a bake-off's runs.
type ReadRun = fn(&Archive, RunId) -> Result<Run, ArchiveError>;

impl Archive {
    /// Writes a bake-off that is about to begin: plan, order, machine, and an empty journal.
    ///
    /// `bakeoff` has no attempts yet; they follow from the journal. Passwords in the plan's text are masked.
    ///
    /// # Errors
    ///
    /// The archive cannot be written, is full, or has a bake-off of that name. Nothing is left on disk then.
    pub fn create_bakeoff(&self, bakeoff: &Bakeoff) -> Result<(), ArchiveError> {
        assert!(bakeoff.attempts.is_empty(), "attempts are told by the journal");
        let id = bakeoff.header.id;
        let folder = self.tree.bakeoff(id);
        let still = self.tree.keep_still()?;
        if folder.exists() || self.tree.run(id).exists() {
            return Err(ArchiveError::Exists { id });
        }
        let partial = disk::partial(&folder);
        disk::make_new_folder(&partial).map_err(ArchiveError::writing(&partial))?;
        let done = store(&partial, bakeoff).and_then(|()| disk::publish(&partial, &folder));
        if done.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        drop(still);
        done?;
        written::note(id);
        self.refresh_index();
        Ok(())
    }

    /// Reads a bake-off with the measurements that its page and its documents are computed from. Of its runs,
    /// distributions of single operations, of wait and of lateness by interval are left out, and so are the
    /// intervals of instruments other than `io` and the CPUs, of these all but shares of time and waits, and
    /// profiles: [`Self::run`] reads them.
    ///
    /// A trial that began and has no end counts as abandoned, unless a process is measuring it: then it is
    /// not yet an attempt.
    ///
    /// # Errors
    ///
    /// No bake-off has that name, or it cannot be read, or its files have changed. A damaged run of it makes
    /// a damaged attempt, not an error.
    pub fn bakeoff(&self, id: RunId) -> Result<Bakeoff, ArchiveError> {
        self.bakeoff_with(id, Self::run_of_bakeoff)
    }

    /// Variant of [`Self::bakeoff`] with all measurements of each run, except profiles.
    ///
    /// # Errors
    ///
    /// Those of [`Self::bakeoff`].
    pub fn bakeoff_whole(&self, id: RunId) -> Result<Bakeoff, ArchiveError> {
        self.bakeoff_with(id, Self::run_without_profiles)
    }

    /// Variant of [`Self::bakeoff`] without the runs' numbers over time: [`Self::run_summary`] reads them.
    ///
    /// # Errors
    ///
    /// Those of [`Self::bakeoff`].
    pub fn bakeoff_summary(&self, id: RunId) -> Result<Bakeoff, ArchiveError> {
        self.bakeoff_with(id, Self::run_summary)
    }

    fn bakeoff_with(&self, id: RunId, read_run: ReadRun) -> Result<Bakeoff, ArchiveError> {
        let folder = self.tree.bakeoff(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let StoredOrder { order, mut damage } = read_order(&folder)?;
        let mut checked = |name: &str| -> Result<Vec<u8>, ArchiveError> {
            let found = checked(&folder, &order, name)?;
            damage.extend(found.damage);
            Ok(found.bytes)
        };
        let plan = String::from_utf8(checked(PLAN)?)
            .map_err(|e| ArchiveError::damaged(&folder.join(PLAN), e.to_string()))?;
        let machine: EnvironmentFile =
            environment::FORM.read(&checked(ENVIRONMENT)?, &folder.join(ENVIRONMENT))?;
        let machine = machine.facts.read().map_err(in_file(&folder, ENVIRONMENT))?;
        let mut story = read_story(&folder)?;
        if !story.damage.is_empty() {
            self.complete(&mut story, id, order.levels().map(|(trial, _)| trial))?;
        }
        story.damage.splice(0..0, damage);
        let header = story.header(&order).map_err(in_file(&folder, ORDER))?;
        let mut bakeoff = order.read(plan, machine).map_err(in_file(&folder, ORDER))?;
        bakeoff.header = header;
        let mut read = BTreeSet::new();
        let reader = self.of_bakeoff();
        for told in story.attempts {
            if let Some(run) = told.run.filter(|run| !read.insert(*run)) {
                return Err(ArchiveError::damaged(&folder.join(EVENTS), format!("it names run {run} twice")));
            }
            let attempt = reader.attempt(told, read_run).map_err(|error| match error {
                ArchiveError::TooLong { why, .. } => ArchiveError::TooLong { id, why },
                other => other,
            });
            bakeoff.attempts.push(attempt?);
        }
        Ok(bakeoff)
    }

    /// Adds the runs of the bake-off that a damaged journal has lost.
    fn complete(
        &self,
        story: &mut Progress,
        id: RunId,
        mut trials: impl Iterator<Item = u32>,
    ) -> Result<(), ArchiveError> {
        let counts = |state| matches!(state, TrialState::Sealed | TrialState::Invalid);
        let known = story.attempts.iter().filter(|told| counts(told.state));
        let mut measured: BTreeSet<u32> = known.map(|told| told.trial).collect();
        let places = story.attempts.iter().enumerate();
        let places: BTreeMap<_, _> = places.map(|(at, told)| ((told.trial, told.number), at)).collect();
        for listed in self.list(&Filter { part_of: PartOf::Bakeoff(id), ..Filter::default() })? {
            let RunHeader { id, state, reason, labels, .. } = listed.header;
            let number = |label: &str| labels.get(label).and_then(|n| n.parse::<u32>().ok());
            let (Some(trial), Some(number)) = (number(TRIAL_LABEL), number(ATTEMPT_LABEL)) else { continue };
            let state = match state {
                RunState::Sealed => TrialState::Sealed,
                RunState::Invalid => TrialState::Invalid,
                _ => continue,
            };
            if !measured.insert(trial) {
                continue;
            }
            let told = AttemptRecord { trial, number, state, reason, run: Some(id), by_last_process: false };
            match places.get(&(trial, number)) {
                Some(at) => story.attempts[*at] = told,
                None => story.attempts.push(told),
            }
        }
        // The damaged lines may include the end of the bake-off, or the only sealed trial.
        let is_over = match story.state {
            RunState::Abandoned => trials.all(|trial| measured.contains(&trial)),
            state => matches!(state, RunState::Sealed | RunState::Invalid | RunState::Failed),
        };
        if is_over {
            (story.state, story.reason) = state_when_done(&story.attempts);
        }
        Ok(())
    }

    /// Reads an attempt with its run. An attempt with a damaged run is damaged, without numbers.
    fn attempt(&self, told: AttemptRecord, read_run: ReadRun) -> Result<Attempt, ArchiveError> {
        let AttemptRecord { trial, state, reason, run, .. } = told;
        match run.map(|id| (id, read_run(self, id))) {
            None => Ok(Attempt { trial, state, reason, run: None }),
            Some((_, Ok(run))) => Ok(Attempt { trial, state, reason, run: Some(run) }),
            Some((id, Err(error))) if error.is_damage() => {
                let reason = Some(format!("run {id}: {error}"));
                Ok(Attempt { trial, state: TrialState::Damaged, reason, run: None })
            }
            Some((_, Err(error))) => Err(error),
        }
    }
}

/// Runs that a journal names, even if it is damaged.
pub(crate) fn runs_named(folder: &Path) -> Vec<RunId> {
    let journal = disk::read_up_to(&folder.join(EVENTS), disk::JOURNAL_BYTES_MAX).unwrap_or_default();
    let journal = String::from_utf8_lossy(&journal);
    let named = journal.split("\"run\":\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
    named.collect()
}

fn store(folder: &Path, bakeoff: &Bakeoff) -> Result<(), ArchiveError> {
    let plan = target::mask_text(&bakeoff.plan_text);
    let environment = masking::mask(document(&EnvironmentFile::of(&bakeoff.environment)), None);
    let files =
        [copies::store(folder, ENVIRONMENT, &environment)?, copies::store(folder, PLAN, plan.as_bytes())?];
    let order = Order::of(bakeoff, files.into_iter().flatten().collect());
    let order = if bakeoff.trials.len() > INDENTED_TRIALS_MAX { line(&order) } else { document(&order) };
    let order = masking::mask(order, None);
    if order.len() > DOCUMENT_BYTES_MAX {
        let (trials, bytes) = (bakeoff.trials.len(), order.len());
        return Err(ArchiveError::LongOrder { trials, bytes, bytes_max: DOCUMENT_BYTES_MAX });
    }
    let [StoredFile { sha256: sum, .. }, _] = copies::store(folder, ORDER, &order)?;
    disk::store(folder, ORDER_SUM, disk::sum_line(&sum, ORDER).as_bytes())?;
    disk::store(folder, EVENTS, journal::begin(bakeoff.header.id, &sum).as_bytes())?;
    Ok(())
}

/// `order.json`, and the damage found in it.
pub(crate) struct StoredOrder {
    pub(crate) order: Order,
    pub(crate) damage: Vec<String>,
}

/// Reads and checks `order.json`.
pub(crate) fn read_order(folder: &Path) -> Result<StoredOrder, ArchiveError> {
    let found = copies::read_by_line(folder, ORDER, ORDER_SUM)?;
    let order: Order = form::FORM.read(&found.bytes, &folder.join(ORDER))?;
    check_names(&order.files).map_err(in_file(folder, ORDER))?;
    order.check_trials().map_err(in_file(folder, ORDER))?;
    Ok(StoredOrder { order, damage: found.damage.into_iter().collect() })
}

/// Checksum of `order.json`, the start of the journal's chain of checksums.
pub(crate) fn order_sum(folder: &Path) -> Result<String, ArchiveError> {
    Ok(checksum::of(&copies::read_by_line(folder, ORDER, ORDER_SUM)?.bytes))
}

/// Reads a file that `order.json` names, and checks it.
fn checked(folder: &Path, order: &Order, name: &str) -> Result<CopiedFile, ArchiveError> {
    let sha256 = order.files.iter().find(|file| file.name == name).map_or("", |file| &file.sha256);
    copies::read(folder, name, sha256, ORDER)
}

/// Machine on which a bake-off began.
pub(crate) fn environment(folder: &Path) -> Result<Environment, ArchiveError> {
    let StoredOrder { order, .. } = read_order(folder)?;
    let bytes = checked(folder, &order, ENVIRONMENT)?.bytes;
    let machine: EnvironmentFile = environment::FORM.read(&bytes, &folder.join(ENVIRONMENT))?;
    machine.facts.read().map_err(in_file(folder, ENVIRONMENT))
}

/// Whether each file that a bake-off begins with has a copy. Earlier versions stored none.
pub(crate) fn has_copies(order: &Order) -> bool {
    order.files.iter().any(|file| file.name == copies::name_of(PLAN))
}

/// Restores damaged files that a bake-off begins with from their copies; returns the damage.
pub(crate) fn mend(folder: &Path) -> Result<Vec<String>, ArchiveError> {
    let StoredOrder { order, mut damage } = read_order(folder)?;
    if !has_copies(&order) {
        return Ok(damage);
    }
    let bytes = copies::read_by_line(folder, ORDER, ORDER_SUM)?.bytes;
    copies::mend(folder, ORDER, &bytes)?;
    let line = disk::sum_line(&checksum::of(&bytes), ORDER);
    if disk::read(&folder.join(ORDER_SUM)).map_or(true, |found| found != line.as_bytes()) {
        copies::replace(folder, ORDER_SUM, line.as_bytes())?;
    }
    for name in [PLAN, ENVIRONMENT] {
        let found = checked(folder, &order, name)?;
        copies::mend(folder, name, &found.bytes)?;
        damage.extend(found.damage);
    }
    Ok(damage)
}

/// State of a bake-off according to its journal.
#[derive(Debug, PartialEq)]
pub(crate) struct Progress {
    pub(crate) state: RunState,
    pub(crate) reason: Option<String>,
    pub(crate) attempts: Vec<AttemptRecord>,
    /// Damage of the bake-off's own files.
    damage: Vec<String>,
}

/// An attempt according to the journal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttemptRecord {
    pub(crate) trial: u32,
    number: u32,
    pub(crate) state: TrialState,
    pub(crate) reason: Option<String>,
    pub(crate) run: Option<RunId>,
    /// Whether the last process that had the journal began it.
    by_last_process: bool,
}

impl Progress {
    /// Header of the bake-off.
    ///
    /// - `order`: the plan.
    ///
    /// # Errors
    ///
    /// [`Wrong`] if the header in `order` cannot be read.
    fn header(&self, order: &Order) -> Result<RunHeader, Wrong> {
        let begun = order.header.read()?;
        let is_levels = begun.kind == RunKind::Scale && self.state == RunState::Sealed;
        let invalid = is_levels.then(|| self.invalid_levels(order)).flatten();
        let damage = self.damage.iter().cloned();
        let reasons: Vec<String> = damage.chain(self.reason.clone()).chain(invalid).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        Ok(RunHeader { state: self.state, reason, ..begun })
    }

    /// Number of levels without a valid round, and of levels that lack some; `None` if every round is valid.
    fn invalid_levels(&self, order: &Order) -> Option<String> {
        let sealed = self.attempts.iter().filter(|told| told.state == TrialState::Sealed);
        let sealed: BTreeSet<u32> = sealed.map(|told| told.trial).collect();
        let mut rounds: BTreeMap<&Levels, Vec<bool>> = BTreeMap::new();
        for (trial, levels) in order.levels() {
            rounds.entry(levels).or_default().push(sealed.contains(&trial));
        }
        let none = rounds.values().filter(|sealed| !sealed.contains(&true)).count();
        let some = rounds.values().filter(|sealed| sealed.contains(&false)).count() - none;
        let all = rounds.len();
        match (none, some) {
            (0, 0) => None,
            (0, some) => Some(format!("{some} of {all} levels INVALID in some rounds")),
            (none, 0) => Some(format!("{none} of {all} levels INVALID")),
            (none, some) => Some(format!("{none} of {all} levels INVALID, {some} more in some rounds")),
        }
    }
}

/// Header of the bake-off in `folder`, with the state from its journal.
///
/// - `read`: [`read_story`] or [`read_told`].
pub(crate) fn header(
    folder: &Path,
    read: fn(&Path) -> Result<Progress, ArchiveError>,
) -> Result<RunHeader, ArchiveError> {
    let StoredOrder { order, damage } = read_order(folder)?;
    let mut story = read(folder)?;
    story.damage.splice(0..0, damage);
    story.header(&order).map_err(in_file(folder, ORDER))
}

/// Reads the state of a bake-off from its journal, even while it runs.
pub(crate) fn read_story(folder: &Path) -> Result<Progress, ArchiveError> {
    // Checked before reading: if a process ends in between, the journal holds more than needed, not less.
    let taken = is_running(folder);
    story_of(folder, taken)
}

/// Reads the state of a bake-off from its journal alone, ignoring locks.
pub(crate) fn read_told(folder: &Path) -> Result<Progress, ArchiveError> {
    story_of(folder, false)
}

fn story_of(folder: &Path, taken: bool) -> Result<Progress, ArchiveError> {
    let journal::Contents { events, damage, .. } = read_journal(folder)?;
    let damage = damage.map(|damage| {
        format!("its journal is damaged ({damage}): the values come from its other lines and from the runs")
    });
    Ok(Progress { damage: damage.into_iter().collect(), ..story(&events, taken) })
}

pub(crate) fn read_journal(folder: &Path) -> Result<journal::Contents, ArchiveError> {
    let path = folder.join(EVENTS);
    let seed = order_sum(folder)?;
    Ok(journal::parse(&disk::read_up_to(&path, disk::JOURNAL_BYTES_MAX)?, &seed))
}

/// Whether a living process holds a bake-off's journal.
pub(crate) fn is_running(folder: &Path) -> bool {
    disk::open(&folder.join(EVENTS)).and_then(|f| lock::is_taken(&f)).unwrap_or(false)
}

/// State of a bake-off after `events`; `taken`: a process holds the journal.
pub(crate) fn story(events: &[JournalEvent], taken: bool) -> Progress {
    let mut attempts: Vec<AttemptRecord> = Vec::new();
    let mut places = BTreeMap::new();
    // Attempts before this index belong to earlier processes.
    let mut earlier = 0;
    let mut ended = None;
    for event in events {
        let end = match &event.step {
            Step::Opened { .. } => {
                for attempt in &mut attempts[earlier..] {
                    attempt.by_last_process = false;
                }
                earlier = attempts.len();
                ended = None;
                continue;
            }
            Step::BakeoffDone | Step::Interrupted => {
                ended = Some(&event.step);
                continue;
            }
            Step::TrialSealed { run } => Some((TrialState::Sealed, None, Some(*run))),
            Step::TrialInvalid { run, reason } => {
                Some((TrialState::Invalid, Some(reason.clone()), Some(*run)))
            }
            Step::TrialFailed { reason } => Some((TrialState::Failed, Some(reason.clone()), None)),
            Step::TrialAbandoned { reason } => {
                Some((TrialState::Abandoned, Some(reason.clone().unwrap_or_else(|| DIED.to_owned())), None))
            }
            Step::TrialWarming | Step::TrialMeasuring | Step::TrialVerifying | Step::TrialCooldown => None,
            Step::Workspace { .. }
            | Step::PlanFile { .. }
            | Step::RateFound { .. }
            | Step::ConfigurationDropped { .. }
            | Step::JournalMended { .. }
            | Step::SeriesSetup
            | Step::SeriesPrepare
            | Step::SeriesStart
            | Step::SeriesReady
            | Step::SeriesTeardown
            | Step::SeriesFailed { .. } => continue,
        };
        let (Some(trial), number) = (event.trial, event.attempt.unwrap_or(1)) else { continue };
        let at = *places.entry((trial, number)).or_insert_with(|| {
            attempts.push(AttemptRecord {
                trial,
                number,
                state: TrialState::Planned,
                reason: None,
                run: None,
                by_last_process: true,
            });
            attempts.len() - 1
        });
        if let Some((state, reason, run)) = end {
            attempts[at] = AttemptRecord { state, reason, run, ..attempts[at].clone() };
        }
    }
    let going_on = taken && ended.is_none();
    attempts.retain(|a| !(a.state == TrialState::Planned && a.by_last_process && going_on));
    for attempt in attempts.iter_mut().filter(|a| a.state == TrialState::Planned) {
        let interrupted = attempt.by_last_process && ended == Some(&Step::Interrupted);
        attempt.state = TrialState::Abandoned;
        attempt.reason = Some(if interrupted { STOPPED.to_owned() } else { DIED.to_owned() });
    }
    let (state, reason) = state_after(ended, going_on, &attempts);
    Progress { state, reason, attempts, damage: Vec::new() }
}

/// State of a bake-off with its last `BakeoffDone` or `Interrupted`, and the reason if it has no result.
fn state_after(
    ended: Option<&Step>,
    is_running: bool,
    attempts: &[AttemptRecord],
) -> (RunState, Option<String>) {
    match ended {
        Some(Step::BakeoffDone) => state_when_done(attempts),
        Some(_) => {
            (RunState::Interrupted, Some("stopped by the user; `bakeoff resume` continues it".to_owned()))
        }
        None if is_running => (RunState::Running, None),
        None => (RunState::Abandoned, Some("its process died; `bakeoff resume` continues it".to_owned())),
    }
}

/// State of a completed bake-off, and the reason if it has no result.
fn state_when_done(attempts: &[AttemptRecord]) -> (RunState, Option<String>) {
    let state = record::bakeoff::state_when_done(attempts.iter().map(|attempt| attempt.state));
    let of = match state {
        RunState::Invalid => TrialState::Invalid,
        RunState::Failed => TrialState::Failed,
        _ => return (state, None),
    };
    let first = attempts.iter().find(|attempt| attempt.state == of).and_then(|a| a.reason.as_deref());
    let why = first.unwrap_or("reason not recorded");
    (state, Some(format!("no trial is valid; first reason: {why}")))
}

const DIED: &str = "the process that measured it died";
const STOPPED: &str = "the user stopped the bake-off";

#[cfg(test)]
mod tests {
    use super::*;
    use TrialState::{Abandoned, Sealed};

    fn events(steps: &[(Option<(u32, u32)>, Step)]) -> Vec<JournalEvent> {
        let event = |(about, step): &(Option<(u32, u32)>, Step)| JournalEvent {
            at_unix_ns: 0,
            at_monotonic_ns: 0,
            series: None,
            trial: about.map(|(trial, _)| trial),
            attempt: about.map(|(_, attempt)| attempt),
            step: step.clone(),
        };
        steps.iter().map(event).collect()
    }

    fn states(story: &Progress) -> Vec<(u32, TrialState)> {
        story.attempts.iter().map(|a| (a.trial, a.state)).collect()
    }

    #[test]
    fn a_trial_without_an_end_is_abandoned_unless_it_is_being_measured() {
        let run: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let told = events(&[
            (None, Step::Opened { pid: 1 }),
            (Some((0, 1)), Step::TrialWarming),
            (Some((0, 1)), Step::TrialMeasuring),
            (None, Step::Opened { pid: 2 }),
            (Some((0, 2)), Step::TrialWarming),
            (Some((0, 2)), Step::TrialSealed { run }),
            (Some((1, 1)), Step::TrialWarming),
        ]);
        let alive = story(&told, true);
        assert_eq!((alive.state, states(&alive)), (RunState::Running, vec![(0, Abandoned), (0, Sealed)]));
        let dead = story(&told, false);
        assert_eq!(dead.state, RunState::Abandoned);
        assert_eq!(states(&dead), [(0, Abandoned), (0, Sealed), (1, Abandoned)]);
        assert_eq!(dead.attempts[1].run, Some(run));
    }

    #[test]
    fn a_bake_off_without_a_valid_trial_is_not_sealed() {
        let run: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let invalid = (Some((0, 1)), Step::TrialInvalid { run, reason: "other work".into() });
        let failed = (Some((1, 1)), Step::TrialFailed { reason: "it died".into() });
        let sealed = (Some((2, 1)), Step::TrialSealed { run });
        let opened = (None, Step::Opened { pid: 1 });
        let done = (None, Step::BakeoffDone);
        let end = |steps: &[(Option<(u32, u32)>, Step)]| {
            let story = story(
                &events(&[std::slice::from_ref(&opened), steps, std::slice::from_ref(&done)].concat()),
                false,
            );
            (story.state, story.reason)
        };
        assert_eq!(
            end(&[failed.clone(), invalid.clone()]),
            (RunState::Invalid, Some("no trial is valid; first reason: other work".into()))
        );
        assert_eq!(end(std::slice::from_ref(&failed)).0, RunState::Failed);
        assert_eq!(end(&[failed, invalid, sealed]), (RunState::Sealed, None));
    }

    #[test]
    fn the_last_word_of_the_last_process_is_the_state() {
        let state = |steps: &[Step], taken| {
            let steps: Vec<_> = steps.iter().map(|s| (None, s.clone())).collect();
            story(&events(&steps), taken).state
        };
        let opened = Step::Opened { pid: 1 };
        assert_eq!(state(&[], false), RunState::Abandoned);
        assert_eq!(state(&[opened.clone(), Step::Interrupted], true), RunState::Interrupted);
        assert_eq!(state(&[opened.clone(), Step::Interrupted, opened.clone()], false), RunState::Abandoned);
        assert_eq!(state(&[opened.clone(), Step::Interrupted, opened.clone()], true), RunState::Running);
        assert_eq!(
            state(&[opened.clone(), Step::Interrupted, opened, Step::BakeoffDone], false),
            RunState::Sealed
        );
    }
}
