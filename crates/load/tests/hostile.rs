//! Servers that announce more than they should, never end, or ask for what no server should get: each breaks
//! a connection, the load continues, and memory stays within bounds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use load::ErrorClass;
use record::load::{LoadRecord, LoadSettings, Loop, PreparePolicy, ScriptFile, ScriptSettings, Workload};

use bakeoff_load as load;

use support::certificates::{Authority, Certificate, Valid};
use support::fake::{
    MYSQL_OK, POSTGRES_ANSWER, POSTGRES_WELCOME, Peer, mysql_answer, mysql_greeting, mysql_login,
    mysql_packet, mysql_request, postgres_login, postgres_request, postgres_start, serve, serve_by,
};
use support::{error_of, run, settings};

/// A server's action in place of an answer.
type Attack = Arc<dyn Fn(&mut Peer) + Send + Sync>;

fn says(bytes: impl Into<Vec<u8>>) -> Attack {
    let bytes = bytes.into();
    Arc::new(move |peer| {
        peer.say(&bytes);
        // It does not close: a client without a limit would wait for ever.
        while peer.hear().is_some() {}
    })
}

/// Says `bytes`, and then repeats `for_ever` until the client goes.
fn says_and_goes_on(bytes: impl Into<Vec<u8>>, for_ever: &'static [u8]) -> Attack {
    let bytes = bytes.into();
    Arc::new(move |peer| {
        peer.say(&bytes);
        peer.say_for_ever(for_ever);
    })
}

/// Closed loops of 60 events, by threads and by loops: all of them succeed, on new connections.
fn survives(name: &str, base: &LoadSettings) {
    let _alone = alone();
    let base = LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(60),
        time: Duration::from_mins(10),
        threads: 2,
        retries_max: 1_000,
        prepare: PreparePolicy::Never,
        ..base.clone()
    };
    for connections in [None, Some(4)] {
        let record = run(&LoadSettings { connections, ..base.clone() });
        let (counts, errors) = (record.counts, record.errors);
        assert_eq!((counts.done, counts.failed), (60, 0), "{name}: {:?}", record.error_samples);
        assert!(errors.connection >= 4, "{name}: {errors:?}");
        assert_eq!((errors.application, errors.verify), (0, 0), "{name}: {:?}", record.error_samples);
        assert!(is_said(&record), "{name}: {:?}", record.error_samples);
    }
    let kib = peak_kib();
    assert!(kib < 300 << 10, "{name}: {kib} KiB");
}

fn is_said(record: &LoadRecord) -> bool {
    let reasons = [
        "over the limit of",
        "impossible number of columns",
        "which is not a valid answer",
        "has an invalid length",
        "COPY is not supported",
        "requests a local file",
    ];
    record.error_samples.iter().any(|sample| reasons.iter().any(|reason| sample.contains(reason)))
}

/// Lets one attack at a time use memory, and begins its peak: tests of one process run side by side.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    alone
}

