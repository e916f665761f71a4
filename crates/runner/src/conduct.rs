//! The main loop: conducts series until none is left, from the beginning or from the end of a journal.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::sequential::Dropped;
use archive::{Archive, ArchiveError, Claim, Step};
use load::Stop;
use nix::unistd::geteuid;
use plan::Plan;
use record::bakeoff::Bakeoff;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::environment::Environment;
use record::missing::Missing;
use record::run::{RunHeader, RunId, RunKind};

use crate::account::Account;
use crate::begun::{archived_plan, as_mended, misled, plan_file};
use crate::beside::Beside;
use crate::budget::Budget;
use crate::build::Builder;
use crate::conductor::{Conductor, marks, observers};
use crate::error::RunnerError;
use crate::fingerprint::FirstPrograms;
use crate::ledger::{Ledger, command_line};
use crate::machine::Machine;
use crate::options::{Options, approve, other_writer_of};
use crate::preflight::{Finding, Severity, preflight};
use crate::process::{Waited, wait_for};
use crate::queue::Work;
use crate::script::{UnrunScript, with_script};
use crate::secrets::Secrets;
use crate::series::SeriesEnd;
use crate::{Event, Outcome, account, build, rates, rounds, series, slices};

/// Fact that names the account of the plan's server and commands.
const COMMANDS_RUN_AS: &str = "plan.commands_run_as";

/// Interval between two looks at a machine that another measurement holds.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Fact that holds the findings of preflight.
const FINDINGS: &str = "preflight.findings";

