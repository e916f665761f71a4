//! Runs on disk: a folder tree, which is authoritative, and an index, which is not.
//!
//! ```text
//! bakeoffs/<id>/  plan.toml  order.json  order.sha256  env.json  events.jsonl
//! runs/<id>/      manifest.json  manifest.sha256  latency.hlog.zst  hist.parquet  series.parquet
//!                 {cpu,io,nic,locks,ulocks}.jsonl.zst
//! queue.sqlite    plans that wait for their turn; with queue/<id>/ and audit.jsonl
//! notes/<id>.json tags and a note of a run
//! live/<id>.jsonl intervals of a load that runs now, for viewers
//! index.sqlite    for finding and listing; rebuilt whenever it differs from the folders
//! ```
//!
//! A run is written under a temporary name, checksummed, synced and renamed: readers never find half a run.
//! `docs/archive.md` describes the files for users of other tools.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod bakeoff;
mod calibration;
mod catalog;
mod checksum;
mod copies;
mod disk;
pub mod documents;
mod entry;
mod error;
pub mod event_log;
mod exchange;
mod export;
pub mod hlog;
mod intervals;
mod journal;
mod listing;
mod live;
mod live_file;
mod lock;
mod masking;
mod notes;
mod pages;
mod panics;
mod queue;
mod reader;
mod remove;
mod schema;
mod series;
mod spool;
mod stretches;
mod thinned;
mod traits;
mod verify;
mod watch;
pub mod whole_file;
mod writer;
mod written;

pub use bakeoff::{ATTEMPT_LABEL, TRIAL_LABEL};
pub use entry::{Action, Deaths, Entry, QueueState, Refusal, Wish};
pub use error::ArchiveError;
pub use exchange::{
    Checked, FILE_BYTES_MAX, FILES_MAX, Incoming, IncomingFile, Parcel, ParcelFile, Shelf,
    check_parcel_files, identity_of, is_journal,
};
pub use export::{Format, numbers};
pub use journal::{Claim, Journal};
pub use listing::{Damage, Filter, Listed, PartOf};
pub use live::{JournalPlace, Pace, ServerLog, Standing, TrialStanding};
pub use live_file::{Live, LivePlace, LiveText};
pub use notes::{NOTE_BYTES_MAX, Note, TAGS_MAX, WrongNote};
pub use queue::{OPEN_MAX, Queue, QueueError, QueueVersion, Submission, WorkerLock};
pub use remove::Leftovers;
pub use schema::event::{JournalEvent, Step};
pub use spool::{Spool, temporary_file};
pub use traits::Traits;
pub use verify::{Problem, Reindexed, Verified};
pub use watch::memory_bytes;
pub use writer::RunWriter;
pub use written::written_here;

use disk::Tree;
use watch::Watch;

/// A folder of runs and bake-offs. Any number of processes may use one at once.
#[derive(Debug, Clone)]
pub struct Archive {
    tree: Tree,
    /// See [`Self::within`].
    memory_max: Option<MemoryMax>,
}

/// Limits of [`memory_bytes`] while runs are read.
#[derive(Debug, Clone, Copy)]
pub struct MemoryMax {
    /// For a run: a page copies its numbers over time.
    pub of_run: u64,
    /// For a bake-off: a page has few numbers of each run.
    pub of_bakeoff: u64,
}

impl Archive {
    /// Opens the archive in `dir`, or creates it; removes what dead processes left half-written.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or written, or belongs to another user and this process is root.
    pub fn open(dir: &Path) -> Result<Self, ArchiveError> {
        Self::made(Tree::at(dir))
    }

    /// Variant of [`Archive::open`] that lets root write in a folder of another user; requires the user's
    /// consent (`--trust`).
    ///
    /// # Errors
    ///
    /// The folder cannot be created or written.
    pub fn open_trusted(dir: &Path) -> Result<Self, ArchiveError> {
        Self::made(Tree::trusted_at(dir))
    }

