//! `bakeoff load`: drive one target, print and archive the run.

#[cfg(feature = "fleet")]
mod fleet;
mod search;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::Machine;
use anyhow::Context as _;
use archive::event_log::EventLog;
use archive::{RunWriter, Spool, whole_file};
use load::Control;
use record::agents::{FleetSettings, Watched};
use record::clock::WallAnchor;
use record::environment::Environment;
use record::histogram::CensoredHistogram;
use record::load::{LoadRecord, LoadSettings, Phase};
use record::missing::Missing;
use record::quantity;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::search::Promise;
use record::target::Target;
use record::verdict::Validity;
use report::text::Detail;
use runner::{Beside, Spooled};

use crate::cmd::{Global, command_line, print_json};
use crate::exit::{EndsWith as _, Exit, of_load};
use crate::given::Given;
use crate::load_options::{DataOptions, Meant, PaceOptions};
use crate::load_screen::LoadScreen;
use crate::replay_options::ReplayOptions;
use crate::screen::Screen;
use crate::script_options::{self, ScriptOptions};
use crate::{confine, live, screen, signals};

/// Drive one target with a steady load, print and archive the run
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataOptions,

    #[command(flatten)]
    pace: PaceOptions,

    #[command(flatten)]
    replay: ReplayOptions,

    /// Translate a command line of sysbench, pgbench, `memtier_benchmark`, wrk, wrk2, hey, oha or ab and run
    /// it; needs no TARGET. Options beside it replace the translated ones. `-` translates the lines of
    /// standard input, and runs none
    // `crate::like` replaces the option before the command line is parsed.
    #[arg(long, value_name = "COMMAND LINE", allow_hyphen_values = true)]
    like: Option<String>,

    /// With --like: print the translated command line, and do not run it
    #[arg(long, requires = "like")]
    dry_run: bool,

    /// Instruments to record during the load, separated by commas: cpu, locks, ulocks...; all, or none
    // Plans and `serve` call it instruments.
    #[arg(long, alias = "instruments", value_name = "WHAT", default_value = "cpu", value_parser = observed)]
    observe: Observe,

    /// One-line description of the run
    #[arg(long, value_name = "TEXT", conflicts_with = "no_archive")]
    title: Option<String>,

    /// Label to find the run by; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", conflicts_with = "no_archive", value_parser = key_value)]
    labels: Vec<(String, String)>,

    /// Also write the latencies to this file: HdrHistogram log V2, or its percentile text if the name ends in
    /// .hgrm
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,

    /// Also write one row per event to this Parquet file: due, claim, start and end times, operation,
    /// outcome; `--arrivals file:` replays it
    #[arg(long, value_name = "FILE.parquet", value_parser = parquet_file)]
    log: Option<PathBuf>,

    /// Accept commands on this local socket while the load runs: `rate 2000/s`, `rate +10%`, `status` or
    /// `stop`, one per line
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["search", "events"])]
    control: Option<PathBuf>,

    #[cfg(feature = "fleet")]
    #[command(flatten)]
    fleet: fleet::FleetOptions,

    /// Find the highest steady rate that keeps a promise: p99<10ms, or p99.9<5ms,max<1s. Each try is a run of
    /// --time; the search starts at --rate [default: 10/s]
    #[arg(long, value_name = "PROMISE", value_parser = Promise::parse, conflicts_with_all = ["hlog", "log", "events", "strict"])]
    search: Option<Promise>,

    /// Exit with code 3 if the verdict is INVALID
    #[arg(long)]
    strict: bool,

    /// Print everything: settings, every percentile, operations, the checks that passed
    #[arg(short, long)]
    verbose: bool,

    /// Do not store the run in the archive
    #[arg(long)]
    no_archive: bool,

    /// The command line, of which `plan init` writes a plan.
    #[arg(skip)]
    pub(crate) given: Vec<Given>,
}

impl Args {
    fn detail(&self) -> Detail {
        if self.verbose { Detail::Full } else { Detail::Brief }
    }

