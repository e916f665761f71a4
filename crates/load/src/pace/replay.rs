//! Arrivals as they were recorded: the same due times again.

use std::sync::Arc;

use super::{DueTimes, PaceSettings, Scratch};

/// Due times in a list, counted from the first.
#[derive(Debug)]
pub(super) struct Replay {
    due_ns: Arc<[u64]>,
    count: u64,
}

impl Replay {
    pub(super) fn new(settings: &PaceSettings, due_ns: Arc<[u64]>) -> Self {
        assert!(due_ns.is_sorted(), "due times come in order");
        let span_ns = crate::engine::to_ns(settings.span);
        let count = due_ns.partition_point(|due_ns| *due_ns < span_ns) as u64;
        Self { due_ns, count: count.min(settings.events_max.unwrap_or(u64::MAX)) }
    }
}

impl DueTimes for Replay {
    fn count(&self) -> u64 {
        self.count
    }

    #[expect(clippy::cast_possible_truncation, reason = "an index into a list")]
    fn in_order_ns(&self, rank: u64, _: &mut Scratch) -> u64 {
        self.due_ns[rank as usize]
    }
}
