//! `bakeoff memory`: the memory of processes, its growth, and reclaim on the machine.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::time::Duration;

use analysis::growth::{Growth, growth};
use probes::cost::Cost;
use probes::memory::{self, MemoryProbe};
use record::memory::MemoryInterval;
use record::missing::{Maybe, Missing};
use serde_json::Value;

use crate::cmd::intervals::{self, Report, Reporter, Schedule, note};
use crate::cmd::{self, Global};
use crate::exit::Exit;
use crate::screen;

/// Show memory: size and growth of processes, page faults, reclaim, swap
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    schedule: Schedule,

    /// Only this process; its resident set is then exact
    #[arg(long, value_parser = process)]
    pid: Option<u32>,

    /// Show at most this many processes; the rest is summed up in one line (--json lists all)
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
}

const EXAMPLES: &str = "\
`growth/s` is the slope of a process's resident set since the start, with its 95 % interval; it needs 6 intervals.

Examples:
  bakeoff memory 1 5                       five reports, one a second
  bakeoff memory --pid 4711 10 60          does it leak? ten minutes of one process
  bakeoff memory --json                    one JSON object a line, until Ctrl-C";

/// Maximum number of intervals for the growth of a process; older ones are dropped.
const INTERVALS_MAX: usize = 3_600;

/// Resident sets of the processes at each edge since the start.
#[derive(Debug, Default)]
struct Levels {
    /// Readings by process id and start time: another process may get the id later.
    of: HashMap<(u32, u64), Vec<f64>>,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    intervals::report(&args.schedule, global, out, || Ok(Memory::open(args)))
}

/// The instrument for the memory of the machine and of its processes, with the growth since the start.
struct Memory<'a> {
    args: &'a Args,
    probe: MemoryProbe,
    levels: Levels,
}

impl<'a> Memory<'a> {
    fn open(args: &'a Args) -> Self {
        if let Err(why) = probes::process_time::ids_are_those_of_proc() {
            note("memory", &format!("processes go by their ids there: {why}"));
        }
        Self { args, probe: memory::open(args.pid), levels: Levels::default() }
    }

    fn growths(&mut self, interval: &MemoryInterval, report: Report) -> Vec<Maybe<Growth>> {
        self.levels.take(interval, self.args.schedule.interval, report.is_whole)
    }
}

impl Reporter for Memory<'_> {
    type Interval = MemoryInterval;
    const COMMAND: &'static str = "memory";

    fn start(&mut self) -> anyhow::Result<u64> {
        Ok(self.probe.start())
    }

    fn only(&self) -> Option<u32> {
        self.args.pid
    }

    fn read(&mut self) -> anyhow::Result<MemoryInterval> {
        Ok(self.probe.read())
    }

    /// Returns `None`: `/proc` is read at the edges of an interval, and nothing runs in the kernel.
    fn cost(&mut self) -> Option<Maybe<Cost>> {
        None
    }

    fn document(&mut self, interval: &MemoryInterval, report: Report) -> Value {
        report::json::memory(interval, &self.growths(interval, report), report.started_ns)
    }

    fn print(
        &mut self,
        out: &mut dyn Write,
        interval: &MemoryInterval,
        report: Report,
    ) -> anyhow::Result<()> {
        let (growths, view) = (self.growths(interval, report), (self.args.top, report.started_ns));
        Ok(report::text::memory_interval(out, interval, &growths, view, screen::style())?)
    }
}

/// Reads the id of a process that has memory.
fn process(text: &str) -> Result<u32, String> {
    memory::find(cmd::process(text)?).map_err(|missing| missing.reason)
}

impl Levels {
    /// Adds an interval; returns each process's growth since its first reading: the one at the opening of its
    /// first interval, if the process existed then.
    ///
    /// All intervals must have the same length: one that is cut short is left out, and a late one restarts
    /// the series.
    fn take(&mut self, interval: &MemoryInterval, length: Duration, is_whole: bool) -> Vec<Maybe<Growth>> {
        let alive: HashSet<(u32, u64)> = interval.processes.iter().map(|p| (p.pid, p.started)).collect();
        self.of.retain(|key, _| alive.contains(key));
        let one = |p: &record::memory::ProcessMemory| {
            let levels = self.of.entry((p.pid, p.started)).or_default();
            if interval.missed_deadline {
                levels.clear();
                return Err(Missing::because("a deadline was missed: growth is measured anew from here"));
            }
            if is_whole {
                let opening_bytes = p.rss_bytes.cast_signed() - p.rss_change_bytes;
                // The opening level of a process that began in the interval is 0.
                if levels.is_empty() && opening_bytes > 0 {
                    levels.push(opening_bytes as f64);
                }
                levels.push(p.rss_bytes as f64);
            }
            if levels.len() > INTERVALS_MAX + 1 {
                levels.remove(0);
            }
            growth(levels, length.as_secs_f64())
        };
        interval.processes.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use record::memory::ProcessMemory;

    use super::*;

    const LENGTH: Duration = Duration::from_secs(2);

    /// A process that grows by 100 bytes in each interval; `began`: it began in this one.
    fn interval(number: u32, began: bool, missed_deadline: bool) -> MemoryInterval {
        let rss_bytes = 1_000 + 100 * u64::from(number);
        let process = ProcessMemory {
            pid: 7,
            started: 1,
            comm: "leaks".to_owned(),
            rss_bytes,
            swap_bytes: 0,
            rss_change_bytes: if began { rss_bytes.cast_signed() } else { 100 },
            minor_faults: 0,
            major_faults: 0,
        };
        let machine = Err(Missing::because("a test"));
        MemoryInterval {
            from_ns: 0,
            until_ns: 0,
            missed_deadline,
            machine,
            processes: vec![process],
            ended: 0,
        }
    }

    /// Number of the first interval, from 1 on, that shows a growth, which must be the true one.
    fn first_shown(intervals: impl Iterator<Item = MemoryInterval>) -> usize {
        let mut levels = Levels::default();
        let shown = intervals.enumerate().find_map(|(n, interval)| {
            let growth = levels.take(&interval, LENGTH, true).remove(0).ok()?;
            assert!((growth.per_s - 50.0).abs() < 1e-9, "{growth:?}");
            Some(n + 1)
        });
        shown.expect("a growth is shown at last")
    }

    #[test]
    fn six_intervals_show_a_growth_and_the_one_in_which_the_process_began_is_no_growth() {
        assert_eq!(first_shown((1..20).map(|n| interval(n, false, false))), 6);
        assert_eq!(first_shown((1..20).map(|n| interval(n, n == 1, false))), 7);
        // The third is late: six more are needed.
        assert_eq!(first_shown((1..20).map(|n| interval(n, false, n == 3))), 9);
    }

    #[test]
    fn levels_are_bounded() {
        let mut levels = Levels::default();
        for n in 1..u32::try_from(INTERVALS_MAX).unwrap() + 50 {
            levels.take(&interval(n, false, false), LENGTH, true);
        }
        assert_eq!(levels.of[&(7, 1)].len(), INTERVALS_MAX + 1);
    }
}
