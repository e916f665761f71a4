//! The loop: the next series, until nothing is left, from the beginning or from where a journal ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use archive::{Archive, Step};
use load::Stop;
use plan::Plan;
use record::bakeoff::{Bakeoff, Trial};
use record::clock::WallAnchor;
use record::environment::Environment;
use record::missing::Missing;
use record::run::{RunHeader, RunId, RunKind, RunState};
use record::target::mask_text;

use crate::beside::Beside;
use crate::error::RunnerError;
use crate::ledger::{Ledger, event};
use crate::preflight::{Finding, Severity, preflight};
use crate::scratch::Scratch;
use crate::series::SeriesEnd;
use crate::{Event, Outcome, leftovers, rounds, series};

/// Marks a bake-off, and its runs, that only show that the plan works.
pub(crate) const SHORTENED: &str = "shortened";

/// The fact that holds what preflight had to say.
const FINDINGS: &str = "preflight.findings";

/// Everything that the steps of a bake-off share.
pub(crate) struct Conductor<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) archive: &'a Archive,
    pub(crate) stop: &'a Stop,
    pub(crate) on_event: &'a mut dyn FnMut(&Event<'_>),
    pub(crate) ledger: Ledger,
    pub(crate) scratch: Scratch,
    pub(crate) beside: Beside,
    pub(crate) environment: Environment,
}

/// Conducts a bake-off from its beginning.
///
/// With the first request to stop, the trial that is being measured ends, its server is stopped, and the bake-off is
/// left so that [`resume`] goes on with it.
///
/// Servers die with the thread that calls this, by the kernel's hand.
///
/// # Errors
///
/// [`RunnerError`] where plan, machine or archive are not fit for it, before anything is begun; and where the archive
/// fails, or nothing works, in the middle.
pub fn run(
    plan: &Plan,
    archive: &Archive,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunnerError> {
    let found = look(plan, archive, on_event)?;
    let beside = Beside::new(observes_cpu(plan));
    let bakeoff = planned(plan, machine(plan, archive, &found, &beside))?;
    let id = bakeoff.header.id;
    archive.create_bakeoff(&bakeoff)?;
    let conductor = Conductor {
        plan,
        archive,
        stop,
        on_event,
        ledger: Ledger::begin(archive, &bakeoff)?,
        scratch: Scratch::make(id)?,
        beside,
        environment: bakeoff.environment,
    };
    conductor.play()
}

/// Goes on with a bake-off that was interrupted, or whose process died.
///
/// # Errors
///
/// As [`run`]; and where another process conducts it, or its plan cannot be executed as it was begun.
pub fn resume(
    archive: &Archive,
    id: RunId,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunnerError> {
    if rounds::is_one(archive, id)? {
        return rounds::resume(archive, id, stop, on_event);
    }
    // First the journal: who holds it is alone with the bake-off.
    let journal = archive.journal(id)?;
    let bakeoff = archive.bakeoff(id)?;
    let plan = archived_plan(&bakeoff)?;
    if let Some(done) = leftovers::clear(id)? {
        on_event(&Event::Note(&done));
    }
    let ledger = Ledger::go_on(archive, &bakeoff, journal)?;
    let is_over = ledger.next().is_none();
    let found = if is_over { Vec::new() } else { look(&plan, archive, on_event)? };
    let beside = Beside::new(observes_cpu(&plan) && !is_over);
    let environment = machine(&plan, archive, &found, &beside);
    let mut changed = bakeoff.environment.differing(&environment);
    changed.retain(|fact| !is_over && *fact != FINDINGS);
    if !changed.is_empty() {
        on_event(&Event::Note(&format!(
            "the machine is not as it was when the bake-off began: {}",
            changed.join(", ")
        )));
    }
    let conductor = Conductor {
        plan: &plan,
        archive,
        stop,
        on_event,
        ledger,
        scratch: Scratch::make(id)?,
        beside,
        environment,
    };
    conductor.play()
}

impl Conductor<'_> {
    fn play(mut self) -> Result<Outcome, RunnerError> {
        self.ledger.tell_start(self.on_event);
        for note in self.beside.notes() {
            (self.on_event)(&Event::Note(&note));
        }
        for note in self.plan.notes() {
            (self.on_event)(&Event::Note(&format!("{}:{}: {}", self.plan.name(), note.place, note.text)));
        }
        while let Some(work) = self.ledger.next() {
            let block = work.block;
            if self.stop.is_requested() || series::conduct(&mut self, work)? == SeriesEnd::Stopped {
                return self.ledger.close(RunState::Interrupted);
            }
            self.ledger.give_up_where_nothing_works(block)?;
        }
        self.ledger.close(RunState::Sealed)
    }

    /// Puts a line about a series on disk.
    pub(crate) fn say_of_series(&mut self, series: u32, attempt: u32, step: Step) -> Result<(), RunnerError> {
        Ok(self.ledger.journal.append(&event(Some(series), None, attempt, step))?)
    }

    /// Takes note of how an attempt at a trial ended, in the journal first.
    pub(crate) fn end(&mut self, trial: &Trial, end: Step) -> Result<(), RunnerError> {
        self.ledger.end(trial, end, self.on_event)
    }
}

/// The command line of this process, passwords masked.
pub(crate) fn command_line() -> String {
    mask_text(&record::run::command_line(std::env::args()))
}

/// Whether plan and machine are fit; tells what else is to be known of the machine.
fn look(
    plan: &Plan,
    archive: &Archive,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Vec<Finding>, RunnerError> {
    if !plan.unbuilt().is_empty() {
        let what =
            plan.unbuilt().iter().map(|n| format!("{}:{}: {}", plan.name(), n.place, n.text)).collect();
        return Err(RunnerError::NotBuilt { what });
    }
    let found = preflight(plan, archive)?;
    let (problems, warnings): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|f| f.severity == Severity::Problem);
    for warning in &warnings {
        on_event(&Event::Note(&warning.text));
    }
    if problems.is_empty() {
        return Ok(warnings);
    }
    Err(RunnerError::NotFit { problems: problems.into_iter().map(|p| p.text).collect() })
}

/// The facts about the machine, and what was seen and what was not seen of it.
fn machine(plan: &Plan, archive: &Archive, found: &[Finding], beside: &Beside) -> Environment {
    let mut environment = probes::environment::read(Path::new("/"));
    // Proofs that cannot be read cannot be cited; the page says that there are none.
    environment.calibration = archive.calibration(&environment).unwrap_or_default();
    let mut add = |name: &str, value| environment.facts.insert(name.to_owned(), value);
    let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
    add(FINDINGS, Ok(if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }));
    let not_built = || Err(Missing::because("not built yet in this version"));
    for instrument in plan.instruments() {
        let seen = beside.rung().filter(|_| instrument == "cpu").map(|rung| rung.word().to_owned());
        add(&format!("observe.{instrument}"), seen.map_or_else(not_built, Ok));
    }
    if plan.control_arm() {
        add("observe.control_arm", not_built());
    }
    environment
}

