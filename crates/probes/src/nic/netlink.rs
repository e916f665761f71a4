//! All interfaces of a network namespace in one answer of the kernel, with their counters.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;
use record::nic::LinkCounts;

/// Parts of the kernel's interface: rtnetlink(7), `linux/if_link.h`, `linux/netlink.h`.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const HEADER_BYTES: usize = 16;
const IFINFO_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_INFO_KIND: u16 = 1;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
/// The kernel marks nested attributes with this.
const TYPE_MASK: u16 = 0x3fff;

/// Maximum size of one part of the kernel's answer.
pub(super) const ANSWER_BYTES: usize = 64 * 1024;
/// Number of tries: interfaces that come and go make an answer inconsistent.
const TRIES: usize = 5;

/// One interface, from a message of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) kind: Option<String>,
    pub(super) loopback: bool,
    pub(super) up: bool,
    /// Times that it went down or up.
    pub(super) carrier_changes: u32,
    pub(super) counts: LinkCounts,
}

/// A socket to the kernel's list of interfaces.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Content of one part of an answer.
#[derive(Debug, PartialEq)]
struct Part {
    links: Vec<Link>,
    done: bool,
    interrupted: bool,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        // The kernel answers at once or not at all.
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(5, 0))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; ANSWER_BYTES] })
    }

    /// Lists every interface of the namespace in which the socket was opened.
    pub(super) fn links(&mut self) -> io::Result<Vec<Link>> {
        for _ in 0..TRIES {
            if let Some(links) = self.dump()? {
                return Ok(links);
            }
        }
        Err(io::Error::other("they change faster than the kernel can list them"))
    }

    /// `None` if the list changed meanwhile.
    fn dump(&mut self) -> io::Result<Option<Vec<Link>>> {
        self.sequence += 1;
        send(self.socket.as_raw_fd(), &request(self.sequence), MsgFlags::empty())?;
        let (mut links, mut interrupted) = (Vec::new(), false);
        loop {
            let n = recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            let part = part(&self.buffer[..n], self.sequence)?;
            links.extend(part.links);
            interrupted |= part.interrupted;
            if part.done {
                return Ok((!interrupted).then_some(links));
            }
        }
    }
}

fn request(sequence: u32) -> [u8; HEADER_BYTES + IFINFO_BYTES] {
    let mut bytes = [0; HEADER_BYTES + IFINFO_BYTES];
    let length = u32::try_from(bytes.len()).expect("32 bytes");
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes
}

/// Parses one part of the answer to the request with that number; skips parts of other answers.
fn part(bytes: &[u8], sequence: u32) -> io::Result<Part> {
    let mut part = Part { links: Vec::new(), done: false, interrupted: false };
    for message in messages(bytes)?.iter().filter(|message| message.sequence == sequence) {
        part.interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
        part.done |= message.is_done()?;
        if message.kind == RTM_NEWLINK {
            part.links.extend(link(message.body));
        }
    }
    Ok(part)
}

/// One message of the kernel.
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) body: &'a [u8],
}

impl Message<'_> {
    /// Whether an answer ends here.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the request.
    pub(super) fn is_done(&self) -> io::Result<bool> {
        if self.kind == NLMSG_ERROR {
            let code = u32_at(self.body, 0).ok_or_else(cut)?.cast_signed();
            return Err(io::Error::from_raw_os_error(-code));
        }
        Ok(self.kind == NLMSG_DONE)
    }
}

/// The messages that were received together.
pub(super) fn messages(mut bytes: &[u8]) -> io::Result<Vec<Message<'_>>> {
    let mut messages = Vec::new();
    while bytes.len() >= HEADER_BYTES {
        let length = u32_at(bytes, 0).ok_or_else(cut)? as usize;
        let (kind, flags) = (u16_at(bytes, 4).ok_or_else(cut)?, u16_at(bytes, 6).ok_or_else(cut)?);
        if length < HEADER_BYTES {
            return Err(cut());
        }
        let (sequence, body) =
            (u32_at(bytes, 8).ok_or_else(cut)?, bytes.get(HEADER_BYTES..length).ok_or_else(cut)?);
        messages.push(Message { kind, flags, sequence, body });
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(messages)
}

