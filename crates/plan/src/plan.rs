//! An executable plan: the part that the runner, the archive and the report read.

mod builds;
mod fleet;
mod rates;
mod series;
mod turns;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use record::agents::FleetSettings;
use record::bakeoff::{Factor, Judge, Levels, Page, Plot, Trial, blocks_min};
use record::gate::{Gate, GateRule};
use record::load::{LoadSettings, PreparePolicy, ScriptFile};
use record::target::Target;

pub use self::builds::Build;
pub use self::rates::RateToFind;
pub use self::turns::TurnOrder;
use crate::admission::Admission;
use crate::error::{Position, ProblemKind};
use crate::load::{LoadKeys, PhaseSettings};
use crate::matrix::Limits;
use crate::phases::{BuildPlan, PreparePlan, RunPlan, ValuePlan, Warmup};
use crate::reader::Resolved;
use crate::secret::Reference;
use crate::server::{ClientCpus, ServerPlan};
use crate::slices::Slices;
use crate::template::Template;
use crate::{matrix, order};

/// Executable plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) sha256: String,
    pub(crate) title: String,
    pub(crate) question: String,
    pub(crate) factors: Vec<Factor>,
    pub(crate) limits: Limits,
    pub(crate) blocks: u32,
    pub(crate) seed: u64,
    pub(crate) slices: Option<Slices>,
    pub(crate) time_budget: Option<Duration>,
    pub(crate) build: Option<BuildPlan>,
    pub(crate) admission: Option<Admission>,
    pub(crate) load: LoadKeys,
    pub(crate) fleet: Option<FleetSettings>,
    pub(crate) client: Option<ClientCpus>,
    pub(crate) server: Option<ServerPlan>,
    pub(crate) setup: Option<RunPlan>,
    pub(crate) prepare: PreparePlan,
    pub(crate) verify: Option<RunPlan>,
    pub(crate) warmup: Warmup,
    pub(crate) measure: Duration,
    pub(crate) interval: Duration,
    pub(crate) cooldown: Duration,
    pub(crate) instruments: Vec<String>,
    pub(crate) control_arm: bool,
    pub(crate) values: Vec<ValuePlan>,
    pub(crate) judge: Judge,
    pub(crate) sponsor: Option<String>,
    pub(crate) tuning: Option<String>,
    pub(crate) notes_path: Option<String>,
    pub(crate) resolved: Vec<Resolved>,
    pub(crate) remarks: Vec<Note>,
    pub(crate) unsupported: Vec<Note>,
    pub(crate) shortened: bool,
    /// Rates that were found, by the levels of the other sub-plot factors.
    pub(crate) found: BTreeMap<Levels, f64>,
    /// Folders of what was built, by configuration.
    pub(crate) built: BTreeMap<Levels, String>,
    pub(crate) against_itself: Option<u32>,
}

/// Remark about a plan, for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Position in the plan that the remark is about.
    pub position: Position,
    /// Clause, lower case.
    pub text: String,
}

/// Shortest measured phase of a pilot, intervals in each, and most blocks.
const PILOT_MEASURE: Duration = Duration::from_secs(1);
const PILOT_INTERVALS: u32 = 10;
const PILOT_BLOCKS: u32 = 100;
/// Stream that draws the control arm; those of trials have smaller numbers.
const CONTROL_STREAM: u64 = 1 << 40;

/// Size of a plan from [`Plan::shortened`].
const SHORT_BLOCKS: u32 = 2;
const SHORT_MEASURE: Duration = Duration::from_millis(300);
const SHORT_WARMUP: Duration = Duration::from_millis(100);
const SHORT_INTERVAL: Duration = Duration::from_millis(100);

impl Plan {
    /// Name of the plan in messages, usually its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Plan text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of the text, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// One line for people.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Question that the plan answers; empty without one.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// Factors in the plan's order.
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Random seed of the order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Time budget of the plan.
    pub fn time_budget(&self) -> Option<Duration> {
        self.time_budget
    }

    /// Conditions under which a trial begins; `None`: each begins at once.
    pub fn admission(&self) -> Option<Admission> {
        self.admission
    }

    /// Warm-up before each measured phase.
    pub fn warmup(&self) -> &Warmup {
        &self.warmup
    }

    /// Length of a measured phase.
    pub fn measure(&self) -> Duration {
        self.measure
    }

    /// Cool-down after each measured phase.
    pub fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// Requested instruments.
    pub fn instruments(&self) -> &[String] {
        &self.instruments
    }

    /// Whether some blocks run without instruments, to measure the cost of the instruments.
    pub fn control_arm(&self) -> bool {
        self.control_arm
    }

