//! One series: a fresh server, its trials, and its teardown, which always runs.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use archive::Step;
use load::{LoadError, Stop};
use plan::Prepare;
use record::bakeoff::{Trial, TrialState};
use record::load::PreparePolicy;
use record::target::mask_text;

use crate::conductor::Conductor;
use crate::control_group::Limits;
use crate::error::RunnerError;
use crate::fingerprint;
use crate::listener::Address;
use crate::queue::Work;
use crate::server::{Server, ServerFailure};
use crate::step::{self, StepFailure};
use crate::trial::{self, TrialEnd};
use crate::workspace::{Inherit, Layout, Workspace};
use crate::{Event, build};

/// Way to run a command.
type RunStep = fn(&str, &plan::Step, &Workspace, &Stop) -> Result<(), StepFailure>;

/// End of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesEnd {
    /// All its trials have ended, or some of them must be done on another server.
    Over,
    /// The user requested to stop.
    Stopped,
}

/// Reason that a series ended early.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The setup failed: none of its trials can be measured.
    NoSeries(String),
    /// The server died during a trial, which was recorded with the trial.
    ServerDied(String),
    /// The user requested to stop.
    Stopped,
    /// The bake-off itself cannot continue.
    Ours(RunnerError),
}

impl From<RunnerError> for Trouble {
    fn from(error: RunnerError) -> Self {
        Self::Ours(error)
    }
}

/// Action for a trial on a server that is ready.
pub(crate) type OnTrial<'a> =
    &'a mut dyn FnMut(&mut Conductor<'_>, &Trial, &Workspace, &mut [Server]) -> Result<TrialEnd, RunnerError>;

/// Purpose of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To measure its trials.
    Trials,
    /// To find a rate on the configuration of its trial. Nothing of it is a trial.
    Search,
}

/// Conducts the remaining work of a series.
pub(crate) fn conduct(conductor: &mut Conductor<'_>, work: Work) -> Result<SeriesEnd, RunnerError> {
    conductor.observe_block(work.block);
    play(conductor, work, Purpose::Trials, &mut trial::conduct)
}

/// Conducts a search for a rate on a fresh server.
///
/// # Errors
///
/// [`RunnerError::NoRate`] if there is no server, or the search fails.
pub(crate) fn conduct_search(
    conductor: &mut Conductor<'_>,
    work: Work,
    each: OnTrial<'_>,
) -> Result<SeriesEnd, RunnerError> {
    play(conductor, work, Purpose::Search, each)
}

fn play(
    conductor: &mut Conductor<'_>,
    work: Work,
    purpose: Purpose,
    each: OnTrial<'_>,
) -> Result<SeriesEnd, RunnerError> {
    let Some(mut series) = Series::open(conductor, work, purpose)? else { return Ok(SeriesEnd::Over) };
    let trouble = series.measure(conductor, each).err();
    let torn_down = series.tear_down(conductor);
    series.conclude(conductor, trouble, torn_down)
}

/// A series that is alive.
pub(crate) struct Series {
    pub(crate) work: Work,
    /// Number of the attempt at this series, from 1.
    attempt: u32,
    pub(crate) workspace: Workspace,
    /// Folders of the instances. Their names may lead elsewhere once a process of their account runs.
    folders: Vec<Arc<OwnedFd>>,
    pub(crate) servers: Vec<Server>,
    purpose: Purpose,
}

