//! Description of a compressed file, without its content.

use crate::ending::Problem;
use crate::index::{self, Hops, Index, Sizes};
use crate::seek::read_at;
use crate::{Error, Format, Meter, ReadOptions, Reader};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Properties of a file and its content, stated by the file or found by decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Format of the first frame; plain gzip and zlib count as [`Format::Bgzf`].
    pub format: Format,
    /// Name of the container: `zst`, `lz4`, `gz` or `zlib`.
    pub container: &'static str,
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of the content.
    pub content_bytes: u64,
    /// Number of blocks with content that decode independently; `None` if the file does not state it.
    pub blocks: Option<u64>,
    /// Whether [`crate::SeekReader`] can read it.
    pub is_seekable: bool,
    /// Offset of the missing end of the file, if its writer was interrupted.
    pub unfinished: Option<u64>,
    /// Offset of the list of frames or the seek table, if it is damaged. The content is intact.
    pub index_damaged: Option<u64>,
    /// Offset of trailing garbage, which is ignored: anything but a member after gzip, or zeros after
    /// Zstandard frames.
    pub trailing_garbage: Option<u64>,
}

/// Lists a file of frames that may refer to `reference`; decodes them.
///
/// # Errors
///
/// The same as of [`crate::decompress_frame`].
pub fn list_frame<R: Read + Seek>(
    mut source: R,
    reference: &[u8],
    options: &ReadOptions,
) -> Result<Listing, Error> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    source.seek(SeekFrom::Start(0))?;
    let meter = Meter::new();
    let (from, to) = (&mut source, &mut io::sink());
    let decoded = crate::decompress_frame(from, to, reference, options.memory_bytes, &meter, &mut || {});
    let (mut unfinished, mut index_damaged, mut trailing_garbage) = (None, None, None);
    match decoded {
        Ok(garbage) => trailing_garbage = garbage,
        Err(Error::Unfinished { offset }) => unfinished = Some(offset),
        Err(Error::Index { offset, .. }) => index_damaged = Some(offset),
        Err(error) => return Err(error),
    }
    Ok(Listing {
        format: Format::Zst,
        container: Format::Zst.suffix(),
        file_bytes,
        content_bytes: meter.out_bytes.load(Relaxed),
        blocks: None,
        is_seekable: false,
        unfinished,
        index_damaged,
        trailing_garbage,
    })
}

/// Lists a whole file; decodes it with `options` only if its contents are not proven otherwise.
///
/// # Errors
///
/// Errors of reading, and damage in the parts that had to be decoded.
pub fn list<R: Read + Seek>(mut source: R, options: &ReadOptions) -> Result<Listing, Error> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    let dictionary = options.dictionary.as_ref();
    let mut read_at = |buffer: &mut [u8], at: u64| read_at(&mut source, buffer, at);
    let magic = index::first(&mut Hops::new(file_bytes, &mut read_at))?;
    let index = Index::read(file_bytes, dictionary, &mut read_at)?;
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
            index_damaged: index.damaged.map(Problem::offset),
            trailing_garbage: None,
        });
    }
    let (format, container) = Format::of_magic(magic);
    source.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::with_options(source, options, Arc::default());
    let (mut content_bytes, mut unfinished, mut index_damaged) = (0, None, None);
    loop {
        match reader.next_content() {
            Ok(Some(content)) => content_bytes += content.len() as u64,
            Ok(None) => break,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(Error::Unfinished { offset }) => {
                unfinished = Some(offset);
                break;
            }
            Err(Error::Index { offset, .. }) => {
                index_damaged = Some(offset);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    // If decoding found another size, the index is wrong.
    let index = index.filter(|index| index.content_bytes() == content_bytes);
    let (blocks, is_seekable) = (index.as_ref().map(|index| index.blocks), index.is_some());
    let trailing_garbage = reader.trailing_garbage();
    Ok(Listing {
        format,
        container,
        file_bytes,
        content_bytes,
        blocks,
        is_seekable,
        unfinished,
        index_damaged,
        trailing_garbage,
    })
}