/// The peak memory of this process since [`alone`].
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A cache server that answers every second request on a connection by the attack.
fn cache_server(
    shows: Option<&Certificate>,
    [greeted, well, told]: [&'static [u8]; 3],
    attack: Attack,
) -> u16 {
    serve_by(shows, &[], move |peer| {
        let mut events = 0usize;
        while let Some(request) = peer.hear() {
            let text = String::from_utf8_lossy(&request).into_owned();
            let is_event = text.contains("GET")
                || text.contains("SET")
                || text.starts_with("get")
                || text.starts_with("set");
            events += usize::from(is_event);
            match (is_event, text.contains("INFO") || text.starts_with("stats")) {
                (true, _) if events.is_multiple_of(2) => return attack(peer),
                (true, _) => drop(peer.say(well)),
                (false, true) => drop(peer.say(told)),
                (false, false) => drop(peer.say(greeted)),
            }
        }
    })
}

/// Runs the check in plain text, and through TLS if openssl is installed.
fn both_ways(check: impl Fn(Option<&Certificate>)) {
    check(None);
    if let Some(authority) = Authority::new() {
        check(Some(&authority.sign("server", Valid::Now)));
    }
}

#[test]
fn caches_that_announce_too_much_or_never_end() {
    both_ways(|shows| {
        let reads_only = |scheme: &str, port: u16| {
            let tls = if shows.is_some() { "?tls=require" } else { "" };
            let mut settings = settings(format!("{scheme}://127.0.0.1:{port}{tls}"));
            settings.kv.get_ratio = 1.0;
            settings
        };
        let deep = "*1\r\n".repeat(1_000_000);
        for (name, attack) in [
            ("redis: 4 GiB", says_and_goes_on("$4294967295\r\n", b"xxxxxxxx")),
            ("redis: nested", says(deep)),
            ("redis: members", says_and_goes_on("*4294967295\r\n", b":1\r\n")),
            ("redis: maps in maps", says_and_goes_on("%1\r\n".repeat(100_000), b"%1\r\n")),
            ("redis: attributes", says_and_goes_on("", b"|1\r\n+a\r\n+b\r\n")),
            ("redis: less than nothing", says("$-5\r\n")),
            ("redis: more than 2^64", says_and_goes_on("$18446744073709551616\r\n", b"x")),
            ("redis: a line without end", says_and_goes_on("+", b"xxxxxxxx")),
        ] {
            let port = cache_server(shows, [b"+PONG\r\n", b"$-1\r\n", b"$0\r\n\r\n"], attack);
            survives(name, &reads_only("redis", port));
        }
        for (name, attack) in [
            ("memcached: 4 GiB", says_and_goes_on("VALUE k 0 4294967295\r\n", b"xxxxxxxx")),
            ("memcached: more than 2^64", says_and_goes_on("VALUE k 0 18446744073709551616\r\n", b"x")),
            ("memcached: less than nothing", says_and_goes_on("VALUE k 0 -1\r\n", b"x")),
            ("memcached: a line without end", says_and_goes_on("VALUE ", b"xxxxxxxx")),
        ] {
            let port = cache_server(shows, [b"VERSION 1\r\n", b"END\r\n", b"END\r\n"], attack);
            survives(name, &reads_only("memcached", port));
        }
    });
}

/// Numbers must not come from answers that a server gives before it is asked.
#[test]
fn an_answer_that_comes_before_its_request_is_none() {
    both_ways(|shows| {
        let tls = if shows.is_some() { "?tls=require" } else { "" };
        for connections in [None, Some(2)] {
            for (scheme, asks, greeted, twice) in [
                ("redis", "GET", &b"+PONG\r\n"[..], &b"$-1\r\n$-1\r\n$-1\r\n"[..]),
                ("memcached", "get", b"VERSION 1\r\n", b"END\r\nEND\r\nEND\r\n"),
            ] {
                let heard = Arc::new(AtomicU64::new(0));
                let theirs = Arc::clone(&heard);
                let port = serve_by(shows, &[], move |peer| {
                    while let Some(request) = peer.hear() {
                        let requests = String::from_utf8_lossy(&request).matches(asks).count();
                        theirs.fetch_add(requests as u64, Ordering::SeqCst);
                        let says = match &request[..] {
                            _ if requests > 0 => twice,
                            [b's', b't', ..] => b"END\r\n",
                            _ => greeted,
                        };
                        peer.say(says);
                    }
                });
                let mut settings = settings(format!("{scheme}://127.0.0.1:{port}{tls}"));
                settings.kv.get_ratio = 1.0;
                settings.prepare = PreparePolicy::Never;
                let record = run(&LoadSettings {
                    pace: Loop::CLOSED,
                    connections,
                    threads: 2,
                    time: Duration::from_millis(200),
                    ..settings
                });
                let heard = heard.load(Ordering::SeqCst);
                let name = format!("{scheme} {connections:?}");
                assert!(heard > 0, "{name}: {:?}", record.error_samples);
                assert!(record.counts.done <= heard, "{name}: {} done of {heard} asked", record.counts.done);
            }
        }
    });
}

#[test]
fn a_row_that_comes_before_its_statement_is_none() {
    for (scheme, connections) in
        [("postgres", None), ("mysql", None), ("postgres", Some(2)), ("mysql", Some(2))]
    {
        let heard = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&heard);
        let port = match scheme {
            "postgres" => serve(move |peer| {
                let Some(()) = postgres_login(peer) else { return };
                while postgres_request(peer).is_some() {
                    theirs.fetch_add(1, Ordering::SeqCst);
                    peer.say(&POSTGRES_ANSWER.repeat(3));
                }
            }),
            _ => serve(move |peer| {
                let Some(()) = mysql_login(peer) else { return };
                while mysql_request(peer).is_some() {
                    theirs.fetch_add(1, Ordering::SeqCst);
                    peer.say(&mysql_answer().repeat(3));
                }
            }),
        };
        let record = run(&LoadSettings {
            pace: Loop::CLOSED,
            connections,
            threads: 2,
            time: Duration::from_millis(200),
            ..script(format!("{scheme}://app@127.0.0.1:{port}/bench"), false)
        });
        let heard = heard.load(Ordering::SeqCst);
        assert!(heard > 0 && record.counts.done > 0, "{scheme}: {:?}", record.error_samples);
        assert!(record.counts.done <= heard, "{scheme}: {} done of {heard} asked", record.counts.done);
    }
}

