//! `bakeoff archive`: runs that many machines share.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use archive::Archive;
use record::printable::printable;
use record::quantity;
use record::run::RunId;
use serde_json::json;
use shared::{Location, Old, Outcome, Pruned, Retention, Shared, SharedError, Transfer};

use crate::cmd::{Global, of_archive, print_json};
use crate::exit::Exit;
use crate::screen::Screen;

/// Copy runs to and from an archive that many machines share
#[derive(Debug, clap::Args)]
#[command(after_help = "\
TO and FROM are INDEX,STORE: postgres://USER@HOST/DB, a comma, and s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER.
Passwords: $PGPASSWORD, $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, $AZURE_STORAGE_ACCOUNT_KEY, each the value or {file:PATH}.
To complete an interrupted copy, run the same command again.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Copy runs and bake-offs to the shared archive: these, or all that it lacks
    #[command(
        after_help = "Examples:\n  bakeoff archive push postgres://lab@db.lab/bakeoff,s3://lab/bakeoff\n  bakeoff archive push postgres://lab@db.lab/bakeoff,s3://lab/bakeoff latest"
    )]
    Push {
        /// The shared archive
        to: String,
        /// Which ones; a bake-off comes with its runs
        runs: Vec<String>,
    },
    /// Copy runs and bake-offs from the shared archive: these, or all that are missing here
    #[command(
        after_help = "Examples:\n  bakeoff archive pull postgres://lab@db.lab/bakeoff,s3://lab/bakeoff\n  bakeoff archive pull postgres://lab@db.lab/bakeoff,s3://lab/bakeoff 8c1fe2"
    )]
    Pull {
        /// The shared archive
        from: String,
        /// Which ones; a bake-off comes with its runs
        runs: Vec<String>,
    },
    /// Push, then pull: afterwards both sides have all runs
    #[command(
        after_help = "Examples:\n  bakeoff archive sync postgres://lab@db.lab/bakeoff,s3://lab/bakeoff"
    )]
    Sync {
        /// The shared archive
        with: String,
    },
    /// List old runs and bake-offs of the shared archive, or remove them from it for all machines
    #[command(
        after_help = "A machine that has a removed run keeps it, and does not push it again.\n\nExamples:\n  bakeoff archive prune postgres://lab@db.lab/bakeoff,s3://lab/bakeoff --older-than 90d --keep release\n  bakeoff archive prune postgres://lab@db.lab/bakeoff,s3://lab/bakeoff --older-than 90d --keep release --yes"
    )]
    Prune {
        /// The shared archive
        from: String,
        /// Age from which a run is old: the time since its push. A bake-off and its runs are as old as the
        /// part that was pushed last
        #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
        older_than: Duration,
        /// Keep runs with this label, and bake-offs with such a run
        #[arg(long, value_name = "KEY[=VALUE]", value_parser = kept_label)]
        keep: Vec<(String, Option<String>)>,
        /// Remove them; without it, the command only lists them
        #[arg(long)]
        yes: bool,
    },
    /// Create the tables of the index, or change those of an earlier version
    #[command(
        after_help = "Examples:\n  bakeoff archive migrate postgres://lab@db.lab/bakeoff,s3://lab/bakeoff"
    )]
    Migrate {
        /// The shared archive
        to: String,
    },
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Push { to, runs } => push(&location(to)?, runs, global, out),
        Action::Pull { from, runs } => pull(&location(from)?, runs, global, out),
        Action::Sync { with } => sync(&location(with)?, global, out),
        Action::Prune { from, older_than, keep, yes } => {
            let retention = Retention { age: *older_than, keep: keep.clone() };
            prune(&location(from)?, &retention, *yes, global, out)
        }
        Action::Migrate { to } => migrate(&location(to)?, global, out),
    }
}

/// Reads a label of the command line: a name, or a name with a value.
fn kept_label(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    if name.is_empty() {
        return Err("expected KEY or KEY=VALUE".to_owned());
    }
    Ok((name.to_owned(), value.map(str::to_owned)))
}

/// Reads a location of the command line.
fn location(text: &str) -> anyhow::Result<Location> {
    Location::parse(text).map_err(of_shared)
}

/// Runs a command that measures into the default folder, and pushes what it stored to the shared archive.
///
/// Runs that other processes finish meanwhile are not pushed. If the push fails, the runs stay in the folder.
/// The exit code is that of the measurement; if that is good, a failed push ends with [`Exit::CannotHere`].
///
/// - `measures`: whether the command is one that measures; others are refused.
pub(crate) fn push_after(
    text: &str,
    measures: bool,
    json: bool,
    out: &mut dyn Write,
    command: &dyn Fn(&Global, &mut dyn Write) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let to = location(text)?;
    if !measures {
        let what = "only commands that measure accept a shared archive as --archive: `bakeoff archive pull` copies \
                    its runs to a folder";
        return Err(Exit::Usage.with(what));
    }
    let global = Global::new(None, json);
    let exit = command(&global, out);
    // The caller flushes again and reports the error.
    let _ = out.flush();
    let mut new = archive::written_here();
    let problem = match push_written(&to, &global, &mut new) {
        Ok(problem) => problem,
        Err(error) => Some(format!("{error:#}")),
    };
    let Some(what) = problem else { return exit };
    let mut screen = Screen::new();
    let names: Vec<String> = new.iter().map(ToString::to_string).collect();
    screen.line(&format!("bakeoff: stored here, but not in the shared archive: {}", printable(&what)));
    screen.line(&format!("  later: bakeoff archive push '{}' {}", printable(text), names.join(" ")));
    match exit {
        Ok(Exit::Good) => Ok(Exit::CannotHere),
        other => other,
    }
}

