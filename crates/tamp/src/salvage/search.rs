//! Search for the next readable part behind damage.
//!
//! A beginning of a frame may be content of another frame: compressed files in an archive hardly compress
//! again, so they are stored. So a beginning counts only if the lengths from it lead, frame after frame, to
//! the end of the file, or if the frames that follow decode and are longer than any stored block. Even then
//! it is reported as [`super::Lost::Searched`].

use super::effort::{HASHED_PER_BYTE, is_spent, left_bytes, work_of};
use super::gzip;
use super::walk::{self, Field, Kind, Reach};
use crate::format::lz4;
use crate::format::zst;
use crate::index::Hops;
use crate::{Error, ReadOptions, Reader};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes searched at once.
const STRIDE_BYTES: usize = 1 << 20;
/// Maximum content of a stored deflate block.
const DEFLATE_STORED_BYTES: u64 = 64 << 10;
/// Maximum size of an LZ4 block.
const LZ4_STORED_BYTES: u64 = 4 << 20;

/// Finds the next beginning behind the damage at `from` of the part at `at`; `None` if nothing more is
/// readable.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn next(
    file: &mut Hops<'_>,
    options: &ReadOptions,
    at: u64,
    mut from: u64,
) -> Result<Option<u64>, Error> {
    let stored_bytes = stored_bytes_max(file, at)?;
    let mut refused = BTreeSet::new();
    while from + 4 <= file.file_bytes && !is_spent(file) {
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

/// Returns the maximum length of a run of frames inside a single stored block of the part at `at`.
fn stored_bytes_max(file: &mut Hops<'_>, at: u64) -> Result<u64, Error> {
    Ok(match walk::at(file, at)?.kind {
        Kind::Zst(_) => zst::BLOCK_OUT_MAX as u64,
        Kind::Lz4(header) => header.block_bytes as u64,
        Kind::Gzip(_) | Kind::Zlib => DEFLATE_STORED_BYTES,
        // A file that ends with a seek table consists of zstd frames.
        Kind::Skippable | Kind::Nothing => {
            let footer_at = file.file_bytes.saturating_sub(zst::SEEK_FOOTER_BYTES as u64);
            let is_zst = zst::seek_table_bytes(file.show(footer_at, zst::SEEK_FOOTER_BYTES)?).is_some();
            if is_zst { zst::BLOCK_OUT_MAX as u64 } else { LZ4_STORED_BYTES }
        }
    })
}

/// Whether the lengths lead from `from` to the end of the file, or frames that decode lead further than
/// `stored_bytes`. If not, adds the beginnings on the way to `refused`, as they lead no further.
fn goes_on(
    file: &mut Hops<'_>,
    options: &ReadOptions,
    from: u64,
    stored_bytes: u64,
    refused: &mut BTreeSet<u64>,
) -> Result<bool, Error> {
    let (mut at, mut is_decoded, mut passed) = (from, true, Vec::new());
    while at < file.file_bytes && !(is_decoded && at - from > stored_bytes) {
        let is_refused = is_spent(file) || refused.contains(&at);
        let reach = if is_refused { Reach::Broken } else { candidate_reach(file, at)? };
        let Reach::To(end) = reach else {
            refused.extend(passed);
            return Ok(false);
        };
        is_decoded = is_decoded && decodes(file, options, at, end)?;
        at = end;
        if is_decoded {
            // Behind a part that does not decode, enough that decodes may begin.
            passed.push(at);
        }
    }
    Ok(true)
}

fn candidate_reach(file: &mut Hops<'_>, at: u64) -> Result<Reach, Error> {
    let found = walk::candidate(file, at)?;
    match (found.kind, found.reach) {
        (Kind::Gzip(_), Reach::Open) => gzip::reach_of(file, at),
        (_, reach) => Ok(reach),
    }
}

/// Whether the part from `at` to `end` decodes and passes its checksums.
fn decodes(file: &mut Hops<'_>, options: &ReadOptions, at: u64, end: u64) -> Result<bool, Error> {
    let mut reader = Reader::with_options(Piece { file, at, end }, options, Arc::default());
    let mut work_bytes = 0;
    let ended = loop {
        match reader.next_content() {
            Ok(Some(content)) => work_bytes += work_of(content.len()),
            ended => break ended,
        }
    };
    drop(reader);
    file.spend(work_bytes);
    match ended {
        // The end frame behind the last frame is not in this part.
        Ok(_) | Err(Error::Unfinished { .. }) => Ok(true),
        Err(Error::Io(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// Reads a part of the file.
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
        self.file.spend(bytes as u64);
        Ok(bytes)
    }
}

/// Finds the next block of the LZ4 frame of `header`, from `from` on; `None` if it is missing, or if blocks
/// have no checksum that would confirm it.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn next_block(file: &mut Hops<'_>, from: u64, header: &lz4::Header) -> Result<Option<u64>, Error> {
    if !header.block_checksums || header.blocks_linked {
        return Ok(None);
    }
    let whole = header.block_bytes + 8;
    let mut from = from;
    let (mut hashed_bytes, hashed_bytes_max) = (0, left_bytes(file).saturating_mul(HASHED_PER_BYTE));
    while from + 8 < file.file_bytes && hashed_bytes <= hashed_bytes_max {
        let shown = file.show(from, STRIDE_BYTES + whole)?;
        let places = shown.len().min(STRIDE_BYTES);
        let mut is_proven = |place: &usize| {
            let Some(block) = lz4::checked_block(&shown[*place..], header) else { return false };
            hashed_bytes += block.len() as u64;
            hashed_bytes <= hashed_bytes_max && lz4::is_proven(block)
        };
        let candidates: Vec<u64> =
            (0..places).filter(&mut is_proven).map(|place| from + place as u64).collect();
        for candidate in candidates {
            if blocks_go_on(file, candidate, header, whole as u64)? {
                file.spend(hashed_bytes / HASHED_PER_BYTE);
                return Ok(Some(candidate));
            }
        }
        from += places.max(1) as u64;
    }
    file.spend(hashed_bytes / HASHED_PER_BYTE);
    Ok(None)
}

/// Whether the lengths lead from the block at `from` to a frame's end, or further than `whole` bytes.
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
            // The last length led to an invalid one.
            Field::Cut | Field::Broken => return Ok(before - from > whole),
        }
    }
}
