//! `mysql://user:password@host:port/database[?socket=PATH]`: MariaDB and MySQL.
//!
//! The connection goes where the target says: over TCP to `host`, also where that is `localhost`, or, with `socket`,
//! through that socket. Statements are prepared on the server when a worker connects for the first time; after an
//! outage, each when it is needed again.

use std::fmt::Write as _;
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::mysql::consts::CapabilityFlags;
use ::mysql::prelude::Queryable;
use ::mysql::{Conn, DriverError, Error, Opts, OptsBuilder, Params, Statement as Prepared, Value};
use record::load::LoadSettings;
use record::target::Target;

use super::{Attempt, Connection, Cut, Driver, Failure, FailureClass, Look, OperationShare, Scheme};
use crate::dataset::{Found, Rows, Store};
use crate::oltp::{self, Parameter, Shape, Sql, Statement, Texts};

pub(super) const SCHEME: Scheme = Scheme {
    name: "mysql",
    form: "mysql://USER:PASSWORD@HOST:PORT/DATABASE[?socket=PATH]",
    workloads: oltp::WORKLOADS,
    check: |target| Place::read(target).map(|_| ()),
    open: |settings| {
        let wrong = |text| Failure::new(FailureClass::Configuration, text);
        let place = Place::read(&settings.target).map_err(wrong)?;
        Ok(Arc::new(MySql::new(place, settings)))
    },
};

const PORT: u16 = 3306;
/// How long a connection may take to be made; a server that is stopped accepts it and never answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Rows that one INSERT of a build carries, some 200 KiB.
const ROWS_AN_INSERT: u64 = 1_000;
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
        let form = || format!("write {}", SCHEME.form);
        let rest = target.expose().strip_prefix("mysql://").ok_or_else(form)?;
        // A password may hold an unescaped `@`, or even a `/`: the last `@` of the authority ends it, or, where the
        // authority has none, the last of all. Target masks by the same rule.
        let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let at = rest[..authority_end].rfind('@').or_else(|| rest.rfind('@'));
        let (user_info, rest) = at.map_or(("root", rest), |at| (&rest[..at], &rest[at + 1..]));
        let (user, password) = match user_info.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (user_info, None),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        if database.is_empty() {
            return Err(format!("no database is named: {}", form()));
        }
        let (host, port) = host_and_port(authority)?;
        let mut socket = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("socket", path)) if !path.is_empty() => socket = Some(decoded(path)?),
                _ => {
                    let name = pair.split_once('=').map_or(pair, |(name, _)| name);
                    return Err(format!("unknown parameter `{name}`: expected socket=PATH"));
                }
            }
        }
        Ok(Self { user: decoded(user)?, password, host, port, database: decoded(database)?, socket })
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

    fn connect(&self, cut: &Cut) -> Result<Conn, Failure> {
        let connection = Conn::new(self.options()).map_err(|e| failure(&e))?;
        // SAFETY: the connection is alive, and with it its descriptor, until the copy is made.
        let socket = unsafe { BorrowedFd::borrow_raw(connection.as_raw_fd()) };
        let lost = |e: std::io::Error| Failure::new(FailureClass::Connection, e.to_string());
        let socket: OwnedFd = socket.try_clone_to_owned().map_err(lost)?;
        // An option of the socket, whatever its family: an answer may take as long as it takes.
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(None).map_err(lost)?;
        cut.arm_socket(stream.into());
        Ok(connection)
    }
}

fn host_and_port(authority: &str) -> Result<(String, u16), String> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => PORT,
        Some(port) => {
            port.parse().map_err(|_| format!("`{port}` is no port: expected a number up to 65535"))?
        }
    };
    Ok((if host.is_empty() { "127.0.0.1".to_owned() } else { decoded(host)? }, port))
}

/// The text with `%XX` read as bytes.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |b: Option<u8>| u8::try_from(char::from(b?).to_digit(16)?).ok();
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => {
                    return Err(
                        "a `%` is not followed by two hexadecimal digits: write `%25` for it".to_owned()
                    );
                }
            },
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| "the target is not UTF-8 when its `%XX` are read".to_owned())
}

struct MySql {
    place: Place,
    shape: Arc<Shape>,
    is_prepared: bool,
    /// First connections that are still to be made: those prepare everything at once.
    first_connects: AtomicU32,
}

impl MySql {
    fn new(place: Place, settings: &LoadSettings) -> Self {
        let first_connects = AtomicU32::new(settings.threads);
        Self {
            place,
            shape: Arc::new(Shape::new(settings)),
            is_prepared: settings.oltp.prepared,
            first_connects,
        }
    }
}

