//! Where every block of a file is, found without decoding: what random access, listing and
//! parallel reading of regular files go by.

use crate::Error;
use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::dictionary::Dictionary;
use crate::ending::Ending;
use crate::format::zst::{self, Extent, le32};
use crate::format::{gz, lz4};
use crate::level::Format;
use crate::split::UNIT_BYTES_MAX;
use std::io;
use std::ops::Range;

/// Reads as many bytes as there are, at most the buffer's, from an offset.
pub(crate) type ReadAt<'a> = &'a mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>;

/// BGZF blocks are one entry together until they hold this much.
const BGZF_ENTRY_BYTES: u64 = 256 << 10;
/// Read ahead while hopping, so that small frames cost less than a call each.
const HOP_BYTES: usize = 4 << 10;

/// One block, or some BGZF blocks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it stands in the file, header included.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) content_at: u64,
    pub(crate) content_bytes: u32,
    /// What ends the frame, if the index has a checksum of it.
    pub(crate) checksum: Option<u32>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) format: Format,
    pub(crate) entries: Vec<Entry>,
    /// LZ4: what stands behind each frame's blocks, with the entry after its last.
    pub(crate) lz4_frames: Vec<Lz4Frame>,
    /// Whether `content_at` is known, not only likely: an LZ4 block may be shorter than its frame's blocks are.
    pub(crate) is_proven: bool,
    /// Blocks that decode by themselves, BGZF's small ones too.
    pub(crate) blocks: u64,
}

/// An LZ4 frame's own facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lz4Frame {
    pub(crate) entries_end: usize,
    pub(crate) header: lz4::Header,
    pub(crate) checksum: Option<u32>,
}

impl Index {
    /// Builds the index of a file of `file_bytes`; `None`: its blocks do not tell where they are, or
    /// depend on each other, or it is unfinished, so it must be read from its beginning.
    ///
    /// # Errors
    ///
    /// What reading says. A damaged file has no index, which is no error here.
    pub(crate) fn read(
        file_bytes: u64,
        dictionary: Option<&Dictionary>,
        read_at: ReadAt<'_>,
    ) -> Result<Option<Self>, Error> {
        let mut hops = Hops::new(file_bytes, read_at);
        let dictionary_id = dictionary.map_or(0, Dictionary::id);
        let magic = hops.show(0, 4)?;
        if magic.starts_with(&gz::MAGIC) {
            return bgzf(&mut hops);
        }
        match magic.get(..4).map(le32) {
            Some(lz4::MAGIC) => lz4(&mut hops),
            Some(magic) if magic == zst::MAGIC || zst::is_skippable(magic) => {
                match seekable(&mut hops, dictionary_id)? {
                    None => zst(&mut hops, dictionary_id),
                    found => Ok(found),
                }
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn content_bytes(&self) -> u64 {
        self.entries.last().map_or(0, Entry::content_end)
    }

    /// The entry that holds the content byte at `at`, if there is one.
    pub(crate) fn entry_at(&self, at: u64) -> Option<usize> {
        let number = self.entries.partition_point(|entry| entry.content_end() <= at);
        (number < self.entries.len()).then_some(number)
    }

    /// The LZ4 frame that entry `number` belongs to.
    pub(crate) fn lz4_frame(&self, number: usize) -> &Lz4Frame {
        &self.lz4_frames[self.lz4_frames.partition_point(|frame| frame.entries_end <= number)]
    }

    /// The entries in pieces of at most `piece_bytes`, in the file and of content; one that is larger is a piece by
    /// itself.
    pub(crate) fn pieces(&self, piece_bytes: u64) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for (number, entry) in self.entries.iter().enumerate() {
            match pieces.last_mut() {
                Some(piece) if entry.ends_within(piece_bytes, &self.entries[piece.start]) => {
                    piece.end = number + 1;
                }
                _ => pieces.push(number..number + 1),
            }
        }
        pieces
    }

    fn new(format: Format) -> Self {
        Self { format, entries: Vec::new(), lz4_frames: Vec::new(), is_proven: true, blocks: 0 }
    }

    fn push(&mut self, at: u64, bytes: u32, content_bytes: u32) {
        let content_at = self.content_bytes();
        self.entries.push(Entry { at, bytes, content_at, content_bytes, checksum: None });
    }
}

impl Entry {
    /// Where the next one may stand.
    pub(crate) fn end(&self) -> u64 {
        self.at + u64::from(self.bytes)
    }

    fn ends_within(&self, bytes: u64, first: &Self) -> bool {
        self.end() - first.at <= bytes && self.content_end() - first.content_at <= bytes
    }

    pub(crate) fn content_end(&self) -> u64 {
        self.content_at + u64::from(self.content_bytes)
    }
}

impl Index {
    /// Decodes entry `number`, given as it stands in the file, and appends it to `content`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or with the index.
    pub(crate) fn decode(
        &self,
        number: usize,
        decoder: &mut Decoder,
        packed: &[u8],
        content: &mut Buffer,
    ) -> Result<(), &'static str> {
        let entry = &self.entries[number];
        let content_bytes = entry.content_bytes as usize;
        let before = content.len();
        if packed.len() < entry.bytes as usize {
            return Err("a block that is cut");
        }
        if entry.checksum.is_some_and(|checksum| !packed.ends_with(&checksum.to_le_bytes())) {
            return Err("a frame that is not the one the seek table lists");
        }
        match self.format {
            Format::Zst => decoder.zst(packed, content_bytes, content)?,
            Format::Bgzf => decoder.bgzf(packed, content_bytes, content)?,
            Format::Lz4 => lz4::decode_framed(packed, &self.lz4_frame(number).header, content)?,
        }
        if content.len() - before == content_bytes {
            Ok(())
        } else {
            Err("a block of another size than the index says")
        }
    }
}

/// Small reads here and there, a few KiB at a time.
pub(crate) struct Hops<'a> {
    read_at: ReadAt<'a>,
    pub(crate) file_bytes: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Hops<'a> {
    pub(crate) fn new(file_bytes: u64, read_at: ReadAt<'a>) -> Self {
        Self { read_at, file_bytes, window: Vec::new(), window_at: 0 }
    }

