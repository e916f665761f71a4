//! Servers with answers that look complete and are not: none of them counts as an event that is done.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use load::ErrorClass;
use record::load::{LoadRecord, LoadSettings, Loop, PreparePolicy, ScriptFile, ScriptSettings, Workload};

use bakeoff_load as load;

use support::certificates::{Authority, Valid};
use support::fake::{
    MYSQL_OK, Peer, mysql_login, mysql_packet, mysql_request, postgres_login, postgres_request,
    postgres_start, serve, serve_by,
};
use support::{error_of, jittered, run, settings};

/// Closed loops of 20 events, by threads and by loops; each has its own server.
fn each_way(base: &dyn Fn() -> LoadSettings, check: impl Fn(&LoadRecord, Option<u32>)) {
    for connections in [None, Some(2)] {
        let record = run(&LoadSettings {
            pace: Loop::CLOSED,
            events_max: Some(20),
            time: Duration::from_secs(3),
            threads: 1,
            connections,
            retries_max: 0,
            errors_ratio_max: 1.0,
            prepare: PreparePolicy::Never,
            ..base()
        });
        check(&record, connections);
    }
}

/// Asserts that no event is done, and that a failure has this text.
fn none_is_done(name: &str, base: &dyn Fn() -> LoadSettings, says: &str) {
    each_way(base, |record, connections| {
        let said = &record.error_samples;
        assert_eq!(record.counts.done, 0, "{name} {connections:?}: {said:?}");
        assert!(said.iter().any(|text| text.contains(says)), "{name} {connections:?}: {said:?}");
    });
}

fn all_are_done(name: &str, base: &dyn Fn() -> LoadSettings) {
    each_way(base, |record, connections| {
        assert_eq!(record.counts.done, 20, "{name} {connections:?}: {:?}", record.error_samples);
    });
}

fn script(target: String, prepared: bool) -> LoadSettings {
    let text = "UPDATE t SET n = 1;\n".to_owned();
    let mut settings = LoadSettings {
        workload: Workload::Script,
        scripts: ScriptSettings {
            files: vec![ScriptFile { name: "one.sql".to_owned(), weight: 1, text }],
            defines: Vec::new(),
        },
        ..settings(target)
    };
    settings.oltp.prepared = prepared;
    settings
}

/// A PostgreSQL that answers every statement by `answer`, and then says that it is ready.
fn postgres_that_says(answer: &'static [u8]) -> u16 {
    serve(move |peer| {
        let Some(()) = postgres_login(peer) else { return };
        while let Some(kind) = postgres_request(peer) {
            match kind {
                b'P' => drop(peer.say(b"1\0\0\0\x04")),
                b'E' => drop(peer.say(answer)),
                b'Q' => drop(peer.say(&[answer, b"Z\0\0\0\x05I"].concat())),
                b'S' => drop(peer.say(b"Z\0\0\0\x05I")),
                _ => {}
            }
        }
    })
}

#[test]
fn a_postgresql_that_is_ready_again_has_not_executed_the_statement() {
    for prepared in [false, true] {
        let says = |answer: &'static [u8]| {
            let port = postgres_that_says(answer);
            script(format!("postgres://app@127.0.0.1:{port}/bench"), prepared)
        };
        for (name, answer) in [("nothing", &b""[..]), ("a row", b"D\0\0\0\x0b\0\x01\0\0\0\x017")] {
            none_is_done(name, &|| says(answer), "without its completion");
        }
        all_are_done("a completion", &|| says(b"C\0\0\0\x0dUPDATE 1\0"));
    }
}