    fn made(tree: Tree) -> Result<Self, ArchiveError> {
        let archive = Self { tree, memory_max: None };
        if !archive.tree.is_written_by_us() {
            return Err(ArchiveError::OfAnother { path: archive.dir().to_owned() });
        }
        for folder in [archive.tree.runs(), archive.tree.bakeoffs()] {
            disk::make_folder(&folder).map_err(ArchiveError::writing(&folder))?;
        }
        archive.sweep()?;
        Ok(archive)
    }

    /// Opens the existing archive in `dir`, which may be read-only.
    ///
    /// # Errors
    ///
    /// The folder holds no archive.
    pub fn open_existing(dir: &Path) -> Result<Self, ArchiveError> {
        let archive = Self { tree: Tree::at(dir), memory_max: None };
        if archive.tree.runs().is_dir() && archive.tree.bakeoffs().is_dir() {
            return Ok(archive);
        }
        Err(ArchiveError::NoArchive { path: dir.to_owned() })
    }

    /// The archive for a process with limited memory: a run or a bake-off that would need more is
    /// [`ArchiveError::TooLong`].
    #[must_use]
    pub fn within(self, memory_max: MemoryMax) -> Self {
        Self { memory_max: Some(memory_max), ..self }
    }

    /// Folder of a bake-off.
    pub fn bakeoff_dir(&self, id: record::run::RunId) -> PathBuf {
        self.tree.bakeoff(id)
    }

    /// Folder of the archive.
    pub fn dir(&self) -> &Path {
        self.tree.root()
    }

    /// The memory that a run may lead to.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.memory_max.map(|max| max.of_run))
    }

    /// The archive for the runs of a bake-off.
    pub(crate) fn of_bakeoff(&self) -> Self {
        let memory_max = self.memory_max.map(|max| MemoryMax { of_run: max.of_bakeoff, ..max });
        Self { memory_max, ..self.clone() }
    }

    /// Updates the index now, so that the next listing does not have to.
    ///
    /// Errors are ignored: the index only mirrors the folders.
    pub(crate) fn refresh_index(&self) {
        let _ = catalog::with(&self.tree, |_| Ok(()));
    }
}

/// SHA-256 of `source`, in hexadecimal.
///
/// # Errors
///
/// `source` cannot be read.
pub fn sha256(source: &mut dyn std::io::Read) -> std::io::Result<String> {
    checksum::of_all(source).map(|(sum, _)| sum)
}

/// Default folder for a user's runs: `$BAKEOFF_ARCHIVE`, else `bakeoff` in the XDG data folder.
///
/// # Errors
///
/// The environment, which `lookup` reads, names no home.
pub fn default_dir(lookup: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ArchiveError> {
    let folder = |name: &str| lookup(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = folder("BAKEOFF_ARCHIVE") {
        return Ok(dir);
    }
    // The specification says to ignore a relative path.
    let data = folder("XDG_DATA_HOME").filter(|d| d.is_absolute());
    let data = data.or_else(|| folder("HOME").map(|home| home.join(".local/share")));
    data.map(|d| d.join("bakeoff")).ok_or(ArchiveError::NoPlace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_follows_the_environment() {
        let dir = |set: &[(&str, &str)]| {
            default_dir(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))).ok()
        };
        let home = ("HOME", "/home/u");
        assert_eq!(dir(&[home]), Some("/home/u/.local/share/bakeoff".into()));
        assert_eq!(dir(&[home, ("XDG_DATA_HOME", "/data")]), Some("/data/bakeoff".into()));
        assert_eq!(dir(&[home, ("XDG_DATA_HOME", "data")]), Some("/home/u/.local/share/bakeoff".into()));
        assert_eq!(dir(&[home, ("BAKEOFF_ARCHIVE", "/a")]), Some("/a".into()));
        assert_eq!(dir(&[]), None);
    }
}
