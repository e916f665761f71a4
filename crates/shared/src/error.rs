//! Errors, as far as a caller can tell them apart.

use std::io;
use std::path::PathBuf;

use archive::ArchiveError;

/// Reason that a shared archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The location is wrong; the text never contains a password.
    #[error("{0}")]
    Location(String),
    /// A secret cannot be read.
    #[error("cannot read the file that {name} names")]
    Secret {
        /// Environment variable.
        name: &'static str,
        /// System error.
        source: io::Error,
    },
    /// The runtime for messages cannot start.
    #[error("cannot start the runtime for messages")]
    Runtime(#[source] io::Error),
    /// The index refuses.
    #[error("cannot use the index in PostgreSQL")]
    Index(#[from] tokio_postgres::Error),
    /// Failure to open a connection to the index.
    #[error("cannot connect to the index in PostgreSQL")]
    Unreachable(#[source] io::Error),
    /// The database has no tables.
    #[error("this database has no shared archive: `bakeoff archive migrate` creates its tables")]
    NoTables,
    /// The tables belong to an earlier version.
    #[error(
        "the index has version {found}, this program needs {known}: `bakeoff archive migrate` changes it"
    )]
    Older {
        /// Version of the tables.
        found: i32,
        /// Version of this program.
        known: i32,
    },
    /// The tables belong to a later version.
    #[error("the index has version {found}; this program knows versions up to {known}: use a later version")]
    Newer {
        /// Version of the tables.
        found: i32,
        /// Version of this program.
        known: i32,
    },
    /// The store refuses.
    #[error("cannot use the object store")]
    Store(#[from] object_store::Error),
    /// The store refuses, and the environment has no credentials.
    #[error("cannot use the object store; the environment has no credentials for it ({variables})")]
    NoCredentials {
        /// Variables that may have them.
        variables: &'static str,
        /// Error of the store.
        source: object_store::Error,
    },
    /// The folder of the store refuses.
    #[error("cannot use {} of the store", path.display())]
    Folder {
        /// File or folder.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// The local archive refuses.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Something in the store or the index is not as a push wrote it.
    #[error("{what}")]
    Wrong {
        /// Problem.
        what: String,
    },
}

impl SharedError {
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong { what: what.into() }
    }

    /// Part that the problem lies in.
    pub(crate) fn extent(&self) -> Extent {
        match self {
            Self::Wrong { .. } | Self::Store(object_store::Error::NotFound { .. }) => Extent::Run,
            Self::Folder { source, .. } if is_of_the_disk(source) => Extent::Everything,
            Self::Store(_) | Self::NoCredentials { .. } | Self::Folder { .. } => Extent::Store,
            Self::Archive(error) if is_of_one_run(error) => Extent::Run,
            Self::Index(error) if is_of_a_value(error) => Extent::Run,
            _ => Extent::Everything,
        }
    }

    /// Whether the store has no file of that name.
    pub(crate) fn is_missing_file(&self) -> bool {
        match self {
            Self::Store(object_store::Error::NotFound { .. }) => true,
            Self::Folder { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Part of a transfer that an error ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One run: the others can be tried.
    Run,
    /// One run if the store is otherwise usable.
    Store,
    /// The whole transfer.
    Everything,
}

/// Whether the next file meets the same error: the disk is full or read-only.
fn is_of_the_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), QuotaExceeded | ReadOnlyFilesystem | StorageFull) || is_of_the_process(error)
}

/// Whether the process has too few descriptors or too little memory.
fn is_of_the_process(error: &io::Error) -> bool {
    use nix::libc::{EMFILE, ENFILE, ENOMEM};
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM))
}

/// Whether the local archive could read its other runs.
fn is_of_one_run(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Unreadable { source, .. } => !is_of_the_process(source),
        ArchiveError::Unfinished { .. } | ArchiveError::Busy { .. } => true,
        other => other.is_damage(),
    }
}

/// Whether PostgreSQL refuses a value: classes "data exception", "integrity constraint violation" and
/// "program limit exceeded".
fn is_of_a_value(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| ["22", "23", "54"].iter().any(|class| state.code().starts_with(class)))
}
