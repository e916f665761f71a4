//! [`SeekReader`]: random access to the content.

use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::index::{Index, Sizes};
use crate::input::read_full;
use crate::{Error, ReadOptions};
use std::io::{self, Read, Seek, SeekFrom};

/// Reads a compressed file as if it were not compressed, from any offset: a read decodes only the blocks that
/// it touches.
///
/// In BGZF, and in a `.zst` of several frames without a seek table, only the block itself proves the size
/// that it states. The first read at an offset also decodes the blocks before it, so a wrong size is an error
/// and does not shift the content.
///
/// # Example
///
/// ```
/// use std::io::{Cursor, Read, Seek, SeekFrom, Write};
///
/// let mut writer = tamp::Writer::new(Vec::new(), &tamp::Options::zst(tamp::Level::USUAL))?;
/// writer.write_all(&vec![b'a'; 1 << 20])?;
/// writer.write_all(b"needle")?;
/// let mut reader = tamp::SeekReader::new(Cursor::new(writer.finish()?))?;
///
/// let mut found = String::new();
/// reader.seek(SeekFrom::Start(1 << 20))?;
/// reader.read_to_string(&mut found)?;
/// assert_eq!(found, "needle");
/// # Ok::<(), tamp::Error>(())
/// ```
pub struct SeekReader<R> {
    source: R,
    index: Index,
    decoder: Decoder<'static>,
    packed: Buffer,
    content: Buffer,
    /// The entry that `content` holds.
    held: Option<usize>,
    position: u64,
    /// Number of first entries with proven sizes.
    proven: usize,
}

impl<R: Read + Seek> SeekReader<R> {
    /// Creates a reader of all of `source`, which must not change while it is read.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the file has no index (one large frame, linked blocks, plain gzip, LZ4
    /// without a stated size), or is damaged or unfinished; [`crate::Reader`] reports the reason.
    pub fn new(source: R) -> Result<Self, Error> {
        Self::with_options(source, &ReadOptions::new(1))
    }

    /// Variant of [`SeekReader::new`] with the dictionary of `options`; the calling thread does all work.
    ///
    /// # Errors
    ///
    /// The same as of [`SeekReader::new`].
    pub fn with_options(mut source: R, options: &ReadOptions) -> Result<Self, Error> {
        let file_bytes = source.seek(SeekFrom::End(0))?;
        let dictionary = options.dictionary.as_ref();
        let index = Index::read(file_bytes, dictionary, &mut |buffer, at| read_at(&mut source, buffer, at))?;
        let index = index.filter(|index| index.sizes >= Sizes::Stated);
        let what = "this file has no index of its blocks, so it can only be read from the beginning";
        let index = index.ok_or(Error::Unsupported { offset: 0, what })?;
        let proven = if index.sizes == Sizes::Proven { index.entries.len() } else { 0 };
        let (packed, content) = (Buffer::default(), Buffer::default());
        Ok(Self {
            source,
            index,
            decoder: Decoder::new(dictionary),
            packed,
            content,
            held: None,
            position: 0,
            proven,
        })
    }

    /// Size of the content, as the file states it. [`SeekFrom::End`] and a read at the end check it.
    pub fn content_bytes(&self) -> u64 {
        self.index.content_bytes()
    }

    /// Decodes the entry at the current position; `None` at the end.
    fn hold(&mut self) -> Result<Option<usize>, Error> {
        let number = self.index.entry_at(self.position);
        self.prove(number.unwrap_or(self.index.entries.len()))?;
        if let Some(number) = number {
            self.decode(number)?;
        }
        Ok(number)
    }

    /// Checks the offset of entry `number` by the sizes of those before it.
    fn prove(&mut self, number: usize) -> Result<(), Error> {
        (self.proven..number).try_for_each(|number| self.decode(number))
    }

    fn decode(&mut self, number: usize) -> Result<(), Error> {
        if self.held == Some(number) {
            return Ok(());
        }
        self.held = None;
        let entry = self.index.entries[number];
        let read = read_at(&mut self.source, self.packed.room(entry.bytes as usize), entry.at)?;
        self.packed.set_len(read);
        self.content.clear();
        self.index
            .decode(number, &mut self.decoder, &self.packed, &mut self.content)
            .map_err(|what| Error::Damaged { offset: entry.at, what })?;
        self.held = Some(number);
        self.proven = self.proven.max(number + 1);
        Ok(())
    }
}

impl<R: Read + Seek> Read for SeekReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(number) = self.hold()? else { return Ok(0) };
        let from = self.position - self.index.entries[number].content_at;
        let from = usize::try_from(from).expect("inside a block");
        let read = (&self.content[from..]).read(to)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Seek for SeekReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let found = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => {
                self.prove(self.index.entries.len())?;
                self.content_bytes().checked_add_signed(by)
            }
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let before_start = || io::Error::new(io::ErrorKind::InvalidInput, "cannot seek to before the start");
        self.position = found.ok_or_else(before_start)?;
        Ok(self.position)
    }
}

impl<R> std::fmt::Debug for SeekReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeekReader").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Reads until the buffer is full or the source ends.
pub(crate) fn read_at<R: Read + Seek>(source: &mut R, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    source.seek(SeekFrom::Start(at))?;
    read_full(source, buffer)
}
