//! `bakeoff scale` and `bakeoff dder` as a user runs them. No assertion depends on speed.

mod lab;

use std::process::Stdio;

use lab::{Ended, Lab};
use serde_json::Value;

// Without observation: other work on the machine would make each level INVALID.
const FEW: [&str; 7] = ["--rounds", "2", "--time", "20ms", "--copies", "1,2", "--no-observe"];
const SMALL: [&str; 8] = ["dder", "--data", "64KiB", "--max", "6KiB", "--point", "20us", "--dir"];

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}{}", ended.out, ended.err))
}

/// Whether the scratch folder in the journal of the run still exists.
fn scratch_left(lab: &Lab, run: &Value) -> bool {
    let name = run["run"].as_str().expect("the run has a name");
    let journal = lab.path("archive").join("bakeoffs").join(name).join("events.jsonl");
    let journal = std::fs::read_to_string(journal).expect("it has a journal");
    let (_, folder) = journal.split_once("\"folder\":\"").expect("it made a scratch folder");
    std::path::Path::new(folder.split('"').next().expect("a name has an end")).exists()
}

#[test]
fn every_level_is_measured_in_every_round_and_kept() {
    let lab = Lab::new();
    let run = json(&lab.run(&[&["scale", "--json"], &FEW[..], &["--", "true"]].concat()));
    assert_eq!(run["schema"], "bakeoff.scale/1");
    let levels = run["levels"].as_array().expect("levels");
    assert_eq!(
        levels.iter().map(|l| (&l["copies"], &l["n"])).collect::<Vec<_>>(),
        [(&1.into(), &2.into()), (&2.into(), &2.into())]
    );
    assert!(levels.iter().all(|l| l["work_per_s"].as_f64().is_some_and(|w| w > 0.0)), "{run}");
    assert!(run["seduction"].as_str().is_some_and(|s| s.starts_with("one copy")), "{run}");
    assert!(!scratch_left(&lab, &run));
    let again = lab.json(&["runs", "show", "latest"]);
    assert_eq!(again, run);
    assert_eq!(lab.json(&["runs", "verify"])["damaged"], 0);
    let page = lab.path("page.html");
    let written = lab.run(&["report", "latest", "-o", page.to_str().expect("a plain path")]);
    assert_eq!(written.code, Some(0), "{}", written.err);
    assert!(std::fs::read_to_string(page).expect("a page").contains("Work per second of the whole machine"));
}

#[test]
fn copies_that_die_or_hang_are_said_and_their_level_is_invalid() {
    let lab = Lab::new();
    let dies = "test $BAKEOFF_COPY = 0 || { echo no room >&2; exit 3; }";
    let hangs = "test $BAKEOFF_COPY = 0 || exec sleep 1000";
    // In a file: a command that contains the copy's number is first measured alone, and would end there.
    let file = lab.path("script");
    // A copy that dies must not be reported as hung, however long it waited for a CPU.
    for (script, timeout, said) in [
        (dies, "5m", "copy 2 of 2 ended with exit status: 3; it said: no room"),
        (hangs, "6s", "copy 2 of 2 did not end within 6s (--timeout)"),
    ] {
        std::fs::write(&file, script).expect("a script");
        let command = ["--", "sh", file.to_str().expect("a plain path")];
        let words = [&["scale", "--json", "--timeout", timeout], &FEW[..], &command].concat();
        let ended = lab.run(&words);
        assert_eq!(ended.code, Some(3), "{}", ended.err);
        let run = json(&ended);
        assert!(run["levels"][0]["work_per_s"].is_number(), "one copy is well: {run}");
        assert!(run["levels"][1]["work_per_s"].is_null());
        assert_eq!(run["levels"][1]["invalid"][0], format!("round 1: {said}"));
        let name = run["run"].as_str().expect("the run has a name");
        let listed = lab.json(&["runs", "list"]);
        let listed = listed["runs"].as_array().expect("runs").iter().find(|listed| listed["run"] == name);
        assert_eq!(listed.expect("it is listed")["reason"], "1 of 2 levels INVALID");
        let listed = lab.run(&["runs", "list"]).out;
        assert!(listed.contains("1 of 2 levels"), "{listed}");
    }
}

