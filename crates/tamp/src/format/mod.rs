//! The formats, one file for each. [`Container`] hides the differences between the formats that tamp writes.
//! Stream readers match on [`Magic`].

pub(crate) mod bgzf;
pub(crate) mod gz;
pub(crate) mod inflate;
pub(crate) mod lz4;
pub(crate) mod suffix;
pub(crate) mod zst;

use crate::buffer::Buffer;
use crate::decode::Block;
use crate::index::{Hops, Index};
use crate::level::{Format, Level, Options};
use crate::{Dictionary, Error};
use zst::Seek;

/// A format that tamp writes: its names and levels, the beginning and end of its files, and how to compress,
/// find and decode its blocks.
pub(crate) trait Container: std::fmt::Debug + Sync {
    /// Name for users.
    fn name(&self) -> &'static str;

    /// Block sizes of the format; `None`: any.
    fn block_sizes(&self) -> Option<&'static [usize]> {
        None
    }

    /// Default block size at `level`, in bytes.
    fn block_bytes_usual(&self, level: Level) -> usize;

    /// Codec setting for `level`.
    fn setting(&self, level: Level) -> Setting;

    /// Settings faster than level 0, the last of which hardly compress.
    fn beyond(&self) -> &'static [Setting];

    /// Reason that this format cannot be written with `options`, if any.
    fn refuses(&self, options: &Options) -> Option<&'static str>;

    /// Whether the codec's tables at `level`, about one and a half default blocks per thread, count in the
    /// memory bound.
    fn has_large_tables(&self, _level: Level) -> bool {
        false
    }

    /// Creates a codec for one thread.
    fn encoder(&self, dictionary: Option<&Dictionary>) -> Box<dyn Encode>;

    /// Bytes before the first block; the header may state `content_bytes`.
    fn head(&self, _block_bytes: usize, _content_bytes: Option<u64>) -> Vec<u8> {
        Vec::new()
    }

    /// Whether [`Container::head`] states the size of the content.
    fn states_content_bytes(&self) -> bool {
        false
    }

    /// Effect of several concatenated files, as a warning for users; `None` if they are valid.
    fn warns_of_rows(&self) -> Option<&'static str> {
        None
    }

    /// Whether decoding a block needs memory for its content besides the output, which a user may limit.
    fn needs_window(&self) -> bool {
        false
    }

    /// Whether a file without content needs a block, because it would be empty otherwise.
    fn wants_empty_block(&self) -> bool {
        false
    }

    /// Returns a block's entry in the list at the end of the file; `None` if the format has no list.
    fn seek(&self, _packed: &[u8], _content_bytes: usize) -> Option<Seek> {
        None
    }

    /// Bytes behind the last block.
    fn tail(&self, seeks: &[Seek]) -> Vec<u8>;

    /// Finds the blocks of a file; `None` if the file does not list them, or is damaged or unfinished.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn index(&self, hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error>;

    /// Parses a block as stored in a file.
    ///
    /// - `content_bytes`: its decoded size, or, if `frame` is given, the maximum.
    /// - `frame`: the LZ4 frame of the block, unless tamp has just written it.
    ///
    /// # Errors
    ///
    /// What is wrong with the block.
    fn block<'a>(
        &self,
        packed: &'a [u8],
        content_bytes: usize,
        frame: Option<&lz4::Header>,
    ) -> Result<Block<'a>, &'static str>;
}

impl Format {
    /// All formats.
    const ALL: [Self; 3] = [Self::Zst, Self::Lz4, Self::Bgzf];

    /// Returns the format with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.container().name() == name)
    }

    /// Effect of several concatenated files, as a warning for users; `None` if they are valid.
    pub fn warns_of_rows(self) -> Option<&'static str> {
        self.container().warns_of_rows()
    }

    /// Block sizes of the format, in bytes; `None`: any up to [`crate::BLOCK_BYTES_MAX`].
    pub fn block_sizes(self) -> Option<&'static [usize]> {
        self.container().block_sizes()
    }

    /// Returns the format of a file with this magic, and the name of its container. A file without a known
    /// magic is a zlib stream or an error.
    pub(crate) fn of_magic(magic: Option<Magic>) -> (Self, &'static str) {
        let format = magic.map(Magic::format);
        format.map_or((Self::Bgzf, "zlib"), |format| (format, format.suffix()))
    }

    /// Returns the implementation of this format.
    pub(crate) fn container(self) -> &'static dyn Container {
        match self {
            Self::Zst => &zst::Zst,
            Self::Lz4 => &lz4::Lz4,
            Self::Bgzf => &bgzf::Bgzf,
        }
    }
}

/// Compresses blocks, one after the other.
pub(crate) trait Encode: Send {
    /// Compresses `content` and appends it to `packed`, as stored in a file.
    ///
    /// # Errors
    ///
    /// Errors of the codec, which do not depend on the input.
    fn encode(&mut self, content: &[u8], setting: Setting, packed: &mut Buffer) -> Result<(), Error>;
}

/// Codec setting for one block: the codec's level. For LZ4, a negative number is an acceleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting(pub(crate) i32);

/// Type of a frame or a member, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    Zst,
    /// A frame that readers of .zst and .lz4 skip.
    Skippable,
    Lz4,
    Lz4Legacy,
    Gzip,
}

impl Magic {
    /// Returns the type; `None` if the bytes are unknown or too few.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&gz::MAGIC) {
            return Some(Self::Gzip);
        }
        match bytes.get(..4).map(le32)? {
            zst::MAGIC => Some(Self::Zst),
            lz4::MAGIC => Some(Self::Lz4),
            lz4::LEGACY_MAGIC => Some(Self::Lz4Legacy),
            magic if zst::is_skippable(magic) => Some(Self::Skippable),
            _ => None,
        }
    }

    /// Returns the format of a file with this magic.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Zst | Self::Skippable => Format::Zst,
            Self::Lz4 | Self::Lz4Legacy => Format::Lz4,
            Self::Gzip => Format::Bgzf,
        }
    }
}

pub(crate) fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
}

/// Message for another format behind gzip. gzip would ignore it as garbage, which it is not; and if gzip is
/// read in segments, it could not be distinguished from them.
pub(crate) const OTHER_FORMAT: &str = "another format follows gzip in the same file; split it there";

/// Whether four bytes begin another format than gzip.
pub(crate) fn begins_other_format(bytes: &[u8]) -> bool {
    Magic::of(bytes).is_some_and(|magic| magic != Magic::Gzip)
}
