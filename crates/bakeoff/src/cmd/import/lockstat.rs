//! `bakeoff import lockstat`: each lock's cost as a share of the machine.

use std::fs::File;
use std::io::{Read as _, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use import::Input;
use import::render::{LockstatView, Runs, csv, json, text};
use import::solaris::lockstat::{self, Found, Machine};

use crate::cmd::Global;
use crate::cmd::import::keep::KeepOptions;
use crate::cmd::import::seconds;
use crate::cmd::import::source::{self, Notes, Source};
use crate::exit::Exit;

/// Read lockstat of Solaris 8 or 10, illumos or FreeBSD: CPU-util for each lock and caller, and the total
///
/// CPU-util = count x mean time / (elapsed x CPUs), for time spent spinning. Blocked threads use no CPU: they
/// are shown and not summed. Solaris 8 and 10 print spins as loop iterations, not as time, so they have no
/// CPU-util.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files with lockstat's output; `-` or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Number of CPUs of the machine
    #[arg(short = 'n', long = "cpus", value_name = "NCPU", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,

    /// Time that lockstat watched, if the output does not contain it (-p, -T)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    elapsed: Option<f64>,

    /// Merge rows with the same lock, caller or kind
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<By>,

    /// Draw the histograms
    #[arg(long)]
    histogram: bool,

    /// Print the stacks
    #[arg(long)]
    stacks: bool,

    /// Nanoseconds per iteration of the spin loop on that machine, for Solaris 8 and 10
    #[arg(long, value_name = "NS", value_parser = positive)]
    spin_ns: Option<f64>,

    /// File with lockstat's standard error: lost records taint the result
    #[arg(long, value_name = "FILE")]
    stderr: Option<PathBuf>,

    #[command(flatten)]
    keep: KeepOptions,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    /// The lock, over all callers
    Lock,
    /// The caller, over all locks
    Caller,
    /// The kind of event: spinning, blocking, holding, of each kind of lock
    Kind,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff import lockstat -n 512 lockstat.txt
  bakeoff import lockstat -n 512 --by kind lockstat.txt
  bakeoff import lockstat -n 8 --elapsed 10.012 lockstat-p.txt     after lockstat -p
  lockstat -kWP sleep 30 2>&1 | bakeoff import lockstat -n $(psrinfo | wc -l) -";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let view = LockstatView {
        machine: Machine { cpus: args.cpus, elapsed_s: args.elapsed, spin_ns: args.spin_ns },
        by: args.by.map(|by| match by {
            By::Lock => lockstat::By::Lock,
            By::Caller => lockstat::By::Caller,
            By::Kind => lockstat::By::Kind,
        }),
        histograms: args.histogram,
        stacks: args.stacks,
    };
    if args.stderr.is_some() && args.files.len() > 1 {
        return Err(Exit::Usage.with("--stderr can be used with one FILE only"));
    }
    source::each(&args.files, !global.json && !args.csv, out, &mut |source, out| {
        let Source { path, name, input, .. } = source;
        let mut keeper = args.keep.begin("lockstat");
        let (mut elapsed_s, mut runs, mut unknown) = (0.0, 0_u32, false);
        let input = with_stderr(input, args)?;
        let mut notes = Notes::about(&name);
        let mut receiver: Box<dyn Runs + '_> = if global.json {
            Box::new(json::Lockstat::new(out, view, &name))
        } else if args.csv {
            Box::new(csv::Lockstat::new(out, view))
        } else {
            Box::new(text::Lockstat::new(out, view))
        };
        let end = lockstat::read(input, &mut |found| {
            match found {
                Found::Run(run) => {
                    for remark in text::lockstat_remarks(run, &view) {
                        notes.remark(&remark);
                    }
                    let impossible = lockstat::judge(run, &view.machine).impossible(&view.machine);
                    for note in &impossible {
                        notes.impossible(note);
                    }
                    if let (Some(keeper), Some(note)) = (&mut keeper, impossible.first()) {
                        keeper.taint(format!("line {note}"));
                    }
                    if let Some(keeper) = &mut keeper {
                        // Runs in one file follow each other: each is placed at its end.
                        let known_s = run.elapsed_s.or(args.elapsed);
                        (runs, unknown) = (runs + 1, unknown || known_s.is_none());
                        if runs > 1 && unknown {
                            keeper.refuse("the duration of each run is unknown: give --elapsed SECONDS");
                        }
                        elapsed_s += known_s.unwrap_or(0.0);
                        if let Some(lost) = run.lost.first() {
                            keeper.taint(format!("records were lost ({lost})"));
                        }
                        #[expect(clippy::cast_possible_truncation, reason = "to the nearest millisecond")]
                        let t_ms = (1e3 * elapsed_s) as i64;
                        keeper.add(t_ms, |stamp, into| {
                            import::series::lockstat(run, &view.machine, stamp, into);
                        });
                    }
                    receiver.run(run)?;
                }
                Found::Note(note) => notes.note(&note),
            }
            Ok(())
        });
        receiver.end(end.as_ref().err())?;
        end.map_err(|error| source::failed(&name, error))?;
        keeper.map_or(Ok(()), |keeper| keeper.seal(&[path], global))?;
        notes.verdict()
    })
}

/// Appends lockstat's standard error to its output, so that line numbers stay the same.
fn with_stderr(input: Input<'static>, args: &Args) -> anyhow::Result<Input<'static>> {
    let Some(path) = &args.stderr else { return Ok(input) };
    let said = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(match input {
        Input::Whole(from) => Input::Whole(Box::new(from.chain(&b"\n"[..]).chain(said))),
        Input::Live { from, pause } => {
            Input::Live { from: Box::new(from.chain(&b"\n"[..]).chain(said)), pause }
        }
    })
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number above 0".into()),
    }
}
