//! CPU quotas during a measurement: of this process's control group, and of the server's.

use probes::limits::{Limits, Throttling};
use record::limits::{Throttled, not_watched};
use record::missing::Maybe;

/// Counts throttling by quotas in successive measured phases.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Other processes, such as a server, that have their control groups watched.
    others: Vec<u32>,
    watching: Vec<Throttling>,
    found: Maybe<Throttled>,
}

impl Quotas {
    pub(crate) fn new() -> Self {
        Self { others: Vec::new(), watching: Vec::new(), found: Err(not_watched()) }
    }

    /// Adds the control group of process `pid`, from the next phase on. Replaces the one of earlier calls.
    pub(crate) fn also_of(&mut self, pid: Option<u32>) {
        self.others = pid.into_iter().collect();
    }

    /// Begins the measured phase.
    pub(crate) fn open(&mut self) {
        let own = Limits::of_self();
        let mut all: Vec<Limits> = self.others.iter().map(|pid| Limits::of_process(*pid)).collect();
        // A server in our own group has our quota, which must not count twice.
        all.retain(|other| other.cgroup().ok() != own.cgroup().ok());
        all.push(own);
        self.watching = all.iter().map(Limits::watch).collect();
    }

    /// Ends the measured phase, if one began.
    pub(crate) fn close(&mut self) {
        let found = std::mem::take(&mut self.watching).into_iter().map(|watch| watch.so_far());
        if let Some(found) = found.reduce(|a, b| Ok(together(a?, b?))) {
            self.found = found;
        }
    }

    /// Returns the throttling in the phase that has ended.
    pub(crate) fn take(&mut self) -> Maybe<Throttled> {
        self.close();
        std::mem::replace(&mut self.found, Err(not_watched()))
    }
}

/// Adds two results. Two groups below one that was throttled both report it: it counts once.
fn together(a: Throttled, b: Throttled) -> Throttled {
    if a.cgroup != b.cgroup {
        return a.and(b);
    }
    if b.time_ns > a.time_ns { b } else { a }
}
