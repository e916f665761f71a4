//! Where the frames of a .zst file are.

use super::{Entry, Hops, Index, UNIT_BYTES_MAX};
use crate::Error;
use crate::ending::Ending;
use crate::format::le32;
use crate::format::zst::{self, Extent};
use crate::level::Format;

/// The index of a .zst file: by its seek table, or else by hopping from frame to frame and block to block.
///
/// # Errors
///
/// What reading says.
pub(crate) fn read(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
    match seekable(hops, dictionary_id)? {
        None => by_frames(hops, dictionary_id),
        found => Ok(found),
    }
}

/// By the seek table, if there is one, it accounts for the whole file, and it is proven: by the end frame before it, or else by
/// the header of every frame.
fn seekable(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
    let Some(table) = Table::read(hops)? else { return Ok(None) };
    let mut index = table.index;
    if !index.entries.iter().all(Entry::is_unit) {
        return Ok(None);
    }
    if !table.is_proven {
        for entry in &index.entries {
            let shown = hops.show(entry.at, zst::HEADER_BYTES_MAX)?;
            let stated = frame_header(shown, dictionary_id).and_then(|header| header.content_bytes);
            if stated != Some(entry.content_bytes.into()) {
                return Ok(None);
            }
        }
    }
    index.blocks = index.entries.len() as u64;
    Ok(Some(index))
}

/// The seek table that ends a file.
pub(crate) struct Table {
    pub(crate) index: Index,
    /// Whether an end frame holds its checksum. Without one a flipped bit goes unnoticed.
    pub(crate) is_proven: bool,
}

impl Table {
    /// Reads the table; `None`: there is none, or it does not account for the whole file.
    ///
    /// # Errors
    ///
    /// What reading says.
    pub(crate) fn read(hops: &mut Hops<'_>) -> Result<Option<Self>, Error> {
        let Some(footer_at) = hops.file_bytes.checked_sub(zst::SEEK_FOOTER_BYTES as u64) else {
            return Ok(None);
        };
        let footer = hops.show(footer_at, zst::SEEK_FOOTER_BYTES)?;
        let Some(table_bytes) = zst::seek_table_bytes(footer) else { return Ok(None) };
        let Some(table_at) = hops.file_bytes.checked_sub(table_bytes) else { return Ok(None) };
        let Ok(table_bytes) = usize::try_from(table_bytes) else { return Ok(None) };
        let table = hops.show(table_at, table_bytes)?;
        let seeks = zst::read_seek_table(&table[..table_bytes.min(table.len())]);
        let Some(seeks) = seeks else { return Ok(None) };
        let end_at = table_at.checked_sub(zst::END_BYTES as u64);
        let end = match end_at {
            Some(at) => zst::End::read(hops.show(at, zst::END_BYTES)?),
            None => None,
        };
        let mut index = Index::new(Format::Zst);
        let mut at = 0;
        let frames_end = if end.is_some() { end_at } else { Some(table_at) };
        let is_proven = end.is_some_and(|end| end.proves(&seeks));
        for seek in &seeks {
            index.push(at, seek.frame_bytes, seek.content_bytes);
            if let Some(entry) = index.entries.last_mut().filter(|_| is_proven) {
                entry.checksum = Some(seek.checksum);
            }
            at += u64::from(seek.frame_bytes);
        }
        // A table of tamp that its end frame does not prove is damaged.
        let is_sound = is_proven || end.is_none();
        Ok((Some(at) == frames_end && is_sound).then_some(Self { index, is_proven }))
    }
}

/// A frame's header, if one stands there and the dictionary it needs is at hand.
fn frame_header(bytes: &[u8], dictionary_id: u32) -> Option<zst::Header> {
    let header = if bytes.get(..4).map(le32)? == zst::MAGIC { zst::header(bytes) } else { None };
    header.filter(|header| [0, dictionary_id].contains(&header.dictionary_id))
}

/// By hopping from frame to frame and block to block.
fn by_frames(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
    let mut index = Index::new(Format::Zst);
    let (mut at, mut ending) = (0, Ending::new());
    while at < hops.file_bytes {
        let shown = hops.show(at, zst::HEADER_BYTES_MAX)?;
        let Some(magic) = shown.get(..4).map(le32) else { return Ok(None) };
        if zst::is_skippable(magic) {
            let Some(bytes) = shown.get(4..8).map(le32) else { return Ok(None) };
            ending.skippable(at, hops.show(at, zst::END_BYTES)?);
            at += zst::SKIPPABLE_HEADER_BYTES as u64 + u64::from(bytes);
            continue;
        }
        let Some(header) = frame_header(shown, dictionary_id) else { return Ok(None) };
        ending.zst(at, header.is_own);
        let Some(content_bytes) = header.content_bytes.and_then(|bytes| u32::try_from(bytes).ok()) else {
            return Ok(None);
        };
        let Some(bytes) = frame_bytes(hops, at, &header)? else { return Ok(None) };
        index.push(at, bytes, content_bytes);
        if !index.entries.last().is_some_and(Entry::is_unit) {
            return Ok(None);
        }
        at += u64::from(bytes);
        if header.is_own {
            let checksum = hops.show(at - 4, 4)?.get(..4).map_or(0, le32);
            ending.own(zst::Seek { frame_bytes: bytes, content_bytes, checksum });
        }
    }
    index.blocks = index.entries.len() as u64;
    Ok((at == hops.file_bytes && ending.finish(at).is_none()).then_some(index))
}

fn frame_bytes(hops: &mut Hops<'_>, frame_at: u64, header: &zst::Header) -> Result<Option<u32>, Error> {
    let mut walk = zst::Walk::new(header);
    loop {
        let shown = hops.show(frame_at + walk.at() as u64, 3)?;
        match walk.step(shown) {
            Ok(None) if walk.at() > UNIT_BYTES_MAX => return Ok(None),
            Ok(None) => {}
            Err(_) | Ok(Some(Extent::Needs(_))) => return Ok(None),
            Ok(Some(Extent::Whole { frame_bytes, .. })) => return Ok(u32::try_from(frame_bytes).ok()),
        }
    }
}
