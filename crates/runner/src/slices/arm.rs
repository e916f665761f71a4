//! One series of a block in slices: its server, which is frozen between its turns, and its load.
//!
//! The load plays in a separate thread and rests between turns with its connections open. The conductor's
//! thread opens and closes the turns, so no two arms work at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use archive::{RunWriter, Spool, Step};
use load::{Attachments, LoadError, Stop, StopLevel, Turns};
use plan::Slices;
use record::bakeoff::Trial;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::environment::Environment;
use record::limits::Throttled;
use record::load::{LoadRecord, LoadSettings, Phase, PreparePolicy};
use record::missing::{Maybe, Missing};
use record::resources::Resource;
use record::run::RunHeader;
use record::verdict::Validity;

use super::edges::edges;
use crate::admission::Refused;
use crate::beside::Beside;
use crate::conductor::Conductor;
use crate::control_group::ControlGroup;
use crate::error::RunnerError;
use crate::generator;
use crate::machine::Machine;
use crate::series::{Series, Trouble, told};
use crate::server::Server;
use crate::server_cpu::ServerMeter;
use crate::server_settings::Settings;
use crate::server_use::Whose;
use crate::surroundings::Surroundings;
use crate::trial::{self, Before, Measured, TrialEnd, pids_of};
use crate::{Event, Spooled};

/// Least time limit for the events in flight at the end of a turn.
const PATIENCE_MIN: Duration = Duration::from_secs(10);
/// Interval at which a request to stop is checked.
const LOOK: Duration = Duration::from_millis(50);

/// State of the trial before its load begins.
pub(super) struct Begun {
    trial: Trial,
    group: Arc<ControlGroup>,
    header: RunHeader,
    writer: RunWriter,
    before: Before,
}

impl Begun {
    /// Begins the trial of a series that is ready.
    pub(super) fn of(conductor: &mut Conductor<'_>, series: &Series) -> Result<Self, Trouble> {
        let Some(group) = series.workspace.control_group().cloned() else {
            let why = "its server cannot be frozen: no control group could be created";
            return Err(Trouble::NoSeries(why.to_owned()));
        };
        let trial = series.work.trials.first().expect("work has trials").clone();
        (conductor.on_event)(&Event::Trial(&trial));
        let changed = match trial::record_machine(conductor, &trial, &series.workspace) {
            Ok(changed) => changed,
            Err(Refused::Stopped) => return Err(Trouble::Stopped),
            Err(Refused::Failed(reason)) => return Err(Trouble::NoSeries(reason)),
        };
        let settings = trial::settings(conductor, &trial, &series.workspace);
        settings.note(&mut conductor.environment);
        conductor.settings_at_first.get_or_insert_with(|| settings.clone());
        let machine = conductor.machine.as_ref().map(Machine::look);
        let header = trial::header(conductor, &trial);
        let writer = conductor.archive.begin(&header).map_err(RunnerError::from)?;
        conductor.ledger.say_of_trial(&trial, Step::TrialWarming)?;
        let before = Before { warm_up: None, machine, changed, settings };
        Ok(Self { trial, group, header, writer, before })
    }
}

/// A series that is alive, with its load.
pub(super) struct Arm {
    pub(super) series: Series,
    trial: Trial,
    group: Arc<ControlGroup>,
    /// Taken when the trial is stored.
    stored: Option<(RunWriter, RunHeader, Before)>,
    /// State of the conductor that belongs to this series.
    environment: Environment,
    settings_at_first: Option<Settings>,
    load: Load,
    meter: ServerMeter,
    /// CPU time of the server at both ends of each turn.
    readings: Vec<Maybe<(u64, u64)>>,
    turns: u32,
    /// Number of arms when the turns began.
    arms: u32,
    /// Reason that the trial has failed.
    lost: Option<String>,
}

