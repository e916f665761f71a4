//! Connections that are opened again while a load runs: one that hangs holds up no other.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use record::load::{LoadSettings, Loop, PreparePolicy, ScriptFile, ScriptSettings, Workload};

use support::certificates::{Authority, Valid};
use support::fake::{Peer, postgres_login, postgres_request, serve, serve_by};
use support::{run, settings};

/// Keeps a connection open and neither reads nor writes.
fn hang() {
    loop {
        std::thread::park();
    }
}

/// One of four connections of a loop ends, and the server accepts the next one and says nothing: its
/// handshake takes until its time limit. The other three continue.
#[test]
fn a_handshake_that_hangs_holds_up_no_other_connection_of_its_loop() {
    let Some(authority) = Authority::new() else { return };
    let certificate = authority.sign("server", Valid::Now);
    let has_ended = AtomicBool::new(false);
    let port = serve_by(Some(&certificate), &[b"http/1.1"], move |peer| {
        if has_ended.load(Ordering::SeqCst) {
            hang();
        }
        while let Some(request) = peer.hear() {
            let ends = request.starts_with(b"GET") && !has_ended.swap(true, Ordering::SeqCst);
            let header = if ends { "Connection: close\r\n" } else { "" };
            peer.say(format!("HTTP/1.1 200 OK\r\n{header}Content-Length: 0\r\n\r\n").as_bytes());
            if ends {
                return peer.close();
            }
        }
    });
    let mut settings = settings(format!("https://localhost:{port}/"));
    settings.http.insecure = true;
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        threads: 1,
        connections: Some(4),
        drain: Duration::from_secs(1),
        ..settings
    });
    let about = format!("{:?} {:?}", record.counts, record.error_samples);
    assert!(record.counts.done > 100 && record.counts.failed == 0, "{about}");
}

/// A server that ends its first two connections after an answer each.
fn ends_two(later: fn(&mut Peer)) -> u16 {
    let answered = AtomicUsize::new(0);
    serve(move |peer| {
        if answered.load(Ordering::SeqCst) >= 2 {
            return later(peer);
        }
        let Some(()) = postgres_login(peer) else { return };
        if postgres_request(peer).is_some() {
            peer.say(UPDATED);
            answered.fetch_add(1, Ordering::SeqCst);
        }
    })
}

const UPDATED: &[u8] = b"C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05I";

/// Each of two hosts has two connections. One of them then accepts new ones and finishes no login.
#[test]
fn a_login_that_hangs_holds_up_no_connection_to_another_host() {
    let hangs = ends_two(|_| hang());
    let lives = ends_two(|peer| {
        let Some(()) = postgres_login(peer) else { return };
        while postgres_request(peer).is_some() && peer.say(UPDATED) {}
    });
    let text = "UPDATE t SET n = 1;\n".to_owned();
    let mut settings = LoadSettings {
        workload: Workload::Script,
        scripts: ScriptSettings {
            files: vec![ScriptFile { name: "one.sql".to_owned(), weight: 1, text }],
            defines: Vec::new(),
        },
        ..settings(format!("postgres://app@127.0.0.1:{hangs},127.0.0.1:{lives}/bench"))
    };
    settings.oltp.prepared = false;
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        threads: 1,
        connections: Some(4),
        retries_max: 1_000,
        errors_ratio_max: 1.0,
        drain: Duration::from_secs(1),
        prepare: PreparePolicy::Never,
        ..settings
    });
    let done: Vec<u64> = record.hosts.iter().map(|host| host.done).collect();
    let about = format!("{done:?} {:?}", record.error_samples);
    assert!(done[0] <= 2 && done[1] > 100, "{about}");
}
