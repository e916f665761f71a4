//! The server of a target: its address, its log-in, and messages that nothing asked for.

use std::path::Path;
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use record::target::Target;

use super::answer::{self, ASIDE_BYTES_MAX, Broken};
use super::codec::TooLong;
use super::login::{self, Credentials, Welcome};
use super::refusal::broken_failure;
use crate::connection::{Cut, Failure, FailureClass};
use crate::net::address::{Address, ServerAddress};
use crate::net::security::Security;
use crate::net::tls::Plan;
use crate::net::{CONNECT_TIMEOUT, Endpoint, Wire, no_answer, within};

pub(super) const NAME: &str = "postgres";
pub(super) const FORM: &str = "postgres://USER:PASSWORD@HOST:PORT/DATABASE";
const PORT: u16 = 5432;
pub(super) const UNIQUE_VIOLATION: &str = "23505";

/// A parsed target.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PostgresTarget {
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) address: ServerAddress,
    pub(super) database: String,
    pub(super) options: Option<String>,
    /// Whether the password may be sent in cleartext.
    pub(super) may_be_cleartext: bool,
    pub(super) security: Security,
}

/// A target with its resolved address and TLS settings.
#[derive(Clone)]
pub(super) struct Reached {
    pub(super) place: PostgresTarget,
    pub(super) peer: Endpoint,
    pub(super) tls: Option<Plan>,
}

impl PostgresTarget {
    pub(super) fn read(target: &Target) -> Result<Self, String> {
        let Address { user, password, mut host, mut port, path: database, parameters } =
            Address::of_database(target, NAME, FORM)?;
        let (mut options, mut may_be_cleartext, mut security) = (None, false, Security::default());
        for (name, value) in parameters {
            match name.as_str() {
                "host" if !value.is_empty() => host = value,
                "port" => {
                    let problem = |_| format!("`{value}` is not a valid port: expected a number up to 65535");
                    port = Some(value.parse().map_err(problem)?);
                }
                "options" => options = Some(value),
                // Names of libpq.
                "sslmode" => take_ssl_mode(&value, &mut security)?,
                "sslrootcert" => security.take("ca", &value).map(drop)?,
                "sslcert" => security.take("cert", &value).map(drop)?,
                "sslkey" => security.take("key", &value).map(drop)?,
                "cleartext" => may_be_cleartext = is_yes(&name, &value)?,
                _ if security.take(&name, &value)? => {}
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`: expected one of host, port, sslmode, options, cleartext, {}",
                        Security::PARAMETERS
                    ));
                }
            }
        }
        security.check()?;
        let port = port.unwrap_or(PORT);
        let address = match host.as_str() {
            "" => ServerAddress::Tcp("127.0.0.1".to_owned(), port),
            // Directory of the server's socket.
            folder if folder.starts_with('/') => {
                ServerAddress::Unix(Path::new(folder).join(format!(".s.PGSQL.{port}")))
            }
            _ => ServerAddress::Tcp(host, port),
        };
        let user = user.unwrap_or_else(|| "postgres".to_owned());
        // Without a check of the server, TLS protects a cleartext password from a listener alone.
        let may_be_cleartext = may_be_cleartext || security.verifies_server();
        Ok(Self { user, password, address, database, options, may_be_cleartext, security })
    }
}

impl Reached {
    /// Starts TLS on a new connection if the target asks for it.
    fn secure(&self, wire: &mut Wire) -> Result<(), Failure> {
        let Some(plan) = &self.tls else { return Ok(()) };
        login::ask_for_tls(wire)?;
        wire.start_tls(plan)
    }

    /// Opens a session.
    pub(super) fn connect(&self, cut: &Cut) -> Result<(Wire, Welcome), Failure> {
        let (mut wire, place) = (Wire::connect(&self.peer, cut)?, &self.place);
        let who = Credentials {
            user: &place.user,
            password: place.password.as_deref(),
            database: &place.database,
            options: place.options.as_deref(),
            may_be_cleartext: place.may_be_cleartext || wire.is_private(&self.peer),
        };
        let welcome = within(&mut wire, CONNECT_TIMEOUT, silent, |wire| {
            self.secure(wire)?;
            login::log_in(wire, &who)
        })?;
        let to_cut = wire.try_clone()?;
        let (reached, process_id, secret_key) = (self.clone(), welcome.process_id, welcome.secret_key);
        cut.arm_socket_and(to_cut, move || reached.cancel(process_id, secret_key));
        Ok((wire, welcome))
    }

    /// Asks the server to cancel the session's statement, on a separate thread, since the server may hang.
    pub(super) fn cancel(&self, process_id: i32, secret_key: i32) {
        let reached = self.clone();
        let ask = move || -> Result<(), Failure> {
            let mut out = BytesMut::new();
            frontend::cancel_request(process_id, secret_key, &mut out);
            within(&mut Wire::connect(&reached.peer, &Cut::default())?, CONNECT_TIMEOUT, silent, |wire| {
                reached.secure(wire)?;
                wire.send(&out)
            })
        };
        // A failure is harmless: without the request, the server notices the closed connection when it next
        // sends something.
        let _ = thread::Builder::new().name("load-cancel".to_owned()).spawn(ask);
    }
}

fn is_yes(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "yes" | "true" => Ok(true),
        "0" | "no" | "false" => Ok(false),
        _ => Err(format!("`{value}` is not a value of {name}: expected 1 or 0")),
    }
}

/// With `allow` and `prefer`, libpq may continue without TLS; this driver does not try TLS then.
fn take_ssl_mode(mode: &str, security: &mut Security) -> Result<(), String> {
    let tls = match mode {
        "disable" | "allow" | "prefer" => "off",
        "require" | "verify-ca" | "verify-full" => mode,
        _ => {
            return Err(format!(
                "`{mode}` is not an sslmode: expected disable, allow, prefer, require, verify-ca or verify-full"
            ));
        }
    };
    security.take("tls", tls).map(drop)
}

/// Product and version of the server.
pub(super) fn server_version(wire: &Wire, welcome: &Welcome) -> Option<String> {
    // `15.18 (Debian 15.18-0+deb12u1)`
    let number = welcome.server_version.as_deref()?.split(' ').next()?;
    Some(format!("PostgreSQL {number}{}", wire.tls_version()))
}

pub(super) fn too_long(_: TooLong) -> Failure {
    Failure::new(FailureClass::Application, "cannot send a statement of more than 2 GiB")
}

/// Reads unrequested input. A server may send settings, notifications and warnings at any time; an error
/// gives the reason why it ends the session.
pub(super) fn read_unasked(input: &[u8]) -> (usize, Option<Failure>) {
    let mut taken = 0;
    loop {
        match answer::message(&input[taken..], ASIDE_BYTES_MAX) {
            // The kind of a message is its first byte.
            Ok(None) if matches!(input.get(taken), None | Some(b'S' | b'A' | b'N' | b'E')) => {
                return (taken, None);
            }
            Ok(Some((b'S' | b'A' | b'N', _, bytes))) => taken += bytes,
            Ok(Some((b'E', body, _))) => {
                let failure = broken_failure(answer::refusal(body));
                return (taken, Some(Failure { class: FailureClass::Connection, ..failure }));
            }
            Ok(_) => {
                let unasked = Broken::Garbled("the server sent unrequested data");
                return (taken, Some(broken_failure(unasked)));
            }
            Err(broken) => return (taken, Some(broken_failure(broken))),
        }
    }
}

fn silent(within: Duration) -> Failure {
    let text = format!("{}: is this a PostgreSQL server?", no_answer(within));
    Failure::new(FailureClass::Connection, text)
}
