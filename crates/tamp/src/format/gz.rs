//! The gzip container, and BGZF: gzip members of at most 64 KiB that say how long they are.
//!
//! # Source
//!
//! RFC 1952 (gzip), RFC 1951 (deflate), and section 4.1 of the SAM/BAM specification (BGZF).

use crate::Error;
use crate::buffer::Buffer;
use crate::format::zst::le32;
use libdeflater::{CompressionLvl, Compressor, Decompressor};

pub(crate) const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// CRC and size.
pub(crate) const TRAILER_BYTES: usize = 8;
/// Content of each BGZF block we write: what `bgzip` uses, so that even stored it stays under 64 KiB.
pub(crate) const BGZF_CONTENT_BYTES: usize = 0xff00;
/// No BGZF block holds more.
pub(crate) const BGZF_CONTENT_BYTES_MAX: usize = 1 << 16;
/// An empty block: says that the file is whole.
pub(crate) const BGZF_END: [u8; 28] =
    [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0, 0x1b, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const BGZF_HEADER_BYTES: usize = 18;

/// What a member's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) own_bytes: usize,
    /// Length of the whole member, if it is a BGZF block.
    pub(crate) bgzf_bytes: Option<usize>,
}

/// Reads a member's header; `Ok(None)`: `bytes` end before it does.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(fixed) = bytes.get(..10) else { return Ok(None) };
    if fixed[2] != 8 || fixed[3] & 0xE0 != 0 {
        return Err("a gzip header of an unknown kind");
    }
    let flags = fixed[3];
    let mut at = 10;
    let mut bgzf_bytes = None;
    if flags & 4 != 0 {
        let Some(length) = bytes.get(at..at + 2) else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        let Some(extra) = bytes.get(at + 2..at + 2 + length) else { return Ok(None) };
        bgzf_bytes = bgzf_size(extra);
        at += 2 + length;
    }
    // Name, then comment: each ends with a zero.
    for bit in [8, 16] {
        if flags & bit != 0 {
            let Some(length) = bytes[at..].iter().position(|&byte| byte == 0) else { return Ok(None) };
            at += length + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    // What cannot even hold its own frame is no BGZF block, whatever it says.
    bgzf_bytes = bgzf_bytes.filter(|&bytes| bytes >= at + TRAILER_BYTES);
    Ok((at <= bytes.len()).then_some(Header { own_bytes: at, bgzf_bytes }))
}

/// Looks for the `BC` subfield.
fn bgzf_size(mut extra: &[u8]) -> Option<usize> {
    while let [a, b, low, high, rest @ ..] = extra {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let field = rest.get(..length)?;
        if (*a, *b, length) == (b'B', b'C', 2) {
            return Some(usize::from(u16::from_le_bytes([field[0], field[1]])) + 1);
        }
        extra = &rest[length..];
    }
    None
}

/// Whether the member that `bytes` begin with, which says that it is a BGZF block of `member_bytes`, is one.
///
/// An extra field may mislead. A block of BGZF holds at most 64 KiB, and a member, padding or nothing follows it; if
/// anything else does, it must decode. One that is cut is taken for what it says.
pub(crate) fn is_bgzf_block(bytes: &[u8], member_bytes: usize) -> bool {
    let Some(member) = bytes.get(..member_bytes) else { return true };
    let Ok(content_bytes) = bgzf_content_bytes(member) else { return false };
    let behind = &bytes[member_bytes..];
    if behind.is_empty() || behind[0] == 0 || behind.starts_with(&MAGIC) {
        return true;
    }
    let mut content = Buffer::default();
    decode_bgzf(&mut Decompressor::new(), member, content_bytes, &mut content).is_ok()
}

/// Whether `bytes` begin as a zlib stream without a dictionary does.
///
/// # Source
///
/// RFC 1950, section 2.2.
pub(crate) fn begins_zlib(bytes: &[u8]) -> bool {
    let Some(&[method, flags]) = bytes.first_chunk() else { return false };
    let check = u16::from_be_bytes([method, flags]);
    method & 0x0F == 8 && method >> 4 <= 7 && flags & 0x20 == 0 && check.is_multiple_of(31)
}

/// Content of a BGZF block, as its trailer has it.
///
/// # Errors
///
/// If it cannot be.
pub(crate) fn bgzf_content_bytes(member: &[u8]) -> Result<usize, &'static str> {
    if member.len() < BGZF_HEADER_BYTES + TRAILER_BYTES {
        return Err("a BGZF block too short to be one");
    }
    let bytes = le32(&member[member.len() - 4..]) as usize;
    if bytes > BGZF_CONTENT_BYTES_MAX { Err("a BGZF block that states more than 64 KiB") } else { Ok(bytes) }
}

