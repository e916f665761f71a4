//! `bakeoff nic`: traffic of the network interfaces, in nicstat's columns, and counters of TCP and UDP.

use std::collections::BTreeMap;
use std::io::Write;

use probes::cost::Cost;
use probes::nic::peers::PeerProbe;
use probes::nic::{self, NicProbe};
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::instruments::Timed;
use record::missing::Maybe;
use record::nic::{InterfaceSample, NicInterval};
use record::quantity;
use record::tcp_peers::TcpPeers;
use report::text::NicView;
use serde_json::Value;

use crate::cmd::intervals::{self, Report, Reporter, Schedule, note};
use crate::cmd::{Global, local_time, print_json};
use crate::exit::Exit;
use crate::screen;
use crate::signals;

/// Show network interfaces: bytes, packets, utilisation, saturation; TCP and UDP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that users of nicstat know")]
pub(crate) struct Args {
    #[command(flatten)]
    schedule: Schedule,

    /// Only these interfaces
    #[arg(short, long, value_name = "NAME,...", value_delimiter = ',')]
    interface: Vec<String>,

    /// Show errors, collisions and drops instead of mean packet sizes
    #[arg(short = 'x', long)]
    extended: bool,

    /// Show TCP counters: segments, retransmits, resets, drops at the listener; and retransmits, drops and
    /// round trips by peer
    #[arg(short, long)]
    tcp: bool,

    /// Show UDP counters: datagrams and errors
    #[arg(short, long)]
    udp: bool,

    /// List the interfaces with their speeds, and exit
    #[arg(short, long, conflicts_with_all = LIST_EXCLUDES)]
    list: bool,

    /// Print colon-separated values in nicstat's order, for programs
    #[arg(short, long, conflicts_with = "json")]
    parseable: bool,

    /// Print exact counts as CSV
    #[arg(long, conflicts_with_all = ["json", "parseable", "tcp", "udp", "extended"])]
    csv: bool,

    /// Leave out interfaces that carried and dropped nothing in the interval
    #[arg(short = 'z', long)]
    skip_idle: bool,

    /// Speed of each direction of an interface, if its driver does not report it; may be given more than once
    #[arg(long = "speed", value_name = "NAME=SPEED", value_parser = speed)]
    speeds: Vec<(String, u64)>,
}

/// Options that `--list` excludes: a list has no interval.
const LIST_EXCLUDES: [&str; 8] =
    ["interval", "count", "extended", "tcp", "udp", "parseable", "csv", "skip_idle"];

const EXAMPLES: &str = "\
Columns: kilobytes (1024) and packets per second read and written, mean bytes a packet, %Util of the link's speed (of the
busier direction unless it is half duplex), Sat: errors, drops and collisions per second. A dash marks an unknown value.

Examples:
  bakeoff nic 1 5                      five reports, one a second
  bakeoff nic -x -t -u                 errors and drops, TCP and UDP
  bakeoff nic -l                       the interfaces and their speeds
  bakeoff nic --speed eth0=25Gbit      if the driver does not report it
  bakeoff nic 100ms --json             exact counts, one JSON object a line";

/// Number of reports of a single interface between two lines of heads.
const PAGE: u64 = 20;

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json && (args.parseable || args.csv) {
        return Err(
            Exit::Usage.with("--json cannot be used with --parseable or --csv: each is an output format")
        );
    }
    let mut speeds = BTreeMap::new();
    for (name, speed) in &args.speeds {
        if speeds.insert(name.clone(), *speed).is_some() {
            return Err(Exit::Usage.with(format!("--speed gives `{name}` twice: give it once")));
        }
    }
    let mut probe = nic::open(speeds);
    probe.start();
    let first = named(args, &mut probe)?;
    if args.list {
        if global.json {
            print_json(out, &report::json::nic_list(&first))?;
        } else {
            report::text::nic_list(out, &first, screen::style())?;
        }
        return Ok(Exit::Good);
    }
    intervals::report(&args.schedule, global, out, || Ok(Interfaces::new(args, global, probe)))
}

/// The interfaces, and the peers of TCP if requested.
struct Interfaces<'a> {
    args: &'a Args,
    /// Whether programs read the reports.
    for_programs: bool,
    probe: NicProbe,
    peers: Option<PeerProbe>,
    anchor: WallAnchor,
}

impl<'a> Interfaces<'a> {
    fn new(args: &'a Args, global: &Global, probe: NicProbe) -> Self {
        let (peers, for_programs) = (args.tcp.then(nic::peers::open), global.json || args.csv);
        Self { args, for_programs, probe, peers, anchor: WallAnchor::now() }
    }

