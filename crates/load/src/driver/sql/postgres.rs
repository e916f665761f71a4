//! `postgres://user:password@host:port/database[?tls=verify-full]`: PostgreSQL.
//!
//! If the host is a directory (`%2Frun%2Fpostgresql`, or `?host=/run/postgresql`), it holds the server's
//! socket. A worker prepares the statements when it first connects; after an outage, it prepares each
//! statement when it next needs it. A statement that exceeds its time limit is cut: its socket is shut down,
//! and the server is asked to cancel the statement.

mod answer;
#[cfg(feature = "lua")]
mod client;
mod codec;
mod login;
mod refusal;
mod server;

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use record::load::DataCheck;
use record::missing::Missing;
use socket2::Socket;

use self::answer::{ASIDE_BYTES_MAX, Broken, COMMAND_COMPLETE, Keep, Reader, Ready, Wanted};
use self::codec::TooLong;
use self::login::Welcome;
use self::refusal::broken_failure;
use self::server::{PostgresTarget, Reached, UNIQUE_VIOLATION, read_unasked, server_version, too_long};
use super::session::{Protocol, Sessions};
use crate::connection::{Connection, Cut, Failure, FailureClass, OperationShare};
use crate::driver::{Driver, Look, Scheme};
use crate::net::{Dialogue, Endpoint, Multiplex, Opening, Wire};
use crate::workload::oltp;
use crate::workload::sql::Work;
use crate::workload::statement::{Parameter, Quoting, ResultRow};
use crate::workload::tables::{RowGenerator, Store, TableState, rows_between};

pub(crate) const SCHEME: Scheme = Scheme {
    name: server::NAME,
    form: server::FORM,
    workloads: oltp::WORKLOADS,
    check: |target| PostgresTarget::read(target).map(|_| ()),
    address: |settings| PostgresTarget::read(&settings.target).ok().map(|place| place.address),
    open: |settings| {
        let wrong = |text| Failure::new(FailureClass::Configuration, text);
        let place = PostgresTarget::read(&settings.target).map_err(wrong)?;
        let tls = place.security.plan(place.address.host(), &[]).map_err(wrong)?;
        let peer = Endpoint::of(place.address.clone())?;
        let place = Reached { place, peer, tls };
        if settings.scripts.is_lua() {
            #[cfg(feature = "lua")]
            return Ok(client::driver(settings, place));
            #[cfg(not(feature = "lua"))]
            return Err(super::without_lua());
        }
        Ok(Arc::new(Postgres { place, sessions: Sessions::new(settings)? }))
    },
};

/// Rows per INSERT of a build, about 200 KiB.
const ROWS_AN_INSERT: u64 = 1_000;
/// Rows between two checks whether to stop building.
const ROWS_AT_ONCE: u64 = 10_000;

struct Postgres {
    place: Reached,
    sessions: Sessions,
}

impl Driver for Postgres {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let (wire, welcome) = self.place.connect(cut)?;
        self.sessions.connection(PostgresProtocol::new(&self.place, &welcome, &self.sessions), wire)
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        let (wire, welcome) = self.place.connect(cut)?;
        let version = server_version(&wire, &welcome)
            .ok_or_else(|| Missing::because("the server does not report its version"));
        let mut tables = Tables { wire, request: Vec::new(), sql: String::new() };
        self.sessions.work.read_scale(|sql| tables.number(sql))?;
        let store = || Box::new(tables) as Box<dyn Store>;
        Ok(Look { version, store: self.sessions.work.has_data_set().then(store) })
    }

    fn scale(&self) -> Option<i64> {
        self.sessions.work.scale()
    }

    fn operations(&self) -> Vec<OperationShare> {
        self.sessions.work.operations()
    }

    fn multiplex(&self) -> Option<&dyn Multiplex> {
        Some(self)
    }
}

