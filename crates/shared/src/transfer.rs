//! Push and pull of runs and bake-offs.

use archive::{Archive, ArchiveError, Parcel, Shelf, identity_of};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use record::run::RunId;

use crate::error::{Extent, SharedError};
use crate::index::{Index, Row};
use crate::pair;
use crate::store::Store;

/// Files of one run that move at once.
const FILES_AT_ONCE: usize = 4;
/// Longest reason for a run that is not copied.
const REASON_CHARACTERS_MAX: usize = 1_000;
/// Length of a run from which its files move one after the other: a bucket gets a file in one piece.
const LARGE_BYTES: u64 = 64 << 20;

/// Result for one run or bake-off.
#[derive(Debug)]
pub struct Transfer {
    /// Run or bake-off; `None` for a row of the index with an invalid id.
    pub id: Option<RunId>,
    /// Outcome.
    pub outcome: Outcome,
}

/// Outcome for one run or bake-off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Copied.
    Moved {
        /// Number of files.
        files: usize,
        /// Sum of the file sizes.
        bytes: u64,
    },
    /// The other side has it already.
    Same,
    /// The other side has another run of that name. Neither was changed.
    Differs,
    /// A prune has removed it from the shared archive.
    Removed,
    /// Not copied, because it is damaged or a part of it is missing.
    Refused {
        /// Problem.
        what: String,
    },
}

pub(crate) async fn push(
    index: &mut Index,
    store: &Store,
    archive: &Archive,
    ids: &[RunId],
    each: &mut dyn FnMut(Transfer),
) -> Result<(), SharedError> {
    if !ids.is_empty() {
        pair::bind(index, store).await?;
    }
    for id in ids {
        let outcome = match push_one(index, store, archive, *id).await {
            Ok(outcome) => outcome,
            Err(error) => refused(error, index, store).await?,
        };
        each(Transfer { id: Some(*id), outcome });
    }
    Ok(())
}

async fn push_one(
    index: &mut Index,
    store: &Store,
    archive: &Archive,
    id: RunId,
) -> Result<Outcome, SharedError> {
    let stored = index.sum_of(id).await?;
    if stored.is_none() && index.is_removed(id, archive.header(id)?.bakeoff).await? {
        return Ok(Outcome::Removed);
    }
    if let Some(stored) = &stored {
        if archive.identity(id)?.is_some_and(|sum| sum == *stored) {
            return Ok(Outcome::Same);
        }
        // A bake-off that was resumed after a push continues the stored one.
        if !archive.is_bakeoff(id) {
            return Ok(Outcome::Differs);
        }
        let earlier = index.files(id).await?;
        if identity_of(Shelf::Bakeoffs, &earlier).as_ref() != Some(stored)
            || !archive.continues(id, &earlier)?
        {
            return Ok(Outcome::Differs);
        }
    }
    let parcel = archive.parcel(id)?;
    let parcel_bytes: u64 = parcel.files.iter().map(|file| file.bytes).sum();
    stream::iter(&parcel.files)
        .map(|file| store.put(archive, &parcel, file))
        .buffer_unordered(if parcel_bytes < LARGE_BYTES { FILES_AT_ONCE } else { 1 })
        .try_collect::<()>()
        .await?;
    store.sync(&parcel)?;
    // Another process may have stored another run of that name meanwhile, or removed it.
    let is_ours = match &stored {
        None => match index.add(&parcel).await? {
            Some(sum) => sum == parcel.sha256,
            None => return Ok(Outcome::Removed),
        },
        Some(stored) => index.continue_with(&parcel, stored).await?,
    };
    if !is_ours && index.is_removed(id, None).await? {
        index.note_files(&parcel).await?;
        return Ok(Outcome::Removed);
    }
    Ok(if is_ours { moved(&parcel) } else { Outcome::Differs })
}

fn moved(parcel: &Parcel) -> Outcome {
    Outcome::Moved { files: parcel.files.len(), bytes: parcel.files.iter().map(|file| file.bytes).sum() }
}

