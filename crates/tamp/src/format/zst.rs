//! The Zstandard container: frames, skippable frames, and the seek table at the end.
//!
//! # Source
//!
//! RFC 8878 (Zstandard), and the seekable format in zstd's `contrib/seekable_format`.

use super::{Container, Encode, Setting, le32};
use crate::Error;
use crate::buffer::Buffer;
use crate::decode::{Block, Coding};
use crate::dictionary::Dictionary;
use crate::index::{self, Hops, Index};
use crate::level::{BLOCK_BYTES_MAX, Level, Options};
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash64;

pub(crate) const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
const SEEK_TABLE_MAGIC: u32 = SKIPPABLE_MAGIC | 0xE;
const END_MAGIC: u32 = SKIPPABLE_MAGIC | 0xD;
/// What the payload of an end frame begins with.
const END_NAME: [u8; 4] = *b"tamp";
/// Header, name, number of frames, XXH64 of the seek table behind it.
pub(crate) const END_BYTES: usize = SKIPPABLE_HEADER_BYTES + 4 + 8 + 8;
const END_PAYLOAD_BYTES: u32 = 4 + 8 + 8;
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// The format allows no more frames in a seek table.
const FRAMES_MAX: usize = 0x0800_0000;
/// Number of frames, descriptor, magic.
pub(crate) const SEEK_FOOTER_BYTES: usize = 9;
/// Magic and size of a skippable frame.
pub(crate) const SKIPPABLE_HEADER_BYTES: usize = 8;
pub(crate) const BLOCK_HEADER_BYTES: usize = 3;
/// Largest window of the format, as a power of two.
pub(crate) const WINDOW_LOG_MAX: u32 = 31;
/// A block decodes to no more than this, and no block in a frame is longer.
pub(crate) const BLOCK_OUT_MAX: usize = 128 << 10;

/// A frame for each block, with the seek table of the seekable format at the end.
#[derive(Debug)]
pub(crate) struct Zst;

impl Container for Zst {
    fn name(&self) -> &'static str {
        "zst"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["zst", "tzst"]
    }

    fn needs_window(&self) -> bool {
        true
    }

    /// 256 KiB stay in a core's second cache; a longer search gains more from more content.
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

/// Whether a frame that begins with `magic` is to be skipped.
pub(crate) fn is_skippable(magic: u32) -> bool {
    magic & 0xFFFF_FFF0 == SKIPPABLE_MAGIC
}

/// What a frame's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) own_bytes: usize,
    pub(crate) content_bytes: Option<u64>,
    pub(crate) checksum: bool,
    /// 0: the frame needs no dictionary, or does not say which.
    pub(crate) dictionary_id: u32,
    /// Memory that decoding needs for what later content refers to.
    pub(crate) window_bytes: u64,
    /// Whether tamp wrote it, and so states the number of frames behind the last one.
    pub(crate) is_own: bool,
}

/// Shortest possible frame header, magic included.
pub(crate) const HEADER_BYTES_MIN: usize = 6;
/// Longest possible frame header, magic included.
pub(crate) const HEADER_BYTES_MAX: usize = 18;

/// Reads a frame's header; `None`: `bytes` end before it does.
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

/// How far a frame reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Whoever wants to know must show at least this many bytes.
    Needs(usize),
    /// Its whole length, and the most it can decode to.
    Whole { frame_bytes: usize, content_bytes_max: usize },
}

/// Hops over a frame's blocks, from `header` on, without decoding them.
///
/// # Errors
///
/// What is wrong with the block header that cannot be.
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

/// A way over a frame's blocks, for those who do not hold them all.
pub(crate) struct Walk {
    at: usize,
    content_bytes_max: usize,
    stated_content_bytes: Option<u64>,
    checksum_bytes: usize,
}

impl Walk {
    /// Stands at the first block's header.
    pub(crate) fn new(header: &Header) -> Self {
        Self {
            at: header.own_bytes,
            content_bytes_max: 0,
            stated_content_bytes: header.content_bytes,
            checksum_bytes: if header.checksum { 4 } else { 0 },
        }
    }

