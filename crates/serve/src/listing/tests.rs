//! Tests of the list in memory.

use serde_json::{Value, json};

use super::*;
use crate::printer::{Histories, HistoryWanted, PrintError};

/// A printer of bake-offs with one comparison.
#[derive(Debug)]
struct OneWorse;

impl Printer for OneWorse {
    fn page(&self, _: &Archive, _: RunId) -> Result<String, PrintError> {
        unreachable!("a list has no pages")
    }
    fn document(&self, archive: &Archive, id: RunId) -> Result<Value, PrintError> {
        archive.header(id)?;
        Ok(json!({"comparisons": [{"verdict": "worse"}, {"verdict": null}]}))
    }
    fn compare(&self, _: &Archive, _: &[RunId]) -> Result<Value, PrintError> {
        unreachable!("a list compares nothing")
    }
    fn history(&self, _: &Archive, _: &HistoryWanted) -> Result<Histories, PrintError> {
        unreachable!("a list has no history")
    }
}

fn header(id: &str, title: &str, labels: &[(&str, &str)]) -> RunHeader {
    let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 1_764_000_000_000_000_000 };
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let running = RunHeader::running(RunKind::Load, anchor, title.to_owned(), "bakeoff load".to_owned());
    RunHeader { id: id.parse().unwrap(), labels, ..running }
}

fn snapshot(headers: Vec<RunHeader>) -> Snapshot {
    let shorts = short_names(&headers);
    Snapshot {
        rows: headers
            .into_iter()
            .zip(shorts)
            .map(|(h, short)| Arc::new(row(h, short, Traits::default(), Note::default())))
            .collect(),
        ..Snapshot::default()
    }
}

#[test]
fn short_names_are_unique_even_if_the_ends_are_alike() {
    let ids = ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFA69G5FAV", "01ARZ3NDEKTSV4RRFFQ6000000"];
    let found = snapshot(ids.iter().map(|id| header(id, "t", &[])).collect());
    let names: Vec<&str> = found.rows.iter().map(|row| row.short.as_str()).collect();
    assert_eq!(names, ["q69g5fav", "a69g5fav", "000000"]);
    assert_eq!(found.find("Q69G5FAV").unwrap(), ids[0].parse().unwrap());
    for none in ["", "..", "q69g5fav/", "%2e%2e"] {
        assert!(matches!(found.find(none), Err(ArchiveError::NotFound { .. })), "{none}");
    }
    for (several, number) in [("69g5fav", 2), ("01ARZ", 3)] {
        let why = found.find(several).unwrap_err();
        assert!(matches!(why, ArchiveError::Ambiguous { count, .. } if count == number), "{why}");
    }
}

#[test]
fn a_row_must_satisfy_every_condition() {
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let found = snapshot(vec![header(id, "Büffer pool", &[("host", "db7"), ("note", "a b")])]);
    let of =
        |snapshot: &Snapshot, wanted: &Wanted| snapshot.rows.iter().filter(|row| wanted.takes(row)).count();
    let count = |wanted: Wanted| of(&found, &wanted);
    let words = |words: &[&str]| Wanted {
        words: words.iter().map(|word| word.to_lowercase()).collect(),
        ..Wanted::default()
    };
    assert_eq!([words(&["BÜFFER", "db7"]), words(&["pool", "db8"]), words(&[])].map(count), [1, 0, 1]);
    let label = |name: &str, value: Option<&str>| Wanted {
        labels: vec![(name.to_owned(), value.map(str::to_owned))],
        ..Wanted::default()
    };
    assert_eq!([label("host", None), label("host", Some("db")), label("hos", None)].map(count), [1, 0, 0]);
    let tagged = Note::new(["slow".to_owned()], "Why is this SLOW").unwrap();
    let mut noted = found.clone();
    noted.rows[0] = Arc::new(found.rows[0].with(tagged));
    let of = |wanted: Wanted| of(&noted, &wanted);
    let tag = |tag: &str| Wanted { tags: vec![tag.to_owned()], ..Wanted::default() };
    assert_eq!([of(tag("slow")), of(tag("slo")), of(words(&["why"])), count(tag("slow"))], [1, 0, 1, 0]);
    let days = |since: &str, until: &str| Wanted {
        since: Some(since.to_owned()),
        until: Some(until.to_owned()),
        ..Wanted::default()
    };
    assert_eq!(
        [
            days("2025-11-24", "2025-11-24"),
            days("2025-11-25", "2026-01-01"),
            days("2025-01-01", "2025-11-23")
        ]
        .map(count),
        [1, 0, 0]
    );
}

