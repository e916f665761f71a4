//! Finds the process that answers at an address: the server of this series, or another one.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use load::ServerAddress;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use nix::unistd::Pid;
use plan::Ready;
use record::load::LoadSettings;

use crate::process::Stat;

/// Timeout of one attempt to connect.
pub(crate) const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// State of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// Flag of a listening socket in `/proc/net/unix` (`__SO_ACCEPTCON`).
const ACCEPTS: u32 = 0x1_0000;

/// Address at which a server accepts connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host name or IP address, and a port.
    Tcp(String, u16),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Returns the address that `server.ready` names; `None` for a command.
    pub(crate) fn of_ready(ready: &Ready) -> Option<Self> {
        match ready {
            Ready::Socket(path) => Some(Self::Unix(path.into())),
            Ready::Tcp { host, port } => Some(Self::Tcp(host.clone(), *port)),
            Ready::Command(_) => None,
        }
    }

    /// Returns the addresses that a load connects to: one for each host of its target; empty if it connects
    /// to none.
    pub(crate) fn of_load(settings: &LoadSettings) -> Vec<Self> {
        let address = |address: ServerAddress| match address {
            ServerAddress::Unix(path) => Self::Unix(path),
            ServerAddress::Tcp(host, port) => Self::Tcp(host, port),
        };
        load::server_addresses(settings).into_iter().map(address).collect()
    }

    /// Whether any process accepts connections there.
    pub(crate) fn answers(&self) -> bool {
        match self {
            // A listener with a full backlog is still a listener.
            Self::Unix(path) => matches!(connect(path), Ok(_) | Err(Errno::EAGAIN)),
            Self::Tcp(..) => self.connect().is_some(),
        }
    }

    fn connect(&self) -> Option<SocketAddr> {
        let Self::Tcp(host, port) = self else { return None };
        let mut all = (host.as_str(), *port).to_socket_addrs().ok()?;
        // A client can be given the very port that it connects to, and is then connected to itself.
        let is_other = |stream: TcpStream| {
            stream.local_addr().is_ok_and(|own| stream.peer_addr().is_ok_and(|peer| own != peer))
        };
        all.find(|address| TcpStream::connect_timeout(address, TRY_TIMEOUT).is_ok_and(is_other))
    }

    /// Describes the process that listens there if it is not in `members`; `None` if a member does.
    ///
    /// An address on another machine belongs to no local process, and is not checked.
    pub(crate) fn stranger(&self, members: &[Pid]) -> Option<String> {
        let listening = match self.sockets() {
            Sockets::Silent => return Some(format!("{self} no longer answers")),
            Sockets::Elsewhere => return None,
            Sockets::Here(listening) => listening,
        };
        let own: Vec<u64> = members.iter().flat_map(|pid| sockets_of(*pid)).collect();
        let all_own = !listening.is_empty() && listening.iter().all(|inode| own.contains(inode));
        if all_own || self.peer(members).is_some() {
            return None;
        }
        let foreign = listening.iter().find(|inode| !own.contains(inode));
        Some(match foreign.and_then(|inode| holder(*inode)) {
            Some((pid, name)) => format!(
                "process {pid} ({name}) answers at {self}, but this series did not start it: another server \
                 has the address, or a daemon started it for the command, as with `docker run`; start the \
                 program itself"
            ),
            None => format!(
                "the process that answers at {self} was not started by this series, or this user may not \
                 inspect it"
            ),
        })
    }

    /// Returns the processes of `members` that accept the connections.
    ///
    /// A process that passes its socket to a child, such as a supervisor or a wrapper that binds the port, is
    /// not one of them.
    pub(crate) fn listeners(&self, members: &[Pid]) -> Vec<Pid> {
        let Sockets::Here(listening) = self.sockets() else { return Vec::new() };
        let listens = |pid: &Pid| sockets_of(*pid).iter().any(|inode| listening.contains(inode));
        let holders: Vec<Pid> = members.iter().copied().filter(listens).collect();
        let parents: Vec<i32> =
            holders.iter().filter_map(|pid| Some(Stat::of(pid.as_raw()).ok()?.parent)).collect();
        let mut listeners: Vec<Pid> =
            holders.into_iter().filter(|pid| !parents.contains(&pid.as_raw())).collect();
        if listeners.is_empty() {
            listeners.extend(self.peer(members));
        }
        listeners
    }

    fn sockets(&self) -> Sockets {
        match self {
            Self::Unix(_) if !self.answers() => Sockets::Silent,
            Self::Unix(path) => {
                let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
                Sockets::Here(listening_at_path(&table, path))
            }
            Self::Tcp(..) => {
                let Some(address) = self.connect() else { return Sockets::Silent };
                if !is_here(address.ip()) {
                    return Sockets::Elsewhere;
                }
                let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/net/{name}")));
                Sockets::Here(listening_at(&tables.map(Result::unwrap_or_default), address))
            }
        }
    }

    /// Returns the process of `members` that made a Unix socket listen, also in another network namespace.
    fn peer(&self, members: &[Pid]) -> Option<Pid> {
        let Self::Unix(path) = self else { return None };
        listener_of(path).ok().filter(|pid| members.contains(pid))
    }
}

