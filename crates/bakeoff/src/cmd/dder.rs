//! `bakeoff dder`: reads of a file at every buffer size.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use plan::{Data, Experiment, How, SIZE_MAX, SweepPlan};
use record::quantity;

use crate::cmd::experiment::{Comparison, Exclusive};
use crate::cmd::{Global, experiment};
use crate::exit::{EndsWith as _, Exit};

/// Read a file at every buffer size: cost per call, and the sizes at which the speed shifts
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Calls to read with, separated by commas: read, pread, mmap, direct
    #[arg(long, value_name = "CALLS", default_value = "pread", value_delimiter = ',', value_parser = how)]
    how: Vec<How>,

    /// Also run dd once for each size, as the original experiment did
    #[arg(long)]
    dd: bool,

    /// Also time the start of dd, by `posix_spawn` and by fork and exec
    #[arg(long)]
    spawn: bool,

    /// Amounts of data, separated by commas: l2 (half of that cache), l3 (half), dram (four times L3), or
    /// sizes
    #[arg(long, value_name = "DATA", default_value = "l2,l3,dram", value_delimiter = ',')]
    data: Vec<String>,

    /// Folder for the temporary file; the file has no name, and is removed at the end
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,

    /// Measure every size from 1 on, instead of about 1,900 of them
    #[arg(long)]
    full: bool,

    /// The largest size
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    max: Option<u64>,

    /// Rounds; each measures every size, in its own order; by default 6, and 2 with --full
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Time per size and round, at most 1s; by default 1ms, and 400us with --full
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = quantity::duration)]
    point: Option<Duration>,

    /// Size that is measured between the others, to track the machine's speed
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = quantity::bytes)]
    reference: u64,

    /// Compare the run with this one
    #[arg(long, value_name = "RUN")]
    compare: Option<String>,

    /// Random seed of sizes and orders; by default 1, so runs have the same sizes
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// One-line description of the run
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    alone: Exclusive,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff dder                          pread of data in L2, L3 and memory, about 1,900 sizes, six rounds
  bakeoff dder --how read,mmap --data l3
  bakeoff dder --full --data dram       all 102,400 sizes
  bakeoff dder --data l3 --compare 01J  against an earlier run: another kernel, machine or setting";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let data: Vec<Data> =
        args.data.iter().map(|text| data(text)).collect::<Result<_, _>>().ends_with(Exit::Usage)?;
    let mut how = args.how.clone();
    how.extend(args.dd.then_some(How::Dd));
    how.extend(args.spawn.then_some([How::Spawn, How::ForkExec]).into_iter().flatten());
    let folder = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = std::path::absolute(&folder).with_context(|| format!("finding {}", folder.display()))?;
    let folder = folder
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| Exit::Usage.with("--dir: the folder's name is not UTF-8"))?;
    let named: Vec<&str> = how.iter().map(|h| h.word()).collect();
    let plan = SweepPlan {
        title: args.title.clone().unwrap_or_else(|| format!("{} at every buffer size", named.join(", "))),
        how,
        data,
        folder,
        full: args.full,
        size_max: args.max.unwrap_or(SIZE_MAX),
        rounds: args.rounds.unwrap_or(if args.full { 2 } else { 6 }),
        point: args.point.unwrap_or(Duration::from_micros(if args.full { 400 } else { 1_000 })),
        reference: args.reference,
        reference_every: 16,
        seed: args.seed,
    };
    experiment::run(
        &Experiment::Sweep(plan),
        args.compare.as_deref().map(|with| Comparison { with, force: false }),
        args.alone,
        global,
        out,
    )
}

fn how(text: &str) -> Result<How, String> {
    let in_process = |h: &How| !h.starts_only() && *h != How::Dd;
    How::from_word(text).filter(in_process).ok_or_else(|| "expected read, pread, mmap or direct".into())
}

/// Reads `l2`, `l3` and `dram`, by this machine's caches, or a size.
fn data(text: &str) -> Result<Data, String> {
    let cache = |level| {
        let found = probes::topology::cache_bytes(Path::new("/"), level);
        found.ok_or_else(|| format!("--data {text}: this machine's cache sizes are unknown; give a size"))
    };
    let bytes = match text {
        "l2" => cache(2)? / 2,
        "l3" => cache(3).or_else(|_| cache(2))? / 2,
        "dram" => (cache(3).or_else(|_| cache(2))? * 4).max(100 << 20),
        size => quantity::bytes(size).map_err(|e| format!("--data: expected l2, l3, dram or a size: {e}"))?,
    };
    let name = if matches!(text, "l2" | "l3" | "dram") { text.to_uppercase() } else { text.to_owned() };
    Ok(Data { name, bytes: bytes / 4_096 * 4_096 })
}