impl Arm {
    /// Connects the load, and freezes the server.
    pub(super) fn connect(conductor: &Conductor<'_>, series: Series, begun: Begun) -> Self {
        let Begun { trial, group, header, writer, before } = begun;
        let pids = pids_of(&series.servers);
        let settings = trial::settings_of(conductor, &trial, &series.workspace);
        let meter = ServerMeter::of(&pids, settings.target.scheme());
        let following = Following {
            meter: ServerMeter::of(&pids, settings.target.scheme()),
            surroundings: Surroundings::of(series.workspace.folder()),
            spool: writer.spool(),
            host: conductor.environment.fact("host.name").unwrap_or("localhost").to_owned(),
            anchor: header.anchor,
        };
        let mut arm = Self {
            series,
            trial,
            group,
            stored: Some((writer, header, before)),
            environment: conductor.environment.clone(),
            settings_at_first: conductor.settings_at_first.clone(),
            load: Load::begin(settings, generator::client_of(&conductor.plan), following),
            meter,
            readings: Vec::new(),
            turns: 0,
            arms: 0,
            lost: None,
        };
        arm.load.await_connections(conductor.stop);
        if arm.load.is_playing() && !conductor.stop.is_requested() {
            let rested = arm.load.rest(&|| !conductor.stop.is_requested() && !is_dead(&arm.series.servers));
            let frozen = rested.and_then(|()| arm.group.freeze());
            arm.lost = frozen.err();
        }
        arm
    }

    /// Whether its load takes further turns.
    pub(super) fn is_playing(&mut self) -> bool {
        self.lost.is_none() && self.load.is_playing()
    }

    /// Returns the CPU time that the server has used so far, in seconds; 0 if it is unknown.
    pub(super) fn server_s(&self) -> f64 {
        self.meter.of_group_ns().map_or(0.0, |ns| ns as f64 * 1e-9)
    }

    /// Plays one turn. The server is frozen before and after it.
    ///
    /// - `arms`: number of arms that take turns.
    pub(super) fn turn(
        &mut self,
        conductor: &mut Conductor<'_>,
        slices: Slices,
        arms: u32,
    ) -> Result<(), RunnerError> {
        self.arms = arms;
        if let Err(why) = self.try_turn(slices, conductor.stop) {
            let dead = self.series.servers.iter().find(|server| server.has_ended());
            let of_dead =
                dead.map(|server| format!("the server ended during the trial{}", server.last_words()));
            self.lost = Some(of_dead.unwrap_or(why));
        }
        // The line is written while everything rests.
        if std::mem::take(&mut self.load.has_just_begun) {
            conductor.ledger.say_of_trial(&self.trial, Step::TrialMeasuring)?;
        }
        Ok(())
    }

    fn try_turn(&mut self, slices: Slices, stop: &Stop) -> Result<(), String> {
        let hopes = || !stop.is_requested() && !is_dead(&self.series.servers);
        self.group.thaw()?;
        self.load.settle(slices.settle, &hopes)?;
        let opened = self.meter.of_group_ns();
        self.load.turns.open();
        self.turns += 1;
        self.load.play(slices.slice, stop);
        let rested = self.load.rest(&hopes);
        self.readings.push(opened.and_then(|opened| Ok((opened, self.meter.of_group_ns()?))));
        rested?;
        if is_dead(&self.series.servers) {
            return Err("the server ended during the trial".to_owned());
        }
        self.group.freeze()
    }

    /// Lets the server run, and ends the load: early if its trial has failed or the user stopped it.
    pub(super) fn end_load(&mut self, stop: &Stop) {
        if let Err(why) = self.group.thaw() {
            self.lost.get_or_insert(why);
        }
        let is_early = self.lost.is_some() || stop.is_requested() || self.load.is_playing();
        self.load.end(is_early, stop);
    }