#[test]
fn a_postgresql_that_skips_its_proof_is_an_impostor() {
    for (name, then) in [
        ("lets in", &b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"[..]),
        ("is ready", b"Z\0\0\0\x05I"),
        ("asks for another hash", b"R\0\0\0\x0c\0\0\0\x05saltR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"),
    ] {
        let port = serve(move |peer| {
            let Some(()) = postgres_start(peer) else { return };
            peer.say(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
            let Some(b'p') = postgres_request(peer) else { return };
            peer.say(then);
            while let Some(kind) = postgres_request(peer) {
                if kind == b'Q' {
                    peer.say(b"C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05I");
                }
            }
        });
        let error = error_of(&script(format!("postgres://app:s3cret@127.0.0.1:{port}/bench"), false));
        assert_eq!(error.class(), ErrorClass::Usage, "{name}: {error}");
        assert!(error.to_string().contains("did not prove that it knows the password"), "{name}: {error}");
    }
}

#[test]
fn a_cache_stores_only_what_it_says_that_it_has_stored() {
    let answers = |scheme: &str, greeted: &'static [u8], answer: &'static [u8]| {
        let port = serve(move |peer| {
            while let Some(request) = peer.hear() {
                let text = String::from_utf8_lossy(&request);
                let is_event = text.contains("SET") || text.starts_with("set") || text.starts_with("ms");
                peer.say(match &request[..] {
                    _ if is_event => answer,
                    [b's', b't', ..] => b"END\r\n",
                    _ => greeted,
                });
            }
        });
        let mut settings = settings(scheme.replace("PORT", &port.to_string()));
        settings.kv.get_ratio = 0.0;
        settings.verify = true;
        settings
    };
    let (redis, pong) = ("redis://127.0.0.1:PORT", &b"+PONG\r\n"[..]);
    for answer in [
        &b"*1\r\n-ERR not stored\r\n"[..],
        b"%1\r\n+a\r\n+b\r\n",
        b"*0\r\n",
        b"+QUEUED\r\n",
        b":99\r\n",
        b"+OKAY\r\n",
    ] {
        none_is_done("redis", &|| answers(redis, pong, answer), "which is not a valid answer");
    }
    all_are_done("redis", &|| answers(redis, pong, b"+OK\r\n"));
    let version = &b"VERSION 1\r\n"[..];
    let (text, meta) = ("memcached://127.0.0.1:PORT", "memcached://127.0.0.1:PORT?protocol=meta");
    for (scheme, answer) in [
        (text, &b"DELETED\r\n"[..]),
        (text, b"VERSION 1\r\n"),
        (text, b"HD\r\n"),
        (meta, b"STORED\r\n"),
        (meta, b"VERSION 1\r\n"),
    ] {
        none_is_done("memcached", &|| answers(scheme, version, answer), "which is not a valid answer");
    }
    all_are_done("memcached", &|| answers(text, version, b"STORED\r\n"));
    all_are_done("memcached", &|| answers(meta, version, b"HD\r\n"));
}

#[test]
fn a_body_whose_end_anybody_could_have_made_is_cut() {
    let Some(authority) = Authority::new() else { return };
    let certificate = authority.sign("server", Valid::Now);
    let length = &b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"[..];
    let serves = |answer: &'static [u8], end: fn(&mut Peer)| {
        let port = serve_by(Some(&certificate), &[b"http/1.1"], move |peer| {
            if peer.hear().is_none() {
                return;
            }
            // The first connection asks for the server's name: without an answer, there is no load.
            let is_load = peer.number > 0;
            peer.say(if is_load { answer } else { length });
            if is_load {
                end(peer);
            }
        });
        let mut settings = settings(format!("https://localhost:{port}/"));
        settings.http.insecure = true;
        settings
    };
    let until_the_end = &b"HTTP/1.1 200 OK\r\n\r\nabc"[..];
    // The connection ends, and nothing in TLS says that the server has ended it.
    none_is_done("cut", &|| serves(until_the_end, |_| {}), "without close_notify");
    all_are_done("closed", &|| serves(until_the_end, Peer::close));
    all_are_done("a length", &|| serves(length, |_| {}));
}

/// The first connection of the load answers before it is asked, and then never again.
#[test]
fn what_a_web_server_sends_before_the_first_request_answers_none() {
    let answer = &b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..];
    for connections in [None, Some(1)] {
        let heard = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&heard);
        let port = serve(move |peer| {
            let is_early = peer.number == 1;
            if is_early {
                peer.say(answer);
            }
            while peer.hear().is_some() {
                if !is_early {
                    // The request for the server's name is not of the load.
                    theirs.fetch_add(u64::from(peer.number > 0), Ordering::SeqCst);
                    peer.say(answer);
                }
            }
        });
        let record = run(&LoadSettings {
            pace: jittered(20.0),
            connections,
            threads: 1,
            drain: Duration::from_secs(1),
            errors_ratio_max: 1.0,
            ..settings(format!("http://localhost:{port}/"))
        });
        let (done, heard) = (record.counts.done, heard.load(Ordering::SeqCst));
        let said = &record.error_samples;
        assert!(heard > 0, "{connections:?}: {said:?}");
        assert!(done <= heard, "{connections:?}: {done} done of {heard} asked: {said:?}");
    }
}

/// More than a socket's two buffers hold (`tcp_wmem`, `tcp_rmem`).
const UPLOAD_BYTES: usize = 48 << 20;

/// Events that send such a body to a server that has read the beginning of it.
fn uploads(answer: &'static [u8], then: fn(&mut Peer)) -> LoadSettings {
    let port = serve(move |peer| {
        let Some(request) = peer.hear() else { return };
        if request.starts_with(b"HEAD") {
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        } else {
            peer.say(answer);
            then(peer);
        }
    });
    let mut settings = settings(format!("http://localhost:{port}/"));
    "POST".clone_into(&mut settings.http.method);
    settings.http.body = "x".repeat(UPLOAD_BYTES);
    settings
}

