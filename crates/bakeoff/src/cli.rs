//! The command line as a user types it. One variant per command; each command's options are defined beside
//! its code.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};
use record::load::rules;
use record::printable::Form;

use crate::features;
use crate::given::given;
use crate::script_options::{ScriptOptions, Unread};
use crate::setting_values::refusal;
use crate::{cmd, help, screen, script_options};

/// A performance lab: steady load, true observation, fair bake-offs
#[derive(Debug, clap::Parser)]
#[command(name = "bakeoff", version, propagate_version = true, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Archive folder; default: `$BAKEOFF_ARCHIVE`, else the XDG data folder
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// Print JSON instead of text: one document, or one object per line if the command streams
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line; every accepted option has an effect.
    ///
    /// # Errors
    ///
    /// A command line that clap rejects, an option that does not apply to the target, or a script that fails.
    pub(crate) fn read_from(words: &[OsString]) -> Result<Self, Unread> {
        let mut command = help::arranged(Self::command());
        let (words, lua) = script_options::take(words.to_vec(), &mut command)?;
        Ok(Self::parsed(command, &words, lua)?)
    }

    /// Variant of [`Self::read_from`] for words that another process sent: it runs no script.
    #[cfg(feature = "fleet")]
    pub(crate) fn read_sent(words: &[OsString]) -> Result<Self, clap::Error> {
        Self::parsed(Self::command(), words, ScriptOptions::default())
    }

    fn parsed(
        mut command: clap::Command,
        words: &[OsString],
        lua: ScriptOptions,
    ) -> Result<Self, clap::Error> {
        let read = command.try_get_matches_from_mut(words);
        let matches = read.map_err(|error| match features::rejected(&error, words) {
            Some(text) => command.error(error.kind(), text),
            None => error,
        })?;
        let mut cli = Self::from_arg_matches(&matches)?;
        let is_lua = lua.is_lua;
        match &mut cli.command {
            Command::Load(args) => args.give(lua),
            Command::Script(args) => args.give(lua),
            _ => {}
        }
        let Some((name, matches)) = matches.subcommand() else { return Ok(cli) };
        let given = command.find_subcommand(name).map(|command| given(command, matches)).unwrap_or_default();
        match &mut cli.command {
            Command::Compare(args) => args.given = given,
            Command::Load(args) => args.given = given,
            _ => {}
        }
        let of_target = match &cli.command {
            Command::Load(args) => Some(args.target()),
            Command::Prepare(args) => Some(args.target()),
            Command::Cleanup(args) => Some(args.target()),
            _ => None,
        };
        if let (Some(target), Some(command)) = (of_target, command.find_subcommand_mut(name))
            && let Some(violation) = rules::violation(&target, |name| {
                // A script in Lua may do without a server; a script of SQL is for databases.
                let needs_none = is_lua && name == "script" && target.scheme() == "null";
                !needs_none && is_given(command, matches, name)
            })
        {
            return Err(command.error(ErrorKind::ArgumentConflict, refusal(&violation)));
        }
        Ok(cli)
    }
}

impl Cli {
    /// Whether the command reads files that may be untrusted.
    pub(crate) fn reads_what_others_wrote(&self) -> bool {
        match &self.command {
            Command::Report(_)
            | Command::Reproduce(_)
            | Command::Runs(_)
            | Command::History(_)
            | Command::Periods(_)
            | Command::Host(_)
            | Command::Import(_) => true,
            #[cfg(feature = "shared")]
            Command::Archive(_) => true,
            Command::Profile(args) => args.compares(),
            Command::Compare(args) => args.reads_archive(),
            _ => false,
        }
    }

    /// The filter of standard output against untrusted text; `None` if the output is binary.
    pub(crate) fn output(&self) -> Option<Form> {
        match &self.command {
            Command::Runs(args) if args.writes_bytes() => None,
            _ if self.json => Some(Form::Json),
            _ if screen::style().color => Some(Form::Colored),
            _ => Some(Form::Plain),
        }
    }
}

/// Whether the command line has the option of a setting.
pub(crate) fn is_given(command: &clap::Command, matches: &clap::ArgMatches, name: &str) -> bool {
    let option = name.replace('_', "-");
    let argument = command.get_arguments().find(|a| a.get_long() == Some(&option));
    argument.is_some_and(|a| matches.value_source(a.get_id().as_str()) == Some(ValueSource::CommandLine))
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Load(Box<cmd::load::Args>),
    Prepare(cmd::prepare::PrepareArgs),
    Cleanup(cmd::prepare::CleanupArgs),
    Script(cmd::script::Args),
    Run(cmd::run::RunArgs),
    Resume(cmd::run::ResumeArgs),
    Plan(cmd::plan::Args),
    Scale(cmd::scale::Args),
    Dder(cmd::dder::Args),
    Compare(Box<cmd::compare::Args>),
    Report(cmd::report::Args),
    History(cmd::history::Args),
    Periods(cmd::periods::Args),
    Aa(cmd::aa::Args),
    Reproduce(cmd::reproduce::Args),
    Runs(cmd::runs::Args),
    Cpu(cmd::cpu::Args),
    Io(cmd::io::Args),
    Nic(cmd::nic::Args),
    Watch(cmd::watch::Args),
    Locks(cmd::locks::Args),
    Ulocks(cmd::ulocks::Args),
    Memory(cmd::memory::Args),
    Profile(cmd::profile::Args),
    Record(cmd::record::Args),
    Prove(cmd::prove::Args),
    Host(cmd::host::Args),
    Doctor(cmd::doctor::Args),
    Hog(cmd::hog::Args),
    Import(cmd::import::Args),
    #[cfg(feature = "serve")]
    Serve(cmd::serve::Args),
    #[cfg(feature = "serve")]
    Queue(cmd::queue::Args),
    #[cfg(feature = "fleet")]
    Agent(cmd::agent::Args),
    #[cfg(feature = "fleet")]
    Fleet(cmd::fleet::Args),
    #[cfg(feature = "shared")]
    Archive(cmd::archive::Args),
    /// Print the man page or shell completions
    Generate(cmd::generate::Args),
}

const EXIT_CODES: &str = "\
Exit codes: 0 good result; 1 bad result; 2 wrong command line or plan; 3 the measurement is INVALID;
4 a gate is inconclusive; 5 the server under test failed; 6 not possible on this machine; 130 interrupted.";

#[cfg(test)]
mod tests {
    use record::load::settings;

    use super::*;

    #[test]
    fn every_setting_is_an_option_of_load() {
        let mut command = Cli::command();
        let load = command.find_subcommand_mut("load").unwrap();
        for setting in settings::ALL {
            let option = setting.name.replace('_', "-");
            assert!(load.get_arguments().any(|a| a.get_long() == Some(&option)), "{option}");
        }
    }

    #[test]
    fn one_output_has_one_form() {
        fn with_csv(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
            let path = [path, &[command.get_name().to_owned()]].concat();
            if command.get_arguments().any(|a| a.get_long() == Some("csv")) {
                found.push(path.clone());
            }
            command.get_subcommands().for_each(|sub| with_csv(sub, &path, found));
        }
        let mut found = Vec::new();
        with_csv(&Cli::command(), &[], &mut found);
        assert!(found.len() > 7, "{found:?}");
        for path in found {
            let words = [&path[..], &["--csv".to_owned(), "--json".to_owned()]].concat();
            let kind = Cli::command().try_get_matches_from(words).err().map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::ArgumentConflict), "{path:?}");
        }
    }
}
