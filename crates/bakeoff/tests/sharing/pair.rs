//! An index and its store belong together.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::{fs, thread};

use super::super::lab::{Ended, Lab};
use super::super::servers::{Postgres, S3};
use super::super::{Two, measure, tree};

/// Checks for a usage error of one line with `text`.
fn is_refused(ended: &Ended, text: &str) {
    assert_eq!((ended.code, ended.err.lines().count()), (Some(2), 1), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains(text), "{}", ended.err);
}

#[test]
fn an_index_with_another_store_is_refused() {
    let Some(two) = Two::start() else { return };
    measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    measure(&two.here);
    fs::create_dir(two.here.path("store2")).unwrap();
    let other = two.server.place(&format!("file://{}", two.here.path("store2").display()));
    for verb in ["push", "pull", "sync"] {
        is_refused(&two.here.run(&["archive", verb, &other]), "another store");
    }
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "1");
    assert!(tree(&two.here.path("store2")).is_empty());
    let id = fs::read_to_string(two.here.path("store/archive-id")).unwrap();
    assert_eq!(id.trim(), two.server.sql("SELECT archive FROM bakeoff_archive WHERE is_bound"));
    // The disk of the store is not mounted.
    fs::rename(two.here.path("store/archive-id"), two.here.path("kept")).unwrap();
    is_refused(&two.push(), "another store");
    fs::rename(two.here.path("kept"), two.here.path("store/archive-id")).unwrap();
    assert_eq!(two.push().code, Some(0));
}

#[test]
fn a_store_with_another_index_is_refused() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    measure(&two.there);
    two.server.sql("CREATE DATABASE other OWNER app");
    let other = two.place.replace("/lab,", "/other,");
    assert_eq!(two.here.run(&["archive", "migrate", &other]).code, Some(0));
    for verb in ["push", "pull", "sync"] {
        is_refused(&two.there.run(&["archive", verb, &other]), "another index");
        is_refused(&two.here.run(&["archive", verb, &other]), "another index");
    }
    assert_eq!(two.server.sql("SELECT id FROM run"), id);
}

#[test]
fn of_two_first_pushes_into_two_stores_one_is_refused() {
    let Some(two) = Two::start() else { return };
    measure(&two.here);
    fs::create_dir(two.here.path("store2")).unwrap();
    let other = two.server.place(&format!("file://{}", two.here.path("store2").display()));
    for _ in 0..5 {
        two.server.sql("DELETE FROM run; UPDATE bakeoff_archive SET is_bound = false");
        for store in ["store", "store2"] {
            fs::remove_dir_all(two.here.path(store)).unwrap();
            fs::create_dir(two.here.path(store)).unwrap();
        }
        let push = |place: &str| {
            let mut command = two.here.command(&["archive", "push", place]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut both = [push(&two.place), push(&other)];
        let mut codes = both.each_mut().map(|child| child.wait().unwrap().code());
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(2)]);
        let marks = ["store", "store2"].map(|store| two.here.path(store).join("archive-id").exists());
        assert_ne!(marks[0], marks[1]);
    }
}

#[test]
fn a_first_push_that_was_killed_is_completed() {
    let Some(two) = Two::start() else { return };
    measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let mark = fs::read(two.here.path("store/archive-id")).unwrap();
    // Killed between the store and the index, and before both.
    two.server.sql("UPDATE bakeoff_archive SET is_bound = false");
    assert_eq!(two.push().code, Some(0));
    two.server.sql("UPDATE bakeoff_archive SET is_bound = false");
    fs::remove_file(two.here.path("store/archive-id")).unwrap();
    assert_eq!(two.push().code, Some(0));
    assert_eq!(fs::read(two.here.path("store/archive-id")).unwrap(), mark);
    assert_eq!(two.server.sql("SELECT is_bound FROM bakeoff_archive"), "t");
}

#[test]
fn an_index_of_the_first_version_is_bound_to_the_store_that_has_its_files() {
    let Some(two) = Two::start() else { return };
    measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let forget = "ALTER TABLE bakeoff_archive DROP COLUMN archive, DROP COLUMN is_bound; \
                  DROP TABLE removed; UPDATE bakeoff_archive SET version = 1";
    two.server.sql(forget);
    fs::remove_file(two.here.path("store/archive-id")).unwrap();
    let ended = two.push();
    assert!(ended.err.contains("bakeoff archive migrate"), "{}", ended.err);
    assert_eq!(two.here.run(&["archive", "migrate", &two.place]).code, Some(0));
    fs::create_dir(two.here.path("empty")).unwrap();
    let empty = two.server.place(&format!("file://{}", two.here.path("empty").display()));
    is_refused(&two.here.run(&["archive", "push", &empty]), "another store");
    assert_eq!(two.push().code, Some(0));
    assert!(two.here.path("store/archive-id").exists());
}

/// Passes connections on to `port`, without the header that forbids to replace a file.
fn without_conditions(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let pass = |mut from: TcpStream, mut to: TcpStream, is_request: bool| {
        let mut piece = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            let name = b"if-none-match";
            for at in 0..n.saturating_sub(name.len()) {
                if is_request && piece[at..].starts_with(name) {
                    piece[at..at + name.len()].copy_from_slice(b"x-other-match");
                }
            }
            if to.write_all(&piece[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    };
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (client2, server2) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || pass(client, server, true));
            thread::spawn(move || pass(server2, client2, false));
        }
    });
    own
}

#[test]
fn a_bucket_that_replaces_files_is_refused_at_the_first_push() {
    let (Some(server), Some(s3)) = (Postgres::start(&[]), S3::start()) else { return };
    let lab = Lab::new();
    measure(&lab);
    let place = server.place("s3://lab/team");
    let run = |verb: &str, url: &str| {
        let mut command = lab.command(&["archive", verb, &place]);
        command.env("AWS_ACCESS_KEY_ID", "lab").env("AWS_SECRET_ACCESS_KEY", "x");
        Ended::of(
            command.env("AWS_ENDPOINT_URL", url).env("AWS_DEFAULT_REGION", "us-east-1").output().unwrap(),
        )
    };
    assert_eq!(run("migrate", &s3.url).code, Some(0));
    let port = s3.url.rsplit_once(':').unwrap().1.parse().unwrap();
    let deaf = format!("http://127.0.0.1:{}", without_conditions(port));
    is_refused(&run("push", &deaf), "If-None-Match");
    assert_eq!(server.sql("SELECT count(*) FROM run"), "0");
    assert_eq!(server.sql("SELECT is_bound FROM bakeoff_archive"), "f");
    let ended = run("push", &s3.url);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}
