//! Rates that are found before the first trial: the capacity of the reference, or the highest rate at which
//! it keeps a promise. Every configuration then gets the same rates, so that they are compared at equal load.
//!
//! A found rate is a line in the journal: `resume` does not search again. Should the line be lost, the rates
//! of the sealed runs tell it.

use std::collections::BTreeMap;

use archive::{JournalEvent, Step};
use load::search::{Next, Room, Search};
use load::{LoadError, Stop};
use plan::{Plan, RateToFind};
use record::bakeoff::{Bakeoff, Levels, Trial};
use record::load::{LoadRecord, LoadSettings, Loop, OpenLoop};
use record::search::{Answer, Promise};
use record::verdict::Validity;

use crate::Event;
use crate::conduct::Conductor;
use crate::error::RunnerError;
use crate::queue::Work;
use crate::series::{self, SeriesEnd, told};
use crate::server::Server;
use crate::server_use::Whose;
use crate::trial::{TrialEnd, pids_of, settings_of};
use crate::warm_up::{self, Observed};
use crate::workspace::Workspace;

/// Highest rate that a search tries.
const CEILING_PER_S: f64 = 5_000_000.0;
/// Number of the series that finds rates, in the journal; those of trials begin at 1.
const SERIES: u32 = 0;

/// Returns the rates that are known: those in the journal, else those behind sealed runs.
pub(crate) fn known(plan: &Plan, bakeoff: &Bakeoff, journal: &[JournalEvent]) -> BTreeMap<Levels, f64> {
    let mut known = BTreeMap::new();
    if plan.rate_to_find().is_none() {
        return known;
    }
    for (trial, run) in bakeoff.sealed() {
        if let Some(per_s) = run.load.as_ref().and_then(|load| load.settings.pace.per_s()) {
            known.insert(plan.rate_cell(&trial.levels), plan.rate_behind(&trial.levels, per_s));
        }
    }
    for event in journal {
        if let Step::RateFound { cell, per_s } = &event.step
            && let Ok(per_s) = per_s.parse()
        {
            known.insert(cell.clone(), per_s);
        }
    }
    known
}

/// Finds the rates that the plan needs and does not know yet. Returns `Stopped` if the user stopped it.
pub(crate) fn find(conductor: &mut Conductor<'_>) -> Result<SeriesEnd, RunnerError> {
    for (cell, trial) in conductor.plan.rate_searches() {
        if conductor.plan.is_rate_known(&cell) {
            continue;
        }
        if conductor.stop.is_requested() {
            return Ok(SeriesEnd::Stopped);
        }
        let mut found = None;
        let work = Work { series: SERIES, block: 1, trials: vec![trial] };
        let end = series::conduct_search(conductor, work, &mut |conductor, trial, workspace, servers| {
            let end = search(conductor, trial, workspace, servers);
            match end {
                Ok(per_s) => {
                    found = Some(per_s);
                    Ok(TrialEnd::Over)
                }
                Err(Shortfall::Stopped) => Ok(TrialEnd::Stopped),
                Err(Shortfall::Failed(reason)) => Ok(TrialEnd::ServerDied(reason)),
            }
        })?;
        let (Some(per_s), SeriesEnd::Over) = (found, end) else { return Ok(SeriesEnd::Stopped) };
        conductor.ledger.journal.say(Step::RateFound { cell: cell.clone(), per_s: per_s.to_string() })?;
        tell(conductor, &cell, per_s);
        conductor.learn_rate(cell, per_s);
    }
    Ok(SeriesEnd::Over)
}

/// Reports a found rate.
fn tell(conductor: &mut Conductor<'_>, cell: &Levels, per_s: f64) {
    let at: Vec<String> = cell.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(" ")) };
    let what = match conductor.plan.rate_to_find() {
        Some(RateToFind::Promise(promise)) => format!("highest rate at which the reference keeps {promise}"),
        _ => "capacity of the reference".to_owned(),
    };
    (conductor.on_event)(&Event::Note(&format!("{what}{at}: {per_s:.1}/s")));
}

enum Shortfall {
    Failed(String),
    Stopped,
}

impl From<LoadError> for Shortfall {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Interrupted => Self::Stopped,
            other => Self::Failed(told(&other)),
        }
    }
}

fn search(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    servers: &[Server],
) -> Result<f64, Shortfall> {
    (conductor.on_event)(&Event::Doing("finding the rate"));
    let settings = settings_of(conductor, trial, workspace);
    let open = settings.pace.as_open().cloned();
    let settings = LoadSettings { pace: Loop::CLOSED, ..settings };
    if conductor.plan.warmup().is_judged() {
        let observed = Observed {
            pids: pids_of(servers),
            whose: Whose::of(!servers.is_empty(), settings.target.scheme()),
            members: &|| workspace.members(),
            has_ended: &|| servers.iter().any(Server::has_ended),
        };
        warm_up::warm_up(&conductor.plan, trial, settings.clone(), &observed, conductor.stop)?;
    }
    let settings = warm_up::shortened(settings, &conductor.plan);
    let capacity = drive(&settings, conductor.stop)?;
    let capacity_per_s = capacity.achieved_per_s;
    if capacity.counts.done == 0 || capacity_per_s <= 0.0 {
        return Err(Shortfall::Failed("a closed loop completed no event".to_owned()));
    }
    match (conductor.plan.rate_to_find(), open) {
        (Some(RateToFind::Promise(promise)), Some(open)) => {
            keep(&promise, &open, &settings, capacity_per_s, conductor.stop)
        }
        _ => Ok(capacity_per_s),
    }
}

/// Searches for the highest rate that keeps the promise.
fn keep(
    promise: &Promise,
    open: &OpenLoop,
    settings: &LoadSettings,
    capacity_per_s: f64,
    stop: &Stop,
) -> Result<f64, Shortfall> {
    let room = Room::above_floor(promise, settings.time.as_secs_f64(), CEILING_PER_S);
    let mut search = Search::new(capacity_per_s / 2.0, room);
    let answer = loop {
        match search.next() {
            Next::Done(answer) => break answer,
            Next::Probe { rate_per_s, .. } => {
                let pace = Loop::Open(OpenLoop { per_s: rate_per_s, ..open.clone() });
                let record = drive(&LoadSettings { pace, ..settings.clone() }, stop)?;
                search.take(promise, &record);
            }
        }
    };
    let no = |why: String| Err(Shortfall::Failed(format!("found no rate that keeps {promise}: {why}")));
    match answer {
        Answer::Found { rate_per_s, .. } | Answer::GeneratorLimit { kept_per_s: Some(rate_per_s), .. } => {
            Ok(rate_per_s)
        }
        Answer::Unreachable { at_per_s } => no(format!("{at_per_s}/s already breaks it")),
        Answer::TooShort { at_per_s } => no(format!(
            "a try is too short to tell whether the promise holds at {at_per_s}/s: use a longer time"
        )),
        Answer::GeneratorLimit { kept_per_s: None, at_per_s } => {
            no(format!("the load generator reaches its limit at {at_per_s}/s"))
        }
        Answer::Changed { .. } => no("the target changed during the search".to_owned()),
        Answer::Unsettled { .. } | Answer::Stopped => no("the tries contradict each other".to_owned()),
    }
}

fn drive(settings: &LoadSettings, stop: &Stop) -> Result<LoadRecord, Shortfall> {
    let record = load::run_with(settings, &load::Attachments::default(), stop, &mut |_| {})?;
    if record.verdict.state == Validity::Interrupted { Err(Shortfall::Stopped) } else { Ok(record) }
}
