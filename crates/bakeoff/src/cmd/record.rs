//! `bakeoff record`: instruments around a command, or for a period of time.

use std::io::Write;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use record::clock::WallAnchor;
use record::command::{CommandEnd, Recorded};
use record::environment::Environment;
use record::nearest::did_you_mean;
use record::quantity;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use runner::{Around, RecordError, RecordSettings, Recording};

use crate::cmd::{Global, command_line, print_json};
use crate::exit::Exit;
use crate::screen::{self, Countdown, Screen};
use crate::{confine, signals};

/// Record the cost of a command, or of the machine for some time: CPU time by events, /proc and rusage;
/// archived
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("around").required(true).args(["time", "command"]))]
pub(crate) struct Args {
    /// Record the machine for this time, without a command
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = some_time)]
    time: Option<Duration>,

    /// Length of an interval of the series
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = crate::cmd::intervals::interval)]
    interval: Duration,

    /// Instruments, separated by commas, or all
    #[arg(long, alias = "instruments", value_name = "WHAT", default_value = "cpu", value_parser = observed)]
    observe: Observed,

    /// One-line description of the run
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Label to find the run by; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", conflicts_with = "no_archive", value_parser = crate::cmd::load::key_value)]
    labels: Vec<(String, String)>,

    /// Do not store the run in the archive
    #[arg(long)]
    no_archive: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff record -- make -j4
  bakeoff record --time 10s
  bakeoff record --title 'nightly build' -- sh -c 'make clean && make'
The command keeps its input and output; with --json its output goes to standard error. Exit code 1: the command did not
exit with 0 (its exit code is shown); 3: a CPU quota stopped it, so the run is INVALID.";

/// Instruments besides the CPU's, which is always attached.
#[derive(Debug, Clone)]
pub(crate) struct Observed(pub(crate) Vec<probes::observe::Kind>);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let anchor = WallAnchor::now();
    let environment = crate::cmd::load::environment(global);
    let header = header(args, anchor);
    let writer = if args.no_archive { None } else { Some(global.archive_for_writing()?.begin(&header)?) };

    signals::stop_on_interrupt()?;
    let settings = RecordSettings {
        interval: args.interval,
        others: args.observe.0.clone(),
        host: environment.fact("host.name").unwrap_or("localhost").to_owned(),
        anchor,
    };
    let mut screen = Screen::new();
    // A command has the terminal for itself.
    let countdown = args.time.map(|time| Countdown::of(&mut screen, "recording", time));
    let recording =
        runner::record(around(args, global)?, &settings, &signals::STOP, &confine::after_setup_of_load)
            .map_err(of_record);
    drop(countdown);
    screen.clear();
    let recording = recording?;
    for note in &recording.notes {
        screen.line(&format!("bakeoff record: {note}"));
    }
    let run = run_of(header, environment, recording);
    // The run is archived first, so a failure to print does not lose it.
    let kept = writer.map(|writer| writer.seal(&run)).transpose();
    let id = matches!(kept, Ok(Some(_))).then_some(run.header.id);
    print(&run, id, global, out)?;
    if let Some(folder) = kept? {
        screen.line(&format!("stored as {} in {}", run.header.id, folder.display()));
    }
    Ok(exit_of(&run))
}

/// Prints the recorded values of a run.
pub(crate) fn print(
    run: &Run,
    id: Option<RunId>,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let recorded = run.recorded.as_ref().expect("the caller has one");
    if global.json {
        let samples = run.unread_series().map_or(Ok(run.series.len()), |why| Err(why.clone()));
        print_json(out, &report::json::command(id, &run.header.title, recorded, samples, &run.throttled))?;
    } else {
        report::text::command(out, recorded, screen::style())?;
        report::text::instruments(out, &run.instruments, screen::style())?;
        if let Some(why) = run.unread_series() {
            writeln!(out, "numbers over time are left out: {why}")?;
        }
        if run.header.state == RunState::Invalid {
            writeln!(out, "INVALID: {}", run.header.reason.as_deref().unwrap_or_default())?;
        }
    }
    Ok(out.flush()?)
}

fn around(args: &Args, global: &Global) -> anyhow::Result<Around> {
    let Some((program, words)) = args.command.split_first() else {
        return Ok(Around::Time(args.time.unwrap_or_default()));
    };
    let mut command = Command::new(program);
    command.args(words);
    if global.json {
        // Standard output holds one document only.
        command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
    }
    Ok(Around::Command(command))
}

fn run_of(header: RunHeader, environment: Environment, recording: Recording) -> Run {
    let Recording { recorded, cpu, seen: instruments, series, throttled, notes: _, stopped } = recording;
    let quota = throttled.as_ref().ok().filter(|throttled| throttled.is_any());
    let header = if stopped { header.interrupted() } else { header.ended(quota.map(ToString::to_string)) };
    let recorded = Some(recorded);
    Run { cpu, instruments, series, recorded, throttled, ..Run::unmeasured(header, environment) }
}

fn header(args: &Args, anchor: WallAnchor) -> RunHeader {
    let what = match args.time {
        Some(time) => format!("the machine for {} s", time.as_secs_f64()),
        None => record::run::command_line(args.command.iter().cloned()),
    };
    let title = args.title.clone().unwrap_or(what);
    let labels = args.labels.iter().cloned().collect();
    RunHeader { labels, ..RunHeader::running(RunKind::Record, anchor, title, command_line(None)) }
}

fn exit_of(run: &Run) -> Exit {
    match (run.header.state, run.recorded.as_ref().map(|Recorded { end, .. }| *end)) {
        (RunState::Interrupted, _) => Exit::Interrupted,
        (RunState::Invalid, _) => Exit::Invalid,
        (_, Some(CommandEnd::Code(0) | CommandEnd::NoCommand)) => Exit::Good,
        _ => Exit::Bad,
    }
}

fn of_record(error: RecordError) -> anyhow::Error {
    match &error {
        RecordError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Exit::Usage.with(error)
        }
        _ => error.into(),
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    match quantity::duration(text) {
        Ok(Duration::ZERO) => Err("must be longer than 0".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

/// Reads `cpu,locks` or `all`.
pub(crate) fn observed(text: &str) -> Result<Observed, String> {
    use probes::observe::{KINDS, named};
    if text == "all" {
        return Ok(Observed(KINDS.to_vec()));
    }
    named(text.split(',')).map(Observed).map_err(|word| {
        let known: Vec<&str> =
            ["cpu"].into_iter().chain(KINDS.iter().map(|k| k.name)).chain(["all"]).collect();
        match did_you_mean(&word, known.iter().copied()) {
            meant if meant.is_empty() => {
                format!("unknown instrument `{word}`: expected {}", known.join(", "))
            }
            meant => format!("unknown instrument `{word}`{meant}"),
        }
    })
}
