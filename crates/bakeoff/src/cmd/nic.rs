//! `bakeoff nic`: what the network interfaces carry, in nicstat's columns, and what TCP and UDP go through.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use probes::nic::peers::PeerProbe;
use probes::nic::{self, NicProbe};
use probes::schedule::Deadlines;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::missing::Maybe;
use record::nic::{InterfaceSample, NicInterval};
use record::quantity;
use record::tcp_peers::TcpPeers;
use report::text::NicView;

use crate::cmd::{Global, cpu, print_json};
use crate::confine;
use crate::exit::Exit;
use crate::own_cost::OwnCost;
use crate::screen::{self, Screen};
use crate::signals;

/// Show what the network interfaces carry: bytes, packets, utilisation, saturation; TCP and UDP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that users of nicstat know")]
pub(crate) struct Args {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = cpu::interval, default_value = "1")]
    interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only these interfaces
    #[arg(short, long, value_name = "NAME,...", value_delimiter = ',')]
    interface: Vec<String>,

    /// Show errors, collisions and drops instead of mean packet sizes
    #[arg(short = 'x', long)]
    extended: bool,

    /// Show what TCP counted: segments, retransmits, resets, drops at the listener; and retransmits, drops and round trips
    /// by peer
    #[arg(short, long)]
    tcp: bool,

    /// Show what UDP counted: datagrams and errors
    #[arg(short, long)]
    udp: bool,

    /// List the interfaces with their speeds, and end
    #[arg(short, long, conflicts_with_all = LIST_EXCLUDES)]
    list: bool,

    /// Print values between colons, for programs, in nicstat's order
    #[arg(short, long)]
    parseable: bool,

    /// Print exact counts as CSV
    #[arg(long, conflicts_with_all = ["parseable", "tcp", "udp"])]
    csv: bool,

    /// Leave out interfaces that carried and dropped nothing in the interval
    #[arg(short = 'z', long)]
    skip_idle: bool,

    /// The speed of an interface, where its driver does not know it; may be given more than once
    #[arg(long = "speed", value_name = "NAME=SPEED", value_parser = speed)]
    speeds: Vec<(String, u64)>,
}

/// A list has no interval.
const LIST_EXCLUDES: [&str; 8] =
    ["interval", "count", "extended", "tcp", "udp", "parseable", "csv", "skip_idle"];

const EXAMPLES: &str = "\
Columns: kilobytes (1024) and packets per second read and written, mean bytes a packet, %Util of the link's speed (of the
busier direction where it is full duplex), Sat: errors, drops and collisions per second. A dash is a value nobody knows.

Examples:
  bakeoff nic 1 5                      five reports, one a second
  bakeoff nic -x -t -u                 errors and drops, TCP and UDP
  bakeoff nic -l                       the interfaces and their speeds
  bakeoff nic --speed eth0=25Gbit      where the driver does not say
  bakeoff nic 100ms --json             exact counts, one JSON object a line";

