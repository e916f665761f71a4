//! What can be read of a damaged file, and what cannot.
//!
//! A block that has its own checksum is right or lost. Where only the frame has one, over all its content, a miss puts
//! all of it in doubt; what has no checksum at all (`zstd --no-check`) is taken as it decodes. Where the file still says where
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
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use twox_hash::XxHash32;

/// An LZ4 block's content is at most so many times its length.
const LZ4_EXPANSION_MAX: u64 = 255;

/// A run of the compressed file that could not be read, or not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Bytes of the compressed file.
    pub file: Range<u64>,
    /// Where in the output it stands, or would have stood.
    pub content_at: u64,
    /// How much content it is. `None`: nobody knows, nothing stands there.
    pub content_bytes: Option<u64>,
    /// What became of that content.
    pub what: Lost,
}

/// What became of content that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It could not be read; zeros stand in its place.
    Gone,
    /// It stands there as it was read, but the checksum over all of it is missed: something in it is wrong.
    Unproven,
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
        sum: FrameSum::new(0, 0),
        stated_sum: None,
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
    let mut sum = FrameSum::new(0, 0);
    for (number, entry) in index.entries.iter().enumerate() {
        let read = read_at(packed.room(entry.bytes as usize), entry.at)?;
        packed.set_len(read);
        content.clear();
        if decoder.decode(index, number, &packed, &mut content).is_ok() {
            output.write(&content)?;
            if index.format == Format::Lz4 {
                sum.add(&content);
            }
        } else if index.format == Format::Bgzf {
            by_member(entry.at, &packed, output)?;
        } else {
            output.lose(entry.at..entry.end(), Some(entry.content_bytes.into()))?;
            sum.break_off();
        }
        if index.format == Format::Lz4 {
            let frame = index.lz4_frame(number);
            if number + 1 == frame.entries_end {
                let end_bytes = if frame.checksum.is_some() { 8 } else { 4 };
                sum.end(frame.checksum, entry.end() + end_bytes, output);
            }
        }
    }
    Ok(())
}

/// The checksum that an LZ4 frame may have over all its content: all there is where blocks have none of their own.
struct FrameSum {
    hash: XxHash32,
    /// Where the frame begins, in the file and of the content.
    file_from: u64,
    content_from: u64,
    /// Whether none of it was lost; what was is told already.
    is_whole: bool,
}

impl FrameSum {
    fn new(file_from: u64, content_from: u64) -> Self {
        Self { hash: XxHash32::with_seed(0), file_from, content_from, is_whole: true }
    }

    fn add(&mut self, content: &[u8]) {
        self.hash.write(content);
    }

    fn break_off(&mut self) {
        self.is_whole = false;
    }

    /// Ends a frame that reaches up to `file_end`; the next begins there.
    fn end(&mut self, stated: Option<u32>, file_end: u64, output: &mut Output<'_>) {
        let ended = std::mem::replace(self, Self::new(file_end, output.written));
        if ended.is_whole && stated.is_some_and(|stated| stated != ended.hash.finish_32()) {
            output.doubt(ended.file_from..file_end, ended.content_from);
        }
    }
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
        self.losses.push(Loss { file, content_at: self.written, content_bytes, what: Lost::Gone });
        let zeros = io::copy(&mut io::repeat(0).take(content_bytes.unwrap_or(0)), self.out)?;
        self.written += zeros;
        Ok(())
    }
}

impl Output<'_> {
    /// All that was written from `content_at` on may be wrong.
    fn doubt(&mut self, file: Range<u64>, content_at: u64) {
        let content_bytes = Some(self.written - content_at);
        self.losses.push(Loss { file, content_at, content_bytes, what: Lost::Unproven });
    }
}

