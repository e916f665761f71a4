//! One trial: warm-up, measured phase, storing the results in the archive, cool-down.

use std::collections::BTreeMap;
use std::path::Path;

use archive::{RunWriter, Spool, Step};
use load::LoadError;
use nix::unistd::Pid;
use record::bakeoff::{CONTROL_ARM, Trial};
use record::clock::WallAnchor;
use record::limits::Throttled;
use record::load::{LoadRecord, LoadSettings, OfProbe, Phase, PreparePolicy};
use record::missing::{Maybe, Missing};
use record::resources::Resources;
use record::run::{Run, RunHeader, RunKind};
use record::series::Sample;
use record::server_cpu::ServerCpu;
use record::turns::Turns;
use record::verdict::{Check, Validity};
use record::warm_up::WarmUp;

use crate::admission::{self, Refused};
use crate::conductor::{Conductor, marks};
use crate::error::RunnerError;
use crate::fingerprint;
use crate::generator::{self, Release};
use crate::ledger::{BESIDE_OTHERS, event, mark};
use crate::listener::Address;
use crate::machine::{Look, Machine};
use crate::process::wait_for;
use crate::secrets::Secrets;
use crate::series::{log_name, told};
use crate::server::Server;
use crate::server_cpu::ServerMeter;
use crate::server_settings::{self, Settings};
use crate::server_use::{ServerUse, Whose};
use crate::server_values;
use crate::step::{self, StepFailure};
use crate::strays::VARIABLE;
use crate::surroundings::{self, Surroundings};
use crate::thread_places::ThreadPlaces;
use crate::warm_up::{self, Observed};
use crate::workspace::{Workspace, variable};
use crate::{Event, Spooled};

/// End of an attempt at a trial.
#[derive(Debug)]
pub(crate) enum TrialEnd {
    /// The journal has its end, and the series continues.
    Over,
    /// The user requested to stop. Without an end in the journal, the attempt counts as abandoned.
    Stopped,
    /// The server is dead; the trial has failed.
    ServerDied(String),
}

/// Conducts one attempt at a trial.
pub(crate) fn conduct(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    servers: &mut [Server],
) -> Result<TrialEnd, RunnerError> {
    (conductor.on_event)(&Event::Trial(trial));
    let changed = match record_machine(conductor, trial, workspace) {
        Ok(changed) => changed,
        Err(Refused::Stopped) => return Ok(TrialEnd::Stopped),
        Err(Refused::Failed(reason)) => {
            conductor.end(trial, Step::TrialFailed { reason })?;
            return Ok(TrialEnd::Over);
        }
    };
    let settings = settings(conductor, trial, workspace);
    settings.note(&mut conductor.environment);
    conductor.settings_at_first.get_or_insert_with(|| settings.clone());
    let machine = conductor.machine.as_ref().map(Machine::look);
    let header = header(conductor, trial);
    let writer = conductor.archive.begin(&header)?;
    conductor.ledger.say_of_trial(trial, Step::TrialWarming)?;

    // A quota that the plan sets is part of the configuration.
    let is_limited = conductor.plan.limits().0.is_some();
    conductor.beside.watch_quota_of(servers.first().map(Server::pid).filter(|_| !is_limited));
    let group = servers.first().and(workspace.control_group()).and_then(|group| group.of_version_2());
    conductor.beside.follow_server(group.as_ref());
    let warmed = match warm_up(conductor, trial, workspace, servers) {
        Ok(warmed) if !servers.iter().any(Server::has_ended) => warmed,
        Err(LoadError::Interrupted) => return Ok(TrialEnd::Stopped),
        failed => return fail_warming(conductor, trial, workspace, servers, failed.err()),
    };
    let mut measured = measure(conductor, trial, workspace, &pids_of(servers), (&writer, &header))?;
    let release = measured.release.take();
    let dead = death_of(servers, conductor, trial, workspace);
    let end = match (&measured.record, dead) {
        (Err(LoadError::Interrupted), _) => Ok(TrialEnd::Stopped),
        (Ok(record), _) if record.verdict.state == Validity::Interrupted => Ok(TrialEnd::Stopped),
        (_, Some(reason)) => {
            conductor.end(trial, Step::TrialFailed { reason: reason.clone() })?;
            Ok(TrialEnd::ServerDied(reason))
        }
        (Err(error), None) => {
            let reason = told(error);
            conductor.end(trial, Step::TrialFailed { reason })?;
            Ok(TrialEnd::Over)
        }
        (Ok(_), None) => {
            let before = Before { warm_up: warmed, machine, changed, settings };
            let end = store(conductor, trial, workspace, measured, (writer, header, before), servers)?;
            if let Some(release) = release {
                release();
            }
            if matches!(end, TrialEnd::Over) {
                cool_down(conductor);
            }
            return Ok(end);
        }
    };
    // What is measured again is not wanted.
    if let Some(release) = release {
        release();
    }
    end
}

