//! State of a bake-off by its journal: its expected end, and its end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[expect(dead_code, reason = "this program uses a part of it")]
mod example;

use std::collections::BTreeMap;
use std::fs;

use bakeoff_archive::{Archive, Journal, JournalEvent, Standing, Step, sha256};
use example::Dice;
use record::bakeoff::{Trial, TrialState};
use record::clock::WallAnchor;
use record::run::RunId;

/// A bake-off of four blocks of two configurations, and its journal.
fn begun() -> (tempfile::TempDir, Archive, RunId, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let bakeoff = example::bakeoff(&mut Dice(7), 4);
    archive.create_bakeoff(&bakeoff).unwrap();
    let journal = archive.journal(bakeoff.header.id).unwrap();
    (folder, archive, bakeoff.header.id, journal)
}

fn event(at_unix_ns: u64, trial: Option<u32>, step: Step) -> JournalEvent {
    JournalEvent { at_unix_ns, at_monotonic_ns: 0, series: Some(1), trial, attempt: Some(1), step }
}

/// Two trials, each of 100 ns, from 1,000 on.
fn measure_a_block(journal: &mut Journal) {
    journal.append(&event(1_000, None, Step::SeriesStart)).unwrap();
    for trial in [0, 1] {
        let run = RunId::fresh(WallAnchor::now());
        let at = 1_100 + 100 * u64::from(trial);
        journal.append(&event(at, Some(trial), Step::TrialSealed { run })).unwrap();
    }
}

#[test]
fn trials_of_a_dropped_configuration_are_not_expected() {
    let (_folder, archive, id, mut journal) = begun();
    let standing = || archive.standing(id).unwrap();
    measure_a_block(&mut journal);
    assert_eq!(standing().expected_end_unix_ns(1_200), Some(1_800), "six trials of 100 are left");
    let arm = BTreeMap::from([("allocator".to_owned(), "jemalloc".to_owned())]);
    journal.say(Step::ConfigurationDropped { arm, after_block: 1 }).unwrap();
    assert_eq!(standing().expected_end_unix_ns(1_200), Some(1_500), "three of them are dropped");
    let dropped = |standing: &Standing| -> Vec<u32> {
        standing.trials.iter().filter(|told| told.is_dropped).map(|told| told.trial.index).collect()
    };
    assert_eq!(dropped(&standing()), [3, 5, 7], "what was measured is not dropped");
    // The next process decides again: the runs may be damaged by then.
    drop(journal);
    let _journal = archive.journal(id).unwrap();
    assert!(dropped(&standing()).is_empty());
}

#[test]
fn the_end_of_a_bake_off_is_that_of_its_last_trial_and_not_of_a_later_reader() {
    let (_folder, archive, id, mut journal) = begun();
    let ended = || archive.standing(id).unwrap().ended_unix_ns;
    measure_a_block(&mut journal);
    journal.append(&event(1_300, None, Step::Interrupted)).unwrap();
    drop(journal);
    assert_eq!(ended(), Some(1_300));
    let mut journal = archive.journal(id).unwrap();
    assert_eq!(ended(), None, "it runs again");
    journal.append(&event(1_400, None, Step::SeriesStart)).unwrap();
    drop(journal);
    assert_eq!(ended(), None, "its process was killed");
    let mut journal = archive.journal(id).unwrap();
    journal.append(&event(1_500, None, Step::BakeoffDone)).unwrap();
    drop(journal);
    // A process that reads the verdict opens the journal, and closes it.
    let mut journal = archive.journal(id).unwrap();
    journal.append(&event(9_000, None, Step::BakeoffDone)).unwrap();
    drop(journal);
    assert_eq!(ended(), Some(1_500));
}

/// A block in slices: its two trials begin one after the other, play together, and are stored at its end.
fn begin_in_slices(journal: &mut Journal, at: u64, first: u32) {
    for (at, trial) in [(at, first), (at + 20, first + 1)] {
        journal.append(&event(at, None, Step::SeriesSetup)).unwrap();
        journal.append(&event(at + 10, Some(trial), Step::TrialWarming)).unwrap();
    }
    for trial in [first, first + 1] {
        journal.append(&event(at + 60, Some(trial), Step::TrialMeasuring)).unwrap();
    }
}

fn store(journal: &mut Journal, at: u64, trial: u32) {
    let run = RunId::fresh(WallAnchor::now());
    journal.append(&event(at, Some(trial), Step::TrialSealed { run })).unwrap();
}

