//! The password of the index reaches no program that only listens at its address.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use super::super::lab::{Ended, Lab};

/// Asks for the password itself: PostgreSQL's method `password`.
const ASKS_FOR_CLEARTEXT: &[u8] = b"R\0\0\0\x08\0\0\0\x03";

/// Reads the first message of a client, asks for its password, and returns what it sends then.
fn ask(mut client: impl Read + Write) -> Vec<u8> {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut first = vec![0; u32::from_be_bytes(length) as usize - length.len()];
    client.read_exact(&mut first).unwrap();
    client.write_all(ASKS_FOR_CLEARTEXT).unwrap();
    // The kind and the length of a message, and the rest of it.
    let mut head = [0; 5];
    if client.read_exact(&mut head).is_err() {
        return Vec::new();
    }
    let length = u32::from_be_bytes(head[1..].try_into().unwrap());
    let mut rest = vec![0; length as usize - 4];
    client.read_exact(&mut rest).unwrap();
    rest
}

fn migrate(lab: &Lab, host: &str, port: u16) -> Ended {
    let place = format!("postgres://app@{host}:{port}/lab,file:///tmp");
    let mut command = lab.command(&["archive", "migrate", &place]);
    Ended::of(command.env("PGPASSWORD", "s3cret").output().unwrap())
}

#[test]
fn a_listener_at_the_port_of_the_index_does_not_get_the_password() {
    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = thread::spawn(move || ask(listener.accept().unwrap().0));
    let ended = migrate(&lab, "127.0.0.1", port);
    assert_eq!(asked.join().unwrap(), b"", "it has the password");
    assert_eq!(ended.code, Some(6), "{}", ended.err);
    assert!(ended.err.contains("asks for the password in clear text"), "{}", ended.err);
    assert!(!ended.err.contains("s3cret"), "{}", ended.err);
}

#[test]
fn a_server_of_this_user_on_a_unix_socket_may_ask_for_it() {
    let lab = Lab::new();
    let listener = UnixListener::bind(lab.path(".s.PGSQL.5432")).unwrap();
    let asked = thread::spawn(move || ask(listener.accept().unwrap().0));
    let folder = lab.path("").display().to_string().replace('/', "%2F");
    let ended = migrate(&lab, folder.trim_end_matches("%2F"), 5432);
    assert_eq!(asked.join().unwrap(), b"s3cret\0", "{}", ended.err);
    assert_eq!(ended.code, Some(6), "the server answers nothing else: {}", ended.err);
}
