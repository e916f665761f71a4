//! The LZ4 container: frames of blocks.
//!
//! tamp writes no skippable frames: lz4 1.9.4 fails on a skippable frame behind data in a pipe, and in file
//! mode it silently drops what follows (lz4#977).
//!
//! # Source
//!
//! LZ4 Frame Format Description 1.6.4, in the lz4 repository's `doc` folder.

use super::zst::Seek;
use super::{Container, Encode, Setting, le32};
use crate::buffer::Buffer;
use crate::decode::{Block, Coding};
use crate::index::{self, Hops, Index};
use crate::level::{Level, Options};
use crate::{Dictionary, Error};
use lz4::block::CompressionMode;
use std::io;
use twox_hash::XxHash32;

pub(crate) const MAGIC: u32 = 0x184D_2204;
/// Magic of the frames that `lz4 -l` writes, also used for Linux kernels: blocks of 8 MiB, no checksum, no
/// end mark.
pub(crate) const LEGACY_MAGIC: u32 = 0x184C_2102;
pub(crate) const LEGACY_BLOCK_BYTES: usize = 8 << 20;
/// Maximum size of a legacy block in a file. A larger number in the place of its length is the next frame's
/// magic.
pub(crate) const LEGACY_PACKED_BYTES_MAX: usize = LEGACY_BLOCK_BYTES + LEGACY_BLOCK_BYTES / 255 + 16;
/// Longest possible frame header, magic included.
pub(crate) const HEADER_BYTES_MAX: usize = 19;
/// Bit of a block's size for content that is stored uncompressed.
const STORED: u32 = 1 << 31;
/// Maximum distance of references in a linked frame.
const HISTORY_BYTES: usize = 64 << 10;

/// Frame of independent blocks, each with a checksum.
#[derive(Debug)]
pub(crate) struct Lz4;

impl Container for Lz4 {
    fn name(&self) -> &'static str {
        "lz4"
    }

    fn warns_of_rows(&self) -> Option<&'static str> {
        Some("lz4 before 1.10 reads only the first")
    }

    fn block_sizes(&self) -> Option<&'static [usize]> {
        Some(&BLOCK_SIZES)
    }

    fn block_bytes_usual(&self, level: Level) -> usize {
        if level.get() <= 2 { 256 << 10 } else { 1 << 20 }
    }

    fn setting(&self, level: Level) -> Setting {
        Setting(match level.get() {
            0 => -4,
            1 | 2 => -1,
            level => level.into(),
        })
    }

    fn beyond(&self) -> &'static [Setting] {
        &[Setting(-8), Setting(-32), Setting(-1000)]
    }

    fn refuses(&self, options: &Options) -> Option<&'static str> {
        if options.rsyncable {
            Some("LZ4 blocks are cut at fixed offsets, so they cannot be rsyncable")
        } else if !BLOCK_SIZES.contains(&options.block_bytes) {
            Some("LZ4 has blocks of 64 KiB, 256 KiB, 1 MiB and 4 MiB")
        } else {
            options.dictionary.as_ref().map(|_| "dictionaries made by zstd are for Zstandard only")
        }
    }

    fn encoder(&self, _dictionary: Option<&Dictionary>) -> Box<dyn Encode> {
        Box::new(Encoder)
    }

    fn head(&self, block_bytes: usize, content_bytes: Option<u64>) -> Vec<u8> {
        frame_header(block_bytes, content_bytes)
    }

    fn states_content_bytes(&self) -> bool {
        true
    }

    fn tail(&self, _seeks: &[Seek]) -> Vec<u8> {
        END_MARK.to_vec()
    }

    fn index(&self, hops: &mut Hops<'_>, _dictionary_id: u32) -> Result<Option<Index>, Error> {
        index::lz4::read(hops)
    }

    fn block<'a>(
        &self,
        packed: &'a [u8],
        content_bytes: usize,
        frame: Option<&Header>,
    ) -> Result<Block<'a>, &'static str> {
        framed(packed, frame.unwrap_or(&own_header(content_bytes)))
    }
}

