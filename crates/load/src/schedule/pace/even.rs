//! Even arrivals: each thread has its period, the threads staggered over it; jitter moves each due time a
//! little.
//!
//! Jitter may swap the due times of neighbors. If any worker takes the next event
//! ([`DueTimes::in_order_ns`]), they must come in order of time, or a worker would sleep for a later event
//! while an earlier one waits. Jitter moves an event by at most `jitter x threads` places either way, so the
//! event of a rank is found among a few neighbors, and the k-th due time stays a pure function of k.

use super::due_times::{DueTimes, PaceSettings, Scratch, whole_events};
use crate::schedule::random::Random;

/// Separates the random stream of the jitter from that of the events' contents.
const JITTER_SALT: u64 = 0x6a69_7474_6572;

#[derive(Debug)]
pub(super) struct Even {
    count: u64,
    gap_ns: f64,
    /// The maximum distance by which jitter moves an event either way.
    reach_ns: f64,
    /// Number of places to either side in which the event of a rank may be.
    reach_ranks: u64,
    threads: u64,
    /// The same among the events of one thread; 0 if they are in order without sorting.
    reach_own: u64,
    span_ns: f64,
    seed: u64,
}

impl Even {
    pub(super) fn new(settings: &PaceSettings, jitter_ratio: f64) -> Self {
        assert!((0.0..=1.0).contains(&jitter_ratio), "jitter is a share of the period: {jitter_ratio}");
        let per_span = settings.rate_per_s * settings.span.as_secs_f64();
        let count = whole_events(per_span);
        let jitter_slots = jitter_ratio * f64::from(settings.threads);
        let gap_ns = 1e9 / settings.rate_per_s;
        Self {
            count: count.min(settings.events_max.unwrap_or(u64::MAX)),
            gap_ns,
            reach_ns: jitter_slots * gap_ns,
            reach_ranks: to_u64((2.0 * jitter_slots).ceil()),
            threads: settings.threads.into(),
            // With up to half a period either way, an event reaches at most the due time of its thread's next
            // event.
            reach_own: if jitter_ratio > 0.5 { to_u64((2.0 * jitter_ratio).ceil()) } else { 0 },
            span_ns: settings.span.as_secs_f64() * 1e9,
            seed: settings.seed ^ JITTER_SALT,
        }
    }

    fn due_ns(&self, slot: u64) -> u64 {
        let even_ns = slot as f64 * self.gap_ns;
        if self.reach_ns == 0.0 {
            return to_u64(even_ns.round());
        }
        let moved_ns = even_ns + self.reach_ns * (2.0 * Random::of(self.seed, slot).unit() - 1.0);
        // A time outside the phase is mirrored at the edge: the number of events stays exact.
        to_u64(mirrored(moved_ns, self.span_ns).min(self.span_ns - 1.0))
    }
}

impl DueTimes for Even {
    fn count(&self) -> u64 {
        self.count
    }

    #[expect(clippy::cast_possible_truncation, reason = "an index into a window of a few events")]
    fn in_order_ns(&self, rank: u64, scratch: &mut Scratch) -> u64 {
        if self.reach_ranks == 0 {
            return self.due_ns(rank);
        }
        let first = rank.saturating_sub(self.reach_ranks);
        let last = rank.saturating_add(self.reach_ranks).min(self.count - 1);
        scratch.window_ns.clear();
        scratch.window_ns.extend((first..=last).map(|slot| self.due_ns(slot)));
        // Every event before `first` is due before the one sought, every event after `last` later.
        *scratch.window_ns.select_nth_unstable((rank - first) as usize).1
    }

    /// Sorted by time within the thread: a thread could not meet a due time that lies before its last.
    #[expect(clippy::cast_possible_truncation, reason = "an index into a window of a few events")]
    fn of_slot_ns(&self, slot: u64, scratch: &mut Scratch) -> u64 {
        if self.reach_own == 0 {
            return self.due_ns(slot);
        }
        let (rank, thread) = (slot / self.threads, slot % self.threads);
        let first = rank.saturating_sub(self.reach_own);
        let last = (rank + self.reach_own).min((self.count - 1 - thread) / self.threads);
        scratch.window_ns.clear();
        scratch.window_ns.extend((first..=last).map(|rank| self.due_ns(rank * self.threads + thread)));
        *scratch.window_ns.select_nth_unstable((rank - first) as usize).1
    }
}

/// `x` folded into [0, `end`] by mirrors at both ends.
fn mirrored(x: f64, end: f64) -> f64 {
    let y = x.rem_euclid(2.0 * end);
    if y > end { 2.0 * end - y } else { y }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and times of a phase, over 0"
)]
fn to_u64(x: f64) -> u64 {
    x as u64
}
