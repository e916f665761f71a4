//! Comparison of stored data with their checksums.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::bakeoff::TrialState;
use record::histogram::Histogram;
use record::run::RunId;
use record::series::LatencyKind;

use crate::catalog::{self, reason};
use crate::disk::Place;
use crate::error::ArchiveError;
use crate::schema::manifest::StoredFile;
use crate::writer::{HISTOGRAMS, MANIFEST, MANIFEST_SUM};
use crate::{Archive, bakeoff, checksum, copies, disk, reader, series};

/// Result for one run, one bake-off, or a foreign file in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Name; `None` for a foreign file.
    pub id: Option<RunId>,
    /// Folder.
    pub path: PathBuf,
    /// Number of files that were read.
    pub files: usize,
    /// Problems; empty if all is well.
    pub problems: Vec<Problem>,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File or folder.
    pub path: PathBuf,
    /// Problem with it.
    pub what: String,
}

/// Result of rebuilding the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reindexed {
    /// Runs and bake-offs in it.
    pub entries: usize,
    /// Whether the index equals the previous one; `None` if that was missing or unreadable.
    pub same: Option<bool>,
    /// Unreadable folders, which the index lacks.
    pub damaged: Vec<crate::Damage>,
    /// Leftovers of dead processes that were removed.
    pub swept: Vec<PathBuf>,
}

impl Archive {
    /// Reads every file of the given runs and bake-offs, or of all if the list is empty, and compares
    /// checksums.
    ///
    /// Finds any changed byte, and any missing or extra file. Whole lines that a bake-off's journal lost at
    /// its very end cannot be detected; those trials read as abandoned.
    ///
    /// # Errors
    ///
    /// The folders themselves cannot be read, or a name does not exist.
    pub fn verify(&self, ids: &[RunId]) -> Result<Vec<Verified>, ArchiveError> {
        if ids.is_empty() {
            return self.verify_all();
        }
        ids.iter().map(|id| self.verify_one(*id)).collect()
    }

    /// Rebuilds the index from the folders.
    ///
    /// # Errors
    ///
    /// The folders cannot be read or changed.
    pub fn reindex(&self) -> Result<Reindexed, ArchiveError> {
        let swept = self.sweep()?.folders;
        let (before, after) = catalog::rebuild(&self.tree)?;
        let entries = catalog::with(&self.tree, |index| Ok(index.headers()?.len()))?;
        Ok(Reindexed { entries, same: before.map(|b| b == after), damaged: self.damage()?, swept })
    }

