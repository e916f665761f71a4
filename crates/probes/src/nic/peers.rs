//! TCP's retransmits, round trips and drops by peer.
//!
//! *Traces* nothing: lists the kernel's connections at the edges of each interval (`sock_diag`), and receives
//! its notifications of those that end. *Yields*, by the peer's address and the service's port: connections,
//! retransmitted segments, segments dropped on arrival (counts), and round trips (ns). *Differs from* `ss
//! -i`: counts are those of the interval, including connections that ended in it. *Blind to* drops of a
//! connection between the last edge and its end; retransmits of connections that were never established (they
//! are in the namespace's total); connections of other network namespaces. *Costs* a dump of all connections
//! an interval, some 2 us for each, and 2 us for each that ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;

use record::missing::{Maybe, Missing};
use record::tcp_peers::{Opened, Rtt, TcpPeer, TcpPeers};

use super::diag::{Connection, Diag, Table};

/// Watches the connections of the namespace of the thread that opened it.
#[derive(Debug)]
pub struct PeerProbe {
    diag: Maybe<Diag>,
    books: Books,
    lost_ends: bool,
}

/// State of the connections, and their sums in the interval so far.
#[derive(Debug, Default)]
struct Books {
    /// Whether the last listing succeeded: without one at its start, an interval has no sums.
    has_edge: bool,
    last: HashMap<u64, KnownConnection>,
    listening: BTreeSet<u16>,
    peers: BTreeMap<(IpAddr, u16, Opened), Sums>,
}

/// A connection at its last reading.
#[derive(Debug)]
struct KnownConnection {
    connection: Connection,
    peer: (IpAddr, u16, Opened),
    /// Edges at which it was absent: the notification of its end arrives a moment later.
    absent: u32,
}

#[derive(Debug, Default)]
struct Sums {
    cookies: BTreeSet<u64>,
    ended: u64,
    retransmits: u64,
    drops: u64,
    /// Smoothed and minimum, by connection: the last reading.
    rtt_ns: BTreeMap<u64, (u64, u64)>,
}

/// Opens the probe. Never fails: if connections cannot be listed, readings are missing with the reason.
pub fn open() -> PeerProbe {
    let diag = Diag::open().map_err(|e| refused(&e));
    PeerProbe { diag, books: Books::default(), lost_ends: false }
}

fn refused(e: &io::Error) -> Missing {
    Missing::because(format!("TCP's connections cannot be listed: {e}"))
}

impl PeerProbe {
    /// Starts the first interval.
    pub fn start(&mut self) {
        // A failure now makes the first interval missing.
        let _ = self.read();
    }

    /// Receives notifications of ended connections, before the kernel runs out of room for them: call it
    /// often.
    pub fn listen(&mut self) {
        let Ok(diag) = &mut self.diag else { return };
        match diag.ended() {
            Ok((ended, lost)) => {
                self.lost_ends |= lost;
                for connection in ended {
                    self.books.ended(connection);
                }
            }
            Err(e) => self.diag = Err(refused(&e)),
        }
    }

    /// Sums of the connections since the last reading, or since the start.
    ///
    /// # Errors
    ///
    /// Missing if they cannot be listed now, or could not at the last reading.
    pub fn read(&mut self) -> Maybe<TcpPeers> {
        let diag = self.diag.as_mut().map_err(|why| why.clone())?;
        let edge = self.books.edge(diag.table().map_err(|e| refused(&e)));
        self.listen();
        let (peers, lost_ends) = (self.books.close(), std::mem::take(&mut self.lost_ends));
        edge.map(|()| TcpPeers { peers, lost_ends })
    }
}

impl Books {
    /// Ends the interval.
    ///
    /// # Errors
    ///
    /// Missing if this edge or the one before has no listing: the counters of a connection that is listed for
    /// the first time cover its life, not the interval.
    fn edge(&mut self, table: Maybe<Table>) -> Maybe<()> {
        let had_edge = std::mem::replace(&mut self.has_edge, table.is_ok());
        let table = table?;
        self.listening = table.listening.into_iter().collect();
        for seen in self.last.values_mut() {
            seen.absent += 1;
        }
        for connection in table.connections {
            self.see(connection);
        }
        // A notification of its end that has not arrived by now was lost.
        self.last.retain(|_, seen| seen.absent < 2);
        let why = "TCP's connections could not be listed at the start of the interval";
        if had_edge { Ok(()) } else { Err(Missing::because(why)) }
    }

    /// Adds the difference to the connection's last reading.
    fn see(&mut self, connection: Connection) -> (IpAddr, u16, Opened) {
        let known = self.last.remove(&connection.cookie);
        // The listening port may be closed by now.
        let peer = known.as_ref().map_or_else(|| self.peer_of(&connection), |known| known.peer);
        let before = known.map(|known| known.connection);
        let since =
            |of: fn(&Connection) -> u64| of(&connection).saturating_sub(before.as_ref().map_or(0, of));
        let sums = self.peers.entry(peer).or_default();
        sums.cookies.insert(connection.cookie);
        sums.retransmits += since(|c| c.retransmits);
        sums.drops += connection.drops.map_or(0, |_| since(|c| c.drops.unwrap_or(0)));
        if since(|c| c.segments) > 0 && connection.rtt_us > 0 {
            // Until it is measured, the minimum is all ones.
            let shortest = connection.rtt_min_us.min(connection.rtt_us);
            sums.rtt_ns.insert(connection.cookie, (connection.rtt_us * 1_000, shortest * 1_000));
        }
        self.last.insert(connection.cookie, KnownConnection { connection, peer, absent: 0 });
        peer
    }

