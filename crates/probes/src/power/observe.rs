//! The machine's power as numbers over time, and its energy, beside a command or a load.

use std::path::Path;

use record::clock::{Clock as _, Monotonic};
use record::instruments::Instruments;
use record::missing::{Maybe, Missing};
use record::resources::{Resource, Used, UsedBy};

use super::PowerProbe;
use crate::instrument::{Instrument, Kind, Reading};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "power", open, open_for_server: None };

fn open() -> Box<dyn Instrument> {
    Box::new(Observer { probe: super::open(Path::new("/")), from_ns: 0, until_ns: 0, energy_j: Ok(0.0) })
}

#[derive(Debug)]
struct Observer {
    probe: Maybe<PowerProbe>,
    from_ns: u64,
    until_ns: u64,
    /// Energy of all zones since the start.
    energy_j: Maybe<f64>,
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.probe.as_ref().err().map(|why| format!("energy is not observed: {why}")).into_iter().collect()
    }

    fn is_able(&self) -> Maybe<()> {
        self.probe.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn start(&mut self) {
        if let Ok(probe) = &mut self.probe {
            probe.start();
        }
        self.from_ns = Monotonic.now_ns();
        self.until_ns = self.from_ns;
        self.energy_j = Ok(0.0);
    }

    fn read(&mut self) -> Vec<Reading> {
        let Ok(probe) = &mut self.probe else { return Vec::new() };
        let samples = probe.read();
        self.until_ns = Monotonic.now_ns();
        let mut readings = Vec::new();
        for sample in samples {
            self.energy_j = self.energy_j.clone().and_then(|sum| Ok(sum + sample.energy_j.clone()?));
            let labels = format!("zone={}", sample.zone);
            if let Ok(watts) = sample.power_w() {
                readings.push(Reading::of("power_w", labels, watts));
            }
        }
        readings
    }

    fn used(&mut self) -> Vec<(Resource, Maybe<Used>)> {
        let able = self.is_able().and_then(|()| {
            if self.until_ns > self.from_ns {
                self.energy_j.clone()
            } else {
                Err(Missing::because("no interval was read"))
            }
        });
        let (from_ns, until_ns) = (self.from_ns, self.until_ns);
        let used = able.map(|amount| Used { amount, by: UsedBy::Machine, from_ns, until_ns });
        vec![(Resource::Energy, used)]
    }

    fn hand_over(&mut self, seen: &mut Instruments) {
        if let Err(why) = &self.probe {
            seen.missing.insert(KIND.name.to_owned(), why.clone());
        }
    }
}