    /// The bytes from `at`, at least `bytes` of them unless the file ends before.
    pub(crate) fn show(&mut self, at: u64, bytes: usize) -> Result<&[u8], Error> {
        let held = self.window_at..self.window_at + self.window.len() as u64;
        if !(held.contains(&at) && at + bytes as u64 <= held.end) {
            self.window.resize(bytes.max(HOP_BYTES), 0);
            let read = (self.read_at)(&mut self.window, at)?;
            self.window.truncate(read);
            self.window_at = at;
        }
        let from = usize::try_from(at - self.window_at).expect("inside the window").min(self.window.len());
        Ok(&self.window[from..])
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

impl Entry {
    /// Whether it is small enough to be decoded in one piece.
    fn is_unit(&self) -> bool {
        self.bytes as usize <= UNIT_BYTES_MAX && self.content_bytes as usize <= UNIT_BYTES_MAX
    }
}

/// By hopping from frame to frame and block to block.
fn zst(hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
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
        let Some(bytes) = zst_frame_bytes(hops, at, &header)? else { return Ok(None) };
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

fn zst_frame_bytes(hops: &mut Hops<'_>, frame_at: u64, header: &zst::Header) -> Result<Option<u32>, Error> {
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

fn lz4(hops: &mut Hops<'_>) -> Result<Option<Index>, Error> {
    let mut index = Index::new(Format::Lz4);
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
        let Some(end) = lz4_frame(hops, at + header.own_bytes as u64, header, &mut index)? else {
            return Ok(None);
        };
        at = end;
    }
    index.blocks = index.entries.len() as u64;
    Ok((at == hops.file_bytes).then_some(index))
}

/// Adds one frame's blocks; yields where it ends.
fn lz4_frame(
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
    // Only the last block may be short; if the frame's stated size is met with it, none other was.
    if index.entries.len() > frame_first {
        let last = index.entries.pop().expect("it was just counted");
        let mut block = vec![0; last.bytes as usize];
        if (hops.read_at)(&mut block, last.at)? < block.len() {
            return Ok(None);
        }
        let mut content = Buffer::default();
        if lz4::decode_framed(&block, &header, &mut content).is_err() {
            return Ok(None);
        }
        index.push(last.at, last.bytes, u32::try_from(content.len()).expect("4 MiB at most"));
    }
    let found_bytes = index.content_bytes() - content_at;
    if header.content_bytes.is_some_and(|stated| stated != found_bytes) {
        return Ok(None);
    }
    index.is_proven &= header.content_bytes.is_some();
    index.lz4_frames.push(Lz4Frame { entries_end: index.entries.len(), header, checksum });
    Ok(Some(end + if checksum.is_some() { 4 } else { 0 }))
}

fn bgzf(hops: &mut Hops<'_>) -> Result<Option<Index>, Error> {
    let mut index = Index::new(Format::Bgzf);
    let (mut at, mut entry_at, mut content_bytes, mut has_end) = (0, 0, 0, false);
    while at < hops.file_bytes {
        let shown = hops.show(at, 64)?;
        let known = if shown.starts_with(&gz::MAGIC) { gz::header(shown).ok().flatten() } else { None };
        let Some(bytes) = known.and_then(|header| header.bgzf_bytes) else { return Ok(None) };
        let end = at + bytes as u64;
        // The trailer of this block and, for the next hop, the header behind it.
        let shown = hops.show(end - 4, 68)?;
        let Some(size) = shown.get(..4).map(le32).filter(|&size| size <= 1 << 16) else { return Ok(None) };
        content_bytes += u64::from(size);
        has_end = size == 0;
        index.blocks += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_take_neighbours_as_far_as_they_fit_and_leave_none_out() {
        let mut index = Index::new(Format::Zst);
        // In turn: at, bytes, content. Between the fourth and the fifth something else stands.
        for (at, bytes, content) in
            [(0, 10, 40), (10, 10, 40), (20, 10, 40), (30, 500, 40), (900, 10, 40), (910, 0, 0)]
        {
            index.push(at, bytes, content);
        }
        assert_eq!(index.pieces(100), [0..2, 2..3, 3..4, 4..6]);
        assert_eq!(index.pieces(0), (0..6).map(|n| n..n + 1).collect::<Vec<_>>());
        assert_eq!(index.pieces(1 << 20).len(), 1);
        assert_eq!(Index::new(Format::Lz4).pieces(100), []);
    }
}
