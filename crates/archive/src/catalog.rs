//! The index, for finding and listing. It is rebuilt from the folders whenever they differ.
//!
//! Every use opens it, updates it from the names on disk, and closes it. It thus includes runs of a process
//! that died before updating it, and folders that a user copied.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunKind, RunState};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Row, TransactionBehavior, params};

use crate::disk::{Place, Tree};
use crate::error::ArchiveError;
use crate::lock::Hold;
use crate::reader::Stored;
use crate::traits::Traits;
use crate::{bakeoff, checksum, disk, lock, reader};

/// Version of the index. Raise it when the tables or their sources in the folders change: an index of another
/// version is rebuilt.
const VERSION: i64 = 4;
/// Maximum wait for another process's transaction.
const PATIENCE: Duration = Duration::from_secs(30);

const TABLES: &str = "
CREATE TABLE run (
    id              TEXT PRIMARY KEY,
    kind            TEXT NOT NULL,
    state           TEXT NOT NULL,
    reason          TEXT,
    started_unix_ns INTEGER NOT NULL,
    started_monotonic_ns INTEGER NOT NULL,
    title           TEXT NOT NULL,
    bakeoff         TEXT,
    tool_version    TEXT NOT NULL,
    command         TEXT NOT NULL,
    events_bytes    INTEGER,
    traits          TEXT NOT NULL,
    sha256          TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE label (
    run   TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE judged (
    run          TEXT PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
    tool_version TEXT NOT NULL,
    verdicts     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE damage (
    path TEXT PRIMARY KEY,
    what TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_by_bakeoff ON run (bakeoff);
";

/// Words of a verdict.
type Words = BTreeSet<String>;

/// An open index that agrees with the folders.
pub(crate) struct Catalog {
    db: Connection,
}

/// Runs `use_it` on an up-to-date index. An index that is missing, damaged or of another version is rebuilt;
/// if it cannot be written, it is built in memory.
pub(crate) fn with<T>(
    tree: &Tree,
    use_it: impl Fn(&Catalog) -> rusqlite::Result<T>,
) -> Result<T, ArchiveError> {
    let attempt = |hold, anew| -> Result<T, Failure> {
        let _held = lock::wait(&tree.index_lock(), hold).map_err(|_| Failure::Index)?;
        if anew {
            remove(&tree.index());
        }
        let mut catalog = Catalog::open(&tree.index())?;
        catalog.update(tree)?;
        Ok(use_it(&catalog)?)
    };
    if !tree.has_index_file() {
        return in_memory(tree, use_it);
    }
    let attempts = attempt(Hold::Shared, false).or_else(|failure| match failure {
        Failure::Damaged => attempt(Hold::Alone, true),
        other => Err(other),
    });
    match attempts {
        Ok(value) => Ok(value),
        Err(Failure::Folders(e)) => Err(e),
        Err(Failure::Damaged | Failure::Index) => in_memory(tree, use_it),
    }
}

/// Rebuilds the index; returns it as text before, if it was readable, and after.
pub(crate) fn rebuild(tree: &Tree) -> Result<(Option<String>, String), ArchiveError> {
    if !tree.has_index_file() {
        return Ok((None, in_memory(tree, Catalog::dump)?));
    }
    let held =
        lock::wait(&tree.index_lock(), Hold::Alone).map_err(ArchiveError::writing(&tree.index_lock()))?;
    let old = tree
        .index()
        .exists()
        .then(|| {
            Catalog::open(&tree.index())
                .and_then(|mut index| {
                    // Runs not yet indexed are not a difference.
                    index.update(tree)?;
                    Ok(index.dump()?)
                })
                .ok()
        })
        .flatten();
    remove(&tree.index());
    drop(held);
    Ok((old, with(tree, Catalog::dump)?))
}

fn in_memory<T>(tree: &Tree, use_it: impl Fn(&Catalog) -> rusqlite::Result<T>) -> Result<T, ArchiveError> {
    let built = Catalog::in_memory().map_err(Failure::from).and_then(|mut catalog| {
        catalog.update(tree)?;
        Ok(use_it(&catalog)?)
    });
    match built {
        Ok(value) => Ok(value),
        Err(Failure::Folders(e)) => Err(e),
        Err(Failure::Damaged | Failure::Index) => unreachable!("a database in memory has no disk to fail"),
    }
}

/// Reason that an index cannot be used.
enum Failure {
    /// The file is not a database, or is corrupt.
    Damaged,
    /// The file cannot be written or read here.
    Index,
    /// The folders themselves cannot be read.
    Folders(ArchiveError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OutOfMemory,
            ) => Self::Index,
            // This includes a missing table or an unreadable row: another program changed the file.
            _ => Self::Damaged,
        }
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::Folders(error)
    }
}

fn remove(index: &Path) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(beside(index, end));
    }
}

