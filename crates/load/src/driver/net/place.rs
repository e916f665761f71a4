//! Where a server listens, and sockets to it.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
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
                Domain::UNIX => connect_unix(&socket, &address),
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

    /// Whether what is said there reaches only who the user means: through a socket whose listener is root or this user, or
    /// that lies where no other than its listener's user can have put it. In `/tmp`, every user can, while the server is down.
    pub(crate) fn is_private(&self, connected: &Socket) -> bool {
        let Self::Unix(path) = self else { return false };
        let Ok(peer) = getsockopt(connected, PeerCredentials) else { return false };
        let trusted = [0, geteuid().as_raw(), peer.uid()];
        if trusted[..2].contains(&peer.uid()) {
            return true;
        }
        let Some(folder) = path.parent().and_then(|folder| fs::canonicalize(folder).ok()) else {
            return false;
        };
        folder.ancestors().all(|part| {
            let Ok(found) = fs::symlink_metadata(part) else { return false };
            let others_write = found.mode() & 0o002 != 0;
            let group_writes = found.mode() & 0o020 != 0 && ![0, peer.gid()].contains(&found.gid());
            // Above the folder itself, others cannot change what is not theirs in one that is sticky.
            let is_sticky = found.mode() & 0o1000 != 0 && part != folder;
            trusted.contains(&found.uid()) && (is_sticky || !others_write && !group_writes)
        })
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

/// Connects to a socket of this machine: a listener may take nothing, and its backlog be full.
fn connect_unix(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    let connected = socket.connect(address).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::TimedOut,
            format!("what listens there took no connection within {CONNECT_TIMEOUT:?}"),
        ),
        _ => e,
    });
    connected.and_then(|()| socket.set_write_timeout(None))
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
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    /// A socket that listens for user 65534; `None`: this one is not root.
    fn listens_as_another(path: &Path) -> Option<UnixListener> {
        let path = path.to_owned();
        let listen = move || {
            // SAFETY: two system calls with numbers only, which change this thread alone: the library is not asked.
            let is_another = unsafe {
                nix::libc::syscall(nix::libc::SYS_setresgid, 65_534, 65_534, 65_534) == 0
                    && nix::libc::syscall(nix::libc::SYS_setresuid, 65_534, 65_534, 65_534) == 0
            };
            is_another.then(|| UnixListener::bind(path).unwrap())
        };
        std::thread::spawn(listen).join().unwrap()
    }

    #[test]
    fn root_a_socket_that_another_user_can_have_put_there_is_not_private() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        let _listener = UnixListener::bind(&own).unwrap();
        let is_private = |path: PathBuf| {
            let place = Place::Unix(path);
            place.is_private(&place.connect().unwrap())
        };
        assert!(is_private(own), "its listener is this user");
        let set = |path: &Path, mode, owner| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(path, owner, owner).is_ok()
        };
        if !set(folder.path(), 0o711, Some(0)) {
            println!("skipped: another user's sockets, for want of root");
            return;
        }
        for (above, mode, owner, expected) in [
            // As /tmp; as a folder that the server was given; one that its owner can take away; one whose group writes.
            (0o755, 0o1777, 0, false),
            (0o755, 0o755, 65_534, true),
            (0o1777, 0o700, 65_534, true),
            (0o777, 0o755, 65_534, false),
            (0o755, 0o2775, 65_534, true),
        ] {
            let above_path = folder.path().join("above");
            let below = above_path.join("below");
            fs::create_dir_all(&below).unwrap();
            assert!(set(&above_path, above, Some(0)) && set(&below, mode, Some(owner)));
            let _listener = listens_as_another(&below.join("socket")).unwrap();
            assert_eq!(is_private(below.join("socket")), expected, "{above:o} {mode:o} {owner}");
            fs::remove_dir_all(&above_path).unwrap();
        }
    }

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
