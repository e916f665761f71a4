//! What a file is written as: format, level, block size, threads.

/// A container that tamp writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Zstandard, one frame a block, with the seek table of the seekable format at the end.
    Zst,
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
pub struct Options {
    /// The container.
    pub format: Format,
    /// How hard.
    pub level: Level,
    /// Input bytes in a block; each block is compressed, checked, found and lost by itself.
    pub block_bytes: usize,
    /// Codec threads at most; 1: no thread but the caller's.
    pub threads: usize,
    /// Decode each block again and compare before it is written.
    pub verify: bool,
}

impl Options {
    /// Zstandard at `level` with its usual block, as many threads as this process may use.
    pub fn zst(level: Level) -> Self {
        Self {
            format: Format::Zst,
            level,
            block_bytes: Setting::usual_block_bytes(Format::Zst, level),
            threads: crate::threads_allowed(),
            verify: false,
        }
    }

    pub(crate) fn check(&self) {
        assert!(self.threads > 0, "threads counts the caller's own");
        assert!((1..=BLOCK_BYTES_MAX).contains(&self.block_bytes), "a block has 1 byte to 128 MiB");
    }
}

/// Largest block: with it, `compress_bound` still fits what every reader accepts as one frame.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;

/// What a codec is told, for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Zstandard's own level, negative ones too.
    Zst(i32),
}

impl Setting {
    pub(crate) fn of(format: Format, level: Level) -> Self {
        const ZST: [i32; 10] = [-3, -1, 1, 3, 5, 7, 9, 12, 15, 19];
        match format {
            Format::Zst => Self::Zst(ZST[usize::from(level.0)]),
        }
    }

    /// 256 KiB stay in a core's second cache; the slow levels need more to find their matches in.
    pub(crate) fn usual_block_bytes(format: Format, level: Level) -> usize {
        match (format, level.0) {
            (Format::Zst, 0..=2) => 256 << 10,
            (Format::Zst, 3..=5) => 1 << 20,
            (Format::Zst, _) => 4 << 20,
        }
    }
}
