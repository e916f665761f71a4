//! `bakeoff ulocks`: which locks of programs are waited for, by whom, and who lets go of them.

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use probes::schedule::Deadlines;
use probes::user_locks::{self, Options, UserLockProbe};
use record::clock::{Clock as _, Monotonic};
use record::locks::{UserLockInterval, UserLockKind};
use report::text::LockView;

use crate::cmd::{Global, cpu};
use crate::exit::{EndsWith as _, Exit};
use crate::screen;
use crate::signals;

/// Show which locks of programs are waited for: process, kind, lock, the call that waits, its caller, who wakes it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own on the command line")]
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

    /// Only locks of these kinds: mutex, condvar, semaphore, other
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kind: Vec<UserLockKind>,

    /// Also waits of this program's own threads
    #[arg(long)]
    own_threads: bool,

    /// Show how each caller was reached, and who woke it
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
  bakeoff ulocks 1 5                           five reports, one a second
  bakeoff ulocks --kind mutex --stacks 10 1    contention only: conditions are mostly idleness
  bakeoff ulocks --pid 4711 --json             one JSON object a line, until Ctrl-C";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let options = Options {
        pid: args.pid,
        comm: args.comm.clone(),
        own_threads: args.own_threads,
        ..Options::of_everyone_else()
    };
    let mut probe = user_locks::open(&options).ends_with(Exit::CannotHere)?;
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
fn read(probe: &mut UserLockProbe, args: &Args) -> anyhow::Result<UserLockInterval> {
    let mut interval = probe.read().context("reading the waits")?;
    interval.locks.retain(|l| args.kind.is_empty() || args.kind.contains(&l.kind));
    Ok(interval)
}

fn print(
    args: &Args,
    global: &Global,
    interval: &UserLockInterval,
    started_ns: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let view = LockView { stacks: args.stacks, histogram: args.histogram, top: args.top };
    if global.json {
        serde_json::to_writer(&mut *out, &report::json::user_locks(interval, started_ns))?;
        writeln!(out)?;
    } else if args.csv {
        report::text::user_locks_csv(out, interval, started_ns)?;
    } else {
        report::text::user_lock_interval(out, interval, started_ns, view, screen::style())?;
    }
    Ok(out.flush()?)
}

fn kind(word: &str) -> Result<UserLockKind, String> {
    let known = || UserLockKind::ALL.iter().map(|k| k.word()).collect::<Vec<_>>().join(", ");
    UserLockKind::from_word(word).ok_or_else(|| format!("no such kind of lock; known are {}", known()))
}