    /// Where in the frame the next block's header stands.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Hops over the block whose header `bytes` begin with; `None`: another follows.
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

/// One frame, as a seek table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seek {
    pub(crate) frame_bytes: u32,
    pub(crate) content_bytes: u32,
    /// What ends the frame: the lower half of its content's XXH64. 0 in tables without.
    pub(crate) checksum: u32,
}

/// Length of an entry with a checksum.
const ENTRY_BYTES: usize = 12;

impl Seek {
    /// Of a whole frame that ends with a checksum.
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

    /// As it stands in the table.
    pub(crate) fn entry(self) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        entry[..4].copy_from_slice(&self.frame_bytes.to_le_bytes());
        entry[4..8].copy_from_slice(&self.content_bytes.to_le_bytes());
        entry[8..].copy_from_slice(&self.checksum.to_le_bytes());
        entry
    }
}

/// What ends a file: the end frame, which says what frames there are and proves the seek table, and that table.
///
/// Both are skippable frames. There is no table when there are more frames than the format can list: the file is then
/// read by its frames.
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

/// Whether `bytes`, with which a file ends, begin an end frame or a seek table.
pub(crate) fn begins_tail(bytes: &[u8]) -> bool {
    let head = &tail(&[])[..SKIPPABLE_HEADER_BYTES + END_NAME.len()];
    let is_end = head.starts_with(&bytes[..bytes.len().min(head.len())]) && bytes.len() < END_BYTES;
    is_end || bytes.get(..4).is_some_and(|magic| le32(magic) == SEEK_TABLE_MAGIC)
}

/// What an end frame says of the frames since the file began, or since the end frame before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// How many.
    pub(crate) frames: u64,
    /// XXH64 of their entries in the seek table.
    pub(crate) hash: u64,
}

impl End {
    /// Whether `bytes` begin as an end frame does, though its magic, its length or its name may be wrong.
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

    /// Reads an end frame; `None`: `bytes` begin with none.
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
    // The upper bit: entries have checksums.
    footer[4] = 0x80;
    footer[5..].copy_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
    footer
}

/// Compares a seek table, as it is read, with what tamp writes behind so many frames.
#[derive(Clone)]
pub(crate) struct TableCheck {
    frames: u64,
    taken: u64,
    hash: XxHash64,
    /// Header and footer are right so far.
    is_framed: bool,
}

impl TableCheck {
    pub(crate) fn new(frames: u64) -> Self {
        Self { frames, taken: 0, hash: XxHash64::with_seed(0), is_framed: true }
    }

    /// Whether `bytes` begin such a table.
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        self.is_possible() && bytes.starts_with(&table_header(self.frames))
    }

    /// Whether `bytes` begin such a table, though its magic or its length may be wrong.
    pub(crate) fn resembles(&self, bytes: &[u8]) -> bool {
        let header = table_header(self.frames);
        let is_right = |part: Range<usize>| bytes[part.clone()] == header[part];
        self.is_possible() && bytes.len() >= header.len() && (is_right(0..4) || is_right(4..8))
    }

    /// The format allows no larger table, so tamp writes none.
    fn is_possible(&self) -> bool {
        self.frames <= FRAMES_MAX as u64
    }

    /// Bytes of the table that are to come.
    pub(crate) fn left(&self) -> u64 {
        self.footer_at() + SEEK_FOOTER_BYTES as u64 - self.taken
    }

    /// Goes on with `bytes`; yields how many of them belong to the table.
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

    /// Whether all of the table came, and its entries have this XXH64.
    pub(crate) fn is_of(&self, hash: u64) -> bool {
        self.left() == 0 && self.is_framed && self.hash.finish() == hash
    }

    fn footer_at(&self) -> u64 {
        SKIPPABLE_HEADER_BYTES as u64 + self.frames * ENTRY_BYTES as u64
    }
}

/// What the end of a seek table says of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeekFooter {
    pub(crate) frames: u64,
    /// Length of each entry.
    pub(crate) entry_bytes: usize,
    /// Whether it is what tamp writes behind so many frames.
    pub(crate) is_own: bool,
}

