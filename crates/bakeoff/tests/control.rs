//! `bakeoff load --control` as a user uses it.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod lab;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use lab::{Ended, Lab, assert_balanced};

const LOAD: [&str; 10] =
    ["load", "null:", "--rate", "200", "--time", "10m", "--warmup", "0", "--json", "--control"];

/// Sends a line as `echo 'rate 2000/s' | socat - UNIX-CONNECT:...` does.
fn ask(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn begin(lab: &Lab, socket: &Path) -> Child {
    let words = [&LOAD[..], &[socket.to_str().unwrap()]].concat();
    let child = lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    while UnixStream::connect(socket).is_err() || !ask(socket, "status").contains("phase=measure") {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_rate_that_was_changed_is_on_record_and_on_every_page() {
    let lab = Lab::new();
    let socket = lab.path("control");
    // A killed load leaves such a socket behind.
    drop(UnixListener::bind(&socket).unwrap());
    let child = begin(&lab, &socket);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ask(&socket, "rate 2000/s").starts_with("ok rate_per_s=2000 from_per_s=200 at_s="));
    assert!(ask(&socket, "rate fast").starts_with("error: `fast`"));
    while !ask(&socket, "status").contains("rate_per_s=2000 offered_per_s=") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = lab.run(&[&LOAD[..], &[socket.to_str().unwrap()]].concat());
    assert_eq!(second.code, Some(6), "{}", second.err);
    assert!(second.err.contains("another load listens"), "{}", second.err);
    assert_eq!(ask(&socket, "stop"), "ok stopping the load\n");
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130));
    assert!(!socket.exists(), "the socket goes with the load");
    let load: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_balanced(&load);
    let changes = load["rate_changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{load}");
    assert_eq!((&changes[0]["from_per_s"], &changes[0]["per_s"]), (&200.0.into(), &2000.0.into()));
    let says = "changed from 200.00/s to 2,000.0/s";
    let page = lab.path("page.html");
    let reported = lab.run(&["report", "latest", "--output", page.to_str().unwrap()]);
    assert_eq!(reported.code, Some(0), "{}", reported.err);
    assert!(std::fs::read_to_string(page).unwrap().contains(says));
    let shown = lab.run(&["runs", "show", "latest"]);
    assert!(shown.out.contains(says), "{}", shown.out);
}

#[test]
fn ctrl_c_takes_the_socket_away_and_a_file_is_left_alone() {
    let lab = Lab::new();
    let socket = lab.path("control");
    let child = begin(&lab, &socket);
    let pid = i32::try_from(child.id()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGINT).unwrap();
    assert_eq!(Ended::of(child.wait_with_output().unwrap()).code, Some(130));
    assert!(!socket.exists());
    std::fs::write(&socket, "mine").unwrap();
    let refused = lab.run(&[&LOAD[..], &[socket.to_str().unwrap()]].concat());
    assert_eq!(refused.code, Some(6));
    assert!(refused.err.contains("is not a socket"), "{}", refused.err);
    assert_eq!(std::fs::read(&socket).unwrap(), b"mine");
}
