//! HTTP/2 servers that flood, starve or never end: the load ends as planned, its events balance, memory stays
//! within bounds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::time::Duration;

use record::load::{LoadRecord, LoadSettings, Loop, PreparePolicy};
use record::requests::{HttpSettings, HttpVersion};

use support::certificates::{Authority, Certificate, Valid};
use support::fake::{Peer, serve_by};
use support::{run, settings};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, from the static table.
const OK: &[u8] = &[0x88];
/// `a: b`, as a literal without indexing.
const HEADER: &[u8] = &[0, 1, b'a', 1, b'b'];

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), body].concat()
}

/// A server's action in place of the second answer on each connection.
#[derive(Clone)]
struct Attack {
    name: &'static str,
    /// Added to the server's first settings.
    settings: Vec<u8>,
    /// Sent once, and then sent for ever; both for the stream of the request.
    once: fn(u32) -> Vec<u8>,
    for_ever: fn(u32) -> Vec<u8>,
    /// Whether the client gives up the connection or the stream; otherwise the load's end is the event's end.
    is_refused: bool,
}

impl Attack {
    fn new(name: &'static str, once: fn(u32) -> Vec<u8>, for_ever: fn(u32) -> Vec<u8>) -> Self {
        Self { name, settings: Vec::new(), once, for_ever, is_refused: true }
    }

    fn tolerated(self) -> Self {
        Self { is_refused: false, ..self }
    }
}

fn nothing(_: u32) -> Vec<u8> {
    Vec::new()
}

fn head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, OK)
}

/// Answers the first request of a connection, and every other one by the attack.
fn attacked(peer: &mut Peer, attack: &Attack) -> Option<()> {
    peer.hear_exactly(24)?;
    peer.say(&frame(SETTINGS, 0, 0, &attack.settings));
    let mut requests = 0;
    loop {
        let head = peer.hear_exactly(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        peer.hear_exactly(length)?;
        match head[3] {
            SETTINGS if head[4] & ACK == 0 => drop(peer.say(&frame(SETTINGS, ACK, 0, &[]))),
            HEADERS => {
                requests += 1;
                if requests == 2 {
                    peer.say(&(attack.once)(stream));
                    let flood = (attack.for_ever)(stream);
                    if flood.is_empty() {
                        while peer.hear().is_some() {}
                    } else {
                        peer.say_for_ever(&flood);
                    }
                    return None;
                }
                peer.say(&frame(HEADERS, END_HEADERS | END_STREAM, stream, OK));
            }
            _ => {}
        }
    }
}

/// The most memory that this process has had, KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs two connections, by threads and by loops, for half a second; returns every deviation.
///
/// - `shows`: the certificate of a server that speaks TLS.
fn problems_under(attack: &Attack, http: &HttpSettings, shows: Option<&Certificate>) -> Vec<String> {
    let served = attack.clone();
    let (scheme, insecure) = if shows.is_some() { ("https", true) } else { ("http", false) };
    let port = serve_by(shows, &[b"h2"], move |peer| {
        let _gone = attacked(peer, &served);
    });
    let mut problems = Vec::new();
    for connections in [None, Some(2)] {
        let record: LoadRecord = run(&LoadSettings {
            pace: Loop::CLOSED,
            time: Duration::from_millis(500),
            drain: Duration::from_millis(200),
            threads: 2,
            connections,
            retries_max: 1,
            errors_ratio_max: 1.0,
            prepare: PreparePolicy::Never,
            http: HttpSettings { version: HttpVersion::Two, insecure, ..http.clone() },
            ..settings(format!("{scheme}://localhost:{port}/"))
        });
        let (counts, errors, said) = (record.counts, record.errors, &record.error_samples);
        let errors_all = errors.connection + errors.application + errors.transient;
        println!("{} ({connections:?}): {counts:?} {errors:?} {said:?}", attack.name);
        let is_well = counts.balance()
            && counts.done > 0
            && if attack.is_refused {
                errors_all > 0 && said.iter().any(|text| text.contains("HTTP/2"))
            } else {
                // Each connection gets one answer, and then waits for the end.
                errors_all == 0 && (counts.done, counts.unfinished) == (2, 2)
            };
        if !is_well {
            problems.push(format!("{} ({connections:?}): {counts:?} {errors:?} {said:?}", attack.name));
        }
    }
    let kib = peak_kib();
    if kib >= 300 << 10 {
        problems.push(format!("{}: {kib} KiB", attack.name));
    }
    problems
}

fn floods() -> Vec<Attack> {
    let continued = |stream| frame(HEADERS, 0, stream, OK);
    let table = |stream| {
        // The dynamic table shall have 2^31 bytes.
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x3f, 0xe1, 0xff, 0xff, 0xff, 0x07, 0x88])
    };
    vec![
        Attack::new("continuations", continued, |stream| frame(CONTINUATION, 0, stream, HEADER)),
        Attack::new("empty continuations", continued, |stream| frame(CONTINUATION, 0, stream, &[])),
        Attack::new("headers without end", continued, |stream| {
            frame(CONTINUATION, 0, stream, &HEADER.repeat(3_000))
        }),
        Attack::new(
            "a long head",
            |stream| {
                let long = [OK, &HEADER.repeat(3_200)].concat();
                [
                    frame(HEADERS, 0, stream, &long),
                    frame(CONTINUATION, END_HEADERS, stream, &HEADER.repeat(3_200)),
                ]
                .concat()
            },
            nothing,
        ),
        Attack::new("a huge table", table, nothing),
        Attack::new("a huge integer", |stream| frame(HEADERS, END_HEADERS, stream, &[0xff; 64]), nothing),
        Attack::new(
            "resets",
            |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 2]),
            |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 2]),
        ),
        Attack::new("resets of streams that are not open", nothing, |stream| {
            frame(RST_STREAM, 0, stream + 2, &[0, 0, 0, 2])
        }),
        Attack::new("promises", nothing, |stream| {
            frame(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, 0x88])
        }),
        Attack::new("a frame of 16 MiB", |_| vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1], |_| vec![0; 1_024]),
        Attack::new("a window that overflows", nothing, |_| {
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])
        }),
        Attack::new("windows of a stream that needs none", nothing, |stream| {
            frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])
        })
        .tolerated(),
        Attack::new("going away", nothing, |_| frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])),
        Attack::new("noise", nothing, |_| b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        Attack::new("settings", nothing, |_| frame(SETTINGS, 0, 0, &[])).tolerated(),
        Attack::new("pings", nothing, |_| frame(PING, 0, 0, &[7; 8])).tolerated(),
        Attack::new("unknown frames", nothing, |_| frame(0xee, 0xff, 0, &[7; 100])).tolerated(),
        Attack::new("data without end", head, |stream| frame(DATA, 0, stream, &[b'x'; 16_000])).tolerated(),
        Attack::new("silence", nothing, nothing).tolerated(),
        Attack::new("a head and silence", head, nothing).tolerated(),
    ]
}