#[test]
fn a_run_is_found_by_its_machine_target_and_factors() {
    let folder = tempfile::tempdir().unwrap();
    let listing = Listing::new(Archive::open(folder.path()).unwrap()).unwrap();
    let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
    let mut rows = snapshot(vec![
        header("01ARZ3NDEKTSV4RRFFQ69G5FAV", "t", &[]),
        header("01ARZ3NDEKTSV4RRFFQ6000000", "t", &[]),
    ]);
    Arc::make_mut(&mut rows.rows[0]).traits = Traits {
        machine: Some("db7".to_owned()),
        targets: words(&["mysql://app@h/bench"]),
        factors: [("pool".to_owned(), words(&["1G", "2G"]))].into(),
    };
    // The other one is unknown, which matches nothing. Nothing is read.
    let has = |wanted: Wanted| {
        let selected = listing.select(&rows, &wanted, &OneWorse, &mut || unreachable!("it is in the index"));
        assert!(selected.rows.len() < 2 && selected.unread == 0, "{wanted:?}");
        selected.rows.len() == 1
    };
    let machine = |name: &str| Wanted { machine: Some(name.to_owned()), ..Wanted::default() };
    assert_eq!([machine("db7"), machine("db")].map(has), [true, false]);
    let target = |part: &str| Wanted { target: Some(part.to_owned()), ..Wanted::default() };
    assert_eq!([target("mysql:"), target("redis:")].map(has), [true, false]);
    let factor = |name: &str, level: Option<&str>| Wanted {
        factors: vec![(name.to_owned(), level.map(str::to_owned))],
        ..Wanted::default()
    };
    let asked =
        [factor("pool", None), factor("pool", Some("2G")), factor("pool", Some("4G")), factor("x", None)];
    assert_eq!(asked.map(has), [true, true, false, false]);
}

/// A run in the archive, measured on the machine `db7`.
fn stored(archive: &Archive) -> RunHeader {
    let anchor = WallAnchor::now();
    let begun = RunHeader::running(RunKind::Record, anchor, "t".to_owned(), String::new());
    let mut machine = record::environment::Environment::default();
    machine.facts.insert("host.name".to_owned(), Ok("db7".to_owned()));
    let writer = archive.begin(&begun).unwrap();
    let mut run = record::run::Run::unmeasured(begun, machine);
    run.header.state = RunState::Sealed;
    writer.seal(&run).unwrap();
    run.header
}

/// Number of rows that `wanted` selects, and of those that were not read.
///
/// - `left`: rows that may be read.
fn counts(listing: &Listing, rows: &Snapshot, wanted: &Wanted, mut left: u32) -> (usize, usize) {
    let mut may_read = || {
        let may = left > 0;
        left = left.saturating_sub(1);
        may
    };
    let selected = listing.select(rows, wanted, &OneWorse, &mut may_read);
    (selected.rows.len(), selected.unread)
}

#[test]
fn a_machine_is_found_without_a_reading_and_a_verdict_is_judged_once_for_all_servers() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let ids: Vec<RunId> = (0..3).map(|_| stored(&archive).id).collect();
    let listing = Listing::new(archive.clone()).unwrap();
    let wanted = Wanted { machine: Some("db7".to_owned()), ..Wanted::default() };
    assert_eq!(counts(&listing, &listing.snapshot(), &wanted, 0), (3, 0));
    // Only a bake-off that has ended has a verdict.
    let mut rows = Snapshot::clone(&listing.snapshot());
    let verdict = |verdict| Wanted { verdict: Some(verdict), ..Wanted::default() };
    assert_eq!(counts(&listing, &rows, &verdict(Verdict::Worse), 9), (0, 0));
    for row in &mut rows.rows {
        Arc::make_mut(row).header.kind = RunKind::Bakeoff;
    }
    let of = |word, left| counts(&listing, &rows, &verdict(word), left);
    // One that cannot be read now may match: it is read again, and not taken for one that does not.
    let run = archive.dir().join("runs").join(ids[1].to_string());
    fs::rename(&run, folder.path().join("away")).unwrap();
    assert_eq!([of(Verdict::Worse, 0), of(Verdict::Worse, 3)], [(0, 3), (2, 1)]);
    fs::rename(folder.path().join("away"), &run).unwrap();
    assert_eq!(
        [of(Verdict::Worse, 0), of(Verdict::Worse, 1), of(Verdict::Worse, 0)],
        [(2, 1), (3, 0), (3, 0)]
    );
    assert_eq!(of(Verdict::Better, 0), (0, 0));
    let next = Listing::new(archive.clone()).unwrap();
    assert_eq!(counts(&next, &rows, &verdict(Verdict::Worse), 0), (3, 0), "the index has them");
    // Another version judges again.
    archive.store_verdicts("0.0.0", &[(ids[0], BTreeSet::new())].into()).unwrap();
    let other = Listing::new(archive).unwrap();
    assert_eq!(counts(&other, &rows, &verdict(Verdict::Worse), 0), (2, 1));
}

