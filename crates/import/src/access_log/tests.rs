use std::fmt::Write as _;
use std::fs::File;

use record::replay::ReplaySource as _;

use super::store::Stored;
use super::*;

/// A log, and its requests as `GET 200 /path`.
fn read_all(text: &[u8], methods: Methods) -> Result<(AccessLog, Vec<String>), AccessLogError> {
    let mut store = Store::new(nameless(), nameless());
    let log = read(&mut &text[..], methods, &mut store)?;
    let stored = store.finish().unwrap();
    let requests = (0..log.account.requests).map(|number| request(&stored, number)).collect();
    Ok((log, requests))
}

fn request(stored: &Stored, number: u64) -> String {
    let mut path = b"left from the request before".to_vec();
    let logged = stored.read(number, &mut path).unwrap();
    let status = logged.status.map_or("-".to_owned(), |status| status.to_string());
    format!("{} {status} {}", logged.method.name(), String::from_utf8(path).unwrap())
}

fn nameless() -> File {
    let path = std::env::temp_dir().join(format!(
        "access-log-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

const COMBINED: &str = "\
127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /apache_pb.gif HTTP/1.0\" 200 2326
127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a?token=geheim HTTP/1.1\" 404 - \"http://h/?pw=x\" \"Mozilla/4.08 [en]\"
::1 - a user [x] [10/Oct/2000:13:55:37 -0700] \"HEAD http://h.example/b HTTP/1.1\" 301 0 \"-\" \"curl \\\"7\\\"\"
www.example.com:443 10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] \"GET /c\\x22d\\xC3\\xA4 HTTP/2.0\" 200 1 \"-\" \"-\"
";

#[test]
fn the_combined_format_is_read() {
    let (log, requests) = read_all(COMBINED.as_bytes(), Methods::Safe).unwrap();
    assert_eq!(
        requests,
        ["GET 200 /apache_pb.gif", "GET 404 /a?token=***", "HEAD 301 /b", "GET 200 /c%22d%C3%A4"]
    );
    assert_eq!(log.due_ns, [0, 500_000_000, 1_000_000_000, 3_000_000_000]);
    let Account { lines, requests, secrets, resolution_ns, path_bytes_max, .. } = log.account;
    assert_eq!((lines, requests, secrets, resolution_ns, path_bytes_max), (4, 4, 1, 1_000_000_000, 14));
}

#[test]
fn a_time_in_brackets_may_be_iso_8601() {
    let line = |time: &str| format!("h - - [{time}] \"GET / HTTP/1.1\" 200 0\n");
    let text = line("2024-03-31T02:15:00+02:00") + &line("2024-03-31T00:15:01.250Z");
    let (log, _) = read_all(text.as_bytes(), Methods::Safe).unwrap();
    assert_eq!((log.due_ns, log.account.resolution_ns), (vec![0, 1_250_000_000], 1_000_000));
}

#[test]
fn lines_of_json_are_read_under_the_names_of_several_servers() {
    let text = r#"
{"msec":"1711844100.250","request":"GET /nginx?a=1 HTTP/1.1","status":"200"}
{"time":"2024-03-31T00:15:00.500Z","request_method":"GET","uri":"/args","args":"b=2","status":200}
{"level":"info","ts":1711844100.75,"request":{"method":"GET","uri":"/caddy","host":"h"},"status":404}
{"StartUTC":"2024-03-31T00:15:01.000Z","RequestMethod":"HEAD","RequestPath":"/traefik","DownstreamStatus":204}
{"start_time":"2024-03-31T00:15:01.250Z","method":"GET","path":"/envoy","response_code":"200"}
{"timestamp":"2024-03-31T00:15:01.5Z","httpRequest":{"requestMethod":"GET","requestUrl":"https://h.example/gcp?q=1","status":503}}
{"ts":1711844101.75,"method":"get","url":"/lower?key=geheim"}
"#;
    let (log, requests) = read_all(text.as_bytes(), Methods::Safe).unwrap();
    assert_eq!(
        requests,
        [
            "GET 200 /nginx?a=1",
            "GET 200 /args?b=2",
            "GET 404 /caddy",
            "HEAD 204 /traefik",
            "GET 200 /envoy",
            "GET 503 /gcp?q=1",
            "GET - /lower?key=***",
        ]
    );
    assert_eq!(log.due_ns, [0, 250, 500, 750, 1_000, 1_250, 1_500].map(|ms| ms * 1_000_000));
}

/// `time` may be the duration of a request.
#[test]
fn a_duration_in_json_is_no_time_of_the_log() {
    let line =
        |date: &str| format!("{{\"date\":\"{date}\",\"time\":0.012,\"method\":\"GET\",\"url\":\"/\"}}\n");
    let text = line("2024-03-31T02:15:00Z") + &line("2024-03-31T02:16:00Z");
    let (log, _) = read_all(text.as_bytes(), Methods::Safe).unwrap();
    assert_eq!(log.due_ns, [0, 60_000_000_000]);
    let alone = "{\"time\":0.012,\"method\":\"GET\",\"url\":\"/\"}\n";
    assert!(read_all(alone.as_bytes(), Methods::Safe).is_err(), "no line has a time");
}

#[test]
fn every_line_is_a_request_or_counted() {
    let good = "h - - [10/Oct/2000:13:55:36 +0000] \"GET /ok HTTP/1.1\" 200 1";
    let long = format!("h - - [10/Oct/2000:13:55:36 +0000] \"GET /{} HTTP/1.1\" 200 1", "x".repeat(70_000));
    let lines: [(&[u8], Reason); 14] = [
        (b"not a log", Reason::Unreadable),
        (b"\x00\x01\xff\xfe\"[", Reason::Time),
        (b"{\"ts\":1,\"method\":\"GET\"", Reason::Unreadable),
        (b"{\"method\":\"GET\",\"path\":\"/\"}", Reason::Time),
        (b"{\"ts\":1711844100,\"path\":\"/\"}", Reason::NoRequest),
        (b"h - - [40/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1", Reason::Time),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"-\" 400 0", Reason::NoRequest),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"\\x16\\x03\\x01\" 400 0", Reason::NoRequest),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"POST /x HTTP/1.1\" 200 0", Reason::UnsafeMethod),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"PROPFIND /x HTTP/1.1\" 207 0", Reason::OtherMethod),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"CONNECT h:443 HTTP/1.1\" 400 0", Reason::OtherMethod),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"OPTIONS * HTTP/1.1\" 200 0", Reason::NoPath),
        (b"h - - [10/Oct/2000:13:55:36 +0000] \"GET /a b HTTP/1.1\" 200 0", Reason::NoPath),
        (long.as_bytes(), Reason::TooLong),
    ];
    for (line, reason) in lines {
        let text = [good.as_bytes(), line, good.as_bytes(), b""].join(&b"\n"[..]);
        let (log, requests) = read_all(&text, Methods::Safe).unwrap();
        assert_eq!(requests, ["GET 200 /ok", "GET 200 /ok"], "{reason:?}");
        assert_eq!(log.account.left_out.get(&reason), Some(&(1, 2)), "{reason:?}: {:?}", log.account);
        assert_eq!((log.account.lines, log.account.left_out_in_all()), (3, 1), "{reason:?}");
    }
    let (log, requests) =
        read_all(b"h - - [10/Oct/2000:13:55:36 +0000] \"DELETE /x HTTP/1.1\" 200 0\n\r\n\n", Methods::All)
            .unwrap();
    assert_eq!((requests, log.account.lines), (vec!["DELETE 200 /x".to_owned()], 1));
}

