//! The draft of `bakeoff plan init`: a plan from a command line that already works.
//!
//! The plan is the same bake-off as the command line: an option that it cannot express is refused.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory as _;
use plan::init::{CommandsDraft, LoadDraft, of_commands, of_load};
use record::load::LoadSettings;
use record::load::settings::{self, Setting};
use record::run::command_line;

use crate::cli::{Cli, Command};
use crate::cmd::{compare, load};
use crate::exit::{EndsWith as _, Exit};
use crate::given::Given;
use crate::script_options::Unread;
use crate::setting_values::option;

/// Arguments of `compare` with a place in a plan.
const OF_COMMANDS: [&str; 13] = [
    "commands",
    "reference",
    "parameter_list",
    "parameter_scan",
    "parameter_step_size",
    "shell",
    "no_shell",
    "time",
    "blocks",
    "seed",
    "title",
    "rope",
    "gates",
];
/// Arguments of `load`, besides the settings, with a place in a plan.
const OF_LOADS: [&str; 8] = ["target", "title", "observe", "fleet", "on_loss", "place", "observers", "probe"];
/// Settings of a load without a place in a plan: a plan has the text of a script, and measures for a time.
const NOT_OF_PLANS: [&str; 2] = ["script", "events"];

/// The text of a plan from these words.
///
/// - `title`: a line for people, if the user gave one.
pub(crate) fn text(words: &[String], title: Option<&str>) -> anyhow::Result<String> {
    let words: Vec<String> = match words[0].as_str() {
        "load" | "compare" => words.to_vec(),
        _ => ["compare".to_owned(), "--".to_owned()].into_iter().chain(words.to_vec()).collect(),
    };
    let line: Vec<String> = ["bakeoff".to_owned()].into_iter().chain(words).collect();
    let typed: Vec<OsString> = line.iter().map(OsString::from).collect();
    // Reads the words as the command itself would: its refusals are ours.
    match Cli::read_from(&typed).map_err(refused)?.command {
        Command::Load(load) => of_a_load(&load, line, title),
        Command::Compare(compare) => of_a_comparison(&compare, line, title),
        _ => unreachable!("the first word is `load` or `compare`"),
    }
}

fn of_a_load(load: &load::Args, line: Vec<String>, title: Option<&str>) -> anyhow::Result<String> {
    check_places(&load.given, |given| OF_LOADS.contains(&&*given.id) || setting_of(given).is_some())?;
    for given in &load.given {
        check_value(given)?;
    }
    let target = load.target();
    let masked = line.into_iter().map(|word| if word == target.expose() { target.masked() } else { word });
    let text = of_load(&LoadDraft {
        written_from: command_line(masked),
        title: title_of(&load.given, title, || format!("A load on {target}"))?,
        target: target.expose().to_owned(),
        given: load.given.iter().filter_map(|g| Some((setting_of(g)?, g.values.clone()))).collect(),
        observe: observed(&load.given),
        fleet: load.fleet(),
    });
    let plan = plan::read(&text, "the written plan").ends_with(Exit::Usage)?;
    let (meant, _) = load::meant(load)?;
    if is_same(&plan, meant.settings) && plan.fleet() == load.fleet().as_ref() {
        return Ok(text);
    }
    Err(Exit::Usage.with("this load cannot be written as a plan: the load of the plan would differ"))
}

fn of_a_comparison(
    compare: &compare::Args,
    line: Vec<String>,
    title: Option<&str>,
) -> anyhow::Result<String> {
    if compare.reads_archive() {
        let what = "a plan needs commands after `--`, as in bakeoff plan init -- compare -- 'A' 'B'";
        return Err(Exit::Usage.with(what));
    }
    check_places(&compare.given, |given| OF_COMMANDS.contains(&&*given.id))?;
    let expanded = compare.expanded()?;
    let commands: Vec<String> = expanded.commands.iter().map(|command| command.text.clone()).collect();
    let value = |id: &str| compare.given.iter().find(|g| g.id == id).and_then(|g| g.values.first());
    let draft = CommandsDraft {
        written_from: command_line(line),
        title: title_of(&compare.given, title, || commands.join(" | "))?,
        commands,
        reference: expanded.reference,
        shell: expanded.shell,
        blocks: compare.command.blocks,
        seed: compare.command.seed,
        rope: value("rope").cloned(),
        time: value("time").map(|_| compare.command.time),
        gates: compare.gates_of_commands()?,
    };
    of_commands(&draft).ends_with(Exit::Usage)
}