/// A file of SQLite's next to the index.
fn beside(index: &Path, end: &str) -> PathBuf {
    let mut name = index.as_os_str().to_owned();
    name.push(end);
    name.into()
}

impl Catalog {
    fn open(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            // SQLite would write through a dangling link.
            disk::new_file().open(path).map_err(|_| Failure::Index)?;
        }
        disk::open(path).map_err(|_| Failure::Damaged)?;
        // SQLite would block on a pipe, and replay a journal that may name any other file for removal. Our
        // index uses a write-ahead log.
        if fs::symlink_metadata(beside(path, "-journal")).is_ok()
            || ["-wal", "-shm"]
                .iter()
                .any(|end| fs::symlink_metadata(beside(path, end)).is_ok_and(|found| !found.is_file()))
        {
            return Err(Failure::Damaged);
        }
        let db = Connection::open(path)?;
        // These settings keep SQL in a foreign index from running.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        db.busy_timeout(PATIENCE)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "foreign_keys", true)?;
        let mut catalog = Self { db };
        if catalog.version()? != VERSION {
            catalog.create()?;
        }
        if catalog.schema()? != Self::in_memory()?.schema()? {
            return Err(Failure::Damaged);
        }
        Ok(catalog)
    }

    fn in_memory() -> rusqlite::Result<Self> {
        let mut catalog = Self { db: Connection::open_in_memory()? };
        catalog.create()?;
        Ok(catalog)
    }

    /// Statements that created the tables.
    fn schema(&self) -> rusqlite::Result<Vec<(String, Option<String>)>> {
        let mut rows = self.db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    fn version(&self) -> rusqlite::Result<i64> {
        self.db.pragma_query_value(None, "user_version", |row| row.get(0))
    }

    /// Replaces any existing tables by ours, unless another process just did.
    fn create(&mut self) -> rusqlite::Result<()> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == VERSION {
            return Ok(());
        }
        tx.execute_batch(
            "DROP TABLE IF EXISTS label; DROP TABLE IF EXISTS judged; DROP TABLE IF EXISTS run; \
             DROP TABLE IF EXISTS damage;",
        )?;
        tx.execute_batch(TABLES)?;
        tx.pragma_update(None, "user_version", VERSION)?;
        tx.commit()
    }

    /// Adds folders that the index lacks, and drops entries without a folder.
    fn update(&mut self, tree: &Tree) -> Result<(), Failure> {
        let changes = self.changes(tree)?;
        if changes.is_empty() {
            return Ok(());
        }
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for change in changes {
            match change {
                Change::Put { row, events_bytes } => put(&tx, &row, events_bytes)?,
                Change::Drop { id } => {
                    tx.execute("DELETE FROM run WHERE id = ?1", params![id])?;
                }
                Change::Damaged { path, what } => {
                    tx.execute(
                        "INSERT OR REPLACE INTO damage (path, what) VALUES (?1, ?2)",
                        params![path, what],
                    )?;
                }
                Change::Mended { path } => {
                    tx.execute("DELETE FROM damage WHERE path = ?1", params![path])?;
                }
            }
        }
        tx.commit()?;
        Ok(())
    }

    fn changes(&self, tree: &Tree) -> Result<Vec<Change>, Failure> {
        let mut known = self.known()?;
        let mut damage = self.damage()?;
        let mut changes = Vec::new();
        let mut look = |path: &Path, id: RunId, events_bytes: Option<i64>, read: &Reader| {
            let name = relative(tree, path);
            let was_damaged = damage.remove(&name);
            if known.remove(&id.to_string()).is_some_and(|bytes| bytes == events_bytes) {
                return;
            }
            match read(path, id) {
                Ok(row) => {
                    changes.push(Change::Put { row: Box::new(row), events_bytes });
                    changes.extend(was_damaged.map(|_| Change::Mended { path: name }));
                }
                // Removed since the listing.
                Err(ArchiveError::Unreadable { .. }) if !path.exists() => {}
                Err(e) => {
                    let what = reason(&e);
                    if was_damaged.as_ref() != Some(&what) {
                        changes.push(Change::Damaged { path: name, what });
                    }
                }
            }
        };
        for (path, place) in disk::places(&tree.runs())? {
            if let Place::Whole(id) = place {
                look(&path, id, None, &|path, id| {
                    let Stored { manifest, header } = reader::read_manifest(path, id)?;
                    Ok((header, manifest.traits()))
                });
            }
        }
        for (path, place) in disk::places(&tree.bakeoffs())? {
            if let Place::Whole(id) = place {
                look(&path, id, Some(events_bytes(&path)), &bakeoff_row);
            }
        }
        changes.extend(known.into_keys().map(|id| Change::Drop { id }));
        changes.extend(damage.into_keys().map(|path| Change::Mended { path }));
        Ok(changes)
    }

    /// Names in the index, with the length of the journal that each bake-off was read from.
    fn known(&self) -> rusqlite::Result<BTreeMap<String, Option<i64>>> {
        let mut rows = self.db.prepare_cached("SELECT id, events_bytes FROM run")?;
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Unreadable folders, relative to the archive, with the damage.
    pub(crate) fn damage(&self) -> rusqlite::Result<BTreeMap<String, String>> {
        let mut rows = self.db.prepare_cached("SELECT path, what FROM damage")?;
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// All headers with their traits, newest first.
    ///
    /// Each has a checksum: SQLite does not detect a flipped bit in a text, and a run must not be listed as
    /// another one.
    pub(crate) fn rows(&self) -> rusqlite::Result<Vec<(RunHeader, Traits)>> {
        let mut labels = BTreeMap::<String, BTreeMap<String, String>>::new();
        let mut rows = self.db.prepare_cached("SELECT run, name, value FROM label")?;
        for row in rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))? {
            let (run, name, value): (String, String, String) = row?;
            labels.entry(run).or_default().insert(name, value);
        }
        let mut rows = self.db.prepare_cached("SELECT * FROM run ORDER BY id DESC")?;
        rows.query_map([], |row| read_row(row, &mut labels))?.collect()
    }

    /// All headers, newest first.
    pub(crate) fn headers(&self) -> rusqlite::Result<Vec<RunHeader>> {
        Ok(self.rows()?.into_iter().map(|(header, _)| header).collect())
    }

    /// Names that begin with `prefix`, or end with it if it is a short name, newest first: their number, and
    /// the first few.
    pub(crate) fn named(&self, prefix: &str) -> rusqlite::Result<(usize, Vec<RunId>)> {
        let may_end = prefix.len() >= RunId::SHORT_MIN;
        let mut rows = self.db.prepare_cached(
            "SELECT id FROM run WHERE substr(id, 1, length(?1)) = ?1
                 OR ?2 AND substr(id, -length(?1)) = ?1 ORDER BY id DESC",
        )?;
        let mut ids: Vec<RunId> =
            rows.query_map(params![prefix, may_end], run_id)?.collect::<Result<_, _>>()?;
        // Includes unreadable folders, so that users can inspect and remove them.
        let damaged = self.damage()?.into_keys().filter_map(|path| path.rsplit('/').next()?.parse().ok());
        ids.extend(damaged.filter(|id: &RunId| id.is_named(prefix)));
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        Ok((ids.len(), ids.into_iter().take(3).collect()))
    }

    /// Newest run or bake-off of one of these kinds that is not part of another.
    ///
    /// One with a date in the future was made while the clock was wrong: it is the newest only if there is no
    /// other.
    pub(crate) fn latest(&self, kinds: &[RunKind], now_unix_ns: u64) -> rusqlite::Result<Option<RunId>> {
        let mut found = self.headers()?;
        found.retain(|header| header.bakeoff.is_none() && kinds.contains(&header.kind));
        Ok(found.iter().min_by_key(|h| (h.anchor.unix_ns > now_unix_ns, Reverse(h.id))).map(|h| h.id))
    }

    /// Runs of a bake-off, in the order of measurement.
    pub(crate) fn runs_of(&self, bakeoff: RunId) -> rusqlite::Result<Vec<RunId>> {
        let headers = self.headers()?.into_iter().rev();
        Ok(headers.filter(|header| header.bakeoff == Some(bakeoff)).map(|header| header.id).collect())
    }

    /// Verdicts that this version has stored.
    pub(crate) fn verdicts(&self, tool_version: &str) -> rusqlite::Result<BTreeMap<RunId, Words>> {
        let mut rows = self.db.prepare_cached("SELECT run, verdicts FROM judged WHERE tool_version = ?1")?;
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        rows.query_map([tool_version], |row| Ok((run_id(row)?, words(row.get(1)?))))?.collect()
    }

    /// Stores verdicts of bake-offs. One that is removed, or resumed, loses them.
    pub(crate) fn store_verdicts(
        &self,
        tool_version: &str,
        verdicts: &BTreeMap<RunId, Words>,
    ) -> rusqlite::Result<()> {
        let tx = self.db.unchecked_transaction()?;
        let sql = "INSERT OR REPLACE INTO judged SELECT id, ?2, ?3 FROM run WHERE id = ?1";
        for (id, words) in verdicts {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            tx.execute(sql, params![id.to_string(), tool_version, words.join(" ")])?;
        }
        tx.commit()
    }

    /// The content of the folders in the index as text, in a fixed order: equal folders have equal texts.
    pub(crate) fn dump(&self) -> rusqlite::Result<String> {
        let mut text = format!("version {}\n", self.version()?);
        for (table, columns, key) in [("run", 13, "id"), ("label", 3, "run, name"), ("damage", 2, "path")] {
            writeln!(text, "table {table}").expect(STRING);
            let mut rows = self.db.prepare(&format!("SELECT * FROM {table} ORDER BY {key}"))?;
            assert_eq!(rows.column_count(), columns, "the dump shows every column");
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                for i in 0..columns {
                    match row.get_ref(i)? {
                        ValueRef::Null => write!(text, "- "),
                        ValueRef::Integer(n) => write!(text, "{n} "),
                        ValueRef::Text(bytes) => write!(text, "{:?} ", String::from_utf8_lossy(bytes)),
                        ValueRef::Real(_) | ValueRef::Blob(_) => {
                            unreachable!("strict tables without such columns")
                        }
                    }
                    .expect(STRING);
                }
                text.push('\n');
            }
        }
        Ok(text)
    }
}

