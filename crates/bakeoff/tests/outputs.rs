//! The files, the document and the exit code of a comparison that cannot end as it should.

mod lab;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// B is slower by far, so the gate fails.
const GATED: [&str; 5] = ["compare", "--blocks", "6", "--gate", "time not worse by 5%"];

fn text(lab: &Lab, name: &str) -> String {
    lab.path(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn every_file_of_a_result_is_checked_before_the_first_round() {
    let lab = Lab::new();
    let (mark, file, link, folder) =
        (text(&lab, "mark"), text(&lab, "file"), text(&lab, "link"), text(&lab, "folder"));
    fs::write(&file, "as before").expect("a file");
    symlink(&file, &link).expect("a link");
    fs::create_dir(&folder).expect("a folder");
    let touch = format!("touch {mark}");
    let refused = |options: &[&str], env: Option<&str>, said: &str| {
        let words = [&["compare", "--blocks", "2"], options, &["--", "true", &touch]].concat();
        let mut command = lab.command(&words);
        if let Some(path) = env {
            command.env("GITHUB_STEP_SUMMARY", path);
        }
        let ended = command.output().expect("the binary starts");
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{options:?}: {err}");
        assert!(err.contains(said), "{options:?}: {err}");
        assert!(!lab.path("mark").exists(), "{options:?}: it was measured");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "as before", "{options:?}");
    };
    let exports = ["--export-json", "--export-csv", "--export-markdown"];
    for option in exports.into_iter().chain(["--junit", "--summary", "--badge"]) {
        refused(&[option, "/no/such/folder/x"], None, &format!("{option}: /no/such/folder/x is in a folder"));
        refused(&[option, &folder], None, "is a folder");
        let said = format!("{option}: {link} is a link: name the file itself, ");
        refused(&[option, &link], None, &said);
    }
    for path in ["/no/such/folder/x", &folder, &link] {
        refused(&[], Some(path), &format!("$GITHUB_STEP_SUMMARY: {path} is "));
    }
    let x = text(&lab, "x");
    let odd = format!("{folder}/../x");
    for (a, b) in [("--junit", "--badge"), ("--export-json", "--export-csv"), ("--summary", "--export-csv")] {
        refused(&[a, &x, b, &odd], None, "name one file");
    }
    refused(&["--output", &x, "--junit", &x], None, "--output and --junit name one file");
    refused(&["--junit", &x], Some(&x), "--junit and $GITHUB_STEP_SUMMARY name one file");
    let plan = lab.path("plan.toml");
    let text = "schema = 1\ntitle = \"t\"\n[design]\nblocks = 1\n[load]\ntarget = \"exec:true\"\nrate = 20\n\
                [phases]\nwarm-up = { min = \"50ms\" }\nmeasure = { time = \"1s\" }\n";
    fs::write(&plan, text).expect("a plan");
    let plan = plan.to_str().expect("a plain path");
    let ended = lab.run(&["run", plan, "--quick", "--junit", plan]);
    assert!(ended.code == Some(2) && ended.err.contains("PLAN and --junit name one file"), "{}", ended.err);
}

#[test]
fn a_failed_gate_is_code_1_although_a_file_cannot_be_written_afterwards() {
    let lab = Lab::new();
    fs::create_dir(lab.path("gone")).expect("a folder");
    let (gone, badge) = (text(&lab, "gone/x.xml"), text(&lab, "badge.json"));
    let csv = text(&lab, "gone/x.csv");
    let remove = format!("rm -rf {}; sleep 0.05", lab.path("gone").display());
    let files = ["--junit", &gone, "--export-csv", &csv, "--badge", &badge, "--", "sleep 0.01", &remove];
    let ended = lab.run(&[&GATED[..], &files[..]].concat());
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("x.xml") && ended.err.contains("x.csv"), "{}", ended.err);
    let badge = fs::read_to_string(badge).expect("the other files are written");
    assert!(badge.contains("FAIL: 1 of 1 gate"), "{badge}");
    assert!(ended.out.contains("FAIL: 1 of 1 gate") && !ended.out.contains(": fail"), "{}", ended.out);

    // The reader of standard output does not decide either.
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    for out in [Stdio::from(full), Stdio::from(closed)] {
        let junit = lab.path("gates.xml");
        let files = ["compare", "latest", "--junit", junit.to_str().expect("a plain path")];
        let ended = lab.command(&files).stdout(out).stderr(Stdio::piped()).output().expect("it starts");
        assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
        fs::remove_file(junit).expect("it is written");
    }
}

