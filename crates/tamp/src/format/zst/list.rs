//! The tail that tamp writes behind its frames: the end frame, which lists them by a checksum, and the seek
//! table.
//!
//! # Source
//!
//! The seekable format in zstd's `contrib/seekable_format`.

use super::{SKIPPABLE_HEADER_BYTES, SKIPPABLE_MAGIC};
use crate::format::le32;
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash64;

const SEEK_TABLE_MAGIC: u32 = SKIPPABLE_MAGIC | 0xE;
const END_MAGIC: u32 = SKIPPABLE_MAGIC | 0xD;
/// First bytes of an end frame's payload.
const END_NAME: [u8; 4] = *b"tamp";
/// Header, name, number of frames, XXH64 of the seek table behind it.
pub(crate) const END_BYTES: usize = SKIPPABLE_HEADER_BYTES + 4 + 8 + 8;
const END_PAYLOAD_BYTES: u32 = 4 + 8 + 8;
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Maximum number of frames in a seek table of this format.
const FRAMES_MAX: usize = 0x0800_0000;
/// Number of frames, descriptor, magic.
pub(crate) const SEEK_FOOTER_BYTES: usize = 9;

/// Entry of a seek table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seek {
    pub(crate) frame_bytes: u32,
    pub(crate) content_bytes: u32,
    /// Last bytes of the frame: the lower half of its content's XXH64. 0 in tables without checksums.
    pub(crate) checksum: u32,
}

/// Length of an entry with a checksum.
const ENTRY_BYTES: usize = 12;

impl Seek {
    /// Returns the entry of a whole frame that ends with a checksum.
    pub(crate) fn of(frame: &[u8], content_bytes: usize) -> Self {
        Self {
            frame_bytes: u32::try_from(frame.len()).expect("blocks are at most 128 MiB"),
            content_bytes: u32::try_from(content_bytes).expect("blocks are at most 128 MiB"),
            checksum: le32(&frame[frame.len() - 4..]),
        }
    }

    /// Reads an entry of a table, with or without a checksum.
    pub(crate) fn read(entry: &[u8]) -> Self {
        Self {
            frame_bytes: le32(entry),
            content_bytes: le32(&entry[4..]),
            checksum: entry.get(8..12).map_or(0, le32),
        }
    }

    /// Returns the entry as stored in the table.
    pub(crate) fn entry(self) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        entry[..4].copy_from_slice(&self.frame_bytes.to_le_bytes());
        entry[4..8].copy_from_slice(&self.content_bytes.to_le_bytes());
        entry[8..].copy_from_slice(&self.checksum.to_le_bytes());
        entry
    }
}

/// Returns the tail of a file: the end frame, which lists the frames and proves the seek table, and the seek
/// table.
///
/// Both are skippable frames. If there are more frames than a seek table can list, the table is left out, and
/// readers walk the frames.
pub(crate) fn tail(seeks: &[Seek]) -> Vec<u8> {
    let mut tail = vec![0; END_BYTES];
    seek_table(seeks, &mut tail);
    let mut hash = XxHash64::with_seed(0);
    for seek in seeks {
        hash.write(&seek.entry());
    }
    tail[..4].copy_from_slice(&END_MAGIC.to_le_bytes());
    tail[4..8].copy_from_slice(&END_PAYLOAD_BYTES.to_le_bytes());
    tail[8..12].copy_from_slice(&END_NAME);
    tail[12..20].copy_from_slice(&(seeks.len() as u64).to_le_bytes());
    tail[20..28].copy_from_slice(&hash.finish().to_le_bytes());
    tail
}

/// Whether `bytes`, the last of a file, begin an end frame or a seek table.
pub(crate) fn begins_tail(bytes: &[u8]) -> bool {
    let head = &tail(&[])[..SKIPPABLE_HEADER_BYTES + END_NAME.len()];
    let is_end = head.starts_with(&bytes[..bytes.len().min(head.len())]) && bytes.len() < END_BYTES;
    is_end || bytes.get(..4).is_some_and(|magic| le32(magic) == SEEK_TABLE_MAGIC)
}

/// Summary in an end frame of the frames since the beginning of the file or the previous end frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Number of frames.
    pub(crate) frames: u64,
    /// XXH64 of their entries in the seek table.
    pub(crate) hash: u64,
}

impl End {
    /// Whether `bytes` resemble an end frame, though its magic, length or name may be wrong.
    pub(crate) fn resembles(bytes: &[u8]) -> bool {
        let is_right = |at: usize, expected: [u8; 4]| bytes[at..at + 4] == expected;
        bytes.len() >= END_BYTES
            && [
                is_right(0, END_MAGIC.to_le_bytes()),
                is_right(4, END_PAYLOAD_BYTES.to_le_bytes()),
                is_right(8, END_NAME),
            ]
            .iter()
            .filter(|&&is_right| is_right)
            .count()
                >= 2
    }

    /// Reads an end frame; `None` if `bytes` do not begin with one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..END_BYTES)?;
        let is_end =
            le32(bytes) == END_MAGIC && le32(&bytes[4..]) == END_PAYLOAD_BYTES && bytes[8..12] == END_NAME;
        let le64 = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        is_end.then(|| Self { frames: le64(12), hash: le64(20) })
    }
}

fn seek_table(seeks: &[Seek], table: &mut Vec<u8>) {
    if seeks.len() > FRAMES_MAX {
        return;
    }
    table.extend(table_header(seeks.len() as u64));
    table.extend(seeks.iter().flat_map(|seek| seek.entry()));
    table.extend(table_footer(seeks.len() as u64));
}

