//! Where something readable begins behind a damage.
//!
//! What begins like a frame may stand inside one: an archive of compressed files is hardly compressed again,
//! and stored as it is. So a beginning counts only if the lengths from there on lead, frame after frame, to
//! the file's end, or if frames that decode whole follow it for longer than any block that is stored in one
//! piece. Even then it is reported as [`super::Lost::Searched`].

use super::gzip;
use super::walk::{self, Field, Kind, Reach};
use crate::format::lz4;
use crate::format::zst;
use crate::index::Hops;
use crate::{Error, ReadOptions, Reader};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

/// Looked through at a time.
const STRIDE_BYTES: usize = 1 << 20;
/// A deflate block that is stored holds no more.
const DEFLATE_STORED_BYTES: u64 = 64 << 10;
/// The largest block of LZ4.
const LZ4_STORED_BYTES: u64 = 4 << 20;

/// Where the next thing begins behind the damage at `from` of the thing at `at`; `None`: nothing more is
/// readable.
///
/// # Errors
///
/// What reading says.
pub(super) fn next(
    file: &mut Hops<'_>,
    options: &ReadOptions,
    at: u64,
    mut from: u64,
) -> Result<Option<u64>, Error> {
    let stored_bytes = stored_bytes_max(file, at)?;
    let mut refused = BTreeSet::new();
    while from + 4 <= file.file_bytes {
        let shown = file.show(from, STRIDE_BYTES)?;
        let shown = &shown[..shown.len().min(STRIDE_BYTES)];
        let candidates: Vec<u64> = (0..shown.len().saturating_sub(3))
            .filter(|&place| walk::looks_known(&shown[place..]))
            .map(|place| from + place as u64)
            .collect();
        let step = (shown.len() as u64).saturating_sub(3).max(1);
        for candidate in candidates {
            if !refused.remove(&candidate) && goes_on(file, options, candidate, stored_bytes, &mut refused)? {
                return Ok(Some(candidate));
            }
        }
        from += step;
    }
    Ok(None)
}

/// How long a run of frames may be that stands inside a single stored block of what begins at `at`.
fn stored_bytes_max(file: &mut Hops<'_>, at: u64) -> Result<u64, Error> {
    Ok(match walk::at(file, at)?.kind {
        Kind::Zst(_) => zst::BLOCK_OUT_MAX as u64,
        Kind::Lz4(header) => header.block_bytes as u64,
        Kind::Gzip(_) | Kind::Zlib => DEFLATE_STORED_BYTES,
        // What ends with a seek table consists of zstd frames.
        Kind::Skippable | Kind::Nothing => {
            let footer_at = file.file_bytes.saturating_sub(zst::SEEK_FOOTER_BYTES as u64);
            let is_zst = zst::seek_table_bytes(file.show(footer_at, zst::SEEK_FOOTER_BYTES)?).is_some();
            if is_zst { zst::BLOCK_OUT_MAX as u64 } else { LZ4_STORED_BYTES }
        }
    })
}

/// Whether lengths lead from `from` to the file's end, or frames that decode lead further than
/// `stored_bytes`. If not, the places on the way go to `refused`, because they lead no further.
fn goes_on(
    file: &mut Hops<'_>,
    options: &ReadOptions,
    from: u64,
    stored_bytes: u64,
    refused: &mut BTreeSet<u64>,
) -> Result<bool, Error> {
    let (mut at, mut is_decoded, mut passed) = (from, true, Vec::new());
    while at < file.file_bytes && !(is_decoded && at - from > stored_bytes) {
        let found = walk::at(file, at)?;
        let reach = match (found.kind, found.reach) {
            (Kind::Gzip(_), Reach::Open) => gzip::reach_of(file, at)?,
            (_, reach) => reach,
        };
        let Reach::To(end) = reach else {
            refused.extend(passed);
            return Ok(false);
        };
        is_decoded = is_decoded && decodes(file, options, at, end)?;
        at = end;
        passed.push(at);
    }
    Ok(true)
}

/// Whether the thing from `at` to `end` decodes and passes its checksums.
fn decodes(file: &mut Hops<'_>, options: &ReadOptions, at: u64, end: u64) -> Result<bool, Error> {
    let mut reader = Reader::with_options(Piece { file, at, end }, options, Arc::default());
    loop {
        match reader.next_content() {
            Ok(Some(_)) => {}
            // The end that its writer puts behind the last frame is not part of it.
            Ok(None) | Err(Error::Unfinished { .. }) => return Ok(true),
            Err(Error::Io(error)) => return Err(error.into()),
            Err(_) => return Ok(false),
        }
    }
}

/// Reads a piece of the file.
struct Piece<'a, 'b> {
    file: &'a mut Hops<'b>,
    at: u64,
    end: u64,
}

impl Read for Piece<'_, '_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = usize::try_from(self.end - self.at).map_or(to.len(), |left| left.min(to.len()));
        let shown = self.file.show(self.at, bytes.max(1)).map_err(io::Error::from)?;
        let bytes = bytes.min(shown.len());
        to[..bytes].copy_from_slice(&shown[..bytes]);
        self.at += bytes as u64;
        Ok(bytes)
    }
}

/// Where the next block of the LZ4 frame of `header` begins, from `from` on; `None`: none is found, or blocks
/// have no checksum that could tell one from chance.
///
/// # Errors
///
/// What reading says.
pub(super) fn next_block(file: &mut Hops<'_>, from: u64, header: &lz4::Header) -> Result<Option<u64>, Error> {
    if !header.block_checksums || header.blocks_linked {
        return Ok(None);
    }
    let whole = header.block_bytes + 8;
    let mut from = from;
    while from + 8 < file.file_bytes {
        let shown = file.show(from, STRIDE_BYTES + whole)?;
        let places = shown.len().min(STRIDE_BYTES);
        let candidates: Vec<u64> = (0..places)
            .filter(|&place| lz4::is_proven_block(&shown[place..], header))
            .map(|place| from + place as u64)
            .collect();
        for candidate in candidates {
            if blocks_go_on(file, candidate, header, whole as u64)? {
                return Ok(Some(candidate));
            }
        }
        from += places.max(1) as u64;
    }
    Ok(None)
}

/// Whether lengths lead from the block at `from` to a frame's end, or further than `whole` bytes.
fn blocks_go_on(file: &mut Hops<'_>, from: u64, header: &lz4::Header, whole: u64) -> Result<bool, Error> {
    let (mut pos, mut before) = (from, from);
    loop {
        match walk::field(file, pos, header)? {
            Field::Block(bytes) => {
                before = pos;
                pos += bytes;
            }
            Field::End(bytes) => {
                let end = pos + bytes;
                return Ok(end == file.file_bytes || walk::begins(file, end)?);
            }
            // The last length led to nothing.
            Field::Cut | Field::Broken => return Ok(before - from > whole),
        }
    }
}
