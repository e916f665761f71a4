//! Traffic of the network interfaces over an interval, in exact counts.

use crate::missing::{Maybe, Missing};
use crate::run::words;

/// Duplex mode of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplex {
    /// One direction at a time: both share the speed.
    Half,
    /// Both directions at once, each with the full speed.
    Full,
}

words!(Duplex { Half = "half", Full = "full" });

/// Counters of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that arrived damaged.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets that arrived and were dropped by the system or missed by the device.
    pub rx_dropped: u64,
    /// Packets to send that were dropped.
    pub tx_dropped: u64,
    /// Collisions on the wire.
    pub collisions: u64,
}

impl LinkCounts {
    /// Sum of the events that indicate a saturated link or queue: errors, drops and collisions.
    pub fn saturation(&self) -> u64 {
        self.rx_errors + self.tx_errors + self.rx_dropped + self.tx_dropped + self.collisions
    }

    /// Whether no packet was received, sent, lost or dropped: an interface that only drops is not idle.
    pub fn is_idle(&self) -> bool {
        self.rx_packets == 0 && self.tx_packets == 0 && self.saturation() == 0
    }
}

/// One interface over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct InterfaceSample {
    /// Kernel's interface index; a later interface of the same name has another one.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Kind of a virtual interface, `veth` or `bridge`; `None` for hardware.
    pub kind: Option<String>,
    /// Whether it is a loopback interface.
    pub loopback: bool,
    /// Whether it is up.
    pub up: bool,
    /// Speed of each direction; missing if neither the driver nor the user gives it.
    pub speed_bits_per_s: Maybe<u64>,
    /// Duplex mode.
    pub duplex: Maybe<Duplex>,
    /// Counts of the interval; missing if the interface appeared or disappeared in it.
    pub counts: Maybe<LinkCounts>,
}

impl InterfaceSample {
    /// Utilization of the link: of both directions together on a half-duplex link, else of the busier one.
    /// May exceed 1 on a virtual link, because its driver reports a speed that nothing enforces.
    ///
    /// # Errors
    ///
    /// The reason that counts or speed are missing.
    pub fn util_ratio(&self, seconds: f64) -> Maybe<f64> {
        let counts = self.counts.as_ref().map_err(Clone::clone)?;
        let speed = self.speed_bits_per_s.clone()?;
        let bytes = match self.duplex {
            Ok(Duplex::Half) => counts.rx_bytes + counts.tx_bytes,
            _ => counts.rx_bytes.max(counts.tx_bytes),
        };
        Ok(used(bytes, speed, seconds))
    }

    /// Utilization of the link by direction: in, out.
    ///
    /// # Errors
    ///
    /// The same as [`Self::util_ratio`].
    pub fn util_ratios(&self, seconds: f64) -> Maybe<(f64, f64)> {
        let counts = self.counts.as_ref().map_err(Clone::clone)?;
        let speed = self.speed_bits_per_s.clone()?;
        Ok((used(counts.rx_bytes, speed, seconds), used(counts.tx_bytes, speed, seconds)))
    }
}

fn used(bytes: u64, bits_per_s: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / (bits_per_s as f64 * seconds)
}

/// Counters of TCP, over all interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments received.
    pub in_segments: u64,
    /// Segments sent, without retransmissions.
    pub out_segments: u64,
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
    /// Connections that were reset by either side.
    pub resets: u64,
    /// Connection attempts that failed.
    pub attempts_failed: u64,
    /// Connections that peers opened to this machine.
    pub passive_opens: u64,
    /// Connections that this machine opened.
    pub active_opens: u64,
    /// Connections that a listener dropped, for a full queue or another reason.
    pub listen_drops: u64,
}

