//! Places of servers, as users write them.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ServeError;

/// Name of the socket in an archive.
pub(crate) const SOCKET: &str = "serve.sock";

/// Place of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A socket of this machine.
    Unix(PathBuf),
    /// An address of this machine, without encryption.
    Http {
        /// Host and port.
        authority: String,
    },
    /// A host, over TLS.
    Https {
        /// Host and port.
        authority: String,
    },
}

impl Server {
    /// The server of the archive in `folder`.
    pub fn of_archive(folder: &Path) -> Self {
        Self::Unix(folder.join(SOCKET))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http { authority } => write!(f, "http://{authority}"),
            Self::Https { authority } => write!(f, "https://{authority}"),
        }
    }
}

impl FromStr for Server {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let wrong = || ServeError::NoServer { text: text.to_owned() };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let authority = rest.trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '@', '?', '#', ' ']) {
            return Err(wrong());
        }
        match scheme {
            "https" => Ok(Self::Https { authority: authority.to_owned() }),
            // A token must not cross a network in plain text.
            "http" if is_loopback(host_of(authority)) => Ok(Self::Http { authority: authority.to_owned() }),
            _ => Err(wrong()),
        }
    }
}

/// A server and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub(crate) server: Server,
    pub(crate) path: String,
}

impl FromStr for Url {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let wrong = || ServeError::NoUrl { text: text.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_plain = path.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
        let server = format!("{scheme}://{authority}").parse().map_err(|_| wrong())?;
        match server {
            Server::Http { .. } | Server::Https { .. } if is_plain => {
                Ok(Self { server, path: path.to_owned() })
            }
            _ => Err(wrong()),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Host of an authority, without its port and brackets.
pub(crate) fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

pub(crate) fn with_port(authority: &str, port: u16) -> String {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { authority.to_owned() } else { format!("{authority}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_socket_or_an_address_and_plain_text_stays_on_this_machine() {
        let read = |text: &str| text.parse::<Server>().ok().map(|server| server.to_string());
        for good in
            ["unix:/a/serve.sock", "http://127.0.0.1:8420", "http://[::1]:8420", "https://lab.example:8420"]
        {
            assert_eq!(read(good).as_deref(), Some(good));
        }
        assert_eq!(read("http://localhost:8420/").as_deref(), Some("http://localhost:8420"));
        for wrong in [
            "",
            "unix:",
            "lab:8420",
            "http://lab.example:8420",
            "http://127.0.0.1@evil.example",
            "ftp://localhost",
            "https://lab/x",
            "http://127.0.0.1.evil.example:80",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_webhook_is_a_url_whose_path_stays_in_its_line() {
        let read = |text: &str| text.parse::<Url>().ok().map(|url| (url.server.to_string(), url.path));
        let url = |server: &str, path: &str| Some((server.to_owned(), path.to_owned()));
        assert_eq!(read("https://ci.example/hook?key=1"), url("https://ci.example", "/hook?key=1"));
        assert_eq!(read("http://127.0.0.1:9"), url("http://127.0.0.1:9", "/"));
        for wrong in [
            "unix:/x",
            "http://ci.example/hook",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fd00:ec2::254]/",
            "http://2130706433/",
            "http://0.0.0.0/",
            "https://ci.example/a b",
            "https://c/\r\nX: y",
            "hook",
            "https:///x",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_without_a_port_gets_the_usual_one() {
        assert_eq!(with_port("lab.example", 443), "lab.example:443");
        assert_eq!(with_port("lab.example:8420", 443), "lab.example:8420");
        assert_eq!(
            (host_of("[::1]:8420"), host_of("lab.example:1"), host_of("lab")),
            ("::1", "lab.example", "lab")
        );
    }
}
