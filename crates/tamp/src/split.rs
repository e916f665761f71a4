//! Cuts a compressed stream into units that can be decoded independently.
//!
//! A stream that cannot be cut (one huge frame, linked blocks, plain gzip) is decoded here, by the reading
//! thread, and returned as [`Unit::Plain`].

use crate::buffer::{Buffer, Spare};
use crate::decode::{Block, Coding, Decoder};
use crate::ending::{Ending, Problem};
use crate::format::inflate::{Inflater, Step};
use crate::format::zst::{self, Extent};
use crate::format::{Magic, OTHER_FORMAT, begins_other_format, bgzf, gz, le32, lz4};
use crate::input::Input;
use crate::{Dictionary, Error, ReadOptions};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length and content of a frame that is held whole. One thread streams larger ones.
pub(crate) const UNIT_BYTES_MAX: usize = 16 << 20;
/// Maximum content of one step of streaming.
const STREAM_BYTES: usize = 256 << 10;
/// Minimum content of a unit of BGZF blocks: a single block is too little work.
const BGZF_UNIT_BYTES: usize = 256 << 10;
/// Maximum distance to search for a flush marker; `pigz` writes one every 128 KiB of content.
const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// If fewer bytes were searched without success behind the next member, it is searched again.
const SEARCHED_AGAIN_BYTES: u64 = 512 << 10;
/// Bytes of a possible zlib stream that must decode before it counts as one.
const ZLIB_PROBE_BYTES: usize = 4 << 10;
/// Maximum content of a frame that is decoded here: handing it to another thread would take longer.
const SMALL_BYTES: usize = 1 << 10;

/// A piece that decodes independently, or a check between pieces.
#[derive(Debug)]
pub(crate) enum Unit {
    /// A block that decodes without anything before it; `hashed`: as part of an LZ4 frame.
    Block { offset: u64, bytes: Buffer, coding: Coding, hashed: Option<Hashed> },
    /// The end of an LZ4 frame.
    Lz4End { offset: u64, checksum: Option<u32>, content_bytes: Option<u64> },
    /// Deflate blocks that may be independent; `first`: a member begins here.
    Segment { offset: u64, bytes: Buffer, first: bool },
    /// Decoded content; `lz4`: counted and perhaps hashed as part of an LZ4 frame.
    Plain { content: Buffer, lz4: Option<Hashed> },
}

/// Whether the content checksum of an LZ4 frame covers a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashed(pub(crate) bool);

/// Cuts `R` into units.
pub(crate) struct Splitter<'a, R> {
    input: Input<R>,
    inside: Inside,
    decoder: Decoder<'a>,
    /// Whether frames may refer to a file that only `decoder` has: it decodes all of them.
    has_reference: bool,
    /// Content of small frames, and what follows it.
    small: Buffer,
    held: Option<Result<Option<Unit>, Error>>,
    spare: Arc<Spare>,
    /// Whether to search for segments in gzip.
    parallel: bool,
    /// Offset up to which there is no flush marker behind the last header.
    no_marker_until: u64,
    serial: Option<&'static str>,
    trailing_garbage: Option<u64>,
    /// Whether the last part was a Zstandard or skippable frame: zeros cannot be a part of it.
    behind_zst: bool,
    memory_bytes: u64,
    dictionary_id: u32,
    ending: Ending,
}

/// Part of the stream at the current offset.
enum Inside {
    Nothing,
    /// Behind a gzip member, where padding and garbage are allowed.
    BehindGzip,
    ZstStream {
        frame_at: u64,
        /// In a frame of tamp: the length of its content, and its last bytes so far.
        own: Option<(u32, [u8; 4])>,
    },
    Lz4 {
        header: lz4::Header,
        history: Vec<u8>,
    },
    Lz4Legacy,
    Gzip {
        member_at: u64,
        inflater: Box<Inflater>,
    },
    Segments {
        first: bool,
    },
}

impl<'a, R: Read> Splitter<'a, R> {
    pub(crate) fn new(source: R, options: &ReadOptions, spare: Arc<Spare>) -> Self {
        Self::with_decoder(source, options, spare, Decoder::new(options.dictionary.as_ref()))
    }

