//! The queue of plans: `queue.sqlite`, which is authoritative, and a folder for each entry.
//!
//! Every change is on disk before it is acted on. An entry gets the id of its bake-off when it begins, before
//! a process runs it. The archive holds an id once, so an entry never runs twice, whichever process dies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc;
use record::clock::WallAnchor;
use record::run::RunId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::entry::{Action, Entry, QueueState, Refusal, Wish, change};
use crate::error::ArchiveError;
use crate::{Archive, disk, lock};

/// Most entries that have not ended.
pub const OPEN_MAX: u32 = 1_000;
/// Entries that ended and are listed; older ones are removed.
const ENDED_MAX: u32 = 10_000;

/// Every column but the plan's text.
const COLUMNS: &str = "id, plan_sha256, title, by, priority, not_before_unix_ns, state, wish, run, estimate_s, \
                       submitted_unix_ns, started_unix_ns, ended_unix_ns, exit_code, reason";

/// Condition for entries that have not ended.
const IS_OPEN: &str = "state IN ('waiting', 'running', 'paused')";

/// A plan that is about to enter the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Id of its entry.
    pub id: RunId,
    /// The plan's text.
    pub plan: String,
    /// Checksum of the plan.
    pub plan_sha256: String,
    /// Title of the plan.
    pub title: String,
    /// Submitter.
    pub by: String,
    /// Higher runs earlier.
    pub priority: i32,
    /// Earliest start.
    pub not_before_unix_ns: Option<u64>,
    /// Least duration according to the plan.
    pub estimate_s: f64,
}

