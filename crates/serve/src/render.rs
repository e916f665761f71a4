//! Pages of runs in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use archive::Archive;
use record::run::RunId;

use crate::printer::{PrintError, Printer};

/// Pages in memory. Each has at most about 1.5 MB.
const PAGES_MAX: usize = 16;

/// Pages that were rendered last.
#[derive(Debug)]
pub(crate) struct Cache {
    printer: Arc<dyn Printer>,
    pages: Mutex<VecDeque<(RunId, Stamp, Arc<str>)>>,
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Cache {
    pub(crate) fn new(printer: Arc<dyn Printer>) -> Self {
        Self { printer, pages: Mutex::default() }
    }

    /// The page of a run: from memory if the run has not changed, else rendered.
    pub(crate) fn page(&self, archive: &Archive, id: RunId) -> Result<Arc<str>, PrintError> {
        let stamp = stamp(archive, id);
        let found = {
            let pages = self.pages.lock().expect(LOCK);
            pages.iter().find(|(of, at, _)| (*of, *at) == (id, stamp)).map(|(.., page)| page.clone())
        };
        if let Some(page) = found {
            return Ok(page);
        }
        let page: Arc<str> = self.printer.page(archive, id)?.into();
        let mut pages = self.pages.lock().expect(LOCK);
        pages.retain(|(of, ..)| *of != id);
        pages.push_front((id, stamp, page.clone()));
        pages.truncate(PAGES_MAX);
        Ok(page)
    }

    /// Forgets the page of a run.
    pub(crate) fn forget(&self, id: RunId) {
        self.pages.lock().expect(LOCK).retain(|(of, ..)| *of != id);
    }
}

/// Length of a bake-off's journal, and whether a living process has it.
type Stamp = (u64, bool);

/// A value that differs when the run has changed. A single run never does. The journal of a bake-off grows,
/// and only its lock shows that its process was killed.
fn stamp(archive: &Archive, id: RunId) -> Stamp {
    let journal = archive.bakeoff_dir(id).join("events.jsonl");
    (std::fs::metadata(journal).map_or(0, |found| found.len()), archive.is_held(id))
}
