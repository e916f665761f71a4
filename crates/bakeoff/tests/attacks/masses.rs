//! Attacks by number, and by other protocols than the one that is spoken.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};

use super::house::{House, PLAN};
use super::lab::Lab;
use super::{READ, RUN, bearer, token_file};

/// Status of the answer to a viewer.
fn view(house: &House, stream: &mut (impl Read + Write)) -> u16 {
    write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", house.address).unwrap();
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// A viewer's connection, and the status of its answer.
fn viewer(house: &House) -> (TcpStream, u16) {
    let mut stream = TcpStream::connect(&house.address).unwrap();
    let status = view(house, &mut stream);
    (stream, status)
}

#[test]
fn streams_that_are_held_open_take_the_places_of_viewers_only_and_give_them_back() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &["--queue"]);
    let held: Vec<(TcpStream, u16)> = (0..64).map(|_| viewer(&house)).collect();
    let with = |status: u16| held.iter().filter(|(_, found)| *found == status).count();
    assert_eq!((with(200), with(429)), (16, 48));
    assert_eq!([house.get("/healthz").status, house.get("/runs").status], [200, 200]);
    // Another peer: the archive's socket.
    let mut other = UnixStream::connect(lab.path("archive/serve.sock")).unwrap();
    assert_eq!(view(&house, &mut other), 200, "one peer cannot take the places of all viewers");
    drop(held);
    // A server that shows the same for minutes must notice, too, that they have left.
    while viewer(&house).1 != 200 {
        // More requests a second are refused.
        std::thread::sleep(Duration::from_millis(50));
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

/// Number of connections that the server has not closed.
fn held(all: &[TcpStream]) -> usize {
    let read = |mut stream: &TcpStream| stream.read(&mut [0]);
    all.iter().filter(|stream| read(stream).is_err_and(|e| e.kind() == ErrorKind::WouldBlock)).count()
}

/// Status that another user gets for a request with a token; `None` if this user cannot act as another one.
fn status_of_another_user(house: &House) -> Option<u16> {
    let (host, port) = house.address.rsplit_once(':').unwrap();
    let request = format!(
        "GET /api/v1/runs HTTP/1.1\\r\\nHost: {}\\r\\nAuthorization: {}\\r\\nConnection: close\\r\\n\\r\\n",
        house.address,
        bearer(READ)
    );
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; printf '{request}' >&3; cat <&3");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c", &script]);
    let ended = command.output().ok().filter(|ended| ended.status.success())?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    Some(text.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0))
}

#[test]
fn one_user_of_the_machine_does_not_take_the_connections_of_the_others() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let tokens = token_file(&lab);
    let house = House::open(&lab, &["--queue", "--token-file", &tokens]);
    // More than the server takes from all users.
    let taken: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&house.address).unwrap()).collect();
    for stream in &taken {
        stream.set_nonblocking(true).unwrap();
    }
    let began_ns = Monotonic.now_ns();
    while held(&taken) > 80 {
        // Without a request, each of them ends after 10 s, and the test would prove nothing.
        assert!(Monotonic.now_ns() - began_ns < 8_000_000_000, "{} are open", held(&taken));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(held(&taken), 80);
    match status_of_another_user(&house) {
        Some(status) => assert_eq!(status, 200, "another user is answered"),
        None => println!("skipped: only root can act as another user"),
    }
    assert_eq!(held(&taken), 80, "they were held meanwhile");
    assert_eq!(super::entries(&lab), 0, "the socket has separate places");
}

#[test]
fn guesses_do_not_close_a_session_that_is_open() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let tokens = token_file(&lab);
    let house = House::open(&lab, &["--queue", "--token-file", &tokens]);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let login = house.ask("POST", "/login", &[form], &format!("token={RUN}"));
    let cookie = login.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let cookie = cookie.replace("__host-", "__Host-");
    let statuses: Vec<u16> = (0..20)
        .map(|n| {
            house.ask("GET", "/api/v1/runs", &[("Authorization", &bearer(&format!("guess-{n}")))], "").status
        })
        .collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let with = |headers: &[(&str, &str)]| house.ask("GET", "/api/v1/runs", headers, "").status;
    assert_eq!(with(&[("Cookie", &cookie)]), 200);
    // A session that its owner ends is over.
    let csrf = house.csrf(&[("Cookie", &cookie)]);
    let ended = house.ask("POST", "/logout", &[form, ("Cookie", &cookie)], &format!("csrf={csrf}"));
    assert!(ended.status == 303 && with(&[("Cookie", &cookie)]) == 401, "{}", ended.head);
}
