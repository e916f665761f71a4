//! The rate of a closed loop if the ends of the phase cut events.

use record::load::Think;

use super::*;
use crate::schedule::random::Random;

const CONNECTIONS: [u32; 3] = [1, 8, 1_000];

fn closed(connections: u32, warmup: Duration, time: Duration) -> LoadSettings {
    LoadSettings { threads: connections, warmup, time, ..settings(Loop::CLOSED, 1) }
}

/// Plays a closed loop with constant service times, none of which ends with the phase.
fn check_rate(connections: u32, service_ns: u64, warmup_ns: u64, time_ns: u64) {
    let (warmup, time) = (Duration::from_nanos(warmup_ns), Duration::from_nanos(time_ns));
    let record = simulate(closed(connections, warmup, time), move |_| (service_ns, Ok(())));
    let truth = f64::from(connections) * 1e9 / service_ns as f64;
    let about = format!(
        "{connections} connections, {service_ns} ns, {time_ns} ns after {warmup_ns} ns: {}/s",
        record.achieved_per_s
    );
    let is_long_enough = service_ns <= time_ns;
    assert_eq!(check(&record, "phase-length"), is_long_enough, "{about}");
    assert_eq!(record.verdict.state == Validity::Valid, is_long_enough, "{about}");
    if is_long_enough {
        let n = truth * time.as_secs_f64();
        assert!((record.achieved_per_s / truth - 1.0).abs() <= 1.0 / n + 1e-9, "{about}");
    }
    assert!(record.counts.balance(), "{about}: {:?}", record.counts);
}

#[test]
fn the_rate_is_within_one_event_of_the_truth_wherever_the_phase_begins_and_ends() {
    for service_ns in [10_300_000, 500 * MS, SECOND] {
        for time_ms in [300, 1_500, 10_000] {
            for warmup_ns in [0, 200 * MS, 733_300_000, 2_000 * MS] {
                for connections in CONNECTIONS {
                    // Many events take a while.
                    let events = u64::from(connections) * (warmup_ns + time_ms * MS) / service_ns;
                    let is_quick = connections < 1_000 || warmup_ns == 733_300_000;
                    if events <= 400_000 && is_quick {
                        check_rate(connections, service_ns, warmup_ns, time_ms * MS);
                    }
                }
            }
        }
    }
    for (connections, warmup_ns) in [(1, 0), (8, 33_330), (8, 733_300), (1_000, 0), (1_000, 33_330)] {
        check_rate(connections, 1_003, warmup_ns, 300_000);
    }
}

/// A service of two modes: nine in ten take 20 ms, one takes 820 ms; 100 ms on average.
fn of_two_modes(scene: &Scene<'_>) -> (u64, Result<(), FailureClass>) {
    let is_long = Random::of(scene.chance, scene.now_ns).below(10) == 0;
    (if is_long { 820 * MS } else { 20 * MS }, Ok(()))
}

#[test]
fn a_tail_that_reaches_over_both_ends_biases_neither_rate_nor_service_time() {
    // Warmed up: each connection is in the middle of an event when the phase begins, most in a long one.
    let record = simulate(closed(4_000, Duration::from_secs(20), Duration::from_millis(1_300)), of_two_modes);
    // 52,000 events of mean 100 ms and standard deviation 240 ms: the rate is known to about 1 %.
    let truth = 4_000.0 / 0.1;
    assert!((record.achieved_per_s / truth - 1.0).abs() < 0.04, "{}/s", record.achieved_per_s);
    let service = record.service.summary().unwrap();
    assert!((service.mean_ns / 100e6 - 1.0).abs() < 0.04, "{service:?}");
    let long = 1.0 - record.service.merged().count_at_or_below(21 * MS) as f64 / service.count as f64;
    assert!((long / 0.1 - 1.0).abs() < 0.06, "a tenth of the events is long: {long}");
    // By the events that both begin and end in the phase, the rate would be 8 % too low.
    assert!((record.service.known.count() as f64 / 1.3) < 0.95 * truth);
}

#[test]
fn a_phase_that_begins_with_its_connections_has_no_rate_if_services_vary() {
    let phase = Duration::from_millis(1_300);
    for (connections, warmup_ms, ok) in [(400, 0, false), (8, 50, false), (400, 2_000, true)] {
        let record = simulate(closed(connections, Duration::from_millis(warmup_ms), phase), of_two_modes);
        assert_eq!(
            check(&record, "phase-length"),
            ok,
            "{connections} after {warmup_ms} ms: {:?}",
            record.verdict
        );
    }
    // Constant but for a few percent: the rate is wrong by less than an event.
    let alike = |scene: &Scene<'_>| (100 * MS + Random::of(scene.chance, 0).below(20) * MS, Ok(()));
    assert!(check(&simulate(closed(8, Duration::ZERO, phase), alike), "phase-length"));
}

/// Five in a hundred events take 2 s, the others 20 ms; 119 ms on average.
fn with_a_long_tail(scene: &Scene<'_>) -> (u64, Result<(), FailureClass>) {
    let is_long = Random::of(scene.chance, scene.now_ns).below(20) == 0;
    (if is_long { 2_000 * MS } else { 20 * MS }, Ok(()))
}

#[test]
fn a_warm_up_or_think_time_longer_than_the_mean_event_is_not_enough_for_a_tail() {
    let of = |warmup_ms, time_ms, think_ms| {
        let mut settings = closed(16, Duration::from_millis(warmup_ms), Duration::from_millis(time_ms));
        if think_ms > 0 {
            settings.pace = Loop::Closed { think: Think::Constant(Duration::from_millis(think_ms)) };
        }
        simulate(settings, with_a_long_tail)
    };
    for (warmup_ms, think_ms) in [(200, 0), (0, 1), (1_000, 0)] {
        let record = of(warmup_ms, 2_000, think_ms);
        assert!(!check(&record, "phase-length"), "{warmup_ms} {think_ms}: {:?}", record.verdict);
    }
    let record = of(8_000, 25_000, 0);
    assert!(check(&record, "phase-length"), "{:?}", record.verdict);
    assert!((record.achieved_per_s / (16.0 / 0.119) - 1.0).abs() < 0.2, "{}", record.achieved_per_s);
}

