//! `bakeoff locks`: which locks of the kernel are waited for, and what that costs.

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use probes::locks::{self, LockProbe, Options};
use probes::schedule::Deadlines;
use record::clock::{Clock as _, Monotonic};
use record::locks::{LockInterval, LockKind};
use report::text::LockView;

use crate::cmd::{Global, cpu};
use crate::exit::{EndsWith as _, Exit};
use crate::screen;
use crate::signals;

/// Show which locks of the kernel are waited for: kind, lock, caller, waits, and the CPU time that spinning burns
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = cpu::interval, default_value = "1")]
    interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only waits of this process
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Only waits of threads of this name
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,

    /// Only locks of these kinds: spinlock, mutex, rwsem, rwsem-write...
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kind: Vec<Kinds>,

    /// Only locks whose spinning burns at least this share of all CPUs
    #[arg(long, value_name = "PERCENT", value_parser = record::quantity::ratio, default_value = "0%")]
    min_util: f64,

    /// Show how each caller was reached
    #[arg(long)]
    stacks: bool,

    /// Show how many waits took how long
    #[arg(long)]
    histogram: bool,

    /// Show at most this many locks; the rest is summed up in one line
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Print comma-separated values instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff locks 1 5                      five reports, one a second
  bakeoff locks 10 1 --stacks            ten seconds, and how each caller was reached
  bakeoff locks --kind spinlock,mutex --min-util 1%
  bakeoff locks --comm mariadbd --json   one JSON object a line, until Ctrl-C";

/// One word may stand for a reader's and a writer's kind.
#[derive(Debug, Clone)]
struct Kinds(Vec<LockKind>);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let options = Options { pid: args.pid, comm: args.comm.clone(), ..Options::of_everyone() };
    let mut probe = locks::open(&options).ends_with(Exit::CannotHere)?;
    let started_ns = Monotonic.now_ns();
    let mut deadlines = Deadlines::new(started_ns, args.interval);
    let mut reports = 0;
    while args.count.is_none_or(|count| reports < count) {
        if !signals::wait_until(deadlines.next_ns()) {
            print(args, global, &read(&mut probe, args)?, started_ns, out)?;
            return Ok(if args.count.is_some() { Exit::Interrupted } else { Exit::Good });
        }
        let mut interval = read(&mut probe, args)?;
        interval.missed_deadline = deadlines.answered_at(interval.until_ns) > 0;
        print(args, global, &interval, started_ns, out)?;
        reports += 1;
    }
    Ok(Exit::Good)
}

/// What was seen, without what was not asked for.
fn read(probe: &mut LockProbe, args: &Args) -> anyhow::Result<LockInterval> {
    let seen = probe.read().context("reading the waits")?;
    let mut interval = if args.stacks { seen } else { seen.by_caller() };
    let is_wanted = |kind: LockKind| args.kind.is_empty() || args.kind.iter().any(|k| k.0.contains(&kind));
    let mut locks = std::mem::take(&mut interval.locks);
    locks.retain(|l| is_wanted(l.kind) && interval.cpu_util_ratio(l.spin_ns_total) >= args.min_util);
    Ok(LockInterval { locks, ..interval })
}

fn print(
    args: &Args,
    global: &Global,
    interval: &LockInterval,
    started_ns: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let view = LockView { stacks: args.stacks, histogram: args.histogram, top: args.top };
    if global.json {
        serde_json::to_writer(&mut *out, &report::json::locks(interval, started_ns))?;
        writeln!(out)?;
    } else if args.csv {
        report::text::locks_csv(out, interval, started_ns)?;
    } else {
        report::text::lock_interval(out, interval, started_ns, view, screen::style())?;
    }
    Ok(out.flush()?)
}

fn kind(word: &str) -> Result<Kinds, String> {
    let is_meant = |kind: &LockKind| {
        kind.word() == word
            || [format!("{word}-read"), format!("{word}-write")].contains(&kind.word().to_owned())
    };
    let kinds: Vec<LockKind> = LockKind::ALL.iter().copied().filter(is_meant).collect();
    if kinds.is_empty() {
        let known: Vec<&str> = LockKind::ALL.iter().map(|k| k.word()).collect();
        return Err(format!(
            "no such kind of lock; known are {}, and each without -read or -write",
            known.join(", ")
        ));
    }
    Ok(Kinds(kinds))
}
