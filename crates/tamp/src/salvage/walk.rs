//! The type of the part at an offset, and its end by the lengths in it.

use super::effort::STEP_BYTES;
use crate::Error;
use crate::format::zst::{self, Extent};
use crate::format::{Magic, gz, le32, lz4};
use crate::index::Hops;
use crate::split::UNIT_BYTES_MAX;

/// Type of the part at an offset.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Zst(zst::Header),
    Skippable,
    Lz4(lz4::Header),
    Gzip(gz::Header),
    Zlib,
    /// Unknown.
    Nothing,
}

/// End of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// At this offset.
    To(u64),
    /// The file ends inside the part.
    Cut,
    /// The lengths in it are not possible.
    Broken,
    /// Only decoding finds it.
    Open,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) reach: Reach,
}

/// Attempts to read a gzip header: a usual one, one with the longest extra field and a name, and the maximum
/// of a reader.
const GZIP_HEADER_BYTES: [usize; 3] = [64, 70 << 10, UNIT_BYTES_MAX];

/// Returns the type and the end of the part at `at`.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn at(file: &mut Hops<'_>, at: u64) -> Result<Found, Error> {
    found(file, at, &GZIP_HEADER_BYTES)
}

/// Variant of [`at`] for a search, which accepts no longer gzip header than usual.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn candidate(file: &mut Hops<'_>, at: u64) -> Result<Found, Error> {
    found(file, at, &GZIP_HEADER_BYTES[..2])
}

fn found(file: &mut Hops<'_>, at: u64, gzip_header_bytes: &[usize]) -> Result<Found, Error> {
    let shown = file.show(at, 64)?;
    let nothing = Found { kind: Kind::Nothing, reach: Reach::Broken };
    match Magic::of(shown) {
        Some(Magic::Gzip) => gzip(file, at, gzip_header_bytes),
        Some(Magic::Skippable) => {
            let bytes =
                shown.get(4..8).map(|bytes| zst::SKIPPABLE_HEADER_BYTES as u64 + u64::from(le32(bytes)));
            let end = bytes.map(|bytes| at + bytes).filter(|&end| end <= file.file_bytes);
            Ok(Found { kind: Kind::Skippable, reach: end.map_or(Reach::Cut, Reach::To) })
        }
        Some(Magic::Zst) => {
            let Some(header) = zst::header(shown) else { return Ok(nothing) };
            Ok(Found { kind: Kind::Zst(header), reach: zst(file, at, &header)? })
        }
        Some(Magic::Lz4) => {
            let Ok(Some(header)) = lz4::header(shown) else { return Ok(nothing) };
            Ok(Found { kind: Kind::Lz4(header), reach: lz4(file, at, &header)? })
        }
        Some(Magic::Lz4Legacy) => {
            let header = lz4::legacy_header();
            Ok(Found { kind: Kind::Lz4(header), reach: lz4(file, at, &header)? })
        }
        None if at == 0 && shown.len() >= 4 && gz::begins_zlib(shown) => {
            Ok(Found { kind: Kind::Zlib, reach: Reach::Open })
        }
        None => Ok(nothing),
    }
}

/// Whether a known part begins at `at`.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn begins(file: &mut Hops<'_>, at: u64) -> Result<bool, Error> {
    Ok(looks_known(file.show(at, 4)?))
}

/// Whether `bytes` begin like a known part.
pub(super) fn looks_known(bytes: &[u8]) -> bool {
    // Gzip's two bytes of magic occur by chance too often.
    Magic::of(bytes).is_some_and(|magic| magic != Magic::Gzip || bytes.get(2) == Some(&8))
}

fn zst(file: &mut Hops<'_>, at: u64, header: &zst::Header) -> Result<Reach, Error> {
    let mut walk = zst::Walk::new(header);
    loop {
        let pos = at + walk.at() as u64;
        if pos + 3 > file.file_bytes {
            return Ok(Reach::Cut);
        }
        file.spend(STEP_BYTES);
        match walk.step(file.show(pos, 3)?) {
            Ok(None) => {}
            Ok(Some(Extent::Whole { frame_bytes, .. })) => {
                let end = at + frame_bytes as u64;
                return Ok(if end <= file.file_bytes { Reach::To(end) } else { Reach::Cut });
            }
            Ok(Some(Extent::Needs(_))) => return Ok(Reach::Cut),
            Err(_) => return Ok(Reach::Broken),
        }
    }
}

/// Meaning of a length in an LZ4 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A block of so many bytes, with its length and checksum.
    Block(u64),
    /// The frame's end, of so many bytes.
    End(u64),
    Cut,
    Broken,
}

/// Reads the length at `pos` inside an LZ4 frame.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn field(file: &mut Hops<'_>, pos: u64, header: &lz4::Header) -> Result<Field, Error> {
    let file_bytes = file.file_bytes;
    file.spend(STEP_BYTES);
    let shown = file.show(pos, 4)?;
    if header.is_legacy() && shown.is_empty() {
        return Ok(Field::End(0));
    }
    let Some(word) = shown.get(..4).map(le32) else { return Ok(Field::Cut) };
    // Gzip's two bytes of magic may occur in a valid length.
    if header.is_legacy() && word as usize > lz4::LEGACY_PACKED_BYTES_MAX && looks_known(shown) {
        return Ok(Field::End(0));
    }
    let (bytes, limit) = if header.is_legacy() {
        (u64::from(word), lz4::LEGACY_PACKED_BYTES_MAX)
    } else if let Some(size) = lz4::BlockSize::read(word) {
        (size.bytes as u64, header.block_bytes)
    } else {
        let bytes = if header.content_checksum { 8 } else { 4 };
        return Ok(if pos + bytes <= file_bytes { Field::End(bytes) } else { Field::Cut });
    };
    // A stored block may be empty.
    if bytes > limit as u64 || bytes == 0 && header.is_legacy() {
        return Ok(Field::Broken);
    }
    let bytes = 4 + bytes + if header.block_checksums { 4 } else { 0 };
    Ok(if pos + bytes <= file_bytes { Field::Block(bytes) } else { Field::Cut })
}

fn lz4(file: &mut Hops<'_>, at: u64, header: &lz4::Header) -> Result<Reach, Error> {
    let mut pos = at + header.own_bytes as u64;
    loop {
        match field(file, pos, header)? {
            Field::Block(bytes) => pos += bytes,
            Field::End(bytes) => return Ok(Reach::To(pos + bytes)),
            Field::Cut => return Ok(Reach::Cut),
            Field::Broken => return Ok(Reach::Broken),
        }
    }
}

fn gzip(file: &mut Hops<'_>, at: u64, header_bytes: &[usize]) -> Result<Found, Error> {
    let nothing = Found { kind: Kind::Nothing, reach: Reach::Broken };
    let mut header = None;
    for &bytes in header_bytes {
        let shown = file.show(at, bytes)?;
        let shown_bytes = shown.len();
        let Ok(read) = gz::header(shown) else { return Ok(nothing) };
        file.spend(read.map_or(shown_bytes, |header| header.own_bytes) as u64);
        header = read;
        if header.is_some() || shown_bytes < bytes {
            break;
        }
    }
    let Some(header) = header else { return Ok(nothing) };
    let reach = match header.bgzf_bytes.map(|bytes| at + bytes as u64) {
        Some(end) if end <= file.file_bytes => Reach::To(end),
        _ => Reach::Open,
    };
    Ok(Found { kind: Kind::Gzip(header), reach })
}