#[test]
fn copies_work_on_their_units_and_know_their_number() {
    let lab = Lab::new();
    let (a, b) = (lab.path("a"), lab.path("b"));
    std::fs::write(&a, "0").expect("a unit");
    std::fs::write(&b, "1").expect("a unit");
    // Every copy checks that its file contains its number.
    let check = r#"test "$(cat "$0")" = "$BAKEOFF_COPY" && test {copy} = "$BAKEOFF_COPY""#;
    let units = [a.to_str().expect("text"), b.to_str().expect("text")];
    let words = [&["scale", "--json"], &FEW[..], &["--units"], &units[..], &["--", "sh", "-c", check]];
    let run = json(&lab.run(&words.concat()));
    assert!(run["levels"][1]["work_per_s"].is_number(), "{run}");
}

#[test]
fn what_cannot_be_is_said_before_anything_is_kept() {
    let lab = Lab::new();
    for (words, code, said) in [
        (&["scale", "--", "no-such-program-here"][..], 2, "cannot start no-such-program-here"),
        (&["scale", "--", "false"], 5, "ended with exit status: 1"),
        (
            &["scale", "--units", "/no/such/file", "--", "cat"],
            6,
            "cannot read the unit of work /no/such/file",
        ),
        (&["scale", "--copies", "1,70000", "--", "true"], 2, "copies: expected at most 16384"),
        (&["scale", "--cpus", "60000", "--", "true"], 6, "this process may not use CPU 60000"),
        (&["scale", "--copies", "1,0", "--", "true"], 2, "0 is not in 1..="),
        (&["dder", "--max", "0"], 2, "max: expected a size over 0"),
        (&["dder", "--data", "100", "--max", "4KiB"], 2, "files no smaller than the largest buffer"),
        (&["dder", "--dir", "/no/such/folder"], 6, "cannot use the folder /no/such/folder"),
        (&["dder", "--data", "1000000GiB"], 6, "free: use another --dir, or less --data"),
        (&["dder", "--how", "telepathy"], 2, "expected read, pread, mmap or direct"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(said), "{words:?}: {}", ended.err);
    }
    assert_eq!(lab.json(&["runs", "list"])["runs"], Value::Array(Vec::new()));
}