impl Driver for MySql {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let connection = self.place.connect(cut)?;
        let mut session =
            Session { connection, statements: Vec::new(), is_prepared: self.is_prepared, sql: String::new() };
        let take_one = |n: u32| n.checked_sub(1);
        let is_first = self.first_connects.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok();
        if self.is_prepared && is_first {
            for (statement, table) in self.shape.statements() {
                session.prepared(statement, table)?;
            }
        }
        Ok(Box::new(Worker { session, shape: Arc::clone(&self.shape), texts: Texts::new() }))
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        if self.place.socket.is_none() {
            let address = (self.place.host.as_str(), self.place.port);
            address.to_socket_addrs().map_err(|e| {
                let text = format!("the host `{}` is not known: {e}", self.place.host);
                Failure::new(FailureClass::Configuration, text)
            })?;
        }
        let mut connection = self.place.connect(cut)?;
        let version: Option<String> = connection.query_first("SELECT VERSION()").map_err(|e| failure(&e))?;
        let version = version.map(|v| version_name(&v));
        let version = version.ok_or_else(|| record::missing::Missing::because("the server does not say"));
        Ok(Look { version, store: Some(Box::new(Tables { connection, sql: String::new() })) })
    }

    fn operations(&self) -> Vec<OperationShare> {
        self.shape.operations()
    }
}

/// `10.11.6-MariaDB-0+deb12u1` is `MariaDB 10.11.6`.
fn version_name(version: &str) -> String {
    let product = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    // Older clients only understood 5.x: some versions still begin with that.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    format!("{product} {}", version.split('-').next().unwrap_or(version))
}

struct Worker {
    session: Session,
    shape: Arc<Shape>,
    texts: Texts,
}

impl Connection for Worker {
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure> {
        oltp::transaction(&mut self.session, &self.shape, &mut self.texts, attempt)
    }
}

/// One worker's connection with its statements.
struct Session {
    connection: Conn,
    /// By table, then statement; `None` until it is prepared.
    statements: Vec<Option<Prepared>>,
    is_prepared: bool,
    /// Room for a statement with its values in it.
    sql: String,
}

impl Session {
    fn prepared(&mut self, statement: Statement, table: u32) -> Result<Prepared, Failure> {
        let place = (table as usize - 1) * Statement::ALL.len() + statement as usize;
        if self.statements.len() <= place {
            self.statements.resize_with(place + 1, || None);
        }
        if let Some(prepared) = &self.statements[place] {
            return Ok(prepared.clone());
        }
        let sql = statement.text(table).expect("BEGIN and COMMIT are not prepared");
        let prepared = self.connection.prep(sql).map_err(|e| failure(&e))?;
        self.statements[place] = Some(prepared.clone());
        Ok(prepared)
    }
}

impl Sql for Session {
    fn execute(
        &mut self,
        statement: Statement,
        table: u32,
        parameters: &[Parameter<'_>],
    ) -> Result<(), Failure> {
        let verb = match statement {
            Statement::Begin => Some("BEGIN"),
            Statement::Commit => Some("COMMIT"),
            _ => None,
        };
        if let Some(verb) = verb {
            return query(&mut self.connection, verb).map_err(|e| failure(&e));
        }
        if !self.is_prepared {
            statement.write_text(table, parameters, &mut self.sql);
            return query(&mut self.connection, &self.sql).map_err(|e| failure(&e));
        }
        let prepared = self.prepared(statement, table)?;
        let values = parameters.iter().map(|parameter| match parameter {
            Parameter::Integer(n) => Value::UInt(*n),
            Parameter::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
        });
        let parameters = Params::Positional(values.collect());
        let read = |connection: &mut Conn| {
            // To the end: what is left of an answer is dropped with its errors.
            let mut rows = connection.exec_iter(&prepared, parameters)?;
            rows.try_for_each(|row| row.map(drop))
        };
        read(&mut self.connection).map_err(|e| failure(&e))
    }

    fn roll_back(&mut self) {
        // Where this fails, so will the next statement, and that is noted.
        let _ = query(&mut self.connection, "ROLLBACK");
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
        let rows = self.count(&format!("SELECT COUNT(*) FROM sbtest{table}"))?;
        Ok(Found::Table { rows, has_index })
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

fn failure(error: &Error) -> Failure {
    let (class, advice) = match error {
        Error::MySqlError(e) => class_of(e.code),
        Error::DriverError(DriverError::UnknownAuthPlugin(_) | DriverError::OldMysqlPasswordDisabled) => {
            (FailureClass::Configuration, ": give the user a password that mysql_native_password checks")
        }
        // Beside a refused connection: answers out of order, as a connection gives that broke in the middle of one.
        Error::IoError(_) | Error::CodecError(_) | Error::DriverError(_) => (FailureClass::Connection, ""),
        _ => (FailureClass::Application, ""),
    };
    let text = match error {
        Error::MySqlError(e) => format!("{} (error {}){advice}", e.message, e.code),
        Error::DriverError(DriverError::CouldNotConnect(Some((address, description, _)))) => {
            format!("cannot connect to {address}: {description}; is the server running?")
        }
        other => format!("{other}{advice}"),
    };
    Failure::new(class, text)
}

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
        1130 => (Configuration, ": allow this host to connect"),
        1146 => (Configuration, ": build the data set with `bakeoff prepare` or `--prepare auto`"),
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
