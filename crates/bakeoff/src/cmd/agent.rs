//! `bakeoff agent`: one member of a fleet, which plays its share of the loads that a conductor plans.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use fleet::{Agent, FleetError, Observing, ReadWords, Server, Window};
use load::Stop;
use probes::cgroups::Cgroup;
use probes::observe::{KINDS, Kind, named};
use record::agents::Observation;
use runner::Beside;

use crate::exit::Exit;
use crate::screen::Screen;
use crate::{confine, signals};

/// Wait for loads that another machine conducts, and generate a share of each
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// NATS server: `nats://HOST:PORT` on this machine, `tls://HOST:PORT` on another, or `{file:PATH}`
    /// [default: `$NATS_URL`; it or the file may contain a password]
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// File with the seed of this agent's nkey
    #[arg(long, value_name = "FILE")]
    nkey: Option<PathBuf>,

    /// Certificates to trust besides the system's (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Name of this agent: letters, digits, - and _ [default: the host's name and the process]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,

    /// Generate load; or observe this machine, such as the server's, during the loads of others; or be the
    /// latency probe beside them
    #[arg(long, value_name = "WHAT", default_value = "load", value_parser = ["load", "observe", "probe"])]
    role: String,

    /// With --role observe: instruments, separated by commas, besides the CPUs
    #[arg(long, value_name = "WHAT", default_value = "all", value_parser = instruments)]
    observe: Kinds,

    /// With --role observe: control group of the server. Its CPU time, and its part of the time spent
    /// spinning for kernel locks, are in the run, and profiles are of its threads [default: of all threads]
    #[arg(long, value_name = "PATH", value_parser = crate::cmd::cgroup)]
    cgroup: Option<Cgroup>,

    /// Label of this agent, by which `--place` and `place` in a plan choose; `host` is the host's name
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = agent_label)]
    labels: Vec<(String, String)>,

    /// Weight of this agent, from 1 to 100: one with twice the weight has twice the share of a load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    weight: u32,

    /// Folder that stores each interval until the conductor has stored the run [default: bakeoff/agent in
    /// `$XDG_STATE_HOME`]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,

    /// Exit when standard input ends
    #[arg(long, hide = true)]
    until_eof: bool,

    /// Begin after a line on standard input; exit if it ends before
    #[arg(long, hide = true)]
    await_line: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff agent --server nats://127.0.0.1:4222
  bakeoff agent --server tls://lab.example:4222 --nkey agent1.nk --label rack=a --weight 2
  bakeoff load null: --rate 10000 --threads 8 --fleet 4 --nats tls://lab.example:4222 --nkey lead.nk
  bakeoff fleet dev -n 4                            a server and agents on this machine";

/// - `read`: reads the command line of a load.
pub(crate) fn run(args: &Args, read: &'static ReadWords) -> anyhow::Result<Exit> {
    if args.await_line && !matches!(std::io::stdin().read(&mut [0]), Ok(1..)) {
        return Ok(Exit::Interrupted);
    }
    let url = address(args.server.as_deref())?;
    let url = url.ok_or_else(|| Exit::Usage.with("no NATS server: give --server URL, or set $NATS_URL"))?;
    let server = Server::new(&url, args.nkey.as_deref(), args.ca.as_deref()).map_err(of_fleet)?;
    let host = host();
    let id = args.id.clone().unwrap_or_else(|| format!("{}-{}", name_of(&host), std::process::id()));
    let spool = if let Some(folder) = &args.spool {
        folder.clone()
    } else {
        let state = state_folder();
        state.ok_or_else(|| Exit::Usage.with("no folder for the spool: give --spool DIR"))?.join("agent")
    };
    signals::stop_on_interrupt()?;
    // Its thread keeps the rights that instruments need.
    let observe = if args.role == "observe" {
        Some(observing(&args.observe.0, args.cgroup.clone())?)
    } else {
        if args.cgroup.is_some() {
            return Err(Exit::Usage.with("--cgroup is for an agent that observes: give --role observe"));
        }
        None
    };
    confine::after_setup_of_load();
    if args.until_eof {
        std::thread::Builder::new().name("eof".into()).spawn(|| {
            let mut byte = [0];
            while matches!(std::io::stdin().read(&mut byte), Ok(1..)) {}
            signals::STOP.request();
        })?;
    }
    let on_ready = &tell_supervisor;
    let mut labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    labels.entry("host".to_owned()).or_insert_with(|| host.clone());
    let weight = args.weight;
    let stop = &signals::STOP;
    let probes = args.role == "probe";
    let agent =
        Agent { server: &server, spool, id, host, labels, weight, read, observe, probes, stop, on_ready };
    let mut screen = Screen::new();
    fleet::serve(&agent, &mut |line| screen.line(line)).map_err(of_fleet)?;
    Ok(Exit::Good)
}

/// Instruments besides the CPU's.
#[derive(Debug, Clone)]
struct Kinds(Vec<Kind>);

