//! CPU quotas around a measurement: of this process's control group, and of the server's.

use probes::limits::{Limits, Throttling};
use record::limits::{Throttled, not_watched};
use record::missing::Maybe;

/// Watches over one measured phase after the other how often a quota takes effect.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Processes whose control groups are watched besides our own, such as a server.
    others: Vec<u32>,
    watching: Vec<Throttling>,
    found: Maybe<Throttled>,
}

impl Quotas {
    pub(crate) fn new() -> Self {
        Self { others: Vec::new(), watching: Vec::new(), found: Err(not_watched()) }
    }

    /// Watches the control group of this process too, from the next phase on; it replaces those of earlier calls.
    pub(crate) fn also_of(&mut self, pid: Option<u32>) {
        self.others = pid.into_iter().collect();
    }

    /// The measured phase begins.
    pub(crate) fn open(&mut self) {
        let own = Limits::of_self();
        let mut all: Vec<Limits> = self.others.iter().map(|pid| Limits::of_process(*pid)).collect();
        // A server in our own group has our quota: it must not be counted twice.
        all.retain(|other| other.cgroup().ok() != own.cgroup().ok());
        all.push(own);
        self.watching = all.iter().map(Limits::watch).collect();
    }

    /// The measured phase ends, if one began.
    pub(crate) fn close(&mut self) {
        let found = std::mem::take(&mut self.watching).into_iter().map(|watch| watch.so_far());
        if let Some(found) = found.reduce(|a, b| Ok(together(a?, b?))) {
            self.found = found;
        }
    }

    /// What happened in the phase that has ended.
    pub(crate) fn take(&mut self) -> Maybe<Throttled> {
        self.close();
        std::mem::replace(&mut self.found, Err(not_watched()))
    }
}

/// Two groups below one that was stopped both report it: it counts once.
fn together(a: Throttled, b: Throttled) -> Throttled {
    if a.cgroup != b.cgroup {
        return a.and(b);
    }
    if b.time_ns > a.time_ns { b } else { a }
}
