//! A plan as meant: what the runner, the archive and the page ask of it.

use std::path::Path;
use std::time::Duration;

use record::bakeoff::{Factor, Judge, Levels, Metric, Page, Plot, Trial, blocks_min};
use record::command_line;
use record::load::{LoadSettings, PreparePolicy};
use record::target::Target;

use crate::error::Place;
use crate::load::{Beside, LoadKeys};
use crate::secret::Reference;
use crate::template::{Template, Templated};
use crate::{matrix, order};

/// A plan that can be executed.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) sha256: String,
    pub(crate) title: String,
    pub(crate) question: String,
    pub(crate) factors: Vec<Factor>,
    pub(crate) blocks: u32,
    pub(crate) seed: u64,
    pub(crate) time_budget: Option<Duration>,
    pub(crate) load: LoadKeys,
    pub(crate) server: Option<ServerPlan>,
    pub(crate) setup: Option<RunPlan>,
    pub(crate) prepare: PreparePlan,
    pub(crate) warmup: Warmup,
    pub(crate) measure: Duration,
    pub(crate) interval: Duration,
    pub(crate) cooldown: Duration,
    pub(crate) instruments: Vec<String>,
    pub(crate) control_arm: bool,
    pub(crate) values: Vec<(String, RunPlan)>,
    pub(crate) judge: Judge,
    pub(crate) gates: Vec<Gate>,
    pub(crate) sponsor: Option<String>,
    pub(crate) tuning: Option<String>,
    pub(crate) notes_path: Option<String>,
    pub(crate) resolved: Vec<Resolved>,
    pub(crate) remarks: Vec<Note>,
    pub(crate) unbuilt: Vec<Note>,
    pub(crate) shortened: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct ServerPlan {
    pub(crate) command: Templated<Command>,
    pub(crate) ready: Templated<Ready>,
    pub(crate) ready_timeout: Duration,
    pub(crate) stop: StopSignal,
    pub(crate) stop_timeout: Duration,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) user: Option<String>,
    pub(crate) inherit_env: bool,
    pub(crate) environment: Vec<EnvPlan>,
}

/// A variable, and for which configurations it is: `None` for all, else a factor and its value.
#[derive(Debug, Clone)]
pub(crate) struct EnvPlan {
    pub(crate) only: Option<(String, String)>,
    pub(crate) name: String,
    pub(crate) value: Templated<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) run: Templated<String>,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum PreparePlan {
    Builtin,
    Nothing,
    Run(RunPlan),
}

/// A key with the value that it has in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// `load.rows`.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// Whether the plan says so; else it is the default.
    pub written: bool,
}

/// Something that whoever starts a plan should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where in the plan it comes from.
    pub place: Place,
    /// A clause, lower case.
    pub text: String,
}

/// How long a load warms up before each measured phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// At least, and in this version exactly, so long.
    pub min: Duration,
    /// At most so long, where steadiness is judged.
    pub max: Option<Duration>,
    /// What is to be steady.
    pub judge: Vec<String>,
}

/// A command that a phase runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// For `sh -c`.
    pub command: String,
    /// Not ended by then, it has failed.
    pub timeout: Duration,
    /// Tries after the first.
    pub retries: u32,
}

/// How the data set of a series comes about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepare {
    /// By the load engine.
    Builtin,
    /// Not at all.
    Nothing,
    /// By a command.
    Run(Step),
}

/// How to start and stop the server of one series, everything resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The program and its arguments.
    pub command: Command,
    /// Variables that are added to the environment, by name.
    pub environment: Vec<(String, String)>,
    /// How to tell that it takes connections.
    pub ready: Ready,
    /// Not ready by then, it has failed.
    pub ready_timeout: Duration,
    /// What asks it to end.
    pub stop: StopSignal,
    /// Not ended by then, it is killed.
    pub stop_timeout: Duration,
    /// The CPUs it is bound to; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// Its scheduling class.
    pub scheduler: Scheduler,
}

/// A program and its arguments, without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program: a path, or a name to be looked for in `PATH`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// How to tell that a server takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// A Unix socket takes a connection.
    Socket(String),
    /// A TCP port takes a connection.
    Tcp {
        /// Name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A command for `sh -c` ends with 0.
    Command(String),
}

/// The signal that asks a server to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

/// A scheduling class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// The kernel's default.
    Other,
    /// For work that nobody waits for.
    Batch,
    /// First in, first out, at this priority.
    Fifo(u8),
    /// Round robin, at this priority.
    RoundRobin(u8),
}

/// A condition for a good end.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// What is judged.
    pub metric: Metric,
    /// What must hold.
    pub rule: GateRule,
    /// What an inconclusive comparison does to it.
    pub on_inconclusive: OnInconclusive,
}

