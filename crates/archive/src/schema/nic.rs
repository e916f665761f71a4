//! Traffic of the network interfaces, as stored: `nic.jsonl.zst`, one interval per line, in the format of
//! `bakeoff nic --json`.

use record::nic::{Duplex, InterfaceSample, LinkCounts, NicInterval, TcpCounts, UdpCounts};
use serde::{Deserialize, Serialize};

use super::{Reasons, Wrong, word};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    from_ns: u64,
    until_ns: u64,
    missed_deadline: bool,
    interfaces: Option<Vec<Interface>>,
    tcp: Option<Tcp>,
    udp: Option<Udp>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Interface {
    index: u32,
    name: String,
    kind: Option<String>,
    loopback: bool,
    up: bool,
    speed_bits_per_s: Option<u64>,
    duplex: Option<String>,
    counts: Option<Counts>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

/// Defines a form with the same fields as the counts that it stores.
macro_rules! counts {
    ($form:ident of $counts:ident: $($field:ident),+ $(,)?) => {
        #[derive(Debug, Serialize, Deserialize)]
        struct $form {
            $($field: u64),+
        }

        impl $form {
            fn of(counts: &$counts) -> Self {
                let $counts { $($field),+ } = *counts;
                Self { $($field),+ }
            }

            fn read(self) -> $counts {
                let Self { $($field),+ } = self;
                $counts { $($field),+ }
            }
        }
    };
}

counts!(Counts of LinkCounts:
    rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, tx_errors, rx_dropped, tx_dropped, collisions);
counts!(Tcp of TcpCounts:
    in_segments, out_segments, retransmitted_segments, resets, attempts_failed, passive_opens, active_opens, listen_drops);
counts!(Udp of UdpCounts:
    in_datagrams, out_datagrams, in_errors, receive_buffer_errors, send_buffer_errors, no_ports);

impl Interval {
    pub(crate) fn of(interval: &NicInterval) -> Self {
        let NicInterval { from_ns, until_ns, missed_deadline, interfaces, tcp, udp } = interval;
        let mut missing = Reasons::default();
        Self {
            from_ns: *from_ns,
            until_ns: *until_ns,
            missed_deadline: *missed_deadline,
            interfaces: missing
                .split("interfaces", interfaces, |all| all.iter().map(Interface::of).collect()),
            tcp: missing.split("tcp", tcp, Tcp::of),
            udp: missing.split("udp", udp, Udp::of),
            missing,
        }
    }

    pub(crate) fn read(self) -> Result<NicInterval, Wrong> {
        let m = &self.missing;
        Ok(NicInterval {
            from_ns: self.from_ns,
            until_ns: self.until_ns,
            missed_deadline: self.missed_deadline,
            interfaces: m
                .join("interfaces", self.interfaces, |all| all.into_iter().map(Interface::read).collect())?,
            tcp: m.join("tcp", self.tcp, |tcp| Ok(tcp.read()))?,
            udp: m.join("udp", self.udp, |udp| Ok(udp.read()))?,
        })
    }
}

impl Interface {
    fn of(sample: &InterfaceSample) -> Self {
        let InterfaceSample { index, name, kind, loopback, up, speed_bits_per_s, duplex, counts } = sample;
        let mut missing = Reasons::default();
        Self {
            index: *index,
            name: name.clone(),
            kind: kind.clone(),
            loopback: *loopback,
            up: *up,
            speed_bits_per_s: missing.split("speed_bits_per_s", speed_bits_per_s, |s| *s),
            duplex: missing.split("duplex", duplex, |d| d.word().to_owned()),
            counts: missing.split("counts", counts, Counts::of),
            missing,
        }
    }

    fn read(self) -> Result<InterfaceSample, Wrong> {
        let m = &self.missing;
        Ok(InterfaceSample {
            index: self.index,
            name: self.name,
            kind: self.kind,
            loopback: self.loopback,
            up: self.up,
            speed_bits_per_s: m.join("speed_bits_per_s", self.speed_bits_per_s, Ok)?,
            duplex: m.join("duplex", self.duplex, |d| word("duplex", &d, Duplex::from_word))?,
            counts: m.join("counts", self.counts, |c| Ok(c.read()))?,
        })
    }
}
