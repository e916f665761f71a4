//! Loads on a real nginx: requests sent, answered, redirected, refused and counted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::fs;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, Stop};
use record::load::{LoadRecord, LoadSettings, Loop, Phase};
use record::requests::{HttpSettings, HttpVersion};
use support::web::Nginx;
use support::{run, settings};

/// 300 requests, as fast as possible, with one connection for each thread, and with many on each of two
/// threads.
fn runs(target: &str, http: &HttpSettings, verify: bool) -> [LoadRecord; 2] {
    let base = LoadSettings {
        http: http.clone(),
        verify,
        pace: Loop::CLOSED,
        events_max: Some(300),
        time: Duration::from_mins(10),
        errors_ratio_max: 1.0,
        ..settings(target)
    };
    [run(&base), run(&LoadSettings { threads: 2, connections: Some(20), ..base })]
}

#[test]
fn answers_are_read_whole_and_told_apart_by_their_status() {
    let Some(server) = Nginx::start() else { return };
    let plain = HttpSettings::plain();
    for (path, outcome) in [("/page", "2xx"), ("/long", "2xx"), ("/moved", "3xx")] {
        for record in runs(&server.url(path), &plain, false) {
            assert_eq!(
                (record.counts.done, record.counts.failed),
                (300, 0),
                "{path}: {:?}",
                record.error_samples
            );
            assert_eq!(record.outcomes[outcome], 300, "{path}: {:?}", record.outcomes);
            // nginx closes each connection after 50 requests, and announces it: that is not an outage.
            assert!(record.outages.is_empty(), "{path}: {:?}", record.outages);
            assert!(record.server_version.unwrap().starts_with("nginx"));
        }
    }
    for record in runs(&server.url("/gone"), &plain, false) {
        assert_eq!((record.counts.failed, record.errors.application), (300, 300));
        assert_eq!(record.outcomes["4xx"], 300, "{:?}", record.outcomes);
        assert!(record.error_samples[0].contains("410"), "{:?}", record.error_samples);
    }
    let expected = HttpSettings { expected_status: Some(410), ..plain.clone() };
    for record in runs(&server.url("/gone"), &expected, false) {
        assert_eq!((record.counts.done, record.outcomes["4xx"]), (300, 300));
    }
    let unexpected = HttpSettings { expected_status: Some(200), ..plain };
    for record in runs(&server.url("/moved"), &unexpected, false) {
        assert_eq!((record.counts.failed, record.outcomes["3xx"]), (300, 300));
    }
}

#[test]
fn the_server_logs_exactly_the_requests_that_were_counted() {
    let Some(server) = Nginx::start() else { return };
    let log = server.folder.path().join("access.log");
    let gets =
        || fs::read_to_string(&log).unwrap().lines().filter(|line| line.contains("\"GET /page")).count();
    for (number, _) in runs(&server.url("/page"), &HttpSettings::plain(), false).iter().enumerate() {
        // Both have run by now; nginx logs a request after it has answered it.
        while gets() < 600 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(gets(), 600, "{number}");
    }
}

#[test]
fn a_file_of_requests_is_asked_in_its_shares_and_its_answers_are_checked() {
    let Some(server) = Nginx::start() else { return };
    let file = server.folder.path().join("requests.toml");
    let text = "[[request]]\nname = 'page'\npath = '/page'\nweight = 4\nanswer = \"hello\\n\"\n\n\
                [[request]]\nname = 'gone'\npath = '/gone'\nstatus = 410\n";
    fs::write(&file, text).unwrap();
    let http = HttpSettings { requests: Some(file.display().to_string()), ..HttpSettings::plain() };
    for record in runs(&server.url(""), &http, true) {
        assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
        let count = |name: &str| record.operations[name].service.known.count();
        assert_eq!((count("page"), count("gone")), (record.outcomes["2xx"], record.outcomes["4xx"]));
        // 300 draws with a chance of 0.8: six standard deviations are 42.
        assert!((198..=282).contains(&count("page")), "{}", count("page"));
    }
    fs::write(&file, text.replace("hello", "jello")).unwrap();
    for record in runs(&server.url(""), &http, true) {
        assert_eq!(record.errors.verify, record.counts.failed);
        assert_eq!(
            (record.counts.failed, record.counts.done),
            (record.outcomes["2xx"], record.outcomes["4xx"])
        );
        assert!(record.counts.failed > 0);
    }
}

