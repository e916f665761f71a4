//! Help in two lengths: `-h` is one screen with the options that most people need, `--help` is everything.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// Commands of a group, with what they are for.
type Line = (&'static [&'static str], &'static str);

/// The commands as `-h` shows them. A command that this program lacks is left out of its line.
const GROUPS: [(&str, &[Line]); 5] = [
    (
        "Drive",
        &[
            (&["load"], "one target at a steady rate: latency and a verdict"),
            (&["prepare", "cleanup"], "build or remove a workload's data set"),
            (&["script"], "a script's command: prepare, cleanup and others"),
            (&["run", "resume", "plan"], "a bake-off: configurations x load levels x blocks"),
            (&["scale"], "1, 2, 4 ... copies of a command, up to a full machine"),
            (&["dder"], "reads of a file at every buffer size"),
        ],
    ),
    (
        "Watch",
        &[
            (&["cpu"], "CPU busy time by scheduler events and ticks; full CPUs"),
            (&["io", "nic", "memory"], "block requests, network interfaces, processes' memory"),
            (&["locks", "ulocks"], "waits for locks of the kernel, of programs"),
            (&["profile"], "functions by CPU or off-CPU time, flame graphs"),
            (&["watch"], "all of these on one live screen"),
            (&["record"], "all of these while a command runs, archived"),
            (&["prove", "hog"], "instrument error on this machine; known test work"),
        ],
    ),
    (
        "Judge",
        &[
            (&["compare", "aa"], "which is faster, how certain; false-verdict rate"),
            (&["report", "reproduce"], "a run's page; the command to repeat a page's run"),
            (&["history", "periods"], "a metric over time: changes, cycles"),
        ],
    ),
    (
        "Keep",
        &[
            (&["runs"], "the archive: list, show, export, verify"),
            #[cfg(feature = "shared")]
            (&["archive"], "runs to and from an archive that machines share"),
            (&["serve", "queue"], "the archive in a browser; a queue of plans"),
            #[cfg(feature = "fleet")]
            (&["agent", "fleet"], "a load generator of a fleet; fleets: start, look, end, collect"),
        ],
    ),
    (
        "Read",
        &[
            (&["host", "doctor"], "facts about this machine; what it can measure"),
            (&["import"], "logs of mpstat, vmstat, lockstat, plockstat"),
            (&["generate"], "man pages and shell completions"),
        ],
    ),
];

/// An option of `-h` with its help there; none if the first clause of its help will do.
type Shown = (&'static str, &'static str);

/// A group of a command's options: its heading, the options of `-h`, and those of `--help` only.
type Options = (&'static str, &'static [Shown], &'static [&'static str]);

