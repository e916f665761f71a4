//! The open loop: events are due when the schedule says, not when the server lets them be.
//!
//! A free worker takes the next slot by one atomic add and sleeps until it is due. When all are busy, slots fall due
//! and wait: the queue is the distance between two integers, and it cannot overflow.

use record::load::LatePolicy;

use crate::engine::{Taken, to_ns};
use crate::ledger::Started;
use crate::worker::Worker;

/// Takes and does events until none is left or the run ends.
pub(crate) fn work(worker: &mut Worker) {
    let engine = std::sync::Arc::clone(&worker.engine);
    let skip_from_ns = match engine.settings.late {
        LatePolicy::Queue => u64::MAX,
        LatePolicy::Skip { limit } => to_ns(limit),
    };
    while worker.is_ready() {
        let Some((taken, claim_ns)) = take(worker) else { return };
        if claim_ns.saturating_sub(taken.due_ns) > skip_from_ns {
            worker.ledger.skip(worker.index, &taken);
            continue;
        }
        // An event that is due already starts with the stamp of its taking: nothing lies between.
        let start_ns = if claim_ns < taken.due_ns { worker.wait_until(taken.due_ns) } else { Some(claim_ns) };
        let Some(start_ns) = start_ns else { return };
        worker.perform(&Started { taken, claim_ns, start_ns });
    }
}

fn take(worker: &mut Worker) -> Option<(Taken, u64)> {
    let claim_ns = worker.engine.clock.now_ns();
    if claim_ns >= worker.engine.end_ns() {
        return None;
    }
    let taken = worker.ledger.take_open(worker.index, worker.index)?;
    Some((taken, claim_ns))
}
