//! Poisson arrivals: independent users, exponential gaps.
//!
//! The due time of an event is the sum of all gaps before it, each a function of the seed and its own number. The
//! sums are kept every few events, so that any of them is found with a handful of additions; as whole nanoseconds
//! they are exact, wherever the adding starts.

use super::{DueTimes, PaceSettings, Scratch};
use crate::random::Random;

const POISSON_SALT: u64 = 0x0070_6f69_7373_6f6e;
/// Gaps added from a kept sum on the hot path, at most; some 6 ns each.
const STRIDE_MIN: u64 = 16;
/// Kept sums, about: bounds the memory to 8 MiB and a little.
const KEPT_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Poisson {
    count: u64,
    gap_mean_ns: f64,
    seed: u64,
    stride: u64,
    /// Due time of event 0, `stride`, 2 `stride`, ...
    kept_ns: Vec<u64>,
}

impl Poisson {
    pub(super) fn new(settings: &PaceSettings) -> Self {
        let gap_mean_ns = 1e9 / settings.rate_per_s;
        let span_ns = settings.span.as_nanos();
        let count_max = settings.events_max.unwrap_or(u64::MAX);
        let count_mean = (settings.rate_per_s * settings.span.as_secs_f64()).min(count_max as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of events")]
        let stride = (count_mean as u64 / KEPT_MAX).max(STRIDE_MIN);
        let mut poisson =
            Self { count: 0, gap_mean_ns, seed: settings.seed ^ POISSON_SALT, stride, kept_ns: Vec::new() };
        let mut due_ns = poisson.gap_ns(0);
        while u128::from(due_ns) < span_ns && poisson.count < count_max {
            if poisson.count.is_multiple_of(stride) {
                poisson.kept_ns.push(due_ns);
            }
            poisson.count += 1;
            due_ns += poisson.gap_ns(poisson.count);
        }
        poisson
    }

    /// The gap before event `number`.
    fn gap_ns(&self, number: u64) -> u64 {
        let gap_ns = -self.gap_mean_ns * (1.0 - Random::of(self.seed, number).unit()).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 37 means, never under 0"
        )]
        let whole_ns = gap_ns.round() as u64;
        whole_ns
    }
}

impl DueTimes for Poisson {
    fn count(&self) -> u64 {
        self.count
    }

    #[expect(clippy::cast_possible_truncation, reason = "an index into what is kept")]
    fn in_order_ns(&self, rank: u64, _: &mut Scratch) -> u64 {
        let kept = rank / self.stride;
        let after = (kept * self.stride + 1)..=rank;
        self.kept_ns[kept as usize] + after.map(|number| self.gap_ns(number)).sum::<u64>()
    }
}
