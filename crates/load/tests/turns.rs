//! A load in turns, against real processes: its clock counts the turns, and no event is cut or counted twice.

#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_load as load;

use load::{Attachments, Stop, Turns};
use record::clock::{Clock as _, Monotonic};
use record::load::{LoadRecord, LoadSettings, Loop, Phase};
use record::verdict::Validity;

const PATIENCE: Duration = Duration::from_secs(20);

fn settings(command: &str, time: Duration) -> LoadSettings {
    LoadSettings {
        time,
        warmup: Duration::from_millis(200),
        threads: 2,
        pace: Loop::CLOSED,
        interval: Duration::from_millis(500),
        ..support::settings(command)
    }
}

/// Plays the load in turns, with a rest after each that is `rest` long. Returns its record, the turns, and
/// the rates of the measured intervals.
fn play(
    settings: &LoadSettings,
    turn: Duration,
    rest: Duration,
    settle: Duration,
) -> (LoadRecord, u32, Vec<f64>) {
    let turns = Arc::new(Turns::begun(settings.threads));
    let attachments = Attachments { turns: Some(Arc::clone(&turns)), ..Attachments::default() };
    let (is_over, mut rates) = (AtomicBool::new(false), Vec::new());
    let record = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                std::thread::sleep(turn);
                assert!(turns.close(PATIENCE, &|| true), "the events in flight end");
                std::thread::sleep(rest);
                assert!(settle.is_zero() || turns.settle(settle, PATIENCE, &|| true));
                turns.open();
            }
        });
        let record = load::run_with(settings, &attachments, &Stop::new(), &mut |event| {
            if let load::Event::Interval(progress) = event
                && progress.phase == Phase::Measure
            {
                rates.push(progress.achieved_per_s);
            }
        });
        is_over.store(true, Ordering::SeqCst);
        turns.end();
        record
    });
    (record.unwrap(), turns.count(), rates)
}

fn per_s(record: &LoadRecord) -> f64 {
    record.achieved_per_s
}

/// The unkind truth: responses of 300 and 375 ms, turns of 100 ms. The slower one does 80 % of the work, and
/// time without work counts for none.
#[test]
fn an_arm_whose_events_are_longer_than_a_turn_is_as_slow_as_it_is() {
    let play = |command: &str| {
        let settings = settings(command, Duration::from_secs(3));
        play(&settings, Duration::from_millis(100), Duration::from_millis(150), Duration::ZERO).0
    };
    let (fast, slow) = (play("exec:sleep 0.3"), play("exec:sleep 0.375"));
    for (record, expected_per_s) in [(&fast, 2.0 / 0.3), (&slow, 2.0 / 0.375)] {
        assert!((per_s(record) / expected_per_s - 1.0).abs() < 0.05, "{} of {expected_per_s}", per_s(record));
        assert_ne!(record.verdict.state, Validity::Interrupted);
    }
    let ratio = per_s(&slow) / per_s(&fast);
    assert!((ratio - 0.8).abs() < 0.03, "{ratio}");
    let median_ms = fast.service.merged().quantile_ns(0.5).unwrap() as f64 * 1e-6;
    assert!((300.0..320.0).contains(&median_ms), "{median_ms}");
}

/// Events that settle the target count nowhere: the rate is that of the turns.
#[test]
fn what_settles_a_target_does_not_count() {
    let settings = settings("exec:sleep 0.02", Duration::from_secs(2));
    let began_ns = Monotonic.now_ns();
    let (record, turns, rates) =
        play(&settings, Duration::from_millis(100), Duration::from_millis(50), Duration::from_millis(60));
    assert!((14..=24).contains(&turns), "{turns}");
    let took = Duration::from_nanos(Monotonic.now_ns() - began_ns);
    assert!(took > Duration::from_secs(4), "{took:?}");
    // The first interval lacks nothing, and no interval shows what settles the target.
    assert!(rates.len() == 4 && rates.iter().all(|per_s| (55.0..115.0).contains(per_s)), "{rates:?}");
    // Times at which the target settles are no part of Little's law.
    let wrong: Vec<_> = record.verdict.failures().filter(|check| check.name == "littles-law").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // A start of `sleep` takes 1 ms or a few.
    assert!((70.0..101.0).contains(&per_s(&record)), "{}", per_s(&record));
    // Two workers; the phase has 2 s of turns, each event at least 20 ms.
    assert!((140..=201).contains(&record.counts.done), "{:?}", record.counts);
}

/// A load that is stopped while it rests ends at once.
#[test]
fn a_load_that_rests_can_be_stopped() {
    let settings = settings("exec:sleep 0.02", Duration::from_mins(1));
    let turns = Arc::new(Turns::begun(settings.threads));
    let attachments = Attachments { turns: Some(Arc::clone(&turns)), ..Attachments::default() };
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run_with(&settings, &attachments, &stop, &mut |_| {}));
        std::thread::sleep(Duration::from_millis(600));
        assert!(turns.close(PATIENCE, &|| true));
        stop.request();
        let began_ns = Monotonic.now_ns();
        let record = load.join().unwrap().unwrap();
        let took = Duration::from_nanos(Monotonic.now_ns() - began_ns);
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(record.verdict.state, Validity::Interrupted);
    });
}

/// The unkind truth: it is stopped while it settles, with events in flight that count for nothing.
#[test]
fn a_load_that_does_not_settle_ends_without_a_record() {
    let settings = settings("exec:sleep 0.02", Duration::from_mins(1));
    let turns = Arc::new(Turns::begun(settings.threads));
    let attachments = Attachments { turns: Some(Arc::clone(&turns)), ..Attachments::default() };
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run_with(&settings, &attachments, &stop, &mut |_| {}));
        std::thread::sleep(Duration::from_millis(600));
        assert!(turns.close(PATIENCE, &|| true));
        assert!(!turns.settle(Duration::from_millis(50), PATIENCE, &|| false));
        std::thread::sleep(Duration::from_millis(50));
        stop.request();
        assert!(matches!(load.join().unwrap(), Err(load::LoadError::Interrupted)));
    });
}

/// A load of threads that also wait for due times takes no turns.
#[test]
fn an_open_loop_takes_no_turns() {
    let settings = LoadSettings { pace: Loop::open(10.0), ..settings("exec:true", Duration::from_secs(1)) };
    let attachments = Attachments { turns: Some(Arc::new(Turns::begun(2))), ..Attachments::default() };
    let refused = load::run_with(&settings, &attachments, &Stop::new(), &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("a closed loop"), "{refused}");
}
