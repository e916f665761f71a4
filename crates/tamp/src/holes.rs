//! Sparse files: holes are not read, and runs of zeros are not written.

use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Size and alignment of holes: smaller ones would only fragment the file.
const HOLE_BYTES: usize = 32 << 10;

/// Whether a file may have holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holes {
    any: bool,
}

impl Holes {
    /// Checks for holes: a file with fewer sectors than its length needs has some.
    pub(crate) fn of(file: &File) -> Self {
        Self { any: file.metadata().is_ok_and(|metadata| metadata.blocks() * 512 < metadata.len()) }
    }

    /// Whether `range` of the file is a hole.
    ///
    /// # Errors
    ///
    /// If the file's length cannot be read.
    pub(crate) fn cover(self, file: &File, range: &Range<u64>) -> io::Result<bool> {
        if !self.any {
            return Ok(false);
        }
        // This moves the file's offset, which has no other user.
        match rustix::fs::seek(file, SeekFrom::Data(range.start)) {
            Ok(data_at) => Ok(data_at >= range.end),
            // No data follows. If the file was cut since, it ends inside the range, and those bytes are
            // missing, not zero.
            Err(rustix::io::Errno::NXIO) => Ok(file.metadata()?.len() >= range.end),
            Err(_) => Ok(false),
        }
    }
}

/// Writes to a regular file from an offset on, with holes for long runs of zeros.
///
/// Only for a part of the file that has no bytes yet: a hole does not overwrite.
#[derive(Debug)]
pub struct SparseWriter<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> SparseWriter<'a> {
    /// Creates a writer to `file` from `at` on; the file's own offset is neither used nor moved.
    pub fn new(file: &'a File, at: u64) -> Self {
        Self { file, at }
    }

    /// Extends the file to the end of what was written; returns that offset.
    ///
    /// # Errors
    ///
    /// Errors of the file.
    pub fn finish(self) -> io::Result<u64> {
        set_end(self.file, self.at)?;
        Ok(self.at)
    }
}

impl io::Write for SparseWriter<'_> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        write_around(self.file, content, self.at)?;
        self.at += content.len() as u64;
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes `content` to `at`, except for long runs of zeros.
pub(crate) fn write_around(file: &File, content: &[u8], at: u64) -> io::Result<()> {
    // Pieces are aligned in the file, so the first may be short.
    let first = usize::try_from(at.next_multiple_of(HOLE_BYTES as u64) - at).expect("less than a piece");
    let mut from = 0;
    let mut written = 0;
    while from < content.len() {
        let end = (if from < first { first } else { from + HOLE_BYTES }).min(content.len());
        // The first and the last piece may be parts of a hole's size; the writers of their neighbours judge
        // the rest.
        if is_zero(&content[from..end]) {
            if written < from {
                file.write_all_at(&content[written..from], at + written as u64)?;
            }
            written = end;
        }
        from = end;
    }
    if written < content.len() { file.write_all_at(&content[written..], at + written as u64) } else { Ok(()) }
}

/// Extends the file to `end`, if its last bytes were a run of zeros.
pub(crate) fn set_end(file: &File, end: u64) -> io::Result<()> {
    if file.metadata()?.len() < end { file.set_len(end) } else { Ok(()) }
}

fn is_zero(piece: &[u8]) -> bool {
    // The compiler vectorizes a wide step without a branch inside.
    piece.chunks(256).all(|chunk| chunk.iter().fold(0, |sum, byte| sum | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_around_zeros_reads_as_written() {
        let mut content = vec![0; 300_000];
        content[0] = 1;
        content[100_000..110_000].fill(2);
        content[299_999] = 3;
        for at in [0, 1, 32_767, 32_768] {
            let file = tempfile::tempfile().unwrap();
            write_around(&file, &content, at).unwrap();
            set_end(&file, at + content.len() as u64).unwrap();
            let mut found = vec![9; content.len()];
            file.read_exact_at(&mut found, at).unwrap();
            assert!(found == content, "at {at}");
        }
    }

    #[test]
    fn zeros_take_no_room_however_the_writes_cut_them() {
        let file = tempfile::tempfile().unwrap();
        let mut writer = SparseWriter::new(&file, 0);
        for _ in 0..20 {
            // Like BGZF blocks, which are not aligned.
            io::Write::write_all(&mut writer, &vec![0; 5 * 0xff00]).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), 100 * 0xff00);
        assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().blocks()), (100 * 0xff00, 0));
    }

    #[test]
    fn zeros_take_no_room_and_a_hole_is_known_as_one() {
        let file = tempfile::tempfile().unwrap();
        write_around(&file, &vec![0; 1 << 20], 0).unwrap();
        set_end(&file, 1 << 20).unwrap();
        assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().blocks()), (1 << 20, 0));
        file.write_all_at(b"data", 600_000).unwrap();
        let holes = Holes::of(&file);
        let cover = |from, to| holes.cover(&file, &(from..to)).unwrap();
        assert!(cover(0, 262_144) && !cover(524_288, 786_432));
        assert!(cover(786_432, 1_048_576));
    }

    #[test]
    fn what_was_cut_off_meanwhile_is_not_a_hole() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let holes = Holes::of(&file);
        assert!(holes.cover(&file, &(524_288..786_432)).unwrap());
        file.set_len(600_000).unwrap();
        assert!(!holes.cover(&file, &(524_288..786_432)).unwrap());
        assert!(!holes.cover(&file, &(786_432..1_048_576)).unwrap());
    }
}
