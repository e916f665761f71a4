//! The Zstandard container: frames, skippable frames, and the seek table at the end.
//!
//! # Source
//!
//! RFC 8878 (Zstandard), and the seekable format in zstd's `contrib/seekable_format`.

mod codec;
mod list;

use super::{Container, Encode, Setting};
use crate::Error;
use crate::decode::{Block, Coding};
use crate::dictionary::Dictionary;
use crate::index::{self, Hops, Index};
use crate::level::{BLOCK_BYTES_MAX, Level, Options};
use codec::CONTENT_FIELD_BYTES;
pub(crate) use codec::{Decoder, Encoder, OTHER_DICTIONARY};
pub(crate) use list::{
    END_BYTES, End, SEEK_FOOTER_BYTES, Seek, SeekFooter, TableCheck, begins_tail, seek_table_bytes, tail,
};

pub(crate) const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// Magic and size of a skippable frame.
pub(crate) const SKIPPABLE_HEADER_BYTES: usize = 8;
pub(crate) const BLOCK_HEADER_BYTES: usize = 3;
/// Largest window of the format, as a power of two.
pub(crate) const WINDOW_LOG_MAX: u32 = 31;
/// Maximum content of a block, and maximum length of a block in a frame.
pub(crate) const BLOCK_OUT_MAX: usize = 128 << 10;

/// Format with a frame for each block, and the seek table of the seekable format at the end.
#[derive(Debug)]
pub(crate) struct Zst;

impl Container for Zst {
    fn name(&self) -> &'static str {
        "zst"
    }

    fn needs_window(&self) -> bool {
        true
    }

    /// A block of 256 KiB fits a core's L2 cache; the longer searches of high levels gain from larger blocks.
    fn block_bytes_usual(&self, level: Level) -> usize {
        match level.get() {
            0..=2 => 256 << 10,
            3..=5 => 1 << 20,
            _ => 4 << 20,
        }
    }

    fn setting(&self, level: Level) -> Setting {
        Setting([-3, -1, 1, 3, 5, 7, 9, 12, 15, 19][usize::from(level.get())])
    }

    fn beyond(&self) -> &'static [Setting] {
        &[Setting(-7), Setting(-20), Setting(-60), Setting(-1000)]
    }

    fn refuses(&self, _options: &Options) -> Option<&'static str> {
        None
    }

    fn has_large_tables(&self, level: Level) -> bool {
        level.get() >= 6
    }

    fn encoder(&self, dictionary: Option<&Dictionary>) -> Box<dyn Encode> {
        Box::new(Encoder::new(dictionary))
    }

    fn wants_empty_block(&self) -> bool {
        true
    }

    fn seek(&self, packed: &[u8], content_bytes: usize) -> Option<Seek> {
        Some(Seek::of(packed, content_bytes))
    }

    fn tail(&self, seeks: &[Seek]) -> Vec<u8> {
        tail(seeks)
    }

    fn index(&self, hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error> {
        index::zst::read(hops, dictionary_id)
    }

    fn block<'a>(
        &self,
        packed: &'a [u8],
        content_bytes: usize,
        _frame: Option<&super::lz4::Header>,
    ) -> Result<Block<'a>, &'static str> {
        Ok(Block::new(packed, Coding::Zst { content_bytes_max: content_bytes }))
    }
}

/// Whether `magic` is that of a skippable frame.
pub(crate) fn is_skippable(magic: u32) -> bool {
    magic & 0xFFFF_FFF0 == SKIPPABLE_MAGIC
}

/// Fields of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) own_bytes: usize,
    pub(crate) content_bytes: Option<u64>,
    pub(crate) checksum: bool,
    /// Dictionary of the frame; 0 if it needs none or does not name it.
    pub(crate) dictionary_id: u32,
    /// Size of the window, which decoding in pieces must hold.
    pub(crate) window_bytes: u64,
    /// Whether tamp wrote the frame, so an end frame must follow.
    pub(crate) is_own: bool,
}

impl Header {
    /// Returns the memory for decoding the frame in pieces: references reach back at most to the first byte
    /// of content.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.window_bytes.min(self.content_bytes.unwrap_or(u64::MAX))
    }
}

/// Shortest possible frame header, magic included.
pub(crate) const HEADER_BYTES_MIN: usize = 6;
/// Longest possible frame header, magic included.
pub(crate) const HEADER_BYTES_MAX: usize = 18;

/// Reads a frame's header; `None` if `bytes` end inside it.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let descriptor = *bytes.get(4)?;
    let single_segment = descriptor & 0x20 != 0;
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_field_bytes = match (descriptor >> 6, single_segment) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let dictionary_at = 5 + usize::from(!single_segment);
    let content_at = dictionary_at + dictionary_bytes;
    let content = bytes.get(content_at..content_at + content_field_bytes)?;
    let mut padded = [0; 8];
    padded[..content.len()].copy_from_slice(content);
    let content_bytes = match content_field_bytes {
        0 => None,
        2 => Some(u64::from_le_bytes(padded) + 256),
        _ => Some(u64::from_le_bytes(padded)),
    };
    let window_bytes = if single_segment {
        content_bytes.unwrap_or(0)
    } else {
        let (exponent, mantissa) = (bytes[5] >> 3, u64::from(bytes[5] & 7));
        let base = 1_u64 << (10 + exponent);
        base + base / 8 * mantissa
    };
    let mut dictionary_id = [0; 4];
    dictionary_id[..dictionary_bytes].copy_from_slice(&bytes[dictionary_at..content_at]);
    Some(Header {
        own_bytes: content_at + content_field_bytes,
        content_bytes,
        checksum: descriptor & 4 != 0,
        dictionary_id: u32::from_le_bytes(dictionary_id),
        window_bytes,
        is_own: content_field_bytes == CONTENT_FIELD_BYTES
            && content_bytes.is_some_and(|bytes| bytes <= BLOCK_BYTES_MAX as u64)
            && descriptor & 4 != 0,
    })
}

