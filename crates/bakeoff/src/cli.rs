//! The command line as a user types it. One variant a command; each command's options live beside its code.

use std::path::PathBuf;

use crate::cmd;

/// A performance lab in one binary: steady load, true observation, fair bake-offs, a page at the end.
#[derive(Debug, clap::Parser)]
#[command(name = "bakeoff", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Where runs are kept; by default the folder that the variable `BAKEOFF_ARCHIVE` names, else the XDG data folder
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// Print JSON instead of text: one document, or one object a line where it streams
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Load(Box<cmd::load::Args>),
    Prepare(cmd::prepare::PrepareArgs),
    Cleanup(cmd::prepare::CleanupArgs),
    Run(cmd::run::RunArgs),
    Resume(cmd::run::ResumeArgs),
    Plan(cmd::plan::Args),
    Scale(cmd::scale::Args),
    Dder(cmd::dder::Args),
    Report(cmd::report::Args),
    Runs(cmd::runs::Args),
    Cpu(cmd::cpu::Args),
    Io(cmd::io::Args),
    Nic(cmd::nic::Args),
    Watch(cmd::watch::Args),
    Locks(cmd::locks::Args),
    Ulocks(cmd::ulocks::Args),
    Record(cmd::record::Args),
    Prove(cmd::prove::Args),
    Host(cmd::host::Args),
    Hog(cmd::hog::Args),
    Import(cmd::import::Args),
    /// Print the man page or shell completions
    Generate(cmd::generate::Args),
}

const EXIT_CODES: &str = "\
Exit codes: 0 done and good; 1 done and bad; 2 wrong command line or plan; 3 the measurement is INVALID;
4 a gate is inconclusive; 5 the server under test failed; 6 it could not be done here; 130 interrupted.";
