//! `bakeoff history import`: histories of other tools, stored beside the runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ::import::history::{History, HistoryValue};
use analysis::history::SUBJECT_LABEL;
use anyhow::Context as _;
use archive::{Archive, Filter};
use record::clock::WallAnchor;
use record::environment::Environment;
use record::labels;
use record::printable::printable;
use record::run::{Run, RunHeader, RunId, RunKind};
use record::series::Sample;
use serde_json::json;

use crate::cmd::load::key_value;
use crate::cmd::periods::{text, zone};
use crate::cmd::{Global, command_line, of_archive, print_json};
use crate::confine::Reader;
use crate::exit::{EndsWith as _, Exit};
use crate::moment;
use crate::screen::Screen;

/// Import a history from CSV, hyperfine, Google Benchmark, criterion or pytest-benchmark into the archive
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File; its format is detected
    file: PathBuf,

    /// Subject of a CSV file; by default the file's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Machine that was measured; by default as in the file, else unknown
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Time of the measurement, if the file has no dates (hyperfine, criterion): 2026-11-21T09:52:00Z, or a
    /// date; by default that of the file
    #[arg(long, value_name = "TIME")]
    at: Option<String>,

    /// Time zone of times without one, such as Europe/Berlin; by default this machine's
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Label to find the runs by; may be given more than once. `commit=...` names the version
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value)]
    labels: Vec<(String, String)>,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff history import nightly.csv               time, and a column for each metric
  bakeoff history import hyperfine.json --at 2026-11-21T03:00:00Z --label commit=8c1fe2";

/// Facts that describe an imported history.
const FORM: (&str, &str) = ("import.form", "history/1");
const CHECKSUM: &str = "import.sha256";
/// Most metrics that are named.
const NAMED_MAX: usize = 6;
/// Most values of one file.
const VALUES_MAX: usize = 1_000_000;

pub(super) fn run(args: &Args, verbose: bool, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    global.confine(Reader::default().reads_named(), "history", verbose)?;
    let file = args.file.display().to_string();
    let (zone, _) = zone(args.zone.as_deref())?;
    let written = std::fs::metadata(&args.file).and_then(|found| found.modified());
    let content = text(&file).ends_with(Exit::Usage)?;
    let read = ::import::history::read(&content, &args.file, &zone);
    let history = read.map_err(|error| format!("{file}:{error}")).ends_with(Exit::Usage)?;
    if history.values.is_empty() || history.values.len() > VALUES_MAX {
        let found = history.values.len();
        return Err(Exit::Usage.with(format!("{file} has {found} values; expected 1 to {VALUES_MAX}")));
    }
    if args.host.is_some() && history.values.iter().any(|value| value.host.is_some()) {
        return Err(Exit::Usage.with(format!("{file} names the machine of each value; leave out --host")));
    }
    let named = [
        ("--at", args.at.is_some() && history.values.iter().all(|value| value.at_unix_ns.is_some()), "time"),
        ("--name", args.name.is_some() && history.values.iter().all(|v| v.subject.is_some()), "subject"),
    ];
    if let Some((option, _, what)) = named.into_iter().find(|(_, is_idle, _)| *is_idle) {
        return Err(Exit::Usage.with(format!("{file} has the {what} of each value; leave out {option}")));
    }
    let asked = args.at.as_ref().map(|at| moment::read(at, &zone).map_err(|why| format!("--at: {why}")));
    let written = written.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let written = written.and_then(|since| u64::try_from(since.as_nanos()).ok());
    let undated = match asked.transpose().ends_with(Exit::Usage)? {
        Some(at_unix_ns) => at_unix_ns,
        None => written.unwrap_or_else(|| WallAnchor::now().unix_ns),
    };
    for note in &history.notes {
        Screen::new().line(&format!("bakeoff history: {}: {}", printable(&file), printable(note)));
    }
    let archive = global.archive_for_writing()?;
    let sha256 = archive::sha256(&mut content.as_bytes())?;
    let run = run_of(args, &history, &file, &sha256, undated);
    let id = match same(&archive, &run)? {
        Some(id) => id,
        None => seal(&archive, &run, &history, &content)?,
    };
    told(&run, id, &history, global, out)
}