/// What a gate asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GateRule {
    /// Every configuration is at most this share worse than the reference.
    NotWorseBy {
        /// The share, in (0, 1).
        ratio: f64,
    },
}

/// What an inconclusive comparison does to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInconclusive {
    /// The gate is missed.
    Fail,
    /// The gate holds.
    Pass,
}

/// What [`Plan::shortened`] makes of a plan.
const SHORT_BLOCKS: u32 = 2;
const SHORT_MEASURE: Duration = Duration::from_millis(300);
const SHORT_WARMUP: Duration = Duration::from_millis(100);
const SHORT_INTERVAL: Duration = Duration::from_millis(100);

impl Plan {
    /// What the plan is called in messages, usually its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plan as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The checksum of its text, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// A line for people.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What it is to answer; empty where nobody asked.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// What is varied, in the plan's order.
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// What the order is drawn from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The time that the plan gives itself.
    pub fn time_budget(&self) -> Option<Duration> {
        self.time_budget
    }

    /// Warm-up before each measured phase.
    pub fn warmup(&self) -> &Warmup {
        &self.warmup
    }

    /// Length of a measured phase.
    pub fn measure(&self) -> Duration {
        self.measure
    }

    /// Rest after each measured phase.
    pub fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// The instruments that are asked for.
    pub fn instruments(&self) -> &[String] {
        &self.instruments
    }

    /// Whether some blocks are to go without instruments, so that their cost shows.
    pub fn control_arm(&self) -> bool {
        self.control_arm
    }

    /// How configurations are compared.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// The conditions for a good end.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// What the author wants on the page.
    ///
    /// - `notes`: the text of the file at [`Plan::notes_path`]: a plan reads no files.
    pub fn page(&self, notes: Option<String>) -> Page {
        Page { sponsor: self.sponsor.clone(), tuning: self.tuning.clone(), notes }
    }

    /// The file with the author's key points, relative to the plan's own folder.
    pub fn notes_path(&self) -> Option<&Path> {
        self.notes_path.as_deref().map(Path::new)
    }

    /// Every key that says something, with its value, in the order in which the plan is read.
    pub fn resolved(&self) -> &[Resolved] {
        &self.resolved
    }

    /// What whoever starts the plan should know, as far as it comes from the plan: that it is exploratory, that a
    /// factor changes nothing, what is recorded as missing.
    pub fn notes(&self) -> &[Note] {
        &self.remarks
    }

    /// What the plan asks for and this version cannot do: a plan with any of it is not run.
    pub fn unbuilt(&self) -> &[Note] {
        &self.unbuilt
    }

    /// Whether it has too few blocks for any claim at its alpha.
    pub fn exploratory(&self) -> bool {
        self.blocks < blocks_min(self.judge.alpha)
    }

    /// Whether [`Plan::shortened`] made it.
    pub fn is_shortened(&self) -> bool {
        self.shortened
    }

    /// Every configuration: one value of each whole-plot factor.
    pub fn configurations(&self) -> Vec<Levels> {
        matrix::cells(&self.factors, Plot::Whole)
    }

    /// The names of the whole-plot factors: those that a series has one value of.
    pub fn whole_factors(&self) -> impl Iterator<Item = &str> {
        self.factors.iter().filter(|f| f.plot == Plot::Whole).map(|f| f.name.as_str())
    }

    /// Every trial, in the order drawn.
    pub fn trials(&self) -> Vec<Trial> {
        let whole = self.configurations();
        order::draw(self.seed, self.blocks, &whole, &matrix::cells(&self.factors, Plot::Sub))
    }

    /// Where the load of a cell goes.
    pub fn target(&self, levels: &Levels, scratch: &Path) -> Target {
        self.load.target_of(levels, scratch)
    }

    /// What the load of a trial does, every default resolved.
    ///
    /// Its seed is that of the plan plus the block: within a block every configuration gets the same arrivals and the
    /// same rows, so that the comparison is of the servers and not of the draws.
    ///
    /// - `scratch`: the folder that `{scratch}` stands for.
    ///
    /// # Panics
    ///
    /// Where the plan asks for a rate that this version cannot do; see [`Plan::unbuilt`].
    pub fn load_settings(&self, trial: &Trial, scratch: &Path) -> LoadSettings {
        let beside = Beside {
            prepare: match self.prepare {
                PreparePlan::Builtin => PreparePolicy::Auto,
                PreparePlan::Nothing | PreparePlan::Run(_) => PreparePolicy::Never,
            },
            warmup: self.warmup.min,
            time: self.measure,
            interval: self.interval,
            seed: self.seed.wrapping_add(u64::from(trial.block)),
        };
        self.load.settings(&trial.levels, scratch, &beside)
    }