/// Fields of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) own_bytes: usize,
    pub(crate) block_bytes: usize,
    pub(crate) blocks_linked: bool,
    pub(crate) block_checksums: bool,
    pub(crate) content_checksum: bool,
    pub(crate) content_bytes: Option<u64>,
    pub(crate) age: Age,
}

/// Layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Current,
    /// Layout that `lz4 -l` writes: the header is only the magic, and there is no end mark.
    Legacy,
}

impl Header {
    pub(crate) fn is_legacy(&self) -> bool {
        self.age == Age::Legacy
    }
}

/// Returns the properties of every legacy frame.
pub(crate) fn legacy_header() -> Header {
    Header {
        own_bytes: 4,
        block_bytes: LEGACY_BLOCK_BYTES,
        blocks_linked: false,
        block_checksums: false,
        content_checksum: false,
        content_bytes: None,
        age: Age::Legacy,
    }
}

/// Reads a frame's header, magic included; `Ok(None)` if `bytes` end inside it.
///
/// # Errors
///
/// What is wrong or not supported.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let (Some(&flags), Some(&block_code)) = (bytes.get(4), bytes.get(5)) else { return Ok(None) };
    let has = |bit: u32| flags >> bit & 1 == 1;
    let own_bytes = 7 + if has(3) { 8 } else { 0 } + if has(0) { 4 } else { 0 };
    let Some(&check) = bytes.get(own_bytes - 1) else { return Ok(None) };
    if check != header_check(&bytes[4..own_bytes - 1]) {
        return Err(HeaderError::Damaged("an lz4 header with a wrong checksum"));
    }
    if flags >> 6 != 1 || has(1) || block_code & 0x8F != 0 || block_code >> 4 < 4 {
        return Err(HeaderError::Unsupported("this lz4 frame is of a later version"));
    }
    if has(0) {
        return Err(HeaderError::Unsupported("this lz4 frame needs a dictionary"));
    }
    let content_bytes = has(3).then(|| u64::from_le_bytes(bytes[6..14].try_into().expect("eight bytes")));
    Ok(Some(Header {
        own_bytes,
        block_bytes: 1 << (8 + 2 * (block_code >> 4)),
        blocks_linked: !has(5),
        block_checksums: has(4),
        content_checksum: has(2),
        content_bytes,
        age: Age::Current,
    }))
}

/// Reason that a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Damaged(&'static str),
    Unsupported(&'static str),
}

impl HeaderError {
    pub(crate) fn at(self, offset: u64) -> Error {
        match self {
            Self::Damaged(what) => Error::Damaged { offset, what },
            Self::Unsupported(what) => Error::Unsupported { offset, what },
        }
    }
}

/// Block sizes of the format.
pub(crate) const BLOCK_SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Returns the header of the frames that tamp writes: independent blocks, each with its checksum, without a
/// content checksum.
///
/// Only one thread could compute a checksum over all content; the blocks' checksums cover the same bytes.
pub(crate) fn frame_header(block_bytes: usize, content_bytes: Option<u64>) -> Vec<u8> {
    let code = BLOCK_SIZES.iter().position(|&bytes| bytes == block_bytes).expect("Options checks the size");
    let flags = 0b0111_0000 | if content_bytes.is_some() { 0b1000 } else { 0 };
    let mut header = MAGIC.to_le_bytes().to_vec();
    header.extend_from_slice(&[flags, (u8::try_from(code).expect("0..4") + 4) << 4]);
    header.extend(content_bytes.into_iter().flat_map(u64::to_le_bytes));
    header.push(header_check(&header[4..]));
    header
}

/// End of a frame without a content checksum.
pub(crate) const END_MARK: [u8; 4] = [0; 4];

fn header_check(descriptor: &[u8]) -> u8 {
    XxHash32::oneshot(0, descriptor).to_le_bytes()[1]
}

/// Decoded size field of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSize {
    pub(crate) bytes: usize,
    pub(crate) stored: bool,
}

