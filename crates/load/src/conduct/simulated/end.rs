//! Events not over when the phase ended: in flight, never ending, forgiven, given up.

use super::*;
use crate::measure::in_system::{InSystem, Trend};

#[test]
fn an_event_in_flight_at_the_end_is_unfinished_but_kept_up() {
    let record = simulate(settings(Loop::open(10.0), 1), |_| (50 * MS, Ok(())));
    assert_eq!((record.counts.done, record.counts.unfinished), (10, 0));
    // Now the last one, due at 0.9 s, ends at 1.05 s.
    let record = simulate(settings(Loop::open(10.0), 1), |scene| {
        (if scene.now_ns == 900 * MS { 150 * MS } else { MS }, Ok(()))
    });
    assert_eq!((record.counts.done, record.counts.unfinished), (9, 1));
    assert!(check(&record, "achieved-rate"));
    assert_near(record.response.as_ref().unwrap().at_least.quantile_ns(1.0), 150 * MS);
    // It was begun in time: its service is known from below, and it did not wait for a worker.
    assert_near(record.service.at_least.quantile_ns(1.0), 150 * MS);
    assert_near(record.operations["serve"].service.at_least.quantile_ns(1.0), 150 * MS);
    let wait = record.wait.as_ref().unwrap();
    assert_eq!((wait.known.count(), wait.at_least.count()), (10, 0));
    assert_eq!(
        record.service.summary().unwrap().lower_bounds,
        ["p95", "p99", "p99_9", "p99_99", "mean", "max"]
    );
}

#[test]
fn an_event_that_fails_after_the_phase_may_have_been_in_any_operation() {
    for pace in [Loop::open(10.0), Loop::CLOSED] {
        let record = simulate(settings(pace, 1), |scene| match scene.now_ns {
            ..900_000_000 => (100 * MS, Ok(())),
            _ => (150 * MS, Err(FailureClass::Application)),
        });
        assert_eq!((record.counts.done, record.counts.unfinished), (9, 1));
        let operation = &record.operations["serve"];
        assert_eq!((operation.service.at_least.count(), operation.in_flight), (0, 1));
        let bounds = record.service.summary().unwrap().lower_bounds;
        assert_eq!(operation.summary().unwrap().lower_bounds, bounds);
        assert!(bounds.contains(&"p95"), "{bounds:?}");
    }
}

#[test]
fn an_event_that_never_ends_raises_what_is_said_of_service_wait_and_operations() {
    let hang = |scene: &Scene<'_>| match scene.now_ns {
        ..SECOND => (MS, Ok(())),
        // Its connection breaks, and the run is given up during the retry.
        SECOND => (300 * MS, Err(FailureClass::Connection)),
        _ => {
            scene.engine.end_now();
            scene.engine.abandon();
            (200 * MS, Err(FailureClass::Connection))
        }
    };
    for (pace, done, unfinished) in [(Loop::open(100.0), 100, 30), (Loop::CLOSED, 1_000, 1)] {
        let record = simulate(settings(pace, 10), hang);
        assert_eq!((record.counts.done, record.counts.unfinished), (done, unfinished));
        assert_eq!((record.service.known.count(), record.service.at_least.count()), (done, 1));
        // Its service is that of the try on its newest connection; the time before is wait.
        assert_near(record.service.at_least.quantile_ns(1.0), 200 * MS);
        let bounds = record.service.summary().unwrap().lower_bounds;
        assert!(bounds.contains(&"max") && !bounds.contains(&"p50"), "{bounds:?}");
        // The operation in which it hangs is unknown.
        let operation = &record.operations["serve"];
        assert_eq!((operation.service.at_least.count(), operation.in_flight), (0, 1));
        assert_eq!(operation.summary().unwrap().lower_bounds, bounds);
        if let Ok(wait) = &record.wait {
            // It had a worker at once; those due after it had none until the end.
            assert_eq!((wait.known.count(), wait.at_least.count()), (done + 1, 29));
            assert_near(wait.at_least.quantile_ns(1.0), 290 * MS);
        }
    }
}

#[test]
fn what_a_phase_with_its_server_away_waits_for_ends() {
    let mut absence = Absence::default();
    assert!(!absence.is_too_long(true, 5 * SECOND));
    assert!(!absence.is_too_long(true, 64 * SECOND));
    assert!(!absence.is_too_long(false, 65 * SECOND), "it came back");
    assert!(!absence.is_too_long(true, 66 * SECOND));
    assert!(absence.is_too_long(true, 126 * SECOND));
}

