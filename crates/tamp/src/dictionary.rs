//! Dictionaries: content that frames refer to and that is not in the file.

use crate::Error;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;

/// Dictionary made by `zstd --train`: common content of many small files.
///
/// A file that was compressed with a dictionary can only be read with the same one.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary {
    bytes: Arc<[u8]>,
    id: u32,
}

/// First bytes of every dictionary made by zstd.
const MAGIC: [u8; 4] = 0xEC30_A437_u32.to_le_bytes();
/// Largest file of a dictionary that is read. `zstd --train` writes 110 KiB unless told otherwise.
const FILE_BYTES_MAX: u64 = 64 << 20;

impl Dictionary {
    /// Reads the file that zstd wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read or has more than 64 MiB, [`Error::Dictionary`] if it is not a
    /// dictionary, or a damaged one.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let (mut file, mut bytes) = (File::open(path)?, Vec::new());
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
        if bytes != MAGIC {
            return Err(Error::Dictionary);
        }
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let why = "it has more than 64 MiB, the limit of a dictionary";
            return Err(io::Error::new(ErrorKind::FileTooLarge, why).into());
        }
        Self::new(bytes)
    }

    /// Creates a dictionary from the whole file that zstd wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Dictionary`] if `bytes` are not a dictionary, or a damaged one.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::Dictionary);
        }
        // zstd reads the tables when it compresses or decompresses, so compress once to check them.
        let mut frame = [0; 64];
        let mut context = zstd_safe::CCtx::create();
        let tried = context.load_dictionary(&bytes).and_then(|_| context.compress2(&mut frame[..], &[]));
        let id = zstd_safe::get_dict_id_from_dict(&bytes).map_or(0, std::num::NonZero::get);
        if tried.is_err() { Err(Error::Dictionary) } else { Ok(Self { bytes, id }) }
    }

    /// Number that frames use to name it.
    pub fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("id", &self.id).field("bytes", &self.bytes.len()).finish()
    }
}
