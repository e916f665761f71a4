//! `bakeoff ulocks`: waits for the locks of programs, the threads that wait, and the threads that wake them.

use std::io::Write;

use anyhow::Context as _;
use probes::cost::Cost;
use probes::user_locks::{self, Options, UserLockProbe};
use record::locks::{UserLockInterval, UserLockKind};
use record::missing::Maybe;
use report::text::LockView;
use serde_json::Value;

use crate::cmd::Global;
use crate::cmd::intervals::{self, Report, Reporter};
use crate::cmd::lock_options::LockOptions;
use crate::exit::{EndsWith as _, Exit};
use crate::screen;

/// Show contended locks of programs: process, kind, lock, the call that waits, its caller, and the thread
/// that wakes it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    options: LockOptions,

    /// Only locks of these kinds: mutex, condvar, semaphore, other
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kind: Vec<UserLockKind>,

    /// Also show waits of bakeoff's own threads
    #[arg(long)]
    own_threads: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff ulocks 1 5                           five reports, one a second
  bakeoff ulocks --kind mutex --stacks 10 1    contention only: condvar waits are mostly idle time
  bakeoff ulocks --pid 4711 --json             one JSON object a line, until Ctrl-C";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    intervals::report(&args.options.schedule, global, out, || ProgramLocks::open(args))
}

/// The instrument for waits for locks of programs.
struct ProgramLocks<'a> {
    args: &'a Args,
    probe: UserLockProbe,
}

impl<'a> ProgramLocks<'a> {
    fn open(args: &'a Args) -> anyhow::Result<Self> {
        let asked = &args.options;
        let options = Options {
            pid: asked.pid,
            comm: asked.comm.clone(),
            cgroup: asked.cgroup.clone(),
            by_cgroup: asked.by_cgroup()?,
            own_threads: args.own_threads,
            ..Options::of_everyone_else()
        };
        Ok(Self { args, probe: user_locks::open(&options).ends_with(Exit::CannotHere)? })
    }
}

impl Reporter for ProgramLocks<'_> {
    type Interval = UserLockInterval;
    const COMMAND: &'static str = "ulocks";

    fn start(&mut self) -> anyhow::Result<u64> {
        self.probe.measure_cost();
        Ok(self.probe.start()?)
    }

    fn only(&self) -> Option<u32> {
        self.args.options.pid
    }

    fn head(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.options.csv {
            report::csv::user_locks_head(out)?;
        }
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<UserLockInterval> {
        read(&mut self.probe, self.args)
    }

    fn news(&mut self) -> Vec<String> {
        self.probe.take_news()
    }

    fn cost(&mut self) -> Option<Maybe<Cost>> {
        Some(self.probe.cost())
    }

    fn document(&mut self, interval: &UserLockInterval, report: Report) -> Value {
        report::json::user_locks(interval, report.started_ns)
    }

    fn print(
        &mut self,
        out: &mut dyn Write,
        interval: &UserLockInterval,
        report: Report,
    ) -> anyhow::Result<()> {
        let (args, started_ns) = (self.args, report.started_ns);
        if args.options.csv {
            return Ok(report::csv::user_locks(out, interval, started_ns)?);
        }
        let view = LockView { is_part: !args.kind.is_empty(), ..args.options.view() };
        Ok(report::text::user_lock_interval(out, interval, started_ns, view, screen::style())?)
    }
}

/// Reads an interval and leaves out the locks that the options exclude.
fn read(probe: &mut UserLockProbe, args: &Args) -> anyhow::Result<UserLockInterval> {
    let seen = probe.read().context("reading the waits")?;
    let mut interval = if args.options.stacks { seen } else { seen.by_caller() };
    interval.locks.retain(|l| args.kind.is_empty() || args.kind.contains(&l.kind));
    Ok(interval)
}

fn kind(word: &str) -> Result<UserLockKind, String> {
    let known = || UserLockKind::ALL.iter().map(|k| k.word()).collect::<Vec<_>>().join(", ");
    UserLockKind::from_word(word).ok_or_else(|| format!("unknown kind of lock: expected one of {}", known()))
}