#[test]
fn what_cannot_be_asked_is_told_before_anything_is_measured() {
    let error_of = |settings: &LoadSettings| load::run(settings, &Stop::new(), &mut |_| {}).unwrap_err();
    for (target, word) in [
        ("http:127.0.0.1", "http://host:port/path"),
        ("http://127.0.0.1/a b", "%20"),
        ("http://127.0.0.1:port/", "port"),
    ] {
        let error = error_of(&settings(target));
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let requests = Some("/nonexistent/requests.toml".to_owned());
    let no_file = LoadSettings {
        http: HttpSettings { requests, ..HttpSettings::plain() },
        ..settings("http://127.0.0.1/")
    };
    assert!(error_of(&no_file).to_string().contains("/nonexistent/requests.toml"));
}

#[test]
fn what_the_server_closes_while_it_is_idle_is_no_error() {
    let Some(server) = Nginx::start() else { return };
    let settings = support::web::now_and_then(&settings(server.url("/brief")));
    for connections in [None, Some(4)] {
        support::web::assert_untroubled(&run(&LoadSettings { connections, ..settings.clone() }));
    }
}

#[test]
fn what_must_not_be_done_twice_is_not_sent_twice() {
    let Some(server) = Nginx::start() else { return };
    let (mut logged, retries) = (0, 2);
    for (method, header, tries) in
        [("POST", None, 1), ("GET", None, 1 + retries), ("POST", Some("Idempotency-Key: 1"), 1 + retries)]
    {
        for connections in [None, Some(4)] {
            let record = run(&LoadSettings {
                http: HttpSettings {
                    method: method.to_owned(),
                    headers: header.map(str::to_owned).into_iter().collect(),
                    ..HttpSettings::plain()
                },
                threads: 2,
                connections,
                pace: Loop::CLOSED,
                events_max: Some(20),
                time: Duration::from_mins(10),
                retries_max: retries,
                ..settings(server.url("/dropped"))
            });
            let sent = 20 * u64::from(tries);
            assert_eq!((record.counts.done, record.counts.failed), (0, 20));
            assert_eq!((record.counts.retries, record.errors.connection), (sent - 20, sent), "{method}");
            logged += usize::try_from(sent).unwrap();
            // A request is logged when its connection has been closed: 444 stands for that.
            assert_eq!(server.logged(" 444 ", logged), logged, "{method} {header:?}");
        }
    }
}

#[test]
fn connections_that_a_server_takes_only_to_close_them_are_not_made_without_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}/", listener.local_addr().unwrap());
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&taken);
    // It answers the initial check of the server, and no other request.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            if count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
                let _ = std::io::Read::read(&mut client, &mut [0; 1_000]);
                let _ = std::io::Write::write_all(&mut client, b"HTTP/1.1 204 No Content\r\n\r\n");
            }
        }
    });
    let (threads, connections) = (1, Some(4));
    let record = run(&LoadSettings {
        threads,
        connections,
        pace: support::jittered(2.0),
        retries_max: 0,
        ..settings(target)
    });
    assert_eq!((record.counts.done, record.counts.failed), (0, record.counts.planned));
    // The pauses grow up to a twenty-fifth of a second or more; without them there would be thousands of
    // connections.
    let taken = taken.load(std::sync::atomic::Ordering::SeqCst);
    assert!(taken < 400, "{taken} connections");
}

