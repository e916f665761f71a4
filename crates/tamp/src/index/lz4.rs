//! Index of a .lz4 file.

use super::{Hops, Index, Lz4Frame, Sizes};
use crate::Error;
use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::format::{le32, lz4, zst};
use crate::level::Format;

/// Builds the index of a .lz4 file.
///
/// # Errors
///
/// Errors of reading.
pub(crate) fn read(hops: &mut Hops<'_>) -> Result<Option<Index>, Error> {
    let mut index = Index::new(Format::Lz4, Sizes::Proven);
    let mut at = 0;
    while at < hops.file_bytes {
        let shown = hops.show(at, lz4::HEADER_BYTES_MAX)?;
        let Some(magic) = shown.get(..4).map(le32) else { return Ok(None) };
        if zst::is_skippable(magic) {
            let Some(bytes) = shown.get(4..8).map(le32) else { return Ok(None) };
            at += zst::SKIPPABLE_HEADER_BYTES as u64 + u64::from(bytes);
            continue;
        }
        let header = if magic == lz4::MAGIC { lz4::header(shown).ok().flatten() } else { None };
        let Some(header) = header.filter(|header| !header.blocks_linked) else { return Ok(None) };
        let Some(end) = frame(hops, at + header.own_bytes as u64, header, &mut index)? else {
            return Ok(None);
        };
        at = end;
    }
    index.blocks = index.entries.len() as u64;
    Ok((at == hops.file_bytes).then_some(index))
}

/// Adds one frame's blocks; returns the offset of its end.
fn frame(
    hops: &mut Hops<'_>,
    mut at: u64,
    header: lz4::Header,
    index: &mut Index,
) -> Result<Option<u64>, Error> {
    let content_at = index.content_bytes();
    let full_bytes = u32::try_from(header.block_bytes).expect("4 MiB at most");
    let checksum_bytes = if header.block_checksums { 4 } else { 0 };
    let frame_first = index.entries.len();
    let end = loop {
        let Some(field) = hops.show(at, 4)?.get(..4).map(le32) else { return Ok(None) };
        let Some(size) = lz4::BlockSize::read(field) else { break at + 4 };
        let bytes = 4 + size.bytes + checksum_bytes;
        if size.bytes > header.block_bytes || at + bytes as u64 > hops.file_bytes {
            return Ok(None);
        }
        index.push(at, u32::try_from(bytes).expect("4 MiB at most"), full_bytes);
        at += bytes as u64;
    };
    let checksum = if header.content_checksum {
        let Some(checksum) = hops.show(end, 4)?.get(..4).map(le32) else { return Ok(None) };
        Some(checksum)
    } else {
        None
    };
    // Only the last block may be short. If the frame's stated size fits with it, all others are full.
    if index.entries.len() > frame_first {
        let last = index.entries.pop().expect("it was just counted");
        let mut block = vec![0; last.bytes as usize];
        if (hops.read_at)(&mut block, last.at)? < block.len() {
            return Ok(None);
        }
        let mut content = Buffer::default();
        if lz4::framed(&block, &header)
            .and_then(|block| Decoder::new(None).decode(&block, &mut content))
            .is_err()
        {
            return Ok(None);
        }
        index.push(last.at, last.bytes, u32::try_from(content.len()).expect("4 MiB at most"));
    }
    let found_bytes = index.content_bytes() - content_at;
    if header.content_bytes.is_some_and(|stated| stated != found_bytes) {
        return Ok(None);
    }
    if header.content_bytes.is_none() {
        index.sizes = Sizes::Likely;
    }
    index.lz4_frames.push(Lz4Frame { entries_end: index.entries.len(), header, checksum });
    Ok(Some(end + if checksum.is_some() { 4 } else { 0 }))
}
