//! Attacks by number, and by other protocols than the one that is spoken.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use super::house::{House, PLAN};
use super::lab::Lab;

/// A viewer's connection, and the status of its answer.
fn viewer(house: &House) -> (TcpStream, u16) {
    let mut stream = TcpStream::connect(&house.address).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", house.address).unwrap();
    let mut line = String::new();
    let _ = BufReader::new(&stream).read_line(&mut line);
    let status = line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (stream, status)
}

#[test]
fn streams_that_are_held_open_take_the_places_of_viewers_only_and_give_them_back() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &[]);
    let held: Vec<(TcpStream, u16)> = (0..70).map(|_| viewer(&house)).collect();
    let with = |status: u16| held.iter().filter(|(_, found)| *found == status).count();
    assert_eq!((with(200), with(429)), (64, 6));
    assert_eq!([house.get("/healthz").status, house.get("/runs").status], [200, 200]);
    drop(held);
    // A server that shows the same for minutes must notice, too, that they have left.
    while viewer(&house).1 != 200 {
        // More requests a second are refused.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_flood_on_one_connection_is_refused_from_its_limit_on() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &[]);
    let one = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", house.address);
    let last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(&house.address).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let answers = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = reader.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    stream.write_all((one.repeat(599) + &last).as_bytes()).unwrap();
    let answers = answers.join().unwrap();
    let count = |status: &str| answers.matches(&format!("HTTP/1.1 {status}")).count();
    assert!(count("200") >= 200 && count("429") >= 100, "{} and {}", count("200"), count("429"));
    assert_eq!(count("200") + count("429"), 600);
}

#[test]
fn other_protocols_are_not_spoken() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &["--queue"]);
    // The beginning of HTTP/2, with the frames of a flood of streams that are reset at once.
    let resets = [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8].repeat(1_000);
    let answer = house.raw(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &resets].concat());
    assert!(!answer.contains("200 OK") && !answer.starts_with('\0'), "{answer}");
    for protocol in ["h2c", "websocket", "TLS/1.0"] {
        let wanted = [("Upgrade", protocol), ("HTTP2-Settings", "AAMAAABkAAQAAP__")];
        assert_eq!(house.ask("GET", "/healthz", &wanted, "").status, 200, "{protocol} is not switched to");
    }
    // A head without an end, a chunk with an endless note, and trailers without number.
    let head = format!("POST /api/v1/queue HTTP/1.1\r\nHost: {}\r\n", house.address);
    let chunked = format!("{head}Content-Type: application/toml\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (what, text) in [
        ("head", format!("{head}X: {}", "x".repeat(1 << 20))),
        ("note", format!("{chunked}1;{}", "x".repeat(1 << 20))),
        ("trailers", format!("{chunked}1\r\n#\r\n0\r\n{}", "X: y\r\n".repeat(100_000))),
    ] {
        let answer = house.raw(text.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{what}: {answer}");
    }
    // A body that would grow when it is unpacked is taken as it is.
    let packed = [("Content-Type", "application/toml"), ("Content-Encoding", "gzip")];
    assert_eq!(house.ask("POST", "/api/v1/queue", &packed, "\u{1f}\u{8b}\u{8}").status, 422);
    // Another method or address than the one of the request.
    let run = lab.json(&["runs", "list"])["runs"][0]["run"].as_str().unwrap().to_owned();
    for header in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Original-URL", "X-Rewrite-URL"] {
        let value = if header.contains("Method") { "DELETE" } else { "/api/v1/queue" };
        assert_eq!(house.ask("GET", &format!("/api/v1/runs/{run}"), &[(header, value)], "").status, 200);
    }
    assert_eq!(house.get("/healthz").status, 200, "it still answers");
    assert_eq!(lab.json(&["queue", "list"])["entries"].as_array().unwrap().len(), 0);
}

#[test]
fn only_the_user_who_starts_the_server_chooses_where_it_sends_anything() {
    let lab = Lab::new();
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "http://[fd00::1]/",
    ] {
        let ended = lab.run(&["serve", "--queue", "--webhook", url]);
        assert_eq!(ended.code, Some(2), "{url}: {}", ended.err);
    }
    let house = House::open(&lab, &["--queue"]);
    let plan = serde_json::json!(PLAN);
    let body = format!("{{\"plan\":{plan},\"webhook\":\"http://169.254.169.254/\"}}");
    let asked = house.ask("POST", "/api/v1/queue", &[("Content-Type", "application/json")], &body);
    assert!(asked.status == 400 && asked.body.contains("unknown field `webhook`"), "{}", asked.body);
    let plan = format!("webhook = \"http://169.254.169.254/\"\n{PLAN}");
    let asked = house.ask("POST", "/api/v1/queue", &[("Content-Type", "application/toml")], &plan);
    assert!(asked.status == 422 && asked.body.contains("unknown key"), "{}", asked.body);
}
