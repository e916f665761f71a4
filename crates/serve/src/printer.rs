//! Pages and documents of the archive, as the commands of the program print them. The program hands them
//! in, so a page of the server is the command's, byte for byte.

use std::fmt::Debug;

use archive::{Archive, ArchiveError};
use record::run::RunId;
use serde_json::Value;

/// Runs in a history of the server, the newest ones.
pub(crate) const HISTORY_RUNS_MAX: usize = 1_000;

/// Prints what is in an archive.
pub trait Printer: Debug + Send + Sync {
    /// The page of a run, as `bakeoff report` writes it.
    ///
    /// # Errors
    ///
    /// The run cannot be read, or has no page.
    fn page(&self, archive: &Archive, id: RunId) -> Result<String, PrintError>;

    /// The document of a run, as `bakeoff runs show --json` prints it.
    ///
    /// # Errors
    ///
    /// The run cannot be read.
    fn document(&self, archive: &Archive, id: RunId) -> Result<Value, PrintError>;

    /// The document of runs against the first one, as `bakeoff compare --json` prints it.
    ///
    /// # Errors
    ///
    /// A run cannot be read, or they measured different things.
    fn compare(&self, archive: &Archive, ids: &[RunId]) -> Result<Value, PrintError>;

    /// Metrics over the runs of the archive, as `bakeoff history` prints them.
    ///
    /// # Errors
    ///
    /// The archive cannot be read.
    fn history(&self, archive: &Archive, wanted: &HistoryWanted) -> Result<Histories, PrintError>;
}

/// Selection of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryWanted {
    /// Metric; `None` for all.
    pub metric: Option<String>,
    /// Part of the subject: a target, a workload, a title.
    pub of: Option<String>,
    /// Labels that runs must have: `NAME` or `NAME=VALUE`.
    pub labels: Vec<String>,
    /// Most runs that are read, the newest ones.
    pub runs_max: usize,
}

/// Histories in both forms.
#[derive(Debug, Clone)]
pub struct Histories {
    /// The document `bakeoff.history/1`.
    pub document: Value,
    /// The page with figures.
    pub page: String,
}

/// Reason that something cannot be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The runs have no such page or document.
    #[error("{why}")]
    Unfit {
        /// Reason.
        why: String,
    },
}