/// The run that holds the values as series.
fn run_of(args: &Args, history: &History, file: &str, sha256: &str, undated_unix_ns: u64) -> Run {
    let at = |value: &HistoryValue| value.at_unix_ns.unwrap_or(undated_unix_ns);
    let first = history.values.iter().map(at).min().unwrap_or(undated_unix_ns);
    // Times of series are whole milliseconds.
    let anchor = WallAnchor { monotonic_ns: 0, unix_ns: first - first % 1_000_000 };
    let host = args.host.as_ref().or(history.host.as_ref()).map_or("unknown", String::as_str);
    let stem =
        Path::new(file).file_stem().map_or_else(|| file.to_owned(), |s| s.to_string_lossy().into_owned());
    let name = args.name.clone().unwrap_or(stem);
    let commit = args.labels.iter().find(|(key, _)| key == "commit");
    let sample = |value: &HistoryValue| {
        let subject = value.subject.as_deref().unwrap_or(&name);
        let own = value.labels.iter().chain(commit.filter(|_| value.labels.is_empty()));
        let all = std::iter::once((SUBJECT_LABEL, subject)).chain(own.map(|(k, v)| (k.as_str(), v.as_str())));
        Sample {
            t_ms: i64::try_from((at(value) - anchor.unix_ns) / 1_000_000).unwrap_or(i64::MAX),
            host: value.host.as_deref().unwrap_or(host).to_owned(),
            name: value.metric.clone(),
            labels: labels::written(all),
            value: value.value,
        }
    };
    let own = [
        ("import.tool", history.tool),
        FORM,
        ("import.source", file),
        ("import.host", host),
        (CHECKSUM, sha256),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let facts: BTreeMap<String, String> = history.facts.clone().into_iter().chain(own).collect();
    let title = format!("history of {name} ({})", history.tool);
    let begun = RunHeader::running(RunKind::Import, anchor, title, command_line(None));
    let header = RunHeader { labels: args.labels.iter().cloned().collect(), ..begun };
    let facts = facts.into_iter().map(|(name, value)| (name, Ok(value))).collect();
    let environment = Environment { facts, calibration: Vec::new() };
    Run {
        series: history.values.iter().map(sample).collect(),
        ..Run::unmeasured(header.ended(None), environment)
    }
}

/// The run of an earlier import of the same values.
fn same(archive: &Archive, run: &Run) -> anyhow::Result<Option<RunId>> {
    let filter = Filter { kind: Some(RunKind::Import), ..Filter::default() };
    for listed in archive.list(&filter)? {
        // One that does not read is not the same.
        let Ok(summary) = archive.run_summary(listed.header.id) else { continue };
        if summary.environment.fact(CHECKSUM) != run.environment.fact(CHECKSUM) {
            continue;
        }
        if archive.run(listed.header.id).is_ok_and(|earlier| earlier.series == run.series) {
            return Ok(Some(listed.header.id));
        }
    }
    Ok(None)
}

fn seal(archive: &Archive, run: &Run, history: &History, content: &str) -> anyhow::Result<RunId> {
    let mut writer = archive.begin(&run.header).map_err(of_archive)?;
    let end = if history.tool == "csv" { "csv" } else { "json" };
    writer.add_file(&format!("{}.{end}", history.tool), &mut content.as_bytes())?;
    writer.seal(run).context("storing the history")?;
    Ok(run.header.id)
}

fn told(
    run: &Run,
    id: RunId,
    history: &History,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let is_new = id == run.header.id;
    let mut metrics: Vec<&str> = history.values.iter().map(|value| value.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    if global.json {
        let document = json!({
            "schema": "bakeoff.history-import/1", "run": id.to_string(), "tool": history.tool,
            "values": history.values.len(), "metrics": metrics, "notes": history.notes, "is_new": is_new,
        });
        print_json(out, &document)?;
        return Ok(Exit::Good);
    }
    let how = if is_new { "stored as" } else { "already stored as" };
    let (values, name) = (history.values.len(), global.short_name(id));
    let metrics = match metrics.len() {
        0..=NAMED_MAX => metrics.join(", "),
        many => format!("{many} metrics"),
    };
    writeln!(out, "{values} values of {} ({}): {how} {name}", printable(&metrics), history.tool)?;
    Ok(Exit::Good)
}