    /// Whether the instruments watch a block.
    ///
    /// With a control arm, one block of each two consecutive ones, drawn by the seed, has none. A last block
    /// without a partner has them.
    pub fn is_observed(&self, block: u32) -> bool {
        if !self.control_arm || (block % 2 == 1 && block == self.blocks) {
            return true;
        }
        let pair = (block - 1) / 2;
        // As many pairs begin with a block without instruments as end with one, so that drift from block to
        // block cancels over the pairs. The seed draws which do.
        let pairs = usize::try_from(self.blocks / 2).expect("a number of blocks");
        let mut begins_without: Vec<bool> = (0..pairs).map(|place| place % 2 == 0).collect();
        let mut stream = order::Stream::of(self.seed, CONTROL_STREAM);
        if pairs % 2 == 1 && stream.below(2) == 1 {
            for one in &mut begins_without {
                *one = !*one;
            }
        }
        stream.shuffle(&mut begins_without);
        let second_is_control = !begins_without[pair as usize];
        second_is_control == (block % 2 == 1)
    }

    /// Number of blocks that the instruments watch.
    pub fn observed_blocks(&self) -> u32 {
        (1..=self.blocks).map(|block| u32::from(self.is_observed(block))).sum()
    }

    /// Rules for the comparison.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Conditions for exit code 0.
    pub fn gates(&self) -> &[Gate] {
        &self.judge.gates
    }

    /// Plan with these gates in addition to its own.
    ///
    /// # Errors
    ///
    /// The design cannot answer a gate: too few blocks, no configuration to compare, or a cell that the
    /// reference lacks.
    pub fn with_gates(&self, gates: &[Gate]) -> Result<Self, ProblemKind> {
        let mut plan = self.clone();
        if self.judge.sequential && !gates.is_empty() {
            return Err(ProblemKind::BadValue {
                key: "design.sequential".to_owned(),
                found: "true".to_owned(),
                expected: "no gates: a gate needs every block of every configuration".to_owned(),
            });
        }
        for gate in gates {
            unanswerable(gate, plan.blocks, plan.judge.alpha, &plan.factors).map_or(Ok(()), Err)?;
            let alone = matrix::without_reference(&plan.cells(), &plan.factors);
            let is_relative = matches!(gate.rule, GateRule::NotWorseBy { .. });
            alone.filter(|_| is_relative).map_or(Ok(()), |cells| Err(ProblemKind::not_compared(&cells)))?;
            plan.judge.gates.push(*gate);
        }
        Ok(plan)
    }

    /// The author's text for the report.
    ///
    /// - `notes`: text of the file at [`Plan::notes_path`]: a plan reads no files.
    pub fn page(&self, notes: Option<String>) -> Page {
        Page { sponsor: self.sponsor.clone(), tuning: self.tuning.clone(), notes }
    }

    /// File with the author's key points, relative to the plan's directory.
    pub fn notes_path(&self) -> Option<&Path> {
        self.notes_path.as_deref().map(Path::new)
    }

    /// Path of the script in Lua that an event runs, relative to the plan's directory; `None` without one.
    pub fn script_path(&self) -> Option<&Path> {
        self.load.script_path().map(Path::new)
    }

    /// Plan with the text of its script in Lua, and of the modules that the script loads: a plan reads no
    /// files.
    #[must_use]
    pub fn with_script(mut self, files: Vec<ScriptFile>) -> Self {
        self.load.script_files = files;
        self
    }

    /// The script in Lua and its modules; empty before [`Plan::with_script`].
    pub fn script_files(&self) -> &[ScriptFile] {
        &self.load.script_files
    }

    /// All keys with their values, in reading order.
    pub fn resolved(&self) -> &[Resolved] {
        &self.resolved
    }

    /// Remarks for the user: the plan is exploratory, a factor changes nothing, a value will be missing.
    pub fn notes(&self) -> &[Note] {
        &self.remarks
    }

    /// Features of the plan that this version does not support: a plan with any of them does not run.
    pub fn unsupported(&self) -> &[Note] {
        &self.unsupported
    }

    /// Whether the plan has too few blocks for any claim at its alpha.
    pub fn exploratory(&self) -> bool {
        self.blocks < blocks_min(self.judge.alpha_at_end())
    }

    /// Whether the plan comes from [`Plan::shortened`].
    pub fn is_shortened(&self) -> bool {
        self.shortened
    }

    /// All configurations: one value of each whole-plot factor that exists in them.
    pub fn configurations(&self) -> Vec<Levels> {
        matrix::series(&self.factors, &self.limits).into_iter().map(|(whole, _)| whole).collect()
    }

    /// All cells that are measured in a block.
    pub fn cells(&self) -> Vec<Levels> {
        matrix::cells(&self.factors, &self.limits)
    }

    /// Number of combinations of all levels of all factors.
    pub fn grid(&self) -> usize {
        self.factors.iter().map(|factor| factor.values.len()).product()
    }