impl BlockSize {
    /// Decodes the field; `None` for the end mark.
    pub(crate) fn read(field: u32) -> Option<Self> {
        (field != 0).then_some(Self { bytes: (field & !STORED) as usize, stored: field & STORED != 0 })
    }
}

/// Coding of a block, given without its length and checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCoding {
    pub(crate) stored: bool,
    pub(crate) checksum: Option<u32>,
    pub(crate) content_bytes_max: usize,
}

/// Decodes `bytes` and appends them to `content`; a linked block refers to `history`.
///
/// # Errors
///
/// What is wrong with the block.
pub(crate) fn decode(
    bytes: &[u8],
    coding: &BlockCoding,
    history: Option<&[u8]>,
    content: &mut Buffer,
) -> Result<(), &'static str> {
    if coding.checksum.is_some_and(|checksum| checksum != XxHash32::oneshot(0, bytes)) {
        return Err("an lz4 block with a wrong checksum");
    }
    if coding.stored {
        if bytes.len() > coding.content_bytes_max {
            return Err("a stored lz4 block larger than its frame allows");
        }
        content.push(bytes);
        return Ok(());
    }
    let room = content.more(coding.content_bytes_max);
    let decoded = if let Some(history) = history {
        lz4_flex::block::decompress_into_with_dict(bytes, room, history).map_err(drop)
    } else {
        let room_bytes = i32::try_from(coding.content_bytes_max).expect("blocks are at most 8 MiB");
        lz4::block::decompress_to_buffer(bytes, Some(room_bytes), room).map_err(drop)
    };
    content.grow(decoded.map_err(|()| "an lz4 block that does not decode")?);
    Ok(())
}

/// Compresses blocks; liblz4 keeps no state between them.
struct Encoder;

impl Encode for Encoder {
    /// Compresses to one block with size and checksum.
    fn encode(&mut self, content: &[u8], setting: Setting, blocks: &mut Buffer) -> Result<(), Error> {
        let mode = match setting {
            Setting(level) if level > 0 => CompressionMode::HIGHCOMPRESSION(level),
            Setting(acceleration) => CompressionMode::FAST(-acceleration),
        };
        let bound = lz4::block::compress_bound(content.len())?;
        let room = blocks.more(4 + bound + 4);
        let mut bytes = lz4::block::compress_to_buffer(content, Some(mode), false, &mut room[4..4 + bound])?;
        let mut field = u32::try_from(bytes).map_err(io::Error::other)?;
        if bytes >= content.len() {
            bytes = content.len();
            room[4..4 + bytes].copy_from_slice(content);
            field = STORED | u32::try_from(bytes).map_err(io::Error::other)?;
        }
        room[..4].copy_from_slice(&field.to_le_bytes());
        let checksum = XxHash32::oneshot(0, &room[4..4 + bytes]);
        room[4 + bytes..8 + bytes].copy_from_slice(&checksum.to_le_bytes());
        blocks.grow(8 + bytes);
        Ok(())
    }
}

/// Reads a block as stored in a frame of `header`: size, content, perhaps a checksum.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn framed<'a>(framed: &'a [u8], header: &Header) -> Result<Block<'a>, &'static str> {
    let field = framed.get(..4).ok_or("an lz4 block that is cut")?;
    let size = if header.is_legacy() {
        BlockSize { bytes: le32(field) as usize, stored: false }
    } else {
        BlockSize::read(le32(field)).ok_or("an lz4 end mark where a block should be")?
    };
    let bytes = framed.get(4..4 + size.bytes).ok_or("an lz4 block that is cut")?;
    let checksum = if header.block_checksums {
        Some(le32(framed.get(4 + size.bytes..8 + size.bytes).ok_or("an lz4 block that is cut")?))
    } else {
        None
    };
    let (stored, content_bytes_max) = (size.stored, header.block_bytes);
    Ok(Block::new(bytes, Coding::Lz4(BlockCoding { stored, checksum, content_bytes_max })))
}

/// Content decoded from a damaged block.
pub(crate) struct Remains {
    pub(crate) content: Vec<u8>,
    /// Whether the sequences end exactly at the end of the block, so this may be all of its content.
    pub(crate) is_all: bool,
}

