//! TCP connections over an interval, by the machine at their other end.

use std::net::IpAddr;

use crate::missing::{Maybe, Missing};

/// Which end of a connection listened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opened {
    /// The peer: we connected to its port.
    ByUs,
    /// We: the peer connected to our port.
    ByPeer,
}

/// The connections with one address and one service's port.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPeer {
    /// The other end's address.
    pub address: IpAddr,
    /// The port of the end that listened.
    pub port: u16,
    /// Which end that was.
    pub opened: Opened,
    /// Connections that there were at some time in the interval.
    pub connections: u64,
    /// ... of these, those that ended.
    pub ended: u64,
    /// Segments that we sent again.
    pub retransmitted_segments: u64,
    /// Segments that came in for these connections and were dropped: no room, outside of the window, damaged.
    pub dropped_segments: u64,
    /// Round trips of the connections that sent or received in the interval; missing where none did.
    pub rtt: Maybe<Rtt>,
}

/// Round-trip times, as the kernel smooths them for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtt {
    /// Connections that have one.
    pub connections: u64,
    /// The mean of their smoothed times.
    pub mean_ns: u64,
    /// The longest of their smoothed times.
    pub max_ns: u64,
    /// The shortest single round trip, of the last five minutes.
    pub min_ns: u64,
}

/// All connections over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPeers {
    /// Those with most retransmits first, then most drops, then most connections.
    pub peers: Vec<TcpPeer>,
    /// Whether the kernel had no room for the news of some connections that ended.
    pub lost_ends: bool,
}

impl TcpPeers {
    /// Retransmits that are no peer's: of the `total` of the namespace, those of connections that never came about, and
    /// those that were lost.
    ///
    /// # Errors
    ///
    /// Missing where the total is.
    pub fn retransmits_without_peer(&self, total: Maybe<u64>) -> Maybe<u64> {
        let of_peers: u64 = self.peers.iter().map(|p| p.retransmitted_segments).sum();
        // The total is read a moment before or after.
        Ok(total?.saturating_sub(of_peers))
    }
}

impl Rtt {
    /// Of connections with these times: smoothed and shortest, in nanoseconds.
    ///
    /// # Errors
    ///
    /// Missing of none.
    pub fn of(times: &[(u64, u64)]) -> Maybe<Self> {
        let connections = times.len() as u64;
        let none = || Missing::because("no connection with a measured round trip sent or received");
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
