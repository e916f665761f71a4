//! Where a server listens, and sockets to it.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use socket2::{Domain, SockAddr, Socket, Type};

use super::CONNECT_TIMEOUT;
use crate::driver::{Failure, FailureClass};

/// Where a server listens.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Addresses of one host, in the order of trying.
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

impl Place {
    /// The addresses of a host. The name is looked up now.
    pub(crate) fn named(host: &str, port: u16) -> Result<Self, Failure> {
        let found = (host, port).to_socket_addrs();
        let unknown = |e| Failure::new(FailureClass::Connection, format!("there is no host `{host}`: {e}"));
        found.map(|found| Self::Tcp(found.collect())).map_err(unknown)
    }

    /// `host:port`, `[::1]:port`, or a host alone with the protocol's own port. The name is looked up now, once.
    pub(crate) fn tcp(written: &str, default_port: u16) -> Result<Self, Failure> {
        let wrong = |text: String| Failure::new(FailureClass::Configuration, text);
        let (host, port) = host_and_port(written, default_port).map_err(wrong)?;
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|e| wrong(format!("there is no host `{host}`: {e}")))?;
        Ok(Self::Tcp(found.collect()))
    }

    fn addresses(&self) -> io::Result<Vec<(Domain, SockAddr)>> {
        match self {
            Self::Tcp(all) => Ok(all.iter().map(|a| (Domain::for_address(*a), SockAddr::from(*a))).collect()),
            Self::Unix(path) => Ok(vec![(Domain::UNIX, SockAddr::unix(path)?)]),
        }
    }

    /// A socket that is connected, waiting for it.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for (domain, address) in self.addresses()? {
            let socket = self.socket(domain)?;
            let connected = match domain {
                Domain::UNIX => socket.connect(&address),
                _ => socket.connect_timeout(&address, CONNECT_TIMEOUT),
            };
            match connected {
                Ok(()) => return Ok(socket),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// A socket that connects while nobody waits; which address is tried follows from `attempt`.
    pub(crate) fn begin_connect(&self, attempt: usize) -> io::Result<Socket> {
        let mut addresses = self.addresses()?;
        if addresses.is_empty() {
            return Err(io::Error::new(ErrorKind::NotFound, "the host has no address"));
        }
        let (domain, address) = addresses.swap_remove(attempt % addresses.len());
        let socket = self.socket(domain)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Err(e) if e.raw_os_error() != Some(nix::libc::EINPROGRESS) => Err(e),
            _ => Ok(socket),
        }
    }

    fn socket(&self, domain: Domain) -> io::Result<Socket> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if matches!(self, Self::Tcp(_)) {
            // A request leaves when it is sent, not when the last answer was acknowledged.
            socket.set_tcp_nodelay(true)?;
        }
        Ok(socket)
    }
}

/// The host and the port of `host:port`; a host with colons of its own stands in brackets.
pub(crate) fn host_and_port(written: &str, default_port: u16) -> Result<(&str, u16), String> {
    let (host, port) = match written.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
            _ => {
                return Err(format!(
                    "`{written}` is no host: an IPv6 address stands in brackets, `[::1]:port`"
                ));
            }
        },
        None => written.split_once(':').map_or((written, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("there is no host: write `//host:port`".to_owned());
    }
    let port = port.map_or(Ok(default_port), str::parse);
    port.map(|port| (host, port)).map_err(|_| format!("`{written}` has no port between 0 and 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_people_write_it() {
        assert_eq!(host_and_port("localhost:1234", 80), Ok(("localhost", 1234)));
        assert_eq!(host_and_port("localhost", 80), Ok(("localhost", 80)));
        assert_eq!(host_and_port("[::1]:7", 80), Ok(("::1", 7)));
        assert_eq!(host_and_port("[::1]", 80), Ok(("::1", 80)));
        for wrong in ["", ":80", "host:", "host:x", "host:70000", "[::1", "[::1]7"] {
            assert!(host_and_port(wrong, 80).is_err(), "{wrong}");
        }
    }
}
