//! TCP connections with the kernel's data of each, and notifications of those that end (`sock_diag(7)`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::netlink::{
    ANSWER_BYTES, Attributes, HEADER_BYTES, Message, NLM_F_DUMP, NLM_F_REQUEST, messages, u32_at,
};

/// Parts of the kernel's interface: `linux/sock_diag.h`, `linux/inet_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
const SK_MEMINFO_DROPS: usize = 8;
const TCP_LISTEN: u8 = 10;
/// All states but `TIME_WAIT` (6) and the server side of an unfinished handshake (3, 12), which have no
/// figures.
const STATES: u32 = 0xfff & !(1 << 6) & !(1 << 3);
/// Notifications of ended connections over IPv4 and over IPv6: bit N is group N + 1.
const ENDS: u32 = 1 | 1 << 2;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
const SOCKET_BYTES: usize = 72;
/// Room for notifications of some thousands of ends; a machine's limit may be lower.
const NEWS_BYTES: usize = 8 << 20;

/// Offsets in `struct tcp_info`.
const RTT_US: usize = 68;
const RETRANSMITS: usize = 100;
const SEGMENTS_OUT: usize = 136;
const SEGMENTS_IN: usize = 140;
const RTT_MIN_US: usize = 148;

/// One connection, from a message of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Connection {
    /// Unique id that the kernel gives to a connection.
    pub(super) cookie: u64,
    pub(super) local_port: u16,
    pub(super) peer: IpAddr,
    pub(super) peer_port: u16,
    pub(super) retransmits: u64,
    /// Segments sent and received.
    pub(super) segments: u64,
    /// Missing in the notification of an end.
    pub(super) drops: Option<u64>,
    /// Smoothed and minimum round trip; 0: not measured yet.
    pub(super) rtt_us: u64,
    pub(super) rtt_min_us: u64,
}

/// Content of one message.
#[derive(Debug, PartialEq)]
enum Reply {
    Listens(u16),
    Is(Connection),
}

/// All connections and listening ports now.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) listening: Vec<u16>,
    pub(super) connections: Vec<Connection>,
}