#[test]
fn in_slices_all_trials_of_a_block_are_current_and_blocks_are_expected() {
    let (_folder, archive, id, mut journal) = begun();
    let standing = || archive.standing(id).unwrap();
    let current = || -> Vec<u32> {
        let all = standing().trials;
        all.iter().filter(|told| told.is_current).map(|told| told.trial.index).collect()
    };
    let end = |now| standing().expected_end_unix_ns(now);
    // Each block takes 200; four of them end at 1,800.
    begin_in_slices(&mut journal, 1_000, 0);
    assert_eq!((current(), end(1_100)), (vec![0, 1], None), "nothing has ended that tells");
    store(&mut journal, 1_190, 0);
    assert_eq!((current(), end(1_195)), (vec![1], None), "one of a block says nothing about the next one");
    store(&mut journal, 1_200, 1);
    assert_eq!((current(), end(1_200)), (vec![], Some(1_800)));
    begin_in_slices(&mut journal, 1_200, 2);
    assert_eq!(current(), [2, 3]);
    assert_eq!([1_250, 1_320, 1_390].map(end), [Some(1_800); 3], "all trials of a block end with it");
    assert_eq!(end(1_430), Some(1_830), "a block that takes longer");
    store(&mut journal, 1_395, 2);
    assert_eq!(end(1_396), Some(1_800), "the last of the block is being stored");
    store(&mut journal, 1_400, 3);
    begin_in_slices(&mut journal, 1_400, 4);
    (4..6).for_each(|trial| store(&mut journal, 1_600, trial));
    begin_in_slices(&mut journal, 1_600, 6);
    assert_eq!(
        [1_750, 1_801].map(end),
        [Some(1_800), None],
        "nothing tells how much longer the last one takes"
    );
    store(&mut journal, 1_795, 6);
    assert_eq!(end(1_796), Some(1_800));
    store(&mut journal, 1_800, 7);
    assert_eq!(end(1_805), Some(1_805), "teardown is not a trial");
}

#[test]
fn a_trial_that_has_failed_once_is_left_while_a_process_may_repeat_it() {
    let (_folder, archive, id, mut journal) = begun();
    let standing = || archive.standing(id).unwrap();
    let failed = |at, trial, attempt| JournalEvent {
        attempt: Some(attempt),
        ..event(at, Some(trial), Step::TrialFailed { reason: "the server ended".to_owned() })
    };
    journal.append(&event(1_000, None, Step::SeriesStart)).unwrap();
    for trial in 0..7 {
        store(&mut journal, 1_100 + 100 * u64::from(trial), trial);
    }
    journal.append(&failed(1_800, 7, 1)).unwrap();
    let count = |state| standing().count(state);
    assert_eq!((count(TrialState::Failed), count(TrialState::Planned)), (0, 1));
    assert_eq!(standing().expected_end_unix_ns(1_800), Some(1_900), "one of 100 is left");
    assert_eq!(standing().trials[7].reason.as_deref(), Some("the server ended"));
    // Without a process nothing will repeat it.
    drop(journal);
    assert_eq!(count(TrialState::Failed), 1);
    let mut journal = archive.journal(id).unwrap();
    assert_eq!(count(TrialState::Failed), 0);
    journal.append(&failed(2_000, 7, 2)).unwrap();
    assert_eq!((count(TrialState::Failed), count(TrialState::Planned)), (1, 0), "now it has failed for good");
}

/// The most trials that a plan can have, each on a server that is started for it.
#[test]
fn a_bake_off_of_50000_trials_is_read_from_its_order_and_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut planned = example::bakeoff(&mut Dice(7), 1);
    let levels = |index: u32| {
        let level = |name: &str, level: u32| (name.to_owned(), format!("{name} {level}"));
        BTreeMap::from([level("allocator", index % 2), level("threads", index % 7), level("rate", index % 5)])
    };
    let trial =
        |index| Trial { index, block: 1 + index / 70, series: index, position: 1, levels: levels(index) };
    planned.trials = (0..50_000).map(trial).collect();
    archive.create_bakeoff(&planned).unwrap();
    let id = planned.header.id;
    let path = archive.bakeoff_dir(id).join("events.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    let mut link = text[text.len() - "0123456789abcdef\"}\n".len()..][..16].to_owned();
    for trial in 0..50_000 {
        let run = RunId::fresh(WallAnchor::now());
        for (step, trial) in [
            (Step::SeriesSetup, None),
            (Step::SeriesStart, None),
            (Step::TrialWarming, Some(trial)),
            (Step::TrialMeasuring, Some(trial)),
            (Step::TrialSealed { run }, Some(trial)),
        ] {
            let body = serde_json::to_string(&event(1_764_267_780_123_456_789, trial, step)).unwrap();
            link = sha256(&mut format!("{link}{body}").as_bytes()).unwrap()[..16].to_owned();
            text.extend([body.strip_suffix('}').unwrap(), ",\"link\":\"", link.as_str(), "\"}\n"]);
        }
    }
    assert!(text.len() > 32 << 20, "{}", text.len());
    fs::write(&path, text).unwrap();
    let standing = archive.standing(id).unwrap();
    assert_eq!(standing.trials.iter().filter(|told| told.state == TrialState::Sealed).count(), 50_000);
    assert_eq!(archive.header(id).unwrap().state, standing.header.state);
}

#[test]
fn an_order_that_could_not_be_read_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut planned = example::bakeoff(&mut Dice(7), 1);
    let levels = BTreeMap::from([("allocator".to_owned(), "a long name ".repeat(20))]);
    let trial = |index| Trial { index, block: 1 + index, series: index, position: 1, levels: levels.clone() };
    planned.trials = (0..50_000).map(trial).collect();
    let why = archive.create_bakeoff(&planned).unwrap_err().to_string();
    assert!(why.contains("50000 trials") && why.contains("limit 8388608"), "{why}");
    assert!(!archive.is_bakeoff(planned.header.id));
}
