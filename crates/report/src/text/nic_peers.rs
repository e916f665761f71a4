//! TCP by peer at a terminal.

use std::io::{self, Write};
use std::net::IpAddr;

use record::missing::Maybe;
use record::nic::TcpCounts;
use record::tcp_peers::{Opened, Rtt, TcpPeer, TcpPeers};

use super::table::{Align, Table};
use super::{Style, paragraph};
use crate::number::latency;

/// Number of peers with a line; JSON has all.
const LINES: usize = 10;

/// Writes retransmits, drops and round trips by peer, the peers with the most trouble first.
///
/// - `tcp`: counters of the namespace, for traffic that has no peer.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn nic_peers(
    out: &mut dyn Write,
    peers: &Maybe<TcpPeers>,
    tcp: &Maybe<TcpCounts>,
    style: Style,
) -> io::Result<()> {
    let peers = match peers {
        Ok(peers) => peers,
        Err(why) => return paragraph(out, &format!("missing: {why}"), 2, style),
    };
    let mut table = Table::default()
        .column("Peer", Align::Left, 0)
        .column("Conn", Align::Right, 2)
        .column("Ended", Align::Right, 3)
        .column("ReTX", Align::Right, 0)
        .column("Drops", Align::Right, 1)
        .column("RTT", Align::Right, 0)
        .column("max", Align::Right, 1)
        .column("least", Align::Right, 1);
    for peer in peers.peers.iter().take(LINES) {
        let rtt =
            |of: fn(&Rtt) -> u64| peer.rtt.as_ref().map_or("-".to_owned(), |rtt| latency(of(rtt) as f64));
        let cells = [
            name(peer),
            peer.connections.to_string(),
            peer.ended.to_string(),
            peer.retransmitted_segments.to_string(),
            peer.dropped_segments.to_string(),
            rtt(|rtt| rtt.mean_ns),
            rtt(|rtt| rtt.max_ns),
            rtt(|rtt| rtt.min_ns),
        ];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    if !peers.peers.is_empty() {
        table.write(out, style)?;
    }
    if let Some(more) = peers.peers.len().checked_sub(LINES).filter(|more| *more > 0) {
        paragraph(out, &format!("{more} more peers"), 2, style)?;
    }
    let total = tcp.as_ref().map(|c| c.retransmitted_segments).map_err(Clone::clone);
    if let Ok(rest @ 1..) = peers.retransmits_without_peer(total) {
        let text =
            format!("{rest} retransmits without a peer: of connections that failed to open or are opening");
        paragraph(out, &text, 2, style)?;
    }
    if peers.lost_ends {
        let text = "lost: the ends of some connections; their traffic since the last report is missing";
        paragraph(out, text, 2, style)?;
    }
    Ok(())
}

/// `10.0.0.7:5432` for a peer that the host connected to, `10.0.0.7 to :5432` for a peer that connected to
/// it.
fn name(peer: &TcpPeer) -> String {
    match (peer.opened, peer.address) {
        (Opened::ByPeer, address) => format!("{address} to :{}", peer.port),
        (Opened::ByUs, IpAddr::V4(address)) => format!("{address}:{}", peer.port),
        (Opened::ByUs, IpAddr::V6(address)) => format!("[{address}]:{}", peer.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::missing::Missing;

    fn peer(address: [u8; 4], opened: Opened, retransmitted_segments: u64, rtt: Maybe<Rtt>) -> TcpPeer {
        TcpPeer {
            address: IpAddr::from(address),
            port: 5432,
            opened,
            connections: 12,
            ended: 3,
            retransmitted_segments,
            dropped_segments: 1,
            rtt,
        }
    }

    fn shown(peers: &Maybe<TcpPeers>) -> String {
        let tcp = Ok(TcpCounts { retransmitted_segments: 42, ..TcpCounts::default() });
        let mut out = Vec::new();
        nic_peers(&mut out, peers, &tcp, Style { color: false, width: 100 }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn peers_have_a_line_each_and_what_is_no_peers_is_told() {
        let rtt = Rtt::of(&[(250_000, 90_000), (12_000_000, 80_000)]);
        let peers = vec![
            peer([10, 0, 0, 7], Opened::ByUs, 40, rtt),
            peer([10, 0, 0, 8], Opened::ByPeer, 0, Rtt::of(&[])),
        ];
        let text = shown(&Ok(TcpPeers { peers, lost_ends: true }));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("10.0.0.7:5432") && lines[1].contains(" 40 "), "{text}");
        assert!(lines[2].starts_with("10.0.0.8 to :5432") && lines[2].trim_end().ends_with('-'), "{text}");
        assert!(text.contains("2 retransmits without a peer") && text.contains("lost:"), "{text}");
    }

    #[test]
    fn of_many_peers_the_rest_is_counted_and_none_says_why() {
        let peers = (0..13).map(|i| peer([10, 0, 0, i], Opened::ByUs, 0, Rtt::of(&[]))).collect();
        let text = shown(&Ok(TcpPeers { peers, lost_ends: false }));
        assert!(text.contains("3 more peers"), "{text}");
        assert!(shown(&Err(Missing::because("refused"))).contains("missing: refused"));
    }
}