impl TcpCounts {
    /// Share of the segments sent that were retransmissions.
    ///
    /// # Errors
    ///
    /// Missing if no segment was sent.
    pub fn retransmitted_ratio(&self) -> Maybe<f64> {
        let sent = self.out_segments + self.retransmitted_segments;
        if sent == 0 {
            return Err(Missing::because("no segment was sent"));
        }
        Ok(self.retransmitted_segments as f64 / sent as f64)
    }
}

/// Counters of UDP, over all interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams delivered.
    pub in_datagrams: u64,
    /// Datagrams sent.
    pub out_datagrams: u64,
    /// Datagrams that could not be delivered: damaged, or the receiver's buffer was full.
    pub in_errors: u64,
    /// Part of `in_errors` with a full receive buffer.
    pub receive_buffer_errors: u64,
    /// Datagrams that could not be sent because the buffer was full.
    pub send_buffer_errors: u64,
    /// Datagrams to a port without a listener.
    pub no_ports: u64,
}

/// All interfaces over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct NicInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`; the interval's length is measured, never assumed.
    pub until_ns: u64,
    /// Whether the reader was so late that it missed a deadline.
    pub missed_deadline: bool,
    /// Interfaces, in the kernel's order.
    pub interfaces: Maybe<Vec<InterfaceSample>>,
    /// Counters of TCP.
    pub tcp: Maybe<TcpCounts>,
    /// Counters of UDP.
    pub udp: Maybe<UdpCounts>,
}

impl NicInterval {
    /// Length of the interval in seconds.
    pub fn seconds(&self) -> f64 {
        (self.until_ns - self.from_ns) as f64 * 1e-9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown<T>() -> Maybe<T> {
        Err(Missing::because("not told"))
    }

    fn sample(speed: Maybe<u64>, duplex: Maybe<Duplex>) -> InterfaceSample {
        InterfaceSample {
            index: 2,
            name: "eth0".into(),
            kind: None,
            loopback: false,
            up: true,
            speed_bits_per_s: speed,
            duplex,
            counts: Ok(LinkCounts { rx_bytes: 250_000_000, tx_bytes: 125_000_000, ..LinkCounts::default() }),
        }
    }

    #[test]
    fn the_busier_direction_counts_on_full_duplex_and_both_on_half() {
        let speed = Ok(10_000_000_000);
        assert_eq!(sample(speed.clone(), Ok(Duplex::Full)).util_ratio(1.0), Ok(0.2));
        assert_eq!(sample(speed.clone(), Ok(Duplex::Half)).util_ratio(1.0), Ok(0.3));
        assert_eq!(sample(speed.clone(), unknown()).util_ratio(2.0), Ok(0.1));
        assert_eq!(sample(speed, Ok(Duplex::Full)).util_ratios(1.0), Ok((0.2, 0.1)));
        assert_eq!(sample(unknown(), Ok(Duplex::Full)).util_ratio(1.0), unknown());
    }

    #[test]
    fn beyond_65_gbit_nothing_overflows() {
        let mut fast = sample(Ok(800_000_000_000), Ok(Duplex::Full));
        fast.counts = Ok(LinkCounts { rx_bytes: 100_000_000_000, ..LinkCounts::default() });
        assert_eq!(fast.util_ratio(1.0), Ok(1.0));
    }

    #[test]
    fn an_interface_that_drops_everything_is_not_idle() {
        assert!(LinkCounts::default().is_idle());
        assert!(!LinkCounts { tx_dropped: 1, ..LinkCounts::default() }.is_idle());
        assert!(!LinkCounts { rx_errors: 1, ..LinkCounts::default() }.is_idle());
        assert!(!LinkCounts { tx_packets: 1, ..LinkCounts::default() }.is_idle());
    }

    #[test]
    fn nothing_sent_is_no_share_of_anything() {
        assert!(TcpCounts::default().retransmitted_ratio().is_err());
        let counts = TcpCounts { out_segments: 99, retransmitted_segments: 1, ..TcpCounts::default() };
        assert_eq!(counts.retransmitted_ratio(), Ok(0.01));
    }
}