fn refused(unread: Unread) -> anyhow::Error {
    match unread {
        Unread::CommandLine(error) => {
            let text = error.render().to_string();
            let lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
            let first: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
            Exit::Usage.with(first.join(" ").trim_start_matches("error: ").to_owned())
        }
        Unread::Script(error) => error,
    }
}

/// Refuses arguments without a place in a plan, unless they have their default values.
fn check_places(given: &[Given], has_place: impl Fn(&Given) -> bool) -> anyhow::Result<()> {
    let without: Vec<&Given> = given.iter().filter(|g| !g.is_default && !has_place(g)).collect();
    if without.is_empty() {
        return Ok(());
    }
    let command = Cli::command();
    let run = command.find_subcommand("run").expect("a command of ours").get_arguments();
    let of_run: Vec<&str> = run.chain(command.get_arguments()).filter_map(clap::Arg::get_long).collect();
    let is_of_run = |given: &&Given| given.name.strip_prefix("--").is_some_and(|name| of_run.contains(&name));
    let (of_run, of_none): (Vec<&Given>, Vec<&Given>) = without.into_iter().partition(is_of_run);
    let names = |given: &[&Given]| given.iter().map(|g| g.name.as_str()).collect::<Vec<_>>().join(", ");
    let what = match (&of_none[..], &of_run[..]) {
        ([], of_run) => {
            let it = if of_run.len() == 1 { "it" } else { "them" };
            format!("{} cannot be part of a plan: give {it} to `bakeoff run`", names(of_run))
        }
        (of_none, _) => format!("{} cannot be part of a plan", names(of_none)),
    };
    Err(Exit::Usage.with(what))
}

/// Refuses a value that plans do not have.
fn check_value(given: &Given) -> anyhow::Result<()> {
    let first = given.values.first().map_or("", String::as_str);
    let why = match given.id.as_str() {
        "prepare" if first == "always" => "the data set of a plan is built if it is missing",
        "observe" if first.split(',').any(|word| word == "none") => "a plan always measures the CPUs",
        "arrivals" if first.starts_with("file:") => "a plan has no recorded times",
        "defines" if given.values.iter().any(|value| value.contains(',')) => {
            "commas separate variables there"
        }
        // A list of a plan has no other way to write a brace.
        "headers" | "environment" | "commands" if given.values.iter().any(|v| refers_to_a_secret(v)) => {
            "braces with `env:` or `file:` refer to a secret there"
        }
        _ => return Ok(()),
    };
    Err(Exit::Usage.with(format!("{} {first} cannot be part of a plan: {why}", given.name)))
}

fn refers_to_a_secret(text: &str) -> bool {
    text.contains("{env:") || text.contains("{file:")
}

/// The title of the plan: that of `plan init`, or of the command line in it.
fn title_of(given: &[Given], own: Option<&str>, usual: impl Fn() -> String) -> anyhow::Result<String> {
    let inner = given.iter().find(|g| g.id == "title").and_then(|g| g.values.first());
    match (own, inner) {
        (Some(_), Some(_)) => Err(Exit::Usage.with("--title is given twice")),
        (own, inner) => Ok(own.or(inner.map(String::as_str)).map_or_else(usual, str::to_owned)),
    }
}

/// The setting of a plan that an option sets.
fn setting_of(given: &Given) -> Option<&'static Setting> {
    let in_plans = settings::ALL.iter().copied().filter(|setting| !NOT_OF_PLANS.contains(&setting.name));
    in_plans.into_iter().find(|setting| given.name == option(setting.name))
}

/// The named instruments; `all` is every one.
fn observed(given: &[Given]) -> Option<Vec<String>> {
    let words = given.iter().find(|g| g.id == "observe")?.values.first()?;
    let all = || ["cpu"].into_iter().chain(probes::observe::KINDS.iter().map(|kind| kind.name));
    Some(if words == "all" {
        all().map(str::to_owned).collect()
    } else {
        words.split(',').map(str::to_owned).collect()
    })
}

/// Whether the load of the first trial is this one.
fn is_same(plan: &plan::Plan, meant: LoadSettings) -> bool {
    let trial = &plan.trials()[0];
    // Each block has its own seed.
    let seed = meant.seed.wrapping_add(u64::from(trial.block));
    plan.load_settings(trial, Path::new("/")) == LoadSettings { seed, ..meant }
}

#[cfg(test)]
mod tests;
