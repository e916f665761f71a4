//! Commands against each other: measured now, archived, printed.

use std::io::Write;
use std::path::Path;

use analysis::commands::{Results, rounds_to_measure};
use analysis::is_answered;
use anyhow::Context as _;
use archive::whole_file;
use plan::Expanded;
use record::clock::WallAnchor;
use record::commands::{Compared, Comparison, Phase, Rules};
use record::environment::Environment;
use record::run::{Run, RunHeader, RunKind, RunState};
use report::text::Detail;
use runner::{CommandPlan, CommandsEvent, CommandsPlan, Conducted, Early};

use super::args::Args;
use super::shown::print_results;
use crate::cmd::gates::{self, Told};
use crate::cmd::run::of_runner;
use crate::cmd::{Global, command_line, experiment};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::signals;

pub(super) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let expanded = args.expanded()?;
    let plan = plan_of(args, &expanded)?;
    let anchor = WallAnchor::now();
    let environment = crate::cmd::load::environment(global);
    let header = header(args, &expanded, anchor);
    let writer =
        if args.command.no_archive { None } else { Some(global.archive_for_writing()?.begin(&header)?) };

    signals::stop_on_interrupt()?;
    let mut progress = Progress { screen: Screen::new(), phase: "" };
    let beside_others = args.command.alone.beside_others;
    let conducted =
        runner::commands(&plan, anchor, beside_others, &signals::STOP, &rounds_to_measure, &mut |event| {
            progress.show(event);
        });
    progress.screen.clear();
    let conducted =
        conducted.map_err(|error| unmeasured(of_runner(error), &header, &plan, args, global, out))?;
    for note in &conducted.notes {
        progress.screen.line(&format!("bakeoff compare: {note}"));
    }
    let (run, comparison) = run_of(header, environment, conducted);
    // The run is archived first, so a failure to print does not lose it.
    let kept = writer.map(|writer| writer.seal(&run)).transpose();
    let id = matches!(kept, Ok(Some(_))).then_some(run.header.id);
    let results = analysis::commands::of_run(&run.header, &comparison);
    let printed = print_results(&run.header, &comparison, &results, id, detail(args), global, out);
    let written = write_files(args, &run.header, &comparison, &results);
    let kept = kept.map(drop).map_err(Into::into);
    gates::ended(exit_of(&run.header, &results), [kept, printed, written])
}