    /// The agents that generate the load; `None` if this machine does.
    #[cfg_attr(not(feature = "fleet"), expect(clippy::unused_self, reason = "only a fleet has agents"))]
    pub(crate) fn fleet(&self) -> Option<FleetSettings> {
        #[cfg(feature = "fleet")]
        return self.fleet.asked();
        #[cfg(not(feature = "fleet"))]
        None
    }

    /// Sets the options of a script in Lua.
    pub(crate) fn give(&mut self, lua: ScriptOptions) {
        self.data.give(lua);
    }

    /// Whether the load is read from standard input, which a fleet's agents do not share.
    #[cfg(feature = "fleet")]
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.replay.reads_standard_input()
    }

    /// Target of the load.
    pub(crate) fn target(&self) -> Target {
        self.data.target()
    }
}

/// Instruments of a run; any of them includes the CPU's.
#[derive(Debug, Clone)]
enum Observe {
    Nothing,
    CpuAnd(super::record::Observed),
}

impl Observe {
    fn open(&self) -> Beside {
        match self {
            Self::Nothing => Beside::new(false),
            Self::CpuAnd(others) => Beside::new(true).with(&others.0),
        }
    }
}

fn observed(text: &str) -> Result<Observe, String> {
    if text == "none" {
        return Ok(Observe::Nothing);
    }
    super::record::observed(text)
        .map(Observe::CpuAnd)
        .map_err(|why| if why.ends_with('?') { why } else { why + ", none" })
}

/// Reads the path of a Parquet file. Another extension is refused, because the format does not depend on the
/// name.
fn parquet_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(e) if e.eq_ignore_ascii_case("parquet") => Ok(path),
        _ => {
            Err("only Parquet can be written: name it FILE.parquet, and convert it with an SQL engine".into())
        }
    }
}

/// Start rate of a search without `--rate`.
const SEARCH_FROM_PER_S: f64 = 10.0;

const EXAMPLES: &str = "\
Examples:
  bakeoff load sqlite:/tmp/bench.db?journal_mode=wal --rate 500 --threads 8 --time 20s
  bakeoff load 'mysql://root@localhost/test?socket=/run/mysqld/mysqld.sock' --rate 500 --threads 8
  bakeoff load mysql://root@localhost/test --script oltp_read_write.lua --tables 4 --threads 8
  bakeoff load 'exec:gzip -1 -k -f big.log' --rate 10
  bakeoff load null: --rate 10000 --threads 4        the generator's own cost
  bakeoff load sqlite:/tmp/bench.db --threads 4 --search 'p99<10ms' --time 5s
  bakeoff load --like 'wrk -t2 -c100 -d30s http://localhost/' --dry-run
  bakeoff load http://localhost:8080 --replay access.log --speed 2 --connections 50";

