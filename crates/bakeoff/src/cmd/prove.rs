//! `bakeoff prove`: the values of each instrument for work with a known truth, on this machine.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use probes::prove::{Bench, Event, SUBJECTS, Settings, Subject};
use record::clock::WallAnchor;
use record::missing::Missing;
use record::nearest::did_you_mean;
use record::proof::{Proof, ProofVerdict, Unit};
use record::run::{Run, RunHeader, RunId, RunKind};

use crate::cmd::{Global, command_line, print_json};
use crate::exit::Exit;
use crate::load_options::{DataOptions, PaceOptions};
use crate::screen::{self, Screen};
use crate::signals;

/// Calibrate the instruments and the load generator on this machine, against work with a known truth
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = long_about())]
pub(crate) struct Args {
    /// What to prove; by default everything
    #[arg(value_name = "WHAT", value_parser = what)]
    what: Vec<What>,

    /// Time for which each workload is watched, in whole seconds: other tools accept no fractions
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// CPU on which work hides; by default the last one that this process may use
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,

    /// Do not run other tools (mpstat, vmstat, pidstat, top, ...) for comparison
    #[arg(long)]
    no_peers: bool,

    /// Do not store the proofs in the archive
    #[arg(long)]
    no_archive: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff prove                everything; keep the machine idle meanwhile
  bakeoff prove cpu            the CPU's instruments, and mpstat, vmstat, pidstat and top beside them
  bakeoff prove load           the load generator against a target that does nothing
Exit code 1: an instrument of bakeoff errs by more than its limit; 3: a CPU quota took effect; 4: the machine was too busy\nto tell.";

/// Subjects of proofs: the probes' subjects, and the load generator.
#[derive(Debug, Clone, Copy)]
enum What {
    Probe(&'static Subject),
    Load,
}

/// Loads that prove the generator, in the form that a user types.
const LOADS: [(&str, &str); 4] = [
    ("100/s, 1 thread", "--rate 100 --threads 1"),
    ("1,000/s, 8 threads", "--rate 1000 --threads 8"),
    ("1,000/s, 8 threads, own", "--rate 1000 --threads 8 --schedule own --arrivals period"),
    ("10,000/s, 4 threads", "--rate 10000 --threads 4"),
];

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let anchor = WallAnchor::now();
    let all: Vec<What> = SUBJECTS.iter().map(What::Probe).chain([What::Load]).collect();
    let what = if args.what.is_empty() { &all } else { &args.what };
    let header = header(what, anchor);
    let writer = if args.no_archive { None } else { Some(global.archive_for_writing()?.begin(&header)?) };

    signals::stop_on_interrupt()?;
    let mut screen = Screen::new();
    let mut proofs = Vec::new();
    let quota = probes::limits::Limits::of_self().watch();
    for one in what {
        match one {
            What::Probe(subject) => probe(subject, args, &mut screen, &mut proofs)?,
            What::Load => generator(args, &mut screen, &mut proofs)?,
        }
    }
    let throttled = quota.so_far();
    screen.clear();
    if let Some(why) = throttled.as_ref().err().filter(|_| quota.has_begun()) {
        screen.line(&format!("bakeoff prove: {why}"));
    }

    let interrupted = signals::STOP.is_requested();
    // A quota that takes effect makes the known truth wrong for every instrument.
    let quota = throttled.as_ref().ok().filter(|throttled| throttled.is_any()).map(ToString::to_string);
    let header = if interrupted { header.interrupted() } else { header.ended(quota.clone()) };
    let environment = probes::environment::read(Path::new("/"));
    let run = Run { throttled, proofs, ..Run::unmeasured(header, environment) };
    // The run is archived first, so a failure to print does not lose it.
    let kept = writer.map(|writer| writer.seal(&run)).transpose();
    let id = matches!(kept, Ok(Some(_))).then_some(run.header.id);
    print(&run.proofs, id, global, out)?;
    if let Some(folder) = kept? {
        screen.line(&format!("stored as {} in {}", run.header.id, folder.display()));
    }
    Ok(match quota {
        _ if interrupted => Exit::Interrupted,
        Some(said) => {
            screen.line(&format!("INVALID: {said}"));
            Exit::Invalid
        }
        None => exit_of(&run.proofs),
    })
}

/// Prints the proofs of a run.
pub(crate) fn print(
    proofs: &[Proof],
    id: Option<RunId>,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if global.json {
        print_json(out, &report::json::prove(id, proofs))?;
    } else {
        report::text::proofs(out, proofs, screen::style())?;
    }
    Ok(out.flush()?)
}

fn exit_of(proofs: &[Proof]) -> Exit {
    let ours: Vec<ProofVerdict> = proofs.iter().filter(|p| p.ours).map(Proof::verdict).collect();
    if ours.contains(&ProofVerdict::Fail) {
        Exit::Bad
    } else if proofs.iter().any(|p| p.ours && p.is_for_another_time()) {
        Exit::Inconclusive
    } else if ours.contains(&ProofVerdict::Pass) {
        Exit::Good
    } else {
        Exit::CannotHere
    }
}

fn probe(subject: &Subject, args: &Args, screen: &mut Screen, proofs: &mut Vec<Proof>) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let hog = |words: &[String]| {
        let mut command = Command::new(&program);
        command.arg("hog").args(words).arg("--ready");
        command
    };
    let mut on_event = |event: Event<'_>| match event {
        Event::Workload { name, number, of } => tell(screen, subject.name, name, number, of),
        Event::Proof(proof) => proofs.push(proof),
    };
    subject.prove(&mut Bench {
        settings: Settings { seconds: args.seconds, cpu: args.cpu, peers: !args.no_peers },
        hog: &hog,
        stopped: &|| signals::STOP.is_requested(),
        on_event: &mut on_event,
    });
    Ok(())
}

