//! Loads on a real memcached and a real Redis: values written, read back, checked and counted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bakeoff_load as load;

use load::{ErrorClass, Event, LoadError, Stop};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::clock::{Clock as _, Monotonic};
use record::load::{ClientSettings, Distribution, LoadRecord, LoadSettings, Loop, OpenLoop, PreparePolicy};
use record::requests::KvSettings;
use record::verdict::Validity;
use support::cache::Cache;
use support::{assert_books, assert_lost_once, check_of, run, run_with_trouble, settings};

/// A load of 300 events on a small cache, as fast as possible.
fn few(target: &str) -> LoadSettings {
    LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        verify: true,
        pace: Loop::CLOSED,
        events_max: Some(300),
        time: Duration::from_mins(10),
        ..settings(target)
    }
}

/// The settings with one connection for each thread, and with many on each of two threads.
fn blocking_and_looped(settings: &LoadSettings) -> [LoadSettings; 2] {
    [settings.clone(), LoadSettings { threads: 2, connections: Some(20), ..settings.clone() }]
}

fn assert_all_hit(record: &LoadRecord) {
    let of = |name: &str| record.outcomes[name];
    let count = |name: &str| record.operations[name].service.known.count();
    assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
    assert_eq!((of("hit"), of("miss"), of("stored")), (count("get"), 0, count("set")));
    assert_eq!(count("get") + count("set"), 300);
    assert!(check_of(record, "mix").ok, "{:?}", check_of(record, "mix"));
    assert!(check_of(record, "cache-steady").ok, "{:?}", check_of(record, "cache-steady"));
}

#[test]
fn every_protocol_reads_back_what_it_wrote() {
    let mut targets = Vec::new();
    let (memcached, on_a_socket) = (Cache::memcached(64), Cache::memcached_on_a_socket());
    if let (Some(tcp), Some(unix)) = (&memcached, &on_a_socket) {
        targets.push((format!("memcached://127.0.0.1:{}", tcp.port), "memcached 1."));
        targets.push((format!("memcached://127.0.0.1:{}?protocol=meta", tcp.port), "memcached 1."));
        targets.push((format!("memcached+unix:{}", unix.socket.display()), "memcached 1."));
    }
    let redis = Cache::redis(&["--requirepass", "s@cret"]);
    if let Some(redis) = &redis {
        targets.push((format!("redis://:s%40cret@127.0.0.1:{}/3", redis.port), "Redis "));
        targets.push((format!("redis://default:s@cret@127.0.0.1:{}/3?resp=3", redis.port), "Redis "));
        targets.push((format!("redis+unix:{}?password=s%40cret", redis.socket.display()), "Redis "));
    }
    for (target, version) in targets {
        let [blocking, looped] = blocking_and_looped(&few(&target));
        let spin = Duration::from_micros(50);
        let looking =
            LoadSettings { client: ClientSettings { spin, ..ClientSettings::PLAIN }, ..looped.clone() };
        for settings in [blocking, looped, looking] {
            let record = run(&settings);
            assert_all_hit(&record);
            assert_eq!(record.connected, Ok(settings.connections_in_all()));
            let found = record.server_version.unwrap();
            assert!(found.starts_with(version), "{found}");
        }
        assert_eq!(load::cleanup(&few(&target)).unwrap().removed, 1);
        let never = LoadSettings { prepare: PreparePolicy::Never, ..few(&target) };
        let record = run(&LoadSettings { kv: KvSettings { get_ratio: 1.0, ..never.kv.clone() }, ..never });
        assert_eq!((record.outcomes["hit"], record.outcomes["miss"]), (0, 300), "after cleanup of {target}");
    }
}

/// Sends a command to a memcached, and reads the first line of its answer.
fn say(port: u16, command: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(command).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// The port of a link to a server that takes `delay` for each request.
fn slow_link(to: u16, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let forward = |mut from: TcpStream, mut to: TcpStream, delay: Duration| {
        thread::spawn(move || {
            let mut room = vec![0; 64 * 1024];
            while let Ok(bytes @ 1..) = from.read(&mut room) {
                thread::sleep(delay);
                if to.write_all(&room[..bytes]).is_err() {
                    break;
                }
            }
        });
    };
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", to)).unwrap());
            forward(client.try_clone().unwrap(), server.try_clone().unwrap(), delay);
            forward(server, client, Duration::ZERO);
        }
    });
    port
}