impl Series {
    /// Opens the workspace. `None` if that fails: then its trials have failed.
    pub(crate) fn open(
        conductor: &mut Conductor<'_>,
        work: Work,
        purpose: Purpose,
    ) -> Result<Option<Self>, RunnerError> {
        let attempts = work.trials.iter().map(|t| conductor.ledger.history.next_attempt(t.index));
        let attempt = attempts.max().expect("work has trials");
        let layout = Layout::fresh(conductor.account);
        conductor.say_of_series(work.series, attempt, layout.step())?;
        let levels = first(&work.trials).levels.clone();
        let whole: Vec<&str> = conductor.plan.whole_factors().collect();
        let levels = levels.into_iter().filter(|(name, _)| whole.contains(&name.as_str())).collect();
        let levels = build::with_folder(levels, &conductor.plan);
        let inherit =
            if conductor.plan.inherits_environment() { Inherit::Everything } else { Inherit::Little };
        let workspace = match Workspace::open(layout, inherit, &levels) {
            Ok(workspace) => workspace,
            Err(error) if purpose == Purpose::Trials => {
                fail_all(conductor, &work, attempt, &told(&error))?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        conductor.settings_at_first = None;
        Ok(Some(Self { attempt, workspace, folders: Vec::new(), servers: Vec::new(), work, purpose }))
    }

    fn measure(&mut self, conductor: &mut Conductor<'_>, each: OnTrial<'_>) -> Result<(), Trouble> {
        self.begin(conductor)?;
        for trial in self.work.trials.clone() {
            may_go_on(conductor)?;
            match each(conductor, &trial, &self.workspace, &mut self.servers)? {
                TrialEnd::Over => {}
                TrialEnd::Stopped => return Err(Trouble::Stopped),
                TrialEnd::ServerDied(reason) => return Err(Trouble::ServerDied(reason)),
            }
        }
        Ok(())
    }

    /// Sets up, starts the servers and builds the data set.
    pub(crate) fn begin(&mut self, conductor: &mut Conductor<'_>) -> Result<(), Trouble> {
        self.set_up(conductor)?;
        may_go_on(conductor)?;
        self.start(conductor)?;
        may_go_on(conductor)?;
        self.prepare(conductor)
    }

    fn set_up(&mut self, conductor: &mut Conductor<'_>) -> Result<(), Trouble> {
        self.say(conductor, "setup", Step::SeriesSetup)?;
        let (cpus, memory_bytes) = conductor.plan.limits();
        self.workspace.limit(&Limits { cpus, memory_bytes }).map_err(Trouble::NoSeries)?;
        let scratch = self.workspace.folder().to_owned();
        let specs = conductor.plan.servers(self.levels(), &scratch);
        // All folders and files exist before the first process of their account runs.
        let instances = conductor.plan.instances(self.levels());
        for number in 1..=instances {
            let folder = conductor.plan.instance_folder(self.levels(), &scratch, number);
            let failed = |e: std::io::Error| cannot_write(&folder, &e);
            let open = if folder == scratch {
                self.workspace.descriptor()
            } else {
                self.workspace.make_folder(&folder).map_err(failed)?
            };
            for (name, text) in specs.get(number as usize - 1).iter().flat_map(|spec| &spec.files) {
                self.workspace.write_file(&open, name, text).map_err(failed)?;
            }
            self.folders.push(open);
        }
        for number in 1..=instances {
            if let Some(step) = conductor.plan.setup(self.levels(), &scratch, number) {
                self.run_step(conductor, "setup", &step, step::run_before_servers)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, conductor: &mut Conductor<'_>) -> Result<(), Trouble> {
        let scratch = self.workspace.folder().to_owned();
        let specs = conductor.plan.servers(self.levels(), &scratch);
        if specs.is_empty() {
            return Ok(());
        }
        self.say(conductor, "start", Step::SeriesStart)?;
        let stop = conductor.stop;
        let addresses = self.addresses(conductor);
        // The load's addresses belong to all instances: before the first one starts, none may answer.
        for ((number, spec), folder) in (1_u32..).zip(specs).zip(&self.folders) {
            let none_yet: &[Address] = if number == 1 { &addresses } else { &[] };
            let place = (folder.clone(), &*log_name(number));
            let server = Server::start(spec, place, &self.workspace, none_yet, stop);
            self.servers.push(server.map_err(|failure| no_server(failure, number))?);
        }
        for (number, server) in (1_u32..).zip(&self.servers) {
            // Only when all are ready must all addresses of the load answer.
            let all: &[Address] = if number as usize == self.servers.len() { &addresses } else { &[] };
            let ready = server.wait_until_ready(&self.workspace, all, stop);
            ready.map_err(|failure| no_server(failure, number))?;
        }
        let listeners = self.servers[0].listeners(&self.workspace, &addresses);
        fingerprint::server(&listeners, &mut conductor.environment);
        self.record_configuration(conductor);
        self.say(conductor, "ready", Step::SeriesReady)
    }

    /// Records what the servers were started with, with the scratch folder as the plan writes it: the page
    /// shows what differs between configurations.
    fn record_configuration(&self, conductor: &mut Conductor<'_>) {
        let facts: Vec<(String, String)> = conductor
            .public
            .servers(self.levels(), Path::new("{scratch}"))
            .into_iter()
            .take(1)
            .flat_map(|spec| {
                let words = std::iter::once(spec.command.program).chain(spec.command.arguments);
                let command = ("server.command".to_owned(), record::run::command_line(words));
                let variables =
                    spec.environment.into_iter().map(|(name, value)| (format!("server.env.{name}"), value));
                let files = spec.files.into_iter().map(|(name, text)| (format!("server.file.{name}"), text));
                std::iter::once(command).chain(variables).chain(files).collect::<Vec<_>>()
            })
            .collect();
        let whole: Vec<&str> = conductor.plan.whole_factors().collect();
        let mut levels = self.levels().clone();
        levels.retain(|name, _| whole.contains(&name.as_str()));
        let built = build::fact(&conductor.environment, &levels).map(str::to_owned);
        let environment = &mut conductor.environment.facts;
        environment.retain(|name, _| !CONFIGURATION.iter().any(|prefix| name.starts_with(prefix)));
        environment.extend(facts.into_iter().map(|(name, value)| (name, Ok(mask_text(&value)))));
        environment.extend(built.map(|text| (BUILD.to_owned(), Ok(text))));
    }

    /// Returns the addresses that the loads of the series connect to.
    fn addresses(&self, conductor: &Conductor<'_>) -> Vec<Address> {
        let mut addresses = Vec::new();
        for trial in &self.work.trials {
            let settings = conductor.plan.load_settings(trial, self.workspace.folder());
            for address in Address::of_load(&settings) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        addresses
    }

    fn prepare(&self, conductor: &mut Conductor<'_>) -> Result<(), Trouble> {
        self.say(conductor, "prepare", Step::SeriesPrepare)?;
        for number in 1..=conductor.plan.instances(self.levels()) {
            match conductor.plan.prepare(self.levels(), self.workspace.folder(), number) {
                Prepare::Nothing => {}
                Prepare::Run(step) => self.run_step(conductor, "prepare", &step, step::run)?,
                Prepare::Builtin => return self.build_data(conductor),
            }
        }
        Ok(())
    }

    /// Builds the data set of every target of the trials: usually one.
    fn build_data(&self, conductor: &mut Conductor<'_>) -> Result<(), Trouble> {
        let mut built = Vec::new();
        for trial in &self.work.trials {
            let mut settings = conductor.plan.load_settings(trial, self.workspace.folder());
            // Of a script's tables, only the script knows whether they are those of its options.
            let is_lua = settings.scripts.is_lua();
            settings.prepare = if is_lua { PreparePolicy::Always } else { PreparePolicy::Auto };
            if built.contains(&settings.target) {
                continue;
            }
            may_go_on(conductor)?;
            let on_event = &mut *conductor.on_event;
            match load::prepare(&settings, conductor.stop, &mut |event| on_event(&Event::Load(event))) {
                Ok(_) => built.push(settings.target),
                Err(LoadError::Interrupted) => return Err(Trouble::Stopped),
                Err(error) => return Err(Trouble::NoSeries(format!("prepare: {}", told(&error)))),
            }
        }
        Ok(())
    }

    /// Ends the server and all other processes, and removes the folder, after any outcome.
    pub(crate) fn tear_down(&mut self, conductor: &mut Conductor<'_>) -> Result<(), RunnerError> {
        let said = self.say_plainly(conductor, "teardown", Step::SeriesTeardown);
        let stop = conductor.stop;
        for server in std::mem::take(&mut self.servers) {
            if let Err(why) = server.end(stop) {
                let text = format!("the server of series {}: {why}", self.work.series);
                let text = mask_text(&conductor.secrets.hide(&text));
                (conductor.on_event)(&Event::Note(&text));
            }
        }
        for note in self.workspace.close() {
            (conductor.on_event)(&Event::Note(&mask_text(&note)));
        }
        said
    }

    /// Records the end of the series.
    pub(crate) fn conclude(
        self,
        conductor: &mut Conductor<'_>,
        trouble: Option<Trouble>,
        torn_down: Result<(), RunnerError>,
    ) -> Result<SeriesEnd, RunnerError> {
        let Self { work, attempt, purpose, .. } = self;
        match trouble {
            Some(Trouble::NoSeries(reason) | Trouble::ServerDied(reason)) if purpose == Purpose::Search => {
                torn_down?;
                let step = Step::SeriesFailed { reason: reason.clone() };
                conductor.say_of_series(work.series, attempt, step)?;
                Err(RunnerError::NoRate { reason })
            }
            None => torn_down.map(|()| SeriesEnd::Over),
            Some(Trouble::Ours(error)) => Err(error),
            Some(Trouble::Stopped) => torn_down.map(|()| SeriesEnd::Stopped),
            Some(Trouble::ServerDied(reason)) => {
                torn_down?;
                conductor.say_of_series(work.series, attempt, Step::SeriesFailed { reason })?;
                Ok(SeriesEnd::Over)
            }
            Some(Trouble::NoSeries(reason)) => {
                torn_down?;
                fail_all(conductor, &work, attempt, &reason)?;
                Ok(SeriesEnd::Over)
            }
        }
    }

    fn run_step(
        &self,
        conductor: &Conductor<'_>,
        name: &str,
        step: &plan::Step,
        run: RunStep,
    ) -> Result<(), Trouble> {
        run(name, step, &self.workspace, conductor.stop).map_err(|failure| match failure {
            StepFailure::Failed(why) => Trouble::NoSeries(why),
            StepFailure::Stopped => Trouble::Stopped,
        })
    }

    fn say(&self, conductor: &mut Conductor<'_>, word: &'static str, step: Step) -> Result<(), Trouble> {
        Ok(self.say_plainly(conductor, word, step)?)
    }

    fn say_plainly(
        &self,
        conductor: &mut Conductor<'_>,
        word: &'static str,
        step: Step,
    ) -> Result<(), RunnerError> {
        let (series, block) = (self.work.series, self.work.block);
        (conductor.on_event)(&Event::Series { series, block, step: word });
        conductor.say_of_series(series, self.attempt, step)
    }

    fn levels(&self) -> &record::bakeoff::Levels {
        // All trials of a series have the same level of each whole-plot factor, and only those factors are
        // used here.
        &first(&self.work.trials).levels
    }
}

/// Records that none of the series' trials could be measured.
fn fail_all(
    conductor: &mut Conductor<'_>,
    work: &Work,
    attempt: u32,
    reason: &str,
) -> Result<(), RunnerError> {
    conductor.say_of_series(work.series, attempt, Step::SeriesFailed { reason: reason.to_owned() })?;
    for trial in &work.trials {
        assert!(conductor.ledger.history.state(trial.index) == TrialState::Planned, "none was begun");
        conductor.end(trial, Step::TrialFailed { reason: reason.to_owned() })?;
    }
    Ok(())
}

fn first(trials: &[Trial]) -> &Trial {
    trials.first().expect("work has trials")
}

/// Fact about what a server was built from.
const BUILD: &str = "server.build";

/// Prefixes of the facts about what a server was started with.
const CONFIGURATION: [&str; 4] = ["server.command", "server.env.", "server.file.", BUILD];

/// Name of the log of an instance.
pub(crate) fn log_name(number: u32) -> String {
    if number == 1 { "server.log".to_owned() } else { format!("server-{number}.log") }
}

fn cannot_write(folder: &Path, error: &std::io::Error) -> Trouble {
    Trouble::NoSeries(format!("cannot write {}: {error}", folder.display()))
}

fn no_server(failure: ServerFailure, number: u32) -> Trouble {
    let which = if number == 1 { String::new() } else { format!(" {number}") };
    match failure {
        ServerFailure::Failed(why) => Trouble::NoSeries(format!("the server{which}: {why}")),
        ServerFailure::Stopped => Trouble::Stopped,
    }
}

/// Returns an error with its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}

/// Checks between two steps that the user has not asked to stop, at once or after the trial.
fn may_go_on(conductor: &Conductor<'_>) -> Result<(), Trouble> {
    if conductor.stop.is_last_trial() { Err(Trouble::Stopped) } else { Ok(()) }
}
