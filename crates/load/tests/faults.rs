//! The same faults under threads and under event loops give the same counts.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::Stop;
use record::load::{LoadRecord, LoadSettings, Loop, PreparePolicy, Think, Workload};
use record::verdict::Validity;

use support::fake::serve;
use support::postgres::Postgres;
use support::{both_ways, check_of, run, run_with_trouble, settings};

/// Runs loads at the same time: each mostly waits.
fn at_once(loads: &[LoadSettings]) -> Vec<LoadRecord> {
    thread::scope(|scope| {
        let running: Vec<_> = loads.iter().map(|settings| scope.spawn(move || run(settings))).collect();
        running.into_iter().map(|load| load.join().unwrap()).collect()
    })
}

#[test]
fn idle_sessions_that_are_terminated_count_once_each_and_cost_no_event() {
    let Some(server) = Postgres::start() else { return };
    let base = LoadSettings {
        workload: Workload::OltpPointSelect,
        // Two events of a connection are half a second apart.
        pace: support::jittered(16.0),
        time: Duration::from_secs(4),
        ..settings(server.url())
    };
    load::prepare(&base, &Stop::new(), &mut |_| {}).unwrap();
    for settings in both_ways(&base) {
        let (record, ()) = run_with_trouble(&settings, || {
            thread::sleep(Duration::from_secs(1));
            let killed =
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'";
            assert_eq!(server.ask("bench", killed), "8");
        });
        assert_eq!((record.counts.planned, record.counts.failed), (64, 0), "{:?}", record.error_samples);
        assert_eq!(record.errors.connection, 8, "{:?}", record.error_samples);
        // An event that was in flight is retried.
        assert!(record.counts.retries <= 2, "{:?}", record.counts);
        assert!(record.error_samples.iter().any(|text| text.contains("57P01")), "{:?}", record.error_samples);
        assert!(!record.outages.is_empty());
    }
}

/// A cache that cuts the first eight connections in the middle of their third answer, and is slow to accept
/// new ones.
fn cutting_cache(cut: &'static [u8]) -> u16 {
    let made = Arc::new(AtomicUsize::new(0));
    serve(move |peer| {
        let mut events = 0;
        while let Some(request) = peer.hear() {
            let text = String::from_utf8_lossy(&request);
            if text.contains("PING") {
                // The check of the server, the check of its data set, and the eight: every later connection
                // is a replacement.
                if made.fetch_add(1, Ordering::SeqCst) >= 10 {
                    thread::sleep(PAUSE);
                }
                peer.say(b"+PONG\r\n");
            } else if text.contains("INFO") {
                peer.say(b"$0\r\n\r\n");
            } else {
                events += 1;
                if events == 3 && (2..10).contains(&peer.number) {
                    peer.say(cut);
                    return;
                }
                peer.say(b"$-1\r\n");
            }
        }
    })
}

/// Time that a replacement connection takes.
const PAUSE: Duration = Duration::from_millis(1_500);

/// The settings of a load on a cache that cuts its answers so.
fn cut_answers(cut: &'static [u8], open: bool, base: LoadSettings) -> LoadSettings {
    let port = cutting_cache(cut);
    let rests = Loop::Closed { think: Think::Constant(Duration::from_millis(50)) };
    let mut settings = LoadSettings {
        target: record::target::Target::new(format!("redis://127.0.0.1:{port}")),
        prepare: PreparePolicy::Never,
        pace: if open { support::jittered(80.0) } else { rests },
        time: Duration::from_secs(6),
        connects_at_once: 1,
        ..base
    };
    settings.kv.get_ratio = 1.0;
    settings
}

