//! `bakeoff run` and `bakeoff resume`: a bake-off, from its plan to its verdict.

#[cfg(feature = "fleet")]
mod fleet;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;

use analysis::Comparisons;
use archive::{Archive, ArchiveError};
use record::bakeoff::{Bakeoff, Trial, TrialState};
use record::clock::WallAnchor;
use record::gate::Gate;
use record::quantity;
use record::run::{RunHeader, RunId, RunKind, RunState};
use runner::{Event, Foreign, Options, Outcome, RunnerError};

use crate::cmd::experiment::{self, Exclusive};
use crate::cmd::gates::{self, Outputs};
use crate::cmd::plan_file::{read, summary};
use crate::cmd::runs::find_of;
use crate::cmd::{Global, command_line, of_archive, print_json, profiled};
use crate::exit::Exit;
use crate::live::Viewers;
use crate::screen::{self, Screen};
use crate::{script_options, signals};

/// Run a bake-off: every configuration of a plan, in blocks, in random order
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The plan
    plan: PathBuf,

    /// Only check that the plan works: two blocks, measured phases of 0.3 s; do not use the numbers
    #[arg(long)]
    quick: bool,

    /// Condition for exit code 0, besides those of the plan: 'p99 not worse by 5%', 'throughput >= 10000/s'
    #[arg(long = "gate", value_name = "CONDITION", value_parser = gates::gate, conflicts_with = "quick")]
    gates: Vec<Gate>,

    #[command(flatten)]
    outputs: Outputs,

    #[command(flatten)]
    alone: Exclusive,

    /// Wait while another measurement holds the machine, instead of refusing
    #[arg(long, conflicts_with = "beside_others")]
    wait: bool,

    #[cfg(feature = "fleet")]
    #[command(flatten)]
    nats: fleet::NatsOptions,

    /// The id of the new bake-off, which a queue has chosen
    #[arg(long = "as", value_name = "ID", hide = true)]
    id: Option<RunId>,
}

/// Continue a bake-off that was interrupted or killed
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(crate) struct ResumeArgs {
    /// Run id, unique prefix, or `latest`
    run: String,

    /// The plan's file, if the plan contains a secret in plain text and the file has moved
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Run the commands of another user's bake-off as this user, without asking
    #[arg(long)]
    trust: bool,

    #[command(flatten)]
    outputs: Outputs,

    #[command(flatten)]
    alone: Exclusive,

    /// Wait while another measurement holds the machine, instead of refusing
    #[arg(long, conflicts_with = "beside_others")]
    wait: bool,

    #[cfg(feature = "fleet")]
    #[command(flatten)]
    nats: fleet::NatsOptions,
}

const RUN_EXAMPLES: &str = "\
Examples:
  bakeoff run plans/sqlite-journal.toml
  bakeoff run plans/sqlite-journal.toml --quick
  bakeoff run plans/sqlite-journal.toml --gate 'p99 not worse by 5%' --junit gates.xml

Ctrl-C ends the trial that is being measured; `bakeoff resume` continues the bake-off.";

const RESUME_EXAMPLES: &str = "\
Examples:
  bakeoff resume latest
  bakeoff resume 8c1fe2";

/// Kinds of runs that can be resumed.
const RESUMABLE: [RunKind; 3] = [RunKind::Bakeoff, RunKind::Scale, RunKind::Dder];

pub(crate) fn run(args: &RunArgs, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let plan = read(&args.plan)?;
    let plan = plan.with_gates(&args.gates).map_err(|why| Exit::Usage.with(format!("--gate: {why}")))?;
    args.outputs.check(&[("PLAN", args.plan.clone())])?;
    let plan = if args.quick { plan.shortened() } else { plan };
    #[cfg(feature = "fleet")]
    if let Some(fleet) = plan.fleet() {
        args.nats.check(fleet)?;
    }
    #[cfg(not(feature = "fleet"))]
    if plan.fleet().is_some() {
        let what = format!("{}: [fleet]: {}", args.plan.display(), crate::features::lacks("fleet"));
        return Err(Exit::Usage.with(what));
    }
    let archive = global.archive_for_writing()?;
    let mut told = Progress::default();
    told.before(&plan)?;
    signals::stop_on_interrupt()?;
    // Standard output has the result.
    script_options::print_beside(true);
    let options = Options {
        beside_others: args.alone.beside_others,
        plan_file: None,
        wait: args.wait,
        id: args.id,
        #[cfg(feature = "fleet")]
        generator: Some(args.nats.fleet()),
        #[cfg(not(feature = "fleet"))]
        generator: None,
        trust: |_| false,
    };
    let mut viewers = Viewers::of(&archive);
    let mut on_event = |event: &Event<'_>| {
        viewers.tell(event);
        told.show(event);
    };
    let outcome = runner::run(&plan, &archive, &options, &signals::STOP, &mut on_event);
    drop(viewers);
    told.screen.clear();
    let outcome = outcome.map_err(|error| failed(plan.title(), &args.outputs, error))?;
    end(&archive, &outcome, &args.outputs, global, out)
}

