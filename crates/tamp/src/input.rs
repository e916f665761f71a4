//! A stream of compressed bytes with lookahead.

use crate::Error;
use crate::ending::{Ending, Tail};
use crate::format::{le32, zst};
use crate::meter::now;
use std::io::{self, Read};
use std::time::Duration;

/// Bytes of one read: the size that an enlarged pipe transfers with the least overhead.
const READ_BYTES: usize = 256 << 10;

/// Buffers `R`; grows as far as callers look ahead.
#[derive(Debug)]
pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    offset: u64,
    reading: Duration,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), taken: 0, filled: 0, offset: 0, reading: Duration::ZERO }
    }

    /// Number of bytes taken so far: the offset of the next one in the source.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Time spent in the source's `read` so far.
    pub(crate) fn reading(&self) -> Duration {
        self.reading
    }

    /// Returns all buffered bytes: at least `bytes`, unless the source ends before.
    pub(crate) fn show(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if self.filled - self.taken < bytes {
            self.make_room(bytes);
            while self.filled - self.taken < bytes {
                let begun = now();
                let read = self.source.read(&mut self.buffer[self.filled..]);
                self.reading += now().duration_since(begun);
                match read {
                    Ok(0) => break,
                    Ok(read) => self.filled += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(&self.buffer[self.taken..self.filled])
    }

    /// Returns the buffered bytes without reading.
    pub(crate) fn at_hand(&self) -> &[u8] {
        &self.buffer[self.taken..self.filled]
    }

    /// Drops `bytes` from those that were shown.
    pub(crate) fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.filled - self.taken, "only what was shown can be taken");
        self.taken += bytes;
        self.offset += bytes as u64;
    }

    /// Drops `bytes`, buffered or not; returns the number of bytes dropped.
    pub(crate) fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let mut left = bytes;
        while left > 0 {
            let shown = self.show(1)?.len();
            if shown == 0 {
                break;
            }
            let step = usize::try_from(left).map_or(shown, |left| left.min(shown));
            self.take(step);
            left -= step as u64;
        }
        Ok(bytes - left)
    }

    /// Drops the skippable frame that begins here.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the source ends inside it; errors of the source.
    pub(crate) fn skip_frame(&mut self) -> Result<(), Error> {
        let cut = Error::Truncated { offset: self.offset, what: "a skippable frame" };
        let shown = self.show(zst::SKIPPABLE_HEADER_BYTES)?;
        if shown.len() < zst::SKIPPABLE_HEADER_BYTES {
            return Err(cut);
        }
        let bytes = zst::SKIPPABLE_HEADER_BYTES as u64 + u64::from(le32(&shown[4..]));
        if self.skip(bytes)? < bytes { Err(cut) } else { Ok(()) }
    }

    /// Drops the part of tamp's tail that begins here, if any, and reports it to `ending`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the source ends inside it; errors of the source.
    pub(crate) fn take_tail(&mut self, ending: &mut Ending) -> Result<bool, Error> {
        let offset = self.offset;
        let shown = self.show(zst::END_BYTES)?;
        match ending.tail(shown) {
            None => return Ok(false),
            Some(Tail::List) => {
                ending.list(offset, shown);
                self.take(zst::END_BYTES);
            }
            Some(Tail::Table(mut check)) => {
                while check.left() > 0 {
                    let eaten = check.take(self.show(1)?);
                    if eaten == 0 {
                        return Err(Error::Truncated { offset, what: "the seek table" });
                    }
                    self.take(eaten);
                }
                ending.table(offset, &check);
            }
        }
        Ok(true)
    }

    /// Whether only zeros are left, which it takes: some files are padded to whole pages.
    pub(crate) fn take_zeros_to_end(&mut self) -> io::Result<bool> {
        loop {
            let shown = self.show(1)?;
            let bytes = shown.len();
            if shown.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            if bytes == 0 {
                return Ok(true);
            }
            self.take(bytes);
        }
    }

    pub(crate) fn into_source(self) -> R {
        self.source
    }

    fn make_room(&mut self, bytes: usize) {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        let wanted = bytes.max(READ_BYTES).next_multiple_of(READ_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
    }
}

/// Reads until `buffer` is full or the source ends.
pub(crate) fn read_full(source: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
