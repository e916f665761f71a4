//! The formats, a file for each. What differs between those that tamp writes is behind [`Container`]. Readers
//! of a stream match on [`Magic`].

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

/// A format that tamp writes: its names and levels, how its files begin and end, how its blocks are
/// compressed, found and read.
pub(crate) trait Container: std::fmt::Debug + Sync {
    /// Its name for users.
    fn name(&self) -> &'static str;

    /// Block sizes that the format knows; `None`: any.
    fn block_sizes(&self) -> Option<&'static [usize]> {
        None
    }

    /// The block size at `level`, in bytes, unless the user chooses one.
    fn block_bytes_usual(&self, level: Level) -> usize;

    /// What the codec is told for `level`.
    fn setting(&self, level: Level) -> Setting;

    /// Settings beyond level 0, down to hardly looking at the data.
    fn beyond(&self) -> &'static [Setting];

    /// Why this format cannot be written with `options`; `None`: it can.
    fn refuses(&self, options: &Options) -> Option<&'static str>;

    /// Whether the codec's tables at `level`, about one and a half of the usual blocks a thread, are worth
    /// counting.
    fn has_large_tables(&self, _level: Level) -> bool {
        false
    }

    /// A codec for one thread.
    fn encoder(&self, dictionary: Option<&Dictionary>) -> Box<dyn Encode>;

    /// Bytes before the first block of a file whose header may state `content_bytes`.
    fn head(&self, _block_bytes: usize, _content_bytes: Option<u64>) -> Vec<u8> {
        Vec::new()
    }

    /// Whether [`Container::head`] states the size of the content.
    fn states_content_bytes(&self) -> bool {
        false
    }

    /// What goes wrong if several of its files stand in a row, as a user should know; `None`: nothing.
    fn warns_of_rows(&self) -> Option<&'static str> {
        None
    }

    /// Whether decoding a block takes memory for its content besides the output, which a user may limit.
    fn needs_window(&self) -> bool {
        false
    }

    /// Whether a file without content needs a block all the same, because it would be empty.
    fn wants_empty_block(&self) -> bool {
        false
    }

    /// The entry for a block in the list that ends the file; `None`: the format has no list.
    fn seek(&self, _packed: &[u8], _content_bytes: usize) -> Option<Seek> {
        None
    }

    /// Bytes behind the last block.
    fn tail(&self, seeks: &[Seek]) -> Vec<u8>;

    /// Finds the blocks of a file; `None`: the file does not say where they are, or is damaged or unfinished.
    ///
    /// # Errors
    ///
    /// What reading says.
    fn index(&self, hops: &mut Hops<'_>, dictionary_id: u32) -> Result<Option<Index>, Error>;

    /// A block, given as it stands in a file.
    ///
    /// - `content_bytes`: how much it decodes to, or, if `frame` says so, at most.
    /// - `frame`: the LZ4 frame that it is part of, unless tamp has just written it.
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
    /// All of them.
    const ALL: [Self; 3] = [Self::Zst, Self::Lz4, Self::Bgzf];

    /// The format that a user calls `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.container().name() == name)
    }

    /// What goes wrong if several of its files stand in a row; `None`: nothing.
    pub fn warns_of_rows(self) -> Option<&'static str> {
        self.container().warns_of_rows()
    }

    /// Block sizes that the format knows, in bytes; `None`: any up to [`crate::BLOCK_BYTES_MAX`].
    pub fn block_sizes(self) -> Option<&'static [usize]> {
        self.container().block_sizes()
    }

    /// The format of a file that begins so, and the name of its container. What begins like none is a zlib
    /// stream, or an error.
    pub(crate) fn of_magic(magic: Option<Magic>) -> (Self, &'static str) {
        let format = magic.map(Magic::format);
        format.map_or((Self::Bgzf, "zlib"), |format| (format, format.suffix()))
    }

    /// What this format is.
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
    /// Compresses `content` and appends it to `packed`, as it stands in a file.
    ///
    /// # Errors
    ///
    /// None that the world can cause; the codec's own refusals are passed on.
    fn encode(&mut self, content: &[u8], setting: Setting, packed: &mut Buffer) -> Result<(), Error>;
}

/// What a codec is told for one block: its own level. For LZ4, a negative number is an acceleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting(pub(crate) i32);

/// What the first bytes of a frame or a member say that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    Zst,
    /// A frame that readers of .zst and .lz4 pass over.
    Skippable,
    Lz4,
    Lz4Legacy,
    Gzip,
}

impl Magic {
    /// `None`: nothing that tamp knows by its first bytes, or too few of them.
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

    /// The format of a file that begins so.
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