/// Writes the files of a comparison that ended before its first measured round, and prints the document if
/// the user asked for one. Returns the error.
fn unmeasured(
    error: anyhow::Error,
    header: &RunHeader,
    plan: &CommandsPlan,
    args: &Args,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Error {
    let printed = if global.json {
        let (header, comparison) = (gates::without_result(header, &error), &plan.comparison);
        let results = analysis::commands::of_run(&header, comparison);
        print_results(&header, comparison, &results, None, detail(args), global, out)
    } else {
        Ok(())
    };
    let error = args.outputs.write_failed(header, error);
    if let Err(unprinted) = gates::all_of([printed]) {
        Screen::new().line(&format!("bakeoff: {unprinted:#}"));
    }
    error
}

pub(super) fn detail(args: &Args) -> Detail {
    if args.verbose { Detail::Full } else { Detail::Brief }
}

fn plan_of(args: &Args, expanded: &Expanded) -> anyhow::Result<CommandsPlan> {
    let options = &args.command;
    let gates = args.gates_of_commands()?;
    let count = expanded.commands.len();
    let command = |(i, line): (usize, &plan::CommandLine)| -> anyhow::Result<CommandPlan> {
        Ok(CommandPlan {
            words: line.words.clone(),
            output: options.output(i, count)?,
            setup: line.setup.clone(),
            prepare: line.prepare.clone(),
            conclude: line.conclude.clone(),
            cleanup: line.cleanup.clone(),
        })
    };
    let compared =
        |line: &plan::CommandLine| Compared { text: line.text.clone(), parameters: line.parameters.clone() };
    Ok(CommandsPlan {
        comparison: Comparison {
            commands: expanded.commands.iter().map(compared).collect(),
            reference: expanded.reference,
            rules: Rules { rope_ratio: args.rope, alpha: 0.05, seed: experiment::seed(options.seed), gates },
            rounds_planned: 0,
            settings: options.settings(&expanded.shell),
            rounds: Vec::new(),
        },
        commands: expanded.commands.iter().enumerate().map(command).collect::<Result<_, _>>()?,
        input: options.input(),
        failures: options.failures(),
        warmup: options.warmup,
        rounds: options.blocks,
        time: options.time,
        timeout: options.timeout,
        by_events: options.events,
    })
}

fn header(args: &Args, expanded: &Expanded, anchor: WallAnchor) -> RunHeader {
    let texts: Vec<&str> = expanded.commands.iter().map(|command| command.text.as_str()).collect();
    let title = args.command.title.clone().unwrap_or_else(|| texts.join(" | "));
    let labels = args.command.labels.iter().cloned().collect();
    RunHeader { labels, ..RunHeader::running(RunKind::Compare, anchor, title, command_line(None)) }
}

fn run_of(header: RunHeader, environment: Environment, conducted: Conducted) -> (Run, Comparison) {
    let Conducted { comparison, ended, throttled, shared, notes: _ } = conducted;
    let quota = throttled.as_ref().ok().filter(|t| t.is_any()).map(ToString::to_string);
    let mut header = match ended {
        None => header.ended(quota),
        Some(Early::Stopped) => header.interrupted(),
        Some(Early::Failed(why)) => RunHeader { state: RunState::Failed, reason: Some(why), ..header },
    };
    if shared {
        header.labels.insert("beside-others".to_owned(), "true".to_owned());
    }
    let host = environment.fact("host.name").unwrap_or("localhost").to_owned();
    let mut environment = environment;
    environment.facts.extend(comparison.facts());
    let series = comparison.samples(&host);
    (Run { series, throttled, ..Run::unmeasured(header, environment) }, comparison)
}

/// Writes the exports and the files for continuous integration.
pub(super) fn write_files(
    args: &Args,
    header: &RunHeader,
    comparison: &Comparison,
    results: &Results,
) -> anyhow::Result<()> {
    let write = |path: &Path, bytes: &[u8]| {
        whole_file::write(path, bytes).with_context(|| format!("writing {}", path.display()))
    };
    let json = args.command.export_json.as_ref().map(|path| {
        let document = report::exports::hyperfine_json(comparison, results);
        write(path, format!("{document:#}\n").as_bytes())
    });
    let csv = args.command.export_csv.as_ref().map(|path| {
        let mut table = Vec::new();
        report::exports::csv(&mut table, comparison, results)?;
        write(path, &table)
    });
    let markdown = args.command.export_markdown.as_ref();
    let markdown =
        markdown.map(|path| write(path, report::exports::markdown(comparison, results).as_bytes()));
    let answer = report::text::commands_answer(header, comparison, results);
    let for_integration = args.outputs.write(&Told {
        title: &header.title,
        header: Some(header),
        answer: &answer,
        trouble: (header.state != RunState::Sealed).then_some(answer.as_str()),
        table: &report::exports::markdown(comparison, results),
        is_decided: is_answered(results.pairs.iter().map(|pair| pair.verdict)),
        gates: &results.gates,
    });
    gates::all_of([json, csv, markdown, Some(for_integration)].into_iter().flatten())
}

/// The exit code of a comparison: the same when it is measured and when it is read from the archive.
pub(super) fn exit_of(header: &RunHeader, results: &Results) -> Exit {
    match header.state {
        RunState::Interrupted => Exit::Interrupted,
        RunState::Failed => Exit::ServerFailed,
        RunState::Invalid => Exit::Invalid,
        _ => gates::exit_of(&results.gates).unwrap_or(Exit::Good),
    }
}

/// Progress for the user.
struct Progress {
    screen: Screen,
    phase: &'static str,
}

impl Progress {
    fn show(&mut self, event: &CommandsEvent<'_>) {
        match event {
            CommandsEvent::Doing(what) => self.screen.parts(what, 1),
            CommandsEvent::Phase(phase, rounds) => {
                self.phase = match phase {
                    Phase::WarmUp => "warm-up",
                    Phase::Pilot => "pilot",
                    Phase::Measured => "rounds",
                };
                self.screen.parts(self.phase, (*rounds).into());
                // Without a bar, one line tells how long it takes.
                if *phase == Phase::Measured && !self.screen.is_bar() {
                    self.screen.line(&format!("measuring {rounds} rounds"));
                }
            }
            CommandsEvent::Rounds(done) => self.screen.at((*done).into()),
        }
    }
}