    fn ended(&mut self, connection: Connection) {
        let cookie = connection.cookie;
        let peer = self.see(connection);
        self.last.remove(&cookie);
        self.peers.entry(peer).or_default().ended += 1;
    }

    fn peer_of(&self, connection: &Connection) -> (IpAddr, u16, Opened) {
        if self.listening.contains(&connection.local_port) {
            (connection.peer, connection.local_port, Opened::ByPeer)
        } else {
            (connection.peer, connection.peer_port, Opened::ByUs)
        }
    }

    /// Returns the interval's sums, those with most trouble first.
    fn close(&mut self) -> Vec<TcpPeer> {
        let peer = |((address, port, opened), sums): ((IpAddr, u16, Opened), Sums)| TcpPeer {
            address,
            port,
            opened,
            connections: sums.cookies.len() as u64,
            ended: sums.ended,
            retransmitted_segments: sums.retransmits,
            dropped_segments: sums.drops,
            rtt: Rtt::of(&sums.rtt_ns.into_values().collect::<Vec<_>>()),
        };
        let mut peers: Vec<TcpPeer> = std::mem::take(&mut self.peers).into_iter().map(peer).collect();
        peers.sort_by_key(|p| {
            std::cmp::Reverse((p.retransmitted_segments, p.dropped_segments, p.connections))
        });
        peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(cookie: u64, retransmits: u64, segments: u64, drops: Option<u64>) -> Connection {
        Connection {
            cookie,
            local_port: 40_000,
            peer: IpAddr::from([10, 0, 0, 7]),
            peer_port: 80,
            retransmits,
            segments,
            drops,
            rtt_us: 250,
            rtt_min_us: 90,
        }
    }

    fn table(connections: Vec<Connection>) -> Table {
        Table { listening: vec![8080], connections }
    }

    /// Books after a first listing.
    fn books(connections: Vec<Connection>) -> Books {
        let mut books = Books::default();
        assert!(books.edge(Ok(table(connections))).is_err(), "there is no interval yet");
        books.close();
        books
    }

    #[test]
    fn counts_are_those_of_the_interval_and_of_connections_that_ended_in_it() {
        let mut books = books(vec![connection(1, 5, 100, Some(2)), connection(2, 0, 10, Some(0))]);
        // One continues, one ends, and one began and ended between two edges.
        books.ended(connection(2, 4, 20, None));
        books.ended(connection(3, 1, 7, None));
        books.edge(Ok(table(vec![connection(1, 8, 150, Some(3))]))).unwrap();
        let peers = books.close();
        assert_eq!(peers.len(), 1);
        let peer = &peers[0];
        assert_eq!((peer.port, peer.opened, peer.connections, peer.ended), (80, Opened::ByUs, 3, 2));
        assert_eq!((peer.retransmitted_segments, peer.dropped_segments), (3 + 4 + 1, 1));
        assert_eq!(peer.rtt, Ok(Rtt { connections: 3, mean_ns: 250_000, max_ns: 250_000, min_ns: 90_000 }));
    }

    #[test]
    fn an_end_that_is_told_after_the_edge_counts_once() {
        let mut books = books(vec![connection(1, 5, 100, Some(0))]);
        // It has ended, but the notification is on its way.
        books.edge(Ok(table(Vec::new()))).unwrap();
        assert!(books.close().is_empty());
        books.ended(connection(1, 6, 101, None));
        let peers = books.close();
        assert_eq!((peers[0].ended, peers[0].retransmitted_segments), (1, 1));
        assert!(books.last.is_empty());
    }

    #[test]
    fn an_end_whose_news_was_lost_is_forgotten() {
        let mut books = books(vec![connection(1, 5, 100, Some(0))]);
        books.edge(Ok(table(Vec::new()))).unwrap();
        books.edge(Ok(table(Vec::new()))).unwrap();
        assert!(books.last.is_empty());
    }

    #[test]
    fn a_connection_that_came_to_us_goes_by_our_port_even_when_that_is_closed() {
        let mut books = Books::default();
        let came = |segments| Connection {
            local_port: 8080,
            peer_port: 51_234,
            ..connection(1, 0, segments, Some(0))
        };
        assert!(books.edge(Ok(table(vec![came(1)]))).is_err());
        assert_eq!((books.close()[0].port, books.listening.len()), (8080, 1));
        books.edge(Ok(Table { listening: Vec::new(), connections: vec![came(1)] })).unwrap();
        let peers = books.close();
        assert_eq!((peers[0].port, peers[0].opened), (8080, Opened::ByPeer));
        // It neither sent nor received.
        assert!(peers[0].rtt.is_err());
    }

    #[test]
    fn without_a_listing_at_its_start_an_interval_is_missing_and_is_no_sum_of_lives() {
        let mut books = Books::default();
        let failed = || Err(Missing::because("no buffer space"));
        assert!(books.edge(failed()).is_err());
        books.close();
        for lived in [5, 9] {
            // Lifetime totals: not those of an interval.
            let edge = books.edge(Ok(table(vec![connection(1, lived, 100, Some(2))])));
            assert!(edge.is_err_and(|why| why.reason.contains("at the start")));
            books.close();
            // The next interval has an edge at each end.
            books.edge(Ok(table(vec![connection(1, lived + 2, 150, Some(2))]))).unwrap();
            assert_eq!(books.close()[0].retransmitted_segments, 2);
            // A failure between two listings: what follows would be the sum of two intervals.
            assert!(books.edge(failed()).is_err());
            books.close();
        }
    }
}
