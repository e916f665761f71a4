//! What `scale` and `dder` have in common: measuring, printing, the page.

use std::collections::BTreeMap;
use std::io::Write;

use analysis::usl::SERIES_MIN;
use archive::Archive;
use plan::{Experiment, ScalePlan};
use record::bakeoff::{Bakeoff, Levels};
use record::missing::Maybe;
use record::run::{RunId, RunKind};
use runner::{Options, Outcome, RunnerError};

use crate::cmd::run::{Progress, exit_of, of_runner, say_what_next};
use crate::cmd::{Global, print_json};
use crate::exit::{EndsWith as _, Exit};
use crate::{screen, signals};

/// A comparison needs so many valid rounds of each run.
#[expect(clippy::cast_possible_truncation, reason = "six")]
const ROUNDS_MIN: u32 = SERIES_MIN as u32;

/// A run that another one is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    /// Its name, as the user wrote it.
    pub(crate) with: &'a str,
    /// Whether to compare although they differ in more than the machine.
    pub(crate) force: bool,
}

/// Whether the machine must be free of other measurements.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Exclusive {
    /// Measure although another bake-off, `scale` or `dder` runs on this machine; every trial is marked
    #[arg(long)]
    pub(crate) beside_others: bool,
}

/// Measures it, and prints what it says beside `compare`.
pub(crate) fn run(
    plan: &Experiment,
    compare: Option<Comparison<'_>>,
    alone: Exclusive,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    plan.check().ends_with(Exit::Usage)?;
    let archive = global.archive_for_writing()?;
    let other = compare.map(|against| find(&archive, against.with, plan.kind())).transpose()?;
    if let (Some(against), Some(other)) = (compare, &other) {
        let cpus = probes::limits::Limits::of_self().cpu().whole_cpus().ok();
        check_rounds(plan, against.with, other)?;
        comparable(plan, &runner::facts_of(plan), cpus, other, against.force)?;
    }
    let mut told = Progress::default();
    signals::stop_on_interrupt()?;
    let options = Options { beside_others: alone.beside_others, plan_file: None, trust: |_| false };
    let outcome = runner::experiment(plan, &archive, &options, &signals::STOP, &mut |event| told.show(event));
    told.screen.clear();
    end(&archive, outcome, other.as_ref(), global, out)
}

/// Refuses a comparison of which it is known before that nothing can come of it.
fn check_rounds(plan: &Experiment, with: &str, other: &Bakeoff) -> anyhow::Result<()> {
    let mut valid: BTreeMap<&Levels, u32> = BTreeMap::new();
    for (trial, _) in other.sealed() {
        *valid.entry(&trial.levels).or_default() += 1;
    }
    let one = Levels::from([(ScalePlan::COPIES.to_owned(), "1".to_owned())]);
    let (here, there, of) = match plan {
        Experiment::Scale(plan) if !plan.copies.contains(&1) => (0, ROUNDS_MIN, " of one copy (--copies)"),
        Experiment::Scale(plan) => (plan.rounds, valid.get(&one).copied().unwrap_or(0), " of one copy"),
        Experiment::Sweep(plan) => (plan.rounds, valid.into_values().max().unwrap_or(0), ""),
    };
    let few = [("this run", here), (with, there)].into_iter().find(|(_, rounds)| *rounds < ROUNDS_MIN);
    let Some((which, rounds)) = few else { return Ok(()) };
    Err(Exit::Usage.with(format!(
        "--compare: {which} has {rounds} rounds{of}, and a comparison needs {ROUNDS_MIN} that are valid of each run: --rounds {ROUNDS_MIN}"
    )))
}

/// Says what two runs differ in besides the machine. Those of `scale` are then not held against each other, except with
/// `force`; sweeps are compared size by size, on other file systems too.
pub(crate) fn comparable(
    plan: &Experiment,
    facts: &BTreeMap<String, Maybe<String>>,
    cpus: Option<u32>,
    other: &Bakeoff,
    force: bool,
) -> anyhow::Result<()> {
    let differing = runner::differing(plan, facts, cpus, other);
    if differing.is_empty() {
        return Ok(());
    }
    let what = format!("--compare: the two runs differ in more than the machine: {}", differing.join("; "));
    if force || plan.kind() == RunKind::Dder {
        screen::Screen::new().line(&format!("bakeoff: {what}"));
        return Ok(());
    }
    Err(Exit::Usage.with(format!("{what}. --force compares them anyway")))
}

