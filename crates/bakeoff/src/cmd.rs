//! One file per command.

pub(crate) mod aa;
#[cfg(feature = "fleet")]
pub(crate) mod agent;
#[cfg(feature = "shared")]
pub(crate) mod archive;
pub(crate) mod compare;
pub(crate) mod cpu;
pub(crate) mod dder;
pub(crate) mod doctor;
pub(crate) mod experiment;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
pub(crate) mod gates;
pub(crate) mod generate;
mod global;
pub(crate) mod history;
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
pub(crate) mod output_files;
pub(crate) mod periods;
pub(crate) mod plan;
mod plan_file;
mod plan_init;
pub(crate) mod plan_pilot;
pub(crate) mod prepare;
pub(crate) mod profile;
mod profiled;
pub(crate) mod prove;
#[cfg(feature = "serve")]
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod scale;
pub(crate) mod script;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod ulocks;
pub(crate) mod watch;

use std::io::Write;

#[cfg(feature = "fleet")]
pub(crate) use self::global::words;
pub(crate) use self::global::{
    ByGroup, Global, cgroup, check_cgroups, command_line, local_time, of_archive, print_json, process,
    remember_words,
};
use crate::cli::{Cli, Command};
use crate::confine;
use crate::exit::Exit;
#[cfg(not(feature = "shared"))]
use crate::features;
#[cfg(feature = "fleet")]
use crate::fleet_words;

/// Runs the command of the command line; its output goes to `out`.
///
/// With a shared archive as `--archive`, the command measures into the default folder, and what it stored is
/// pushed afterwards.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let text = cli.archive.as_ref().and_then(|path| path.to_str());
    let Some(text) = text.filter(|text| text.starts_with("postgres://") || text.starts_with("postgresql://"))
    else {
        return run_with(cli, &Global::new(cli.archive.clone(), cli.json), out);
    };
    #[cfg(feature = "shared")]
    {
        use Command::{Dder, Load, Record, Resume, Run, Scale};
        let measures = matches!(cli.command, Load(_) | Run(_) | Resume(_) | Record(_) | Scale(_) | Dder(_));
        archive::push_after(text, measures, cli.json, out, &|global, out| run_with(cli, global, out))
    }
    #[cfg(not(feature = "shared"))]
    {
        // The text is not repeated: it may contain a password.
        let _ = text;
        Err(Exit::Usage.with(format!("--archive names a shared archive: {}", features::lacks("shared"))))
    }
}

fn run_with(cli: &Cli, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    // Proving creates disks, networks and workloads, which need nearly all rights; the doctor may mount.
    if !matches!(cli.command, Command::Prove(_) | Command::Hog(_) | Command::Doctor(_)) {
        confine::at_start();
    }
    match &cli.command {
        Command::Load(args) => load::run(args, global, out),
        Command::Prepare(args) => prepare::prepare(args, global, out),
        Command::Cleanup(args) => prepare::cleanup(args, global, out),
        Command::Script(args) => script::run(args, global, out),
        Command::Run(args) => run::run(args, global, out),
        Command::Resume(args) => run::resume(args, global, out),
        Command::Plan(args) => plan::run(args, plan_init::text, global, out),
        Command::Dder(args) => dder::run(args, global, out),
        Command::Scale(args) => scale::run(args, global, out),
        Command::Report(args) => report::run(args, global, out),
        Command::History(args) => history::run(args, global, out),
        Command::Periods(args) => periods::run(args, global, out),
        Command::Aa(args) => aa::run(args, global, out),
        Command::Reproduce(args) => reproduce::run(args, global, out),
        Command::Runs(args) => runs::run(args, global, out),
        Command::Compare(args) => compare::run(args, global, out),
        Command::Cpu(args) => cpu::run(args, global, out),
        Command::Io(args) => io::run(args, global, out),
        Command::Nic(args) => nic::run(args, global, out),
        Command::Watch(args) => watch::run(args, global, out),
        Command::Locks(args) => locks::run(args, global, out),
        Command::Ulocks(args) => ulocks::run(args, global, out),
        Command::Memory(args) => memory::run(args, global, out),
        Command::Profile(args) => profile::run(args, global, out),
        Command::Record(args) => record::run(args, global, out),
        Command::Prove(args) => prove::run(args, global, out),
        Command::Doctor(args) => doctor::run(args, global, out),
        Command::Host(args) => host::run(args, global, out),
        Command::Hog(args) => hog::run(args, global, out),
        Command::Import(args) => import::run(args, global, out),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args, global, out),
        #[cfg(feature = "serve")]
        Command::Queue(args) => queue::run(args, global, out),
        #[cfg(feature = "fleet")]
        Command::Agent(args) => agent::run(args, &|words, sender| {
            fleet_words::meant(words, sender).map_err(|error| format!("{error:#}"))
        }),
        #[cfg(feature = "fleet")]
        Command::Fleet(args) => fleet::run(args, global, out),
        #[cfg(feature = "shared")]
        Command::Archive(args) => archive::run(args, global, out),
        Command::Generate(args) => generate::run(args, out),
    }
}
