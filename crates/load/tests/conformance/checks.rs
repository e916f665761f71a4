//! The checks. Each asserts books that balance; none asserts a duration, which depends on the machine.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{Event, Stop};
use record::clock::{Clock as _, Monotonic};
use record::histogram::Histogram;
use record::load::{LoadRecord, LoadSettings, Loop, Phase};
use record::verdict::Validity;

use crate::subject::Subject;
use crate::support::assert_books;

/// Duration of a stall.
const STALL: Duration = Duration::from_millis(600);

/// Runs all checks on one subject.
pub(crate) fn all(subject: &mut dyn Subject) {
    exactly_as_many_events_reach_it_as_are_counted(subject);
    the_stamps_of_an_event_add_up(subject);
    a_stall_is_in_the_response_of_every_event_due_in_it(subject);
    a_stopped_run_is_whole_though_nothing_answers(subject);
    what_may_pass_is_tried_again_and_counted(subject);
    a_crash_costs_time_and_no_event(subject);
    wrong_answers_are_found(subject);
}

/// Runs a load, and `trouble` beside it from the beginning of its measured phase.
fn run(settings: &LoadSettings, stop: &Stop, trouble: impl FnOnce() + Send) -> LoadRecord {
    let (begins, may_begin) = mpsc::channel();
    let record = thread::scope(|scope| {
        scope.spawn(move || {
            if may_begin.recv().is_ok() {
                trouble();
            }
        });
        let record = load::run(settings, stop, &mut |event| {
            if let Event::PhaseStarts { phase: Phase::Measure, .. } = event {
                begins.send(()).unwrap();
            }
        });
        drop(begins);
        record.unwrap()
    });
    assert_books(&record);
    record
}

fn undisturbed(settings: &LoadSettings) -> LoadRecord {
    run(settings, &Stop::new(), || {})
}

fn exactly_as_many_events_reach_it_as_are_counted(subject: &dyn Subject) {
    // The first run builds the data set, which does not count as an event.
    undisturbed(&LoadSettings { events_max: Some(1), ..subject.settings() });
    for pace in [Loop::CLOSED, crate::support::jittered(200.0)] {
        let before = subject.served();
        let time = Duration::from_mins(10);
        let record = undisturbed(&LoadSettings {
            pace: pace.clone(),
            time,
            events_max: Some(123),
            ..subject.settings()
        });
        let counts = record.counts;
        assert_eq!(
            (counts.planned, counts.done, counts.retries),
            (123, 123, 0),
            "{:?}",
            record.error_samples
        );
        if let (Some(before), Some(after)) = (before, subject.served()) {
            assert_eq!(after - before, 123, "by its own account, {pace:?}");
        }
    }
}

/// response = wait + lateness + service for every event, and so for their means, which a histogram knows to
/// 0.1 %.
fn the_stamps_of_an_event_add_up(subject: &dyn Subject) {
    // A number of events, all of which end: for an event in flight at the end, the lateness is known and the
    // response is not.
    let time = Duration::from_mins(10);
    let record = undisturbed(&LoadSettings { time, events_max: Some(123), ..subject.settings() });
    let mean_ns = |h: &Histogram| h.summary().map_or(0.0, |s| s.mean_ns);
    let (wait, lateness) = (record.wait.as_ref().unwrap(), record.lateness.as_ref().unwrap());
    let response_ns = mean_ns(&record.response.as_ref().unwrap().known);
    let parts_ns = mean_ns(&wait.known) + mean_ns(lateness) + mean_ns(&record.service.known);
    assert!((response_ns - parts_ns).abs() <= 0.002 * response_ns + 3.0, "{response_ns} ns, {parts_ns} ns");
    assert_eq!(record.errors, record::load::ErrorCounts::default(), "{:?}", record.error_samples);
}

