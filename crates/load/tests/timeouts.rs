//! Requests that are given up after their time-out: their counts, and the fate of the answer that comes
//! later.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use record::load::{LoadRecord, LoadSettings, Loop};
use record::requests::{HttpSettings, HttpVersion};
use record::target::Target;
use support::web::Nginx;
use support::{fake, run, settings};

const TIMEOUT: Duration = Duration::from_millis(200);

/// A thread for each connection, and one loop for all.
fn both(settings: &LoadSettings) -> [LoadRecord; 2] {
    [run(settings), run(&LoadSettings { threads: 1, connections: Some(4), ..settings.clone() })]
}

/// Asserts what must hold however slow the machine is.
fn assert_timed_out(record: &LoadRecord, timed_out: u64) {
    let (counts, samples) = (record.counts, &record.error_samples);
    assert_eq!((counts.failed, counts.retries), (timed_out, 0), "{samples:?}");
    assert_eq!(record.errors.timeout, timed_out, "{:?}", record.errors);
    // A slow server has not been away.
    assert_eq!((record.errors.connection, record.outages.len()), (0, 0), "{:?}", record.outages);
    assert!(samples.iter().any(|s| s == "timeout: no complete answer within 200ms"), "{samples:?}");
    let least_ns = u64::try_from(TIMEOUT.as_nanos()).unwrap();
    // A bucket's lowest value may be a thousandth less. An event in flight at the end may have lasted for any
    // time.
    let least_ns = least_ns - least_ns / 1_000;
    let shorter: u64 =
        record.service.at_least.buckets().filter(|(ns, _)| *ns < least_ns).map(|(_, n)| n).sum();
    assert!(shorter <= counts.unfinished, "{shorter} events");
    // In an open loop, plus the events in flight at the end.
    let lasted_longer = timed_out + counts.unfinished;
    assert_eq!(record.service.at_least.count(), lasted_longer);
    if let Ok(response) = &record.response {
        assert_eq!((response.known.count(), response.at_least.count()), (counts.done, lasted_longer));
    }
}

#[test]
fn an_answer_that_drips_is_given_up_and_its_latency_is_known_from_below() {
    let Some(server) = Nginx::start_secured() else { return };
    let file = server.folder.path().join("requests.toml");
    let text = "[[request]]\nname = 'page'\npath = '/page'\nweight = 3\n\n[[request]]\nname = 'slow'\npath = '/slow'\n";
    std::fs::write(&file, text).unwrap();
    let http = HttpSettings {
        requests: Some(file.display().to_string()),
        timeout: Some(TIMEOUT),
        insecure: true,
        ..HttpSettings::plain()
    };
    let one = LoadSettings { http, errors_ratio_max: 1.0, ..settings(server.url("/")) };
    let open = LoadSettings { pace: support::jittered(40.0), ..one.clone() };
    let closed =
        LoadSettings { pace: Loop::CLOSED, events_max: Some(40), time: Duration::from_mins(10), ..one };
    for base in [open, closed] {
        let two = Target::new(server.secure_url("localhost", "/"));
        let http = HttpSettings { version: HttpVersion::Two, ..base.http.clone() };
        for settings in [base.clone(), LoadSettings { target: two, http, ..base }] {
            for record in both(&settings) {
                let [page, slow] = ["page", "slow"].map(|name| &record.operations[name].service);
                // 40 draws with a chance of a quarter: all or none of them has one of 1 in 100,000.
                assert!(slow.at_least.count() > 0 && page.known.count() > 0);
                // One that timed out after the phase is unfinished, and its request is known too.
                let timed_out = record.errors.timeout;
                let in_all = timed_out..=timed_out + record.counts.unfinished;
                assert!(in_all.contains(&slow.at_least.count()), "{:?} {:?}", slow.at_least, record.counts);
                assert_timed_out(&record, timed_out);
                assert_eq!(slow.known.count(), 0);
                assert!(page.at_least.count() <= record.counts.unfinished);
                // The duration of a quarter of them is only bounded from below.
                let bounds = record.service.summary().unwrap().lower_bounds;
                assert!(bounds.contains(&"p99") && bounds.contains(&"mean"), "{bounds:?}");
            }
        }
    }
}

#[test]
fn an_answer_that_comes_after_its_time_out_is_not_that_of_the_next_request() {
    // It answers `/late` when another connection has sent a request, and each request with its own path.
    let (asked, news) = (Arc::new(Mutex::new(Vec::<usize>::new())), Arc::new(Condvar::new()));
    let port = fake::serve(move |peer| {
        while let Some(request) = peer.hear() {
            let path = String::from_utf8_lossy(&request).split(' ').nth(1).unwrap_or_default().to_owned();
            let mut all = asked.lock().unwrap();
            all.push(peer.number);
            news.notify_all();
            if path == "/late" {
                let before = all.len();
                let is_alone = |all: &mut Vec<usize>| all[before..].iter().all(|other| *other == peer.number);
                drop(news.wait_while(all, is_alone).unwrap());
            } else {
                drop(all);
            }
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).as_bytes());
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests.toml");
    let text = "[[request]]\nname = 'soon'\npath = '/soon'\nanswer = '/soon'\nweight = 4\n\n\
                [[request]]\nname = 'late'\npath = '/late'\nanswer = '/late'\n";
    std::fs::write(&file, text).unwrap();
    let http = HttpSettings {
        requests: Some(file.display().to_string()),
        timeout: Some(TIMEOUT),
        ..HttpSettings::plain()
    };
    let settings = LoadSettings {
        http,
        verify: true,
        pace: Loop::CLOSED,
        threads: 1,
        events_max: Some(60),
        time: Duration::from_mins(10),
        errors_ratio_max: 1.0,
        ..settings(format!("http://127.0.0.1:{port}/"))
    };
    // One connection: the next request comes on its next connection.
    for record in [run(&settings), run(&LoadSettings { connections: Some(1), ..settings.clone() })] {
        let timed_out = record.operations["late"].service.at_least.count();
        assert!(timed_out > 0);
        assert_eq!(
            (record.errors.verify, record.counts.done),
            (0, 60 - timed_out),
            "{:?}",
            record.error_samples
        );
        assert_eq!(record.operations["soon"].service.known.count(), 60 - timed_out);
        assert_timed_out(&record, timed_out);
    }
}