/// Reason that the queue did not change.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// An unknown id.
    #[error("no entry `{id}` in the queue: see `bakeoff queue list`")]
    NotFound {
        /// Text that was searched for.
        id: String,
    },
    /// Several entries have that name.
    #[error("`{id}` matches several queue entries: use more characters of the id")]
    Ambiguous {
        /// Text that was searched for.
        id: String,
    },
    /// The entry's state does not allow the action.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another plan has the id of a submission.
    #[error("the entry {id} has another plan: submit this one under another id")]
    Taken {
        /// The id.
        id: RunId,
    },
    /// Too many entries wait.
    #[error("the queue is full: {OPEN_MAX} entries wait; cancel some")]
    Full,
    /// The plan, its title or the name of its submitter contains a password.
    #[error(
        "the plan, its title or the submitter's name contains a secret in plain text, which the archive does \
         not store: use {{env:NAME}} or {{file:PATH}}"
    )]
    Secret,
    /// The queue's file cannot be used.
    #[error("cannot use the queue {}", path.display())]
    Database {
        /// File.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// A file beside the queue cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The queue of an archive.
#[derive(Debug)]
pub struct Queue {
    db: Connection,
    path: PathBuf,
    folder: PathBuf,
    audit: PathBuf,
}

/// State of a queue at a moment; see [`Queue::version`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueVersion(i64, u64);

/// Right to run the entries of a queue, until it is dropped. One process has it.
#[derive(Debug)]
pub struct WorkerLock {
    _file: File,
}

impl Archive {
    /// Opens the queue, or creates it.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or is not a queue of this version.
    pub fn queue(&self) -> Result<Queue, QueueError> {
        Queue::open(self.dir())
    }

    /// Entry of the queue that has not ended and measures the bake-off `run`. An archive without a queue has
    /// none.
    pub(crate) fn open_entry_of(&self, run: RunId) -> Result<Option<RunId>, ArchiveError> {
        let path = self.dir().join("queue.sqlite");
        if fs::symlink_metadata(&path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let read = || Ok(self.queue()?.entries(0)?.into_iter().find(|e| e.run == Some(run)).map(|e| e.id));
        read().map_err(|e: QueueError| match e {
            QueueError::Archive(e) => e,
            e => ArchiveError::Unreadable { path, source: std::io::Error::other(e) },
        })
    }

    /// Takes the right to run the queue's entries; `None` if another process has it.
    ///
    /// # Errors
    ///
    /// The lock file cannot be used.
    pub fn queue_worker(&self) -> Result<Option<WorkerLock>, ArchiveError> {
        let path = self.dir().join(".queue.lock");
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(ArchiveError::writing(&path))?;
        let is_ours = lock::take_soon(&file).map_err(ArchiveError::writing(&path))?;
        Ok(is_ours.then_some(WorkerLock { _file: file }))
    }
}

impl Queue {
    fn open(root: &Path) -> Result<Self, QueueError> {
        let path = root.join("queue.sqlite");
        let folder = root.join("queue");
        disk::make_folder(&folder).map_err(ArchiveError::writing(&folder))?;
        if fs::symlink_metadata(&path).is_err() {
            match disk::new_file().open(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(ArchiveError::writing(&path)(e).into());
                }
                _ => {}
            }
        }
        // SQLite follows links and reads pipes.
        disk::open(&path).map_err(ArchiveError::reading(&path))?;
        let opened = tables::connect(&path);
        let db = opened.map_err(|source| QueueError::Database { path: path.clone(), source })?;
        Ok(Self { db, path, folder, audit: root.join("audit.jsonl") })
    }

    /// Adds an entry; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`QueueError::Full`], [`QueueError::Secret`], or the disk refuses.
    pub fn submit(&mut self, new: &Submission) -> Result<Entry, QueueError> {
        // The title is apart from the plan: in TOML, an escape hides a word that announces a secret.
        let texts = [&new.plan, &new.title, &new.by];
        if texts.iter().any(|text| record::target::mask_text(text) != **text) {
            return Err(QueueError::Secret);
        }
        let now = WallAnchor::now();
        let path = self.path.clone();
        let wrong = |source| QueueError::Database { path: path.clone(), source };
        let tx = self.db.transaction().map_err(wrong)?;
        let count = |condition: &str| -> rusqlite::Result<u32> {
            tx.query_row(&format!("SELECT count(*) FROM entry WHERE {condition}"), [], |row| row.get(0))
        };
        if count(IS_OPEN).map_err(wrong)? >= OPEN_MAX {
            return Err(QueueError::Full);
        }
        tx.execute(
            "INSERT INTO entry (id, plan, plan_sha256, title, by, priority, not_before_unix_ns, state, estimate_s, \
             submitted_unix_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'waiting', ?8, ?9)",
            params![
                new.id.to_string(),
                new.plan,
                new.plan_sha256,
                new.title,
                new.by,
                new.priority,
                new.not_before_unix_ns.map(u64::cast_signed),
                new.estimate_s,
                now.unix_ns.cast_signed(),
            ],
        )
        .map_err(wrong)?;
        let old = format!(
            "NOT {IS_OPEN} AND number NOT IN (SELECT number FROM entry WHERE NOT {IS_OPEN} \
             ORDER BY number DESC LIMIT {ENDED_MAX})"
        );
        let mut removed = Vec::new();
        {
            let mut rows = tx.prepare(&format!("SELECT id FROM entry WHERE {old}")).map_err(wrong)?;
            let ids = rows.query_map([], |row| row.get::<_, String>(0)).map_err(wrong)?;
            for id in ids {
                removed.push(id.map_err(wrong)?);
            }
        }
        tx.execute(&format!("DELETE FROM entry WHERE {old}"), []).map_err(wrong)?;
        // Read before the commit: an error after it would deny an entry that is there.
        let by_id = format!("SELECT {COLUMNS} FROM entry WHERE id = ?1");
        let added = tx.query_row(&by_id, [new.id.to_string()], entry).map_err(wrong)?;
        tx.commit().map_err(wrong)?;
        for id in removed {
            // A leftover folder wastes a few kilobytes and does nothing else.
            let _ = fs::remove_dir_all(self.folder.join(id));
        }
        Ok(added)
    }

    /// The entry of a submission, if it is in the queue.
    ///
    /// # Errors
    ///
    /// [`QueueError::Taken`], or the file cannot be read.
    pub fn submitted(&self, new: &Submission) -> Result<Option<Entry>, QueueError> {
        match self.by_id(&new.id.to_string())? {
            Some(found) if found.plan_sha256 != new.plan_sha256 => Err(QueueError::Taken { id: new.id }),
            found => Ok(found),
        }
    }

    /// Entries: running, then waiting in the order in which they will run, then paused, then the last
    /// `ended_max` that ended, newest first.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn entries(&self, ended_max: u32) -> Result<Vec<Entry>, QueueError> {
        self.select(&format!(
            "{IS_OPEN} OR number IN (SELECT number FROM entry WHERE NOT {IS_OPEN} ORDER BY number DESC LIMIT {ended_max}) \
             ORDER BY CASE state WHEN 'running' THEN 0 WHEN 'waiting' THEN 1 WHEN 'paused' THEN 2 ELSE 3 END, \
             CASE WHEN {IS_OPEN} THEN -priority ELSE 0 END, CASE WHEN {IS_OPEN} THEN number ELSE -number END"
        ))
    }

    /// Number of entries in each state that has any.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn counts(&self) -> Result<BTreeMap<QueueState, u32>, QueueError> {
        let count = || -> rusqlite::Result<Vec<(String, u32)>> {
            let mut rows = self.db.prepare_cached("SELECT state, count(*) FROM entry GROUP BY state")?;
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let counts = count().map_err(|e| self.wrong(e))?;
        Ok(counts.into_iter().filter_map(|(word, n)| Some((QueueState::from_word(&word)?, n))).collect())
    }

    /// State of the queue's file, which differs after each change by this process or another.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn version(&self) -> Result<QueueVersion, QueueError> {
        // The first number changes with commits of other connections, the second with our own changes.
        let read = || -> rusqlite::Result<i64> {
            self.db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
        };
        Ok(QueueVersion(read().map_err(|e| self.wrong(e))?, self.db.total_changes()))
    }

    /// The entry with this id.
    ///
    /// # Errors
    ///
    /// [`QueueError::NotFound`], or the file cannot be read.
    pub fn entry(&self, id: RunId) -> Result<Entry, QueueError> {
        self.by_id(&id.to_string())?.ok_or_else(|| QueueError::NotFound { id: id.to_string() })
    }

    fn by_id(&self, id: &str) -> Result<Option<Entry>, QueueError> {
        let sql = format!("SELECT {COLUMNS} FROM entry WHERE id = ?1");
        let read = || -> rusqlite::Result<Entry> { self.db.prepare_cached(&sql)?.query_row([id], entry) };
        read().optional().map_err(|e| self.wrong(e))
    }

    /// The entry that `text` names: its id or the run's, a unique beginning, or a short name.
    ///
    /// # Errors
    ///
    /// [`QueueError::NotFound`], [`QueueError::Ambiguous`], or the file cannot be read.
    pub fn find(&self, text: &str) -> Result<Entry, QueueError> {
        let name = text.to_ascii_uppercase();
        // A client that waits asks often, and by the whole id.
        if name.len() == RunId::LENGTH
            && let Some(found) = self.by_id(&name)?
        {
            return Ok(found);
        }
        let is_named = |id: &RunId| !name.is_empty() && id.is_named(&name);
        let read = |text: Option<String>| text.and_then(|text| text.parse::<RunId>().ok());
        let names = || -> rusqlite::Result<Vec<(Option<RunId>, Option<RunId>)>> {
            let mut rows = self.db.prepare_cached("SELECT id, run FROM entry")?;
            rows.query_map([], |row| Ok((read(row.get(0)?), read(row.get(1)?))))?.collect()
        };
        let mut found = names().map_err(|e| self.wrong(e))?;
        found.retain(|(id, run)| [id, run].into_iter().flatten().any(is_named));
        match found[..] {
            [(Some(id), _)] => self.entry(id),
            [] => Err(QueueError::NotFound { id: text.to_owned() }),
            _ => Err(QueueError::Ambiguous { id: text.to_owned() }),
        }
    }

    /// The plan's text of an entry.
    ///
    /// # Errors
    ///
    /// [`QueueError::NotFound`], or the file cannot be read.
    pub fn plan(&self, id: RunId) -> Result<String, QueueError> {
        let found =
            self.db.query_row("SELECT plan FROM entry WHERE id = ?1", [id.to_string()], |row| row.get(0));
        let found = found.optional().map_err(|e| self.wrong(e))?;
        found.ok_or_else(|| QueueError::NotFound { id: id.to_string() })
    }

    /// The entry that has begun and not ended, if there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn current(&self) -> Result<Option<Entry>, QueueError> {
        Ok(self.select("state = 'running' ORDER BY number")?.into_iter().next())
    }

    /// The entry that is next to run at that time.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn next(&self, now_unix_ns: u64) -> Result<Option<Entry>, QueueError> {
        let mut waiting = self.select("state = 'waiting' ORDER BY priority DESC, number")?;
        waiting.retain(|entry| entry.not_before_unix_ns.is_none_or(|at| at <= now_unix_ns));
        Ok(waiting.into_iter().next())
    }

    /// Records that an entry begins, with the id of its bake-off: the one of an earlier beginning, or `run`.
    ///
    /// # Errors
    ///
    /// The disk refuses, or the entry does not wait any more.
    pub fn begin(&mut self, id: RunId, run: RunId) -> Result<Entry, QueueError> {
        let now = WallAnchor::now().unix_ns.cast_signed();
        let changed = self.execute(
            "UPDATE entry SET state = 'running', wish = NULL, reason = NULL, left_unix_ns = NULL, \
             deaths = NULL, deaths_ended = NULL, told_unix_ns = NULL, recorded_unix_ns = NULL, \
             run = coalesce(run, ?2), \
             started_unix_ns = coalesce(started_unix_ns, ?3) WHERE id = ?1 AND state = 'waiting'",
            params![id.to_string(), run.to_string(), now],
        )?;
        let entry = self.entry(id)?;
        if changed == 1 {
            return Ok(entry);
        }
        Err(Refusal { action: Action::Begin, state: entry.state }.into())
    }

    /// Records that the process of a running entry has ended.
    ///
    /// - `state`: its new state; not running.
    /// - `ended_unix_ns`: time of that end, if it is known; else now. It may be long ago.
    /// - `exit_code`: of the process, if it is known.
    /// - `reason`: of a state that no user asked for. A pause with a reason is to be told, as an end is.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn end(
        &mut self,
        id: RunId,
        state: QueueState,
        ended_unix_ns: Option<u64>,
        exit_code: Option<i32>,
        reason: Option<&str>,
    ) -> Result<(), QueueError> {
        assert!(state != QueueState::Running, "an entry that ends does not run");
        let now = WallAnchor::now().unix_ns.cast_signed();
        let ended = state.is_end().then(|| ended_unix_ns.map_or(now, u64::cast_signed));
        let recorded = (state.is_end() || reason.is_some()).then_some(now);
        self.execute(
            "UPDATE entry SET state = ?2, wish = NULL, exit_code = ?3, reason = ?4, ended_unix_ns = ?5, \
             recorded_unix_ns = ?6 WHERE id = ?1 AND state = 'running'",
            params![id.to_string(), state.word(), exit_code, reason, ended, recorded],
        )?;
        Ok(())
    }

    /// Does what a user asks for. For a running entry this is a wish, which its process fulfils.
    ///
    /// # Errors
    ///
    /// [`QueueError::Refused`] if the entry's state does not allow it, or the disk refuses.
    pub fn act(&mut self, id: RunId, action: Action) -> Result<Entry, QueueError> {
        let found = self.entry(id)?;
        let (state, wish) = change(found.state, found.wish, action)?;
        let ended = state.is_end().then(|| WallAnchor::now().unix_ns.cast_signed());
        // A stop that a webhook was told is over, and its reason with it if the entry waits again.
        let changed = self.execute(
            "UPDATE entry SET state = ?2, wish = ?3, ended_unix_ns = ?4, recorded_unix_ns = ?4, told_unix_ns = NULL, \
             reason = CASE ?2 WHEN 'waiting' THEN NULL ELSE reason END WHERE id = ?1 AND state = ?5",
            params![id.to_string(), state.word(), wish.map(Wish::word), ended, found.state.word()],
        )?;
        if changed == 1 {
            return self.entry(id);
        }
        // Its process ended between the two statements.
        let now = self.entry(id)?;
        Err(Refusal { action, state: now.state }.into())
    }

    /// Changes the priority of an entry that waits or is paused.
    ///
    /// # Errors
    ///
    /// [`QueueError::Refused`] if the entry has begun or ended, or the disk refuses.
    pub fn prioritize(&mut self, id: RunId, priority: i32) -> Result<Entry, QueueError> {
        let changed = self.execute(
            "UPDATE entry SET priority = ?2 WHERE id = ?1 AND state IN ('waiting', 'paused')",
            params![id.to_string(), priority],
        )?;
        let entry = self.entry(id)?;
        if changed == 1 {
            Ok(entry)
        } else {
            Err(Refusal { action: Action::Prioritize, state: entry.state }.into())
        }
    }

    /// Entries with an end that was recorded since then, or with a pause that no user asked for, and that no
    /// webhook has received.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn untold(&self, since_unix_ns: u64) -> Result<Vec<Entry>, QueueError> {
        let condition = format!(
            "(NOT {IS_OPEN} OR (state = 'paused' AND reason IS NOT NULL)) AND told_unix_ns IS NULL \
             AND coalesce(recorded_unix_ns, ended_unix_ns) >= ?1 \
             ORDER BY coalesce(ended_unix_ns, recorded_unix_ns)"
        );
        self.select_with(&condition, [since_unix_ns.cast_signed()])
    }

    /// Records that a webhook was told the end or the pause of an entry. One that a user has resumed or
    /// cancelled meanwhile has a later end to tell.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn told(&mut self, entry: &Entry) -> Result<(), QueueError> {
        let now = WallAnchor::now().unix_ns.cast_signed();
        self.execute(
            "UPDATE entry SET told_unix_ns = ?2 WHERE id = ?1 AND state = ?3",
            params![entry.id.to_string(), now, entry.state.word()],
        )?;
        Ok(())
    }

    /// Whether the queue's file can be written.
    ///
    /// # Errors
    ///
    /// It cannot.
    pub fn check(&mut self) -> Result<(), QueueError> {
        let path = self.path.clone();
        let wrong = |source| QueueError::Database { path: path.clone(), source };
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let tx = self.db.transaction_with_behavior(behavior).map_err(wrong)?;
        tx.execute("UPDATE entry SET state = state WHERE number = 0", []).map_err(wrong)?;
        tx.rollback().map_err(wrong)
    }

    fn select(&self, condition: &str) -> Result<Vec<Entry>, QueueError> {
        self.select_with(condition, [])
    }

    fn select_with(&self, condition: &str, values: impl rusqlite::Params) -> Result<Vec<Entry>, QueueError> {
        let select = || -> rusqlite::Result<Vec<Entry>> {
            let mut rows =
                self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM entry WHERE {condition}"))?;
            rows.query_map(values, entry)?.collect()
        };
        select().map_err(|e| self.wrong(e))
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, QueueError> {
        self.db.execute(sql, values).map_err(|e| self.wrong(e))
    }

    fn wrong(&self, source: rusqlite::Error) -> QueueError {
        QueueError::Database { path: self.path.clone(), source }
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let unknown = |name: &str| rusqlite::Error::InvalidColumnName(name.to_owned());
    let time = |name: &str| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(name)?.map(i64::cast_unsigned))
    };
    let id: String = row.get("id")?;
    let state: String = row.get("state")?;
    let wish: Option<String> = row.get("wish")?;
    let run: Option<String> = row.get("run")?;
    Ok(Entry {
        id: id.parse().map_err(|_| unknown("id"))?,
        plan_sha256: row.get("plan_sha256")?,
        title: row.get("title")?,
        by: row.get("by")?,
        priority: row.get("priority")?,
        not_before_unix_ns: time("not_before_unix_ns")?,
        state: QueueState::from_word(&state).ok_or_else(|| unknown("state"))?,
        wish: wish.map(|word| Wish::from_word(&word).ok_or_else(|| unknown("wish"))).transpose()?,
        run: run.map(|run| run.parse().map_err(|_| unknown("run"))).transpose()?,
        estimate_s: row.get("estimate_s")?,
        submitted_unix_ns: time("submitted_unix_ns")?.unwrap_or_default(),
        started_unix_ns: time("started_unix_ns")?,
        ended_unix_ns: time("ended_unix_ns")?,
        exit_code: row.get("exit_code")?,
        reason: row.get("reason")?,
    })
}

mod files;
mod leave;
mod tables;
#[cfg(test)]
mod tests;
