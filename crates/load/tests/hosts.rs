//! Loads on several hosts: real servers of each kind, two at a time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Stop};
use record::load::{ErrorCounts, LoadRecord, LoadSettings, Loop, PreparePolicy, Workload};
use record::requests::KvSettings;
use support::cache::Cache;
use support::certificates::{Authority, Valid};
use support::mariadb::MariaDb;
use support::postgres::{PASSWORD, Postgres};
use support::web::Nginx;
use support::{check_of, error_of, port, run, run_with_trouble, settings};

/// 300 events, as fast as possible.
fn few(target: &str) -> LoadSettings {
    let settings = settings(target);
    let workload = if settings.workload == Workload::OltpReadWrite {
        Workload::OltpPointSelect
    } else {
        settings.workload
    };
    LoadSettings {
        workload,
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        pace: Loop::CLOSED,
        events_max: Some(300),
        time: Duration::from_mins(10),
        ..settings
    }
}

/// Five connections: a thread for each, and all on two threads.
fn in_threads_and_loops(settings: &LoadSettings) -> [LoadSettings; 2] {
    [
        LoadSettings { threads: 5, ..settings.clone() },
        LoadSettings { threads: 2, connections: Some(5), ..settings.clone() },
    ]
}

/// Asserts the invariants of a load on two hosts, however it ended.
fn assert_hosts(record: &LoadRecord) {
    let hosts = &record.hosts;
    let sum = |of: fn(&record::load::OfHost) -> u64| hosts.iter().map(of).sum::<u64>();
    assert_eq!(hosts.iter().map(|h| h.connections).collect::<Vec<_>>(), [3, 2], "{hosts:?}");
    assert_eq!(sum(|h| h.done), record.counts.done, "{hosts:?}");
    assert_eq!(sum(|h| h.failed), record.counts.failed, "{hosts:?}");
    assert_eq!(sum(|h| h.errors.all()), record.errors.all(), "{hosts:?}");
    assert_eq!(record.connected, Ok(5));
    let check = check_of(record, "hosts");
    assert_eq!(check.ok, hosts.iter().all(|h| h.done > 0), "{check:?}");
}

/// Runs loads on both hosts, and checks that each does its part.
fn both_do_their_part(target: &str) -> Vec<LoadRecord> {
    let records = in_threads_and_loops(&few(target)).map(|settings| {
        let record = run(&settings);
        assert_hosts(&record);
        assert_eq!((record.counts.done, record.errors.all()), (300, 0), "{:?}", record.error_samples);
        assert!(record.hosts.iter().all(|h| h.done > 0), "{:?}", record.hosts);
        // Both are the same program.
        assert!(!record.server_version.as_ref().unwrap().contains('('), "{:?}", record.server_version);
        record
    });
    records.into()
}

#[test]
fn each_of_two_caches_is_filled_and_does_its_part() {
    if let (Some(one), Some(other)) = (Cache::memcached(64), Cache::memcached(64)) {
        both_do_their_part(&format!("memcached://127.0.0.1:{},localhost:{}/", one.port, other.port));
    }
    let asks = ["--requirepass", "a,b@c"];
    if let (Some(one), Some(other)) = (Cache::redis(&asks), Cache::redis(&asks)) {
        let target = format!("redis://:a,b@c@127.0.0.1:{},127.0.0.1:{}/3", one.port, other.port);
        for record in both_do_their_part(&target) {
            assert_eq!(record.outcomes["miss"], 0, "{:?}", record.outcomes);
            let steady = record.verdict.checks.iter().filter(|c| c.name == "cache-steady");
            assert_eq!(steady.clone().count(), 2);
            assert!(steady.zip(&record.hosts).all(|(check, h)| check.text.starts_with(&h.host)));
        }
        assert_eq!(load::cleanup(&few(&target)).unwrap().removed, 2);
    }
}

#[test]
fn a_host_did_as_many_requests_as_its_own_log_says() {
    let (Some(one), Some(other)) = (Nginx::start(), Nginx::start()) else { return };
    let target = format!("http://127.0.0.1:{},127.0.0.1:{}/page", one.port, other.port);
    let mut done = [0, 0];
    for record in both_do_their_part(&target) {
        done[0] += record.hosts[0].done;
        done[1] += record.hosts[1].done;
    }
    for (server, done) in [one, other].iter().zip(done) {
        let log = fs::read_to_string(server.folder.path().join("access.log")).unwrap();
        assert_eq!(log.matches("GET /page").count() as u64, done);
    }
}

