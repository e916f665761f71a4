//! Several streams on one HTTP/2 connection: which answer belongs to which request, and the fate of requests
//! that the server does not begin any more.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Stop};
use record::histogram::Histogram;
use record::load::{LoadSettings, Loop};
use record::requests::{HttpSettings, HttpVersion};
use support::web::Nginx;
use support::{assert_books, check_of, run, settings};

/// `/answer` takes any method, `/nth` returns the number of the request on its connection; a connection ends
/// after 50 requests, with GOAWAY; it has 64 streams at most.
fn start() -> Option<(Nginx, u16)> {
    let port = support::port::free();
    let server = Nginx::start_beside(|root| {
        format!(
            "server {{
                 listen 127.0.0.1:{port} http2; http2_max_concurrent_streams 64; root {root};
                 location = /answer {{ return 200 hello; }}
                 location = /nth {{ return 200 $connection_requests; }}
                 location = /slow {{ limit_rate 1000; alias {root}/long; }}
             }}"
        )
    })?;
    Some((server, port))
}

fn asked(port: u16, path: &str, streams: u32) -> LoadSettings {
    let http = HttpSettings {
        version: HttpVersion::Two,
        // A request that the server may have executed is not sent twice: its event would fail.
        method: "POST".to_owned(),
        body: "1".to_owned(),
        streams,
        ..HttpSettings::plain()
    };
    LoadSettings {
        http,
        pace: Loop::CLOSED,
        events_max: Some(3_000),
        warmup: Duration::ZERO,
        time: Duration::from_mins(10),
        threads: 2,
        connections: Some(3),
        ..settings(format!("http://127.0.0.1:{port}{path}"))
    }
}

#[test]
fn each_request_is_answered_once_though_the_server_ends_connections_with_requests_in_flight() {
    let Some((server, port)) = start() else { return };
    let mut answered = 0;
    for streams in [2, 10, 64] {
        let closed = asked(port, "/answer", streams);
        let open = LoadSettings {
            pace: support::jittered(1_000.0),
            events_max: None,
            time: Duration::from_secs(2),
            ..closed.clone()
        };
        for settings in [closed, open] {
            let record = run(&settings);
            assert_books(&record);
            let counts = record.counts;
            assert_eq!(counts.done, counts.planned - counts.unfinished, "{:?}", record.error_samples);
            assert_eq!((counts.failed, counts.retries), (0, 0), "{:?}", record.error_samples);
            assert_eq!(record.errors.connection, 0, "{:?}", record.error_samples);
            assert_eq!(record.outcomes["2xx"], counts.done);
            assert!(record.outages.is_empty(), "{:?}", record.outages);
            answered += usize::try_from(counts.done).unwrap();
        }
    }
    // The server's own account: no request was executed twice, and no unanswered one was counted. In an open
    // loop a few may be in flight when the load ends.
    let logged = server.logged("\"POST /answer", answered);
    assert!((answered..=answered + 3 * 64 * 6).contains(&logged), "{logged} of {answered}");
}

/// A port that passes connections on to another, each after a delay.
fn delayed(port: u16, by: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            thread::spawn(move || {
                thread::sleep(by);
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port))) else {
                    return;
                };
                let pass_on = |mut from: TcpStream, mut to: TcpStream| {
                    let _ = to.set_nodelay(true);
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass_on(from, to));
                pass_on(server, client);
            });
        }
    });
    own
}

#[test]
fn the_time_to_replace_a_connection_after_goaway_is_in_no_service_time() {
    let Some((_server, port)) = start() else { return };
    let by = Duration::from_millis(500);
    let closed = LoadSettings { events_max: Some(600), ..asked(delayed(port, by), "/answer", 10) };
    let open = LoadSettings {
        pace: support::jittered(200.0),
        events_max: None,
        time: Duration::from_secs(3),
        ..closed.clone()
    };
    for settings in [closed, open] {
        let record = run(&settings);
        assert_books(&record);
        assert_eq!((record.counts.failed, record.errors.connection), (0, 0), "{:?}", record.error_samples);
        let most_ns = |of: &Histogram| u128::from(of.quantile_ns(1.0).unwrap());
        let service_ns = most_ns(&record.service.known);
        assert!(service_ns < by.as_nanos(), "{service_ns} ns");
        match &record.wait {
            Ok(wait) => assert!(most_ns(&wait.known) >= by.as_nanos() / 2, "{:?}", wait.summary()),
            // The connections did nothing else for most of the time, which the verdict says.
            Err(_) => assert!(check_of(&record, "reconnects").found > 0.3, "{:?}", record.verdict),
        }
    }
}

