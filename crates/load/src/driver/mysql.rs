//! `mysql://user:password@host:port/database[?socket=PATH]`: MariaDB and MySQL.
//!
//! The connection goes where the target says: over TCP to `host`, also where that is `localhost`, or, with `socket`,
//! through that socket. Statements are prepared on the server when a worker connects for the first time; after an
//! outage, each when it is needed again.
//!
//! The crate logs in, prepares and builds tables; what every event does goes through a codec of our own on the same
//! socket, which is idle whenever the crate is not called.

mod codec;

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ::mysql::consts::{CapabilityFlags, ColumnFlags};
use ::mysql::prelude::Queryable;
use ::mysql::{Conn, DriverError, Error, Opts, OptsBuilder};
use record::target::Target;
use socket2::Socket;

use self::codec::{Broken, Column, Form, Prepared, Wanted};
use super::address::{self, Address};
use super::net::{CONNECT_TIMEOUT, Dialogue, Multiplex, Opening};
use super::session::{Protocol, Sessions, Unread, take_as_long_as_it_takes};
use super::wire::{Source, Wire, no_answer};
use super::{Connection, Cut, Driver, Failure, FailureClass, Look, OperationShare, Scheme};
use crate::dataset::{Found, Rows, Store};
use crate::oltp;
use crate::sql::{Parameter, Quoting, Row, Work};

pub(super) const SCHEME: Scheme = Scheme {
    name: "mysql",
    form: "mysql://USER:PASSWORD@HOST:PORT/DATABASE[?socket=PATH]",
    workloads: oltp::WORKLOADS,
    check: |target| Place::read(target).map(|_| ()),
    open: |settings| {
        let wrong = |text| Failure::new(FailureClass::Configuration, text);
        let place = Place::read(&settings.target).map_err(wrong)?;
        Ok(Arc::new(MySql { place, sessions: Sessions::new(settings)? }))
    },
};

const PORT: u16 = 3306;
/// Rows that one INSERT of a build carries, some 200 KiB.
const ROWS_AN_INSERT: u64 = 1_000;
/// What the server answers where a kind of statement cannot be prepared.
const CANNOT_BE_PREPARED: u16 = 1295;
/// Inserts that one transaction of a build carries.
const INSERTS_A_TRANSACTION: u64 = 10;

/// A target, read.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    user: String,
    password: Option<String>,
    host: String,
    port: u16,
    database: String,
    socket: Option<String>,
}

impl Place {
    fn read(target: &Target) -> Result<Self, String> {
        let Address { user, password, host, port, path: database, parameters } =
            Address::of_database(target, &SCHEME)?;
        let mut socket = None;
        for (name, value) in parameters {
            match name.as_str() {
                "socket" if !value.is_empty() => socket = Some(value),
                _ => return Err(format!("unknown parameter `{name}`: expected socket=PATH")),
            }
        }
        let user = user.unwrap_or_else(|| "root".to_owned());
        let host = if host.is_empty() { "127.0.0.1".to_owned() } else { host };
        Ok(Self { user, password, host, port: port.unwrap_or(PORT), database, socket })
    }

    fn options(&self) -> Opts {
        OptsBuilder::new()
            .user(Some(&self.user))
            .pass(self.password.as_ref())
            .ip_or_hostname(Some(&self.host))
            .tcp_port(self.port)
            .db_name(Some(&self.database))
            .socket(self.socket.as_ref())
            // Left on, a connection to a local server would silently move from TCP to its socket.
            .prefer_socket(false)
            .stmt_cache_size(0)
            .tcp_connect_timeout(Some(CONNECT_TIMEOUT))
            .read_timeout(Some(CONNECT_TIMEOUT))
            .additional_capabilities(CapabilityFlags::empty())
            .into()
    }

