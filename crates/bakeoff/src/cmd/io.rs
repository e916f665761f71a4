//! `bakeoff io`: requests to the block devices, their latency, and the threads and files that they belong to.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use archive::whole_file;
use probes::block_io::{self, IoLatency, IoProbe, Options};
use probes::cgroups::Cgroup;
use probes::cost::Cost;
use record::block_io::{IoBy, IoInterval, IoOp};
use record::missing::Maybe;
use report::text::{IoHistogram, IoView};
use serde_json::Value;

use crate::cmd::intervals::{self, Report, Reporter, Schedule, note};
use crate::cmd::{self, Global};
use crate::exit::{EndsWith as _, Exit};
use crate::screen;

/// Show requests to block devices: rates, sizes, latencies, addresses, seeks; by device, file, thread,
/// operation
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    schedule: Schedule,

    /// Keys to group requests by
    #[arg(long, value_enum, value_name = "KEY,...", value_delimiter = ',', default_value = "device,op")]
    by: Vec<By>,

    /// Distributions to show below each table, by powers of two
    #[arg(long, value_enum, value_name = "WHAT,...", value_delimiter = ',')]
    histogram: Vec<Histogram>,

    /// Show at most this many rows; the rest is summed up in one (--json lists all)
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Latencies to measure: fewer cost less; `both` is needed to know the thread that started a request
    #[arg(long, value_enum, value_name = "WHICH", default_value = "both")]
    latency: Latency,

    /// Only requests that a thread of this name started
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,

    /// Only requests that this process started
    #[arg(long, value_name = "PID", value_parser = crate::cmd::process)]
    pid: Option<u32>,

    /// Only requests that threads in this control group or below it started: its folder, or its path in
    /// the hierarchy
    #[arg(long, value_name = "PATH", value_parser = crate::cmd::cgroup)]
    cgroup: Option<Cgroup>,

    /// Only this device: its name, a path, or a name in /dev/disk/by-id
    #[arg(long, value_name = "DEVICE")]
    dev: Option<String>,

    /// Only these operations
    #[arg(long, value_enum, value_name = "OP,...", value_delimiter = ',')]
    op: Vec<Op>,

    /// At the end, write a heat map of latency over time to this file, as SVG; beyond 1,024 intervals,
    /// neighbours share a column
    #[arg(long, value_name = "FILE")]
    heat_map: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The device
    Device,
    /// The file, if the kernel knows it: requests of the page cache, and direct I/O through iomap (ext4, xfs)
    File,
    /// The name of the thread that started it
    Comm,
    /// The control group (version 2) of the thread that started it
    Cgroup,
    /// read, write, flush, discard
    Op,
    /// Nothing: one row for all requests
    None,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Histogram {
    Size,
    /// From the start of a request, including its time in queues
    Latency,
    /// From its issue to the driver
    IssueLatency,
    Address,
    Seek,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Latency {
    /// From the start of a request, and from its issue to the driver
    Both,
    /// From its issue alone
    Issue,
    /// None: requests are counted at their issue; sizes, addresses and seeks are still measured
    None,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Op {
    Read,
    Write,
    Flush,
    Discard,
    Other,
}

const EXAMPLES: &str = "\
Latency counts from a request's start, `issue` from its issue to the driver; the difference is time in queues. seq % is
the share of requests that begin where the previous one ended. Percentiles have a relative error of at most 1/32.

Examples:
  bakeoff io 1 5                                  five reports, one a second
  bakeoff io --by comm,op --histogram latency     who waits for how long
  bakeoff io 10 1 --by file --dev nvme0n1         what is read and written there
  bakeoff io 100ms 600 --heat-map io.svg          a minute as a picture";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if let Some(path) = &args.heat_map {
        whole_file::check(path).with_context(|| format!("writing {}", path.display()))?;
    }
    check(args)?;
    intervals::report(&args.schedule, global, out, || Requests::open(args))
}

/// The instrument for requests to block devices, and the heat map of all reported intervals.
struct Requests<'a> {
    args: &'a Args,
    probe: IoProbe,
    started_ns: u64,
    heat_map: report::IoHeatMap,
}

impl<'a> Requests<'a> {
    fn open(args: &'a Args) -> anyhow::Result<Self> {
        let probe = block_io::open(&options(args)?)?;
        if let Some(text) = probe.note() {
            note("io", text);
        }
        Ok(Self { args, probe, started_ns: 0, heat_map: report::IoHeatMap::default() })
    }
}

