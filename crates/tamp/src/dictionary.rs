//! Dictionaries: content that frames refer to and that is not in the file.

use crate::Error;
use std::sync::Arc;

/// What `zstd --train` makes: common content of many small files.
///
/// A file that was compressed with it can only be read with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary {
    bytes: Arc<[u8]>,
    id: u32,
}

/// What every dictionary made by zstd begins with.
const MAGIC: [u8; 4] = 0xEC30_A437_u32.to_le_bytes();

impl Dictionary {
    /// A dictionary, given as the whole file that zstd wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Dictionary`] if `bytes` are no dictionary, or a damaged one.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::Dictionary);
        }
        // Tables are read when something is compressed or decompressed, so that is tried once, here.
        let mut frame = [0; 64];
        let mut context = zstd_safe::CCtx::create();
        let tried = context.load_dictionary(&bytes).and_then(|_| context.compress2(&mut frame[..], &[]));
        let id = zstd_safe::get_dict_id_from_dict(&bytes).map_or(0, std::num::NonZero::get);
        if tried.is_err() { Err(Error::Dictionary) } else { Ok(Self { bytes, id }) }
    }

    /// The number that frames name it by.
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
