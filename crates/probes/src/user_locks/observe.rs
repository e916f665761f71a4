//! Locks of programs beside a command or a load: as numbers over time, those with the longest waits by name.

use record::instruments::Instruments;
use record::locks::UserLockInterval;
use record::missing::{Maybe, Missing};

use super::{Options, UserLockProbe};
use crate::cost::Cost;
use crate::instrument::{Instrument, Kind, Problems, Reading, label};
use crate::locks::Refused;
use crate::locks::observe::{KEPT_MAX, NAMED_MAX};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "ulocks", open, open_for_server: None };

/// Locks of all programs but this one.
fn open() -> Box<dyn Instrument> {
    Box::new(Observer {
        probe: super::open(&Options::of_everyone_else()),
        ended: Problems::default(),
        seen: Vec::new(),
    })
}

#[derive(Debug)]
struct Observer {
    probe: Result<UserLockProbe, Refused>,
    ended: Problems,
    seen: Vec<UserLockInterval>,
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.ended.notes("locks of programs", self.probe.as_ref().err())
    }

    fn is_able(&self) -> Maybe<()> {
        self.probe.as_ref().map(|_| ()).map_err(|why| Missing::because(why.to_string()))
    }

    fn start(&mut self) {
        // Waits before the start count nowhere.
        let _ = self.probe.as_mut().map(UserLockProbe::start);
    }

    fn read(&mut self) -> Vec<Reading> {
        let Ok(probe) = &mut self.probe else { return Vec::new() };
        let Some(interval) = self.ended.take(probe.read(), |i| &i.lost) else { return Vec::new() };
        let interval = interval.by_caller().idleness_last();
        let readings = of_user_locks(&interval);
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
        seen.ulocks.append(&mut self.seen);
        self.ended.tell_missing(KIND.name, self.probe.as_ref().err(), seen);
    }
}

fn of_user_locks(interval: &UserLockInterval) -> Vec<Reading> {
    let (all, spun_ns) = interval.total();
    let per_s = |ns: u64| ns as f64 * 1e-9 / interval.seconds();
    let mut readings = vec![
        Reading::of("ulocks_waits_per_s", String::new(), all.count as f64 / interval.seconds()),
        Reading::of("ulocks_wait_s_per_s", String::new(), per_s(all.ns_total)),
    ];
    if let Ok(spun_ns) = spun_ns {
        readings.push(Reading::of("ulocks_cpu_util_ratio", String::new(), interval.cpu_util_ratio(spun_ns)));
    }
    for lock in interval.locks.iter().take(NAMED_MAX) {
        let call = lock.call.as_deref().unwrap_or("?");
        let caller = lock.caller.as_deref().unwrap_or("?");
        let labels = format!(
            "pid={},comm={},kind={},lock={:#x},call={},caller={}",
            lock.pid,
            label(&lock.comm),
            lock.kind.word(),
            lock.address,
            label(call),
            label(caller)
        );
        readings.push(Reading::of("ulock_wait_s_per_s", labels, per_s(lock.waits.ns_total)));
    }
    readings
}