/// An open loop of these events at a rate, in which all else is well.
pub(super) fn findings<'a>(settings: &'a LoadSettings, counts: &'a Counts, per_s: f64) -> Findings<'a> {
    Findings {
        settings,
        rate_per_s: Some(per_s),
        counts,
        achieved_per_s: counts.done as f64 * per_s / counts.planned as f64,
        in_system: None,
        paused_s: 0.0,
        service_count: counts.done,
        never_ended: 0,
        timeouts: 0,
        held_s: 0.0,
        lost_s: 0.0,
        closed_s: 0.0,
        open_sockets: Err(Missing::because("simulated")),
        recount: None,
        measured_s: counts.planned as f64 / per_s,
        schedule_events: Some(counts.planned as f64),
        hung: 0,
        drained: 0,
        lateness: None,
        delayed: None,
        in_system_mean_ns: None,
        in_system_spread_ratio: 0.0,
        service_spread_ratio: 0.0,
        service_longest_s: 0.0,
        cut_s: 0.0,
        starved_ratio: None,
        may_have_loops: false,
        waits_for_server: true,
        connection_errors: 0,
        away: None,
        hosts: &[],
        preemptions: 0,
        busiest_ratio: Some(0.0),
        share: None,
        operations: &[],
    }
}

#[test]
fn events_in_flight_are_forgiven_as_many_as_the_latency_explains() {
    let settings = settings(Loop::open(10.0), 2);
    // Rate, planned, done, ended after the phase, mean latency, median number in flight in both end quarters.
    for (per_s, planned, done, drained, mean_ms, quarters, ok) in [
        (10.0, 20, 1, 19, 1_900.0, None, false),
        (100.0, 300, 176, 124, 0.2, None, false),
        (1_000.0, 10_000, 9_900, 100, 1.0, None, false),
        (10.0, 10, 9, 1, 1.0, None, true),
        (10.0, 600, 590, 10, 1_000.0, None, true),
        (10.0, 600, 590, 0, 1_000.0, None, false),
        (10.0, 600, 590, 10, 1_000.0, Some((9.0, 10.0)), true),
        // A minute at 99.8 % of the rate, after which the drain soon ends the backlog.
        (500.0, 30_000, 29_940, 60, 60.0, Some((7.0, 52.0)), false),
        (100.0, 6_000, 5_988, 12, 60.0, Some((1.0, 10.0)), false),
        (500.0, 1_500, 1_492, 8, 8.0, Some((1.0, 7.0)), false),
        // The same in a target with fifty events in progress, and beside a backlog of the warm-up.
        (500.0, 30_000, 29_890, 110, 160.0, Some((57.0, 102.0)), false),
        (500.0, 5_000, 4_844, 156, 238.0, Some((88.0, 146.0)), false),
        // A stall of 4 ms at the end, of 1 s, and one of 10 s to nine tenths of the rate.
        (500.0, 1_500, 1_496, 4, 0.4, Some((0.0, 0.0)), true),
        (500.0, 30_000, 29_500, 500, 9.0, Some((0.0, 0.0)), false),
        (500.0, 30_000, 29_500, 500, 170.0, Some((0.0, 167.0)), false),
        // Ten events in progress by chance, where five are usual: once with a stall that was made up for.
        (500.0, 1_500, 1_490, 10, 10.0, Some((5.0, 5.0)), true),
    ] {
        let counts = Counts { planned, done, unfinished: planned - done, ..Counts::default() };
        let findings = Findings {
            in_system: quarters.map(|(first, last)| InSystem {
                mean: first,
                error: 0.0,
                looks: 1,
                trend: Some(Trend { first, last }),
            }),
            drained,
            in_system_mean_ns: Some(mean_ms * 1e6),
            ..findings(&settings, &counts, per_s)
        };
        let checks = crate::judge::verdict::checks(&findings);
        let found = checks.iter().find(|c| c.name == "achieved-rate").unwrap();
        assert_eq!(found.ok, ok, "{}", found.text);
    }
}