const STRING: &str = "a String takes all that is written to it";

/// Reads the header and the traits of a folder.
type Reader = dyn Fn(&Path, RunId) -> Result<(RunHeader, Traits), ArchiveError>;

/// A difference between the folders and the index.
enum Change {
    Put { row: Box<(RunHeader, Traits)>, events_bytes: Option<i64> },
    Drop { id: String },
    Damaged { path: String, what: String },
    Mended { path: String },
}

fn put(
    db: &Connection,
    (header, traits): &(RunHeader, Traits),
    events_bytes: Option<i64>,
) -> rusqlite::Result<()> {
    let RunHeader { id, kind, state, reason, anchor, title, labels, bakeoff, tool_version, command } = header;
    let id = id.to_string();
    let traits = serde_json::to_string(traits).expect("texts are documents");
    db.execute("DELETE FROM run WHERE id = ?1", params![id])?;
    db.execute(
        "INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            id,
            kind.word(),
            state.word(),
            reason,
            anchor.unix_ns.cast_signed(),
            anchor.monotonic_ns.cast_signed(),
            title,
            bakeoff.map(|b| b.to_string()),
            tool_version,
            command,
            events_bytes,
            traits,
            sum_of(header, &traits)
        ],
    )?;
    for (name, value) in labels {
        db.execute("INSERT INTO label VALUES (?1, ?2, ?3)", params![id, name, value])?;
    }
    Ok(())
}

