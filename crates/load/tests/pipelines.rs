//! Several requests in flight on one connection: which answer belongs to which request, how many there are,
//! and what waits for what.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use record::load::{LoadSettings, Loop, PreparePolicy};
use record::requests::KvSettings;
use support::cache::Cache;
use support::fake::{self, Peer};
use support::{run, settings};

fn with_pipeline(pipeline: u32, settings: &LoadSettings) -> LoadSettings {
    LoadSettings { kv: KvSettings { pipeline, ..settings.kv.clone() }, ..settings.clone() }
}

#[test]
fn each_request_gets_its_own_answer_and_every_one_is_counted_once() {
    // Each has its own server: they run at the same time.
    let targets = [
        Cache::memcached(64).map(|s| (format!("memcached://127.0.0.1:{}", s.port), s)),
        Cache::memcached(64).map(|s| (format!("memcached://127.0.0.1:{}?protocol=meta", s.port), s)),
        Cache::redis(&[]).map(|s| (format!("redis://127.0.0.1:{}", s.port), s)),
        Cache::redis(&[]).map(|s| (format!("redis+unix:{}?resp=3", s.socket.display()), s)),
    ];
    thread::scope(|scope| {
        for (target, _server) in targets.iter().flatten() {
            scope.spawn(move || assert_each_is_answered(target));
        }
    });
}

/// Checks it with few and with many requests in flight, as fast as possible and at a rate.
fn assert_each_is_answered(target: &str) {
    let base = LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        // An answer taken for another request's is a wrong value.
        verify: true,
        pace: Loop::CLOSED,
        events_max: Some(20_000),
        time: Duration::from_mins(10),
        threads: 2,
        connections: Some(3),
        ..settings(target)
    };
    let open = LoadSettings {
        pace: support::jittered(2_000.0),
        events_max: None,
        time: Duration::from_secs(2),
        ..base.clone()
    };
    for settings in [&base, &open] {
        for pipeline in [2, 16, 200] {
            let record = run(&with_pipeline(pipeline, settings));
            let counts = record.counts;
            assert_eq!(
                (counts.done, counts.failed),
                (counts.planned - counts.unfinished, 0),
                "{:?}",
                record.error_samples
            );
            let count = |name: &str| record.operations[name].service.known.count();
            let of = |name: &str| record.outcomes[name];
            // A closed loop adds an event that its warm-up began to the rate, not to the latencies.
            let (asked, answered) = (count("get") + count("set"), of("hit") + of("stored"));
            assert!(
                of("miss") == 0 && asked <= answered && answered - asked <= u64::from(3 * pipeline),
                "{target}"
            );
            assert_eq!(record.connected, Ok(3));
        }
    }
    let one = run(&with_pipeline(1, &base));
    assert_eq!(one.counts.done, 20_000);
}

/// Serves one connection of an empty memcached, and answers requests when four of them have arrived; `most`
/// is the maximum number that waited. If any of `breaks` are left, it takes one and ends the connection then.
fn answer_fours(peer: &mut Peer, most: &AtomicUsize, breaks: &AtomicUsize) {
    let (mut come, mut waiting) = (Vec::new(), 0);
    while let Some(said) = peer.hear() {
        come.extend(said);
        while let Some(end) = come.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = come.drain(..=end).collect();
            match &line[..3] {
                b"ver" => drop(peer.say(b"VERSION 1.6.0\r\n")),
                b"sta" => drop(peer.say(b"STAT version 1.6.0\r\nEND\r\n")),
                _ => waiting += 1,
            }
        }
        most.fetch_max(waiting, Ordering::SeqCst);
        if waiting >= 4 {
            let take_one = |left: usize| left.checked_sub(1);
            if breaks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
                return;
            }
            peer.say(&b"END\r\n".repeat(waiting));
            waiting = 0;
        }
    }
}

fn gets(port: u16) -> LoadSettings {
    LoadSettings {
        kv: KvSettings { get_ratio: 1.0, pipeline: 4, ..KvSettings::usual() },
        prepare: PreparePolicy::Never,
        threads: 1,
        ..settings(format!("memcached://127.0.0.1:{port}"))
    }
}

#[test]
fn a_connection_has_as_many_requests_in_flight_as_were_asked_for_and_no_more() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    // With fewer it would never answer.
    let port = fake::serve(move |peer| answer_fours(peer, &seen, &AtomicUsize::new(0)));
    let closed = LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(400),
        time: Duration::from_mins(10),
        ..gets(port)
    };
    let record = run(&closed);
    assert_eq!((record.counts.done, most.load(Ordering::SeqCst)), (400, 4), "{:?}", record.error_samples);
}

#[test]
fn a_request_that_waits_for_the_one_behind_it_is_timed_from_when_it_was_due() {
    let most = Arc::new(AtomicUsize::new(0));
    let port = fake::serve(move |peer| answer_fours(peer, &most, &AtomicUsize::new(0)));
    // 25 groups of four, 10 ms between two requests: no request is answered before the last of its group is
    // due.
    let open = LoadSettings { pace: Loop::open(100.0), ..gets(port) };
    let record = run(&open);
    assert_eq!((record.counts.planned, record.counts.done), (100, 100), "{:?}", record.error_samples);
    let response = &record.response.as_ref().unwrap().known;
    for (least_ms, at_least) in [(30, 25), (20, 50), (10, 75)] {
        // A bucket's lowest value may be a thousandth less.
        let least_ns = least_ms * 999_000;
        let found: u64 = response.buckets().filter(|(ns, _)| *ns >= least_ns).map(|(_, n)| n).sum();
        assert!(found >= at_least, "{found} of {at_least} last {least_ms} ms");
    }
}

#[test]
fn every_request_that_a_broken_connection_carried_has_failed_once_and_is_asked_again() {
    let most = Arc::new(AtomicUsize::new(0));
    let breaks = AtomicUsize::new(1);
    let port = fake::serve(move |peer| answer_fours(peer, &most, &breaks));
    let closed = LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(400),
        time: Duration::from_mins(10),
        ..gets(port)
    };
    let record = run(&closed);
    assert_eq!((record.counts.done, record.counts.failed), (400, 0), "{:?}", record.error_samples);
    assert_eq!((record.errors.connection, record.counts.retries), (4, 4));
}
