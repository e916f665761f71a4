//! What a compressed file holds, without its content.

use crate::format::Magic;
use crate::index::{Index, Sizes};
use crate::seek::read_at;
use crate::{Error, Format, ReadOptions, Reader};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// What a file says of itself; where it says nothing, what decoding it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The first frame's container; plain gzip and zlib count as [`Format::Bgzf`].
    pub format: Format,
    /// Name of the container: `zst`, `lz4`, `gz` or `zlib`.
    pub container: &'static str,
    /// The whole file.
    pub file_bytes: u64,
    /// All content.
    pub content_bytes: u64,
    /// Blocks with content that decode by themselves; `None`: the file does not tell.
    pub blocks: Option<u64>,
    /// Whether [`crate::SeekReader`] reads it.
    pub is_seekable: bool,
    /// Where the end is missing that the writer puts behind the last block: it was interrupted.
    pub unfinished: Option<u64>,
}

/// Lists a whole file; decodes it, as `options` say, only if it does not prove what it holds.
///
/// # Errors
///
/// What reading says, and what is wrong with the file as far as it had to be decoded.
pub fn list<R: Read + Seek>(mut source: R, options: &ReadOptions) -> Result<Listing, Error> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    let mut magic = [0; 4];
    read_at(&mut source, &mut magic, 0)?;
    let dictionary = options.dictionary.as_ref();
    let index = Index::read(file_bytes, dictionary, &mut |buffer, at| read_at(&mut source, buffer, at))?;
    let index = index.filter(|index| index.sizes >= Sizes::Stated);
    if let Some(index) = index.as_ref().filter(|index| index.sizes == Sizes::Proven) {
        return Ok(Listing {
            format: index.format,
            container: index.format.suffix(),
            file_bytes,
            content_bytes: index.content_bytes(),
            blocks: Some(index.blocks),
            is_seekable: true,
            unfinished: None,
        });
    }
    // Of anything else it is a zlib stream, or an error.
    let format = Magic::of(&magic).map_or(Format::Bgzf, Magic::format);
    let container = if Magic::of(&magic).is_some() { format.suffix() } else { "zlib" };
    source.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::with_options(source, options, Arc::default());
    let (mut content_bytes, mut unfinished) = (0, None);
    loop {
        match reader.next_content() {
            Ok(Some(content)) => content_bytes += content.len() as u64,
            Ok(None) => break,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(Error::Unfinished { offset }) => {
                unfinished = Some(offset);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    // If another size was found, the index is wrong.
    let index = index.filter(|index| index.content_bytes() == content_bytes);
    let (blocks, is_seekable) = (index.as_ref().map(|index| index.blocks), index.is_some());
    Ok(Listing { format, container, file_bytes, content_bytes, blocks, is_seekable, unfinished })
}