/// Decodes whole members, one behind the other, of `content_bytes` together.
///
/// # Errors
///
/// What is wrong with one of them.
pub(crate) fn decode_bgzf(
    decoder: &mut Decompressor,
    mut members: &[u8],
    content_bytes: usize,
    content: &mut Buffer,
) -> Result<(), &'static str> {
    let room = content.more(content_bytes);
    let mut filled = 0;
    while !members.is_empty() {
        let header = header(members)?.and_then(|header| header.bgzf_bytes);
        let member = header.and_then(|bytes| members.get(..bytes)).ok_or("a BGZF block that is cut")?;
        let bytes = bgzf_content_bytes(member)?;
        let room =
            room.get_mut(filled..filled + bytes).ok_or("BGZF blocks that hold more than they state")?;
        match decoder.gzip_decompress(member, room) {
            Ok(decoded) if decoded == bytes => filled += bytes,
            _ => return Err("a BGZF block that misses its checksum"),
        }
        members = &members[member.len()..];
    }
    if filled != content_bytes {
        return Err("BGZF blocks that hold less than they state");
    }
    content.grow(filled);
    Ok(())
}

/// Compresses BGZF blocks at one level.
pub(crate) struct Encoder {
    level: i32,
    compressor: Compressor,
}

impl Encoder {
    pub(crate) fn new(level: i32) -> Self {
        let known = CompressionLvl::new(level).unwrap_or_default();
        Self { level, compressor: Compressor::new(known) }
    }

    pub(crate) fn level(&self) -> i32 {
        self.level
    }

    /// Compresses `content` to as many BGZF blocks as it needs, appended to `members`.
    ///
    /// # Errors
    ///
    /// None that the world can cause.
    pub(crate) fn encode(&mut self, content: &[u8], members: &mut Buffer) -> Result<(), Error> {
        // A stored deflate block costs 5 bytes and holds 65,535: every piece fits its 64 KiB.
        let pieces = content.len().div_ceil(BGZF_CONTENT_BYTES);
        let mut at = 0;
        let room = members.more(pieces * (1 << 16));
        for piece in content.chunks(BGZF_CONTENT_BYTES) {
            at += self.encode_one(piece, &mut room[at..])?;
        }
        members.grow(at);
        Ok(())
    }

    fn encode_one(&mut self, piece: &[u8], room: &mut [u8]) -> Result<usize, Error> {
        let deflated_max = (1 << 16) - BGZF_HEADER_BYTES - TRAILER_BYTES;
        let deflated = &mut room[BGZF_HEADER_BYTES..BGZF_HEADER_BYTES + deflated_max];
        let bytes = match self.compressor.deflate_compress(piece, deflated) {
            Ok(bytes) => bytes,
            Err(_) => store(piece, deflated),
        };
        let total = BGZF_HEADER_BYTES + bytes + TRAILER_BYTES;
        room[..16].copy_from_slice(&BGZF_END[..16]);
        let own = u16::try_from(total - 1).map_err(std::io::Error::other)?;
        room[16..18].copy_from_slice(&own.to_le_bytes());
        let trailer = &mut room[total - TRAILER_BYTES..total];
        trailer[..4].copy_from_slice(&libdeflater::crc32(piece).to_le_bytes());
        let piece_bytes = u32::try_from(piece.len()).map_err(std::io::Error::other)?;
        trailer[4..].copy_from_slice(&piece_bytes.to_le_bytes());
        Ok(total)
    }
}

/// One final stored deflate block.
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

    fn check_returns(content: &[u8]) {
        let (mut members, mut decoded) = (Buffer::default(), Buffer::default());
        Encoder::new(1).encode(content, &mut members).unwrap();
        decode_bgzf(&mut Decompressor::new(), &members, content.len(), &mut decoded).unwrap();
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
        let header = header(&BGZF_END).unwrap().unwrap();
        assert_eq!(header, Header { own_bytes: 18, bgzf_bytes: Some(28) });
        assert_eq!(bgzf_content_bytes(&BGZF_END), Ok(0));
    }

    #[test]
    fn a_bgzf_block_shorter_than_its_own_header_is_none() {
        let mut bytes = BGZF_END;
        bytes[16] = 0;
        assert_eq!(header(&bytes), Ok(Some(Header { own_bytes: 18, bgzf_bytes: None })));
    }

    #[test]
    fn a_header_with_every_field_is_known_to_the_byte() {
        let mut bytes = vec![0x1f, 0x8b, 8, 4 | 8 | 16 | 2, 0, 0, 0, 0, 0, 3, 3, 0, 1, 2, 3];
        bytes.extend_from_slice(b"name\0comment\0cc");
        assert_eq!(header(&bytes), Ok(Some(Header { own_bytes: bytes.len(), bgzf_bytes: None })));
        for cut in 0..bytes.len() {
            assert_eq!(header(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }
}