/// Reads the server's effective settings.
pub(crate) fn settings(conductor: &Conductor<'_>, trial: &Trial, workspace: &Workspace) -> Settings {
    let of_instance = |number| conductor.plan.server_settings(&trial.levels, workspace.folder(), number);
    let commands = of_instances(conductor, trial).map(of_instance).collect();
    server_settings::read(commands, workspace, &conductor.secrets, conductor.stop)
}

/// Numbers of the server's instances.
fn of_instances(conductor: &Conductor<'_>, trial: &Trial) -> std::ops::RangeInclusive<u32> {
    1..=conductor.plan.instances(&trial.levels)
}

/// Results of what precedes the measured phase.
pub(crate) struct Before {
    pub(crate) warm_up: Option<WarmUp>,
    pub(crate) machine: Option<Look>,
    /// Changes of the machine, and of programs, since the first trial, as flags.
    pub(crate) changed: Vec<(&'static str, String)>,
    pub(crate) settings: Settings,
}

/// Runs the plan's commands for values, and stores a trial that was measured.
pub(crate) fn store(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    mut measured: Measured,
    (writer, mut header, before): (RunWriter, RunHeader, Before),
    servers: &mut [Server],
) -> Result<TrialEnd, RunnerError> {
    let (throttled, used) = (measured.throttled, conductor.beside.take_used());
    if let Some(why) = conductor.beside.quota_lost() {
        (conductor.on_event)(&Event::Note(why));
    }
    let mut instruments = conductor.beside.take_instruments();
    instruments.missing.extend(measured.missing);
    let Ok(mut record) = measured.record else { unreachable!("the caller has a record") };
    if let Ok(throttled) = &throttled {
        record.verdict.add(throttled.check());
    }
    let Some(checks) = verify(conductor, trial, workspace, &before.settings)? else {
        return Ok(TrialEnd::Stopped);
    };
    for check in checks {
        record.verdict.add(check);
    }
    measured.flags.extend(before.changed);
    let cycles = before.warm_up.as_ref().and_then(|w| warm_up::partial_cycles(w, record.measured));
    measured.flags.extend(cycles.map(|text| ("cycles", text)));
    measured.flags.extend(record.verdict.degraded().map(|text| ("degraded", text)));
    tell(conductor, trial, &measured.flags);
    if let Some(warm_up) = &before.warm_up {
        let longest = conductor.plan.warmup().max.unwrap_or_default();
        record.verdict.add(warm_up::check(warm_up, longest));
    }
    match values(conductor, trial, workspace, header.anchor) {
        Ok(values) => measured.series.extend(values),
        Err(StepFailure::Stopped) => return Ok(TrialEnd::Stopped),
        Err(StepFailure::Failed(reason)) => {
            conductor.end(trial, Step::TrialFailed { reason })?;
            return Ok(TrialEnd::Over);
        }
    }
    // The plan's commands for values belong to the trial.
    if let Some((machine, look)) = conductor.machine.as_ref().zip(before.machine)
        && machine.was_shared_since(&look)
    {
        header.labels.extend([mark(BESIDE_OTHERS)]);
    }
    let run = Run {
        load: Some(record),
        server_cpu: measured.server_cpu,
        resources: measured.resources.into_iter().chain(used).collect(),
        warm_up: before.warm_up,
        instruments,
        series: measured.series,
        throttled,
        turns: measured.turns,
        ..Run::unmeasured(header, conductor.environment.clone())
    };
    // The archive comes before the cool-down: a kill during the cool-down loses no data.
    let attempt = conductor.ledger.history.next_attempt(trial.index);
    seal(conductor, trial, workspace, (writer, &measured.spool), run, servers)?;
    conductor.ledger.journal.append(&event(
        Some(trial.series),
        Some(trial.index),
        attempt,
        Step::TrialCooldown,
    ))?;
    Ok(TrialEnd::Over)
}

/// Checks after the measured phase whether the configuration was the planned one and, by the plan's command,
/// whether the data set is whole. `None` if the user requested to stop.
fn verify(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    before: &Settings,
) -> Result<Option<Vec<Check>>, RunnerError> {
    let after = settings(conductor, trial, workspace);
    if !after.is_complete() && conductor.stop.is_requested() {
        return Ok(None);
    }
    let first = conductor.settings_at_first.as_ref().unwrap_or(before);
    let mut checks: Vec<Check> = first.check([before, &after]).into_iter().collect();
    let of_instance = |number| conductor.plan.verify(&trial.levels, workspace.folder(), number);
    let steps: Vec<plan::Step> = of_instances(conductor, trial).filter_map(of_instance).collect();
    if !steps.is_empty() {
        conductor.ledger.say_of_trial(trial, Step::TrialVerifying)?;
    }
    for step in steps {
        let (ok, text) = match step::run("verify", &step, workspace, conductor.stop) {
            Ok(()) => (true, "the plan's command `verify` succeeded".to_owned()),
            Err(StepFailure::Failed(why)) => (false, conductor.secrets.hide(&why)),
            Err(StepFailure::Stopped) => return Ok(None),
        };
        checks.push(Check { name: "verify", ok, found: f64::from(u8::from(!ok)), limit: 0.0, text });
    }
    Ok(Some(checks))
}

/// Admits the trial, and records the state of the machine before it, and the programs of an `exec:` load.
/// Returns conditions that do not hold, and what changed since the first trial, as flags.
pub(crate) fn record_machine(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
) -> Result<Vec<(&'static str, String)>, Refused> {
    let unfit = admission::admit(conductor, trial, workspace.folder())?;
    let changed = fingerprint::refresh(&mut conductor.environment, &conductor.first);
    let target = conductor.plan.target(&trial.levels, workspace.folder());
    fingerprint::command(&target, &mut conductor.environment);
    let whole = conductor.plan.whole_factors();
    let replaced = conductor.programs.compare(&conductor.environment, &trial.levels, whole);
    let flags = [("admission", unfit), ("machine", changed), ("program", replaced)];
    Ok(flags.into_iter().filter_map(|(name, text)| Some((name, text?))).collect())
}

/// Records what disturbed the measured phase, and tells the user.
fn tell(conductor: &mut Conductor<'_>, trial: &Trial, flags: &BTreeMap<&'static str, String>) {
    surroundings::note(flags, &mut conductor.environment);
    for (name, text) in flags {
        (conductor.on_event)(&Event::Note(&format!("trial {}: {name}: {text}", trial.index + 1)));
    }
}

/// Returns the processes of the server's instances.
pub(crate) fn pids_of(servers: &[Server]) -> Vec<Pid> {
    servers.iter().map(|server| Pid::from_raw(server.pid().cast_signed())).collect()
}

/// Returns the reason that a server counts as dead after the trial; `None` if all still answer.
pub(crate) fn death_of(
    servers: &[Server],
    conductor: &Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
) -> Option<String> {
    if let Some(server) = servers.iter().find(|server| server.has_ended()) {
        return Some(format!("the server ended during the trial{}", server.last_words()));
    }
    let settings = conductor.plan.load_settings(trial, workspace.folder());
    // The addresses of the load are those of all instances; a load without any leaves each its own.
    let of_load = Address::of_load(&settings);
    let lost = servers.iter().enumerate().find_map(|(at, server)| {
        let addresses = if at == 0 { &of_load[..] } else { &[] };
        server.lost(workspace, addresses)
    })?;
    Some(format!("after the trial, {lost}"))
}

/// Warms the server up until it is steady, if the plan says so.
fn warm_up(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    servers: &[Server],
) -> Result<Option<WarmUp>, LoadError> {
    if !conductor.plan.warmup().is_judged() {
        return Ok(None);
    }
    let settings = settings_of(conductor, trial, workspace);
    let observed = Observed {
        pids: pids_of(servers),
        whose: Whose::of(!servers.is_empty(), settings.target.scheme()),
        members: &|| workspace.members(),
        has_ended: &|| servers.iter().any(Server::has_ended),
    };
    let warmed = warm_up::warm_up(&conductor.plan, trial, settings, &observed, conductor.stop)?;
    for note in warmed.not_judged {
        // Each trial lacks the same.
        if conductor.told.insert(note.clone()) {
            (conductor.on_event)(&Event::Note(&note));
        }
    }
    Ok(Some(warmed.warm_up))
}

/// Ends a trial after a failed warm-up, or after a warm-up in which the server died.
fn fail_warming(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    servers: &[Server],
    error: Option<LoadError>,
) -> Result<TrialEnd, RunnerError> {
    if let Some(reason) = death_of(servers, conductor, trial, workspace) {
        conductor.end(trial, Step::TrialFailed { reason: reason.clone() })?;
        return Ok(TrialEnd::ServerDied(reason));
    }
    let why = error.map_or_else(|| "the server ended".to_owned(), |error| told(&error));
    conductor.end(trial, Step::TrialFailed { reason: format!("warm-up: {why}") })?;
    Ok(TrialEnd::Over)
}

/// Results of a measured phase.
pub(crate) struct Measured {
    pub(crate) record: Result<LoadRecord, LoadError>,
    pub(crate) server_cpu: Maybe<ServerCpu>,
    pub(crate) resources: Resources,
    /// Intervals of the load and of the instruments.
    pub(crate) spool: Spool,
    /// The server's own numbers over time.
    pub(crate) series: Vec<Sample>,
    /// Reasons for missing ones, by name.
    pub(crate) missing: BTreeMap<String, Missing>,
    /// Disturbances of the phase, by name.
    pub(crate) flags: BTreeMap<&'static str, String>,
    pub(crate) throttled: Maybe<Throttled>,
    /// Turns of the load, in a design in slices.
    pub(crate) turns: Option<Turns>,
    /// Lets the agents of a fleet remove what they keep.
    pub(crate) release: Option<Release>,
}

/// Returns the settings of the load, with the mark of the series and the levels in the environment of its
/// commands.
pub(crate) fn settings_of(conductor: &Conductor<'_>, trial: &Trial, workspace: &Workspace) -> LoadSettings {
    let mut settings = conductor.plan.load_settings(trial, workspace.folder());
    // The data set was built for the series. If data is missing now, that is an error.
    settings.prepare = PreparePolicy::Never;
    if conductor.plan.fleet().is_some() {
        // A fleet runs no commands.
        return settings;
    }
    // The mark also identifies the commands of an `exec:` load after this process has died.
    let (mark, token) = (VARIABLE, workspace.mark());
    settings.exec.environment.push((mark.to_owned(), token.to_owned()));
    for (factor, level) in &trial.levels {
        settings.exec.environment.push((variable(factor), level.clone()));
    }
    settings
}

/// Adds an agent's numbers of its machine.
fn watched(spooled: &mut Spooled<'_>, event: &Event<'_>) {
    if let Event::Watched(watched) = event {
        spooled.add_watched(watched);
    }
}

/// Runs the load.
fn measure(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    servers: &[Pid],
    (writer, header): (&RunWriter, &RunHeader),
) -> Result<Measured, RunnerError> {
    let folder = workspace.folder();
    let settings = warm_up::shortened(settings_of(conductor, trial, workspace), &conductor.plan);
    let stored = stored_settings(conductor, trial, folder);
    let own_values = own_values(conductor, trial, folder);
    let [watches_memory, watches_cpus] = ["memory", "cpu"].map(|name| is_on(conductor, name));
    let (fleet, client) = (conductor.plan.fleet().cloned(), generator::client_of(&conductor.plan));
    let Conductor { beside, on_event, stop, ledger, secrets, environment, generator, .. } = conductor;
    let here = (environment.fact("host.name").unwrap_or("localhost"), header.anchor);
    let whose = Whose::of(!servers.is_empty(), settings.target.scheme());
    let members = || workspace.members();
    let mut spooled = Spooled::new(beside, writer.spool(), here.0, here.1);
    let mut meter = ServerMeter::of(servers, settings.target.scheme());
    let mut used = ServerUse::of(whose, &members, watches_memory);
    let mut places = ThreadPlaces::of(&members, watches_cpus && fleet.is_none());
    let mut surroundings = Surroundings::of(folder);
    let (mut series, mut missing, mut journaled) = (Vec::new(), BTreeMap::new(), Ok(()));
    let (record, release) = std::thread::scope(|scope| {
        let mut reader = server_values::Reader::start(scope, own_values, workspace, stop);
        let (by, order) = ((fleet.as_ref(), &client), (header.id, &settings, *stop));
        let generated = generator::generate(generator.as_deref(), by, order, &mut |event| {
            watched(&mut spooled, event);
            if let Event::Load(told) = event {
                meter.follow(told);
                surroundings.follow(told);
                used.follow(told);
                places.follow(told);
                spooled.follow(told);
                if let Some(reader) = &mut reader {
                    reader.follow(told);
                }
                if matches!(told, load::Event::PhaseStarts { phase: Phase::Measure, .. }) {
                    // The only line that is written while the load runs: events count from here on.
                    journaled = ledger.say_of_trial(trial, Step::TrialMeasuring);
                }
            }
            on_event(event);
        });
        if let Some(reader) = reader {
            reader.end(here, &mut series, &mut missing);
        }
        generated
    });
    journaled?;
    let resources = used.end(here, &mut series, &mut missing);
    places.end(here, &mut series, &mut missing);
    let server_cpu = meter.end();
    let flags = record
        .as_ref()
        .map_or_else(|_| BTreeMap::new(), |record| surroundings.end(whose, &server_cpu, record));
    Ok(Measured {
        record: record.map(|record| without_secrets(record, stored, secrets)),
        server_cpu,
        flags,
        resources,
        spool: spooled.end_with(&mut missing),
        series,
        missing,
        throttled: beside.take_throttled(),
        turns: None,
        release,
    })
}

/// Whether an instrument of the plan watches the trial.
fn is_on(conductor: &Conductor<'_>, instrument: &str) -> bool {
    conductor.beside.is_on() && conductor.plan.instruments().iter().any(|name| name == instrument)
}

/// Returns the settings of a trial's load for storage: with the references of the plan.
fn stored_settings(conductor: &Conductor<'_>, trial: &Trial, folder: &Path) -> LoadSettings {
    let stored = conductor.public.load_settings(trial, folder);
    warm_up::shortened(LoadSettings { prepare: PreparePolicy::Never, ..stored }, &conductor.plan)
}

/// Returns the commands for the numbers over time of each instance; none in a block without instruments.
fn own_values(conductor: &Conductor<'_>, trial: &Trial, folder: &Path) -> Vec<Vec<plan::ServerValues>> {
    if conductor.beside.is_on() || conductor.plan.instruments().is_empty() {
        let of_instance = |number| conductor.plan.server_values(&trial.levels, folder, number);
        return of_instances(conductor, trial).map(of_instance).collect();
    }
    Vec::new()
}

/// Returns the record for storage: with the references of the plan, and without secrets in any text.
pub(crate) fn without_secrets(mut record: LoadRecord, stored: LoadSettings, secrets: &Secrets) -> LoadRecord {
    record.settings = stored;
    hide_in(&mut record, secrets);
    if let Some(OfProbe { record: Ok(probe), .. }) = &mut record.probe {
        let LoadSettings { pace, threads, connections, seed, warmup, ramp_up, ramp_down, .. } =
            probe.settings.clone();
        let of_all = record.settings.clone();
        probe.settings =
            LoadSettings { pace, threads, connections, seed, warmup, ramp_up, ramp_down, ..of_all };
        hide_in(probe, secrets);
    }
    record
}

fn hide_in(record: &mut LoadRecord, secrets: &Secrets) {
    for text in &mut record.error_samples {
        *text = secrets.hide(text);
    }
    for check in &mut record.verdict.checks {
        check.text = secrets.hide(&check.text);
    }
}

/// Runs the plan's commands for values that a clock does not measure.
fn values(
    conductor: &Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    anchor: WallAnchor,
) -> Result<Vec<Sample>, StepFailure> {
    let host = conductor.environment.fact("host.name").unwrap_or("localhost");
    let asked = conductor.plan.values(&trial.levels, workspace.folder()).into_iter();
    asked
        .map(|(name, step)| {
            let value = step::number(&name, &step, workspace, conductor.stop)?;
            let t_ms = i64::try_from((WallAnchor::now().monotonic_ns - anchor.monotonic_ns) / 1_000_000)
                .expect("a trial is short");
            Ok(Sample { t_ms, host: host.into(), name: name.into(), labels: Sample::OF_TRIAL.into(), value })
        })
        .collect()
}

/// Waits for the cool-down. A request to stop ends it early, also one to stop after the trial, which has its
/// result already.
pub(crate) fn cool_down(conductor: &Conductor<'_>) {
    let _ = wait_for(conductor.plan.cooldown(), conductor.stop, || conductor.stop.is_last_trial());
}

fn seal(
    conductor: &mut Conductor<'_>,
    trial: &Trial,
    workspace: &Workspace,
    (mut writer, spool): (RunWriter, &Spool),
    mut run: Run,
    servers: &mut [Server],
) -> Result<(), RunnerError> {
    for (number, server) in (1..).zip(servers) {
        let log = server
            .new_log()
            .map_err(|source| RunnerError::Scratch { path: workspace.folder().to_owned(), source })?;
        writer.add_file(&log_name(number), &mut conductor.secrets.hide_in(log))?;
    }
    let verdict = &run.load.as_ref().expect("the caller has measured").verdict;
    let reasons: Vec<&str> = verdict.failures().map(|check| check.text.as_str()).collect();
    let reason = (verdict.state == Validity::Invalid).then(|| reasons.join("; "));
    run.header = run.header.ended(reason.clone());
    let id = run.header.id;
    writer.seal_with(&run, spool)?;
    // A process that dies between these two lines leaves a complete run, which the next process adopts.
    conductor.end(
        trial,
        match reason {
            None => Step::TrialSealed { run: id },
            Some(reason) => Step::TrialInvalid { run: id, reason },
        },
    )
}

pub(crate) fn header(conductor: &Conductor<'_>, trial: &Trial) -> RunHeader {
    let title = format!("{}, block {}", conductor.plan.title(), trial.block);
    let is_control = !conductor.plan.is_observed(trial.block);
    let marks = marks(&conductor.plan, conductor.beside_others).chain(is_control.then(|| mark(CONTROL_ARM)));
    conductor.ledger.header_of(trial, (RunKind::Load, WallAnchor::now()), &title, marks)
}
