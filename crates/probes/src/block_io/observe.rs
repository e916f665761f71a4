//! The block devices as numbers over time, beside a command.

use std::collections::BTreeMap;

use record::block_io::{IoBy, IoInterval};
use record::instruments::Instruments;
use record::missing::{Maybe, Missing};

use super::{IoProbe, Options};
use crate::cost::Cost;
use crate::instrument::{Instrument, Kind, Reading};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "io", open, open_for_server: None };

fn open() -> Box<dyn Instrument> {
    let by = IoBy { device: true, op: true, ..IoBy::default() };
    Box::new(Observer {
        probe: super::open(&Options::everything(by)),
        lost: BTreeMap::new(),
        news: Vec::new(),
        seen: Vec::new(),
    })
}

/// A probe, or the reason why it is missing; and its losses so far.
#[derive(Debug)]
struct Observer {
    probe: Maybe<IoProbe>,
    lost: BTreeMap<String, u64>,
    news: Vec<String>,
    seen: Vec<IoInterval>,
}

impl Observer {
    fn or_gone<T>(&mut self, result: Maybe<T>) -> Option<T> {
        result.map_err(|why: Missing| self.probe = Err(why)).ok()
    }
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        let mut notes = match &self.probe {
            Ok(probe) => probe.note().map(str::to_owned).into_iter().collect(),
            Err(why) => vec![format!("block I/O is not observed: {why}")],
        };
        notes.extend(self.news.iter().map(|news| format!("block I/O: {news}")));
        notes.extend(
            self.lost
                .iter()
                .map(|(why, n)| format!("block I/O: {n} requests are missing from the sums ({why})")),
        );
        notes
    }

    fn is_able(&self) -> Maybe<()> {
        self.probe.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn start(&mut self) {
        if let Ok(probe) = &mut self.probe {
            let started = probe.start();
            self.news.extend(probe.take_news());
            self.or_gone(started);
        }
    }

    fn read(&mut self) -> Vec<Reading> {
        let Ok(probe) = &mut self.probe else { return Vec::new() };
        let read = probe.read();
        self.news.extend(probe.take_news());
        let Some(interval) = self.or_gone(read) else { return Vec::new() };
        for (why, n) in &interval.lost {
            *self.lost.entry(why.clone()).or_default() += n;
        }
        let seconds = interval.seconds();
        let mut readings = Vec::new();
        for group in &interval.groups {
            let device = group.device.as_deref().unwrap_or_default();
            let labels = format!("device={device},op={}", group.op.map_or("", record::block_io::IoOp::word));
            let mut add = |name: &str, value: f64| {
                readings.push(Reading { name: name.to_owned(), labels: labels.clone(), value });
            };
            add("io_requests_per_s", group.count as f64 / seconds);
            add("io_bytes_per_s", group.bytes as f64 / seconds);
            for (name, q) in [("io_latency_p50_ns", 0.5), ("io_latency_p99_ns", 0.99)] {
                if let Some(ns) = group.from_start.quantile_ns(q) {
                    add(name, ns);
                }
            }
        }
        self.seen.push(interval);
        readings
    }

    fn measure_cost(&mut self) {
        if let Ok(probe) = &mut self.probe {
            probe.measure_cost();
        }
    }

    fn cost(&mut self) -> Maybe<Cost> {
        self.probe.as_mut().map_err(|why| why.clone())?.cost()
    }

    fn hand_over(&mut self, seen: &mut Instruments) {
        seen.io.append(&mut self.seen);
        if let Err(why) = &self.probe {
            seen.missing.insert(KIND.name.to_owned(), why.clone());
        }
    }
}
