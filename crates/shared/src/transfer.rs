//! Push and pull of runs and bake-offs.

use archive::{Archive, ArchiveError, Parcel, identity_of};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use record::run::RunId;

use crate::error::SharedError;
use crate::index::{Index, Row};
use crate::store::Store;

/// Files of one run that move at once.
const FILES_AT_ONCE: usize = 4;

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
    for id in ids {
        let outcome = push_one(index, store, archive, *id).await.or_else(refused)?;
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
    if let Some(stored) = index.sum_of(id).await? {
        let is_same = archive.identity(id)?.is_some_and(|sum| sum == stored);
        return Ok(if is_same { Outcome::Same } else { Outcome::Differs });
    }
    let parcel = archive.parcel(id)?;
    stream::iter(&parcel.files)
        .map(|file| async {
            let bytes = archive.parcel_bytes(&parcel, file)?;
            store.put(parcel.shelf, id, file, bytes).await
        })
        .buffer_unordered(FILES_AT_ONCE)
        .try_collect::<()>()
        .await?;
    // Another process may have stored another run of that name meanwhile.
    if index.add(&parcel).await? != parcel.sha256 {
        return Ok(Outcome::Differs);
    }
    Ok(moved(&parcel))
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
        let outcome = pull_one(index, store, archive, &row).await.or_else(refused)?;
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
    if let Some(outcome) = here()? {
        return Ok(outcome);
    }
    let files = index.files(row.id).await?;
    if identity_of(row.shelf, &files).as_ref() != Some(&row.sha256) {
        return Err(SharedError::wrong("its rows in `file` do not match its checksum in `run`"));
    }
    let mut incoming = match archive.receive(row.id, row.shelf) {
        Ok(incoming) => incoming,
        Err(ArchiveError::Exists { .. }) => return Ok(here()?.unwrap_or(Outcome::Differs)),
        Err(error) => return Err(error.into()),
    };
    let mut received = stream::iter(&files)
        .map(|file| async move { Ok::<_, SharedError>((file, store.get(row.shelf, row.id, file).await?)) })
        .buffer_unordered(FILES_AT_ONCE);
    while let Some((file, bytes)) = received.try_next().await? {
        incoming.add(file, &bytes)?;
    }
    match incoming.finish() {
        Ok(_) => {}
        Err(ArchiveError::Exists { .. }) => return Ok(here()?.unwrap_or(Outcome::Differs)),
        Err(error) => return Err(error.into()),
    }
    Ok(Outcome::Moved { files: files.len(), bytes: files.iter().map(|file| file.bytes).sum() })
}

/// Outcome of an error that lies in one run; other errors end the transfer.
fn refused(error: SharedError) -> Result<Outcome, SharedError> {
    if !error.is_of_one_run() {
        return Err(error);
    }
    let mut what = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        what = format!("{what}: {next}");
        cause = next.source();
    }
    Ok(Outcome::Refused { what })
}