/// `None` if the message lacks its name or its counters.
fn link(body: &[u8]) -> Option<Link> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let attributes = body.get(IFINFO_BYTES..)?;
    let of = |kind: u16| Attributes(attributes).find(|(k, _)| *k == kind).map(|(_, value)| value);
    let info = of(IFLA_LINKINFO).and_then(|info| Attributes(info).find(|(k, _)| *k == IFLA_INFO_KIND));
    Some(Link {
        index,
        name: text(of(IFLA_IFNAME)?),
        kind: info.map(|(_, value)| text(value)),
        loopback: flags & IFF_LOOPBACK != 0,
        up: flags & IFF_UP != 0,
        carrier_changes: of(IFLA_CARRIER_CHANGES).and_then(|v| u32_at(v, 0)).unwrap_or(0),
        counts: counts(of(IFLA_STATS64)?)?,
    })
}

/// `struct rtnl_link_stats64`, in its order.
fn counts(stats: &[u8]) -> Option<LinkCounts> {
    let at = |i: usize| stats.get(i * 8..i * 8 + 8)?.try_into().ok().map(u64::from_ne_bytes);
    // Most drivers count each failed packet in tx_errors; a few only in the detailed counters.
    let tx_details: u64 = [16, 17, 18, 19, 20].into_iter().filter_map(at).sum();
    Some(LinkCounts {
        rx_packets: at(0)?,
        tx_packets: at(1)?,
        rx_bytes: at(2)?,
        tx_bytes: at(3)?,
        rx_errors: at(4)?,
        tx_errors: at(5)?.max(tx_details),
        rx_dropped: at(6)? + at(15)?,
        tx_dropped: at(7)?,
        collisions: at(9)?,
    })
}

/// The attributes of a message: type and value.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & TYPE_MASK;
        let value = self.0.get(ATTRIBUTE_BYTES..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is truncated")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn veth() -> Vec<u8> {
        let mut body = vec![0, 0, 1, 0];
        body.extend(7_u32.to_ne_bytes());
        body.extend((IFF_UP | 0x1_0000).to_ne_bytes());
        body.extend([0; 4]);
        body.extend(attribute(IFLA_IFNAME, b"veth-a\0"));
        // Marked as nested.
        body.extend(attribute(IFLA_LINKINFO | 0x8000, &attribute(IFLA_INFO_KIND, b"veth\0")));
        let stats: Vec<u8> = (1..=25_u64).flat_map(|i| (i << 33).to_ne_bytes()).collect();
        body.extend(attribute(IFLA_STATS64, &stats));
        body.extend(attribute(IFLA_CARRIER_CHANGES, &3_u32.to_ne_bytes()));
        body
    }

    #[test]
    fn an_interface_is_read_with_its_64_bit_counters() {
        let bytes = [message(RTM_NEWLINK, 0, 5, &veth()), message(NLMSG_DONE, 0, 5, &[0; 4])].concat();
        let part = part(&bytes, 5).unwrap();
        assert!(part.done && !part.interrupted);
        let link = &part.links[0];
        assert_eq!((link.index, link.name.as_str(), link.kind.as_deref()), (7, "veth-a", Some("veth")));
        assert_eq!((link.up, link.loopback, link.carrier_changes), (true, false, 3));
        let expected = LinkCounts {
            rx_packets: 1 << 33,
            tx_packets: 2 << 33,
            rx_bytes: 3 << 33,
            tx_bytes: 4 << 33,
            rx_errors: 5 << 33,
            tx_errors: (17 + 18 + 19 + 20 + 21) << 33,
            rx_dropped: (7 + 16) << 33,
            tx_dropped: 8 << 33,
            collisions: 10 << 33,
        };
        assert_eq!(link.counts, expected);
    }

    #[test]
    fn an_answer_to_another_request_is_passed_over_and_a_change_is_noticed() {
        let bytes =
            [message(RTM_NEWLINK, 0, 4, &veth()), message(RTM_NEWLINK, NLM_F_DUMP_INTR, 5, &veth())].concat();
        let part = part(&bytes, 5).unwrap();
        assert_eq!((part.links.len(), part.done, part.interrupted), (1, false, true));
    }

    #[test]
    fn an_answer_cut_anywhere_is_an_error_or_less_and_never_a_panic() {
        let bytes = message(RTM_NEWLINK, 0, 5, &veth());
        for end in 0..bytes.len() {
            if let Ok(part) = part(&bytes[..end], 5) {
                assert!(part.links.len() <= 1 && !part.done);
            }
        }
        assert!(link(&veth()[..40]).is_none());
    }

    #[test]
    fn a_refusal_is_the_kernels_own_error() {
        let error = part(&message(NLMSG_ERROR, 0, 5, &(-1_i32).to_ne_bytes()), 5).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(1));
    }
}