/// Decodes the valid sequences of a damaged block, as stored in a frame; at most `limit` bytes. Writes zeros
/// for references to before the beginning or with offset 0: `lz4` does not stop at them, either.
///
/// # Source
///
/// LZ4 Block Format Description, in the lz4 repository's `doc` folder.
pub(crate) fn decode_remains(framed: &[u8], header: &Header, history: &[u8], limit: usize) -> Remains {
    let Some(field) = framed.get(..4).map(le32) else {
        return Remains { content: Vec::new(), is_all: false };
    };
    let size = if header.is_legacy() { None } else { BlockSize::read(field) };
    let (bytes, stored) = size.map_or((field as usize, false), |size| (size.bytes, size.stored));
    let block = &framed[4..framed.len().min(4 + bytes.min(header.block_bytes))];
    let is_cut = block.len() < bytes;
    if stored {
        let content = block[..block.len().min(limit)].to_vec();
        return Remains { is_all: !is_cut && content.len() == bytes, content };
    }
    let mut content = history.to_vec();
    // Decoding stops at the damage, or at the end of the available bytes.
    let is_all = sequences(block, &mut content, history.len() + limit).is_some() && !is_cut;
    Remains { content: content.split_off(history.len()), is_all }
}

/// Appends the content of the sequences of `block`, up to `limit`; `None` at an invalid sequence.
fn sequences(block: &[u8], content: &mut Vec<u8>, limit: usize) -> Option<()> {
    let mut at = 0;
    loop {
        let token = usize::from(*block.get(at)?);
        at += 1;
        let literals = length(block, &mut at, token >> 4)?;
        let end = at.checked_add(literals)?.min(block.len());
        let room = limit.checked_sub(content.len())?;
        content.extend_from_slice(&block[at..end.min(at + room)]);
        at += literals;
        if at == block.len() && literals <= room {
            return Some(());
        }
        let offset = block.get(at..at + 2)?;
        let offset = usize::from(u16::from_le_bytes([offset[0], offset[1]]));
        at += 2;
        let matched = length(block, &mut at, token & 15)? + 4;
        for _ in 0..matched {
            if content.len() >= limit {
                return None;
            }
            let from = content.len().checked_sub(offset).filter(|_| offset > 0);
            content.push(from.map_or(0, |from| content[from]));
        }
    }
}

/// Reads a length: four bits, and further bytes if they are all set.
fn length(block: &[u8], at: &mut usize, nibble: usize) -> Option<usize> {
    let mut length = nibble;
    if nibble == 15 {
        loop {
            let byte = *block.get(*at)?;
            *at += 1;
            length += usize::from(byte);
            if byte < 255 {
                break;
            }
        }
    }
    Some(length)
}

/// Returns the header of tamp's own frames, for blocks of `block_bytes`.
pub(crate) fn own_header(block_bytes: usize) -> Header {
    Header {
        own_bytes: 15,
        block_bytes,
        blocks_linked: false,
        block_checksums: true,
        content_checksum: false,
        content_bytes: None,
        age: Age::Current,
    }
}

/// Returns the block that `bytes` begin with and its checksum, if its length is possible.
pub(crate) fn checked_block<'a>(bytes: &'a [u8], header: &Header) -> Option<&'a [u8]> {
    let size = bytes.get(..4).and_then(|field| BlockSize::read(le32(field)))?;
    bytes.get(4..size.bytes + 8).filter(|_| size.bytes <= header.block_bytes && size.bytes > 0)
}

/// Whether a block passes the checksum behind it.
pub(crate) fn is_proven(checked: &[u8]) -> bool {
    let (block, checksum) = checked.split_at(checked.len() - 4);
    le32(checksum) == XxHash32::oneshot(0, block)
}