    /// Creates a splitter for Zstandard frames that may refer to `reference`. All units are [`Unit::Plain`].
    pub(crate) fn over(source: R, reference: &'a [u8], options: &ReadOptions) -> Self {
        let splitter = Self::with_decoder(source, options, Arc::default(), Decoder::over(reference));
        Self { has_reference: true, ..splitter }
    }

    fn with_decoder(source: R, options: &ReadOptions, spare: Arc<Spare>, decoder: Decoder<'a>) -> Self {
        Self {
            input: Input::new(source),
            inside: Inside::Nothing,
            decoder,
            has_reference: false,
            small: Buffer::default(),
            held: None,
            spare,
            parallel: options.threads > 1,
            serial: None,
            no_marker_until: 0,
            trailing_garbage: None,
            behind_zst: false,
            memory_bytes: options.memory_bytes,
            dictionary_id: options.dictionary.as_ref().map_or(0, Dictionary::id),
            ending: Ending::new(),
        }
    }

    /// Returns the next unit; `None` at a proper end.
    pub(crate) fn next(&mut self) -> Result<Option<Unit>, Error> {
        let next = self.held.take().unwrap_or_else(|| self.advance());
        if self.small.is_empty() {
            return next;
        }
        self.held = Some(next);
        Ok(Some(self.take_small()))
    }

    fn take_small(&mut self) -> Unit {
        Unit::Plain { content: std::mem::replace(&mut self.small, self.spare.get()), lz4: None }
    }

    fn advance(&mut self) -> Result<Option<Unit>, Error> {
        loop {
            let unit = match std::mem::replace(&mut self.inside, Inside::Nothing) {
                Inside::Nothing | Inside::BehindGzip if self.input.show(1)?.is_empty() => {
                    return if self.offset() == 0 { Err(Error::Empty) } else { Ok(None) };
                }
                Inside::Nothing => self.open_frame()?,
                Inside::BehindGzip => self.pass_padding()?,
                Inside::ZstStream { frame_at, own } => Some(self.stream_zst(frame_at, own)?),
                Inside::Lz4 { header, history } => self.lz4_block(header, history)?,
                Inside::Lz4Legacy => self.legacy_block()?,
                Inside::Gzip { member_at, inflater } => self.stream_gzip(member_at, inflater)?,
                Inside::Segments { first } => self.segment(first)?,
            };
            // Waiting for more input would delay the content of small frames.
            let is_due = self.small.len() >= STREAM_BYTES || self.input.at_hand().is_empty();
            let unit = unit.or_else(|| (is_due && !self.small.is_empty()).then(|| self.take_small()));
            if unit.is_some() {
                return Ok(unit);
            }
        }
    }

    /// Number of compressed bytes taken so far.
    pub(crate) fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Time spent reading the source so far.
    pub(crate) fn reading(&self) -> Duration {
        self.input.reading()
    }

