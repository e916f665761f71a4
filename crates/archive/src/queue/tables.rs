//! The tables of `queue.sqlite`, and their versions.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// Version of the tables.
const VERSION: i64 = 4;
/// Maximum wait for another process's transaction.
const PATIENCE: Duration = Duration::from_secs(30);
const TABLES: &str = "
CREATE TABLE entry (
    number             INTEGER PRIMARY KEY AUTOINCREMENT,
    id                 TEXT NOT NULL UNIQUE,
    plan               TEXT NOT NULL,
    plan_sha256        TEXT NOT NULL,
    title              TEXT NOT NULL,
    by                 TEXT NOT NULL,
    priority           INTEGER NOT NULL,
    not_before_unix_ns INTEGER,
    state              TEXT NOT NULL,
    wish               TEXT,
    run                TEXT UNIQUE,
    estimate_s         REAL NOT NULL,
    submitted_unix_ns  INTEGER NOT NULL,
    started_unix_ns    INTEGER,
    ended_unix_ns      INTEGER,
    exit_code          INTEGER,
    reason             TEXT,
    told_unix_ns       INTEGER,
    recorded_unix_ns   INTEGER,
    left_unix_ns       INTEGER,
    deaths             INTEGER,
    deaths_ended       INTEGER
) STRICT;
CREATE INDEX entry_by_state ON entry (state);
";

/// Columns that later versions of the tables have, each with the last version without it.
const LATER: [(i64, &str); 5] =
    [(1, "told_unix_ns"), (2, "recorded_unix_ns"), (2, "left_unix_ns"), (3, "deaths"), (3, "deaths_ended")];

/// Opens the file; adds what its tables lack.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut db = Connection::open(path)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    db.busy_timeout(PATIENCE)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A change must survive a power failure: it may have started a process.
    db.pragma_update(None, "synchronous", "FULL")?;
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let tx = db.transaction_with_behavior(behavior)?;
    let version: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match version {
        0 => {
            tx.execute_batch(TABLES)?;
            tx.pragma_update(None, "user_version", VERSION)?;
        }
        1..VERSION => {
            for (_, column) in LATER.into_iter().filter(|(without, _)| version <= *without) {
                tx.execute_batch(&format!("ALTER TABLE entry ADD COLUMN {column} INTEGER"))?;
            }
            tx.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        // The queue is data, not an index: it is never rebuilt.
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(0, other)),
    }
    tx.commit()?;
    Ok(db)
}
