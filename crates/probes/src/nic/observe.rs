//! The interfaces as numbers over time, beside a command.

use std::collections::BTreeMap;

use record::instruments::Instruments;
use record::missing::Maybe;
use record::nic::{LinkCounts, NicInterval};

use super::NicProbe;
use crate::instrument::{Instrument, Kind, Reading};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "nic", open, open_for_server: None };

fn open() -> Box<dyn Instrument> {
    Box::new(Observer { probe: super::open(BTreeMap::new()), seen: Vec::new() })
}

/// A probe and its intervals.
#[derive(Debug)]
struct Observer {
    probe: NicProbe,
    seen: Vec<NicInterval>,
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.probe
            .netlink
            .as_ref()
            .err()
            .map(|why| format!("the network is not observed: {why}"))
            .into_iter()
            .collect()
    }

    fn is_able(&self) -> Maybe<()> {
        self.probe.netlink.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn start(&mut self) {
        self.probe.start();
    }

    fn read(&mut self) -> Vec<Reading> {
        let interval = self.probe.read();
        let seconds = interval.seconds();
        let mut readings = Vec::new();
        for sample in interval.interfaces.iter().flatten().filter(|s| s.up) {
            let labels = format!("interface={}", sample.name);
            let mut add = |name: &str, value: f64| {
                readings.push(Reading { name: name.to_owned(), labels: labels.clone(), value });
            };
            if let Ok(counts) = &sample.counts {
                add("nic_rx_bytes_per_s", counts.rx_bytes as f64 / seconds);
                add("nic_tx_bytes_per_s", counts.tx_bytes as f64 / seconds);
                add("nic_rx_packets_per_s", counts.rx_packets as f64 / seconds);
                add("nic_tx_packets_per_s", counts.tx_packets as f64 / seconds);
                add("nic_saturation_per_s", LinkCounts::saturation(counts) as f64 / seconds);
            }
            if let Ok(ratio) = sample.util_ratio(seconds) {
                add("nic_util_ratio", ratio);
            }
        }
        if let Ok(tcp) = &interval.tcp {
            let resent = tcp.retransmitted_segments as f64 / seconds;
            readings.push(Reading {
                name: "tcp_retransmitted_segments_per_s".into(),
                labels: String::new(),
                value: resent,
            });
        }
        self.seen.push(interval);
        readings
    }

    fn hand_over(&mut self, seen: &mut Instruments) {
        seen.nic.append(&mut self.seen);
    }
}
