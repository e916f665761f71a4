//! Due times of arrivals with a rate that changes with time.

use std::time::Duration;

use record::arrivals::Shape;

use super::due_times::{DueTimes, PaceSettings, Scratch, whole_events};
use crate::schedule::clock::to_ns;

/// Due times of a shape.
#[derive(Debug)]
pub(super) struct Shaped {
    shape: Shape,
    /// Position in the shape at which this begins.
    offset_s: f64,
    /// Events due before that position.
    before: f64,
    /// The rate as a multiple of the shape's.
    factor: f64,
    count: u64,
    span_ns: u64,
}

impl Shaped {
    /// The rest of the shape from `offset` on, at `factor` times its rate.
    pub(super) fn from_on(settings: &PaceSettings, shape: Shape, offset: Duration, factor: f64) -> Self {
        let before = shape.events_until(offset.as_secs_f64());
        let total = (shape.events_until(settings.span.as_secs_f64()) - before) * factor;
        let count = whole_events(total).min(settings.events_max.unwrap_or(u64::MAX));
        let span_ns = to_ns(settings.span.saturating_sub(offset));
        Self { shape, offset_s: offset.as_secs_f64(), before, factor, count, span_ns }
    }
}

impl DueTimes for Shaped {
    fn count(&self) -> u64 {
        self.count
    }

    fn in_order_ns(&self, rank: u64, _: &mut Scratch) -> u64 {
        let t_s = self.shape.time_of_s(self.before + rank as f64 / self.factor) - self.offset_s;
        let t_ns = (t_s * 1e9).round().max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time in a phase, from 0 on"
        )]
        let t_ns = t_ns as u64;
        t_ns.min(self.span_ns.saturating_sub(1))
    }
}