/// The load of a command line, every default resolved, and notices for the user.
pub(crate) fn meant(args: &Args) -> anyhow::Result<(Meant, Vec<String>)> {
    #[cfg(feature = "fleet")]
    if args.fleet().is_some() && args.reads_standard_input() {
        let text = "--fleet cannot replay `-`: give a file that exists on every agent's machine";
        return Err(Exit::Usage.with(text));
    }
    let start_per_s = args.search.as_ref().map(|_| SEARCH_FROM_PER_S);
    let mut replayed = args.replay.read(&args.data.target())?;
    let notices = replayed.as_mut().map(|replayed| std::mem::take(&mut replayed.notices)).unwrap_or_default();
    Ok((args.pace.meant(&args.data, start_per_s, replayed)?, notices))
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (Meant { settings, recorded }, read) = meant(args)?;
    load::check_target(&settings.target).map_err(of_load)?;
    script_options::print_beside(global.json);
    if let Some(promise) = &args.search {
        return search::run(args, promise, &settings, global, out);
    }

    let anchor = WallAnchor::now();
    let header = header(args, &settings, anchor);
    let archive = if args.no_archive { None } else { Some(global.archive_for_writing()?) };
    let writer = archive.as_ref().map(|archive| archive.begin(&header)).transpose()?;
    args.hlog.as_deref().map_or(Ok(()), check)?;

    signals::stop_on_interrupt()?;
    let control = args.control.as_deref().map(control).transpose()?;
    let mut screen = LoadScreen::new(&settings);
    let mut beside = args.observe.open();
    let notes = beside.notes();
    tell_notices(&mut screen, read, &settings, &notes);
    let log = args.log.as_deref().map(|path| event_log(path, &settings, &mut screen)).transpose()?;
    let log_to = log.as_ref().map(EventLog::sender);
    let with = load::Attachments { recorded, control, log: log_to, ..load::Attachments::default() };
    let environment = environment(global);
    let host = environment.fact("host.name").unwrap_or("localhost");
    let spool = writer.as_ref().map_or_else(Spool::temporary, RunWriter::spool);
    let mut follower = Follower {
        spooled: Spooled::new(&mut beside, spool, host, anchor),
        viewed: archive.as_ref().map(|archive| live::of_load(archive, header.id, &settings)),
        screen,
        unlogged: 0,
    };
    let record = drive(args, header.id, &settings, &with, &mut |told| follower.take(&told));
    let mut unwatched = BTreeMap::new();
    let (spool, mut screen, unlogged) = follower.end(&mut unwatched);
    // The writer of the log ends when its last sender is dropped.
    drop(with);
    let (record, release) = match record {
        Ok(driven) => driven,
        Err(error) => {
            log.map(EventLog::abandon).unwrap_or_default();
            return Err(error);
        }
    };

    let machine = machine(&record, &spool);
    let run = run_of(header, environment, record, &mut beside, unwatched);
    for note in beside.notes().iter().filter(|note| !notes.contains(note)) {
        screen.line(&format!("bakeoff load: {note}"));
    }
    // The run is archived first, so a failure to print does not lose it.
    let kept = writer.map(|writer| writer.seal_with(&run, &spool)).transpose();
    let id = matches!(kept, Ok(Some(_))).then_some(run.header.id);
    if let Some(line) = release(kept.is_ok()) {
        screen.line(&format!("bakeoff load: {line}"));
    }
    let printed = print(&run, &shown(&machine), id, args.detail(), global, out);
    let logged = args.hlog.as_deref().map_or(Ok(()), |path| write_hlog(&run, &spool, path));
    let events_logged = log.map(EventLog::finish).transpose();
    let kept = kept?;
    machine?;
    logged?;
    tell_of_log(&mut screen, events_logged?.zip(args.log.as_deref()), unlogged);
    // The text names the run; its folder is a detail.
    if let Some(folder) = kept.filter(|_| args.verbose) {
        screen.line(&format!("stored as {} in {}", run.header.id, folder.display()));
    }
    printed?;
    Ok(exit_of(&run, args.strict))
}

/// The places where the messages of a running load go.
struct Follower<'a> {
    spooled: Spooled<'a>,
    /// For `bakeoff watch`.
    viewed: Option<archive::Live>,
    screen: LoadScreen<'a>,
    /// Events that the log lacks.
    unlogged: u64,
}

impl Follower<'_> {
    fn take(&mut self, told: &Told<'_>) {
        match told {
            Told::Note(line) => self.screen.line(line),
            Told::Watched(watched) => self.spooled.add_watched(watched),
            Told::Load(event) => {
                self.spooled.follow(event);
                drop_rights(event);
                self.screen.show(event);
                if let Some(viewed) = &mut self.viewed {
                    live::tell_of_load(viewed, event);
                }
                if let load::Event::Logged { lost, .. } = event {
                    self.unlogged = *lost;
                }
            }
        }
    }

    /// The spool, the screen, and the number of events that the log lacks. Adds the observing agents without
    /// numbers to `unwatched`.
    fn end(self, unwatched: &mut BTreeMap<String, Missing>) -> (Spool, Screen, u64) {
        drop(self.viewed);
        (self.spooled.end_with(unwatched), self.screen.finish(), self.unlogged)
    }
}

