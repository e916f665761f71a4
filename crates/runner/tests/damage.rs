//! One bit that flips in the archive costs one trial, which is named, left out and measured again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::fs;
use std::path::{Path, PathBuf};

use archive::Archive;
use bakeoff_runner::{Options, resume, run};
use load::Stop;
use record::bakeoff::{Bakeoff, TrialState};

/// Tests run beside each other.
const BESIDE: Options = Options { beside_others: true, plan_file: None, trust: |_| false };

const PLAN: &str = r#"
schema = 1
title  = "Damaged"
[factors.threads]
values = [1, 2]
level  = "sub-plot"
[design]
blocks = 1
[load]
target  = "null:"
threads = "{threads}"
rate    = 1000
[server]
command = "sh -c 'echo hello; touch {scratch}/ready; exec sleep 1000'"
ready   = "test -e {scratch}/ready"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[values.of_threads_count]
run = "echo {threads}"
[observe]
instruments = ["cpu"]
"#;

fn flip_a_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn damaged(bakeoff: &Bakeoff) -> Vec<&str> {
    let damaged = bakeoff.attempts.iter().filter(|a| a.state == TrialState::Damaged);
    damaged.map(|a| a.reason.as_deref().expect("it has a reason")).collect()
}

#[test]
fn a_flipped_bit_in_any_file_of_a_run_costs_that_trial_and_resume_measures_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let plan = plan::read(PLAN, "test.toml").unwrap();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let first = archive.bakeoff(outcome.id).unwrap().attempts[0].run.clone().unwrap().header.id;
    let files: Vec<PathBuf> = fs::read_dir(folder.path().join(format!("runs/{first}")))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let mut spared = Vec::new();
    for name in files.iter().map(|file| file.file_name().unwrap().to_owned()) {
        // Each kind of file in turn, of the run that counts now.
        let before = archive.bakeoff(outcome.id).unwrap();
        let run = before.attempts.iter().filter(|a| a.trial == 0).find_map(|a| a.run.as_ref()).unwrap();
        let id = run.header.id;
        flip_a_bit(&folder.path().join(format!("runs/{id}")).join(&name));
        let bakeoff = archive.bakeoff(outcome.id).unwrap_or_else(|e| panic!("{}: {e}", name.display()));
        if damaged(&bakeoff).len() == damaged(&before).len() {
            // A file that no number comes from: `runs verify` names it.
            spared.push(name);
            continue;
        }
        let reason = damaged(&bakeoff).pop().unwrap().to_owned();
        assert!(reason.starts_with(&format!("run {id}: ")), "{reason}");
        let others = bakeoff.attempts.iter().filter(|a| a.run.is_some()).count();
        assert_eq!(others, 1, "the other trial is as it was");

        let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
        assert_eq!((resumed.planned, resumed.sealed + resumed.invalid), (0, 2));
        let bakeoff = archive.bakeoff(outcome.id).unwrap();
        let measured: Vec<u32> =
            bakeoff.attempts.iter().filter(|a| a.run.is_some()).map(|a| a.trial).collect();
        assert_eq!(measured.len(), 2, "{measured:?}");
    }
    assert!(files.len() >= 5, "{files:?}");
    spared.sort();
    assert_eq!(spared, ["hist.parquet", "server.log.zst"]);
    // It can be removed, with the runs that no longer read.
    archive.remove(outcome.id).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn a_bakeoff_whose_own_files_are_damaged_can_be_named_and_removed() {
    for name in ["order.json", "order.sha256", "env.json", "plan.toml", "events.jsonl"] {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let plan = plan::read(PLAN, "test.toml").unwrap();
        let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
        flip_a_bit(&folder.path().join(format!("bakeoffs/{}/{name}", outcome.id)));
        assert!(archive.bakeoff(outcome.id).is_err(), "{name}");
        // As a later process finds it: its index is gone, too.
        fs::remove_file(folder.path().join("index.sqlite")).unwrap();
        let id = archive.find(&outcome.id.to_string()[..20]).unwrap_or_else(|e| panic!("{name}: {e}"));
        archive.remove(id).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 0, "{name}");
        assert_eq!(fs::read_dir(folder.path().join("bakeoffs")).unwrap().count(), 0, "{name}");
    }
}