    /// The server of a series; `None` where the plan has none.
    pub fn server(&self, levels: &Levels, scratch: &Path) -> Option<ServerSpec> {
        let scratch = text_of(scratch);
        let server = self.server.as_ref()?;
        let is_meant = |e: &&EnvPlan| match &e.only {
            None => true,
            Some((factor, value)) => levels.get(factor) == Some(value),
        };
        let environment = server.environment.iter().filter(is_meant);
        Some(ServerSpec {
            command: server.command.of(levels, &scratch),
            environment: environment.map(|e| (e.name.clone(), e.value.of(levels, &scratch))).collect(),
            ready: server.ready.of(levels, &scratch),
            ready_timeout: server.ready_timeout,
            stop: server.stop,
            stop_timeout: server.stop_timeout,
            cpus: server.cpus.clone(),
            scheduler: server.scheduler,
        })
    }

    /// The account that `server.user` names; `None`: the plan leaves it to the runner.
    pub fn server_user(&self) -> Option<&str> {
        self.server.as_ref()?.user.as_deref()
    }

    /// Whether the plan has a server that bakeoff starts.
    pub fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Whether the events of the load are commands.
    pub fn load_is_commands(&self) -> bool {
        let trials = self.trials();
        trials.iter().any(|trial| self.target(&trial.levels, Path::new("")).scheme() == "exec")
    }

    /// Whether the plan has commands beside those of its load: a server, setup, prepare, values.
    pub fn has_commands(&self) -> bool {
        let prepares = matches!(self.prepare, PreparePlan::Run(_));
        self.has_server() || self.setup.is_some() || prepares || !self.values.is_empty()
    }

    /// Whether server and commands inherit the whole environment.
    pub fn inherits_environment(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.inherit_env)
    }

    /// The command before the server starts.
    pub fn setup(&self, levels: &Levels, scratch: &Path) -> Option<Step> {
        self.setup.as_ref().map(|run| run.step(levels, scratch))
    }

    /// How the data set of a series comes about.
    pub fn prepare(&self, levels: &Levels, scratch: &Path) -> Prepare {
        match &self.prepare {
            PreparePlan::Builtin => Prepare::Builtin,
            PreparePlan::Nothing => Prepare::Nothing,
            PreparePlan::Run(run) => Prepare::Run(run.step(levels, scratch)),
        }
    }

    /// The numbers that each trial is asked for after its measured phase: a name, and the command that prints it last.
    pub fn values(&self, levels: &Levels, scratch: &Path) -> Vec<(String, Step)> {
        self.values.iter().map(|(name, run)| (name.clone(), run.step(levels, scratch))).collect()
    }

    /// The secrets that the plan refers to, each once.
    pub fn secrets(&self) -> Vec<Reference> {
        let mut secrets = self.load.secrets();
        for template in self.clone().server_templates() {
            secrets.extend(template.secrets().cloned());
        }
        secrets.sort();
        secrets.dedup();
        secrets
    }

    /// The plan with its secrets in their places, to be executed. Its text keeps the references.
    ///
    /// - `value`: what a reference stands for.
    #[must_use]
    pub fn revealed(&self, value: &dyn Fn(&Reference) -> String) -> Self {
        let mut plan = self.clone();
        plan.load.reveal(value);
        for template in plan.server_templates() {
            template.reveal(value);
        }
        plan
    }

    /// The texts of the server and of the commands.
    fn server_templates(&mut self) -> Vec<&mut Template> {
        let mut all: Vec<&mut Template> = Vec::new();
        if let Some(server) = &mut self.server {
            all.extend([&mut server.command.template, &mut server.ready.template]);
            all.extend(server.environment.iter_mut().map(|e| &mut e.value.template));
        }
        let prepare = match &mut self.prepare {
            PreparePlan::Run(run) => Some(run),
            PreparePlan::Builtin | PreparePlan::Nothing => None,
        };
        let commands = self.setup.iter_mut().chain(prepare).chain(self.values.iter_mut().map(|(_, run)| run));
        all.extend(commands.map(|run| &mut run.run.template));
        all
    }

    /// The same plan, just long enough to show that it works: two blocks, measured phases of 0.3 s.
    ///
    /// It keeps its text and its order is that of its first two blocks. Its numbers are worth nothing; it is
    /// exploratory, and whoever runs it marks the result with the label `shortened`.
    #[must_use]
    pub fn shortened(&self) -> Self {
        let mut plan = self.clone();
        plan.blocks = plan.blocks.min(SHORT_BLOCKS);
        plan.measure = plan.measure.min(SHORT_MEASURE);
        plan.interval = plan.interval.min(SHORT_INTERVAL);
        plan.warmup.min = plan.warmup.min.min(SHORT_WARMUP);
        plan.cooldown = Duration::ZERO;
        plan.gates.clear();
        plan.shortened = true;
        plan.remarks.push(Note {
            place: Place { line: 1, column: 1 },
            text: format!(
                "shortened to {} blocks of {:?}: this shows that the plan works, and its numbers mean nothing",
                plan.blocks, plan.measure
            ),
        });
        plan
    }
}

