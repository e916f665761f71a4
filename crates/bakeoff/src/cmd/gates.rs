//! Files that the result of a comparison is written to besides standard output: `JUnit`, summary, badge.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use analysis::{Comparisons, GateOutcome, GateResult, is_answered};
use anyhow::Context as _;
use archive::whole_file;
use record::bakeoff::Bakeoff;
use record::gate::Gate;
use record::run::{RunHeader, RunState};
use report::badge::Sense;

use crate::cmd::output_files::{self, OutputFile};
use crate::exit::{Exit, reader_has_gone};
use crate::screen::Screen;

/// Files for continuous integration.
#[derive(Debug, clap::Args)]
pub(crate) struct Outputs {
    #[arg(long, value_name = "FILE", help = "Write the gates as JUnit XML, one test case per gate")]
    junit: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        help = "Append the result as Markdown to this file; default: $GITHUB_STEP_SUMMARY, if it is set"
    )]
    summary: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        help = "Write the answer as a badge: SVG if FILE ends in .svg, else the JSON of a Shields endpoint"
    )]
    badge: Option<PathBuf>,
}

impl Outputs {
    /// Whether an option names a file.
    pub(crate) fn are_given(&self) -> bool {
        self.junit.is_some() || self.summary.is_some() || self.badge.is_some()
    }
}

/// The result of a comparison, as the files state it.
pub(crate) struct Told<'a> {
    pub(crate) title: &'a str,
    /// The run that was measured, if it is one.
    pub(crate) header: Option<&'a RunHeader>,
    /// The answer, in plain text.
    pub(crate) answer: &'a str,
    /// The reason that the measurement is not whole, if it is not.
    pub(crate) trouble: Option<&'a str>,
    /// A table below the answer of the summary, in Markdown; may be empty.
    pub(crate) table: &'a str,
    /// Whether the verdicts answer the question.
    pub(crate) is_decided: bool,
    pub(crate) gates: &'a [GateResult],
}

