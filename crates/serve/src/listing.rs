//! The list of runs in memory, so a page of an archive of 20,000 runs needs no reading.
//!
//! A thread reads the archive again when its folders change. It rests after each reading in proportion to the
//! reading's time, so watching a large archive costs at most a twentieth of a CPU.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use analysis::Verdict;
use archive::{Archive, ArchiveError, Filter, Note};
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::run::{RunHeader, RunId, RunKind, RunState};

use crate::printer::Printer;
use crate::traits::{self, Known, Traits, is_judged};

/// Interval between two looks at the folders.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Rest after a reading, in times of its duration.
const REST: u64 = 20;
/// Time for which a request reads runs that a filter must know; the next request reads further ones.
const READ_TIME_NS: u64 = 1_000_000_000;
/// A folder that changed this recently may change again within the same tick of the file system's clock.
const RECENT_NS: u64 = 100_000_000;

/// A run in the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) header: RunHeader,
    pub(crate) short: String,
    pub(crate) note: Note,
    /// Title, command, id, labels, tags and note in lower case.
    text: String,
}

impl Row {
    /// A run that is not in the list: one of a bake-off.
    pub(crate) fn alone(header: RunHeader) -> Self {
        let short = header.id.to_string();
        row(header, short, Note::default())
    }
}

/// State of the archive at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Newest first; runs that are part of a bake-off are left out.
    pub(crate) rows: Vec<Row>,
    /// Number of unreadable folders.
    pub(crate) damaged: usize,
    stamp: Stamp,
}

/// Times at which the folders changed, and the lengths of journals that are still written. `None` if the list
/// may differ from the archive all the same.
type Stamp = Option<([i128; 3], u64)>;

/// Rows that a request selects.
#[derive(Debug, Default)]
pub(crate) struct Selected<'a> {
    /// Newest first.
    pub(crate) rows: Vec<&'a Row>,
    /// Runs that may belong to them, but were not read: a request reads only so many, and some are
    /// unreadable.
    pub(crate) unread: usize,
}

/// Selection of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) kind: Option<RunKind>,
    pub(crate) state: Option<RunState>,
    /// Words that must all occur.
    pub(crate) words: Vec<String>,
    /// Labels: a name, and optionally a value.
    pub(crate) labels: Vec<(String, Option<String>)>,
    /// Tags that the run must have.
    pub(crate) tags: Vec<String>,
    /// Name of the machine.
    pub(crate) machine: Option<String>,
    /// Part of a target, in lower case.
    pub(crate) target: Option<String>,
    /// Factors: a name, and optionally a level.
    pub(crate) factors: Vec<(String, Option<String>)>,
    /// Verdict of one of its comparisons, of a bake-off that has ended.
    pub(crate) verdict: Option<Verdict>,
    /// First and last day, as text that sorts by time: `2026-11-25`.
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
}

/// The list, kept up to date.
#[derive(Debug)]
pub(crate) struct Listing {
    archive: Archive,
    current: Mutex<Arc<Snapshot>>,
    /// Time at which the list was as the archive, on the monotonic clock.
    known_ns: AtomicU64,
    traits: Known<Traits>,
    verdicts: Known<BTreeSet<String>>,
}

impl Listing {
    /// Reads the archive.
    pub(crate) fn new(archive: Archive) -> Result<Self, ArchiveError> {
        let known_ns = AtomicU64::new(Monotonic.now_ns());
        let current = Mutex::new(Arc::new(read(&archive)?));
        Ok(Self { archive, current, known_ns, traits: Known::default(), verdicts: Known::default() })
    }

    /// Makes the list look that much older.
    #[cfg(test)]
    pub(crate) fn age_by(&self, seconds: u64) {
        self.known_ns.fetch_sub(seconds * 1_000_000_000, Ordering::Relaxed);
    }

    /// Seconds since the list was last known to be as the archive: a large archive that changes is not read
    /// again at once.
    pub(crate) fn age_s(&self) -> u64 {
        Monotonic.now_ns().saturating_sub(self.known_ns.load(Ordering::Relaxed)) / 1_000_000_000
    }

