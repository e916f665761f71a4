//! Kernel locks beside a command or a load: as numbers over time, those with the longest waits by name.

use record::instruments::Instruments;
use record::locks::{LockInterval, LockSample};
use record::missing::{Maybe, Missing};
use record::resources::{Resource, Used, UsedBy};

use super::{LockProbe, Options, Refused};
use crate::cgroups::{self, Cgroup};
use crate::cost::Cost;
use crate::instrument::{Instrument, Kind, Problems, Reading, label};

/// Entry in the list of instruments.
pub(crate) const KIND: Kind = Kind { name: "locks", open, open_for_server: Some(open_by_cgroup) };

/// Maximum number of locks with a name in each interval; the sums include all of them.
pub(crate) const NAMED_MAX: usize = 10;

/// Maximum number of locks that are stored of each interval; one more entry sums the others.
pub(crate) const KEPT_MAX: usize = 30;

/// Largest accepted spun time of groups without a name, as a share of the server's.
const UNNAMED_RATIO_MAX: f64 = 0.01;

fn open() -> Box<dyn Instrument> {
    open_with(false)
}

/// Waits by control group, if the kernel has a hierarchy that the programs can read.
fn open_by_cgroup() -> Box<dyn Instrument> {
    open_with(cgroups::mounted().is_ok())
}

fn open_with(by_cgroup: bool) -> Box<dyn Instrument> {
    Box::new(Observer {
        probe: super::open(&Options { by_cgroup, ..Options::of_everyone() }),
        ended: Problems::default(),
        seen: Vec::new(),
        by_cgroup,
        server: None,
        spun: Spun::default(),
    })
}

#[derive(Debug)]
struct Observer {
    probe: Result<LockProbe, Refused>,
    ended: Problems,
    seen: Vec<LockInterval>,
    by_cgroup: bool,
    /// Group of the server under test.
    server: Option<Cgroup>,
    /// Since the start.
    spun: Spun,
}

/// CPU time that was spun since the start, as time and as a share of all CPU time.
#[derive(Debug, Default)]
struct Spun {
    /// Beginning and end of what was read.
    span: Option<(u64, u64)>,
    burned_s: f64,
    /// Time spun by groups that were removed before they had a name: the server's or others'.
    unnamed_s: f64,
    all_s: f64,
    lost: u64,
}

impl Spun {
    fn add(&mut self, interval: &LockInterval, server: Option<&Cgroup>) {
        let of_server = |lock: &&LockSample| match server {
            None => true,
            Some(group) => lock.cgroup.as_deref().is_some_and(|name| group.holds(name)),
        };
        let is_unnamed = |lock: &&LockSample| lock.cgroup.as_deref().is_some_and(cgroups::is_unnamed);
        let spun = |of: &dyn Fn(&&LockSample) -> bool| -> u64 {
            interval.locks.iter().filter(of).map(|l| l.spin_ns_total).sum()
        };
        let spun_ns = spun(&of_server);
        self.unnamed_s += server.map_or(0, |_| spun(&is_unnamed)) as f64 * 1e-9;
        self.span = Some((self.span.map_or(interval.from_ns, |(from, _)| from), interval.until_ns));
        self.burned_s += spun_ns as f64 * 1e-9;
        self.all_s += interval.seconds() * interval.cpus.max(1) as f64;
        self.lost += interval.lost.values().sum::<u64>();
    }

    fn used(&self, by: UsedBy) -> Maybe<Used> {
        let (from_ns, until_ns) = self.span.ok_or_else(|| Missing::because("no interval was read"))?;
        if self.lost > 0 {
            let why = format!("{} waits for locks were lost: the numbers are lower bounds", self.lost);
            return Err(Missing::because(why));
        }
        if self.unnamed_s > UNNAMED_RATIO_MAX * self.burned_s {
            let why = format!(
                "{:.6} s were spun in control groups that were removed before they had a name: whether they are \
                 the server's is unknown",
                self.unnamed_s
            );
            return Err(Missing::because(why));
        }
        Ok(Used { amount: self.burned_s / self.all_s, by, from_ns, until_ns })
    }
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.ended.notes("locks of the kernel", self.probe.as_ref().err())
    }

    fn start(&mut self) {
        self.spun = Spun::default();
        // Waits before the start count nowhere.
        let _ = self.probe.as_mut().map(LockProbe::start);
    }

    fn read(&mut self) -> Vec<Reading> {
        let Ok(probe) = &mut self.probe else { return Vec::new() };
        let Some(interval) = self.ended.take(probe.read(), |i| &i.lost) else { return Vec::new() };
        self.spun.add(&interval, self.server.as_ref());
        let interval = interval.by_caller();
        let mut readings = of_locks(&interval);
        readings.extend(self.of_server(&interval));
        self.seen.push(interval.at_most(KEPT_MAX));
        readings
    }

    fn is_able(&self) -> Maybe<()> {
        self.probe.as_ref().map(|_| ()).map_err(|why| Missing::because(why.to_string()))
    }

    fn follow_server(&mut self, group: Option<&Cgroup>) {
        self.server = group.filter(|_| self.by_cgroup).cloned();
    }

    fn used(&mut self) -> Vec<(Resource, Maybe<Used>)> {
        let by = if self.server.is_some() { UsedBy::Server } else { UsedBy::Machine };
        let able = self.is_able();
        vec![(Resource::LockSpin, able.and_then(|()| self.spun.used(by)))]
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

impl Observer {
    /// Time that the server's own tasks spun, as a share of all CPU time; `None` if they are not known.
    fn of_server(&self, interval: &LockInterval) -> Option<Reading> {
        let group = self.server.as_ref()?;
        let own = interval.locks.iter().filter(|l| l.cgroup.as_deref().is_some_and(|c| group.holds(c)));
        let spun_ns = own.map(|l| l.spin_ns_total).sum();
        Some(Reading::of("server_locks_cpu_util_ratio", String::new(), interval.cpu_util_ratio(spun_ns)))
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

#[cfg(test)]
mod tests {
    use record::locks::{LockKind, Waits};

    use super::*;

    #[test]
    fn what_a_group_without_a_name_spun_may_be_the_servers() {
        let server = Cgroup { folder: "/x".into(), name: "/server".into() };
        let lock = |cgroup: &str, ns| LockSample {
            cgroup: Some(cgroup.to_owned()),
            kind: LockKind::Mutex,
            address: 1,
            name: Err(Missing::because("it was allocated")),
            caller: Err(Missing::because("unknown")),
            stack: Vec::new(),
            waits: Waits { count: 1, ns_total: ns, ns_max: ns, histogram: [].into() },
            spin_ns_total: ns,
        };
        let used = |locks: Vec<LockSample>| {
            let (from_ns, until_ns, lost) = (0, 1_000_000_000, [].into());
            let interval = LockInterval { from_ns, until_ns, cpus: 1, missed_deadline: false, locks, lost };
            let mut spun = Spun::default();
            spun.add(&interval, Some(&server));
            spun.used(UsedBy::Server).map(|used| used.amount)
        };
        let named = || vec![lock("/server/a", 100_000_000), lock("/other", 500_000_000)];
        assert_eq!(used(named()), Ok(0.1));
        let with = |ns| used([named(), vec![lock("(cgroup 7)", ns)]].concat());
        assert_eq!(with(1_000_000), Ok(0.1));
        assert!(with(50_000_000).is_err());
    }
}
