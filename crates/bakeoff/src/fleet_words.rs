//! Command lines of `bakeoff load` that an agent is given by its conductor.
//!
//! Nothing that a line names is read before the line is accepted. A definition of the command line with plain
//! texts as values parses it first: the parsers of the real one open files.

use std::ffi::OsString;
use std::sync::Arc;

use clap::builder::OsStringValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use fleet::{Meant, ONLY_NULL, Sender};
use record::target::Target;

use crate::cli::{Cli, Command};
use crate::cmd::load;
use crate::exit::Exit;

/// Value names of options that open no file. An option with another one is refused if anyone may have sent
/// the line, so a new option is refused until it is listed here.
const HARMLESS: [&str; 22] = [
    "DURATION",
    "HOW",
    "KEY=VALUE",
    "N",
    "NAME",
    "NAME=VALUE",
    "ON|OFF",
    "PERCENT",
    "POLICY",
    "PROMISE",
    "RATE",
    "SIZE",
    "STATUS",
    "TEXT",
    "TIME",
    "TIMES",
    "URL",
    "USEC",
    "VERSION",
    "WHAT",
    "WHEN",
    "YES|NO",
];

/// Options with files that only the conductor opens.
const OF_THE_CONDUCTOR: [&str; 4] = ["archive", "hlog", "nats_ca", "nkey"];

/// Switches that take the machine from its other users.
const GREEDY: [&str; 2] = ["fifo", "keep_awake"];

/// The meaning of a command line of `load` on this machine.
pub(crate) fn meant(words: &[String], sender: Sender) -> anyhow::Result<Meant> {
    let refused = |text: &str| Err(Exit::Usage.with(text.to_owned()));
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut command = of_texts();
    let matches = command.try_get_matches_from_mut(&words).ok();
    let Some(("load", matches)) = matches.as_ref().and_then(ArgMatches::subcommand) else {
        return refused("this version cannot parse the plan as a `bakeoff load` command line");
    };
    let load = command.find_subcommand("load").expect("it was parsed");
    if is_given(matches, "scripts") {
        return refused("a fleet cannot run scripts yet");
    }
    if is_given(matches, "like") {
        return refused("an agent translates no command lines: its conductor does");
    }
    if sender == Sender::Anyone
        && let Some(why) = too_much(load, matches)
    {
        return refused(&why);
    }
    let Ok(Cli { command: Command::Load(args), .. }) = Cli::read_sent(&words) else {
        return refused("this version cannot parse the plan as a `bakeoff load` command line");
    };
    if args.reads_standard_input() {
        return refused("a plan cannot name the standard input of an agent");
    }
    let (meant, _) = load::meant(&args)?;
    Ok(Meant { settings: meant.settings, recorded: meant.recorded.unwrap_or_else(|| Arc::from([])) })
}

