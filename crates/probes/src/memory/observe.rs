//! The machine's memory as numbers over time, beside a command.

use record::missing::Maybe;

use super::MemoryProbe;
use crate::instrument::{Instrument, Kind, Reading};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "memory", open, open_for_server: None };

fn open() -> Box<dyn Instrument> {
    // For processes, the command's rusage is more precise.
    Box::new(Observer { probe: super::of_the_machine(), missing: None })
}

#[derive(Debug)]
struct Observer {
    probe: MemoryProbe,
    missing: Option<String>,
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.missing.iter().map(|why| format!("memory is not observed: {why}")).collect()
    }

    fn start(&mut self) {
        self.probe.start();
    }

    fn read(&mut self) -> Vec<Reading> {
        let interval = self.probe.read();
        let seconds = interval.seconds();
        let m = match interval.machine {
            Ok(machine) => machine,
            Err(why) => {
                self.missing = Some(why.reason);
                return Vec::new();
            }
        };
        let ratio = |value: Maybe<f64>| value.ok().map(|ratio| ("memory_pressure_some_ratio", ratio));
        let values = [
            ("memory_available_bytes", m.available_bytes as f64),
            ("memory_swap_used_bytes", m.swap_used_bytes as f64),
            ("memory_minor_faults_per_s", m.minor_faults as f64 / seconds),
            ("memory_major_faults_per_s", m.major_faults as f64 / seconds),
            ("memory_reclaimed_bytes_per_s", m.reclaimed_bytes as f64 / seconds),
            ("memory_swapped_bytes_per_s", (m.swapped_in_bytes + m.swapped_out_bytes) as f64 / seconds),
            ("memory_stalls_per_s", m.stalls as f64 / seconds),
        ];
        let all = values.into_iter().chain(ratio(m.pressure_some_ratio));
        all.map(|(name, value)| Reading::of(name, String::new(), value)).collect()
    }
}
