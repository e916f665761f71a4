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
    /// Reason why a group that was watched has no result.
    lost: Option<String>,
}

impl Quotas {
    pub(crate) fn new() -> Self {
        Self { others: Vec::new(), watching: Vec::new(), found: Err(not_watched()), lost: None }
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
        self.lost = None;
    }

    /// Ends the measured phase, if one began.
    pub(crate) fn close(&mut self) {
        let watching = std::mem::take(&mut self.watching);
        let mut result = |watch: &Throttling| {
            let found = watch.so_far();
            if let Some(why) = found.as_ref().err().filter(|_| watch.has_begun()) {
                self.lost = Some(why.reason.clone());
            }
            found
        };
        if let Some(found) = watching.iter().map(&mut result).reduce(both) {
            self.found = found;
        }
    }

    /// Reason why a group that was watched in the last phase has no result.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Returns the throttling in the phase that has ended.
    pub(crate) fn take(&mut self) -> Maybe<Throttled> {
        self.close();
        std::mem::replace(&mut self.found, Err(not_watched()))
    }
}

/// Adds two results. If one is missing, the other counts if a quota took effect: a verdict needs no more.
fn both(a: Maybe<Throttled>, b: Maybe<Throttled>) -> Maybe<Throttled> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok(together(a, b)),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) if known.is_any() => Ok(known),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

/// Adds two known results. Two groups below one that was throttled both report it: it counts once.
fn together(a: Throttled, b: Throttled) -> Throttled {
    if a.cgroup != b.cgroup {
        return a.and(b);
    }
    if b.time_ns > a.time_ns { b } else { a }
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    #[test]
    fn a_group_that_is_gone_contributes_no_zero_and_hides_no_throttling() {
        let known = |periods: u64| Ok(Throttled { periods, time_ns: periods, cgroup: "/own".into() });
        let gone = || Err(Missing::because("control group /server is gone"));
        assert_eq!((both(known(0), gone()), both(gone(), known(0))), (gone(), gone()));
        assert_eq!((both(known(3), gone()), both(gone(), known(3))), (known(3), known(3)));
        assert_eq!(both(known(1), known(2)), known(2), "two below the same group");
    }
}
