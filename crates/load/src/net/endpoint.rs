//! Addresses of servers, and sockets connected to them.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use nix::libc::{EADDRNOTAVAIL, ECONNREFUSED, EINPROGRESS};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{CONNECT_TIMEOUT, connection_failure};
use crate::connection::{Failure, FailureClass};
use crate::net::address::ServerAddress;

/// Resolved address of a server.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    address: ServerAddress,
    /// Addresses of the host, in the order of attempts; at least one.
    found: Vec<(Domain, SockAddr)>,
    /// Whether requests carry a password that any server at the address could read.
    sends_password: bool,
}

impl Endpoint {
    /// Resolves an address, once: later changes of the name are ignored.
    pub(crate) fn of(address: ServerAddress) -> Result<Self, Failure> {
        let wrong = |text: String| Failure::new(FailureClass::Configuration, text);
        let found: Vec<_> = match &address {
            ServerAddress::Tcp(host, port) => {
                let unknown = |e: io::Error| wrong(format!("cannot resolve the host `{host}`: {e}"));
                let found = (host.as_str(), *port).to_socket_addrs().map_err(unknown)?;
                found.map(|found| (Domain::for_address(found), found.into())).collect()
            }
            ServerAddress::Unix(path) => {
                let found = SockAddr::unix(path)
                    .map_err(|e| wrong(format!("{address} is not a valid socket path: {e}")))?;
                vec![(Domain::UNIX, found)]
            }
        };
        if found.is_empty() {
            return Err(wrong(format!("the host of {address} has no IP address")));
        }
        Ok(Self { address, found, sends_password: false })
    }

    /// Variant for requests that carry a password in a form that any server at the address could read: a
    /// socket of this machine must be private.
    pub(crate) fn with_password(self, sends_password: bool) -> Self {
        Self { sends_password, ..self }
    }

    /// Maps an error of a connection attempt to a failure.
    pub(crate) fn cannot_connect(&self, error: &io::Error) -> Failure {
        let failure = connection_failure(&format!("cannot connect to {}", self.address), error);
        let advice = match (error.raw_os_error(), failure.class) {
            (Some(EADDRNOTAVAIL), _) => {
                "; the address is unreachable from this machine, or all local ports are in use: wait a minute, \
                 reuse connections, or widen net.ipv4.ip_local_port_range"
            }
            (_, FailureClass::Connection) => "; is the server running?",
            _ => "",
        };
        Failure { text: failure.text + advice, ..failure }
    }

    /// Connects a socket; blocks.
    pub(crate) fn connect(&self) -> Result<Socket, Failure> {
        let mut last = None;
        for (domain, address) in &self.found {
            let socket = socket(*domain).map_err(|e| self.cannot_connect(&e))?;
            let connected = match *domain {
                Domain::UNIX => connect_unix(&socket, address),
                _ => socket.connect_timeout(address, CONNECT_TIMEOUT),
            };
            match connected.and_then(|()| not_to_itself(&socket, address)) {
                Ok(()) => return self.checked(socket),
                Err(e) => last = Some(e),
            }
        }
        Err(self.cannot_connect(&last.expect("there is an address")))
    }

    /// Starts to connect a non-blocking socket; `attempt` selects the address.
    pub(crate) fn begin_connect(&self, attempt: usize) -> Result<Socket, Failure> {
        let (domain, address) = &self.found[attempt % self.found.len()];
        let begin = || {
            let socket = socket(*domain)?;
            socket.set_nonblocking(true)?;
            match socket.connect(address) {
                Err(e) if e.raw_os_error() != Some(EINPROGRESS) => Err(e),
                _ => not_to_itself(&socket, address).map(|()| socket),
            }
        };
        begin().map_err(|e| self.cannot_connect(&e)).and_then(|socket| self.checked(socket))
    }

    /// Refuses a socket of this machine that would give a password to another user.
    fn checked(&self, socket: Socket) -> Result<Socket, Failure> {
        let is_unix = matches!(self.address, ServerAddress::Unix(_));
        if !self.sends_password || !is_unix || self.is_private(&socket) {
            return Ok(socket);
        }
        let text = format!(
            "{} would get the password in cleartext, and may belong to another user: connect through the server's \
             Unix socket, in a directory that no other user can write to, or through TLS that verifies the server",
            self.address
        );
        Err(Failure::new(FailureClass::Configuration, text))
    }

