//! A plan in slices as a user checks it, runs it and reads its page.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod lab;

use std::path::Path;
use std::process::Command;

use lab::Lab;

const PLAN: &str = r#"
schema = 1
title  = "Two names of Redis"
[factors.arm]
values    = ["one", "two"]
reference = "one"
level     = "whole-plot"
[design]
blocks = 2
mode   = "slices"
slice  = "100ms"
[load]
target  = "redis+unix:{scratch}/redis.sock"
keys    = 100
threads = 2
[server]
command = "redis-server --port 0 --unixsocket {scratch}/redis.sock --save '' --appendonly no"
ready   = "socket:{scratch}/redis.sock"
[phases]
warm-up = { min = "100ms" }
measure = { time = "500ms", interval = "250ms" }
"#;

/// Checking needs neither root nor a server.
#[test]
fn the_check_of_a_plan_says_what_slices_do_and_how_long_they_take() {
    let lab = Lab::new();
    let file = lab.path("plan.toml");
    std::fs::write(&file, PLAN).unwrap();
    let checked = lab.run(&["plan", "check", file.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    let said = checked.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("2 servers of a block are alive at once"), "{said}");
    assert!(said.contains("6 turns of 100 ms each"), "{said}");
    // Four trials of 0.6 s, each stretched by 20 ms in 100.
    let explained = lab.json(&["plan", "explain", file.to_str().unwrap()]);
    assert!((explained["time_min_s"].as_f64().unwrap() - 2.88).abs() < 1e-6, "{explained}");
    std::fs::write(&file, PLAN.replace("threads = 2", "threads = 2\nrate = 100")).unwrap();
    let refused = lab.run(&["plan", "check", file.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("plan.toml:10:"), "{}", refused.err);
    assert!(refused.err.contains("`design.mode` is \"slices\", expected a closed loop"), "{}", refused.err);
}

#[test]
fn root_a_run_in_slices_has_its_turns_in_json_and_on_its_page() {
    let is_installed = Command::new("redis-server").arg("-v").output().is_ok();
    let has_group = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .any(|folder| Path::new(folder).join("cgroup.procs").exists());
    if !is_installed || !has_group || !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs redis-server, root and control groups of version 2");
        return;
    }
    let lab = Lab::new();
    let file = lab.path("plan.toml");
    std::fs::write(&file, PLAN).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap(), "--json"]);
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
    let run: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "{run}");
    for trial in trials {
        let turns = &trial["turns"];
        assert!((4..=8).contains(&turns["count"].as_u64().unwrap()), "{trial}");
        assert_eq!((&turns["slice_s"], &turns["series"]), (&0.1.into(), &2.into()), "{trial}");
    }
    let reported = lab.run(&["report", "latest"]);
    assert_eq!(reported.code, Some(0), "{}", reported.err);
    // A busy machine may make every run INVALID; then nothing is sealed that the page could describe.
    if run["cells"]["sealed"].as_u64() > Some(0) {
        assert!(
            reported.out.contains("In slices: the series of a block are alive at once"),
            "{}",
            reported.out
        );
    }
}
