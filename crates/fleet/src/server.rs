//! The NATS server of a fleet: its address, the credentials, and what is refused.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{Client, ConnectOptions};

use crate::error::{FleetError, of_file};

/// Pause between two attempts to reach a server that is away.
const RECONNECT: Duration = Duration::from_millis(100);
/// Maximum duration of the first connection.
const CONNECT: Duration = Duration::from_secs(5);

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
    pub(crate) async fn connect(&self, name: &str) -> Result<Client, FleetError> {
        let mut options = ConnectOptions::new()
            .name(name)
            .require_tls(self.scheme == "tls")
            .connection_timeout(CONNECT)
            .request_timeout(Some(Duration::from_secs(2)))
            .ping_interval(Duration::from_secs(2))
            .max_reconnects(None)
            .ignore_discovered_servers()
            .reconnect_delay_callback(|_| RECONNECT);
        if let Some((user, password)) = &self.user {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if let Some(seed) = &self.nkey {
            options = options.nkey(seed.clone());
        }
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone());
        }
        let failed = |text: String| FleetError::Server { url: self.shown(), text };
        options.connect(self.shown()).await.map_err(|error| {
            let text = error.to_string();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            failed(
                source
                    .filter(|s| !text.contains(s.as_str()))
                    .map_or(text.clone(), |s| format!("{text}: {s}")),
            )
        })
    }
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
    fn a_password_is_never_shown() {
        let server = Server::new("nats://me:hunter2@127.0.0.1:1", None, None).unwrap();
        assert!(!format!("{server:?}").contains("hunter2"));
        let wrong = Server::new("nats://me:hunter2@lab.example", None, None).unwrap_err().to_string();
        assert!(!wrong.contains("hunter2"), "{wrong}");
    }
}
