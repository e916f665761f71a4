//! The end of a load: events in flight get the drain time, or the grace period of a stop; then they are cut.

use record::load::Phase;

use super::Conductor;
use crate::control::stop::StopLevel;
use crate::schedule::clock::to_ns;

/// Grace period of a stopped run for events in flight: with the rest, the run is over within a second.
const GRACE_NS: u64 = 700_000_000;
/// Maximum time for workers to return after their connections were cut.
const CUT_NS: u64 = 100_000_000;

impl Conductor<'_> {
    /// Gives events in flight at the planned end the drain time.
    pub(super) fn drain(&mut self) {
        if self.engine.is_anybody_working() {
            let now_ns = self.engine.clock.now_ns();
            self.tell_phase(Phase::Drain, now_ns);
        }
        let deadline_ns = self.engine.clock.now_ns().saturating_add(to_ns(self.engine.settings.drain));
        while self.engine.is_anybody_working() && self.engine.clock.now_ns() < deadline_ns {
            if self.stop.is_requested() {
                return self.finish_stopped();
            }
            self.nap();
        }
        self.cut();
    }

    /// Gives events in flight at an unplanned end the grace period.
    pub(super) fn finish_stopped(&self) {
        let deadline_ns = self.engine.clock.now_ns() + GRACE_NS;
        while self.engine.is_anybody_working()
            && self.stop.level() < StopLevel::Now
            && self.engine.clock.now_ns() < deadline_ns
        {
            self.nap();
        }
        self.cut();
    }

    /// Cuts the connections of workers that have not returned, and waits for them once more.
    fn cut(&self) {
        if !self.engine.is_anybody_working() {
            return;
        }
        self.engine.abandon();
        let deadline_ns = self.engine.clock.now_ns() + CUT_NS;
        while self.engine.is_anybody_working() && self.engine.clock.now_ns() < deadline_ns {
            self.nap();
        }
    }

    fn nap(&self) {
        self.engine.clock.sleep_until_ns(self.engine.clock.now_ns() + 1_000_000);
    }
}
