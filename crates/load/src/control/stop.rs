//! How a run is asked to end before its time.

use std::sync::atomic::{AtomicU8, Ordering};

/// How urgently a run was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// Not at all.
    Run,
    /// Take nothing new, give what is in flight at most a second.
    Finish,
    /// At once.
    Now,
}

/// A request to end, raised by whoever catches Ctrl-C and read by whoever runs.
///
/// Raising it is one atomic operation, so a signal handler may do it.
#[derive(Debug, Default)]
pub struct Stop(AtomicU8);

impl Stop {
    /// Nobody has asked yet.
    pub const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Asks once more: the first time to finish, from the second time on to end at once.
    pub fn request(&self) {
        // A failure means that the level is at its end already.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < 2).then_some(n + 1));
    }

    /// How urgent it is by now.
    pub fn level(&self) -> StopLevel {
        match self.0.load(Ordering::SeqCst) {
            0 => StopLevel::Run,
            1 => StopLevel::Finish,
            _ => StopLevel::Now,
        }
    }

    /// Whether anybody has asked.
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
    }
}