impl Multiplex for Postgres {
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        let (wire, welcome) = self.place.connect(cut)?;
        self.sessions.conversation(PostgresProtocol::new(&self.place, &welcome, &self.sessions), wire)
    }

    fn begin_open(&self, _: usize) -> Result<Opening, Failure> {
        Ok(Opening::Aside)
    }

    fn closes_idle(&self) -> bool {
        false
    }
}

/// Sends the encoded request and reads its answer.
fn ask(
    wire: &mut Wire,
    written: Result<(), TooLong>,
    request: &[u8],
    mut wanted: Option<Wanted<'_>>,
) -> Result<Ready, Failure> {
    written.map_err(too_long)?;
    wire.hear_left(false, read_unasked)?;
    wire.send(request)?;
    // Requests outside of events have short answers.
    let mut reader = Reader::new(ASIDE_BYTES_MAX);
    reader.begin(codec::completion_of(request));
    let mut bytes = 0;
    let heard = wire.hear(|input, is_end| {
        let (taken, end) = reader.hear(input, is_end, &mut wanted);
        bytes += taken;
        let is_endless = end.is_none() && bytes > ASIDE_BYTES_MAX;
        (taken, if is_endless { Some(Err(Broken::Garbled("an answer does not end"))) } else { end })
    });
    heard?.map_err(broken_failure)
}

/// Logs in without TLS, for [`crate::driver::readers`]; returns whether the server accepted.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn log_in_plain(wire: &mut Wire) -> bool {
    let (user, database) = ("u", "d");
    let who =
        login::Credentials { user, password: Some("p"), database, options: None, may_be_cleartext: false };
    login::log_in(wire, &who).is_ok()
}

/// The reader of answers without a connection, for [`crate::driver::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn reader(keeps: bool, bytes_max: usize) -> impl FnMut(&[u8], bool) -> (usize, Option<bool>) {
    let mut reader = Reader::new(bytes_max);
    let (mut row, mut columns) = (ResultRow::default(), Vec::new());
    move |input, is_end| {
        let mut wanted = keeps.then_some(Wanted { keep: Keep::Last(&mut row), columns: &mut columns });
        let (taken, end) = reader.hear(input, is_end, &mut wanted);
        (taken, end.map(|end| end.is_ok()))
    }
}

/// The reader of whole answers, as scripts in Lua read them, for [`crate::driver::readers`].
///
/// - `fields`: fields of the rows, if the server does not describe them.
#[cfg(all(feature = "lua", any(test, feature = "fuzz")))]
pub(crate) fn reader_of_all(
    fields: usize,
    bytes_max: usize,
) -> impl FnMut(&[u8], bool) -> (usize, Option<bool>) {
    client::reader(fields, bytes_max)
}

/// The protocol of one connection.
struct PostgresProtocol {
    place: Reached,
    /// Identifies the session in a cancel request.
    process_id: i32,
    secret_key: i32,
    work: Arc<Work>,
    is_prepared: bool,
    /// Columns of the answers to each statement, indexed by statement; `None` until the statement is
    /// prepared.
    columns: Vec<Option<Vec<String>>>,
    /// The last statement of the workload that was sent; `None` if another request was sent.
    asked: Option<usize>,
    ready: Ready,
    reader: Reader,
    /// The answer was not read at all yet.
    begins: bool,
    /// Buffer for a statement with its values.
    sql: String,
}

impl PostgresProtocol {
    fn new(place: &Reached, welcome: &Welcome, sessions: &Sessions) -> Self {
        let work = Arc::clone(&sessions.work);
        Self {
            place: place.clone(),
            process_id: welcome.process_id,
            secret_key: welcome.secret_key,
            is_prepared: sessions.is_prepared,
            columns: work.statements().iter().map(|_| None).collect(),
            asked: None,
            ready: Ready::Idle,
            reader: Reader::new(sessions.answer_bytes_max),
            begins: true,
            sql: String::new(),
            work,
        }
    }

    fn begin_answer(&mut self) {
        self.begins = true;
        self.reader.begin(COMMAND_COMPLETE);
    }

