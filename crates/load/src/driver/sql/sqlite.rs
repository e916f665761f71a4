//! `sqlite:PATH[?journal_mode=wal&...]`: the database is a library in the worker's thread.
//!
//! Each worker opens the file separately. The parameters are pragmas. SQLite silently ignores invalid values,
//! so each pragma is read back and compared. A writing transaction begins with BEGIN IMMEDIATE: if the first
//! write after reads cannot get the lock, the transaction must be rolled back, however long the busy timeout
//! is.

mod opening;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use record::load::{DataCheck, LoadSettings, OltpMix, PreparePolicy};
use record::nearest::did_you_mean;
use record::target::Target;
use rusqlite::types::ValueRef;
use rusqlite::{Connection as Database, ErrorCode, OpenFlags, Statement as Prepared};

use crate::connection::{Connection, Cut, Failure, FailureClass, OperationShare};
use crate::driver::{Driver, Look, Scheme};
use crate::workload::oltp::{self, Statement};
use crate::workload::sql::{Sql, Work, Worker};
use crate::workload::statement::{Parameter, Quoting, ResultRow};
use crate::workload::tables::{RowGenerator, Store, TableState, rows_between};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "sqlite",
    form: "sqlite:PATH[?journal_mode=wal&synchronous=normal]",
    workloads: oltp::WORKLOADS,
    check: |target| SqliteTarget::read(target).map(|_| ()),
    address: |_| None,
    open: |settings| {
        let wrong = |text| Failure::new(FailureClass::Configuration, text);
        let place = SqliteTarget::read(&settings.target).map_err(wrong)?;
        if settings.scripts.is_lua() {
            let text =
                "Lua scripts need MySQL or PostgreSQL: use a mysql:// or postgres:// target".to_owned();
            return Err(wrong(text));
        }
        Ok(Arc::new(Sqlite::new(place, settings)?))
    },
};

/// Default busy timeout: the time that a statement waits for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Rows between two checks whether to stop building.
const ROWS_AT_ONCE: u64 = 10_000;

/// The pragmas that a target may set, with the words that SQLite accepts for the numbers it returns.
const PRAGMAS: [(&str, &[&str]); 11] = [
    ("busy_timeout", &[]),
    ("page_size", &[]),
    ("journal_mode", &[]),
    ("synchronous", &["off", "normal", "full", "extra"]),
    ("locking_mode", &[]),
    ("cache_size", &[]),
    ("cache_spill", &[]),
    ("mmap_size", &[]),
    ("temp_store", &["default", "file", "memory"]),
    ("wal_autocheckpoint", &[]),
    ("journal_size_limit", &[]),
];

/// A parsed target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SqliteTarget {
    path: PathBuf,
    /// In the order of [`PRAGMAS`]: a page size must come before the journal mode that writes the first page.
    pragmas: Vec<(&'static str, String)>,
}

struct Sqlite {
    place: SqliteTarget,
    work: Arc<Work>,
    is_prepared: bool,
    /// Whether a missing file is created.
    may_create: bool,
}

impl SqliteTarget {
    fn read(target: &Target) -> Result<Self, String> {
        let rest = target.expose().split_once(':').map_or("", |(_, rest)| rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path == ":memory:" {
            return Err(
                "expected a file that all workers can open: write `sqlite:/path/to/file.db`".to_owned()
            );
        }
        let mut given = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(format!("`{pair}` is not NAME=VALUE"))?;
            let known = PRAGMAS.iter().position(|(pragma, _)| *pragma == name);
            let known = known.ok_or_else(|| {
                let names: Vec<_> = PRAGMAS.iter().map(|(pragma, _)| *pragma).collect();
                let meant = did_you_mean(name, names.iter().copied());
                format!("unknown parameter `{name}`: expected one of {}{meant}", names.join(", "))
            })?;
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if value.is_empty() || !value.chars().all(is_word) {
                return Err(format!(
                    "`{value}` is not a value for `{name}`: expected a word or a whole number"
                ));
            }
            given.push((known, value.to_ascii_lowercase()));
        }
        given.sort_by_key(|(known, _)| *known);
        let pragmas = given.into_iter().map(|(known, value)| (PRAGMAS[known].0, value)).collect();
        Ok(Self { path: PathBuf::from(path), pragmas })
    }

