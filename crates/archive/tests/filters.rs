//! What the index holds for the filters of a list: machine, targets and factors, and verdicts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod example;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use bakeoff_archive::{Archive, ArchiveError, Filter, JournalEvent, PartOf, Step, Traits};
use example::Dice;
use record::clock::WallAnchor;
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::target::Target;

fn archive() -> (tempfile::TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    (folder, archive)
}

/// A load of that target, measured on the machine `db7`.
fn load(dice: &mut Dice, target: &str) -> Run {
    let mut run = loop {
        let run = example::run(dice);
        if run.header.kind == RunKind::Load && run.load.is_some() {
            break run;
        }
    };
    run.header.bakeoff = None;
    run.environment.facts.insert("host.name".to_owned(), Ok("db7".to_owned()));
    run.load.as_mut().unwrap().settings.target = Target::new(target);
    run
}

fn words(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

fn traits_of(archive: &Archive, id: RunId) -> Traits {
    let listed = archive.list_with_traits(&Filter { part_of: PartOf::Nothing, ..Filter::default() }).unwrap();
    listed.into_iter().find(|(listed, _)| listed.header.id == id).unwrap().1
}

#[test]
fn a_list_has_machine_targets_and_factors_without_a_file_of_a_run() {
    let (_folder, archive) = archive();
    let mut dice = Dice(41);
    let alone = load(&mut dice, "MySQL://app:hunter2@Host/bench");
    archive.begin(&alone.header).unwrap().seal(&alone).unwrap();
    let mut planned = example::bakeoff(&mut dice, 1);
    planned.environment.facts.insert("host.name".to_owned(), Ok("db8".to_owned()));
    archive.create_bakeoff(&planned).unwrap();
    let whole = planned.header.id;
    assert_eq!(traits_of(&archive, whole).targets, words(&[]), "none of its trials is measured");
    for target in ["null:", "redis://h:6379"] {
        let part = load(&mut dice, target);
        let part = Run { header: RunHeader { bakeoff: Some(whole), ..part.header.clone() }, ..part };
        archive.begin(&part.header).unwrap().seal(&part).unwrap();
    }
    archive.list(&Filter::default()).unwrap();
    // The files of the runs are gone, so the answers come from the index.
    for folder in fs::read_dir(archive.dir().join("runs")).unwrap() {
        fs::remove_file(folder.unwrap().path().join("manifest.json")).unwrap();
    }
    let of_run = Traits {
        machine: Some("db7".to_owned()),
        targets: words(&["mysql://app:***@host/bench"]),
        factors: BTreeMap::new(),
    };
    assert_eq!(traits_of(&archive, alone.header.id), of_run);
    let of_whole = Traits {
        machine: Some("db8".to_owned()),
        targets: words(&["null:", "redis://h:6379"]),
        factors: [("allocator".to_owned(), words(&["libc", "jemalloc"]))].into(),
    };
    assert_eq!(traits_of(&archive, whole), of_whole);
}

#[test]
fn an_index_without_traits_is_rebuilt_from_the_files() {
    let (_folder, archive) = archive();
    let run = load(&mut Dice(42), "null:");
    archive.begin(&run.header).unwrap().seal(&run).unwrap();
    let expected = traits_of(&archive, run.header.id);
    let index = archive.dir().join("index.sqlite");
    let old = rusqlite::Connection::open(&index).unwrap();
    old.execute_batch("DROP TABLE judged; ALTER TABLE run DROP COLUMN traits; PRAGMA user_version = 3")
        .unwrap();
    drop(old);
    assert_eq!(traits_of(&archive, run.header.id), expected, "of the version before");
    let db = rusqlite::Connection::open(&index).unwrap();
    db.execute("UPDATE run SET traits = replace(traits, 'db7', 'db8')", []).unwrap();
    drop(db);
    assert_eq!(traits_of(&archive, run.header.id), expected, "a run is not found on another machine");
}

#[test]
fn verdicts_are_those_of_a_version_and_of_a_journal() {
    let (_folder, archive) = archive();
    let planned = example::bakeoff(&mut Dice(43), 1);
    archive.create_bakeoff(&planned).unwrap();
    let id = planned.header.id;
    let judged: BTreeMap<RunId, BTreeSet<String>> = [(id, words(&["better", "worse"]))].into();
    let gone = RunId::fresh(planned.header.anchor);
    archive.store_verdicts("1.0", &[(gone, words(&["worse"]))].into()).unwrap();
    archive.store_verdicts("1.0", &judged).unwrap();
    assert_eq!(archive.verdicts("1.0").unwrap(), judged, "the archive does not have the other one");
    assert_eq!(archive.verdicts("2.0").unwrap(), BTreeMap::new());
    assert_eq!(archive.reindex().unwrap().same, Some(true), "they are no content of the folders");
    archive.store_verdicts("1.0", &[(id, BTreeSet::new())].into()).unwrap();
    assert_eq!(archive.verdicts("1.0").unwrap(), [(id, BTreeSet::new())].into(), "judged, without a verdict");
    let event = JournalEvent {
        at_unix_ns: 1,
        at_monotonic_ns: 1,
        series: Some(1),
        trial: None,
        attempt: None,
        step: Step::SeriesStart,
    };
    archive.journal(id).unwrap().append(&event).unwrap();
    assert_eq!(archive.verdicts("1.0").unwrap(), BTreeMap::new(), "it is resumed: its verdict may change");
}

#[test]
fn runs_are_found_by_name_beginning_and_filter() {
    let (_folder, archive) = archive();
    let mut dice = Dice(14);
    let mut runs: Vec<Run> = (0..12).map(|_| example::run(&mut dice)).collect();
    runs.sort_by_key(|r| r.header.id);
    for (i, run) in runs.iter_mut().enumerate() {
        run.header.title = format!("Title {i}");
        run.header.labels = [("machine".to_owned(), format!("m{}", i % 2))].into();
        archive.begin(&run.header).unwrap().seal(run).unwrap();
    }
    let newest: Vec<RunId> = archive.list(&Filter::default()).unwrap().iter().map(|l| l.header.id).collect();
    assert_eq!(newest, runs.iter().rev().map(|r| r.header.id).collect::<Vec<_>>());
    let now_ns = WallAnchor::now().unix_ns.cast_signed();
    let is_past = |run: &&Run| run.header.anchor.unix_ns.cast_signed() <= now_ns;
    let latest = runs.iter().rev().find(is_past).unwrap_or(&runs[11]).header.id;
    assert_eq!(archive.find("latest").unwrap(), latest);
    for run in &runs {
        let name = run.header.id.to_string();
        assert_eq!(archive.find(&name).unwrap(), run.header.id);
        assert_eq!(archive.find(&name.to_lowercase()[..25]).unwrap(), run.header.id);
    }
    assert!(matches!(archive.find("0"), Err(ArchiveError::Ambiguous { count: 12, .. })));
    for text in ["", "Z", "latest run", "%", "0_"] {
        assert!(matches!(archive.find(text), Err(ArchiveError::NotFound { .. })), "{text}");
    }
    let count = |filter: Filter| archive.list(&filter).unwrap().len();
    let label = |value: Option<&str>| vec![("machine".to_owned(), value.map(str::to_owned))];
    assert_eq!(count(Filter { labels: label(Some("m1")), ..Filter::default() }), 6);
    assert_eq!(count(Filter { labels: label(None), ..Filter::default() }), 12);
    assert_eq!(count(Filter { labels: vec![("other".into(), None)], ..Filter::default() }), 0);
    assert_eq!(count(Filter { text: Some("tITLE 11".into()), ..Filter::default() }), 1);
    assert_eq!(count(Filter { part_of: PartOf::Nothing, ..Filter::default() }), 12);
    assert_eq!(count(Filter { part_of: PartOf::Bakeoff(newest[0]), ..Filter::default() }), 0);
    for kind in RunKind::ALL {
        let expected = runs.iter().filter(|r| r.header.kind == *kind).count();
        assert_eq!(count(Filter { kind: Some(*kind), ..Filter::default() }), expected);
    }
    for state in RunState::ALL {
        let expected = runs.iter().filter(|r| r.header.state == *state).count();
        assert_eq!(count(Filter { state: Some(*state), ..Filter::default() }), expected);
    }
}
