//! What the network interfaces carried over an interval, in exact counts.

use crate::missing::{Maybe, Missing};
use crate::run::words;

/// Whether a link carries both directions at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplex {
    /// One direction at a time: both share the speed.
    Half,
    /// Each direction has the speed for itself.
    Full,
}

words!(Duplex { Half = "half", Full = "full" });

/// What an interface counted.
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
    /// Packets that came in damaged.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets that came in and found no room: dropped by the system or missed by the device.
    pub rx_dropped: u64,
    /// Packets that were to be sent and found no room.
    pub tx_dropped: u64,
    /// Collisions on the wire.
    pub collisions: u64,
}

impl LinkCounts {
    /// The events that say that the link or its queues were full: errors, drops and collisions.
    pub fn saturation(&self) -> u64 {
        self.rx_errors + self.tx_errors + self.rx_dropped + self.tx_dropped + self.collisions
    }

    /// Whether nothing went in or out, nor was to: what only drops is at work.
    pub fn is_idle(&self) -> bool {
        self.rx_packets == 0 && self.tx_packets == 0 && self.saturation() == 0
    }
}

/// One interface over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct InterfaceSample {
    /// The kernel's number of it, which a later interface of the same name does not get.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What makes it, where it is not hardware: `veth`, `bridge`.
    pub kind: Option<String>,
    /// Whether it only leads back to this machine.
    pub loopback: bool,
    /// Whether it is up.
    pub up: bool,
    /// Its speed, each direction; missing where neither the driver nor the user says.
    pub speed_bits_per_s: Maybe<u64>,
    /// Whether both directions have that speed at once.
    pub duplex: Maybe<Duplex>,
    /// What it counted in the interval; missing where it came or went meanwhile.
    pub counts: Maybe<LinkCounts>,
}

impl InterfaceSample {
    /// Share of the link's speed that was used: by the busier direction where the link is full duplex, else by both
    /// together. May exceed 1 on a virtual link, whose driver names a speed that nothing enforces.
    ///
    /// # Errors
    ///
    /// Why the counts or the speed are missing.
    pub fn util_ratio(&self, seconds: f64) -> Maybe<f64> {
        let counts = self.counts.as_ref().map_err(Clone::clone)?;
        let speed = self.speed_bits_per_s.clone()?;
        if self.duplex == Ok(Duplex::Full) {
            return Ok(used(counts.rx_bytes.max(counts.tx_bytes), speed, seconds));
        }
        Ok(used(counts.rx_bytes + counts.tx_bytes, speed, seconds))
    }

    /// Share of the link's speed that each direction used: in, out.
    ///
    /// # Errors
    ///
    /// As [`Self::util_ratio`].
    pub fn util_ratios(&self, seconds: f64) -> Maybe<(f64, f64)> {
        let counts = self.counts.as_ref().map_err(Clone::clone)?;
        let speed = self.speed_bits_per_s.clone()?;
        Ok((used(counts.rx_bytes, speed, seconds), used(counts.tx_bytes, speed, seconds)))
    }
}

fn used(bytes: u64, bits_per_s: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / (bits_per_s as f64 * seconds)
}

/// What TCP counted, over all interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments received.
    pub in_segments: u64,
    /// Segments sent, without those sent again.
    pub out_segments: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Connections that were reset by either side.
    pub resets: u64,
    /// Connections that failed to come about.
    pub attempts_failed: u64,
    /// Connections that others made to us.
    pub passive_opens: u64,
    /// Connections that we made.
    pub active_opens: u64,
    /// Connections that a full listen queue, or anything else at the listener, dropped.
    pub listen_drops: u64,
}

impl TcpCounts {
    /// Share of the segments sent that had been sent before.
    ///
    /// # Errors
    ///
    /// Missing where none was sent.
    pub fn retransmitted_ratio(&self) -> Maybe<f64> {
        let sent = self.out_segments + self.retransmitted_segments;
        if sent == 0 {
            return Err(Missing::because("no segment was sent"));
        }
        Ok(self.retransmitted_segments as f64 / sent as f64)
    }
}

/// What UDP counted, over all interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams delivered.
    pub in_datagrams: u64,
    /// Datagrams sent.
    pub out_datagrams: u64,
    /// Datagrams that could not be delivered: damaged, or the receiver's buffer was full.
    pub in_errors: u64,
    /// ... of these, because the buffer was full.
    pub receive_buffer_errors: u64,
    /// Datagrams that could not be sent for want of buffer.
    pub send_buffer_errors: u64,
    /// Datagrams to a port at which nobody listened.
    pub no_ports: u64,
}

/// All interfaces over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct NicInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`; the interval's length is measured, never assumed.
    pub until_ns: u64,
    /// Whether the reader came so late that a deadline passed unseen.
    pub missed_deadline: bool,
    /// The interfaces, in the kernel's order.
    pub interfaces: Maybe<Vec<InterfaceSample>>,
    /// What TCP counted.
    pub tcp: Maybe<TcpCounts>,
    /// What UDP counted.
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
        assert_eq!(sample(speed.clone(), unknown()).util_ratio(2.0), Ok(0.15));
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