/// Conducts a bake-off from its beginning.
///
/// At a request to stop, the current trial and its server are stopped, and the bake-off is interrupted;
/// [`resume`] continues it. At a request to stop after the trial, that is measured to its end first, in
/// slices all of its block.
///
/// The kernel kills the servers when the calling thread ends.
///
/// # Errors
///
/// [`RunnerError`] if the plan, the machine or the archive is unfit, before any step; and later if the
/// archive fails or a whole block fails.
pub fn run(
    plan: &Plan,
    archive: &Archive,
    options: &Options,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunnerError> {
    tell_script_of_root(plan, on_event);
    let plan = &with_script(plan.clone(), Path::new(plan.name()))?;
    has_its_fleet(plan, options)?;
    let secrets = Secrets::read(plan)?;
    let revealed = secrets.reveal(plan);
    // Another process may have begun the same entry of a queue.
    let is_vain = || options.id.filter(|id| archive.is_bakeoff(*id));
    let machine_lock = Some(take_machine(options, stop, on_event, &is_vain)?);
    let found = look(&revealed, &secrets, archive, on_event)?;
    let account = account_of(plan)?;
    tell_commands_of_root(plan, account, on_event);
    let beside = observers(plan);
    let file = Some(Path::new(plan.name()));
    build::check(plan, file, account)?;
    let contents = build::contents(plan, file, None)?;
    let mut environment = machine(plan, archive, &found, &beside, account);
    environment.facts.extend(build::facts(&contents));
    let bakeoff = planned(plan, options, environment)?;
    archive.create_bakeoff(&bakeoff)?;
    let mut ledger = Ledger::begin(archive, &bakeoff)?;
    if let Ok(path) = fs::canonicalize(plan.name()) {
        ledger.journal.say(Step::PlanFile { path: path.display().to_string() })?;
    }
    let conductor = Conductor {
        plan: revealed,
        public: plan.clone(),
        secrets,
        beside_others: options.beside_others,
        generator: options.generator.clone(),
        machine: machine_lock,
        archive,
        stop,
        on_event,
        ledger,
        account,
        beside,
        first: bakeoff.environment.clone(),
        programs: FirstPrograms::default(),
        contents,
        settings_at_first: None,
        environment: bakeoff.environment,
        told: BTreeSet::new(),
    };
    conductor.play()
}

/// Continues a bake-off that was interrupted, or that lost its process.
///
/// # Errors
///
/// Those of [`run`]. Also if another process conducts the bake-off, or its plan cannot be executed as begun.
pub fn resume(
    archive: &Archive,
    id: RunId,
    options: &Options,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunnerError> {
    let stranger = other_writer_of(archive, id);
    if rounds::is_one(archive, id)? {
        return rounds::resume(archive, (id, stranger), options, stop, on_event);
    }
    // The journal comes first: its holder has exclusive access to the bake-off.
    let journal = archive.claim(id)?;
    let Agreed { begun, plan, script, file, was_asked } = agreed(archive, (id, stranger), options, &journal)?;
    let journal = rounds::open(journal, on_event)?;
    let bakeoff = as_mended(archive, &begun)?;
    let mut ledger = Ledger::go_on(archive, &bakeoff, journal)?;
    ledger.drop_trials(&beaten(archive, id, bakeoff.judge.sequential)?)?;
    let is_over = ledger.next().is_none();
    if !is_over {
        has_its_fleet(&plan, options)?;
    }
    let machine_lock = if is_over { None } else { Some(take_machine(options, stop, on_event, &|| None)?) };
    rounds::clear(&ledger.journal, machine_lock.as_ref(), options, on_event)?;
    let plan = if is_over { plan } else { with_unrun_script(plan, script?, (&begun, options), on_event)? };
    let secrets = if is_over { Secrets::default() } else { Secrets::read(&plan)? };
    let revealed = secrets.reveal(&plan);
    let found = if is_over { Vec::new() } else { look(&revealed, &secrets, archive, on_event)? };
    let account = if is_over { None } else { account_of(&plan)? };
    let beside = if is_over { Beside::new(false) } else { observers(&plan) };
    let of = (&bakeoff, was_asked, options);
    let contents = if is_over { vec![] } else { build::contents_again(&plan, file.as_deref(), account, of)? };
    let mut environment = machine(&plan, archive, &found, &beside, account);
    environment.facts.extend(build::facts(&contents));
    if !is_over {
        tell_commands_of_root(&plan, account, on_event);
        tell_changes(&bakeoff.environment, &environment, on_event);
    }
    let known = rates::known(&plan, &bakeoff, ledger.journal.before());
    let programs = FirstPrograms::of(&bakeoff, &plan);
    let mut conductor = Conductor {
        plan: revealed,
        public: plan,
        secrets,
        beside_others: options.beside_others,
        generator: options.generator.clone(),
        machine: machine_lock,
        archive,
        stop,
        on_event,
        ledger,
        account,
        beside,
        first: bakeoff.environment,
        programs,
        contents,
        settings_at_first: None,
        environment,
        told: BTreeSet::new(),
    };
    for (cell, per_s) in known {
        conductor.learn_rate(cell, per_s);
    }
    conductor.play()
}

impl Conductor<'_> {
    fn play(mut self) -> Result<Outcome, RunnerError> {
        self.ledger.tell_start(self.on_event);
        for note in self.beside.notes() {
            (self.on_event)(&Event::Note(&note));
        }
        for note in self.plan.notes() {
            (self.on_event)(&Event::Note(&format!("{}:{}: {}", self.plan.name(), note.position, note.text)));
        }
        let began_ns = Monotonic.now_ns();
        let is_over = self.ledger.next().is_none();
        match if is_over { Ok(SeriesEnd::Over) } else { self.before_trials() } {
            Ok(SeriesEnd::Over) => {}
            Ok(SeriesEnd::Stopped) => return self.ledger.leave(),
            Err(error) => {
                self.ledger.journal.say(Step::Interrupted)?;
                return Err(error);
            }
        }
        let mut budget = Budget::new(self.plan.time_budget(), began_ns);
        let mut measured = None;
        while let Some(mut work) = self.ledger.next() {
            if measured.is_some_and(|block| block < work.block) {
                self.drop_beaten()?;
                let Some(left) = self.ledger.next() else { break };
                work = left;
            }
            measured = Some(work.block);
            let block = work.block;
            let works = if self.plan.slices().is_some() { self.ledger.rest_of_block() } else { vec![work] };
            let count = u32::try_from(works.len()).expect("plans limit their trials");
            let left = self.ledger.series_after(works.last().expect("there is work").series);
            if let Some(why) = budget.used_up(left + count, Monotonic.now_ns()) {
                (self.on_event)(&Event::Note(&why));
                return self.ledger.leave();
            }
            if self.stop.is_last_trial() || self.conduct_series(works)? == SeriesEnd::Stopped {
                return self.ledger.leave();
            }
            if let Some(note) = budget.after_series(count, left, Monotonic.now_ns()) {
                (self.on_event)(&Event::Note(&note));
            }
            self.ledger.give_up_where_nothing_works(block)?;
        }
        self.ledger.close()
    }

    /// Conducts one series, or all series of a block in slices.
    fn conduct_series(&mut self, mut works: Vec<Work>) -> Result<SeriesEnd, RunnerError> {
        if self.plan.slices().is_some() {
            return slices::conduct(self, works);
        }
        series::conduct(self, works.remove(0))
    }

    /// Drops the configurations that the blocks so far have beaten, in a sequential design.
    fn drop_beaten(&mut self) -> Result<(), RunnerError> {
        let dropped = beaten(self.archive, self.ledger.id, self.plan.judge().sequential)?;
        for of in self.ledger.drop_trials(&dropped)? {
            let arm: Vec<String> = of.arm.iter().map(|(name, level)| format!("{name}={level}")).collect();
            let (arm, block, metric) = (arm.join(", "), of.after_block, of.metric.word());
            let note = format!("{arm} is dropped after block {block}: it is beaten in {metric}");
            (self.on_event)(&Event::Note(&note));
        }
        Ok(())
    }

    /// Builds what the plan compares, and finds the rates that it is relative to.
    fn before_trials(&mut self) -> Result<SeriesEnd, RunnerError> {
        let mut builder = Builder {
            plan: &self.plan,
            account: self.account,
            stop: self.stop,
            journal: &mut self.ledger.journal,
            on_event: self.on_event,
        };
        let built = build::all(&mut builder, &self.contents).map_err(|error| match error {
            RunnerError::Build { what, reason } => {
                RunnerError::Build { what, reason: self.secrets.hide(&reason) }
            }
            other => other,
        })?;
        let Some(built) = built else { return Ok(SeriesEnd::Stopped) };
        for (levels, folder) in built {
            self.plan = self.plan.clone().with_built(&levels, &folder);
        }
        rates::find(self)
    }
}

/// Returns the configurations that the archived blocks have beaten. The run that decides may be one that was
/// just adopted.
fn beaten(archive: &Archive, id: RunId, is_sequential: bool) -> Result<Vec<Dropped>, RunnerError> {
    if !is_sequential {
        return Ok(Vec::new());
    }
    Ok(analysis::sequential::dropped(&archive.bakeoff(id)?))
}

/// Notes the facts about the machine that have changed since the bake-off began.
fn tell_changes(before: &Environment, now: &Environment, on_event: &mut dyn FnMut(&Event<'_>)) {
    let mut changed = before.differing(now);
    changed.retain(|fact| *fact != FINDINGS && *fact != COMMANDS_RUN_AS);
    if !changed.is_empty() {
        on_event(&Event::Note(&format!(
            "the machine has changed since the bake-off began: {}",
            changed.join(", ")
        )));
    }
}

/// Refuses a plan with a fleet if the caller has none.
fn has_its_fleet(plan: &Plan, options: &Options) -> Result<(), RunnerError> {
    if plan.fleet().is_none() || options.generator.is_some() {
        return Ok(());
    }
    let what = format!(
        "{}: a fleet generates its load, which only `bakeoff run` and `resume` of a build with --features fleet \
         can do",
        plan.name()
    );
    Err(RunnerError::NotBuilt { what: vec![what] })
}

/// Registers the measurement on this machine; waits for others to end if the options say so.
///
/// - `is_vain`: the id that another process has used meanwhile.
fn take_machine(
    options: &Options,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
    is_vain: &dyn Fn() -> Option<RunId>,
) -> Result<Machine, RunnerError> {
    let mut has_told = false;
    loop {
        if let Some(id) = is_vain() {
            return Err(ArchiveError::Exists { id }.into());
        }
        match Machine::take(options.beside_others) {
            Err(RunnerError::MachineBusy { holder, .. }) if options.wait => {
                if !has_told {
                    on_event(&Event::Note(&format!(
                        "waiting for another measurement on this machine: {holder}"
                    )));
                    has_told = true;
                }
            }
            taken => return taken,
        }
        if wait_for(LOOK_AGAIN, stop, || false) == Waited::Stopped || stop.is_last_trial() {
            return Err(RunnerError::StoppedBefore);
        }
    }
}

/// Checks whether plan and machine are fit, and reports other findings about the machine.
fn look(
    plan: &Plan,
    secrets: &Secrets,
    archive: &Archive,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Vec<Finding>, RunnerError> {
    if !plan.unsupported().is_empty() {
        let what = plan
            .unsupported()
            .iter()
            .map(|n| format!("{}:{}: {}", plan.name(), n.position, n.text))
            .collect();
        return Err(RunnerError::NotBuilt { what });
    }
    let mut found = preflight(plan, archive)?;
    for finding in &mut found {
        finding.text = secrets.hide(&finding.text);
    }
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

/// Chooses the account of server and commands. Without a server there is nothing to protect from the
/// commands: they run as the user, like those of a load.
fn account_of(plan: &Plan) -> Result<Option<Account>, RunnerError> {
    if !plan.has_server() {
        return Ok(None);
    }
    account::choose(plan.server_user()).map_err(|problem| RunnerError::NotFit { problems: vec![problem] })
}

/// A bake-off as it was read before the user agreed to its list.
struct Agreed {
    begun: Bakeoff,
    plan: Plan,
    script: Result<UnrunScript, RunnerError>,
    /// The plan's own file. If the user names the plan, its script and its repositories are beside it.
    file: Option<PathBuf>,
    was_asked: bool,
}

/// Reads a bake-off, and asks about what another user may have written. Runs and writes nothing.
fn agreed(
    archive: &Archive,
    (id, stranger): (RunId, Option<String>),
    options: &Options,
    journal: &Claim,
) -> Result<Agreed, RunnerError> {
    let begun = archive.bakeoff(id)?;
    let plan = archived_plan(archive, &begun, options, journal.before())?;
    let file = options.plan_file.clone().or_else(|| plan_file(journal.before()));
    let script = UnrunScript::read(&plan, file.as_deref(), &begun);
    let read = script.as_ref().ok();
    // The user has named the plan's folder.
    let is_named = options.plan_file.is_some();
    let of_files = || {
        let used = build::repositories(&plan, file.as_deref()).into_iter();
        let used = used.chain(read.map(UnrunScript::paths).unwrap_or_default());
        let stranger =
            read.and_then(UnrunScript::stranger).or_else(|| build::stranger(&plan, file.as_deref()));
        stranger.or_else(|| misled(archive, &plan, file.as_deref(), used))
    };
    let stranger = stranger.or_else(|| if is_named { None } else { of_files() });
    let was_asked = stranger.is_some();
    let lines = read.map(UnrunScript::lines).unwrap_or_default();
    let lines = lines.into_iter().chain(build::commits(&plan, file.as_deref(), &begun));
    approve(id, stranger, plan.text(), lines, options.trust)?;
    Ok(Agreed { begun, plan, script, file, was_asked })
}

/// Runs the body of the script in Lua, if the plan has one.
fn with_unrun_script(
    plan: Plan,
    script: UnrunScript,
    (bakeoff, options): (&Bakeoff, &Options),
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Plan, RunnerError> {
    tell_script_of_root(&plan, on_event);
    script.run(plan, bakeoff, options.plan_file.is_some())
}

/// Describes the rights of the plan's server and commands.
fn run_as(plan: &Plan, account: Option<Account>) -> String {
    let own = if geteuid().is_root() { "root" } else { "the user who ran bakeoff" };
    let name = match (account, plan.server_user()) {
        (Some(_), Some(user)) => user,
        (Some(_), None) => "an unprivileged user id chosen for the run",
        (None, _) => own,
    };
    match (account, plan.load_is_commands(), plan.script_path()) {
        (Some(_), true, _) => format!("{name}; the commands of the load as {own}"),
        (Some(_), _, Some(_)) => format!("{name}; the script of the load as {own}"),
        _ => name.to_owned(),
    }
}

/// Notes, before anything of it runs, that the script in Lua has the rights of root.
fn tell_script_of_root(plan: &Plan, on_event: &mut dyn FnMut(&Event<'_>)) {
    if geteuid().is_root() && plan.script_path().is_some() {
        on_event(&Event::Note(
            "the script of the load (`load.script`) runs as root: see docs/plans.md, \"The rights of servers and \
             commands\"",
        ));
    }
}

/// Notes which commands have the rights of root, if any have.
fn tell_commands_of_root(plan: &Plan, account: Option<Account>, on_event: &mut dyn FnMut(&Event<'_>)) {
    if let Some(which) = commands_of_root(plan, account) {
        on_event(&Event::Note(&format!(
            "{which} run as root: see docs/plans.md, \"The rights of servers and commands\""
        )));
    }
}

/// Returns the commands that have the rights of root.
fn commands_of_root(plan: &Plan, account: Option<Account>) -> Option<&'static str> {
    let is_root = geteuid().is_root();
    match (plan.has_commands() && account.is_none(), plan.load_is_commands()) {
        _ if !is_root => None,
        (true, _) => Some("the commands of this plan"),
        (false, true) => Some("the commands of the load (`exec:`)"),
        (false, false) => None,
    }
}

/// Returns the facts about the machine, including the findings of preflight and the data that is missing.
fn machine(
    plan: &Plan,
    archive: &Archive,
    found: &[Finding],
    beside: &Beside,
    account: Option<Account>,
) -> Environment {
    let mut environment = probes::environment::read(Path::new("/"));
    // Proofs that cannot be read are omitted; the page reports that they are absent.
    environment.calibration = archive.calibration(&environment).unwrap_or_default();
    let mut add = |name: &str, value| environment.facts.insert(name.to_owned(), value);
    add(COMMANDS_RUN_AS, Ok(run_as(plan, account)));
    let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
    add(FINDINGS, Ok(if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }));
    for instrument in plan.instruments().iter().filter(|i| *i != "cpu") {
        let known = beside.abilities().into_iter().find(|(name, _)| name == instrument);
        let able =
            known.map_or_else(|| Err(Missing::because("no trial remains to be observed")), |(_, able)| able);
        add(&format!("observe.{instrument}"), able.map(|()| "yes".to_owned()));
    }
    if !plan.instruments().is_empty() {
        let rung = beside.rung().map(|rung| rung.word().to_owned());
        add("observe.cpu", rung.ok_or_else(|| Missing::because("no trial remains to be observed")));
    }
    if plan.control_arm() {
        let blocks: Vec<String> =
            (1..=plan.blocks()).filter(|b| !plan.is_observed(*b)).map(|b| b.to_string()).collect();
        add("observe.control_arm", Ok(format!("blocks {}", blocks.join(", "))));
    }
    environment
}

/// Builds the bake-off before its first step.
fn planned(plan: &Plan, options: &Options, environment: Environment) -> Result<Bakeoff, RunnerError> {
    let anchor = WallAnchor::now();
    let labels = marks(plan, options.beside_others).collect();
    let begun = RunHeader::running(RunKind::Bakeoff, anchor, plan.title().to_owned(), command_line());
    let header = RunHeader { id: options.id.unwrap_or(begun.id), labels, ..begun };
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

/// Returns the author's key points. They are read now, so the page can be rendered again without the file.
fn notes(plan: &Plan) -> Result<Option<String>, RunnerError> {
    let Some(file) = plan.notes_path() else { return Ok(None) };
    let folder = Path::new(plan.name()).parent().map(PathBuf::from).unwrap_or_default();
    let path = folder.join(file);
    fs::read_to_string(&path).map(Some).map_err(|source| RunnerError::Notes { path, source })
}
