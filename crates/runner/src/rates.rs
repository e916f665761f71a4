//! Rates that are found before the first trial: the capacity of the reference, or the highest rate at which
//! it keeps a promise. Every configuration then gets the same rates, so that they are compared at equal load.
//!
//! A found rate is a line in the journal: `resume` does not search again. Should the line be lost, the rates
//! of the sealed runs tell it.

use std::collections::BTreeMap;
use std::fmt;

use archive::{JournalEvent, Step};
use load::search::{Next, Room, Search};
use load::{LoadError, Stop};
use plan::{Plan, RateToFind};
use record::bakeoff::{Bakeoff, Levels, Trial};
use record::load::{LoadRecord, LoadSettings, Loop, OpenLoop, Phase};
use record::search::{Answer, Promise};
use record::verdict::Validity;

use crate::Event;
use crate::conductor::Conductor;
use crate::error::RunnerError;
use crate::generator;
use crate::queue::Work;
use crate::quotas::Quotas;
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
/// Measurements of the capacity, until one is valid.
const TRIES: u32 = 2;

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
        if conductor.stop.is_last_trial() {
            return Ok(SeriesEnd::Stopped);
        }
        let mut found = None;
        let work = Work { series: SERIES, block: 1, trials: vec![trial] };
        let end = series::conduct_search(conductor, work, &mut |conductor, trial, workspace, servers| {
            let end = search(conductor, trial, workspace, servers);
            match end {
                Ok(rate) => {
                    found = Some(rate);
                    Ok(TrialEnd::Over)
                }
                Err(Shortfall::Stopped) => Ok(TrialEnd::Stopped),
                Err(Shortfall::Failed(reason)) => Ok(TrialEnd::ServerDied(reason)),
            }
        })?;
        let (Some(rate), SeriesEnd::Over) = (found, end) else { return Ok(SeriesEnd::Stopped) };
        conductor
            .ledger
            .journal
            .say(Step::RateFound { cell: cell.clone(), per_s: rate.per_s.to_string() })?;
        tell(conductor, &cell, rate);
        conductor.learn_rate(cell, rate.per_s);
    }
    Ok(SeriesEnd::Over)
}

/// Reports a found rate.
fn tell(conductor: &mut Conductor<'_>, cell: &Levels, rate: FoundRate) {
    let at: Vec<String> = cell.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(" ")) };
    let what = match conductor.plan.rate_to_find() {
        Some(RateToFind::Promise(promise)) => format!("highest rate at which the reference keeps {promise}"),
        _ => "capacity of the reference".to_owned(),
    };
    (conductor.on_event)(&Event::Note(&format!("{what}{at}: {rate}")));
}

/// Result of a search.
#[derive(Debug, Clone, Copy)]
struct FoundRate {
    per_s: f64,
    /// Rate at which the load generator was the limit, if it was: the server may be able to do more.
    limit_per_s: Option<f64>,
}

impl FoundRate {
    fn exact(per_s: f64) -> Self {
        Self { per_s, limit_per_s: None }
    }
}

impl fmt::Display for FoundRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_s, limit_per_s } = self;
        match limit_per_s {
            None => write!(f, "{per_s:.1}/s"),
            Some(limit_per_s) => write!(
                f,
                "at least {per_s:.1}/s, because the load generator reaches its limit at {limit_per_s:.1}/s"
            ),
        }
    }
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
) -> Result<FoundRate, Shortfall> {
    (conductor.on_event)(&Event::Doing("finding the rate"));
    let settings = settings_of(conductor, trial, workspace);
    let open = settings.pace.as_open().cloned();
    let settings = LoadSettings { pace: Loop::CLOSED, ..settings };
    let mut quotas = Quotas::new();
    // A quota that the plan sets is part of the configuration.
    let is_limited = conductor.plan.limits().0.is_some();
    quotas.also_of(servers.first().map(Server::pid).filter(|_| !is_limited));
    let client = generator::client_of(&conductor.plan);
    let mut driver = Driver { quotas, client, stop: conductor.stop };
    let observed = Observed {
        pids: pids_of(servers),
        whose: Whose::of(!servers.is_empty(), settings.target.scheme()),
        members: &|| workspace.members(),
        has_ended: &|| servers.iter().any(Server::has_ended),
    };
    let mut why = String::new();
    let mut capacity_per_s = None;
    for _ in 0..TRIES {
        driver.may_begin()?;
        match driver.capacity(&conductor.plan, trial, &settings, &observed)? {
            Ok(per_s) => {
                capacity_per_s = Some(per_s);
                break;
            }
            Err(reasons) => why = reasons,
        }
    }
    let capacity_per_s = capacity_per_s.ok_or_else(|| {
        Shortfall::Failed(format!(
            "the capacity is unknown, because {TRIES} measurements of it are INVALID: {why}"
        ))
    })?;
    match (conductor.plan.rate_to_find(), open) {
        (Some(RateToFind::Promise(promise)), Some(open)) => {
            let settings = warm_up::shortened(settings, &conductor.plan);
            driver.keep(&promise, &open, &settings, capacity_per_s)
        }
        _ => Ok(FoundRate::exact(capacity_per_s)),
    }
}