/// Checksum of a header and its traits. A version that formats headers differently has other checksums, and
/// rebuilds the index.
fn sum_of(header: &RunHeader, traits: &str) -> String {
    checksum::of(format!("{header:?}\n{traits}").as_bytes())
}

fn read_row(
    row: &Row<'_>,
    labels: &mut BTreeMap<String, BTreeMap<String, String>>,
) -> rusqlite::Result<(RunHeader, Traits)> {
    let id: String = row.get("id")?;
    let word = |name: &str| row.get::<_, String>(name);
    let unknown = |name: &str| rusqlite::Error::InvalidColumnName(name.to_owned());
    let bakeoff: Option<String> = row.get("bakeoff")?;
    let header = RunHeader {
        kind: RunKind::from_word(&word("kind")?).ok_or_else(|| unknown("kind"))?,
        state: RunState::from_word(&word("state")?).ok_or_else(|| unknown("state"))?,
        reason: row.get("reason")?,
        anchor: WallAnchor {
            monotonic_ns: row.get::<_, i64>("started_monotonic_ns")?.cast_unsigned(),
            unix_ns: row.get::<_, i64>("started_unix_ns")?.cast_unsigned(),
        },
        title: row.get("title")?,
        labels: labels.remove(&id).unwrap_or_default(),
        bakeoff: bakeoff.map(|b| b.parse().map_err(|_| unknown("bakeoff"))).transpose()?,
        tool_version: row.get("tool_version")?,
        command: row.get("command")?,
        id: id.parse().map_err(|_| unknown("id"))?,
    };
    let traits = word("traits")?;
    if word("sha256")? != sum_of(&header, &traits) {
        return Err(unknown("sha256"));
    }
    let traits = serde_json::from_str(&traits).map_err(|_| unknown("traits"))?;
    Ok((header, traits))
}

/// Reads a bake-off's traits, and its header with the state from its journal alone; listing checks whether it
/// runs.
fn bakeoff_row(folder: &Path, _: RunId) -> Result<(RunHeader, Traits), ArchiveError> {
    let header = bakeoff::header(folder, bakeoff::read_told)?;
    let machine = bakeoff::environment(folder).ok();
    Ok((header, bakeoff::read_order(folder)?.order.traits(machine.as_ref())))
}

fn events_bytes(folder: &Path) -> i64 {
    fs::metadata(folder.join(bakeoff::EVENTS)).map_or(-1, |m| m.len().cast_signed())
}

fn relative(tree: &Tree, path: &Path) -> String {
    path.strip_prefix(tree.root()).unwrap_or(path).to_string_lossy().into_owned()
}

/// Error and its cause in one line.
pub(crate) fn reason(error: &ArchiveError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn run_id(row: &Row<'_>) -> rusqlite::Result<RunId> {
    let text: String = row.get(0)?;
    text.parse().map_err(|_| rusqlite::Error::InvalidColumnName("id".to_owned()))
}
