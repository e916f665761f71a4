//! Experiments without a server: the same ledger as a bake-off, a shorter loop.
//!
//! Each round is one block and one series. [`copies`] and [`sweep`] measure the trials; everything else, from
//! the order drawn to the recovery after a crash, is shared with bake-offs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use archive::{Archive, Claim, Journal, Step};
use load::Stop;
use plan::Experiment;
use record::bakeoff::{Bakeoff, Judge, Levels, Page, Trial};
use record::clock::WallAnchor;
use record::environment::Environment;
use record::run::{Run, RunHeader, RunId, RunKind};
use record::series::Sample;
use record::target::mask_text;

use crate::begun;
use crate::beside::Beside;
use crate::copies::{Confined, Copies};
use crate::error::RunnerError;
use crate::ledger::{self, BESIDE_OTHERS, Ledger, Mark, command_line, mark};
use crate::machine::Machine;
use crate::options::{Options, approve};
use crate::sweep::Sweep;
use crate::workspace::{self, Inherit, Layout, Workspace};
use crate::{Event, Outcome};

/// Resources of a trial while it is measured.
pub(crate) struct Bench<'a> {
    pub(crate) stop: &'a Stop,
    pub(crate) beside: &'a mut Beside,
    /// Separate scratch folder of the trial.
    pub(crate) folder: &'a Path,
    /// Time origin of the samples.
    pub(crate) anchor: WallAnchor,
}

/// Result of a trial.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) samples: Vec<Sample>,
    /// Reason that it must not be used.
    pub(crate) invalid: Option<String>,
}

/// Reason that a trial has no result.
#[derive(Debug)]
pub(crate) enum Shortfall {
    Failed(String),
    Stopped,
}

