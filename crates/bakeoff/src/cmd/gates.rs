//! Options of gates for `run` and `resume`, and where their results go besides standard output.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use analysis::{Comparisons, GateOutcome, GateResult};
use anyhow::Context as _;
use archive::whole_file;
use record::bakeoff::Bakeoff;
use record::gate::Gate;
use record::run::{RunHeader, RunState};
use report::badge::Sense;

use crate::exit::Exit;
use crate::screen::Screen;

/// Files for continuous integration.
#[derive(Debug, clap::Args)]
pub(crate) struct Outputs {
    #[arg(long, value_name = "FILE", help = "Write the gates as JUnit XML, one test case a gate")]
    junit: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        help = "Append the result as Markdown to this file; default: $GITHUB_STEP_SUMMARY, if it is set"
    )]
    summary: Option<PathBuf>,
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
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.junit.clone().into_iter().chain(self.summary.clone().or_else(step_summary))
    }

    /// Checks before the first trial that the files can be written after the last one.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let options = [("--junit", &self.junit), ("--summary", &self.summary)];
        for (option, path) in options.into_iter().filter_map(|(o, p)| Some((o, p.as_ref()?))) {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if path.is_dir() || !folder.is_dir() {
                let what = if path.is_dir() { "is a folder" } else { "is in a folder that does not exist" };
                return Err(Exit::Usage.with(format!("{option}: {} {what}", path.display())));
            }
        }
        Ok(())
    }

    /// Writes the files, and annotations if the run is a step of GitHub Actions.
    pub(crate) fn write(&self, bakeoff: &Bakeoff, comparisons: &Comparisons) -> anyhow::Result<()> {
        let document = || report::gates::junit::document(bakeoff, &comparisons.gates);
        let summary = || report::gates::github::summary(bakeoff, comparisons);
        self.write_all(&document, &summary, &comparisons.gates)
    }

    /// Variant of [`Self::write`] for gates outside of a bake-off.
    ///
    /// - `headline`: the answer, in Markdown.
    pub(crate) fn write_gates(
        &self,
        title: &str,
        header: Option<&RunHeader>,
        headline: &str,
        gates: &[GateResult],
    ) -> anyhow::Result<()> {
        let document = || report::gates::junit::suite(title, header, gates);
        let summary = || report::gates::github::summary_of(title, headline, gates);
        self.write_all(&document, &summary, gates)
    }

    fn write_all(
        &self,
        document: &dyn Fn() -> String,
        summary: &dyn Fn() -> String,
        gates: &[GateResult],
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.junit {
            whole_file::write(path, document().as_bytes())
                .with_context(|| format!("writing {}", path.display()))?;
        }
        if let Some(path) = &self.summary.clone().or_else(step_summary) {
            let text = summary();
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| format!("appending to {}", path.display()))?;
        }
        if std::env::var_os("GITHUB_ACTIONS").is_some_and(|set| set == "true") {
            // On standard error: GitHub reads both, and standard output may be a JSON document.
            let mut screen = Screen::new();
            for line in report::gates::github::annotations(gates) {
                screen.line(&line);
            }
        }
        Ok(())
    }
}

/// The exit code of the gates; `None` without gates, or if all pass.
pub(crate) fn exit(comparisons: &Comparisons) -> Option<Exit> {
    exit_of(&comparisons.gates)
}

/// The sense of a badge: that of the worst gate, or of the state without gates.
pub(crate) fn sense(gates: &[GateResult], state: RunState) -> Sense {
    match (report::gates::worst(gates), state) {
        (_, RunState::Invalid | RunState::Failed) => Sense::Bad,
        (Some(worst), RunState::Sealed) => Sense::of_gates(worst),
        (None, RunState::Sealed) => Sense::Good,
        _ => Sense::Doubt,
    }
}

/// Writes the badge of an answer: SVG, or the document of an endpoint.
pub(crate) fn write_badge(path: Option<&Path>, answer: &str, sense: Sense) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let is_svg = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg"));
    let text = if is_svg {
        report::badge::svg("bakeoff", answer, sense)
    } else {
        format!("{:#}\n", report::badge::endpoint("bakeoff", answer, sense))
    };
    whole_file::write(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// The exit code of these gates; `None` without gates, or if all pass.
pub(crate) fn exit_of(gates: &[GateResult]) -> Option<Exit> {
    match report::gates::worst(gates)? {
        GateOutcome::Fail => Some(Exit::Bad),
        GateOutcome::Inconclusive => Some(Exit::Inconclusive),
        GateOutcome::Pass => None,
    }
}
