//! BGZF: gzip members of at most 64 KiB that state their length.
//!
//! # Source
//!
//! Section 4.1 of the SAM/BAM specification.

use super::gz::{MAGIC, TRAILER_BYTES, header};
use super::zst::Seek;
use super::{Container, Encode, Setting, inflate, le32};
use crate::buffer::Buffer;
use crate::decode::{Block, Coding};
use crate::index::{self, Hops, Index};
use crate::level::{Level, Options};
use crate::{Dictionary, Error};
use libdeflater::{CompressionLvl, Compressor, Decompressor};

/// Content of each BGZF block that we write: the same as `bgzip`, so even a stored block stays below 64 KiB.
pub(crate) const BLOCK_CONTENT_BYTES: usize = 0xff00;
/// Maximum content of a BGZF block.
pub(crate) const BLOCK_CONTENT_BYTES_MAX: usize = 1 << 16;
/// An empty block, which marks the end of a complete file.
pub(crate) const END: [u8; 28] =
    [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0, 0x1b, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const HEADER_BYTES: usize = 18;

/// BGZF, in blocks as `bgzip` writes them.
#[derive(Debug)]
pub(crate) struct Bgzf;

impl Container for Bgzf {
    fn name(&self) -> &'static str {
        "bgzf"
    }

    fn block_bytes_usual(&self, _level: Level) -> usize {
        4 * BLOCK_CONTENT_BYTES
    }

    /// Returns deflate's level in libdeflate's numbering: 1 to 12.
    fn setting(&self, level: Level) -> Setting {
        Setting([1, 1, 2, 3, 4, 5, 6, 8, 10, 12][usize::from(level.get())])
    }

    fn beyond(&self) -> &'static [Setting] {
        &[Setting(0)]
    }

    fn refuses(&self, options: &Options) -> Option<&'static str> {
        options.dictionary.as_ref().map(|_| "dictionaries made by zstd are for Zstandard only")
    }

    fn encoder(&self, _dictionary: Option<&Dictionary>) -> Box<dyn Encode> {
        Box::new(Encoder::new())
    }

    fn tail(&self, _seeks: &[Seek]) -> Vec<u8> {
        END.to_vec()
    }

    fn index(&self, hops: &mut Hops<'_>, _dictionary_id: u32) -> Result<Option<Index>, Error> {
        index::bgzf::read(hops)
    }

    fn block<'a>(
        &self,
        packed: &'a [u8],
        content_bytes: usize,
        _frame: Option<&super::lz4::Header>,
    ) -> Result<Block<'a>, &'static str> {
        Ok(Block::new(packed, Coding::Bgzf { content_bytes }))
    }
}

/// Whether `bytes` begin with a BGZF block of `member_bytes`, as the header says.
///
/// An extra field may mislead. A BGZF block holds at most 64 KiB, and a member or the end of the file follows
/// it; if anything else follows, the block must decode. A block that holds a second member is plain gzip. A
/// cut block is accepted unless `bytes` hold a whole member.
pub(crate) fn is_block(bytes: &[u8], member_bytes: usize) -> bool {
    let Some(member) = bytes.get(..member_bytes) else { return inflate::member_bytes(bytes).is_none() };
    let Ok(content_bytes) = stated_bytes(member) else { return false };
    if hides_member(member) {
        return false;
    }
    let behind = &bytes[member_bytes..];
    if behind.is_empty() || behind.starts_with(&MAGIC) {
        return true;
    }
    let mut content = Buffer::default();
    decode(&mut Decompressor::new(), member, content_bytes, &mut content).is_ok()
}

/// Whether `block` ends before its stated end, and a member may follow there, which gzip reads. The decoder
/// of blocks ignores it.
#[expect(clippy::needless_bitwise_bool, reason = "without early ends the loop takes many bytes at once")]
fn hides_member(block: &[u8]) -> bool {
    let has_beginning = block[HEADER_BYTES..].windows(3).fold(false, |found, bytes| {
        found | ((bytes[0] == MAGIC[0]) & (bytes[1] == MAGIC[1]) & (bytes[2] == 8))
    });
    has_beginning && inflate::member_bytes(block).is_some_and(|bytes| bytes < block.len())
}

/// Returns the size of a BGZF block's content, from its trailer.
///
/// # Errors
///
/// If the size is not possible.
pub(crate) fn stated_bytes(member: &[u8]) -> Result<usize, &'static str> {
    if member.len() < HEADER_BYTES + TRAILER_BYTES {
        return Err("a BGZF block too short to be one");
    }
    let bytes = le32(&member[member.len() - 4..]) as usize;
    if bytes > BLOCK_CONTENT_BYTES_MAX { Err("a BGZF block that states more than 64 KiB") } else { Ok(bytes) }
}