fn tell_notices(screen: &mut LoadScreen<'_>, read: Vec<String>, settings: &LoadSettings, notes: &[String]) {
    let quota = probes::limits::Limits::of_self().cpu().warning();
    let notices = read.into_iter().chain(load::notices(settings)).chain(quota);
    notices.chain(notes.iter().cloned()).for_each(|notice| screen.line(&format!("bakeoff load: {notice}")));
}

/// CPU use as it is printed: an error is the reason for its absence.
fn shown(machine: &anyhow::Result<Machine>) -> Machine {
    let missing = |error: &anyhow::Error| Machine::missing(Missing::because(format!("{error:#}")));
    machine.as_ref().map_or_else(missing, Clone::clone)
}

/// The run to archive, of a load that is over.
fn run_of(
    header: RunHeader,
    environment: Environment,
    mut record: LoadRecord,
    beside: &mut Beside,
    unwatched: BTreeMap<String, Missing>,
) -> Run {
    let throttled = beside.take_throttled();
    if let Ok(throttled) = &throttled {
        record.verdict.add(throttled.check());
    }
    // An instrument knows its losses when all of its data is taken.
    let mut instruments = beside.take_instruments();
    instruments.missing.extend(unwatched);
    let header = ended(header, &record);
    Run { load: Some(record), instruments, throttled, ..Run::unmeasured(header, environment) }
}

/// Prints the number of events in the log, and of those that it lacks.
fn tell_of_log(screen: &mut Screen, logged: Option<(u64, &Path)>, unlogged: u64) {
    if let Some((rows, path)) = logged {
        screen.line(&format!("{} in {}", quantity::plural(rows, "event"), path.display()));
    }
    if unlogged > 0 {
        screen.line(&format!(
            "bakeoff load: {} not logged: events ended faster than the log was written",
            quantity::plural(unlogged, "event")
        ));
    }
}

fn check(path: &Path) -> anyhow::Result<()> {
    whole_file::check(path).with_context(|| format!("writing {}", path.display()))
}

/// Drops the rights that only the start of the instruments needs: they start with the measured phase.
fn drop_rights(event: &load::Event) {
    if let load::Event::PhaseStarts { phase: Phase::Measure, .. } = event {
        confine::after_setup_of_load();
    }
}

