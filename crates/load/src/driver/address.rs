//! `USER:PASSWORD@HOST:PORT/PATH?NAME=VALUE&...`: what stands after `scheme://` in the targets of servers.

use std::fmt;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use record::target::Target;

use super::{Failure, FailureClass, Scheme};

/// Whether a host is known; why not is the user's to mend.
pub(crate) fn look_up(host: &str, port: u16) -> Result<(), Failure> {
    let unknown =
        |e| Failure::new(FailureClass::Configuration, format!("the host `{host}` is not known: {e}"));
    (host, port).to_socket_addrs().map(drop).map_err(unknown)
}

/// Where the server of a load takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A name or an address, and a port.
    Tcp(String, u16),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl ServerAddress {
    /// `host:port`, `[::1]:port`, or a host alone with the protocol's own port.
    pub(crate) fn tcp(written: &str, default_port: u16) -> Option<Self> {
        super::net::host_and_port(written, default_port)
            .ok()
            .map(|(host, port)| Self::Tcp(host.to_owned(), port))
    }
}

/// The parts, with their `%XX` read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Empty where none is named; an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) path: String,
    pub(crate) parameters: Vec<(String, String)>,
}

impl Address {
    /// Reads the target of a database, which it names. What it complains of never holds the password.
    pub(crate) fn of_database(target: &Target, scheme: &Scheme) -> Result<Self, String> {
        let form = || format!("write {}", scheme.form);
        let rest = target.expose().strip_prefix(scheme.name).and_then(|rest| rest.strip_prefix("://"));
        let address = Self::read(rest.ok_or_else(form)?)?;
        if address.path.is_empty() {
            return Err(format!("no database is named: {}", form()));
        }
        Ok(address)
    }

    /// Reads what stands after `scheme://`. What it complains of never holds the password.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        // A password may hold an unescaped `@`, or even a `/`: the last `@` of the authority ends it, or, where the
        // authority has none, the last of all. Target masks by the same rule.
        let authority_end = text.find(['/', '?']).unwrap_or(text.len());
        let at = text[..authority_end].rfind('@').or_else(|| text.rfind('@'));
        let (user_info, rest) = at.map_or(("", text), |at| (&text[..at], &text[at + 1..]));
        let (user, password) = match user_info.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (user_info, None),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = host_and_port(authority)?;
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((decoded(name)?, decoded(value)?));
        }
        let user = if user.is_empty() { None } else { Some(decoded(user)?) };
        Ok(Self { user, password, host, port, path: decoded(path)?, parameters })
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let number =
        |port: &str| port.parse().map_err(|_| format!("`{port}` is no port: expected a number up to 65535"));
    Ok((decoded(host)?, port.map(number).transpose()?))
}

/// The text with `%XX` read as bytes.
pub(crate) fn decoded(text: &str) -> Result<String, String> {
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
