//! The request that ends a run before its time.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Urgency of a request to end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// The run goes on: an end was not requested.
    Run,
    /// Take no new event, and give events in flight at most a second.
    Finish,
    /// End at once.
    Now,
}

/// A request to end a run, raised by the handler of Ctrl-C and read by the conductor.
///
/// Raising it is one atomic operation, so a signal handler may do it.
#[derive(Debug, Default)]
pub struct Stop {
    level: AtomicU8,
    after_trial: AtomicBool,
}

impl Stop {
    /// A flag that has not been raised.
    pub const fn new() -> Self {
        Self { level: AtomicU8::new(0), after_trial: AtomicBool::new(false) }
    }

    /// Raises the level: the first request asks to finish, the second to end at once.
    pub fn request(&self) {
        // A failure means that the level is at its maximum already.
        let _ = self.level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < 2).then_some(n + 1));
    }

    /// Current level.
    pub fn level(&self) -> StopLevel {
        match self.level.load(Ordering::SeqCst) {
            0 => StopLevel::Run,
            1 => StopLevel::Finish,
            _ => StopLevel::Now,
        }
    }

    /// Asks a bake-off to end after the trial that it measures, in slices after the block. A load goes on.
    pub fn request_after_trial(&self) {
        self.after_trial.store(true, Ordering::SeqCst);
    }

    /// Whether a bake-off begins no further trial.
    pub fn is_last_trial(&self) -> bool {
        self.is_requested() || self.after_trial.load(Ordering::SeqCst)
    }

    /// Whether an end was requested.
    pub fn is_requested(&self) -> bool {
        self.level() > StopLevel::Run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_raises_the_level_until_its_end() {
        let stop = Stop::new();
        let mut seen = vec![stop.level()];
        for _ in 0..3 {
            stop.request();
            seen.push(stop.level());
        }
        assert_eq!(seen, [StopLevel::Run, StopLevel::Finish, StopLevel::Now, StopLevel::Now]);
        let stop = Stop::new();
        stop.request_after_trial();
        assert!(stop.is_last_trial() && !stop.is_requested(), "the trial is measured to its end");
    }
}