/// A message of a load while it runs.
enum Told<'a> {
    Load(&'a load::Event),
    #[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "only a fleet has notes"))]
    Note(&'a str),
    #[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "only a fleet has observers"))]
    Watched(&'a Watched),
}

/// To be called with whether the run is stored: only then may the agents of a fleet remove what they keep.
/// Yields a line for people.
type Release = Box<dyn FnOnce(bool) -> Option<String>>;

/// Drives the load, with a fleet if one is asked for.
#[cfg_attr(not(feature = "fleet"), expect(unused_variables, reason = "only a fleet needs them"))]
fn drive(
    args: &Args,
    run: RunId,
    settings: &LoadSettings,
    with: &load::Attachments,
    on_told: &mut dyn FnMut(Told<'_>),
) -> anyhow::Result<(LoadRecord, Release)> {
    #[cfg(feature = "fleet")]
    if let Some(asked) = args.fleet() {
        return args.fleet.drive(asked, run, settings, with, &mut |told| match told {
            ::fleet::Told::Load(event) => on_told(Told::Load(event)),
            ::fleet::Told::Note(line) => on_told(Told::Note(line)),
            ::fleet::Told::Watched(watched) => on_told(Told::Watched(watched)),
        });
    }
    let record = load::run_with(settings, with, &signals::STOP, &mut |event| on_told(Told::Load(event)));
    Ok((record.map_err(of_load)?, Box::new(|_| None)))
}

/// CPU use over the measured phase.
fn machine(record: &LoadRecord, spool: &Spool) -> anyhow::Result<Machine> {
    let mut unread = Ok(());
    let intervals = spool.cpu()?.map_while(|interval| interval.map_err(|error| unread = Err(error)).ok());
    let machine = analysis::machine(record, intervals);
    unread.context("reading the intervals of the CPUs")?;
    Ok(machine)
}

pub(super) fn print(
    run: &Run,
    machine: &Machine,
    id: Option<RunId>,
    detail: Detail,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let record = run.load.as_ref().expect("a load run has a load record");
    if global.json {
        print_json(out, &report::json::load(id, record, machine, &run.throttled))?;
    } else {
        let name = id.map(|id| global.short_name(id));
        report::text::load_record(out, record, machine, name.as_deref(), (detail, screen::style()))?;
    }
    Ok(out.flush()?)
}

/// Reads this machine, and the last proofs of the instruments on it.
pub(crate) fn environment(global: &Global) -> Environment {
    let machine = probes::environment::read(Path::new("/"));
    // An unreadable archive has no proofs to cite; other commands report its errors.
    let calibration = global.archive().ok().and_then(|archive| archive.calibration(&machine).ok());
    Environment { calibration: calibration.unwrap_or_default(), ..machine }
}

fn header(args: &Args, settings: &LoadSettings, anchor: WallAnchor) -> RunHeader {
    let title = || format!("{} on {}", settings.workload.word(), settings.target);
    let title = args.title.clone().unwrap_or_else(title);
    let labels = args.labels.iter().cloned().collect();
    let command = command_line(Some(&settings.target));
    RunHeader { labels, ..RunHeader::running(RunKind::Load, anchor, title, command) }
}

pub(super) fn ended(header: RunHeader, record: &LoadRecord) -> RunHeader {
    let failures: Vec<&str> = record.verdict.failures().map(|c| c.text.as_str()).collect();
    match record.verdict.state {
        Validity::Valid | Validity::Degraded => header.ended(None),
        Validity::Invalid => header.ended(Some(failures.join("; "))),
        Validity::Interrupted => header.interrupted(),
    }
}

pub(super) fn exit_of(run: &Run, strict: bool) -> Exit {
    match run.header.state {
        RunState::Interrupted => Exit::Interrupted,
        RunState::Invalid if server_failed(run) => Exit::ServerFailed,
        RunState::Invalid if strict => Exit::Invalid,
        _ => Exit::Good,
    }
}

/// Whether the server was unreachable at the end, or no event succeeded.
fn server_failed(run: &Run) -> bool {
    let Some(load) = &run.load else { return false };
    load.outages.iter().any(|outage| !outage.ended) || (load.counts.done == 0 && load.counts.failed > 0)
}

/// Opens the socket that controls the load.
fn control(path: &Path) -> anyhow::Result<Arc<Control>> {
    let stop = || signals::STOP.request();
    Ok(Arc::new(Control::listen(path, stop).ends_with(Exit::CannotHere)?))
}

/// Creates the log of events.
fn event_log(path: &Path, settings: &LoadSettings, screen: &mut LoadScreen<'_>) -> anyhow::Result<EventLog> {
    let operations = load::operations(settings, &signals::STOP).map_err(of_load)?;
    let log = EventLog::create(path, &operations, settings.workload.word())?;
    if let Some(left) = log.left_behind() {
        screen.line(&format!("bakeoff load: replaced {}, which a killed load had left", left.display()));
    }
    Ok(log)
}

fn write_hlog(run: &Run, spool: &Spool, path: &Path) -> anyhow::Result<()> {
    let record = run.load.as_ref().expect("a load run has a load record");
    let written = whole_file::write_with(path, |out| {
        if path.extension().is_some_and(|e| e == "hgrm") {
            archive::hlog::write_hgrm(
                felt(record),
                |quantile, ns| record.is_generator_made(quantile, ns),
                out,
            )
        } else {
            archive::hlog::write(record, spool, run.header.anchor, out)
        }
    });
    written.with_context(|| format!("writing {}", path.display()))
}

/// Latency that users experience: response time, or service time in a closed loop.
fn felt(record: &LoadRecord) -> &CensoredHistogram {
    record.response.as_ref().unwrap_or(&record.service)
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}
