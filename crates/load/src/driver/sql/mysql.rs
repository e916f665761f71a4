//! `mysql://user:password@host:port/database[?socket=PATH&tls=...]`: MariaDB and MySQL.
//!
//! The connection uses TCP to `host`, also for `localhost`, unless `socket` names a Unix socket. A worker
//! prepares the statements on the server when it first connects; after an outage, it prepares each statement
//! when it next needs it.

mod answer;
#[cfg(feature = "lua")]
mod client;
mod codec;
mod cursor;
mod format;
mod login;
mod proof;
mod refusal;
mod server;

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use record::load::DataCheck;
use record::missing::Missing;
use socket2::Socket;

use self::answer::{Broken, Column, Form, Keep, Reader, Wanted};
use self::codec::Prepared;
use self::refusal::{NO_SUCH_TABLE, broken_failure};
use self::server::{
    ASIDE_BYTES_MAX, CANNOT_BE_PREPARED, MysqlTarget, log_in, prepare, read_unasked, version_name,
};
use super::session::{Protocol, Sessions};
use crate::connection::{Connection, Cut, Failure, FailureClass, OperationShare};
use crate::driver::{Driver, Look, Scheme};
use crate::net::tls::Plan;
use crate::net::{Dialogue, Endpoint, Multiplex, Opening, Wire};
use crate::workload::oltp;
use crate::workload::sql::Work;
use crate::workload::statement::{Parameter, Quoting, ResultRow};
use crate::workload::tables::{RowGenerator, Store, TableState, rows_between};

pub(crate) const SCHEME: Scheme = Scheme {
    name: server::NAME,
    form: server::FORM,
    workloads: oltp::WORKLOADS,
    check: |target| MysqlTarget::read(target).map(|_| ()),
    address: |settings| MysqlTarget::read(&settings.target).ok().map(|place| place.address),
    open: |settings| {
        let wrong = |text| Failure::new(FailureClass::Configuration, text);
        let place = MysqlTarget::read(&settings.target).map_err(wrong)?;
        let tls = place.security.plan(&place.host, &[]).map_err(wrong)?;
        let peer = Endpoint::of(place.address.clone())?;
        if settings.scripts.is_lua() {
            #[cfg(feature = "lua")]
            return Ok(client::driver(settings, (place, peer, tls)));
            #[cfg(not(feature = "lua"))]
            return Err(super::without_lua());
        }
        Ok(Arc::new(MySql { place, peer, tls, sessions: Sessions::new(settings)? }))
    },
};

/// Rows per INSERT of a build, about 200 KiB.
const ROWS_AN_INSERT: u64 = 1_000;
/// Inserts per transaction of a build.
const INSERTS_A_TRANSACTION: u64 = 10;

struct MySql {
    place: MysqlTarget,
    peer: Endpoint,
    tls: Option<Plan>,
    sessions: Sessions,
}

impl MySql {
    /// Opens a session; also returns the server's version.
    fn log_in(&self, cut: &Cut) -> Result<(Wire, String), Failure> {
        log_in(&self.place, &self.peer, self.tls.as_ref(), cut)
    }
}

impl Driver for MySql {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let (wire, _) = self.log_in(cut)?;
        self.sessions.connection(MysqlProtocol::new(&self.sessions), wire)
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        let (wire, version) = self.log_in(cut)?;
        let version = match version.as_str() {
            "" => Err(Missing::because("the server does not report its version")),
            version => Ok(version_name(version) + wire.tls_version()),
        };
        let mut tables = Tables { wire, request: Vec::new(), sql: String::new() };
        self.sessions.work.read_scale(|sql| tables.count(sql))?;
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

impl Multiplex for MySql {
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        let (wire, _) = self.log_in(cut)?;
        self.sessions.conversation(MysqlProtocol::new(&self.sessions), wire)
    }

    fn begin_open(&self, _: usize) -> Result<Opening, Failure> {
        Ok(Opening::Aside)
    }

    fn closes_idle(&self) -> bool {
        false
    }
}

/// Treatment of rows by a reader, for [`crate::driver::readers`].
#[cfg(any(test, feature = "fuzz"))]
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadForm {
    Passed,
    Binary,
    Text,
}

