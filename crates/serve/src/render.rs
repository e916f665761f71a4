//! Pages of runs in memory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use archive::Archive;
use axum::body::Bytes;
use record::run::RunId;

use crate::printer::{PrintError, Printer};

/// Pages in memory, and their bytes. One has about 1.5 MB, but that of a large bake-off may have more.
const PAGES_MAX: usize = 16;
const PAGES_BYTES_MAX: usize = 12 << 20;

/// Pages that were rendered last.
#[derive(Debug)]
pub(crate) struct Cache {
    printer: Arc<dyn Printer>,
    pages: Mutex<VecDeque<Stored>>,
}

/// A page, with the state of the files that it was rendered from.
#[derive(Debug, Clone)]
struct Stored {
    id: RunId,
    folders: Vec<PathBuf>,
    stamp: Stamp,
    page: Bytes,
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Cache {
    pub(crate) fn new(printer: Arc<dyn Printer>) -> Self {
        Self { printer, pages: Mutex::default() }
    }

    /// The page of a run: from memory if the run has not changed, else rendered.
    pub(crate) fn page(&self, archive: &Archive, id: RunId) -> Result<Bytes, PrintError> {
        let known = self.pages.lock().expect(LOCK).iter().find(|known| known.id == id).cloned();
        if let Some(known) = known
            && stamp(archive, id, &known.folders).is_some_and(|now| now == known.stamp)
        {
            return Ok(known.page);
        }
        self.forget(id);
        let folders = folders(archive, id);
        // The stamp first: a change during the reading is found by the next request.
        let stamp = stamp(archive, id, &folders);
        let page: Bytes = self.printer.page(archive, id)?.into();
        if let Some(stamp) = stamp {
            let mut pages = self.pages.lock().expect(LOCK);
            pages.push_front(Stored { id, folders, stamp, page: page.clone() });
            pages.truncate(PAGES_MAX);
            while pages.iter().map(|stored| stored.page.len()).sum::<usize>() > PAGES_BYTES_MAX {
                pages.pop_back();
            }
        }
        Ok(page)
    }

    /// Forgets the page of a run.
    pub(crate) fn forget(&self, id: RunId) {
        self.pages.lock().expect(LOCK).retain(|known| known.id != id);
    }
}

/// Folders that a page shows: that of the run, or of the bake-off and the runs of its trials.
fn folders(archive: &Archive, id: RunId) -> Vec<PathBuf> {
    let run = |id: RunId| archive.dir().join("runs").join(id.to_string());
    if !archive.is_bakeoff(id) {
        return vec![run(id)];
    }
    let trials = archive.standing(id).map(|standing| standing.trials).unwrap_or_default();
    let runs = trials.into_iter().filter_map(|told| told.run).map(run);
    std::iter::once(archive.bakeoff_dir(id)).chain(runs).collect()
}

/// Whether a living process has the run, and the files of its folders.
type Stamp = (bool, Vec<File>);

/// A file, with its number, its length, and the time of its last change. A writer cannot set that time back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    name: OsString,
    inode: u64,
    bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

/// A value that differs when the run has changed, was removed or damaged; `None` if it is not there. Only the
/// lock of a bake-off's journal shows that its process was killed.
fn stamp(archive: &Archive, id: RunId, folders: &[PathBuf]) -> Option<Stamp> {
    let (first, others) = folders.split_first()?;
    let mut all = files(first).ok()?;
    for folder in others {
        // A trial without its run is an attempt that is damaged, and has a page.
        all.extend(files(folder).unwrap_or_default());
    }
    Some((archive.is_held(id), all))
}

fn files(folder: &Path) -> std::io::Result<Vec<File>> {
    let of = |entry: fs::DirEntry| {
        let found = entry.metadata()?;
        Ok(File {
            name: entry.file_name(),
            inode: found.ino(),
            bytes: found.len(),
            changed_s: found.ctime(),
            changed_ns: found.ctime_nsec(),
        })
    };
    let mut all = fs::read_dir(folder)?.map(|entry| of(entry?)).collect::<std::io::Result<Vec<File>>>()?;
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use archive::ArchiveError;
    use record::clock::WallAnchor;
    use record::environment::Environment;
    use record::run::{Run, RunHeader, RunKind, RunState};
    use serde_json::Value;

    use super::*;
    use crate::printer::{Histories, HistoryWanted};

    /// A printer of titles, which reads the run.
    #[derive(Debug, Default)]
    struct Titles(std::sync::atomic::AtomicU32);

    impl Printer for Titles {
        fn page(&self, archive: &Archive, id: RunId) -> Result<String, PrintError> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(archive.header(id)?.title)
        }
        fn document(&self, _: &Archive, _: RunId) -> Result<Value, PrintError> {
            unreachable!("only pages are rendered")
        }
        fn compare(&self, _: &Archive, _: &[RunId]) -> Result<Value, PrintError> {
            unreachable!("only pages are rendered")
        }
        fn history(&self, _: &Archive, _: &HistoryWanted) -> Result<Histories, PrintError> {
            unreachable!("only pages are rendered")
        }
    }

    fn stored(archive: &Archive, title: &str) -> RunId {
        let begun = RunHeader::running(RunKind::Record, WallAnchor::now(), title.to_owned(), String::new());
        let writer = archive.begin(&begun).unwrap();
        let mut run = Run::unmeasured(begun, Environment::default());
        run.header.state = RunState::Sealed;
        writer.seal(&run).unwrap();
        run.header.id
    }

    #[test]
    fn a_run_that_was_removed_or_damaged_is_not_served_from_memory() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let printer = Arc::new(Titles::default());
        let cache = Cache::new(printer.clone());
        let rendered = || printer.0.load(std::sync::atomic::Ordering::SeqCst);
        let [removed, damaged, other] = ["removed", "damaged", "other"].map(|title| stored(&archive, title));
        for id in [removed, damaged, other] {
            assert!(cache.page(&archive, id).is_ok() && cache.page(&archive, id).is_ok());
        }
        assert_eq!(rendered(), 3, "each from memory the second time");
        // Another process removes one, as `bakeoff runs rm` does.
        Archive::open(folder.path()).unwrap().remove(removed).unwrap();
        let page = cache.page(&archive, removed);
        assert!(matches!(&page, Err(PrintError::Archive(ArchiveError::NotFound { .. }))), "{page:?}");
        // A byte changes, and neither length nor time tells.
        let manifest = folder.path().join("runs").join(damaged.to_string()).join("manifest.json");
        let text = fs::read_to_string(&manifest).unwrap();
        let then = fs::metadata(&manifest).unwrap().modified().unwrap();
        fs::write(&manifest, text.replace("\"damaged\"", "\"Damaged\"")).unwrap();
        fs::File::options().write(true).open(&manifest).unwrap().set_modified(then).unwrap();
        for _ in 0..2 {
            let page = cache.page(&archive, damaged);
            assert!(matches!(&page, Err(PrintError::Archive(why)) if why.is_damage()), "{page:?}");
        }
        // A file beside the manifest counts, too.
        let before = rendered();
        fs::write(folder.path().join("runs").join(other.to_string()).join("series.parquet"), "x").unwrap();
        assert!(cache.page(&archive, other).is_ok() && rendered() == before + 1);
    }
}
