//! The user's commands on a real Redis, counted by the server itself.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use record::load::{LoadSettings, Loop, Workload};
use record::requests::{CacheCommand, KvSettings};
use record::verdict::Validity;
use support::cache::Cache;
use support::{run, settings};

fn of(target: &str, commands: &[&str]) -> LoadSettings {
    let commands = commands.iter().map(|text| CacheCommand::parse(text)).collect();
    LoadSettings {
        workload: Workload::Native,
        kv: KvSettings { commands, ..KvSettings::usual() },
        pace: Loop::CLOSED,
        events_max: Some(4_000),
        time: Duration::from_mins(10),
        threads: 2,
        ..settings(target)
    }
}

/// Returns the server's answer, after which it closes the connection.
fn ask(port: u16, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{command}\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Number of times that a server has executed a command, and number of failures.
fn calls(port: u16, name: &str) -> (u64, u64) {
    let text = ask(port, "INFO commandstats");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:")));
    let number =
        |key: &str| line?.split(',').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
    (number("calls").unwrap_or(0), number("failed_calls").unwrap_or(0))
}

#[test]
fn each_command_is_sent_as_often_as_is_counted_whatever_its_answer_is() {
    let Some(server) = Cache::redis(&[]) else { return };
    // 600 KiB: an answer comes in many pieces.
    for member in 0..600 {
        ask(server.port, &format!("RPUSH big {member}{}", "x".repeat(1_000)));
    }
    for protocol in [2, 3] {
        let target = format!("redis://127.0.0.1:{}/?resp={protocol}", server.port);
        let commands = [
            "ZADD board ${random(1, 100)} 'player ${random(1, 50)}'@10",
            "ZSCORE board 'player 1'@5",
            "HGETALL nobody@2",
            "LRANGE big 0 -1@1",
            "GET nobody@2",
            "INCR board@1",
        ];
        for (connections, pipeline) in [(None, 1), (Some(6), 1), (Some(6), 16)] {
            ask(server.port, "CONFIG RESETSTAT");
            let base = of(&target, &commands);
            let kv = KvSettings { pipeline, ..base.kv.clone() };
            let record = run(&LoadSettings { kv, connections, errors_ratio_max: 0.2, ..base });
            let counts = record.counts;
            assert_eq!(counts.planned, 4_000);
            assert_eq!(counts.done + counts.failed, 4_000, "{:?}", record.error_samples);
            let mut failed_all = 0;
            for name in ["zadd", "zscore", "hgetall", "lrange", "get", "incr"] {
                let (served, failed) = calls(server.port, name);
                let known = record.operations[name].service.known.count();
                assert_eq!(known + failed, served, "{name}, RESP{protocol}, {pipeline} in flight");
                assert!(served > 0, "{name}");
                failed_all += failed;
            }
            // A board is not a number: INCR always fails, and no other command does.
            assert_eq!((calls(server.port, "incr").1, failed_all), (counts.failed, counts.failed));
            assert_eq!(record.errors.application, counts.failed);
            assert!(record.error_samples[0].contains("WRONGTYPE"), "{:?}", record.error_samples);
            assert!(record.outcomes["nil"] >= calls(server.port, "get").0, "{:?}", record.outcomes);
            assert_eq!(record.outcomes["nil"] + record.outcomes["answer"], counts.done);
        }
    }
}

#[test]
fn what_is_wrong_with_commands_is_said_before_any_is_sent() {
    let Some(server) = Cache::redis(&[]) else { return };
    let target = format!("redis://127.0.0.1:{}", server.port);
    for (commands, says) in [
        (&["SUBSCRIBE news"][..], "one answer"),
        (&["GET ${id}"], "--data"),
        (&["GET 'a"], "not closed"),
        (&[], "--command"),
    ] {
        let error =
            bakeoff_load::run(&of(&target, commands), &bakeoff_load::Stop::new(), &mut |_| {}).unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &cause.to_string();
            source = cause.source();
        }
        assert!(text.contains(says), "{commands:?}: {text}");
    }
}

#[test]
fn values_of_a_command_come_from_a_file_of_data() {
    let Some(server) = Cache::redis(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("players.csv");
    std::fs::write(&file, "name,score\r\n\"ann \"\"x\"\"\",7\r\nbob,8\r\n").unwrap();
    let mut settings = of(&format!("redis://127.0.0.1:{}", server.port), &["ZADD board ${score} ${name}"]);
    settings.http.data = Some(file.to_str().unwrap().to_owned());
    let record = run(&LoadSettings { events_max: Some(200), ..settings });
    assert_eq!((record.counts.done, record.verdict.state), (200, Validity::Valid), "{:?}", record.verdict);
    let board = ask(server.port, "ZRANGE board 0 -1 WITHSCORES");
    assert!(board.starts_with("*4\r\n$7\r\nann \"x\"\r\n$1\r\n7\r\n$3\r\nbob\r\n$1\r\n8\r\n"), "{board}");
}
