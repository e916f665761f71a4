//! A generator that is stopped while it waits for answers: no stamp of an event says so.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::judge::verdict;

/// A server that takes 10 ms, under a generator that is stopped at `at_ns` for `stop_ns`.
fn stopped(at_ns: u64, stop_ns: u64) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) {
    let was_stopped = AtomicBool::new(false);
    move |scene| {
        let is_stopped = scene.now_ns + 10 * MS > at_ns && !was_stopped.swap(true, Ordering::SeqCst);
        if is_stopped {
            let from_ns = scene.now_ns + 5 * MS;
            scene.engine.stops.wake(Some((from_ns, from_ns + stop_ns)));
        }
        (10 * MS + if is_stopped { stop_ns } else { 0 }, Ok(()))
    }
}

#[test]
fn a_stop_of_the_generator_in_an_open_loop_is_not_the_servers() {
    let load = || settings(Loop::open(60.0), 30);
    let record = simulate(load(), stopped(10 * SECOND, SECOND));
    assert!(record.counts.balance() && record.counts.done == record.counts.planned, "{:?}", record.counts);
    let response = record.response.as_ref().unwrap().merged();
    assert!(response.quantile_ns(0.99) > Some(400 * MS), "the events that were due meanwhile waited");
    // All of it is the generator's: the stop, and the wait for the events that it held up.
    let server_part = record.server_part.as_ref().unwrap();
    assert_eq!(server_part.count(), response.count());
    assert_near(server_part.quantile_ns(1.0), 10 * MS);
    for name in ["p99", "p99_9", "max"] {
        assert!(record.generator_made.contains(&name), "{:?}", record.generator_made);
    }
    assert!(!check(&record, "lateness"), "{:?}", record.verdict);
    // The same stall of the server is the server's.
    let record = simulate(load(), stalls(10 * SECOND, SECOND));
    assert!(record.generator_made.is_empty() && check(&record, "lateness"), "{:?}", record.verdict);
    // A stop that the p99 does not show: one event in 1,800, and six that it held up.
    let record = simulate(load(), stopped(10 * SECOND, 50 * MS));
    assert!(check(&record, "lateness"), "{:?}", record.verdict);
    assert!(record.generator_made.contains(&"max") && !record.generator_made.contains(&"p99"));
}

#[test]
fn what_an_event_that_never_ended_waited_for_the_generator_is_not_the_servers() {
    let settings = LoadSettings { drain: Duration::ZERO, ..settings(Loop::open(60.0), 3) };
    let record = simulate(settings, stopped(2 * SECOND, 10 * SECOND));
    assert!(record.counts.unfinished > 50, "{:?}", record.counts);
    let (response, server_part) = (record.response.as_ref().unwrap().merged(), record.server_part.unwrap());
    assert_eq!(server_part.count(), response.count());
    assert!(record.generator_made.contains(&"max"), "{:?}", record.generator_made);
}

#[test]
fn pauses_that_explain_what_is_missing_come_before_the_rate() {
    let settings = LoadSettings {
        pace: Loop::Open(OpenLoop { late: LatePolicy::Drop, ..OpenLoop::plain(60.0) }),
        ..settings(Loop::open(60.0), 30)
    };
    for (paused_s, skipped, is_named) in
        [(1.0, 60, true), (1.0, 90, true), (1.0, 200, false), (0.0, 60, false)]
    {
        let counts = Counts { planned: 1_800, done: 1_800 - skipped, skipped, ..Counts::default() };
        let findings = Findings { paused_s, ..super::end::findings(&settings, &counts, 60.0) };
        let checks = verdict::checks(&findings);
        let found = checks.iter().find(|check| check.name == "client-paused");
        assert_eq!(found.is_some_and(|check| !check.ok), is_named, "{paused_s} s, {skipped}: {found:?}");
    }
    // Nothing is missing: the latencies are judged event by event.
    let counts = Counts { planned: 1_800, done: 1_800, ..Counts::default() };
    let findings = Findings { paused_s: 1.0, ..super::end::findings(&settings, &counts, 60.0) };
    assert!(verdict::checks(&findings).iter().all(|check| check.name != "client-paused"));
}