    fn refused(&self, broken: Broken) -> Failure {
        // Two OLTP transactions may delete the same row and insert it again. The later one then sees the row
        // deleted, and finds it present on its insert: this error is transient.
        let is_duplicate =
            matches!(&broken, Broken::Refused { code, .. } if code.as_str() == UNIQUE_VIOLATION);
        let failure = broken_failure(broken);
        if is_duplicate && self.work.writes() {
            Failure { class: FailureClass::Transient, ..failure }
        } else {
            failure
        }
    }
}

impl Protocol for PostgresProtocol {
    fn is_ready(&self, statement: usize) -> bool {
        self.columns[statement].is_some()
    }

    #[cold]
    fn make_ready(&mut self, statement: usize, wire: &mut Wire) -> Result<(), Failure> {
        let (mut row, mut columns, mut request) = (ResultRow::default(), Vec::new(), Vec::new());
        if self.is_prepared {
            let sql = self.work.statements()[statement].with_marks(|number| format!("${number}"));
            let written = codec::write_prepare(statement, &sql, &mut request);
            let wanted = Wanted { keep: Keep::Last(&mut row), columns: &mut columns };
            // Assume the worst until the server answers: if the request is refused, its transaction fails
            // too.
            self.ready = Ready::InFailedTransaction;
            self.ready = ask(wire, written, &request, Some(wanted))?;
        }
        self.columns[statement] = Some(columns);
        Ok(())
    }

    fn write(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        request: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.asked = Some(statement);
        self.begin_answer();
        let written = if self.is_prepared {
            codec::write_execute(statement, parameters, request)
        } else {
            let text = &self.work.statements()[statement];
            text.write_values(parameters, Quoting::Standard, &mut self.sql);
            codec::write_query(&self.sql, request)
        };
        written.map_err(too_long)
    }

    fn write_rollback(&mut self, request: &mut Vec<u8>) {
        self.asked = None;
        self.begin_answer();
        codec::write_query("ROLLBACK", request).expect("it is short");
    }

    fn hear(
        &mut self,
        input: &[u8],
        is_end: bool,
        wanted: Option<&mut ResultRow>,
    ) -> (usize, Option<Result<(), Failure>>) {
        let columns = self.asked.and_then(|statement| self.columns[statement].as_mut());
        let begins = std::mem::take(&mut self.begins);
        let mut wanted = wanted.zip(columns).map(|(row, columns)| {
            if begins {
                row.clear();
            }
            Wanted { keep: Keep::Last(row), columns }
        });
        let (taken, end) = self.reader.hear(input, is_end, &mut wanted);
        let answer = match end {
            None => None,
            Some(Ok(ready)) => {
                self.ready = ready;
                Some(Ok(()))
            }
            Some(Err(broken)) => {
                // A refusal inside a transaction makes it fail; if there was no transaction, a rollback does
                // no harm.
                self.ready = Ready::InFailedTransaction;
                Some(Err(self.refused(broken)))
            }
        };
        (taken, answer)
    }

    fn hear_unasked(&mut self, input: &[u8]) -> (usize, Option<Failure>) {
        read_unasked(input)
    }

    fn is_in_transaction(&self) -> bool {
        self.ready != Ready::Idle
    }

    fn may_be_in_transaction(&self) -> bool {
        self.is_in_transaction()
    }

    fn give_up(&self) {
        self.place.cancel(self.process_id, self.secret_key);
    }
}

/// The tables in the database. Each is built in one transaction: completely or not at all.
struct Tables {
    wire: Wire,
    request: Vec<u8>,
    sql: String,
}

impl Tables {
    fn query(&mut self, sql: &str, wanted: Option<Wanted<'_>>) -> Result<(), Failure> {
        let written = codec::write_query(sql, &mut self.request);
        ask(&mut self.wire, written, &self.request, wanted).map(drop)
    }

    fn send(&mut self, sql: &str) -> Result<(), Failure> {
        self.query(sql, None)
    }