/// Measures an experiment without a server from its beginning.
///
/// At the first request to stop, the current trial is abandoned and the experiment is interrupted;
/// [`crate::resume`] continues it. At a request to stop after the trial, that is measured to its end first.
///
/// # Errors
///
/// [`RunnerError`] if the plan or this machine is unfit, or another measurement holds the machine, before any
/// trial; and later if the archive fails.
pub fn experiment(
    plan: &Experiment,
    archive: &Archive,
    options: &Options,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunnerError> {
    let anchor = WallAnchor::now();
    let id = RunId::fresh(anchor);
    let held = Held::take(options)?;
    let (layout, workspace) = open_workspace()?;
    let work = Work::prepare(plan, &workspace, None, stop, on_event)?;
    let mut bakeoff = planned(plan, id, anchor);
    bakeoff.header.labels.extend(held.mark());
    bakeoff.environment.facts.extend(work.facts());
    archive.create_bakeoff(&bakeoff)?;
    let mut ledger = Ledger::begin(archive, &bakeoff)?;
    ledger.journal.say(layout)?;
    Rounds { plan, archive, held, stop, on_event, ledger, workspace, work, environment: bakeoff.environment }
        .play()
}

/// Whether this is an experiment without a server.
pub(crate) fn is_one(archive: &Archive, id: RunId) -> Result<bool, RunnerError> {
    Ok(matches!(archive.bakeoff(id)?.header.kind, RunKind::Scale | RunKind::Dder))
}

/// Continues an experiment that was interrupted, or that lost its process.
///
/// - `stranger`: another user that can write it.
pub(crate) fn resume(
    archive: &Archive,
    (id, stranger): (RunId, Option<String>),
    options: &Options,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunnerError> {
    let journal = archive.claim(id)?;
    let first = archive.bakeoff(id)?;
    let plan = archived_plan(&first)?;
    approve(id, stranger, &plan.text(), [], options.trust)?;
    let journal = open(journal, on_event)?;
    let bakeoff = begun::as_mended(archive, &first)?;
    let mut ledger = Ledger::go_on(archive, &bakeoff, journal)?;
    let is_over = ledger.next().is_none();
    let held = if is_over { None } else { Some(Held::take(options)?) };
    clear(&ledger.journal, held.as_ref().map(|held| &held.machine), options, on_event)?;
    let Some(held) = held else { return ledger.close() };
    let (layout, workspace) = open_workspace()?;
    ledger.journal.say(layout)?;
    let work = Work::prepare(&plan, &workspace, Some(&bakeoff.environment), stop, on_event)?;
    let mut environment = probes::environment::read(Path::new("/"));
    environment.facts.extend(work.facts());
    let changed = bakeoff.environment.differing(&environment);
    if !changed.is_empty() {
        on_event(&Event::Note(&format!(
            "the machine has changed since the run began: {}",
            changed.join(", ")
        )));
    }
    Rounds { plan: &plan, archive, held, stop, on_event, ledger, workspace, work, environment }.play()
}

/// Opens a journal after the user has agreed: nothing has been written before.
pub(crate) fn open(claim: Claim, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<Journal, RunnerError> {
    let journal = claim.open()?;
    for note in ledger::mended(&journal) {
        on_event(&Event::Note(&note));
    }
    Ok(journal)
}

/// Clears what a dead process left, while this process holds the machine: a live bake-off has nothing to fear
/// from a journal that names what it made.
///
/// - `machine`: `None` if no trial is left to measure. Then the machine is held for this alone; if another
///   measurement has it, nothing is cleared.
pub(crate) fn clear(
    journal: &Journal,
    machine: Option<&Machine>,
    options: &Options,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<(), RunnerError> {
    let is_alone = !options.beside_others;
    let _held = match machine {
        Some(_) => None,
        None => match Machine::take(options.beside_others) {
            Ok(held) => Some(held),
            Err(error) => {
                let what = "what the previous process left behind, if anything, is not cleared";
                on_event(&Event::Note(&format!("{what}: {error}")));
                return Ok(());
            }
        },
    };
    for done in workspace::clear(journal.before(), is_alone)? {
        on_event(&Event::Note(&done));
    }
    Ok(())
}

/// Creates a workspace for the copies of a command, and the line of the journal that records it. The copies
/// run as the user, as if a shell had started them.
fn open_workspace() -> Result<(Step, Workspace), RunnerError> {
    let layout = Layout::fresh(None);
    let step = layout.step();
    Ok((step, Workspace::open(layout, Inherit::Everything, &Levels::new())?))
}

/// Lock on the machine during the experiment.
struct Held {
    beside_others: bool,
    machine: Machine,
}

impl Held {
    fn take(options: &Options) -> Result<Self, RunnerError> {
        let beside_others = options.beside_others;
        Ok(Self { beside_others, machine: Machine::take(beside_others)? })
    }

    /// Returns the mark of trials that other measurements may have disturbed.
    fn mark(&self) -> Option<Mark> {
        self.beside_others.then(|| mark(BESIDE_OTHERS))
    }
}

struct Rounds<'a> {
    plan: &'a Experiment,
    archive: &'a Archive,
    held: Held,
    stop: &'a Stop,
    on_event: &'a mut dyn FnMut(&Event<'_>),
    ledger: Ledger,
    workspace: Workspace,
    work: Work,
    environment: Environment,
}

impl Rounds<'_> {
    fn play(mut self) -> Result<Outcome, RunnerError> {
        self.ledger.tell_start(self.on_event);
        let mut beside = Beside::new(self.observes());
        for note in beside.notes() {
            (self.on_event)(&Event::Note(&note));
        }
        while let Some(round) = self.ledger.next() {
            for trial in &round.trials {
                if self.stop.is_last_trial() || !self.conduct(trial, &mut beside)? {
                    return self.ledger.leave();
                }
            }
            self.ledger.give_up_where_nothing_works(round.block)?;
        }
        self.ledger.close()
    }

    fn observes(&self) -> bool {
        match self.plan {
            Experiment::Scale(plan) => plan.observe,
            Experiment::Sweep(_) => true,
        }
    }

    /// Conducts one attempt at a trial. Returns `false` if the user requested to stop.
    fn conduct(&mut self, trial: &Trial, beside: &mut Beside) -> Result<bool, RunnerError> {
        (self.on_event)(&Event::Trial(trial));
        let anchor = WallAnchor::now();
        let machine = self.held.machine.look();
        let mut header = self.header(trial, anchor);
        let writer = self.archive.begin(&header)?;
        self.ledger.say_of_trial(trial, Step::TrialMeasuring)?;
        let mut bench = Bench { stop: self.stop, beside, folder: self.workspace.folder(), anchor };
        let measured = self.work.measure(trial, &mut bench);
        let cpu = beside.take();
        let throttled = beside.take_throttled();
        if self.held.machine.was_shared_since(&machine) {
            header.labels.extend([mark(BESIDE_OTHERS)]);
        }
        match measured {
            Err(Shortfall::Stopped) => Ok(false),
            Err(Shortfall::Failed(reason)) => {
                self.ledger.end(trial, Step::TrialFailed { reason }, self.on_event)?;
                Ok(true)
            }
            Ok(Measured { samples, invalid }) => {
                let quota = throttled.as_ref().ok().filter(|t| t.is_any()).map(ToString::to_string);
                let reason = invalid.or(quota).map(|reason| mask_text(&reason));
                let header = header.ended(reason.clone());
                let run = Run {
                    cpu,
                    series: samples,
                    throttled,
                    ..Run::unmeasured(header, self.environment.clone())
                };
                let id = run.header.id;
                writer.seal(&run)?;
                let end = match reason {
                    None => Step::TrialSealed { run: id },
                    Some(reason) => Step::TrialInvalid { run: id, reason },
                };
                self.ledger.end(trial, end, self.on_event)?;
                Ok(true)
            }
        }
    }

    fn header(&self, trial: &Trial, anchor: WallAnchor) -> RunHeader {
        let title = format!("{}, round {}", self.plan.title(), trial.block);
        self.ledger.header_of(trial, (self.plan.kind(), anchor), &title, self.held.mark())
    }
}

/// Subject of the measurement, prepared once for all trials.
enum Work {
    Copies(Copies),
    Sweep(Sweep),
}

impl Work {
    fn prepare(
        plan: &Experiment,
        workspace: &Workspace,
        begun: Option<&Environment>,
        stop: &Stop,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Self, RunnerError> {
        match plan {
            Experiment::Scale(plan) => {
                let each = plan.kinds_of_work() > 1;
                on_event(&Event::Doing(if each {
                    "each unit alone"
                } else {
                    "one run of the command, not measured"
                }));
                Copies::prepare(plan, Confined::to(workspace), begun, workspace.folder(), stop)
                    .map(Self::Copies)
            }
            Experiment::Sweep(plan) => {
                on_event(&Event::Doing("creating the files"));
                Sweep::prepare(plan, stop).map(Self::Sweep)
            }
        }
    }

    /// Returns facts about the subject, besides those about the machine.
    fn facts(&self) -> BTreeMap<String, record::missing::Maybe<String>> {
        match self {
            Self::Copies(copies) => copies.facts(),
            Self::Sweep(sweep) => sweep.facts(),
        }
    }

    fn measure(&mut self, trial: &Trial, bench: &mut Bench<'_>) -> Result<Measured, Shortfall> {
        match self {
            Self::Copies(copies) => copies.measure(trial, bench),
            Self::Sweep(sweep) => sweep.measure(trial, bench),
        }
    }
}

/// Builds the experiment before its first trial.
fn planned(plan: &Experiment, id: RunId, anchor: WallAnchor) -> Bakeoff {
    let text = plan.text();
    Bakeoff {
        header: RunHeader {
            id,
            ..RunHeader::running(plan.kind(), anchor, plan.title().to_owned(), command_line())
        },
        question: String::new(),
        exploratory: false,
        factors: plan.factors(),
        blocks: plan.rounds(),
        seed: plan.seed(),
        trials: plan.trials(),
        attempts: Vec::new(),
        judge: Judge {
            rope_ratio: 0.01,
            alpha: 0.05,
            family: String::new(),
            metrics: Vec::new(),
            gates: Vec::new(),
            sequential: false,
        },
        page: Page::default(),
        measure: plan.measure(),
        warmup: Duration::ZERO,
        environment: probes::environment::read(Path::new("/")),
        plan_sha256: plan::sha256(&text),
        plan_text: text,
    }
}

/// Returns the plan as it was begun.
///
/// # Errors
///
/// [`RunnerError`] if the archived text is not the plan that was begun, or is not valid for this version.
pub fn archived_plan(bakeoff: &Bakeoff) -> Result<Experiment, RunnerError> {
    let id = bakeoff.header.id;
    if plan::sha256(&bakeoff.plan_text) != bakeoff.plan_sha256 {
        return Err(RunnerError::PlanMasked { id, tried: None, sha256: bakeoff.plan_sha256.clone() });
    }
    let plan = Experiment::read(&bakeoff.plan_text)
        .map_err(|source| RunnerError::ArchivedExperiment { id, source })?;
    if plan.trials() != bakeoff.trials {
        return Err(RunnerError::AnotherOrder { id, version: bakeoff.header.tool_version.clone() });
    }
    Ok(plan)
}
