//! `bakeoff import mpstat`: one row per sample instead of one per CPU, and the CPUs that are full.

use std::io::Write;
use std::path::PathBuf;

use import::Note;
use import::render::{MpstatView, Samples, csv, json, text};
use import::solaris::mpstat::{self, Event, Rates};
use import::timeline::{Placed, Timeline};
use record::missing::Maybe;

use crate::cmd::Global;
use crate::cmd::import::keep::{ImportedRun, KeepOptions};
use crate::cmd::import::seconds;
use crate::cmd::import::source::{self, Notes, Source};
use crate::exit::Exit;

/// Utilization from which a CPU is called full: the least that a full CPU can show after rounding to whole
/// percent.
const FULL_PCT: f64 = 99.0;

/// Read mpstat of Solaris or illumos: the mean over all CPUs, one line per sample
///
/// The first block, and the block after a change of the CPUs, is an average since boot: it is marked, and
/// left out of --mean.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// Files with mpstat's output; `-` or none is standard input, from which each sample is printed
    /// immediately
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Sum the rates over the CPUs, as mpstat -a does, instead of dividing them; percentages stay means
    #[arg(long)]
    sum_rates: bool,

    /// List the full CPUs below each sample: busy for at least PCT percent, by default 99. With --csv, print
    /// a row for each of them instead of the samples
    #[arg(long, value_name = "PCT", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "not given, given, given with a word")]
    saturated: Option<Option<String>>,

    /// Print the maximum rounding error below each sample: mpstat prints whole numbers
    #[arg(long)]
    error: bool,

    /// Print the mean over the samples at the end (JSON has it always, CSV never)
    #[arg(long, conflicts_with = "csv")]
    mean: bool,

    /// Include samples since boot in the average
    #[arg(long)]
    boot: bool,

    /// Print each sample's date
    #[arg(long)]
    times: bool,

    /// Print a line for each processor set (needs a log of mpstat -p or -a)
    #[arg(long)]
    by_set: bool,

    /// Time zone of dates without one, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// With --keep: seconds between samples, if the log has no dates
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "keep")]
    interval: Option<f64>,

    #[command(flatten)]
    keep: KeepOptions,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// With --json: a document for each sample, on its own line, instead of one for all
    #[arg(long, requires = "json")]
    lines: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff import mpstat mpstat.txt
  bakeoff import mpstat --saturated 90 --times mpstat.txt
  mpstat 3 | bakeoff import mpstat -
  gzip -dc old.gz | bakeoff import mpstat --csv - > old.csv";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (full_pct, files) = full_and_files(args)?;
    let view = MpstatView {
        rates: if args.sum_rates { Rates::Sum } else { Rates::Mean },
        full_pct,
        name_full: args.saturated.is_some(),
        errors: args.error,
        mean: args.mean,
        boot: args.boot,
        times: args.times,
        by_set: args.by_set,
    };
    let layout = if args.lines { json::Layout::Lines } else { json::Layout::Document };
    source::each(&files, !global.json && !args.csv, out, &mut |source, out| {
        let Source { path, name, input, live } = source;
        let mut keeper = args.keep.begin("mpstat");
        let (mut kept, mut kept_last) = (0u32, false);
        let mut notes = Notes::about(&name);
        let mut timeline = Timeline::new(args.zone.as_deref()).map_err(|what| Exit::Usage.with(what))?;
        let mut placed = None;
        // The result is written to a separate buffer, which can be flushed while the receiver holds it.
        let mut out = Flushing { out, each: live };
        let mut receiver: Box<dyn Samples + '_> = if global.json {
            Box::new(json::Mpstat::new(&mut out, view, &name, layout))
        } else if args.csv {
            Box::new(csv::Mpstat::new(&mut out, view))
        } else {
            Box::new(text::Mpstat::new(&mut out, view))
        };
        let end = mpstat::read(input, &mut |event| match event {
            Event::Sample(sample) => {
                let impossible = sample.impossible();
                for note in &impossible {
                    notes.impossible(note);
                }
                if keeper.is_some() && !sample.replaces_previous {
                    placed = sample.at.as_ref().map(|at| timeline.place(at));
                    if let Some(Ok(Placed { assumed: Some(text), .. })) = &placed {
                        notes.note(&Note { line: sample.line, text: text.clone() });
                    }
                }
                if let Some(keeper) = &mut keeper {
                    if let Some(note) = impossible.first() {
                        keeper.taint(format!("line {note}"));
                    }
                    if sample.replaces_previous && kept_last {
                        keeper.take_back();
                        kept -= 1;
                    }
                    kept_last = keep(sample, args, full_pct, (kept, &placed), keeper);
                    kept += u32::from(kept_last);
                }
                receiver.sample(sample)
            }
            Event::Note(note) => {
                notes.note(&note);
                Ok(())
            }
        });
        receiver.end(end.as_ref().err())?;
        end.map_err(|error| source::failed(&name, error))?;
        keeper.map_or(Ok(()), |keeper| keeper.seal(&[path], global))?;
        notes.verdict()
    })
}