/// A window of 1,000 events takes 20 s on this link. The wait for a steady cache said nothing and had no end.
#[test]
fn the_wait_for_a_steady_cache_is_reported_and_a_stop_ends_it_within_a_second() {
    let Some(cache) = Cache::memcached(64) else { return };
    let port = slow_link(cache.port, Duration::from_millis(20));
    let (stop, mut told, mut stopped) = (Stop::new(), Vec::new(), None);
    let began_ns = Monotonic.now_ns();
    let result = load::prepare(&few(&format!("memcached://127.0.0.1:{port}")), &stop, &mut |event| {
        if let Event::Settling { waited, .. } = event {
            told.push((*waited, Duration::from_nanos(Monotonic.now_ns() - began_ns)));
            if told.len() == 2 {
                stopped = Some(Monotonic.now_ns());
                stop.request();
            }
        }
    });
    assert!(matches!(result, Err(LoadError::Interrupted)), "{result:?}");
    let took = Duration::from_nanos(Monotonic.now_ns() - stopped.expect("the wait was reported"));
    assert!(took < Duration::from_secs(1), "{took:?}");
    let (waited, since_start) = told[0];
    assert!(waited >= Duration::from_secs(2) && waited <= since_start, "{told:?}");
    // Connecting and filling with 500 keys take half a second.
    assert!(since_start < Duration::from_millis(4_500), "{told:?}");
}

/// A loop over many connections learned no lead once: it did not learn from its first sleep, which has none.
#[test]
fn both_kinds_of_worker_learn_how_late_they_wake() {
    let Some(cache) = Cache::memcached(64) else { return };
    let target = format!("memcached://127.0.0.1:{}", cache.port);
    let steady = LoadSettings {
        pace: Loop::Open(OpenLoop { spin_budget_ratio: 0.05, ..support::open(500.0) }),
        events_max: None,
        time: Duration::from_secs(1),
        ..few(&target)
    };
    // Threads that keep the CPUs awake take no lead away: they did once.
    let awake = LoadSettings {
        client: ClientSettings { keep_awake: true, ..ClientSettings::PLAIN },
        ..steady.clone()
    };
    for settings in [blocking_and_looped(&steady), blocking_and_looped(&awake)].into_iter().flatten() {
        let record = run(&settings);
        let wake_up = record.client.as_ref().unwrap().wake_up;
        let lead = wake_up.expect("workers slept before their events").lead;
        // On a machine without an idle CPU the lead is 0.
        assert!(lead < Duration::from_millis(1), "{:?}: {lead:?}", settings.connections);
    }
}

#[test]
fn a_value_that_another_wrote_is_found_and_the_load_goes_on() {
    let Some(server) = Cache::memcached(64) else { return };
    let mut settings = few(&format!("memcached://127.0.0.1:{}", server.port));
    // One key, so every event reads it.
    settings.kv = KvSettings { keys: 1, get_ratio: 1.0, ..settings.kv };
    for settings in blocking_and_looped(&settings) {
        assert_eq!(run(&settings).errors.verify, 0);
        assert_eq!(say(server.port, b"set bakeoff:0000000001 0 0 5\r\nother\r\n"), "STORED");
        let record = run(&settings);
        assert_eq!((record.errors.verify, record.counts.failed, record.counts.done), (300, 300, 0));
        assert_eq!(record.verdict.state, Validity::Invalid);
        assert!(record.error_samples[0].contains("bakeoff:0000000001"), "{:?}", record.error_samples);
        let unchecked = run(&LoadSettings { verify: false, ..settings.clone() });
        assert_eq!((unchecked.errors.verify, unchecked.counts.done), (0, 300));
        load::prepare(
            &LoadSettings { prepare: PreparePolicy::Always, ..settings },
            &Stop::new(),
            &mut |_| {},
        )
        .unwrap();
    }
}

