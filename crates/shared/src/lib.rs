//! An archive that many machines share: its index in PostgreSQL, its files in an object store.
//!
//! ```text
//! <prefix>/runs/<id>/<file>      the same bytes as in the folder of an archive
//! <prefix>/bakeoffs/<id>/<file>  as well, but `events-<sha256>.jsonl` for each state of `events.jsonl`
//! <prefix>/archive-id            the id that the index has too: they belong together
//! run, label, file               tables: a row of `run` exists only if all its files are stored
//! removed                        table: runs and bake-offs that a prune has removed
//! ```
//!
//! The folder of an archive stays the place where a run is measured. A push stores the files of a run first
//! and its row last, in one transaction. A prune removes the row first and the files afterwards. Whatever is
//! interrupted, the same command completes it.

mod bounded;
mod bucket;
mod error;
mod folder;
mod index;
mod location;
mod pair;
mod plain;
mod prune;
mod secret;
mod store;
mod tls;
mod transfer;

pub use error::SharedError;
pub use index::{Old, Retention};
pub use location::Location;
pub use prune::Pruned;
pub use transfer::{Outcome, Transfer};

use archive::Archive;
use record::run::RunId;
use tokio::runtime::{Builder, Runtime};

use index::Index;
use store::Store;

/// An open shared archive.
#[derive(Debug)]
pub struct Shared {
    runtime: Runtime,
    index: Index,
    store: Store,
}

impl Shared {
    /// Connects to the index and the store.
    ///
    /// # Errors
    ///
    /// One of them cannot be reached, the index has no tables or those of another version, or the store
    /// belongs to another index.
    pub fn open(location: &Location) -> Result<Self, SharedError> {
        let shared = Self::connect(location)?;
        shared.runtime.block_on(async {
            shared.index.check_version().await?;
            pair::check(&shared.index, &shared.store).await
        })?;
        Ok(shared)
    }

    /// Creates the tables of the index, or changes those of an earlier version; returns the version before
    /// and after.
    ///
    /// # Errors
    ///
    /// The index or the store cannot be reached, or the index refuses.
    pub fn migrate(location: &Location) -> Result<(i32, i32), SharedError> {
        let mut shared = Self::connect(location)?;
        shared.runtime.block_on(shared.index.migrate())
    }

    fn connect(location: &Location) -> Result<Self, SharedError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(SharedError::Runtime)?;
        let store = Store::open(location.store())?;
        let index = runtime.block_on(Index::connect(location.index()))?;
        Ok(Self { runtime, index, store })
    }

    /// Stores these runs and bake-offs, each with its outcome to `each`. Those that are stored already cost
    /// little.
    ///
    /// # Errors
    ///
    /// The index or the store cannot be used; the same call later completes what is missing.
    pub fn push(
        &mut self,
        archive: &Archive,
        ids: &[RunId],
        each: &mut dyn FnMut(Transfer),
    ) -> Result<(), SharedError> {
        self.runtime.block_on(transfer::push(&mut self.index, &self.store, archive, ids, each))
    }

    /// Copies runs and bake-offs into the archive, each with its outcome to `each`: these, or all that the
    /// archive lacks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::push`], and those of writing the archive.
    pub fn pull(
        &mut self,
        archive: &Archive,
        ids: Option<&[RunId]>,
        each: &mut dyn FnMut(Transfer),
    ) -> Result<(), SharedError> {
        self.runtime.block_on(transfer::pull(&self.index, &self.store, archive, ids, each))
    }

    /// Old runs and bake-offs, the oldest first.
    ///
    /// # Errors
    ///
    /// The index cannot be used.
    pub fn old(&self, retention: &Retention) -> Result<Vec<Old>, SharedError> {
        self.runtime.block_on(self.index.old(retention))
    }

    /// Removes old runs and bake-offs for all machines, with their files, and completes prunes that were
    /// interrupted. No push stores a removed run again.
    ///
    /// # Errors
    ///
    /// The index or the store cannot be used; the same call later completes the removal.
    pub fn prune(&mut self, retention: &Retention, each: &mut dyn FnMut(Pruned)) -> Result<(), SharedError> {
        self.runtime.block_on(prune::prune(&mut self.index, &self.store, retention, each))
    }

    /// Ids in the index that begin or end with `text`, a few at most.
    ///
    /// # Errors
    ///
    /// The index cannot be used.
    pub fn named(&self, text: &str) -> Result<Vec<RunId>, SharedError> {
        self.runtime.block_on(self.index.named(text))
    }
}