    /// Whether only the intended server can read the connection: its listener is root or this user, or only
    /// the listener's user can have created the socket file. In `/tmp`, every user can create it while the
    /// server is down.
    pub(crate) fn is_private(&self, connected: &Socket) -> bool {
        let ServerAddress::Unix(path) = &self.address else { return false };
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
            // In the parent directories, the sticky bit keeps other users from replacing entries that are not
            // theirs.
            let is_sticky = found.mode() & 0o1000 != 0 && part != folder;
            trusted.contains(&found.uid()) && (is_sticky || !others_write && !group_writes)
        })
    }
}

fn socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if domain != Domain::UNIX {
        // A request is sent immediately, without waiting for the acknowledgment of earlier data.
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

/// Refuses a TCP socket that is connected to itself.
///
/// While no server listens on a port that Linux also gives to clients, a client can be given that very port:
/// the connection then succeeds, echoes each request, and keeps the server from binding its port. It is
/// reset, so that the port is free at once.
fn not_to_itself(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    if address.is_unix() || socket.local_addr()? != *address {
        return Ok(());
    }
    socket.set_linger(Some(Duration::ZERO))?;
    Err(io::Error::from_raw_os_error(ECONNREFUSED))
}

/// Connects to a Unix socket, with a time limit: a listener may accept nothing and its backlog be full.
fn connect_unix(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    let connected = socket.connect(address).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::TimedOut,
            format!("the listener did not accept a connection within {CONNECT_TIMEOUT:?}"),
        ),
        _ => e,
    });
    connected.and_then(|()| socket.set_write_timeout(None))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A socket that listens as user 65534; `None`: this process is not root.
    fn listens_as_another(path: &Path) -> Option<UnixListener> {
        let path = path.to_owned();
        let listen = move || {
            // SAFETY: two system calls with integer arguments, which change this thread only, because they
            // bypass the C library.
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
            let place = Endpoint::of(ServerAddress::Unix(path)).unwrap();
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
            // Like /tmp; a directory given to the server; one that its owner can replace; one that its group
            // can write to.
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
            let place = Endpoint::of(ServerAddress::Unix(below.join("socket"))).unwrap().with_password(true);
            assert_eq!(place.connect().is_ok(), expected, "{above:o} {mode:o} {owner}");
            assert_eq!(place.begin_connect(0).is_ok(), expected, "{above:o} {mode:o} {owner}");
            fs::remove_dir_all(&above_path).unwrap();
        }
    }

    #[test]
    fn a_port_without_a_listener_refuses_however_often_it_is_tried() {
        // Two neighbours in the range of clients' ports: Linux prefers ports of one parity. Without a check,
        // one in some 28,000 attempts connects to itself.
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let last: u16 = range.split_whitespace().nth(1).unwrap().parse().unwrap();
        for port in [last - 1, last] {
            let place = Endpoint::of(ServerAddress::Tcp("127.0.0.1".to_owned(), port)).unwrap();
            for attempt in 0..60_000 {
                assert!(place.connect().is_err(), "{port}, attempt {attempt}");
            }
        }
    }

    #[test]
    fn a_connection_that_cannot_be_made_says_where_why_and_what_to_do() {
        let place = Endpoint::of(ServerAddress::Tcp("::1".to_owned(), 7)).unwrap();
        for (error, class, says) in [
            (nix::libc::ECONNREFUSED, FailureClass::Connection, "is the server running?"),
            (EADDRNOTAVAIL, FailureClass::Connection, "ip_local_port_range"),
            (nix::libc::EMFILE, FailureClass::Machine, "(ulimit -n)"),
        ] {
            let failure = place.cannot_connect(&io::Error::from_raw_os_error(error));
            assert_eq!(failure.class, class);
            assert!(failure.text.starts_with("cannot connect to [::1]:7: "), "{}", failure.text);
            assert!(failure.text.ends_with(says), "{}", failure.text);
        }
    }

    #[test]
    fn what_has_no_address_is_refused() {
        let long = PathBuf::from("/x".repeat(80));
        for (address, says) in [
            (
                // The resolver is not called for a name that contains a zero byte.
                ServerAddress::Tcp("no\0host".to_owned(), 80),
                "cannot resolve the host",
            ),
            (ServerAddress::Unix(long), "is not a valid socket path"),
        ] {
            let failure = Endpoint::of(address).unwrap_err();
            assert_eq!(failure.class, FailureClass::Configuration);
            assert!(failure.text.contains(says), "{}", failure.text);
        }
    }
}
