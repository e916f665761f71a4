//! One Zstandard frame for all content, as `zstd --long` and `zstd --patch-from` write it.
//!
//! Content may refer back to the whole window, or to a reference file that is not in the output. One thread writes and reads the frame,
//! the frame has no random access, and damage loses everything behind it.

use crate::format::{Container, Setting, le32, zst};
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
}

impl FrameOptions {
    /// The window of `zstd --long`, 128 MiB, which `zstd -d` accepts by default.
    pub const WINDOW_LOG_USUAL: u32 = 27;

    /// A frame at `level` with the usual window.
    pub fn new(level: Level) -> Self {
        let window_log = Self::WINDOW_LOG_USUAL;
        Self { level, window_log, content_bytes: None, dictionary: None, reference: None }
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
}

/// Compresses all of `source` to one frame, on the calling thread.
///
/// # Errors
///
/// [`Error::Options`]; [`Error::SizeHint`] if the stated size proves wrong; errors of `source` and `out`.
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
    let (mut content, mut packed) = (vec![0; STEP_BYTES], vec![0; STEP_BYTES]);
    let mut found = 0;
    meter.worker_began();
    loop {
        let begun = now();
        let read = fill(source, &mut content)?;
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
            return Ok(());
        }
    }
}

/// Decompresses a frame that refers to `reference`, on the calling thread; yields the number of content bytes.
///
/// It allocates the frame's window: at most `memory_bytes`, or four times `reference` if that is more.
///
/// # Errors
///
/// [`Error::Memory`] for a larger window; [`Error::Damaged`] for a damaged frame or another reference; errors of `source` and `out`.
pub fn decompress_frame(
    source: &mut dyn Read,
    out: &mut dyn Write,
    reference: &[u8],
    memory_bytes: u64,
    meter: &Meter,
    watch: &mut dyn FnMut(),
) -> Result<u64, Error> {
    let mut packed = vec![0; STEP_BYTES];
    let mut read = fill(source, &mut packed)?;
    if read == 0 {
        return Err(Error::Empty);
    }
    let header = if read >= 4 && le32(&packed) == zst::MAGIC { zst::header(&packed[..read]) } else { None };
    let header = header.ok_or(Error::UnknownFormat { offset: 0 })?;
    let granted_bytes = memory_bytes.max(4 * reference.len() as u64);
    if header.window_bytes > granted_bytes {
        return Err(Error::Memory { offset: 0, needed_bytes: header.window_bytes, granted_bytes });
    }
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(zst::WINDOW_LOG_MAX)).map_err(codec)?;
    context.ref_prefix(reference).map_err(codec)?;
    let (mut content, mut written, mut offset) = (vec![0; STEP_BYTES], 0, 0);
    loop {
        let mut input = InBuffer::around(&packed[..read]);
        let ended = loop {
            let begun = now();
            let mut output = OutBuffer::around(&mut content[..]);
            let hint = context.decompress_stream(&mut output, &mut input).map_err(|_| {
                let what =
                    "it does not decode: it is damaged, or was compressed with another --patch-from file";
                Error::Damaged { offset, what }
            })?;
            let made = output.pos();
            let coded = meter.charge(Doing::Codec, begun);
            out.write_all(&content[..made])?;
            written += made as u64;
            meter.out_bytes.fetch_add(made as u64, Relaxed);
            meter.charge(Doing::Blocked, coded);
            watch();
            if hint == 0 || (input.pos() == read && made < STEP_BYTES) {
                break hint == 0;
            }
        };
        let eaten = input.pos();
        offset += eaten as u64;
        meter.in_bytes.fetch_add(eaten as u64, Relaxed);
        if ended && (eaten < read || fill(source, &mut packed)? > 0) {
            return Err(Error::Unsupported {
                offset,
                what: "data behind a frame that was compressed with --patch-from",
            });
        }
        if ended {
            return Ok(written);
        }
        read = fill(source, &mut packed)?;
        if read == 0 {
            return Err(Error::Truncated { offset: 0, what: "a zstd frame" });
        }
    }
}

/// Reads until `buffer` is full or the source ends.
fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn codec(code: zstd_safe::ErrorCode) -> Error {
    io::Error::other(zstd_safe::get_error_name(code)).into()
}
