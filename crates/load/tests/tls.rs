//! TLS with every kind of server, under threads and under event loops: which servers it trusts, and its
//! messages about the others.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bakeoff_load as load;

use load::ErrorClass;
use mysql::prelude::Queryable as _;
use record::load::{LoadSettings, Loop, ScriptFile, Workload};
use record::requests::KvSettings;

use support::cache::Cache;
use support::certificates::{Authority, Certificate, Valid};
use support::fake::{
    MYSQL_OK, POSTGRES_ANSWER, POSTGRES_WELCOME, Peer, mysql_answer, mysql_greeting_with, mysql_packet,
    mysql_request, postgres_request, postgres_start, serve,
};
use support::mariadb::{self, MariaDb};
use support::postgres::{self, Postgres};
use support::{error_of, port, run, settings};

/// A server that shows a certificate: itself, and its target at a host, before the parameters.
type Server = (Box<dyn Any>, Box<dyn Fn(&str) -> String>);

fn start_mariadb(shows: &Certificate, authority: &Authority) -> Option<Server> {
    let server = MariaDb::start_secured(shows, &authority.file())?;
    let port = server.port();
    let url = move |host: &str| format!("mysql://app:{}@{host}:{port}/bench", mariadb::PASSWORD);
    Some((Box::new(server), Box::new(url)))
}

fn start_postgres(shows: &Certificate, _: &Authority) -> Option<Server> {
    let server = Postgres::start_secured(shows)?;
    let port = server.port();
    let url = move |host: &str| format!("postgres://app:{}@{host}:{port}/bench", postgres::PASSWORD);
    Some((Box::new(server), Box::new(url)))
}

fn start_redis(shows: &Certificate, authority: &Authority) -> Option<Server> {
    let port = port::free();
    let server = Cache::redis_secured(shows, &authority.file(), port, "no")?;
    Some((Box::new(server), Box::new(move |host: &str| format!("rediss://{host}:{port}"))))
}

fn start_memcached(shows: &Certificate, _: &Authority) -> Option<Server> {
    let server = Cache::memcached_secured(shows)?;
    let port = server.port;
    Some((Box::new(server), Box::new(move |host: &str| format!("memcaches://{host}:{port}"))))
}

/// A few events as fast as possible.
fn few(target: String) -> LoadSettings {
    let base = settings(target);
    let workload = match base.workload {
        Workload::OltpReadWrite => Workload::OltpPointSelect,
        other => other,
    };
    LoadSettings {
        workload,
        kv: KvSettings { keys: 300, ..KvSettings::usual() },
        verify: workload == Workload::Kv,
        pace: Loop::CLOSED,
        events_max: Some(100),
        time: Duration::from_mins(10),
        threads: 2,
        ..base
    }
}

fn works(target: &str) {
    for connections in [None, Some(6)] {
        let record = run(&LoadSettings { connections, ..few(target.to_owned()) });
        assert_eq!((record.counts.done, record.counts.failed), (100, 0), "{:?}", record.error_samples);
        assert_eq!(record.errors.connection, 0, "{:?}", record.error_samples);
        let version = record.server_version.unwrap();
        assert!(version.contains(", TLS 1."), "{version}");
    }
}

fn is_refused(target: String, says: &str) {
    let error = error_of(&few(target));
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    let text = error.to_string();
    assert!(text.contains(says) && text.lines().count() == 1, "{text}");
}

fn trusts_whom_it_should(start: fn(&Certificate, &Authority) -> Option<Server>) {
    let (Some(authority), Some(other)) = (Authority::new(), Authority::new()) else { return };
    let Some((_server, url)) = start(&authority.sign("server", Valid::Now), &authority) else { return };
    let (ca, wrong) = (authority.file(), other.file());
    works(&format!("{}?tls=verify-full&ca={ca}", url("localhost")));
    // The name differs, and is not checked; or it is given as a parameter.
    works(&format!("{}?tls=verify-ca&ca={ca}", url("127.0.0.1")));
    works(&format!("{}?tls=verify-full&ca={ca}&server-name=localhost", url("127.0.0.1")));
    works(&format!("{}?tls=require", url("127.0.0.1")));
    let full = |ca: &str, host: &str| format!("{}?tls=verify-full&ca={ca}", url(host));
    is_refused(
        full(&ca, "127.0.0.1"),
        "for another name than the target's): give its name with server-name=NAME, or accept",
    );
    is_refused(full(&wrong, "localhost"), "its CA is not trusted");
    is_refused(format!("{}?tls=verify-ca&ca={wrong}", url("localhost")), "its CA is not trusted");
    is_refused(full("/no/such/file", "localhost"), "contains no readable certificates");
    let Some((_server, url)) = start(&authority.sign("expired", Valid::Once), &authority) else { return };
    is_refused(
        format!("{}?tls=verify-full&ca={ca}", url("localhost")),
        "it has expired): renew it, or accept any certificate",
    );
}

#[test]
fn mariadb_is_trusted_by_its_certificate() {
    trusts_whom_it_should(start_mariadb);
}

#[test]
fn postgresql_is_trusted_by_its_certificate() {
    trusts_whom_it_should(start_postgres);
}

#[test]
fn redis_is_trusted_by_its_certificate() {
    trusts_whom_it_should(start_redis);
}

#[test]
fn memcached_is_trusted_by_its_certificate() {
    trusts_whom_it_should(start_memcached);
}

#[test]
fn a_server_that_does_not_speak_tls_is_refused() {
    if let Some(server) = Postgres::start() {
        is_refused(format!("{}?tls=require", server.url()), "the server does not support TLS");
    }
    if let Some(server) = MariaDb::start_with(vec!["--skip-ssl".to_owned()]) {
        is_refused(format!("{}?tls=require", server.url()), "the server does not support TLS");
    }
}

