//! One bit that flips in the archive costs one trial, which is named, left out and measured again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::fs;
use std::path::{Path, PathBuf};

use archive::Archive;
use bakeoff_runner::{Options, resume, run};
use load::Stop;
use record::bakeoff::{Bakeoff, TrialState};

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

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

/// Flips a bit of a file at a place from 0 (its first byte) to 1 (its last). Returns the original content.
fn flip_a_bit(path: &Path, place: f64) -> Vec<u8> {
    let whole = fs::read(path).unwrap();
    let mut bytes = whole.clone();
    let at = (place * (bytes.len() - 1) as f64).round() as usize;
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
    whole
}

/// Both ends, the middle, and places far from both.
const PLACES: [f64; 7] = [0.0, 0.013, 0.31, 0.5, 0.77, 0.98, 1.0];

/// Files of a run without numbers for results: only `verify` names their damage.
const READ_BY_PEOPLE: [&str; 2] = ["hist.parquet", "server.log.zst"];

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
    assert!(files.len() >= 7, "{files:?}");
    for name in files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()) {
        // Each kind of file in turn, of the run that currently counts.
        let before = archive.bakeoff(outcome.id).unwrap();
        let run = before.attempts.iter().filter(|a| a.trial == 0).find_map(|a| a.run.as_ref()).unwrap();
        let id = run.header.id;
        let path = folder.path().join(format!("runs/{id}")).join(&name);
        for place in PLACES {
            let whole = flip_a_bit(&path, place);
            let problems = archive.verify(&[id]).unwrap().remove(0).problems;
            assert!(!problems.is_empty(), "{name} at {place}: verify sees it");
            let bakeoff = archive.bakeoff(outcome.id).unwrap_or_else(|e| panic!("{name} at {place}: {e}"));
            let now = damaged(&bakeoff);
            if READ_BY_PEOPLE.contains(&name.as_str()) {
                assert_eq!(now.len(), damaged(&before).len(), "{name} at {place}: the numbers are whole");
                assert!(problems.iter().any(|p| p.path == path), "{name} at {place}: {problems:?}");
            } else {
                assert_eq!(now.len(), damaged(&before).len() + 1, "{name} at {place}: left out");
                assert!(now.iter().any(|why| why.starts_with(&format!("run {id}: "))), "{now:?}");
                let others = bakeoff.attempts.iter().filter(|a| a.run.is_some()).count();
                assert_eq!(others, 1, "{name} at {place}: the other trial is as it was");
            }
            fs::write(&path, whole).unwrap();
        }
        assert_eq!(archive.bakeoff(outcome.id).unwrap(), before, "{name}: mended");
        flip_a_bit(&path, 0.5);
        let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
        assert_eq!((resumed.planned, resumed.sealed + resumed.invalid), (0, 2));
        let bakeoff = archive.bakeoff(outcome.id).unwrap();
        let mut measured: Vec<u32> =
            bakeoff.attempts.iter().filter(|a| a.run.is_some()).map(|a| a.trial).collect();
        measured.sort_unstable();
        assert_eq!(measured, [0, 1], "{name}");
        let again = bakeoff.attempts.len() - before.attempts.len();
        assert_eq!(again, usize::from(!READ_BY_PEOPLE.contains(&name.as_str())), "{name}");
    }
    // It can be removed, with the runs that are no longer readable.
    archive.remove(outcome.id).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 0);
}

/// A bit flips in any line: the runs and the other lines contain the measurements, and `resume` repeats none.
#[test]
fn a_flipped_bit_anywhere_in_the_journal_is_named_and_costs_no_trial() {
    flip_bits_of_the_journal(PLAN);
}

/// The result depends on one line of the journal: the generator cannot reach the rate of the other trial.
#[test]
fn a_flipped_bit_in_the_journal_does_not_take_the_only_trial_that_is_sealed() {
    let plan = PLAN.replace("[factors.threads]\nvalues = [1, 2]", "[factors.rate]\nvalues = [500, 9000000]");
    let plan = plan
        .replace("\"{threads}\"", "1")
        .replace("= 1000\n", "= \"{rate}\"\n")
        .replace("{threads}", "{rate}");
    flip_bits_of_the_journal(&plan);
}