    /// Names of the whole-plot factors, which have one value per series.
    pub fn whole_factors(&self) -> impl Iterator<Item = &str> {
        self.factors.iter().filter(|f| f.plot == Plot::Whole).map(|f| f.name.as_str())
    }

    /// All trials, in the order drawn.
    pub fn trials(&self) -> Vec<Trial> {
        order::draw(self.seed, self.blocks, &matrix::series(&self.factors, &self.limits))
    }

    /// Target of the load of a cell.
    pub fn target(&self, levels: &Levels, scratch: &Path) -> Target {
        self.load.target_of(&self.at(levels), scratch, self.instances(levels))
    }

    /// Limits of the processes of a series together: CPUs' worth of time, and bytes of memory.
    pub fn limits(&self) -> (Option<f64>, Option<u64>) {
        self.server.as_ref().map_or((None, None), |server| (server.cpu_max, server.memory_max))
    }

    /// Load settings of a trial, every default resolved.
    ///
    /// The seed is the plan's plus the block number, and the draws follow from the sub-plot levels: within a
    /// block every configuration gets the same data, arrivals and rows in the same cell, so the comparison
    /// is of the servers and not of the draws. Two cells have different ones: the second trial on a server
    /// must not find the rows of the first in its caches.
    ///
    /// - `scratch`: directory for `{scratch}`.
    ///
    /// A rate that must be found has a placeholder until [`Plan::with_rate`].
    pub fn load_settings(&self, trial: &Trial, scratch: &Path) -> LoadSettings {
        let phases = PhaseSettings {
            prepare: match self.prepare {
                PreparePlan::Builtin => PreparePolicy::Auto,
                PreparePlan::Nothing | PreparePlan::Run(_) => PreparePolicy::Never,
            },
            warmup: self.warmup.min,
            time: self.measure,
            interval: self.interval,
            seed: self.seed.wrapping_add(u64::from(trial.block)),
            draws: draws_of(self.factors.iter().filter(|f| f.plot == Plot::Sub), &trial.levels),
            found_per_s: self.found_per_s(&trial.levels),
            instances: self.instances(&trial.levels),
        };
        self.load.settings(&self.at(&trial.levels), scratch, &phases)
    }

    /// Whether the events of the load are commands.
    pub fn load_is_commands(&self) -> bool {
        let trials = self.trials();
        trials.iter().any(|trial| self.target(&trial.levels, Path::new("")).scheme() == "exec")
    }

    /// Whether the plan has commands other than those of its load: a server, setup, prepare, verify, values.
    pub fn has_commands(&self) -> bool {
        let prepares = matches!(self.prepare, PreparePlan::Run(_)) || self.build.is_some();
        let is_any = self.setup.is_some() || self.verify.is_some() || !self.values.is_empty();
        self.has_server() || prepares || is_any
    }

