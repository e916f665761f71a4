//! What can be read of a damaged file, and what cannot.
//!
//! Every block has its own checksum, so a block is right or lost. Where the file still says where
//! its blocks are (by the seek table, or by sizes that chain), exactly the damaged ones are lost.
//! Where it does not, the next block is looked for: something that begins like one counts only if
//! it also decodes and passes its checksum.

use crate::buffer::Buffer;
use crate::index::{EntryDecoder, Index};
use crate::input::Input;
use crate::seek::read_at;
use crate::split::UNIT_BYTES_MAX;
use crate::zst::{self, Extent, le32};
use crate::{Error, Format, Reader, gz, lz4};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// A run of the compressed file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Bytes of the compressed file.
    pub file: Range<u64>,
    /// Where in the output it would have stood.
    pub content_at: u64,
    /// How much content it was: so many zeros stand in its place. `None`: nobody knows, nothing stands there.
    pub content_bytes: Option<u64>,
}

/// Writes all content of `source` that can be read to `out`, zeros in the place of what cannot, as
/// far as its size is known.
///
/// # Errors
///
/// What reading `source` and writing `out` say, and [`Error::Empty`]. Damage is no error here: it is what is returned.
pub fn salvage<R: Read + Seek>(mut source: R, out: &mut dyn Write) -> Result<Vec<Loss>, Error> {
    let file_bytes = source.seek(SeekFrom::End(0))?;
    if file_bytes == 0 {
        return Err(Error::Empty);
    }
    let mut read_at = |buffer: &mut [u8], at: u64| read_at(&mut source, buffer, at);
    let mut output = Output { out, written: 0, losses: Vec::new() };
    if let Some(index) = Index::read(file_bytes, &mut read_at)? {
        by_index(&index, &mut read_at, &mut output)?;
        return Ok(output.losses);
    }
    source.seek(SeekFrom::Start(0))?;
    let mut search = Search {
        input: Input::new(source),
        lz4: None,
        zst: zst::Decoder::new(),
        deflate: libdeflater::Decompressor::new(),
        content: Buffer::default(),
    };
    search.run(&mut output)?;
    Ok(output.losses)
}

fn by_index(
    index: &Index,
    read_at: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    let (mut decoder, mut packed, mut content) = (EntryDecoder::new(), Buffer::default(), Buffer::default());
    for (number, entry) in index.entries.iter().enumerate() {
        let read = read_at(packed.room(entry.bytes as usize), entry.at)?;
        packed.set_len(read);
        content.clear();
        if decoder.decode(index, number, &packed, &mut content).is_ok() {
            output.write(&content)?;
        } else if index.format == Format::Bgzf {
            by_member(entry.at, &packed, output)?;
        } else {
            output.lose(entry.at..entry.at + u64::from(entry.bytes), Some(entry.content_bytes.into()))?;
        }
    }
    Ok(())
}

/// Of BGZF blocks that make one entry, loses only those that are damaged.
fn by_member(mut at: u64, mut members: &[u8], output: &mut Output<'_>) -> Result<(), Error> {
    let (mut decoder, mut content) = (libdeflater::Decompressor::new(), Buffer::default());
    while !members.is_empty() {
        let bytes = gz::header(members).ok().flatten().and_then(|header| header.bgzf_bytes);
        // The index hopped over the same headers, so they are there.
        let member = &members[..bytes.unwrap_or(members.len()).min(members.len())];
        let content_bytes = gz::bgzf_content_bytes(member).unwrap_or(0);
        content.clear();
        if gz::decode_bgzf(&mut decoder, member, content_bytes, &mut content).is_ok() {
            output.write(&content)?;
        } else {
            output.lose(at..at + member.len() as u64, Some(content_bytes as u64))?;
        }
        at += member.len() as u64;
        members = &members[member.len()..];
    }
    Ok(())
}

struct Output<'a> {
    out: &'a mut dyn Write,
    written: u64,
    losses: Vec<Loss>,
}

impl Output<'_> {
    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.written += content.len() as u64;
        self.out.write_all(content)
    }

    fn lose(&mut self, file: Range<u64>, content_bytes: Option<u64>) -> io::Result<()> {
        self.losses.push(Loss { file, content_at: self.written, content_bytes });
        let zeros = io::copy(&mut io::repeat(0).take(content_bytes.unwrap_or(0)), self.out)?;
        self.written += zeros;
        Ok(())
    }
}

/// Looks for blocks in a file that does not say where they are.
struct Search<R> {
    input: Input<R>,
    /// The LZ4 frame we are in.
    lz4: Option<lz4::Header>,
    zst: zst::Decoder,
    deflate: libdeflater::Decompressor,
    content: Buffer,
}

/// How sure one has to be that something is what it looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It stands where something had to come.
    Expected,
    /// It was found by looking at every byte.
    Searched,
}

