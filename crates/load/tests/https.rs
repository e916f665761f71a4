//! Loads by TLS and by HTTP/2 on a real nginx.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, LoadError, Stop};
use record::load::{LoadRecord, LoadSettings, Loop};
use record::requests::{ClientFiles, HttpSettings, HttpVersion};
use support::certificates::{Authority, Valid};
use support::web::Nginx;
use support::{run, settings};

fn base(server: &Nginx, path: &str) -> LoadSettings {
    let http = HttpSettings { ca: Some(server.certificate()), ..HttpSettings::plain() };
    LoadSettings { http, ..asked(&server.secure_url("localhost", path)) }
}

fn asked(target: &str) -> LoadSettings {
    LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(300),
        time: Duration::from_mins(10),
        errors_ratio_max: 1.0,
        ..settings(target)
    }
}

fn with(version: HttpVersion, settings: &LoadSettings) -> LoadSettings {
    LoadSettings { http: HttpSettings { version, ..settings.http.clone() }, ..settings.clone() }
}

/// Runs with one connection for each thread, and with many on each of two threads.
fn runs(settings: &LoadSettings) -> [LoadRecord; 2] {
    let loops = LoadSettings { threads: 2, connections: Some(20), ..settings.clone() };
    [run(settings), run(&loops)]
}

#[test]
fn requests_are_answered_whole_by_either_version() {
    let Some(server) = Nginx::start_secured() else { return };
    for (version, spoken) in [
        (HttpVersion::Any, ", HTTP/2, TLS 1.3"),
        (HttpVersion::Two, ", HTTP/2, TLS 1.3"),
        (HttpVersion::One, ", TLS 1.3"),
    ] {
        for path in ["/page", "/long"] {
            for record in runs(&with(version, &base(&server, path))) {
                let counts = record.counts;
                assert_eq!((counts.done, counts.failed), (300, 0), "{path}: {:?}", record.error_samples);
                assert_eq!(record.outcomes["2xx"], 300);
                // nginx closes connections after 50 requests, which is not an outage.
                assert!(record.outages.is_empty(), "{version:?} {path}: {:?}", record.outages);
                let told = record.server_version.unwrap();
                assert!(told.starts_with("nginx") && told.ends_with(spoken), "{told}");
            }
        }
        for record in runs(&with(version, &base(&server, "/gone"))) {
            assert_eq!((record.counts.failed, record.errors.application), (300, 300));
            assert!(record.error_samples[0].contains("410"), "{:?}", record.error_samples);
        }
    }
    let log = std::fs::read_to_string(server.folder.path().join("access.log")).unwrap();
    for (protocol, requests) in [("HTTP/2.0", 2 * 6 * 300), ("HTTP/1.1", 6 * 300)] {
        // Each run checks the server once before it begins.
        let found = log.lines().filter(|line| line.contains("\"GET /") && line.contains(protocol)).count();
        assert!(found.abs_diff(requests) <= 2, "{protocol}: {found} of {requests}");
    }
}

#[test]
fn http_2_is_spoken_without_tls_where_both_know() {
    let Some(server) = Nginx::start_secured() else { return };
    let settings =
        LoadSettings { target: record::target::Target::new(server.two_url("/long")), ..base(&server, "/") };
    for record in runs(&with(HttpVersion::Two, &settings)) {
        assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
        assert!(record.server_version.unwrap().ends_with(", HTTP/2"));
    }
}

#[test]
fn bodies_are_checked_and_sent() {
    let Some(server) = Nginx::start_secured() else { return };
    let file = server.folder.path().join("requests.toml");
    let body = "x".repeat(200_000);
    std::fs::write(
        &file,
        format!(
            "[[request]]\npath = '/page'\nanswer = \"hello\\n\"\n
             [[request]]\nmethod = 'POST'\npath = '/page'\nbody = '{body}'\nstatus = 405\n"
        ),
    )
    .unwrap();
    for version in [HttpVersion::Two, HttpVersion::One] {
        let base = with(version, &base(&server, "/"));
        let http = HttpSettings { requests: Some(file.display().to_string()), ..base.http.clone() };
        for record in runs(&LoadSettings { http, verify: true, ..base }) {
            assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
        }
    }
}