#[test]
fn the_cache_holds_the_sizes_in_the_weights_asked_for() {
    let Some(server) = Cache::memcached(256) else { return };
    let kv = KvSettings { keys: 4_000, ..KvSettings::usual() };
    let settings = LoadSettings { kv, ..few(&format!("memcached://127.0.0.1:{}", server.port)) };
    load::prepare(&settings, &Stop::new(), &mut |_| {}).unwrap();
    // Read back every key over a separate connection.
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).unwrap());
    let mut counts = [0.0f64; 3];
    for key in 1..=4_000 {
        // One write: two would wait for each other's acknowledgements.
        stream.get_mut().write_all(format!("get bakeoff:{key:010}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let bytes: usize = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        let class = match bytes {
            4..=100 => 0,
            1_024..=2_048 => 1,
            5_120..=20_480 => 2,
            _ => panic!("{bytes} bytes in {key}"),
        };
        counts[class] += 1.0;
        stream.read_exact(&mut vec![0; bytes + b"\r\nEND\r\n".len()]).unwrap();
    }
    for (count, share) in counts.iter().zip([0.6, 0.3, 0.1]) {
        // 4,000 draws: four standard deviations of a share are at most 0.031.
        assert!((count / 4_000.0 - share).abs() < 0.031, "{counts:?}");
    }
    assert_eq!(say(server.port, b"get bakeoff:0000004001\r\n"), "END");
}

#[test]
fn a_cache_too_small_for_its_keys_settles_with_misses_and_says_so() {
    // 2,000 keys of 10 KB are 20 MB: they do not fit 8.
    let Some(server) = Cache::memcached(8) else { return };
    let sizes = KvSettings::parse_sizes("10000-10000").unwrap();
    let kv = KvSettings { keys: 2_000, sizes, ..KvSettings::usual() };
    let settings = LoadSettings { kv, ..few(&format!("memcached://127.0.0.1:{}", server.port)) };
    let record = run(&settings);
    assert_eq!((record.counts.done, record.errors.verify), (300, 0), "{:?}", record.error_samples);
    assert!(record.outcomes["miss"] > 0, "{:?}", record.outcomes);
    let steady = check_of(&record, "cache-steady");
    assert!(steady.text.contains("each event evicted"), "{}", steady.text);
    assert!(!steady.text.contains("evicted 0.0000"), "{}", steady.text);
}

#[test]
fn who_may_not_enter_is_told_before_anything_is_measured() {
    let Some(server) = Cache::redis(&["--requirepass", "s@cret"]) else { return };
    for target in ["redis://127.0.0.1", "redis://:wrong@127.0.0.1"] {
        let settings = few(&format!("{target}:{}", server.port));
        let error = load::run(&settings, &Stop::new(), &mut |_| {}).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
    }
    let nobody = few("memcached://127.0.0.1:1");
    let error = load::run(&nobody, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::NotConnected { .. }), "{error}");
}

#[test]
fn a_frozen_cache_shows_in_the_response_time_as_the_analysis_says() {
    let Some(server) = Cache::memcached(64) else { return };
    let settings = LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        pace: support::jittered(500.0),
        threads: 2,
        connections: Some(40),
        time: Duration::from_secs(4),
        warmup: Duration::from_millis(200),
        ..settings(format!("memcached://127.0.0.1:{}", server.port))
    };
    let pid = Pid::from_raw(server.pid());
    let mut frozen_ns = 0;
    let clock = record::clock::Monotonic;
    let (record, ()) = run_with_trouble(&settings, || {
        use record::clock::Clock as _;
        thread::sleep(Duration::from_secs(1));
        let from_ns = clock.now_ns();
        kill(pid, Signal::SIGSTOP).unwrap();
        thread::sleep(Duration::from_secs(1));
        kill(pid, Signal::SIGCONT).unwrap();
        frozen_ns = clock.now_ns() - from_ns;
    });
    assert_eq!((record.counts.planned, record.counts.failed), (2_000, 0), "{:?}", record.error_samples);
    // In an even stream, an event that is due in the stop waits for the rest of it: at least as many events
    // wait for over half the stop as are due in its first half, however late any of our threads ran.
    let response = &record.response.unwrap().known;
    let slow: u64 =
        response.buckets().filter(|(lowest, _)| *lowest >= frozen_ns / 2).map(|(_, count)| count).sum();
    let due = 500.0 * (frozen_ns as f64 / 1e9) / 2.0;
    assert!(slow as f64 >= 0.98 * due - 2.0, "{slow} of {due}");
}

