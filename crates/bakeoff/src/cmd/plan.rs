//! `bakeoff plan`: the check of a plan, its explanation, and its power.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use archive::whole_file;
use plan::Plan;
use record::quantity;
use serde_json::json;

use crate::cmd::experiment::Exclusive;
use crate::cmd::plan_file::{line, power, read, summary};
use crate::cmd::{Global, plan_pilot, print_json};
use crate::exit::{EndsWith as _, Exit};
use crate::screen::Screen;

/// Write a plan, check it, explain what it will do, or print the JSON Schema of plans
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Report all errors of a plan, with line and column
    #[command(after_help = "Examples:\n  bakeoff plan check plans/sqlite-journal.toml")]
    Check {
        /// The plan
        plan: PathBuf,
    },
    /// Show what a plan will do: every value, the order drawn, time and power
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain {
        /// The plan
        plan: PathBuf,

        /// First measure the reference against itself for this long: shows the noise and its parts, and how
        /// many blocks of which length the plan needs
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = quantity::duration)]
        pilot: Option<Duration>,

        #[command(flatten)]
        alone: Exclusive,
    },
    /// Write a commented plan from a load, or from commands to compare
    #[command(after_help = INIT_EXAMPLES)]
    Init(InitArgs),
    /// Print the JSON Schema of a plan, for editors
    #[command(after_help = "Examples:\n  bakeoff plan schema > bakeoff-plan.json")]
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// File to write instead of standard output; an existing file is not replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Title of the plan [default: from the command line]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// After `--`: `load` and its options; or commands, or `compare` and its options
    #[arg(last = true, required = true, value_name = "WORDS")]
    words: Vec<String>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  bakeoff plan explain plans/sqlite-journal.toml
  bakeoff plan explain plans/sqlite-journal.toml --pilot 2m";

const INIT_EXAMPLES: &str = "\
Examples:
  bakeoff plan init -- load sqlite:/tmp/bench.db --rate 500 --threads 8
  bakeoff plan init -o gzip.toml -- 'gzip -6 -k -f x' 'zstd -3 -k -f x'
  bakeoff plan init -- compare --gate 'time not worse by 5%' -- ./base ./head

The plan is the same bake-off as the command line: an option that a plan cannot express is refused.";

/// Writes the text of a plan from the words of a command line, and a title.
pub(crate) type Draft = fn(&[String], Option<&str>) -> anyhow::Result<String>;

/// - `draft`: writes the plans of `init`.
pub(crate) fn run(args: &Args, draft: Draft, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match &args.what {
        What::Check { plan } => {
            let plan = read(plan)?;
            if global.json {
                print_json(out, &checked(&plan))?;
            } else {
                summary(out, &plan)?;
            }
            Ok(if plan.unsupported().is_empty() { Exit::Good } else { Exit::Usage })
        }
        What::Explain { pilot: None, alone, .. } if alone.beside_others => {
            Err(Exit::Usage.with("--beside-others has no effect without --pilot: nothing is measured"))
        }
        What::Explain { plan, pilot, alone } => {
            let plan = read(plan)?;
            let pilot = pilot.map(|time| plan_pilot::measured(&plan, time, *alone)).transpose()?;
            if global.json {
                let mut document = explained(&plan);
                if let Some(pilot) = &pilot {
                    document["pilot"] = pilot.document(&plan);
                }
                print_json(out, &document)?;
            } else {
                summary(out, &plan)?;
                match &pilot {
                    Some(pilot) => pilot.write(&plan, out)?,
                    None => explain(out, &plan)?,
                }
            }
            Ok(Exit::Good)
        }
        What::Init(args) => init(args, draft, global, out),
        What::Schema => {
            writeln!(out, "{}", plan::json_schema())?;
            Ok(Exit::Good)
        }
    }
}