    /// The latest state.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.lock().expect(LOCK).clone()
    }

    /// Reads the archive now: after a change of our own.
    pub(crate) fn refresh(&self) {
        let began_ns = Monotonic.now_ns();
        // An unreadable archive leaves the last state; the pages of its runs then say what is wrong.
        if let Ok(new) = read(&self.archive) {
            self.traits.keep(new.rows.iter().map(|row| &row.header));
            self.verdicts.keep(new.rows.iter().map(|row| &row.header).filter(|header| is_judged(header)));
            *self.current.lock().expect(LOCK) = Arc::new(new);
            self.known_ns.store(began_ns, Ordering::Relaxed);
        }
    }

    /// The rows that `wanted` selects, newest first.
    ///
    /// - `may_read`: asked before a run is read for its machine, target and factors, or judged.
    pub(crate) fn select<'a>(
        &self,
        snapshot: &'a Snapshot,
        wanted: &Wanted,
        printer: &dyn Printer,
        may_read: &mut dyn FnMut() -> bool,
    ) -> Selected<'a> {
        let mut selected = Selected::default();
        for row in snapshot.rows.iter().filter(|row| wanted.takes(row)) {
            let has_traits = !wanted.needs_traits() || {
                let read = || traits::traits(&self.archive, row.header.id).ok();
                let Some(found) = self.traits.of(&row.header, may_read, read) else {
                    selected.unread += 1;
                    continue;
                };
                wanted.has_traits(&found)
            };
            let has_verdict = match wanted.verdict {
                None => true,
                Some(verdict) if has_traits => {
                    let read = || traits::verdicts(printer, &self.archive, row.header.id).ok();
                    let Some(found) = self.verdicts.of(&row.header, may_read, read) else {
                        selected.unread += 1;
                        continue;
                    };
                    found.contains(verdict.word())
                }
                Some(_) => false,
            };
            if has_traits && has_verdict {
                selected.rows.push(row);
            }
        }
        selected
    }

    /// Follows the archive until `is_over`.
    pub(crate) fn follow(&self, is_over: impl Fn() -> bool) {
        let mut next_ns = 0;
        while !is_over() {
            std::thread::sleep(LOOK_EVERY);
            let old = self.snapshot();
            let began_ns = Monotonic.now_ns();
            if old.stamp.is_some() && stamp(&self.archive, &old.rows) == old.stamp {
                self.known_ns.store(began_ns, Ordering::Relaxed);
                continue;
            }
            if began_ns < next_ns {
                continue;
            }
            self.refresh();
            next_ns = Monotonic.now_ns() + REST * (Monotonic.now_ns() - began_ns);
        }
    }
}

