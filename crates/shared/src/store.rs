//! The files: `<prefix>/runs/<id>/<file>` in a folder or a bucket.

use std::io::{self, Read as _, Write as _};

use archive::{Archive, Checked, Parcel, ParcelFile, Shelf, is_journal};
use futures_util::StreamExt as _;
use record::run::RunId;

use crate::bucket::Bucket;
use crate::error::SharedError;
use crate::folder::Folder;
use crate::location::StorePlace;

/// Name of the file with the archive's id.
pub(crate) const MARK: &str = "archive-id";
/// Longest id, in bytes.
const MARK_BYTES_MAX: u64 = 64;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// An open store.
#[derive(Debug)]
pub(crate) enum Store {
    /// Folder.
    Folder(Folder),
    /// Bucket.
    Bucket(Bucket),
}

impl Store {
    pub(crate) fn open(place: &StorePlace) -> Result<Self, SharedError> {
        Ok(match place {
            StorePlace::Folder(folder) => Self::Folder(Folder::open(folder)?),
            StorePlace::Bucket { provider, bucket, prefix } => {
                Self::Bucket(Bucket::open(*provider, bucket, prefix)?)
            }
        })
    }

    /// Stores a file of a run and reads it back. A file that exists is compared, never replaced.
    pub(crate) async fn put(
        &self,
        archive: &Archive,
        parcel: &Parcel,
        file: &ParcelFile,
    ) -> Result<(), SharedError> {
        let key = key(parcel.shelf, parcel.header.id, file);
        match self {
            Self::Folder(folder) => {
                folder.create(&key, |out| {
                    archive.read_parcel_file(parcel, file, &mut |piece| {
                        let source = |source| SharedError::Folder { path: key.clone().into(), source };
                        out.write_all(piece).map_err(source)
                    })
                })?;
            }
            Self::Bucket(bucket) => {
                let mut bytes = Vec::new();
                archive.read_parcel_file(parcel, file, &mut |piece| {
                    bytes.extend_from_slice(piece);
                    Ok::<_, SharedError>(())
                })?;
                bucket.create(&key, bytes).await?;
            }
        }
        self.check(&key, file).await.map_err(|error| match error {
            SharedError::Wrong { what } => SharedError::wrong(format!("{what}; it is not replaced")),
            other => other,
        })
    }

    /// Reads a file of a run, piece by piece, and no byte after its length.
    pub(crate) async fn get(
        &self,
        shelf: Shelf,
        id: RunId,
        file: &ParcelFile,
        each: &mut dyn FnMut(&[u8]) -> Result<(), SharedError>,
    ) -> Result<(), SharedError> {
        let key = key(shelf, id, file);
        match self.pieces(&key, file.bytes, each).await {
            // The first version of the tables had one name for all states of a journal.
            Err(error) if error.is_missing_file() && is_journal(shelf, &file.name) => {
                self.pieces(&format!("{}/{id}/{}", shelf.word(), file.name), file.bytes, each).await
            }
            other => other,
        }
    }

    /// Removes all files of a run, also those of earlier states and of pushes that were killed.
    pub(crate) async fn remove(&self, shelf: Shelf, id: RunId) -> Result<(), SharedError> {
        let key = format!("{}/{id}", shelf.word());
        match self {
            Self::Folder(folder) => folder.remove(&key),
            Self::Bucket(bucket) => bucket.remove(&key).await,
        }
    }

    /// Makes a run's names durable.
    pub(crate) fn sync(&self, parcel: &Parcel) -> Result<(), SharedError> {
        match (self, parcel.files.first()) {
            (Self::Folder(folder), Some(file)) => {
                folder.sync_names(&key(parcel.shelf, parcel.header.id, file))
            }
            _ => Ok(()),
        }
    }

    /// The archive's id in the store; `None` if it has none.
    pub(crate) async fn mark(&self) -> Result<Option<String>, SharedError> {
        let mut text = Vec::new();
        let mut add = |piece: &[u8]| {
            text.extend_from_slice(piece);
            Ok(())
        };
        match self.up_to(MARK, MARK_BYTES_MAX, &mut add).await {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&text).trim_end().to_owned())),
            Err(error) if error.is_missing_file() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the archive's id; returns `false` if the store has one.
    pub(crate) async fn create_mark(&self, id: &str) -> Result<bool, SharedError> {
        let text = format!("{id}\n");
        match self {
            Self::Folder(folder) => {
                let created = folder.create(MARK, |out| {
                    let source = |source| SharedError::Folder { path: MARK.into(), source };
                    out.write_all(text.as_bytes()).map_err(source)
                })?;
                folder.sync_names(MARK)?;
                Ok(created)
            }
            Self::Bucket(bucket) => bucket.create(MARK, text.into_bytes()).await,
        }
    }

    /// Compares a file with its length and checksum, and makes its content durable: its writer may have been
    /// killed before.
    async fn check(&self, key: &str, file: &ParcelFile) -> Result<(), SharedError> {
        let mut checked = Checked::new(io::sink(), file);
        self.pieces(key, file.bytes, &mut |piece| checked.write_all(piece).map_err(|_| differs(key))).await?;
        checked.finish().ok_or_else(|| differs(key))?;
        match self {
            Self::Folder(folder) => folder
                .read(key)?
                .sync_all()
                .map_err(|source| SharedError::Folder { path: key.into(), source }),
            Self::Bucket(_) => Ok(()),
        }
    }

    /// Reads a file that has exactly `bytes` bytes.
    async fn pieces(
        &self,
        key: &str,
        bytes: u64,
        each: &mut dyn FnMut(&[u8]) -> Result<(), SharedError>,
    ) -> Result<(), SharedError> {
        if self.up_to(key, bytes, each).await? == bytes { Ok(()) } else { Err(differs(key)) }
    }

    /// Reads a file of at most `most` bytes; returns its length.
    async fn up_to(
        &self,
        key: &str,
        most: u64,
        each: &mut dyn FnMut(&[u8]) -> Result<(), SharedError>,
    ) -> Result<u64, SharedError> {
        let mut length = 0;
        let mut add = |piece: &[u8]| {
            length += piece.len() as u64;
            if length > most { Err(differs(key)) } else { each(piece) }
        };
        match self {
            Self::Folder(folder) => {
                let mut source = folder.read(key)?;
                let unreadable = |source| SharedError::Folder { path: key.into(), source };
                if source.metadata().map_err(unreadable)?.len() > most {
                    return Err(differs(key));
                }
                let mut piece = vec![0; PIECE_BYTES];
                loop {
                    match source.read(&mut piece) {
                        Ok(0) => break,
                        Ok(n) => add(&piece[..n])?,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(unreadable(e)),
                    }
                }
            }
            Self::Bucket(bucket) => {
                let found = bucket.read(key).await?;
                if found.meta.size > most {
                    return Err(differs(key));
                }
                let mut pieces = found.into_stream();
                while let Some(piece) = pieces.next().await {
                    add(&piece?)?;
                }
            }
        }
        Ok(length)
    }
}

fn differs(key: &str) -> SharedError {
    SharedError::wrong(format!("the store has other bytes at {key}"))
}

/// Name of a file in the store. A journal grows when its bake-off is resumed, and nothing in the store is
/// replaced: each state of it has its checksum in its name.
fn key(shelf: Shelf, id: RunId, file: &ParcelFile) -> String {
    let folder = shelf.word();
    match file.name.split_once('.').filter(|_| is_journal(shelf, &file.name)) {
        Some((stem, extension)) => format!("{folder}/{id}/{stem}-{}.{extension}", file.sha256),
        None => format!("{folder}/{id}/{}", file.name),
    }
}
