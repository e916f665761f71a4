//! Loads that are controlled while they run: real threads, real event loops, real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_load as load;

use load::{Attachments, Control, Stop};
use record::arrivals::Recorded;
use record::load::{Arrivals, LoadRecord, LoadSettings, Loop, OpenLoop, Schedule};
use record::verdict::Validity;
use support::web::Nginx;
use support::{assert_books, settings};

/// A client of the control socket.
struct Caller(BufReader<UnixStream>);

impl Caller {
    fn new(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).unwrap()))
    }

    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("ok ") || answer.starts_with("error: "), "{answer}");
        answer.trim_end().to_owned()
    }

    /// Waits until the measured phase has lasted `for_s`.
    fn await_measured(&mut self, for_s: f64) {
        loop {
            let status = self.ask("status");
            let word = |name: &str| status.split(' ').find_map(|w| w.strip_prefix(name)).map(str::to_owned);
            let t_s: f64 = word("t_s=").map_or(0.0, |text| text.parse().unwrap());
            if word("phase=").as_deref() == Some("measure") && t_s >= for_s {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Runs a load while `talk` controls it.
fn talked_to(
    settings: &LoadSettings,
    recorded: Option<Arc<[u64]>>,
    talk: impl FnOnce(&mut Caller) + Send,
) -> LoadRecord {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let stop = Arc::new(Stop::new());
    let theirs = Arc::clone(&stop);
    let control = Arc::new(Control::listen(&path, move || theirs.request()).unwrap());
    let attachments = Attachments { recorded, control: Some(control), ..Attachments::default() };
    let record = std::thread::scope(|scope| {
        let caller = scope.spawn(|| talk(&mut Caller::new(&path)));
        let mut slices = Vec::new();
        let mut record = load::run_with(settings, &attachments, &stop, &mut |event| {
            if let load::Event::IntervalClosed(of_interval) = event {
                slices.extend_from_slice(of_interval);
            }
        })
        .unwrap();
        record.slices = slices;
        caller.join().unwrap();
        record
    });
    assert_books(&record);
    record
}

/// Events that are due if the rate was as recorded.
fn expected(record: &LoadRecord) -> f64 {
    let mut rate_per_s = record.settings.pace.per_s().expect("an open loop");
    let (mut events, mut from_s) = (0.0, 0.0);
    for change in &record.rate_changes {
        assert!((change.from_per_s - rate_per_s).abs() < 1e-9, "{:?}", record.rate_changes);
        events += rate_per_s * (change.at_s.max(0.0) - from_s);
        (rate_per_s, from_s) = (change.per_s, change.at_s.max(0.0));
    }
    events + rate_per_s * (record.measured.as_secs_f64() - from_s)
}

#[test]
fn the_rate_goes_where_it_is_told_and_the_books_balance_to_the_event() {
    let server = Nginx::start();
    let url = server.as_ref().map(|server| server.url("/page"));
    for schedule in [Schedule::Shared, Schedule::Own] {
        let threads = LoadSettings { threads: 8, ..settings("null:") };
        let loops = url.as_ref().map(|url| LoadSettings {
            threads: 2,
            connections: Some(20),
            ..settings(url.as_str())
        });
        for base in [Some(threads), loops].into_iter().flatten() {
            let settings = LoadSettings {
                // So slow that every worker holds an event from the start, most of them due after the end.
                pace: Loop::Open(OpenLoop { schedule, ..OpenLoop::plain(2.0) }),
                warmup: Duration::from_millis(100),
                time: Duration::from_millis(1_500),
                ..base
            };
            let record = talked_to(&settings, None, |caller| {
                caller.await_measured(0.1);
                assert!(caller.ask("rate 1000/s").starts_with("ok rate_per_s=1000 from_per_s=2 "));
                caller.await_measured(0.6);
                assert!(caller.ask("rate -50%").starts_with("ok rate_per_s=500 from_per_s=1000 "));
                assert!(caller.ask("rate 0").starts_with("error: "));
            });
            let found = record.counts.planned as f64;
            assert!(
                (found - expected(&record)).abs() <= 3.0,
                "{found} of {}: {record:#?}",
                expected(&record)
            );
            assert_eq!(record.rate_changes.len(), 2);
            assert_eq!(record.counts.failed + record.counts.skipped, 0, "{:?}", record.error_samples);
        }
    }
}

#[test]
fn every_arrival_process_follows() {
    let recorded: Arc<[u64]> = (0..300).map(|k| k * 4_000_000).collect();
    let file = Recorded {
        path: "x".to_owned(),
        events: 300,
        span: Duration::from_millis(1_196),
        sha256: String::new(),
    };
    let arrivals =
        ["jitter", "poisson", "ramp:100-400", "step:100,400", "burst:100-400@1s/2s", "sine:100-400@1s"];
    let arrivals = arrivals.map(|text| (Arrivals::parse(text).unwrap(), None));
    std::thread::scope(|scope| {
        for (arrivals, recorded) in arrivals.into_iter().chain([(Arrivals::File(file), Some(recorded))]) {
            scope.spawn(move || {
                let time = Duration::from_millis(1_200);
                let rate = arrivals.mean_per_s(time).unwrap_or(250.0);
                let is_recording = matches!(arrivals, Arrivals::File(_));
                let pace = Loop::Open(OpenLoop { arrivals, ..OpenLoop::plain(rate) });
                let settings = LoadSettings { time, pace, ..settings("null:") };
                let record = talked_to(&settings, recorded, |caller| {
                    caller.await_measured(0.2);
                    assert!(caller.ask("rate x3").starts_with("ok "), "{:?}", settings.pace);
                });
                assert_eq!(record.rate_changes.len(), 1);
                // A recording that is replayed faster ends earlier; all others offer more.
                let at_its_rate = rate * 1.2;
                assert!(is_recording || record.counts.planned as f64 > at_its_rate, "{:?}", record.counts);
            });
        }
    });
}

#[test]
fn a_recording_is_replayed_once_however_often_its_speed_changes() {
    let recorded: Arc<[u64]> = (0..400).map(|k| k * 5_000_000).collect();
    let file = Recorded {
        path: "x".to_owned(),
        events: 400,
        span: Duration::from_millis(1_995),
        sha256: String::new(),
    };
    let pace = Loop::Open(OpenLoop { arrivals: Arrivals::File(file), ..OpenLoop::plain(200.0) });
    let settings = LoadSettings { time: Duration::from_secs(2), pace, ..settings("null:") };
    let record = talked_to(&settings, Some(recorded), |caller| {
        caller.await_measured(0.4);
        assert!(caller.ask("rate x2").starts_with("ok "));
        caller.await_measured(0.9);
        assert!(caller.ask("rate x0.5").starts_with("ok "));
    });
    assert_eq!(record.rate_changes.len(), 2);
    // By the time of the second change two thirds were replayed; the offset by the clock began again there.
    assert!((300..=400).contains(&record.counts.planned), "{:?}", record.counts);
}

#[test]
fn a_change_in_the_warm_up_lasts_and_stop_ends_the_load() {
    let settings = LoadSettings {
        warmup: Duration::from_millis(600),
        time: Duration::from_mins(10),
        pace: Loop::open(200.0),
        ..settings("null:")
    };
    let record = talked_to(&settings, None, |caller| {
        while !caller.ask("status").contains("phase=warm-up") {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(caller.ask("rate 1000").starts_with("ok "));
        caller.await_measured(0.3);
        assert_eq!(caller.ask("stop"), "ok stopping the load");
    });
    assert_eq!(record.verdict.state, Validity::Interrupted);
    let [change] = record.rate_changes[..] else { panic!("{:?}", record.rate_changes) };
    assert!(change.at_s < 0.0 || record.measured < Duration::from_secs(2), "{change:?}");
    assert!((record.counts.planned as f64 - expected(&record)).abs() <= 2.0, "{record:#?}");
}

#[test]
fn a_closed_loop_has_nothing_to_change_and_tells_so() {
    let settings = LoadSettings { pace: Loop::CLOSED, time: Duration::from_millis(500), ..settings("null:") };
    let record = talked_to(&settings, None, |caller| {
        caller.await_measured(0.0);
        assert!(caller.ask("rate 10/s").starts_with("error: a closed loop"));
        assert!(caller.ask("status").contains("rate_per_s=max"));
        assert!(caller.ask("faster").starts_with("error: unknown command `faster`: expected rate "));
    });
    assert!(record.rate_changes.is_empty());
}
