//! One trial: warm-up, measured phase, what was measured in the archive, cool-down.

use std::path::Path;

use archive::{RunWriter, Step};
use load::LoadError;
use plan::Plan;
use record::bakeoff::Trial;
use record::clock::WallAnchor;
use record::load::{LoadRecord, LoadSettings, PreparePolicy, Rate};
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::series::Sample;
use record::verdict::Validity;

use crate::Event;
use crate::conduct::{Conductor, SHORTENED, command_line};
use crate::error::RunnerError;
use crate::ledger::{ATTEMPT, BLOCK, SERIES, TRIAL, event};
use crate::process::wait_for;
use crate::series::told;
use crate::server::Server;
use crate::step::{self, StepFailure};

/// How an attempt at a trial ended.
#[derive(Debug)]
pub(crate) enum TrialEnd {
    /// It has its end in the journal, and the series goes on.
    Over,
    /// The user wants to stop. Without an end in the journal, the attempt counts as abandoned.
    Stopped,
    /// The server is dead; the trial has failed.
    ServerDied(String),
}

/// Conducts one attempt at a trial.
pub(crate) fn conduct(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    folder: &Path,
    server: Option<&mut Server>,
) -> Result<TrialEnd, RunnerError> {
    (conductor.on_event)(&Event::Trial(trial));
    let header = header(conductor, trial);
    let writer = conductor.archive.begin(&header)?;
    conductor.ledger.say_of_trial(trial, Step::TrialWarming)?;

    // Before the load, not between its phases: putting a line on disk is work that the measured phase would see.
    conductor.ledger.say_of_trial(trial, Step::TrialMeasuring)?;
    let measured = measure(conductor, trial, folder);
    let cpu = conductor.beside.take();
    let instruments = conductor.beside.take_instruments();
    let died = |server: &&mut Server| server.has_ended().then(|| server.last_words());
    let dead =
        server.as_ref().and_then(died).map(|words| format!("the server ended during the trial{words}"));
    match (measured, dead) {
        (Err(LoadError::Interrupted), _) => Ok(TrialEnd::Stopped),
        (Ok(record), _) if record.verdict.state == Validity::Interrupted => Ok(TrialEnd::Stopped),
        (_, Some(reason)) => {
            conductor.end(trial, Step::TrialFailed { reason: reason.clone() })?;
            Ok(TrialEnd::ServerDied(reason))
        }
        (Err(error), None) => {
            conductor.end(trial, Step::TrialFailed { reason: told(&error) })?;
            Ok(TrialEnd::Over)
        }
        (Ok(record), None) => {
            let series = match values(conductor, trial, folder, header.anchor) {
                Ok(series) => series,
                Err(StepFailure::Stopped) => return Ok(TrialEnd::Stopped),
                Err(StepFailure::Failed(reason)) => {
                    conductor.end(trial, Step::TrialFailed { reason })?;
                    return Ok(TrialEnd::Over);
                }
            };
            let run = Run {
                header,
                environment: conductor.environment.clone(),
                load: Some(record),
                cpu,
                instruments,
                series,
                proofs: Vec::new(),
                recorded: None,
            };
            // First the archive, then the rest: who is killed while resting has lost nothing.
            let attempt = conductor.ledger.history.next_attempt(trial.index);
            seal(conductor, trial, writer, run, server)?;
            let rest = event(Some(trial.series), Some(trial.index), attempt, Step::TrialCooldown);
            conductor.ledger.journal.append(&rest)?;
            cool_down(conductor);
            Ok(TrialEnd::Over)
        }
    }
}

/// Drives the load.
fn measure(conductor: &mut Conductor<'_>, trial: &Trial, folder: &Path) -> Result<LoadRecord, LoadError> {
    let mut settings = load_settings(conductor.plan, trial, folder);
    // The data set was built for the series; data that is missing now is an error, not work to be done in passing.
    settings.prepare = PreparePolicy::Never;
    let Conductor { beside, on_event, stop, .. } = conductor;
    load::run(&settings, stop, &mut |told| {
        beside.follow(told);
        on_event(&Event::Load(told));
    })
}

/// Asks the plan's commands for the numbers that no clock tells.
fn values(
    conductor: &Conductor<'_>,
    trial: &Trial,
    folder: &Path,
    anchor: WallAnchor,
) -> Result<Vec<Sample>, StepFailure> {
    let host = conductor.environment.fact("host.name").unwrap_or("localhost");
    let asked = conductor.plan.values(&trial.levels, folder).into_iter();
    asked
        .map(|(name, step)| {
            let value = step::number(&name, &step, folder, conductor.stop)?;
            let t_ms = i64::try_from((WallAnchor::now().monotonic_ns - anchor.monotonic_ns) / 1_000_000)
                .expect("a trial is short");
            Ok(Sample { t_ms, host: host.to_owned(), name, labels: Sample::OF_TRIAL.to_owned(), value })
        })
        .collect()
}

/// What the load of a trial does, with the mean rate of arrivals that say their rates themselves.
pub(crate) fn load_settings(plan: &Plan, trial: &Trial, folder: &Path) -> LoadSettings {
    let mut settings = plan.load_settings(trial, folder);
    if let Some(per_s) = load::pace::mean_rate_per_s(&settings.arrivals, settings.time) {
        settings.rate = Rate::PerSecond(per_s);
    }
    settings
}

/// Rest, cut short where the user wants to stop.
fn cool_down(conductor: &Conductor<'_>) {
    let _ = wait_for(conductor.plan.cooldown(), conductor.stop, || false);
}

fn seal(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    mut writer: RunWriter,
    mut run: Run,
    server: Option<&mut Server>,
) -> Result<(), RunnerError> {
    if let Some(server) = server {
        let mut log = server
            .new_log()
            .map_err(|source| RunnerError::Scratch { path: conductor.scratch.root().to_owned(), source })?;
        writer.add_file("server.log", &mut log)?;
    }
    let verdict = &run.load.as_ref().expect("the caller has measured").verdict;
    let reasons: Vec<&str> = verdict.failures().map(|check| check.text.as_str()).collect();
    let reason = (verdict.state == Validity::Invalid).then(|| reasons.join("; "));
    run.header.state = if reason.is_none() { RunState::Sealed } else { RunState::Invalid };
    run.header.reason.clone_from(&reason);
    let id = run.header.id;
    writer.seal(&run)?;
    // A process that dies between these two lines leaves a whole run, which the next one adopts.
    conductor.end(
        trial,
        match reason {
            None => Step::TrialSealed { run: id },
            Some(reason) => Step::TrialInvalid { run: id, reason },
        },
    )
}

fn header(conductor: &Conductor<'_>, trial: &Trial) -> RunHeader {
    let anchor = WallAnchor::now();
    let mut labels = trial.levels.clone();
    let attempt = conductor.ledger.history.next_attempt(trial.index);
    for (name, number) in
        [(TRIAL, trial.index), (ATTEMPT, attempt), (BLOCK, trial.block), (SERIES, trial.series)]
    {
        labels.insert(name.to_owned(), number.to_string());
    }
    if conductor.plan.is_shortened() {
        labels.insert(SHORTENED.to_owned(), "yes".to_owned());
    }
    let levels: Vec<String> = trial.levels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    RunHeader {
        id: RunId::fresh(anchor),
        kind: RunKind::Load,
        state: RunState::Running,
        reason: None,
        anchor,
        title: format!("{}, block {}: {}", conductor.plan.title(), trial.block, levels.join(" ")),
        labels,
        bakeoff: Some(conductor.ledger.id),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
    }
}
