//! Replayed arrivals: the recorded due times.

use std::sync::Arc;
use std::time::Duration;

use super::due_times::{DueTimes, PaceSettings, Scratch};
use crate::schedule::clock::to_ns;

/// Due times in a list, counted from the first.
#[derive(Debug)]
pub(super) struct Replay {
    due_ns: Arc<[u64]>,
    /// Index of the first due time to replay.
    first: usize,
    /// Position in the recording at which this begins.
    offset_ns: u64,
    /// Speed as a multiple of the recording's.
    factor: f64,
    count: u64,
}

impl Replay {
    /// The recording after `played`, replayed `factor` times as fast for the rest of the phase, the span of
    /// `rest`.
    pub(super) fn from_on(rest: &PaceSettings, played: Duration, factor: f64) -> Self {
        let due_ns = Arc::clone(&rest.recorded);
        assert!(due_ns.is_sorted(), "due times come in order");
        let offset_ns = to_ns(played);
        let span_ns = to_ns(rest.span);
        let first = due_ns.partition_point(|due_ns| *due_ns < offset_ns);
        let mut replay = Self { due_ns, first, offset_ns, factor, count: 0 };
        let left = &replay.due_ns[first..];
        let count = left.partition_point(|due_ns| replay.played_ns(*due_ns) < span_ns) as u64;
        replay.count = count.min(rest.events_max.unwrap_or(u64::MAX));
        replay
    }

    fn played_ns(&self, due_ns: u64) -> u64 {
        let since_ns = due_ns - self.offset_ns;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, from 0 on")]
        let played_ns = (since_ns as f64 / self.factor).round() as u64;
        played_ns
    }
}

impl DueTimes for Replay {
    fn count(&self) -> u64 {
        self.count
    }

    #[expect(clippy::cast_possible_truncation, reason = "an index into a list")]
    fn in_order_ns(&self, rank: u64, _: &mut Scratch) -> u64 {
        self.played_ns(self.due_ns[self.first + rank as usize])
    }
}