fn a_stall_is_in_the_response_of_every_event_due_in_it(subject: &dyn Subject) {
    let settings = LoadSettings { time: Duration::from_secs(3), ..subject.settings() };
    let (tell, told) = mpsc::channel();
    let record = run(&settings, &Stop::new(), || {
        if subject.freeze() {
            let frozen_ns = Monotonic.now_ns();
            thread::sleep(STALL);
            tell.send((frozen_ns, Monotonic.now_ns())).unwrap();
            subject.thaw();
        }
    });
    let Ok((frozen_ns, thawed_ns)) = told.try_recv() else { return };
    assert_eq!((record.counts.planned, record.counts.failed), (600, 0), "{:?}", record.error_samples);
    // An event that was due in the first half of the stall has waited at least for its second half. On a busy
    // machine the stall may lie partly outside of the measured phase.
    let half_ns = (thawed_ns - frozen_ns) / 2;
    let until_ns = (frozen_ns + half_ns).min(record.measured_from_ns + 3_000_000_000);
    let due_in_half = 200.0 * until_ns.saturating_sub(frozen_ns.max(record.measured_from_ns)) as f64 / 1e9;
    let at_least_ns = half_ns / 1_000 * 998;
    let response = record.response.as_ref().unwrap();
    let longer = |h: &Histogram| h.count() - h.count_at_or_below(at_least_ns);
    let slow = longer(&response.known) + longer(&response.at_least);
    assert!(slow as f64 >= due_in_half - 5.0, "{slow} of {due_in_half} events are slow");
    // All of them waited, including those in service when the server froze.
    assert!(longer(&record.service.known) <= slow);
}

fn a_stopped_run_is_whole_though_nothing_answers(subject: &dyn Subject) {
    let stop = Stop::new();
    let settings = LoadSettings { time: Duration::from_hours(1), ..subject.settings() };
    let record = run(&settings, &stop, || {
        subject.freeze();
        thread::sleep(STALL / 2);
        stop.request();
    });
    subject.thaw();
    assert_eq!(record.verdict.state, Validity::Interrupted);
    assert!(record.counts.balance() && record.measured < Duration::from_hours(1), "{:?}", record.counts);
    assert!(record.counts.planned > 0);
}

fn what_may_pass_is_tried_again_and_counted(subject: &dyn Subject) {
    let Some(settings) = subject.hindered() else { return };
    let record = run(&settings, &Stop::new(), || {
        let _hindrance = subject.hindrance();
        thread::sleep(4 * STALL);
    });
    assert!(record.counts.retries > 0 && record.errors.transient > 0, "{:?}", record.counts);
    assert_eq!((record.counts.failed, record.errors.application), (0, 0), "{:?}", record.error_samples);
    assert_eq!(record.failure.count(), record.errors.transient);
    assert!(record.counts.done > 0, "{:?}", record.counts);
}

fn a_crash_costs_time_and_no_event(subject: &mut dyn Subject) {
    let time = Duration::from_mins(10);
    let settings = LoadSettings { time, events_max: Some(800), retries_max: 1_000_000, ..subject.settings() };
    if !subject.can_crash() {
        return;
    }
    let record = run(&settings, &Stop::new(), || {
        subject.crash();
        thread::sleep(STALL);
        subject.restart();
    });
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.failed), (800, 800, 0), "{:?}", record.error_samples);
    assert!(record.errors.connection > 0 && !record.outages.is_empty(), "{:?}", record.errors);
    assert!(record.outages.iter().all(|outage| outage.ended), "{:?}", record.outages);
    assert!(record.outages.iter().any(|outage| outage.for_s > 0.0), "{:?}", record.outages);
}

fn wrong_answers_are_found(subject: &dyn Subject) {
    let Some(settings) = subject.wrong_answers() else { return };
    let record = undisturbed(&settings);
    assert!(record.errors.verify > 0, "{:?}", record.errors);
    assert_eq!(record.errors.verify, record.counts.failed);
    assert_eq!(record.verdict.state, Validity::Invalid);
}
