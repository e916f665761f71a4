//! `bakeoff load --replay`: the requests and the times of an access log, against a server that writes down
//! what it is asked.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod lab;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use lab::{Ended, Lab, assert_balanced};

/// A web server that records the first line of each request. `/missing...` is answered with 404.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let writes = Arc::clone(&asked);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let writes = Arc::clone(&writes);
                std::thread::spawn(move || serve(&connection, &writes));
            }
        });
        Self { address, asked }
    }

    fn target(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests so far, without those that look at the server before the load.
    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|line| *line != "HEAD / HTTP/1.1").cloned().collect()
    }
}

fn serve(connection: &TcpStream, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let is_whole = lines.by_ref().any(|line| line.is_empty());
        if !is_whole {
            return;
        }
        let is_missing = first.contains("/missing");
        let has_body = !first.starts_with("HEAD");
        asked.lock().unwrap().push(first);
        let status = if is_missing { "404 Not Found" } else { "200 OK" };
        let body = if has_body { "ok" } else { "" };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{body}");
        if (&mut &*connection).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Lines of the combined format: requests in each of the seconds, and the paths that a replay sends.
fn combined(requests_per_second: &[u32]) -> (String, Vec<String>) {
    let (mut log, mut paths) = (String::new(), Vec::new());
    for (second, requests) in requests_per_second.iter().enumerate() {
        for number in 0..*requests {
            let path = format!("/{second}/{number}?x=1");
            let _ = writeln!(
                log,
                "10.0.0.1 - - [31/Mar/2024:01:59:{:02} +0100] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"-\"",
                50 + second
            );
            paths.push(format!("GET {path} HTTP/1.1"));
        }
    }
    (log, paths)
}

#[test]
fn a_replay_sends_each_request_once_in_order_and_is_due_when_the_log_says() {
    let (lab, server) = (Lab::new(), Server::new());
    let counts = [7, 1, 0, 13, 30];
    let (log, paths) = combined(&counts);
    std::fs::write(lab.path("access.log"), log).unwrap();
    let (log, events) = (lab.path("access.log"), lab.path("events.parquet"));
    let (log, events) = (log.to_str().unwrap(), events.to_str().unwrap());
    let words = ["load", &server.target(), "--replay", log, "--speed", "4", "--log", events];
    let load = lab.json(&words);
    assert_eq!((load["planned"].as_u64(), load["done"].as_u64()), (Some(51), Some(51)), "{load}");
    assert_balanced(&load);
    assert_eq!((&load["replay"]["requests"], &load["replay"]["speed"]), (&51.into(), &4.0.into()));
    // One connection keeps the order.
    assert_eq!(server.asked(), paths);
    // A second of the log has its requests evenly; at four times the speed a second is 250 ms.
    let mut expected_us = Vec::new();
    for (second, requests) in counts.iter().enumerate() {
        let due_us = |k: u32| 250_000.0 * (second as f64 + f64::from(k) / f64::from(*requests));
        expected_us.extend((0..*requests).map(due_us));
    }
    let due = archive::event_log::schedule(events).unwrap().due_ns;
    assert_eq!(due.len(), expected_us.len());
    for (due_ns, expected_us) in due.iter().zip(expected_us) {
        assert!((*due_ns as f64 / 1e3 - expected_us).abs() < 1.0, "{due_ns} ns, expected {expected_us} us");
    }
}

#[test]
fn a_status_that_the_log_has_too_is_no_failure() {
    let (lab, server) = (Lab::new(), Server::new());
    let line = |at: &str, path: &str, status: u16| {
        format!("{{\"ts\":1711844{at},\"method\":\"GET\",\"uri\":\"{path}\",\"status\":{status}}}\n")
    };
    // The last one, a second later, may be cut by the end of the phase on a busy machine.
    let text = line("100.25", "/missing/a", 404)
        + &line("100.25", "/missing/b", 200)
        + &line("100.25", "/c", 404)
        + &line("101.25", "/d", 200);
    std::fs::write(lab.path("access.log"), text).unwrap();
    let log = lab.path("access.log");
    let load = lab.json(&["load", &server.target(), "--replay", log.to_str().unwrap(), "--connections", "2"]);
    assert!(load["done"].as_u64() >= Some(2) && load["failed"].as_u64() == Some(1), "{load}");
    assert_eq!(load["errors"]["application"], 1);
}

#[test]
fn a_request_that_is_due_in_centuries_is_not_sent() {
    let (lab, server) = (Lab::new(), Server::new());
    let line = |year: u32| format!("h - - [10/Oct/{year}:13:55:36 +0000] \"GET /{year} HTTP/1.1\" 200 1\n");
    std::fs::write(lab.path("access.log"), line(2000) + &line(2024)).unwrap();
    let log = lab.path("access.log");
    let options = ["--replay", log.to_str().unwrap(), "--speed", "0.001", "--time", "300ms"];
    let load = lab.json(&[&["load", &server.target()][..], &options].concat());
    assert_eq!((load["planned"].as_u64(), load["done"].as_u64()), (Some(1), Some(1)), "{load}");
    assert_eq!(server.asked(), ["GET /2000 HTTP/1.1"]);
}

#[test]
fn methods_that_change_data_need_an_option() {
    let (lab, server) = (Lab::new(), Server::new());
    let line = |method: &str| format!("h - - [10/Oct/2000:13:55:36 +0000] \"{method} /x HTTP/1.1\" 200 1\n");
    let text = line("GET") + &line("POST") + &line("DELETE") + &line("GET");
    std::fs::write(lab.path("access.log"), text).unwrap();
    let log = lab.path("access.log");
    let words = ["load", &server.target(), "--replay", log.to_str().unwrap(), "--no-archive"];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("2 with a method that may change data (first: line 2)"), "{}", ended.err);
    assert_eq!(server.asked(), ["GET /x HTTP/1.1", "GET /x HTTP/1.1"]);
    let all = lab.json(&[&words[..], &["--replay-unsafe"]].concat());
    assert_eq!(all["done"], 4);
    assert_eq!(all["operations"]["delete"]["count"], 1, "{all}");
    assert_eq!(
        server.asked()[2..],
        ["GET /x HTTP/1.1", "POST /x HTTP/1.1", "DELETE /x HTTP/1.1", "GET /x HTTP/1.1"]
    );
}

