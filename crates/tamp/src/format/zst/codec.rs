//! Compresses blocks to frames, and decodes frames.

use super::{WINDOW_LOG_MAX, header};
use crate::Error;
use crate::buffer::Buffer;
use crate::dictionary::Dictionary;
use crate::format::{Encode, Setting};

/// A decompression context. It accepts any window: the caller compares the header with the memory limit.
pub(crate) struct Decoder<'a> {
    context: zstd_safe::DCtx<'a>,
    /// Content that each frame may refer to.
    reference: Option<&'a [u8]>,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(dictionary: Option<&Dictionary>) -> Self {
        let mut decoder = Self { context: zstd_safe::DCtx::create(), reference: None };
        decoder
            .context
            .set_parameter(zstd_safe::DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .expect("zstd knows its windows");
        if let Some(dictionary) = dictionary {
            // `Dictionary::new` loaded the dictionary once before, so only memory can be missing.
            decoder.context.load_dictionary(dictionary.bytes()).expect("there is memory for a dictionary");
        }
        decoder
    }

    /// Creates a decoder for frames that may refer to `reference`.
    pub(crate) fn over(reference: &'a [u8]) -> Self {
        let mut decoder = Self { reference: Some(reference), ..Self::new(None) };
        decoder.reset();
        decoder
    }

    /// Decodes one whole frame and appends it to `content`.
    pub(crate) fn decode(
        &mut self,
        frame: &[u8],
        content_bytes_max: usize,
        content: &mut Buffer,
    ) -> Result<(), &'static str> {
        let decoded = self.context.decompress(content.more(content_bytes_max), frame);
        content.grow(decoded.map_err(|code| why(code, frame))?);
        Ok(())
    }

    /// Decodes a damaged frame into `room`, up to its damage, at an unknown length.
    pub(crate) fn decode_over(&mut self, frame: &[u8], room: &mut [u8]) {
        self.reset();
        // The damage causes the error.
        let _ = self.context.decompress(room, frame);
        self.reset();
    }

    /// Decodes a piece of a frame that is too large to hold. Returns the number of bytes consumed, and the
    /// number of bytes wanted next: 0 if the frame ended.
    pub(crate) fn stream(
        &mut self,
        input: &[u8],
        room_bytes: usize,
        content: &mut Buffer,
    ) -> Result<(usize, usize), &'static str> {
        let mut from = zstd_safe::InBuffer::around(input);
        let mut to = zstd_safe::OutBuffer::around(content.room(room_bytes));
        let hint =
            self.context.decompress_stream(&mut to, &mut from).map_err(|code| match self.reference {
                Some(_) => OTHER_REFERENCE,
                None => why(code, &[]),
            })?;
        let (eaten, made) = (from.pos(), to.pos());
        content.set_len(made);
        Ok((eaten, hint))
    }

    /// Starts a new frame.
    pub(crate) fn reset(&mut self) {
        self.context.reset(zstd_safe::ResetDirective::SessionOnly).expect("a session can always be reset");
        if let Some(reference) = self.reference {
            // A reference applies to one frame only.
            self.context.ref_prefix(reference).expect("there is memory to note where the reference is");
        }
    }
}

/// Message for a frame that needs a dictionary that was not given.
pub(crate) const OTHER_DICTIONARY: &str = "it was compressed with a dictionary; name its file with -D";

const OTHER_REFERENCE: &str =
    "it does not decode: it is damaged, or was compressed with another --patch-from file";

/// Returns the reason that a frame does not decode. `frame` is empty if it is decoded in pieces.
fn why(code: zstd_safe::ErrorCode, frame: &[u8]) -> &'static str {
    match zstd_safe::get_error_name(code) {
        "Dictionary mismatch" => OTHER_DICTIONARY,
        // A frame does not state that it refers to a file. The blocks of tamp never do.
        name @ "Data corruption detected" if header(frame).is_some_and(|header| header.is_own) => name,
        "Data corruption detected" => {
            "it does not decode: it is damaged, or was compressed with --patch-from"
        }
        name => name,
    }
}

