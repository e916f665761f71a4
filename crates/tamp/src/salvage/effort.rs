//! Limit of the work of searching.
//!
//! A file can be built such that many beginnings in it lead through the same bytes, to no end. Without a
//! limit, searching a small one takes hours.

use crate::index::Hops;

/// Bytes that salvage may go through for each byte of the file before it stops searching.
const SEARCHED_PER_BYTE: u64 = 32;
/// Bytes that it may go through besides.
const SEARCHED_BYTES: u64 = 16 << 20;
/// Content that costs as much as a compressed byte.
const CONTENT_PER_BYTE: usize = 256;
/// Bytes to hash that cost as much: among random bytes, many look like the length of an LZ4 block.
pub(super) const HASHED_PER_BYTE: u64 = 1024;
/// Cost of reading the length of a block.
pub(super) const STEP_BYTES: u64 = 16;

/// Whether salvage has gone through too many bytes to continue searching.
pub(super) fn is_spent(file: &Hops<'_>) -> bool {
    left_bytes(file) == 0
}

/// Returns the number of bytes that salvage may still go through.
pub(super) fn left_bytes(file: &Hops<'_>) -> u64 {
    let most = file.file_bytes.saturating_mul(SEARCHED_PER_BYTE).saturating_add(SEARCHED_BYTES);
    most.saturating_sub(file.spent_bytes)
}

/// Returns the cost of decoding to `content_bytes`.
pub(super) fn work_of(content_bytes: usize) -> u64 {
    (content_bytes / CONTENT_PER_BYTE) as u64
}
