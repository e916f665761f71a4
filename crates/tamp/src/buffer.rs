//! Memory that is used again, so that no block pays for pages or zeroes twice.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// Buffers grow by whole steps, so that contents of about the same length do not move each one anew.
const STEP_BYTES: usize = 128 << 10;

/// Bytes of which the first `len` count; what lies behind stays initialised for the next use.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// At least `bytes` to write into; [`Buffer::set_len`] then says how many were.
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() < bytes {
            // Fresh memory is zero without being touched, so what is never filled is never resident.
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

    /// Forgets the contents.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for `bytes` more; [`Buffer::grow`] then says how many there are.
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

    /// What is between `len` and `limit`, to read into; [`Buffer::grow`] then says how much was.
    pub(crate) fn tail(&mut self, limit: usize) -> &mut [u8] {
        let len = self.len;
        &mut self.room(limit)[len..]
    }

    pub(crate) fn grow(&mut self, bytes: usize) {
        self.set_len(self.len + bytes);
    }

    /// Appends as much of `content` as keeps `len` within `limit`; yields how much.
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

/// Buffers waiting for their next use.
///
/// Never more than were in use at once, which the ring bounds.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Buffer>>);

impl Spare {
    /// An empty buffer, warm if there is one.
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
