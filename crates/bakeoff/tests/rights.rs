//! The instruments with too few rights: each is correct, or one line names the missing right.
//! `scripts/test-surroundings` has more surroundings.

#![allow(clippy::unwrap_used, reason = "this whole file is tests")]

#[cfg(feature = "serve")]
mod house;
#[cfg(feature = "serve")]
mod lab;

use std::fs;
use std::process::Command;

use serde_json::Value;

#[test]
fn root_with_few_capabilities_each_instrument_is_right_or_says_why_in_one_line() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root has capabilities to give up");
    }
    // Root without CAP_DAC_OVERRIDE may not run files in a user's directory.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("bakeoff");
    fs::copy(env!("CARGO_BIN_EXE_bakeoff"), &program).expect("a copy");
    for kept in ["-all", "-all,+bpf", "-all,+perfmon", "-all,+bpf,+perfmon", "-all,+sys_ptrace"] {
        for words in [
            &["cpu", "--json", "100ms", "2"][..],
            &["cpu", "--json", "--tasks", "100ms", "2"],
            &["io", "--json", "100ms", "2"],
            &["locks", "--json", "100ms", "2"],
            &["ulocks", "--json", "100ms", "2"],
            &["nic", "--json", "100ms", "2"],
        ] {
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set={kept}")).arg("--inh-caps=-all").arg(&program).args(words);
            command.env("BAKEOFF_ARCHIVE", folder.path().join("archive"));
            let ended = command.output().expect("util-linux is there");
            let err = String::from_utf8_lossy(&ended.stderr);
            if err.starts_with("setpriv:") {
                return eprintln!("skipped: {err}");
            }
            let complaints: Vec<&str> = err.lines().filter(|line| !line.contains("watching cost")).collect();
            if ended.status.code() == Some(0) {
                let out = String::from_utf8_lossy(&ended.stdout);
                let last: Value = serde_json::from_str(out.lines().last().expect("a report")).expect("JSON");
                right_or_missing(&last, &format!("{kept} {words:?}: {err}{last}"));
            } else {
                assert_eq!(ended.status.code(), Some(6), "{kept} {words:?}: {err}");
                assert_eq!(complaints.len(), 1, "{kept} {words:?}: {err}");
                assert!(err.contains("CAP_") || err.contains("container"), "{kept} {words:?}: {err}");
            }
        }
    }
}

/// Checks that every value is plausible, or missing with a reason.
fn right_or_missing(report: &Value, context: &str) {
    for cpu in report["cpus"].as_array().into_iter().flatten() {
        match cpu["event_ratio"].as_f64() {
            Some(ratio) => assert!((0.0..=1.02).contains(&ratio), "{context}"),
            None => assert!(cpu["missing"]["event_ratio"].is_string(), "{context}"),
        }
        let not_idle = cpu["not_idle_ratio"].as_f64();
        assert!(not_idle.is_some() || cpu["missing"]["not_idle_ratio"].is_string(), "{context}");
    }
    if report.get("tasks").is_some_and(Value::is_null) {
        assert!(report["missing"]["tasks"].is_string(), "{context}");
    }
}

/// Values of a field in the status of each thread of a server, but for the one that waits for signals: it
/// reads nothing.
#[cfg(feature = "serve")]
fn of_threads(house: &house::House, field: &str) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", house.pid())).expect("a value").flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let of = |status: String| {
        let value =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(|v| v.trim().to_owned());
        Some((value("Name:")?, value(field)?))
    };
    status.filter_map(of).filter(|(name, _)| name != "signals").collect()
}

#[cfg(feature = "serve")]
#[test]
fn a_read_only_server_has_given_up_what_pages_do_not_need() {
    let lab = lab::Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let run = lab.json(&["runs", "list"])["runs"][0]["run"].as_str().expect("a value").to_owned();
    let house = house::House::open(&lab, &[]);
    // Every page that reads the archive is still printed.
    let paths =
        ["/", "/runs", "/hosts", "/history", "/metrics", "/api/v1/runs", "/api/v1/hosts"].map(str::to_owned);
    for path in paths.into_iter().chain([
        format!("/runs/{run}"),
        format!("/api/v1/runs/{run}"),
        format!("/runs/{run}/about"),
    ]) {
        let reply = house.get(&path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
    let filters = of_threads(&house, "Seccomp:");
    assert!(filters.len() > 2 && filters.iter().all(|(_, mode)| mode == "2"), "{filters:?}");
    // CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
    for (name, held) in of_threads(&house, "CapPrm:") {
        assert_eq!(u64::from_str_radix(&held, 16).expect("a value") & !0b110, 0, "{name} has {held}");
    }
    // The control: one that runs plans keeps its rights.
    house.end();
    let house = house::House::open(&lab, &["--queue"]);
    assert!(of_threads(&house, "Seccomp:").iter().all(|(_, mode)| mode == "0"));
}
