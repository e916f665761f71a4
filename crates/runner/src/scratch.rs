//! The folder that `{scratch}` stands for: one for each series, under one for the bake-off.

use std::fs;
use std::path::{Path, PathBuf};

use record::run::RunId;

use crate::error::RunnerError;

/// The folder of a bake-off, removed when dropped.
///
/// Its name follows from the bake-off's, so that a later process finds what a dead one left.
#[derive(Debug)]
pub(crate) struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Where the scratch folder of that bake-off is or will be.
    pub(crate) fn place(id: RunId) -> PathBuf {
        std::env::temp_dir().join(format!("bakeoff-{id}"))
    }

    /// Makes it, empty.
    pub(crate) fn make(id: RunId) -> Result<Self, RunnerError> {
        let root = Self::place(id);
        fs::create_dir_all(&root).map_err(|source| RunnerError::Scratch { path: root.clone(), source })?;
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The empty folder of a series.
    pub(crate) fn series(&self, series: u32) -> Result<PathBuf, RunnerError> {
        let path = self.root.join(series.to_string());
        fs::create_dir_all(&path).map_err(|source| RunnerError::Scratch { path: path.clone(), source })?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next who resumes.
        let _ = fs::remove_dir_all(&self.root);
    }
}
