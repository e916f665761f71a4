//! `bakeoff import vmstat`: exact utilization between snapshots of counters, read or taken.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use import::Note;
use import::render::{Intervals, csv, json, text};
use import::timeline::Timeline;
use import::vmstat_s::{self, Clockwork, Found, Interval, Snapshot};
use import::watch::{self, Taken};
use record::clock::Monotonic;

use crate::cmd::Global;
use crate::cmd::import::keep::KeepOptions;
use crate::cmd::import::seconds;
use crate::cmd::import::source::{self, Notes, Source};
use crate::exit::{EndsWith as _, Exit};
use crate::signals;

/// Read snapshots of vmstat -s (Solaris, illumos, Linux): exact utilisation from each to the next
///
/// Snapshots are in the order of the files; within a file, one begins wherever the counters begin again. If
/// the time between them is known (dates in the file, or --elapsed), missing ticks are shown too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files with the output of vmstat -s, one snapshot or more in each; `-` or none is standard input
    #[arg(value_name = "FILE", conflicts_with = "watch")]
    files: Vec<PathBuf>,

    /// Number of CPUs of the machine, to compute the expected number of ticks
    #[arg(short = 'n', long = "cpus", value_name = "NCPU", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,

    /// Seconds between snapshots; overrides dates in the files
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "watch")]
    elapsed: Option<f64>,

    /// Time zone of dates without one, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", conflicts_with = "watch")]
    zone: Option<String>,

    /// Ticks per second on each CPU
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = rate)]
    hz: f64,

    /// Also print the increase of every other counter
    #[arg(long)]
    counters: bool,

    /// Take snapshots of this machine, from /proc/stat, at this interval until Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,

    /// With --watch: end after this many intervals
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    keep: KeepOptions,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff import vmstat before.txt after.txt
  bakeoff import vmstat -n 8 --elapsed 300 before.txt after.txt     and missing ticks
  bakeoff import vmstat --watch 5                                   this machine, every 5 s";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match args.watch {
        Some(interval_s) => watch_here(args, interval_s, global, out),
        None => read(args, global, out),
    }
}

fn read(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let files = source::named(&args.files)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let names = names.join(" ");
    let mut timeline = Timeline::new(args.zone.as_deref()).map_err(|what| Exit::Usage.with(what))?;
    let mut placed_s = None;
    let mut out = BufWriter::new(out);
    let mut receiver = receiver(args, global, &mut out, &names, json::Layout::Document);
    let mut before: Option<Snapshot> = None;
    let mut tally = Tally::default();
    let mut keeper = args.keep.begin("vmstat");
    let mut elapsed_s = Ok(0.0);
    for file in &files {
        let Source { name, input, .. } = source::open(file)?;
        let mut notes = Notes::about(&name);
        let end = vmstat_s::read(input, &mut |found| {
            match found {
                Found::Note(note) => notes.note(&note),
                Found::Snapshot(after) => {
                    let by_dates = by_dates(&mut timeline, (&before, after), args, &mut notes);
                    let since_s = placed_s.zip(by_dates).map(|(from, to): (i64, i64)| (to - from) as f64);
                    placed_s = by_dates;
                    let known_s = args.elapsed.or(since_s.filter(|s| *s > 0.0));
                    let clockwork = Clockwork { hz: args.hz, cpus: args.cpus, elapsed_s: known_s };
                    if let Some(before) = before.replace(after.clone()) {
                        let interval = vmstat_s::interval(&before, after, &clockwork);
                        tally.count(&interval);
                        if let (Some(keeper), Some(why)) = (&mut keeper, &interval.contradiction) {
                            keeper.taint(why.clone());
                        }
                        if let (Ok(sum), Ok(more)) = (&mut elapsed_s, &interval.elapsed_s) {
                            *sum += more;
                        } else if let Err(missing) = &interval.elapsed_s {
                            elapsed_s = Err(missing.clone());
                        }
                        if let (Some(keeper), Ok(elapsed_s)) = (&mut keeper, &elapsed_s) {
                            #[expect(clippy::cast_possible_truncation, reason = "to the nearest millisecond")]
                            let t_ms = (1e3 * elapsed_s) as i64;
                            keeper.add(t_ms, |stamp, into| import::series::vmstat(&interval, stamp, into));
                        }
                        receiver.interval(&interval)?;
                    } else if let (Some(keeper), Some(at)) = (&mut keeper, &after.at) {
                        keeper.begins_at(at, placed_s);
                    }
                }
            }
            Ok(())
        });
        if let Err(error) = end {
            receiver.end(Some(&error))?;
            drop(receiver);
            out.flush()?;
            return Err(source::failed(&name, error));
        }
    }
    receiver.end(None)?;
    drop(receiver);
    out.flush()?;
    let exit = tally.exit(&names)?;
    if let Some(keeper) = keeper {
        elapsed_s.ends_with(Exit::Usage)?;
        keeper.seal(&files, global)?;
    }
    Ok(exit)
}

