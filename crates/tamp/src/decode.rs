//! A unit becomes a piece of content: what each decoding thread does.

use crate::Error;
use crate::buffer::{Buffer, Spare};
use crate::dictionary::Dictionary;
use crate::format::inflate::{self, Segment};
use crate::format::{gz, lz4, zst};
use crate::split::{Hashed, UNIT_BYTES_MAX, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Content, and what is still to be checked where order matters.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) content: Buffer,
    pub(crate) then: Then,
}

/// What [`crate::join::Joiner`] has to do with a piece.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    Lz4(Hashed),
    Lz4End { offset: u64, checksum: Option<u32>, content_bytes: Option<u64> },
    Segment { offset: u64, bytes: Buffer, first: bool, found: Segment, crc: crc32fast::Hasher },
}

/// One thread's contexts for all formats.
pub(crate) struct Decoder {
    zst: zst::Decoder,
    deflate: libdeflater::Decompressor,
}

impl Decoder {
    pub(crate) fn new(dictionary: Option<&Dictionary>) -> Self {
        Self { zst: zst::Decoder::new(dictionary), deflate: libdeflater::Decompressor::new() }
    }

    /// Decodes a whole Zstandard frame and appends it to `content`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn zst(
        &mut self,
        frame: &[u8],
        bytes_max: usize,
        content: &mut Buffer,
    ) -> Result<(), &'static str> {
        self.zst.decode(frame, bytes_max, content)
    }

    /// Decodes whole BGZF blocks of `content_bytes` together and appends them to `content`.
    ///
    /// # Errors
    ///
    /// What is wrong with one of them.
    pub(crate) fn bgzf(
        &mut self,
        members: &[u8],
        content_bytes: usize,
        content: &mut Buffer,
    ) -> Result<(), &'static str> {
        gz::decode_bgzf(&mut self.deflate, members, content_bytes, content)
    }
}

/// Decodes units; one for each thread.
pub(crate) struct UnitDecoder {
    decoder: Decoder,
    spare: Arc<Spare>,
    /// Cleared for all threads by the first that meets a segment that cannot be decoded alone.
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
        let damaged = |offset| move |what| Error::Damaged { offset, what };
        let mut content = self.spare.get();
        let (then, used) = match unit {
            Unit::Plain { content, lz4 } => {
                return Ok(Piece { content, then: lz4.map_or(Then::Nothing, Then::Lz4) });
            }
            Unit::Zst { offset, frame, content_bytes_max } => {
                self.decoder.zst(&frame, content_bytes_max, &mut content).map_err(damaged(offset))?;
                (Then::Nothing, frame)
            }
            Unit::Lz4 { offset, block, stored, checksum, content_bytes_max, hashed } => {
                let whole = lz4::Block { bytes: &block, stored, checksum, content_bytes_max };
                lz4::decode(&whole, None, &mut content).map_err(damaged(offset))?;
                (Then::Lz4(Hashed(hashed)), block)
            }
            Unit::Lz4End { offset, checksum, content_bytes } => {
                return Ok(Piece { content, then: Then::Lz4End { offset, checksum, content_bytes } });
            }
            Unit::Bgzf { offset, members, content_bytes } => {
                self.decoder.bgzf(&members, content_bytes, &mut content).map_err(damaged(offset))?;
                (Then::Nothing, members)
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