impl SeekFooter {
    /// Reads the last bytes of a file; `None`: they do not end a seek table.
    pub(crate) fn read(footer: &[u8]) -> Option<Self> {
        let footer = footer.get(..SEEK_FOOTER_BYTES)?;
        let (frames, descriptor) = (le32(footer), footer[4]);
        let is_known = le32(&footer[5..]) == SEEKABLE_MAGIC && descriptor & 0x7C == 0;
        let entry_bytes = if descriptor & 0x80 == 0 { ENTRY_BYTES - 4 } else { ENTRY_BYTES };
        let frames = u64::from(frames);
        let is_own = *footer == table_footer(frames);
        (is_known && frames <= FRAMES_MAX as u64).then_some(Self { frames, entry_bytes, is_own })
    }

    /// Whole length of the skippable frame that is the table.
    pub(crate) fn table_bytes(&self) -> u64 {
        (SKIPPABLE_HEADER_BYTES + SEEK_FOOTER_BYTES) as u64 + self.frames * self.entry_bytes as u64
    }

    /// Whether `bytes` begin the table that this ends.
    pub(crate) fn has_beginning(&self, bytes: &[u8]) -> bool {
        let payload_bytes = self.table_bytes() - SKIPPABLE_HEADER_BYTES as u64;
        bytes.get(..SKIPPABLE_HEADER_BYTES).is_some_and(|header| {
            le32(header) == SEEK_TABLE_MAGIC && u64::from(le32(&header[4..])) == payload_bytes
        })
    }
}

/// Whole length of the skippable frame that `footer` ends, if it is a seek table's.
pub(crate) fn seek_table_bytes(footer: &[u8]) -> Option<u64> {
    SeekFooter::read(footer).map(|footer| footer.table_bytes())
}

/// A decompression context. It accepts any window: who reads a header compares it with the memory that was granted.
pub(crate) struct Decoder(zstd_safe::DCtx<'static>);

impl Decoder {
    pub(crate) fn new(dictionary: Option<&Dictionary>) -> Self {
        let mut context = zstd_safe::DCtx::create();
        context
            .set_parameter(zstd_safe::DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .expect("zstd knows its windows");
        if let Some(dictionary) = dictionary {
            // A dictionary was read once before, by `Dictionary::new`; nothing but memory can be missing.
            context.load_dictionary(dictionary.bytes()).expect("there is memory for a dictionary");
        }
        Self(context)
    }

    /// Decodes one whole frame and appends it to `content`.
    pub(crate) fn decode(
        &mut self,
        frame: &[u8],
        content_bytes_max: usize,
        content: &mut Buffer,
    ) -> Result<(), &'static str> {
        let decoded = self.0.decompress(content.more(content_bytes_max), frame);
        content.grow(decoded.map_err(|code| why(code, frame))?);
        Ok(())
    }

    /// Decodes a damaged frame into `room`, up to its damage. How far that is, is not known.
    pub(crate) fn decode_over(&mut self, frame: &[u8], room: &mut [u8]) {
        self.reset();
        // The error is the damage.
        let _ = self.0.decompress(room, frame);
        self.reset();
    }

    /// Decodes a piece of a frame that is too large to hold; yields what was eaten, and how much it would like to see
    /// next: 0 if the frame ended.
    pub(crate) fn stream(
        &mut self,
        input: &[u8],
        room_bytes: usize,
        content: &mut Buffer,
    ) -> Result<(usize, usize), &'static str> {
        let mut from = zstd_safe::InBuffer::around(input);
        let mut to = zstd_safe::OutBuffer::around(content.room(room_bytes));
        let hint = self.0.decompress_stream(&mut to, &mut from).map_err(|code| why(code, &[]))?;
        let (eaten, made) = (from.pos(), to.pos());
        content.set_len(made);
        Ok((eaten, hint))
    }

    pub(crate) fn reset(&mut self) {
        self.0.reset(zstd_safe::ResetDirective::SessionOnly).expect("a session can always be reset");
    }
}

/// A frame that names a dictionary which is not at hand.
pub(crate) const OTHER_DICTIONARY: &str = "it was compressed with a dictionary; name its file with -D";

/// Why a frame does not decode. `frame` is empty if it is decoded in pieces.
fn why(code: zstd_safe::ErrorCode, frame: &[u8]) -> &'static str {
    match zstd_safe::get_error_name(code) {
        "Dictionary mismatch" => OTHER_DICTIONARY,
        // A frame does not say that it refers to a file. The blocks of tamp never do.
        name @ "Data corruption detected" if header(frame).is_some_and(|header| header.is_own) => name,
        "Data corruption detected" => {
            "it does not decode: it is damaged, or was compressed with --patch-from"
        }
        name => name,
    }
}

