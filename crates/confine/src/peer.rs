//! Users of the processes at the other end of a loopback connection.
//!
//! Every user of a machine can take a port that is free, also that of a server that is down for a moment. A
//! secret therefore goes to a port of this machine, without TLS, only if the kernel's table of sockets names
//! a trusted user.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Tables of the sockets of TCP.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// States of sockets in the table.
const ESTABLISHED: &str = "01";
const LISTENS: &str = "0A";

/// User of the process of this machine at the other end of a loopback connection; `None` if unknown.
///
/// The kernel prints uid 0 and inode 0 for a socket that no process has open any more, so a connection that
/// its user closed at once would look like one of root. Only an established connection with an inode
/// counts. The kernel reads state, uid and inode one after the other: a second look finds a socket that was
/// closed in between.
///
/// # Source
///
/// `get_tcp4_sock` in `net/ipv4/tcp_ipv4.c`; `proc_net_tcp.rst` of the kernel.
pub fn uid_of(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let path = if peer.is_ipv4() { TABLES[0] } else { TABLES[1] };
    let look = || owner_in(&fs::read_to_string(path).ok()?, peer, own);
    let first = look()?;
    (look()? == first).then_some(first.uid)
}

/// Whether the server of a loopback connection is a process of root or of this user.
///
/// A connection that the server has not accepted yet has no owner in the kernel's table. Then every process
/// that listens on the port must be one of these.
///
/// - `server`, `own`: the two ends of the connection.
pub fn is_ours(server: SocketAddr, own: SocketAddr) -> bool {
    let is_trusted = |uid: u32| uid == 0 || uid == own_uid();
    uid_of(server, own).map_or_else(
        || {
            let tables = TABLES.map(fs::read_to_string);
            let listeners: Vec<u32> =
                tables.iter().flatten().flat_map(|table| listeners_in(table, server.port())).collect();
            !listeners.is_empty() && listeners.into_iter().all(is_trusted)
        },
        is_trusted,
    )
}

/// Whether each process that has a socket at one of these addresses of a server is of a trusted user, and
/// one of them has accepted a connection.
///
/// For a client that does not know its own end of the connection, and has read from it: the process that
/// wrote has accepted it, and so is in the table until it closes it.
pub fn is_served_by(servers: &[SocketAddr], is_trusted: impl Fn(u32) -> bool) -> bool {
    let tables = TABLES.map(fs::read_to_string);
    let sockets: Vec<Socket> = tables.iter().flatten().flat_map(|table| sockets_in(table, servers)).collect();
    sockets.iter().any(|socket| socket.is_established) && sockets.iter().all(|s| is_trusted(s.owner.uid))
}

/// The user of this process.
fn own_uid() -> u32 {
    // SAFETY: it has no argument and cannot fail.
    unsafe { libc::geteuid() }
}

/// Owner of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    uid: u32,
    inode: u64,
}

/// A socket that a process has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    is_established: bool,
    owner: Owner,
}

/// Lines of a table, in words.
fn lines(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| words.len() > 9)
}

/// Users of the sockets that listen on a port.
fn listeners_in(table: &str, port: u16) -> Vec<u32> {
    let port = format!(":{port:04X}");
    let found = lines(table).filter(|words| words[3] == LISTENS && words[1].ends_with(&port));
    // A user that cannot be read is not trusted.
    found.map(|words| words[7].parse().unwrap_or(u32::MAX)).collect()
}

/// Sockets of these addresses that processes have open.
fn sockets_in(table: &str, servers: &[SocketAddr]) -> Vec<Socket> {
    let names: Vec<String> =
        servers.iter().flat_map(|server| [in_table(*server), in_table(mapped(*server))]).collect();
    let found = lines(table).filter(|words| names.iter().any(|name| name == words[1]));
    // One that cannot be read is not trusted.
    let socket = |words: Vec<&str>| Socket {
        is_established: words[3] == ESTABLISHED,
        owner: Owner {
            uid: words[7].parse().unwrap_or(u32::MAX),
            inode: words[9].parse().unwrap_or(u64::MAX),
        },
    };
    found.map(socket).filter(|socket| socket.owner.inode != 0).collect()
}