#[test]
fn a_client_shows_its_certificate() {
    let Some(authority) = Authority::new() else { return };
    let (server, client) = (authority.sign("server", Valid::Now), authority.sign("client", Valid::Now));
    let (ca, tls_port) = (authority.file(), port::free());
    let shown = format!("cert={}&key={}", client.certificate.display(), client.key.display());
    if let Some(_cache) = Cache::redis_secured(&server, &ca, tls_port, "yes") {
        works(&format!("rediss://localhost:{tls_port}?ca={ca}&{shown}"));
        let error = error_of(&few(format!("rediss://localhost:{tls_port}?ca={ca}"))).to_string();
        assert!(error.contains("TLS"), "{error}");
    }
    if let Some(database) = MariaDb::start_secured(&server, &ca) {
        let mut root = database.connect("root", None, "mysql");
        root.query_drop("CREATE USER shown@'%' IDENTIFIED BY 'pw' REQUIRE X509").unwrap();
        root.query_drop("GRANT ALL ON bench.* TO shown@'%'").unwrap();
        let target = format!("mysql://shown:pw@localhost:{}/bench?tls=verify-full&ca={ca}", database.port());
        works(&format!("{target}&{shown}"));
        is_refused(target, "check the user and the password");
    }
}

#[test]
fn mariadb_knows_us_by_every_proof_that_it_asks_for() {
    let Some(server) = MariaDb::start_with(vec!["--plugin-load-add=auth_ed25519".to_owned()]) else { return };
    let mut root = server.connect("root", None, "mysql");
    let port = server.port();
    for (user, identified) in [
        ("native", "mysql_native_password USING PASSWORD('p w')"),
        ("signed", "ed25519 USING PASSWORD('p w')"),
    ] {
        root.query_drop(format!("CREATE USER {user}@'%' IDENTIFIED VIA {identified}")).unwrap();
        root.query_drop(format!("GRANT ALL ON bench.* TO {user}@'%'")).unwrap();
        let record = run(&few(format!("mysql://{user}:p%20w@127.0.0.1:{port}/bench")));
        assert_eq!(record.counts.done, 100, "{:?}", record.error_samples);
        is_refused(format!("mysql://{user}:wrong@127.0.0.1:{port}/bench"), "check the user and the password");
    }
    root.query_drop("CREATE USER open@'%'").unwrap();
    root.query_drop("GRANT ALL ON bench.* TO open@'%'").unwrap();
    assert_eq!(run(&few(format!("mysql://open@127.0.0.1:{port}/bench"))).counts.done, 100);
}

/// The start of a session with a server that speaks TLS and requests the password itself: what the client
/// sent in reply; `None` if it has gone.
type AsksForPassword = fn(&mut Peer, &Certificate) -> Option<Vec<u8>>;

fn asks_as_postgresql(peer: &mut Peer, shows: &Certificate) -> Option<Vec<u8>> {
    postgres_start(peer)?;
    peer.say(b"S");
    peer.secure(shows);
    postgres_start(peer)?;
    peer.say(b"R\0\0\0\x08\0\0\0\x03");
    let said = peer.hear();
    peer.say(POSTGRES_WELCOME);
    said
}

fn asks_as_mysql(peer: &mut Peer, shows: &Certificate) -> Option<Vec<u8>> {
    peer.say(&mysql_greeting_with("caching_sha2_password", 1 << 11));
    mysql_request(peer)?;
    peer.secure(shows);
    mysql_request(peer)?;
    // The proof is not in the server's cache.
    peer.say(&mysql_packet(3, &[1, 4]));
    let said = mysql_request(peer);
    peer.say(&mysql_packet(5, MYSQL_OK));
    said
}

#[test]
fn a_server_that_is_not_verified_gets_no_password_in_cleartext() {
    let Some(authority) = Authority::new() else { return };
    let cases: [(&str, AsksForPassword); 2] = [("postgres", asks_as_postgresql), ("mysql", asks_as_mysql)];
    for (scheme, asks) in cases {
        let (shows, told) = (authority.sign(scheme, Valid::Now), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&told);
        let port = serve(move |peer| {
            let Some(said) = asks(peer, &shows) else { return };
            count.fetch_add(u32::from(said.windows(6).any(|w| w == b"s3cret")), Ordering::SeqCst);
            match scheme {
                "mysql" => while mysql_request(peer).is_some() && peer.say(&mysql_answer()) {},
                _ => while postgres_request(peer).is_some() && peer.say(POSTGRES_ANSWER) {},
            }
        });
        let load = |parameters: &str| {
            let target = format!("{scheme}://app:s3cret@localhost:{port}/bench?{parameters}");
            let mut load = LoadSettings { workload: Workload::Script, ..few(target) };
            let text = "SELECT n FROM t \\gset\n".to_owned();
            load.scripts.files = vec![ScriptFile { name: "one.sql".to_owned(), weight: 1, text }];
            load.oltp.prepared = false;
            load
        };
        let error = error_of(&load("tls=require"));
        assert_eq!((error.class(), told.load(Ordering::SeqCst)), (ErrorClass::Usage, 0), "{error}");
        let text = error.to_string();
        assert!(text.contains("cleartext") && text.contains("?tls=verify-full"), "{text}");
        let record = run(&load(&format!("tls=verify-full&ca={}", authority.file())));
        assert_eq!((record.counts.done, record.counts.failed), (100, 0), "{:?}", record.error_samples);
        assert!(told.load(Ordering::SeqCst) > 0, "{scheme}");
    }
}