/// A compression context, kept from block to block because making one costs more than a block.
pub(crate) struct Encoder {
    context: zstd_safe::CCtx<'static>,
    level: Option<i32>,
}

impl Encoder {
    pub(crate) fn new(dictionary: Option<&Dictionary>) -> Self {
        use zstd_safe::CParameter::{ChecksumFlag, ContentSizeFlag};
        let mut context = zstd_safe::CCtx::create();
        if let Some(dictionary) = dictionary {
            context.load_dictionary(dictionary.bytes()).expect("there is memory for a dictionary");
        }
        for flag in [ChecksumFlag(true), ContentSizeFlag(true)] {
            context.set_parameter(flag).expect("zstd knows its own parameters");
        }
        Self { context, level: None }
    }
}

impl Encode for Encoder {
    /// To one frame with content size and checksum.
    fn encode(&mut self, block: &[u8], setting: Setting, frames: &mut Buffer) -> Result<(), Error> {
        let Setting(level) = setting;
        if self.level != Some(level) {
            for parameter in parameters(level) {
                self.context.set_parameter(parameter).expect("zstd knows its own parameters");
            }
            self.level = Some(level);
        }
        let lead = CONTENT_FIELD_BYTES - minimal_field_bytes(block.len());
        let room = frames.more(lead + zstd_safe::compress_bound(block.len()));
        let bytes = self
            .context
            .compress2(&mut room[lead..], block)
            .map_err(|code| std::io::Error::other(zstd_safe::get_error_name(code)))?;
        widen_content_field(&mut room[..lead + bytes], lead, block.len());
        frames.grow(lead + bytes);
        Ok(())
    }
}

/// Width of the field that states a frame's content in what tamp writes.
///
/// zstd uses this width only from 4 GiB on, and no block of tamp's is that large. So frames of tamp can be told from those of
/// others, which have no end frame behind them, without a byte that some decoder might refuse.
const CONTENT_FIELD_BYTES: usize = 8;

/// Width of the field that zstd itself would use.
fn minimal_field_bytes(content_bytes: usize) -> usize {
    match content_bytes {
        0..256 => 1,
        256..65_792 => 2,
        _ => 4,
    }
}

/// Makes the frame that begins `lead` bytes into `frame` one that fills it, by a wider field for its content's length.
fn widen_content_field(frame: &mut [u8], lead: usize, content_bytes: usize) {
    let header = header(&frame[lead..]).expect("zstd wrote a frame");
    let kept = header.own_bytes - (CONTENT_FIELD_BYTES - lead);
    frame.copy_within(lead..lead + kept, 0);
    // The two upper bits of the descriptor are the field's width.
    frame[4] |= 0xC0;
    frame[kept..kept + CONTENT_FIELD_BYTES].copy_from_slice(&(content_bytes as u64).to_le_bytes());
}

/// What zstd is told for one of its levels: the level, and where we know better than its own tables, what else.
///
/// - Level 1: a table of hashes half as large, and matches from 6 bytes on, which on blocks of 256 KiB is 11 % faster
///   than zstd's own choice for blocks of 1 MiB, at the same reduction within 0.35 points on the data of
///   `docs/tamp-benchmarks.md`.
/// - Level 9 and up: tables of 6 MB a thread at most, where zstd would take 11 to 68 MB for blocks of 4 MiB. That keeps
///   the bound on memory, is up to twice as fast, and costs 0.1 to 0.4 points.
fn parameters(level: i32) -> [zstd_safe::CParameter; 4] {
    use zstd_safe::CParameter::{ChainLog, CompressionLevel, HashLog, MinMatch};
    // Zero is zstd's own choice, and takes back what another level was told.
    let (hash_log, chain_log, min_match) = match level {
        1 => (13, 0, 6),
        9 | 12 => (20, 0, 0),
        15 | 19 => (18, 20, 0),
        _ => (0, 0, 0),
    };
    [CompressionLevel(level), HashLog(hash_log), ChainLog(chain_log), MinMatch(min_match)]
}

#[cfg(test)]
mod tests {
    use super::*;

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
