//! `bakeoff ulocks`: which locks of programs are waited for, by whom, and who lets go of them.

use std::io::Write;

use anyhow::Context as _;
use probes::user_locks::{self, Options, UserLockProbe};
use record::locks::{UserLockInterval, UserLockKind};
use report::text::LockView;

use crate::cmd::Global;
use crate::cmd::lock_options::LockOptions;
use crate::confine;
use crate::exit::{EndsWith as _, Exit};
use crate::own_cost::OwnCost;
use crate::screen;
use crate::signals;

/// Show which locks of programs are waited for: process, kind, lock, the call that waits, its caller, who wakes it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    options: LockOptions,

    /// Only locks of these kinds: mutex, condvar, semaphore, other
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kind: Vec<UserLockKind>,

    /// Also waits of this program's own threads
    #[arg(long)]
    own_threads: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff ulocks 1 5                           five reports, one a second
  bakeoff ulocks --kind mutex --stacks 10 1    contention only: conditions are mostly idleness
  bakeoff ulocks --pid 4711 --json             one JSON object a line, until Ctrl-C";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let asked = &args.options;
    let options = Options {
        pid: asked.pid,
        comm: asked.comm.clone(),
        cgroup: asked.cgroup.clone(),
        by_cgroup: asked.by_cgroup()?,
        own_threads: args.own_threads,
        ..Options::of_everyone_else()
    };
    let mut probe = user_locks::open(&options).ends_with(Exit::CannotHere)?;
    probe.measure_cost();
    let started_ns = probe.start()?;
    confine::after_setup();
    let own = OwnCost::start();
    let view = LockView { is_part: !args.kind.is_empty(), ..asked.view() };
    let end = asked.report(
        out,
        started_ns,
        || Ok((read(&mut probe, args)?, probe.cost())),
        |out, interval, cost, started_ns| {
            if global.json {
                let mut document = report::json::user_locks(interval, started_ns);
                own.add_to(&mut document, Some(cost));
                serde_json::to_writer(&mut *out, &document)?;
                return Ok(writeln!(out)?);
            }
            if asked.csv {
                return Ok(report::text::user_locks_csv(out, interval, started_ns)?);
            }
            Ok(report::text::user_lock_interval(out, interval, started_ns, view, screen::style())?)
        },
    )?;
    own.tell("ulocks", Some(probe.cost()));
    Ok(end)
}

/// What was seen, without what was not asked for.
fn read(probe: &mut UserLockProbe, args: &Args) -> anyhow::Result<UserLockInterval> {
    let seen = probe.read().context("reading the waits")?;
    let mut interval = if args.options.stacks { seen } else { seen.by_caller() };
    interval.locks.retain(|l| args.kind.is_empty() || args.kind.contains(&l.kind));
    Ok(interval)
}

fn kind(word: &str) -> Result<UserLockKind, String> {
    let known = || UserLockKind::ALL.iter().map(|k| k.word()).collect::<Vec<_>>().join(", ");
    UserLockKind::from_word(word).ok_or_else(|| format!("no such kind of lock; known are {}", known()))
}
