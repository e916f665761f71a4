//! `bakeoff import plockstat`: the user-level locks of a process.

use std::io::Write;
use std::path::PathBuf;

use import::render::{PlockstatLog, PlockstatView, csv, json, text};
use import::solaris::plockstat::{self, Found};

use crate::cmd::Global;
use crate::cmd::import::keep::KeepOptions;
use crate::cmd::import::seconds;
use crate::cmd::import::source::{self, Notes, Source};
use crate::exit::Exit;

/// Read plockstat: holds, waits, spins and failed spins, for each lock and caller
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files with plockstat's output; `-` or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Number of CPUs of the machine: with --elapsed, spins are shown as a share of it
    #[arg(short = 'n', long = "cpus", value_name = "NCPU", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,

    /// Time that plockstat watched: times are shown as numbers of threads
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    elapsed: Option<f64>,

    /// Draw the histograms
    #[arg(long)]
    histogram: bool,

    /// Print the stacks
    #[arg(long)]
    stacks: bool,

    #[command(flatten)]
    keep: KeepOptions,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff import plockstat plockstat.txt
  bakeoff import plockstat --elapsed 10 -n 8 --stacks --histogram plockstat-s5.txt
  plockstat -A -e 10 -p 1234 2>&1 | bakeoff import plockstat --elapsed 10 -";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let view = PlockstatView {
        cpus: args.cpus,
        elapsed_s: args.elapsed,
        histograms: args.histogram,
        stacks: args.stacks,
    };
    source::each(&args.files, !global.json && !args.csv, out, &mut |source, out| {
        let Source { path, name, input, .. } = source;
        let mut notes = Notes::about(&name);
        let mut log = PlockstatLog::default();
        let end = plockstat::read(input, &mut |found| {
            match found {
                Found::Section(section) => log.sections.push(section.clone()),
                Found::Lost(note) => log.lost.push(note),
                Found::Note(note) => notes.note(&note),
            }
            Ok(())
        });
        if global.json {
            json::plockstat(out, &log, &view, &name, end.as_ref().err())?;
        } else if args.csv {
            csv::plockstat(out, &log, &view)?;
        } else {
            text::plockstat(out, &log, &view)?;
        }
        end.map_err(|error| source::failed(&name, error))?;
        let impossible = view.impossible(&log);
        for note in &impossible {
            notes.impossible(note);
        }
        let Some(mut keeper) = args.keep.begin("plockstat") else { return notes.verdict() };
        if let Some(note) = impossible.first() {
            keeper.taint(format!("line {note}"));
        }
        if let Some(lost) = log.lost.first() {
            keeper.taint(format!("records were lost ({lost})"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "to the nearest millisecond")]
        let t_ms = (1e3 * args.elapsed.unwrap_or(0.0)) as i64;
        keeper.add(t_ms, |stamp, into| import::series::plockstat(&log, stamp, into));
        keeper.seal(&[path], global)?;
        notes.verdict()
    })
}
