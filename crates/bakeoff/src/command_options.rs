//! The options that say what is measured when commands are compared, named as in hyperfine.

use std::path::PathBuf;
use std::time::Duration;

use plan::{Around, CommandLines, Parameter, Shell};
use record::quantity;
use runner::{CommandOutput, Failures};

use crate::cmd::experiment::Exclusive;
use crate::cmd::output_files::OutputFile;
use crate::exit::{EndsWith as _, Exit};

/// Commands and how they run.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct CommandOptions {
    /// The commands, after `--`: one quoted text each
    #[arg(last = true, value_name = "COMMAND")]
    commands: Vec<String>,

    /// Total time of warm-up, pilot and rounds
    #[arg(long, value_name = "DURATION", default_value = "1m", allow_hyphen_values = true, value_parser = some_time)]
    pub(crate) time: Duration,

    /// Measure exactly this many rounds, without a pilot
    #[arg(long, alias = "runs", short_alias = 'r', value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u32).range(2..=2_000))]
    pub(crate) blocks: Option<u32>,

    /// Warm-up rounds, not counted
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) warmup: u32,

    /// Command to run before each execution (by `sh`): given once for all commands, or once for each
    #[arg(short, long, value_name = "CMD")]
    prepare: Vec<String>,

    /// Command to run after each execution: given once for all commands, or once for each
    #[arg(short = 'C', long, value_name = "CMD")]
    conclude: Vec<String>,

    /// Command to run before the first round, for each command
    #[arg(short, long, value_name = "CMD")]
    setup: Option<String>,

    /// Command to run after the last round, for each command
    #[arg(short, long, value_name = "CMD")]
    cleanup: Option<String>,

    /// Shell that runs the commands: default (`sh`, if a command needs one), none, or a program
    #[arg(short = 'S', long, value_name = "SHELL", default_value = "default")]
    shell: String,

    /// Same as `--shell none`
    #[arg(short = 'N', conflicts_with = "shell")]
    no_shell: bool,

    /// Values of the parameter `{VAR}`, separated by commas
    #[arg(short = 'L', long, num_args = 2, value_names = ["VAR", "VALUES"], allow_hyphen_values = true)]
    parameter_list: Vec<String>,

    /// Range of the parameter `{VAR}`: MIN to MAX
    #[arg(short = 'P', long, num_args = 3, value_names = ["VAR", "MIN", "MAX"], allow_hyphen_values = true)]
    parameter_scan: Vec<String>,

    /// Step of --parameter-scan
    #[arg(short = 'D', long, value_name = "DELTA", requires = "parameter_scan")]
    parameter_step_size: Option<String>,

    /// Failures that do not end the comparison: all, or exit codes separated by commas
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, default_missing_value = "all", require_equals = true, value_parser = failures)]
    ignore_failure: Option<Failed>,

    /// Standard input of every execution: a file, or null
    #[arg(long, value_name = "FILE", default_value = "null")]
    input: String,

    /// Standard output: null, pipe, inherit, or a file; once for all commands, or once for each
    #[arg(long, value_name = "WHERE")]
    output: Vec<String>,

    /// Same as `--output inherit`
    #[arg(long, conflicts_with = "output")]
    show_output: bool,

    /// Name of a command; the names are in the order of the commands
    #[arg(short = 'n', long, value_name = "NAME")]
    command_name: Vec<String>,

    /// Time limit of one execution; a longer one counts as hung
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true, value_parser = some_time)]
    pub(crate) timeout: Duration,

    /// Measure CPU time by scheduler events, too, which includes children that no command waited for; best as
    /// root
    #[arg(long)]
    pub(crate) events: bool,

    /// Random seed of the order; by default random, and stored
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// One-line description of this comparison
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,

    /// Label to find the run by; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", conflicts_with = "no_archive", value_parser = crate::cmd::load::key_value)]
    pub(crate) labels: Vec<(String, String)>,

    /// Do not store the comparison in the archive
    #[arg(long)]
    pub(crate) no_archive: bool,

    /// Write all times in the format of hyperfine's --export-json
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,

    /// Write the summary in the format of hyperfine's --export-csv
    #[arg(long, value_name = "FILE")]
    pub(crate) export_csv: Option<PathBuf>,

    /// Write a Markdown table
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) alone: Exclusive,
}

/// Failures to ignore.
#[derive(Debug, Clone)]
pub(crate) struct Failed(Failures);

impl CommandOptions {
    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Files that the results are exported to.
    pub(crate) fn exports(&self) -> impl Iterator<Item = OutputFile> {
        let exports = [
            ("--export-json", &self.export_json),
            ("--export-csv", &self.export_csv),
            ("--export-markdown", &self.export_markdown),
        ];
        let named = |(option, path): (&'static str, &Option<PathBuf>)| {
            Some(OutputFile { option, path: path.clone()?, is_appended: false })
        };
        exports.into_iter().filter_map(named)
    }