    /// A connection, and its socket once more. Its answers may only take so long, until it is made ready.
    fn connect(&self, cut: &Cut) -> Result<(Conn, Wire), Failure> {
        let connection = Conn::new(self.options()).map_err(|e| {
            let failure = failure(&e);
            let what = if is_too_late(&e) { ": is this a MariaDB or MySQL server?" } else { "" };
            Failure { text: failure.text + what, ..failure }
        })?;
        // SAFETY: the connection is alive, and with it its descriptor, until the copy is made.
        let socket = unsafe { BorrowedFd::borrow_raw(connection.as_raw_fd()) };
        let copy = || -> std::io::Result<(Wire, OwnedFd)> {
            let mut wire = Wire::new(socket.try_clone_to_owned()?);
            // An option of the socket, whatever its family: the crate has set it, too.
            wire.set_timeout(Some(CONNECT_TIMEOUT))?;
            Ok((wire, socket.try_clone_to_owned()?))
        };
        let (wire, to_cut) = copy().map_err(|e| lost(&e))?;
        cut.arm_socket(to_cut);
        Ok((connection, wire))
    }
}

struct MySql {
    place: Place,
    sessions: Sessions,
}

impl Driver for MySql {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let (connection, wire) = self.place.connect(cut)?;
        self.sessions.connection(Speech::new(connection, &self.sessions), wire)
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        if self.place.socket.is_none() {
            address::look_up(&self.place.host, self.place.port)?;
        }
        let (mut connection, mut wire) = self.place.connect(cut)?;
        let version: Option<String> = connection.query_first("SELECT VERSION()").map_err(|e| failure(&e))?;
        let version = version.map(|v| version_name(&v));
        let version = version.ok_or_else(|| record::missing::Missing::because("the server does not say"));
        take_as_long_as_it_takes(&mut wire)?;
        let tables = || Box::new(Tables { connection, sql: String::new() }) as Box<dyn Store>;
        Ok(Look { version, store: self.sessions.work.has_data_set().then(tables) })
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
        let (connection, wire) = self.place.connect(cut)?;
        self.sessions.conversation(Speech::new(connection, &self.sessions), wire)
    }

    fn begin_open(&self, _: usize) -> io::Result<Opening> {
        Ok(Opening::Aside)
    }

    fn closes_idle(&self) -> bool {
        false
    }
}

/// `10.11.6-MariaDB-0+deb12u1` is `MariaDB 10.11.6`.
fn version_name(version: &str) -> String {
    let product = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    // Older clients only understood 5.x: some versions still begin with that.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    format!("{product} {}", version.split('-').next().unwrap_or(version))
}

/// What one connection says and hears.
struct Speech {
    /// For what is rare.
    connection: Conn,
    work: Arc<Work>,
    is_prepared: bool,
    /// By their numbers; `None` until one is needed.
    statements: Vec<Option<Ready>>,
    /// The statement that was asked last; `None` where it was none of those.
    asked: Option<usize>,
    is_in_transaction: bool,
    /// Room for a statement with its values in it.
    sql: String,
}

/// How a statement is sent.
enum Ready {
    Prepared(Prepared),
    /// As text, with the columns of its answer.
    Text(Vec<Column>),
}

impl Speech {
    fn new(connection: Conn, sessions: &Sessions) -> Self {
        let (work, is_prepared) = (Arc::clone(&sessions.work), sessions.is_prepared);
        let statements = work.statements().iter().map(|_| None).collect();
        let sql = String::new();
        Self { connection, work, is_prepared, statements, asked: None, is_in_transaction: false, sql }
    }
}

impl Protocol for Speech {
    fn is_ready(&self, statement: usize) -> bool {
        self.statements[statement].is_some()
    }

