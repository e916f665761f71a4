//! What a compressed file holds, without its content.

use crate::index::Index;
use crate::seek::read_at;
use crate::zst::le32;
use crate::{Error, Format, Reader, gz, lz4};
use std::io::{self, Read, Seek, SeekFrom};

/// What a file says of itself; where it says nothing, what decoding it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The first frame's container; plain gzip counts as [`Format::Bgzf`].
    pub format: Format,
    /// The whole file.
    pub file_bytes: u64,
    /// All content.
    pub content_bytes: u64,
    /// Blocks that decode by themselves; `None`: the file does not tell.
    pub blocks: Option<u64>,
    /// Whether [`crate::SeekReader`] reads it.
    pub is_seekable: bool,
}

/// Lists a whole file; decodes it, with at most `threads`, only if it does not say what it holds.
///
/// # Errors
///
/// What reading says, and what is wrong with the file as far as it had to be decoded.
pub fn list<R: Read + Seek>(mut source: R, threads: usize) -> Result<Listing, Error> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    let mut magic = [0; 4];
    read_at(&mut source, &mut magic, 0)?;
    let index = Index::read(file_bytes, &mut |buffer, at| read_at(&mut source, buffer, at))?;
    if let Some(index) = index.filter(|index| index.is_proven) {
        return Ok(Listing {
            format: index.format,
            file_bytes,
            content_bytes: index.content_bytes(),
            blocks: Some(index.blocks),
            is_seekable: true,
        });
    }
    let format = match magic {
        magic if magic.starts_with(&gz::MAGIC) => Format::Bgzf,
        magic if [lz4::MAGIC, lz4::LEGACY_MAGIC].contains(&le32(&magic)) => Format::Lz4,
        _ => Format::Zst,
    };
    source.seek(SeekFrom::Start(0))?;
    let content_bytes = io::copy(&mut Reader::new(source, threads), &mut io::sink())?;
    Ok(Listing { format, file_bytes, content_bytes, blocks: None, is_seekable: false })
}
