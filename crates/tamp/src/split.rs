//! A compressed stream becomes units that can be decoded independently of each other.
//!
//! What cannot be cut so (one huge frame, linked blocks) is decoded here, by the one thread that
//! reads, and comes out as [`Unit::Plain`].

use crate::Error;
use crate::input::Input;
use crate::zst::{self, Extent};
use std::io::Read;

/// A frame longer than this, or with more content, is streamed by one thread instead of held whole.
pub(crate) const UNIT_BYTES_MAX: usize = 16 << 20;
/// Content that one step of streaming yields at most.
const STREAM_BYTES: usize = 256 << 10;

/// A piece that decodes by itself.
#[derive(Debug)]
pub(crate) enum Unit {
    /// One Zstandard frame.
    Zst { offset: u64, frame: Vec<u8>, content_bytes_max: usize },
    /// Decoded already.
    Plain(Vec<u8>),
}

/// Cuts `R` into units; see the module.
pub(crate) struct Splitter<R> {
    input: Input<R>,
    inside: Inside,
    zst: zst::Decoder,
    /// Whether any frame had to be decoded by this one thread.
    streamed: bool,
}

/// What the splitter stands in.
enum Inside {
    Nothing,
    /// A Zstandard frame that is being streamed.
    ZstStream {
        frame_at: u64,
    },
}

impl<R: Read> Splitter<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { input: Input::new(source), inside: Inside::Nothing, zst: zst::Decoder::new(), streamed: false }
    }

    /// The next unit; `None` at a proper end.
    pub(crate) fn next(&mut self) -> Result<Option<Unit>, Error> {
        loop {
            let unit = match self.inside {
                Inside::Nothing => {
                    if self.input.show(1)?.is_empty() {
                        return Ok(None);
                    }
                    self.open_frame()?
                }
                Inside::ZstStream { frame_at } => Some(self.stream_zst(frame_at)?),
            };
            if unit.is_some() {
                return Ok(unit);
            }
        }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.input.offset()
    }

    pub(crate) fn streamed(&self) -> bool {
        self.streamed
    }

    pub(crate) fn into_source(self) -> R {
        self.input.into_source()
    }

    /// `None`: there was nothing to decode here, go on.
    fn open_frame(&mut self) -> Result<Option<Unit>, Error> {
        let offset = self.input.offset();
        let shown = self.input.show(4)?;
        if shown.len() < 4 {
            return Err(if offset == 0 {
                Error::UnknownFormat { offset }
            } else {
                Error::Truncated { offset, what: "a frame's first bytes" }
            });
        }
        match zst::le32(shown) {
            zst::MAGIC => self.open_zst(offset),
            magic if zst::is_skippable(magic) => self.skip_frame(offset).map(|()| None),
            _ => Err(Error::UnknownFormat { offset }),
        }
    }

    fn skip_frame(&mut self, offset: u64) -> Result<(), Error> {
        let cut = Error::Truncated { offset, what: "a skippable frame" };
        let shown = self.input.show(zst::SKIPPABLE_HEADER_BYTES)?;
        if shown.len() < zst::SKIPPABLE_HEADER_BYTES {
            return Err(cut);
        }
        let bytes = zst::SKIPPABLE_HEADER_BYTES as u64 + u64::from(zst::le32(&shown[4..]));
        if self.input.skip(bytes)? < bytes { Err(cut) } else { Ok(()) }
    }

    fn open_zst(&mut self, offset: u64) -> Result<Option<Unit>, Error> {
        let cut = Error::Truncated { offset, what: "a zstd frame" };
        let shown = self.input.show(zst::HEADER_BYTES_MAX)?;
        let Some(header) = zst::header(shown) else { return Err(cut) };
        if header.needs_dictionary {
            return Err(Error::Unsupported { offset, what: "this zstd frame needs a dictionary" });
        }
        if header.content_bytes.is_some_and(|bytes| bytes > UNIT_BYTES_MAX as u64) {
            return Ok(self.begin_zst_stream(offset));
        }
        let mut wanted = header.own_bytes;
        loop {
            let shown = self.input.show(wanted)?;
            if shown.len() < wanted {
                return Err(cut);
            }
            match zst::extent(shown, &header).map_err(|what| Error::Damaged { offset, what })? {
                Extent::Needs(bytes) if bytes > UNIT_BYTES_MAX => return Ok(self.begin_zst_stream(offset)),
                Extent::Needs(bytes) => wanted = bytes,
                Extent::Whole { content_bytes_max, .. } if content_bytes_max > UNIT_BYTES_MAX => {
                    return Ok(self.begin_zst_stream(offset));
                }
                Extent::Whole { frame_bytes, content_bytes_max } => {
                    let frame = shown[..frame_bytes].to_vec();
                    self.input.take(frame_bytes);
                    return Ok(Some(Unit::Zst { offset, frame, content_bytes_max }));
                }
            }
        }
    }

    fn begin_zst_stream(&mut self, frame_at: u64) -> Option<Unit> {
        self.zst.reset();
        self.streamed = true;
        self.inside = Inside::ZstStream { frame_at };
        None
    }

    fn stream_zst(&mut self, frame_at: u64) -> Result<Unit, Error> {
        let mut content = Vec::with_capacity(STREAM_BYTES);
        loop {
            let shown = self.input.show(1)?;
            let at_end = shown.is_empty();
            let (eaten, ended) = self
                .zst
                .stream(shown, &mut content)
                .map_err(|what| Error::Damaged { offset: frame_at, what })?;
            self.input.take(eaten);
            if ended {
                self.inside = Inside::Nothing;
                return Ok(Unit::Plain(content));
            }
            if !content.is_empty() {
                return Ok(Unit::Plain(content));
            }
            if at_end {
                return Err(Error::Truncated { offset: frame_at, what: "a zstd frame" });
            }
        }
    }
}

impl<R> std::fmt::Debug for Splitter<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Splitter").field("streamed", &self.streamed).finish_non_exhaustive()
    }
}

/// Decodes units; one for each thread.
pub(crate) struct UnitDecoder {
    zst: zst::Decoder,
}

impl UnitDecoder {
    pub(crate) fn new() -> Self {
        Self { zst: zst::Decoder::new() }
    }

    pub(crate) fn decode(&mut self, unit: Unit) -> Result<Vec<u8>, Error> {
        match unit {
            Unit::Plain(content) => Ok(content),
            Unit::Zst { offset, frame, content_bytes_max } => {
                let mut content = Vec::new();
                self.zst
                    .decode(&frame, content_bytes_max, &mut content)
                    .map_err(|what| Error::Damaged { offset, what })?;
                Ok(content)
            }
        }
    }
}
