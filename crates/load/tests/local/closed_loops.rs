//! Rates of closed loops.

use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{Event, Stop};
use record::load::{LoadRecord, LoadSettings, Loop, Phase};
use record::verdict::Validity;

use crate::support::fake::serve;
use crate::support::{assert_books, check_of, run, settings};

#[test]
fn the_rate_of_a_closed_loop_of_commands_is_not_cut_at_the_ends_of_the_phase() {
    // Two or three commands for each connection: by the commands that begin and end in the phase, the rate
    // would be a third too low.
    let settings = LoadSettings {
        pace: Loop::CLOSED,
        threads: 8,
        warmup: Duration::from_millis(370),
        time: Duration::from_millis(1_650),
        ..settings("exec:sleep 0.5")
    };
    let mut completions = 0.0;
    let mut on_progress = |event: &Event| {
        if let Event::Interval(progress) = event
            && progress.phase == Phase::Measure
        {
            completions += progress.achieved_per_s * progress.interval_s;
        }
    };
    let record = load::run(&settings, &Stop::new(), &mut on_progress).unwrap();
    assert_books(&record);
    assert!((completions - record.counts.done as f64).abs() < 1e-6, "{completions}: {:?}", record.counts);
    assert_all_work(&record, 8.0);
}

/// Asserts that the rate is that of `connections` with events all the time, but for the gaps between two.
fn assert_all_work(record: &LoadRecord, connections: f64) {
    // However slow the machine is.
    let mean_s = record.service.summary().unwrap().mean_ns / 1e9;
    let truth = connections / mean_s;
    let n = truth * record.measured.as_secs_f64();
    assert!(
        (record.achieved_per_s / truth - 1.0).abs() <= 1.0 / n + 0.02,
        "{}/s of {truth}",
        record.achieved_per_s
    );
    assert!(
        check_of(record, "littles-law").ok && check_of(record, "phase-length").ok,
        "{:?}",
        record.verdict
    );
}

#[test]
fn the_rate_of_an_event_loop_is_not_cut_at_the_ends_of_the_phase() {
    const SERVICE: Duration = Duration::from_millis(300);
    let port = serve(|peer| {
        while let Some(request) = peer.hear() {
            let is_look = request.starts_with(b"HEAD");
            if !is_look {
                thread::sleep(SERVICE);
            }
            let body = if is_look { "" } else { "ok" };
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").as_bytes());
        }
    });
    for connections in [8, 200] {
        let record = run(&LoadSettings {
            pace: Loop::CLOSED,
            threads: 2,
            connections: Some(connections),
            connects_at_once: 200,
            warmup: Duration::from_millis(730),
            time: Duration::from_millis(1_650),
            ..settings(format!("http://127.0.0.1:{port}/"))
        });
        assert_eq!(record.counts.failed, 0, "{:?}", record.error_samples);
        assert_all_work(&record, f64::from(connections));
        let most = f64::from(connections) / SERVICE.as_secs_f64();
        assert!(record.achieved_per_s <= most * 1.001, "{}/s of at most {most}", record.achieved_per_s);
    }
}

#[test]
fn a_closed_loop_is_not_valid_without_one_of_its_connections() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken");
    // The first event ends with the run; the others take 5 ms.
    let target = format!("exec:sh -c 'mkdir {} 2>/dev/null && exec sleep 600; sleep 0.005'", taken.display());
    let [warmup, time, drain] = [100, 2_000, 200].map(Duration::from_millis);
    let record =
        run(&LoadSettings { threads: 8, pace: Loop::CLOSED, warmup, time, drain, ..settings(target) });
    let check = check_of(&record, "stuck");
    assert!(!check.ok && (check.found - 0.125).abs() < 0.001, "{check:?}");
    assert_eq!(record.verdict.state, Validity::Invalid);
}

#[test]
fn a_phase_shorter_than_its_events_has_no_rate() {
    let time = Duration::from_millis(200);
    let record = run(&LoadSettings { pace: Loop::CLOSED, time, ..settings("exec:sleep 0.5") });
    assert!(!check_of(&record, "phase-length").ok, "{:?}", record.verdict);
    assert_eq!(record.verdict.state, Validity::Invalid);
}

#[test]
fn the_rate_of_a_number_of_events_is_that_of_all_connections_or_none() {
    let closed = |threads, events| LoadSettings {
        pace: Loop::CLOSED,
        warmup: Duration::ZERO,
        time: Duration::from_mins(10),
        threads,
        events_max: Some(events),
        ..settings("exec:sleep 0.2")
    };
    // In the second round of the first, seven of eight find no event left.
    for (threads, events) in [(8, 9), (8, 8), (4, 11), (1, 2)] {
        let record = run(&closed(threads, events));
        let mean_s = record.service.summary().unwrap().mean_ns / 1e9;
        let truth = f64::from(threads) / mean_s;
        let about = format!("{events} events by {threads}: {}/s of {truth}/s", record.achieved_per_s);
        // A command's start and its wake-up are not part of its service, and take long on a busy machine: the
        // rate is never too high, and closer to the truth than if the idle time of connections without an
        // event counted (22/s of 40/s).
        assert!((0.7..1.0 + 1.0 / events as f64).contains(&(record.achieved_per_s / truth)), "{about}");
        assert!(check_of(&record, "events").ok, "{about}");
    }
    let few = run(&closed(8, 3));
    let events = check_of(&few, "events");
    assert!(!events.ok && events.text.contains("some connections had none"), "{}", events.text);
}

/// One thread writes, and SQLite's lock makes the others wait during the whole phase: their events begin
/// before it.
#[test]
fn threads_that_a_lock_starves_do_not_contradict_littles_law() {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("sqlite:{}?journal_mode=delete&synchronous=off", dir.path().join("x.db").display());
    let settings = LoadSettings {
        pace: Loop::CLOSED,
        warmup: Duration::from_millis(400),
        time: Duration::from_millis(1_600),
        ..settings(target)
    };
    let record = run(&settings);
    let broken: Vec<_> = record.verdict.checks.iter().filter(|c| c.name == "littles-law" && !c.ok).collect();
    assert!(broken.is_empty(), "{broken:?}, {:?}", record.service.summary());
}