#[test]
fn many_connections_go_on_while_the_load_falls() {
    let Some(server) = Nginx::start() else { return };
    for pace in [support::jittered(500.0), Loop::CLOSED] {
        // It ends as soon as an event of the falling load arrives.
        let settings = LoadSettings {
            pace: pace.clone(),
            threads: 2,
            connections: Some(20),
            interval: Duration::from_millis(100),
            ramp_down: Duration::from_mins(10),
            ..settings(server.url("/page"))
        };
        let (stop, mut is_seen) = (Stop::new(), false);
        let record = load::run(&settings, &stop, &mut |event| {
            if let Event::Interval(progress) = event
                && progress.phase == Phase::RampDown
                && progress.latency.count() > 0
            {
                is_seen = true;
                stop.request();
            }
        });
        assert!(is_seen, "{pace:?}");
        assert!(record.unwrap().counts.balance());
    }
}

#[test]
fn a_web_server_is_reached_by_its_socket_whatever_the_target_names() {
    let Some(server) = Nginx::start_beside(|root| {
        format!("server {{ listen unix:{root}/web.sock; location / {{ return 200 $host; }} }}")
    }) else {
        return;
    };
    let file = server.folder.path().join("requests.toml");
    fs::write(&file, "[[request]]\npath = '/'\nanswer = 'shop.example'\n").unwrap();
    let unix_socket = Some(server.folder.path().join("web.sock").display().to_string());
    let requests = Some(file.display().to_string());
    let http = HttpSettings { requests, unix_socket, ..HttpSettings::plain() };
    // The host is never looked up.
    for record in runs("http://shop.example:1/", &http, true) {
        assert_eq!((record.counts.done, record.errors.verify), (300, 0), "{:?}", record.error_samples);
    }
    let nowhere = Some("/nonexistent/web.sock".to_owned());
    let http = HttpSettings { unix_socket: nowhere, ..HttpSettings::plain() };
    let error = support::error_of(&LoadSettings { http, ..settings("http://shop.example:1/") });
    assert!(error.to_string().contains("No such file"), "{error}");
}

