//! `bakeoff locks`: the kernel locks with waiting threads, and the cost of waiting.

use std::io::Write;

use anyhow::Context as _;
use probes::cost::Cost;
use probes::locks::{self, LockProbe, Options};
use record::locks::{LockInterval, LockKind};
use record::missing::Maybe;
use report::text::LockView;
use serde_json::Value;

use crate::cmd::Global;
use crate::cmd::intervals::{self, Report, Reporter};
use crate::cmd::lock_options::LockOptions;
use crate::exit::{EndsWith as _, Exit};
use crate::screen;

/// Show contended kernel locks: kind, lock, caller, waits, and the CPU time of spinning
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    options: LockOptions,

    /// Only locks of these kinds: spinlock, mutex, rwsem, rwsem-write...
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kind: Vec<Kinds>,

    /// Only locks with spinning that takes at least this share of all CPUs
    #[arg(long, value_name = "PERCENT", value_parser = record::quantity::ratio, default_value = "0%")]
    min_util: f64,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff locks 1 5                      five reports, one a second
  bakeoff locks 10 1 --stacks            ten seconds, with the stack of each caller
  bakeoff locks --kind spinlock,mutex --min-util 1%
  bakeoff locks --by cgroup              which container waits for what
  bakeoff locks --comm mariadbd --json   one JSON object a line, until Ctrl-C";

/// Kinds of locks of one word, which may include a reader's and a writer's kind.
#[derive(Debug, Clone)]
struct Kinds(Vec<LockKind>);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    intervals::report(&args.options.schedule, global, out, || KernelLocks::open(args))
}

/// The instrument for waits for kernel locks.
struct KernelLocks<'a> {
    args: &'a Args,
    probe: LockProbe,
}

impl<'a> KernelLocks<'a> {
    fn open(args: &'a Args) -> anyhow::Result<Self> {
        let asked = &args.options;
        let options = Options {
            pid: asked.pid,
            comm: asked.comm.clone(),
            cgroup: asked.cgroup.clone(),
            by_cgroup: asked.by_cgroup()?,
            ..Options::of_everyone()
        };
        Ok(Self { args, probe: locks::open(&options).ends_with(Exit::CannotHere)? })
    }
}

impl Reporter for KernelLocks<'_> {
    type Interval = LockInterval;
    const COMMAND: &'static str = "locks";

    fn start(&mut self) -> anyhow::Result<u64> {
        self.probe.measure_cost();
        Ok(self.probe.start()?)
    }

    fn only(&self) -> Option<u32> {
        self.args.options.pid
    }

    fn head(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.options.csv {
            report::csv::locks_head(out)?;
        }
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<LockInterval> {
        read(&mut self.probe, self.args)
    }

    fn news(&mut self) -> Vec<String> {
        self.probe.take_news()
    }

    fn cost(&mut self) -> Option<Maybe<Cost>> {
        Some(self.probe.cost())
    }

    fn document(&mut self, interval: &LockInterval, report: Report) -> Value {
        report::json::locks(interval, report.started_ns)
    }

    fn print(&mut self, out: &mut dyn Write, interval: &LockInterval, report: Report) -> anyhow::Result<()> {
        let (args, started_ns) = (self.args, report.started_ns);
        if args.options.csv {
            return Ok(report::csv::locks(out, interval, started_ns)?);
        }
        let view = LockView { is_part: !args.kind.is_empty() || args.min_util > 0.0, ..args.options.view() };
        Ok(report::text::lock_interval(out, interval, started_ns, view, screen::style())?)
    }
}

/// Reads an interval and leaves out the locks that the options exclude.
fn read(probe: &mut LockProbe, args: &Args) -> anyhow::Result<LockInterval> {
    let seen = probe.read().context("reading the waits")?;
    let mut interval = if args.options.stacks { seen } else { seen.by_caller() };
    let is_wanted = |kind: LockKind| args.kind.is_empty() || args.kind.iter().any(|k| k.0.contains(&kind));
    let mut locks = std::mem::take(&mut interval.locks);
    locks.retain(|l| is_wanted(l.kind) && interval.cpu_util_ratio(l.spin_ns_total) >= args.min_util);
    Ok(LockInterval { locks, ..interval })
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
            "unknown kind of lock: expected one of {}; without -read or -write, a name stands for both",
            known.join(", ")
        ));
    }
    Ok(Kinds(kinds))
}
