//! `bakeoff runs`: the archive.

use std::io::{IsTerminal as _, Write};

use archive::{Archive, Filter, Format, Note, PartOf};
use record::nearest::did_you_mean;
use record::printable::printable;
use record::run::{RunHeader, RunId, RunKind, RunState};
use report::text::{Detail, RunLine};
use serde_json::json;

use crate::cmd::{Global, experiment, of_archive, print_json, profiled, prove};
use crate::confine::Reader;
use crate::exit::{EndsWith as _, Exit};
use crate::screen::{self, Screen};

/// List, show, remove, export and verify what was measured
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A RUN is a short name as `runs list` shows it, an id or its unique prefix, or `latest`."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,

    /// Print more: full ids, every percentile and check, and missing sandbox features
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List runs and bake-offs, newest first
    #[command(
        after_help = "Examples:\n  bakeoff runs list\n  bakeoff runs list --kind load --state invalid\n  bakeoff runs list --label branch=main sqlite"
    )]
    List(List),
    /// Show one run or bake-off
    #[command(after_help = "Examples:\n  bakeoff runs show latest\n  bakeoff runs show -v 8c1fe2")]
    Show {
        /// Which one
        run: String,
    },
    /// Add tags and a note to a run, or remove them; the run itself does not change
    #[command(
        after_help = "Examples:\n  bakeoff runs tag latest slow release/1.2\n  bakeoff runs tag 8c1fe2 --note 'new disk'\n  bakeoff runs tag 8c1fe2 --remove slow"
    )]
    Tag {
        /// The run
        run: String,
        /// Tags to add
        tags: Vec<String>,
        /// Tag to remove; may be given more than once
        #[arg(long, value_name = "TAG")]
        remove: Vec<String>,
        /// Note that replaces the last one; an empty note removes it
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Remove runs or bake-offs
    #[command(after_help = "Examples:\n  bakeoff runs rm 8c1fe2 9d02aa")]
    Rm {
        /// Which ones
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Write a run's numbers for another program, to standard output
    #[command(
        after_help = "Examples:\n  bakeoff runs export latest --format csv > run.csv\n  bakeoff runs export 8c1fe2 --format parquet > run.parquet"
    )]
    Export {
        /// Which one
        run: String,
        /// Format: parquet, csv, json or openmetrics
        #[arg(long, value_parser = format, default_value = "json")]
        format: Format,
    },
    /// Read every file and compare checksums: of these runs, or of all
    #[command(after_help = "Examples:\n  bakeoff runs verify\n  bakeoff runs verify latest")]
    Verify {
        /// Which ones
        runs: Vec<String>,
    },
    /// Rebuild the index from the folders
    #[command(after_help = "Examples:\n  bakeoff runs reindex")]
    Reindex,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only this kind, such as load or bakeoff
    #[arg(long, value_parser = kind)]
    kind: Option<RunKind>,

    /// Only this state, such as sealed or invalid
    #[arg(long, value_parser = state)]
    state: Option<RunState>,

    /// Only runs with this label
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    labels: Vec<String>,

    /// Also the runs that are part of a bake-off
    #[arg(long)]
    all: bool,

    /// Only runs with this text in title, command, name or labels
    text: Option<String>,
}

impl Args {
    fn detail(&self) -> Detail {
        if self.verbose { Detail::Full } else { Detail::Brief }
    }

    /// Whether standard output gets binary data.
    pub(crate) fn writes_bytes(&self) -> bool {
        matches!(self.what, What::Export { format: Format::Parquet, .. })
    }
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    global.confine(Reader::default(), "runs", args.verbose)?;
    let archive = global.archive()?;
    match &args.what {
        What::List(list) => self::list(&archive, list, args.detail(), global, out),
        What::Show { run } => show(run, args.detail(), global, out),
        What::Tag { run, tags, remove, note } => {
            tag(&archive, run, (tags, remove), note.as_deref(), global, out)
        }
        What::Rm { runs } => remove(&archive, runs, global, out),
        What::Export { format, .. } if global.json && *format != Format::Json => {
            Err(Exit::Usage.with("--json contradicts --format: give one of them"))
        }
        What::Export { run, format } => export(&archive, run, *format, out),
        What::Verify { runs } => verify(&archive, runs, global, out),
        What::Reindex => reindex(&archive, global, out),
    }
}

