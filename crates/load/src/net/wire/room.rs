//! Buffer of received bytes: it grows with the longest message, and is given back after it.

use std::cell::Cell;

use crate::connection::Failure;
use crate::net::READ_BYTES;
use crate::net::held::{self, FREE_BYTES, HeldBytes};

/// Received bytes: `bytes[start..end]` is not read yet.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) bytes: Vec<u8>,
    pub(super) start: usize,
    pub(super) end: usize,
    held: HeldBytes,
    /// Times in a row that a large buffer had no long content when it was empty again.
    unneeded: u8,
}

/// Short contents in a row after which a large buffer is given back.
pub(super) const UNNEEDED_MAX: u8 = 64;

thread_local! {
    /// The buffer of a dropped wire, reused by the thread's next one.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Room {
    pub(super) fn new() -> Self {
        let mut bytes = SPARE.take();
        bytes.resize(bytes.len().max(READ_BYTES), 0);
        Self { bytes, start: 0, end: 0, held: HeldBytes::default(), unneeded: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Makes free space behind the unread input.
    pub(super) fn make_free(&mut self) -> Result<(), Failure> {
        if self.is_empty() {
            self.give_back();
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.bytes.len() {
            self.grow();
        }
        self.held.set(self.bytes.len())
    }

    /// Gives back the memory of a large buffer for a message that was already read, unless such messages
    /// follow one another: then each would cost pages of new memory.
    fn give_back(&mut self) {
        if self.bytes.len() <= FREE_BYTES {
            return;
        }
        self.unneeded = if self.end > FREE_BYTES { 0 } else { self.unneeded + 1 };
        if self.unneeded >= UNNEEDED_MAX || !held::may_stay() {
            self.bytes.truncate(FREE_BYTES);
            held::shrink(&mut self.bytes);
            self.unneeded = 0;
        }
    }

    /// Doubles the buffer: it grows with the input received, not with announced lengths.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let bytes = self.bytes.len();
        if self.end > bytes / 2 {
            // For a long message it grows by a fixed amount, not by doubling: other connections need memory
            // too.
            self.bytes.resize((bytes + bytes.min(FREE_BYTES)).max(READ_BYTES), 0);
        }
    }

    /// Appends decrypted input, which may be more than was just received.
    pub(super) fn put(&mut self, opened: &[u8]) {
        let end = self.end + opened.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[self.end..end].copy_from_slice(opened);
        self.end = end;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes.len() <= FREE_BYTES {
            // At the end of the thread the buffer cannot be stored; it is freed.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.bytes)));
        }
    }
}
