//! Errors, as far as a caller can tell them apart.

use std::io;

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

    /// Whether the problem lies in one run, so that the others can be tried.
    pub(crate) fn is_of_one_run(&self) -> bool {
        match self {
            Self::Wrong { .. } => true,
            Self::Store(error) => matches!(error, object_store::Error::NotFound { .. }),
            Self::Archive(error) => {
                error.is_damage()
                    || matches!(error, ArchiveError::Unfinished { .. } | ArchiveError::Busy { .. })
            }
            _ => false,
        }
    }
}