fn list(
    archive: &Archive,
    args: &List,
    detail: Detail,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let label = |text: &String| match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (text.clone(), None),
    };
    let filter = Filter {
        kind: args.kind,
        state: args.state,
        labels: args.labels.iter().map(label).collect(),
        text: args.text.clone(),
        part_of: if args.all { PartOf::Anything } else { PartOf::Nothing },
    };
    let listed = archive.list(&filter)?;
    let headers = listed.iter().map(|l| &l.header);
    if global.json {
        print_json(out, &report::json::runs(headers))?;
    } else {
        let ids: Vec<RunId> = headers.clone().map(|header| header.id).collect();
        let names = match detail {
            Detail::Brief => archive.short_names(&ids)?,
            Detail::Full => ids.iter().map(ToString::to_string).collect(),
        };
        let lines: Vec<RunLine<'_>> =
            headers.zip(names).map(|(header, name)| line(archive, header, name)).collect();
        report::text::runs_list(out, &lines, screen::style())?;
    }
    for killed in archive.killed()? {
        let (id, kind, title) = (killed.id, killed.kind.word(), &killed.title);
        let what = "was killed before its end; nothing of it is stored";
        Screen::new().line(&format!("bakeoff runs: {id} ({kind}, {title}) {what}"));
    }
    for damage in archive.damage()? {
        Screen::new().line(&format!("bakeoff runs: cannot read {}: {}", damage.path.display(), damage.what));
    }
    Ok(Exit::Good)
}

/// A line of the list. A result that does not read is left out here; damage is listed below the runs.
fn line<'a>(archive: &Archive, header: &'a RunHeader, name: String) -> RunLine<'a> {
    let has_load = header.kind == RunKind::Load;
    let load = has_load.then(|| archive.load_result(header.id).ok().flatten()).flatten();
    RunLine { header, name, load }
}

/// Prints the result of one run or bake-off, as the command that measured it did.
pub(crate) fn show(text: &str, detail: Detail, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let archive = global.archive()?;
    let id = find(&archive, text)?;
    show_in(&archive, id, detail, global, out)
}

/// Variant of [`show`] for an archive that is open, with its limit of memory.
pub(crate) fn show_in(
    archive: &Archive,
    id: RunId,
    detail: Detail,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    if archive.is_bakeoff(id) {
        let bakeoff = archive.bakeoff(id)?;
        if experiment::is_kind(bakeoff.header.kind) {
            experiment::print(&bakeoff, None, global, out)?;
            return Ok(Exit::Good);
        }
        let comparisons = profiled::compare(archive, &bakeoff)?;
        crate::cmd::run::print(&bakeoff, &comparisons, global, out)?;
        return Ok(Exit::Good);
    }
    let run = archive.run_for_drawing(id, report::PLACES_MAX)?;
    if run.header.kind == RunKind::Prove {
        prove::print(&run.proofs, Some(id), global, out)?;
        return Ok(Exit::Good);
    }
    if run.header.kind == RunKind::Compare {
        crate::cmd::compare::print(&run, id, detail, global, out)?;
        return Ok(Exit::Good);
    }
    if run.recorded.is_some() {
        crate::cmd::record::print(&run, Some(id), global, out)?;
        return Ok(Exit::Good);
    }
    match &run.load {
        Some(record) if global.json => {
            let machine = analysis::machine(record, &run.cpu);
            print_json(out, &report::json::load(Some(id), record, &machine, &run.throttled))?;
        }
        Some(record) => {
            let (name, machine) = (global.short_name(id), analysis::machine(record, &run.cpu));
            if detail == Detail::Full {
                writeln!(out, "{id}  {}\n", printable(&run.header.title))?;
            }
            report::text::load_record(out, record, &machine, Some(&name), (detail, screen::style()))?;
        }
        None if global.json => print_json(out, &report::json::recorded(&run))?,
        None => report::text::recorded(out, &run, screen::style())?,
    }
    Ok(Exit::Good)
}

fn tag(
    archive: &Archive,
    run: &str,
    (add, remove): (&[String], &[String]),
    note: Option<&str>,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let id = find(archive, run)?;
    let old = archive.note(id)?;
    let mut tags = old.tags.clone();
    tags.retain(|tag| !remove.contains(tag));
    tags.extend(add.iter().cloned());
    let new = Note::new(tags, note.unwrap_or(&old.text)).ends_with(Exit::Usage)?;
    if new != old {
        archive.set_note(id, &new).map_err(of_archive)?;
    }
    if global.json {
        let document =
            json!({"schema": "bakeoff.note/1", "run": id.to_string(), "tags": new.tags, "note": new.text});
        print_json(out, &document)?;
        return Ok(Exit::Good);
    }
    if !new.text.is_empty() {
        writeln!(out, "{}", printable(&new.text))?;
    }
    let tags = new.tags.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    writeln!(
        out,
        "{id} {}",
        if tags.is_empty() { "has no tags".to_owned() } else { format!("has the tags {tags}") }
    )?;
    Ok(Exit::Good)
}

