//! A command that measures pushes its own runs, and ends as its measurement ends.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use super::super::lab::Ended;
use super::super::{Two, measure, tree};

const AWAY: &str = "postgres://app@127.0.0.1:1/lab,file:///tmp";

#[test]
fn a_run_of_another_process_is_not_pushed() {
    let Some(two) = Two::start() else { return };
    let words =
        ["load", "null:", "--rate", "100", "--warmup", "0s", "--time", "4s", "--observe", "none", "--json"];
    let mut command = two.here.command(&[&words[..], &["--archive", &two.place]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = two.here.path("archive/runs");
    let is_begun = || fs::read_dir(&runs).is_ok_and(|runs| runs.count() == 1);
    for _ in 0..500 {
        if is_begun() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(is_begun());
    let other = measure(&two.here);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let own: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 2, "the other run ended meanwhile");
    assert_eq!(two.server.sql("SELECT id FROM run"), own["run"].as_str().unwrap(), "and not {other}");
}

#[test]
fn the_code_of_the_load_wins_over_that_of_the_push() {
    let Some(two) = Two::start() else { return };
    let load = |more: &[&str], place: &str| {
        let words = ["load", "--warmup", "0s", "--observe", "none", "--threads", "1"];
        two.here.command(&[&words[..], more, &["--archive", place]].concat())
    };
    let good = ["null:", "--events", "10"];
    let invalid = ["exec:sleep 0.02", "--rate", "100", "--time", "1s", "--drain", "0", "--strict"];
    let run = |more: &[&str], place: &str| Ended::of(load(more, place).output().unwrap());
    let said = "not in the shared archive";
    for (more, place, code) in [
        (&good[..], &*two.place, 0),
        (&good[..], AWAY, 6),
        (&invalid[..], &*two.place, 3),
        (&invalid[..], AWAY, 3),
    ] {
        let ended = run(more, place);
        assert_eq!(ended.code, Some(code), "{more:?} {place}: {}", ended.err);
        assert_eq!(ended.err.contains(said), place == AWAY, "{}", ended.err);
    }
    assert_eq!(two.server.sql("SELECT count(*), count(*) FILTER (WHERE state = 'invalid') FROM run"), "2|1");
    // After the load, the archive itself cannot be listed.
    let child = load(&invalid, &two.place).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = two.here.path("archive/runs");
    let is_begun =
        || fs::read_dir(&runs).unwrap().flatten().any(|e| e.file_name().to_string_lossy().starts_with('.'));
    while !is_begun() {
        thread::sleep(Duration::from_millis(5));
    }
    fs::rename(two.here.path("archive/bakeoffs"), two.here.path("away")).unwrap();
    fs::write(two.here.path("archive/bakeoffs"), "").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.contains(said)), (Some(3), true), "{}", ended.err);
}

/// A plan of two short trials.
pub(super) const PLAN: &str = "schema = 1\ntitle = \"t\"\n[factors.n]\nvalues = [\"1\", \"2\"]\nreference = \"1\"\n\
    level = \"whole-plot\"\n[design]\nblocks = 1\n[load]\ntarget = \"exec:true\"\nrate = \"max\"\n[phases]\n\
    warm-up = { min = \"20ms\" }\nmeasure = { time = \"100ms\", interval = \"100ms\" }\n[judge]\n\
    family = \"n vs reference\"\n";

#[test]
fn a_bakeoff_that_is_resumed_after_a_push_is_pushed_again() {
    let Some(two) = Two::start() else { return };
    let plan = two.here.path("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    let ended = two.here.run(&["run", plan.to_str().unwrap(), "--archive", &two.place]);
    assert!(ended.err.contains("pushed 3"), "{}", ended.err);
    let id = two.server.sql("SELECT id FROM run WHERE shelf = 'bakeoffs'");
    assert_eq!(two.pull().code, Some(0));
    let sum = || two.server.sql("SELECT sha256 FROM run WHERE shelf = 'bakeoffs'");
    let first = sum();
    let folder = format!("archive/bakeoffs/{id}");
    let states: [_; 2] = [two.here.path("").join(&folder), two.there.path("").join(&folder)];
    // The command that resumes it pushes it; so does `push`.
    let ended = two.here.run(&["resume", &id, "--archive", &two.place]);
    assert!(ended.err.contains("pushed 3"), "{}", ended.err);
    let second = sum();
    assert_ne!(first, second);
    two.here.run(&["resume", &id]);
    let ended = two.push();
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert_ne!(second, sum());
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "3");
    // The machine that has the earlier state keeps it, and says so; without it, it gets the later one.
    assert_eq!(two.here.json(&["archive", "sync", &two.place])["pulled"]["same"], 3);
    let earlier = tree(&states[1]);
    let ended = two.pull();
    assert_eq!((ended.code, ended.out.contains("another state")), (Some(1), true), "{}", ended.out);
    assert_eq!(tree(&states[1]), earlier);
    assert_eq!(two.there.run(&["runs", "rm", &id]).code, Some(0));
    assert_eq!(two.pull().code, Some(0));
    assert_eq!(tree(&states[0]), tree(&states[1]));
    assert_eq!(two.there.run(&["runs", "verify"]).code, Some(0));
    // One that another machine resumed is a fork: neither side is changed.
    two.there.run(&["resume", &id]);
    two.here.run(&["resume", &id]);
    assert_eq!(two.push().code, Some(0));
    let (kept, stored) = (tree(&states[1]), tree(&two.here.path("store")));
    assert_eq!(two.there.run(&["archive", "push", &two.place]).code, Some(1));
    assert_eq!((kept, stored), (tree(&states[1]), tree(&two.here.path("store"))));
}