#[test]
fn each_of_two_databases_has_a_data_set_of_its_own() {
    if let (Some(one), Some(other)) = (Postgres::start(), Postgres::start()) {
        let (one, other) = (one.port(), other.port());
        // Both forms of libpq: the hosts in the URL's authority, and in its parameters.
        let by_parameters =
            format!("postgres://app:{PASSWORD}@/bench?host=127.0.0.1,localhost&port={one},{other}");
        have_data_sets(&format!("postgres://app:{PASSWORD}@127.0.0.1:{one},127.0.0.1:{other}/bench"));
        have_data_sets(&by_parameters);
    }
    if let (Some(one), Some(other)) = (MariaDb::start(), MariaDb::start()) {
        have_data_sets(&format!("mysql://root@127.0.0.1:{},127.0.0.1:{}/bench", one.port(), other.port()));
    }
}

fn have_data_sets(target: &str) {
    let settings = few(target);
    let refused = error_of(&LoadSettings { prepare: PreparePolicy::Never, ..settings.clone() });
    assert_eq!(refused.class(), ErrorClass::Usage);
    assert!(refused.to_string().contains("127.0.0.1:"), "{refused}");
    let prepared = load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (0, 4));
    both_do_their_part(target);
    let prepared = load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((prepared.found, prepared.built), (4, 0));
    assert_eq!(load::cleanup(&settings).unwrap().removed, 4);
}

/// Runs a rate for five seconds; one of two hosts is killed after one.
fn while_one_dies(settings: &LoadSettings, kill: impl FnOnce() + Send) -> LoadRecord {
    let settings = LoadSettings {
        pace: support::jittered(200.0),
        events_max: None,
        time: Duration::from_secs(4),
        drain: Duration::from_millis(200),
        retries_max: 1_000,
        ..settings.clone()
    };
    let (record, ()) = run_with_trouble(&settings, || {
        thread::sleep(Duration::from_secs(1));
        kill();
    });
    assert_hosts(&record);
    let [lives, dies] = &record.hosts[..] else { panic!("{:?}", record.hosts) };
    assert_eq!((lives.errors, lives.failed), (ErrorCounts::default(), 0), "{:?}", record.hosts);
    // Each of its connections is lost, and some are retried.
    let lost = ErrorCounts { connection: dies.errors.connection, ..ErrorCounts::default() };
    assert_eq!(dies.errors, lost);
    assert!(lost.connection >= 2, "{:?}", record.hosts);
    let [outage] = record.outages[..] else { panic!("{:?}", record.outages) };
    assert_eq!((outage.host, outage.ended), (Some(1), false));
    assert_eq!(record.host_of(&outage), Some(dies.host.as_str()));
    assert!(outage.affected <= 2, "{outage:?}");
    // The others do the events that fall due meanwhile: unfinished events are in flight at the end, on either
    // host.
    assert_eq!((record.counts.failed, record.counts.planned), (0, 800));
    assert!(lives.done >= 600, "{:?}", record.hosts);
    // The latency of the others does not show it: from then on it is the load of one host.
    let away = check_of(&record, "server-away");
    assert!(!away.ok && away.text.starts_with(&dies.host), "{away:?}");
    let sample = record.error_samples.iter().find(|sample| sample.starts_with("connection: ")).unwrap();
    assert!(sample.contains(&dies.host), "{sample}");
    record
}

#[test]
fn a_cache_that_goes_away_is_the_errors_of_its_own_connections() {
    let Some(lives) = Cache::redis(&[]) else { return };
    for number in 0..2 {
        let mut dies = Cache::redis(&[]).unwrap();
        let target = format!("redis://127.0.0.1:{},127.0.0.1:{}", lives.port, dies.port);
        while_one_dies(&in_threads_and_loops(&few(&target))[number], || dies.kill());
    }
    let Some(lives) = Cache::memcached(64) else { return };
    for number in 0..2 {
        let mut dies = Cache::memcached(64).unwrap();
        let target = format!("memcached://127.0.0.1:{},127.0.0.1:{}", lives.port, dies.port);
        while_one_dies(&in_threads_and_loops(&few(&target))[number], || dies.kill());
    }
}

#[test]
fn a_database_that_goes_away_is_the_errors_of_its_own_connections() {
    let Some(lives) = Postgres::start() else { return };
    let mut dies = Postgres::start().unwrap();
    let target =
        format!("postgres://app:{PASSWORD}@127.0.0.1:{},127.0.0.1:{}/bench", lives.port(), dies.port());
    for settings in in_threads_and_loops(&few(&target)) {
        while_one_dies(&settings, || dies.crash());
        dies.restart();
    }
}