#[test]
fn a_cache_that_dies_and_comes_back_is_an_outage_and_every_event_is_accounted_for() {
    let Some(mut server) = Cache::redis(&[]) else { return };
    let target = format!("redis://127.0.0.1:{}", server.port);
    let base = LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        pace: support::jittered(500.0),
        time: Duration::from_secs(4),
        retries_max: 1_000,
        ..settings(target)
    };
    for settings in blocking_and_looped(&base) {
        let server = &mut server;
        let (record, ()) = run_with_trouble(&settings, move || {
            thread::sleep(Duration::from_millis(500));
            server.kill();
            thread::sleep(Duration::from_secs(1));
            server.restart();
            server.wait_until_ready();
        });
        let c = record.counts;
        assert_eq!(c.planned, 2_000);
        assert_eq!((c.failed, c.skipped), (0, 0), "{:?}", record.error_samples);
        assert_eq!(record.outages.len(), 1, "{:?}", record.outages);
        let outage = record.outages[0];
        // Its first failure may be seen late, on a busy machine.
        assert!(outage.ended && outage.for_s >= 0.9, "{outage:?}");
        assert_lost_once(&record);
        assert!(outage.affected as f64 >= 500.0 * outage.for_s - 5.0, "{outage:?}");
        // It came back empty.
        assert!(record.outcomes["miss"] > 0, "{:?}", record.outcomes);
    }
}

#[test]
fn ten_times_overload_neither_aborts_nor_loses_an_event() {
    let Some(server) = Cache::memcached(64) else { return };
    let settings = LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        pace: support::jittered(2_000_000.0),
        threads: 1,
        connections: Some(8),
        time: Duration::from_millis(500),
        drain: Duration::from_millis(100),
        ..settings(format!("memcached://127.0.0.1:{}", server.port))
    };
    let (record, ()) = run_with_trouble(&settings, || {});
    assert_eq!(record.counts.planned, 1_000_000);
    assert!(record.counts.done > 0 && record.counts.unfinished > 0, "{:?}", record.counts);
    assert_eq!(record.verdict.state, Validity::Invalid);
}

#[test]
fn a_stopped_load_on_a_frozen_cache_is_whole() {
    let Some(server) = Cache::memcached(64) else { return };
    let base = LoadSettings {
        kv: KvSettings { keys: 500, ..KvSettings::usual() },
        pace: support::jittered(500.0),
        time: Duration::from_mins(10),
        ..settings(format!("memcached://127.0.0.1:{}", server.port))
    };
    let pid = Pid::from_raw(server.pid());
    for settings in blocking_and_looped(&base) {
        let stop = Stop::new();
        let mut on_progress = |event: &Event| {
            if let Event::Interval(_) = event {
                kill(pid, Signal::SIGSTOP).unwrap();
                stop.request();
            }
        };
        let record = load::run(&settings, &stop, &mut on_progress).unwrap();
        kill(pid, Signal::SIGCONT).unwrap();
        assert_books(&record);
        assert_eq!(record.verdict.state, Validity::Interrupted);
        assert!(record.counts.done > 0, "{:?}", record.counts);
    }
}

/// A memcached's or a Redis' count of reads: keys found, and not found.
fn served(target: &str, port: u16) -> (u64, u64) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let is_redis = target.starts_with("redis");
    stream.write_all(if is_redis { b"INFO stats\r\nQUIT\r\n" } else { b"stats\r\nquit\r\n" }).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.trim_start_matches("STAT ").strip_prefix(name));
        line.unwrap().trim_start_matches([' ', ':']).trim().parse().unwrap()
    };
    if is_redis { (of("keyspace_hits"), of("keyspace_misses")) } else { (of("get_hits"), of("get_misses")) }
}

