//! Dictionaries: content that frames refer to and that is not in the file.

use crate::Error;
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

impl Dictionary {
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
