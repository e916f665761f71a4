//! `bakeoff scale`: one copy of a unit of work against many.

use std::io::Write;
use std::time::Duration;

use plan::{Bind, Experiment, ScalePlan, Scheduler};
use probes::cpu_list;
use record::quantity;

use crate::cmd::experiment::{Comparison, Exclusive};
use crate::cmd::{Global, experiment};
use crate::exit::Exit;

/// Run 1, 2, 4 ... copies of a command, up to a full machine and beyond: how does throughput scale?
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Copies at each level; by default 1, 2, 4 ... up to the number of CPUs, and on to twice as many
    #[arg(long, value_name = "N,N...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    copies: Vec<u32>,

    /// Rounds; each measures every level, in its own order
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Minimum time that each copy works, at each level
    #[arg(long, value_name = "DURATION", default_value = "2s", allow_hyphen_values = true, value_parser = quantity::duration)]
    time: Duration,

    /// Time limit of one execution; a longer one counts as hung, and its level is INVALID
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true, value_parser = quantity::duration)]
    timeout: Duration,

    /// Placement of the copies
    #[arg(long, value_enum, value_name = "WHERE", default_value = "free")]
    bind: BindTo,

    /// CPUs that copies may run on, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuList>,

    /// Scheduling policy of the copies: other, batch, fifo:PRIORITY or rr:PRIORITY
    #[arg(long, value_name = "CLASS", default_value = "other", value_parser = scheduler)]
    sched: Scheduler,

    /// Files that the copies work on in turn: in place of `{unit}` in the command, or after it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    units: Vec<String>,

    /// Compare the run with this one: the two machines with one copy, and when full
    #[arg(long, value_name = "RUN")]
    compare: Option<String>,

    /// Compare even with a run of another command, other units or other CPUs, and report the differences
    #[arg(long, requires = "compare")]
    force: bool,

    /// Do not measure the CPUs
    #[arg(long)]
    no_observe: bool,

    /// Random seed of the order; by default random, and stored
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// One-line description of the run
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    alone: Exclusive,

    /// The unit of work, after `--`: a program and its arguments, in which `{copy}` is the copy's number
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff scale -- gzip -c /usr/bin/python3
  bakeoff scale --copies 1,2,4,8 --bind core -- sh -c 'openssl dgst -sha256 big.iso'
  bakeoff scale --units a.log b.log -- gzip -c {unit}    copies work on the files in turn
  bakeoff scale --compare 01J -- gzip -c big.log         this machine against that run's

The command's standard output is discarded; its errors are stored and reported. When every copy has worked long enough, all of
them are killed, so use a command that may be killed. $BAKEOFF_COPY is the copy's number, from 0.";

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum BindTo {
    /// Chosen by the kernel
    Free,
    /// On one CPU
    Cpu,
    /// On all CPUs of one core
    Core,
    /// On one CPU, sockets in turn, and within them cores before siblings
    Spread,
}

/// A list of CPUs, in a type that one option can have.
#[derive(Debug, Clone)]
struct CpuList(Vec<u32>);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let within = probes::limits::Limits::of_self().cpu().whole_cpus().unwrap_or(1);
    let cpus = args.cpus.as_ref().map(|CpuList(cpus)| cpus.clone());
    let mut copies = args.copies.clone();
    if copies.is_empty() {
        let listed = cpus.as_ref().map_or(u32::MAX, |cpus| u32::try_from(cpus.len()).unwrap_or(u32::MAX));
        copies = plan::copies_up_to(within.min(listed));
    }
    copies.sort_unstable();
    copies.dedup();
    let plan = ScalePlan {
        title: args.title.clone().unwrap_or_else(|| format!("copies of {}", args.command.join(" "))),
        command: args.command.clone(),
        units: args.units.clone(),
        copies,
        rounds: args.rounds,
        time: args.time,
        timeout: args.timeout,
        bind: match args.bind {
            BindTo::Free => Bind::Free,
            BindTo::Cpu => Bind::Cpu,
            BindTo::Core => Bind::Core,
            BindTo::Spread => Bind::Spread,
        },
        cpus,
        scheduler: args.sched,
        observe: !args.no_observe,
        seed: experiment::seed(args.seed),
    };
    let compare = args.compare.as_deref().map(|with| Comparison { with, force: args.force });
    experiment::run(&Experiment::Scale(plan), compare, args.alone, global, out)
}

fn cpus(text: &str) -> Result<CpuList, String> {
    match cpu_list::parse(text) {
        Ok(cpus) if !cpus.is_empty() => Ok(CpuList(cpus.into_iter().collect())),
        _ => Err("expected CPUs such as 0-3,8".into()),
    }
}

fn scheduler(text: &str) -> Result<Scheduler, String> {
    Scheduler::from_word(text).ok_or_else(|| "expected other, batch, fifo:1 to fifo:99, rr:1 to rr:99".into())
}