fn observes_cpu(plan: &Plan) -> bool {
    plan.instruments().iter().any(|i| i == "cpu")
}

/// The bake-off before its first step.
fn planned(plan: &Plan, environment: Environment) -> Result<Bakeoff, RunnerError> {
    let anchor = WallAnchor::now();
    let labels = if plan.is_shortened() {
        BTreeMap::from([(SHORTENED.to_owned(), "yes".to_owned())])
    } else {
        BTreeMap::new()
    };
    let header = RunHeader {
        id: RunId::fresh(anchor),
        kind: RunKind::Bakeoff,
        state: RunState::Running,
        reason: None,
        anchor,
        title: plan.title().to_owned(),
        labels,
        bakeoff: None,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
    };
    Ok(Bakeoff {
        header,
        question: plan.question().to_owned(),
        exploratory: plan.exploratory(),
        factors: plan.factors().to_vec(),
        blocks: plan.blocks(),
        seed: plan.seed(),
        trials: plan.trials(),
        attempts: Vec::new(),
        judge: plan.judge().clone(),
        page: plan.page(notes(plan)?),
        measure: plan.measure(),
        warmup: plan.warmup().min,
        environment,
        plan_text: plan.text().to_owned(),
        plan_sha256: plan.sha256().to_owned(),
    })
}

/// The author's key points: read now, so that the page can be made again when the file is gone.
fn notes(plan: &Plan) -> Result<Option<String>, RunnerError> {
    let Some(file) = plan.notes_path() else { return Ok(None) };
    let folder = Path::new(plan.name()).parent().map(PathBuf::from).unwrap_or_default();
    let path = folder.join(file);
    fs::read_to_string(&path).map(Some).map_err(|source| RunnerError::Notes { path, source })
}

/// The plan as it was begun.
fn archived_plan(bakeoff: &Bakeoff) -> Result<Plan, RunnerError> {
    let id = bakeoff.header.id;
    let name = format!("the plan of {id}");
    let plan =
        plan::read(&bakeoff.plan_text, &name).map_err(|source| RunnerError::ArchivedPlan { id, source })?;
    if plan.sha256() != bakeoff.plan_sha256 {
        return Err(RunnerError::PlanMasked { id });
    }
    let plan = if bakeoff.header.labels.contains_key(SHORTENED) { plan.shortened() } else { plan };
    if plan.trials() != bakeoff.trials {
        return Err(RunnerError::AnotherOrder { id, version: bakeoff.header.tool_version.clone() });
    }
    Ok(plan)
}
