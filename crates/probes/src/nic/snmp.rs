//! Counters of TCP and UDP, found by name: their number and order differ from kernel to kernel.

use record::missing::{Maybe, Missing};
use record::nic::{TcpCounts, UdpCounts};

/// Reads `/proc/net/snmp` and `/proc/net/netstat`.
pub(super) fn tcp(snmp: &str, netstat: &str) -> Maybe<TcpCounts> {
    let of = |name: &str| field(snmp, "Tcp:", name);
    Ok(TcpCounts {
        in_segments: of("InSegs")?,
        out_segments: of("OutSegs")?,
        retransmitted_segments: of("RetransSegs")?,
        resets: of("EstabResets")? + of("OutRsts")?,
        attempts_failed: of("AttemptFails")?,
        passive_opens: of("PassiveOpens")?,
        active_opens: of("ActiveOpens")?,
        // These include overflows of the listen queue.
        listen_drops: field(netstat, "TcpExt:", "ListenDrops")?,
    })
}

/// Reads `/proc/net/snmp`.
pub(super) fn udp(snmp: &str) -> Maybe<UdpCounts> {
    let of = |name: &str| field(snmp, "Udp:", name);
    Ok(UdpCounts {
        in_datagrams: of("InDatagrams")?,
        out_datagrams: of("OutDatagrams")?,
        in_errors: of("InErrors")?,
        receive_buffer_errors: of("RcvbufErrors")?,
        send_buffer_errors: of("SndbufErrors")?,
        no_ports: of("NoPorts")?,
    })
}

/// Counts between two readings.
pub(super) fn tcp_since(before: &TcpCounts, after: &TcpCounts) -> Maybe<TcpCounts> {
    let less = |of: fn(&TcpCounts) -> u64| since(of(before), of(after));
    Ok(TcpCounts {
        in_segments: less(|c| c.in_segments)?,
        out_segments: less(|c| c.out_segments)?,
        retransmitted_segments: less(|c| c.retransmitted_segments)?,
        resets: less(|c| c.resets)?,
        attempts_failed: less(|c| c.attempts_failed)?,
        passive_opens: less(|c| c.passive_opens)?,
        active_opens: less(|c| c.active_opens)?,
        listen_drops: less(|c| c.listen_drops)?,
    })
}

/// Counts between two readings.
pub(super) fn udp_since(before: &UdpCounts, after: &UdpCounts) -> Maybe<UdpCounts> {
    let less = |of: fn(&UdpCounts) -> u64| since(of(before), of(after));
    Ok(UdpCounts {
        in_datagrams: less(|c| c.in_datagrams)?,
        out_datagrams: less(|c| c.out_datagrams)?,
        in_errors: less(|c| c.in_errors)?,
        receive_buffer_errors: less(|c| c.receive_buffer_errors)?,
        send_buffer_errors: less(|c| c.send_buffer_errors)?,
        no_ports: less(|c| c.no_ports)?,
    })
}

fn since(before: u64, after: u64) -> Maybe<u64> {
    after.checked_sub(before).ok_or_else(|| Missing::because("the counters went back"))
}

/// Value of a name: each group is two lines, names and values, both starting with the group's name.
fn field(text: &str, group: &str, name: &str) -> Maybe<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let at = lines.next().and_then(|names| names.split_ascii_whitespace().position(|n| n == name));
    let value = at.and_then(|at| lines.next()?.split_ascii_whitespace().nth(at)?.parse().ok());
    value.ok_or_else(|| Missing::because(format!("the kernel does not report {group}{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 1653 1195 301 635 0 965941 959210 53 0 890 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 1452 7 5 1454 4 3 1 0 0
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 0 0 0 0 0 0 0 0 0
";
    const NETSTAT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops
TcpExt: 0 4 6
IpExt: InNoRoutes InTruncatedPkts
IpExt: 0 0
";

    #[test]
    fn counters_are_found_by_name() {
        let expected = TcpCounts {
            in_segments: 965_941,
            out_segments: 959_210,
            retransmitted_segments: 53,
            resets: 635 + 890,
            attempts_failed: 301,
            passive_opens: 1195,
            active_opens: 1653,
            listen_drops: 6,
        };
        assert_eq!(tcp(SNMP, NETSTAT), Ok(expected));
        let expected = UdpCounts {
            in_datagrams: 1452,
            out_datagrams: 1454,
            in_errors: 5,
            receive_buffer_errors: 4,
            send_buffer_errors: 3,
            no_ports: 7,
        };
        assert_eq!(udp(SNMP), Ok(expected));
    }

    #[test]
    fn a_counter_that_is_not_there_is_missing_by_name() {
        let why = tcp(SNMP, "TcpExt: SyncookiesSent\nTcpExt: 0\n").unwrap_err();
        assert!(why.reason.contains("ListenDrops"), "{why}");
        assert!(udp("Udp: InDatagrams\nUdp:\n").is_err());
    }

    #[test]
    fn deltas_are_exact_and_never_negative() {
        let before = udp(SNMP).unwrap();
        let after = UdpCounts { in_datagrams: 2000, ..before };
        assert_eq!(udp_since(&before, &after), Ok(UdpCounts { in_datagrams: 548, ..UdpCounts::default() }));
        assert!(udp_since(&after, &before).is_err());
    }
}
