//! The offset of every block of a file, found without decoding. Random access, listing and parallel reading
//! of regular files use it.

pub(crate) mod bgzf;
pub(crate) mod lz4;
pub(crate) mod zst;

use crate::Error;
use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::dictionary::Dictionary;
use crate::ending::Problem;
use crate::format::lz4::Header;
use crate::format::zst::SKIPPABLE_HEADER_BYTES;
use crate::format::{Magic, le32};
use crate::level::Format;
use crate::split::UNIT_BYTES_MAX;
use std::io;
use std::ops::Range;

/// Callback that reads up to the buffer's length from an offset, less at the end of the file.
pub(crate) type ReadAt<'a> = &'a mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>;

/// Bytes of one read: small frames then need less than one call each.
const HOP_BYTES: usize = 4 << 10;

/// One block, or several BGZF blocks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Offset in the file, of the header.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) content_at: u64,
    pub(crate) content_bytes: u32,
    /// Checksum at the end of the frame, if the index has it.
    pub(crate) checksum: Option<u32>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) format: Format,
    pub(crate) entries: Vec<Entry>,
    /// Frames of an LZ4 file: each with the entry after its last, and the checksum behind its blocks.
    pub(crate) lz4_frames: Vec<Lz4Frame>,
    pub(crate) sizes: Sizes,
    /// Number of blocks with content that decode independently, including small ones of BGZF.
    pub(crate) blocks: u64,
    /// The part of tamp's tail that is damaged, if the other part proves the frames.
    pub(crate) damaged: Option<Problem>,
}

/// Certainty of the offsets in the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sizes {
    /// Assumed: an LZ4 block may be shorter than its frame's block size.
    Likely,
    /// Stated by each block; a flipped bit is found only when the block is decoded.
    Stated,
    /// Proven by a checksum, or by a second statement of every size.
    Proven,
}

/// Properties of an LZ4 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lz4Frame {
    pub(crate) entries_end: usize,
    pub(crate) header: Header,
    pub(crate) checksum: Option<u32>,
}

impl Index {
    /// Builds the index of a file of `file_bytes`. `None` if the blocks do not state their sizes or depend on
    /// each other, or if the file is damaged or unfinished: it must then be read from its beginning.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub(crate) fn read(
        file_bytes: u64,
        dictionary: Option<&Dictionary>,
        read_at: ReadAt<'_>,
    ) -> Result<Option<Self>, Error> {
        let mut hops = Hops::new(file_bytes, read_at);
        let dictionary_id = dictionary.map_or(0, Dictionary::id);
        match first(&mut hops)? {
            Some(magic) => magic.format().container().index(&mut hops, dictionary_id),
            None => Ok(None),
        }
    }

    pub(crate) fn content_bytes(&self) -> u64 {
        self.entries.last().map_or(0, Entry::content_end)
    }

    /// Returns the entry that holds the content byte at `at`, if there is one.
    pub(crate) fn entry_at(&self, at: u64) -> Option<usize> {
        let number = self.entries.partition_point(|entry| entry.content_end() <= at);
        (number < self.entries.len()).then_some(number)
    }

    /// Returns the LZ4 frame of entry `number`; `None` in other formats.
    pub(crate) fn lz4_frame(&self, number: usize) -> Option<&Lz4Frame> {
        self.lz4_frames.get(self.lz4_frames.partition_point(|frame| frame.entries_end <= number))
    }

    /// Groups the entries in pieces of at most `piece_bytes`, both in the file and of content; a larger entry
    /// is a piece by itself.
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

    fn new(format: Format, sizes: Sizes) -> Self {
        Self { format, entries: Vec::new(), lz4_frames: Vec::new(), sizes, blocks: 0, damaged: None }
    }

    /// Counts each entry as a block, unless it has no content.
    fn with_blocks_counted(self) -> Self {
        let blocks = self.entries.iter().filter(|entry| entry.content_bytes > 0).count() as u64;
        Self { blocks, ..self }
    }

    fn push(&mut self, at: u64, bytes: u32, content_bytes: u32) {
        let content_at = self.content_bytes();
        self.entries.push(Entry { at, bytes, content_at, content_bytes, checksum: None });
    }
}

impl Entry {
    /// Offset of the next entry, if it follows directly.
    pub(crate) fn end(&self) -> u64 {
        self.at + u64::from(self.bytes)
    }