    /// Returns the problem in the order of the blocks read so far, though each block is right.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.ending.clone().finish(self.offset())
    }

    /// Returns the bytes read and not taken.
    pub(crate) fn at_hand(&self) -> &[u8] {
        self.input.at_hand()
    }

    /// Reason that one thread has to decode, if so.
    pub(crate) fn serial(&self) -> Option<&'static str> {
        self.serial
    }

    /// Offset of trailing garbage: anything but a member after gzip, or zeros after Zstandard frames.
    pub(crate) fn trailing_garbage(&self) -> Option<u64> {
        self.trailing_garbage
    }

    /// Returns a buffer for reuse.
    pub(crate) fn put(&self, buffer: Buffer) {
        self.spare.put(buffer);
    }

    pub(crate) fn into_source(self) -> R {
        self.input.into_source()
    }

    /// Begins the next frame; `None` if it has nothing to decode.
    fn open_frame(&mut self) -> Result<Option<Unit>, Error> {
        let offset = self.input.offset();
        let shown = self.input.show(4)?;
        let (magic, is_cut) = (Magic::of(shown), shown.len() < 4);
        if matches!(magic, None | Some(Magic::Skippable)) && self.input.take_tail(&mut self.ending)? {
            return Ok(None);
        }
        if magic.is_none() && self.behind_zst && self.input.take_zeros_to_end()? {
            self.ending.other(offset);
            self.trailing_garbage = Some(offset);
            return Ok(None);
        }
        self.behind_zst = matches!(magic, Some(Magic::Zst | Magic::Skippable));
        if is_cut && magic.is_none() {
            return Err(if offset == 0 {
                Error::UnknownFormat { offset }
            } else {
                Error::Truncated { offset, what: "a frame's first bytes" }
            });
        }
        if self.has_reference && !matches!(magic, Some(Magic::Zst | Magic::Skippable)) {
            let what = "--patch-from is for Zstandard frames only";
            return Err(
                magic.map_or(Error::UnknownFormat { offset }, |_| Error::Unsupported { offset, what })
            );
        }
        match magic {
            Some(Magic::Gzip) => self.open_gzip(offset),
            Some(Magic::Zst) => self.open_zst(offset),
            Some(Magic::Lz4) => self.open_lz4(offset).map(|()| None),
            Some(Magic::Lz4Legacy) => {
                self.ending.other(offset);
                self.input.take(4);
                self.inside = Inside::Lz4Legacy;
                Ok(None)
            }
            Some(Magic::Skippable) => self.input.skip_frame().map(|()| None),
            None if offset == 0 && self.begins_zlib()? => {
                self.serial = Some("a zlib stream");
                self.inside = Inside::Gzip { member_at: offset, inflater: Box::new(Inflater::zlib()) };
                Ok(None)
            }
            None => Err(Error::UnknownFormat { offset }),
        }
    }

    /// Whether a zlib stream begins here. Text may have the same two first bytes, so its first blocks must
    /// decode.
    fn begins_zlib(&mut self) -> Result<bool, Error> {
        let shown = self.input.show(ZLIB_PROBE_BYTES)?;
        let mut content = Buffer::default();
        Ok(gz::begins_zlib(shown) && Inflater::zlib().step(shown, STREAM_BYTES, &mut content).is_ok())
    }

    fn open_zst(&mut self, offset: u64) -> Result<Option<Unit>, Error> {
        let cut = Error::Truncated { offset, what: "a zstd frame" };
        let shown = self.input.show(zst::HEADER_BYTES_MAX)?;
        let Some(header) = zst::header(shown) else { return Err(cut) };
        if ![0, self.dictionary_id].contains(&header.dictionary_id) {
            return Err(Error::NeedsDictionary { offset, id: header.dictionary_id });
        }
        self.ending.zst(offset, header.is_own);
        let is_large = header.content_bytes.is_some_and(|bytes| bytes > UNIT_BYTES_MAX as u64);
        if is_large || self.has_reference {
            return self.begin_zst_stream(offset, &header);
        }
        let mut wanted = header.own_bytes;
        loop {
            let shown = self.input.show(wanted)?;
            if shown.len() < wanted {
                return Err(cut);
            }
            match zst::extent(shown, &header).map_err(|what| Error::Damaged { offset, what })? {
                Extent::Needs(bytes) if bytes > UNIT_BYTES_MAX => {
                    return self.begin_zst_stream(offset, &header);
                }
                Extent::Needs(bytes) => wanted = bytes,
                Extent::Whole { content_bytes_max, .. } if content_bytes_max > UNIT_BYTES_MAX => {
                    return self.begin_zst_stream(offset, &header);
                }
                Extent::Whole { frame_bytes, content_bytes_max } => {
                    // References reach back at most to the first byte of content.
                    self.grant(offset, header.window_bytes.min(content_bytes_max as u64))?;
                    let frame = self.take(frame_bytes);
                    if header.is_own {
                        self.ending.own(zst::Seek::of(&frame, content_bytes_max));
                    }
                    let coding = Coding::Zst { content_bytes_max };
                    if content_bytes_max <= SMALL_BYTES {
                        let decoded = self.decoder.decode(&Block::new(&frame, coding), &mut self.small);
                        self.spare.put(frame);
                        return decoded.map(|()| None).map_err(|what| Error::Damaged { offset, what });
                    }
                    return Ok(Some(Unit::Block { offset, bytes: frame, coding, hashed: None }));
                }
            }
        }
    }

    fn grant(&self, offset: u64, needed_bytes: u64) -> Result<(), Error> {
        let granted_bytes = self.memory_bytes;
        if needed_bytes > granted_bytes {
            return Err(Error::Memory { offset, needed_bytes, granted_bytes });
        }
        Ok(())
    }

    fn begin_zst_stream(&mut self, frame_at: u64, header: &zst::Header) -> Result<Option<Unit>, Error> {
        self.grant(frame_at, header.needed_bytes())?;
        self.decoder.zst_stream().reset();
        self.serial = Some("one large zstd frame");
        let content_bytes = header.content_bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let own = content_bytes.filter(|_| header.is_own).map(|bytes| (bytes, [0; 4]));
        self.inside = Inside::ZstStream { frame_at, own };
        Ok(None)
    }

    fn stream_zst(&mut self, frame_at: u64, mut own: Option<(u32, [u8; 4])>) -> Result<Unit, Error> {
        let mut content = self.spare.get();
        loop {
            let shown = self.input.show(1)?;
            let at_end = shown.is_empty();
            let (eaten, hint) = self
                .decoder
                .zst_stream()
                .stream(shown, STREAM_BYTES, &mut content)
                .map_err(|what| Error::Damaged { offset: frame_at, what })?;
            if let Some((_, last)) = &mut own {
                for &byte in &shown[eaten.saturating_sub(4)..eaten] {
                    last.rotate_left(1);
                    last[3] = byte;
                }
            }
            self.input.take(eaten);
            if hint == 0 {
                if let Some((content_bytes, last)) = own {
                    let frame_bytes = u32::try_from(self.offset() - frame_at).unwrap_or(u32::MAX);
                    let checksum = u32::from_le_bytes(last);
                    self.ending.own(zst::Seek { frame_bytes, content_bytes, checksum });
                }
                return Ok(Unit::Plain { content, lz4: None });
            }
            if !content.is_empty() {
                self.inside = Inside::ZstStream { frame_at, own };
                return Ok(Unit::Plain { content, lz4: None });
            }
            if at_end {
                return Err(Error::Truncated { offset: frame_at, what: "a zstd frame" });
            }
        }
    }

    fn open_lz4(&mut self, offset: u64) -> Result<(), Error> {
        let shown = self.input.show(lz4::HEADER_BYTES_MAX)?;
        let header = lz4::header(shown).map_err(|error| error.at(offset))?;
        let header = header.ok_or(Error::Truncated { offset, what: "an lz4 header" })?;
        self.ending.other(offset);
        self.input.take(header.own_bytes);
        if header.blocks_linked {
            self.serial = Some("linked lz4 blocks");
        }
        self.inside = Inside::Lz4 { header, history: Vec::new() };
        Ok(())
    }

    fn lz4_block(&mut self, header: lz4::Header, mut history: Vec<u8>) -> Result<Option<Unit>, Error> {
        let offset = self.input.offset();
        let cut = || Error::Truncated { offset, what: "an lz4 frame" };
        let shown = self.input.show(4)?;
        if shown.is_empty() {
            return Err(Error::Unfinished { offset });
        }
        if shown.len() < 4 {
            return Err(cut());
        }
        let hashed = Hashed(header.content_checksum);
        let Some(size) = lz4::BlockSize::read(le32(shown)) else {
            let end_bytes = if hashed.0 { 8 } else { 4 };
            let shown = self.input.show(end_bytes)?;
            if shown.len() < end_bytes {
                return Err(cut());
            }
            let checksum = hashed.0.then(|| le32(&shown[4..]));
            self.input.take(end_bytes);
            return Ok(Some(Unit::Lz4End { offset, checksum, content_bytes: header.content_bytes }));
        };
        if size.bytes > header.block_bytes {
            return Err(Error::Damaged { offset, what: "an lz4 block larger than its frame allows" });
        }
        let whole = 4 + size.bytes + if header.block_checksums { 4 } else { 0 };
        let shown = self.input.show(whole)?;
        if shown.len() < whole {
            return Err(cut());
        }
        let bytes = &shown[4..4 + size.bytes];
        let checksum = header.block_checksums.then(|| le32(&shown[4 + size.bytes..]));
        let (stored, content_bytes_max) = (size.stored, header.block_bytes);
        let coding = Coding::Lz4(lz4::BlockCoding { stored, checksum, content_bytes_max });
        let mut buffer = self.spare.get();
        let unit = if header.blocks_linked {
            let block = Block::new(bytes, coding).after(Some(&history));
            self.decoder.decode(&block, &mut buffer).map_err(|what| Error::Damaged { offset, what })?;
            lz4::remember(&mut history, &buffer);
            Unit::Plain { content: buffer, lz4: Some(hashed) }
        } else {
            buffer.fill(bytes);
            Unit::Block { offset, bytes: buffer, coding, hashed: Some(hashed) }
        };
        self.input.take(whole);
        self.inside = Inside::Lz4 { header, history };
        Ok(Some(unit))
    }

    fn legacy_block(&mut self) -> Result<Option<Unit>, Error> {
        let offset = self.input.offset();
        let cut = || Error::Truncated { offset, what: "a legacy lz4 block" };
        let shown = self.input.show(4)?;
        if shown.is_empty() {
            return Ok(None);
        }
        if shown.len() < 4 {
            return Err(cut());
        }
        let bytes = le32(shown) as usize;
        if bytes > lz4::LEGACY_PACKED_BYTES_MAX {
            return Ok(None);
        }
        if self.input.show(4 + bytes)?.len() < 4 + bytes {
            return Err(cut());
        }
        self.input.take(4);
        let block = self.take(bytes);
        self.inside = Inside::Lz4Legacy;
        let content_bytes_max = lz4::LEGACY_BLOCK_BYTES;
        let coding = Coding::Lz4(lz4::BlockCoding { stored: false, checksum: None, content_bytes_max });
        Ok(Some(Unit::Block { offset, bytes: block, coding, hashed: None }))
    }

    fn open_gzip(&mut self, offset: u64) -> Result<Option<Unit>, Error> {
        let mut wanted = 18;
        let header = loop {
            let shown = self.input.show(wanted)?;
            match gz::header(shown).map_err(|what| Error::Damaged { offset, what })? {
                Some(header) => break header,
                None if shown.len() < wanted || wanted > UNIT_BYTES_MAX => {
                    return Err(Error::Truncated { offset, what: "a gzip header" });
                }
                None => wanted = shown.len() + 1,
            }
        };
        if let Some(bytes) = header.bgzf_bytes
            && bgzf::is_block(self.input.show(bytes + 2)?, bytes)
        {
            return self.bgzf(offset, bytes).map(Some);
        }
        self.ending.other(offset);
        // Without this limit, many short members in a row would search the same bytes each time.
        if self.parallel && self.no_marker_until < offset + SEARCHED_AGAIN_BYTES {
            let shown = self.input.show(header.own_bytes + SEGMENT_BYTES_MAX)?;
            if gz::find_marker(&shown[header.own_bytes..]).is_some() {
                self.input.take(header.own_bytes);
                self.inside = Inside::Segments { first: true };
                return Ok(None);
            }
            let is_all = shown.len() < header.own_bytes + SEGMENT_BYTES_MAX;
            self.no_marker_until = if is_all { u64::MAX } else { offset + shown.len() as u64 };
        }
        self.serial = Some("plain gzip");
        self.inside = Inside::Gzip { member_at: offset, inflater: Box::new(Inflater::new()) };
        Ok(None)
    }

    /// Takes this BGZF block, of `member_bytes`, and buffered ones that follow.
    fn bgzf(&mut self, offset: u64, mut member_bytes: usize) -> Result<Unit, Error> {
        let damaged = |what| Error::Damaged { offset, what };
        let (mut taken, mut content_bytes, mut is_end) = (0, 0, false);
        loop {
            let shown = self.input.show(taken + member_bytes)?;
            let Some(member) = shown.get(taken..taken + member_bytes) else {
                if taken > 0 {
                    break;
                }
                return Err(Error::Truncated { offset, what: "a BGZF block" });
            };
            let member_content_bytes = bgzf::stated_bytes(member).map_err(damaged)?;
            content_bytes += member_content_bytes;
            is_end = member_content_bytes == 0;
            taken += member_bytes;
            if content_bytes >= BGZF_UNIT_BYTES {
                break;
            }
            // Only buffered bytes: waiting for more would delay these.
            let rest = &shown[taken..];
            let next = if rest.starts_with(&gz::MAGIC) { gz::header(rest).ok().flatten() } else { None };
            match next.and_then(|header| header.bgzf_bytes) {
                Some(bytes) if rest.len() >= bytes + 2 && bgzf::is_block(rest, bytes) => {
                    member_bytes = bytes;
                }
                _ => break,
            }
        }
        self.ending.bgzf(offset, is_end);
        self.inside = Inside::BehindGzip;
        let coding = Coding::Bgzf { content_bytes };
        Ok(Unit::Block { offset, bytes: self.take(taken), coding, hashed: None })
    }

    fn stream_gzip(&mut self, member_at: u64, mut inflater: Box<Inflater>) -> Result<Option<Unit>, Error> {
        let mut content = self.spare.get();
        let mut wanted = 1;
        loop {
            let shown = self.input.show(wanted)?;
            let cut = shown.len() < wanted;
            let step = inflater
                .step(shown, STREAM_BYTES, &mut content)
                .map_err(|what| Error::Damaged { offset: member_at, what })?;
            match step {
                Step::Needs(_) if cut => {
                    return Err(Error::Truncated { offset: member_at, what: "a gzip member" });
                }
                Step::Needs(bytes) => wanted = bytes,
                Step::Ended { eaten } => {
                    self.input.take(eaten);
                    self.inside = Inside::BehindGzip;
                    return Ok((!content.is_empty()).then_some(Unit::Plain { content, lz4: None }));
                }
                Step::Went { eaten } => {
                    self.input.take(eaten);
                    wanted = 1;
                    if !content.is_empty() {
                        self.inside = Inside::Gzip { member_at, inflater };
                        return Ok(Some(Unit::Plain { content, lz4: None }));
                    }
                }
            }
        }
    }

    /// Takes everything up to and including the next flush marker, or to the end.
    fn segment(&mut self, first: bool) -> Result<Option<Unit>, Error> {
        let offset = self.input.offset();
        let shown = self.input.show(SEGMENT_BYTES_MAX)?;
        if shown.is_empty() {
            return Ok(None);
        }
        let bytes = gz::find_marker(shown).unwrap_or(shown.len().min(SEGMENT_BYTES_MAX));
        let bytes = self.take(bytes);
        self.inside = Inside::Segments { first: false };
        Ok(Some(Unit::Segment { offset, bytes, first }))
    }

    /// Skips zeros, with which tapes and block devices pad gzip and which gzip ignores; gzip warns of other
    /// garbage.
    fn pass_padding(&mut self) -> Result<Option<Unit>, Error> {
        loop {
            let shown = self.input.show(1)?;
            let zeros = shown.iter().take_while(|&&byte| byte == 0).count();
            let (passed, rest) = (zeros == shown.len(), shown.len() - zeros);
            self.input.take(zeros);
            if passed && zeros > 0 {
                continue;
            }
            if rest == 0 {
                return Ok(None);
            }
            let offset = self.input.offset();
            let shown = self.input.show(4)?;
            if shown.starts_with(&gz::MAGIC) {
                return self.open_frame();
            }
            self.ending.other(offset);
            let shown = self.input.at_hand();
            if shown.get(..4).is_some_and(begins_other_format) {
                return Err(Error::Unsupported { offset, what: OTHER_FORMAT });
            }
            self.trailing_garbage = Some(offset);
            self.input.skip(u64::MAX)?;
            return Ok(None);
        }
    }

    /// Takes `bytes` that were shown.
    fn take(&mut self, bytes: usize) -> Buffer {
        let mut buffer = self.spare.get();
        buffer.fill(&self.input.at_hand()[..bytes]);
        self.input.take(bytes);
        buffer
    }
}

impl<R> std::fmt::Debug for Splitter<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Splitter").field("serial", &self.serial).finish_non_exhaustive()
    }
}