fn owner_in(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<Owner> {
    let (peer, own) = (in_table(peer), in_table(own));
    let found = lines(table).find(|words| words[1] == peer && words[2] == own)?;
    let inode: u64 = found[9].parse().ok()?;
    (found[3] == ESTABLISHED && inode != 0).then_some(Owner { uid: found[7].parse().ok()?, inode })
}

/// The address by which a socket of IPv6 serves one of IPv4.
fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// An address as the kernel prints it: words in the order of this machine's bytes.
fn in_table(address: SocketAddr) -> String {
    let octets = match address {
        SocketAddr::V4(v4) => v4.ip().octets().to_vec(),
        SocketAddr::V6(v6) => v6.ip().octets().to_vec(),
    };
    let word = |four: &[u8]| u32::from_ne_bytes(four.try_into().expect("four bytes"));
    let words = octets.chunks(4).fold(String::new(), |text, four| text + &format!("{:08X}", word(four)));
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
         0: 0100007F:20E4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     5        0 1 1 0 100\n   \
         1: 0100007F:20E4 0100007F:B1A2 01 00000000:00000000 00:00000000 00000000     5        0 2 1 0 20\n   \
         2: 0100007F:B1A2 0100007F:20E4 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20\n";

    #[test]
    fn the_user_of_a_connection_is_read_from_the_kernels_table() {
        let (peer, own) = ("127.0.0.1:45474".parse().unwrap(), "127.0.0.1:8420".parse().unwrap());
        let uid_in = |table: &str, peer| owner_in(table, peer, own).map(|owner| owner.uid);
        assert_eq!(uid_in(TABLE, peer), Some(1000), "the other end, not ours");
        assert_eq!(uid_in(TABLE, "127.0.0.1:45475".parse().unwrap()), None);
        assert_eq!(listeners_in(TABLE, 8420), [5]);
        assert!(listeners_in(TABLE, 45474).is_empty(), "it does not listen");
        // Closed by its user: the kernel names no inode, and uid 0, which is root's.
        let closed = "02 00000000:00000000 00:00000000 00000000     0        0 0";
        for state in ["01", "04", "05", "06"] {
            let closed = TABLE.replace(
                "01 00000000:00000000 00:00000000 00000000  1000        0 3",
                &closed.replacen("02", state, 1),
            );
            assert_eq!(uid_in(&closed, peer), None, "{state}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let found = uid_of(client.local_addr().unwrap(), client.peer_addr().unwrap());
        assert_eq!(found, Some(own_uid()));
    }

    #[test]
    fn a_connection_that_its_user_closed_at_once_has_no_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, own) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        std::io::Write::write_all(&mut client, b"POST /api/v1/queue HTTP/1.1\r\n").unwrap();
        drop(client);
        let (_stream, found) = listener.accept().unwrap();
        assert_eq!(found, peer);
        assert_eq!(uid_of(peer, own), None, "the kernel's table has uid 0 for it");
    }

    #[test]
    fn every_socket_at_the_address_of_a_server_counts_in_any_state() {
        let server: SocketAddr = "127.0.0.1:8420".parse().unwrap();
        let of = |table: &str| -> Vec<(u32, bool)> {
            let sockets = sockets_in(table, &[server]);
            sockets.iter().map(|socket| (socket.owner.uid, socket.is_established)).collect()
        };
        assert_eq!(of(TABLE), [(5, false), (5, true)], "not that of the client");
        // Half closed: its process can still read.
        let half = TABLE.replacen("B1A2 01", "B1A2 05", 1);
        assert_eq!(of(&half), [(5, false), (5, false)]);
        let gone = TABLE.replace("     5        0 2", "     0        0 0");
        assert_eq!(of(&gone), [(5, false)], "no process has it");
        let six = TABLE.replace("0100007F:20E4", "0000000000000000FFFF00000100007F:20E4");
        assert_eq!(of(&six), [(5, false), (5, true)], "a socket of IPv6 serves IPv4");

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = [listener.local_addr().unwrap()];
        let _client = TcpStream::connect(server[0]).unwrap();
        assert!(!is_served_by(&server, |_| true), "it is not accepted yet");
        let (_stream, _) = listener.accept().unwrap();
        assert!(is_served_by(&server, |uid| uid == own_uid()));
        assert!(!is_served_by(&server, |uid| uid != own_uid()));
    }
}
