//! Rates that vary: ramps, and changes during a run.

use super::*;

#[test]
fn a_load_that_rises_and_falls_counts_only_what_lies_between() {
    let served = Arc::new(AtomicU64::new(0));
    let rising_and_falling = |pace, late_ms: u64| {
        served.store(0, Ordering::SeqCst);
        let settings = LoadSettings {
            ramp_up: Duration::from_secs(2),
            warmup: Duration::from_secs(1),
            ramp_down: Duration::from_secs(4),
            ..settings(pace, 10)
        };
        let count = Arc::clone(&served);
        simulate(settings, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            (late_ms * MS, Ok(()))
        })
    };
    let record = rising_and_falling(Loop::open(100.0), 1);
    assert_eq!((record.counts.planned, record.counts.done, record.backlog_after_warmup), (1_000, 1_000, 0));
    // Half the rate over the ramps: 100 + 100 + 1000 + 200.
    assert_eq!(served.load(Ordering::SeqCst), 1_400);
    // In overload the backlog of the measured phase is left, and the falling load is offered all the same.
    let record = rising_and_falling(Loop::open(100.0), 50);
    assert_eq!(record.counts.planned, 1_000);
    assert!(record.counts.unfinished > 400 && record.counts.balance(), "{:?}", record.counts);
    assert!(record.backlog_after_warmup > 0);
    // A closed loop counts between the ramps as well.
    let record = rising_and_falling(Loop::CLOSED, 1);
    // One event ends as the phase begins, and so in it; the last one ends with the phase, and so not in it.
    assert_eq!((record.counts.planned, record.counts.done), (10_001, 10_000));
}

/// A server that answers at once; at `at_ns` a change of the rate is requested.
fn asks(at_ns: u64, ask: RateCommand) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) {
    let asked = std::sync::atomic::AtomicBool::new(false);
    move |scene| {
        if scene.now_ns >= at_ns && !asked.swap(true, Ordering::SeqCst) {
            scene.engine.change_rate(ask).unwrap();
        }
        (0, Ok(()))
    }
}

#[test]
fn a_change_of_the_rate_keeps_what_was_due_and_lays_out_the_rest_anew() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        let settings = settings(Loop::Open(OpenLoop { schedule, ..OpenLoop::plain(100.0) }), 10);
        for (to_per_s, expected) in [(1_000.0, 415 + 5_850), (10.0, 415 + 59), (100.0, 415 + 585)] {
            // Requested at 4 s: 100/s until 4.15 s, and the other rate from there on.
            let record = simulate(settings.clone(), asks(4 * SECOND, RateCommand::PerSecond(to_per_s)));
            assert_eq!((record.counts.planned, record.counts.done), (expected, expected), "{to_per_s}");
            assert!(record.counts.balance() && check(&record, "achieved-rate"));
            // No event was late for the change: the hand-moved clock wakes every sleeper on time.
            assert_eq!(record.response.as_ref().unwrap().known.quantile_ns(1.0), Some(0), "{to_per_s}");
        }
    }
}

#[test]
fn every_arrival_process_can_be_asked_for_another_rate() {
    for (text, halves, tenfold) in [
        ("jitter", [500, 500], 10),
        ("poisson", [500, 500], 10),
        ("ramp:0-200", [250, 750], 10),
        ("step:100,100", [500, 500], 10),
        ("burst:10-910@1s/10s", [950, 50], 10),
        ("sine:0-200@5s", [500, 500], 10),
    ] {
        let arrivals = Arrivals::parse(text).unwrap();
        let rate_per_s = arrivals.mean_per_s(Duration::from_secs(10)).unwrap_or(100.0);
        let settings = settings(Loop::Open(OpenLoop { arrivals, ..OpenLoop::plain(rate_per_s) }), 10);
        let record = simulate(settings, asks(4_850 * MS, RateCommand::Times(f64::from(tenfold))));
        let expected = halves[0] + halves[1] * u64::try_from(tenfold).unwrap();
        // The first event after 4.85 s requests the change, so it comes up to a gap later; Poisson arrivals
        // vary.
        let spread = if text == "poisson" { 400 } else { 250 };
        assert!(record.counts.planned.abs_diff(expected) <= spread, "{text}: {:?}", record.counts);
        assert_eq!(record.counts.done, record.counts.planned, "{text}");
    }
}

#[test]
fn a_change_in_the_warm_up_and_one_after_the_other_and_a_stop_leave_balanced_books() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        let arrivals = Arrivals::Jitter { ratio: 0.1 };
        let open = OpenLoop { schedule, arrivals, ..OpenLoop::plain(100.0) };
        let settings = LoadSettings {
            ramp_up: Duration::from_secs(1),
            warmup: Duration::from_secs(1),
            ramp_down: Duration::from_secs(1),
            ..settings(Loop::Open(open), 10)
        };
        let last_ns = AtomicU64::new(0);
        let record = simulate(settings, move |scene| {
            // Every half second from the ramp on, until there is no room left.
            if scene.now_ns - last_ns.load(Ordering::SeqCst) > SECOND / 2 {
                last_ns.store(scene.now_ns, Ordering::SeqCst);
                let ask = if scene.now_ns.is_multiple_of(2) {
                    RateCommand::Times(3.0)
                } else {
                    RateCommand::Times(0.4)
                };
                let _ = scene.engine.change_rate(ask);
            }
            if scene.now_ns > 8 * SECOND {
                scene.engine.end_now();
            }
            // Slow enough that some events are always late.
            (7 * MS, Ok(()))
        });
        assert!(record.counts.planned > 0 && record.counts.balance(), "{:?}", record.counts);
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused_and_changes_nothing() {
    let refused = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&refused);
    let arrivals = Arrivals::parse("ramp:100-100").unwrap();
    let settings = settings(Loop::Open(OpenLoop { arrivals, ..OpenLoop::plain(100.0) }), 2);
    let record = simulate(settings, move |scene| {
        let asks = [RateCommand::PerSecond(50.0), RateCommand::Times(1e9), RateCommand::Times(1.0)];
        let ask = match scene.now_ns / SECOND {
            0 if scene.now_ns == 0 => asks[0],
            1 if scene.now_ns == SECOND => asks[1],
            1 if scene.now_ns >= 1_900 * MS => asks[2],
            _ => return (0, Ok(())),
        };
        theirs.lock().unwrap().push(scene.engine.change_rate(ask).unwrap_err());
        (0, Ok(()))
    });
    assert_eq!((record.counts.planned, record.counts.done), (200, 200));
    let refused = refused.lock().unwrap();
    assert!(
        refused[0].contains("defines its own rates") && refused[1].contains("cannot change the rate"),
        "{refused:?}"
    );
    assert!(refused[2].contains("ends before"), "{refused:?}");
}
