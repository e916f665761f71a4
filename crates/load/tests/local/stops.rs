//! Loads that are stopped, in each of their phases.

use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, LoadError, Stop};
use record::load::{Arrivals, LoadSettings, Loop, OpenLoop, Phase, Schedule};
use record::verdict::Validity;

use crate::support::{assert_books, settings};

#[test]
fn a_stopped_run_keeps_what_it_measured() {
    let stop = Stop::new();
    let long = LoadSettings { time: Duration::from_hours(1), ..settings("null:") };
    let mut on_progress = |event: &Event| {
        if let Event::Interval(_) = event {
            stop.request();
        }
    };
    let record = load::run(&long, &stop, &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!(record.verdict.state, Validity::Interrupted);
    let expected = 200.0 * record.measured.as_secs_f64();
    assert!((record.counts.planned as f64 - expected).abs() <= 2.0, "{:?} in {expected}", record.counts);
    assert!(record.counts.done > 0);
}

#[test]
fn a_run_stopped_in_its_warm_up_has_measured_nothing() {
    let stop = Stop::new();
    let warmup = Duration::from_hours(1);
    let mut on_progress = |event: &Event| {
        if let Event::PhaseStarts { .. } = event {
            stop.request();
        }
    };
    let error =
        load::run(&LoadSettings { warmup, ..settings("null:") }, &stop, &mut on_progress).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Interrupted);
}

/// A port on which connections are neither accepted nor refused, as of a host that is gone.
fn silent_port() -> (u16, Vec<socket2::Socket>) {
    use socket2::{Domain, SockAddr, Socket, Type};
    let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let listener = tcp();
    listener.bind(&SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = vec![listener];
    // Nothing accepts them: when the queue is full, the next attempts are not answered.
    loop {
        let client = tcp();
        let is_taken = client.connect_timeout(&address, Duration::from_millis(500)).is_ok();
        sockets.push(client);
        if !is_taken {
            return (address.as_socket().unwrap().port(), sockets);
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_a_host_that_does_not_answer() {
    let (port, _sockets) = silent_port();
    for target in [
        format!("mysql://root@127.0.0.1:{port}/bench"),
        format!("postgres://postgres@127.0.0.1:{port}/bench"),
        format!("memcached://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let stop = Stop::new();
        stop.request();
        // A wait to the end of the attempt would end with a failed connection.
        let error = load::run(&settings(&target), &stop, &mut |_| {}).unwrap_err();
        assert!(matches!(error, LoadError::Interrupted), "{target}: {error}");
    }
}

#[test]
fn a_command_that_hangs_is_killed_at_a_stop_and_counts_as_unfinished() {
    let stop = Stop::new();
    let settings = LoadSettings { time: Duration::from_hours(1), ..settings("exec:sleep 3000") };
    let mut on_progress = |event: &Event| {
        if let Event::Interval(_) = event {
            stop.request();
        }
    };
    let record = load::run(&settings, &stop, &mut on_progress).unwrap();
    assert_books(&record);
    assert_eq!((record.counts.done, record.counts.failed), (0, 0));
    assert_eq!(record.counts.unfinished, record.counts.planned);
    assert!(record.counts.planned >= 200);
}

#[test]
fn a_stop_is_heard_with_billions_of_events_ahead() {
    for schedule in [Schedule::Shared, Schedule::Own] {
        for arrivals in [Arrivals::Poisson, Arrivals::Jitter { ratio: 0.1 }] {
            let stop = Stop::new();
            let time = Duration::from_hours(1);
            let pace = Loop::Open(OpenLoop { arrivals, schedule, ..OpenLoop::plain(1e6) });
            let settings = LoadSettings { pace, time, ..settings("null:") };
            let mut on_progress = |event: &Event| {
                if let Event::Interval(_) = event {
                    stop.request();
                }
            };
            let record = load::run(&settings, &stop, &mut on_progress).unwrap();
            assert_books(&record);
            assert_eq!(record.verdict.state, Validity::Interrupted);
            assert!(record.counts.planned > 0, "{:?}", record.counts);
        }
    }
}

#[test]
fn a_stop_after_the_measured_phase_is_an_interruption_too() {
    let falling = LoadSettings { ramp_down: Duration::from_mins(10), ..settings("null:") };
    // One event is in flight when the phase ends, for longer than the drain.
    let hanging = LoadSettings { drain: Duration::from_mins(10), ..settings("exec:sleep 600") };
    for (settings, asked_in) in [(falling, Phase::RampDown), (hanging, Phase::Drain)] {
        let stop = Stop::new();
        let mut on_progress = |event: &Event| match event {
            Event::PhaseStarts { phase, .. } if *phase == asked_in => stop.request(),
            _ => {}
        };
        let record = load::run(&settings, &stop, &mut on_progress).unwrap();
        assert_books(&record);
        assert_eq!(record.verdict.state, Validity::Interrupted, "{asked_in:?}");
        assert_eq!(record.measured, settings.time);
    }
}
