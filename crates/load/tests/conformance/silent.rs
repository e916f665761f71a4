//! Servers that accept a connection and then send nothing, or nothing more.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use record::load::{LoadSettings, Loop, Workload};
use record::target::Target;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::{error_of, run, settings};

#[test]
fn a_server_that_says_nothing_is_not_waited_for_and_the_message_says_what_it_should_be() {
    // The kernel accepts connections, and no program reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let says = [
        (format!("mysql://app@{place}/bench"), "is this a MariaDB or MySQL server?"),
        (format!("postgres://app@{place}/bench"), "is this a PostgreSQL server?"),
        (format!("redis://{place}"), "does the server speak the target's protocol?"),
        (format!("http://{place}/"), "does the server speak the target's protocol?"),
        (format!("https://{place}/"), "does the server speak the target's protocol?"),
    ];
    thread::scope(|scope| {
        for (target, question) in &says {
            scope.spawn(move || {
                let mut settings = settings(target);
                settings.http.insecure = true;
                let error = error_of(&settings).to_string();
                assert!(error.contains("no answer within 10s"), "{target}: {error}");
                assert!(error.contains(question), "{target}: {error}");
            });
        }
    });
}

#[test]
fn a_server_that_falls_silent_while_statements_are_prepared_is_not_waited_for() {
    // `Parse` of the one, `COM_STMT_PREPARE` of the other: the first message of a packet.
    let servers = [
        Postgres::start().map(|server| {
            let (url, port) = (server.url(), server.port());
            (Box::new(server) as Box<dyn std::any::Any>, url, port, parses as fn(&[u8]) -> bool)
        }),
        MariaDb::start().map(|server| {
            let (url, port) = (server.url(), server.port());
            (Box::new(server) as Box<dyn std::any::Any>, url, port, prepares as fn(&[u8]) -> bool)
        }),
    ];
    let mut loads = Vec::new();
    for (_, url, port, is_prepare) in servers.iter().flatten() {
        let base = LoadSettings {
            workload: Workload::OltpPointSelect,
            pace: Loop::CLOSED,
            events_max: Some(20),
            time: Duration::from_mins(10),
            threads: 2,
            ..settings(url)
        };
        // The first run builds the tables.
        run(&base);
        for connections in [None, Some(4)] {
            let through = fall_silent_once(*port, *is_prepare);
            let target = Target::new(url.replace(&format!(":{port}/"), &format!(":{through}/")));
            loads.push(LoadSettings { target, connections, ..base.clone() });
        }
    }
    thread::scope(|scope| {
        for load in &loads {
            // The connection without answers is given up and made again.
            scope.spawn(|| assert_eq!(run(load).counts.done, 20));
        }
    });
}

fn parses(said: &[u8]) -> bool {
    said[0] == b'P'
}

fn prepares(said: &[u8]) -> bool {
    said.len() > 4 && said[3..5] == [0, 0x16]
}

/// Forwards bytes between clients and the server at `port`, but for the first client that sends what `ends`
/// recognizes: it receives nothing more. Returns the port at which it listens.
fn fall_silent_once(port: u16, ends: fn(&[u8]) -> bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let through = listener.local_addr().unwrap().port();
    let has_ended = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, has_ended) = (client.unwrap(), Arc::clone(&has_ended));
            thread::spawn(move || hand_on(client, port, ends, &has_ended));
        }
    });
    through
}

fn hand_on(mut client: TcpStream, port: u16, ends: fn(&[u8]) -> bool, has_ended: &AtomicBool) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let (mut said, mut is_silent) = ([0; 10_000], false);
    while let Ok(bytes @ 1..) = client.read(&mut said) {
        is_silent = is_silent || ends(&said[..bytes]) && !has_ended.swap(true, Ordering::SeqCst);
        if !is_silent && server.write_all(&said[..bytes]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}
