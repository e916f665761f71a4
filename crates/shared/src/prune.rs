//! Removal of old runs and bake-offs for all machines.

use record::run::RunId;

use crate::error::SharedError;
use crate::index::{Index, Old, Retention};
use crate::pair;
use crate::store::Store;
use crate::transfer::{Outcome, refused};

/// A step of a prune.
#[derive(Debug)]
pub enum Pruned {
    /// Removed from the index: no machine sees it any more.
    Removed(Old),
    /// Files of a removed run that could not be removed. The next prune tries again.
    Left {
        /// Run or bake-off.
        id: RunId,
        /// Problem.
        what: String,
    },
}

/// Removes the rows first: a run without a row is invisible, and a run with one has all its files.
pub(crate) async fn prune(
    index: &mut Index,
    store: &Store,
    retention: &Retention,
    each: &mut dyn FnMut(Pruned),
) -> Result<(), SharedError> {
    let old = index.old(retention).await?;
    if !old.is_empty() {
        // An index of the first version may not know its store.
        pair::bind(index, store).await?;
    }
    for old in old {
        if index.remove(old.id, retention.age).await? {
            each(Pruned::Removed(old));
        }
    }
    for (shelf, id) in index.removed_with_files().await? {
        let cleaning = index.begin_cleaning(id).await?;
        let Err(error) = store.remove(shelf, id).await else {
            cleaning.commit().await?;
            continue;
        };
        cleaning.rollback().await?;
        if let Outcome::Refused { what } = refused(error, index, store).await? {
            each(Pruned::Left { id, what });
        }
    }
    Ok(())
}