#[test]
fn a_sweep_measures_every_size_by_every_call_and_leaves_no_file() {
    let lab = Lab::new();
    let dir = lab.path("data");
    std::fs::create_dir(&dir).expect("a folder");
    let dir_text = dir.to_str().expect("text");
    let words = [
        &SMALL[..],
        &[dir_text, "--how", "read,pread,mmap", "--spawn", "--rounds", "2", "--reference", "1KiB"],
    ]
    .concat();
    let run = lab.json(&words);
    assert_eq!(run["schema"], "bakeoff.dder/1");
    let cells = run["cells"].as_array().expect("cells");
    assert_eq!(
        cells.iter().map(|c| c["how"].as_str().expect("a call")).collect::<Vec<_>>(),
        ["read", "pread", "mmap"]
    );
    for cell in cells {
        let points = cell["points"].as_array().expect("points");
        let sizes: Vec<u64> = points.iter().map(|p| p["size_bytes"].as_u64().expect("a size")).collect();
        for wanted in [1, 2, 4_095, 4_096, 4_097, 6_144] {
            assert!(sizes.contains(&wanted), "{wanted}");
        }
        assert!(points.iter().all(|p| p["n"] == 2 && p["call_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
        assert!(cell["verdict"].is_string());
    }
    assert_eq!(run["starts"].as_array().map(Vec::len), Some(2));
    assert!(!scratch_left(&lab, &run));
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0, "the files have no name");
    let against = lab.run(&["report", "latest", "--compare", "latest"]);
    assert_eq!(against.code, Some(0), "{}", against.err);
    assert!(against.out.contains("Against the other run"), "{}", against.out);
}

#[test]
fn an_interrupted_experiment_leaves_nothing_behind_and_goes_on() {
    let lab = Lab::new();
    let dir = lab.path("data");
    std::fs::create_dir(&dir).expect("a folder");
    let dir_text = dir.to_str().expect("text");
    let sweep = [&SMALL[..], &[dir_text, "--rounds", "40", "--reference", "1KiB"]].concat();
    let scale =
        ["scale", "--no-observe", "--rounds", "40", "--time", "20ms", "--copies", "1,2", "--", "true"];
    for (kind, words) in [("dder", &sweep[..]), ("scale", &scale)] {
        let child =
            lab.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        wait_for_a_trial(&lab, kind);
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("a signal to our own child");
        let ended = child.wait_with_output().expect("our child");
        let said = String::from_utf8_lossy(&ended.stderr);
        // On an idle machine the run may have ended by then.
        if ended.status.code() != Some(0) {
            assert_eq!(ended.status.code(), Some(130), "{said}");
            assert!(said.contains("interrupted; continue with: bakeoff resume"), "{said}");
        }
        assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0, "nothing is left behind");
        let run = lab.json(&["resume", "latest"]);
        assert_eq!(run["state"], "sealed", "{run}");
        assert!(!scratch_left(&lab, &run));
    }
}

#[test]
fn a_run_whose_input_changed_is_not_resumed_as_the_same_work() {
    let lab = Lab::new();
    let file = lab.path("input");
    std::fs::write(&file, "as it was").expect("a file");
    let few = ["scale", "--no-observe", "--rounds", "1000", "--time", "20ms", "--copies", "1", "--"];
    let words = [&few[..], &["cat", file.to_str().expect("a plain path")]].concat();
    let mut child =
        lab.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_for_a_trial(&lab, "scale");
    child.kill().expect("a signal to our own child");
    child.wait().expect("our child");
    std::fs::write(&file, "as it is now").expect("a file");
    let refused = lab.run(&["resume", "latest"]);
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    for said in ["the work has changed since the run began", "12 bytes, sha256 ", "9 bytes, sha256 "] {
        assert!(refused.err.contains(said), "{}", refused.err);
    }
}

/// Waits until a trial of this kind is archived.
fn wait_for_a_trial(lab: &Lab, kind: &str) {
    loop {
        let listed = lab.run(&["runs", "list", "--all", "--kind", kind, "--state", "sealed", "--json"]);
        let kept = serde_json::from_str::<Value>(&listed.out)
            .map_or(0, |v| v["runs"].as_array().map_or(0, Vec::len));
        if kept > 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    let lab = Lab::new();
    let dir = lab.path("data");
    std::fs::create_dir(&dir).expect("a folder");
    let words =
        [&SMALL[..], &[dir.to_str().expect("text"), "--rounds", "40", "--reference", "1KiB"]].concat();
    let mut child =
        lab.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_for_a_trial(&lab, "dder");
    child.kill().expect("a signal to our own child");
    child.wait().expect("our child");
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0, "nothing is left behind");
    let resumed = lab.run(&["resume", "latest", "--json"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    let run = json(&resumed);
    assert_eq!(run["cells"][0]["rounds"], 40);
    assert!(!scratch_left(&lab, &run));
}

/// Starts a scale run that holds the machine until the file `go` exists; returns it once it measures.
fn holding(lab: &Lab) -> std::process::Child {
    let (began, go) = (lab.path("began"), lab.path("go"));
    let waits = format!("touch {}; until test -e {}; do sleep 0.01; done", began.display(), go.display());
    let words = [&["scale", "--title", "The first"], &FEW[..], &["--", "sh", "-c", &waits]].concat();
    let child = lab.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while !began.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

#[test]
fn one_experiment_at_a_time_has_the_machine_and_one_beside_it_is_marked() {
    let lab = Lab::new();
    let mut first = holding(&lab);
    let folder = lab.path("");
    let sweep = [&SMALL[..], &[folder.to_str().expect("a plain path"), "--rounds", "2", "--json"]].concat();
    for words in [[&["scale"], &FEW[..], &["--", "true"]].concat(), sweep.clone()] {
        let refused = lab.run(&words);
        assert_eq!(refused.code, Some(6), "{words:?}: {}", refused.err);
        assert!(
            refused.err.contains(&format!("process {}, ", first.id()))
                && refused.err.contains("--beside-others"),
            "{}",
            refused.err
        );
    }
    let beside = json(&lab.run(&[&sweep[..], &["--beside-others"]].concat()));
    let name = beside["run"].as_str().expect("the run has a name");
    let shown = lab.run(&["runs", "show", name]);
    assert!(shown.out.contains("measured while other measurements ran"), "{}{}", shown.out, shown.err);
    std::fs::write(lab.path("go"), "").expect("the first may end");
    first.wait().expect("it ends");
    // Now the machine is free.
    let alone = json(&lab.run(&sweep));
    let shown = lab.run(&["runs", "show", alone["run"].as_str().expect("the run has a name")]);
    assert!(!shown.out.contains("beside"), "{}", shown.out);
}
