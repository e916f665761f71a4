//! One Zstandard frame for all content, as `zstd --long` and `zstd --patch-from` write it.
//!
//! Content may refer back to the whole window, or to a reference file that is not in the output. One thread writes and reads the frame,
//! the frame has no random access, and damage loses everything behind it.

use crate::ending::Ending;
use crate::format::{Container, Magic, Setting, zst};
use crate::input::{Input, read_full};
use crate::meter::{Doing, Meter, now};
use crate::{Dictionary, Error, Level};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_end};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// Bytes read or written by one call.
const STEP_BYTES: usize = 1 << 20;

/// Options of [`compress_frame`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FrameOptions {
    /// The compression level, with zstd's own tables for it.
    pub level: Level,
    /// Window as a power of two, 10 to 31. A reader needs that much memory.
    pub window_log: u32,
    /// Size of the whole content, if it is known. The frame's header states it.
    pub content_bytes: Option<u64>,
    /// A dictionary made by zstd.
    pub dictionary: Option<Dictionary>,
    /// Reference that content may refer to. A reader needs the same bytes.
    pub reference: Option<Arc<[u8]>>,
    /// Decode the frame again as it is written, and compare checksums. It takes the window's memory a second time.
    pub verify: bool,
}

impl FrameOptions {
    /// The window of `zstd --long`, 128 MiB, which `zstd -d` accepts by default.
    pub const WINDOW_LOG_USUAL: u32 = 27;

    /// A frame at `level` with the usual window.
    pub fn new(level: Level) -> Self {
        let window_log = Self::WINDOW_LOG_USUAL;
        Self { level, window_log, content_bytes: None, dictionary: None, reference: None, verify: false }
    }

    /// The window that covers the larger of reference and content, as `zstd --patch-from` chooses it.
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

    /// What reads the frame again.
    fn check(&self) -> Result<Check<'_>, Error> {
        let mut context = decoder()?;
        if let Some(dictionary) = &self.dictionary {
            context.load_dictionary(dictionary.bytes()).map_err(codec)?;
        }
        if let Some(reference) = &self.reference {
            context.ref_prefix(reference).map_err(codec)?;
        }
        Ok(Check { context, room: vec![0; STEP_BYTES], has_ended: false })
    }
}

/// Decodes a frame as it is made.
struct Check<'a> {
    context: DCtx<'a>,
    room: Vec<u8>,
    /// All content came, and its checksum is right.
    has_ended: bool,
}

impl Check<'_> {
    /// Goes on with `packed`.
    fn take(&mut self, packed: &[u8]) -> Result<(), Error> {
        if packed.is_empty() {
            return Ok(());
        }
        let mut from = InBuffer::around(packed);
        loop {
            let mut to = OutBuffer::around(&mut self.room[..]);
            let hint = self.context.decompress_stream(&mut to, &mut from);
            self.has_ended = hint.map_err(|_| NOT_VERIFIED)? == 0;
            if self.has_ended || (from.pos() == packed.len() && to.pos() < STEP_BYTES) {
                return Ok(());
            }
        }
    }
}

const NOT_VERIFIED: Error = Error::Verify { offset: 0 };

/// Compresses all of `source` to one frame, on the calling thread.
///
/// # Errors
///
/// [`Error::Options`]; [`Error::SizeHint`] if the stated size proves wrong; [`Error::Verify`]; errors of `source` and `out`.
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
    let mut check = if options.verify { Some(options.check()?) } else { None };
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
            let begun = now();
            let mut output = OutBuffer::around(&mut packed[..]);
            let directive = if is_last { ZSTD_e_end } else { ZSTD_e_continue };
            let left = context.compress_stream2(&mut output, &mut input, directive).map_err(codec)?;
            let made = output.pos();
            if let Some(check) = &mut check {
                check.take(&packed[..made])?;
            }
            meter.worked(begun);
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

/// Decompresses frames that may refer to `reference`, on the calling thread; yields the offset of trailing garbage, which it ignores:
/// zeros behind the frames.
///
/// It allocates a frame's window: at most `memory_bytes`, or four times `reference` if that is more.
///
/// # Errors
///
/// [`Error::Memory`] for a larger window; [`Error::Damaged`] for a damaged frame or another reference; [`Error::Unfinished`] behind all
/// content if a writer did not end its frames; errors of `source` and `out`.
pub fn decompress_frame(
    source: &mut dyn Read,
    out: &mut dyn Write,
    reference: &[u8],
    memory_bytes: u64,
    meter: &Meter,
    watch: &mut dyn FnMut(),
) -> Result<Option<u64>, Error> {
    let mut frames = Frames { reference, room: vec![0; STEP_BYTES], out, meter, watch, written: 0 };
    frames.all(&mut Input::new(source), memory_bytes)
}

