//! Locks beside something else: as numbers over time, the most waited for by name.

use std::collections::BTreeMap;

use record::instruments::Instruments;
use record::locks::{LockInterval, UserLockInterval};
use record::missing::{Maybe, Missing};

use super::{LockProbe, Options, Refused};
use crate::observe::{Instrument, Kind, Reading};
use crate::user_locks::{self, UserLockProbe};

/// What joins the others.
pub(crate) const KERNEL_KIND: Kind = Kind { name: KERNEL, open: of_kernel };
/// What joins the others.
pub(crate) const PROGRAMS_KIND: Kind = Kind { name: PROGRAMS, open: of_programs };

const KERNEL: &str = "locks";
const PROGRAMS: &str = "ulocks";

/// Locks that are told by name in each interval; the sums hold all of them.
const NAMED_MAX: usize = 10;

/// Locks that are kept of each interval; the others are one more together.
const KEPT_MAX: usize = 30;

/// The kernel's locks.
fn of_kernel() -> Box<dyn Instrument> {
    Box::new(Kernel {
        probe: super::open(&Options::of_everyone()),
        ended: Ended::default(),
        seen: Vec::new(),
    })
}

/// The locks of programs, this one left out.
fn of_programs() -> Box<dyn Instrument> {
    Box::new(Programs {
        probe: user_locks::open(&user_locks::Options::of_everyone_else()),
        ended: Ended::default(),
        seen: Vec::new(),
    })
}

#[derive(Debug)]
struct Kernel {
    probe: Result<LockProbe, Refused>,
    ended: Ended,
    seen: Vec<LockInterval>,
}

#[derive(Debug)]
struct Programs {
    probe: Result<UserLockProbe, Refused>,
    ended: Ended,
    seen: Vec<UserLockInterval>,
}

/// What went wrong on the way.
#[derive(Debug, Default)]
struct Ended {
    lost: BTreeMap<String, u64>,
    failed: Option<String>,
}

impl Instrument for Kernel {
    fn notes(&self) -> Vec<String> {
        self.ended.notes("locks of the kernel", self.probe.as_ref().err())
    }

    fn start(&mut self) {
        // What was seen before belongs to nobody.
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

    fn hand_over(&mut self, seen: &mut Instruments) {
        seen.locks.append(&mut self.seen);
        self.ended.tell_missing(KERNEL, self.probe.as_ref().err(), seen);
    }
}

impl Instrument for Programs {
    fn notes(&self) -> Vec<String> {
        self.ended.notes("locks of programs", self.probe.as_ref().err())
    }

    fn start(&mut self) {
        // What was seen before belongs to nobody.
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

    fn hand_over(&mut self, seen: &mut Instruments) {
        seen.ulocks.append(&mut self.seen);
        self.ended.tell_missing(PROGRAMS, self.probe.as_ref().err(), seen);
    }
}

impl Ended {
    fn take<T>(&mut self, read: Maybe<T>, lost: impl Fn(&T) -> &BTreeMap<String, u64>) -> Option<T> {
        match read {
            Ok(interval) => {
                for (reason, count) in lost(&interval) {
                    *self.lost.entry(reason.clone()).or_default() += count;
                }
                Some(interval)
            }
            Err(why) => {
                self.failed = Some(why.reason);
                None
            }
        }
    }

    /// Why there is nothing, or nothing from some moment on.
    fn tell_missing(&self, name: &str, refused: Option<&Refused>, seen: &mut Instruments) {
        let why = refused.map(ToString::to_string).or_else(|| self.failed.clone());
        if let Some(why) = why {
            seen.missing.insert(name.to_owned(), Missing::because(why));
        }
    }

    fn notes(&self, of: &str, refused: Option<&Refused>) -> Vec<String> {
        let lost: Vec<String> = self.lost.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let lost = (!lost.is_empty())
            .then(|| format!("{of}: lost {}; what is shown are lower bounds", lost.join(", ")));
        let failed = self.failed.as_ref().map(|why| format!("{of}: {why}"));
        refused.map(ToString::to_string).into_iter().chain(failed).chain(lost).collect()
    }
}

fn reading(name: &str, labels: String, value: f64) -> Reading {
    Reading { name: name.to_owned(), labels, value }
}

/// A label's value: commas part labels from each other.
fn word(text: &str) -> String {
    text.replace(',', ";").replace('=', ":")
}

fn of_locks(interval: &LockInterval) -> Vec<Reading> {
    let (all, spun_ns) = interval.total();
    let per_s = |ns: u64| ns as f64 * 1e-9 / interval.seconds();
    let mut readings = vec![
        reading("locks_waits_per_s", String::new(), all.count as f64 / interval.seconds()),
        reading("locks_wait_s_per_s", String::new(), per_s(all.ns_total)),
        reading("locks_cpu_util_ratio", String::new(), interval.cpu_util_ratio(spun_ns)),
    ];
    for lock in interval.locks.iter().take(NAMED_MAX) {
        let name = lock.name.clone().unwrap_or_else(|_| format!("{:#x}", lock.address));
        let caller = lock.caller.as_deref().unwrap_or("?");
        let labels = format!("kind={},lock={},caller={}", lock.kind.word(), word(&name), word(caller));
        readings.push(reading("lock_wait_s_per_s", labels.clone(), per_s(lock.waits.ns_total)));
        if lock.spin_ns_total > 0 {
            let ratio = interval.cpu_util_ratio(lock.spin_ns_total);
            readings.push(reading("lock_cpu_util_ratio", labels, ratio));
        }
    }
    readings
}

fn of_user_locks(interval: &UserLockInterval) -> Vec<Reading> {
    let (all, spun_ns) = interval.total();
    let per_s = |ns: u64| ns as f64 * 1e-9 / interval.seconds();
    let mut readings = vec![
        reading("ulocks_waits_per_s", String::new(), all.count as f64 / interval.seconds()),
        reading("ulocks_wait_s_per_s", String::new(), per_s(all.ns_total)),
    ];
    if let Ok(spun_ns) = spun_ns {
        readings.push(reading("ulocks_cpu_util_ratio", String::new(), interval.cpu_util_ratio(spun_ns)));
    }
    for lock in interval.locks.iter().take(NAMED_MAX) {
        let call = lock.call.as_deref().unwrap_or("?");
        let caller = lock.caller.as_deref().unwrap_or("?");
        let labels = format!(
            "pid={},comm={},kind={},lock={:#x},call={},caller={}",
            lock.pid,
            word(&lock.comm),
            lock.kind.word(),
            lock.address,
            word(call),
            word(caller)
        );
        readings.push(reading("ulock_wait_s_per_s", labels, per_s(lock.waits.ns_total)));
    }
    readings
}
