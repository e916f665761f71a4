//! The damaged file, with zeros for parts that a failing disk cannot read or that are cut off meanwhile.
//!
//! The rest of salvage reads the file as if it were whole. Such parts are recorded, because zeros may decode
//! to content.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// Size of a retry after a larger read failed: the page cache fails by pages.
const PAGE_BYTES: u64 = 4096;

/// Errors of a disk or a file system that cannot read stored data.
const UNREADABLE: [Errno; 6] =
    [Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ, Errno::BADMSG, Errno::UCLEAN];

pub(super) struct Source<R> {
    file: R,
    file_bytes: u64,
    /// Beginnings and ends of unreadable parts, which do not touch.
    unreadable: BTreeMap<u64, u64>,
    /// The first error.
    error: Option<Errno>,
}

impl<R: Read + Seek> Source<R> {
    /// Opens all of `file`.
    pub(super) fn new(mut file: R) -> io::Result<Self> {
        let file_bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, file_bytes, unreadable: BTreeMap::new(), error: None })
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Fills `buffer` from `at` on, up to the file's length when it was opened.
    ///
    /// # Errors
    ///
    /// Errors of reading, except for unreadable parts.
    pub(super) fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let end = self.file_bytes.min(at.saturating_add(buffer.len() as u64));
        let (mut pos, mut by_page) = (at, false);
        while pos < end {
            let (is_readable, mut to) = self.run(pos, end);
            if is_readable && by_page {
                to = to.min(page_end(pos));
            }
            let part = &mut buffer[offset(pos - at)..offset(to - at)];
            if !is_readable {
                part.fill(0);
                pos = to;
                continue;
            }
            self.file.seek(SeekFrom::Start(pos))?;
            match self.file.read(part) {
                Ok(0) => self.note(pos..self.file_bytes),
                Ok(read) => pos += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let known = Errno::from_io_error(&error).filter(|known| UNREADABLE.contains(known));
                    let Some(known) = known else { return Err(error) };
                    if by_page {
                        self.error.get_or_insert(known);
                        self.note(pos..to);
                    }
                    by_page = true;
                }
            }
        }
        Ok(offset(pos.max(at) - at))
    }

    /// Returns the unreadable parts between `from` and `to`.
    pub(super) fn unreadable(&self, from: u64, to: u64) -> Vec<Range<u64>> {
        let parts = self.unreadable.iter().map(|(&start, &end)| start.max(from)..end.min(to));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Returns the first error.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.error.map(io::Error::from)
    }

    /// Whether `pos` may be readable, as far as known, and the offset up to which this holds, at most `end`.
    fn run(&self, pos: u64, end: u64) -> (bool, u64) {
        let before = self.unreadable.range(..=pos).next_back();
        if let Some((_, &bad_end)) = before.filter(|&(_, &bad_end)| bad_end > pos) {
            return (false, bad_end.min(end));
        }
        let next = self.unreadable.range(pos..).next();
        (true, next.map_or(end, |(&start, _)| start.min(end)))
    }

    fn note(&mut self, part: Range<u64>) {
        let (mut start, mut end) = (part.start, part.end);
        if let Some((&before, &before_end)) = self.unreadable.range(..=start).next_back()
            && before_end >= start
        {
            (start, end) = (before, end.max(before_end));
        }
        while let Some((&next, &next_end)) = self.unreadable.range(start + 1..=end).next() {
            self.unreadable.remove(&next);
            end = end.max(next_end);
        }
        self.unreadable.insert(start, end);
    }
}

fn page_end(pos: u64) -> u64 {
    (pos / PAGE_BYTES + 1) * PAGE_BYTES
}

fn offset(bytes: u64) -> usize {
    usize::try_from(bytes).expect("inside the buffer")
}
