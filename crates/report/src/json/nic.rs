//! `bakeoff.nic/1`: one interval of the network interfaces.

use record::missing::Maybe;
use record::nic::{InterfaceSample, NicInterval, TcpCounts, UdpCounts};
use record::tcp_peers::{Opened, Rtt, TcpPeer, TcpPeers};
use serde_json::{Value, json};

use super::object::Object;

/// The document of one interval. Counts are those of the interval.
///
/// - `peers`: traffic by peer, if requested.
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
pub fn nic(interval: &NicInterval, peers: Option<&Maybe<TcpPeers>>, start_ns: u64) -> Value {
    let seconds = interval.seconds();
    let all = |samples: &Vec<InterfaceSample>| samples.iter().map(|s| sample(s, seconds)).collect::<Vec<_>>();
    let document = Object::default()
        .with("schema", "bakeoff.nic/1")
        .with("t_s", interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9)
        .with("interval_s", seconds)
        .with("missed_deadline", interval.missed_deadline)
        .maybe("interfaces", interval.interfaces.as_ref().map(all).map_err(Clone::clone))
        .maybe("tcp", interval.tcp.as_ref().map(tcp).map_err(Clone::clone))
        .maybe("udp", interval.udp.as_ref().map(udp).map_err(Clone::clone));
    let Some(peers) = peers else { return document.finish() };
    let total = interval.tcp.as_ref().map(|c| c.retransmitted_segments).map_err(Clone::clone);
    let peers = peers.as_ref().map(|p| tcp_peers(p, total)).map_err(Clone::clone);
    document.maybe("tcp_peers", peers).finish()
}

fn tcp_peers(peers: &TcpPeers, total: Maybe<u64>) -> Value {
    Object::default()
        .with("peers", peers.peers.iter().map(tcp_peer).collect::<Vec<_>>())
        .maybe("retransmits_without_peer", peers.retransmits_without_peer(total))
        .with("lost_ends", peers.lost_ends)
        .finish()
}

fn tcp_peer(peer: &TcpPeer) -> Value {
    let ns = |of: fn(&Rtt) -> u64| peer.rtt.as_ref().map(|rtt| of(rtt) as f64 * 1e-9).map_err(Clone::clone);
    Object::default()
        .with("address", peer.address.to_string())
        .with("port", peer.port)
        .with("opened_by", if peer.opened == Opened::ByUs { "us" } else { "peer" })
        .with("connections", peer.connections)
        .with("ended", peer.ended)
        .with("retransmitted_segments", peer.retransmitted_segments)
        .with("dropped_segments", peer.dropped_segments)
        .maybe("rtt_mean_s", ns(|rtt| rtt.mean_ns))
        .maybe("rtt_max_s", ns(|rtt| rtt.max_ns))
        .maybe("rtt_min_s", ns(|rtt| rtt.min_ns))
        .finish()
}

/// The document of the existing interfaces, without counts.
pub fn nic_list(interfaces: &[InterfaceSample]) -> Value {
    let interfaces: Vec<Value> = interfaces.iter().map(|s| named(s).finish()).collect();
    json!({ "schema": "bakeoff.nic-list/1", "interfaces": interfaces })
}

fn named(sample: &InterfaceSample) -> Object {
    Object::default()
        .with("name", sample.name.clone())
        .with("index", sample.index)
        .with("kind", sample.kind.clone())
        .with("loopback", sample.loopback)
        .with("up", sample.up)
        .maybe("speed_bits_per_s", sample.speed_bits_per_s.clone())
        .maybe("duplex", sample.duplex.as_ref().map(|d| d.word()).map_err(Clone::clone))
}

fn sample(sample: &InterfaceSample, seconds: f64) -> Value {
    let counts = &sample.counts;
    let count = |of: fn(&record::nic::LinkCounts) -> u64| counts.as_ref().map(of).map_err(Clone::clone);
    named(sample)
        .maybe("rx_bytes", count(|c| c.rx_bytes))
        .maybe("tx_bytes", count(|c| c.tx_bytes))
        .maybe("rx_packets", count(|c| c.rx_packets))
        .maybe("tx_packets", count(|c| c.tx_packets))
        .maybe("rx_errors", count(|c| c.rx_errors))
        .maybe("tx_errors", count(|c| c.tx_errors))
        .maybe("rx_dropped", count(|c| c.rx_dropped))
        .maybe("tx_dropped", count(|c| c.tx_dropped))
        .maybe("collisions", count(|c| c.collisions))
        .maybe("util_ratio", sample.util_ratio(seconds))
        .maybe("saturation_per_s", count(record::nic::LinkCounts::saturation).map(|n| n as f64 / seconds))
        .finish()
}

fn tcp(c: &TcpCounts) -> Value {
    Object::default()
        .with("in_segments", c.in_segments)
        .with("out_segments", c.out_segments)
        .with("retransmitted_segments", c.retransmitted_segments)
        .maybe("retransmitted_ratio", c.retransmitted_ratio())
        .with("resets", c.resets)
        .with("attempts_failed", c.attempts_failed)
        .with("passive_opens", c.passive_opens)
        .with("active_opens", c.active_opens)
        .with("listen_drops", c.listen_drops)
        .finish()
}

fn udp(c: &UdpCounts) -> Value {
    json!({
        "in_datagrams": c.in_datagrams,
        "out_datagrams": c.out_datagrams,
        "in_errors": c.in_errors,
        "receive_buffer_errors": c.receive_buffer_errors,
        "send_buffer_errors": c.send_buffer_errors,
        "no_ports": c.no_ports,
    })
}