/// Limit of the runs that a request reads: the time since now.
pub(crate) fn for_a_while() -> impl FnMut() -> bool {
    let until_ns = Monotonic.now_ns() + READ_TIME_NS;
    move || Monotonic.now_ns() < until_ns
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Snapshot {
    /// The run that `text` names: an id, a unique beginning, or a short name. Runs of a bake-off are not in
    /// the list; only their whole id names them.
    pub(crate) fn find(&self, text: &str) -> Option<RunId> {
        let name = text.to_ascii_uppercase();
        if let Ok(id) = name.parse::<RunId>()
            && id.to_string() == name
        {
            return Some(id);
        }
        let mut named = self.rows.iter().filter(|row| !name.is_empty() && row.header.id.is_named(&name));
        let found = named.next()?;
        named.next().is_none().then_some(found.header.id)
    }
}

impl Wanted {
    /// Whether the runs themselves must be read, once.
    pub(crate) fn needs_traits(&self) -> bool {
        self.machine.is_some() || self.target.is_some() || !self.factors.is_empty()
    }

    fn has_traits(&self, traits: &Traits) -> bool {
        let has_factor = |(name, level): &(String, Option<String>)| {
            let levels = traits.factors.get(name);
            levels.is_some_and(|levels| level.as_ref().is_none_or(|level| levels.contains(level)))
        };
        self.machine.as_ref().is_none_or(|name| traits.machine.as_ref() == Some(name))
            && self
                .target
                .as_ref()
                .is_none_or(|part| traits.targets.iter().any(|target| target.contains(part)))
            && self.factors.iter().all(has_factor)
    }

    fn takes(&self, row: &Row) -> bool {
        let header = &row.header;
        let has_label = |(name, value): &(String, Option<String>)| {
            header.labels.get(name).is_some_and(|found| value.as_ref().is_none_or(|value| found == value))
        };
        let day = || crate::view::day(header.anchor.unix_ns);
        self.kind.is_none_or(|kind| header.kind == kind)
            && self.state.is_none_or(|state| header.state == state)
            && (self.verdict.is_none() || is_judged(header))
            && self.labels.iter().all(has_label)
            && self.tags.iter().all(|tag| row.note.tags.contains(tag))
            && self.words.iter().all(|word| row.text.contains(word))
            && self.since.as_ref().is_none_or(|since| day() >= *since)
            && self.until.as_ref().is_none_or(|until| day() <= *until)
    }
}

fn read(archive: &Archive) -> Result<Snapshot, ArchiveError> {
    // The stamp first: a change during the reading is found by the next look.
    let before = folders(archive);
    let listed = archive.list(&Filter { part_of: archive::PartOf::Nothing, ..Filter::default() })?;
    let headers: Vec<RunHeader> = listed.into_iter().map(|listed| listed.header).collect();
    let shorts = short_names(&headers);
    let mut notes = archive.notes();
    let noted = headers.into_iter().map(|header| (notes.remove(&header.id).unwrap_or_default(), header));
    let rows: Vec<Row> = noted.zip(shorts).map(|((note, header), short)| row(header, short, note)).collect();
    let stamp =
        before.filter(|_| are_held(archive, &rows)).map(|folders| (folders, journals(archive, &rows)));
    Ok(Snapshot { stamp, rows, damaged: archive.damage()?.len() })
}

fn row(header: RunHeader, short: String, note: Note) -> Row {
    let labels = header.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let parts = [header.title.clone(), header.command.clone(), header.id.to_string(), note.text.clone()];
    let parts = parts.into_iter().chain(labels).chain(note.tags.iter().cloned());
    let text = parts.collect::<Vec<_>>().join("\n").to_lowercase();
    Row { header, short, note, text }
}

/// Shortest ends of the ids that no other run of the list has.
fn short_names(headers: &[RunHeader]) -> Vec<String> {
    let mut names = vec![String::new(); headers.len()];
    let mut left: Vec<usize> = (0..headers.len()).collect();
    for length in RunId::SHORT_MIN..=RunId::LENGTH {
        let mut counts: HashMap<String, u32> = HashMap::new();
        for &at in &left {
            *counts.entry(headers[at].id.short(length)).or_default() += 1;
        }
        left.retain(|&at| {
            let name = headers[at].id.short(length);
            let is_unique = counts[&name] == 1;
            if is_unique {
                names[at] = name.to_ascii_lowercase();
            }
            !is_unique
        });
    }
    names
}

fn stamp(archive: &Archive, rows: &[Row]) -> Stamp {
    folders(archive).filter(|_| are_held(archive, rows)).map(|folders| (folders, journals(archive, rows)))
}

/// Whether a living process measures each run that the list shows as running. A kill changes no folder and no
/// journal, and frees the lock.
fn are_held(archive: &Archive, rows: &[Row]) -> bool {
    let mut running = rows.iter().filter(|row| row.header.state == RunState::Running);
    running.all(|row| archive.is_held(row.header.id) || archive.measured_now(row.header.id).is_some())
}

/// Times at which the folders changed; `None` if one changed just now.
fn folders(archive: &Archive) -> Option<[i128; 3]> {
    let now_ns = i128::from(WallAnchor::now().unix_ns);
    let changed = |name: &str| -> Option<i128> {
        let found = match fs::metadata(archive.dir().join(name)) {
            // An archive without notes has no such folder.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && name == "notes" => return Some(0),
            found => found.ok()?,
        };
        let at_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        (at_ns + i128::from(RECENT_NS) < now_ns).then_some(at_ns)
    };
    Some([changed("runs")?, changed("bakeoffs")?, changed("notes")?])
}

/// Sum over the journals that can still grow: a change of any shows.
fn journals(archive: &Archive, rows: &[Row]) -> u64 {
    let can_grow = |state| matches!(state, RunState::Running | RunState::Interrupted | RunState::Abandoned);
    let length = |folder: &Path| fs::metadata(folder.join("events.jsonl")).map_or(0, |found| found.len());
    let open = rows.iter().filter(|row| can_grow(row.header.state));
    open.map(|row| length(&archive.bakeoff_dir(row.header.id))).sum()
}

#[cfg(test)]
mod tests {
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
        fn document(&self, _: &Archive, _: RunId) -> Result<Value, PrintError> {
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
            rows: headers.into_iter().zip(shorts).map(|(h, short)| row(h, short, Note::default())).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn short_names_are_unique_even_if_the_ends_are_alike() {
        let ids = ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFA69G5FAV", "01ARZ3NDEKTSV4RRFFQ6000000"];
        let found = snapshot(ids.iter().map(|id| header(id, "t", &[])).collect());
        let names: Vec<&str> = found.rows.iter().map(|row| row.short.as_str()).collect();
        assert_eq!(names, ["q69g5fav", "a69g5fav", "000000"]);
        assert_eq!(found.find("Q69G5FAV"), Some(ids[0].parse().unwrap()));
        for none in ["69g5fav", "", "..", "01ARZ", "q69g5fav/", "%2e%2e"] {
            assert_eq!(found.find(none), None, "{none}");
        }
    }

    #[test]
    fn a_row_must_satisfy_every_condition() {
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let found = snapshot(vec![header(id, "Büffer pool", &[("host", "db7"), ("note", "a b")])]);
        let of = |snapshot: &Snapshot, wanted: &Wanted| {
            snapshot.rows.iter().filter(|row| wanted.takes(row)).count()
        };
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
        assert_eq!(
            [label("host", None), label("host", Some("db")), label("hos", None)].map(count),
            [1, 0, 0]
        );
        let tagged = Note::new(["slow".to_owned()], "Why is this SLOW").unwrap();
        let mut noted = found.clone();
        noted.rows[0] = row(found.rows[0].header.clone(), String::new(), tagged);
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
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
        let traits = Traits {
            machine: Some("db7".to_owned()),
            targets: words(&["mysql://app@h/bench"]),
            factors: [("pool".to_owned(), words(&["1G", "2G"]))].into(),
        };
        let has = |wanted: Wanted| wanted.has_traits(&traits);
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
        assert!(!machine("db7").has_traits(&Traits::default()), "what is unknown matches nothing");
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

    #[test]
    fn a_run_that_was_not_read_is_counted_and_read_by_the_next_request() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let listing = Listing::new(archive.clone()).unwrap();
        let headers: Vec<RunHeader> = (0..3).map(|_| stored(&archive)).collect();
        let rows = snapshot(headers.clone());
        let wanted = Wanted { machine: Some("db7".to_owned()), ..Wanted::default() };
        let counts = |rows: &Snapshot, wanted: &Wanted, mut left: u32| {
            let mut may_read = || {
                let may = left > 0;
                left = left.saturating_sub(1);
                may
            };
            let selected = listing.select(rows, wanted, &OneWorse, &mut may_read);
            (selected.rows.len(), selected.unread)
        };
        // One that cannot be read now may match: it is read again, and not taken for one that does not.
        let run = archive.dir().join("runs").join(headers[2].id.to_string());
        fs::rename(&run, folder.path().join("away")).unwrap();
        assert_eq!([2, 2, 0].map(|left| counts(&rows, &wanted, left)), [(2, 1), (2, 1), (2, 1)]);
        fs::rename(folder.path().join("away"), &run).unwrap();
        assert_eq!([0, 1, 0].map(|left| counts(&rows, &wanted, left)), [(2, 1), (3, 0), (3, 0)]);
        assert_eq!(counts(&rows, &Wanted::default(), 0), (3, 0));
        // Only a bake-off that has ended has a verdict.
        let mut rows = rows.clone();
        rows.rows[0].header.kind = RunKind::Bakeoff;
        let verdict = |verdict| Wanted { verdict: Some(verdict), ..Wanted::default() };
        let asked = [(Verdict::Worse, 0), (Verdict::Worse, 1), (Verdict::Better, 0)];
        let found = asked.map(|(word, left)| counts(&rows, &verdict(word), left));
        assert_eq!(found, [(0, 1), (1, 0), (0, 0)]);
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
}