#[test]
fn answers_and_links_that_are_cut_count_the_same() {
    for cut in [&b"$10\r\nabc"[..], b""] {
        let loads = [true, false]
            .map(|open| both_ways(&settings("redis://127.0.0.1:1")).map(|base| cut_answers(cut, open, base)));
        for record in at_once(loads.as_flattened()) {
            let (counts, errors) = (record.counts, record.errors);
            let pace = &record.settings.pace;
            assert_eq!((errors.connection, counts.retries), (8, 8), "{pace:?}: {:?}", record.error_samples);
            assert_eq!((counts.failed, errors.application, errors.verify), (0, 0, 0), "{errors:?}");
            // The time that an event waited for its new connection is wait, not service.
            let service_max = record.service.known.quantile_ns(1.0).unwrap();
            assert!(u128::from(service_max) < PAUSE.as_nanos(), "{pace:?}: {service_max} ns");
            if let Ok(wait) = &record.wait {
                let wait_max = wait.known.quantile_ns(1.0).unwrap();
                assert!(u128::from(wait_max) >= PAUSE.as_nanos() * 99 / 100, "{wait_max} ns");
            } else {
                // In a closed loop, it is the connections' time: at least 1.5 of 6 s of each.
                let stuck = check_of(&record, "stuck");
                assert!(!stuck.ok && (0.248..0.75).contains(&stuck.found), "{stuck:?}");
            }
        }
    }
}

/// A web server that answers `answers` requests on each connection, and reads `reads` more before it closes
/// it without notice.
fn closing_web(answers: usize, reads: usize) -> String {
    let port = serve(move |peer| {
        for _ in 0..answers {
            let Some(request) = peer.hear() else { return };
            let is_look = request.starts_with(b"HEAD");
            peer.say(
                format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", if is_look { "" } else { "ok" })
                    .as_bytes(),
            );
        }
        for _ in 0..reads {
            peer.hear();
        }
    });
    format!("http://127.0.0.1:{port}/")
}

#[test]
fn connections_that_a_web_server_closes_unannounced_are_no_errors_if_it_had_read_no_request() {
    for answers in [1, 3] {
        let loads = [Loop::CLOSED, support::jittered(200.0)].map(|pace| {
            let (events_max, time) = (Some(400), Duration::from_mins(10));
            let base = settings(closing_web(answers, 0));
            both_ways(&LoadSettings { pace, events_max, time, ..base })
        });
        for record in at_once(loads.as_flattened()) {
            let pace = &record.settings.pace;
            let about = format!("{answers} {pace:?}: {:?} {:?}", record.counts, record.error_samples);
            assert_eq!((record.counts.done, record.counts.retries), (400, 0), "{about}");
            assert_eq!((record.errors.connection, record.outages.len()), (0, 0), "{about}");
            assert_ne!(record.verdict.state, Validity::Interrupted);
        }
    }
}

/// A web server that answers, and then sends `unasked` on a connection that has been idle for a while: on
/// six connections after their second answer. Returns its address and the number of times so far.
fn talking_web(unasked: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    const TIMES: usize = 6;
    let times = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&times);
    let port = serve(move |peer| {
        let mut answers = 0;
        while let Some(request) = peer.hear() {
            let body = if request.starts_with(b"HEAD") { "" } else { "ok" };
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").as_bytes());
            answers += 1;
            let next = |times: usize| (times < TIMES).then_some(times + 1);
            if answers == 2 && counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok() {
                thread::sleep(Duration::from_millis(20));
                peer.say(unasked);
            }
        }
    });
    (format!("http://127.0.0.1:{port}/"), times)
}

#[test]
fn an_answer_that_no_request_asked_for_is_an_error_and_not_the_next_events_answer() {
    for (unasked, is_error) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..], true),
        (b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false),
    ] {
        let (target, _) = talking_web(unasked);
        let loads = both_ways(&settings(target)).map(|settings| {
            // Two events of a connection are at least 0.3 s apart.
            let (target, times) = talking_web(unasked);
            let settings = LoadSettings { target: record::target::Target::new(target), ..settings };
            let connections = f64::from(settings.connections_in_all());
            let pace = support::jittered(3.0 * connections);
            (LoadSettings { pace, time: Duration::from_secs(4), ..settings }, times)
        });
        let records = at_once(&loads.each_ref().map(|(settings, _)| settings.clone()));
        for (record, (_, times)) in records.iter().zip(&loads) {
            let about = format!("{:?} {:?}", record.counts, record.error_samples);
            assert_eq!(times.load(Ordering::SeqCst), 6, "{about}");
            assert_eq!(record.errors.connection, if is_error { 6 } else { 0 }, "{about}");
            assert_eq!(record.counts.failed + record.errors.application, 0, "{about}");
            let says = record.error_samples.iter().any(|text| text.contains("unrequested data"));
            assert_eq!(says, is_error, "{about}");
        }
    }
}