    /// Whether an interface is shown: one that is down only if it is named, or if programs read the reports.
    fn is_shown(&self, sample: &InterfaceSample) -> bool {
        let idle = sample.counts.as_ref().is_ok_and(record::nic::LinkCounts::is_idle);
        let wanted = if self.args.interface.is_empty() {
            self.for_programs || sample.up || !idle
        } else {
            self.args.interface.contains(&sample.name)
        };
        wanted && !(self.args.skip_idle && idle)
    }
}

impl Reporter for Interfaces<'_> {
    type Interval = NicReport;
    const COMMAND: &'static str = "nic";

    fn start(&mut self) -> anyhow::Result<u64> {
        self.peers.iter_mut().for_each(PeerProbe::start);
        Ok(self.probe.start())
    }

    fn head(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.csv {
            report::csv::nic_head(out)?;
        }
        Ok(())
    }

    /// Reads the kernel's messages about ended connections while it waits.
    fn wait_until(&mut self, deadline_ns: u64) -> bool {
        /// The kernel buffers the messages of at least 200 connections that end in this time.
        const LISTEN_EVERY_NS: u64 = 50_000_000;
        while let Some(peers) = &mut self.peers {
            let next_ns = Monotonic.now_ns() + LISTEN_EVERY_NS;
            if next_ns >= deadline_ns {
                break;
            }
            if !signals::wait_until(next_ns) {
                return false;
            }
            peers.listen();
        }
        signals::wait_until(deadline_ns)
    }

    fn read(&mut self) -> anyhow::Result<NicReport> {
        let mut interval = self.probe.read();
        if let Ok(samples) = &mut interval.interfaces {
            samples.retain(|s| self.is_shown(s));
        }
        Ok(NicReport { interval, peers: self.peers.as_mut().map(PeerProbe::read) })
    }

    /// Returns `None`: counters are read at the edges of an interval, and nothing runs in the kernel.
    fn cost(&mut self) -> Option<Maybe<Cost>> {
        None
    }

    fn document(&mut self, seen: &NicReport, report: Report) -> Value {
        report::json::nic(&seen.interval, seen.peers.as_ref(), report.started_ns)
    }

    fn print(&mut self, out: &mut dyn Write, seen: &NicReport, report: Report) -> anyhow::Result<()> {
        let (args, NicReport { interval, peers }) = (self.args, seen);
        if args.csv {
            return Ok(report::csv::nic(out, interval, report.started_ns)?);
        }
        let several = interval.interfaces.as_ref().is_ok_and(|s| s.len() > 1) || args.tcp || args.udp;
        let view = NicView {
            interfaces: args.extended || !(args.tcp || args.udp),
            extended: args.extended,
            tcp: args.tcp,
            udp: args.udp,
            parseable: args.parseable,
            heads: several || report.number.is_multiple_of(PAGE),
        };
        let unix_ns = self.anchor.unix_ns_at(interval.until_ns);
        let times = (local_time(unix_ns), unix_ns / 1_000_000_000);
        report::text::nic_interval(out, interval, (&times.0, times.1), view, screen::style())?;
        match peers.as_ref().filter(|_| !args.parseable) {
            Some(peers) => Ok(report::text::nic_peers(out, peers, &interval.tcp, screen::style())?),
            None => Ok(()),
        }
    }
}

/// The interfaces and the peers of an interval.
struct NicReport {
    interval: NicInterval,
    peers: Option<Maybe<TcpPeers>>,
}

impl Timed for NicReport {
    fn until_ns(&self) -> u64 {
        self.interval.until_ns
    }

    fn set_missed_deadline(&mut self, missed: bool) {
        self.interval.set_missed_deadline(missed);
    }
}

/// The requested interfaces. A name without an interface is an error for `--list`, otherwise a note: the
/// interface may still appear.
fn named(args: &Args, probe: &mut NicProbe) -> anyhow::Result<Vec<InterfaceSample>> {
    let all = probe.read().interfaces?;
    let asked = args.interface.iter().chain(args.speeds.iter().map(|(name, _)| name));
    for name in asked.filter(|name| !all.iter().any(|s| s.name == **name)) {
        let why = format!("there is no interface `{name}` now");
        if args.list {
            return Err(Exit::Usage.with(why));
        }
        note("nic", &why);
    }
    let wanted = |s: &InterfaceSample| args.interface.is_empty() || args.interface.contains(&s.name);
    Ok(all.into_iter().filter(wanted).collect())
}

fn speed(text: &str) -> Result<(String, u64), String> {
    let (name, speed) = text.split_once('=').ok_or("expected NAME=SPEED, such as eth0=10Gbit")?;
    if name.is_empty() {
        return Err("expected NAME=SPEED, such as eth0=10Gbit".into());
    }
    Ok((name.to_owned(), quantity::bits_per_s(speed).map_err(|e| e.to_string())?))
}