/// Sends nearly all of a long answer, and never the rest; closes when the client has closed one of its
/// connections.
fn withholds(announced: &'static [u8]) -> Attack {
    let cut = Arc::new((Mutex::new(false), Condvar::new()));
    Arc::new(move |peer| {
        let (is_cut, told) = &*cut;
        let goes_on = || !*is_cut.lock().unwrap();
        let piece = vec![b'x'; 1 << 16];
        let is_said = peer.say(announced) && (0..900).all(|_| goes_on() && peer.say(&piece));
        let mut is_cut = is_cut.lock().unwrap();
        *is_cut |= !is_said;
        told.notify_all();
        drop(told.wait_while(is_cut, |is_cut| !*is_cut).unwrap());
    })
}

#[test]
fn connections_together_hold_a_bounded_part_of_answers_that_do_not_end() {
    let _alone = alone();
    for (threads, connections) in [(8, None), (1, Some(8))] {
        let attack = withholds(b"$66000000\r\n");
        let port = cache_server(None, [b"+PONG\r\n", b"$-1\r\n", b"$0\r\n\r\n"], attack);
        let mut settings = settings(format!("redis://127.0.0.1:{port}"));
        settings.kv.get_ratio = 1.0;
        let record = run(&LoadSettings {
            pace: Loop::CLOSED,
            events_max: Some(40),
            time: Duration::from_mins(10),
            threads,
            connections,
            retries_max: 0,
            errors_ratio_max: 1.0,
            prepare: PreparePolicy::Never,
            ..settings
        });
        let said = &record.error_samples;
        assert!(said.iter().any(|text| text.contains("together buffer more than 160 MiB")), "{said:?}");
        let kib = peak_kib();
        assert!(kib < 300 << 10, "{threads}: {kib} KiB");
    }
}