/// Options of commands with more than a screen of them. An option in no group is shown by `--help` only.
const OPTIONS: [(&str, &[Options]); 4] = [
    (
        "load",
        &[
            (
                "Rate and length",
                &[
                    ("rate", "events per second: 500, 30/m; default: closed loop"),
                    ("threads", "threads, each with one connection"),
                    ("connections", "total connections of all threads"),
                    ("time", "length of the measured phase: 10s, 2m"),
                    ("warmup", "warm-up before it, not counted"),
                    ("arrivals", "jitter, period, poisson, ramp:100-1000, ..."),
                    ("late", "late events: queue, skip=100ms, drop, pace=2x"),
                    ("search", "find the highest rate with p99<10ms"),
                ],
                &[
                    "events",
                    "ramp-up",
                    "ramp-down",
                    "interval",
                    "jitter",
                    "tx-jitter",
                    "schedule",
                    "think",
                    "control",
                ],
            ),
            (
                "Data",
                &[
                    ("workload", "oltp-read-write, oltp-read-only, kv, ..."),
                    ("script", "SQL in pgbench's language"),
                    ("rows", "rows in each table"),
                    ("prepare", "build missing data: auto, always, never"),
                ],
                &["tables", "define", "seed", "check", "answer-max"],
            ),
            (
                "Results",
                &[
                    ("observe", "instruments to record: cpu,io,nic,locks; all; none"),
                    ("strict", "exit code 3 if the verdict is INVALID"),
                    ("verbose", "every percentile, setting and check"),
                    ("no-archive", "do not store the run"),
                ],
                &["title", "label", "hlog", "log"],
            ),
            (
                "Generator and errors",
                &[],
                &[
                    "spin-us",
                    "spin-budget",
                    "fifo",
                    "keep-awake",
                    "retry",
                    "drain",
                    "connects-at-once",
                    "max-errors",
                ],
            ),
            (
                "SQL workloads",
                &[],
                &[
                    "point-selects",
                    "range-size",
                    "range-selects",
                    "index-updates",
                    "non-index-updates",
                    "delete-inserts",
                    "random-points",
                    "number-of-ranges",
                    "delta",
                    "bulk-rows",
                    "distribution",
                    "skip-trx",
                    "prepared",
                ],
            ),
        ],
    ),
    (
        "prepare",
        &[
            (
                "Data",
                &[
                    ("workload", "oltp-read-write, kv, ..."),
                    ("tables", ""),
                    ("rows", ""),
                    ("seed", ""),
                    ("keys", ""),
                    ("sizes", ""),
                ],
                &[],
            ),
            ("Build", &[("from-scratch", ""), ("threads", "tables to build in parallel")], &[]),
        ],
    ),
    (
        "compare",
        &[
            (
                "Length",
                &[
                    ("time", "total time of warm-up, pilot and rounds"),
                    ("blocks", "number of rounds, instead of a total time"),
                    ("warmup", "warm-up executions of each command"),
                ],
                &[],
            ),
            (
                "Commands",
                &[
                    ("prepare", "command to run before each execution, not timed"),
                    ("setup", "command to run before the first round"),
                    ("ignore-failure", "measure commands that fail too"),
                ],
                &[
                    "cleanup",
                    "command-name",
                    "conclude",
                    "parameter-list",
                    "shell",
                    "input",
                    "parameter-scan",
                    "parameter-step-size",
                    "output",
                    "show-output",
                    "timeout",
                    "events",
                ],
            ),
            (
                "Verdict",
                &[
                    ("reference", "the command that the others are compared with"),
                    ("rope", "smaller differences do not matter"),
                    ("gate", "time not worse by 5%; exit code 1 if it fails"),
                ],
                &["junit", "summary", "badge", "force", "seed"],
            ),
            (
                "Results",
                &[("export-json", "all times, in hyperfine's format"), ("verbose", "")],
                &["export-csv", "export-markdown", "title", "label", "no-archive", "beside-others"],
            ),
        ],
    ),
    ("cleanup", &[("Data", &[("workload", "oltp-read-write, kv, ..."), ("tables", ""), ("keys", "")], &[])]),
];

/// Targets, as short as `-h` needs them.
const TARGETS: &str = "sqlite:FILE, mysql://, postgres://, redis://, memcached://, https://, exec:CMD, null:";

/// Commands with remarks and examples that are too long for `-h`.
const LONG_REMARKS: [&str; 7] = ["cpu", "io", "scale", "load", "prepare", "compare", "history"];

/// Longest help of an option in `-h`, unless its first clause is longer.
const BRIEF_CHARS: usize = 60;
/// Examples of `-h`, for commands that do not show all of their options there.
const EXAMPLES_SHOWN: usize = 1;

/// The definition of the command line with its help in both lengths.
pub(crate) fn arranged(command: Command) -> Command {
    let commands = groups(&command);
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| command.mut_subcommand(name, of_command));
    command
        .mut_args(|arg| arg.hide_short_help(true))
        .help_template(TEMPLATE)
        .before_help(commands.clone())
        .before_long_help(commands)
        .after_help(AFTER)
}

const TEMPLATE: &str = "{name} {version}: {about}

{usage-heading} {usage}

{before-help}Options:
{options}{after-help}";

const AFTER: &str = "\
Every command takes --archive DIR and --json. One screen of help: bakeoff COMMAND -h; full help, with examples: --help.";

