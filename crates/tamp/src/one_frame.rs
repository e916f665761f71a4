//! One Zstandard frame for all content, like those of `zstd --long` and `zstd --patch-from`.
//!
//! Content may refer to the whole window, or to a reference file that is not in the output. One thread writes
//! and reads the frame, the frame has no random access, and damage loses all content behind it.

use crate::buffer::Buffer;
use crate::format::{Container, Setting, zst};
use crate::input::read_full;
use crate::meter::{Doing, Meter, cpu_time, now};
use crate::split::{Splitter, Unit};
use crate::{Dictionary, Error, Level, ReadOptions};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_end};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

/// Bytes read or written by one call.
const STEP_BYTES: usize = 1 << 20;

/// Options of [`compress_frame`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FrameOptions {
    /// Compression level, with zstd's own tables.
    pub level: Level,
    /// Window as a power of two, 10 to 31. A reader needs that much memory.
    pub window_log: u32,
    /// Size of the whole content, if known. The frame's header states it.
    pub content_bytes: Option<u64>,
    /// A dictionary made by zstd.
    pub dictionary: Option<Dictionary>,
    /// Reference for the content. A reader needs the same bytes.
    pub reference: Option<Arc<[u8]>>,
    /// Decode the frame while it is written, and compare checksums. This takes the window's memory a second
    /// time.
    pub verify: bool,
}

impl FrameOptions {
    /// The window of `zstd --long`, 128 MiB, which `zstd -d` accepts by default.
    pub const WINDOW_LOG_USUAL: u32 = 27;

    /// Returns options for a frame at `level` with the default window.
    pub fn new(level: Level) -> Self {
        let window_log = Self::WINDOW_LOG_USUAL;
        Self { level, window_log, content_bytes: None, dictionary: None, reference: None, verify: false }
    }

    /// Returns the window that covers the larger of reference and content, as `zstd --patch-from` does.
    pub fn window_log_over(reference_bytes: u64, content_bytes: u64) -> u32 {
        (reference_bytes.max(content_bytes).max(1).ilog2() + 1).clamp(10, zst::WINDOW_LOG_MAX)
    }

    fn context(&self) -> Result<CCtx<'_>, Error> {
        let Setting(level) = zst::Zst.setting(self.level);
        let mut context = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::WindowLog(self.window_log),
            CParameter::EnableLongDistanceMatching(true),
            CParameter::ChecksumFlag(true),
            CParameter::ContentSizeFlag(true),
        ] {
            context.set_parameter(parameter).map_err(codec)?;
        }
        context.set_pledged_src_size(self.content_bytes).map_err(codec)?;
        if let Some(dictionary) = &self.dictionary {
            context.load_dictionary(dictionary.bytes()).map_err(codec)?;
        }
        if let Some(reference) = &self.reference {
            context.ref_prefix(reference).map_err(codec)?;
        }
        Ok(context)
    }

    /// Creates the decoder that verifies the frame.
    fn check(&self) -> Check<'_> {
        let decoder = match &self.reference {
            Some(reference) => zst::Decoder::over(reference),
            None => zst::Decoder::new(self.dictionary.as_ref()),
        };
        Check { decoder, content: Buffer::default(), has_ended: false }
    }
}

/// Decodes a frame while it is written.
struct Check<'a> {
    decoder: zst::Decoder<'a>,
    content: Buffer,
    /// Whether the whole frame was decoded and its checksum is right.
    has_ended: bool,
}

impl Check<'_> {
    /// Decodes `packed`, the next part of the frame.
    fn take(&mut self, mut packed: &[u8]) -> Result<(), Error> {
        // A step that filled its room has more, unless the frame ended with it.
        while !packed.is_empty() || (self.content.len() == STEP_BYTES && !self.has_ended) {
            let step = self.decoder.stream(packed, STEP_BYTES, &mut self.content);
            let (eaten, hint) = step.map_err(|_| NOT_VERIFIED)?;
            packed = &packed[eaten..];
            self.has_ended = hint == 0;
        }
        Ok(())
    }
}

const NOT_VERIFIED: Error = Error::Verify { offset: 0 };