    #[cold]
    fn make_ready(&mut self, statement: usize, _: &mut Wire) -> Result<(), Failure> {
        let as_text = Ready::Text(Vec::new());
        let ready = if self.is_prepared {
            match self.connection.prep(self.work.statements()[statement].with_marks(|_| "?".to_owned())) {
                Ok(prepared) => {
                    let columns = prepared.columns().iter().map(column_of).collect();
                    Ready::Prepared(Prepared::new(prepared.id(), columns))
                }
                Err(Error::MySqlError(e)) if e.code == CANNOT_BE_PREPARED => as_text,
                Err(e) => return Err(failure(&e)),
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
        let fits = if let Some(Ready::Prepared(prepared)) = &mut self.statements[statement] {
            codec::write_execute(prepared, parameters, request)
        } else {
            let text = &self.work.statements()[statement];
            text.write_values(parameters, Quoting::Backslash, &mut self.sql);
            codec::write_query(&self.sql, request)
        };
        self.asked = Some(statement);
        let too_long =
            || Failure::new(FailureClass::Application, "a statement of more than 16 MiB was not sent");
        if fits { Ok(()) } else { Err(too_long()) }
    }

    fn write_rollback(&mut self, request: &mut Vec<u8>) {
        self.asked = None;
        assert!(codec::write_query("ROLLBACK", request), "it is short");
    }

    fn read(&mut self, source: &mut impl Source, wanted: Option<&mut Row>) -> Result<(), Unread> {
        let mut of_none = Vec::new();
        let (form, columns) = match self.asked.and_then(|statement| self.statements[statement].as_mut()) {
            Some(Ready::Prepared(prepared)) => (Form::Binary, &mut prepared.columns),
            Some(Ready::Text(columns)) => (Form::Text, columns),
            None => (Form::Text, &mut of_none),
        };
        let wanted = wanted.map(|row| Wanted { row, columns, form });
        match codec::read_answer(source, wanted) {
            Ok(status) => {
                self.is_in_transaction = status.is_in_transaction();
                Ok(())
            }
            Err(Broken::Lost(e)) if e.kind() == ErrorKind::WouldBlock => Err(Unread::NotYet),
            Err(broken) => {
                let ready = self.asked.and_then(|statement| self.statements[statement].as_mut());
                if let Some(Ready::Prepared(prepared)) = ready {
                    prepared.forget_types();
                }
                Err(Unread::Failed(broken_failure(broken)))
            }
        }
    }

    fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
    }

    /// Whether an error has ended the transaction, MariaDB does not say.
    fn may_be_in_transaction(&self) -> bool {
        true
    }
}

fn column_of(column: &::mysql::Column) -> Column {
    Column {
        name: column.name_str().into_owned(),
        kind: column.column_type() as u8,
        is_unsigned: column.flags().contains(ColumnFlags::UNSIGNED_FLAG),
    }
}

/// Sends a text and reads the answer to its end.
fn query(connection: &mut Conn, sql: &str) -> Result<(), Error> {
    let mut rows = connection.query_iter(sql)?;
    rows.try_for_each(|row| row.map(drop))
}

/// The tables in the database.
struct Tables {
    connection: Conn,
    sql: String,
}

impl Tables {
    fn count(&mut self, sql: &str) -> Result<u64, Failure> {
        let count: Option<u64> = self.connection.query_first(sql).map_err(|e| failure(&e))?;
        Ok(count.unwrap_or(0))
    }

    fn send(&mut self, sql: &str) -> Result<(), Failure> {
        query(&mut self.connection, sql).map_err(|e| failure(&e))
    }