fn flip_bits_of_the_journal(plan: &str) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let plan = plan::read(plan, "test.toml").unwrap();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let path = folder.path().join(format!("bakeoffs/{}/events.jsonl", outcome.id));
    let whole = archive.bakeoff(outcome.id).unwrap();
    let runs = |bakeoff: &Bakeoff| {
        let mut runs: Vec<_> =
            bakeoff.attempts.iter().filter_map(|a| Some((a.trial, a.run.clone()?))).collect();
        runs.sort_by_key(|(trial, _)| *trial);
        runs
    };
    assert_eq!(runs(&whole).len(), 2);
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    // Damage to the last byte looks like a line that a dying process left half-written.
    let places = (0..=3 * lines).map(|i| 0.999 * i as f64 / (3 * lines) as f64);
    for place in places {
        let journal = flip_a_bit(&path, place);
        let read = archive.bakeoff(outcome.id).unwrap_or_else(|e| panic!("at {place}: {e}"));
        assert_eq!(runs(&read), runs(&whole), "at {place}");
        assert_eq!(read.header.state, whole.header.state, "at {place}");
        let reason = read.header.reason.unwrap_or_else(|| panic!("at {place}: the damage is named"));
        assert!(reason.contains("its journal is damaged (line "), "at {place}: {reason}");
        assert_eq!(archive.header(outcome.id).unwrap().id, outcome.id, "at {place}");
        let verified = archive.verify(&[outcome.id]).unwrap().remove(0);
        assert!(verified.problems.iter().any(|p| p.path == path), "at {place}: {verified:?}");
        fs::write(&path, journal).unwrap();
    }
    // The line that ends a trial is gone, and the resuming process does not have an index either.
    let text = fs::read_to_string(&path).unwrap();
    let at = text.find("\"trial-sealed\"").or_else(|| text.find("\"trial-invalid\"")).unwrap();
    flip_a_bit(&path, at as f64 / (text.len() - 1) as f64);
    fs::remove_file(folder.path().join("index.sqlite")).unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut notes = Vec::new();
    let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |event| {
        if let bakeoff_runner::Event::Note(note) = event {
            notes.push((*note).to_owned());
        }
    });
    let resumed = resumed.unwrap();
    assert_eq!((resumed.planned, resumed.sealed + resumed.invalid), (0, 2));
    assert!(notes.iter().any(|note| note.contains("the journal was damaged (line ")), "{notes:?}");
    let read = archive.bakeoff(outcome.id).unwrap();
    assert_eq!(runs(&read), runs(&whole), "nothing was measured again");
    assert_eq!((read.header.state, read.header.reason), (whole.header.state, whole.header.reason));
    let verified = archive.verify(&[outcome.id]).unwrap().remove(0);
    assert_eq!(verified.problems, []);
    assert!(fs::read_to_string(&path).unwrap().contains("\"journal-mended\""));
}

