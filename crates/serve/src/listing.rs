//! The list of runs in memory, so a page of an archive of 20,000 runs needs no reading.
//!
//! A thread reads the archive again when its folders change. It rests after each reading in proportion to the
//! reading's time, so watching a large archive costs at most a twentieth of a CPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use analysis::Verdict;
use archive::{Archive, ArchiveError, Filter, Note, Traits};
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::run::{RunHeader, RunId, RunKind, RunState};

use crate::printer::Printer;
use crate::traits::{self, Known, is_bakeoff, is_judged, is_verdict};

/// Interval between two looks at the folders.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Rest after a reading, in times of its duration.
const REST: u64 = 20;
/// Time for which a request reads runs that a filter must know; the next request reads further ones.
const READ_TIME_NS: u64 = 1_000_000_000;
/// Version that judges bake-offs.
const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");
/// A folder that changed this recently may change again within the same tick of the file system's clock.
const RECENT_NS: u64 = 100_000_000;

/// Runs that the answer to an ambiguous name lists.
const AMBIGUOUS_SHOWN: usize = 3;

/// A run in the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) header: RunHeader,
    pub(crate) short: String,
    pub(crate) traits: Traits,
    pub(crate) note: Note,
    /// Title, command, id, labels, tags and note in lower case.
    text: String,
}

impl Row {
    /// A run that is not in the list: one of a bake-off.
    pub(crate) fn alone(header: RunHeader) -> Self {
        let short = header.id.to_string();
        row(header, short, Traits::default(), Note::default())
    }

    /// The row with another note.
    fn with(&self, note: Note) -> Self {
        row(self.header.clone(), self.short.clone(), self.traits.clone(), note)
    }
}

/// State of the archive at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Newest first; runs that are part of a bake-off are left out.
    pub(crate) rows: Vec<Arc<Row>>,
    /// Rows of runs that may change. The server looks at them each second.
    open: Vec<Arc<Row>>,
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

/// A change that this server has made: the new note of a run, or `None` if the run was removed.
type OwnChange = (RunId, Option<Note>);

/// The list, kept up to date.
#[derive(Debug)]
pub(crate) struct Listing {
    archive: Archive,
    current: Mutex<Arc<Snapshot>>,
    /// Own changes since the last reading began, which it may lack. Taken before `current`.
    changes: Mutex<Vec<OwnChange>>,
    /// Time at which the list was as the archive, on the monotonic clock.
    known_ns: AtomicU64,
    /// Targets of bake-offs without a run.
    planned: Known<BTreeSet<String>>,
    verdicts: Known<BTreeSet<String>>,
}

