//! The open loop: events are due when the schedule says, not when the server lets them be.
//!
//! A free worker takes the next slot by one atomic add and sleeps until it is due. When all are busy, slots fall due
//! and wait: the queue is the distance between two integers, and it cannot overflow.

use record::load::{LatePolicy, LoadSettings, Rate};

use crate::engine::{Taken, to_ns};
use crate::ledger::Started;
use crate::worker::Worker;

/// Takes and does events until none is left or the run ends.
pub(crate) fn work(worker: &mut Worker) {
    let engine = std::sync::Arc::clone(&worker.engine);
    let late = Late::of(&engine.settings);
    while worker.is_ready() {
        let Some((taken, claim_ns)) = take(worker) else { return };
        if claim_ns.saturating_sub(taken.due_ns) > late.skip_from_ns {
            worker.ledger.skip(worker.index, &taken);
            continue;
        }
        let is_late = claim_ns > taken.due_ns;
        // Nobody starts it before its turn: to the event that is as if no worker were free.
        let claim_ns = if is_late { late.turn_ns(claim_ns, &engine) } else { claim_ns };
        let from_ns = claim_ns.max(taken.due_ns);
        let waits = from_ns > claim_ns || (is_late && late.gap_ns.is_some());
        // An event that is due already starts with the stamp of its taking: nothing lies between.
        let start_ns = if waits { worker.wait_until(from_ns) } else { Some(claim_ns) };
        let Some(start_ns) = start_ns else { return };
        worker.perform(&Started { taken, claim_ns, start_ns });
    }
}

/// What happens to an event that is taken after it was due.
pub(crate) struct Late {
    /// It is not done where it is later than this.
    pub(crate) skip_from_ns: u64,
    /// Between the starts of late events; `None`: they start at once.
    gap_ns: Option<u64>,
}

impl Late {
    pub(crate) fn of(settings: &LoadSettings) -> Self {
        let (skip_from_ns, gap_ns) = match (settings.late, settings.rate) {
            (LatePolicy::Skip { limit }, _) => (to_ns(limit), None),
            (LatePolicy::Drop, _) => (0, None),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a gap, over 0")]
            (LatePolicy::Pace { times }, Rate::PerSecond(per_s)) => {
                (u64::MAX, Some((1e9 / (times * per_s)).round() as u64))
            }
            (LatePolicy::Queue | LatePolicy::Pace { .. }, _) => (u64::MAX, None),
        };
        Self { skip_from_ns, gap_ns }
    }

    pub(crate) fn turn_ns(&self, claim_ns: u64, engine: &crate::engine::Engine) -> u64 {
        self.gap_ns.map_or(claim_ns, |gap_ns| engine.turn_ns(claim_ns, gap_ns))
    }
}

fn take(worker: &mut Worker) -> Option<(Taken, u64)> {
    loop {
        let claim_ns = worker.engine.clock.now_ns();
        if claim_ns >= worker.engine.closes_ns() {
            return None;
        }
        if claim_ns >= worker.engine.end_ns() {
            return worker.ledger.take_after(worker.index).map(|taken| (taken, claim_ns));
        }
        if let Some(taken) = worker.ledger.take_open(worker.index, worker.index) {
            return Some((taken, claim_ns));
        }
        if !worker.engine.timeline().falls() {
            return None;
        }
        worker.wait_until(worker.engine.end_ns())?;
    }
}