    /// Whether server and commands inherit the complete environment.
    pub fn inherits_environment(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.inherit_env)
    }

    /// Secrets that the plan refers to, each once.
    pub fn secrets(&self) -> Vec<Reference> {
        let mut secrets = self.load.secrets();
        for template in self.clone().server_templates() {
            secrets.extend(template.secrets().cloned());
        }
        secrets.sort();
        secrets.dedup();
        secrets
    }

    /// Plan with its secrets filled in, for execution. Its text still contains the references.
    ///
    /// - `value`: returns the secret of a reference.
    #[must_use]
    pub fn revealed(&self, value: &dyn Fn(&Reference) -> String) -> Self {
        let mut plan = self.clone();
        plan.load.reveal(value);
        for template in plan.server_templates() {
            template.reveal(value);
        }
        plan
    }

    /// Texts of the server and of the commands.
    fn server_templates(&mut self) -> Vec<&mut Template> {
        let mut all: Vec<&mut Template> = Vec::new();
        if let Some(server) = &mut self.server {
            all.extend([&mut server.command.template, &mut server.ready.template]);
            all.extend(server.environment.iter_mut().map(|e| &mut e.value.template));
            all.extend(server.files.iter_mut().map(|(_, text)| &mut text.template));
        }
        let prepare = match &mut self.prepare {
            PreparePlan::Run(run) => Some(run),
            PreparePlan::Builtin | PreparePlan::Nothing => None,
        };
        let commands = self.setup.iter_mut().chain(prepare).chain(&mut self.verify);
        let commands = commands.chain(self.values.iter_mut().map(|v| &mut v.run));
        let commands = commands.chain(self.build.as_mut().map(|build| &mut build.run));
        all.extend(commands.map(|run| &mut run.run.template));
        all
    }

    /// Variant of the plan that compares its reference configuration with itself, for the rate of false
    /// verdicts.
    ///
    /// Each compared factor has its reference alone. A new whole-plot factor has two levels, which nothing in
    /// the plan uses. The text stays the same; there are no gates.
    ///
    /// - `number`: distinguishes repetitions, which have different orders; from 1.
    #[must_use]
    pub fn against_itself(&self, number: u32) -> Self {
        let mut plan = self.clone();
        for factor in &mut plan.factors {
            factor.values = factor.reference.take().map_or(factor.values.clone(), |only| vec![only]);
        }
        let is_taken = |name: &str| plan.factors.iter().any(|factor| factor.name == name);
        let name = ["copy", "copy-of-reference"].into_iter().find(|name| !is_taken(name)).unwrap_or("copy-2");
        // Names of one length: the size of the environment can change the speed of a program.
        let copies = ["a", "b"].map(str::to_owned);
        let factor = Factor {
            name: name.to_owned(),
            reference: Some(copies[0].clone()),
            values: copies.into(),
            plot: Plot::Whole,
        };
        plan.factors.insert(0, factor);
        plan.seed = self.seed.wrapping_add(u64::from(number));
        plan.judge.family = format!("{name} vs reference");
        plan.judge.gates.clear();
        plan.against_itself = Some(number);
        plan
    }

    /// Number of the repetition, if the plan compares its reference with itself.
    pub fn repetition(&self) -> Option<u32> {
        self.against_itself
    }

    /// Variant of the plan that measures its noise: the reference against itself, in as many blocks as fit
    /// into a time. `None` if not even two do, with phases of a second.
    ///
    /// Phases are shortened if three blocks do not fit otherwise. Warm-ups last their minimum.
    #[must_use]
    pub fn pilot(&self, time: Duration) -> Option<Self> {
        let mut plan = self.against_itself(1);
        plan.blocks = 3;
        plan.control_arm = false;
        plan.judge.sequential = false;
        plan.warmup.judge.clear();
        let trials = plan.estimate().trials;
        let rest = (time / trials).checked_sub(plan.warmup.min + plan.cooldown).unwrap_or_default();
        plan.measure = plan.measure.min(rest).max(PILOT_MEASURE);
        plan.interval = plan.interval.min(plan.measure / PILOT_INTERVALS);
        let block = plan.estimate().time_min / plan.blocks;
        if block * 2 > time {
            return None;
        }
        plan.blocks = u32::try_from(time.as_nanos() / block.as_nanos().max(1))
            .unwrap_or(u32::MAX)
            .clamp(2, PILOT_BLOCKS);
        plan.time_budget = Some(time);
        Some(plan)
    }

    /// Variant of the plan that is just long enough to show that it works: two blocks, measured phases of 0.3
    /// s.
    ///
    /// It has the same text, and the order of the first two blocks. Its numbers are meaningless; it is
    /// exploratory, and its result has the label `shortened`.
    #[must_use]
    pub fn shortened(&self) -> Self {
        let mut plan = self.clone();
        plan.blocks = plan.blocks.min(SHORT_BLOCKS);
        plan.measure = plan.measure.min(SHORT_MEASURE);
        plan.interval = plan.interval.min(SHORT_INTERVAL);
        plan.warmup.min = plan.warmup.min.min(SHORT_WARMUP);
        plan.warmup.judge.clear();
        plan.cooldown = Duration::ZERO;
        plan.admission = None;
        plan.judge.gates.clear();
        plan.shortened = true;
        plan.remarks.push(Note {
            position: Position { line: 1, column: 1 },
            text: format!(
                "shortened to {} blocks with measured phases of {:?}: this only tests the plan; its numbers are meaningless",
                plan.blocks, plan.measure
            ),
        });
        plan
    }
}

/// Reason that the design cannot answer a gate.
pub(crate) fn unanswerable(gate: &Gate, blocks: u32, alpha: f64, factors: &[Factor]) -> Option<ProblemKind> {
    let needed = blocks_min(alpha);
    if blocks < needed {
        return Some(ProblemKind::GateNeedsBlocks { alpha, blocks, needed });
    }
    let is_compared = |f: &Factor| f.reference.is_some() && f.values.len() > 1;
    let is_relative = matches!(gate.rule, GateRule::NotWorseBy { .. });
    (is_relative && !factors.iter().any(is_compared)).then_some(ProblemKind::GateNeedsReference)
}

/// Tells the events of a cell from those of other cells on the same server; 0 if it is the only one.
fn draws_of<'a>(sub: impl Iterator<Item = &'a Factor>, levels: &Levels) -> u64 {
    let line = |factor: &Factor| {
        let level = levels.get(&factor.name).map_or("", String::as_str);
        format!("{}={level}\n", factor.name)
    };
    let text: String = sub.filter(|factor| factor.values.len() > 1).map(line).collect();
    let sum = crate::sha256(&text);
    let number = u64::from_str_radix(&sum[..16], 16).expect("a checksum is hexadecimal");
    if text.is_empty() { 0 } else { number }
}