fn table_header(frames: u64) -> [u8; SKIPPABLE_HEADER_BYTES] {
    let payload_bytes = frames * ENTRY_BYTES as u64 + SEEK_FOOTER_BYTES as u64;
    let mut header = [0; SKIPPABLE_HEADER_BYTES];
    header[..4].copy_from_slice(&SEEK_TABLE_MAGIC.to_le_bytes());
    header[4..].copy_from_slice(&u32::try_from(payload_bytes).unwrap_or(u32::MAX).to_le_bytes());
    header
}

fn table_footer(frames: u64) -> [u8; SEEK_FOOTER_BYTES] {
    let mut footer = [0; SEEK_FOOTER_BYTES];
    footer[..4].copy_from_slice(&u32::try_from(frames).unwrap_or(u32::MAX).to_le_bytes());
    // The upper bit marks entries with checksums.
    footer[4] = 0x80;
    footer[5..].copy_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
    footer
}

/// Compares a seek table, read in pieces, with the table that tamp writes for so many frames.
#[derive(Clone)]
pub(crate) struct TableCheck {
    frames: u64,
    taken: u64,
    hash: XxHash64,
    /// Whether header and footer are right so far.
    is_framed: bool,
}

impl TableCheck {
    pub(crate) fn new(frames: u64) -> Self {
        Self { frames, taken: 0, hash: XxHash64::with_seed(0), is_framed: true }
    }

    /// Whether `bytes` begin with such a table.
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        self.is_possible() && bytes.starts_with(&table_header(self.frames))
    }

    /// Whether `bytes` begin with such a table, though its magic or its length may be wrong.
    pub(crate) fn resembles(&self, bytes: &[u8]) -> bool {
        let header = table_header(self.frames);
        let is_right = |part: Range<usize>| bytes[part.clone()] == header[part];
        self.is_possible() && bytes.len() >= header.len() && (is_right(0..4) || is_right(4..8))
    }

    /// Whether the format allows such a table: otherwise tamp writes none.
    fn is_possible(&self) -> bool {
        self.frames <= FRAMES_MAX as u64
    }

    /// Number of bytes left in the table.
    pub(crate) fn left(&self) -> u64 {
        self.footer_at() + SEEK_FOOTER_BYTES as u64 - self.taken
    }

    /// Continues with `bytes`; returns how many of them belong to the table.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> usize {
        let mut eaten = 0;
        while eaten < bytes.len() && self.left() > 0 {
            let (header, footer) = (table_header(self.frames), table_footer(self.frames));
            let (part, expected) = if self.taken < header.len() as u64 {
                (0..header.len() as u64, &header[..])
            } else if self.taken < self.footer_at() {
                (header.len() as u64..self.footer_at(), &[][..])
            } else {
                (self.footer_at()..self.footer_at() + footer.len() as u64, &footer[..])
            };
            let room = usize::try_from(part.end - self.taken).unwrap_or(usize::MAX);
            let piece = &bytes[eaten..bytes.len().min(eaten.saturating_add(room))];
            if expected.is_empty() {
                self.hash.write(piece);
            } else {
                let from = usize::try_from(self.taken - part.start).expect("a few bytes");
                self.is_framed &= expected[from..].starts_with(piece);
            }
            eaten += piece.len();
            self.taken += piece.len() as u64;
        }
        eaten
    }

    /// Whether the whole table was read, and its entries have this XXH64.
    pub(crate) fn is_of(&self, hash: u64) -> bool {
        self.left() == 0 && self.is_framed && self.hash.finish() == hash
    }

    fn footer_at(&self) -> u64 {
        SKIPPABLE_HEADER_BYTES as u64 + self.frames * ENTRY_BYTES as u64
    }
}

/// Fields of a seek table's footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeekFooter {
    pub(crate) frames: u64,
    /// Length of each entry.
    pub(crate) entry_bytes: usize,
    /// Whether tamp's own tables have this footer.
    pub(crate) is_own: bool,
}

impl SeekFooter {
    /// Reads the last bytes of a file; `None` if they do not end a seek table.
    pub(crate) fn read(footer: &[u8]) -> Option<Self> {
        let footer = footer.get(..SEEK_FOOTER_BYTES)?;
        let (frames, descriptor) = (le32(footer), footer[4]);
        let is_known = le32(&footer[5..]) == SEEKABLE_MAGIC && descriptor & 0x7C == 0;
        let entry_bytes = if descriptor & 0x80 == 0 { ENTRY_BYTES - 4 } else { ENTRY_BYTES };
        let frames = u64::from(frames);
        let is_own = *footer == table_footer(frames);
        (is_known && frames <= FRAMES_MAX as u64).then_some(Self { frames, entry_bytes, is_own })
    }

    /// Length of the whole skippable frame that is the table.
    pub(crate) fn table_bytes(&self) -> u64 {
        (SKIPPABLE_HEADER_BYTES + SEEK_FOOTER_BYTES) as u64 + self.frames * self.entry_bytes as u64
    }

    /// Whether `bytes` begin the table of this footer.
    pub(crate) fn has_beginning(&self, bytes: &[u8]) -> bool {
        let payload_bytes = self.table_bytes() - SKIPPABLE_HEADER_BYTES as u64;
        bytes.get(..SKIPPABLE_HEADER_BYTES).is_some_and(|header| {
            le32(header) == SEEK_TABLE_MAGIC && u64::from(le32(&header[4..])) == payload_bytes
        })
    }
}

/// Returns the length of the whole skippable frame that ends with `footer`, if that is a seek table's.
pub(crate) fn seek_table_bytes(footer: &[u8]) -> Option<u64> {
    SeekFooter::read(footer).map(|footer| footer.table_bytes())
}