/// The commands in their groups; those in no group come last.
fn groups(command: &Command) -> String {
    let exists = |name: &str| command.find_subcommand(name).is_some();
    let mut text = String::new();
    for (head, lines) in GROUPS {
        put(&mut text, format_args!("{head}:\n"));
        for (names, about) in lines {
            let names: Vec<&str> = names.iter().copied().filter(|name| exists(name)).collect();
            if !names.is_empty() {
                put(&mut text, format_args!("  {:<20}{about}\n", names.join(", ")));
            }
        }
    }
    let is_grouped =
        |name: &str| GROUPS.iter().any(|(_, lines)| lines.iter().any(|(names, _)| names.contains(&name)));
    let others: Vec<&str> =
        command.get_subcommands().map(Command::get_name).filter(|name| !is_grouped(name)).collect();
    if !others.is_empty() {
        put(&mut text, format_args!("More:\n  {}\n", others.join(", ")));
    }
    text
}

fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("writing to a String cannot fail");
}

/// Arranges the help of one command and of its subcommands.
fn of_command(command: Command) -> Command {
    let subcommands: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let command =
        subcommands.into_iter().fold(command, |command, name| command.mut_subcommand(name, of_command));
    let name = command.get_name().to_owned();
    let options = OPTIONS.iter().find(|(of, _)| *of == name).map(|(_, options)| *options);
    let command = match options {
        Some(options) => command.mut_args(|arg| grouped(shortened(arg), options)),
        None => command.mut_args(shortened),
    };
    let is_long = LONG_REMARKS.contains(&name.as_str());
    if options.is_none() && !is_long {
        return command;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let few = if is_long { examples(&after, EXAMPLES_SHOWN) } else { format!("{after}\n") };
    command.after_help(format!("{few}More: bakeoff {name} --help")).after_long_help(after)
}

/// The head and the first examples of a text, with an empty line; empty if it has none.
fn examples(text: &str, count: usize) -> String {
    let Some(at) = text.find("Examples:\n") else { return String::new() };
    let lines: Vec<&str> = text[at..].lines().take(1 + count).collect();
    format!("{}\n", lines.join("\n"))
}

/// Puts an option under its heading, and hides it in `-h` unless its group shows it there.
fn grouped(arg: Arg, options: &[Options]) -> Arg {
    let Some(name) = arg.get_long().map(str::to_owned) else {
        return if arg.get_id() == "target" { arg.help(TARGETS) } else { arg };
    };
    for (heading, shown, more) in options {
        if let Some((_, help)) = shown.iter().find(|(of, _)| *of == name) {
            let full = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
            let arg = arg.help_heading(*heading);
            return if help.is_empty() { arg } else { arg.help(*help).long_help(full) };
        }
        if more.contains(&name.as_str()) {
            return arg.help_heading(*heading).hide_short_help(true);
        }
    }
    arg.hide_short_help(true)
}

/// Gives a long help a short form for `-h`, unless it has one.
fn shortened(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    if arg.get_long_help().is_some() {
        return arg;
    }
    let short = clause(&help).to_owned();
    if short == help { arg } else { arg.help(short).long_help(help) }
}

/// The part of a help that fits on a line: its first clauses.
fn clause(help: &str) -> &str {
    let fits = |text: &str| text.chars().count() <= BRIEF_CHARS;
    let ends = |marks: &[&str]| {
        let all = marks.iter().flat_map(|mark| help.match_indices(mark)).map(|(at, _)| &help[..at]);
        all.collect::<Vec<_>>()
    };
    if fits(help) {
        return help;
    }
    let longest = |of: Vec<&'_ str>| {
        of.into_iter().filter(|text| fits(text)).max_by_key(|text| text.len()).map(str::len)
    };
    let end = longest(ends(&["; ", ". ", " [default"])).or_else(|| longest(ends(&[": ", " ("])));
    end.map_or(help, |end| &help[..end])
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;
    use crate::cli::Cli;

    /// Lines of a usual terminal, and a few that scroll away without loss.
    const SCREEN: usize = 40;

    fn definition() -> Command {
        let mut definition = arranged(Cli::command()).term_width(80);
        definition.build();
        definition
    }

    /// Calls `check` with every command and its words.
    fn each(command: &Command, words: &str, check: &mut dyn FnMut(&str, &Command)) {
        check(words, command);
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            each(sub, &format!("{words} {}", sub.get_name()), check);
        }
    }

    #[test]
    fn short_help_is_one_screen_of_80_columns() {
        let mut too_long = Vec::new();
        each(&definition(), "bakeoff", &mut |words, command| {
            let text = command.clone().render_help().to_string();
            let (lines, widest) = (text.lines().count(), text.lines().map(|l| l.chars().count()).max());
            if lines > SCREEN || widest > Some(80) {
                too_long.push(format!("{words}: {lines} lines of up to {widest:?}\n{text}"));
            }
        });
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
        let first = definition().render_help().to_string();
        assert!(first.lines().count() >= 24, "{first}");
    }

    #[test]
    fn every_command_is_in_one_group_and_every_option_in_long_help() {
        let mut definition = definition();
        let screen = definition.render_help().to_string();
        assert!(!screen.contains("More:"), "add it to GROUPS: {screen}");
        let load = definition.find_subcommand_mut("load").expect("there is load");
        let help = load.render_long_help().to_string();
        for arg in load.get_arguments().filter(|arg| !arg.is_hide_set()) {
            assert!(arg.get_long().is_none_or(|name| help.contains(&format!("--{name}"))), "{arg}");
        }
        for (command, groups) in OPTIONS {
            let command = definition.find_subcommand(command).expect("a command");
            let names = |(_, shown, more): &Options| -> Vec<&str> {
                shown.iter().map(|(name, _)| *name).chain(more.iter().copied()).collect()
            };
            for name in groups.iter().flat_map(names) {
                assert!(
                    command.get_arguments().any(|arg| arg.get_long() == Some(name)),
                    "{command} --{name}"
                );
            }
        }
    }

    /// Words of an example; `None` if the line is another program's.
    fn words(line: &str) -> Option<Vec<String>> {
        let line = line.trim().strip_prefix("sudo ").unwrap_or(line.trim());
        let (mut words, mut word, mut quote, mut blanks) = (Vec::new(), None::<String>, None, 0);
        for letter in line.chars() {
            match (letter, quote) {
                ('\'' | '"', None) => (quote, word) = (Some(letter), Some(word.unwrap_or_default())),
                (c, Some(q)) if c == q => quote = None,
                (' ', None) => {
                    words.extend(word.take());
                    blanks += 1;
                    // A remark stands behind two blanks.
                    if blanks > 1 {
                        break;
                    }
                    continue;
                }
                ('>' | '|' | '&' | ';' | '<', None) if word.is_none() => break,
                (';', None) => break,
                (c, _) => word.get_or_insert_default().push(c),
            }
            blanks = 0;
        }
        words.extend(word);
        words.retain(|word: &String| !word.is_empty());
        (words.first().map(String::as_str) == Some("bakeoff")).then_some(words)
    }

    #[test]
    fn every_command_has_examples_that_it_accepts() {
        let definition = definition();
        let mut wrong = Vec::new();
        each(&definition, "bakeoff", &mut |path, command| {
            let is_leaf = command.get_subcommands().all(|sub| sub.get_name() == "help");
            let after = command.get_after_long_help().or(command.get_after_help());
            let text = after.map(ToString::to_string).unwrap_or_default();
            let examples: Vec<Vec<String>> = text.lines().filter_map(words).collect();
            if examples.is_empty() && is_leaf {
                wrong.push(format!("{path} --help has no example"));
            }
            // A line of another tool is translated before it is parsed.
            for example in examples.into_iter().filter(|words| !words.iter().any(|word| word == "--like")) {
                match definition.clone().try_get_matches_from(&example) {
                    // Its files and processes need not exist here.
                    Err(error) if error.kind() != ErrorKind::ValueValidation => {
                        wrong.push(format!("{example:?}: {error}"));
                    }
                    _ => {}
                }
            }
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_help_is_cut_between_its_clauses() {
        let long =
            "Events per second over all threads: 500, 0.5, 500/s, 30/m; without a rate, the loop is closed";
        assert_eq!(clause(long), "Events per second over all threads: 500, 0.5, 500/s, 30/m");
        assert_eq!(clause("Short; and whole"), "Short; and whole");
        let one = "A clause without an end that is longer than any line of the screen can hold by far";
        assert_eq!(clause(one), one);
    }
}
