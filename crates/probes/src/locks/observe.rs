//! Kernel locks beside a command or a load: as numbers over time, those with the longest waits by name.

use record::instruments::Instruments;
use record::locks::LockInterval;
use record::missing::{Maybe, Missing};

use super::{LockProbe, Options, Refused};
use crate::cost::Cost;
use crate::observe::{Instrument, Kind, Problems, Reading, label};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "locks", open };

/// Maximum number of locks with a name in each interval; the sums include all of them.
pub(crate) const NAMED_MAX: usize = 10;

/// Maximum number of locks that are stored of each interval; one more entry sums the others.
pub(crate) const KEPT_MAX: usize = 30;

fn open() -> Box<dyn Instrument> {
    Box::new(Observer {
        probe: super::open(&Options::of_everyone()),
        ended: Problems::default(),
        seen: Vec::new(),
    })
}

#[derive(Debug)]
struct Observer {
    probe: Result<LockProbe, Refused>,
    ended: Problems,
    seen: Vec<LockInterval>,
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.ended.notes("locks of the kernel", self.probe.as_ref().err())
    }

    fn start(&mut self) {
        // Waits before the start count nowhere.
        let _ = self.probe.as_mut().map(LockProbe::start);
    }

    fn read(&mut self) -> Vec<Reading> {
        let Ok(probe) = &mut self.probe else { return Vec::new() };
        let Some(interval) = self.ended.take(probe.read(), |i| &i.lost) else { return Vec::new() };
        let interval = interval.by_caller();
        let readings = of_locks(&interval);
        self.seen.push(interval.at_most(KEPT_MAX));
        readings
    }

    fn measure_cost(&mut self) {
        if let Ok(probe) = &mut self.probe {
            probe.measure_cost();
        }
    }

    fn cost(&mut self) -> Maybe<Cost> {
        self.probe.as_mut().map_err(|why| Missing::because(why.to_string()))?.cost()
    }

    fn hand_over(&mut self, seen: &mut Instruments) {
        seen.locks.append(&mut self.seen);
        self.ended.tell_missing(KIND.name, self.probe.as_ref().err(), seen);
    }
}

fn of_locks(interval: &LockInterval) -> Vec<Reading> {
    let (all, spun_ns) = interval.total();
    let per_s = |ns: u64| ns as f64 * 1e-9 / interval.seconds();
    let mut readings = vec![
        Reading::of("locks_waits_per_s", String::new(), all.count as f64 / interval.seconds()),
        Reading::of("locks_wait_s_per_s", String::new(), per_s(all.ns_total)),
        Reading::of("locks_cpu_util_ratio", String::new(), interval.cpu_util_ratio(spun_ns)),
    ];
    for lock in interval.locks.iter().take(NAMED_MAX) {
        let name = lock.name.clone().unwrap_or_else(|_| format!("{:#x}", lock.address));
        let caller = lock.caller.as_deref().unwrap_or("?");
        let labels = format!("kind={},lock={},caller={}", lock.kind.word(), label(&name), label(caller));
        readings.push(Reading::of("lock_wait_s_per_s", labels.clone(), per_s(lock.waits.ns_total)));
        if lock.spin_ns_total > 0 {
            let ratio = interval.cpu_util_ratio(lock.spin_ns_total);
            readings.push(Reading::of("lock_cpu_util_ratio", labels, ratio));
        }
    }
    readings
}