/// The plan, the order and the machine are in no run: each of these files has a copy.
#[test]
fn a_flipped_bit_in_a_file_that_a_bakeoff_begins_with_is_named_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let plan = plan::read(PLAN, "test.toml").unwrap();
    let id = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap().id;
    let whole = archive.bakeoff(id).unwrap();
    let own = folder.path().join(format!("bakeoffs/{id}"));
    let names: Vec<PathBuf> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    for path in names.iter().filter(|path| !path.ends_with("events.jsonl")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_copy = path.extension().is_some_and(|end| end == "copy");
        let reads_like_before = |about: &str| {
            let read = archive.bakeoff(id).unwrap_or_else(|e| panic!("{name}, {about}: {e}"));
            let reason = read.header.reason.clone();
            assert_eq!(Bakeoff { header: whole.header.clone(), ..read }, whole, "{name}, {about}");
            let is_named =
                reason.as_ref().is_some_and(|reason| reason.contains(&format!("{name} is damaged")));
            // A copy is only read if the file itself is damaged.
            assert_eq!(is_named, !is_copy, "{name}, {about}: {reason:?}");
            let verified = archive.verify(&[id]).unwrap().remove(0);
            assert!(verified.problems.iter().any(|p| p.path == *path), "{name}, {about}: {verified:?}");
        };
        for place in PLACES {
            let before = flip_a_bit(path, place);
            reads_like_before(&format!("a bit at {place}"));
            fs::write(path, before).unwrap();
        }
        fs::remove_file(path).unwrap();
        reads_like_before("removed");
        // Also for a process that does not have an index yet.
        fs::remove_file(folder.path().join("index.sqlite")).unwrap();
        let listed = archive.list(&archive::Filter::default()).unwrap();
        assert!(listed.iter().any(|listed| listed.header.id == id), "{name}: it is listed");
        // `resume` rewrites it.
        let mut notes = Vec::new();
        resume(&archive, id, &BESIDE, &Stop::new(), &mut |event| {
            if let bakeoff_runner::Event::Note(note) = event {
                notes.push((*note).to_owned());
            }
        })
        .unwrap();
        let is_noted = notes.iter().any(|note| note.contains(&format!("{name} is damaged")));
        assert_eq!(is_noted, !is_copy, "{name}: {notes:?}");
        assert_eq!(archive.bakeoff(id).unwrap(), whole, "{name}");
        assert_eq!(archive.verify(&[id]).unwrap().remove(0).problems, [], "{name}");
    }
}

/// Earlier versions stored no copies; two damaged copies have the same effect.
#[test]
fn a_bakeoff_whose_own_files_are_damaged_can_be_named_and_removed() {
    for name in ["order.json", "order.sha256", "env.json", "plan.toml"] {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let plan = plan::read(PLAN, "test.toml").unwrap();
        let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
        let own = folder.path().join(format!("bakeoffs/{}", outcome.id));
        flip_a_bit(&own.join(name), 0.5);
        flip_a_bit(&own.join(format!("{}.copy", name.replace("sha256", "json"))), 0.3);
        assert!(archive.bakeoff(outcome.id).is_err(), "{name}");
        // A later process does not have the index either.
        fs::remove_file(folder.path().join("index.sqlite")).unwrap();
        let id = archive.find(&outcome.id.to_string()[..20]).unwrap_or_else(|e| panic!("{name}: {e}"));
        archive.remove(id).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 0, "{name}");
        assert_eq!(fs::read_dir(folder.path().join("bakeoffs")).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn resume_compares_the_machine_with_that_on_which_the_bakeoff_began() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let archives = [&here, &there].map(|folder| Archive::open(folder.path()).unwrap());
    let plan = plan::read(PLAN, "test.toml").unwrap();
    let stop = Stop::new();
    stop.request();
    let id = run(&plan, &archives[0], &BESIDE, &stop, &mut |_| {}).unwrap().id;
    // The same bake-off, begun on another kernel.
    let mut begun = archives[0].bakeoff(id).unwrap();
    begun.environment.facts.insert("kernel.release".to_owned(), Ok("2.4.37".to_owned()));
    archives[1].create_bakeoff(&begun).unwrap();
    let journal = |folder: &Path| folder.join(format!("bakeoffs/{id}/events.jsonl"));
    fs::copy(journal(here.path()), journal(there.path())).unwrap();

    resume(&archives[1], id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let bakeoff = archives[1].bakeoff(id).unwrap();
    assert_eq!(bakeoff.attempts.len(), 2);
    for run in bakeoff.attempts.iter().filter_map(|a| a.run.as_ref()) {
        let flag = run.environment.fact("trial.flag.machine").unwrap_or_default();
        assert!(flag.contains("kernel.release changed from 2.4.37 to "), "{flag}");
    }
}
