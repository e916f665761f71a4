//! The draft of `bakeoff plan init`: a plan from a command line that already works.

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, Parser as _};
use plan::init::{CommandsDraft, LoadDraft, of_commands, of_load};
use record::load::settings::{self, Setting};
use record::run::command_line;

use crate::cli::Cli;
use crate::exit::Exit;

/// The text of a plan from these words.
///
/// - `title`: a line for people, if the user gave one.
pub(crate) fn text(words: &[String], title: Option<&str>) -> anyhow::Result<String> {
    let words: Vec<String> = match words[0].as_str() {
        "load" | "compare" => words.to_vec(),
        _ => ["compare".to_owned(), "--".to_owned()].into_iter().chain(words.to_vec()).collect(),
    };
    let line = || ["bakeoff".to_owned()].into_iter().chain(words.clone());
    let written_from = command_line(line());
    // Reads the words as the command itself would: its refusals are ours.
    let cli = Cli::try_parse_from(line()).map_err(|error| refused(&error))?;
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(line()).map_err(|error| refused(&error))?;
    let definition = command.find_subcommand(&words[0]).expect("it was just read").clone();
    match (&cli.command, matches.subcommand()) {
        (crate::cli::Command::Load(load), Some((_, matches))) => {
            let target = load.target().expose().to_owned();
            let title = title.map_or_else(|| format!("A load on {}", load.target()), str::to_owned);
            Ok(of_load(&LoadDraft {
                written_from: command_line(
                    line().map(|word| if word == target { load.target().masked() } else { word }),
                ),
                title,
                target,
                given: given(matches),
                observe: observed(matches),
                left_out: left_out(&definition, matches, &["target", "title", "observe"]),
            }))
        }
        (crate::cli::Command::Compare(compare), Some((_, matches))) => {
            let expanded = compare.expanded()?;
            let commands: Vec<String> = expanded.commands.iter().map(|c| c.text.clone()).collect();
            Ok(of_commands(&CommandsDraft {
                written_from,
                title: title.map_or_else(|| commands.join(" | "), str::to_owned),
                commands,
                reference: expanded.reference,
                left_out: left_out(
                    &definition,
                    matches,
                    &["commands", "reference", "parameter_list", "parameter_scan", "title"],
                ),
            }))
        }
        _ => unreachable!("the first word is `load` or `compare`"),
    }
}

fn refused(error: &clap::Error) -> anyhow::Error {
    let text = error.render().to_string();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Exit::Usage.with(first.trim_start_matches("error: ").to_owned())
}

/// Ids of the arguments that the command line has.
fn on_the_line(matches: &ArgMatches) -> impl Iterator<Item = &str> {
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    matches.ids().map(clap::Id::as_str).filter(is_given)
}

/// Texts of an argument.
fn texts(matches: &ArgMatches, id: &str) -> Vec<String> {
    let raw = matches.try_get_raw(id).ok().flatten();
    raw.map(|values| values.map(|v| v.to_string_lossy().into_owned()).collect()).unwrap_or_default()
}

/// The settings that the command line has.
fn given(matches: &ArgMatches) -> Vec<(&'static Setting, Vec<String>)> {
    let on_the_line: Vec<&str> = on_the_line(matches).collect();
    let id_of = |setting: &Setting| match setting.name {
        "script" => "scripts",
        "define" => "defines",
        name => name,
    };
    let is_given = |setting: &&&'static Setting| on_the_line.contains(&id_of(setting));
    let in_plans = settings::ALL.iter().filter(|setting| !matches!(setting.name, "script" | "events"));
    in_plans.filter(is_given).map(|setting| (*setting, texts(matches, id_of(setting)))).collect()
}

fn observed(matches: &ArgMatches) -> Option<Vec<String>> {
    let is_given = on_the_line(matches).any(|id| id == "observe");
    let words = texts(matches, "observe").first()?.split(',').map(str::to_owned).collect::<Vec<_>>();
    // `all` and `none` are no lists.
    (is_given && !words.iter().any(|word| matches!(word.as_str(), "all" | "none"))).then_some(words)
}

/// The given options that a plan has no place for.
fn left_out(definition: &clap::Command, matches: &ArgMatches, placed: &[&str]) -> Vec<String> {
    let of_load = given(matches);
    let has_place = |id: &str| {
        let is_setting = |setting: &Setting| setting.name == id || format!("{}s", setting.name) == id;
        placed.contains(&id) || of_load.iter().any(|(setting, _)| is_setting(setting))
    };
    let on_the_line: Vec<&str> = on_the_line(matches).collect();
    let is_left_out = |id: &str| on_the_line.contains(&id) && !has_place(id);
    let arguments = definition.get_arguments().filter(|argument| is_left_out(argument.get_id().as_str()));
    let told = arguments.filter_map(|argument| {
        let values = texts(matches, argument.get_id().as_str()).join(" ");
        Some(format!("--{} {values}", argument.get_long()?).trim_end().to_owned())
    });
    told.collect()
}