#[test]
fn connections_that_a_web_server_closes_in_place_of_an_answer_count_the_same() {
    for settings in both_ways(&settings(closing_web(1, 1))) {
        let record = run(&LoadSettings {
            pace: Loop::CLOSED,
            events_max: Some(400),
            time: Duration::from_mins(10),
            ..settings
        });
        // The first event of each connection is answered, at most eight; each later event is lost, and
        // answered on a new connection.
        let (counts, errors) = (record.counts, record.errors);
        assert_eq!((counts.done, counts.failed), (400, 0), "{:?}", record.error_samples);
        assert_eq!(errors.connection, counts.retries, "{:?}", record.error_samples);
        assert!((392..400).contains(&counts.retries), "{counts:?}");
    }
}

/// A connection that the kernel accepts does not show that the server is back. Threads took each for the end
/// of an outage once, tried without a pause, and had hundreds of outages where a loop had one.
#[test]
fn a_web_server_that_accepts_and_closes_for_a_second_is_away_for_threads_and_loops() {
    for at in 0..2 {
        let closes = Arc::new(AtomicBool::new(false));
        let serves = Arc::clone(&closes);
        let port = serve(move |peer| {
            while !serves.load(Ordering::SeqCst)
                && let Some(request) = peer.hear()
                && !serves.load(Ordering::SeqCst)
            {
                let body = if request.starts_with(b"HEAD") { "" } else { "ok" };
                peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").as_bytes());
            }
        });
        let target = format!("http://127.0.0.1:{port}/");
        let steady = LoadSettings {
            pace: support::jittered(200.0),
            time: Duration::from_secs(3),
            ..settings(target.as_str())
        };
        let (record, ()) = run_with_trouble(&both_ways(&steady)[at], || {
            thread::sleep(Duration::from_millis(700));
            closes.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_secs(1));
            closes.store(false, Ordering::SeqCst);
        });
        let about = format!("{at}: {:?} {:?}", record.outages, record.counts);
        assert_eq!(record.outages.len(), 1, "{about}");
        let away_s = record.outages[0].for_s;
        assert!(record.outages[0].ended && (0.5..2.5).contains(&away_s), "{about}");
        // A try of each of eight connections with pauses from 10 ms on, each twice as long as the one before.
        assert!((8..400).contains(&record.errors.connection), "{about}: {:?}", record.errors);
    }
}

/// A web server that sends more than was asked for after each fifth answer, and closes then.
fn sometimes_closing_web() -> String {
    let requests = Arc::new(AtomicUsize::new(0));
    let port = serve(move |peer| {
        while peer.hear().is_some() {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            peer.say(answer);
            if requests.fetch_add(1, Ordering::SeqCst) % 5 == 4 {
                // Not asked for: the connection cannot be used again.
                peer.say(answer);
                return;
            }
        }
    });
    format!("http://127.0.0.1:{port}/")
}

/// At 4 events per second, the time until the next event was an outage of a server that was never away.
#[test]
fn a_web_server_that_sometimes_closes_and_always_accepts_is_hardly_away() {
    let loads = [None, Some(1)].map(|connections| LoadSettings {
        pace: Loop::open(4.0),
        time: Duration::from_secs(5),
        connections,
        threads: 1,
        ..settings(sometimes_closing_web())
    });
    for record in at_once(&loads) {
        let connections = record.settings.connections;
        let away_s: f64 = record.outages.iter().map(|outage| outage.for_s).sum();
        let about = format!("{connections:?}: {:?} {:?}", record.outages, record.errors);
        assert!(record.outages.len() >= 2 && record.outages.iter().all(|outage| outage.ended), "{about}");
        assert!(away_s < 0.1, "{about}");
        assert!(record.verdict.checks.iter().all(|check| check.name != "server-away" || check.ok), "{about}");
    }
}