/// Pushes what this process wrote and has ended; returns the first problem.
///
/// - `new`: runs and bake-offs that this process wrote. Those that cannot be pushed are removed: unfinished
///   ones, and the runs of a bake-off, which come with it.
fn push_written(to: &Location, global: &Global, new: &mut BTreeSet<RunId>) -> anyhow::Result<Option<String>> {
    if new.is_empty() {
        return Ok(None);
    }
    let archive = global.archive()?;
    let finished = archive.finished()?;
    new.retain(|id| finished.contains(id));
    // A bake-off that was resumed has older runs too.
    let bakeoffs = new.iter().filter(|id| archive.is_bakeoff(**id));
    let mut ids = bakeoffs.map(|id| archive.runs_of(*id)).collect::<Result<Vec<_>, _>>()?.concat();
    new.retain(|id| !ids.contains(id));
    ids.extend(&*new);
    if ids.is_empty() {
        return Ok(None);
    }
    let counts = push_ids(to, &archive, &ids)?;
    let problem = counts.problems.into_iter().next().map(|(_, what)| what);
    if problem.is_none() {
        Screen::new().line(&format!("pushed {} to the shared archive", ids.len()));
    }
    Ok(problem)
}

/// Marks an error of the shared archive: a wrong location is a wrong command line.
fn of_shared(error: SharedError) -> anyhow::Error {
    match error {
        SharedError::Location(_) => Exit::Usage.with(error),
        SharedError::Archive(error) => of_archive(error),
        _ => error.into(),
    }
}

/// Counts of one direction.
#[derive(Debug, Default)]
struct Counts {
    moved: Vec<RunId>,
    files: usize,
    bytes: u64,
    same: usize,
    /// Runs that a prune has removed from the shared archive.
    removed: usize,
    problems: Vec<(Option<RunId>, String)>,
}

impl Counts {
    fn add(&mut self, transfer: Transfer) {
        let Transfer { id, outcome } = transfer;
        match outcome {
            Outcome::Moved { files, bytes } => {
                self.moved.extend(id);
                self.files += files;
                self.bytes += bytes;
            }
            Outcome::Same => self.same += 1,
            Outcome::Removed => self.removed += 1,
            Outcome::Differs => {
                let what = "the other side has a different run of this name, or another state of this bake-off; \
                            neither was changed";
                self.problems.push((id, what.to_owned()));
            }
            Outcome::Refused { what } => self.problems.push((id, what)),
        }
    }

    /// Adds the folders of this archive that a list leaves out, because they are unreadable.
    fn add_unreadable(&mut self, archive: &Archive) -> anyhow::Result<()> {
        for archive::Damage { path, what } in archive.damage()? {
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            self.problems.push((id, format!("{} is unreadable: {what}", path.display())));
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let problems =
            self.problems.iter().map(|(id, what)| json!({"run": id.map(|id| id.to_string()), "what": what}));
        json!({
            "moved": self.moved.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "files": self.files, "bytes": self.bytes, "same": self.same, "removed": self.removed,
            "problems": problems.collect::<Vec<_>>(),
        })
    }

    fn print(&self, verb: &str, out: &mut dyn Write) -> std::io::Result<()> {
        for (id, what) in &self.problems {
            let name = id.map_or_else(|| "index".to_owned(), |id| id.to_string());
            writeln!(out, "{name}: {}", printable(what))?;
        }
        let Self { moved, files, bytes, same, removed, problems } = self;
        let (moved, problems) = (moved.len(), problems.len());
        let pruned = match removed {
            0 => String::new(),
            removed => format!("{removed} were removed by `archive prune`; "),
        };
        writeln!(
            out,
            "{verb} {moved} runs and bake-offs ({files} files, {bytes} bytes); {same} were there; {pruned}{problems} problems"
        )
    }

    fn exit(&self) -> Exit {
        if self.problems.is_empty() { Exit::Good } else { Exit::Bad }
    }
}

/// The named runs with those of their bake-offs, the runs first; all that have ended if none is named.
fn chosen(archive: &Archive, runs: &[String]) -> anyhow::Result<Vec<RunId>> {
    if runs.is_empty() {
        return Ok(archive.finished()?);
    }
    let mut ids = Vec::new();
    for text in runs {
        let id = archive.find(text).map_err(of_archive)?;
        if archive.is_bakeoff(id) {
            ids.extend(archive.runs_of(id)?);
        }
        ids.push(id);
    }
    Ok(ids)
}

fn push(to: &Location, runs: &[String], global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let archive = global.archive()?;
    let ids = chosen(&archive, runs)?;
    let mut counts = push_ids(to, &archive, &ids)?;
    if runs.is_empty() {
        counts.add_unreadable(&archive)?;
    }
    print(&[("pushed", &counts)], global, out)
}

fn push_ids(to: &Location, archive: &Archive, ids: &[RunId]) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    let mut shared = Shared::open(to).map_err(of_shared)?;
    shared.push(archive, ids, &mut |transfer| counts.add(transfer)).map_err(of_shared)?;
    Ok(counts)
}

