//! `bakeoff history import`: histories of other tools, stored beside the runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ::import::history::{History, HistoryError, HistoryValue, Source};
use analysis::history::{Added, IMPORTED_FACT, SUBJECT_LABEL, UNIT_LABEL, imported_unix_ns, of_import};
use anyhow::Context as _;
use archive::{Archive, Filter};
use record::clock::WallAnchor;
use record::environment::Environment;
use record::labels;
use record::printable::printable;
use record::quantity::plural;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
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

    /// Benchmark, if the file does not name it; by default the name of a CSV file
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

    /// Import commands of hyperfine that failed, too
    #[arg(long)]
    ignore_failure: bool,

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
/// Most remarks about a file that are printed.
const NOTES_MAX: usize = 20;
/// Most metrics that are named.
const NAMED_MAX: usize = 6;
/// Most values of one file.
const VALUES_MAX: usize = ::import::table::VALUES_MAX;

pub(super) fn run(args: &Args, verbose: bool, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    // The folders of criterion's files are names.
    let path = args.file.canonicalize().unwrap_or_else(|_| args.file.clone());
    let beside = path.ends_with("estimates.json").then(|| path.with_file_name("benchmark.json"));
    let reader = beside.iter().fold(Reader::default().reads_named(), |reader, path| reader.reads(path));
    global.confine(reader, "history", verbose)?;
    let file = args.file.display().to_string();
    let (zone, _) = zone(args.zone.as_deref())?;
    let written = std::fs::metadata(&args.file).and_then(|found| found.modified());
    let content = text(&file).ends_with(Exit::Usage)?;
    let beside = beside.and_then(|path| text(&path.display().to_string()).ok());
    let source =
        Source { path: &path, beside: beside.as_deref(), zone: &zone, with_failures: args.ignore_failure };
    let read = ::import::history::read(&content, source);
    let placed = |error: HistoryError| match error {
        // It begins with its line and column.
        HistoryError::Table(_) => format!("{file}:{error}"),
        _ => format!("{file}: {error}"),
    };
    let mut history = read.map_err(placed).ends_with(Exit::Usage)?;
    fits(args, &history, &file)?;
    let asked = args.at.as_ref().map(|at| moment::read(at, &zone).map_err(|why| format!("--at: {why}")));
    let asked = asked.transpose().ends_with(Exit::Usage)?;
    let archive = global.archive_for_writing()?;
    let sha256 = archive::sha256(&mut content.as_bytes())?;
    let earlier = Earlier::read(&archive)?;
    let written = written.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let written = written.and_then(|since| u64::try_from(since.as_nanos()).ok());
    // A copy of a file without dates is not a new measurement.
    let given = asked.or_else(|| earlier.time_of(&sha256));
    if given.is_none() && history.values.iter().any(|value| value.at_unix_ns.is_none()) {
        history
            .notes
            .push("it has no dates: its own is the time of the measurement (or --at TIME)".to_owned());
    }
    let say = |text: &str| Screen::new().line(&format!("bakeoff history: {}: {text}", printable(&file)));
    history.notes.iter().take(NOTES_MAX).for_each(|note| say(&printable(note)));
    if let Some(more) = history.notes.len().checked_sub(NOTES_MAX).filter(|more| *more > 0) {
        say(&format!("and {more} more remarks (--json)"));
    }
    let undated_unix_ns = given.or(written).unwrap_or_else(|| WallAnchor::now().unix_ns);
    let run = earlier.numbered(run_of(args, &history, &file, &sha256, undated_unix_ns));
    let added = earlier.added(&run);
    let id = match earlier.same(&run).filter(|_| added.new + added.replaced == 0) {
        Some(id) => id,
        None => seal(&archive, &run, &history, &content)?,
    };
    told(&Stored { run: &run, id, added }, &history, global, out)
}