#[test]
fn a_log_that_is_cut_anywhere_loses_at_most_its_last_line() {
    let whole = COMBINED.as_bytes();
    for end in 0..whole.len() {
        let complete = whole[..end].split(|b| *b == b'\n').count() as u64 - 1;
        match read_all(&whole[..end], Methods::Safe) {
            Ok((log, _)) => {
                let Account { lines, requests, .. } = log.account;
                assert!(requests == complete || requests == complete + 1, "{end}");
                assert_eq!(lines, requests + log.account.left_out_in_all(), "{end}");
                assert!(
                    log.account.left_out.keys().all(|reason| *reason == Reason::Cut),
                    "{end}: {:?}",
                    log.account
                );
            }
            Err(AccessLogError::Empty { .. }) => assert_eq!(complete, 0, "{end}"),
            Err(error) => panic!("{end}: {error}"),
        }
    }
}

#[test]
fn a_log_that_cannot_be_replayed_says_why() {
    let why = |text: &[u8]| read_all(text, Methods::Safe).unwrap_err().to_string();
    assert_eq!(why(b""), "0 of 0 lines can be replayed: the log has no entries");
    assert!(why(b"\x1f\x8b\x08\x00").contains("gunzip -c FILE | bakeoff load ... --replay -"));
    assert!(why(b"\x28\xb5\x2f\xfd").contains("zstdcat"));
    // Empty lines are lines of the file: the first of the reasons lies within their number.
    assert!(why(b"\n\n\nx\n").starts_with("0 of 4 lines can be replayed: 1 "));
    assert!(why(b"\n\n\nx\n").ends_with("(first: line 4)"));
    let post = b"h - - [10/Oct/2000:13:55:36 +0000] \"POST / HTTP/1.1\" 200 0\n";
    assert_eq!(
        why(post),
        "0 of 1 lines can be replayed: 1 with a method that may change data (first: line 1)"
    );
    // Blocks of two workers, a minute apart, again and again.
    let mut mixed = String::new();
    for second in 0..200 {
        let minute = if second % 2 == 0 { 10 } else { 9 };
        let _ = writeln!(mixed, "h - - [10/Oct/2000:13:{minute:02}:00 +0000] \"GET / HTTP/1.1\" 200 0");
    }
    assert!(why(mixed.as_bytes()).contains("sort the log by time"), "{}", why(mixed.as_bytes()));
}

#[test]
fn summer_time_that_ends_is_no_step_if_the_log_has_offsets() {
    let line = |time: &str| format!("h - - [{time}] \"GET / HTTP/1.1\" 200 0\n");
    let text = line("27/Oct/2024:02:59:59 +0200") + &line("27/Oct/2024:02:00:00 +0100");
    let (log, _) = read_all(text.as_bytes(), Methods::Safe).unwrap();
    assert_eq!((log.due_ns, log.account.set_back), (vec![0, 1_000_000_000], None));
}