/// Options as `load` has them, so that what is proved is what users run.
#[derive(Debug, clap::Parser)]
struct LoadOptions {
    #[command(flatten)]
    data: DataOptions,

    #[command(flatten)]
    pace: PaceOptions,
}

fn generator(args: &Args, screen: &mut Screen, proofs: &mut Vec<Proof>) -> anyhow::Result<()> {
    for (number, (name, words)) in (1..).zip(LOADS) {
        if signals::STOP.is_requested() {
            return Ok(());
        }
        tell(screen, load::prove::SUBJECT, name, number, LOADS.len());
        let line = format!("load null: {words} --time {}s", args.seconds);
        let options = LoadOptions::try_parse_from(line.split(' '))?;
        match load::run(&options.pace.meant(&options.data, None, None)?.settings, &signals::STOP, &mut |_| {})
        {
            Ok(record) => proofs.extend(load::prove::prove(name, &record)),
            Err(_) if signals::STOP.is_requested() => {}
            Err(error) => proofs.push(cannot(name, &error)),
        }
    }
    Ok(())
}

fn cannot(workload: &str, error: &load::LoadError) -> Proof {
    let why = || Err(Missing::because(format!("the load could not be run: {error}")));
    Proof {
        subject: load::prove::SUBJECT.into(),
        instrument: "rate".into(),
        ours: true,
        workload: workload.into(),
        truth: why(),
        found: why(),
        limit: 0.0,
        unit: Unit::PerS,
        cost_ratio: why(),
        remark: None,
    }
}

fn tell(screen: &mut Screen, subject: &str, name: &str, number: usize, of: usize) {
    if screen.is_bar() {
        screen.parts(&format!("prove {subject}: {name}"), of as u64);
        screen.at(number as u64 - 1);
    } else {
        screen.line(&format!("prove {subject} {number}/{of}: {name}"));
    }
}

fn header(what: &[What], anchor: WallAnchor) -> RunHeader {
    let names: Vec<&str> = what.iter().map(|w| w.name()).collect();
    let title = format!("proof of {}", names.join(", "));
    RunHeader::running(RunKind::Prove, anchor, title, command_line(None))
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Probe(subject) => subject.name,
            Self::Load => load::prove::SUBJECT,
        }
    }
}

fn what(text: &str) -> Result<What, String> {
    let probe = SUBJECTS.iter().find(|s| s.name == text).map(What::Probe);
    let found = probe.or_else(|| (text == load::prove::SUBJECT).then_some(What::Load));
    found.ok_or_else(|| {
        let known: Vec<&str> = SUBJECTS.iter().map(|s| s.name).chain([load::prove::SUBJECT]).collect();
        format!("expected one of {}{}", known.join(", "), did_you_mean(text, known.iter().copied()))
    })
}

fn long_about() -> String {
    let subjects: Vec<String> =
        SUBJECTS.iter().map(|subject| format!("  {:8} {}\n", subject.name, subject.about)).collect();
    "Calibrate the instruments and the load generator on this machine: each measures work with a known \
     truth. Prints the truth, the measured value, its error, its cost and a verdict. The archive stores the \
     proofs; later runs on this machine cite them.\n\nWhat can be proved:\n"
        .to_owned()
        + &subjects.concat()
        + "  load     the generator against null:, its rate and its lateness"
}