/// Refuses options that contradict the file.
fn fits(args: &Args, history: &History, file: &str) -> anyhow::Result<()> {
    let values = &history.values;
    let wrong = if values.is_empty() || values.len() > VALUES_MAX {
        Some(format!("has {} values; expected 1 to {VALUES_MAX}", values.len()))
    } else if args.host.is_some() && values.iter().any(|value| value.host.is_some()) {
        Some("names the machine of each value; leave out --host".to_owned())
    } else if args.at.is_some() && values.iter().any(|value| value.at_unix_ns.is_some()) {
        Some("has the time of each value; leave out --at".to_owned())
    } else if args.name.is_some() && values.iter().all(|value| value.subject.is_some()) {
        Some("names the benchmark of each value; leave out --name".to_owned())
    } else if args.name.is_none()
        && history.tool != "csv"
        && values.iter().any(|value| value.subject.is_none())
    {
        Some(format!("has a benchmark of {} without its name and folders: pass --name", history.tool))
    } else {
        None
    };
    wrong.map_or(Ok(()), |wrong| Err(Exit::Usage.with(format!("{file} {wrong}"))))
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
        let has_commit = value.labels.iter().any(|(key, _)| key == "commit");
        let own = value.labels.iter().chain(commit.filter(|_| !has_commit));
        let unit = (!value.unit.is_empty()).then_some((UNIT_LABEL, value.unit.as_str()));
        let all = std::iter::once((SUBJECT_LABEL, subject)).chain(own.map(|(k, v)| (k.as_str(), v.as_str())));
        let all = all.chain(unit);
        Sample {
            t_ms: i64::try_from((at(value) - anchor.unix_ns) / 1_000_000).unwrap_or(i64::MAX),
            host: value.host.as_deref().unwrap_or(host).into(),
            name: value.metric.as_str().into(),
            labels: labels::written(all).into(),
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

/// The imports in an archive.
struct Earlier {
    /// Oldest import first.
    runs: Vec<Run>,
}

impl Earlier {
    fn read(archive: &Archive) -> anyhow::Result<Self> {
        let filter = Filter { kind: Some(RunKind::Import), ..Filter::default() };
        let listed = archive.list(&filter)?.into_iter().map(|listed| listed.header);
        let sealed = listed.filter(|header| header.state == RunState::Sealed);
        // A run that does not read has no values.
        let runs = sealed.filter_map(|header| archive.run(header.id).ok());
        let mut runs: Vec<Run> = runs.filter(|run| run.environment.fact(CHECKSUM).is_some()).collect();
        runs.sort_by_key(|run| (imported_unix_ns(run), run.header.id));
        Ok(Self { runs })
    }

    /// Time of the values of an earlier import of this text.
    fn time_of(&self, sha256: &str) -> Option<u64> {
        let same = self.runs.iter().rev().find(|run| run.environment.fact(CHECKSUM) == Some(sha256));
        same.map(|run| run.header.anchor.unix_ns)
    }

    /// The run with the time of its import, which is after all earlier ones even if the clock was set back.
    fn numbered(&self, mut run: Run) -> Run {
        let last = self.runs.last().map_or(0, imported_unix_ns);
        let now = WallAnchor::now().unix_ns.max(last + 1);
        run.environment.facts.insert(IMPORTED_FACT.to_owned(), Ok(now.to_string()));
        run
    }

    fn added(&self, run: &Run) -> Added {
        let earlier = self.runs.iter().flat_map(|run| of_import(run).observed).collect();
        analysis::history::added(earlier, of_import(run).observed)
    }

    /// An earlier import of the same file, with the same values, times and labels.
    fn same(&self, run: &Run) -> Option<RunId> {
        let is_same = |earlier: &&Run| {
            let (one, other) = (&earlier.header, &run.header);
            earlier.environment.fact(CHECKSUM) == run.environment.fact(CHECKSUM)
                && (one.anchor, &one.labels) == (other.anchor, &other.labels)
                && earlier.series == run.series
        };
        self.runs.iter().rev().find(is_same).map(|run| run.header.id)
    }
}

fn seal(archive: &Archive, run: &Run, history: &History, content: &str) -> anyhow::Result<RunId> {
    let mut writer = archive.begin(&run.header).map_err(of_archive)?;
    let end = if history.tool == "csv" { "csv" } else { "json" };
    writer.add_file(&format!("{}.{end}", history.tool), &mut content.as_bytes())?;
    writer.seal(run).context("storing the history")?;
    Ok(run.header.id)
}

/// An import and its effect.
struct Stored<'a> {
    run: &'a Run,
    /// The run with the values: this one, or that of an earlier import.
    id: RunId,
    added: Added,
}

fn told(
    stored: &Stored<'_>,
    history: &History,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let Stored { run, id, added } = *stored;
    let is_new = id == run.header.id;
    let mut metrics: Vec<&str> = history.values.iter().map(|value| value.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    if global.json {
        let document = json!({
            "schema": "bakeoff.history-import/1", "run": id.to_string(), "tool": history.tool,
            "values": history.values.len(), "metrics": metrics, "notes": history.notes, "is_new": is_new,
            "replaced": added.replaced, "unchanged": added.unchanged,
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
    let effect = if is_new { effect(added, values) } else { String::new() };
    let values = plural(values as u64, "value");
    writeln!(out, "{values} of {} ({}): {how} {name}{effect}", printable(&metrics), history.tool)?;
    Ok(Exit::Good)
}

/// `; 1 replaces an earlier value, 119 are unchanged`
fn effect(added: Added, values: usize) -> String {
    let replaced = match added.replaced {
        0 => None,
        1 => Some("1 replaces an earlier value".to_owned()),
        many => Some(format!("{many} replace earlier values")),
    };
    let unchanged = match added.unchanged {
        0 => None,
        1 => Some("1 is unchanged".to_owned()),
        many => Some(format!("{many} are unchanged")),
    };
    let averaged = match values - added.new - added.replaced - added.unchanged {
        0 => None,
        some => Some(format!("{some} of a time that others have are averaged with them")),
    };
    let parts: Vec<String> = replaced.into_iter().chain(unchanged).chain(averaged).collect();
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}