impl<R: Read> Search<R> {
    fn run(&mut self, output: &mut Output<'_>) -> Result<(), Error> {
        if self.is_one_large_frame()? {
            return self.as_far_as_it_goes(output);
        }
        let mut lost_from = None;
        let mut lost_content = None;
        while !self.input.show(1)?.is_empty() {
            let at = self.input.offset();
            let trust = if lost_from.is_none() { Trust::Expected } else { Trust::Searched };
            if let Some(bytes) = self.try_here(trust)? {
                if let Some(from) = lost_from.take() {
                    self.lose(from..at, lost_content.take(), output)?;
                }
                output.write(&self.content)?;
                self.input.take(bytes);
                continue;
            }
            if lost_from.is_none() {
                lost_from = Some(at);
                lost_content = self.stated_content_bytes()?;
            }
            self.pass_to_candidate()?;
        }
        let end = self.input.offset();
        if let Some(from) = lost_from {
            // How much of the last block came, or what would have come behind it, nobody knows.
            output.lose(from..end, None)?;
        } else if self.lz4.is_some() {
            output.lose(end..end, None)?;
        }
        Ok(())
    }

    fn lose(&self, file: Range<u64>, stated: Option<u64>, output: &mut Output<'_>) -> io::Result<()> {
        // A run as long as one block was one block: LZ4 does not say how much content it had, but
        // only a frame's last block has less than a full one.
        let full = self.lz4.map(|header| header.block_bytes as u64);
        let one_block = full.filter(|&full| file.end - file.start <= full + 8);
        output.lose(file, stated.or(one_block))
    }

    /// Bytes of whatever whole thing stands here and is right; its content, if any, is in `content`.
    fn try_here(&mut self, trust: Trust) -> Result<Option<usize>, Error> {
        self.content.clear();
        if let Some(header) = self.lz4 {
            return self.try_lz4_block(&header, trust);
        }
        let shown = self.input.show(zst::HEADER_BYTES_MAX.max(lz4::HEADER_BYTES_MAX))?;
        if shown.starts_with(&gz::MAGIC) {
            return self.try_bgzf();
        }
        match shown.get(..4).map(le32) {
            Some(zst::MAGIC) => self.try_zst(),
            Some(lz4::MAGIC) => {
                self.lz4 = lz4::header(shown).ok().flatten().filter(|header| !header.blocks_linked);
                Ok(self.lz4.map(|header| header.own_bytes))
            }
            Some(magic) if zst::is_skippable(magic) => {
                let Some(bytes) = shown.get(4..8).map(le32) else { return Ok(None) };
                self.try_end(zst::SKIPPABLE_HEADER_BYTES + bytes as usize, trust)
            }
            _ => Ok(None),
        }
    }

    fn try_zst(&mut self) -> Result<Option<usize>, Error> {
        let Some(header) = zst::header(self.input.show(zst::HEADER_BYTES_MAX)?) else { return Ok(None) };
        let mut wanted = header.own_bytes;
        loop {
            let shown = self.input.show(wanted)?;
            match zst::extent(shown, &header) {
                Ok(Extent::Needs(bytes)) if bytes <= UNIT_BYTES_MAX && shown.len() >= wanted => {
                    wanted = bytes;
                }
                Ok(Extent::Whole { frame_bytes, content_bytes_max })
                    if content_bytes_max <= UNIT_BYTES_MAX =>
                {
                    let decoded =
                        self.zst.decode(&shown[..frame_bytes], content_bytes_max, &mut self.content);
                    return Ok(decoded.is_ok().then_some(frame_bytes));
                }
                _ => return Ok(None),
            }
        }
    }

    fn try_bgzf(&mut self) -> Result<Option<usize>, Error> {
        let shown = self.input.show(1 << 16)?;
        let Some(bytes) = gz::header(shown).ok().flatten().and_then(|header| header.bgzf_bytes) else {
            return Ok(None);
        };
        let Some(member) = shown.get(..bytes) else { return Ok(None) };
        let Ok(content_bytes) = gz::bgzf_content_bytes(member) else { return Ok(None) };
        let decoded = gz::decode_bgzf(&mut self.deflate, member, content_bytes, &mut self.content);
        Ok(decoded.is_ok().then_some(bytes))
    }