/// Prints what came of it; yields how the command ends.
pub(crate) fn end(
    archive: &Archive,
    outcome: Result<Outcome, RunnerError>,
    other: Option<&Bakeoff>,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let outcome = outcome.map_err(of_runner)?;
    print(&archive.bakeoff(outcome.id)?, other, global, out)?;
    out.flush()?;
    say_what_next(outcome.id, &outcome);
    Ok(exit_of(&outcome))
}

/// Prints a run, and what it says beside another of its kind.
pub(crate) fn print(
    run: &Bakeoff,
    other: Option<&Bakeoff>,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match Results::of(run, other) {
        Results::Scale(scale, versus) if global.json => {
            print_json(out, &report::json::scale(run, &scale, versus.as_ref()))
        }
        Results::Scale(scale, versus) => {
            Ok(report::text::scale(out, run, &scale, versus.as_ref(), screen::style())?)
        }
        Results::Sweep(sweep, versus) if global.json => {
            print_json(out, &report::json::sweep(run, &sweep, &versus))
        }
        Results::Sweep(sweep, versus) => Ok(report::text::sweep(out, run, &sweep, &versus, screen::style())?),
    }
}

/// The page of a run, and of how it compares with another.
pub(crate) fn page(run: &Bakeoff, other: Option<&Bakeoff>) -> report::page::Page {
    match Results::of(run, other) {
        Results::Scale(scale, versus) => report::page::scale(run, &scale, versus.as_ref()),
        Results::Sweep(sweep, versus) => report::page::sweep(run, &sweep, &versus),
    }
}

/// What a run comes to, alone and beside another.
enum Results {
    Scale(Box<analysis::scale::Scale>, Option<analysis::scale::Versus>),
    Sweep(analysis::sweep::Sweep, Vec<analysis::sweep::Versus>),
}

impl Results {
    fn of(run: &Bakeoff, other: Option<&Bakeoff>) -> Self {
        if run.header.kind == RunKind::Dder {
            let versus = other.map_or_else(Vec::new, |other| analysis::sweep::versus(run, other));
            return Self::Sweep(analysis::sweep::sweep(run), versus);
        }
        let scale = analysis::scale::scale(run);
        let versus = other.map(|other| analysis::scale::versus(&scale, &analysis::scale::scale(other)));
        Self::Scale(Box::new(scale), versus)
    }
}

/// The run of that kind that the user named.
pub(crate) fn find(archive: &Archive, text: &str, kind: RunKind) -> anyhow::Result<Bakeoff> {
    let id = crate::cmd::runs::find_of(archive, text, &[kind])?;
    if archive.is_bakeoff(id) {
        let found = archive.bakeoff(id)?;
        if found.header.kind == kind {
            return Ok(found);
        }
    }
    Err(Exit::Usage.with(format!(
        "{id} is no {} run: `bakeoff runs list --kind {}` shows them",
        kind.word(),
        kind.word()
    )))
}

/// Whether runs of that kind are experiments without a server.
pub(crate) fn is_kind(kind: RunKind) -> bool {
    matches!(kind, RunKind::Scale | RunKind::Dder)
}

/// Whether that is one.
pub(crate) fn is_one(archive: &Archive, id: RunId) -> anyhow::Result<bool> {
    Ok(is_kind(archive.bakeoff(id)?.header.kind))
}

/// A seed that is given, or drawn: it is kept with the run.
pub(crate) fn seed(given: Option<u64>) -> u64 {
    let drawn = || RunId::fresh(record::clock::WallAnchor::now()).to_string();
    given
        .unwrap_or_else(|| drawn().bytes().fold(0, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b)) >> 32)
}
