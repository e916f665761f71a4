//! `USER:PASSWORD@HOST:PORT/PATH?NAME=VALUE&...`: the part after `scheme://` in the targets of servers.

use std::fmt;
use std::path::PathBuf;

use record::target::Target;

/// Address of the server of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// Path of a Unix socket.
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
    /// `host:port`, `[::1]:port`, or a host with the protocol's default port.
    pub(crate) fn tcp(written: &str, default_port: u16) -> Result<Self, String> {
        match host_and_port(written)? {
            ("", _) => Err("the host is missing: write `//host:port`".to_owned()),
            (host, port) => Ok(Self::Tcp(host.to_owned(), port.unwrap_or(default_port))),
        }
    }

    /// The host that a certificate must name.
    pub(crate) fn host(&self) -> &str {
        if let Self::Tcp(host, _) = self { host } else { "localhost" }
    }
}

/// The parts, with `%XX` decoded.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Empty if the target names no host; an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) path: String,
    pub(crate) parameters: Vec<(String, String)>,
}

impl Address {
    /// Parses the target of a database; the target must name the database. An error never contains the
    /// password.
    ///
    /// - `scheme`: the scheme, without its colon.
    /// - `form`: the form of such a target.
    pub(crate) fn of_database(target: &Target, scheme: &str, form: &str) -> Result<Self, String> {
        let form = || format!("write {form}");
        let rest = target.expose().strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        let address = Self::read(rest.ok_or_else(form)?)?;
        if address.path.is_empty() {
            return Err(format!("the database name is missing: {}", form()));
        }
        Ok(address)
    }

    /// Parses the part after `scheme://`. An error never contains the password.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        // A password may contain an unescaped `@`, or even a `/`: it ends at the last `@` of the authority
        // or, if the authority has none, at the last `@` of the text. Target masks by the same rule.
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
        let host = decoded(host)?;
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((decoded(name)?, decoded(value)?));
        }
        let user = if user.is_empty() { None } else { Some(decoded(user)?) };
        Ok(Self { user, password, host, port, path: decoded(path)?, parameters })
    }
}

/// Splits `host:port`. An IPv6 address is in brackets.
fn host_and_port(written: &str) -> Result<(&str, Option<u16>), String> {
    // If an `@` is missing, the text may be a password, so it is not repeated.
    const NO_HOST: &str = "the host is not valid: write an IPv6 address in brackets, `[::1]:port`";
    let (host, rest) = match written.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(NO_HOST)?,
        None => written.split_at(written.find(':').unwrap_or(written.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if !port.contains(':') => Some(port),
        None if rest.is_empty() => None,
        _ => return Err(NO_HOST.to_owned()),
    };
    let number = |port: &str| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let written = if is_number { format!("`{port}`") } else { "the text after the colon".to_owned() };
        port.parse().map_err(|_| format!("{written} is not a valid port: expected a number up to 65535"))
    };
    Ok((host, port.map(number).transpose()?))
}

/// Decodes `%XX` in the text.
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
                        "a `%` is not followed by two hexadecimal digits: write a literal `%` as `%25`"
                            .to_owned(),
                    );
                }
            },
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| "the target is not UTF-8 after its `%XX` are decoded".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_people_write_it() {
        for (written, host, port) in [
            ("localhost:1234", "localhost", 1234),
            ("localhost", "localhost", 80),
            ("[::1]:7", "::1", 7),
            ("[::1]", "::1", 80),
        ] {
            let tcp = ServerAddress::Tcp(host.to_owned(), port);
            assert_eq!(ServerAddress::tcp(written, 80), Ok(tcp));
            let address = Address::read(&format!("app:x%40@{written}/db")).unwrap();
            assert_eq!((address.host.as_str(), address.port.unwrap_or(80)), (host, port));
        }
        for (wrong, says) in [
            ("", "the host is missing"),
            (":80", "the host is missing"),
            ("host:", "`` is not a valid port"),
            ("host:hunter2", "the text after the colon is not a valid port"),
            ("host:70000", "`70000` is not a valid port"),
            ("[::1", "in brackets"),
            ("[::1]7", "in brackets"),
            ("::1", "in brackets"),
            ("fe80::1:80", "in brackets"),
        ] {
            let problem = ServerAddress::tcp(wrong, 80).unwrap_err();
            assert!(problem.contains(says), "{wrong}: {problem}");
            // The host of a database target is optional.
            assert_eq!(Address::read(wrong).is_ok(), says == "the host is missing", "{wrong}");
        }
    }
}
