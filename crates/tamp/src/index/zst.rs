//! Index of a .zst file.

use super::{Entry, Hops, Index, Sizes, UNIT_BYTES_MAX};
use crate::Error;
use crate::ending::{Ending, Problem, Tail};
use crate::format::le32;
use crate::format::zst::{self, Extent};
use crate::level::Format;
use std::hash::Hasher;
use twox_hash::XxHash64;

/// Builds the index of a .zst file from its seek table, or else from the headers of frames and blocks.
///
/// # Errors
///
/// Errors of reading.
pub(crate) fn read(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
    match seekable(hops, dictionary_id)? {
        None => by_frames(hops, dictionary_id),
        found => Ok(found),
    }
}

/// Builds the index from the seek table, if that covers the whole file and is proven by the end frame before
/// it, or else by the header of every frame.
fn seekable(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
    let Some(list) = List::read(hops)? else { return Ok(None) };
    let index = list.index(hops, |hops, entry| {
        if list.is_proven || !entry.is_unit() {
            return Ok(entry.is_unit());
        }
        let header = frame_header(hops.show(entry.at, zst::HEADER_BYTES_MAX)?, dictionary_id);
        // tamp writes an end frame before its table; without one the file is unfinished.
        let fits =
            |header: &zst::Header| !header.is_own && header.content_bytes == Some(entry.content_bytes.into());
        let Some(header) = header.filter(fits) else { return Ok(false) };
        // An entry over two frames would hide the content of the second.
        Ok(frame_bytes(hops, entry.at, &header)? == Some(entry.bytes))
    })?;
    Ok(index.map(Index::with_blocks_counted))
}

/// Seek table at the end of a file.
pub(crate) struct Table {
    pub(crate) index: Index,
    /// Whether an end frame holds the table's checksum. Otherwise a flipped bit would not be detected.
    pub(crate) is_proven: bool,
}

impl Table {
    /// Reads the table; `None` if it is missing, or does not cover the whole file.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub(crate) fn read(hops: &mut Hops<'_>) -> Result<Option<Self>, Error> {
        let Some(list) = List::read(hops)? else { return Ok(None) };
        let index = list.index(hops, |_, _| Ok(true))?;
        Ok(index.map(|index| Self { index, is_proven: list.is_proven }))
    }
}

/// Number of entries read at once.
const ENTRIES_AT_ONCE: usize = 4 << 10;

/// A seek table in a file. The file states its length, so it is never held whole in memory.
struct List {
    entries_at: u64,
    footer: zst::SeekFooter,
    is_proven: bool,
}

impl List {
    /// Finds the table and sums it up; `None` if it is missing, or does not cover the whole file.
    fn read(hops: &mut Hops<'_>) -> Result<Option<Self>, Error> {
        let Some(footer_at) = hops.file_bytes.checked_sub(zst::SEEK_FOOTER_BYTES as u64) else {
            return Ok(None);
        };
        let footer = zst::SeekFooter::read(hops.show(footer_at, zst::SEEK_FOOTER_BYTES)?);
        let Some(footer) = footer else { return Ok(None) };
        let Some(table_at) = hops.file_bytes.checked_sub(footer.table_bytes()) else { return Ok(None) };
        if !footer.has_beginning(hops.show(table_at, zst::SKIPPABLE_HEADER_BYTES)?) {
            return Ok(None);
        }
        let end_at = table_at.checked_sub(zst::END_BYTES as u64);
        let end = match end_at {
            Some(at) => zst::End::read(hops.show(at, zst::END_BYTES)?),
            None => None,
        };
        let entries_at = table_at + zst::SKIPPABLE_HEADER_BYTES as u64;
        let mut list = Self { entries_at, footer, is_proven: false };
        let frames_end = if end.is_some() { end_at.unwrap_or(0) } else { table_at };
        let Some(hash) = list.hash(hops, frames_end)? else { return Ok(None) };
        list.is_proven = footer.is_own && end == Some(zst::End { frames: footer.frames, hash });
        // A table of tamp that contradicts its end frame is damaged.
        Ok((list.is_proven || end.is_none()).then_some(list))
    }

    /// Returns the XXH64 of the entries, if their frames end at `frames_end`.
    fn hash(&self, hops: &mut Hops<'_>, frames_end: u64) -> Result<Option<u64>, Error> {
        let (mut at, mut hash) = (0, XxHash64::with_seed(0));
        let fits = self.each(hops, |_, seek| {
            hash.write(&seek.entry());
            at += u64::from(seek.frame_bytes);
            // A frame is at least as long as a skippable header, which bounds the number of entries by the
            // file's length.
            let is_frame = seek.frame_bytes as usize >= zst::SKIPPABLE_HEADER_BYTES;
            let holds = zst::content_bytes_max(seek.frame_bytes.into());
            Ok(is_frame && u64::from(seek.content_bytes) <= holds && at <= frames_end)
        })?;
        Ok((fits && at == frames_end).then(|| hash.finish()))
    }

