//! The bond between an index and its store: both have the id of one archive.

use crate::error::SharedError;
use crate::index::Index;
use crate::store::{MARK, Store};

/// Refuses an index and a store of different archives.
pub(crate) async fn check(index: &Index, store: &Store) -> Result<(), SharedError> {
    let (id, is_bound) = index.archive().await?;
    match store.mark().await? {
        Some(mark) if mark == id => Ok(()),
        Some(_) => Err(SharedError::Location("this store belongs to another index".to_owned())),
        None if is_bound => Err(another_store()),
        None => Ok(()),
    }
}

/// Binds the index to the store, at the first push.
pub(crate) async fn bind(index: &mut Index, store: &Store) -> Result<(), SharedError> {
    let (id, is_bound) = index.archive().await?;
    if is_bound {
        // Another push may have bound the index to its own store after `check` of this one.
        return if store.mark().await?.as_ref() == Some(&id) { Ok(()) } else { Err(another_store()) };
    }
    // An index of the first version may have runs.
    if let Some(row) = index.last_row().await? {
        let files = index.files(row.id).await?;
        let Some(file) = files.first() else { return Err(another_store()) };
        if let Err(error) = store.get(row.shelf, row.id, file, &mut |_| Ok(())).await {
            return Err(if error.is_missing_file() { another_store() } else { error });
        }
    }
    // Held until the store has the id: of two first pushes into different stores, one is refused.
    let binding = index.begin_binding().await?;
    if !binding.is_bound {
        store.create_mark(&binding.id).await?;
        if store.create_mark(&binding.id).await? {
            let what = "this store replaces a file that exists, although the request forbids it \
                        (If-None-Match): two machines could replace each other's files";
            return Err(SharedError::Location(what.to_owned()));
        }
        if store.mark().await?.as_ref() != Some(&binding.id) {
            return Err(SharedError::Location("this store belongs to another index".to_owned()));
        }
    } else if store.mark().await?.as_ref() != Some(&binding.id) {
        return Err(another_store());
    }
    binding.finish().await
}

/// Whether the store is readable and belongs to this archive.
pub(crate) async fn is_intact(index: &Index, store: &Store) -> bool {
    let Ok((id, _)) = index.archive().await else { return false };
    store.mark().await.is_ok_and(|mark| mark == Some(id))
}

fn another_store() -> SharedError {
    SharedError::Location(format!("this index belongs to another store: this one has no `{MARK}`"))
}
