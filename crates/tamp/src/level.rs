//! Options of a compressed file: format, level, block size, threads.

use crate::threads_allowed;
use crate::{Dictionary, Error};

/// A container that tamp writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Zstandard, one frame per block, with the seek table of the seekable format at the end.
    Zst,
    /// LZ4, independent blocks, each with a checksum.
    Lz4,
    /// Gzip in blocks of at most 64 KiB that state their length, as `bgzip` writes it.
    Bgzf,
}

/// Compression level: 0 is fastest, 9 smallest, 1 the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// Default level, fast enough for any pipe.
    pub const USUAL: Self = Self(1);

    /// Returns the level with this number, 0 to 9; `None` if it is larger.
    pub const fn new(level: u8) -> Option<Self> {
        if level <= 9 { Some(Self(level)) } else { None }
    }

    /// Number of the level.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Options of [`crate::Writer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The container.
    pub format: Format,
    /// Compression level.
    pub level: Level,
    /// Input bytes in a block. Each block is compressed, checked, found and lost independently.
    ///
    /// 1 byte to 128 MiB; for LZ4 one of the format's sizes: 64 KiB, 256 KiB, 1 MiB, 4 MiB.
    pub block_bytes: usize,
    /// Maximum number of codec threads; 1: only the caller's thread.
    pub threads: usize,
    /// Decode each block again and compare it before it is written.
    pub verify: bool,
    /// Adapt the level from block to block, so the writer of the pipe does not wait for the codec.
    pub keep_up: bool,
    /// End blocks by the content, not at fixed offsets: an insertion then changes only the blocks around it,
    /// and `rsync` sends only those. Blocks have at most `block_bytes`.
    ///
    /// Not for LZ4: its readers compute the offsets of blocks from their full size.
    pub rsyncable: bool,
    /// Size of the whole content, if known. An LZ4 header states it.
    pub content_bytes: Option<u64>,
    /// Compress every block with this dictionary. Only for Zstandard.
    pub dictionary: Option<Dictionary>,
}

impl Options {
    /// Returns options for Zstandard at `level` with its default block size and as many threads as this
    /// process may use.
    pub fn zst(level: Level) -> Self {
        Self::of(Format::Zst, level)
    }

    /// Returns options for `format` at `level` with its default block size and as many threads as this
    /// process may use.
    pub fn of(format: Format, level: Level) -> Self {
        Self {
            format,
            level,
            block_bytes: format.container().block_bytes_usual(level),
            threads: threads_allowed(),
            verify: false,
            keep_up: false,
            rsyncable: false,
            content_bytes: None,
            dictionary: None,
        }
    }

    /// Whether the codec's memory, about one and a half default blocks per thread, counts in the memory
    /// bound.
    pub(crate) fn has_large_tables(&self) -> bool {
        self.format.container().has_large_tables(self.level)
    }

    /// Checks the options.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] with what is wrong.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = if self.threads == 0 {
            Some("the number of threads counts the caller's own, so it is at least 1")
        } else if !(1..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            Some("a block has 1 byte to 128 MiB")
        } else {
            self.format.container().refuses(self)
        };
        wrong.map_or(Ok(()), |wrong| Err(Error::Options(wrong)))
    }
}

/// Maximum content of a block. Its frame's size then fits the 32 bits of a seek table.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;
