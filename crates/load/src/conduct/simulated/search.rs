//! The search for a rate, on servers with a known capacity.

use record::search::{Answer, ProbeEnd, Promise};
use record::verdict::Check;

use super::*;
use crate::judge::search::{Next, Room, Search, judge, kept_up_per_s};
use crate::schedule::random::Random;

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
                        simulate(settings(Loop::open(rate_per_s), 30), move |_| (service_ns, Ok(())));
                    search.note(judge(&promise, &record).0);
                }
            }
        };
        let Answer::Found { rate_per_s, .. } = answer else { panic!("{answer:?}") };
        assert!((rate_per_s / capacity_per_s - 1.0).abs() < 0.03, "{rate_per_s} of {capacity_per_s}");
    }
}

#[test]
fn a_promise_that_holds_while_the_rate_is_missed_needs_a_longer_try() {
    // The floor is 100 events in a try of 1 s. At 8 % too little capacity the backlog is worth 80 ms by then.
    let promise = Promise::parse("p99<100ms").unwrap();
    let mut search = Search::new(100.0, Room::above_floor(&promise, 1.0, 1e6));
    let answer = loop {
        match search.next() {
            Next::Done(answer) => break answer,
            Next::Probe { rate_per_s, .. } => {
                let record = simulate(settings(Loop::open(rate_per_s), 1), |_| (10_800_000, Ok(())));
                let (end, found) = search.take(&promise, &record);
                assert!(
                    end == ProbeEnd::Broken && found.contains(" % of the events ended in the phase"),
                    "{found}"
                );
                let kept_up = kept_up_per_s(&record);
                assert!(kept_up < 0.999 * rate_per_s, "{kept_up} of {rate_per_s}");
            }
        }
    };
    assert_eq!(answer, Answer::TooShort { at_per_s: 100.0 });
}

#[test]
fn the_judged_rate_of_a_try_leaves_out_the_backlog_of_its_warm_up() {
    // A stall at the end of the warm-up: the phase ends its events too, and stalls before its own end.
    let warmed = LoadSettings { warmup: Duration::from_secs(1), ..settings(Loop::open(100.0), 1) };
    let record = simulate(warmed, |scene| match scene.now_ns {
        ns if (500 * MS..SECOND).contains(&ns) => (SECOND - ns, Ok(())),
        ns if (1_900 * MS..3 * SECOND).contains(&ns) => (3 * SECOND - ns, Ok(())),
        _ => (MS / 10, Ok(())),
    });
    assert!(record.achieved_per_s > 100.0, "{}/s", record.achieved_per_s);
    assert!(!check(&record, "achieved-rate") && kept_up_per_s(&record) < 99.9);
}

#[test]
fn a_search_blames_who_is_slow_where_a_run_fell_behind() {
    let promise = Promise::parse("mean<10ms").unwrap();
    // The worker is busy all the time; or it is idle at times and was kept from its CPU; or it is busy with
    // one event that does not end, with a service known from below.
    for (service_ns, expected) in
        [(2 * MS, ProbeEnd::Broken), (MS / 100, ProbeEnd::Unclear), (60 * SECOND, ProbeEnd::Broken)]
    {
        let mut record = simulate(settings(Loop::open(1_000.0), 3), move |_| (service_ns, Ok(())));
        for check in &mut record.verdict.checks {
            check.ok &= !["achieved-rate", "client-starvation"].contains(&check.name);
        }
        let (end, found) = judge(&promise, &record);
        assert_eq!(end, expected, "{found}");
    }
}

#[test]
fn a_worker_that_had_no_cpu_to_the_end_of_a_try_is_not_held_against_the_target() {
    // The kernel counts a wait for a CPU when it ends, and an event that has not begun is not late: only the
    // rate's check fails.
    let promise = Promise::parse("mean<10ms").unwrap();
    for (service_ns, expected) in [(MS / 100, ProbeEnd::Unclear), (60 * SECOND, ProbeEnd::Broken)] {
        let mut record = simulate(settings(Loop::open(1_000.0), 3), move |_| (service_ns, Ok(())));
        let response: Histogram = [(1_500 * MS, 3_000)].into_iter().collect();
        (record.server_part, record.response) = (Ok(response.clone()), Ok(response.into()));
        record.generator_made.clear();
        for check in &mut record.verdict.checks {
            check.ok = check.name != "achieved-rate";
        }
        let (end, found) = judge(&promise, &record);
        assert_eq!(end, expected, "{found}");
    }
}

#[test]
fn a_promise_that_the_generators_own_lateness_breaks_is_not_broken_by_the_target() {
    let promise = Promise::parse("p99.9<5ms").unwrap();
    // The lateness check uses the p99, which is the server's: 20 of 10,000 events began 24 ms late.
    let mut record = simulate(settings(Loop::open(1_000.0), 10), |_| (MS / 5, Ok(())));
    let response: Histogram = [(200_000, 9_980), (24_200_000, 20)].into_iter().collect();
    (record.server_part, record.response) = (Ok(response.clone()), Ok(response.into()));
    // Its other checks pass; a simulation has no account of its threads.
    record.verdict.checks.iter_mut().for_each(|check| check.ok = true);
    record.generator_made.clear();
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Broken);
    record.generator_made = vec!["p99_9", "p99_99", "max"];
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Unclear);
    let kept = Promise::parse("p99<5ms").unwrap();
    assert_eq!(judge(&kept, &record).0, ProbeEnd::Kept);
    // A percentile that no summary has is judged by the server's part.
    let promise = Promise::parse("p99.85<5ms").unwrap();
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Broken);
    record.server_part = Ok([(195_000, 9_980), (200_000, 20)].into_iter().collect());
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Unclear);
    // Late as often, but the server was slow by itself.
    record.service = [(200_000, 9_980), (24_100_000, 20)].into_iter().collect::<Histogram>().into();
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Broken);
    // Its worker waited for a CPU after the answers.
    let promise = Promise::parse("p99.9<5ms").unwrap();
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Broken);
    record.service_generator_made = vec!["p99_9"];
    assert_eq!(judge(&promise, &record).0, ProbeEnd::Unclear);
}

