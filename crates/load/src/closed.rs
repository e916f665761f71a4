//! The closed loop: the next event starts when the last one ends, as fast as the server goes.
//!
//! It has no intended starts, and so no response time: what users would wait at a given rate it cannot tell.

use crate::engine::Taken;
use crate::ledger::Started;
use crate::worker::Worker;

/// Does events one after the other until the run ends.
pub(crate) fn work(worker: &mut Worker) {
    if worker.wait_until(worker.engine.timeline().start_ns).is_none() {
        return;
    }
    while worker.is_ready() {
        let Some((taken, now_ns)) = take(worker) else { return };
        worker.perform(&Started { taken, claim_ns: now_ns, start_ns: now_ns });
    }
}

fn take(worker: &mut Worker) -> Option<(Taken, u64)> {
    let now_ns = worker.engine.clock.now_ns();
    if now_ns >= worker.engine.end_ns() {
        return None;
    }
    let taken = worker.ledger.take_closed(worker.index, now_ns)?;
    Some((taken, now_ns))
}