/// The time of a snapshot that has a date; assumptions, and the reason for a missing time, become notes.
fn by_dates(
    timeline: &mut Timeline,
    (before, snapshot): (&Option<Snapshot>, &Snapshot),
    args: &Args,
    notes: &mut Notes,
) -> Option<i64> {
    let mut note = |text: String| notes.note(&Note { line: snapshot.line, text });
    match timeline.place(snapshot.at.as_ref()?) {
        Ok(placed) => {
            placed.assumed.into_iter().for_each(&mut note);
            let clockwork = Clockwork { hz: args.hz, cpus: args.cpus, elapsed_s: None };
            let hour_less = |before: &Snapshot| vmstat_s::lacks_an_hour(before, snapshot, &clockwork);
            if placed.may_be_hour_less && before.as_ref().is_some_and(hour_less) {
                note(
                    "an hour of ticks is missing between the dates: daylight saving time began between them"
                        .into(),
                );
                return timeline.hour_less();
            }
            Some(placed.unix_s)
        }
        Err(missing) => {
            note(missing.reason);
            None
        }
    }
}

/// Numbers of computed, uncomputable and contradictory intervals.
#[derive(Default)]
struct Tally {
    good: u64,
    bad: u64,
    impossible: u64,
}

impl Tally {
    fn count(&mut self, interval: &Interval) {
        let has_ticks = interval.ticks.as_ref().is_ok_and(|ticks| ticks.sum() > 0);
        *(if has_ticks { &mut self.good } else { &mut self.bad }) += 1;
        self.impossible += u64::from(interval.contradiction.is_some());
    }

    fn exit(&self, names: &str) -> anyhow::Result<Exit> {
        match self {
            Self { good: 0, bad: 0, .. } => {
                Err(Exit::Usage
                    .with(format!("{names}: found one snapshot, expected two or more: BEFORE AFTER")))
            }
            Self { good: 0, .. } => Ok(Exit::Invalid),
            Self { impossible: 1.., .. } => Ok(Exit::Bad),
            Self { .. } => Ok(Exit::Good),
        }
    }
}

fn watch_here(args: &Args, interval_s: f64, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if args.keep.asked() {
        return Err(Exit::Usage.with("--watch cannot be used with --keep: `bakeoff record` stores runs"));
    }
    signals::stop_on_interrupt()?;
    let mut out = FlushedLines { out };
    let mut receiver = receiver(args, global, &mut out, "/proc/stat", json::Layout::Lines);
    let mut notes = Notes::about("/proc/stat");
    let mut before: Option<Taken> = None;
    let mut open = || Ok(Box::new(File::open("/proc/stat")?) as Box<dyn Read>);
    let interval = Duration::from_secs_f64(interval_s);
    watch::watch(&mut open, &Monotonic, &mut signals::wait_until, interval, args.count, &mut |taken| {
        if taken.missed > 0 {
            notes.remark(&format!("{} deadlines were missed before this line", taken.missed));
        }
        if let Some(before) = before.replace(taken.clone()) {
            let elapsed_s = Some((taken.monotonic_ns - before.monotonic_ns) as f64 / 1e9);
            let cpus = args.cpus.or_else(|| taken.cpus_since(&before));
            if cpus.is_none() {
                let (then, now) = (before.cpus, taken.cpus);
                notes.remark(&format!("{then} CPUs were online before this line, and {now} after it"));
            }
            let clockwork = Clockwork { hz: args.hz, cpus, elapsed_s };
            receiver.interval(&vmstat_s::interval(&before.snapshot, &taken.snapshot, &clockwork))?;
        }
        Ok(())
    })?;
    receiver.end(None)?;
    let interrupted = signals::STOP.is_requested() && args.count.is_some();
    Ok(if interrupted { Exit::Interrupted } else { Exit::Good })
}

fn receiver<'a>(
    args: &Args,
    global: &Global,
    out: &'a mut dyn Write,
    names: &'a str,
    layout: json::Layout,
) -> Box<dyn Intervals + 'a> {
    if global.json {
        Box::new(json::Vmstat::new(out, names, args.hz, args.cpus, layout))
    } else if args.csv {
        Box::new(csv::Vmstat::new(out))
    } else {
        Box::new(text::Vmstat::new(out, args.counters))
    }
}

/// A writer that flushes each line, because a reader waits for it.
struct FlushedLines<'w> {
    out: &'w mut dyn Write,
}

impl Write for FlushedLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        if bytes.ends_with(b"\n") {
            self.out.flush()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected ticks a second, such as 100 or 1000".into()),
    }
}