    /// Files that the commands read and write, with their options.
    pub(crate) fn files_of_commands(&self) -> Vec<(&'static str, PathBuf)> {
        let outputs =
            self.output.iter().filter(|place| !matches!(place.as_str(), "null" | "pipe" | "inherit"));
        let outputs = outputs.map(|path| ("--output", PathBuf::from(path)));
        self.input().map(|path| ("--input", path)).into_iter().chain(outputs).collect()
    }

    /// The commands with everything that belongs to them.
    pub(crate) fn lines(&self, reference: Option<&str>) -> anyhow::Result<CommandLines> {
        let mut parameters: Vec<Parameter> = Vec::new();
        for given in self.parameter_list.chunks(2) {
            parameters.push(Parameter::list(&given[0], &given[1]).ends_with(Exit::Usage)?);
        }
        for given in self.parameter_scan.chunks(3) {
            let step = self.parameter_step_size.as_deref();
            parameters.push(Parameter::scan(&given[0], &given[1], &given[2], step).ends_with(Exit::Usage)?);
        }
        let shell = if self.no_shell { Ok(Shell::Never) } else { Shell::read(&self.shell) };
        Ok(CommandLines {
            commands: self.commands.clone(),
            names: self.command_name.clone(),
            reference: reference.map(str::to_owned),
            parameters,
            shell: shell.ends_with(Exit::Usage)?,
            around: Around {
                setup: self.setup.clone(),
                prepare: self.prepare.clone(),
                conclude: self.conclude.clone(),
                cleanup: self.cleanup.clone(),
            },
        })
    }

    pub(crate) fn input(&self) -> Option<PathBuf> {
        (self.input != "null").then(|| PathBuf::from(&self.input))
    }

    /// Standard output of command `i` of `count`.
    pub(crate) fn output(&self, i: usize, count: usize) -> anyhow::Result<CommandOutput> {
        if self.show_output {
            return Ok(CommandOutput::Inherit);
        }
        if self.output.len() > 1 && self.output.len() != count {
            let given = self.output.len();
            return Err(Exit::Usage.with(format!(
                "--output is given {given} times: give it once, or once for each of the {count} commands"
            )));
        }
        let one = if self.output.len() == 1 { self.output.first() } else { self.output.get(i) };
        Ok(match one.map(String::as_str) {
            None | Some("null") => CommandOutput::Null,
            Some("pipe") => CommandOutput::Pipe,
            Some("inherit") => CommandOutput::Inherit,
            Some(path) => CommandOutput::File(path.into()),
        })
    }

    pub(crate) fn failures(&self) -> Failures {
        self.ignore_failure.as_ref().map_or(Failures::End, |failed| failed.0.clone())
    }

    /// Settings that the archive stores for people.
    pub(crate) fn settings(&self, shell: &str) -> std::collections::BTreeMap<String, String> {
        let mut told = std::collections::BTreeMap::from([
            ("shell".to_owned(), shell.to_owned()),
            ("input".to_owned(), self.input.clone()),
            ("warmup".to_owned(), self.warmup.to_string()),
        ]);
        let mut tell = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                told.insert(name.to_owned(), values.join("; "));
            }
        };
        tell("prepare", self.prepare.clone());
        tell("conclude", self.conclude.clone());
        tell("setup", self.setup.iter().cloned().collect());
        tell("cleanup", self.cleanup.iter().cloned().collect());
        tell("output", if self.show_output { vec!["inherit".to_owned()] } else { self.output.clone() });
        tell(
            "ignore-failure",
            match self.failures() {
                Failures::End => Vec::new(),
                Failures::Ignored => vec!["all".to_owned()],
                Failures::IgnoredCodes(codes) => codes.iter().map(ToString::to_string).collect(),
            },
        );
        told
    }
}

fn failures(text: &str) -> Result<Failed, String> {
    if matches!(text, "all" | "all-non-zero") {
        return Ok(Failed(Failures::Ignored));
    }
    let codes: Result<Vec<i32>, _> = text.split(',').map(|code| code.trim().parse::<i32>()).collect();
    codes
        .map(|codes| Failed(Failures::IgnoredCodes(codes)))
        .map_err(|_| "expected all, or exit codes such as 1,2".to_owned())
}

fn some_time(text: &str) -> Result<Duration, String> {
    match quantity::duration(text) {
        Ok(Duration::ZERO) => Err("must be longer than 0".into()),
        other => other.map_err(|e| e.to_string()),
    }
}
