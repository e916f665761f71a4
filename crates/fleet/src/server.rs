//! The NATS server of a fleet: its address, the credentials, and what is refused.

use std::error::Error as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{Auth, AuthError, Client, ConnectError, ConnectOptions};
use confine::peer;
use nix::unistd::{Uid, User, geteuid};

use crate::error::{FleetError, of_file};
use crate::wire;

/// Pause between two attempts to reach a server that is away.
const RECONNECT: Duration = Duration::from_millis(100);
/// Maximum duration of the first connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Port of an address without one.
const PORT: u16 = 4222;
/// Account of the packages of NATS.
const ACCOUNT: &str = "nats";
/// Accounts of the system are below: no person has one.
const PERSONS_FROM: u32 = 1_000;
/// Reason that credentials were not sent.
const KEPT: &str = "the process that listens there belongs to another user, so no password and no key is sent: write \
                    tls:// instead of nats://, or run the server as root, as this user or as the system's account `nats`";

/// Address and credentials of a NATS server.
#[derive(Clone)]
pub struct Server {
    scheme: String,
    /// `host:port`, or `host`.
    host: String,
    user: Option<(String, String)>,
    nkey: Option<String>,
    ca: Option<PathBuf>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Server {
    /// Reads an address: `nats://host:4222` or `tls://user:password@host:4222`.
    ///
    /// - `nkey`: file with the seed of a key.
    /// - `ca`: certificates to trust beside the system's.
    ///
    /// # Errors
    ///
    /// An address that is no NATS server's, or one beyond this machine without TLS and credentials.
    pub fn new(url: &str, nkey: Option<&Path>, ca: Option<&Path>) -> Result<Self, FleetError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        let host = host.trim_end_matches('/');
        let wrong = |problem: &str| FleetError::Address {
            url: format!("{scheme}://{host}"),
            problem: problem.to_owned(),
        };
        let is_plain = !host.is_empty() && !host.contains(['/', '?', ',', ' ']);
        if !matches!(scheme, "nats" | "tls") || !is_plain {
            return Err(wrong("expected nats://HOST:PORT or tls://HOST:PORT"));
        }
        let user = match user {
            None => None,
            Some(user) => match user.split_once(':') {
                Some((name, password)) => Some((name.to_owned(), password.to_owned())),
                None => return Err(wrong("expected USER:PASSWORD before the @")),
            },
        };
        let nkey = match nkey {
            None => None,
            Some(path) => {
                let no_seed = || wrong("the file of --nkey has no seed (a line that begins with S)");
                Some(seed_in(path)?.ok_or_else(no_seed)?)
            }
        };
        let server =
            Self { scheme: scheme.to_owned(), host: host.to_owned(), user, nkey, ca: ca.map(Path::to_owned) };
        if !server.is_loopback() {
            if server.scheme != "tls" {
                return Err(wrong("a server on another machine needs TLS: write tls:// instead of nats://"));
            }
            if !server.has_credentials() {
                return Err(wrong(
                    "a server on another machine needs credentials: give --nkey FILE, or USER:PASSWORD@ in \
                     $NATS_URL",
                ));
            }
        }
        Ok(server)
    }

    /// Whether the server can know the speaker: without credentials, every program on this machine may speak.
    pub fn has_credentials(&self) -> bool {
        self.user.is_some() || self.nkey.is_some()
    }

    /// The address without a password.
    pub fn shown(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// Whether the server is on the machine that connects.
    pub fn is_loopback(&self) -> bool {
        let name = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => &self.host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }

    /// Connects; the connection returns by itself when the server does.
    ///
    /// Its answers arrive at subjects that have `name`, so that a server can reserve them for one key.
    pub(crate) async fn connect(&self, name: &str) -> Result<Client, FleetError> {
        let mut options = self
            .with_credentials()
            .name(name)
            .custom_inbox_prefix(wire::inbox(name))
            .require_tls(self.scheme == "tls")
            .connection_timeout(CONNECT)
            .request_timeout(Some(Duration::from_secs(2)))
            .ping_interval(Duration::from_secs(2))
            .max_reconnects(None)
            .ignore_discovered_servers()
            .reconnect_delay_callback(|_| RECONNECT);
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone());
        }
        let failed = |error| FleetError::Server { url: self.shown(), text: reason(&error) };
        options.connect(self.shown()).await.map_err(failed)
    }

    /// Without TLS, credentials are for the server of a trusted user alone. While a server is down, every
    /// user of this machine can take its port, so each connection is checked.
    fn with_credentials(&self) -> ConnectOptions {
        if self.scheme != "tls" && self.has_credentials() {
            let server = self.clone();
            return ConnectOptions::with_auth_callback(move |nonce| std::future::ready(server.auth(&nonce)));
        }
        let mut options = ConnectOptions::new();
        if let Some((user, password)) = &self.user {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if let Some(seed) = &self.nkey {
            options = options.nkey(seed.clone());
        }
        options
    }

    /// The credentials for a server of this machine that has sent `nonce`.
    fn auth(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        if !peer::is_served_by(&self.addresses(), is_trusted) {
            return Err(AuthError::new(KEPT));
        }
        let mut auth = Auth::new();
        if let Some((user, password)) = &self.user {
            (auth.username, auth.password) = (Some(user.clone()), Some(password.clone()));
        }
        if let Some(seed) = &self.nkey {
            let wrong = |error: nkeys::error::Error| AuthError::new(format!("the seed of --nkey: {error}"));
            let pair = nkeys::KeyPair::from_seed(seed).map_err(wrong)?;
            auth.signature = Some(pair.sign(nonce).map_err(wrong)?);
            auth.nkey = Some(pair.public_key());
        }
        Ok(auth)
    }

    /// Addresses of a server of this machine.
    fn addresses(&self) -> Vec<SocketAddr> {
        let found = match self.host.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|b| b.is_ascii_digit()) => self.host.to_socket_addrs(),
            _ => format!("{}:{PORT}", self.host).to_socket_addrs(),
        };
        found.map_or_else(|_| Vec::new(), Iterator::collect)
    }
}

