//! Limits of rate, by peer.

use std::collections::HashMap;
use std::sync::Mutex;

/// Most peers in the table; beyond that, idle ones are forgotten.
const PEERS_MAX: usize = 4_096;

/// Allowance of a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Requests per second in the long run.
    pub(crate) per_s: f64,
    /// Requests at once.
    pub(crate) burst: f64,
}

/// Requests of any kind.
pub(crate) const REQUESTS: Allowance = Allowance { per_s: 50.0, burst: 200.0 };
/// Requests that change something.
pub(crate) const CHANGES: Allowance = Allowance { per_s: 2.0, burst: 60.0 };
/// Wrong tokens.
pub(crate) const WRONG_TOKENS: Allowance = Allowance { per_s: 0.1, burst: 10.0 };

/// Buckets of allowances: each request takes one unit, and units return with time.
#[derive(Debug)]
pub(crate) struct Limiter {
    allowance: Allowance,
    left: Mutex<HashMap<String, (f64, u64)>>,
}

impl Limiter {
    pub(crate) fn new(allowance: Allowance) -> Self {
        Self { allowance, left: Mutex::default() }
    }

    /// Takes a unit of `peer`; `false` if it has none left.
    pub(crate) fn take(&self, peer: &str, now_ns: u64) -> bool {
        let mut all = self.left.lock().expect("no thread panics while it holds this lock");
        let refilled = |(left, at): (f64, u64)| {
            let passed_s = now_ns.saturating_sub(at) as f64 / 1e9;
            (left + passed_s * self.allowance.per_s).min(self.allowance.burst)
        };
        if all.len() >= PEERS_MAX && !all.contains_key(peer) {
            all.retain(|_, bucket| refilled(*bucket) < self.allowance.burst);
            if all.len() >= PEERS_MAX {
                return false;
            }
        }
        let left = all.get(peer).map_or(self.allowance.burst, |bucket| refilled(*bucket));
        let is_allowed = left >= 1.0;
        all.insert(peer.to_owned(), (if is_allowed { left - 1.0 } else { left }, now_ns));
        is_allowed
    }

    /// Whether `peer` has a unit left; takes none.
    pub(crate) fn has(&self, peer: &str, now_ns: u64) -> bool {
        let all = self.left.lock().expect("no thread panics while it holds this lock");
        all.get(peer).is_none_or(|(left, at)| {
            left + now_ns.saturating_sub(*at) as f64 / 1e9 * self.allowance.per_s >= 1.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_its_burst_and_then_its_rate_and_others_are_not_affected() {
        let limiter = Limiter::new(Allowance { per_s: 2.0, burst: 3.0 });
        let taken = |peer: &str, at_ns| (0..10).filter(|_| limiter.take(peer, at_ns)).count();
        assert_eq!(taken("a", 0), 3);
        assert_eq!(taken("a", 500_000_000), 1);
        assert_eq!(taken("b", 500_000_000), 3);
        assert_eq!(taken("a", 3_600_000_000_000), 3, "an hour saves up no more than a burst");
        assert!(!limiter.has("a", 3_600_000_000_000) && limiter.has("c", 0));
    }

    #[test]
    fn many_peers_do_not_grow_the_table_without_end() {
        let limiter = Limiter::new(Allowance { per_s: 1.0, burst: 1.0 });
        for n in 0..10_000 {
            limiter.take(&n.to_string(), 0);
        }
        assert!(limiter.left.lock().unwrap().len() <= PEERS_MAX);
        assert!(limiter.take("late", 2_000_000_000), "idle peers are forgotten");
    }
}