/// Returns the maximum content of so many bytes of frames: a block that repeats a byte takes four.
pub(crate) fn content_bytes_max(frame_bytes: u64) -> u64 {
    (frame_bytes / 4).saturating_mul(BLOCK_OUT_MAX as u64)
}

/// Length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Unknown until at least this many bytes are given.
    Needs(usize),
    /// The whole length, and the maximum size of the content.
    Whole { frame_bytes: usize, content_bytes_max: usize },
}

/// Walks a frame's blocks, from `header` on, without decoding them.
///
/// # Errors
///
/// An invalid block header.
pub(crate) fn extent(bytes: &[u8], header: &Header) -> Result<Extent, &'static str> {
    let mut walk = Walk::new(header);
    loop {
        let at = walk.at().min(bytes.len());
        match walk.step(&bytes[at..])? {
            Some(Extent::Whole { frame_bytes, .. }) if bytes.len() < frame_bytes => {
                return Ok(Extent::Needs(frame_bytes));
            }
            Some(extent) => return Ok(extent),
            None => {}
        }
    }
}

/// A walk over a frame's blocks, which need not be in memory.
pub(crate) struct Walk {
    at: usize,
    content_bytes_max: usize,
    stated_content_bytes: Option<u64>,
    checksum_bytes: usize,
}

impl Walk {
    /// Starts at the first block's header.
    pub(crate) fn new(header: &Header) -> Self {
        Self {
            at: header.own_bytes,
            content_bytes_max: 0,
            stated_content_bytes: header.content_bytes,
            checksum_bytes: if header.checksum { 4 } else { 0 },
        }
    }

    /// Offset of the next block's header in the frame.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Skips the block with the header at the beginning of `bytes`; `None` if another block follows.
    ///
    /// # Errors
    ///
    /// What is wrong with the header.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Result<Option<Extent>, &'static str> {
        let Some(block) = bytes.get(..3) else { return Ok(Some(Extent::Needs(self.at + 3))) };
        let block = u32::from_le_bytes([block[0], block[1], block[2], 0]);
        let (is_last, kind, size) = (block & 1 == 1, (block >> 1) & 3, (block >> 3) as usize);
        if size > BLOCK_OUT_MAX {
            return Err("a zstd block above the largest size");
        }
        let (own_bytes, content_bytes_max) = match kind {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_OUT_MAX),
            _ => return Err("a zstd block of the reserved kind"),
        };
        self.at += 3 + own_bytes;
        self.content_bytes_max += content_bytes_max;
        if !is_last {
            return Ok(None);
        }
        let stated = self.stated_content_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        if stated.is_some_and(|stated| stated > self.content_bytes_max) {
            return Err("a zstd frame that states more content than its blocks can hold");
        }
        let content_bytes_max = stated.unwrap_or(self.content_bytes_max);
        Ok(Some(Extent::Whole { frame_bytes: self.at + self.checksum_bytes, content_bytes_max }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    fn frame_of(block: &[u8]) -> Vec<u8> {
        let mut frame = Buffer::default();
        Encoder::new(None).encode(block, Setting(1), &mut frame).unwrap();
        frame.to_vec()
    }

    #[test]
    fn the_header_states_what_went_in_at_every_width_of_the_size_field() {
        for bytes in [0, 1, 255, 256, 65_791, 65_792, 1 << 20] {
            let frame = frame_of(&vec![7; bytes]);
            let header = header(&frame).unwrap();
            assert_eq!(header.content_bytes, Some(bytes as u64));
            assert!(header.checksum && header.is_own && header.dictionary_id == 0);
        }
    }

    #[test]
    fn a_frame_is_known_to_the_byte_and_a_cut_one_asks_for_more() {
        let block: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let frame = frame_of(&block);
        let header = header(&frame).unwrap();
        let whole = Extent::Whole { frame_bytes: frame.len(), content_bytes_max: block.len() };
        assert_eq!(extent(&frame, &header), Ok(whole));
        for cut in [header.own_bytes, frame.len() / 2, frame.len() - 1] {
            let found = extent(&frame[..cut], &header).unwrap();
            assert!(matches!(found, Extent::Needs(bytes) if bytes > cut && bytes <= frame.len()));
        }
    }

    #[test]
    fn a_flipped_byte_in_a_frame_is_found() {
        let frame = frame_of(&(0..10_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        let mut content = Buffer::default();
        for at in [10, frame.len() / 2, frame.len() - 1] {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert!(Decoder::new(None).decode(&damaged, 1 << 20, &mut content).is_err(), "byte {at}");
        }
    }
}