#[test]
fn no_secret_of_a_log_is_sent_stored_or_printed() {
    let (lab, server) = (Lab::new(), Server::new());
    let text = "h - ann [10/Oct/2000:13:55:36 +0000] \"GET /a?token=geheim1&q=2 HTTP/1.1\" 200 1 \"http://h/?pw=geheim2\" \"x\"\n";
    std::fs::write(lab.path("access.log"), text).unwrap();
    let log = lab.path("access.log");
    let ended = lab.run(&["load", &server.target(), "--replay", log.to_str().unwrap(), "-v"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(server.asked(), ["GET /a?token=***&q=2 HTTP/1.1"]);
    let hidden = |text: &[u8]| !text.windows(6).any(|window| window == b"geheim");
    assert!(hidden(ended.out.as_bytes()) && hidden(ended.err.as_bytes()), "{}{}", ended.out, ended.err);
    for (path, bytes) in lab.archived_bytes() {
        assert!(hidden(&bytes), "{}", path.display());
    }
    assert!(ended.out.contains("1 request of"), "{}", ended.out);
}

#[test]
fn a_log_on_standard_input_is_replayed() {
    let (lab, server) = (Lab::new(), Server::new());
    let (log, paths) = combined(&[2, 2]);
    let target = server.target();
    let words = ["load", &target, "--replay", "-", "--speed", "100x", "--no-archive"];
    let mut child = lab
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(server.asked(), paths);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_reason() {
    let (lab, server) = (Lab::new(), Server::new());
    let (log, _) = combined(&[1]);
    std::fs::write(lab.path("access.log"), &log).unwrap();
    std::fs::write(lab.path("access.log.gz"), b"\x1f\x8b\x08\x00\x00").unwrap();
    std::fs::write(lab.path("junk"), b"\x00\x01\xff").unwrap();
    let path = |name: &str| lab.path(name).to_str().unwrap().to_owned();
    let (log, packed, junk, absent) =
        (path("access.log"), path("access.log.gz"), path("junk"), path("absent"));
    let target = server.target();
    for (words, reason) in [
        (&["load", &target, "--replay", &packed][..], "gunzip -c FILE"),
        (&["load", &target, "--replay", &junk], "1 cut off at the end"),
        (&["load", &target, "--replay", &absent], "cannot read"),
        (&["load", "null:", "--replay", &log], "needs a web server"),
        (&["load", &format!("{target}/app"), "--replay", &log], "leave `/app` out of the target"),
        (&["load", &target, "--replay", &log, "--rate", "5"], "cannot be used with"),
        (&["load", &target, "--replay", &log, "--speed", "0"], "expected a multiple"),
        (&["load", &target, "--speed", "2"], "--replay"),
        (&["load", &target, "--replay-unsafe"], "--replay"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}{}", ended.out, ended.err);
        assert!(ended.err.contains(reason), "{words:?}: {}", ended.err);
    }
    assert!(server.asked().is_empty());
}
