//! A generator beside programs that take its CPUs, judged by a server that measures itself.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::support::fake::{Peer, serve};
use super::*;

/// Time that neither side accounts for: the network's own work waits for a CPU too.
const FLOOR_NS: f64 = 5e6;

/// Time for which the calling thread was runnable and did not run.
fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Answers requests at once, and records the time of each: from its arrival, with the thread's waits for a
/// CPU before and after, to the answer.
fn answer(peer: &mut Peer, truth: &Mutex<Histogram>) {
    let mut waited_before = waited_ns();
    while peer.hear().is_some() {
        let came_ns = Monotonic.now_ns();
        if !peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
            return;
        }
        let (sent_ns, waited) = (Monotonic.now_ns(), waited_ns());
        truth.lock().unwrap().record(sent_ns - came_ns + waited - waited_before);
        waited_before = waited;
    }
}

/// The percentiles that the load says are the server's, beside those that the server measured itself.
fn assert_is_the_servers(record: &LoadRecord, truth: &Histogram) {
    let (response, about) = (record.response.as_ref().unwrap().merged(), format!("{:?}", record.verdict));
    for (name, quantile) in QUANTILES.into_iter().filter(|(name, _)| ["p99", "p99_9"].contains(name)) {
        let of = |of: &Histogram| of.quantile_ns(quantile).unwrap() as f64;
        let (found, server) = (of(&response), of(truth));
        println!(
            "{name}: {} ms, of the server {} ms, {:?}",
            found / 1e6,
            server / 1e6,
            record.generator_made
        );
        if !record.generator_made.contains(&name) {
            assert!(found <= 2.0 * server + FLOOR_NS, "{name}: {found} ns of {server} ns, unmarked: {about}");
        }
    }
}

#[test]
fn beside_hogs_a_valid_run_has_the_servers_own_times() {
    // Hogs that never rest leave few runs VALID; hogs that run for a twentieth of the time leave most.
    for rest in [Duration::ZERO, Duration::from_millis(380)] {
        beside_hogs(rest);
    }
}

fn beside_hogs(rest: Duration) {
    let (over, mut runs) = (AtomicBool::new(false), Vec::new());
    let hog = || {
        while !over.load(Ordering::Relaxed) {
            let began_ns = Monotonic.now_ns();
            while Monotonic.now_ns() < began_ns + 20_000_000 {
                std::hint::spin_loop();
            }
            std::thread::sleep(rest);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(hog);
        }
        for (threads, connections, rate) in [(8, None, 500.0), (2, Some(16), 500.0), (8, None, 2_000.0)] {
            let truth = Arc::new(Mutex::new(Histogram::new()));
            let of_server = Arc::clone(&truth);
            let port = serve(move |peer| answer(peer, &of_server));
            let time = Duration::from_secs(3);
            let pace = support::jittered(rate);
            let target = format!("http://127.0.0.1:{port}/");
            let settings = LoadSettings { threads, connections, pace, time, ..settings(target) };
            runs.push((load::run(&settings, &Stop::new(), &mut |_| {}), truth));
        }
        over.store(true, Ordering::Relaxed);
    });
    for (record, truth) in runs {
        let record = record.unwrap();
        assert_books(&record);
        println!("{rest:?}: {} threads: {:?}", record.settings.threads, record.verdict.state);
        if record.verdict.state == Validity::Valid {
            assert_is_the_servers(&record, &truth.lock().unwrap());
        }
    }
}