#[test]
fn web_servers_whose_answers_have_no_end() {
    both_ways(|shows| {
        for (name, attack) in [
            ("http: a head without end", says_and_goes_on("HTTP/1.1 200 OK\r\n", b"a: b\r\n")),
            ("http: a header without end", says_and_goes_on("HTTP/1.1 200 OK\r\na: ", b"bbbb")),
            (
                "http: the length of a chunk without end",
                says_and_goes_on("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0000"),
            ),
            (
                "http: two lengths",
                says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\nok"),
            ),
        ] {
            let port = serve_by(shows, &[b"http/1.1"], move |peer| {
                let mut events = 0;
                while let Some(request) = peer.hear() {
                    events += usize::from(request.starts_with(b"GET"));
                    if events == 2 {
                        return attack(peer);
                    }
                    peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
            let scheme = if shows.is_some() { "https" } else { "http" };
            let mut settings = settings(format!("{scheme}://localhost:{port}/"));
            settings.http.insecure = shows.is_some();
            survives(name, &settings);
        }
    });
}

/// A script of one statement that stores its row.
fn script(target: String, prepared: bool) -> LoadSettings {
    let text = "SELECT n FROM t \\gset\n".to_owned();
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

#[test]
fn a_postgresql_that_announces_too_much_or_wants_to_copy() {
    for (name, attack) in [
        ("postgres: a row of 2 GiB", says_and_goes_on(b"D\x7f\xff\xff\xff".to_vec(), b"xxxxxxxx")),
        ("postgres: a description of 2 GiB", says_and_goes_on(b"T\x7f\xff\xff\xff".to_vec(), b"xxxxxxxx")),
        ("postgres: an error of 4 GiB", says_and_goes_on(b"E\xff\xff\xff\xff".to_vec(), b"xxxxxxxx")),
        ("postgres: no length", says(b"Z\0\0\0\x01".to_vec())),
        ("postgres: copies", says(b"G\0\0\0\x07\0\0\0".to_vec())),
    ] {
        let port = serve(move |peer| {
            let Some(()) = postgres_login(peer) else { return };
            let mut events = 0;
            while let Some(kind) = postgres_request(peer) {
                events += usize::from(kind == b'Q');
                match events {
                    2 => return attack(peer),
                    _ => drop(peer.say(POSTGRES_ANSWER)),
                }
            }
        });
        survives(name, &script(format!("postgres://app@127.0.0.1:{port}/bench"), false));
    }
}

#[test]
fn a_value_that_is_too_long_for_a_variable_is_not_kept() {
    let _alone = alone();
    let port = serve(|peer| {
        let Some(()) = postgres_login(peer) else { return };
        let mut requests = 0;
        while let Some(kind) = postgres_request(peer) {
            requests += usize::from(kind == b'Q');
            if kind != b'Q' || requests == 1 {
                peer.say(POSTGRES_ANSWER);
                continue;
            }
            let bytes = 2u32 << 20;
            let (description, end) = (&POSTGRES_ANSWER[..27], &POSTGRES_ANSWER[39..]);
            let row = [b"D", &(bytes + 10).to_be_bytes()[..], &[0, 1], &bytes.to_be_bytes()].concat();
            peer.say(&[description, &row].concat());
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..2 {
                peer.say(&piece);
            }
            peer.say(end);
        }
    });
    let mut settings = script(format!("postgres://app@127.0.0.1:{port}/bench"), false);
    settings.scripts.files[0].text.push_str("SELECT :n;\n");
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(40),
        time: Duration::from_mins(10),
        threads: 1,
        connections: Some(8),
        retries_max: 0,
        errors_ratio_max: 1.0,
        prepare: PreparePolicy::Never,
        ..settings
    });
    let said = &record.error_samples;
    assert!(said.iter().any(|text| text.contains("longer than the limit of a variable")), "{said:?}");
    let kib = peak_kib();
    assert!(kib < 300 << 10, "{kib} KiB");
}

#[test]
fn a_postgresql_that_floods_its_login_is_left() {
    for (name, attack, says) in [
        ("length", says_and_goes_on(b"R\x7f\xff\xff\xff".to_vec(), b"xxxx"), "over the limit of"),
        ("other", says(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), "over the limit of"),
    ] {
        let port = serve(move |peer| {
            if postgres_start(peer).is_some() {
                attack(peer);
            }
        });
        let error = error_of(&script(format!("postgres://app@127.0.0.1:{port}/bench"), false)).to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[test]
fn a_password_goes_out_as_it_is_only_if_the_user_says_so() {
    let port = serve(|peer| {
        let Some(()) = postgres_start(peer) else { return };
        peer.say(b"R\0\0\0\x08\0\0\0\x03");
        // `p`, its length, the password, a zero.
        let Some(password) = peer.hear_exactly(5 + 7) else { return };
        assert_eq!(password[5..], *b"s3cret\0");
        peer.say(POSTGRES_WELCOME);
        while postgres_request(peer).is_some() {
            peer.say(POSTGRES_ANSWER);
        }
    });
    let target = format!("postgres://app:s3cret@127.0.0.1:{port}/bench");
    let error = error_of(&script(target.clone(), false));
    assert_eq!(error.class(), ErrorClass::Usage);
    let text = error.to_string();
    assert!(text.contains("an attacker could read") && text.contains("?cleartext=1"), "{text}");
    let settings = script(format!("{target}?cleartext=1"), false);
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(10),
        time: Duration::from_mins(10),
        ..settings
    });
    assert_eq!(record.counts.done, 10, "{:?}", record.error_samples);
}

#[test]
fn a_password_that_a_server_repeats_is_masked() {
    // Answers like a Redis with a renamed `AUTH`.
    let port = serve(|peer| {
        while let Some(request) = peer.hear() {
            let text = String::from_utf8_lossy(&request).replace("\r\n", " ");
            peer.say(format!("-ERR unknown command, with args beginning with: {text}\r\n").as_bytes());
        }
    });
    let error = error_of(&settings(format!("redis://app:s3cret@127.0.0.1:{port}"))).to_string();
    assert!(error.contains("unknown command") && error.contains("***"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
    // The name of a web server, and the first of its errors, are stored.
    let port = serve(|peer| {
        let mut answers =
            [&b"HTTP/1.1 200 OK\r\nServer: s3cret/1\r\nContent-Length: 0\r\n\r\n"[..], b"s3cret\r\n\r\n"];
        while peer.hear().is_some() {
            peer.say(answers[0]);
            answers.reverse();
        }
    });
    let target = format!("http://app:s3cret@127.0.0.1:{port}/");
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(10),
        time: Duration::from_mins(10),
        retries_max: 100,
        ..settings(target)
    });
    let said = format!("{:?} {:?}", record.server_version, record.error_samples);
    assert!(said.contains("***/1") && said.contains("answered") && !said.contains("s3cret"), "{said}");
}

#[test]
fn a_server_may_not_keep_us_hashing_a_password() {
    let port = serve(|peer| {
        let Some(()) = postgres_start(peer) else { return };
        peer.say(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
        let Some(first) = peer.hear() else { return };
        let text = String::from_utf8_lossy(&first).into_owned();
        let nonce = text.split("r=").nth(1).unwrap().trim_end_matches('\0').to_owned();
        let challenge = format!("r={nonce}more,s=c2FsdA==,i=4294967295");
        let mut message = vec![b'R'];
        message.extend_from_slice(&u32::try_from(challenge.len() + 8).unwrap().to_be_bytes());
        message.extend_from_slice(&11u32.to_be_bytes());
        message.extend_from_slice(challenge.as_bytes());
        peer.say(&message);
        while peer.hear().is_some() {}
    });
    let error = error_of(&script(format!("postgres://app:s3cret@127.0.0.1:{port}/bench"), false)).to_string();
    assert!(error.contains("4294967295 hash iterations"), "{error}");
}

#[test]
fn a_mysql_that_announces_too_much() {
    let columns = |count: u64| {
        let mut payload = vec![0xfe];
        payload.extend_from_slice(&count.to_le_bytes());
        mysql_packet(1, &payload)
    };
    let file = mysql_packet(1, b"\xfb/etc/passwd");
    // An endless row, in packets of 16 MiB each.
    let mut row = mysql_answer();
    row.truncate(row.len() - 9 - 6);
    // A packet that begins with the same byte as all that follow would be an error.
    row.extend_from_slice(&[0xff, 0xff, 0xff, 9, 1]);
    for (name, attack) in [
        ("mysql: 2^62 columns", says_and_goes_on(columns(1 << 62), b"xxxxxxxx")),
        ("mysql: a million columns", says_and_goes_on(columns(1 << 20), b"xxxxxxxx")),
        ("mysql: no column", says(columns(0))),
        ("mysql: a file of ours", says(file)),
        ("mysql: a row without end", says_and_goes_on(row, &[0xff])),
    ] {
        let port = serve(move |peer| {
            let Some(()) = mysql_login(peer) else { return };
            let mut events = 0;
            while mysql_request(peer).is_some() {
                events += 1;
                if events == 2 {
                    return attack(peer);
                }
                peer.say(&mysql_answer());
            }
        });
        let base = script(format!("mysql://app@127.0.0.1:{port}/bench"), false);
        // The limit for each connection: a packet, and the packet that it continues.
        survives(name, &LoadSettings { answer_bytes_max: 17 << 20, ..base });
    }
}

#[test]
fn a_mysql_that_wants_the_password_gets_it_by_proof_alone() {
    // The server stores a hash of the password; the client proves that it knows the hash's origin.
    let nonce = b"abcdefghijklmnopqrst";
    let expected = mysql_common::scramble::scramble_sha256(nonce, b"s3cret").unwrap();
    let knows = serve(move |peer| {
        peer.say(&mysql_greeting("caching_sha2_password"));
        let Some(response) = mysql_request(peer) else { return };
        let is_proven = response.windows(32).any(|window| window == expected);
        peer.say(&mysql_packet(2, if is_proven { &[1, 3] } else { &[1, 4] }));
        peer.say(&mysql_packet(3, MYSQL_OK));
        while mysql_request(peer).is_some() {
            peer.say(&mysql_answer());
        }
    });
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(10),
        time: Duration::from_mins(10),
        ..script(format!("mysql://app:s3cret@127.0.0.1:{knows}/bench"), false)
    });
    assert_eq!(record.counts.done, 10, "{:?}", record.error_samples);
    for (plugin, says) in
        [("caching_sha2_password", &[1u8, 4][..]), ("mysql_clear_password", &[]), ("dialog", &[])]
    {
        let port = serve(move |peer| {
            peer.say(&mysql_greeting(plugin));
            let heard = mysql_request(peer).unwrap_or_default();
            assert!(!heard.windows(6).any(|window| window == b"s3cret"), "the password went out");
            peer.say(&mysql_packet(2, says));
            let more = mysql_request(peer).unwrap_or_default();
            assert!(!more.windows(6).any(|window| window == b"s3cret"), "the password went out");
        });
        let error = error_of(&script(format!("mysql://app:s3cret@127.0.0.1:{port}/bench"), false));
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        let text = error.to_string();
        assert!(text.contains("an attacker on the network") || text.contains("not supported"), "{text}");
    }
}