fn pull(from: &Location, runs: &[String], global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let archive = global.archive_for_writing()?;
    let mut shared = Shared::open(from).map_err(of_shared)?;
    let mut ids = Vec::new();
    for text in runs {
        match shared.named(text).map_err(of_shared)?[..] {
            [id] => ids.push(id),
            [] => return Err(Exit::Usage.with(format!("no run `{text}` in the shared archive"))),
            _ => {
                return Err(Exit::Usage
                    .with(format!("`{text}` matches several runs: use more characters of the run id")));
            }
        }
    }
    let mut counts = Counts::default();
    let ids = (!ids.is_empty()).then_some(&ids[..]);
    shared.pull(&archive, ids, &mut |transfer| counts.add(transfer)).map_err(of_shared)?;
    print(&[("pulled", &counts)], global, out)
}

fn sync(with: &Location, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let archive = global.archive_for_writing()?;
    let mut shared = Shared::open(with).map_err(of_shared)?;
    let (mut pushed, mut pulled) = (Counts::default(), Counts::default());
    shared.push(&archive, &archive.finished()?, &mut |transfer| pushed.add(transfer)).map_err(of_shared)?;
    pushed.add_unreadable(&archive)?;
    shared.pull(&archive, None, &mut |transfer| pulled.add(transfer)).map_err(of_shared)?;
    print(&[("pushed", &pushed), ("pulled", &pulled)], global, out)
}

/// Lists or removes old runs.
///
/// - `is_real`: whether to remove them.
fn prune(
    from: &Location,
    retention: &Retention,
    is_real: bool,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let mut shared = Shared::open(from).map_err(of_shared)?;
    let (mut old, mut left) = (Vec::new(), Vec::new());
    if is_real {
        let each = &mut |step| match step {
            Pruned::Removed(removed) => old.push(removed),
            Pruned::Left { id, what } => left.push((id, what)),
        };
        shared.prune(retention, each).map_err(of_shared)?;
    } else {
        old = shared.old(retention).map_err(of_shared)?;
    }
    if global.json {
        let part = |old: &Old| {
            let Old { id, pushed, rows, bytes, title } = old;
            json!({"run": id.to_string(), "pushed": pushed, "rows": rows, "bytes": bytes, "title": title})
        };
        let problem = |(id, what): &(RunId, String)| json!({"run": id.to_string(), "what": what});
        let document = json!({
            "schema": "bakeoff.archive-prune/1", "is_removed": is_real,
            "old": old.iter().map(part).collect::<Vec<_>>(),
            "problems": left.iter().map(problem).collect::<Vec<_>>(),
        });
        print_json(out, &document)?;
    } else {
        for Old { id, pushed, rows, bytes, title } in &old {
            let title = printable(title);
            writeln!(out, "{id}  pushed {pushed}  {rows} runs and bake-offs  {bytes} bytes  {title}")?;
        }
        for (id, what) in &left {
            writeln!(out, "{id}: its files are still in the store: {}", printable(what))?;
        }
        let sum = |of: fn(&Old) -> u64| old.iter().map(of).fold(0, u64::saturating_add);
        let (rows, bytes) = (sum(|old| old.rows), sum(|old| old.bytes));
        if is_real {
            writeln!(out, "removed {rows} runs and bake-offs ({bytes} bytes); {} problems", left.len())?;
        } else {
            writeln!(out, "{rows} runs and bake-offs ({bytes} bytes) are old; --yes removes them")?;
        }
    }
    Ok(if left.is_empty() { Exit::Good } else { Exit::Bad })
}

fn migrate(to: &Location, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (from, version) = Shared::migrate(to).map_err(of_shared)?;
    if global.json {
        print_json(out, &json!({"schema": "bakeoff.archive-migrate/1", "from": from, "version": version}))?;
    } else if from == version {
        writeln!(out, "the index has version {version} already")?;
    } else {
        writeln!(out, "the index has version {version} now, before {from}")?;
    }
    Ok(Exit::Good)
}

fn print(parts: &[(&str, &Counts)], global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json {
        let mut document = json!({"schema": "bakeoff.archive-transfer/1"});
        for (verb, counts) in parts {
            document[*verb] = counts.json();
        }
        print_json(out, &document)?;
    } else {
        for (verb, counts) in parts {
            counts.print(verb, out)?;
        }
    }
    let is_good = parts.iter().all(|(_, counts)| matches!(counts.exit(), Exit::Good));
    Ok(if is_good { Exit::Good } else { Exit::Bad })
}