/// Decodes consecutive whole members, with `content_bytes` in total.
///
/// # Errors
///
/// What is wrong with one of them.
pub(crate) fn decode(
    decoder: &mut Decompressor,
    mut members: &[u8],
    content_bytes: usize,
    content: &mut Buffer,
) -> Result<(), &'static str> {
    let room = content.more(content_bytes);
    let mut filled = 0;
    while !members.is_empty() {
        let cut = "a BGZF block that is cut";
        let header = header(members)?.ok_or(cut)?;
        let member = header.bgzf_bytes.and_then(|bytes| members.get(..bytes)).ok_or(cut)?;
        let bytes = stated_bytes(member)?;
        let room =
            room.get_mut(filled..filled + bytes).ok_or("BGZF blocks that hold more than they state")?;
        let (deflated, trailer) = member.split_at(member.len() - TRAILER_BYTES);
        // The decoder ignores bytes behind the end of the deflated data.
        match decoder.deflate_decompress(&deflated[header.own_bytes..], room) {
            Ok(decoded) if decoded == bytes && libdeflater::crc32(room) == le32(trailer) => filled += bytes,
            _ => return Err("a BGZF block with a wrong checksum"),
        }
        if hides_member(member) {
            return Err("a BGZF block that ends before its stated end");
        }
        members = &members[member.len()..];
    }
    if filled != content_bytes {
        return Err("BGZF blocks that hold less than they state");
    }
    content.grow(filled);
    Ok(())
}

/// Compresses BGZF blocks.
struct Encoder {
    level: i32,
    compressor: Compressor,
}

impl Encoder {
    fn new() -> Self {
        let level = CompressionLvl::default();
        Self { level: i32::MIN, compressor: Compressor::new(level) }
    }

    fn encode_one(&mut self, piece: &[u8], room: &mut [u8]) -> Result<usize, Error> {
        let deflated_max = (1 << 16) - HEADER_BYTES - TRAILER_BYTES;
        let deflated = &mut room[HEADER_BYTES..HEADER_BYTES + deflated_max];
        let bytes = match self.compressor.deflate_compress(piece, deflated) {
            Ok(bytes) => bytes,
            Err(_) => store(piece, deflated),
        };
        let total = HEADER_BYTES + bytes + TRAILER_BYTES;
        room[..16].copy_from_slice(&END[..16]);
        let own = u16::try_from(total - 1).map_err(std::io::Error::other)?;
        room[16..18].copy_from_slice(&own.to_le_bytes());
        let trailer = &mut room[total - TRAILER_BYTES..total];
        trailer[..4].copy_from_slice(&libdeflater::crc32(piece).to_le_bytes());
        let piece_bytes = u32::try_from(piece.len()).map_err(std::io::Error::other)?;
        trailer[4..].copy_from_slice(&piece_bytes.to_le_bytes());
        Ok(total)
    }
}

impl Encode for Encoder {
    /// Compresses to as many BGZF blocks as `content` needs.
    fn encode(&mut self, content: &[u8], setting: Setting, members: &mut Buffer) -> Result<(), Error> {
        let Setting(level) = setting;
        if self.level != level {
            let known = CompressionLvl::new(level).unwrap_or_default();
            (self.level, self.compressor) = (level, Compressor::new(known));
        }
        // A stored deflate block costs 5 bytes and holds 65,535: every piece fits its 64 KiB.
        let pieces = content.len().div_ceil(BLOCK_CONTENT_BYTES);
        let mut at = 0;
        let room = members.more(pieces * (1 << 16));
        for piece in content.chunks(BLOCK_CONTENT_BYTES) {
            at += self.encode_one(piece, &mut room[at..])?;
        }
        members.grow(at);
        Ok(())
    }
}

/// Writes one final stored deflate block.
fn store(piece: &[u8], deflated: &mut [u8]) -> usize {
    let length = u16::try_from(piece.len()).expect("a piece is under 64 KiB");
    deflated[0] = 1;
    deflated[1..3].copy_from_slice(&length.to_le_bytes());
    deflated[3..5].copy_from_slice(&(!length).to_le_bytes());
    deflated[5..5 + piece.len()].copy_from_slice(piece);
    5 + piece.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::gz::Header;

    fn check_returns(content: &[u8]) {
        let (mut members, mut decoded) = (Buffer::default(), Buffer::default());
        Encoder::new().encode(content, Setting(1), &mut members).unwrap();
        decode(&mut Decompressor::new(), &members, content.len(), &mut decoded).unwrap();
        assert!(*decoded == *content);
    }

    #[test]
    fn bgzf_blocks_return_compressible_or_not() {
        check_returns(&vec![b'a'; 300_000]);
        let noise: Vec<u8> = (0..100_000_u64)
            .flat_map(|n| {
                n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D).to_le_bytes()
            })
            .collect();
        check_returns(&noise);
    }

    #[test]
    fn the_end_block_is_a_bgzf_block_of_nothing() {
        let header = header(&END).unwrap().unwrap();
        assert_eq!(header, Header { own_bytes: 18, bgzf_bytes: Some(28) });
        assert_eq!(stated_bytes(&END), Ok(0));
    }

    #[test]
    fn a_bgzf_block_shorter_than_its_own_header_is_none() {
        let mut bytes = END;
        bytes[16] = 0;
        assert_eq!(header(&bytes), Ok(Some(Header { own_bytes: 18, bgzf_bytes: None })));
    }
}