/// Kept, broken, limited by the generator: results of 100 tries of 5 s at 200/s, with p99<5ms, by one worker.
///
/// `service_ns` and `late_ns` return the target's service time and the worker's delay, each from a separate
/// stream.
fn ends(service_ns: fn(&mut Random) -> u64, late_ns: fn(&mut Random) -> u64) -> [u32; 3] {
    let promise = Promise::parse("p99<5ms").unwrap();
    let mut ends = [0; 3];
    for seed in 0..100 {
        let clock = Arc::new(HandClock::default());
        let late = move |number| late_ns(&mut Random::of(2 * seed, number));
        assert!(clock.late_ns.set(Box::new(late)).is_ok());
        let served = AtomicU64::new(0);
        let serve = move |_: &Scene<'_>| {
            let number = served.fetch_add(1, Ordering::SeqCst);
            (service_ns(&mut Random::of(2 * seed + 1, number)), Ok(()))
        };
        let record = play_by(&clock, settings(Loop::open(200.0), 5), 0..0, Keeping::ALL, Box::new(serve));
        ends[match judge(&promise, &record).0 {
            ProbeEnd::Kept => 0,
            ProbeEnd::Broken => 1,
            ProbeEnd::Unclear | ProbeEnd::Invalid => 2,
        }] += 1;
    }
    ends
}

/// An exponential time with mean `mean_ns`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few milliseconds, over 0")]
fn about(random: &mut Random, mean_ns: u64) -> u64 {
    (-(1.0 - random.unit()).ln() * mean_ns as f64) as u64
}

fn on_time(_: &mut Random) -> u64 {
    0
}

fn a_little_late(random: &mut Random) -> u64 {
    about(random, MS / 20)
}

fn one_in_200_late(random: &mut Random) -> u64 {
    if random.below(200) == 0 { 24 * MS } else { 0 }
}

fn one_in_30_late(random: &mut Random) -> u64 {
    if random.below(30) == 0 { 24 * MS } else { 0 }
}

fn always_late(random: &mut Random) -> u64 {
    about(random, 3 * MS)
}

#[test]
fn a_target_that_keeps_its_promise_is_not_accused_beside_a_late_generator() {
    let quick = |random: &mut Random| about(random, MS / 2);
    for late in [on_time, a_little_late, one_in_200_late, one_in_30_late, always_late] {
        let ends = ends(quick, late);
        assert_eq!(ends[1], 0, "broken by the target: {ends:?}");
    }
    assert_eq!(ends(quick, on_time), [100, 0, 0]);
    assert_eq!(ends(quick, one_in_30_late)[0], 0, "a wait of 24 ms breaks the promise");
}

#[test]
fn a_target_that_breaks_its_promise_is_not_excused_by_a_late_generator() {
    // Its p99 is 18 ms at a mean of 4 ms, and 46 ms at one of 10 ms, where it also falls behind.
    let slow = |random: &mut Random| about(random, 4 * MS);
    let too_slow = |random: &mut Random| about(random, 10 * MS);
    for late in [on_time, a_little_late, one_in_200_late, one_in_30_late, always_late] {
        assert_eq!(ends(slow, late), [0, 100, 0]);
        assert_eq!(ends(too_slow, late), [0, 100, 0]);
    }
}

#[test]
fn a_run_that_a_quota_stopped_or_whose_cache_was_not_steady_says_nothing_of_a_promise() {
    // The promise is kept, or broken, and neither is the target's doing.
    for promise in ["p99<5ms", "p99<1ms"] {
        let promise = Promise::parse(promise).unwrap();
        for name in ["throttled", "cache-steady"] {
            let mut record = simulate(settings(Loop::open(100.0), 3), |_| (2 * MS, Ok(())));
            record.verdict.checks.iter_mut().for_each(|check| check.ok = true);
            record.verdict.add(Check { name, ok: false, found: 1.0, limit: 0.0, text: "its reason".into() });
            let (end, found) = judge(&promise, &record);
            assert_eq!(end.word(), "invalid", "{name}: {found}");
            assert!(found.contains("its reason"), "{found}");
        }
    }
}

#[test]
fn a_search_of_which_every_run_is_invalid_finds_nothing() {
    let promise = Promise::parse("p99<5ms").unwrap();
    let mut search = Search::new(10.0, Room::above_floor(&promise, 30.0, 1e6));
    let mut record = simulate(settings(Loop::open(100.0), 3), |_| (2 * MS, Ok(())));
    let text = "a quota".to_owned();
    record.verdict.add(Check { name: "throttled", ok: false, found: 1.0, limit: 0.0, text });
    while let Next::Probe { .. } = search.next() {
        search.note(judge(&promise, &record).0);
    }
    let Next::Done(answer) = search.next() else { unreachable!() };
    assert_eq!(answer, Answer::GeneratorLimit { kept_per_s: None, at_per_s: 10.0 });
}
