//! Decoding: turns a unit into a piece of content, in each decoding thread.

use crate::Error;
use crate::buffer::{Buffer, Spare};
use crate::dictionary::Dictionary;
use crate::format::inflate::{self, Segment};
use crate::format::{bgzf, lz4, zst};
use crate::split::{Hashed, UNIT_BYTES_MAX, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Content, and checks that must be made in order.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) content: Buffer,
    pub(crate) then: Then,
}

/// Action of [`crate::join::Joiner`] for a piece.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    Lz4(Hashed),
    Lz4End { offset: u64, checksum: Option<u32>, content_bytes: Option<u64> },
    Segment { offset: u64, bytes: Buffer, first: bool, found: Segment, crc: crc32fast::Hasher },
}

/// A block that decodes independently, or after `history`.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    coding: Coding,
    /// Content before a linked LZ4 block.
    history: Option<&'a [u8]>,
}

/// Coding of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coding {
    /// A Zstandard frame.
    Zst { content_bytes_max: usize },
    /// A block of an LZ4 frame.
    Lz4(lz4::BlockCoding),
    /// BGZF blocks.
    Bgzf { content_bytes: usize },
}

impl<'a> Block<'a> {
    /// A block that refers to nothing before it.
    pub(crate) fn new(bytes: &'a [u8], coding: Coding) -> Self {
        Self { bytes, coding, history: None }
    }

    /// Returns the same block with `history`, if it refers to any.
    pub(crate) fn after(self, history: Option<&'a [u8]>) -> Self {
        Self { history, ..self }
    }
}

/// Decoder for blocks of all formats. Each thread has one, which holds the codecs' contexts.
pub(crate) struct Decoder<'a> {
    zst: zst::Decoder<'a>,
    deflate: libdeflater::Decompressor,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(dictionary: Option<&Dictionary>) -> Self {
        Self { zst: zst::Decoder::new(dictionary), deflate: libdeflater::Decompressor::new() }
    }

    /// Creates a decoder for Zstandard frames that may refer to `reference`.
    pub(crate) fn over(reference: &'a [u8]) -> Self {
        Self { zst: zst::Decoder::over(reference), deflate: libdeflater::Decompressor::new() }
    }

    /// Decodes `block` and appends it to `content`.
    ///
    /// # Errors
    ///
    /// What is wrong with the block.
    pub(crate) fn decode(&mut self, block: &Block<'_>, content: &mut Buffer) -> Result<(), &'static str> {
        match &block.coding {
            Coding::Zst { content_bytes_max } => self.zst.decode(block.bytes, *content_bytes_max, content),
            Coding::Lz4(coding) => lz4::decode(block.bytes, coding, block.history, content),
            Coding::Bgzf { content_bytes } => {
                bgzf::decode(&mut self.deflate, block.bytes, *content_bytes, content)
            }
        }
    }

    /// Returns the decoder for a Zstandard frame that is too large to be a block.
    pub(crate) fn zst_stream(&mut self) -> &mut zst::Decoder<'a> {
        &mut self.zst
    }
}

/// Decodes units. Each thread has one.
pub(crate) struct UnitDecoder {
    decoder: Decoder<'static>,
    spare: Arc<Spare>,
    /// Cleared for all threads by the first that finds a segment that does not decode alone.
    segments_independent: Arc<AtomicBool>,
}

impl UnitDecoder {
    pub(crate) fn new(
        dictionary: Option<&Dictionary>,
        spare: Arc<Spare>,
        segments_independent: Arc<AtomicBool>,
    ) -> Self {
        Self { decoder: Decoder::new(dictionary), spare, segments_independent }
    }

    pub(crate) fn decode(&mut self, unit: Unit) -> Result<Piece, Error> {
        let mut content = self.spare.get();
        let (then, used) = match unit {
            Unit::Plain { content, lz4 } => {
                return Ok(Piece { content, then: lz4.map_or(Then::Nothing, Then::Lz4) });
            }
            Unit::Block { offset, bytes, coding, hashed } => {
                self.decoder
                    .decode(&Block::new(&bytes, coding), &mut content)
                    .map_err(|what| Error::Damaged { offset, what })?;
                (hashed.map_or(Then::Nothing, Then::Lz4), bytes)
            }
            Unit::Lz4End { offset, checksum, content_bytes } => {
                return Ok(Piece { content, then: Then::Lz4End { offset, checksum, content_bytes } });
            }
            Unit::Segment { offset, bytes, first } => {
                let found = if self.segments_independent.load(Relaxed) {
                    inflate::segment(&bytes, UNIT_BYTES_MAX, &mut content)
                } else {
                    Segment::Dependent
                };
                let mut crc = crc32fast::Hasher::new();
                if matches!(found, Segment::Dependent) {
                    self.segments_independent.store(false, Relaxed);
                } else {
                    crc.update(&content);
                }
                return Ok(Piece { content, then: Then::Segment { offset, bytes, first, found, crc } });
            }
        };
        self.spare.put(used);
        Ok(Piece { content, then })
    }
}