#[test]
fn a_request_that_closes_is_the_last_on_its_connection_although_http_2_has_no_such_header() {
    let Some((server, port)) = start() else { return };
    let file = server.folder.path().join("closing.toml");
    std::fs::write(&file, "[[request]]\npath = '/nth'\nheaders = ['Connection: close']\nanswer = '1'\n")
        .unwrap();
    let requests = Some(file.display().to_string());
    for (streams, connections) in [(1, None), (1, Some(3)), (4, Some(3))] {
        let http = HttpSettings {
            version: HttpVersion::Two,
            requests: requests.clone(),
            streams,
            ..HttpSettings::plain()
        };
        // Streams that began before the answer are further requests of the same connection.
        let verify = streams == 1;
        let record =
            run(&LoadSettings { http, verify, connections, events_max: Some(100), ..asked(port, "", 1) });
        assert_books(&record);
        assert_eq!((record.counts.done, record.counts.failed), (100, 0), "{:?}", record.error_samples);
        assert!(record.outages.is_empty(), "{:?}", record.outages);
    }
}

#[test]
fn a_closed_loop_keeps_all_streams_of_all_connections_busy() {
    let Some((_server, port)) = start() else { return };
    let settings = LoadSettings {
        events_max: None,
        time: Duration::from_secs(2),
        interval: Duration::from_millis(100),
        // 100 s each.
        ..asked(port, "/slow", 10)
    };
    let http = HttpSettings { method: "GET".to_owned(), body: String::new(), ..settings.http.clone() };
    let record = run(&LoadSettings { http: http.clone(), drain: Duration::ZERO, ..settings.clone() });
    assert_eq!((record.counts.done, record.counts.unfinished), (0, 30), "{:?}", record.counts);
    // A time-out ends only its own stream: the others continue, and no connection is made again.
    let http = HttpSettings { timeout: Some(Duration::from_millis(300)), ..http };
    let record = run(&LoadSettings { http, errors_ratio_max: 1.0, ..settings });
    assert_books(&record);
    assert_eq!((record.counts.done, record.errors.connection), (0, 0), "{:?}", record.error_samples);
    assert_eq!(record.errors.timeout, record.counts.failed);
    assert!(record.counts.failed >= 30, "{:?}", record.counts);
}

#[test]
fn more_streams_than_the_server_allows_and_a_server_without_http_2_are_refused_in_words() {
    let Some((server, port)) = start() else { return };
    let refused = |settings: &LoadSettings| {
        let error = load::run(settings, &Stop::new(), &mut |_| {}).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage);
        error.to_string()
    };
    let text = refused(&asked(port, "/answer", 65));
    assert!(text.contains("64 concurrent streams") && text.contains("fewer --streams"), "{text}");
    let one = HttpSettings { streams: 2, ..HttpSettings::plain() };
    let text = refused(&LoadSettings { http: one, ..asked(server.port, "/page", 1) });
    assert!(text.contains("streams needs http_version"), "{text}");
}

#[test]
fn littles_law_holds_with_many_requests_in_flight() {
    let Some((_server, port)) = start() else { return };
    let settings =
        LoadSettings { events_max: None, time: Duration::from_secs(3), ..asked(port, "/answer", 8) };
    let record = run(&settings);
    assert_books(&record);
    assert!(check_of(&record, "connected").ok);
    let check = check_of(&record, "littles-law");
    assert!(check.ok, "{}", check.text);
}
