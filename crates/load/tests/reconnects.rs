//! Connections that are opened again while a load runs: one that hangs holds up no other.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

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

/// One of four connections of a loop ends, and the server accepts the next one and says nothing: its handshake
/// takes until its time limit. The other three go on.
#[test]
fn a_handshake_that_hangs_holds_up_no_other_connection_of_its_loop() {
    let Some(authority) = Authority::new() else { return };
    let certificate = authority.sign("server", Valid::Now);
    // The first connection asks for the server's name.
    const OF_LOAD: std::ops::RangeInclusive<usize> = 1..=4;
    let port = serve_by(Some(&certificate), &[b"http/1.1"], |peer| {
        if peer.number > *OF_LOAD.end() {
            hang();
        }
        while peer.hear().is_some() {
            let ends = peer.number == *OF_LOAD.start();
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

/// Two servers that end a connection after each answer. One of them accepts the next ones and finishes no login.
#[test]
fn a_login_that_hangs_holds_up_no_connection_to_another_host() {
    let answers_once = |peer: &mut Peer| {
        let Some(()) = postgres_login(peer) else { return };
        if postgres_request(peer).is_some() {
            peer.say(b"C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05I");
        }
    };
    let hangs = serve(move |peer| {
        // The first connection asks for the server's version; two are the load's.
        if peer.number > 2 {
            hang();
        }
        answers_once(peer);
    });
    let lives = serve(answers_once);
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
    assert!(done[0] <= 2 && done[1] >= 20, "{about}");
}
