//! Adapts the level to the state of the ring, so the writer of the pipe does not wait for the codec.
//!
//! Blocks are independent, so each may have its own level: the next block already reacts to a full ring.

use crate::format::Setting;
use crate::level::{Format, Level};
use std::time::Duration;

/// Occupancy above which the ring is too full: compress faster at once.
const CROWDED_RATIO: f64 = 0.75;
/// Occupancy below which the ring idles: try to compress better.
const IDLE_RATIO: f64 = 0.25;
/// Time between two steps towards better compression, so each step can take effect before the next.
const PATIENCE: Duration = Duration::from_millis(2);

/// The settings from the best allowed level down to storing, and the current one.
#[derive(Debug)]
pub(crate) struct Ladder {
    steps: Vec<Setting>,
    at: usize,
    since_change: Duration,
}

impl Ladder {
    pub(crate) fn new(format: Format, best: Level) -> Self {
        let container = format.container();
        let mut steps: Vec<Setting> = (0..=best.get())
            .rev()
            .filter_map(Level::new)
            .map(|level| container.setting(level))
            .chain(container.beyond().iter().copied())
            .collect();
        steps.dedup();
        Self { at: steps.len() / 2, steps, since_change: Duration::ZERO }
    }

    /// Returns the setting for the next block.
    ///
    /// - `occupancy_ratio`: share of the ring in use, in [0, 1].
    /// - `can_grow`: another thread may still start, which is better than compressing less.
    /// - `since_last`: time since the previous call.
    pub(crate) fn next(&mut self, occupancy_ratio: f64, can_grow: bool, since_last: Duration) -> Setting {
        self.since_change += since_last;
        if occupancy_ratio >= CROWDED_RATIO && !can_grow {
            self.at = (self.at + 1).min(self.steps.len() - 1);
            self.since_change = Duration::ZERO;
        } else if occupancy_ratio <= IDLE_RATIO && self.since_change >= PATIENCE {
            self.at = self.at.saturating_sub(1);
            self.since_change = Duration::ZERO;
        }
        self.steps[self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_TIME: Duration = Duration::from_micros(500);

    fn ladder() -> Ladder {
        Ladder::new(Format::Zst, Level::new(3).unwrap())
    }

    #[test]
    fn a_crowded_ring_reaches_the_fastest_step_within_ten_milliseconds_and_stays() {
        let mut ladder = ladder();
        ladder.at = 0;
        let blocks = (0..100).position(|_| ladder.next(1.0, false, BLOCK_TIME) == Setting(-1000)).unwrap();
        assert!(BLOCK_TIME * u32::try_from(blocks).unwrap() < Duration::from_millis(10));
        assert_eq!(ladder.next(1.0, false, BLOCK_TIME), Setting(-1000));
    }

    #[test]
    fn an_idle_ring_takes_a_better_step_within_ten_milliseconds_and_stops_at_the_best_asked_for() {
        let mut ladder = ladder();
        let before = ladder.at;
        for _ in 0..20 {
            ladder.next(0.0, false, BLOCK_TIME);
        }
        assert!(ladder.at < before);
        for _ in 0..200 {
            ladder.next(0.0, false, BLOCK_TIME);
        }
        assert_eq!(ladder.next(0.0, false, BLOCK_TIME), Setting(3));
    }

    #[test]
    fn while_a_thread_may_join_the_level_stays() {
        let mut ladder = ladder();
        let before = ladder.steps[ladder.at];
        assert_eq!(ladder.next(1.0, true, BLOCK_TIME), before);
        assert_eq!(ladder.next(0.5, false, BLOCK_TIME), before);
    }
}