#[test]
fn of_several_keys_that_are_read_at_once_each_is_counted_and_checked() {
    let (memcached, redis) = (Cache::memcached(64), Cache::redis(&[]));
    let servers = [
        memcached.as_ref().map(|s| (format!("memcached://127.0.0.1:{}", s.port), s.port)),
        redis.as_ref().map(|s| (format!("redis://127.0.0.1:{}", s.port), s.port)),
        redis.as_ref().map(|s| (format!("redis://127.0.0.1:{}?resp=3", s.port), s.port)),
    ];
    for (target, port) in servers.into_iter().flatten() {
        let kv = KvSettings { multi_get: 10, ..few(&target).kv };
        let base = LoadSettings { kv, prepare: PreparePolicy::Always, ..few(&target) };
        for pipeline in [1, 8] {
            let kv = KvSettings { pipeline, ..base.kv.clone() };
            for settings in blocking_and_looped(&LoadSettings { kv, ..base.clone() }) {
                let record = run(&settings);
                let count = |name: &str| record.operations[name].service.known.count();
                assert_eq!(
                    (record.counts.failed, record.errors.verify),
                    (0, 0),
                    "{:?}",
                    record.error_samples
                );
                assert_eq!(record.outcomes["miss"], 0, "{:?}", record.outcomes);
                if pipeline == 1 {
                    assert_eq!(record.outcomes["hit"], 10 * count("get"));
                    assert_eq!(record.outcomes["stored"], count("set"));
                }
            }
        }
        // One key of two is gone: half of a request's keys miss, and the request succeeds.
        let kv =
            KvSettings { keys: 2, get_ratio: 1.0, distribution: Distribution::Uniform, ..base.kv.clone() };
        let two = LoadSettings { kv, ..base.clone() };
        load::prepare(&two, &Stop::new(), &mut |_| {}).unwrap();
        let delete = if target.starts_with("redis") { "DEL" } else { "delete" };
        say(port, format!("{delete} bakeoff:0000000002\r\n").as_bytes());
        for settings in blocking_and_looped(&LoadSettings { prepare: PreparePolicy::Never, ..two.clone() }) {
            let before = served(&target, port);
            let record = run(&settings);
            let after = served(&target, port);
            assert_eq!((record.counts.done, record.counts.failed), (300, 0), "{:?}", record.error_samples);
            let (hits, misses) = (record.outcomes["hit"], record.outcomes["miss"]);
            assert_eq!((hits, misses), (after.0 - before.0, after.1 - before.1), "{target}");
            assert!(hits + misses == 3_000 && hits > 0 && misses > 0);
        }
        // One of them has a foreign value.
        let set = if target.starts_with("redis") {
            "SET bakeoff:0000000002 other\r\n"
        } else {
            "set bakeoff:0000000002 0 0 5\r\nother\r\n"
        };
        say(port, set.as_bytes());
        let record = run(&LoadSettings { prepare: PreparePolicy::Never, errors_ratio_max: 1.0, ..two });
        // Ten draws of two keys: one event in a thousand does not read it.
        assert!(record.errors.verify > 250, "{:?}", record.errors);
        assert!(record.error_samples[0].contains("bakeoff:0000000002"), "{:?}", record.error_samples);
    }
}

#[test]
fn values_live_for_as_long_as_was_asked_for() {
    let (memcached, redis) = (Cache::memcached(64), Cache::redis(&[]));
    let mut servers = Vec::new();
    if let Some(server) = &memcached {
        for words in ["text", "meta"] {
            let target = format!("memcached://127.0.0.1:{}?protocol={words}", server.port);
            servers.push((target, server.port, "mg bakeoff:0000000001 t\r\n", "HD t"));
        }
    }
    if let Some(server) = &redis {
        servers.push((
            format!("redis://127.0.0.1:{}", server.port),
            server.port,
            "TTL bakeoff:0000000001\r\n",
            ":",
        ));
    }
    for (target, port, ask, before) in servers {
        for (ttl, get_ratio) in
            [(None, 1.0), (Some(Duration::from_secs(1_000)), 1.0), (Some(Duration::from_hours(25)), 0.0)]
        {
            let kv = KvSettings { keys: 1, get_ratio, ttl, ..KvSettings::usual() };
            let record = run(&LoadSettings { kv, ..few(&target) });
            assert_eq!((record.counts.done, record.outcomes["miss"]), (300, 0), "{:?}", record.error_samples);
            let told = say(port, ask.as_bytes());
            let left_s: i64 = told.strip_prefix(before).unwrap().parse().unwrap();
            let most_s = ttl.map_or(-1, |ttl| i64::try_from(ttl.as_secs()).unwrap());
            // A run takes less than a quarter of an hour.
            assert!(left_s <= most_s && left_s > most_s - 900, "{target}: {left_s} of {most_s}");
        }
    }
}