    /// Returns the index; `None` if `accepts` refuses an entry. The entries behind it are not read.
    fn index(
        &self,
        hops: &mut Hops<'_>,
        mut accepts: impl FnMut(&mut Hops<'_>, &Entry) -> Result<bool, Error>,
    ) -> Result<Option<Index>, Error> {
        let mut index = Index::new(Format::Zst, Sizes::Proven);
        let mut at = 0;
        let is_right = self.each(hops, |hops, seek| {
            index.push(at, seek.frame_bytes, seek.content_bytes);
            at += u64::from(seek.frame_bytes);
            let entry = index.entries.last_mut().expect("it was just added");
            entry.checksum = self.is_proven.then_some(seek.checksum);
            accepts(hops, entry)
        })?;
        Ok(is_right.then_some(index))
    }

    /// Calls `take` with each entry in order, until it returns `false`.
    fn each(
        &self,
        hops: &mut Hops<'_>,
        mut take: impl FnMut(&mut Hops<'_>, zst::Seek) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let (mut at, mut left) = (self.entries_at, self.footer.frames);
        let mut piece = Vec::new();
        while left > 0 {
            let entries = usize::try_from(left).map_or(ENTRIES_AT_ONCE, |left| left.min(ENTRIES_AT_ONCE));
            piece.resize(entries * self.footer.entry_bytes, 0);
            if (hops.read_at)(&mut piece, at)? < piece.len() {
                return Ok(false);
            }
            for entry in piece.chunks_exact(self.footer.entry_bytes) {
                if !take(hops, zst::Seek::read(entry))? {
                    return Ok(false);
                }
            }
            at += piece.len() as u64;
            left -= entries as u64;
        }
        Ok(true)
    }
}

/// Reads a frame's header, if there is one and its dictionary is given.
fn frame_header(bytes: &[u8], dictionary_id: u32) -> Option<zst::Header> {
    let header = if bytes.get(..4).map(le32)? == zst::MAGIC { zst::header(bytes) } else { None };
    header.filter(|header| [0, dictionary_id].contains(&header.dictionary_id))
}

/// Builds the index from the headers of frames and blocks.
fn by_frames(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
    // The end frame behind frames of tamp proves their sizes. No checksum covers the sizes of other frames.
    let mut index = Index::new(Format::Zst, Sizes::Proven);
    let (mut at, mut ending) = (0, Ending::new());
    while at < hops.file_bytes {
        let shown = hops.show(at, zst::HEADER_BYTES_MAX)?;
        let Some(magic) = shown.get(..4).map(le32) else { return Ok(None) };
        if magic != zst::MAGIC
            && let Some(end) = take_tail(hops, at, &mut ending)?
        {
            at = end;
            continue;
        }
        if zst::is_skippable(magic) {
            let Some(bytes) = hops.show(at, 8)?.get(4..8).map(le32) else { return Ok(None) };
            at += zst::SKIPPABLE_HEADER_BYTES as u64 + u64::from(bytes);
            continue;
        }
        let Some(header) = frame_header(hops.show(at, zst::HEADER_BYTES_MAX)?, dictionary_id) else {
            return Ok(None);
        };
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
        } else {
            index.sizes = Sizes::Stated;
        }
    }
    index.damaged = match ending.finish(at) {
        None => None,
        Some(problem @ Problem::Index(..)) => Some(problem),
        Some(_) => return Ok(None),
    };
    Ok((at == hops.file_bytes).then(|| index.with_blocks_counted()))
}

/// Checks the part of tamp's tail at `at`, and returns the offset of its end; `None` if there is no such
/// part, or the file ends inside it.
///
/// # Errors
///
/// Errors of reading.
pub(crate) fn take_tail(hops: &mut Hops<'_>, at: u64, ending: &mut Ending) -> Result<Option<u64>, Error> {
    let shown = hops.show(at, zst::END_BYTES)?;
    match ending.tail(shown) {
        None => Ok(None),
        Some(Tail::List) => {
            ending.list(at, shown);
            Ok(Some(at + zst::END_BYTES as u64))
        }
        Some(Tail::Table(mut check)) => {
            let mut pos = at;
            while check.left() > 0 {
                let eaten = check.take(hops.show(pos, 1)?);
                if eaten == 0 {
                    return Ok(None);
                }
                pos += eaten as u64;
            }
            ending.table(at, &check);
            Ok(Some(pos))
        }
    }
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