    fn open(&self, flags: OpenFlags) -> Result<Database, Failure> {
        let database = opening::open(&self.path, flags)?;
        database.busy_timeout(BUSY_TIMEOUT).map_err(|e| failure(&e))?;
        for (name, value) in &self.pragmas {
            set_pragma(&database, name, value)?;
        }
        Ok(database)
    }
}

/// Sets a pragma and reads back the effective value.
fn set_pragma(database: &Database, name: &str, value: &str) -> Result<(), Failure> {
    // Some pragmas return a row, some do not.
    let set = |sql: &str| -> rusqlite::Result<()> {
        let mut statement = database.prepare(sql)?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    };
    set(&format!("PRAGMA {name}={value}")).map_err(|e| failure(&e))?;
    let read = |row: &rusqlite::Row<'_>| {
        row.get_ref(0).map(|value| match value {
            ValueRef::Integer(n) => n.to_string(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        })
    };
    let in_force: String =
        database.query_row(&format!("PRAGMA {name}"), [], read).map_err(|e| failure(&e))?;
    let words = PRAGMAS.iter().find(|(pragma, _)| *pragma == name).map_or(&[][..], |(_, words)| *words);
    let in_words = in_force.parse().ok().and_then(|n: usize| words.get(n)).copied();
    if in_force.eq_ignore_ascii_case(value) || in_words == Some(value) {
        return Ok(());
    }
    let shown = in_words.map_or(in_force, str::to_owned);
    let text = format!("SQLite does not accept {name}={value}: {name} remains {shown}");
    Err(Failure::new(FailureClass::Configuration, text))
}

impl Sqlite {
    fn new(place: SqliteTarget, settings: &LoadSettings) -> Result<Self, Failure> {
        let may_create = settings.prepare != PreparePolicy::Never;
        let is_prepared = settings.oltp.prepared;
        Ok(Self { place, work: Arc::new(Work::new(settings)?), is_prepared, may_create })
    }

    /// Removes the empty file that SQLite creates before it refuses a pragma.
    fn remove_empty(&self) {
        if std::fs::metadata(&self.place.path).is_ok_and(|m| m.is_file() && m.len() == 0) {
            // A file that cannot be removed is empty; the earlier failure is the one to report.
            let _ = std::fs::remove_file(&self.place.path);
        }
    }

    /// The failure to report if the file does not exist and must not be created.
    fn missing(&self) -> Option<Failure> {
        let path = &self.place.path;
        let is_missing = !self.may_create && path.try_exists().is_ok_and(|exists| !exists);
        is_missing.then(|| {
            let text = format!(
                "{} does not exist: check the path, or build the data set with `bakeoff prepare` or `--prepare auto`",
                path.display()
            );
            Failure::new(FailureClass::Configuration, text)
        })
    }
}

impl Driver for Sqlite {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let database =
            Box::new(self.place.open(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?);
        let handle = database.get_interrupt_handle();
        cut.arm(move || handle.interrupt());
        let statements = self.work.statements().iter().map(|_| None).collect();
        let (work, sql) = (Arc::clone(&self.work), String::new());
        let mut session = Session { statements, work, sql, database };
        if self.is_prepared {
            session.prepare()?;
        }
        Ok(Box::new(Worker::new(session, Arc::clone(&self.work))))
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, self.may_create);
        let was_there = self.place.path.exists();
        let database = self.place.open(flags).map_err(|failure| {
            if !was_there {
                self.remove_empty();
            }
            self.missing().unwrap_or(failure)
        })?;
        let handle = database.get_interrupt_handle();
        cut.arm(move || handle.interrupt());
        let version = Ok(format!("SQLite {}", rusqlite::version()));
        let count =
            |sql: &str| database.query_row(sql, [], |row| row.get::<_, u32>(0)).map_err(|e| failure(&e));
        self.work.read_scale(|sql| count(sql).map(u64::from))?;
        let tables = || Box::new(Tables { database }) as Box<dyn Store>;
        Ok(Look { version, store: self.work.has_data_set().then(tables) })
    }

    fn scale(&self) -> Option<i64> {
        self.work.scale()
    }

    fn operations(&self) -> Vec<OperationShare> {
        self.work.operations()
    }
}