/// The command line with texts as all values: parsing it opens no file.
fn of_texts() -> clap::Command {
    Cli::command().mut_subcommand("load", |load| {
        load.mut_args(|argument| {
            if argument.get_action().takes_values() {
                return argument.value_parser(OsStringValueParser::new());
            }
            argument
        })
    })
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The reason that a line which anyone may have sent is refused.
fn too_much(load: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let values = |id: &str| matches.get_raw(id).into_iter().flatten().filter_map(|value| value.to_str());
    if values("target").map(Target::new).all(|target| target.scheme() != "null") {
        return Some(ONLY_NULL.to_owned());
    }
    let is_refused = |argument: &&clap::Arg| {
        let id = argument.get_id().as_str();
        if id == "target" || OF_THE_CONDUCTOR.contains(&id) || !is_given(matches, id) {
            return false;
        }
        let names = argument.get_value_names().unwrap_or_default();
        let is_harmless = !argument.get_action().takes_values()
            || names.len() == 1 && HARMLESS.contains(&names[0].as_str());
        GREEDY.contains(&id) || !is_harmless || values(id).any(|value| value.starts_with("file:"))
    };
    let argument = load.get_arguments().find(is_refused)?;
    let option = argument.get_long().unwrap_or_else(|| argument.get_id().as_str());
    Some(format!(
        "without credentials, an agent accepts no --{option} that opens a file or takes the machine from its other \
         users: connect the agent with --nkey or a password"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        ["bakeoff"].iter().chain(text).map(|word| (*word).to_owned()).collect()
    }

    fn refusal(text: &[&str], sender: Sender) -> String {
        meant(&words(text), sender).map_or_else(|error| format!("{error:#}"), |_| String::new())
    }

    #[test]
    fn a_line_that_names_a_script_runs_none() {
        let folder = tempfile::tempdir().unwrap();
        let (script, planted) = (folder.path().join("e.lua"), folder.path().join("planted"));
        let text = format!("io.open('{}', 'w'):close()\nfunction event() end", planted.display());
        std::fs::write(&script, text).unwrap();
        let script = script.to_str().unwrap();
        let of_load = format!("--script={script}");
        for sender in [Sender::Anyone, Sender::Conductor] {
            for line in [
                &["script", script][..],
                &["--json", "script", script, "null:"],
                &["--archive", "load", "script", script],
                &["load", "null:", &of_load],
                &["load", "--script", script, "null:"],
                &["load", "mysql://h/d", "--title", "--script", &of_load],
                &["load", "null:", "--like", script],
            ] {
                assert_ne!(refusal(line, sender), "", "{line:?}");
                assert!(!planted.exists(), "{line:?} ran the script");
            }
        }
    }

    #[test]
    fn without_credentials_nothing_that_a_line_names_is_opened() {
        // A file that is absent: an attempt to open it would say so.
        let absent = "/nonexistent/named";
        let mut tried = 0;
        for argument in Cli::command().find_subcommand("load").unwrap().get_arguments() {
            let Some(option) = argument.get_long().filter(|_| argument.get_action().takes_values()) else {
                continue;
            };
            let names = argument.get_value_names().unwrap_or_default();
            let opens = ["FILE", "PATH", "DIR", "LOG", "SOCKET", "LINE"];
            if !names.iter().any(|name| opens.iter().any(|word| name.as_str().contains(word))) {
                continue;
            }
            if OF_THE_CONDUCTOR.contains(&argument.get_id().as_str()) {
                continue;
            }
            tried += 1;
            let given = format!("--{option}={absent}");
            for target in ["null:", "http://x/", "sqlite:/nonexistent/named"] {
                let why = refusal(&["load", target, &given], Sender::Anyone);
                let refusals = ["without credentials", "scripts yet", "translates no", "cannot parse"];
                assert!(refusals.iter().any(|text| why.contains(text)), "{target} {given}: {why}");
                assert!(!why.contains("No such file"), "{why}");
            }
        }
        assert!(tried > 8, "{tried}");
        for line in [
            &["load", "http://x/", "--replay", absent][..],
            &["load", "null:", "--rate", "5", "--arrivals", "file:/nonexistent/named"],
            &["load", "null:", "--fifo", "--rate", "5"],
            &["load", "null:", "--keep-awake"],
            &["load", "http://127.0.0.1:1/"],
            &["load", "exec:true"],
        ] {
            assert!(refusal(line, Sender::Anyone).contains("without credentials"), "{line:?}");
        }
    }

    #[test]
    fn a_plain_load_is_accepted_from_anyone_and_files_from_a_conductor() {
        let plain = ["--json", "load", "null:", "--rate", "500", "--threads", "4", "--arrivals", "poisson"];
        let more =
            ["--time", "2s", "--label", "a=b", "--hlog", "x", "--fleet", "2", "--nats", "nats://127.0.0.1"];
        let line = [&plain[..], &more[..]].concat();
        assert_eq!(refusal(&line, Sender::Anyone), "");
        let folder = tempfile::tempdir().unwrap();
        let times = folder.path().join("times");
        std::fs::write(&times, "0.1\n0.2\n").unwrap();
        let arrivals = format!("file:{}", times.display());
        assert_eq!(refusal(&["load", "null:", "--arrivals", &arrivals], Sender::Conductor), "");
        let why = refusal(&["load", "http://x", "--replay", "/nonexistent/named"], Sender::Conductor);
        assert!(why.contains("No such file"), "{why}");
    }
}