/// The reader of whole answers, as scripts in Lua read them, for [`crate::driver::readers`].
#[cfg(all(feature = "lua", any(test, feature = "fuzz")))]
pub(crate) fn reader_of_all(is_binary: bool, bytes_max: usize) -> impl FnMut(&[u8]) -> (usize, Option<bool>) {
    client::reader(if is_binary { Form::Binary } else { Form::Text }, bytes_max)
}

/// Logs in without TLS, for [`crate::driver::readers`]; returns whether the server accepted.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn log_in_plain(wire: &mut Wire) -> bool {
    let who = login::Credentials { user: "u", password: "p", database: "d", is_private: false };
    login::log_in(wire, &who, None).is_ok()
}

/// The reader of answers without a connection.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn reader(form: ReadForm, bytes_max: usize) -> impl FnMut(&[u8]) -> (usize, Option<bool>) {
    let mut reader = Reader::new(bytes_max);
    let (mut row, mut columns) = (ResultRow::default(), Vec::new());
    move |input| {
        let form = match form {
            ReadForm::Passed => None,
            ReadForm::Binary => Some(Form::Binary),
            ReadForm::Text => Some(Form::Text),
        };
        let mut wanted = form.map(|form| Wanted { keep: Keep::Last(&mut row), columns: &mut columns, form });
        let (taken, end) = reader.hear(input, &mut wanted);
        (taken, end.map(|end| end.is_ok()))
    }
}

/// The protocol of one connection.
struct MysqlProtocol {
    work: Arc<Work>,
    is_prepared: bool,
    /// Indexed by statement; `None` until the statement is first needed.
    statements: Vec<Option<Ready>>,
    /// The last statement of the workload that was sent; `None` if another request was sent.
    asked: Option<usize>,
    is_in_transaction: bool,
    reader: Reader,
    /// Columns of an answer to another request.
    of_none: Vec<Column>,
    /// Buffer for a statement with its values.
    sql: String,
}

/// The form in which a statement is sent.
enum Ready {
    Prepared(Prepared),
    /// Text, with the columns of its answer.
    Text(Vec<Column>),
}

impl MysqlProtocol {
    fn new(sessions: &Sessions) -> Self {
        let (work, is_prepared) = (Arc::clone(&sessions.work), sessions.is_prepared);
        let statements = work.statements().iter().map(|_| None).collect();
        Self {
            work,
            is_prepared,
            statements,
            asked: None,
            is_in_transaction: false,
            reader: Reader::new(sessions.answer_bytes_max),
            of_none: Vec::new(),
            sql: String::new(),
        }
    }
}

impl Protocol for MysqlProtocol {
    fn is_ready(&self, statement: usize) -> bool {
        self.statements[statement].is_some()
    }

    #[cold]
    fn make_ready(&mut self, statement: usize, wire: &mut Wire) -> Result<(), Failure> {
        let as_text = Ready::Text(Vec::new());
        let ready = if self.is_prepared {
            let sql = self.work.statements()[statement].with_marks(|_| "?".to_owned());
            match prepare(wire, &sql) {
                Ok(prepared) => Ready::Prepared(prepared),
                Err(Broken::Refused { code: CANNOT_BE_PREPARED, .. }) => as_text,
                Err(broken) => return Err(broken_failure(broken)),
            }
        } else {
            as_text
        };
        self.statements[statement] = Some(ready);
        Ok(())
    }

    fn write(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        request: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if let Some(Ready::Prepared(prepared)) = &mut self.statements[statement] {
            codec::write_execute(prepared, parameters, request);
        } else {
            let text = &self.work.statements()[statement];
            text.write_values(parameters, Quoting::Backslash, &mut self.sql);
            codec::write_query(&self.sql, request);
        }
        self.asked = Some(statement);
        self.reader.begin();
        Ok(())
    }

    fn write_rollback(&mut self, request: &mut Vec<u8>) {
        self.asked = None;
        self.reader.begin();
        codec::write_query("ROLLBACK", request);
    }