pub(crate) async fn pull(
    index: &Index,
    store: &Store,
    archive: &Archive,
    ids: Option<&[RunId]>,
    each: &mut dyn FnMut(Transfer),
) -> Result<(), SharedError> {
    let (mut rows, wrong) = index.rows().await?;
    if let Some(ids) = ids {
        // A bake-off comes with its runs.
        rows.retain(|row| ids.contains(&row.id) || row.bakeoff.is_some_and(|bakeoff| ids.contains(&bakeoff)));
        let missing = ids.iter().filter(|id| !rows.iter().any(|row| row.id == **id));
        for id in missing {
            let what = "the shared archive has no run of that name".to_owned();
            each(Transfer { id: Some(*id), outcome: Outcome::Refused { what } });
        }
    } else {
        for text in wrong {
            let what = format!("the index has a row {text:?}, which names no run");
            each(Transfer { id: None, outcome: Outcome::Refused { what } });
        }
    }
    for row in rows {
        let outcome = match pull_one(index, store, archive, &row).await {
            Ok(outcome) => outcome,
            Err(error) => match refused(error, index, store).await? {
                // A prune was faster.
                Outcome::Refused { .. } if index.is_removed(row.id, None).await? => Outcome::Removed,
                outcome => outcome,
            },
        };
        each(Transfer { id: Some(row.id), outcome });
    }
    Ok(())
}

async fn pull_one(
    index: &Index,
    store: &Store,
    archive: &Archive,
    row: &Row,
) -> Result<Outcome, SharedError> {
    let here = || -> Result<Option<Outcome>, SharedError> {
        let sum = archive.identity(row.id)?;
        Ok(sum.map(|sum| if sum == row.sha256 { Outcome::Same } else { Outcome::Differs }))
    };
    let found = here()?;
    if found == Some(Outcome::Same) {
        return Ok(Outcome::Same);
    }
    let files = index.files(row.id).await?;
    if identity_of(row.shelf, &files).as_ref() != Some(&row.sha256) {
        return Err(SharedError::wrong("its rows in `file` do not match its checksum in `run`"));
    }
    if let Some(found) = found {
        let is_continued = row.shelf == Shelf::Bakeoffs && archive.continues(row.id, &files)?;
        return Ok(if is_continued { Outcome::Same } else { found });
    }
    let incoming = match archive.receive(row.id, row.shelf) {
        Ok(incoming) => incoming,
        Err(ArchiveError::Exists { .. }) => return Ok(here()?.unwrap_or(Outcome::Differs)),
        Err(error) => return Err(error.into()),
    };
    stream::iter(&files)
        .map(|file| async {
            let mut new = incoming.begin(file)?;
            store.get(row.shelf, row.id, file, &mut |piece| Ok(new.write(piece)?)).await?;
            Ok::<_, SharedError>(new.finish()?)
        })
        .buffer_unordered(FILES_AT_ONCE)
        .try_collect::<()>()
        .await?;
    match incoming.finish() {
        Ok(_) => {}
        Err(ArchiveError::Exists { .. }) => return Ok(here()?.unwrap_or(Outcome::Differs)),
        Err(error) => return Err(error.into()),
    }
    Ok(Outcome::Moved { files: files.len(), bytes: files.iter().map(|file| file.bytes).sum() })
}

/// Outcome of an error that lies in one run; other errors end the transfer.
pub(crate) async fn refused(
    error: SharedError,
    index: &Index,
    store: &Store,
) -> Result<Outcome, SharedError> {
    let is_of_one_run = match error.extent() {
        Extent::Run => true,
        Extent::Store => pair::is_intact(index, store).await,
        Extent::Everything => false,
    };
    if !is_of_one_run {
        return Err(error);
    }
    let mut what = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        what = format!("{what}: {next}");
        cause = next.source();
    }
    // It may repeat the text of a hostile server.
    if let Some((end, _)) = what.char_indices().nth(REASON_CHARACTERS_MAX) {
        what.truncate(end);
        what.push_str(" ...");
    }
    Ok(Outcome::Refused { what })
}
