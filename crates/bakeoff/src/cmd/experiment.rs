//! Code that `scale` and `dder` share: measuring, printing, the page.

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

/// Minimum number of valid rounds of each run in a comparison.
#[expect(clippy::cast_possible_truncation, reason = "six")]
const ROUNDS_MIN: u32 = SERIES_MIN as u32;

/// A run to compare with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    /// Name of the run, as the user wrote it.
    pub(crate) with: &'a str,
    /// Whether to compare runs that differ in more than the machine.
    pub(crate) force: bool,
}

/// Whether the machine must be free of other measurements.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Exclusive {
    /// Measure even if another bake-off, `scale` or `dder` runs on this machine; every trial is marked
    #[arg(long)]
    pub(crate) beside_others: bool,
}

/// Measures the plan, and prints the result and the comparison with `compare`.
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
    let options = Options {
        beside_others: alone.beside_others,
        plan_file: None,
        wait: false,
        id: None,
        generator: None,
        trust: |_| false,
    };
    let outcome = runner::experiment(plan, &archive, &options, &signals::STOP, &mut |event| told.show(event));
    told.screen.clear();
    end(&archive, outcome, other.as_ref(), global, out)
}

/// Refuses a comparison that cannot have enough valid rounds.
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
        "--compare: {which} has {rounds} rounds{of}; a comparison needs {ROUNDS_MIN} valid ones of each \
         run: use --rounds {ROUNDS_MIN}"
    )))
}

/// Reports the differences between two runs besides the machine. Runs of `scale` with differences are refused
/// unless `force` is set; sweeps are compared size by size, even on different file systems.
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

/// Prints the outcome; returns the exit code.
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

/// Prints a run, and its comparison with another of its kind.
pub(crate) fn print(
    run: &Bakeoff,
    other: Option<&Bakeoff>,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let name = if global.json { String::new() } else { global.short_name(run.header.id) };
    let (name, style) = (Some(name.as_str()), screen::style());
    match Results::of(run, other) {
        Results::Scale(scale, versus) if global.json => {
            print_json(out, &report::json::scale(run, &scale, versus.as_ref()))
        }
        Results::Scale(scale, versus) => {
            Ok(report::text::scale(out, run, &scale, versus.as_ref(), name, style)?)
        }
        Results::Sweep(sweep, versus) if global.json => {
            print_json(out, &report::json::sweep(run, &sweep, &versus))
        }
        Results::Sweep(sweep, versus) => Ok(report::text::sweep(out, run, &sweep, &versus, name, style)?),
    }
}

/// The page of a run, and of its comparison with another.
pub(crate) fn page(run: &Bakeoff, other: Option<&Bakeoff>) -> report::page::Page {
    match Results::of(run, other) {
        Results::Scale(scale, versus) => report::page::scale(run, &scale, versus.as_ref()),
        Results::Sweep(sweep, versus) => report::page::sweep(run, &sweep, &versus),
    }
}

/// Results of a run, alone and compared with another.
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

/// The run of this kind that the user named.
pub(crate) fn find(archive: &Archive, text: &str, kind: RunKind) -> anyhow::Result<Bakeoff> {
    let id = crate::cmd::runs::find_of(archive, text, &[kind])?;
    if archive.is_bakeoff(id) {
        let found = archive.bakeoff(id)?;
        if found.header.kind == kind {
            return Ok(found);
        }
    }
    Err(Exit::Usage.with(format!(
        "{id} is not a {} run: `bakeoff runs list --kind {}` lists them",
        kind.word(),
        kind.word()
    )))
}

/// Whether runs of this kind are experiments without a server.
pub(crate) fn is_kind(kind: RunKind) -> bool {
    matches!(kind, RunKind::Scale | RunKind::Dder)
}

/// Whether the run is an experiment without a server.
pub(crate) fn is_one(archive: &Archive, id: RunId) -> anyhow::Result<bool> {
    Ok(is_kind(archive.bakeoff(id)?.header.kind))
}

/// The given seed, or a drawn one, which the archive stores with the run.
pub(crate) fn seed(given: Option<u64>) -> u64 {
    let drawn = || RunId::fresh(record::clock::WallAnchor::now()).to_string();
    given
        .unwrap_or_else(|| drawn().bytes().fold(0, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b)) >> 32)
}