/// Keeps the last 64 KiB of content, to which linked blocks refer.
pub(crate) fn remember(history: &mut Vec<u8>, content: &[u8]) {
    if content.len() >= HISTORY_BYTES {
        history.clear();
    }
    history.extend_from_slice(&content[content.len().saturating_sub(HISTORY_BYTES)..]);
    let excess = history.len().saturating_sub(HISTORY_BYTES);
    history.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;

    fn check_decodes(packed: &[u8], bytes: usize, content: &mut Buffer) -> Result<(), &'static str> {
        Decoder::new(None).decode(&Lz4.block(packed, bytes, None)?, content)
    }

    #[test]
    fn the_header_we_write_reads_back() {
        for (block_bytes, content_bytes) in
            [(64 << 10, None), (256 << 10, Some(0)), (4 << 20, Some(u64::MAX))]
        {
            let written = frame_header(block_bytes, content_bytes);
            let read = header(&written).unwrap().unwrap();
            assert_eq!((read.own_bytes, read.block_bytes), (written.len(), block_bytes));
            assert_eq!(read.content_bytes, content_bytes);
            assert!(read.block_checksums && !read.blocks_linked && !read.content_checksum);
            assert_eq!(header(&written[..written.len() - 1]), Ok(None));
        }
    }

    #[test]
    fn a_header_with_a_flipped_bit_is_refused() {
        for at in 4..14 {
            let mut written = frame_header(1 << 20, Some(5));
            written[at] ^= 4;
            assert!(!matches!(header(&written), Ok(Some(_))), "byte {at}");
        }
    }

    #[test]
    fn of_a_damaged_block_all_before_the_damage_remains() {
        let text: Vec<u8> = (0..4000_u32).flat_map(|n| format!("{n},").into_bytes()).collect();
        let mut block = Buffer::default();
        Encoder.encode(&text, Setting(-1), &mut block).unwrap();
        let header = own_header(64 << 10);
        let remains = |block: &[u8], limit| {
            let Remains { content, is_all } = decode_remains(block, &header, &[], limit);
            (content, is_all)
        };
        assert!(remains(&block, 64 << 10) == (text.clone(), true));
        assert!(remains(&block, 1000) == (text[..1000].to_vec(), false));
        let middle = block.len() / 2;
        let (cut, is_all) = remains(&block[..middle], 64 << 10);
        assert!(text.starts_with(&cut) && cut.len() > 1000 && !is_all, "{}", cut.len());
        let mut zeroed = block.to_vec();
        zeroed[middle..middle + 100].fill(0);
        assert!(remains(&zeroed, 64 << 10).0[..1000] == text[..1000]);
    }

    #[test]
    fn a_reference_to_before_the_beginning_is_zeros_and_does_not_end_a_damaged_block() {
        // A literal, a match of 4 bytes, five literals.
        for (offset, history, expected) in
            [(0_u16, "", "a\0\0\0\0vwxyz"), (3, "", "a\0\0a\0vwxyz"), (3, "bc", "abcabvwxyz")]
        {
            let [low, high] = offset.to_le_bytes();
            let block = [&[0x10, b'a', low, high, 0x50][..], b"vwxyz"].concat();
            let framed = [&10_u32.to_le_bytes()[..], &block].concat();
            let remains = decode_remains(&framed, &own_header(64 << 10), history.as_bytes(), 64 << 10);
            assert_eq!((&remains.content[..], remains.is_all), (expected.as_bytes(), true), "{offset}");
        }
    }

    #[test]
    fn blocks_return_at_every_effort_and_a_flipped_byte_is_found() {
        let text: Vec<u8> = (0..40_000_u32).flat_map(|n| format!("{n},").into_bytes()).collect();
        let noise: Vec<u8> = (0..9999_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect();
        for content in [&text[..], &noise, b"", b"a"] {
            for setting in [-1, -8, 9].map(Setting) {
                let (mut block, mut decoded) = (Buffer::default(), Buffer::default());
                Encoder.encode(content, setting, &mut block).unwrap();
                if !content.is_empty() {
                    check_decodes(&block, content.len(), &mut decoded).unwrap();
                    assert!(*decoded == *content);
                    let mut damaged = block.to_vec();
                    damaged[5] ^= 1;
                    assert!(check_decodes(&damaged, content.len(), &mut decoded).is_err());
                }
            }
        }
    }
}
