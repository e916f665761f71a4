//! TCP connections over an interval, by peer.

use std::net::IpAddr;

use crate::missing::{Maybe, Missing};

/// Listening end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opened {
    /// The peer: the local end connected to its port.
    ByUs,
    /// The local end: the peer connected to its port.
    ByPeer,
}

/// Connections with one address and one service port.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPeer {
    /// Address of the peer.
    pub address: IpAddr,
    /// Port of the listening end.
    pub port: u16,
    /// Listening end.
    pub opened: Opened,
    /// Connections that existed at any time in the interval.
    pub connections: u64,
    /// Connections among them that ended.
    pub ended: u64,
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
    /// Received segments that were dropped: no room, outside the window, damaged.
    pub dropped_segments: u64,
    /// Round trips of the connections that sent or received in the interval; missing if none did.
    pub rtt: Maybe<Rtt>,
}

/// Round-trip times, smoothed by the kernel for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtt {
    /// Connections with a round-trip time.
    pub connections: u64,
    /// Mean of their smoothed times.
    pub mean_ns: u64,
    /// Longest of their smoothed times.
    pub max_ns: u64,
    /// Shortest single round trip of the last five minutes.
    pub min_ns: u64,
}

/// All connections over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPeers {
    /// Peers with most retransmits first, then most drops, then most connections.
    pub peers: Vec<TcpPeer>,
    /// Whether the kernel lost the ends of some connections for lack of buffer space.
    pub lost_ends: bool,
}

impl TcpPeers {
    /// Retransmits without a peer: of the `total` of the namespace, those of connections that were never
    /// established, and those that were lost.
    ///
    /// # Errors
    ///
    /// Missing if the total is missing.
    pub fn retransmits_without_peer(&self, total: Maybe<u64>) -> Maybe<u64> {
        let of_peers: u64 = self.peers.iter().map(|p| p.retransmitted_segments).sum();
        // The total is read slightly before or after.
        Ok(total?.saturating_sub(of_peers))
    }
}

impl Rtt {
    /// Summary of connections with these times: smoothed and shortest, in nanoseconds.
    ///
    /// # Errors
    ///
    /// Missing without connections.
    pub fn of(times: &[(u64, u64)]) -> Maybe<Self> {
        let connections = times.len() as u64;
        let none = || Missing::because("no active connection had a measured round-trip time");
        Ok(Self {
            connections,
            mean_ns: times
                .iter()
                .map(|(smoothed, _)| smoothed)
                .sum::<u64>()
                .checked_div(connections)
                .ok_or_else(none)?,
            max_ns: times.iter().map(|(smoothed, _)| *smoothed).max().ok_or_else(none)?,
            min_ns: times.iter().map(|(_, shortest)| *shortest).min().ok_or_else(none)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_those_of_the_connections_that_have_one() {
        assert_eq!(
            Rtt::of(&[(10, 4), (20, 7)]),
            Ok(Rtt { connections: 2, mean_ns: 15, max_ns: 20, min_ns: 4 })
        );
        assert!(Rtt::of(&[]).is_err());
    }

    #[test]
    fn retransmits_of_no_peer_are_what_is_left_of_the_total() {
        let peer = TcpPeer {
            address: IpAddr::from([10, 0, 0, 1]),
            port: 80,
            opened: Opened::ByUs,
            connections: 1,
            ended: 0,
            retransmitted_segments: 5,
            dropped_segments: 0,
            rtt: Rtt::of(&[]),
        };
        let peers = TcpPeers { peers: vec![peer], lost_ends: false };
        assert_eq!(peers.retransmits_without_peer(Ok(7)), Ok(2));
        assert_eq!(peers.retransmits_without_peer(Ok(4)), Ok(0));
        assert!(peers.retransmits_without_peer(Err(Missing::because("not told"))).is_err());
    }
}
