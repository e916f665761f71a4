//! The closed loop: the next event starts when the last one ends, or a think time later.
//!
//! A closed loop has no intended starts, so it has no response time: it cannot tell what users would wait at
//! a given rate.

use record::load::Think;

use crate::engine::ledger::Started;
use crate::engine::loops::worker::Worker;
use crate::schedule::clock::to_ns;
use crate::schedule::random::Random;
use crate::schedule::taken::Taken;

/// Separates the random stream of think times from all others.
const THINK_SALT: u64 = 0x0074_6869_6e6b;

/// Does events one after another until the run ends.
pub(crate) fn work(worker: &mut Worker) {
    let engine = std::sync::Arc::clone(&worker.engine);
    let think = engine.settings.pace.think();
    let mut chance =
        Random::of(engine.settings.event_seed() ^ THINK_SALT, engine.share.number(worker.index as u64));
    // Real users are not in step: with think times, the first events are spread over one think time. If the
    // load rises, workers join one after another.
    let joins_ns = engine.timeline().start_ns + engine.share_ns(engine.settings.ramp_up, worker.index);
    let first_ns = joins_ns + spread_ns(think, &mut chance);
    if worker.wait_until(first_ns).is_none() {
        return;
    }
    // If the load falls, workers leave one after another. Computed once, not for each event.
    let leaves_after_ns = engine.share_ns(engine.settings.ramp_down, worker.index);
    while worker.is_ready_for_a_turn() {
        let Some((taken, now_ns)) = take(worker, leaves_after_ns) else { return };
        worker.perform(&Started { taken, claim_ns: now_ns, start_ns: now_ns, found_no_worker: false });
        if worker.is_over() {
            return;
        }
        if think != Think::None {
            let rest_ns = rest_ns(think, &mut chance);
            if worker.wait_until(engine.clock.now_ns() + rest_ns).is_none() {
                return;
            }
        }
    }
}

/// The think time after an event.
pub(crate) fn rest_ns(think: Think, chance: &mut Random) -> u64 {
    match think {
        Think::None => 0,
        Think::Constant(time) => to_ns(time),
        Think::Exponential(mean) => part_ns(mean, -(1.0 - chance.unit()).ln()),
    }
}

/// The delay of a worker's first event, as if the worker were in the middle of a think time.
pub(crate) fn spread_ns(think: Think, chance: &mut Random) -> u64 {
    match think {
        Think::Constant(time) => part_ns(time, chance.unit()),
        // The rest of an exponential time is distributed as a whole one.
        _ => rest_ns(think, chance),
    }
}

fn part_ns(of: std::time::Duration, times: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 37 times a time, from 0 on"
    )]
    let ns = (of.as_secs_f64() * times * 1e9) as u64;
    ns
}

fn take(worker: &mut Worker, leaves_after_ns: u64) -> Option<(Taken, u64)> {
    let now_ns = worker.engine.clock.now_ns();
    let leaves_ns = worker.engine.end_ns() + leaves_after_ns;
    if now_ns >= leaves_ns.min(worker.engine.closes_ns()) {
        return None;
    }
    let taken = worker.ledger.take_closed(worker.index, now_ns)?;
    Some((taken, now_ns))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rests_have_the_mean_that_was_asked_for() {
        let mut chance = Random::of(1, 1);
        let mean = Duration::from_millis(10);
        assert_eq!(rest_ns(Think::Constant(mean), &mut chance), 10_000_000);
        let rests: Vec<f64> =
            (0..10_000).map(|_| rest_ns(Think::Exponential(mean), &mut chance) as f64).collect();
        let found = rests.iter().sum::<f64>() / 1e4;
        // The mean of 10,000 is known to 1 %.
        assert!((found / 1e7 - 1.0).abs() < 0.04, "{found}");
        assert!((0..1_000).all(|_| spread_ns(Think::Constant(mean), &mut chance) < 10_000_000));
    }
}
