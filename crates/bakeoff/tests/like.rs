//! `bakeoff load --like`: the command line of another tool, as a user types it.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod lab;

use std::io::Write as _;
use std::process::Stdio;

use lab::{Ended, Lab};

#[test]
fn a_line_is_translated_and_not_run_with_dry_run() {
    let lab = Lab::new();
    let ended = lab.run(&["load", "--like", "wrk -t2 -c4 -d30s --latency http://localhost/x", "--dry-run"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(
        ended.out,
        "bakeoff load http://localhost/x --connections 4 --threads 2 --retry 0 --time 30s\n"
    );
    assert!(ended.err.contains("differs: closed loop"), "{}", ended.err);
    assert!(ended.err.contains("left out: --latency"), "{}", ended.err);
    assert!(lab.archived_bytes().is_empty(), "nothing ran");
}

#[test]
fn a_line_runs_with_the_options_beside_it() {
    let lab = Lab::new();
    let target = lab.sqlite();
    let line = "sysbench oltp_point_select --table-size=100 --tables=2 --threads=2 --rate=50 --time=60 run";
    let words = [
        "load",
        &target,
        "--like",
        line,
        "--time",
        "1s",
        "--warmup",
        "100ms",
        "--json",
        "--arrivals",
        "period",
    ];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let load: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&load["workload"], &load["threads"]), (&"oltp-point-select".into(), &2.into()), "{load}");
    assert_eq!(load["planned"], 50);
    assert!(
        ended.err.contains("like sysbench: bakeoff load mysql://sbtest@localhost/sbtest"),
        "{}",
        ended.err
    );
}

#[test]
fn a_line_with_a_missing_part_is_not_run() {
    let lab = Lab::new();
    let ended = lab.run(&["load", "--like", "wrk -s post.lua http://localhost/"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
    assert!(ended.err.contains("missing: -s post.lua"), "{}", ended.err);
    assert!(ended.err.contains("not run"), "{}", ended.err);
    let printed = lab.run(&["load", "--like", "wrk -s post.lua http://localhost/", "--dry-run"]);
    assert_eq!(printed.code, Some(2));
    assert!(printed.out.starts_with("bakeoff load http://localhost/ "), "{}", printed.out);
    for wrong in ["", "no tool here", "wrk 'http://localhost/", "sysbench cpu run", "pgbench -i"] {
        let ended = lab.run(&["load", "--like", wrong, "--dry-run"]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{wrong}: {}", ended.err);
    }
    assert_eq!(lab.run(&["load", "--dry-run", "null:"]).code, Some(2));
    assert_eq!(lab.run(&["load", "--like"]).code, Some(2));
}

#[test]
fn a_password_is_neither_printed_nor_stored_when_a_line_runs() {
    let lab = Lab::new();
    let target = lab.sqlite();
    let line =
        "sysbench oltp_point_select --mysql-password=geheim1 --table-size=10 --time=1 --unheard=geheim2 run";
    let refused = lab.run(&["load", "--like", line]);
    assert_eq!(refused.code, Some(2));
    assert!(!refused.err.contains("geheim1"), "{}", refused.err);
    let line = line.replace(" --unheard=geheim2", "");
    let ended =
        lab.run(&["load", &target, "--like", &line, "--time", "200ms", "--warmup", "0s", "--rate", "20"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.err.contains("geheim1") && !ended.out.contains("geheim1"), "{}{}", ended.out, ended.err);
    for (path, bytes) in lab.archived_bytes() {
        assert!(!bytes.windows(7).any(|window| window == b"geheim1"), "{}", path.display());
    }
    // The line to be run has it.
    let printed = lab.run(&["load", "--like", &line, "--dry-run"]);
    assert!(printed.out.contains("mysql://sbtest:geheim1@localhost/sbtest"), "{}", printed.out);
}

#[test]
fn lines_of_standard_input_are_translated_one_by_one() {
    let lab = Lab::new();
    let mut child = lab
        .command(&["load", "--like", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = "# two tools\nwrk -c 2 -t 2 \\\n  http://h/\n\nno tool\nab -n 5 http://h/\n";
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ended.out);
    assert!(lines[0].starts_with("bakeoff load http://h/ --connections 2"), "{}", ended.out);
    assert_eq!(lines[1], "#");
    assert!(lines[2].contains("--events 5"), "{}", ended.out);
    assert!(ended.err.contains("5: the command line names no known tool"), "{}", ended.err);
}

#[test]
fn a_document_has_the_line_and_what_differs() {
    let lab = Lab::new();
    let words = ["load", "--json", "--like", "hey -a u:geheim1 -x p:1 http://h/", "--dry-run"];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(2));
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&document["schema"], &document["tool"]), (&"bakeoff.like/1".into(), &"hey".into()));
    assert_eq!(document["whole"], false);
    assert_eq!(document["missing"][0]["part"], "-x p:1");
    assert!(!ended.out.contains("geheim1"), "{}", ended.out);
}