    /// Writes one INSERT of the next rows; false where there are none left.
    fn write_insert(&mut self, table: u32, rows: &mut Rows) -> bool {
        self.sql.clear();
        // Writing to a string cannot fail.
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
    fn find(&mut self, table: u32) -> Result<Found, Failure> {
        let named = format!("table_schema = DATABASE() AND table_name = 'sbtest{table}'");
        if self.count(&format!("SELECT COUNT(*) FROM information_schema.tables WHERE {named}"))? == 0 {
            return Ok(Found::Nothing);
        }
        let index = format!("{named} AND column_name = 'k'");
        let has_index =
            self.count(&format!("SELECT COUNT(*) FROM information_schema.statistics WHERE {index}"))? > 0;
        let rows: Option<u64> =
            match self.connection.query_first(format!("SELECT COUNT(*) FROM sbtest{table}")) {
                // Somebody's DROP TABLE was under way, and now it is gone.
                Err(Error::MySqlError(error)) if error.code == NO_SUCH_TABLE => return Ok(Found::Nothing),
                counted => counted.map_err(|e| failure(&e))?,
            };
        Ok(Found::Table { rows: rows.unwrap_or(0), has_index })
    }

    fn build(
        &mut self,
        table: u32,
        rows: &mut Rows,
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
                query(&mut self.connection, &self.sql).map_err(|e| failure(&e))?;
                inserts += 1;
            }
            self.send("COMMIT")?;
            if inserts == 0 {
                break;
            }
            if on_rows(rows.made()).is_break() {
                // Nobody but this build can have wanted these rows.
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

fn lost(error: &std::io::Error) -> Failure {
    Failure::new(FailureClass::Connection, error.to_string())
}

fn broken_failure(broken: Broken) -> Failure {
    match broken {
        Broken::Lost(error) => lost(&error),
        Broken::Refused { code, message } => refused(code, &message),
        Broken::Garbled(what) => Failure::new(FailureClass::Connection, what),
    }
}

fn refused(code: u16, message: &str) -> Failure {
    let (class, advice) = class_of(code);
    let advice = if code == NO_SUCH_TABLE { oltp::advice_on_missing(message) } else { advice };
    Failure::new(class, format!("{message} (error {code}){advice}"))
}

/// The error of a socket that is in an error of the crate.
fn socket_error(error: &Error) -> Option<&io::Error> {
    match error {
        Error::IoError(e) => Some(e),
        Error::CodecError(e) => std::error::Error::source(e)?.downcast_ref(),
        _ => None,
    }
}

/// Whether an answer that may only take so long has taken longer.
fn is_too_late(error: &Error) -> bool {
    let kind = socket_error(error).map(io::Error::kind);
    matches!(kind, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

fn failure(error: &Error) -> Failure {
    let (class, advice) = match error {
        Error::MySqlError(e) => return refused(e.code, &e.message),
        Error::DriverError(DriverError::UnknownAuthPlugin(_) | DriverError::OldMysqlPasswordDisabled) => {
            (FailureClass::Configuration, ": give the user a password that mysql_native_password checks")
        }
        // Beside a refused connection: answers out of order, as a connection gives that broke in the middle of one.
        Error::IoError(_) | Error::CodecError(_) | Error::DriverError(_) => (FailureClass::Connection, ""),
        _ => (FailureClass::Application, ""),
    };
    let text = match error {
        Error::DriverError(DriverError::CouldNotConnect(Some((address, description, _)))) => {
            format!("cannot connect to {address}: {description}; is the server running?")
        }
        other if is_too_late(other) => no_answer(CONNECT_TIMEOUT),
        other => match socket_error(other) {
            Some(error) => error.to_string(),
            None => format!("{other}{advice}"),
        },
    };
    Failure::new(class, text)
}

/// `ER_NO_SUCH_TABLE`.
const NO_SUCH_TABLE: u16 = 1146;

/// The class of a server's error, and what to do about a configuration.
///
/// # Source
///
/// <https://mariadb.com/kb/en/mariadb-error-codes/>
fn class_of(code: u16) -> (FailureClass, &'static str) {
    use FailureClass::{Application, Configuration, Connection, Transient};
    match code {
        // Lock wait timeout, deadlock, row changed since it was read, NOWAIT.
        1205 | 1213 | 1020 | 3572 => (Transient, ""),
        // Too many connections, server shuts down, connection killed or aborted, network errors.
        1040 | 1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1203 | 1226 | 1927 | 2006 | 2013 => {
            (Connection, "")
        }
        1045 | 1698 => (Configuration, ": check the user and the password in the target"),
        1044 | 1142 => (Configuration, ": grant this user what the workload does"),
        1049 => (Configuration, ": create that database first, or name another in the target"),
        // Syntax, unknown columns, functions and tables.
        1064 | 1054 | 1305 | NO_SUCH_TABLE => (Configuration, ""),
        1130 => (Configuration, ": allow this host to connect"),
        1461 => (
            Configuration,
            ": use --prepared no, fewer threads or fewer tables, or raise that limit of the server",
        ),
        _ => (Application, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> Result<Place, String> {
        Place::read(&Target::new(written))
    }

    #[test]
    fn a_target_reads_as_it_is_written() {
        let place = read("mysql://app:sec%2Fret@db:3307/bench?socket=/run/x.sock").unwrap();
        assert_eq!(
            (place.user.as_str(), place.password.as_deref(), place.host.as_str(), place.port),
            ("app", Some("sec/ret"), "db", 3307)
        );
        assert_eq!((place.database.as_str(), place.socket.as_deref()), ("bench", Some("/run/x.sock")));
        let place = read("mysql://app:p@ss@[::1]/bench").unwrap();
        assert_eq!((place.password.as_deref(), place.host.as_str(), place.port), (Some("p@ss"), "::1", PORT));
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
}
