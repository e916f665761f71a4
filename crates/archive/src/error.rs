//! Errors with files, as far as a caller can tell them apart.

use std::io;
use std::path::{Path, PathBuf};

use record::run::RunId;

/// Reason that something could not be stored or found.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk is full.
    #[error(
        "no space left for {}: free some space, or choose another folder with --archive; no partial file \
         remains",
        path.display()
    )]
    NoSpace {
        /// File or folder.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// The folder or file cannot be written for another reason.
    #[error(
        "cannot write {}: make it writable for this user, or choose another folder with --archive",
        path.display()
    )]
    Unwritable {
        /// File or folder.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// A required file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// File or folder.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// A file that should hold due times does not.
    #[error("{}: {problem}", path.display())]
    NoSchedule {
        /// File.
        path: PathBuf,
        /// Problem with its content.
        problem: String,
    },
    /// The folder holds no archive.
    #[error("no archive in {}: `bakeoff load` or `bakeoff run` creates one; --archive selects another \
         folder", path.display())]
    NoArchive {
        /// Folder.
        path: PathBuf,
    },
    /// The archive or a folder on the way belongs to another user, and this process is root.
    #[error("{} belongs to another user, or another user can change a folder on the way to it; links could \
         redirect root's writes: run as that user, or choose another folder with --archive; `bakeoff resume` also \
         accepts --trust", path.display())]
    OfAnother {
        /// Folder.
        path: PathBuf,
    },
    /// Neither an option nor the environment names a folder for the archive.
    #[error("no folder for the archive: set --archive, $BAKEOFF_ARCHIVE or $HOME")]
    NoPlace,
    /// `latest` was requested for some kinds of run, and the archive has none of them.
    #[error("no run of kind {} in this archive: see `bakeoff runs list`", kinds.join(", "))]
    NoneOfKind {
        /// The kinds.
        kinds: Vec<&'static str>,
    },
    /// The archive has no run with this name.
    #[error("no run `{text}` in this archive: see `bakeoff runs list`")]
    NotFound {
        /// Text that was searched for.
        text: String,
    },
    /// Several run names begin with this text.
    #[error(
        "`{text}` matches {} runs ({} ...): use more characters of the run id",
        count,
        first.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Text that was searched for.
        text: String,
        /// Number of matches.
        count: usize,
        /// Newest few matches.
        first: Vec<RunId>,
    },
    /// A run of that name exists.
    #[error("{id} is already in the archive: a run id must be unique")]
    Exists {
        /// The name.
        id: RunId,
    },
    /// Another process is writing it.
    #[error("{id} is being written by another process: wait for it, or stop it")]
    Busy {
        /// Run or bake-off.
        id: RunId,
    },
    /// A run or bake-off that still changes cannot move to another archive.
    #[error("{id} is {state}: only what has ended can be shared")]
    Unfinished {
        /// Run or bake-off.
        id: RunId,
        /// State.
        state: &'static str,
    },
    /// An open entry of the queue would measure the bake-off again.
    #[error(
        "{id} belongs to the queue's entry {entry}, which has not ended and would measure it again: \
         `bakeoff queue cancel {entry}` first"
    )]
    Queued {
        /// The bake-off.
        id: RunId,
        /// The entry.
        entry: RunId,
    },
    /// Another load is writing that log of events.
    #[error("another load writes {}: choose another file for --log", path.display())]
    LogBusy {
        /// Path of the log.
        path: PathBuf,
    },
    /// A trial's run can be removed only with its bake-off.
    #[error("{id} is part of bake-off {bakeoff}: remove the whole bake-off, or keep both")]
    PartOfBakeoff {
        /// The run.
        id: RunId,
        /// Bake-off of the run.
        bakeoff: RunId,
    },
    /// Stored data differ from the written data.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// File or folder.
        path: PathBuf,
        /// Damage.
        what: String,
    },
    /// A later version of this program wrote the file.
    #[error(
        "{} has the format `{found}`; this version reads up to `{known}`: use a later version",
        path.display()
    )]
    Newer {
        /// File.
        path: PathBuf,
        /// Form of the file.
        found: String,
        /// Newest form that this version reads.
        known: &'static str,
    },
    /// A run has more numbers than are read, or than a form of export can have.
    #[error("{id}: it has too many numbers over time: {why}")]
    TooLong {
        /// The run, or its bake-off.
        id: RunId,
        /// The limit, and another way to read them.
        why: String,
    },
    /// The order of a bake-off is longer than any that is read.
    #[error(
        "the order of these {trials} trials takes {bytes} bytes, limit {bytes_max}: plan fewer trials, or shorten \
         the names of factors and levels"
    )]
    LongOrder {
        /// Number of trials.
        trials: usize,
        /// Length of `order.json`.
        bytes: usize,
        /// Limit of that length.
        bytes_max: usize,
    },
    /// The description of a run is longer than any that is read.
    #[error(
        "the {what} of run {id} takes {bytes} bytes, limit {bytes_max}: a longer one could not be read again. \
         Shorten its title and labels; a message or reason in it may be too long"
    )]
    LongDocument {
        /// The run.
        id: RunId,
        /// Name of the file.
        what: &'static str,
        /// Length of the file.
        bytes: usize,
        /// Limit of that length.
        bytes_max: usize,
    },
    /// The export could not be written.
    #[error("cannot write the export")]
    Output {
        /// System error.
        source: io::Error,
    },
}

impl ArchiveError {
    /// Error of writing `path`, with a separate variant for a full disk.
    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path, source },
                _ => Self::Unwritable { path, source },
            }
        }
    }

    /// Error of reading `path`.
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Unreadable { path: path.to_owned(), source }
    }

    /// Whether files are missing or changed, rather than inaccessible to this process.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::NotFound { .. } | Self::Newer { .. } => true,
            Self::Unreadable { source, .. } => {
                // Kinds that a missing file, a wrong file type, or a failing disk causes. Lack of permission
                // or of descriptors says nothing about the file.
                use io::ErrorKind::{InvalidData, IsADirectory, NotADirectory, NotFound, UnexpectedEof};
                let is_of_the_file = matches!(
                    source.kind(),
                    NotFound | InvalidData | UnexpectedEof | NotADirectory | IsADirectory
                );
                is_of_the_file || source.raw_os_error() == Some(nix::libc::EIO)
            }
            _ => false,
        }
    }

    /// Error for unexpected content of `path`.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
