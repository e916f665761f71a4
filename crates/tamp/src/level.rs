//! What a file is written as: format, level, block size, threads.

use crate::threads_allowed;
use crate::{Dictionary, Error};

/// A container that tamp writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Zstandard, one frame a block, with the seek table of the seekable format at the end.
    Zst,
    /// LZ4, independent blocks with a checksum each.
    Lz4,
    /// Gzip, in blocks of at most 64 KiB that know their length: what `bgzip` writes.
    Bgzf,
}

/// How hard to compress: 0 is fastest, 9 smallest, 1 usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// Fast enough to sit in any pipe: what tamp uses unless told otherwise.
    pub const USUAL: Self = Self(1);

    /// The level with this number, 0 to 9; `None` if it is larger.
    pub const fn new(level: u8) -> Option<Self> {
        if level <= 9 { Some(Self(level)) } else { None }
    }

    /// The number, as typed.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// How [`crate::Writer`] compresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The container.
    pub format: Format,
    /// How hard.
    pub level: Level,
    /// Input bytes in a block; each block is compressed, checked, found and lost by itself.
    ///
    /// 1 byte to 128 MiB; for LZ4 one of the four sizes the format knows: 64 KiB, 256 KiB, 1 MiB, 4 MiB.
    pub block_bytes: usize,
    /// Codec threads at most; 1: no thread but the caller's.
    pub threads: usize,
    /// Decode each block again and compare before it is written.
    pub verify: bool,
    /// Change the level from block to block, so that the writer of the pipe does not wait for the codec.
    pub keep_up: bool,
    /// End blocks where the content says so, not at fixed offsets, so that an insertion changes only
    /// the blocks around it and `rsync` sends only those. Blocks then have up to `block_bytes`.
    ///
    /// Not for LZ4, whose readers find blocks by counting full ones.
    pub rsyncable: bool,
    /// Bytes of content of the whole stream, if known. An LZ4 header states them.
    pub content_bytes: Option<u64>,
    /// Compress every block with this dictionary. Only for Zstandard.
    pub dictionary: Option<Dictionary>,
}

impl Options {
    /// Zstandard at `level` with its usual block, as many threads as this process may use.
    pub fn zst(level: Level) -> Self {
        Self::of(Format::Zst, level)
    }

    /// `format` at `level` with its usual block, as many threads as this process may use.
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

    /// Whether the codec's own memory, about one and a half of the usual blocks a thread, is worth counting.
    pub(crate) fn has_large_tables(&self) -> bool {
        self.format.container().has_large_tables(self.level)
    }

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

/// Most bytes of content in a block. The size of its frame fits the 32 bits of a seek table.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;
