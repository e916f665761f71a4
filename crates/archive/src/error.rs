//! What can go wrong with files, as far as a caller can tell it apart.

use std::io;
use std::path::{Path, PathBuf};

use record::run::RunId;

/// Why something could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk is full.
    #[error(
        "no space left for {}: make room, or name another folder with --archive; nothing half-written was left",
        path.display()
    )]
    NoSpace {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder or file cannot be written for another reason.
    #[error("cannot write {}: give it to this user, or name another folder with --archive", path.display())]
    Unwritable {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or folder that should be there cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that should hold due times does not.
    #[error("{}: {problem}", path.display())]
    NoSchedule {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no archive in that folder.
    #[error("no archive in {}: `bakeoff load` or `bakeoff run` make one, or name another with --archive", path.display())]
    NoArchive {
        /// The folder.
        path: PathBuf,
    },
    /// The archive is another user's, and we are root.
    #[error("{} belongs to another user, whose links could lead root elsewhere: run as that user, or name another folder with --archive; `bakeoff resume` also takes --trust", path.display())]
    OfAnother {
        /// The folder.
        path: PathBuf,
    },
    /// No folder is named for the archive, and the environment does not tell where a user's data goes.
    #[error(
        "no place for the archive: name a folder with --archive or $BAKEOFF_ARCHIVE ($HOME is not set either)"
    )]
    NoPlace,
    /// `latest` was asked of some kinds of run, and the archive has none of them.
    #[error("no run of kind {} in this archive: `bakeoff runs list` shows what there is", kinds.join(", "))]
    NoneOfKind {
        /// The kinds.
        kinds: Vec<&'static str>,
    },
    /// No run has that name.
    #[error("no run `{text}` in this archive: `bakeoff runs list` shows what there is")]
    NotFound {
        /// What was looked for.
        text: String,
    },
    /// Several runs' names begin so.
    #[error("`{text}` begins the name of {} runs ({} ...): write more of it", count, first.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Ambiguous {
        /// What was looked for.
        text: String,
        /// How many there are.
        count: usize,
        /// The newest few of them.
        first: Vec<RunId>,
    },
    /// A run of that name is there already.
    #[error("{id} is in the archive already: a run's name is used once")]
    Exists {
        /// The name.
        id: RunId,
    },
    /// Another process is writing it.
    #[error("{id} is being written by another process: wait for it, or stop it")]
    Busy {
        /// The run or bake-off.
        id: RunId,
    },
    /// Another load writes that log of events.
    #[error("another load writes {}: choose another file for --log", path.display())]
    LogBusy {
        /// What it is writing.
        path: PathBuf,
    },
    /// A trial's run goes only with its bake-off.
    #[error("{id} is part of bake-off {bakeoff}: remove that, or keep both")]
    PartOfBakeoff {
        /// The run.
        id: RunId,
        /// Its bake-off.
        bakeoff: RunId,
    },
    /// What is stored is not what was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A later version of this program wrote it.
    #[error("{} is `{found}`, and this program reads up to `{known}`: use a later version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The form it is in.
        found: String,
        /// The newest form that this version reads.
        known: &'static str,
    },
    /// What was exported could not be delivered.
    #[error("cannot write the export")]
    Output {
        /// What the system said.
        source: io::Error,
    },
}

impl ArchiveError {
    /// A failure to write `path`, with a full disk told apart.
    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path, source },
                _ => Self::Unwritable { path, source },
            }
        }
    }

    /// A failure to read `path`.
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Unreadable { path: path.to_owned(), source }
    }

    /// Whether files that were there are gone or changed, rather than kept from this process.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::NotFound { .. } | Self::Newer { .. } => true,
            Self::Unreadable { source, .. } => {
                // Of a file that is gone, of one that is no file, and of a disk that does not read. A process that may not
                // look, or that has too many files open, says nothing of the file.
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

    /// `path` does not hold what it should.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