fn remove(archive: &Archive, runs: &[String], global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let ids: Vec<RunId> = runs.iter().map(|text| find(archive, text)).collect::<Result<_, _>>()?;
    for id in &ids {
        archive.remove(*id).map_err(of_archive)?;
        if !global.json {
            writeln!(out, "removed {id}")?;
        }
    }
    if global.json {
        let removed: Vec<String> = ids.iter().map(ToString::to_string).collect();
        print_json(out, &json!({"schema": "bakeoff.runs-rm/1", "removed": removed}))?;
    }
    Ok(Exit::Good)
}

fn export(archive: &Archive, text: &str, format: Format, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let id = find(archive, text)?;
    if format == Format::Parquet && std::io::stdout().is_terminal() {
        return Err(Exit::Usage.with("Parquet is binary: write it to a file with `> runs.parquet`"));
    }
    let has_numbers = archive.export(id, format, out)?;
    if !has_numbers && format != Format::Json {
        let text = format!("{id} has no numbers: nothing of it was measured (--format json has the rest)");
        return Err(Exit::Bad.with(text));
    }
    Ok(Exit::Good)
}

fn verify(archive: &Archive, runs: &[String], global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let ids: Vec<RunId> = runs.iter().map(|text| find(archive, text)).collect::<Result<_, _>>()?;
    let verified = archive.verify(&ids)?;
    let damaged = verified.iter().filter(|v| !v.problems.is_empty()).count();
    if global.json {
        let entries = verified.iter().map(|v| {
            let problems = v.problems.iter().map(|p| json!({"path": p.path, "what": p.what}));
            json!({
                "run": v.id.map(|id| id.to_string()), "path": v.path, "files": v.files,
                "problems": problems.collect::<Vec<_>>(),
            })
        });
        let document = json!({
            "schema": "bakeoff.runs-verify/1", "verified": verified.len(), "damaged": damaged,
            "entries": entries.collect::<Vec<_>>(),
        });
        print_json(out, &document)?;
    } else {
        for problem in verified.iter().flat_map(|v| &v.problems) {
            writeln!(out, "{}: {}", problem.path.display(), problem.what)?;
        }
        let files: usize = verified.iter().map(|v| v.files).sum();
        writeln!(out, "{} runs and bake-offs, {files} files: {damaged} damaged", verified.len())?;
    }
    Ok(if damaged == 0 { Exit::Good } else { Exit::Bad })
}

fn reindex(archive: &Archive, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let done = archive.reindex()?;
    if global.json {
        let document = json!({
            "schema": "bakeoff.runs-reindex/1", "entries": done.entries, "same": done.same,
            "damaged": done.damaged.iter().map(|d| json!({"path": d.path, "what": d.what})).collect::<Vec<_>>(),
            "swept": done.swept,
        });
        print_json(out, &document)?;
    } else {
        let same = match done.same {
            Some(true) => "the old index matched them",
            Some(false) => "the old index did not match them, and was replaced",
            None => "there was no index before",
        };
        writeln!(out, "{} runs and bake-offs indexed from their folders; {same}", done.entries)?;
        for damage in &done.damaged {
            writeln!(out, "cannot read {}: {}", damage.path.display(), damage.what)?;
        }
        for path in &done.swept {
            writeln!(out, "removed {}, which a dead process had left half-written", path.display())?;
        }
    }
    Ok(if done.damaged.is_empty() { Exit::Good } else { Exit::Bad })
}

/// The run that the user named.
pub(crate) fn find(archive: &Archive, text: &str) -> anyhow::Result<RunId> {
    archive.find(text).map_err(of_archive)
}

/// Variant of [`find`] with `latest` as the newest run of these kinds.
pub(crate) fn find_of(archive: &Archive, text: &str, kinds: &[RunKind]) -> anyhow::Result<RunId> {
    archive.find_of(text, kinds).map_err(of_archive)
}

fn kind(text: &str) -> Result<RunKind, String> {
    RunKind::from_word(text).ok_or_else(|| expected(text, RunKind::ALL, RunKind::word))
}

fn state(text: &str) -> Result<RunState, String> {
    RunState::from_word(text).ok_or_else(|| expected(text, RunState::ALL, RunState::word))
}

fn expected<T: Copy>(found: &str, all: &[T], word: fn(T) -> &'static str) -> String {
    let words: Vec<&str> = all.iter().map(|t| word(*t)).collect();
    format!("expected one of {}{}", words.join(", "), did_you_mean(found, words.iter().copied()))
}

fn format(text: &str) -> Result<Format, String> {
    let known = Format::ALL.iter().find(|(word, _)| *word == text).map(|(_, format)| *format);
    known.ok_or_else(|| {
        let words = Format::ALL.iter().map(|(word, _)| *word);
        let meant = did_you_mean(text, words.clone());
        format!("expected one of {}{meant}", words.collect::<Vec<_>>().join(", "))
    })
}
