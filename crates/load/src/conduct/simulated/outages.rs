//! Transient errors: retries, reconnections, outages.

use super::*;

#[test]
fn a_transient_error_is_retried_with_the_same_due_time_and_the_same_chance() {
    let tried = Mutex::new(std::collections::BTreeMap::<u64, u32>::new());
    let record = simulate(settings(Loop::open(100.0), 1), move |scene| {
        let mut tried = tried.lock().unwrap();
        let tries = tried.entry(scene.chance).or_default();
        *tries += 1;
        let fails = scene.chance.is_multiple_of(4) && *tries < 3;
        (MS, if fails { Err(FailureClass::Transient) } else { Ok(()) })
    });
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.failed), (100, 100, 0));
    assert!(counts.retries > 20, "a quarter of 100 events is tried three times: {}", counts.retries);
    assert_eq!(record.errors.transient, counts.retries);
    assert_eq!(record.failure.count(), counts.retries);
    assert_near(record.failure.quantile_ns(1.0), MS);
    // Three tries of a millisecond each are one event of three.
    assert_near(record.response.as_ref().unwrap().known.quantile_ns(1.0), 3 * MS);
    assert!(check(&record, "mix"), "an operation of a failed try does not count");
    assert_eq!(record.operations["serve"].service.known.count(), 100);
}

#[test]
fn an_event_whose_connection_breaks_had_found_a_worker() {
    // One event a second, and each second one loses its connection once.
    let has_broken = Mutex::new(std::collections::BTreeSet::new());
    let keeping = Keeping { connect_ns: 50 * MS, ..Keeping::ALL };
    let serve = move |scene: &Scene<'_>| {
        let breaks = scene.chance.is_multiple_of(2) && has_broken.lock().unwrap().insert(scene.chance);
        (MS, if breaks { Err(FailureClass::Connection) } else { Ok(()) })
    };
    let record = play(settings(Loop::open(1.0), 10), 0..0, keeping, Box::new(serve));
    assert_eq!(record.counts.done, 10);
    assert!(record.errors.connection > 0 && record.wait.unwrap().known.quantile_ns(1.0) >= Some(50 * MS));
    assert_eq!(record.found_no_worker, 0, "the worker was free when each was due");
}

#[test]
fn what_a_server_closes_while_it_is_idle_costs_wait_and_no_error() {
    // A connection lives for a third of a second, and an event comes every second.
    let keeping = Keeping { for_ns: 333 * MS, connect_ns: 50 * MS };
    let record = play(settings(Loop::open(1.0), 10), 0..0, keeping, Box::new(|_| (MS, Ok(()))));
    assert_eq!((record.counts.done, record.counts.failed, record.counts.retries), (10, 0, 0));
    assert_eq!(record.errors, record::load::ErrorCounts::default());
    assert!(record.outages.is_empty(), "{:?}", record.outages);
    assert_near(record.service.known.quantile_ns(1.0), MS);
    assert_eq!(record.lateness.as_ref().unwrap().quantile_ns(1.0), Some(0));
    assert!(record.wait.as_ref().unwrap().known.quantile_ns(1.0) <= Some(50 * MS));
}

#[test]
fn a_connection_is_made_again_after_the_event_that_was_its_last_has_ended() {
    // The server closes after each answer, and then takes two seconds to be reached.
    let keeping = Keeping { for_ns: 0, connect_ns: 2 * SECOND };
    let serve =
        |scene: &Scene<'_>| (MS, if scene.now_ns < SECOND { Ok(()) } else { Err(FailureClass::Application) });
    let record = play(settings(Loop::CLOSED, 5), 0..0, keeping, Box::new(serve));
    assert_eq!((record.counts.done, record.counts.failed, record.counts.unfinished), (1, 2, 0));
    assert_near(record.service.known.quantile_ns(1.0), MS);
    assert_near(record.failure.quantile_ns(1.0), MS);
}

#[test]
fn an_event_that_fails_too_often_has_failed() {
    let failing = |class| {
        simulate(LoadSettings { retries_max: 2, ..settings(Loop::open(10.0), 1) }, move |_| (MS, Err(class)))
    };
    let transient = failing(FailureClass::Transient);
    assert_eq!((transient.counts.failed, transient.counts.retries, transient.errors.transient), (10, 20, 30));
    let application = failing(FailureClass::Application);
    assert_eq!((application.counts.failed, application.counts.retries), (10, 0));
    assert_eq!(application.error_samples, ["application: simulated"]);
    assert!(!check(&application, "errors"));
    assert_eq!(application.response.as_ref().unwrap().summary(), None);
}

#[test]
fn an_outage_is_timed_and_costs_no_event() {
    let down_ns = 4 * SECOND..5 * SECOND;
    let is_down = down_ns.clone();
    let serve = move |scene: &Scene<'_>| {
        let result = if is_down.contains(&scene.now_ns) { Err(FailureClass::Connection) } else { Ok(()) };
        (MS, result)
    };
    let record = simulate_with_outage(settings(Loop::open(500.0), 10), down_ns, Box::new(serve));
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.failed, counts.retries), (5_000, 5_000, 0, 1));
    let [outage] = record.outages[..] else { panic!("{:?}", record.outages) };
    assert!(outage.ended);
    assert!((outage.from_s - 4.001).abs() < 1e-6, "{outage:?}");
    // Pauses are at most 1.5 s; the first that ends after the outage ends it.
    assert!((0.999..2.5).contains(&outage.for_s), "{outage:?}");
    let due_in_it = (outage.for_s * 500.0).ceil();
    assert!((outage.affected as f64 - due_in_it).abs() <= 1.0, "{outage:?}");
    assert!(record.errors.connection >= 3);
}

