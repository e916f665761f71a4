//! `bakeoff fleet collect`: a run of which the conductor died.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use ::fleet::{FleetError, Incomplete, Recovered, Server, Told, recover, survey};
use analysis::Machine;
use archive::{Archive, ArchiveError, RunWriter, Spool};
use record::clock::WallAnchor;
use record::instruments::Instruments;
use record::load::LoadRecord;
use record::missing::Missing;
use record::run::{Run, RunHeader, RunId, RunKind};
use report::text::Detail;

use super::options::ServerOptions;
use crate::cmd::agent::of_fleet;
use crate::cmd::{Global, command_line, load, of_archive};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::signals;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bakeoff fleet collect                             the only run that is left in spools
  bakeoff fleet collect 8c1fe2 --server tls://lab.example:4222 --nkey lead.nk
The run has the id that its conductor gave it, so an archive stores it once. The agents remove their spools when it is stored.")]
pub(crate) struct Args {
    /// Run id, its beginning or its end [default: the only run that is left]
    run: Option<String>,

    /// Store the run as INVALID if the spool of a share is missing; without an observer or a probe if its
    /// spool is missing
    #[arg(long)]
    incomplete: bool,

    #[command(flatten)]
    server: ServerOptions,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let server = args.server.server()?;
    signals::stop_on_interrupt()?;
    let id = chosen(args.run.as_deref(), &server)?;
    // Opening the archive for writing removes what its dead conductor left there.
    let killed = global.archive().ok().and_then(|archive| archive.killed().ok());
    let killed = killed.into_iter().flatten().find(|header| header.id == id);
    let draft = killed.unwrap_or_else(|| {
        let command = command_line(None);
        RunHeader { id, ..RunHeader::running(RunKind::Load, WallAnchor::now(), String::new(), command) }
    });
    let archive = global.archive_for_writing()?;
    let writer = match archive.begin(&draft) {
        Ok(writer) => writer,
        Err(ArchiveError::Exists { .. }) => return again(&archive, id, &server),
        Err(ArchiveError::Busy { .. }) => {
            return Err(
                Exit::CannotHere.with(format!("the conductor of run {id} still lives: it stores the run"))
            );
        }
        Err(error) => return Err(of_archive(error)),
    };
    store(args, &server, draft, writer, global, out)
}

/// The run to collect, of those that are left.
fn chosen(name: Option<&str>, server: &Server) -> anyhow::Result<RunId> {
    let seen = survey(server, Duration::from_secs(1), &signals::STOP).map_err(of_fleet)?;
    let left =
        seen.iter().flat_map(|seen| seen.left.iter().flatten()).filter_map(|left| left.run.parse().ok());
    let left: BTreeSet<RunId> = left.collect();
    let wanted = name.map(str::to_ascii_uppercase);
    let found: Vec<RunId> =
        left.iter().copied().filter(|id| wanted.as_ref().is_none_or(|name| id.is_named(name))).collect();
    match found.as_slice() {
        [id] => Ok(*id),
        _ if left.is_empty() => {
            let unknown = seen.iter().find_map(|seen| seen.left.as_ref().err());
            let why = unknown.map_or_else(String::new, |why| format!(" ({why})"));
            Err(Exit::Usage.with(format!("no run is left in the spools of the agents that answer{why}")))
        }
        _ => {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            Err(Exit::Usage.with(format!("which run: {}", left.join(", "))))
        }
    }
}

/// Adds to `spool` and `missing` what the agents measured, each as soon as it is read.
fn recovered(
    incomplete: Incomplete,
    server: &Server,
    id: RunId,
    (spool, missing): (&mut Spool, &mut BTreeMap<String, Missing>),
) -> anyhow::Result<Recovered> {
    let mut screen = Screen::new();
    let mut tell = |told: &Told<'_>, anchor: WallAnchor| match told {
        Told::Load(::load::Event::IntervalClosed(slices)) => spool.add_slices(slices),
        Told::Load(_) => {}
        // No series of this machine is in the run.
        Told::Watched(of) => runner::add_watched((&mut *spool, &mut *missing), of, "", anchor),
        Told::Note(line) => screen.line(line),
    };
    let recovered = recover(server, &id.to_string(), incomplete, &signals::STOP, &mut tell);
    recovered.map_err(|error| match error {
        FleetError::Interrupted => {
            Exit::Interrupted.with("interrupted: nothing is stored, and the agents keep their spools")
        }
        error => of_fleet(error),
    })
}

fn store(
    args: &Args,
    server: &Server,
    draft: RunHeader,
    writer: RunWriter,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let mut spool = writer.spool();
    let incomplete = if args.incomplete { Incomplete::Accept } else { Incomplete::Refuse };
    let mut instruments = Instruments::default();
    let found = (&mut spool, &mut instruments.missing);
    let Recovered { record, anchor, spools } = recovered(incomplete, server, draft.id, found)?;
    let title = match draft.title.as_str() {
        "" => format!("{} on {}", record.settings.workload.word(), record.settings.target),
        title => title.to_owned(),
    };
    let header = load::ended(RunHeader { anchor, title, ..draft }, &record);
    let environment = load::environment(global);
    let run = Run { load: Some(record), instruments, ..Run::unmeasured(header, environment) };
    writer.seal_with(&run, &spool)?;
    spools.release();
    let machine = Machine::missing(Missing::because("the instruments of the conductor died with it"));
    load::print(&run, &machine, Some(run.header.id), Detail::Brief, global, out)?;
    Ok(load::exit_of(&run, true))
}

/// The run is stored already: its conductor, or an earlier collection, died before the agents removed their
/// spools.
fn again(archive: &Archive, id: RunId, server: &Server) -> anyhow::Result<Exit> {
    let stored = archive.run_summary(id).map_err(of_archive)?.load;
    // A share that is missing makes a difference.
    let found = (&mut Spool::temporary(), &mut BTreeMap::new());
    let Recovered { record, spools, .. } = recovered(Incomplete::Accept, server, id, found)?;
    if !stored.is_some_and(|stored| is_same(&stored, &record)) {
        return Err(Exit::CannotHere.with(format!(
            "the archive has run {id}, but with other measurements than the spools: the spools stay"
        )));
    }
    spools.release();
    Screen::new().line(&format!("run {id} was stored before, with these measurements: the spools may go"));
    Ok(Exit::Good)
}

/// Whether two records have the same events.
fn is_same(a: &LoadRecord, b: &LoadRecord) -> bool {
    a.counts == b.counts
        && (&a.response, &a.service, &a.failure) == (&b.response, &b.service, &b.failure)
        && a.agents
            .iter()
            .map(|agent| (&agent.agent, agent.counts, agent.slices))
            .eq(b.agents.iter().map(|agent| (&agent.agent, agent.counts, agent.slices)))
}
