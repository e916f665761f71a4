//! The server of a target: its address, its log-in, and requests outside of events.

use record::target::Target;

use super::answer::{self, Broken, Column, PreparedReader};
use super::codec::{self, Prepared};
use super::login::{self, Credentials};
use super::refusal::broken_failure;
use crate::connection::{Cut, Failure, FailureClass};
use crate::net::address::{Address, ServerAddress};
use crate::net::security::Security;
use crate::net::tls::Plan;
use crate::net::{CONNECT_TIMEOUT, Endpoint, Wire, no_answer, within};

pub(super) const NAME: &str = "mysql";
pub(super) const FORM: &str = "mysql://USER:PASSWORD@HOST:PORT/DATABASE[?socket=PATH&tls=verify-full]";
const PORT: u16 = 3306;
/// Length limit of an unrequested message, and of an answer to a request outside of events.
pub(super) const ASIDE_BYTES_MAX: usize = 1 << 20;
/// Error code for a kind of statement that cannot be prepared.
pub(super) const CANNOT_BE_PREPARED: u16 = 1295;

/// A parsed target.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct MysqlTarget {
    pub(super) user: String,
    pub(super) password: Option<String>,
    /// Name that the certificate must contain, even if `address` is a socket.
    pub(super) host: String,
    pub(super) address: ServerAddress,
    pub(super) database: String,
    pub(super) security: Security,
}

impl MysqlTarget {
    pub(super) fn read(target: &Target) -> Result<Self, String> {
        let Address { user, password, host, port, path: database, parameters } =
            Address::of_database(target, NAME, FORM)?;
        let (mut socket, mut security) = (None, Security::default());
        for (name, value) in parameters {
            match name.as_str() {
                "socket" if !value.is_empty() => socket = Some(value),
                _ if security.take(&name, &value)? => {}
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`: expected one of socket=PATH, {}",
                        Security::PARAMETERS
                    ));
                }
            }
        }
        security.check()?;
        let user = user.unwrap_or_else(|| "root".to_owned());
        let host = if host.is_empty() { "127.0.0.1".to_owned() } else { host };
        let address = match socket {
            Some(path) => ServerAddress::Unix(path.into()),
            None => ServerAddress::Tcp(host.clone(), port.unwrap_or(PORT)),
        };
        Ok(Self { user, password, host, address, database, security })
    }
}

/// Opens a session; also returns the server's version.
pub(super) fn log_in(
    place: &MysqlTarget,
    peer: &Endpoint,
    tls: Option<&Plan>,
    cut: &Cut,
) -> Result<(Wire, String), Failure> {
    let mut wire = Wire::connect(peer, cut)?;
    let who = Credentials {
        user: &place.user,
        password: place.password.as_deref().unwrap_or_default(),
        database: &place.database,
        is_private: place.security.verifies_server() || wire.is_private(peer),
    };
    let silent = |within| {
        let text = format!("{}: is this a MariaDB or MySQL server?", no_answer(within));
        Failure::new(FailureClass::Connection, text)
    };
    let version = within(&mut wire, CONNECT_TIMEOUT, silent, |wire| login::log_in(wire, &who, tls))?;
    Ok((wire, version))
}

/// Product and version: `10.11.6-MariaDB-0+deb12u1` becomes `MariaDB 10.11.6`.
pub(super) fn version_name(version: &str) -> String {
    let product = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    // Some versions begin with this prefix for old clients, which only accepted 5.x.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    format!("{product} {}", version.split('-').next().unwrap_or(version))
}

/// Reads unrequested input. An error gives the reason why the server ends the session; the server sends
/// nothing else unrequested.
pub(super) fn read_unasked(input: &[u8]) -> (usize, Option<Failure>) {
    // Of a packet that is not complete, the first byte after its header tells whether it is an error. Servers
    // send both together.
    let may_be_error = input.is_empty() || input.get(4) == Some(&answer::ERR);
    let (taken, failure) = match answer::packet(input, ASIDE_BYTES_MAX) {
        Ok(None) if may_be_error => (0, None),
        Ok(Some((payload @ [answer::ERR, ..], taken))) => {
            (taken, Some(broken_failure(answer::refusal(payload))))
        }
        Ok(_) => {
            let unasked = Broken::Garbled("the server sent unrequested data");
            (0, Some(broken_failure(unasked)))
        }
        Err(broken) => (0, Some(broken_failure(broken))),
    };
    (taken, failure.map(|failure| Failure { class: FailureClass::Connection, ..failure }))
}

/// Prepares a statement; blocks.
pub(super) fn prepare(wire: &mut Wire, sql: &str) -> Result<Prepared, Broken> {
    let (id, columns) = describe(wire, sql, &mut Vec::new(), PreparedReader::new(ASIDE_BYTES_MAX))?;
    Ok(Prepared::new(id, columns))
}

/// Prepares a statement, and returns its number and the columns of its answers; blocks.
///
/// - `request`: buffer for the request.
pub(super) fn describe(
    wire: &mut Wire,
    sql: &str,
    request: &mut Vec<u8>,
    mut reader: PreparedReader,
) -> Result<(u32, Vec<Column>), Broken> {
    codec::write_prepare(sql, request);
    wire.hear_left(false, read_unasked)?;
    wire.send(request)?;
    wire.hear(|input, _| reader.hear(input))?
}