    /// The number in the answer to a query.
    fn number(&mut self, sql: &str) -> Result<u64, Failure> {
        self.number_or_null(sql)?.ok_or_else(|| no_number(sql))
    }

    fn number_or_null(&mut self, sql: &str) -> Result<Option<u64>, Failure> {
        let (mut row, mut columns) = (ResultRow::default(), Vec::new());
        self.query(sql, Some(Wanted { keep: Keep::Last(&mut row), columns: &mut columns }))?;
        match row.values.first() {
            Some(None) => Ok(None),
            Some(Some(text)) => text.parse().map(Some).map_err(|_| no_number(sql)),
            None => Err(no_number(sql)),
        }
    }

    fn has(&mut self, relation: &str) -> Result<bool, Failure> {
        // Resolves the unqualified name, as the statements of the workload do.
        Ok(self.number(&format!(
            "SELECT count(*) FROM (SELECT to_regclass('{relation}') r) x WHERE r IS NOT NULL"
        ))? > 0)
    }

    fn fill(
        &mut self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        self.send(&format!(
            "CREATE TABLE sbtest{table}(id SERIAL, k INTEGER DEFAULT '0' NOT NULL, \
             c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))"
        ))?;
        while self.write_insert(table, rows) {
            let written = codec::write_query(&self.sql, &mut self.request);
            ask(&mut self.wire, written, &self.request, None)?;
            if rows.made().is_multiple_of(ROWS_AT_ONCE) && on_rows(rows.made()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.send(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)"))?;
        Ok(ControlFlow::Continue(()))
    }

    /// Writes one INSERT of the next rows; returns false if no rows are left. The ids come from the sequence,
    /// so it continues after the last of them.
    fn write_insert(&mut self, table: u32, rows: &mut RowGenerator) -> bool {
        self.sql.clear();
        // A write to a string cannot fail.
        let _ = write!(self.sql, "INSERT INTO sbtest{table} (k, c, pad) VALUES ");
        let mut separator = "";
        for _ in 0..ROWS_AN_INSERT {
            let Some(row) = rows.next() else { break };
            let _ = write!(self.sql, "{separator}({}, '{}', '{}')", row.k, row.c, row.pad);
            separator = ", ";
        }
        !separator.is_empty()
    }
}

impl Store for Tables {
    fn find(&mut self, table: u32, depth: DataCheck) -> Result<TableState, Failure> {
        if !self.has(&format!("sbtest{table}"))? {
            return Ok(TableState::Nothing);
        }
        let rows = if depth == DataCheck::Full {
            self.number(&format!("SELECT count(*) FROM sbtest{table}"))?
        } else {
            let (first, last) =
                (format!("SELECT min(id) FROM sbtest{table}"), format!("SELECT max(id) FROM sbtest{table}"));
            rows_between(self.number_or_null(&first)?, self.number_or_null(&last)?)
        };
        let has_index = self.number(&format!(
            "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
             WHERE i.indrelid = 'sbtest{table}'::regclass AND a.attname = 'k' AND i.indisvalid"
        ))? > 0;
        Ok(TableState::Table { rows, has_index })
    }

    fn build(
        &mut self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        self.send("BEGIN")?;
        let filled = self.fill(table, rows, on_rows);
        if !matches!(filled, Ok(ControlFlow::Continue(()))) {
            self.send("ROLLBACK")?;
            return filled;
        }
        self.send("COMMIT")?;
        // Otherwise the server would do this in the middle of a load and then replan its queries.
        self.send(&format!("VACUUM ANALYZE sbtest{table}"))?;
        Ok(ControlFlow::Continue(()))
    }

    fn remove(&mut self, table: u32) -> Result<bool, Failure> {
        let was_there = self.has(&format!("sbtest{table}"))?;
        self.send(&format!("DROP TABLE IF EXISTS sbtest{table}"))?;
        Ok(was_there)
    }
}

fn no_number(sql: &str) -> Failure {
    Failure::new(FailureClass::Application, format!("`{sql}` did not return a number"))
}

#[cfg(test)]
mod tests;
