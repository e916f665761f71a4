//! A server that speaks TLS on loopback, without tokens.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::house::House;
use super::lab::Lab;

/// Certificate and key of a server of this machine; `None` if openssl is absent.
#[expect(clippy::print_stdout, reason = "a skip is printed")]
pub(super) fn certificate(lab: &Lab) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (lab.path("cert.pem"), lab.path("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("skipped: openssl is not here to make a certificate");
        return None;
    }
    Some((cert, key))
}

/// Answer of the server over TLS to a request by the user of `command`, which is openssl or starts it.
fn answer(house: &House, command: &mut Command) -> Option<String> {
    command.args(["s_client", "-quiet", "-connect", &house.address]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let request =
        format!("GET /api/v1/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", house.address);
    // One that cannot act as another user has gone.
    let _ = child.stdin.as_mut()?.write_all(request.as_bytes());
    let text = String::from_utf8_lossy(&child.wait_with_output().ok()?.stdout).into_owned();
    text.starts_with("HTTP/1.1").then_some(text)
}

#[test]
fn over_tls_without_a_token_file_only_the_user_of_the_server_gets_an_answer() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let Some((cert, key)) = certificate(&lab) else { return };
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let house = House::open(&lab, &["--queue", "--tls-cert", cert, "--tls-key", key]);
    let url = format!("https://{}", house.address);
    let listed = lab.run(&["queue", "list", "--server", &url, "--ca", cert, "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    let own = answer(&house, &mut Command::new("openssl")).expect("openssl is here");
    assert!(own.starts_with("HTTP/1.1 200"), "{own}");
    let mut as_another = Command::new("setpriv");
    as_another.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "openssl"]);
    match answer(&house, &mut as_another) {
        Some(text) => assert!(text.starts_with("HTTP/1.1 403"), "{text}"),
        None => println!("skipped: only root can act as another user"),
    }
}