/// Drives the loads of a search.
struct Driver<'a> {
    quotas: Quotas,
    client: load::Attachments,
    stop: &'a Stop,
}

impl Driver<'_> {
    /// Checks that the user lets another load begin. `resume` repeats the whole search.
    fn may_begin(&self) -> Result<(), Shortfall> {
        if self.stop.is_last_trial() { Err(Shortfall::Stopped) } else { Ok(()) }
    }

    /// Measures a closed loop once. Returns its rate, or the reasons that it is INVALID.
    fn capacity(
        &mut self,
        plan: &Plan,
        trial: &Trial,
        settings: &LoadSettings,
        observed: &Observed<'_>,
    ) -> Result<Result<f64, String>, Shortfall> {
        if plan.warmup().is_judged() {
            let warmed = warm_up::warm_up(plan, trial, settings.clone(), observed, self.stop)?;
            let check = warm_up::check(&warmed.warm_up, plan.warmup().max.unwrap_or_default());
            if !check.ok {
                return Ok(Err(check.text));
            }
            self.may_begin()?;
        }
        let record = self.drive(&warm_up::shortened(settings.clone(), plan))?;
        if record.counts.done == 0 || record.achieved_per_s <= 0.0 {
            return Err(Shortfall::Failed("a closed loop completed no event".to_owned()));
        }
        if record.verdict.state == Validity::Invalid {
            let reasons: Vec<&str> = record.verdict.failures().map(|check| check.text.as_str()).collect();
            return Ok(Err(reasons.join("; ")));
        }
        Ok(Ok(record.achieved_per_s))
    }

    /// Searches for the highest rate that keeps the promise.
    fn keep(
        &mut self,
        promise: &Promise,
        open: &OpenLoop,
        settings: &LoadSettings,
        capacity_per_s: f64,
    ) -> Result<FoundRate, Shortfall> {
        let room = Room::above_floor(promise, settings.time.as_secs_f64(), CEILING_PER_S);
        let mut search = Search::new(capacity_per_s / 2.0, room);
        let answer = loop {
            match search.next() {
                Next::Done(answer) => break answer,
                Next::Probe { rate_per_s, .. } => {
                    self.may_begin()?;
                    let pace = Loop::Open(OpenLoop { per_s: rate_per_s, ..open.clone() });
                    let record = self.drive(&LoadSettings { pace, ..settings.clone() })?;
                    search.take(promise, &record);
                }
            }
        };
        found(&answer).map_err(|why| Shortfall::Failed(format!("found no rate that keeps {promise}: {why}")))
    }

    fn drive(&mut self, settings: &LoadSettings) -> Result<LoadRecord, Shortfall> {
        let quotas = &mut self.quotas;
        let record = load::run_with(settings, &self.client, self.stop, &mut |event| match event {
            load::Event::PhaseStarts { phase: Phase::Measure, .. } => quotas.open(),
            load::Event::MeasureEnds => quotas.close(),
            _ => {}
        });
        let mut record = record?;
        if record.verdict.state == Validity::Interrupted {
            return Err(Shortfall::Stopped);
        }
        if let Ok(throttled) = quotas.take() {
            record.verdict.add(throttled.check());
        }
        Ok(record)
    }
}

/// Returns the rate of an answer, or the reason for its absence.
fn found(answer: &Answer) -> Result<FoundRate, String> {
    match answer {
        Answer::Found { rate_per_s, .. } => Ok(FoundRate::exact(*rate_per_s)),
        Answer::GeneratorLimit { kept_per_s: Some(per_s), at_per_s } => {
            Ok(FoundRate { per_s: *per_s, limit_per_s: Some(*at_per_s) })
        }
        Answer::Unreachable { at_per_s } => Err(format!("{at_per_s}/s already breaks it")),
        Answer::TooShort { at_per_s } => Err(format!(
            "a try is too short to tell whether the promise holds at {at_per_s}/s: use a longer time"
        )),
        Answer::GeneratorLimit { kept_per_s: None, at_per_s } => {
            Err(format!("the load generator reaches its limit at {at_per_s}/s"))
        }
        Answer::Changed { .. } => Err("the target changed during the search".to_owned()),
        Answer::Unsettled { .. } | Answer::Stopped => Err("the tries contradict each other".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_generator_limited_is_a_lower_bound() {
        let told = |answer: Answer| found(&answer).map(|rate| rate.to_string());
        assert_eq!(told(Answer::Found { rate_per_s: 80.0, broken_at_per_s: 90.0 }).unwrap(), "80.0/s");
        let limited = Answer::GeneratorLimit { kept_per_s: Some(80.0), at_per_s: 90.0 };
        let text = "at least 80.0/s, because the load generator reaches its limit at 90.0/s";
        assert_eq!(told(limited).unwrap(), text);
        assert!(told(Answer::GeneratorLimit { kept_per_s: None, at_per_s: 90.0 }).is_err());
    }
}