fn instruments(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds(KINDS.to_vec()));
    }
    named(text.split(',')).map(Kinds).map_err(|word| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        format!("unknown instrument `{word}`: expected cpu, {} or all", known.join(", "))
    })
}

/// A window to observe, with the place for its numbers.
type Watch = (Window, Arc<AtomicBool>, SyncSender<Observation>);

/// Opens the instruments on a thread, which observes the windows that it is given.
///
/// - `server`: control group of the server on this machine.
fn observing(kinds: &[Kind], server: Option<Cgroup>) -> anyhow::Result<&'static Observing> {
    let ((sender, windows), (opened, is_open)) = (sync_channel::<Watch>(1), sync_channel::<()>(1));
    let kinds = kinds.to_vec();
    let body = move || {
        let beside = Beside::new(true);
        let mut beside = if server.is_some() { beside.with_server(&kinds) } else { beside.with(&kinds) };
        beside.follow_server(server.as_ref());
        let _ = opened.send(());
        for (Window { from_ns, until_ns, interval }, is_over, place) in windows {
            let is_over = || is_over.load(Ordering::Relaxed);
            // The agent no longer waits if it ends.
            let of = (&mut beside, server.as_ref());
            let _ = place.send(runner::watch(of, (from_ns, until_ns), interval, &is_over));
        }
    };
    std::thread::Builder::new().name("instruments".into()).spawn(body)?;
    // An agent that answers observes from the first moment on: to open all instruments takes seconds.
    is_open.recv().context("opening the instruments")?;
    let sender = Mutex::new(sender);
    Ok(Box::leak(Box::new(move |window: &Window, stop: &Stop| {
        let gone = || "the thread of the instruments has ended".to_owned();
        let (is_over, (place, numbers)) = (Arc::new(AtomicBool::new(false)), sync_channel(1));
        let sent = sender.lock().map_err(|_| gone())?.send((*window, Arc::clone(&is_over), place));
        sent.map_err(|_| gone())?;
        loop {
            match numbers.recv_timeout(LOOK) {
                Ok(seen) if seen.numbers.is_empty() && !stop.is_requested() => {
                    let late = seen.missing.get(Observation::START);
                    let late = late.map_or_else(String::new, |why| format!(": {why}"));
                    return Err(format!("there is no number of the measured phase{late}"));
                }
                Ok(seen) => return Ok(seen),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) => is_over.store(stop.is_requested(), Ordering::Relaxed),
            }
        }
    })))
}

/// Interval at which a stop is passed on to the instruments.
const LOOK: Duration = Duration::from_millis(20);

/// A label of an agent.
pub(crate) fn agent_label(text: &str) -> Result<(String, String), String> {
    record::agents::label(text).ok_or_else(|| "expected NAME=VALUE, at most 64 bytes each".to_owned())
}

/// Reports to the program that started this one, if it asked for that: systemd, or `fleet up`.
///
/// # Source
///
/// `sd_notify(3)`.
fn tell_supervisor() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let to = match path.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(Path::new(&path)),
    };
    // A supervisor that is gone waits no longer.
    let _ = to.and_then(|to| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &to));
}

/// Longest address.
const ADDRESS_BYTES_MAX: u64 = 4 << 10;

/// Address of the NATS server: the option, or `$NATS_URL`; each is the address, or `{file:PATH}`. A password
/// on the command line is refused: every user of the machine can read it.
pub(crate) fn address(option: Option<&str>) -> anyhow::Result<Option<String>> {
    let environment = std::env::var("NATS_URL").ok().filter(|url| !url.is_empty());
    let given = option.map(str::to_owned).or(environment);
    if let Some(path) = given.as_deref().and_then(address_file) {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(ADDRESS_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| Exit::CannotHere.with(format!("{}: {error}", path.display())))?;
        return Ok(Some(text.trim().to_owned()));
    }
    match option {
        Some(url) if url.contains('@') => Err(Exit::Usage.with(
            "other users of this machine can read a password on the command line: give this address in $NATS_URL instead",
        )),
        _ => Ok(given),
    }
}

/// The path of `{file:PATH}`.
pub(crate) fn address_file(text: &str) -> Option<&Path> {
    let path = text.strip_prefix("{file:").and_then(|rest| rest.strip_suffix('}'));
    path.map(|path| Path::new(OsStr::new(path)))
}

/// Marks an error of a fleet with its exit code.
pub(crate) fn of_fleet(error: FleetError) -> anyhow::Error {
    match error {
        FleetError::Address { .. } | FleetError::Unfit(_) => Exit::Usage.with(error),
        FleetError::Interrupted => Exit::Interrupted.with(error),
        _ => Exit::CannotHere.with(error),
    }
}

/// Name of this machine.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// A text as a name: other characters become `-`.
fn name_of(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().take(50).map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// Folder for this program's state: `bakeoff` in `$XDG_STATE_HOME`.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("bakeoff"))
}