/// Whether a server of this user may have credentials: that of root, of this user, of the caller of `sudo`,
/// or of the account of the packages.
fn is_trusted(uid: u32) -> bool {
    let own = geteuid();
    let caller = std::env::var("SUDO_UID").ok().filter(|_| own.is_root());
    let is_of_packages = || {
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        uid < PERSONS_FROM && user.is_some_and(|user| user.name == ACCOUNT)
    };
    uid == 0
        || uid == own.as_raw()
        || caller.is_some_and(|caller| caller.parse() == Ok(uid))
        || is_of_packages()
}

/// Reason that a server cannot be reached.
fn reason(error: &ConnectError) -> String {
    let text = error.to_string();
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    // The library puts the reason of a callback into brackets.
    if let Some(own) = source.strip_prefix("AuthError(").and_then(|own| own.strip_suffix(')')) {
        return own.to_owned();
    }
    if source.is_empty() || text.contains(&source) { text } else { format!("{text}: {source}") }
}

/// Seed of an `NKey` in a file; `None` if it has none.
///
/// # Errors
///
/// The file cannot be read.
pub fn seed_in(path: &Path) -> Result<Option<String>, FleetError> {
    let text = std::fs::read_to_string(path).map_err(of_file(path))?;
    Ok(text.lines().map(str::trim).find(|line| line.starts_with('S')).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_this_machine_an_address_needs_tls_and_credentials() {
        for (url, problem) in [
            ("nats://127.0.0.1:4222", None),
            ("127.0.0.1", None),
            ("nats://[::1]:4222", None),
            ("localhost:4222", None),
            ("nats://u:p@localhost", None),
            ("tls://u:p@lab.example:4222", None),
            ("nats://u:p@lab.example:4222", Some("TLS")),
            ("nats://localhost.example", Some("TLS")),
            ("nats://127.0.0.1.example", Some("TLS")),
            ("tls://lab.example", Some("credentials")),
            ("http://127.0.0.1", Some("expected nats://")),
            ("nats://", Some("expected nats://")),
            ("nats://127.0.0.1:1,lab.example:2", Some("expected nats://")),
            ("nats://token@127.0.0.1", Some("USER:PASSWORD")),
        ] {
            let found = Server::new(url, None, None).map_err(|error| error.to_string());
            match problem {
                None => assert!(found.is_ok(), "{url}: {found:?}"),
                Some(problem) => assert!(found.unwrap_err().contains(problem), "{url}"),
            }
        }
    }

    #[test]
    fn a_server_of_root_of_this_user_and_of_the_packages_is_trusted_and_none_of_another_person() {
        assert!(is_trusted(0) && is_trusted(geteuid().as_raw()));
        for other in [PERSONS_FROM + 77, u32::MAX] {
            assert!(!is_trusted(other), "{other}");
        }
        let packages = User::from_name(ACCOUNT).unwrap().map(|user| user.uid.as_raw());
        assert!(packages.is_none_or(|uid| is_trusted(uid) == (uid < PERSONS_FROM)));
        // An account of the system that serves something else.
        let other = User::from_name("daemon").unwrap().map(|user| user.uid.as_raw());
        assert!(other.is_none_or(|uid| !is_trusted(uid)));
    }

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        let of = |url: &str| Server::new(url, None, None).unwrap().addresses();
        assert_eq!(of("nats://127.0.0.1"), ["127.0.0.1:4222".parse().unwrap()]);
        assert_eq!(of("nats://[::1]"), ["[::1]:4222".parse().unwrap()]);
        assert_eq!(of("nats://u:p@127.0.0.1:7"), ["127.0.0.1:7".parse().unwrap()]);
    }

    #[test]
    fn a_password_is_never_shown() {
        let server = Server::new("nats://me:hunter2@127.0.0.1:1", None, None).unwrap();
        assert!(!format!("{server:?}").contains("hunter2"));
        let wrong = Server::new("nats://me:hunter2@lab.example", None, None).unwrap_err().to_string();
        assert!(!wrong.contains("hunter2"), "{wrong}");
    }
}