/// A compression context, reused because creating one costs more than compressing a block.
pub(crate) struct Encoder {
    context: zstd_safe::CCtx<'static>,
    level: Option<i32>,
}

impl Encoder {
    pub(crate) fn new(dictionary: Option<&Dictionary>) -> Self {
        use zstd_safe::CParameter::{ChecksumFlag, ContentSizeFlag};
        let mut context = zstd_safe::CCtx::create();
        if let Some(dictionary) = dictionary {
            context.load_dictionary(dictionary.bytes()).expect("there is memory for a dictionary");
        }
        for flag in [ChecksumFlag(true), ContentSizeFlag(true)] {
            context.set_parameter(flag).expect("zstd knows its own parameters");
        }
        Self { context, level: None }
    }
}

impl Encode for Encoder {
    /// Compresses to one frame with content size and checksum.
    fn encode(&mut self, block: &[u8], setting: Setting, frames: &mut Buffer) -> Result<(), Error> {
        let Setting(level) = setting;
        if self.level != Some(level) {
            for parameter in parameters(level) {
                self.context.set_parameter(parameter).expect("zstd knows its own parameters");
            }
            self.level = Some(level);
        }
        let lead = CONTENT_FIELD_BYTES - minimal_field_bytes(block.len());
        let room = frames.more(lead + zstd_safe::compress_bound(block.len()));
        let bytes = self
            .context
            .compress2(&mut room[lead..], block)
            .map_err(|code| std::io::Error::other(zstd_safe::get_error_name(code)))?;
        widen_content_field(&mut room[..lead + bytes], lead, block.len());
        frames.grow(lead + bytes);
        Ok(())
    }
}

/// Width of the content size field in tamp's frames.
///
/// zstd uses this width only from 4 GiB on, and blocks of tamp are smaller. So the width marks tamp's frames,
/// which must be followed by an end frame, without a byte that a decoder might refuse.
pub(super) const CONTENT_FIELD_BYTES: usize = 8;

/// Width of the field that zstd itself would use.
fn minimal_field_bytes(content_bytes: usize) -> usize {
    match content_bytes {
        0..256 => 1,
        256..65_792 => 2,
        _ => 4,
    }
}

/// Widens the content size field of the frame at offset `lead`, so the frame then fills `frame`.
fn widen_content_field(frame: &mut [u8], lead: usize, content_bytes: usize) {
    let header = header(&frame[lead..]).expect("zstd wrote a frame");
    let kept = header.own_bytes - (CONTENT_FIELD_BYTES - lead);
    frame.copy_within(lead..lead + kept, 0);
    // The two upper bits of the descriptor hold the field's width.
    frame[4] |= 0xC0;
    frame[kept..kept + CONTENT_FIELD_BYTES].copy_from_slice(&(content_bytes as u64).to_le_bytes());
}

/// Parameters for one of zstd's levels: the level, and replacements for zstd's own tables.
///
/// - Level 1: a hash table of half the size, and matches from 6 bytes on. With blocks of 256 KiB this is 11 %
///   faster than zstd's defaults with blocks of 1 MiB, with the reduction within 0.35 points, on the data of
///   `docs/tamp-benchmarks.md`.
/// - Level 9 and up: tables of at most 6 MB per thread; zstd would use 11 to 68 MB for blocks of 4 MiB. This
///   keeps the bound on memory, is up to twice as fast, and costs 0.1 to 0.4 points.
fn parameters(level: i32) -> [zstd_safe::CParameter; 4] {
    use zstd_safe::CParameter::{ChainLog, CompressionLevel, HashLog, MinMatch};
    // Zero is zstd's default, and resets what another level set.
    let (hash_log, chain_log, min_match) = match level {
        1 => (13, 0, 6),
        9 | 12 => (20, 0, 0),
        15 | 19 => (18, 20, 0),
        _ => (0, 0, 0),
    };
    [CompressionLevel(level), HashLog(hash_log), ChainLog(chain_log), MinMatch(min_match)]
}
