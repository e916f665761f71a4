//! One file a command.

pub(crate) mod cpu;
pub(crate) mod dder;
pub(crate) mod experiment;
pub(crate) mod generate;
pub(crate) mod hog;
pub(crate) mod host;
pub(crate) mod import;
pub(crate) mod intervals;
pub(crate) mod io;
pub(crate) mod load;
pub(crate) mod lock_options;
pub(crate) mod locks;
pub(crate) mod memory;
pub(crate) mod nic;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod profile;
pub(crate) mod prove;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod scale;
pub(crate) mod ulocks;
pub(crate) mod watch;

use std::io::Write;
use std::path::PathBuf;

use ::record::target::Target;
use archive::Archive;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::{Cli, Command};
use crate::confine::{self, Reader};
use crate::exit::Exit;

/// What every command is told.
#[derive(Debug)]
pub(crate) struct Global {
    archive: Option<PathBuf>,
    /// Print JSON instead of text.
    pub(crate) json: bool,
}

impl Global {
    /// The archive, made where it is not there yet.
    pub(crate) fn archive_for_writing(&self) -> anyhow::Result<Archive> {
        Ok(Archive::open(&self.archive_folder()?)?)
    }

    /// The archive for writing, also as root in a folder of another user: the user has said `--trust`.
    pub(crate) fn trusted_archive(&self) -> anyhow::Result<Archive> {
        Ok(Archive::open_trusted(&self.archive_folder()?)?)
    }

    /// The archive that is there.
    pub(crate) fn archive(&self) -> anyhow::Result<Archive> {
        Ok(Archive::open_existing(&self.archive_folder()?)?)
    }

    /// Gives up, for the rest of the process, what a command does not need that reads what others wrote: it keeps what
    /// `reader` has, and the archive.
    pub(crate) fn confine(&self, reader: Reader, command: &str, verbose: bool) -> anyhow::Result<()> {
        reader.writes(&self.archive_folder()?).confine(command, verbose);
        Ok(())
    }

    fn archive_folder(&self) -> anyhow::Result<PathBuf> {
        match &self.archive {
            Some(folder) => Ok(folder.clone()),
            None => Ok(archive::default_dir(|name| std::env::var_os(name))?),
        }
    }
}

/// The id of a process that there is: of another one, nothing would ever be seen.
pub(crate) fn process(text: &str) -> Result<u32, String> {
    let pid = text.parse().map_err(|_| "expected the id of a process, such as 4711".to_owned())?;
    probes::process_time::find(pid).map_err(|missing| missing.reason)
}

/// The control group of a path.
pub(crate) fn cgroup(text: &str) -> Result<probes::cgroups::Cgroup, String> {
    probes::cgroups::find(text).map_err(|e| e.to_string())
}

/// What else threads are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ByGroup {
    /// The control group of version 2
    Cgroup,
}

/// Refuses what would put everything into one group that nobody knows.
pub(crate) fn check_cgroups(by: bool) -> anyhow::Result<()> {
    if by && let Err(error) = probes::cgroups::mounted() {
        return Err(Exit::CannotHere.with(error.to_string()));
    }
    Ok(())
}

/// `07:42:45` in the user's time zone.
pub(crate) fn local_time(unix_ns: u64) -> String {
    let at =
        Timestamp::from_nanosecond(i128::from(unix_ns)).expect("a clock shows a time before the year 9999");
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Runs the command that was typed; what it has to say goes to `out`.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let global = Global { archive: cli.archive.clone(), json: cli.json };
    // Proving makes disks, networks and workloads that need nearly everything.
    if !matches!(cli.command, Command::Prove(_) | Command::Hog(_)) {
        confine::at_start();
    }
    match &cli.command {
        Command::Load(args) => load::run(args, &global, out),
        Command::Prepare(args) => prepare::prepare(args, &global, out),
        Command::Cleanup(args) => prepare::cleanup(args, &global, out),
        Command::Run(args) => run::run(args, &global, out),
        Command::Resume(args) => run::resume(args, &global, out),
        Command::Plan(args) => plan::run(args, &global, out),
        Command::Dder(args) => dder::run(args, &global, out),
        Command::Scale(args) => scale::run(args, &global, out),
        Command::Report(args) => report::run(args, &global, out),
        Command::Runs(args) => runs::run(args, &global, out),
        Command::Cpu(args) => cpu::run(args, &global, out),
        Command::Io(args) => io::run(args, &global, out),
        Command::Nic(args) => nic::run(args, &global, out),
        Command::Watch(args) => watch::run(args, &global, out),
        Command::Locks(args) => locks::run(args, &global, out),
        Command::Ulocks(args) => ulocks::run(args, &global, out),
        Command::Memory(args) => memory::run(args, &global, out),
        Command::Profile(args) => profile::run(args, &global, out),
        Command::Record(args) => record::run(args, &global, out),
        Command::Prove(args) => prove::run(args, &global, out),
        Command::Host(args) => host::run(args, &global, out),
        Command::Hog(args) => hog::run(args, &global, out),
        Command::Import(args) => import::run(args, &global, out),
        Command::Generate(args) => generate::run(args, out),
    }
}

/// Prints one JSON document, and its line end.
pub(crate) fn print_json(out: &mut dyn Write, document: &serde_json::Value) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    Ok(writeln!(out)?)
}

/// The command line as a shell would take it again, the target's password masked.
pub(crate) fn command_line(target: Option<&Target>) -> String {
    let masked = |word: String| match target {
        Some(target) if word == target.expose() => target.masked(),
        _ => word,
    };
    ::record::run::command_line(std::env::args().map(masked))
}

/// How a command ends that the archive refused: what the user named wrongly is a wrong command line.
pub(crate) fn of_archive(error: archive::ArchiveError) -> anyhow::Error {
    use archive::ArchiveError::{Ambiguous, NoneOfKind, NotFound, PartOfBakeoff};
    match error {
        NotFound { .. } | NoneOfKind { .. } | Ambiguous { .. } | PartOfBakeoff { .. } => {
            Exit::Usage.with(error)
        }
        _ => error.into(),
    }
}
