//! Loads on a real nginx: what is asked, answered, redirected, refused and counted.
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
use record::load::{LoadRecord, LoadSettings, Phase, Rate};
use record::requests::HttpSettings;
use support::web::Nginx;
use support::{run, settings};

/// 300 requests, as fast as they go, with each thread's one connection, and with many on each of two threads.
fn runs(target: &str, http: &HttpSettings, verify: bool) -> [LoadRecord; 2] {
    let base = LoadSettings {
        http: http.clone(),
        verify,
        rate: Rate::Max,
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
            // nginx closes each connection after 50 requests, and says so: that is no outage.
            assert!(record.outages.is_empty(), "{path}: {:?}", record.outages);
            assert!(record.server_version.unwrap().starts_with("nginx"));
        }
    }
    for record in runs(&server.url("/gone"), &plain, false) {
        assert_eq!((record.counts.failed, record.errors.application), (300, 300));
        assert!(record.error_samples[0].contains("410"), "{:?}", record.error_samples);
    }
    let expected = HttpSettings { expected_status: Some(410), ..plain.clone() };
    for record in runs(&server.url("/gone"), &expected, false) {
        assert_eq!((record.counts.done, record.outcomes["4xx"]), (300, 300));
    }
    let unexpected = HttpSettings { expected_status: Some(200), ..plain };
    for record in runs(&server.url("/moved"), &unexpected, false) {
        assert_eq!(record.counts.failed, 300);
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
        let count = |name: &str| record.operations[name].service.count();
        assert_eq!((count("page"), count("gone")), (record.outcomes["2xx"], record.outcomes["4xx"]));
        // 300 draws with a chance of 0.8: six standard deviations are 42.
        assert!((198..=282).contains(&count("page")), "{}", count("page"));
    }
    fs::write(&file, text.replace("hello", "jello")).unwrap();
    for record in runs(&server.url(""), &http, true) {
        assert_eq!(record.errors.verify, record.counts.failed);
        assert_eq!(record.counts.done, record.outcomes["4xx"]);
        assert!(record.counts.failed > 0);
    }
}

#[test]
fn what_cannot_be_asked_is_told_before_anything_is_measured() {
    let error_of = |settings: &LoadSettings| load::run(settings, &Stop::new(), &mut |_| {}).unwrap_err();
    for (target, word) in [
        ("http:127.0.0.1", "http://host:port/path"),
        ("http://me:secret@127.0.0.1/", "--header"),
        ("http://127.0.0.1/a b", "%20"),
        ("http://127.0.0.1:port/", "port"),
    ] {
        let error = error_of(&settings(target));
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert!(error.to_string().contains(word) && !error.to_string().contains("secret"), "{error}");
    }
    let requests = Some("/nonexistent/requests.toml".to_owned());
    let no_file = LoadSettings {
        http: HttpSettings { requests, ..HttpSettings::plain() },
        ..settings("http://127.0.0.1/")
    };
    assert!(error_of(&no_file).to_string().contains("/nonexistent/requests.toml"));
}

#[test]
fn many_connections_go_on_while_the_load_falls() {
    let Some(server) = Nginx::start() else { return };
    for rate in [Rate::PerSecond(500.0), Rate::Max] {
        // It ends as soon as an event of the falling load was seen.
        let settings = LoadSettings {
            rate,
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
        assert!(is_seen, "{rate:?}");
        assert!(record.unwrap().counts.balance());
    }
}
