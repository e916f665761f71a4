//! Where something readable begins behind a damage.
//!
//! What begins like a frame may stand inside one: an archive of compressed files is hardly compressed again, and stored as it is. So
//! a beginning counts only if what begins there goes on, by the lengths in it, frame after frame, to the file's end, or
//! for longer than any block that is stored in one piece.

use super::gzip;
use super::walk::{self, Kind, Reach};
use crate::Error;
use crate::format::lz4;
use crate::format::zst;
use crate::index::Hops;

/// Looked through at a time.
const STRIDE_BYTES: usize = 1 << 20;
/// A deflate block that is stored holds no more.
const DEFLATE_STORED_BYTES: u64 = 64 << 10;
/// The largest block of LZ4.
const LZ4_STORED_BYTES: u64 = 4 << 20;

/// Where the next thing begins behind the damaged one at `at`; `None`: nothing more is readable.
///
/// # Errors
///
/// What reading says.
pub(super) fn next(file: &mut Hops<'_>, at: u64) -> Result<Option<u64>, Error> {
    let stored_bytes = stored_bytes_max(file, at)?;
    let mut from = at + 1;
    while from + 4 <= file.file_bytes {
        let shown = file.show(from, STRIDE_BYTES)?;
        let shown = &shown[..shown.len().min(STRIDE_BYTES)];
        let candidates: Vec<u64> = (0..shown.len().saturating_sub(3))
            .filter(|&place| walk::looks_known(&shown[place..]))
            .map(|place| from + place as u64)
            .collect();
        let step = (shown.len() as u64).saturating_sub(3).max(1);
        for candidate in candidates {
            if goes_on(file, candidate, stored_bytes)? {
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

/// Whether what begins at `from` goes on to the file's end, or for more than `stored_bytes`.
fn goes_on(file: &mut Hops<'_>, from: u64, stored_bytes: u64) -> Result<bool, Error> {
    let mut at = from;
    loop {
        if at == file.file_bytes {
            return Ok(true);
        }
        if at - from > stored_bytes {
            return Ok(true);
        }
        let found = walk::at(file, at)?;
        let reach = match (found.kind, found.reach) {
            (Kind::Gzip(_), Reach::Open) => gzip::reach(file, at)?,
            (Kind::Zlib, _) => Reach::Broken(at),
            (_, reach) => reach,
        };
        match reach {
            Reach::To(end) => at = end,
            Reach::Cut => return Ok(file.file_bytes - from > stored_bytes),
            Reach::Broken(end) => return Ok(end - from > stored_bytes),
            Reach::Open => return Ok(false),
        }
    }
}

/// Where the next block of the LZ4 frame of `header` begins, from `from` on; `None`: none is found, or blocks have no checksum
/// that could tell one from chance.
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
            let is_so = match walk::lz4_blocks(file, candidate, header)? {
                Reach::To(end) => end == file.file_bytes || walk::begins(file, end)?,
                Reach::Cut => file.file_bytes - candidate > whole as u64,
                Reach::Broken(end) => end - candidate > whole as u64,
                Reach::Open => false,
            };
            if is_so {
                return Ok(Some(candidate));
            }
        }
        from += places.max(1) as u64;
    }
    Ok(None)
}
