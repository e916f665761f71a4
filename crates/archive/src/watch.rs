//! Memory of this process while it reads runs. A server reads them beside what it holds already.

use std::cell::Cell;

use record::run::RunId;

use crate::error::ArchiveError;
use crate::schema::Wrong;

/// Bytes of files between two looks at the memory.
const LOOK_BYTES: usize = 256 << 10;
/// Maximum number of objects, and of values, in a line: a short text can stand for much memory.
const LINE_OBJECTS_MAX: usize = 1 << 16;
const LINE_VALUES_MAX: usize = 1 << 20;

/// Watch over the memory while a run is read.
pub(crate) struct Watch {
    bytes_max: Option<u64>,
    /// Bytes read since the last look.
    unseen: Cell<usize>,
    is_over: Cell<bool>,
}

impl Watch {
    /// - `bytes_max`: limit of the process's memory; `None` if it may grow.
    pub(crate) fn new(bytes_max: Option<u64>) -> Self {
        // The first bytes lead to a look: the runs before this one may have taken all.
        Self { bytes_max, unseen: Cell::new(LOOK_BYTES), is_over: Cell::new(false) }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// Counts bytes that were read, and looks at the memory from time to time.
    pub(crate) fn read(&self, bytes: usize) -> Result<(), Wrong> {
        let Some(max) = self.bytes_max else { return Ok(()) };
        self.unseen.set(self.unseen.get().saturating_add(bytes));
        if self.unseen.get() < LOOK_BYTES {
            return Ok(());
        }
        self.unseen.set(0);
        if memory_bytes().is_some_and(|bytes| bytes > max) { self.over() } else { Ok(()) }
    }

    /// Variant of [`Self::read`] for a line that is about to be parsed.
    pub(crate) fn line(&self, line: &[u8]) -> Result<(), Wrong> {
        if self.bytes_max.is_some() {
            let (mut objects, mut values) = (0, 0);
            for byte in line {
                objects += usize::from(*byte == b'{');
                values += usize::from(*byte == b',');
            }
            if objects > LINE_OBJECTS_MAX || values > LINE_VALUES_MAX {
                return self.over();
            }
        }
        self.read(line.len())
    }

    fn over(&self) -> Result<(), Wrong> {
        self.is_over.set(true);
        Err(Wrong("it takes too much memory".to_owned()))
    }

    /// The error of a run that was being read: a lack of memory is not damage.
    pub(crate) fn cause(&self, id: RunId, error: ArchiveError) -> ArchiveError {
        let Some(max) = self.bytes_max.filter(|_| self.is_over.get()) else { return error };
        let why = format!(
            "this process may have {} MB of memory: read the run with another command on this machine",
            max / 1_000_000
        );
        ArchiveError::TooLong { id, why }
    }
}

/// Memory of this process that no file has, in bytes; `None` if the kernel does not tell.
pub fn memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_over_its_limit_reads_no_further_and_says_that_it_is_no_damage() {
        let own = memory_bytes().expect("this kernel tells it");
        assert!(own > 100_000, "{own}");
        let (tight, wide) = (Watch::new(Some(own / 2)), Watch::new(Some(own * 100)));
        assert!(tight.read(1).is_err() && wide.read(1).is_ok() && Watch::new(None).read(1).is_ok());
        let id = RunId::fresh(record::clock::WallAnchor { monotonic_ns: 0, unix_ns: 1 });
        let damage = || ArchiveError::NotFound { text: "x".to_owned() };
        assert!(matches!(tight.cause(id, damage()), ArchiveError::TooLong { .. }));
        assert!(matches!(wide.cause(id, damage()), ArchiveError::NotFound { .. }));
    }

    #[test]
    fn a_line_of_many_empty_objects_is_not_parsed_within_a_limit() {
        let line = "{},".repeat(LINE_OBJECTS_MAX + 1);
        assert!(Watch::new(Some(u64::MAX)).line(line.as_bytes()).is_err());
        assert!(Watch::new(None).line(line.as_bytes()).is_ok());
    }
}
