//! An event loop on a real socket, under a clock that jumps while a request is built.

use std::io::{Read as _, Write as _};

use record::clock::Monotonic;
use socket2::{Domain, Socket, Type};

use super::*;
use crate::engine::loops::event_loop::EventLoop;
use crate::measure::tally::Sum;
use crate::net::{Dialogue, Parsed};

/// The kernel's clock, and the time for which requests were built.
#[derive(Default)]
struct JumpingClock {
    built_ns: AtomicU64,
}

impl Clock for JumpingClock {
    fn now_ns(&self) -> u64 {
        Monotonic.now_ns() + self.built_ns.load(Ordering::SeqCst)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        Monotonic.sleep_until_ns(deadline_ns - self.built_ns.load(Ordering::SeqCst));
    }
}

/// Builds a request in one second.
struct Slow(Arc<JumpingClock>);

impl Dialogue for Slow {
    fn greet(&mut self, _: &mut Vec<u8>) {}

    fn hear_greeting(&mut self, _: &[u8]) -> Parsed {
        Parsed::MORE
    }

    fn ask(&mut self, _: Random, out: &mut Vec<u8>) {
        self.0.built_ns.fetch_add(SECOND, Ordering::SeqCst);
        out.push(b'?');
    }

    fn hear(&mut self, input: &[u8], _: bool) -> Parsed {
        if input.is_empty() { Parsed::MORE } else { Parsed::well(1, 0, None) }
    }
}

#[test]
fn the_time_to_build_a_request_is_service_in_a_loop_as_on_a_thread() {
    let clock = Arc::new(JumpingClock::default());
    let simulation = Simulation {
        clock: Arc::default(),
        engine: OnceLock::new(),
        serve: Box::new(|_| (0, Ok(()))),
        down_ns: 0..0,
        keeping: Keeping::ALL,
        used_ns: AtomicU64::new(0),
    };
    let driver: Arc<dyn Driver> = Arc::new(Server(Arc::new(simulation)));
    let settings = LoadSettings { connections: Some(1), ..settings(Loop::open(0.5), 4) };
    let engine = Engine::new(
        settings,
        Arc::from([]),
        Arc::new(Hosts::one(driver)),
        Arc::<JumpingClock>::clone(&clock),
    );
    let engine = Arc::new(engine);
    let start_ns = clock.now_ns() + 5 * MS;
    engine.begin(Timeline::new(&engine.settings, &engine.recorded, &engine.share, start_ns, CHANGES));
    let (client, mut server) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    let answers = std::thread::spawn(move || {
        let mut byte = [0];
        while server.read(&mut byte).is_ok_and(|bytes| bytes > 0) && server.write_all(b"!").is_ok() {}
    });
    let (writer, mut reader) = latency::cell(Box::new(Recorder::new(1, 0, 0)));
    let opened: Vec<(Socket, Box<dyn Dialogue>)> = vec![(client, Box::new(Slow(clock)))];
    let cut = &engine.workers[0].cut;
    drop(EventLoop::new(0, 0, &engine, writer, opened, cut).unwrap().work());
    answers.join().unwrap();

    let mut recorder = reader.close().unwrap();
    let histogram = |tally| {
        let mut sum = Sum::new();
        sum.take(tally);
        Histogram::from(&sum)
    };
    let (service, lateness) = (histogram(&mut recorder.service), histogram(&mut recorder.lateness));
    assert_eq!((service.count(), lateness.count()), (2, 2));
    assert!(service.quantile_ns(0.0) >= Some(SECOND - MS), "{:?}", service.summary());
    assert!(lateness.quantile_ns(1.0) < Some(SECOND / 2), "{:?}", lateness.summary());
}