#[test]
fn a_server_that_stays_away_leaves_its_event_unfinished() {
    let serve =
        |scene: &Scene<'_>| (MS, if scene.now_ns < SECOND { Ok(()) } else { Err(FailureClass::Connection) });
    let settings = LoadSettings { retries_max: 0, ..settings(Loop::open(100.0), 3) };
    let record = simulate_with_outage(settings, SECOND..u64::MAX, Box::new(serve));
    assert_eq!((record.counts.done, record.counts.failed, record.counts.unfinished), (100, 1, 199));
    assert!(!record.outages[0].ended);
    assert_eq!(record.outages[0].affected, 200);
}

#[test]
fn a_closed_loop_whose_server_goes_away_is_invalid_although_hardly_an_event_shows_it() {
    let dies_at = |dies_ns: u64| {
        let serve = move |scene: &Scene<'_>| {
            if scene.now_ns < dies_ns {
                return (MS, Ok(()));
            }
            // The event waits for the server until the drain is over.
            scene.engine.abandon();
            (0, Err(FailureClass::Connection))
        };
        simulate_with_outage(settings(Loop::CLOSED, 10), dies_ns..u64::MAX, Box::new(serve))
    };
    let record = dies_at(4 * SECOND);
    assert_eq!((record.counts.failed, record.counts.unfinished), (0, 1), "{:?}", record.counts);
    assert!(record.service.known.quantile_ns(1.0) <= Some(2 * MS));
    let away = record.verdict.checks.iter().find(|check| check.name == "server-away").unwrap();
    assert!(!away.ok && (away.found - 0.6).abs() < 0.01, "{away:?}");
    assert_eq!(record.verdict.state, Validity::Invalid);
    assert!(check(&dies_at(9_950 * MS), "server-away"), "a moment is forgiven");
}

#[test]
fn a_closed_loop_that_spends_its_time_reconnecting_is_invalid_although_no_event_failed() {
    // Each connection is reset every 1.6 s, and the next one takes 1.5 s.
    let of_last = AtomicU64::new(0);
    let serve = move |scene: &Scene<'_>| {
        let window = scene.now_ns / (1_600 * MS);
        let is_reset = window > 0 && of_last.swap(window, Ordering::SeqCst) != window;
        (10 * MS, if is_reset { Err(FailureClass::Connection) } else { Ok(()) })
    };
    let keeping = Keeping { connect_ns: 1_500 * MS, ..Keeping::ALL };
    let settings = LoadSettings { threads: 8, ..settings(Loop::CLOSED, 16) };
    let record = play(settings, 0..0, keeping, Box::new(serve));
    assert_eq!((record.counts.failed, record.errors.connection), (0, 8 * 9), "{:?}", record.counts);
    assert_near(record.service.known.quantile_ns(1.0), 10 * MS);
    let stuck = record.verdict.checks.iter().find(|check| check.name == "stuck").unwrap();
    assert!(!stuck.ok && (stuck.found - 9.0 * 1.5 / 16.0).abs() < 0.002, "{stuck:?}");
    assert!(stuck.text.starts_with("reconnecting after losses took 84.38 %"), "{stuck:?}");
}

#[test]
fn connections_that_are_gone_at_the_end_of_a_closed_loop_count_until_then() {
    // The first event of each connection is given up at once; then the server does not come back.
    let serve = |scene: &Scene<'_>| {
        let ends = if scene.now_ns < SECOND { Ok(()) } else { Err(FailureClass::Connection) };
        (10 * MS, ends)
    };
    let settings =
        LoadSettings { threads: 4, retries_max: 0, errors_ratio_max: 1.0, ..settings(Loop::CLOSED, 10) };
    let record = simulate_with_outage(settings, SECOND..u64::MAX, Box::new(serve));
    let stuck = record.verdict.checks.iter().find(|check| check.name == "stuck").unwrap();
    assert!((stuck.found - 0.899).abs() < 0.001, "{stuck:?}");
}

#[test]
fn a_connection_that_a_server_closes_between_requests_is_no_service_time_and_is_told() {
    let number = AtomicU64::new(0);
    let serve = move |_: &Scene<'_>| match number.fetch_add(1, Ordering::SeqCst) % 10 {
        9 => (0, Err(FailureClass::Unprocessed)),
        _ => (MS, Ok(())),
    };
    let keeping = Keeping { connect_ns: 50 * MS, ..Keeping::ALL };
    let record = play(settings(Loop::CLOSED, 5), 0..0, keeping, Box::new(serve));
    assert_eq!((record.counts.failed, record.errors.all()), (0, 0));
    assert_near(record.service.known.quantile_ns(1.0), MS);
    let told = record.verdict.checks.iter().find(|check| check.name == "reconnects").unwrap();
    assert!(!told.is_judged() && (told.found - 50.0 / 59.0).abs() < 0.02, "{told:?}");
    assert_eq!(record.verdict.state, Validity::Valid, "{:?}", record.verdict);
    assert!((record.achieved_per_s - 9.0 / 0.059).abs() < 3.0, "{}/s", record.achieved_per_s);
}