/// Decodes frames that may refer to `reference`.
struct Frames<'a> {
    reference: &'a [u8],
    room: Vec<u8>,
    out: &'a mut dyn Write,
    meter: &'a Meter,
    watch: &'a mut dyn FnMut(),
    written: u64,
}

impl Frames<'_> {
    /// Decodes all of `input`; yields the offset of trailing garbage.
    fn all(&mut self, input: &mut Input<&mut dyn Read>, memory_bytes: u64) -> Result<Option<u64>, Error> {
        let granted_bytes = memory_bytes.max(4 * self.reference.len() as u64);
        let (mut ending, mut garbage) = (Ending::new(), None);
        loop {
            let offset = input.offset();
            let shown = input.show(zst::END_BYTES)?;
            match Magic::of(shown) {
                None if shown.is_empty() && offset == 0 => return Err(Error::Empty),
                None if shown.is_empty() => break,
                Some(Magic::Zst) => {
                    let header =
                        zst::header(shown).ok_or(Error::Truncated { offset, what: "a zstd frame" })?;
                    if header.window_bytes > granted_bytes {
                        let needed_bytes = header.window_bytes;
                        return Err(Error::Memory { offset, needed_bytes, granted_bytes });
                    }
                    ending.zst(offset, header.is_own);
                    let seek = self.decode(input, offset)?;
                    if header.is_own {
                        ending.own(seek);
                    }
                }
                _ if input.take_tail(&mut ending)? => {}
                Some(Magic::Skippable) => input.skip_frame()?,
                None if offset > 0 && input.take_zeros_to_end()? => {
                    ending.other(offset);
                    garbage = Some(offset);
                }
                _ => return Err(Error::UnknownFormat { offset }),
            }
        }
        ending.finish(input.offset()).map_or(Ok(garbage), |problem| Err(problem.into()))
    }

    /// Decodes the frame at `frame_at`; yields its entry in a list of frames.
    fn decode(&mut self, input: &mut Input<&mut dyn Read>, frame_at: u64) -> Result<zst::Seek, Error> {
        let mut context = decoder()?;
        // The reference is for one frame.
        context.ref_prefix(self.reference).map_err(codec)?;
        let (mut last, written_before) = ([0; 4], self.written);
        loop {
            let shown = input.show(1)?;
            let at_end = shown.is_empty();
            let begun = now();
            let (mut from, mut to) = (InBuffer::around(shown), OutBuffer::around(&mut self.room[..]));
            let hint = context.decompress_stream(&mut to, &mut from).map_err(|_| {
                let what =
                    "it does not decode: it is damaged, or was compressed with another --patch-from file";
                Error::Damaged { offset: frame_at, what }
            })?;
            let (eaten, made) = (from.pos(), to.pos());
            for &byte in &shown[eaten.saturating_sub(4)..eaten] {
                last.rotate_left(1);
                last[3] = byte;
            }
            input.take(eaten);
            let coded = self.meter.charge(Doing::Codec, begun);
            self.out.write_all(&self.room[..made])?;
            self.written += made as u64;
            self.meter.in_bytes.fetch_add(eaten as u64, Relaxed);
            self.meter.out_bytes.fetch_add(made as u64, Relaxed);
            self.meter.charge(Doing::Blocked, coded);
            (self.watch)();
            if hint == 0 {
                // Only frames of tamp are listed, and their content fits.
                let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
                return Ok(zst::Seek {
                    frame_bytes: bytes(input.offset() - frame_at),
                    content_bytes: bytes(self.written - written_before),
                    checksum: u32::from_le_bytes(last),
                });
            }
            if at_end && made == 0 {
                return Err(Error::Truncated { offset: frame_at, what: "a zstd frame" });
            }
        }
    }
}

/// It accepts any window.
fn decoder<'a>() -> Result<DCtx<'a>, Error> {
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(zst::WINDOW_LOG_MAX)).map_err(codec)?;
    Ok(context)
}

fn codec(code: zstd_safe::ErrorCode) -> Error {
    io::Error::other(zstd_safe::get_error_name(code)).into()
}
