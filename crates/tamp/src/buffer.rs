//! Reused memory: no block pays for page faults or zeroing twice.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// Unit of growth. Contents of about the same length then do not reallocate each time.
const STEP_BYTES: usize = 128 << 10;

/// A buffer with `len` valid bytes; the bytes behind them stay initialised for the next use.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Returns at least `bytes` to write into. Set the length with [`Buffer::set_len`].
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() < bytes {
            // Fresh memory is zero without being touched, so unused pages are never resident.
            let mut larger = vec![0; bytes.next_multiple_of(STEP_BYTES)];
            larger[..self.len].copy_from_slice(&self.bytes[..self.len]);
            self.bytes = larger;
        }
        &mut self.bytes[..bytes]
    }

    pub(crate) fn set_len(&mut self, len: usize) {
        assert!(len <= self.bytes.len(), "only what was room can be filled");
        self.len = len;
    }

    /// Removes the contents.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns room for `bytes` more. Add the number of bytes written with [`Buffer::grow`].
    pub(crate) fn more(&mut self, bytes: usize) -> &mut [u8] {
        self.tail(self.len + bytes)
    }

    /// Appends all of `content`.
    pub(crate) fn push(&mut self, content: &[u8]) {
        self.more(content.len()).copy_from_slice(content);
        self.grow(content.len());
    }

    /// Replaces the contents.
    pub(crate) fn fill(&mut self, content: &[u8]) {
        self.room(content.len()).copy_from_slice(content);
        self.len = content.len();
    }

    /// Returns the room between `len` and `limit`. Add the number of bytes read with [`Buffer::grow`].
    pub(crate) fn tail(&mut self, limit: usize) -> &mut [u8] {
        let len = self.len;
        &mut self.room(limit)[len..]
    }

    pub(crate) fn grow(&mut self, bytes: usize) {
        self.set_len(self.len + bytes);
    }

    /// Appends as much of `content` as fits within `limit`; returns the number of bytes.
    pub(crate) fn append(&mut self, content: &[u8], limit: usize) -> usize {
        let taken = content.len().min(limit.saturating_sub(self.len));
        let end = self.len + taken;
        self.room(limit)[end - taken..end].copy_from_slice(&content[..taken]);
        self.len = end;
        taken
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Buffers that wait for their next use.
///
/// At most as many as were in use at once, which the ring bounds.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Buffer>>);

impl Spare {
    /// Takes an empty buffer, with warm memory if one is there.
    pub(crate) fn get(&self) -> Buffer {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.len = 0;
        buffer
    }

    pub(crate) fn put(&self, buffer: Buffer) {
        // A buffer without memory is not worth storing.
        if buffer.bytes.is_empty() {
            return;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}
