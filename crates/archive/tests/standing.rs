//! State of a bake-off by its journal: its expected end, and its end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[expect(dead_code, reason = "this program uses a part of it")]
mod example;

use std::collections::BTreeMap;

use bakeoff_archive::{Archive, Journal, JournalEvent, Standing, Step};
use example::Dice;
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
