//! `bakeoff memory`: how much memory processes have, how it grows, and what the machine does to find more.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::time::Duration;

use analysis::growth::{Growth, growth};
use probes::memory::{self, MemoryProbe};
use probes::process_time::Watched;
use probes::schedule::Deadlines;
use record::memory::MemoryInterval;
use record::missing::{Maybe, Missing};

use crate::cmd::{self, Global, cpu};
use crate::confine;
use crate::exit::Exit;
use crate::own_cost::OwnCost;
use crate::screen::{self, Screen};
use crate::signals;

/// Show memory: what processes have and how it grows, page faults, reclaim, swap
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = cpu::interval, default_value = "1")]
    interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only this process, whose resident set is then exact
    #[arg(long, value_parser = process)]
    pid: Option<u32>,

    /// Show at most this many processes; the rest is summed up in one line
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
}

const EXAMPLES: &str = "\
`growth/s` is the slope of a process's resident set since the start, with its 95 % interval; it takes 6 intervals.

Examples:
  bakeoff memory 1 5                       five reports, one a second
  bakeoff memory --pid 4711 10 60          does it leak? ten minutes of one process
  bakeoff memory --json                    one JSON object a line, until Ctrl-C";

/// Readings of a process from which its growth is told; of more, the oldest are forgotten.
const LEVELS_MAX: usize = 3_600;

/// What processes had at each edge since the start.
#[derive(Debug, Default)]
struct Levels {
    /// By id and start: another process may have the id later.
    of: HashMap<(u32, u64), Vec<f64>>,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    if let Err(why) = probes::process_time::ids_are_those_of_proc() {
        Screen::new().line(&format!("bakeoff memory: processes go by their ids there: {why}"));
    }
    let mut probe = memory::open(args.pid);
    confine::after_setup();
    let own = OwnCost::start();
    let started_ns = probe.start();
    let mut deadlines = Deadlines::new(started_ns, args.interval);
    let (mut levels, mut reports) = (Levels::default(), 0);
    let only = args.pid.map(Watched::of);
    let mut exit = Exit::Good;
    while args.count.is_none_or(|count| reports < count) {
        let goes_on = signals::wait_until(deadlines.next_ns());
        let has_ended = cmd::has_ended(only);
        let interval = read(&mut probe, &mut deadlines, goes_on);
        let growths = levels.take(&interval, args.interval, goes_on);
        print(args, global, (&interval, &growths, started_ns), &own, out)?;
        out.flush()?;
        if !goes_on {
            exit = if args.count.is_some() { Exit::Interrupted } else { Exit::Good };
            break;
        }
        if has_ended {
            break;
        }
        reports += 1;
    }
    own.tell("memory", None);
    Ok(exit)
}

/// The id of a process that has memory.
fn process(text: &str) -> Result<u32, String> {
    memory::find(cmd::process(text)?).map_err(|missing| missing.reason)
}

fn read(probe: &mut MemoryProbe, deadlines: &mut Deadlines, goes_on: bool) -> MemoryInterval {
    let mut interval = probe.read();
    interval.missed_deadline = goes_on && deadlines.answered_at(interval.until_ns) > 0;
    interval
}

fn print(
    args: &Args,
    global: &Global,
    (interval, growths, started_ns): (&MemoryInterval, &[Maybe<Growth>], u64),
    own: &OwnCost,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if global.json {
        let mut document = report::json::memory(interval, growths, started_ns);
        own.add_to(&mut document, None);
        serde_json::to_writer(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    Ok(report::text::memory_interval(out, interval, growths, (args.top, started_ns), screen::style())?)
}

impl Levels {
    /// Takes in an interval; yields each process's growth since it was first seen.
    ///
    /// Intervals are of one length: one that is cut short is left out, and after one that was late growth begins anew.
    fn take(&mut self, interval: &MemoryInterval, length: Duration, is_whole: bool) -> Vec<Maybe<Growth>> {
        let alive: HashSet<(u32, u64)> = interval.processes.iter().map(|p| (p.pid, p.started)).collect();
        self.of.retain(|key, _| alive.contains(key));
        let one = |p: &record::memory::ProcessMemory| {
            let levels = self.of.entry((p.pid, p.started)).or_default();
            if interval.missed_deadline {
                levels.clear();
                return Err(Missing::because("a deadline was missed: growth is told from here on"));
            }
            if is_whole {
                levels.push(p.rss_bytes as f64);
            }
            if levels.len() > LEVELS_MAX {
                levels.remove(0);
            }
            growth(levels, length.as_secs_f64())
        };
        interval.processes.iter().map(one).collect()
    }
}
