//! `bakeoff import`: exact numbers from the text of other tools.

mod keep;
mod lockstat;
mod mpstat;
mod plockstat;
mod source;
mod vmstat;

use std::io::Write;
use std::path::Path;

use crate::cmd::Global;
use crate::confine::Reader;
use crate::exit::Exit;

/// Read logs of mpstat, vmstat, lockstat or plockstat, and compute the numbers that they do not show
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Tool,

    /// Also report which sandbox features this kernel lacks
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    Mpstat(mpstat::Args),
    Vmstat(vmstat::Args),
    Lockstat(lockstat::Args),
    Plockstat(plockstat::Args),
}

const EXAMPLES: &str = "\
Examples:
  bakeoff import lockstat -n 512 lockstat.txt       the share of the machine that each lock costs
  bakeoff import mpstat --saturated mpstat.txt      the mean of all CPUs, and the full ones by name
  mpstat 3 | bakeoff import mpstat -                each sample immediately
  bakeoff import vmstat before.txt after.txt        exact utilisation between two vmstat -s";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    // `--watch` reads this machine's counters.
    let reader = Reader::default().reads_named().reads(Path::new("/proc"));
    global.confine(reader, "import", args.verbose)?;
    match &args.tool {
        Tool::Mpstat(args) => mpstat::run(args, global, out),
        Tool::Vmstat(args) => vmstat::run(args, global, out),
        Tool::Lockstat(args) => lockstat::run(args, global, out),
        Tool::Plockstat(args) => plockstat::run(args, global, out),
    }
}

/// Reads a number of seconds above 0, or a duration such as `500ms`.
fn seconds(text: &str) -> Result<f64, String> {
    let written = if text.parse::<f64>().is_ok() { format!("{text}s") } else { text.to_owned() };
    let span = record::quantity::duration(&written).map_err(|e| e.to_string())?;
    if span.is_zero() { Err("expected more than 0 seconds".into()) } else { Ok(span.as_secs_f64()) }
}
