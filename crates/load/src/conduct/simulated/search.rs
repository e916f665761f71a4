//! The search for a rate, on servers whose capacity is known.

use record::search::{Answer, ProbeEnd, Promise};

use super::*;
use crate::search::{Next, Room, Search, judge};

#[test]
fn the_capacity_of_a_server_is_found_within_three_percent() {
    // One worker and a fixed service time: the capacity is known.
    for (service_ns, capacity_per_s) in [(2 * MS, 500.0), (25 * MS, 40.0)] {
        let promise = Promise::parse("p99<200ms").unwrap();
        let mut search = Search::new(10.0, Room::above_floor(&promise, 30.0, 1e6));
        let answer = loop {
            match search.next() {
                Next::Done(answer) => break answer,
                Next::Probe { rate_per_s, .. } => {
                    let record =
                        simulate(settings(Rate::PerSecond(rate_per_s), 30), move |_| (service_ns, Ok(())));
                    search.note(judge(&promise, &record).0);
                }
            }
        };
        let Answer::Found { rate_per_s, .. } = answer else { panic!("{answer:?}") };
        assert!((rate_per_s / capacity_per_s - 1.0).abs() < 0.03, "{rate_per_s} of {capacity_per_s}");
    }
}

#[test]
fn a_search_blames_who_is_slow_where_a_run_fell_behind() {
    let promise = Promise::parse("mean<10ms").unwrap();
    // The worker is busy all the time, or it has time left and was kept from its CPU, or is busy with one event that does
    // not end: its service is known from below.
    for (service_ns, expected) in
        [(2 * MS, ProbeEnd::Broken), (MS / 100, ProbeEnd::Unclear), (60 * SECOND, ProbeEnd::Broken)]
    {
        let mut record = simulate(settings(Rate::PerSecond(1_000.0), 3), move |_| (service_ns, Ok(())));
        for check in &mut record.verdict.checks {
            check.ok &= !["achieved-rate", "client-starvation"].contains(&check.name);
        }
        let (end, found) = judge(&promise, &record);
        assert_eq!(end, expected, "{found}");
    }
}

#[test]
fn a_promise_that_the_generators_own_lateness_breaks_is_not_broken_by_the_target() {
    let promise = Promise::parse("p99.9<5ms").unwrap();
    // The lateness check looks at the p99, which is the server's: 20 of 10,000 events began 24 ms late.
    let mut record = simulate(settings(Rate::PerSecond(1_000.0), 10), |_| (MS / 5, Ok(())));
    let response: Histogram = [(200_000, 9_980), (24_200_000, 20)].into_iter().collect();
    record.response = Ok(response.into());
    // Nothing else is wrong with it; a simulation has no account of its threads.
    record.verdict.checks.iter_mut().for_each(|check| check.ok = true);
    record.generator_made.clear();
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Broken);
    record.generator_made = vec!["p99_9", "p99_99", "max"];
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Unclear);
    let kept = Promise::parse("p99<5ms").unwrap();
    assert_eq!(judge(&kept, &record).0, ProbeEnd::Kept);
}
