//! Removal of runs from the archive: renamed first, then deleted.

use std::fs;
use std::path::{Path, PathBuf};

use record::run::RunId;

use crate::catalog;
use crate::disk::Place;
use crate::error::ArchiveError;
use crate::writer::MANIFEST;
use crate::{Archive, bakeoff, disk, lock, reader};

/// Leftovers that were found and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Folders under their former names.
    pub folders: Vec<PathBuf>,
}

impl Archive {
    /// Removes a run, or a bake-off with all its runs.
    ///
    /// # Errors
    ///
    /// No run or bake-off has that name, it is part of a bake-off or being written, an open entry of the
    /// queue needs it, or the disk refuses.
    pub fn remove(&self, id: RunId) -> Result<(), ArchiveError> {
        let still = self.tree.keep_still()?;
        let (run, whole) = (self.tree.run(id), self.tree.bakeoff(id));
        if whole.is_dir() {
            if bakeoff::is_running(&whole) {
                return Err(ArchiveError::Busy { id });
            }
            // An entry that has ended never begins again, so none opens in between.
            if let Some(entry) = self.open_entry_of(id)? {
                return Err(ArchiveError::Queued { id, entry });
            }
            self.finish_bakeoff(id, &out_of_sight(&whole)?)?;
        } else if run.is_dir() {
            // An unreadable manifest names no bake-off, and such a run may be removed: `resume` measures it
            // again.
            let belongs_to = reader::read_manifest(&run, id).ok().and_then(|s| s.header.bakeoff);
            if let Some(bakeoff) = belongs_to.filter(|b| self.tree.bakeoff(*b).is_dir()) {
                return Err(ArchiveError::PartOfBakeoff { id, bakeoff });
            }
            delete(&out_of_sight(&run)?)?;
        } else {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        self.forget_note(id)?;
        drop(still);
        self.refresh_index();
        Ok(())
    }

    /// Removes half-written or half-removed folders of processes that died.
    ///
    /// # Errors
    ///
    /// The folders cannot be read or changed.
    pub fn sweep(&self) -> Result<Leftovers, ArchiveError> {
        let _still = self.tree.keep_still()?;
        let mut swept = Leftovers::default();
        for (path, place) in disk::places(&self.tree.bakeoffs())? {
            match place {
                // These exist only under the folder lock, so their writer is gone.
                Place::Partial(_) => delete(&path)?,
                Place::Removed(id) => self.finish_bakeoff(id, &path)?,
                Place::Whole(_) | Place::Stray => continue,
            }
            swept.folders.push(path);
        }
        for (path, place) in disk::places(&self.tree.runs())? {
            match place {
                Place::Partial(_) if is_left_behind(&path) => delete(&path)?,
                Place::Removed(_) => delete(&path)?,
                Place::Partial(_) | Place::Whole(_) | Place::Stray => continue,
            }
            swept.folders.push(path);
        }
        // The live file of a process that was killed. One that lives has its run locked before it begins
        // the file.
        let is_dead = |id: &RunId| !self.is_held(*id) && self.measured_now(*id).is_none();
        for id in self.live_runs().into_iter().filter(is_dead) {
            self.forget_live(id);
        }
        Ok(swept)
    }

    /// Removes the runs of a bake-off that was renamed for removal, and then the bake-off.
    fn finish_bakeoff(&self, id: RunId, folder: &Path) -> Result<(), ArchiveError> {
        let belongs = |run: &RunId| {
            let stored = reader::read_manifest(&self.tree.run(*run), *run);
            stored.map(|stored| stored.header.bakeoff == Some(id))
        };
        // The runs themselves must agree: a manipulated index must not cause removal of other runs.
        let mut runs = catalog::with(&self.tree, |index| index.runs_of(id))?;
        runs.retain(|run| belongs(run).unwrap_or(false));
        // The index lacks runs with a damaged manifest: the journal names them.
        let is_damaged = |error: ArchiveError| error.is_damage();
        runs.extend(
            bakeoff::runs_named(folder).into_iter().filter(|run| belongs(run).unwrap_or_else(is_damaged)),
        );
        runs.sort_unstable();
        runs.dedup();
        for run in runs.into_iter().filter(|run| self.tree.run(*run).is_dir()) {
            delete(&out_of_sight(&self.tree.run(run))?)?;
        }
        delete(folder)
    }
}

/// Whether the writer of a partial run is gone: a living one has the manifest locked.
fn is_left_behind(folder: &Path) -> bool {
    match disk::open(&folder.join(MANIFEST)) {
        Ok(manifest) => !lock::is_taken(&manifest).unwrap_or(true),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

fn out_of_sight(folder: &Path) -> Result<PathBuf, ArchiveError> {
    let removed = disk::removed(folder);
    fs::rename(folder, &removed).map_err(ArchiveError::writing(folder))?;
    disk::sync_folder(folder.parent().expect("folders of runs have a parent"))?;
    Ok(removed)
}

fn delete(folder: &Path) -> Result<(), ArchiveError> {
    fs::remove_dir_all(folder).or_else(|e| match e.kind() {
        // Its own writer discarded it first.
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(ArchiveError::writing(folder)(e)),
    })
}