/// RFC 9112, sections 9.3 and 9.5: a server may refuse what it has not read, and cannot have done it.
#[test]
fn an_answer_before_the_end_of_its_request_counts_only_if_it_refuses() {
    fn reads(peer: &mut Peer) {
        while peer.hear().is_some() {}
    }
    fn waits(_: &mut Peer) {
        loop {
            std::thread::park();
        }
    }
    let done = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..];
    let says = "answered before it had the whole request";
    none_is_done("done and read on", &|| uploads(done, reads), says);
    none_is_done("done and not read on", &|| uploads(done, waits), says);
    let refused = &b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"[..];
    let interim = &b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"[..];
    for (name, answer, then) in [
        ("closes", refused, (|_| {}) as fn(&mut Peer)),
        ("reads on", refused, reads),
        ("neither reads nor closes", interim, waits),
    ] {
        each_way(&|| uploads(answer, then), |record, connections| {
            let about = format!("{name} {connections:?}: {:?} {:?}", record.errors, record.error_samples);
            assert_eq!((record.errors.application, record.errors.connection), (20, 0), "{about}");
            assert!(record.error_samples.iter().all(|text| text.contains("status 413")), "{about}");
        });
    }
    // A server that reads a request to its end has done it.
    let whole = || {
        let port = serve(|peer| {
            while let Some(request) = peer.hear() {
                let head = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(request.len()) + 4;
                let body = if request.starts_with(b"HEAD") { 0 } else { 1 << 20 };
                let read = peer.hear_exactly(body + head - request.len().min(body + head));
                if read.is_none() || !peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
                    return;
                }
            }
        });
        let target = record::target::Target::new(format!("http://localhost:{port}/"));
        let mut settings = LoadSettings { target, ..uploads(b"", |_| {}) };
        settings.http.body.truncate(1 << 20);
        settings
    };
    all_are_done("whole", &whole);
}

/// A server of two statements for each event that answers the first one twice, and the second one never.
#[test]
fn an_answer_too_many_does_not_answer_the_next_statement_of_an_event() {
    let two = |target: String| {
        let mut settings = script(target, false);
        settings.scripts.files[0].text = "UPDATE t SET n = 1;\nUPDATE t SET n = 2;\n".to_owned();
        settings
    };
    none_is_done(
        "postgres",
        &|| {
            let port = serve(|peer| {
                let Some(()) = postgres_login(peer) else { return };
                while postgres_request(peer).is_some() {
                    peer.say(&b"C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05I".repeat(2));
                    postgres_request(peer);
                }
            });
            two(format!("postgres://app@127.0.0.1:{port}/bench"))
        },
        "unrequested data",
    );
    none_is_done(
        "mysql",
        &|| {
            let port = serve(|peer| {
                let Some(()) = mysql_login(peer) else { return };
                while mysql_request(peer).is_some() {
                    peer.say(&mysql_packet(1, MYSQL_OK).repeat(2));
                    mysql_request(peer);
                }
            });
            two(format!("mysql://app@127.0.0.1:{port}/bench"))
        },
        "unrequested data",
    );
}

/// The beginning of an answer is not a request's answer either, if it comes before the request.
#[test]
fn a_part_of_an_answer_that_comes_before_its_statement_ends_the_connection() {
    for scheme in ["postgres", "mysql"] {
        let seconds = Arc::new(AtomicU64::new(0));
        let base = || {
            let seconds = Arc::clone(&seconds);
            let port = serve(move |peer| {
                let is_postgres = scheme == "postgres";
                let answer = if is_postgres {
                    b"C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05I".to_vec()
                } else {
                    mysql_packet(1, MYSQL_OK)
                };
                let login =
                    |peer: &mut Peer| if is_postgres { postgres_login(peer) } else { mysql_login(peer) };
                let request = |peer: &mut Peer| {
                    if is_postgres { postgres_request(peer).map(drop) } else { mysql_request(peer).map(drop) }
                };
                let Some(()) = login(peer) else { return };
                let Some(()) = request(peer) else { return };
                peer.say(&[&answer[..], &answer[..6]].concat());
                if request(peer).is_some() {
                    seconds.fetch_add(1, Ordering::SeqCst);
                    peer.say(&answer[6..]);
                }
            });
            script(format!("{scheme}://app@127.0.0.1:{port}/bench"), false)
        };
        each_way(&base, |record, connections| {
            let about = format!("{scheme} {connections:?}: {:?}", record.error_samples);
            assert!(record.counts.done > 0 && record.errors.connection > 0, "{about}");
            assert!(record.error_samples.iter().any(|text| text.contains("unrequested data")), "{about}");
        });
        assert_eq!(seconds.load(Ordering::SeqCst), 0, "{scheme}: the connection was used again");
    }
}
