//! Index of a BGZF file.

use super::{Hops, Index, Sizes};
use crate::Error;
use crate::format::{gz, le32};
use crate::level::Format;

/// Minimum content of an entry, which joins consecutive BGZF blocks.
const BGZF_ENTRY_BYTES: u64 = 256 << 10;

/// Builds the index of a BGZF file.
///
/// # Errors
///
/// Errors of reading.
pub(crate) fn read(hops: &mut Hops<'_>) -> Result<Option<Index>, Error> {
    let mut index = Index::new(Format::Bgzf, Sizes::Stated);
    let (mut at, mut entry_at, mut content_bytes, mut has_end) = (0, 0, 0, false);
    while at < hops.file_bytes {
        let shown = hops.show(at, 64)?;
        let known = if shown.starts_with(&gz::MAGIC) { gz::header(shown).ok().flatten() } else { None };
        let Some(bytes) = known.and_then(|header| header.bgzf_bytes) else { return Ok(None) };
        let end = at + bytes as u64;
        // The trailer of this block and the header of the next one.
        let shown = hops.show(end - 4, 68)?;
        let Some(size) = shown.get(..4).map(le32).filter(|&size| size <= 1 << 16) else { return Ok(None) };
        content_bytes += u64::from(size);
        has_end = size == 0;
        // The block that ends the file has no content.
        index.blocks += u64::from(size > 0);
        if content_bytes >= BGZF_ENTRY_BYTES || end >= hops.file_bytes {
            let (Ok(bytes), Ok(content)) = (u32::try_from(end - entry_at), u32::try_from(content_bytes))
            else {
                return Ok(None);
            };
            index.push(entry_at, bytes, content);
            (entry_at, content_bytes) = (end, 0);
        }
        at = end;
    }
    Ok((at == hops.file_bytes && has_end).then_some(index))
}
