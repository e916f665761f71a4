//! `bakeoff profile`: the functions in which threads spend their time, on a CPU or off all of them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::profile::function_changes;
use anyhow::Context as _;
use archive::whole_file;
use probes::cgroups::Cgroup;
use probes::process_time::Watched;
use probes::profile::{self, Options, Profiler};
use record::clock::{Clock as _, Monotonic};
use record::profile::{Profile, ProfileKind};

use crate::cmd::{self, Global, intervals, print_json};
use crate::confine::{self, Reader};
use crate::exit::{EndsWith as _, Exit};
use crate::screen::{self, Countdown, Screen};
use crate::{signals, text_file};

/// Show in which functions threads spend their time: on a CPU, by samples, or off it, by context switches
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Length: seconds, or a duration such as 500ms; Ctrl-C ends it early
    #[arg(value_name = "TIME", value_parser = intervals::interval, default_value = "10")]
    time: Duration,

    /// Profile time off the CPU: what threads wait for, by the stack at which they left the CPU
    #[arg(long)]
    off_cpu: bool,

    /// Only threads of this process
    #[arg(long, value_parser = cmd::process)]
    pid: Option<u32>,

    /// Only threads of this name
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,

    /// Only threads in this control group or below it: its folder, or its path in the hierarchy
    #[arg(long, value_name = "PATH", value_parser = cmd::cgroup)]
    cgroup: Option<Cgroup>,

    /// Print one line per stack, for flamegraph.pl and speedscope: samples, or microseconds off the CPU
    #[arg(long, conflicts_with_all = ["json", "svg", "top"])]
    folded: bool,

    /// Write a flame graph to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Show at most this many functions; the rest is summed up in one line (--json lists all)
    #[arg(long, value_name = "N", default_value_t = 25)]
    top: usize,

    /// Compare two profiles that `--json` printed, instead of taking one
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["time", "off_cpu", "pid", "comm", "cgroup", "folded"])]
    compare: Option<Vec<PathBuf>>,
}

const EXAMPLES: &str = "\
Functions of the kernel end in _[k]. `self` is time in the function, `total` also in what it called.

Examples:
  bakeoff profile 10                            the whole machine, ten seconds
  bakeoff profile --pid 4711 30s --svg cpu.svg  one process, as a flame graph
  bakeoff profile --off-cpu --pid 4711 10       what it waits for
  bakeoff profile 10 --json > a.json            ... and later:
  bakeoff profile --compare a.json b.json --svg difference.svg";

/// Interval between reads of the kernel's buffers: a process with a shorter life leaves no names.
const GATHER_EVERY_NS: u64 = 100_000_000;

/// Maximum size of a document, which may be untrusted.
const DOCUMENT_BYTES_MAX: u64 = 32 << 20;

impl Args {
    /// Whether the command reads files that may be untrusted.
    pub(crate) fn compares(&self) -> bool {
        self.compare.is_some()
    }
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if let Some(path) = &args.svg {
        whole_file::check(path).with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(files) = &args.compare {
        return compare(args, [&files[0], &files[1]], global, out);
    }
    signals::stop_on_interrupt()?;
    let profiler = opened(args)?;
    let mut screen = Screen::new();
    let countdown = Countdown::of(&mut screen, "sampling", args.time);
    let taken = take(args, profiler);
    drop(countdown);
    screen.clear();
    let (profile, is_whole) = taken?;
    if global.json {
        print_json(out, &report::json::profile(&profile))?;
    } else if args.folded {
        report::folded_stacks(out, &profile)?;
    } else {
        report::text::profile(out, &profile, args.top, screen::style())?;
    }
    draw(args, &profile, None)?;
    Ok(if is_whole { Exit::Good } else { Exit::Interrupted })
}

fn opened(args: &Args) -> anyhow::Result<Profiler> {
    let kind = if args.off_cpu { ProfileKind::OffCpu } else { ProfileKind::OnCpu };
    let options = Options {
        pid: args.pid,
        comm: args.comm.clone(),
        cgroup: args.cgroup.clone(),
        ..Options::of_everyone(kind)
    };
    let profiler = profile::open(&options).ends_with(Exit::CannotHere)?;
    confine::after_setup();
    Ok(profiler)
}

/// The profile, and whether it ran to its end.
fn take(args: &Args, mut profiler: Profiler) -> anyhow::Result<(Profile, bool)> {
    let only = args.pid.map(Watched::of);
    let until_ns = profiler.start() + u64::try_from(args.time.as_nanos()).unwrap_or(u64::MAX / 2);
    let mut is_whole;
    loop {
        is_whole = signals::wait_until(until_ns.min(Monotonic.now_ns() + GATHER_EVERY_NS));
        if !is_whole || Monotonic.now_ns() >= until_ns || intervals::has_ended(only) {
            break;
        }
        profiler.gather().context("reading the stacks")?;
    }
    Ok((profiler.finish().context("reading the stacks")?, is_whole))
}

fn draw(args: &Args, profile: &Profile, before: Option<&Profile>) -> anyhow::Result<()> {
    let Some(path) = &args.svg else { return Ok(()) };
    whole_file::write(path, report::flame_graph(profile, before).as_bytes())
        .with_context(|| format!("writing {}", path.display()))?;
    Screen::new().line(&format!("wrote {}", path.display()));
    Ok(())
}

fn compare(args: &Args, files: [&PathBuf; 2], global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let reader = Reader::default().writes_file(args.svg.as_deref());
    reader.reads(files[0]).reads(files[1]).confine("profile", false);
    let [before, after] = [read(files[0])?, read(files[1])?];
    if before.kind != after.kind {
        let kinds = (before.kind.word(), after.kind.word());
        return Err(Exit::Usage.with(format!("{} and {} time cannot be compared", kinds.0, kinds.1)));
    }
    let changes = function_changes(&before, &after);
    if global.json {
        print_json(out, &report::json::profile_changes([&before, &after], &changes))?;
    } else {
        report::text::profile_changes(out, [&before, &after], &changes, args.top, screen::style())?;
    }
    draw(args, &after, Some(&before))?;
    Ok(Exit::Good)
}

fn read(path: &Path) -> anyhow::Result<Profile> {
    let reading = || format!("reading {}", path.display());
    let text = text_file::read(path, DOCUMENT_BYTES_MAX).ends_with(Exit::Usage).with_context(reading)?;
    let document: serde_json::Value =
        serde_json::from_str(&text).ends_with(Exit::Usage).with_context(reading)?;
    report::json::read_profile(&document).ends_with(Exit::Usage).with_context(reading)
}