    fn hear(
        &mut self,
        input: &[u8],
        _: bool,
        wanted: Option<&mut ResultRow>,
    ) -> (usize, Option<Result<(), Failure>>) {
        let Self { statements, asked, reader, of_none, .. } = self;
        let ready = asked.and_then(|statement| statements[statement].as_mut());
        let (form, columns) = match ready {
            Some(Ready::Prepared(prepared)) => (Form::Binary, &mut prepared.columns),
            Some(Ready::Text(columns)) => (Form::Text, columns),
            None => (Form::Text, of_none),
        };
        let mut wanted = wanted.map(|row| Wanted { keep: Keep::Last(row), columns, form });
        let (taken, end) = reader.hear(input, &mut wanted);
        let answer = match end {
            None => None,
            Some(Ok(status)) => {
                self.is_in_transaction = status.is_in_transaction();
                Some(Ok(()))
            }
            Some(Err(broken)) => {
                let ready = self.asked.and_then(|statement| self.statements[statement].as_mut());
                if let Some(Ready::Prepared(prepared)) = ready {
                    prepared.forget_types();
                }
                Some(Err(broken_failure(broken)))
            }
        };
        (taken, answer)
    }

    fn hear_unasked(&mut self, input: &[u8]) -> (usize, Option<Failure>) {
        read_unasked(input)
    }

    fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
    }

    /// Always true: MariaDB does not report whether an error ended the transaction.
    fn may_be_in_transaction(&self) -> bool {
        true
    }
}

/// Sends a statement as text and reads its answer to the end.
fn ask(wire: &mut Wire, sql: &str, request: &mut Vec<u8>, row: Option<&mut ResultRow>) -> Result<(), Broken> {
    codec::write_query(sql, request);
    wire.hear_left(false, read_unasked)?;
    wire.send(request)?;
    let mut columns = Vec::new();
    let mut wanted = row.map(|row| Wanted { keep: Keep::Last(row), columns: &mut columns, form: Form::Text });
    let mut reader = Reader::new(ASIDE_BYTES_MAX);
    let mut bytes = 0;
    let end = wire.hear(|input, _| {
        let (taken, end) = reader.hear(input, &mut wanted);
        bytes += taken;
        let is_endless = end.is_none() && bytes > ASIDE_BYTES_MAX;
        (taken, if is_endless { Some(Err(Broken::Garbled("an answer does not end"))) } else { end })
    });
    end?.map(drop)
}

/// The tables in the database.
struct Tables {
    wire: Wire,
    request: Vec<u8>,
    sql: String,
}

impl Tables {
    /// The last row of the answer to a query, as numbers.
    fn numbers(&mut self, sql: &str) -> Result<Vec<Option<u64>>, Broken> {
        let mut row = ResultRow::default();
        ask(&mut self.wire, sql, &mut self.request, Some(&mut row))?;
        Ok(row.values.iter().map(|value| value.as_ref()?.parse().ok()).collect())
    }

    fn count(&mut self, sql: &str) -> Result<u64, Failure> {
        let numbers = self.numbers(sql).map_err(broken_failure)?;
        Ok(numbers.first().copied().flatten().unwrap_or(0))
    }

    fn send(&mut self, sql: &str) -> Result<(), Failure> {
        ask(&mut self.wire, sql, &mut self.request, None).map_err(broken_failure)
    }

    /// Writes one INSERT of the next rows; returns false if no rows are left.
    fn write_insert(&mut self, table: u32, rows: &mut RowGenerator) -> bool {
        self.sql.clear();
        // A write to a string cannot fail.
        let _ = write!(self.sql, "INSERT INTO sbtest{table} (id, k, c, pad) VALUES ");
        let mut separator = "";
        for _ in 0..ROWS_AN_INSERT {
            let Some(row) = rows.next() else { break };
            let _ = write!(self.sql, "{separator}({}, {}, '{}', '{}')", row.id, row.k, row.c, row.pad);
            separator = ", ";
        }
        !separator.is_empty()
    }
}

impl Store for Tables {
    fn find(&mut self, table: u32, depth: DataCheck) -> Result<TableState, Failure> {
        let named = format!("table_schema = DATABASE() AND table_name = 'sbtest{table}'");
        if self.count(&format!("SELECT COUNT(*) FROM information_schema.tables WHERE {named}"))? == 0 {
            return Ok(TableState::Nothing);
        }
        let index = format!("{named} AND column_name = 'k'");
        let has_index =
            self.count(&format!("SELECT COUNT(*) FROM information_schema.statistics WHERE {index}"))? > 0;
        let what = if depth == DataCheck::Full { "1, COUNT(*)" } else { "MIN(id), MAX(id)" };
        let numbers = match self.numbers(&format!("SELECT {what} FROM sbtest{table}")) {
            // A concurrent DROP TABLE has finished.
            Err(Broken::Refused { code: NO_SUCH_TABLE, .. }) => return Ok(TableState::Nothing),
            numbers => numbers.map_err(broken_failure)?,
        };
        let number = |column: usize| numbers.get(column).copied().flatten();
        let (first, last) = (number(0), number(1));
        Ok(TableState::Table { rows: rows_between(first, last), has_index })
    }

