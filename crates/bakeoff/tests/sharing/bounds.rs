//! Memory and disk of a transfer are bounded, whatever a store sends.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use super::super::lab::Ended;
use super::super::{Two, measure, tree};
use super::{Watched, problems, watched};

/// Most memory of a transfer, in KiB: far below the length of what a store sends.
const MEMORY_KIB_MAX: u64 = 160 << 10;

/// Writer of an answer.
type Answer = fn(&mut TcpStream) -> std::io::Result<()>;

/// A hostile S3 server: it has the archive's id, and `answer` writes the answer to any other request.
fn hostile(id: String, answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let id = id.clone();
            thread::spawn(move || {
                let mut requests = BufReader::new(client.try_clone().unwrap());
                loop {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if requests.read_line(&mut head).unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let written = if head.contains("/archive-id ") {
                        let length = id.len();
                        write!(client, "HTTP/1.1 200 OK\r\n{HEADERS}Content-Length: {length}\r\n\r\n{id}")
                    } else {
                        answer(&mut client)
                    };
                    if written.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

const HEADERS: &str = "ETag: \"1\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n";

/// Sends zeros until the client closes the connection.
fn endless(to: &mut TcpStream, head: &str, is_chunked: bool) -> std::io::Result<()> {
    write!(to, "HTTP/1.1 {head}\r\n{HEADERS}\r\n")?;
    let piece = vec![b'0'; 1 << 20];
    loop {
        if is_chunked {
            write!(to, "100000\r\n")?;
        }
        to.write_all(&piece)?;
        if is_chunked {
            to.write_all(b"\r\n")?;
        }
    }
}

#[test]
fn an_endless_answer_takes_no_memory_and_no_disk() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let mark = fs::read_to_string(two.here.path("store/archive-id")).unwrap_or_default();
    let place = two.server.place("s3://lab");
    let cases: [(&str, Answer); 5] = [
        ("a terabyte", |to| endless(to, "200 OK\r\nContent-Length: 1099511627776", false)),
        ("no length", |to| endless(to, "200 OK\r\nTransfer-Encoding: chunked", true)),
        ("until the end of the connection", |to| endless(to, "200 OK\r\nConnection: close", false)),
        ("an error's text", |to| endless(to, "404 Not Found\r\nTransfer-Encoding: chunked", true)),
        ("a server's error", |to| endless(to, "500 Internal Error\r\nTransfer-Encoding: chunked", true)),
    ];
    for (case, answer) in cases {
        let mut pull = two.there.command(&["archive", "pull", &place, "--json"]);
        pull.env("AWS_ENDPOINT_URL", hostile(mark.clone(), answer)).env("AWS_DEFAULT_REGION", "us-east-1");
        pull.env("AWS_ACCESS_KEY_ID", "lab").env("AWS_SECRET_ACCESS_KEY", "x");
        let Watched { ended, most_kib } = watched(pull);
        assert_eq!(ended.code, Some(1), "{case}: {}{}", ended.out, ended.err);
        let pulled: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(problems(&pulled["pulled"])[0].0, id, "{case}: {pulled}");
        assert!(ended.out.len() < 4_000, "{case}: {} bytes", ended.out.len());
        assert!(most_kib < MEMORY_KIB_MAX, "{case}: {most_kib} KiB");
        assert!(tree(&two.there.path("archive/runs")).is_empty(), "{case}");
    }
}

#[test]
fn an_endless_list_ends_a_removal_without_memory() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let mark = fs::read_to_string(two.here.path("store/archive-id")).unwrap();
    two.server.sql("UPDATE run SET pushed_at = now() - interval '100 days'");
    let place = two.server.place("s3://lab");
    let words = ["archive", "prune", place.as_str(), "--older-than", "90d", "--yes", "--json"];
    let mut prune = two.here.command(&words);
    let url = hostile(mark, |to| endless(to, "200 OK\r\nTransfer-Encoding: chunked", true));
    prune.env("AWS_ENDPOINT_URL", url).env("AWS_DEFAULT_REGION", "us-east-1");
    prune.env("AWS_ACCESS_KEY_ID", "lab").env("AWS_SECRET_ACCESS_KEY", "x");
    let Watched { ended, most_kib } = watched(prune);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    assert_eq!(problems(&serde_json::from_str(&ended.out).unwrap())[0].0, id, "{}", ended.out);
    assert!(most_kib < MEMORY_KIB_MAX, "{most_kib} KiB");
    // The store that has the files loses them.
    let words = ["archive", "prune", two.place.as_str(), "--older-than", "90d", "--yes"];
    assert_eq!(two.here.run(&words).code, Some(0));
    assert_eq!(tree(&two.here.path("store")).len(), 1);
}

/// Adds files to a stored run, and their names to its manifest; `change` is applied to each entry.
fn add_files(run: &std::path::Path, files: &[(&str, &[u8])], change: fn(&mut Value)) {
    let manifest = run.join("manifest.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    for (name, bytes) in files {
        fs::write(run.join(name), bytes).unwrap();
        let sum = archive::sha256(&mut &bytes[..]).unwrap();
        let mut entry = json!({"name": name, "bytes": bytes.len(), "sha256": sum});
        change(&mut entry);
        document["files"].as_array_mut().unwrap().insert(0, entry);
    }
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    fs::write(&manifest, &text).unwrap();
    let sum = archive::sha256(&mut text.as_bytes()).unwrap();
    fs::write(run.join("manifest.sha256"), format!("{sum}  manifest.json\n")).unwrap();
}

#[test]
fn large_files_move_in_pieces() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    let mut random = vec![0; 64 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
    let run = two.here.path("archive/runs").join(&id);
    add_files(&run, &[("a.log.zst", &random), ("b.log.zst", &random), ("c.log.zst", &random)], |_| ());
    for (lab, verb) in [(&two.here, "push"), (&two.there, "pull")] {
        let Watched { ended, most_kib } = watched(lab.command(&["archive", verb, &two.place]));
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
        assert!(most_kib < MEMORY_KIB_MAX, "{verb}: {most_kib} KiB");
    }
    assert_eq!(tree(&run), tree(&two.there.path("archive/runs").join(&id)));
}

#[test]
fn a_run_that_unpacks_to_more_than_the_limit_is_refused_unread() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let store = two.here.path("store/runs").join(&id);
    let bomb = |entry: &mut Value| entry["unpacked_bytes"] = json!(5_u64 << 30);
    add_files(&store, &[("a.log.zst", b"x")], bomb);
    // The index agrees with the store.
    two.server.sql(&format!("DELETE FROM file WHERE run = '{id}'"));
    for (path, bytes) in tree(&store) {
        let (name, sum) = (path.display(), archive::sha256(&mut &bytes[..]).unwrap());
        two.server.sql(&format!("INSERT INTO file VALUES ('{id}', '{name}', {}, '{sum}')", bytes.len()));
        if path.ends_with("manifest.json") {
            two.server.sql(&format!("UPDATE run SET sha256 = '{sum}'"));
        }
    }
    let refused = |ended: &Ended| {
        assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
        assert!(ended.out.contains("unpack to 53687"), "{}", ended.out);
    };
    refused(&two.pull());
    assert!(tree(&two.there.path("archive/runs")).is_empty());
    // A run that no other machine would accept is not pushed.
    let own = measure(&two.here);
    add_files(&two.here.path("archive/runs").join(&own), &[("a.log.zst", b"x")], bomb);
    refused(&two.here.run(&["archive", "push", &two.place, &own]));
}