/// Writes the files for continuous integration of a bake-off without a result; returns its error.
fn failed(title: &str, outputs: &Outputs, error: RunnerError) -> anyhow::Error {
    let (anchor, title) = (WallAnchor::now(), title.to_owned());
    let header = RunHeader::running(RunKind::Bakeoff, anchor, title, command_line(None));
    outputs.write_failed(&header, of_runner(error))
}

pub(crate) fn resume(args: &ResumeArgs, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let plan = args.plan.clone().map(|plan| ("--plan", plan));
    args.outputs.check(&plan.into_iter().collect::<Vec<_>>())?;
    signals::stop_on_interrupt()?;
    // Standard output has the result.
    script_options::print_beside(true);
    let archive = archive_of(args, global)?;
    let id = find_of(&archive, &args.run, &RESUMABLE)?;
    if !archive.is_bakeoff(id) {
        return Err(Exit::Usage
            .with(format!("{id} is a single run; only a bake-off, a scale or a dder run can be resumed")));
    }
    if args.outputs.are_given() && experiment::is_kind(archive.header(id)?.kind) {
        let what = "--junit, --summary and --badge have no effect on a scale or dder run: it has no gates";
        return Err(Exit::Usage.with(what));
    }
    let options = Options {
        beside_others: args.alone.beside_others,
        plan_file: args.plan.clone(),
        wait: args.wait,
        id: None,
        #[cfg(feature = "fleet")]
        generator: Some(args.nats.fleet()),
        #[cfg(not(feature = "fleet"))]
        generator: None,
        trust: if args.trust { shown } else { asked },
    };
    let mut told = Progress::default();
    let mut viewers = Viewers::of(&archive);
    let mut on_event = |event: &Event<'_>| {
        viewers.tell(event);
        told.show(event);
    };
    let outcome = runner::resume(&archive, id, &options, &signals::STOP, &mut on_event);
    drop(viewers);
    told.screen.clear();
    if matches!(outcome, Err(RunnerError::Untrusted { .. })) && signals::STOP.is_requested() {
        let error = Exit::Interrupted.with(format!("interrupted before anything of {id} ran"));
        let header = archive.header(id)?;
        return Err(if experiment::is_kind(header.kind) {
            error
        } else {
            args.outputs.write_failed(&header, error)
        });
    }
    if experiment::is_one(&archive, id)? {
        return experiment::end(&archive, outcome, None, global, out);
    }
    let title = archive.header(id)?.title;
    let outcome = outcome.map_err(|error| failed(&title, &args.outputs, error))?;
    end(&archive, &outcome, &args.outputs, global, out)
}

/// The archive. In another user's folder, root continues only if the user agrees.
fn archive_of(args: &ResumeArgs, global: &Global) -> anyhow::Result<Archive> {
    if args.trust {
        return global.trusted_archive();
    }
    global.archive_for_writing().or_else(|error| match error.downcast_ref() {
        Some(ArchiveError::OfAnother { path }) if is_at_terminal() => {
            let folder = path.display();
            Screen::new().line(&format!("{folder} belongs to another user, who can change what is in it."));
            if says_yes("Write to it?") { global.trusted_archive() } else { Err(error) }
        }
        _ => Err(error),
    })
}

/// Prints the commands that another user could have written; the user has given `--trust`.
fn shown(foreign: &Foreign) -> bool {
    let mut screen = Screen::new();
    screen.line(&format!("{} belongs to another user ({}). It will run as you:", foreign.id, foreign.owner));
    foreign.commands.iter().for_each(|command| screen.line(&format!("  {command}")));
    true
}

/// Whether the user, asked at a terminal, agrees to run commands that another user could have written.
fn asked(foreign: &Foreign) -> bool {
    is_at_terminal() && shown(foreign) && says_yes("Run it?")
}

/// Whether a user at a terminal can be asked.
fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks at the terminal. The end of the input and Ctrl-C mean no.
fn says_yes(question: &str) -> bool {
    Screen::new().line(&format!("{question} [y/N]"));
    let mut answer = String::new();
    signals::is_readable(&std::io::stdin())
        && std::io::stdin().read_line(&mut answer).is_ok()
        && matches!(answer.trim(), "y" | "yes")
}