/// File of a step's summary in GitHub Actions.
fn step_summary() -> Option<PathBuf> {
    std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Parses `p99 <= 20ms`.
pub(crate) fn gate(text: &str) -> Result<Gate, String> {
    Gate::read(text).map_err(|wrong| wrong.to_string())
}

impl Outputs {
    /// The files that are written.
    pub(crate) fn files(&self) -> impl Iterator<Item = OutputFile> {
        let named = |option, path, is_appended| OutputFile { option, path, is_appended };
        let summary = self.summary.clone().map(|path| named("--summary", path, true));
        let junit = self.junit.clone().map(|path| named("--junit", path, false));
        let badge = self.badge.clone().map(|path| named("--badge", path, false));
        let of_step = || step_summary().map(|path| named("$GITHUB_STEP_SUMMARY", path, true));
        junit.into_iter().chain(summary.or_else(of_step)).chain(badge)
    }

    /// Checks before the first trial that the files can be written after the last one.
    ///
    /// - `others`: files that the measurement reads or writes, with the option or argument that names them.
    pub(crate) fn check(&self, others: &[(&str, PathBuf)]) -> anyhow::Result<()> {
        output_files::check(&self.files().collect::<Vec<_>>(), others)
    }

    /// Writes the files of a bake-off.
    pub(crate) fn write_bakeoff(&self, bakeoff: &Bakeoff, comparisons: &Comparisons) -> anyhow::Result<()> {
        let answer = report::text::bakeoff_answer(bakeoff, comparisons);
        let lost = bakeoff.trials.len() - comparisons.dropped_trials(bakeoff) - bakeoff.sealed().count();
        let of_trials =
            (lost > 0).then(|| format!("{lost} of {} trials are not sealed", bakeoff.trials.len()));
        let is_whole = bakeoff.header.state == RunState::Sealed;
        self.write(&Told {
            title: &bakeoff.header.title,
            header: Some(&bakeoff.header),
            answer: &answer,
            trouble: if is_whole { of_trials.as_deref() } else { Some(&answer) },
            table: "",
            is_decided: is_answered(comparisons.pairs.iter().map(|pair| pair.verdict)),
            gates: &comparisons.gates,
        })
    }

    /// Writes the files of a measurement that ended before it had a result, so that those of an earlier one
    /// do not pass for its own. Returns the error.
    ///
    /// - `header`: of the measurement, whatever its state.
    pub(crate) fn write_failed(&self, header: &RunHeader, error: anyhow::Error) -> anyhow::Error {
        let header = without_result(header, &error);
        let word = if header.state == RunState::Interrupted { "INTERRUPTED" } else { "FAILED" };
        let answer = format!("{word}: {error:#}");
        let written = self.write(&Told {
            title: &header.title,
            header: Some(&header),
            answer: &answer,
            trouble: Some(&answer),
            table: "",
            is_decided: false,
            gates: &[],
        });
        if let Err(unwritten) = written {
            tell(&unwritten);
        }
        error
    }

    /// Writes the files, and annotations if the run is a step of GitHub Actions.
    pub(crate) fn write(&self, told: &Told<'_>) -> anyhow::Result<()> {
        let junit = self.junit.as_ref().map(|path| {
            let suite = report::gates::junit::suite(told.title, told.header, told.trouble, told.gates);
            write(path, suite.as_bytes())
        });
        let summary = self.summary.clone().or_else(step_summary).map(|path| {
            let Told { title, answer, trouble, table, gates, .. } = *told;
            let text = report::gates::github::summary(title, answer, trouble, table, gates);
            let written = output_files::to_append(&path).and_then(|mut file| file.write_all(text.as_bytes()));
            written.with_context(|| format!("appending to {}", path.display()))
        });
        let badge = self.badge.as_ref().map(|path| write(path, badge(path, told).as_bytes()));
        if std::env::var_os("GITHUB_ACTIONS").is_some_and(|set| set == "true") {
            // On standard error: GitHub reads both, and standard output may be a JSON document.
            let mut screen = Screen::new();
            for line in report::gates::github::annotations(told.trouble, told.gates) {
                screen.line(&line);
            }
        }
        all_of([junit, summary, badge].into_iter().flatten())
    }
}

/// The header of a measurement that this error ended before it had a result.
pub(crate) fn without_result(header: &RunHeader, error: &anyhow::Error) -> RunHeader {
    let is_interrupted = Exit::of(error) == Exit::Interrupted;
    let state = if is_interrupted { RunState::Interrupted } else { RunState::Failed };
    RunHeader { state, reason: Some(format!("{error:#}")), ..header.clone() }
}

/// The first error of several steps; later errors are printed. A closed pipe on standard output is ignored.
pub(crate) fn all_of(steps: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut errors = steps.into_iter().filter_map(Result::err).filter(|error| !reader_has_gone(error));
    let Some(first) = errors.next() else { return Ok(()) };
    errors.for_each(|error| tell(&error));
    Err(first)
}

/// The exit code of a result, after the steps that print and write it. If one fails, the result's own code
/// counts, unless it is good.
pub(crate) fn ended(exit: Exit, steps: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<Exit> {
    match all_of(steps) {
        Err(error) if exit == Exit::Good => Err(error),
        Err(error) => {
            tell(&error);
            Ok(exit)
        }
        Ok(()) => Ok(exit),
    }
}

/// Prints an error that does not decide the exit code.
fn tell(error: &anyhow::Error) {
    Screen::new().line(&format!("bakeoff: {error:#}"));
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    whole_file::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The badge of an answer: SVG, or the document of an endpoint.
fn badge(path: &Path, told: &Told<'_>) -> String {
    let state = told.header.map_or(RunState::Sealed, |header| header.state);
    let sense = match (report::gates::worst(told.gates), state) {
        (_, RunState::Invalid | RunState::Failed) => Sense::Bad,
        (Some(worst), RunState::Sealed) => Sense::of_gates(worst),
        (None, RunState::Sealed) if told.is_decided && told.trouble.is_none() => Sense::Good,
        _ => Sense::Doubt,
    };
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg")) {
        report::badge::svg("bakeoff", told.answer, sense)
    } else {
        format!("{:#}\n", report::badge::endpoint("bakeoff", told.answer, sense))
    }
}

/// The exit code of the gates; `None` without gates, or if all pass.
pub(crate) fn exit(comparisons: &Comparisons) -> Option<Exit> {
    exit_of(&comparisons.gates)
}

/// The exit code of these gates; `None` without gates, or if all pass.
pub(crate) fn exit_of(gates: &[GateResult]) -> Option<Exit> {
    match report::gates::worst(gates)? {
        GateOutcome::Fail => Some(Exit::Bad),
        GateOutcome::Inconclusive => Some(Exit::Inconclusive),
        GateOutcome::Pass => None,
    }
}