/// Sockets for the kernel's table of connections, and for its notifications of ends, of the namespace in
/// which they were opened.
#[derive(Debug)]
pub(super) struct Diag {
    asked: OwnedFd,
    news: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    pub(super) fn open() -> io::Result<Self> {
        let open = |groups| -> io::Result<OwnedFd> {
            let (raw, close) = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
            let socket = socket(AddressFamily::Netlink, raw, close, SockProtocol::NetlinkSockDiag)?;
            bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
            // The kernel answers at once or not at all.
            setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(5, 0))?;
            Ok(socket)
        };
        let news = open(ENDS)?;
        if setsockopt(&news, sockopt::RcvBufForce, &NEWS_BYTES).is_err() {
            // Without CAP_NET_ADMIN as much as the machine allows.
            setsockopt(&news, sockopt::RcvBuf, &NEWS_BYTES)?;
        }
        Ok(Self { asked: open(0)?, news, sequence: 0, buffer: vec![0; ANSWER_BYTES] })
    }

    /// Lists every connection and every port that listens.
    pub(super) fn table(&mut self) -> io::Result<Table> {
        let mut table = Table::default();
        for family in [AF_INET, AF_INET6] {
            self.sequence += 1;
            send(self.asked.as_raw_fd(), &request(family, self.sequence), MsgFlags::empty())?;
            let mut done = false;
            while !done {
                let n = recv(self.asked.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
                for message in messages(&self.buffer[..n])? {
                    if message.sequence != self.sequence {
                        continue;
                    }
                    done |= message.is_done()?;
                    match told(&message) {
                        Some(Reply::Listens(port)) => table.listening.push(port),
                        Some(Reply::Is(connection)) => table.connections.push(connection),
                        None => {}
                    }
                }
            }
        }
        Ok(table)
    }

    /// Connections that ended since the last call, and whether some notifications were lost.
    pub(super) fn ended(&mut self) -> io::Result<(Vec<Connection>, bool)> {
        let (mut ended, mut lost) = (Vec::new(), false);
        loop {
            match recv(self.news.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(n) => {
                    for message in messages(&self.buffer[..n])? {
                        if let Some(Reply::Is(connection)) = told(&message) {
                            ended.push(connection);
                        }
                    }
                }
                Err(Errno::ENOBUFS) => lost = true,
                Err(Errno::EAGAIN) => return Ok((ended, lost)),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn request(family: u8, sequence: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let length = u32::try_from(bytes.len()).expect("72 bytes");
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[16] = family;
    bytes[17] = IPPROTO_TCP;
    bytes[18] = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);
    bytes[20..24].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}

/// `None` if the message is not about a TCP connection, or lacks its figures.
fn told(message: &Message<'_>) -> Option<Reply> {
    if message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let body = message.body;
    let (family, state) = (*body.first()?, *body.get(1)?);
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let (local_port, peer_port) = (port(4)?, port(6)?);
    if state == TCP_LISTEN {
        return Some(Reply::Listens(local_port));
    }
    if peer_port == 0 {
        // It was never connected.
        return None;
    }
    let address: [u8; 16] = body.get(24..40)?.try_into().ok()?;
    let peer = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::new(address[0], address[1], address[2], address[3])),
        AF_INET6 => Ipv6Addr::from(address).to_canonical(),
        _ => return None,
    };
    let cookie = u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32;
    let attributes = body.get(SOCKET_BYTES..)?;
    let of = |kind: u16| Attributes(attributes).find(|(k, _)| *k == kind).map(|(_, value)| value);
    let info = of(INET_DIAG_INFO)?;
    let figure = |at: usize| u32_at(info, at).map(u64::from);
    Some(Reply::Is(Connection {
        cookie,
        local_port,
        peer,
        peer_port,
        retransmits: figure(RETRANSMITS)?,
        segments: figure(SEGMENTS_OUT)? + figure(SEGMENTS_IN)?,
        drops: of(INET_DIAG_SKMEMINFO).and_then(|m| u32_at(m, SK_MEMINFO_DROPS * 4)).map(u64::from),
        rtt_us: figure(RTT_US)?,
        rtt_min_us: figure(RTT_MIN_US)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
    }

    fn socket(state: u8) -> Vec<u8> {
        let mut body = vec![0; SOCKET_BYTES];
        body[0..2].copy_from_slice(&[AF_INET, state]);
        body[4..8].copy_from_slice(&[0x1f, 0x90, 0x00, 0x50]);
        body[24..28].copy_from_slice(&[10, 0, 0, 7]);
        body[44..52].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
        let mut info = vec![0; 240];
        for (at, value) in
            [(RTT_US, 250_u32), (RETRANSMITS, 3), (SEGMENTS_OUT, 40), (SEGMENTS_IN, 2), (RTT_MIN_US, 90)]
        {
            info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        body.extend(attribute(INET_DIAG_INFO, &info));
        let memory: Vec<u8> = (0..9_u32).flat_map(u32::to_ne_bytes).collect();
        body.extend(attribute(INET_DIAG_SKMEMINFO, &memory));
        body
    }

    fn of(body: &[u8]) -> Option<Reply> {
        told(&Message { kind: SOCK_DIAG_BY_FAMILY, flags: 0, sequence: 1, body })
    }

    #[test]
    fn a_connection_is_read_with_its_figures() {
        let expected = Connection {
            cookie: 1 | 2 << 32,
            local_port: 8080,
            peer: IpAddr::from([10, 0, 0, 7]),
            peer_port: 80,
            retransmits: 3,
            segments: 42,
            drops: Some(8),
            rtt_us: 250,
            rtt_min_us: 90,
        };
        assert_eq!(of(&socket(1)), Some(Reply::Is(expected)));
        assert_eq!(of(&socket(TCP_LISTEN)), Some(Reply::Listens(8080)));
    }

    #[test]
    fn a_message_cut_anywhere_is_nothing_and_never_a_panic() {
        let whole = socket(1);
        let info_ends = SOCKET_BYTES + 4 + 240;
        for end in 0..info_ends {
            assert_eq!(of(&whole[..end]), None, "{end}");
        }
    }
}