#[test]
fn a_certificate_that_the_user_names_is_trusted_also_where_it_is_an_authoritys() {
    let Some(mut server) = Nginx::start_secured() else { return };
    server.show_an_authoritys_certificate();
    let trusted = base(&server, "/page");
    for record in runs(&trusted) {
        assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
    }
    // The name is checked all the same.
    let target = record::target::Target::new(server.secure_url("127.0.0.1", "/page"));
    let error = support::error_of(&LoadSettings { target, ..trusted.clone() }).to_string();
    assert!(error.contains("it is for another name"), "{error}");
    // So is the certificate's identity.
    let other = tempfile::tempdir().unwrap();
    support::web::make_certificate(other.path(), "TRUE");
    let ca = Some(other.path().join("certificate.pem").display().to_string());
    let http = HttpSettings { ca, ..HttpSettings::plain() };
    let error = support::error_of(&LoadSettings { http, ..trusted }).to_string();
    assert!(error.contains("is not trusted") && !error.contains("Other"), "{error}");
}

#[test]
fn what_the_server_closes_while_it_is_idle_is_no_error() {
    let Some(server) = Nginx::start_secured() else { return };
    for version in [HttpVersion::Two, HttpVersion::One] {
        let settings = with(version, &base(&server, "/brief"));
        for record in runs(&support::web::now_and_then(&settings)) {
            support::web::assert_untroubled(&record);
        }
    }
}

#[test]
fn whom_nobody_vouches_for_is_refused_before_anything_is_measured() {
    let Some(server) = Nginx::start_secured() else { return };
    let trusted = base(&server, "/page");
    let http = |ca: Option<String>, insecure| HttpSettings { ca, insecure, ..HttpSettings::plain() };
    let to = |host: &str| record::target::Target::new(server.secure_url(host, "/page"));
    let refused = |settings: LoadSettings| match load::run(&settings, &Stop::new(), &mut |_| {}) {
        Err(error @ LoadError::Refused { .. }) => {
            assert_eq!(error.class(), ErrorClass::Usage);
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    // Its name differs from the one in the certificate.
    let text = refused(LoadSettings { target: to("127.0.0.1"), ..trusted.clone() });
    assert!(text.contains("it is for another name") && text.contains("--insecure"), "{text}");
    // If this machine has no trusted authority, the message names that instead.
    let text = refused(LoadSettings { http: http(None, false), ..trusted.clone() });
    assert!(text.contains("trust"), "{text}");
    let key = server.folder.path().join("key.pem").display().to_string();
    let text = refused(LoadSettings { http: http(Some(key), false), ..trusted.clone() });
    assert!(text.contains("contains no"), "{text}");
    let record = run(&LoadSettings { http: http(None, true), target: to("127.0.0.1"), ..trusted });
    assert_eq!(record.counts.done, 300);
}

#[test]
fn a_client_shows_its_certificate_to_a_server_that_asks_for_one() {
    let Some(authority) = Authority::new() else { return };
    let (own, client) = (authority.sign("server", Valid::Now), authority.sign("client", Valid::Now));
    let port = support::port::free();
    let Some(_server) = Nginx::start_beside(|_| {
        format!(
            "server {{
                 listen 127.0.0.1:{port} ssl http2; ssl_certificate {}; ssl_certificate_key {};
                 ssl_client_certificate {}; ssl_verify_client on; location / {{ return 200 $ssl_client_s_dn; }}
             }}",
            own.certificate.display(),
            own.key.display(),
            authority.file()
        )
    }) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests.toml");
    std::fs::write(&file, "[[request]]\npath = '/'\nanswer = 'CN=localhost'\n").unwrap();
    let files =
        ClientFiles { cert: client.certificate.display().to_string(), key: client.key.display().to_string() };
    let target = format!("https://localhost:{port}/");
    for version in [HttpVersion::Two, HttpVersion::One] {
        let http = HttpSettings {
            ca: Some(authority.file()),
            requests: Some(file.display().to_string()),
            identity: Some(files.clone()),
            version,
            ..HttpSettings::plain()
        };
        let shown = LoadSettings { http, verify: true, ..asked(&target) };
        for record in runs(&shown) {
            assert_eq!((record.counts.done, record.errors.verify), (300, 0), "{:?}", record.error_samples);
        }
        // nginx answers a client without a certificate with status 400.
        let http = HttpSettings { identity: None, ..shown.http.clone() };
        let record = run(&LoadSettings { http, ..shown.clone() });
        assert_eq!(record.errors.application, 300, "{:?}", record.error_samples);
    }
    let swapped = ClientFiles { cert: files.cert, key: own.key.display().to_string() };
    let http = HttpSettings { identity: Some(swapped), ..HttpSettings::plain() };
    let error = support::error_of(&LoadSettings { http, ..asked(&target) }).to_string();
    assert!(error.contains("do not match"), "{error}");
}