/// Bytes that this thread has read; `None` if the kernel does not count them.
fn read_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

#[test]
fn an_own_change_shows_at_once_and_the_archive_is_not_read_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut ids: Vec<RunId> = (0..3).map(|_| stored(&archive).id).collect();
    ids.sort_unstable();
    let listing = Listing::new(archive.clone()).unwrap();
    let before = listing.snapshot();
    let note = Note::new(["slow".to_owned()], "why?").unwrap();
    let read_before = read_bytes();
    listing.change(ids[1], Some(note.clone()));
    listing.change(ids[2], None);
    if let (Some(before), Some(after)) = (read_before, read_bytes()) {
        assert!(after - before < 1_000, "{} bytes", after - before);
    }
    let tags = |snapshot: &Snapshot| -> Vec<(RunId, usize)> {
        snapshot.rows.iter().map(|row| (row.header.id, row.note.tags.len())).collect()
    };
    assert_eq!(tags(&listing.snapshot()), [(ids[1], 1), (ids[0], 0)]);
    assert!(listing.snapshot().rows[0].text.contains("why?"), "it is found by its words");
    // A reading that began before the changes does not undo them.
    listing.read_with(|_| {
        listing.change(ids[1], Some(note.clone()));
        listing.change(ids[2], None);
        Some(Snapshot::clone(&before))
    });
    assert_eq!(tags(&listing.snapshot()), [(ids[1], 1), (ids[0], 0)]);
}

#[test]
fn a_note_of_another_process_costs_no_reading_of_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut ids: Vec<RunId> = (0..3).map(|_| stored(&archive).id).collect();
    ids.sort_unstable();
    let old_enough = || std::thread::sleep(Duration::from_millis(150));
    old_enough();
    let listing = Listing::new(archive.clone()).unwrap();
    let old = listing.snapshot();
    assert!(old.stamp.is_some() && !is_of_notes(&archive, &old));
    let note = Note::new(["slow".to_owned()], "").unwrap();
    archive.set_note(ids[0], &note).unwrap();
    assert!(is_of_notes(&archive, &old));
    old_enough();
    listing.refresh_notes(stamp(&archive, &old.rows));
    let new = listing.snapshot();
    assert!(new.stamp.is_some() && new.stamp == stamp(&archive, &new.rows), "the next look reads nothing");
    assert_eq!(new.rows.last().unwrap().note, note);
    assert!(Arc::ptr_eq(&new.rows[0], &old.rows[0]), "the other rows stay");
    stored(&archive);
    assert!(!is_of_notes(&archive, &new), "a run has appeared");
}

#[test]
fn a_run_that_appears_is_found_by_the_next_look() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let listing = Listing::new(archive.clone()).unwrap();
    let old = listing.snapshot();
    assert_eq!(old.rows.len(), 0);
    // A folder that changed just now is never taken as known.
    assert!(old.stamp.is_none() || stamp(&archive, &old.rows) == old.stamp);
    fs::create_dir(folder.path().join("runs/01ARZ3NDEKTSV4RRFFQ69G5FAV")).unwrap();
    assert!(stamp(&archive, &old.rows).is_none() || stamp(&archive, &old.rows) != old.stamp);
    listing.refresh();
    assert_eq!(listing.snapshot().damaged, 1, "a folder without a manifest is damage");
}
