//! What a file is written as: format, level, block size, threads.

use crate::format::gz;
use crate::format::lz4::{BLOCK_SIZES, Effort};
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

impl Format {
    /// How its files are named.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zst => "zst",
            Self::Lz4 => "lz4",
            Self::Bgzf => "gz",
        }
    }
}

/// How hard to compress: 0 is fastest, 9 smallest, 1 usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// Fast enough to sit in any pipe: what tamp uses unless told otherwise.
    pub const USUAL: Self = Self(1);

    /// `None`: above 9.
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
    /// Change the level from block to block, so that whoever writes to the pipe never waits for the codec.
    pub keep_up: bool,
    /// End blocks where the content says so, not at fixed offsets, so that an insertion changes only
    /// the blocks around it and `rsync` sends only those. Blocks then have up to `block_bytes`.
    ///
    /// Not for LZ4, whose readers find blocks by counting full ones.
    pub rsyncable: bool,
    /// Content of the whole stream where it is known: an LZ4 header states it.
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
            block_bytes: usual_block_bytes(format, level),
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
        self.format == Format::Zst && self.level.0 >= 6
    }

    /// # Errors
    ///
    /// [`Error::Options`] with what is wrong.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_lz4 = self.format == Format::Lz4;
        let wrong = if self.threads == 0 {
            "the number of threads counts the caller's own, so it is at least 1"
        } else if !(1..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            "a block has 1 byte to 128 MiB"
        } else if self.rsyncable && is_lz4 {
            "LZ4 blocks are cut at fixed offsets, so they cannot be rsyncable"
        } else if is_lz4 && !BLOCK_SIZES.contains(&self.block_bytes) {
            "LZ4 knows blocks of 64 KiB, 256 KiB, 1 MiB and 4 MiB"
        } else if self.dictionary.is_some() && self.format != Format::Zst {
            "dictionaries made by zstd are for Zstandard only"
        } else {
            return Ok(());
        };
        Err(Error::Options(wrong))
    }
}

/// Largest block: its frame's size still fits a seek table with room to spare.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;

/// What a codec is told, for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Zstandard's own level, negative ones too.
    Zst(i32),
    Lz4(Effort),
    /// Deflate's level, as libdeflate counts: 1 to 12.
    Bgzf(i32),
}

impl Setting {
    pub(crate) fn of(format: Format, level: Level) -> Self {
        const ZST: [i32; 10] = [-3, -1, 1, 3, 5, 7, 9, 12, 15, 19];
        const BGZF: [i32; 10] = [1, 1, 2, 3, 4, 5, 6, 8, 10, 12];
        let at = usize::from(level.0);
        match (format, level.0) {
            (Format::Zst, _) => Self::Zst(ZST[at]),
            (Format::Lz4, 0) => Self::Lz4(Effort::Fast(4)),
            (Format::Lz4, 1 | 2) => Self::Lz4(Effort::Fast(1)),
            (Format::Lz4, level) => Self::Lz4(Effort::High(i32::from(level))),
            (Format::Bgzf, _) => Self::Bgzf(BGZF[at]),
        }
    }
}

/// 256 KiB stay in a core's second cache; who searches harder gains more from more to search in.
fn usual_block_bytes(format: Format, level: Level) -> usize {
    match (format, level.0) {
        (Format::Zst | Format::Lz4, 0..=2) => 256 << 10,
        (Format::Zst, 3..=5) | (Format::Lz4, _) => 1 << 20,
        (Format::Zst, _) => 4 << 20,
        (Format::Bgzf, _) => 4 * gz::BGZF_CONTENT_BYTES,
    }
}