/// Adds a sample's series to the run if the sample covers an interval; returns whether it was added. `before`
/// is the number of samples added before it; `placed` is the time of its date.
fn keep(
    sample: &mpstat::Sample,
    args: &Args,
    full_pct: f64,
    (before, placed): (u32, &Option<Maybe<Placed>>),
    keeper: &mut ImportedRun,
) -> bool {
    if let (Some(at), Some(Ok(placed))) = (&sample.at, placed) {
        // The log begins with its first block, even if that averages since boot and is not added itself.
        keeper.begins_at(at, Some(placed.unix_s));
    }
    if sample.cut || (sample.since_boot.is_some() && !args.boot) {
        return false;
    }
    if keeper.is_other_than_before(sample.at.is_some()) {
        keeper
            .refuse(format!("{}: samples with and without a date cannot be in one time series", sample.line));
        return false;
    }
    let t_ms = match (&sample.at, placed, args.interval) {
        (Some(at), Some(Ok(placed)), _) => keeper.since_first_ms(at, placed.unix_s),
        (_, Some(Err(missing)), _) => {
            keeper.refuse(format!("{}: {missing}", sample.line));
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "to the nearest millisecond")]
        (_, _, Some(interval_s)) => (interval_s * 1e3 * f64::from(before + 1)) as i64,
        // A single sample needs no distance to a next one.
        (_, _, None) if before == 0 => 0,
        (_, _, None) => {
            keeper.refuse("the log has no dates: give --interval SECONDS to store it as a time series");
            return false;
        }
    };
    keeper.add(t_ms, |stamp, into| import::series::mpstat(sample, full_pct, stamp, into));
    true
}

/// The threshold and the files: in `--saturated log.txt`, an argument that is not a percentage is a file
/// name.
fn full_and_files(args: &Args) -> anyhow::Result<(f64, Vec<PathBuf>)> {
    let Some(Some(word)) = &args.saturated else { return Ok((FULL_PCT, args.files.clone())) };
    let number = word.strip_suffix('%').unwrap_or(word).parse::<f64>();
    match number {
        Ok(pct) if (0.0..=100.0).contains(&pct) => Ok((pct, args.files.clone())),
        Ok(_) => Err(Exit::Usage.with(format!("--saturated {word}: expected a percentage from 0 to 100"))),
        Err(_) => {
            let mut files = vec![PathBuf::from(word)];
            files.extend(args.files.iter().cloned());
            Ok((FULL_PCT, files))
        }
    }
}

/// Writes each line at once if a reader waits for it.
struct Flushing<'w> {
    out: &'w mut dyn Write,
    each: bool,
}

impl Write for Flushing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        if self.each && bytes.ends_with(b"\n") {
            self.out.flush()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