/// Looks for blocks in a file that does not say where they are.
struct Search<R> {
    input: Input<R>,
    /// The LZ4 frame we are in.
    lz4: Option<lz4::Header>,
    sum: FrameSum,
    /// What the LZ4 frame that has just ended states as its checksum.
    stated_sum: Option<u32>,
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
            let frame = self.lz4;
            if let Some(bytes) = self.try_here(trust)? {
                if let Some(from) = lost_from.take() {
                    let stated =
                        lost_content.take().or_else(|| self.lz4_lost(frame, at - from, output.written));
                    output.lose(from..at, stated)?;
                    self.sum.break_off();
                }
                output.write(&self.content)?;
                self.input.take(bytes);
                match (frame, self.lz4) {
                    (None, Some(_)) => self.sum = FrameSum::new(at, output.written),
                    (Some(header), Some(_)) if header.content_checksum => self.sum.add(&self.content),
                    (Some(_), None) => self.sum.end(self.stated_sum.take(), self.input.offset(), output),
                    _ => {}
                }
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

    /// Content of a run of `file_bytes` that was lost in an LZ4 frame, as far as that can be told.
    fn lz4_lost(&self, frame: Option<lz4::Header>, file_bytes: u64, written: u64) -> Option<u64> {
        let frame = frame?;
        let left = frame.content_bytes.map(|stated| stated.saturating_sub(written - self.sum.content_from));
        if self.lz4.is_none() {
            // The frame ends here, so it was all that is left of what it states; more than can be packed into so
            // little is no statement.
            return left.filter(|&left| left <= file_bytes.saturating_mul(LZ4_EXPANSION_MAX));
        }
        // A run as long as one block was one block: LZ4 does not say how much content it had, but only a frame's last
        // block has less than a full one.
        let full = frame.block_bytes as u64;
        (file_bytes <= full + 8).then_some(full)
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
                self.stated_sum =
                    self.input.at_hand().get(4..8).map(le32).filter(|_| header.content_checksum);
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
        if magic == Some(lz4::LEGACY_MAGIC) {
            // Its blocks have no checksum that could tell a found one from chance.
            return Ok(true);
        }
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
        let (damage_at, is_cut) = loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => output.write(&piece[..read])?,
                Err(error) => match damage(&error) {
                    Some(what) => break (reader.offset(), matches!(what, Error::Truncated { .. })),
                    None => return Err(error.into()),
                },
            }
        };
        drop(reader);
        let rest = self.input.skip(u64::MAX)?;
        let end = self.input.offset().max(damage_at + rest);
        if !is_cut && output.written > 0 {
            // What is wrong shows late, often only in the checksum at the very end.
            output.doubt(0..damage_at, 0);
        }
        if is_cut || damage_at < end {
            output.lose(damage_at..end, None)?;
        }
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

/// What is wrong with the bytes, if it is not the reading of them.
fn damage(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const BLOCK_BYTES: usize = 64 << 10;

    /// What `lz4` writes unless told otherwise: no checksum but one over all content. Its blocks are stored here.
    fn lz4_frame(content: &[u8], content_bytes: Option<u64>) -> Vec<u8> {
        let mut descriptor = vec![0b0110_0100 | if content_bytes.is_some() { 8 } else { 0 }, 4 << 4];
        descriptor.extend(content_bytes.into_iter().flat_map(u64::to_le_bytes));
        let check = XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
        let mut file = [&lz4::MAGIC.to_le_bytes()[..], &descriptor, &[check]].concat();
        for block in content.chunks(BLOCK_BYTES) {
            file.extend((1 << 31 | u32::try_from(block.len()).unwrap()).to_le_bytes());
            file.extend(block);
        }
        file.extend(lz4::END_MARK);
        file.extend(XxHash32::oneshot(0, content).to_le_bytes());
        file
    }

    fn content() -> Vec<u8> {
        (0..30_000_u32).flat_map(u32::to_be_bytes).collect()
    }

    fn check_salvages(file: &[u8], expected: &[u8], losses: &[Loss]) {
        let mut found = Vec::new();
        assert_eq!(salvage(Cursor::new(file), &mut found).unwrap(), losses);
        assert!(found == expected, "{} bytes", found.len());
    }

    #[test]
    fn content_whose_only_checksum_is_missed_is_written_and_in_doubt() {
        let good = lz4_frame(&content(), None);
        let (mut bad, mut wrong) = (good.clone(), content());
        bad[5000] ^= 1;
        wrong[5000 - 11] ^= 1;
        let (frame_end, bytes) = (good.len() as u64, content().len() as u64);
        let doubt = |file, content_at| {
            let content_bytes = Some(bytes);
            Loss { file, content_at, content_bytes, what: Lost::Unproven }
        };
        check_salvages(&good, &content(), &[]);
        check_salvages(&bad, &wrong, &[doubt(0..frame_end, 0)]);
        check_salvages(
            &[&bad[..], &good].concat(),
            &[wrong.clone(), content()].concat(),
            &[doubt(0..frame_end, 0)],
        );
        // Cut, so that blocks have to be searched for.
        let file = [&bad[..], &good[..good.len() - 8]].concat();
        let end = file.len() as u64;
        let cut = Loss { file: end..end, content_at: 2 * bytes, content_bytes: None, what: Lost::Gone };
        check_salvages(&file, &[wrong, content()].concat(), &[doubt(0..frame_end, 0), cut]);
    }

    #[test]
    fn what_a_damaged_last_lz4_block_had_is_known_where_the_frame_states_its_size() {
        let options = |content_bytes| crate::Options {
            block_bytes: BLOCK_BYTES,
            threads: 1,
            content_bytes,
            ..crate::Options::of(Format::Lz4, crate::Level::USUAL)
        };
        let bytes = content().len() as u64;
        for (stated, expected) in [(Some(bytes), content().len()), (None, BLOCK_BYTES)] {
            let mut writer = crate::Writer::new(Vec::new(), &options(stated)).unwrap();
            writer.write_all(&content()).unwrap();
            let mut file = writer.finish().unwrap();
            let at = file.len() - 20;
            file[at] ^= 1;
            let mut found = Vec::new();
            let losses = salvage(Cursor::new(file), &mut found).unwrap();
            assert_eq!((found.len(), losses.len()), (expected, 1), "{losses:?}");
            assert!(found[..BLOCK_BYTES] == content()[..BLOCK_BYTES]);
            assert_eq!(losses[0].content_bytes, stated.map(|bytes| bytes - BLOCK_BYTES as u64));
        }
    }

    #[test]
    fn a_legacy_lz4_file_is_salvaged_as_far_as_it_decodes() {
        let mut block = Buffer::default();
        lz4::encode(&[b'a'; 1000], lz4::Effort::Fast(1), &mut block).unwrap();
        // Size and block, without the checksum behind them.
        let file = [&lz4::LEGACY_MAGIC.to_le_bytes(), &block[..block.len() - 4]].concat();
        check_salvages(&file, &[b'a'; 1000], &[]);
        let cut = [&file[..], &block[..10]].concat();
        let (from, end) = (file.len() as u64, cut.len() as u64);
        let lost = Loss { file: from..end, content_at: 1000, content_bytes: None, what: Lost::Gone };
        check_salvages(&cut, &[b'a'; 1000], &[lost]);
    }

    #[test]
    fn gzip_that_misses_its_checksum_is_written_and_in_doubt() {
        let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 3, 0, 0xfc, 0xff];
        file.extend(b"abc");
        file.extend([0; 4]);
        file.extend(3_u32.to_le_bytes());
        let mut found = Vec::new();
        let losses = salvage(Cursor::new(file), &mut found).unwrap();
        assert_eq!(found, b"abc");
        assert!(
            losses.iter().any(|loss| loss.what == Lost::Unproven && loss.content_bytes == Some(3)),
            "{losses:?}"
        );
    }
}