/// One worker's database with its statements.
struct Session {
    /// Indexed by statement, `None` if sent as text; declared before the database, and so dropped before it.
    statements: Vec<Option<Prepared<'static>>>,
    work: Arc<Work>,
    /// Buffer for a statement with its values.
    sql: String,
    database: Box<Database>,
}

/// Statement that begins a writing transaction, in place of the workload's BEGIN.
const BEGIN_WRITING: &str = "BEGIN IMMEDIATE";

impl Session {
    fn prepare(&mut self) -> Result<(), Failure> {
        let work = Arc::clone(&self.work);
        for (number, text) in work.statements().iter().enumerate() {
            let sql = text.with_marks(|_| "?".to_owned());
            let sql = if sql == "BEGIN" && work.writes() { BEGIN_WRITING } else { &sql };
            let prepared = self.database.prepare(sql).map_err(|e| {
                let failure = match failure(&e) {
                    // A statement that is invalid here fails in every event.
                    Failure { class: FailureClass::Application, text, .. } => {
                        Failure::new(FailureClass::Configuration, text)
                    }
                    other => other,
                };
                work.placed(number, failure)
            })?;
            // SAFETY: only the lifetime changes. A statement borrows the database, which is boxed and so does
            // not move, is never given away or replaced, and is dropped after the statements: fields drop in
            // declaration order.
            let prepared = unsafe { std::mem::transmute::<Prepared<'_>, Prepared<'static>>(prepared) };
            self.statements[number] = Some(prepared);
        }
        Ok(())
    }

    fn execute_text(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        row: Option<&mut ResultRow>,
    ) -> rusqlite::Result<()> {
        self.work.statements()[statement].write_values(parameters, Quoting::Standard, &mut self.sql);
        let sql = if self.sql == "BEGIN" && self.work.writes() { BEGIN_WRITING } else { &self.sql };
        step(&mut self.database.prepare(sql)?, &[], row)
    }
}

impl Sql for Session {
    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        row: Option<&mut ResultRow>,
    ) -> Result<(), Failure> {
        let result = match &mut self.statements[statement] {
            Some(prepared) => step(prepared, parameters, row),
            None => self.execute_text(statement, parameters, row),
        };
        result.map_err(|e| failure(&e))
    }

    fn roll_back(&mut self) {
        if self.is_in_transaction() {
            // An error means that SQLite has already rolled back.
            let _ = self.database.execute_batch("ROLLBACK");
        }
    }

    fn is_in_transaction(&self) -> bool {
        !self.database.is_autocommit()
    }
}

/// Executes a statement and reads its answer to the end.
fn step(
    prepared: &mut Prepared<'_>,
    parameters: &[Parameter<'_>],
    mut kept: Option<&mut ResultRow>,
) -> rusqlite::Result<()> {
    for (number, parameter) in (1..).zip(parameters) {
        match parameter {
            Parameter::Null => prepared.raw_bind_parameter(number, rusqlite::types::Null)?,
            Parameter::Integer(n) => prepared.raw_bind_parameter(number, n)?,
            Parameter::Real(x) => prepared.raw_bind_parameter(number, x)?,
            Parameter::Text(text) => prepared.raw_bind_parameter(number, text)?,
        }
    }
    if let Some(kept) = &mut kept {
        kept.clear();
        kept.names.extend(prepared.column_names().map(str::to_owned));
    }
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        std::hint::black_box(row.get_ref(0)?);
        if let Some(kept) = &mut kept {
            kept.rows += 1;
            kept.values.clear();
            for column in 0..kept.names.len() {
                kept.values.push(text_of(row.get_ref(column)?));
            }
        }
    }
    Ok(())
}