    /// The index as text, in a fixed order: equal runs give equal texts.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn index_dump(&self) -> Result<String, ArchiveError> {
        catalog::with(&self.tree, catalog::Catalog::dump)
    }

    fn verify_all(&self) -> Result<Vec<Verified>, ArchiveError> {
        // Leftovers of dead processes are not damage; those that cannot be removed are reported below.
        let _ = self.sweep();
        let mut found = Vec::new();
        let (bakeoffs, runs) = (disk::places(&self.tree.bakeoffs())?, disk::places(&self.tree.runs())?);
        for (path, place) in bakeoffs.into_iter().chain(runs) {
            match place {
                Place::Whole(id) => found.push(self.verify_one(id)?),
                // A living process is writing it.
                Place::Partial(_) => {}
                Place::Removed(_) | Place::Stray => {
                    let what = "it is neither a run nor a bake-off".to_owned();
                    let problems = vec![Problem { path: path.clone(), what }];
                    found.push(Verified { id: None, path, files: 0, problems });
                }
            }
        }
        Ok(found)
    }

    fn verify_one(&self, id: RunId) -> Result<Verified, ArchiveError> {
        let (run, whole) = (self.tree.run(id), self.tree.bakeoff(id));
        if run.is_dir() {
            return Ok(self.verify_run(id, &run));
        }
        if whole.is_dir() {
            return Ok(self.verify_bakeoff(id, &whole));
        }
        Err(ArchiveError::NotFound { text: id.to_string() })
    }

    pub(crate) fn verify_run(&self, id: RunId, folder: &Path) -> Verified {
        let mut look = Inspection::new(folder);
        if let Some(stored) = look.note(MANIFEST, reader::read_manifest(folder, id)) {
            look.compare(&stored.manifest.files, &[MANIFEST, MANIFEST_SUM]);
            if look.problems.is_empty() {
                look.note(MANIFEST, self.agrees_with_itself(id, folder));
            }
        }
        look.into_verified(id)
    }

    /// Checks that everything is readable, and that both stored forms of the distributions agree.
    fn agrees_with_itself(&self, id: RunId, folder: &Path) -> Result<(), ArchiveError> {
        let run = self.run(id)?;
        let Some(load) = &run.load else { return Ok(()) };
        let stored = reader::read_manifest(folder, id)?;
        let bytes = reader::checked(folder, &stored.manifest, HISTOGRAMS)?;
        let rows = series::read_histogram_sums(&bytes).map_err(reader::in_file(folder, HISTOGRAMS))?;
        let mut sums = BTreeMap::<(String, LatencyKind), Histogram>::new();
        for slice in load.slices.iter().filter(|s| !s.histogram.is_empty()) {
            let sum = sums.entry((slice.operation.clone(), slice.kind)).or_default();
            slice.histogram.buckets().for_each(|(lowest_ns, n)| sum.record_n(lowest_ns, n));
        }
        if sums.into_iter().map(|((op, kind), sum)| (op, kind, sum)).eq(rows) {
            return Ok(());
        }
        Err(ArchiveError::damaged(
            &folder.join(HISTOGRAMS),
            "its sums differ from the histograms in the .hlog file",
        ))
    }

    pub(crate) fn verify_bakeoff(&self, id: RunId, folder: &Path) -> Verified {
        use bakeoff::{EVENTS, ORDER, ORDER_SUM};
        let mut look = Inspection::new(folder);
        if let Some(bakeoff::StoredOrder { order, damage }) = look.note(ORDER, bakeoff::read_order(folder)) {
            for damage in damage {
                look.problem(if damage.starts_with(ORDER_SUM) { ORDER_SUM } else { ORDER }, &damage);
            }
            let copy = copies::name_of(ORDER);
            look.compare(&order.files, &[ORDER, ORDER_SUM, EVENTS, &copy]);
            let differs = || disk::read(&folder.join(ORDER)).ok() != disk::read(&folder.join(&copy)).ok();
            if look.problems.is_empty() && bakeoff::has_copies(&order) && differs() {
                look.problem(&copy, &format!("it differs from {ORDER}"));
            }
            let named = order.header.read().map(|h| h.id);
            if named != Ok(id) {
                look.problem(ORDER, "it belongs to another bake-off");
            }
        }
        if let Some(told) = look.note(EVENTS, bakeoff::read_journal(folder)) {
            if let Some(damage) = &told.damage {
                look.problem(EVENTS, damage);
            }
            if told.torn_bytes > 0 && !bakeoff::is_running(folder) {
                look.problem(EVENTS, "its last line is incomplete; the next `bakeoff resume` removes it");
            }
            let story = bakeoff::story(&told.events, false);
            for run in story.attempts.iter().filter_map(|a| a.run).filter(|run| !self.tree.run(*run).is_dir())
            {
                look.problem(EVENTS, &format!("it names run {run}, which is not in the archive"));
            }
            let mut sealed: Vec<u32> =
                story.attempts.iter().filter(|a| a.state == TrialState::Sealed).map(|a| a.trial).collect();
            sealed.sort_unstable();
            for twice in sealed.windows(2).filter(|w| w[0] == w[1]) {
                look.problem(EVENTS, &format!("trial {} is sealed more than once", twice[0]));
            }
        }
        look.into_verified(id)
    }
}

/// One folder under examination.
struct Inspection<'a> {
    folder: &'a Path,
    files: usize,
    problems: Vec<Problem>,
}

impl<'a> Inspection<'a> {
    fn new(folder: &'a Path) -> Self {
        Self { folder, files: 0, problems: Vec::new() }
    }

    fn problem(&mut self, name: &str, what: &str) {
        self.problems.push(Problem { path: self.folder.join(name), what: what.to_owned() });
    }

    /// Returns the value, or records a problem with the file.
    fn note<T>(&mut self, name: &str, result: Result<T, ArchiveError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(ArchiveError::Damaged { path, what }) => {
                self.problems.push(Problem { path, what });
                None
            }
            Err(ArchiveError::Unreadable { path, source }) => {
                self.problems.push(Problem { path, what: source.to_string() });
                None
            }
            Err(e) => {
                self.problem(name, &reason(&e));
                None
            }
        }
    }

    /// Compares the folder with the list of its files and with those that every such folder has.
    fn compare(&mut self, listed: &[StoredFile], always: &[&str]) {
        for file in listed {
            let path = self.folder.join(&file.name);
            let found = disk::open(&path).and_then(|mut f| match f.metadata()?.len() {
                bytes if bytes == file.bytes => checksum::of_all(&mut f),
                bytes => Ok((String::new(), bytes)),
            });
            if let Some((sha256, bytes)) = self.note(&file.name, found.map_err(ArchiveError::reading(&path)))
            {
                self.files += 1;
                if bytes != file.bytes {
                    self.problem(&file.name, &format!("it has {bytes} bytes, expected {}", file.bytes));
                } else if sha256 != file.sha256 {
                    self.problem(&file.name, "it does not match its checksum");
                }
            }
        }
        for name in self.note("", disk::names(self.folder)).unwrap_or_default() {
            if always.contains(&name.as_str()) {
                self.files += 1;
            } else if !listed.iter().any(|f| f.name == name) {
                self.problem(&name, "unexpected file");
            }
        }
    }

    fn into_verified(self, id: RunId) -> Verified {
        Verified { id: Some(id), path: self.folder.to_owned(), files: self.files, problems: self.problems }
    }
}