/// The counts of a run with one stall of 20 ms, which fell between two of them, and of one without a stall
/// and with latencies that are stamped too short.
#[test]
fn a_stall_that_no_count_saw_does_not_contradict_the_latencies() {
    let settings = settings(Loop::open(20_000.0), 2);
    let counts = Counts { planned: 100_000, done: 100_000, ..Counts::default() };
    // Mean latency, coefficient of variation, mean count; whether it is judged, and valid.
    for (mean_us, spread_ratio, mean, is_judged, ok) in [
        (142.5, 5.1, 2.1145, false, true),
        (142.5, 0.25, 2.1145, true, false),
        (80.0, 0.25, 2.1145, true, false),
        (142.5, 0.25, 2.8, true, true),
    ] {
        let findings = Findings {
            in_system: Some(InSystem { mean, error: 0.0775, looks: 104, trend: None }),
            in_system_mean_ns: Some(mean_us * 1e3),
            in_system_spread_ratio: spread_ratio,
            ..findings(&settings, &counts, 20_000.0)
        };
        let checks = crate::judge::verdict::checks(&findings);
        let found = checks.iter().find(|c| c.name == "littles-law").unwrap();
        assert_eq!((!found.text.contains("not judged"), found.ok), (is_judged, ok), "{}", found.text);
    }
}

#[test]
fn the_share_of_events_that_ended_in_the_phase_leaves_out_those_in_flight() {
    // Of 20 events, the last begins 100 ms before the end of the phase and takes 150 ms.
    let record = simulate(settings(Loop::open(10.0), 2), |scene| {
        (if scene.now_ns < 1_900 * MS { MS } else { 150 * MS }, Ok(()))
    });
    assert_eq!((record.counts.planned, record.counts.done), (20, 19));
    let said = record.verdict.checks.iter().find(|c| c.name == "achieved-rate").unwrap();
    assert!(said.ok && said.found > 0.999, "{}", said.text);
    let share = "95.00 % of the events due in the phase ended in it, 100.00 % including 1 in flight at its end, 99.90 % needed";
    assert!(said.text.ends_with(share), "{}", said.text);
}

#[test]
fn a_server_that_hangs_is_told_from_one_that_is_slow() {
    let slow = simulate(settings(Loop::open(100.0), 2), |_| (20 * MS, Ok(())));
    assert!(slow.verdict.checks.iter().all(|c| c.name != "stuck"), "{:?}", slow.verdict);
    // It stops for good after a second.
    let hung = simulate(settings(Loop::open(100.0), 2), |scene| {
        if scene.now_ns < SECOND {
            return (MS, Ok(()));
        }
        scene.engine.abandon();
        (6 * SECOND, Err(FailureClass::Connection))
    });
    assert!(!check(&hung, "achieved-rate") && !check(&hung, "stuck"), "{:?}", hung.verdict);
}

#[test]
fn a_rate_that_the_phase_is_too_short_for_is_not_judged_valid() {
    let ramp = Arrivals::parse("ramp:0-0.0001").unwrap();
    let burst = Arrivals::parse("burst:5-100@1s/10s").unwrap();
    let shaped = |arrivals| Loop::Open(OpenLoop { arrivals, ..OpenLoop::plain(14.5) });
    for (pace, events_max, needed) in [
        (Loop::open(0.001), None, Some("use --time 10000s")),
        (Loop::open(1.0 / 3_600.0), Some(1), Some("use --time 36000s and more --events")),
        (shaped(ramp), None, Some("use --time 200000s")),
        (shaped(burst), Some(30), Some("due long before the end; use --events 100")),
        (Loop::open(1.0), Some(1), None),
        (Loop::open(10.0), None, None),
    ] {
        let record = simulate(LoadSettings { events_max, ..settings(pace, 1) }, |_| (0, Ok(())));
        let said = record.verdict.checks.iter().find(|c| c.name == "offered-rate");
        assert_eq!(said.is_none(), needed.is_none(), "{said:?}");
        assert!(needed.is_none() || record.verdict.state == Validity::Invalid, "{:?}", record.verdict);
        assert!(needed.is_none_or(|needed| said.unwrap().text.ends_with(needed)), "{said:?}");
    }
}

#[test]
fn a_stop_counts_what_was_due_until_then() {
    let record = simulate(settings(Loop::open(100.0), 10), |scene| {
        if scene.now_ns >= 3 * SECOND {
            scene.engine.end_now();
        }
        (MS, Ok(()))
    });
    let counts = record.counts;
    // The event that is due at 3 s is in flight, and due after the end.
    assert_eq!((counts.planned, counts.done, counts.unfinished), (300, 300, 0));
    assert_eq!(record.measured, Duration::from_secs(3));
}