#[test]
fn a_host_that_comes_back_ends_its_outage_and_does_events_again() {
    let Some(stays) = Cache::redis(&[]) else { return };
    let mut server = Cache::redis(&[]).unwrap();
    let target = format!("redis://127.0.0.1:{},127.0.0.1:{}", stays.port, server.port);
    for settings in in_threads_and_loops(&few(&target)) {
        let settings = LoadSettings {
            pace: support::jittered(200.0),
            events_max: None,
            time: Duration::from_secs(4),
            retries_max: 1_000,
            ..settings
        };
        let server = &mut server;
        let (record, ()) = run_with_trouble(&settings, move || {
            thread::sleep(Duration::from_millis(500));
            server.kill();
            thread::sleep(Duration::from_secs(1));
            server.restart();
            server.wait_until_ready();
        });
        assert_hosts(&record);
        // A few may be in flight, or wait for a CPU, as the phase ends.
        let counts = &record.counts;
        assert_eq!((counts.planned, counts.failed, counts.skipped), (800, 0, 0), "{counts:?}");
        assert!(counts.done + counts.unfinished == 800 && counts.unfinished <= 40, "{counts:?}");
        let [outage] = record.outages[..] else { panic!("{:?}", record.outages) };
        assert!(outage.ended && outage.for_s >= 0.9, "{outage:?}");
        assert_eq!(outage.host, Some(1));
    }
}

#[test]
fn a_host_that_is_not_there_at_the_start_is_one_line_that_names_it() {
    let (cache, web) = (Cache::redis(&[]), Nginx::start());
    let nobody = port::free();
    let mut targets = vec![
        format!("memcached://127.0.0.1:{nobody},127.0.0.1:1"),
        format!("mysql://u:pass,word@127.0.0.1:{nobody},127.0.0.1:1/db"),
        format!("postgres://u:pass,word@127.0.0.1:{nobody},127.0.0.1:1/db"),
    ];
    targets.extend(cache.iter().map(|c| format!("redis://127.0.0.1:{},127.0.0.1:{nobody}", c.port)));
    targets.extend(web.iter().map(|w| format!("http://127.0.0.1:{},127.0.0.1:{nobody}/page", w.port)));
    for target in targets {
        for settings in in_threads_and_loops(&few(&target)) {
            let error = error_of(&settings);
            assert_eq!(error.class(), ErrorClass::Server, "{error}");
            let error = error.to_string();
            // Behind the target itself, which names all.
            let said = error.split_once(": ").unwrap().1;
            assert!(said.contains(&format!("127.0.0.1:{nobody}")), "{error}");
            assert!(said.contains("refused") && !said.contains('\n'), "{error}");
            assert!(!error.contains("word"), "{error}");
        }
    }
}

#[test]
fn every_host_shows_a_certificate_of_its_own_name() {
    let Some(authority) = Authority::new() else { return };
    let server = authority.sign("server", Valid::Now);
    let (ca, one, other) = (authority.file(), port::free(), port::free());
    let (Some(_one), Some(_other)) =
        (Cache::redis_secured(&server, &ca, one, "no"), Cache::redis_secured(&server, &ca, other, "no"))
    else {
        return;
    };
    both_do_their_part(&format!("rediss://localhost:{one},localhost:{other}?ca={ca}"));
    let error = error_of(&few(&format!("rediss://localhost:{one},127.0.0.1:{other}?ca={ca}"))).to_string();
    assert!(error.contains(&format!("127.0.0.1:{other}: the server's certificate")), "{error}");
    assert!(error.contains("it is for another name"), "{error}");
}

#[test]
fn hosts_that_cannot_be_driven_together_are_refused() {
    for (target, says) in [
        ("mysql://root@h1,h1:3306/db", "h1:3306 is given twice"),
        ("mysql://root@h1,h2/db?socket=/s", "one Unix socket, /s"),
        ("mysql://root@h1,/db", "has an empty entry"),
        ("mysql://root@h1:x,h2/db", "is not a valid port"),
        ("postgres://h1,h2/db?port=1,2,3", "3 ports"),
        ("redis://h1,h2,h3,h4,h5,h6", "connections is 5: expected at least one for each host"),
        ("null://h1,h2", "nothing may follow"),
    ] {
        // None of them is connected to.
        let target = target.replace("h1", "127.0.0.1").replace("h2", "127.0.0.2");
        let target = (3..7).fold(target, |t, n| t.replace(&format!("h{n}"), &format!("127.0.0.{n}")));
        let says = says.replace("h1", "127.0.0.1");
        for settings in in_threads_and_loops(&settings(target.as_str())) {
            let error = error_of(&settings);
            assert_eq!(error.class(), ErrorClass::Usage, "{error}");
            assert!(error.to_string().contains(&says), "{target}: {error}");
        }
    }
    let mut through_socket = settings("http://127.0.0.1,127.0.0.2/");
    through_socket.http.unix_socket = Some("/s".into());
    assert!(error_of(&through_socket).to_string().contains("share one Unix socket"), "{through_socket:?}");
}
