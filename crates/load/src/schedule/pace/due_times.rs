//! The interface of all distributions of due times.

use std::sync::Arc;
use std::time::Duration;

use record::load::Arrivals;

use super::path::Path;

/// The settings of a pace.
#[derive(Debug, Clone)]
pub struct PaceSettings {
    /// Distribution of due times.
    pub arrivals: Arrivals,
    /// Recorded due times for [`Arrivals::File`], in order, the first of them 0; empty for all other
    /// arrivals.
    pub recorded: Arc<[u64]>,
    /// Events per second over all threads; over 0. Unused if the arrivals state their own rates.
    pub rate_per_s: f64,
    /// Workers; a thread's period is `threads / rate_per_s`.
    pub threads: u32,
    /// Random seed.
    pub seed: u64,
    /// Length of the phase.
    pub span: Duration,
    /// Maximum number of events.
    pub events_max: Option<u64>,
}

/// One distribution of due times. A new one is one file and one line in [`super::Pace::laid_out`].
pub(crate) trait DueTimes: std::fmt::Debug + Send + Sync {
    /// Number of events in the phase.
    fn count(&self) -> u64;

    /// Due time of the event that is number `rank` in order of time, `rank < count`; never falls as `rank`
    /// rises.
    fn in_order_ns(&self, rank: u64, scratch: &mut Scratch) -> u64;

    /// Due time of slot `slot`, which belongs to thread `slot % threads`; rises within a thread.
    fn of_slot_ns(&self, slot: u64, scratch: &mut Scratch) -> u64 {
        self.in_order_ns(slot, scratch)
    }

    /// Two ranks between which the number of events due before `t_ns` lies; both may be that number.
    fn ranks_around(&self, _t_ns: u64) -> (u64, u64) {
        (0, self.count())
    }
}

/// Buffers for computing due times, so that computing one allocates nothing; each thread has its own.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) window_ns: Vec<u64>,
    pub(super) path: Path,
}

/// The number of events due at 0, 1, 2, ... before `events` of them are due.
///
/// 500/s x 20 s is 10,000 events, also where the product of the two floats is 10,000.000000000002.
pub(super) fn whole_events(events: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of events, from 0 on"
    )]
    let whole = (events * (1.0 - 4.0 * f64::EPSILON)).ceil() as u64;
    whole
}