#[test]
fn a_flood_of_frames_neither_ends_the_load_nor_fills_memory() {
    let http = HttpSettings::plain();
    let problems: Vec<String> =
        floods().iter().flat_map(|attack| problems_under(attack, &http, None)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_flood_through_tls_neither_ends_the_load_nor_fills_memory() {
    let Some(authority) = Authority::new() else { return };
    let (shows, http) = (authority.sign("server", Valid::Now), HttpSettings::plain());
    let names = ["continuations", "resets", "promises", "settings", "pings", "data without end", "silence"];
    let chosen: Vec<Attack> = floods().into_iter().filter(|attack| names.contains(&attack.name)).collect();
    assert_eq!(chosen.len(), names.len());
    let problems: Vec<String> =
        chosen.iter().flat_map(|attack| problems_under(attack, &http, Some(&shows))).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_server_that_asks_on_and_does_not_read_the_replies_is_left() {
    let pings = Attack::new("pings", nothing, |_| frame(PING, 0, 0, &[7; 8]).repeat(4_000));
    let port = serve_by(None, &[b"h2"], move |peer| {
        let _gone = attacked(peer, &pings);
    });
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(4),
        time: Duration::from_mins(10),
        threads: 1,
        connections: Some(2),
        retries_max: 0,
        errors_ratio_max: 1.0,
        prepare: PreparePolicy::Never,
        http: HttpSettings { version: HttpVersion::Two, ..HttpSettings::plain() },
        ..settings(format!("http://localhost:{port}/"))
    });
    let said = &record.error_samples;
    assert!(said.iter().any(|text| text.contains("together buffer more than 160 MiB")), "{said:?}");
    let kib = peak_kib();
    assert!(kib < 300 << 10, "{kib} KiB");
}

#[test]
fn a_window_that_never_opens_and_a_table_without_bounds() {
    let setting = |name: u16, value: u32| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let post = HttpSettings { method: "POST".to_owned(), body: "x".repeat(1 << 20), ..HttpSettings::plain() };
    let shut = Attack {
        settings: setting(4, 0),
        ..Attack::new("a window that never opens", nothing, nothing).tolerated()
    };
    assert_eq!(problems_under(&shut, &post, None), Vec::<String>::new());
    let table = Attack {
        settings: setting(1, u32::MAX),
        ..Attack::new("a table of 4 GiB", nothing, nothing).tolerated()
    };
    assert_eq!(problems_under(&table, &HttpSettings::plain(), None), Vec::<String>::new());
}
