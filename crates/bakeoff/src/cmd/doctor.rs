//! `bakeoff doctor`: what this machine can and cannot show.

use std::io::Write;

use report::text::folded;
use runner::{Ability, Symptom};
use serde_json::json;

use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen::{self, Screen};

/// Show what this machine can and cannot measure, and how to fix it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Fix what can be fixed safely: mount the tracing file system
    #[arg(long)]
    fix: bool,

    /// Exit with code 1 if anything is limited or missing
    #[arg(long)]
    strict: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff doctor
  sudo bakeoff doctor --fix
  bakeoff doctor --json --strict       for scripts";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if args.fix {
        let told = match runner::mount_tracing() {
            Ok(Some(done)) => done,
            Ok(None) => "--fix: nothing to fix safely".to_owned(),
            Err(why) => format!("bakeoff doctor: {why}"),
        };
        Screen::new().line(&told);
    }
    let found = runner::examine(&global.archive_folder()?);
    let poor = found.iter().filter(|symptom| symptom.state != Ability::Good).count();
    if global.json {
        let findings: Vec<_> = found.iter().map(document).collect();
        print_json(out, &json!({"schema": "bakeoff.doctor/1", "findings": findings}))?;
    } else {
        found.iter().try_for_each(|symptom| text(out, symptom))?;
        match poor {
            0 => writeln!(out, "This machine can measure everything.")?,
            poor => writeln!(out, "{poor} of {} findings are limited or missing.", found.len())?,
        }
    }
    Ok(if args.strict && poor > 0 { Exit::Bad } else { Exit::Good })
}

fn document(symptom: &Symptom) -> serde_json::Value {
    let Symptom { what, state, costs, mend } = symptom;
    json!({"what": what, "state": state.word(), "costs": costs, "mend": mend})
}

fn text(out: &mut dyn Write, symptom: &Symptom) -> std::io::Result<()> {
    const INDENT: usize = 9;
    let style = screen::style();
    folded(out, &format!("{:<INDENT$}", symptom.state.word()), &symptom.what, INDENT, style)?;
    for cost in &symptom.costs {
        folded(out, &format!("{:INDENT$}", ""), cost, INDENT, style)?;
    }
    let Some(mend) = &symptom.mend else { return Ok(()) };
    folded(out, &format!("{:INDENT$}mend: ", ""), mend, INDENT, style)
}