/// A bake-off keeps the code of its gate, too.
#[test]
fn a_failed_gate_of_a_bake_off_is_code_1_although_a_file_cannot_be_written_afterwards() {
    let lab = Lab::new();
    fs::create_dir(lab.path("gone")).expect("a folder");
    let plan = lab.path("plan.toml");
    let target = format!("exec:rm -rf {}; sleep 0.01", lab.path("gone").display());
    let text_of = format!(
        r#"
schema = 1
title  = "Naps"
[factors.arm]
values    = ["1", "2"]
reference = "1"
level     = "whole-plot"
[design]
blocks = 6
[load]
target = "{target}{{arm}}"
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "200ms" }}
cooldown = "0s"
[judge]
metrics = ["throughput"]
"#
    );
    fs::write(&plan, text_of).expect("a plan");
    let junit = text(&lab, "gone/x.xml");
    let words = ["run", plan.to_str().expect("a plain path"), "--gate", "throughput >= 100000/s"];
    let ended = lab.run(&[&words[..], &["--junit", &junit]].concat());
    // A busy machine may make trials INVALID.
    assert!(matches!(ended.code, Some(1 | 3 | 4)), "{:?} {}{}", ended.code, ended.out, ended.err);
    assert!(ended.err.contains("x.xml"), "{}", ended.err);
}

#[test]
fn what_fails_is_failed_everywhere_and_names_its_measured_round() {
    let lab = Lab::new();
    let count = text(&lab, "count");
    // The warm-up, and three rounds.
    let fourth = format!("echo x >> {count}; [ $(wc -l < {count}) -lt 5 ]");
    let (junit, badge) = (text(&lab, "x.xml"), text(&lab, "x.json"));
    let words = ["compare", "--blocks", "8", "--junit", &junit, "--badge", &badge, "--", "true", &fourth];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(5), "{}{}", ended.out, ended.err);
    let answer = ended.out.trim_end().lines().last().unwrap_or_default().to_owned();
    assert!(answer.starts_with("FAILED: B ended with exit code 1 in measured round 4"), "{answer}");
    let xml = fs::read_to_string(junit).expect("a file");
    assert!(xml.contains("FAILED: B ended") && !xml.contains("INVALID"), "{xml}");
    assert!(fs::read_to_string(badge).expect("a file").contains("FAILED: B ended"));
    let page = lab.run(&["report", "latest"]).out;
    assert!(page.contains("FAILED") && !page.contains("INVALID"), "{page}");
    let cleanup = ["compare", "--blocks", "2", "--cleanup", "exit 7", "--", "true", "true"];
    let ended = lab.run(&cleanup);
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    assert!(ended.out.contains("\nFAILED: "), "{}", ended.out);
}

#[test]
fn a_comparison_without_a_measured_round_prints_its_document() {
    let lab = Lab::new();
    let of = |options: &[&str], b: &str, (code, state, said): (i32, &str, &str)| {
        let words = [&["compare", "--json", "--blocks", "2"], options, &["--", "true", b]].concat();
        let ended = lab.run(&words);
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        let found: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
        assert_eq!((&found["schema"], &found["state"]), (&"bakeoff.compare/1".into(), &state.into()));
        assert!(found["reason"].as_str().is_some_and(|reason| reason.contains(said)), "{found}");
        assert_eq!(found["pairs"][0]["verdict"], "inconclusive", "{found}");
        assert_eq!((&found["rounds"], &found["run"]), (&0.into(), &Value::Null), "{found}");
    };
    of(&[], "exit 3", (5, "failed", "in warm-up round 1"));
    of(&["--timeout", "50ms"], "sleep 100", (5, "failed", "did not end within 50ms"));
    of(&["--gate", "time <= 1s"], "exit 3", (5, "failed", "in warm-up round 1"));

    let (begun, badge) = (text(&lab, "begun"), text(&lab, "badge.json"));
    fs::write(&badge, "green").expect("a file");
    let hangs = format!("touch {begun}; sleep 100");
    let words = ["compare", "--json", "--badge", &badge, "--", "true", &hangs];
    let child = lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    while !lab.path("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let found: Value = serde_json::from_slice(&ended.stdout).expect("one document");
    assert_eq!(found["state"], "interrupted", "{found}");
    assert_eq!(found["answer"], "INTERRUPTED: before the first measured round; no verdict", "{found}");
    let badge: Value = serde_json::from_str(&fs::read_to_string(badge).expect("a file")).expect("JSON");
    assert_eq!(badge["color"], "yellow", "{badge}");
}
