//! `bakeoff reproduce`: the plan and the command that repeat the run of a page.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archive::whole_file;
use report::provenance::{Provenance, Repeat};
use serde_json::json;

use crate::cmd::{Global, print_json};
use crate::confine::Reader;
use crate::exit::{EndsWith as _, Exit};
use crate::screen::{self, Screen};
use crate::text_file;

/// Extract the plan of a page, show what differs on this machine, and print the command that repeats the run
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The page, as `bakeoff report` wrote it
    page: PathBuf,

    /// File for the plan; by default the page's name with .toml
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff reproduce page.html
  bakeoff reproduce page.html -o again.toml

This command runs nothing: its last line is the command that repeats the run.
Read the plan first: its commands run as you.";

/// Facts that differ from one moment to the next on one machine.
const OF_THE_MOMENT: [&str; 3] = ["trial.", "clock.", "load."];

/// A fact, there and here.
type Difference = (String, String, String);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    // A confined process cannot read this machine.
    let here = probes::environment::read(Path::new("/"));
    let plan_path = args.output.clone().unwrap_or_else(|| args.page.with_extension("toml"));
    Reader::default().reads(&args.page).writes_file(Some(&plan_path)).confine("reproduce", false);
    let page = text_file::read(&args.page, text_file::DOCUMENT_BYTES_MAX);
    let page = page.ends_with(Exit::Usage).with_context(|| format!("reading {}", args.page.display()))?;
    let of_page = |why| Exit::Usage.with(format!("{}: {why}", args.page.display()));
    let provenance = Provenance::of_page(&page).map_err(of_page)?;
    let repeat = &provenance.repeat;
    let mut differing = differences(&repeat.facts, |name| here.fact(name).map(str::to_owned));
    let version = env!("CARGO_PKG_VERSION");
    if repeat.measured_by != version {
        differing.insert(0, ("bakeoff".to_owned(), repeat.measured_by.clone(), version.to_owned()));
    }
    let command = match (&repeat.plan, &repeat.command) {
        (Some(plan), _) => {
            if plan_path.exists() && !args.force {
                let path = plan_path.display();
                return Err(Exit::Usage
                    .with(format!("{path} exists: name another file with -o, or replace it with --force")));
            }
            whole_file::write(&plan_path, plan.text.as_bytes())
                .with_context(|| format!("writing {}", plan_path.display()))?;
            let words = ["bakeoff", "run"].map(str::to_owned).into_iter();
            record::run::command_line(words.chain([plan_path.display().to_string()]))
        }
        (None, Some(_)) if args.output.is_some() || args.force => {
            let what = "--output and --force have no effect: this page's run has a command, and no plan";
            return Err(Exit::Usage.with(format!("{}: {what}", args.page.display())));
        }
        (None, Some(command)) => command.clone(),
        (None, None) => {
            let what = "the page lacks the command, because it names the machine: write the page with \
                        `bakeoff report RUN --identify`";
            return Err(Exit::Usage.with(format!("{}: {what}", args.page.display())));
        }
    };
    if global.json {
        let differing =
            differing.iter().map(|(name, there, here)| json!({"what": name, "page": there, "here": here}));
        let document = json!({
            "schema": "bakeoff.reproduce/1",
            "runs": provenance.runs,
            "title": repeat.title,
            "measured_by": repeat.measured_by,
            "servers": repeat.servers,
            "plan": repeat.plan.as_ref().map(|_| &plan_path),
            "plan_is_whole": repeat.plan.as_ref().map(|plan| plan::sha256(&plan.text) == plan.sha256),
            "command": command,
            "differing": differing.collect::<Vec<_>>(),
        });
        print_json(out, &document)?;
    } else {
        text(out, repeat, &plan_path, &differing)?;
        // The command is copied from the terminal: it stays on one line.
        writeln!(out, "{command}")?;
    }
    Ok(Exit::Good)
}

fn text(
    out: &mut dyn Write,
    repeat: &Repeat,
    plan_path: &Path,
    differing: &[Difference],
) -> anyhow::Result<()> {
    let style = screen::style();
    let mut line = |label: &str, text: &str| report::text::folded(out, label, text, 10, style);
    line(" page     ", &format!("{}, measured by bakeoff {}", repeat.title, repeat.measured_by))?;
    if !repeat.servers.is_empty() {
        line(
            " server   ",
            &format!("{}: the version installed here is known only when it runs", repeat.servers.join(", ")),
        )?;
    }
    for (name, there, here) in differing {
        line(" differs  ", &format!("{name}: {there} there, {here} here"))?;
    }
    if differing.is_empty() {
        line(" differs  ", "nothing among the facts known of both machines")?;
    }
    if let Some(plan) = &repeat.plan {
        let whole = if plan::sha256(&plan.text) == plan.sha256 {
            "its checksum matches the archived plan"
        } else {
            "it lacks names of the machine or secrets: complete it first"
        };
        line(" plan     ", &format!("{}; {whole}", plan_path.display()))?;
        Screen::new().line("Read the plan before you run it: its commands run as you.");
    }
    Ok(())
}

/// Facts of a page that are known here too, and differ.
fn differences(there: &BTreeMap<String, String>, here: impl Fn(&str) -> Option<String>) -> Vec<Difference> {
    let is_of_the_machine = |name: &str| !OF_THE_MOMENT.iter().any(|kind| name.starts_with(kind));
    let known = there.iter().filter(|(name, _)| is_of_the_machine(name));
    let both = known.filter_map(|(name, value)| Some((name, value, here(name)?)));
    both.filter(|(_, there, here)| *there != here)
        .map(|(name, there, here)| (name.clone(), there.clone(), here))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_facts_of_both_machines_can_differ() {
        let there = [
            ("cpu.model", "A"),
            ("kernel.release", "6.1"),
            ("numa.nodes", "2"),
            ("trial.busy_before_ratio", "0.5"),
        ];
        let there = there.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let here = |name: &str| match name {
            "cpu.model" => Some("A".to_owned()),
            "kernel.release" => Some("6.18".to_owned()),
            "trial.busy_before_ratio" => Some("0.1".to_owned()),
            _ => None,
        };
        let differing = [("kernel.release".to_owned(), "6.1".to_owned(), "6.18".to_owned())];
        assert_eq!(differences(&there, here), differing);
    }
}