/// Compresses all of `source` to one frame, on the calling thread.
///
/// # Errors
///
/// [`Error::Options`]; [`Error::SizeHint`] if the stated size proves wrong; [`Error::Verify`]; errors of
/// `source` and `out`.
pub fn compress_frame(
    source: &mut dyn Read,
    out: &mut dyn Write,
    options: &FrameOptions,
    meter: &Meter,
    watch: &mut dyn FnMut(),
) -> Result<(), Error> {
    if !(10..=zst::WINDOW_LOG_MAX).contains(&options.window_log) {
        return Err(Error::Options("a window has 2^10 to 2^31 bytes"));
    }
    let mut context = options.context()?;
    let mut check = if options.verify { Some(options.check()) } else { None };
    let (mut content, mut packed) = (vec![0; STEP_BYTES], vec![0; STEP_BYTES]);
    let mut found = 0;
    meter.worker_began();
    loop {
        let begun = now();
        let read = read_full(source, &mut content)?;
        meter.charge(Doing::Starved, begun);
        let is_last = read < content.len();
        found += read as u64;
        if let Some(stated) =
            options.content_bytes.filter(|&stated| found > stated || (is_last && found < stated))
        {
            return Err(Error::SizeHint { stated, found });
        }
        let mut input = InBuffer::around(&content[..read]);
        loop {
            let (begun, cpu_from) = (now(), cpu_time());
            let mut output = OutBuffer::around(&mut packed[..]);
            let directive = if is_last { ZSTD_e_end } else { ZSTD_e_continue };
            let left = context.compress_stream2(&mut output, &mut input, directive).map_err(codec)?;
            let made = output.pos();
            if let Some(check) = &mut check {
                check.take(&packed[..made])?;
            }
            meter.worked(cpu_from);
            let coded = meter.charge(Doing::Codec, begun);
            out.write_all(&packed[..made])?;
            meter.out_bytes.fetch_add(made as u64, Relaxed);
            meter.charge(Doing::Blocked, coded);
            watch();
            if if is_last { left == 0 } else { input.pos() == read } {
                break;
            }
        }
        meter.in_bytes.fetch_add(read as u64, Relaxed);
        if is_last {
            meter.worker_ended();
            return if check.is_some_and(|check| !check.has_ended) { Err(NOT_VERIFIED) } else { Ok(()) };
        }
    }
}

/// Decompresses frames that may refer to `reference`, on the calling thread; returns the offset of trailing
/// garbage, which it ignores: zeros behind the frames.
///
/// It allocates a frame's window: at most `memory_bytes`, or four times `reference` if that is more.
///
/// # Errors
///
/// [`Error::Memory`] for a larger window; [`Error::Damaged`] for a damaged frame or another reference;
/// [`Error::NeedsDictionary`]; [`Error::Unsupported`] for another format than Zstandard;
/// [`Error::Unfinished`] and [`Error::Index`] behind all content, if the list of frames is missing or
/// damaged; errors of `source` and `out`.
pub fn decompress_frame(
    source: &mut dyn Read,
    out: &mut dyn Write,
    reference: &[u8],
    memory_bytes: u64,
    meter: &Meter,
    watch: &mut dyn FnMut(),
) -> Result<Option<u64>, Error> {
    let mut options = ReadOptions::new(1);
    options.memory_bytes = memory_bytes.max(4 * reference.len() as u64);
    let mut splitter = Splitter::over(source, reference, &options);
    meter.worker_began();
    loop {
        let (before, read_before) = (splitter.offset(), splitter.reading());
        let (begun, cpu_from) = (now(), cpu_time());
        let next = splitter.next();
        meter.charge_cutting(begun, splitter.reading().saturating_sub(read_before));
        let Some(unit) = next? else {
            // The list of frames and the seek table.
            meter.in_bytes.fetch_add(splitter.offset() - before, Relaxed);
            break;
        };
        let Unit::Plain { content, .. } = unit else { unreachable!("the splitter decodes every frame") };
        meter.worked(cpu_from);
        meter.in_bytes.fetch_add(splitter.offset() - before, Relaxed);
        meter.blocked(|| out.write_all(&content))?;
        meter.out_bytes.fetch_add(content.len() as u64, Relaxed);
        splitter.put(content);
        watch();
    }
    meter.worker_ended();
    splitter.problem().map_or(Ok(splitter.trailing_garbage()), |problem| Err(problem.into()))
}

fn codec(code: zstd_safe::ErrorCode) -> Error {
    io::Error::other(zstd_safe::get_error_name(code)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_ends_with_a_whole_step_of_content_is_verified() {
        for steps in [1, 2] {
            let content = vec![0; steps * STEP_BYTES];
            let options = FrameOptions::new(Level::USUAL);
            let mut frame = Vec::new();
            compress_frame(&mut &content[..], &mut frame, &options, &Meter::new(), &mut || {}).unwrap();
            let mut check = options.check();
            check.take(&frame).unwrap();
            assert!(check.has_ended, "{steps}");
            // Not all of the frame.
            let mut check = options.check();
            check.take(&frame[..frame.len() - 1]).unwrap();
            assert!(!check.has_ended, "{steps}");
            let options = FrameOptions { verify: true, ..options.clone() };
            compress_frame(&mut &content[..], &mut Vec::new(), &options, &Meter::new(), &mut || {}).unwrap();
        }
    }
}