impl Reporter for Requests<'_> {
    type Interval = IoInterval;
    const COMMAND: &'static str = "io";

    fn start(&mut self) -> anyhow::Result<u64> {
        self.probe.measure_cost();
        self.started_ns = self.probe.start()?;
        Ok(self.started_ns)
    }

    fn only(&self) -> Option<u32> {
        self.args.pid
    }

    fn read(&mut self) -> anyhow::Result<IoInterval> {
        let interval = self.probe.read()?;
        if self.args.heat_map.is_some() {
            self.heat_map.add(&interval);
        }
        Ok(interval)
    }

    fn news(&mut self) -> Vec<String> {
        self.probe.take_news()
    }

    fn cost(&mut self) -> Option<Maybe<Cost>> {
        Some(self.probe.cost())
    }

    fn document(&mut self, interval: &IoInterval, report: Report) -> Value {
        report::json::io(interval, report.started_ns, &block_io::aliases())
    }

    fn print(&mut self, out: &mut dyn Write, interval: &IoInterval, report: Report) -> anyhow::Result<()> {
        let histograms = self.args.histogram.iter().map(|h| (*h).into()).collect();
        let view = IoView { histograms, top: self.args.top };
        Ok(report::text::io_interval(out, interval, report.started_ns, &view, screen::style())?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(path) = &self.args.heat_map else { return Ok(()) };
        let Some(svg) = self.heat_map.svg(self.started_ns) else {
            note("io", "there were no requests, so no heat map was written");
            return Ok(());
        };
        whole_file::write(path, svg.as_bytes()).with_context(|| format!("writing {}", path.display()))
    }
}

/// Refuses keys and heat maps that need values which are not measured.
fn check(args: &Args) -> anyhow::Result<()> {
    if args.by.contains(&By::None) && args.by.len() > 1 {
        return Err(Exit::Usage.with("`--by none` cannot be combined with other keys"));
    }
    if !matches!(args.latency, Latency::Both)
        && (args.pid.is_some()
            || args.comm.is_some()
            || args.cgroup.is_some()
            || args.by.iter().any(|by| matches!(by, By::Comm | By::Cgroup)))
    {
        return Err(Exit::Usage.with(
            "`--pid`, `--comm`, `--cgroup`, `--by comm` and `--by cgroup` need `--latency both`: the thread \
             that started a request is known only at its start; a kernel thread often issues it",
        ));
    }
    let wants = |from_start: bool| {
        args.histogram.iter().any(|h| match h {
            Histogram::Latency => from_start,
            Histogram::IssueLatency => !from_start,
            Histogram::Size | Histogram::Address | Histogram::Seek => false,
        })
    };
    let from_start = wants(true) || args.heat_map.is_some();
    match args.latency {
        Latency::Issue if from_start => Err(Exit::Usage.with(
            "`--latency issue` measures no latency from the start: use `--histogram issue-latency`, and no \
             `--heat-map`",
        )),
        Latency::None if from_start || wants(false) => {
            Err(Exit::Usage.with("`--latency none` measures no latency to draw"))
        }
        _ => Ok(()),
    }
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let by = |key: By| args.by.contains(&key);
    let by = IoBy {
        device: by(By::Device),
        comm: by(By::Comm),
        file: by(By::File),
        op: by(By::Op),
        cgroup: by(By::Cgroup),
    };
    cmd::check_cgroups(by.cgroup)?;
    let device = args.dev.as_deref().map(block_io::find).transpose().ends_with(Exit::Usage)?;
    Ok(Options {
        device,
        pid: args.pid,
        comm: args.comm.clone(),
        cgroup: args.cgroup.clone(),
        ops: args.op.iter().map(|op| (*op).into()).collect(),
        latency: args.latency.into(),
        ..Options::everything(by)
    })
}

impl From<Latency> for IoLatency {
    fn from(latency: Latency) -> Self {
        match latency {
            Latency::Both => Self::Both,
            Latency::Issue => Self::Issue,
            Latency::None => Self::None,
        }
    }
}

impl From<Histogram> for IoHistogram {
    fn from(histogram: Histogram) -> Self {
        match histogram {
            Histogram::Size => Self::Size,
            Histogram::Latency => Self::Latency,
            Histogram::IssueLatency => Self::IssueLatency,
            Histogram::Address => Self::Address,
            Histogram::Seek => Self::Seek,
        }
    }
}

impl From<Op> for IoOp {
    fn from(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write => Self::Write,
            Op::Flush => Self::Flush,
            Op::Discard => Self::Discard,
            Op::Other => Self::Other,
        }
    }
}