impl Listing {
    /// Reads the archive.
    pub(crate) fn new(archive: Archive) -> Result<Self, ArchiveError> {
        let known_ns = AtomicU64::new(Monotonic.now_ns());
        let current = Mutex::new(Arc::new(read(&archive)?));
        let (changes, planned, verdicts) =
            (Mutex::default(), Known::default(), Known::<BTreeSet<String>>::default());
        // Without those of an earlier server, each bake-off is judged again.
        let stored = archive.verdicts(TOOL_VERSION).unwrap_or_default();
        verdicts.learn(stored.into_iter().filter(|(_, words)| words.iter().all(|word| is_verdict(word))));
        Ok(Self { archive, current, changes, known_ns, planned, verdicts })
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

    /// Shows an own change without reading the archive.
    ///
    /// - `note`: new note of the run; `None` if the run was removed.
    pub(crate) fn change(&self, id: RunId, note: Option<Note>) {
        let mut changes = self.changes.lock().expect(LOCK);
        let mut current = self.current.lock().expect(LOCK);
        let mut new = Snapshot::clone(&current);
        new.change(id, note.as_ref());
        *current = Arc::new(new);
        changes.push((id, note));
    }

    /// Reads the archive now.
    pub(crate) fn refresh(&self) {
        // An unreadable archive leaves the last state; the pages of its runs then say what is wrong.
        self.read_with(|archive| read(archive).ok());
        let snapshot = self.snapshot();
        self.planned.keep(snapshot.rows.iter().map(|row| &row.header).filter(|header| is_bakeoff(header)));
        self.verdicts.keep(snapshot.rows.iter().map(|row| &row.header).filter(|header| is_judged(header)));
    }

    /// Reads the notes now. Nothing else has changed.
    ///
    /// - `stamp`: state of the folders before the reading.
    fn refresh_notes(&self, stamp: Stamp) {
        self.read_with(|archive| {
            let (old, mut notes) = (self.snapshot(), archive.notes());
            let renew = |row: &Arc<Row>| match notes.remove(&row.header.id).unwrap_or_default() {
                note if note == row.note => row.clone(),
                note => Arc::new(row.with(note)),
            };
            let (rows, open, damaged) = (old.rows.iter().map(renew).collect(), old.open.clone(), old.damaged);
            Some(Snapshot { rows, open, damaged, stamp })
        });
    }

    /// Takes a new state, with the own changes that were made during its reading.
    fn read_with(&self, read: impl FnOnce(&Archive) -> Option<Snapshot>) {
        let began_ns = Monotonic.now_ns();
        self.changes.lock().expect(LOCK).clear();
        let Some(mut new) = read(&self.archive) else { return };
        let mut changes = self.changes.lock().expect(LOCK);
        for (id, note) in changes.drain(..) {
            new.change(id, note.as_ref());
        }
        *self.current.lock().expect(LOCK) = Arc::new(new);
        self.known_ns.store(began_ns, Ordering::Relaxed);
    }

    /// The rows that `wanted` selects, newest first.
    ///
    /// - `may_read`: asked before the plan of a bake-off is read for its targets, or before it is judged.
    pub(crate) fn select<'a>(
        &self,
        snapshot: &'a Snapshot,
        wanted: &Wanted,
        printer: &dyn Printer,
        may_read: &mut dyn FnMut() -> bool,
    ) -> Selected<'a> {
        let (mut selected, mut judged) = (Selected::default(), BTreeMap::new());
        for row in snapshot.rows.iter().filter(|row| wanted.takes(row)) {
            let has_all = match self.has_target(row, wanted, may_read) {
                Some(true) => self.has_verdict(row, wanted, may_read, |id| {
                    let found = traits::verdicts(printer, &self.archive, id).ok()?;
                    judged.insert(id, found.clone());
                    Some(found)
                }),
                other => other,
            };
            match has_all {
                Some(true) => selected.rows.push(row),
                Some(false) => {}
                None => selected.unread += 1,
            }
        }
        if !judged.is_empty() {
            // Those that cannot be stored are judged again by the next server.
            let _ = self.archive.store_verdicts(TOOL_VERSION, &judged);
        }
        selected
    }

    /// Whether a row has the target; `None` if it was not read.
    fn has_target(&self, row: &Row, wanted: &Wanted, may_read: &mut dyn FnMut() -> bool) -> Option<bool> {
        let Some(part) = &wanted.target else { return Some(true) };
        let has_part = |all: &BTreeSet<String>| all.iter().any(|target| target.contains(part));
        if !row.traits.targets.is_empty() || !is_bakeoff(&row.header) {
            return Some(has_part(&row.traits.targets));
        }
        let read = || traits::planned_targets(&self.archive, row.header.id).ok();
        self.planned.of(&row.header, may_read, read).map(|planned| has_part(&planned))
    }

    /// Whether a row has the verdict; `None` if it was not judged.
    fn has_verdict(
        &self,
        row: &Row,
        wanted: &Wanted,
        may_read: &mut dyn FnMut() -> bool,
        judge: impl FnOnce(RunId) -> Option<BTreeSet<String>>,
    ) -> Option<bool> {
        let Some(verdict) = wanted.verdict else { return Some(true) };
        let found = self.verdicts.of(&row.header, may_read, || judge(row.header.id));
        found.map(|found| found.contains(verdict.word()))
    }

    /// Follows the archive until `is_over`.
    pub(crate) fn follow(&self, is_over: impl Fn() -> bool) {
        let mut next_ns = 0;
        while !is_over() {
            std::thread::sleep(LOOK_EVERY);
            let old = self.snapshot();
            let began_ns = Monotonic.now_ns();
            let now = stamp(&self.archive, &old.open);
            if old.stamp.is_some() && now == old.stamp {
                self.known_ns.store(began_ns, Ordering::Relaxed);
                continue;
            }
            if began_ns < next_ns {
                continue;
            }
            if is_of_notes(&self.archive, &old) {
                // The folder may change again within this moment: then the next look reads it.
                if now.is_some() {
                    self.refresh_notes(now);
                    next_ns = Monotonic.now_ns() + REST * (Monotonic.now_ns() - began_ns);
                }
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
    /// Shows the new note of a run, or that the run was removed.
    fn change(&mut self, id: RunId, note: Option<&Note>) {
        let Some(at) = self.rows.iter().position(|row| row.header.id == id) else { return };
        if let Some(note) = note {
            let new = self.rows[at].with(note.clone());
            self.rows[at] = Arc::new(new);
        } else {
            self.rows.remove(at);
            self.open.retain(|row| row.header.id != id);
        }
    }

    /// The run that `text` names: an id, a unique beginning, or a short name. Runs of a bake-off are not in
    /// the list; only their whole id names them.
    pub(crate) fn find(&self, text: &str) -> Result<RunId, ArchiveError> {
        let name = text.to_ascii_uppercase();
        if let Ok(id) = name.parse::<RunId>()
            && id.to_string() == name
        {
            return Ok(id);
        }
        let ids = self.rows.iter().map(|row| row.header.id);
        let named: Vec<RunId> = ids.filter(|id| !name.is_empty() && id.is_named(&name)).collect();
        let text = text.to_owned();
        match named[..] {
            [] => Err(ArchiveError::NotFound { text }),
            [id] => Ok(id),
            _ => {
                let first = named.iter().take(AMBIGUOUS_SHOWN).copied().collect();
                Err(ArchiveError::Ambiguous { text, count: named.len(), first })
            }
        }
    }
}

impl Wanted {
    /// Whether bake-offs may have to be read, once.
    pub(crate) fn may_read(&self) -> bool {
        self.target.is_some() || self.verdict.is_some()
    }

    fn takes(&self, row: &Row) -> bool {
        let header = &row.header;
        let has_label = |(name, value): &(String, Option<String>)| {
            header.labels.get(name).is_some_and(|found| value.as_ref().is_none_or(|value| found == value))
        };
        let has_factor = |(name, level): &(String, Option<String>)| {
            let levels = row.traits.factors.get(name);
            levels.is_some_and(|levels| level.as_ref().is_none_or(|level| levels.contains(level)))
        };
        let day = || crate::view::day(header.anchor.unix_ns);
        self.kind.is_none_or(|kind| header.kind == kind)
            && self.state.is_none_or(|state| header.state == state)
            && (self.verdict.is_none() || is_judged(header))
            && self.machine.as_ref().is_none_or(|name| row.traits.machine.as_ref() == Some(name))
            && self.factors.iter().all(has_factor)
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
    let part_of = archive::PartOf::Nothing;
    let listed = archive.list_with_traits(&Filter { part_of, ..Filter::default() })?;
    let (headers, traits): (Vec<RunHeader>, Vec<Traits>) =
        listed.into_iter().map(|(listed, traits)| (listed.header, traits)).unzip();
    let shorts = short_names(&headers);
    let mut notes = archive.notes();
    let rows = headers.into_iter().zip(shorts).zip(traits).map(|((header, short), traits)| {
        let note = notes.remove(&header.id).unwrap_or_default();
        Arc::new(row(header, short, traits, note))
    });
    let rows: Vec<Arc<Row>> = rows.collect();
    let open: Vec<Arc<Row>> = rows.iter().filter(|row| can_change(row.header.state)).cloned().collect();
    let stamp =
        before.filter(|_| are_held(archive, &open)).map(|folders| (folders, journals(archive, &open)));
    Ok(Snapshot { stamp, rows, open, damaged: archive.damage()?.len() })
}

fn row(header: RunHeader, short: String, traits: Traits, note: Note) -> Row {
    let labels = header.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let parts = [header.title.clone(), header.command.clone(), header.id.to_string(), note.text.clone()];
    let parts = parts.into_iter().chain(labels).chain(note.tags.iter().cloned());
    let text = parts.collect::<Vec<_>>().join("\n").to_lowercase();
    Row { header, short, traits, note, text }
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

fn stamp(archive: &Archive, rows: &[Arc<Row>]) -> Stamp {
    folders(archive).filter(|_| are_held(archive, rows)).map(|folders| (folders, journals(archive, rows)))
}

/// Whether a living process measures each run that the list shows as running. A kill changes no folder and no
/// journal, and frees the lock.
fn are_held(archive: &Archive, rows: &[Arc<Row>]) -> bool {
    let mut running = rows.iter().filter(|row| row.header.state == RunState::Running);
    running.all(|row| archive.is_held(row.header.id) || archive.is_measured_now(row.header.id))
}

/// Whether the archive differs from a state by its notes alone.
fn is_of_notes(archive: &Archive, old: &Snapshot) -> bool {
    let Some(([runs, bakeoffs, notes], grown)) = old.stamp else { return false };
    let is_same = times(archive).is_some_and(|now| now[..2] == [runs, bakeoffs] && now[2] != notes);
    is_same && are_held(archive, &old.open) && journals(archive, &old.open) == grown
}

/// Times at which the folders changed; `None` if one changed just now.
fn folders(archive: &Archive) -> Option<[i128; 3]> {
    let now_ns = i128::from(WallAnchor::now().unix_ns);
    times(archive).filter(|times| times.iter().all(|at_ns| at_ns + i128::from(RECENT_NS) < now_ns))
}

/// Times at which the folders of runs, bake-offs and notes changed.
fn times(archive: &Archive) -> Option<[i128; 3]> {
    let changed = |name: &str| -> Option<i128> {
        let found = match fs::metadata(archive.dir().join(name)) {
            // An archive without notes has no such folder.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && name == "notes" => return Some(0),
            found => found.ok()?,
        };
        Some(i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()))
    };
    Some([changed("runs")?, changed("bakeoffs")?, changed("notes")?])
}

/// Whether a process may write a run in that state, or continue it.
fn can_change(state: RunState) -> bool {
    matches!(state, RunState::Running | RunState::Interrupted | RunState::Abandoned)
}

/// Sum over the journals that can still grow: a change of any shows.
fn journals(archive: &Archive, rows: &[Arc<Row>]) -> u64 {
    let length = |folder: &Path| fs::metadata(folder.join("events.jsonl")).map_or(0, |found| found.len());
    let open = rows.iter().filter(|row| can_change(row.header.state));
    open.map(|row| length(&archive.bakeoff_dir(row.header.id))).sum()
}

#[cfg(test)]
mod tests;
