//! The open loop: events are due at the schedule's times, however slowly the server answers.
//!
//! A free worker takes the next slot by one atomic add and sleeps until it is due. When all workers are busy,
//! slots fall due and wait: the queue is the difference of two integers, so it cannot overflow.

use record::load::{LatePolicy, Loop};

use crate::engine::Engine;
use crate::engine::ledger::Started;
use crate::engine::loops::worker::Worker;
use crate::schedule::clock::{NEVER_NS, to_ns};
use crate::schedule::taken::Taken;

/// Takes and does events until none is left or the run ends.
pub(crate) fn work(worker: &mut Worker) {
    let engine = std::sync::Arc::clone(&worker.engine);
    let late = LateRule::of(&engine.settings.pace);
    while worker.is_ready() {
        let Some((mut taken, claim_ns)) = take(worker) else { return };
        if claim_ns.saturating_sub(taken.due_ns) > late.skip_from_ns {
            worker.ledger.skip(worker.index, &taken);
            continue;
        }
        let (first_claim_ns, is_late) = (claim_ns, claim_ns > taken.due_ns);
        // A paced event may not start before its turn. To the event this is the same as waiting for a free
        // worker.
        let mut claim_ns = if is_late { late.turn_ns(claim_ns, &engine) } else { claim_ns };
        let waits = taken.due_ns > claim_ns || (is_late && late.is_paced());
        // An event that is already due starts with the stamp of its taking: nothing happens in between.
        let start = if waits { wait(worker, &mut taken, &mut claim_ns) } else { Start::At(claim_ns) };
        match start {
            Start::At(start_ns) => {
                // A rate change may have moved the due time.
                let found_no_worker = first_claim_ns > taken.due_ns;
                worker.perform(&Started { taken, claim_ns, start_ns, found_no_worker });
                if worker.is_over() {
                    return;
                }
            }
            Start::NotInThisPhase => {}
            Start::Never => return,
        }
    }
}

/// Start of an event.
enum Start {
    At(u64),
    /// The measured phase ends before the event is due, and another phase follows.
    NotInThisPhase,
    Never,
}

/// Waits until the event may start, at its due time or later at `claim_ns`; both may change meanwhile.
fn wait(worker: &mut Worker, taken: &mut Taken, claim_ns: &mut u64) -> Start {
    loop {
        let is_due_ever = taken.due_ns != NEVER_NS;
        let until_ns = if is_due_ever { taken.due_ns.max(*claim_ns) } else { worker.engine.end_ns() };
        let Some(now_ns) = worker.wait_a_slice(until_ns) else { return Start::Never };
        if let Some(again) = worker.ledger.take_again(taken, worker.index, worker.index) {
            *taken = again;
        } else if !worker.is_connected() {
            // The server has closed the idle connection. The time until there is another connection counts as
            // wait.
            if !worker.is_ready() {
                return Start::Never;
            }
            *claim_ns = worker.engine.clock.now_ns().max(*claim_ns);
        } else if now_ns >= until_ns {
            return if is_due_ever { Start::At(now_ns) } else { Start::NotInThisPhase };
        }
    }
}

/// Handling of an event that is taken after it was due.
pub(crate) struct LateRule {
    /// An event that is later than this is skipped.
    pub(crate) skip_from_ns: u64,
    /// The maximum rate of late events, as a multiple of the offered rate; `None`: they start at once.
    pace: Option<f64>,
}

impl LateRule {
    /// The rule for a load. In a closed loop no event is late.
    pub(crate) fn of(pace: &Loop) -> Self {
        let (skip_from_ns, pace) = match pace.as_open().map_or(LatePolicy::Queue, |open| open.late) {
            LatePolicy::Skip { limit } => (to_ns(limit), None),
            LatePolicy::Drop => (0, None),
            LatePolicy::Pace { times } => (u64::MAX, Some(times)),
            LatePolicy::Queue => (u64::MAX, None),
        };
        Self { skip_from_ns, pace }
    }

    /// Whether late events wait for their turn.
    fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    pub(crate) fn turn_ns(&self, claim_ns: u64, engine: &Engine) -> u64 {
        let Some((times, per_s)) = self.pace.zip(engine.rate_per_s()) else { return claim_ns };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a gap, over 0")]
        let gap_ns = (1e9 / (times * per_s)).round() as u64;
        engine.turn_ns(claim_ns, gap_ns)
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