/// Prints the verdict; returns the exit code.
fn end(
    archive: &Archive,
    outcome: &Outcome,
    outputs: &Outputs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let bakeoff = archive.bakeoff(outcome.id)?;
    let comparisons = profiled::compare(archive, &bakeoff)?;
    let printed = print(&bakeoff, &comparisons, global, out);
    let written = outputs.write_bakeoff(&bakeoff, &comparisons);
    say_what_next(outcome.id, outcome);
    let of_trials = exit_of(outcome);
    // The gates are what the user asked for: a lost trial shows in them.
    let of_gates = gates::exit(&comparisons).filter(|_| of_trials != Exit::Interrupted);
    gates::ended(of_gates.unwrap_or(of_trials), [printed, written])
}

/// Prints a bake-off with its verdicts.
pub(crate) fn print(
    bakeoff: &Bakeoff,
    comparisons: &Comparisons,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if global.json {
        print_json(out, &report::json::run(bakeoff, comparisons))?;
    } else {
        let name = global.short_name(bakeoff.header.id);
        report::text::bakeoff(out, bakeoff, comparisons, Some(&name), screen::style())?;
    }
    Ok(out.flush()?)
}

/// The exit code with which `run` and `resume` left this bake-off.
pub(crate) fn exit_of_stored(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Exit {
    if !matches!(bakeoff.header.state, RunState::Sealed | RunState::Invalid | RunState::Failed) {
        return Exit::Interrupted;
    }
    let sealed: BTreeSet<u32> = bakeoff.sealed().map(|(trial, _)| trial.index).collect();
    let is_without_value = |trial: &&Trial| !sealed.contains(&trial.index);
    let lost: Vec<u32> = bakeoff.trials.iter().filter(is_without_value).map(|trial| trial.index).collect();
    let invalid = bakeoff.attempts.iter().filter(|a| a.state == TrialState::Invalid);
    let invalid: BTreeSet<u32> = invalid.map(|a| a.trial).collect();
    let of_trials = match lost.iter().filter(|trial| invalid.contains(trial)).count() {
        _ if lost.is_empty() => Exit::Good,
        invalid if invalid == lost.len() => Exit::Invalid,
        _ => Exit::ServerFailed,
    };
    gates::exit(comparisons).unwrap_or(of_trials)
}

pub(crate) fn exit_of(outcome: &Outcome) -> Exit {
    match outcome.state {
        RunState::Interrupted => Exit::Interrupted,
        // Failed or invalid trials may leave a verdict without some blocks: it is printed, and the exit code
        // marks it as incomplete.
        _ if outcome.failed > 0 => Exit::ServerFailed,
        _ if outcome.invalid > 0 => Exit::Invalid,
        _ => Exit::Good,
    }
}

pub(crate) fn say_what_next(id: RunId, outcome: &Outcome) {
    if outcome.state == RunState::Interrupted {
        Screen::new().line(&format!("interrupted; continue with: bakeoff resume {id}"));
    }
}

pub(crate) fn of_runner(error: RunnerError) -> anyhow::Error {
    match error {
        RunnerError::Archive(source) => of_archive(source),
        other => Exit::from(other.class()).with(other),
    }
}

/// Progress of a bake-off for the user.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) screen: Screen,
}

impl Default for Progress {
    fn default() -> Self {
        Self { screen: Screen::new() }
    }
}

impl Progress {
    /// Prints the summary of the plan before it starts.
    fn before(&mut self, plan: &plan::Plan) -> std::io::Result<()> {
        let mut text = Vec::new();
        summary(&mut text, plan)?;
        self.screen.line(String::from_utf8_lossy(&text).trim_end());
        Ok(())
    }

    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { id, trials, done } => {
                self.screen.line(&format!(
                    "{id}: {}, {done} done before",
                    quantity::plural((*trials).into(), "trial")
                ));
                self.screen.parts("trials", (*trials).into());
                self.screen.at((*done).into());
            }
            Event::Note(text) => self.screen.line(&format!("note: {text}")),
            Event::Doing(what) => self.screen.parts(what, 1),
            Event::Trial(_) | Event::Series { .. } | Event::Load(_) | Event::Watched(_) => {}
            Event::Ended { trial, state, reason, done, trials } => {
                self.screen.line(&ended(trial, *state, *reason, *done, *trials));
                self.screen.at((*done).into());
            }
        }
    }
}

fn ended(trial: &Trial, state: TrialState, reason: Option<&str>, done: u32, trials: u32) -> String {
    let levels: Vec<String> =
        trial.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    let why = reason.map_or(String::new(), |r| format!(": {r}"));
    format!("{done:>4}/{trials} block {} {} {}{why}", trial.block, levels.join(" "), state.word())
}
