//! `bakeoff aa`: how often the whole pipeline finds a difference between equal configurations.

use std::io::Write;
use std::path::PathBuf;

use analysis::aa::{FalseVerdicts, simulate};
use analysis::{Rules, Verdict};
use archive::Archive;
use record::quantity::ratio;
use record::run::{RunId, RunState};
use runner::Options;

use crate::cmd::experiment::{Exclusive, seed};
use crate::cmd::plan_file::read;
use crate::cmd::run::{Progress, of_runner};
use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::{screen, signals};

/// Measure how often equal configurations get a false verdict: a plan's reference against itself, or
/// simulated
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The plan: its reference configuration is measured against itself, as `bakeoff run` measures it
    #[arg(conflicts_with = "simulate")]
    plan: Option<PathBuf>,

    /// Judge this many simulated families of equal configurations instead, without measuring anything
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    simulate: Option<u32>,

    /// Bake-offs to run; each is one family, and takes as long as the plan does with two configurations
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "simulate", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    times: u32,

    /// With --simulate: the promised rate of false verdicts
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = probability, conflicts_with = "plan")]
    alpha: f64,

    /// With --simulate: differences within this share do not matter
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = ratio, conflicts_with = "plan")]
    rope: f64,

    /// With --simulate: random seed; by default random, and printed
    #[arg(long, conflicts_with = "plan")]
    seed: Option<u64>,

    #[command(flatten)]
    alone: Exclusive,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff aa --simulate 1000            the decision rule alone, in a second
  bakeoff aa plan.toml --times 20       the plan on this machine: at most 5 % may get a verdict

A rate needs many bake-offs: 0 false of 5 are compatible with a rate of 52 %; 0 of 60, with 6 %.
Exit code 1: the rate is certainly above the promised one; 3: no bake-off could be judged.";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match (&args.plan, args.simulate) {
        (_, Some(_)) if args.alone.beside_others => {
            Err(Exit::Usage.with("--beside-others has no effect on --simulate: nothing is measured"))
        }
        (_, Some(families)) => {
            let seed = seed(args.seed);
            let rules = Rules { rope_ratio: args.rope, alpha: args.alpha, seed };
            let found = simulate(families, rules);
            let what = if families == 1 { "simulated family" } else { "simulated families" };
            let what = format!("{what} (seed {seed})");
            print(&Judged { found, bakeoffs: Vec::new(), left_out: 0 }, &what, global, out)
        }
        (Some(plan), None) => of_plan(plan, args, global, out),
        (None, None) => Err(Exit::Usage.with(
            "expected a plan, which is measured against itself, or --simulate N, which measures nothing",
        )),
    }
}

/// Families that were judged.
struct Judged {
    found: FalseVerdicts,
    bakeoffs: Vec<RunId>,
    left_out: u32,
}

fn of_plan(
    path: &std::path::Path,
    args: &Args,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let plan = read(path)?;
    let repetition = plan.against_itself(1);
    if repetition.exploratory() {
        let text = format!(
            "{}: {} blocks are too few for any verdict, so none can be false; at alpha 5 %, 6 blocks are \
             enough",
            plan.name(),
            plan.blocks()
        );
        return Err(Exit::Usage.with(text));
    }
    let archive = global.archive_for_writing()?;
    signals::stop_on_interrupt()?;
    let (mut bakeoffs, mut wrong, mut not_judged) = (Vec::new(), 0, 0);
    let mut is_interrupted = false;
    for number in 1..=args.times {
        match measured(&plan.against_itself(number), args, &archive)? {
            Family::Judged { id, is_wrong } => {
                bakeoffs.push(id);
                wrong += u32::from(is_wrong);
            }
            Family::NotJudged => not_judged += 1,
            Family::Stopped => {
                is_interrupted = true;
                break;
            }
        }
    }
    let families = u32::try_from(bakeoffs.len()).unwrap_or(u32::MAX);
    if families == 0 {
        let (exit, why) = if is_interrupted {
            (
                Exit::Interrupted,
                "interrupted before a bake-off was complete; `bakeoff resume latest` completes it",
            )
        } else {
            (Exit::Invalid, "no bake-off could be judged: `bakeoff runs show latest` says why")
        };
        return Err(exit.with(why));
    }
    let found = FalseVerdicts::new(families, wrong, plan.judge().alpha);
    let what = if families == 1 { "bake-off" } else { "bake-offs" };
    let what = format!("{what} of the reference against itself");
    let exit = print(&Judged { found, bakeoffs, left_out: not_judged }, &what, global, out)?;
    Ok(if is_interrupted { Exit::Interrupted } else { exit })
}

/// End of one bake-off.
enum Family {
    /// With claims, perhaps a false one.
    Judged { id: RunId, is_wrong: bool },
    /// Without a claim.
    NotJudged,
    /// The user stopped it.
    Stopped,
}

/// Runs and judges one bake-off.
fn measured(plan: &plan::Plan, args: &Args, archive: &Archive) -> anyhow::Result<Family> {
    let mut told = Progress::default();
    let beside_others = args.alone.beside_others;
    let options =
        Options { beside_others, wait: false, plan_file: None, id: None, generator: None, trust: |_| false };
    let outcome = runner::run(plan, archive, &options, &signals::STOP, &mut |event| told.show(event));
    told.screen.clear();
    let outcome = outcome.map_err(of_runner)?;
    if outcome.state == RunState::Interrupted {
        return Ok(Family::Stopped);
    }
    let comparisons = analysis::compare(&archive.bakeoff(outcome.id)?);
    if !comparisons.pairs.iter().any(|pair| pair.estimate.is_ok()) {
        return Ok(Family::NotJudged);
    }
    let is_wrong = comparisons.count(Verdict::Better) + comparisons.count(Verdict::Worse) > 0;
    Ok(Family::Judged { id: outcome.id, is_wrong })
}

fn print(judged: &Judged, what: &str, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json {
        print_json(out, &report::json::aa(&judged.found, &judged.bakeoffs, judged.left_out))?;
    } else {
        report::text::aa(out, &judged.found, what, judged.left_out, screen::style())?;
    }
    Ok(if judged.found.is_broken() { Exit::Bad } else { Exit::Good })
}

/// Reads a share over 0 and under 1.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    let share = ratio(text).map_err(|e| e.to_string())?;
    if share > 0.0 && share < 1.0 {
        Ok(share)
    } else {
        Err("expected more than 0 % and less than 100 %".into())
    }
}