fn init(args: &InitArgs, draft: Draft, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let text = draft(&args.words, args.title.as_deref())?;
    // Checked here, so a mistake of ours is not left to the user.
    plan::read(&text, "the written plan").ends_with(Exit::Usage)?;
    match &args.output {
        None if global.json => print_json(out, &json!({"schema": "bakeoff.plan-init/1", "plan": text}))?,
        None => out.write_all(text.as_bytes())?,
        Some(path) => {
            if path.exists() {
                return Err(Exit::Usage.with(format!("{} exists; name another file", path.display())));
            }
            whole_file::write(path, text.as_bytes())
                .with_context(|| format!("writing {}", path.display()))?;
            if global.json {
                print_json(out, &json!({"schema": "bakeoff.plan-init/1", "wrote": path}))?;
            } else {
                Screen::new().line(&format!("wrote {0}; next: bakeoff plan explain {0}", path.display()));
            }
        }
    }
    Ok(Exit::Good)
}

fn explain(out: &mut dyn Write, plan: &Plan) -> std::io::Result<()> {
    writeln!(out, "\nEvery value (* is a default):")?;
    for resolved in plan.resolved() {
        let mark = if resolved.written { ' ' } else { '*' };
        line(out, &format!("  {mark} "), &format!("{} = {}", resolved.key, resolved.value), 6)?;
    }
    writeln!(out, "\nThe order drawn:")?;
    let trials = plan.trials();
    let mut series = 0;
    for trial in &trials {
        if trial.series != series {
            series = trial.series;
            writeln!(out, "  block {}, series {series}", trial.block)?;
        }
        let levels: Vec<String> =
            trial.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
        line(out, &format!("    {:>4}  ", trial.index + 1), &levels.join(" "), 10)?;
    }
    Ok(())
}

const WITHOUT_POWER: &str = "no verdict is possible: too few blocks, or nothing is compared";

fn judged(metric: &plan::JudgedMetric) -> serde_json::Value {
    let (judged, why) = match &metric.feasibility {
        plan::Feasibility::Yes => ("yes", None),
        plan::Feasibility::Unknown(what) => ("if-it-can-be", Some(what)),
        plan::Feasibility::No { why, everywhere: true } => ("no", Some(why)),
        plan::Feasibility::No { why, everywhere: false } => ("in-some-cells", Some(why)),
    };
    json!({"metric": metric.metric.word(), "judged": judged, "reason": why})
}

fn checked(plan: &Plan) -> serde_json::Value {
    let estimate = plan.estimate();
    let (found, alike) = power(plan);
    let notes = |notes: &[plan::Note]| -> Vec<_> {
        notes
            .iter()
            .map(|n| json!({"line": n.position.line, "column": n.position.column, "text": n.text}))
            .collect()
    };
    json!({
        "schema": "bakeoff.plan/1",
        "title": plan.title(),
        "sha256": plan.sha256(),
        "exploratory": plan.exploratory(),
        "configurations": estimate.configurations,
        "cells_per_series": estimate.cells_per_series,
        "grid": plan.grid(),
        "cells": plan.cells(),
        "blocks": estimate.blocks,
        "trials": estimate.trials,
        "time_min_s": estimate.time_min.as_secs_f64(),
        "comparisons": plan.comparisons(),
        "metrics": plan.judged_metrics().iter().map(judged).collect::<Vec<_>>(),
        "power": analysis::power::POWER,
        "detectable_sd": found,
        "equivalence_sd": alike,
        "missing": found.is_none().then(|| json!({
            "detectable_sd": WITHOUT_POWER,
            "equivalence_sd": WITHOUT_POWER,
        })),
        "notes": notes(plan.notes()),
        "unbuilt": notes(plan.unsupported()),
    })
}

fn explained(plan: &Plan) -> serde_json::Value {
    let mut document = checked(plan);
    document["values"] = plan
        .resolved()
        .iter()
        .map(|r| json!({"key": r.key, "value": r.value, "written": r.written}))
        .collect();
    document["order"] = plan
        .trials()
        .iter()
        .map(|t| json!({"trial": t.index, "block": t.block, "series": t.series, "position": t.position, "levels": t.levels}))
        .collect();
    document
}