/// Sockets that accept the connections to an address.
enum Sockets {
    /// The address does not answer.
    Silent,
    /// On another machine.
    Elsewhere,
    /// Inodes of local sockets.
    Here(Vec<u64>),
}

/// Whether an address belongs to this machine: only then can a socket be bound to it.
fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Connects to a socket without waiting if the listener's backlog is full.
fn connect(path: &Path) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let stream = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream)
}

/// Returns the process that made the socket at `path` listen.
fn listener_of(path: &Path) -> io::Result<Pid> {
    let stream = connect(path)?;
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).expect("a small structure");
    // SAFETY: the kernel writes at most `length` bytes, the size of the structure, which lives until the call
    // returns.
    Errno::result(unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    Ok(Pid::from_raw(peer.pid))
}

/// Returns the inodes of a process's sockets.
fn sockets_of(pid: Pid) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    descriptors.filter_map(inode).collect()
}

/// Returns the process that has that socket, as far as this user may see it.
fn holder(inode: u64) -> Option<(Pid, String)> {
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let pid = pids.map(Pid::from_raw).find(|pid| sockets_of(*pid).contains(&inode))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim().escape_default().to_string()))
}

/// Returns the inodes of the listening sockets at `path`.
///
/// - `table`: `/proc/net/unix`.
fn listening_at_path(table: &str, path: &Path) -> Vec<u64> {
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (flags, inode, bound) = (fields.get(3)?, fields.get(6)?, Path::new(fields.get(7)?));
        let is_it = bound == path || (bound.is_relative() && bound.file_name() == path.file_name());
        let accepts = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & ACCEPTS != 0);
        (is_it && accepts).then(|| inode.parse().ok()).flatten()
    };
    table.lines().filter_map(entry).collect()
}

/// Returns the inodes of the sockets that the kernel would choose from for a connection to `address`.
///
/// - `tables`: `/proc/net/tcp` and `/proc/net/tcp6`.
fn listening_at(tables: &[String; 2], address: SocketAddr) -> Vec<u64> {
    let mut found: Vec<(u8, u64)> = Vec::new();
    for line in tables.iter().flat_map(|table| table.lines()) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(local), Some(&LISTENS), Some(inode)) = (fields.get(1), fields.get(3), fields.get(9)) else {
            continue;
        };
        let Some(bound) = socket_address(local) else { continue };
        let wanted = address.ip().to_canonical();
        let rank = match bound.ip() {
            ip if ip.to_canonical() == wanted => 0,
            ip if ip.is_unspecified() && ip.is_ipv4() == wanted.is_ipv4() => 1,
            ip if ip.is_unspecified() && ip.is_ipv6() => 2,
            _ => continue,
        };
        if let (true, Ok(inode)) = (bound.port() == address.port(), inode.parse()) {
            found.push((rank, inode));
        }
    }
    // The most specific one gets the connection.
    let best = found.iter().map(|(rank, _)| *rank).min();
    found.into_iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, inode)| inode).collect()
}

/// Parses `0100007F:1F90`: words of 32 bits in the machine's byte order, in hexadecimal.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use nix::unistd::getpid;

    use super::*;

    #[test]
    fn the_most_exact_listener_gets_the_connection() {
        let line = |local: &str, state: &str, inode: u32| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0\n"
            )
        };
        let any = "00000000000000000000000000000000";
        let v4 = [
            line("0100007F:1F90", LISTENS, 11),
            line("00000000:1F90", LISTENS, 12),
            line("0100007F:1F90", "01", 13),
        ];
        let tables = [v4.concat(), line(&format!("{any}:1F90"), LISTENS, 14)];
        let at = |address: &str| listening_at(&tables, address.parse().unwrap());
        assert_eq!(at("127.0.0.1:8080"), [11]);
        assert_eq!(at("10.0.0.1:8080"), [12]);
        assert_eq!(at("[::1]:8080"), [14]);
        assert_eq!(at("127.0.0.1:80"), Vec::<u64>::new());
    }

    #[test]
    fn a_listener_that_takes_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener =
            socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        socket::listen(&listener, socket::Backlog::new(0).unwrap()).unwrap();
        let waiting: Vec<_> = std::iter::repeat_with(|| connect(&path)).take_while(Result::is_ok).collect();
        assert!(!waiting.is_empty() && Address::Unix(path).answers());
    }

    #[test]
    fn a_listener_is_known_by_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses =
            [Address::Unix(path.clone()), Address::Tcp("127.0.0.1".into(), tcp.local_addr().unwrap().port())];
        assert!(!addresses[0].answers());
        let _unix = UnixListener::bind(&path).unwrap();
        for address in addresses {
            assert!(address.answers());
            assert_eq!(address.stranger(&[getpid()]), None);
            assert_eq!(address.listeners(&[getpid()]), [getpid()]);
            assert_eq!(address.listeners(&[]), []);
            let said = address.stranger(&[]).unwrap();
            assert!(said.contains(&format!("process {}", getpid())), "{said}");
        }
    }
}