    /// Ends the trial: stores it, or records its failure.
    ///
    /// - `throttled`, `other_work`: of all turns of the block.
    pub(super) fn store(
        &mut self,
        conductor: &mut Conductor<'_>,
        slices: Slices,
        (throttled, other_work): (Maybe<Throttled>, Option<(&'static str, String)>),
    ) -> Result<TrialEnd, RunnerError> {
        std::mem::swap(&mut conductor.environment, &mut self.environment);
        std::mem::swap(&mut conductor.settings_at_first, &mut self.settings_at_first);
        let (trial, workspace) = (&self.trial, &self.series.workspace);
        let (Some(stored), Some(played)) = (self.stored.take(), self.load.played.take()) else {
            return Ok(TrialEnd::Stopped);
        };
        if let Some(reason) = self.lost.take() {
            conductor.end(trial, Step::TrialFailed { reason: reason.clone() })?;
            return Ok(TrialEnd::ServerDied(reason));
        }
        if let Some(reason) = trial::death_of(&self.series.servers, conductor, trial, workspace) {
            conductor.end(trial, Step::TrialFailed { reason: reason.clone() })?;
            return Ok(TrialEnd::ServerDied(reason));
        }
        let record = match played.record {
            Err(LoadError::Interrupted) => return Ok(TrialEnd::Stopped),
            Ok(record) if record.verdict.state == Validity::Interrupted => return Ok(TrialEnd::Stopped),
            Err(error) => {
                conductor.end(trial, Step::TrialFailed { reason: told(&error) })?;
                return Ok(TrialEnd::Over);
            }
            Ok(record) => record,
        };
        let Following { meter, surroundings, spool, .. } = played.following;
        let from_ns = record.measured_from_ns;
        let until_ns = from_ns + u64::try_from(record.measured.as_nanos()).unwrap_or(u64::MAX - from_ns);
        let server_cpu = meter.end_of_turns(&self.readings, (from_ns, until_ns));
        let mut flags = surroundings.end(Whose::Nobody, &server_cpu, &record);
        flags.extend(other_work);
        flags.extend(edges(slices.slice, &record.service.merged()).map(|text| ("slices", text)));
        let public = conductor.public.load_settings(trial, workspace.folder());
        let public = LoadSettings { prepare: PreparePolicy::Never, ..public };
        let unread = || Err(Missing::because("not measured in slices"));
        let measured = Measured {
            record: Ok(trial::without_secrets(record, public, &conductor.secrets)),
            server_cpu,
            resources: [(Resource::Read, unread()), (Resource::Written, unread())].into(),
            spool,
            series: Vec::new(),
            missing: BTreeMap::new(),
            flags,
            throttled,
            release: None,
            turns: Some(record::turns::Turns {
                count: self.turns,
                slice: slices.slice,
                settle: slices.settle,
                series: self.arms,
            }),
        };
        trial::store(conductor, trial, workspace, measured, stored, &mut self.series.servers)
    }
}

/// Whether an instance of the server has ended.
fn is_dead(servers: &[Server]) -> bool {
    servers.iter().any(Server::has_ended)
}

/// Message of the load's thread.
enum Told {
    /// All connections are made.
    Connected,
    /// The measured phase begins.
    Measures,
}

/// Followers of a load, in its thread.
struct Following {
    meter: ServerMeter,
    surroundings: Surroundings,
    spool: Spool,
    host: String,
    anchor: WallAnchor,
}

/// Result of a load.
struct Played {
    record: Result<LoadRecord, LoadError>,
    following: Following,
}

/// A load in its thread.
struct Load {
    turns: Arc<Turns>,
    stop: Arc<Stop>,
    told: Receiver<Told>,
    thread: Option<JoinHandle<Played>>,
    played: Option<Played>,
    patience: Duration,
    is_over: bool,
    /// Whether the measured phase has begun, which was not journaled yet.
    has_just_begun: bool,
}

impl Load {
    fn begin(settings: LoadSettings, client: Attachments, mut following: Following) -> Self {
        let (turns, stop) = (Arc::new(Turns::begun(settings.threads)), Arc::new(Stop::new()));
        let (tell, told) = mpsc::channel();
        let patience = settings.drain.max(PATIENCE_MIN);
        let (its_turns, its_stop) = (Arc::clone(&turns), Arc::clone(&stop));
        let body = move || {
            let attachments = Attachments { turns: Some(Arc::clone(&its_turns)), ..client };
            // Instruments observe the machine, on which the arms take turns: none is open.
            let mut beside = Beside::new(false);
            let Following { meter, surroundings, spool, host, anchor } = &mut following;
            let empty = Spool::temporary();
            let mut spooled = Spooled::new(&mut beside, std::mem::replace(spool, empty), host, *anchor);
            let record = load::run_with(&settings, &attachments, &its_stop, &mut |event| {
                meter.follow(event);
                surroundings.follow(event);
                spooled.follow(event);
                // If the conductor does not listen any more, it has given this load up.
                let _ = match event {
                    load::Event::Connected { made, of, .. } if made == of => tell.send(Told::Connected),
                    load::Event::PhaseStarts { phase: Phase::Measure, .. } => tell.send(Told::Measures),
                    _ => Ok(()),
                };
            });
            *spool = spooled.end();
            its_turns.end();
            Played { record, following }
        };
        let thread = thread::Builder::new().name("arm".to_owned()).spawn(body);
        let thread = thread.expect("the system has room for a thread for each series");
        Self {
            turns,
            stop,
            told,
            thread: Some(thread),
            played: None,
            patience,
            is_over: false,
            has_just_begun: false,
        }
    }

    /// Waits until all connections are made, or the load has ended.
    fn await_connections(&mut self, stop: &Stop) {
        while !stop.is_requested() {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Connected) => return,
                Ok(Told::Measures) => self.has_just_begun = true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    /// Whether it has not ended.
    fn is_playing(&mut self) -> bool {
        loop {
            match self.told.try_recv() {
                Ok(Told::Connected) => {}
                Ok(Told::Measures) => self.has_just_begun = true,
                Err(TryRecvError::Empty) => return !self.is_over,
                Err(TryRecvError::Disconnected) => {
                    self.is_over = true;
                    return false;
                }
            }
        }
    }

    /// Lets it play for a time that does not count.
    fn settle(&self, time: Duration, hopes: &dyn Fn() -> bool) -> Result<(), String> {
        let settled = time.is_zero() || self.turns.settle(time, self.patience, hopes);
        if settled { Ok(()) } else { Err(self.late()) }
    }

    /// Waits for the end of the slice, of the load, or of the user's patience.
    fn play(&mut self, slice: Duration, stop: &Stop) {
        let until_ns = Monotonic.now_ns() + u64::try_from(slice.as_nanos()).expect("half a second at most");
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(Monotonic.now_ns()));
            if left.is_zero() || stop.is_requested() {
                return;
            }
            match self.told.recv_timeout(left.min(LOOK)) {
                Ok(Told::Measures) => self.has_just_begun = true,
                Ok(Told::Connected) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    /// Waits until no event is in flight.
    fn rest(&self, hopes: &dyn Fn() -> bool) -> Result<(), String> {
        if self.turns.close(self.patience, hopes) { Ok(()) } else { Err(self.late()) }
    }

    fn late(&self) -> String {
        format!("events in flight at the end of a turn did not end within {:?}", self.patience)
    }

    /// Ends it and takes its result.
    ///
    /// - `is_early`: before the end of its measured phase.
    /// - `stop`: the user's. A second request ends the events in flight at once.
    fn end(&mut self, is_early: bool, stop: &Stop) {
        let Some(thread) = self.thread.take() else { return };
        if is_early {
            self.stop.request();
        }
        while !thread.is_finished() {
            if stop.level() == StopLevel::Now && self.stop.level() != StopLevel::Now {
                self.stop.request();
            }
            Monotonic.sleep_until_ns(Monotonic.now_ns() + 5_000_000);
        }
        self.is_over = true;
        match thread.join() {
            Ok(played) => self.played = Some(played),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Load {
    /// A load that nothing waits for any more ends.
    fn drop(&mut self) {
        self.stop.request();
        self.stop.request();
    }
}