    fn try_lz4_block(&mut self, header: &lz4::Header, trust: Trust) -> Result<Option<usize>, Error> {
        let Some(field) = self.input.show(4)?.get(..4).map(le32) else { return Ok(None) };
        let Some(size) = lz4::BlockSize::read(field) else {
            let bytes = if header.content_checksum { 8 } else { 4 };
            let ended = self.try_end(bytes, trust)?;
            if ended.is_some() {
                self.lz4 = None;
            }
            return Ok(ended);
        };
        // Without a checksum of its own, a block found by searching proves nothing.
        if size.bytes > header.block_bytes || (trust == Trust::Searched && !header.block_checksums) {
            return Ok(None);
        }
        let bytes = 4 + size.bytes + if header.block_checksums { 4 } else { 0 };
        let Some(block) = self.input.show(bytes)?.get(..bytes) else { return Ok(None) };
        let decoded = lz4::decode_framed(block, header, &mut self.content);
        Ok(decoded.is_ok().then_some(bytes))
    }

    /// Something without content that is `bytes` long, and not too long to be looked over. If it was searched
    /// for, it must be followed by a beginning or the end.
    fn try_end(&mut self, bytes: usize, trust: Trust) -> Result<Option<usize>, Error> {
        if bytes > UNIT_BYTES_MAX {
            return Ok(None);
        }
        let shown = self.input.show(bytes + 4)?;
        let Some(next) = shown.get(bytes..) else { return Ok(None) };
        let is_end = next.is_empty() || next.starts_with(&gz::MAGIC) || {
            let magic = next.get(..4).map(le32);
            matches!(magic, Some(zst::MAGIC | lz4::MAGIC)) || magic.is_some_and(zst::is_skippable)
        };
        Ok((is_end || trust == Trust::Expected).then_some(bytes))
    }

    /// Content that the damaged thing here says it has.
    fn stated_content_bytes(&mut self) -> Result<Option<u64>, Error> {
        if self.lz4.is_some() {
            return Ok(None);
        }
        let shown = self.input.show(zst::HEADER_BYTES_MAX)?;
        let header = if shown.get(..4).map(le32) == Some(zst::MAGIC) { zst::header(shown) } else { None };
        let stated = header.and_then(|header| header.content_bytes);
        Ok(stated.filter(|&bytes| bytes <= UNIT_BYTES_MAX as u64))
    }

    /// Goes on by at least a byte, to where something may begin.
    fn pass_to_candidate(&mut self) -> Result<(), Error> {
        let in_lz4 = self.lz4.map(|header| header.block_bytes);
        let shown = &self.input.show(5)?[1..];
        let skip = shown
            .windows(4)
            .position(|window| {
                let word = le32(window);
                match in_lz4 {
                    Some(block_bytes) => {
                        lz4::BlockSize::read(word).is_none_or(|size| size.bytes <= block_bytes)
                    }
                    None => {
                        matches!(word, zst::MAGIC | lz4::MAGIC)
                            || zst::is_skippable(word)
                            || window.starts_with(&gz::MAGIC)
                    }
                }
            })
            .unwrap_or(shown.len().saturating_sub(3));
        let at_hand = self.input.at_hand().len();
        let step = if at_hand <= 4 { at_hand } else { 1 + skip };
        self.input.take(step);
        Ok(())
    }

    /// Whether the file begins with something that has no blocks of its own.
    fn is_one_large_frame(&mut self) -> Result<bool, Error> {
        let shown = self.input.show(64)?;
        if shown.starts_with(&gz::MAGIC) {
            return Ok(gz::header(shown).ok().flatten().is_none_or(|header| header.bgzf_bytes.is_none()));
        }
        let magic = shown.get(..4).map(le32);
        if magic == Some(lz4::MAGIC) {
            return Ok(lz4::header(shown).ok().flatten().is_some_and(|header| header.blocks_linked));
        }
        let header = if magic == Some(zst::MAGIC) { zst::header(shown) } else { None };
        let content_bytes = header.and_then(|header| header.content_bytes);
        Ok(header.is_some() && content_bytes.is_none_or(|bytes| bytes > UNIT_BYTES_MAX as u64))
    }

    /// Reads from the beginning to the first damage; what follows depends on what came before.
    fn as_far_as_it_goes(&mut self, output: &mut Output<'_>) -> Result<(), Error> {
        let mut reader = Reader::new(Remaining(&mut self.input), 1);
        let mut piece = vec![0; 256 << 10];
        let damage_at = loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => output.write(&piece[..read])?,
                Err(error) if is_damage(&error) => {
                    break reader.offset();
                }
                Err(error) => return Err(error.into()),
            }
        };
        drop(reader);
        let rest = self.input.skip(u64::MAX)?;
        output.lose(damage_at..self.input.offset().max(damage_at + rest), None)?;
        Ok(())
    }
}

/// What is left of an input, as something to read.
struct Remaining<'a, R>(&'a mut Input<R>);

impl<R: Read> Read for Remaining<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut shown = self.0.show(1)?;
        let read = shown.read(to)?;
        self.0.take(read);
        Ok(read)
    }
}

/// Whether the bytes are wrong, and not the reading of them.
fn is_damage(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).is_some()
}