#[test]
fn a_connection_sends_the_cookies_that_it_was_given_and_no_other() {
    // nginx closes each connection after 50 requests.
    let Some(server) = Nginx::start_beside(|root| {
        format!(
            "log_format visits '$server_protocol $connection $cookie_visitor';
             server {{
                 listen unix:{root}/one.sock; listen unix:{root}/two.sock http2; access_log {root}/visits.log visits;
                 location / {{ add_header Set-Cookie \"visitor=$connection; Path=/\"; return 200 hello; }}
             }}"
        )
    }) else {
        return;
    };
    let log = server.folder.path().join("visits.log");
    for (socket, version) in [("one.sock", HttpVersion::One), ("two.sock", HttpVersion::Two)] {
        let unix_socket = Some(server.folder.path().join(socket).display().to_string());
        for cookies in [true, false] {
            fs::write(&log, "").unwrap();
            let http =
                HttpSettings { unix_socket: unix_socket.clone(), version, cookies, ..HttpSettings::plain() };
            for record in runs("http://localhost/", &http, false) {
                assert_eq!(record.counts.done, 300, "{:?}", record.error_samples);
            }
            let visits = loop {
                let visits = fs::read_to_string(&log).unwrap();
                // Two checks beside the requests; a line is written whole.
                if visits.lines().count() >= 602 {
                    break visits;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            let words: Vec<Vec<&str>> = visits.lines().map(|line| line.split(' ').collect()).collect();
            let known = words.iter().filter(|visit| visit[2] == visit[1]).count();
            let unknown = words.iter().filter(|visit| visit[2] == "-").count();
            let connections: std::collections::BTreeSet<&str> = words.iter().map(|visit| visit[1]).collect();
            let expected = if cookies { 602 - connections.len() } else { 0 };
            assert_eq!((known, unknown), (expected, 602 - expected), "{version:?}");
        }
    }
    let headers = vec!["Cookie: a=b".to_owned()];
    let http = HttpSettings { headers, cookies: true, ..HttpSettings::plain() };
    let error = support::error_of(&LoadSettings { http, ..settings(server.url("/page")) });
    assert!(error.to_string().contains("leave one of them out"), "{error}");
}

#[test]
fn values_of_requests_come_from_rows_of_data_and_from_the_seed() {
    // The request as the server understood it: path, header and length and text of the body.
    let Some(server) = Nginx::start_beside(|root| {
        format!(
            "log_format asked escape=none '$request_uri|$http_x_name|$content_length|$request_body';
             server {{
                 listen unix:{root}/one.sock; listen unix:{root}/two.sock http2; access_log {root}/asked.log asked;
                 location /sink {{ return 204; }}
                 location / {{ proxy_pass http://unix:{root}/one.sock:/sink; }}
             }}"
        )
    }) else {
        return;
    };
    let (data, file) = (server.folder.path().join("users.csv"), server.folder.path().join("requests.toml"));
    fs::write(&data, "id,name,body\n1,a b,\"{\"\"x\"\": 1}\"\n2,ü,longer body\n3,,\n").unwrap();
    let text = "[[request]]\nmethod = 'POST'\npath = '/user/${id}?q=${name}&n=${random(5, 6)}'\n\
                headers = ['X-Name: n${id}']\nbody = '<${body}>'\n";
    fs::write(&file, text).unwrap();
    let log = server.folder.path().join("asked.log");
    let mut told = Vec::new();
    for (socket, version) in [("one.sock", HttpVersion::One), ("two.sock", HttpVersion::Two)] {
        let http = HttpSettings {
            unix_socket: Some(server.folder.path().join(socket).display().to_string()),
            version,
            data: Some(data.display().to_string()),
            requests: Some(file.display().to_string()),
            ..HttpSettings::plain()
        };
        for cookies in [false, true] {
            let http = HttpSettings { cookies, ..http.clone() };
            fs::write(&log, "").unwrap();
            for record in runs("http://localhost/", &http, false) {
                assert_eq!(record.counts.done, 300, "{:?}", record.error_samples);
            }
            let mut lines: Vec<String> = loop {
                let asked = fs::read_to_string(&log).unwrap();
                let users = asked.lines().filter(|line| line.starts_with("/user/"));
                if users.clone().count() >= 600 {
                    break users.map(str::to_owned).collect();
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            lines.sort();
            told.push(lines);
        }
    }
    // The same events send the same requests, by threads and loops, by either version.
    assert!(told.iter().all(|lines| *lines == told[0]));
    let kinds: std::collections::BTreeSet<&str> = told[0].iter().map(String::as_str).collect();
    let mut expected = Vec::new();
    for n in [5, 6] {
        expected.push(format!("/user/1?q=a%20b&n={n}|n1|10|<{{\"x\": 1}}>"));
        expected.push(format!("/user/2?q=%C3%BC&n={n}|n2|13|<longer body>"));
        expected.push(format!("/user/3?q=&n={n}|n3|2|<>"));
    }
    expected.sort();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    // A template that cannot be filled is reported before anything is measured.
    let http = HttpSettings { body: "${nobody}".to_owned(), ..HttpSettings::plain() };
    let error = support::error_of(&LoadSettings { http, ..settings(server.url("/page")) });
    assert!(error.to_string().contains("needs a data file (--data)"), "{error}");
    let http = HttpSettings { data: Some(data.display().to_string()), ..HttpSettings::plain() };
    let error = support::error_of(&LoadSettings { http, ..settings(server.url("/page")) });
    assert!(error.to_string().contains("--data has no effect"), "{error}");
}

#[test]
fn a_value_that_fails_in_some_events_fails_those_and_no_other() {
    let Some(server) = Nginx::start() else { return };
    for record in runs(&server.url("/page?${1 / random(0, 1)}"), &HttpSettings::plain(), false) {
        let counts = record.counts;
        assert_eq!((counts.done + counts.failed, counts.unfinished), (300, 0));
        // 300 draws with a chance of a half: six standard deviations are 52.
        assert!((98..=202).contains(&counts.failed), "{counts:?}");
        assert_eq!((record.errors.application, record.errors.connection), (counts.failed, 0));
        assert!(record.error_samples[0].contains("division by zero"), "{:?}", record.error_samples);
    }
}