impl RunPlan {
    fn step(&self, levels: &Levels, scratch: &Path) -> Step {
        Step { command: self.run.of(levels, &text_of(scratch)), timeout: self.timeout, retries: self.retries }
    }
}

impl Command {
    /// Splits a command line into words, after placeholders were replaced: a factor's value may hold several.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = command_line::split(text)?.into_iter();
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }
}

impl Ready {
    /// Reads `socket:PATH`, `tcp:HOST:PORT`, or a command.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("socket:") {
            return (!path.is_empty()).then(|| Self::Socket(path.to_owned()));
        }
        if let Some(address) = text.strip_prefix("tcp:") {
            let (host, port) = address.rsplit_once(':')?;
            let port = port.parse().ok().filter(|&port| port > 0)?;
            return (!host.is_empty()).then(|| Self::Tcp { host: host.to_owned(), port });
        }
        Some(Self::Command(text.to_owned()))
    }
}

impl StopSignal {
    /// Reads `SIGTERM`, `SIGINT`, `SIGQUIT`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "SIGTERM" => Some(Self::Term),
            "SIGINT" => Some(Self::Int),
            "SIGQUIT" => Some(Self::Quit),
            _ => None,
        }
    }
}

impl Scheduler {
    /// Reads `other`, `batch`, `fifo:10`, `rr:10`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let priority = |text: &str| text.parse().ok().filter(|p| (1..=99).contains(p));
        match text.split_once(':') {
            None if text == "other" => Some(Self::Other),
            None if text == "batch" => Some(Self::Batch),
            Some(("fifo", p)) => priority(p).map(Self::Fifo),
            Some(("rr", p)) => priority(p).map(Self::RoundRobin),
            _ => None,
        }
    }

    /// The class of a word: `other`, `batch`, `fifo:10`, `rr:10`; the inverse of its text.
    pub fn from_word(text: &str) -> Option<Self> {
        Self::read(text)
    }
}

impl std::fmt::Display for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Batch => f.write_str("batch"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

impl OnInconclusive {
    /// Reads `fail`, `pass`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "fail" => Some(Self::Fail),
            "pass" => Some(Self::Pass),
            _ => None,
        }
    }
}

impl GateRule {
    /// Reads `not worse than reference by 5%`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let share = text.strip_prefix("not worse than reference by ")?;
        let ratio = record::quantity::ratio(share).ok().filter(|r| 0.0 < *r && *r < 1.0)?;
        Some(Self::NotWorseBy { ratio })
    }
}

/// Reads `0`, `0-3`, `0,2,8-11`: CPUs in rising order, each once.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPUS_MAX || cpus.last().is_some_and(|&before| before >= first) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// As many as the C library's CPU sets hold.
const CPUS_MAX: u32 = 1_024;

fn text_of(scratch: &Path) -> String {
    scratch.to_str().expect("the runner's scratch folders are UTF-8").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_rise_and_name_each_cpu_once() {
        assert_eq!(cpu_list("0,2,8-11"), Some(vec![0, 2, 8, 9, 10, 11]));
        assert_eq!(cpu_list("3"), Some(vec![3]));
        for text in ["", "a", "3-1", "1,1", "2,1", "0-", "0-99999"] {
            assert_eq!(cpu_list(text), None, "{text}");
        }
    }

    #[test]
    fn forms_with_a_grammar_of_their_own_are_read() {
        assert_eq!(Ready::read("socket:/s"), Some(Ready::Socket("/s".into())));
        assert_eq!(Ready::read("tcp:::1:3306"), Some(Ready::Tcp { host: "::1".into(), port: 3306 }));
        assert_eq!(Ready::read("tcp:h:0"), None);
        assert_eq!(Ready::read("ping -c1 h"), Some(Ready::Command("ping -c1 h".into())));
        assert_eq!(Scheduler::read("fifo:10"), Some(Scheduler::Fifo(10)));
        assert_eq!(Scheduler::read("fifo:0"), None);
        assert_eq!(
            GateRule::read("not worse than reference by 5%"),
            Some(GateRule::NotWorseBy { ratio: 0.05 })
        );
    }
}