    fn ends_within(&self, bytes: u64, first: &Self) -> bool {
        self.end() - first.at <= bytes && self.content_end() - first.content_at <= bytes
    }

    pub(crate) fn content_end(&self) -> u64 {
        self.content_at + u64::from(self.content_bytes)
    }

    /// Whether the entry is small enough to decode in one piece.
    fn is_unit(&self) -> bool {
        self.bytes as usize <= UNIT_BYTES_MAX && self.content_bytes as usize <= UNIT_BYTES_MAX
    }
}

impl Index {
    /// Decodes entry `number`, given as stored in the file, and appends it to `content`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or with the index.
    pub(crate) fn decode(
        &self,
        number: usize,
        decoder: &mut Decoder<'_>,
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
            return Err("a frame whose checksum differs from the seek table");
        }
        let block = self.format.container().block(
            packed,
            content_bytes,
            self.lz4_frame(number).map(|frame| &frame.header),
        )?;
        decoder.decode(&block, content)?;
        if content.len() - before == content_bytes {
            Ok(())
        } else {
            Err("a block whose size differs from the index")
        }
    }
}

/// Returns the file's first magic behind skippable frames, which Zstandard and LZ4 share; `None` if it is
/// unknown.
///
/// # Errors
///
/// Errors of reading.
pub(crate) fn first(hops: &mut Hops<'_>) -> Result<Option<Magic>, Error> {
    let mut at = 0;
    loop {
        let shown = hops.show(at, SKIPPABLE_HEADER_BYTES)?;
        match (Magic::of(shown), shown.get(4..8)) {
            (Some(Magic::Skippable), Some(bytes)) => {
                at += SKIPPABLE_HEADER_BYTES as u64 + u64::from(le32(bytes));
            }
            // A file of only skippable frames counts as Zstandard.
            (None, _) if at > 0 => return Ok(Some(Magic::Skippable)),
            (magic, _) => return Ok(magic),
        }
    }
}

/// Small reads at increasing offsets, with a buffer of a few KiB.
pub(crate) struct Hops<'a> {
    read_at: ReadAt<'a>,
    pub(crate) file_bytes: u64,
    /// Length of the file, also if `file_bytes` is less.
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    /// Bytes gone through so far, as far as [`Hops::spend`] counts them.
    pub(crate) spent_bytes: u64,
}

impl<'a> Hops<'a> {
    pub(crate) fn new(file_bytes: u64, read_at: ReadAt<'a>) -> Self {
        Self { read_at, file_bytes, end: file_bytes, window: Vec::new(), window_at: 0, spent_bytes: 0 }
    }

    /// Counts work like that on `bytes`.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.spent_bytes = self.spent_bytes.saturating_add(bytes);
    }

    /// Returns the bytes from `at`: at least `bytes`, unless the file ends before.
    pub(crate) fn show(&mut self, at: u64, bytes: usize) -> Result<&[u8], Error> {
        let held = self.window_at..self.window_at + self.window.len() as u64;
        if !(held.contains(&at) && at + bytes as u64 <= held.end) {
            let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
            self.window.resize(bytes.max(HOP_BYTES).min(left), 0);
            let read = (self.read_at)(&mut self.window, at)?;
            self.window.truncate(read);
            self.window_at = at;
        }
        let from = usize::try_from(at - self.window_at).expect("inside the window").min(self.window.len());
        Ok(&self.window[from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_take_neighbours_as_far_as_they_fit_and_leave_none_out() {
        let mut index = Index::new(Format::Zst, Sizes::Proven);
        // Offset, bytes and content of each entry. There is a gap between the fourth and the fifth.
        for (at, bytes, content) in
            [(0, 10, 40), (10, 10, 40), (20, 10, 40), (30, 500, 40), (900, 10, 40), (910, 0, 0)]
        {
            index.push(at, bytes, content);
        }
        assert_eq!(index.pieces(100), [0..2, 2..3, 3..4, 4..6]);
        assert_eq!(index.pieces(0), (0..6).map(|n| n..n + 1).collect::<Vec<_>>());
        assert_eq!(index.pieces(1 << 20).len(), 1);
        assert_eq!(Index::new(Format::Lz4, Sizes::Proven).pieces(100), []);
    }
}