/// A server with exponential service times, of mean 100 ms.
fn exponential(scene: &Scene<'_>) -> (u64, Result<(), FailureClass>) {
    let unit = Random::of(scene.chance, scene.now_ns).below(1 << 30) as f64 / f64::from(1 << 30);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds at most")]
    let took_ns = (-(1.0 - unit).ln() * 1e8) as u64;
    (took_ns, Ok(()))
}

#[test]
fn a_common_start_makes_the_rate_too_high_by_half_an_event_a_connection_and_the_check_knows_how_much() {
    let record = simulate(closed(1_000, Duration::ZERO, Duration::from_secs(1)), exponential);
    // The truth is 10,000/s. 1,000 cut events are credited with half an event each.
    assert!((record.achieved_per_s / 10_500.0 - 1.0).abs() < 0.03, "{}/s", record.achieved_per_s);
    let found = record.verdict.checks.iter().find(|c| c.name == "phase-length").unwrap();
    assert!(!found.ok && (found.found / 500.0 - 1.0).abs() < 0.1, "{}", found.text);
}

#[test]
fn completions_rate_and_intervals_are_of_the_same_events() {
    let warmed = closed(8, Duration::from_millis(700), Duration::from_millis(5_300));
    let record = simulate(warmed, |_| (500 * MS, Ok(())));
    // Begun at 0.5 s and ended at 1 s, in the phase: done; 10 or 11 of each connection are.
    assert_eq!((record.counts.done, record.counts.unfinished, record.counts.planned), (80, 8, 88));
    assert!((record.achieved_per_s - 16.0).abs() < 1e-6, "{}/s", record.achieved_per_s);
    assert_eq!(record.backlog_after_warmup, 8);
    assert_eq!(record.service.known.count(), 72, "service times are of events that began in the phase");
    assert_eq!(record.service.at_least.count(), 8);
}

#[test]
fn a_number_of_events_counts_those_that_begin_in_the_phase() {
    let settings = LoadSettings {
        events_max: Some(20),
        ..closed(4, Duration::from_millis(300), Duration::from_mins(1))
    };
    let record = simulate(settings, |_| (200 * MS, Ok(())));
    assert_eq!((record.counts.planned, record.counts.done, record.counts.unfinished), (20, 20, 0));
}

#[test]
fn an_event_that_never_ends_leaves_the_rate_unknown() {
    // The second connection hangs in its second event: how many events its last 2.5 s hold is not known.
    let calls = AtomicU64::new(0);
    let serve = move |scene: &Scene<'_>| {
        if calls.fetch_add(1, Ordering::SeqCst) == 7 {
            scene.engine.abandon();
            return (0, Err(FailureClass::Connection));
        }
        (500 * MS, Ok(()))
    };
    let settings = closed(2, Duration::ZERO, Duration::from_secs(3));
    let record = simulate_with_outage(settings, 500 * MS..u64::MAX, Box::new(serve));
    assert_eq!((record.counts.planned, record.counts.done, record.counts.unfinished), (8, 6, 2));
    assert!(!check(&record, "phase-length"), "{:?}", record.verdict);
}

#[test]
fn an_event_that_times_out_is_in_the_series_and_holds_its_connection() {
    // One event in 200 gets no answer for a second; the others take 10 ms.
    let settings =
        LoadSettings { errors_ratio_max: 0.05, ..closed(8, Duration::from_secs(2), Duration::from_secs(10)) };
    let record = simulate(settings, |scene| {
        if Random::of(scene.chance, scene.now_ns).below(200) == 0 {
            (SECOND, Err(FailureClass::Timeout))
        } else {
            (10 * MS, Ok(()))
        }
    });
    let timeouts = record.errors.timeout;
    assert!((10..60).contains(&timeouts), "{:?}", record.errors);
    let in_series: u64 = record
        .slices
        .iter()
        .filter(|s| s.kind == LatencyKind::ServiceAtLeast)
        .map(|s| s.histogram.count())
        .sum();
    assert_eq!(in_series, record.service.at_least.count());
    // A time-out that began before the phase fails in it, but is no sample of its service times.
    let in_sample = in_series - record.counts.unfinished;
    assert!(in_sample + 8 >= timeouts && in_sample <= timeouts, "{in_sample} {timeouts}");
    // 5 of 15 ms of each event's time are spent with time-outs: the rate is that of five connections.
    let stuck = record.verdict.checks.iter().find(|c| c.name == "stuck").unwrap();
    assert!(!stuck.ok && (stuck.found - 0.33).abs() < 0.12, "{stuck:?}");
    assert!(stuck.text.contains(&format!("{timeouts} events timed out")), "{stuck:?}");
}

#[test]
fn an_event_that_began_before_the_phase_is_in_the_series_of_completions() {
    let record =
        simulate(closed(8, Duration::from_millis(500), Duration::from_secs(5)), |_| (SECOND, Ok(())));
    let of = |kind| -> u64 {
        record
            .slices
            .iter()
            .filter(|s| s.kind == kind && s.operation.is_empty())
            .map(|s| s.histogram.count())
            .sum()
    };
    assert_eq!((of(LatencyKind::CarriedIn), of(LatencyKind::Service)), (8, 32));
    assert_eq!(record.counts.done, 40);
}