/// Reports of a single interface between two lines of heads.
const PAGE: u64 = 20;

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json && (args.parseable || args.csv) {
        return Err(
            Exit::Usage.with("--json cannot be used with --parseable or --csv: each is a form of its own")
        );
    }
    let mut speeds = BTreeMap::new();
    for (name, speed) in &args.speeds {
        if speeds.insert(name.clone(), *speed).is_some() {
            return Err(Exit::Usage.with(format!("--speed names `{name}` twice: which of them is it?")));
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
    signals::stop_on_interrupt()?;
    if args.csv && !global.json {
        report::text::nic_csv_head(out)?;
    }
    let anchor = WallAnchor::now();
    let mut peers = args.tcp.then(nic::peers::open);
    peers.iter_mut().for_each(PeerProbe::start);
    let started_ns = probe.start();
    confine::after_setup();
    let own = OwnCost::start();
    let mut deadlines = Deadlines::new(started_ns, args.interval);
    let mut reports = 0;
    while args.count.is_none_or(|count| reports < count) {
        let goes_on = wait_until(deadlines.next_ns(), peers.as_mut());
        // Cut short, an interval is still what was seen until then.
        let mut interval = probe.read();
        interval.missed_deadline = goes_on && deadlines.answered_at(interval.until_ns) > 0;
        let peers = peers.as_mut().map(PeerProbe::read);
        print(args, global, (&mut interval, peers.as_ref()), (anchor, started_ns, reports, own), out)?;
        out.flush()?;
        if !goes_on {
            own.tell("nic", None);
            return Ok(if args.count.is_some() { Exit::Interrupted } else { Exit::Good });
        }
        reports += 1;
    }
    own.tell("nic", None);
    Ok(Exit::Good)
}

/// What there is, of what was asked for; a name that nothing has is said, since it may still come, unless all that is
/// wanted is a list.
fn named(args: &Args, probe: &mut NicProbe) -> anyhow::Result<Vec<InterfaceSample>> {
    let all = probe.read().interfaces?;
    let asked = args.interface.iter().chain(args.speeds.iter().map(|(name, _)| name));
    for name in asked.filter(|name| !all.iter().any(|s| s.name == **name)) {
        let why = format!("there is no interface `{name}` now");
        if args.list {
            return Err(Exit::Usage.with(why));
        }
        Screen::new().line(&format!("bakeoff nic: {why}"));
    }
    let wanted = |s: &InterfaceSample| args.interface.is_empty() || args.interface.contains(&s.name);
    Ok(all.into_iter().filter(wanted).collect())
}

fn print(
    args: &Args,
    global: &Global,
    (interval, peers): (&mut NicInterval, Option<&Maybe<TcpPeers>>),
    (anchor, started_ns, reports, own): (WallAnchor, u64, u64, OwnCost),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if let Ok(samples) = &mut interval.interfaces {
        samples.retain(|s| is_shown(args, global, s));
    }
    if global.json {
        let mut document = report::json::nic(interval, peers, started_ns);
        own.add_to(&mut document, None);
        serde_json::to_writer(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    if args.csv {
        return Ok(report::text::nic_csv(out, interval, started_ns)?);
    }
    let several = interval.interfaces.as_ref().is_ok_and(|s| s.len() > 1) || args.tcp || args.udp;
    let view = NicView {
        interfaces: args.extended || !(args.tcp || args.udp),
        extended: args.extended,
        tcp: args.tcp,
        udp: args.udp,
        parseable: args.parseable,
        heads: several || reports % PAGE == 0,
    };
    let unix_ns = anchor.unix_ns_at(interval.until_ns);
    let times = (local_time(unix_ns), unix_ns / 1_000_000_000);
    report::text::nic_interval(out, interval, (&times.0, times.1), view, screen::style())?;
    match peers.filter(|_| !args.parseable) {
        Some(peers) => Ok(report::text::nic_peers(out, peers, &interval.tcp, screen::style())?),
        None => Ok(()),
    }
}

/// Sleeps until then; `false` where a signal asked to end before.
fn wait_until(deadline_ns: u64, mut peers: Option<&mut PeerProbe>) -> bool {
    /// The kernel has room for the news of at least 200 connections that end in this time.
    const LISTEN_EVERY_NS: u64 = 50_000_000;
    while let Some(peers) = peers.as_deref_mut() {
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

/// An interface that is down is shown where it is asked for by name, or where programs read.
fn is_shown(args: &Args, global: &Global, sample: &InterfaceSample) -> bool {
    let idle = sample.counts.as_ref().is_ok_and(record::nic::LinkCounts::is_idle);
    let wanted = if args.interface.is_empty() {
        global.json || args.csv || sample.up || !idle
    } else {
        args.interface.contains(&sample.name)
    };
    wanted && !(args.skip_idle && idle)
}

/// `07:42:45` where the user is.
fn local_time(unix_ns: u64) -> String {
    let at =
        Timestamp::from_nanosecond(i128::from(unix_ns)).expect("a clock shows a time before the year 9999");
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

fn speed(text: &str) -> Result<(String, u64), String> {
    let (name, speed) = text.split_once('=').ok_or("expected NAME=SPEED, such as eth0=10Gbit")?;
    if name.is_empty() {
        return Err("expected NAME=SPEED, such as eth0=10Gbit".into());
    }
    Ok((name.to_owned(), quantity::bits_per_s(speed).map_err(|e| e.to_string())?))
}
