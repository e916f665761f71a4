//! What a plan builds before its first trial.

use std::path::{Path, PathBuf};

use record::bakeoff::{Levels, Plot};

use super::Plan;
use crate::phases::Step;
use crate::template::BUILD;

/// The build of one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Command that builds it.
    pub step: Step,
    /// Git repository, relative to the plan's folder; `None` if the command needs no source.
    pub source: Option<PathBuf>,
    /// Revision of the repository.
    pub revision: String,
    /// Names of the environment variables that the command gets.
    pub env: Vec<String>,
}

impl Plan {
    /// Whether the plan builds what it compares.
    pub fn builds(&self) -> bool {
        self.build.is_some()
    }

    /// Build of a configuration; `None` if the plan builds nothing.
    ///
    /// - `folder`: for `{build}`, the folder of the output.
    /// - `scratch`: for `{scratch}`.
    pub fn build(&self, levels: &Levels, folder: &Path, scratch: &Path) -> Option<Build> {
        let build = self.build.as_ref()?;
        let mut levels = self.whole(levels);
        levels.insert(BUILD.to_owned(), folder.display().to_string());
        let revision = build.revision.as_ref().map(|revision| revision.of(&levels, ""));
        Some(Build {
            step: build.run.step(&levels, scratch),
            source: build.source.as_ref().map(PathBuf::from),
            revision: revision.unwrap_or_else(|| "HEAD".to_owned()),
            env: build.env.clone(),
        })
    }

    /// Plan with the folder of what was built for a configuration.
    #[must_use]
    pub fn with_built(mut self, levels: &Levels, folder: &Path) -> Self {
        self.built.insert(self.whole(levels), folder.display().to_string());
        self
    }

    /// Folder of what was built for the configuration of these levels.
    pub fn built(&self, levels: &Levels) -> Option<&str> {
        self.built.get(&self.whole(levels)).map(String::as_str)
    }

    /// Levels with the folder of what was built for them.
    pub(super) fn at(&self, levels: &Levels) -> Levels {
        let mut levels = levels.clone();
        if let Some(folder) = self.built(&levels) {
            let folder = folder.to_owned();
            levels.insert(BUILD.to_owned(), folder);
        } else if self.build.is_some() {
            levels.insert(BUILD.to_owned(), format!("{{{BUILD}}}"));
        }
        levels
    }

    /// The levels of the configuration among these.
    fn whole(&self, levels: &Levels) -> Levels {
        let whole = self.factors.iter().filter(|factor| factor.plot == Plot::Whole);
        whole.filter_map(|factor| Some((factor.name.clone(), levels.get(&factor.name)?.clone()))).collect()
    }
}
