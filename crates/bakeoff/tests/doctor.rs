//! `bakeoff doctor` as root, without rights, and in a container.

mod lab;

use std::process::Command;

use lab::{Ended, Lab};
use serde_json::Value;

/// Runs the doctor through another program that changes its rights; `None` if there are no namespaces here.
#[expect(clippy::print_stderr, reason = "a skip is printed, not passed over")]
fn through(lab: &Lab, words: &[&str]) -> Option<Value> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_bakeoff")).args(["doctor", "--json"]);
    command.env("BAKEOFF_ARCHIVE", lab.path("archive"));
    let ended = Ended::of(command.output().expect("setpriv and unshare belong to every Linux"));
    if ended.err.contains("unshare failed") {
        eprintln!("skipped: no namespaces here: {}", ended.err);
        return None;
    }
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.err);
    Some(serde_json::from_str(&ended.out).expect("one JSON document"))
}

/// State of the finding that begins with `name`.
fn state(found: &Value, name: &str) -> String {
    let findings = found["findings"].as_array().expect("a list");
    let of = findings.iter().find(|f| f["what"].as_str().is_some_and(|what| what.starts_with(name)));
    of.unwrap_or_else(|| panic!("{name}: {found}"))["state"].as_str().expect("a word").to_owned()
}

fn is_root() -> bool {
    std::fs::read_dir("/root").is_ok()
}

#[test]
fn every_finding_that_is_not_good_names_what_it_costs_and_the_text_fits() {
    let lab = Lab::new();
    let found = lab.json(&["doctor"]);
    assert_eq!(found["schema"], "bakeoff.doctor/1");
    for finding in found["findings"].as_array().expect("a list") {
        let has_costs = !finding["costs"].as_array().expect("a list").is_empty();
        assert_eq!(has_costs, finding["state"] != "good", "{finding}");
        assert!(finding["state"] != "good" || finding["mend"].is_null(), "{finding}");
    }
    let narrow = Ended::of(lab.command(&["doctor"]).env("COLUMNS", "40").output().expect("it starts"));
    assert_eq!(narrow.code, Some(0), "{}", narrow.err);
    let last = narrow.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("This machine") || last.ends_with("are limited or missing."), "{last}");
}

#[test]
fn strict_is_an_exit_code_where_something_is_poor() {
    let lab = Lab::new();
    let found = lab.json(&["doctor"]);
    let poor = found["findings"].as_array().expect("a list").iter().any(|f| f["state"] != "good");
    // The clock may change its finding from one run to the next, so that only a lasting one counts.
    if poor && state(&found, "timers") == "good" {
        assert_eq!(lab.run(&["doctor", "--strict"]).code, Some(1));
    }
}

#[test]
fn root_the_findings_follow_the_rights_that_the_process_has() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let lab = Lab::new();
    let all = lab.json(&["doctor"]);
    assert_ne!(state(&all, "capabilities"), "missing", "{all}");
    if let Some(none) = through(&lab, &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]) {
        assert_eq!(state(&none, "capabilities"), "missing", "{none}");
        assert_eq!(state(&none, "SCHED_FIFO"), "missing", "{none}");
        assert_ne!(state(&none, "cpu"), "good", "{none}");
        assert_ne!(state(&none, "io"), "good", "{none}");
    }
    // One capability less: only what needs it changes.
    let drop = "-sys_nice";
    if let Some(less) = through(&lab, &["setpriv", "--bounding-set", drop, "--inh-caps", drop]) {
        assert!(
            less.to_string().contains("CAP_SYS_NICE") && !all.to_string().contains("CAP_SYS_NICE"),
            "{less}"
        );
        assert_eq!(state(&less, "SCHED_FIFO"), "missing", "{less}");
        assert_eq!(state(&less, "cpu"), state(&all, "cpu"), "{less}");
    }
    if let Some(inside) = through(&lab, &["unshare", "--pid", "--mount", "--fork", "--mount-proc"]) {
        assert_eq!(state(&inside, "PID namespace"), "limited", "{inside}");
    }
}