    fn build(
        &mut self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        self.send(&format!(
            "CREATE TABLE sbtest{table}(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
             c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE = InnoDB"
        ))?;
        loop {
            self.send("BEGIN")?;
            let mut inserts = 0;
            while inserts < INSERTS_A_TRANSACTION && self.write_insert(table, rows) {
                ask(&mut self.wire, &self.sql, &mut self.request, None).map_err(broken_failure)?;
                inserts += 1;
            }
            self.send("COMMIT")?;
            if inserts == 0 {
                break;
            }
            if on_rows(rows.made()).is_break() {
                // Only this build uses these rows.
                self.send(&format!("DROP TABLE sbtest{table}"))?;
                return Ok(ControlFlow::Break(()));
            }
        }
        self.send(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)"))?;
        Ok(ControlFlow::Continue(()))
    }

    fn remove(&mut self, table: u32) -> Result<bool, Failure> {
        let named = format!("table_schema = DATABASE() AND table_name = 'sbtest{table}'");
        let was_there =
            self.count(&format!("SELECT COUNT(*) FROM information_schema.tables WHERE {named}"))? > 0;
        self.send(&format!("DROP TABLE IF EXISTS sbtest{table}"))?;
        Ok(was_there)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use record::target::Target;

    use super::*;

    fn read(written: &str) -> Result<MysqlTarget, String> {
        MysqlTarget::read(&Target::new(written))
    }

    #[test]
    fn a_target_reads_as_it_is_written() {
        let place = read("mysql://app:sec%2Fret@db:3307/bench?socket=/run/x.sock").unwrap();
        assert_eq!(
            (place.user.as_str(), place.password.as_deref(), place.host.as_str(), place.database.as_str()),
            ("app", Some("sec/ret"), "db", "bench")
        );
        assert_eq!(place.address.to_string(), "/run/x.sock");
        let place = read("mysql://app@db:3307/bench").unwrap();
        assert_eq!(place.address.to_string(), "db:3307");
        let place = read("mysql://app:p@ss@[::1]/bench").unwrap();
        assert_eq!((place.password.as_deref(), place.host.as_str()), (Some("p@ss"), "::1"));
        assert_eq!(place.address.to_string(), "[::1]:3306");
        let place = read("mysql://app@db/bench?tls=verify-full&ca=/etc/ca.pem").unwrap();
        assert!(place.security.is_on());
        let place = read("mysql:///bench").unwrap();
        assert_eq!((place.user.as_str(), place.password, place.host.as_str()), ("root", None, "127.0.0.1"));
    }

    #[test]
    fn a_wrong_target_is_refused_without_its_password() {
        for wrong in [
            "mysql:bench",
            "mysql://app:secret@db",
            "mysql://app:secret@db/",
            "mysql://app:secret@db:x/bench",
            "mysql://app:secret@db:99999/bench",
            "mysql://app:secret@db/bench?sokcet=/x",
            "mysql://app:secret%2@db/bench",
        ] {
            let problem = read(wrong).err().unwrap();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn servers_are_called_by_their_names() {
        assert_eq!(version_name("10.11.6-MariaDB-0+deb12u1"), "MariaDB 10.11.6");
        assert_eq!(version_name("5.5.5-10.5.1-MariaDB"), "MariaDB 10.5.1");
        assert_eq!(version_name("8.0.36"), "MySQL 8.0.36");
    }

    #[test]
    fn results_without_end_are_no_answer() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        // OK, and more results follow.
        let talks = thread::spawn(move || {
            let mut number = 1u8;
            while theirs.write_all(&[7, 0, 0, number, 0, 0, 0, 8, 0, 0, 0]).is_ok() {
                number = number.wrapping_add(1);
            }
        });
        let mut wire = Wire::new(std::os::fd::OwnedFd::from(ours).into());
        let broken = ask(&mut wire, "SELECT 1", &mut Vec::new(), None).unwrap_err();
        assert!(matches!(broken, Broken::Garbled(why) if why.contains("does not end")));
        drop(wire);
        talks.join().unwrap();
    }
}