fn text_of(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(n) => Some(n.to_string()),
        ValueRef::Real(x) => Some(x.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// The tables in the file. Each is built in one transaction: completely or not at all.
struct Tables {
    database: Database,
}

impl Tables {
    fn fill(
        &self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> rusqlite::Result<ControlFlow<()>> {
        self.database.execute_batch(&format!(
            "CREATE TABLE sbtest{table}(id INTEGER NOT NULL PRIMARY KEY, k INTEGER DEFAULT 0 NOT NULL, \
             c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL)"
        ))?;
        let insert = Statement::Insert.text(table, &OltpMix::USUAL).with_marks(|_| "?".to_owned());
        let mut insert = self.database.prepare(&insert)?;
        while let Some(row) = rows.next() {
            use Parameter::{Integer, Text};
            let (id, k) = (row.id.cast_signed(), row.k.cast_signed());
            step(&mut insert, &[Integer(id), Integer(k), Text(row.c), Text(row.pad)], None)?;
            if rows.made().is_multiple_of(ROWS_AT_ONCE) && on_rows(rows.made()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.database.execute_batch(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)"))?;
        Ok(ControlFlow::Continue(()))
    }

    fn has(&self, kind: &str, name: &str) -> Result<bool, Failure> {
        let sql = "SELECT COUNT(*) FROM sqlite_master WHERE type = ? AND name = ?";
        let found: i64 =
            self.database.query_row(sql, [kind, name], |row| row.get(0)).map_err(|e| failure(&e))?;
        Ok(found > 0)
    }
}

impl Store for Tables {
    fn find(&mut self, table: u32, depth: DataCheck) -> Result<TableState, Failure> {
        if !self.has("table", &format!("sbtest{table}"))? {
            return Ok(TableState::Nothing);
        }
        let id_at = |place: &str| {
            let sql = format!("SELECT {place}(id) FROM sbtest{table}");
            let id: Option<i64> =
                self.database.query_row(&sql, [], |row| row.get(0)).map_err(|e| failure(&e))?;
            Ok(id.and_then(|id| u64::try_from(id).ok()))
        };
        let rows = if depth == DataCheck::Full {
            id_at("COUNT")?.unwrap_or(0)
        } else {
            // One query each: for both at once, SQLite would scan the whole table.
            rows_between(id_at("MIN")?, id_at("MAX")?)
        };
        let has_index = self.has("index", &format!("k_{table}"))?;
        Ok(TableState::Table { rows, has_index })
    }

    fn build(
        &mut self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        self.database.execute_batch("BEGIN IMMEDIATE").map_err(|e| failure(&e))?;
        let filled = self.fill(table, rows, on_rows);
        let is_whole = matches!(filled, Ok(ControlFlow::Continue(())));
        let ended = self.database.execute_batch(if is_whole { "COMMIT" } else { "ROLLBACK" });
        let filled = filled.map_err(|e| failure(&e))?;
        ended.map_err(|e| failure(&e))?;
        if is_whole {
            // A load starts with the rows in the file, not in a write-ahead log that it would have to
            // checkpoint first. Another connection may prevent this; then the log stays, and is only longer.
            let _ = self.database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        }
        Ok(filled)
    }

    fn remove(&mut self, table: u32) -> Result<bool, Failure> {
        let was_there = self.has("table", &format!("sbtest{table}"))?;
        let sql = format!("DROP TABLE IF EXISTS sbtest{table}");
        self.database.execute_batch(&sql).map_err(|e| failure(&e))?;
        Ok(was_there)
    }
}

fn failure(error: &rusqlite::Error) -> Failure {
    let class = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FailureClass::Transient,
        Some(ErrorCode::OperationInterrupted) => FailureClass::Connection,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => FailureClass::Configuration,
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory,
        ) => FailureClass::Machine,
        _ => FailureClass::Application,
    };
    Failure::new(class, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(written: &str) -> Result<SqliteTarget, String> {
        SqliteTarget::read(&Target::new(written))
    }

    #[test]
    fn parameters_are_pragmas_and_unknown_ones_are_refused() {
        let place = read("sqlite:/tmp/x.db?journal_mode=WAL&page_size=8192").unwrap();
        assert_eq!(place.path, Path::new("/tmp/x.db"));
        assert_eq!(place.pragmas, [("page_size", "8192".to_owned()), ("journal_mode", "wal".to_owned())]);
        assert!(read("sqlite:x?jurnal_mode=wal").unwrap_err().contains("expected one of busy_timeout"));
        for wrong in ["sqlite:", "sqlite::memory:", "sqlite:x?journal_mode", "sqlite:x?cache_size=1;DROP"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn root_a_journal_that_another_user_has_put_beside_it_is_not_played_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("x.db"), dir.path().join("victim"));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let place = read(&format!("sqlite:{}", path.display())).unwrap();
        place.open(flags).unwrap().execute_batch("CREATE TABLE t(i)").unwrap();
        for end in opening::BESIDE {
            std::fs::write(&victim, "precious").unwrap();
            let beside = dir.path().join(format!("x.db{end}"));
            std::fs::write(&beside, journal_naming(&victim)).unwrap();
            if std::os::unix::fs::chown(&beside, Some(65_534), None).is_err() {
                println!("skipped: not root");
                return;
            }
            let refused = place.open(flags).map(drop).unwrap_err();
            assert!(refused.text.contains("belongs to another user"), "{}", refused.text);
            assert!(beside.exists() && victim.exists());
            std::fs::remove_file(&beside).unwrap();
        }
        // Control: SQLite alone plays it back. Up to 3.40 at least, that removes the file that the journal
        // names.
        let journal = dir.path().join("x.db-journal");
        std::fs::write(&journal, journal_naming(&victim)).unwrap();
        let database = Database::open_with_flags(&path, flags).unwrap();
        database.query_row("SELECT COUNT(*) FROM t", [], |_| Ok(())).unwrap();
        assert!(!journal.exists());
    }

    /// A rollback journal without pages that names `super_journal`.
    ///
    /// # Source
    ///
    /// <https://www.sqlite.org/fileformat.html#the_rollback_journal>; `pager.c`, `writeSuperJournal`
    fn journal_naming(super_journal: &Path) -> Vec<u8> {
        let name = super_journal.to_str().unwrap().as_bytes();
        let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let mut journal = magic.to_vec();
        // No pages; a nonce; pages of the database; sector size; page size.
        for number in [0_u32, 7, 2, 512, 4096] {
            journal.extend(number.to_be_bytes());
        }
        journal.resize(512, 0);
        journal.extend((0x4000_0000_u32 / 4096 + 1).to_be_bytes());
        journal.extend(name);
        journal.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
        journal.extend(name.iter().map(|b| u32::from(*b)).sum::<u32>().to_be_bytes());
        journal.extend(magic);
        journal
    }

    #[test]
    fn a_pragma_that_sqlite_does_not_take_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let open = |query: &str| read(&format!("sqlite:{}?{query}", path.display())).unwrap().open(flags);
        for good in
            ["journal_mode=wal&synchronous=normal", "synchronous=2", "temp_store=memory&cache_size=-2000"]
        {
            assert!(open(good).is_ok(), "{good}");
        }
        for (wrong, stays) in
            [("journal_mode=wall", "journal_mode remains wal"), ("synchronous=ful", "synchronous remains")]
        {
            let failure = open(wrong).err().unwrap();
            assert_eq!(failure.class, FailureClass::Configuration);
            assert!(failure.text.contains(stays), "{}", failure.text);
        }
    }
}
