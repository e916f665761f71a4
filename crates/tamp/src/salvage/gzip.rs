//! Gzip members, BGZF blocks and zlib streams. Only decoding finds the end of deflated data.

use super::walk::Reach;
use super::{Behind, Salvage, Stop, effort, zeros_end};
use crate::Error;
use crate::buffer::Buffer;
use crate::decode::{Block, Coding};
use crate::format::inflate::{Inflater, Step, WINDOW_BYTES};
use crate::format::{bgzf, gz, le32};
use crate::index::Hops;

/// Maximum number of compressed bytes given to the decoder at once.
const SHOWN_BYTES: usize = 64 << 10;
/// Maximum content of one step.
const STEP_BYTES: usize = 256 << 10;
/// Length of a zlib header without a dictionary.
const ZLIB_HEADER_BYTES: usize = 2;

impl Salvage<'_> {
    pub(super) fn gzip(&mut self, at: u64, header: &gz::Header, reach: Reach) -> Result<u64, Error> {
        let (Reach::To(end), Some(bytes)) = (reach, header.bgzf_bytes) else {
            return self.member(at, Wrapper::Gzip(header.own_bytes));
        };
        let member = &self.file.show(at, bytes)?[..bytes];
        let Ok(content_bytes) = bgzf::stated_bytes(member) else {
            return self.member(at, Wrapper::Gzip(header.own_bytes));
        };
        let block = Block::new(member, Coding::Bgzf { content_bytes });
        self.content.clear();
        if self.decoder.decode(&block, &mut self.content).is_ok() {
            self.output.write(&self.content)?;
            self.ending.bgzf(at, content_bytes == 0);
            return self.pass_zeros(end);
        }
        // The stated length may be wrong.
        if self.gzip_confirmed(end)?.is_none() || matches!(reach_of(&mut self.file, at)?, Reach::To(_)) {
            return self.member(at, Wrapper::Gzip(header.own_bytes));
        }
        // A block of this length is empty, whatever its trailer states.
        self.ending.bgzf(at, bytes <= bgzf::END.len());
        let begun = self.output.written;
        let mut content = Vec::new();
        let (pos, _) = deflated(&mut self.file, at, end, Wrapper::Gzip(header.own_bytes), &mut |piece| {
            let room = bgzf::BLOCK_CONTENT_BYTES_MAX - content.len();
            content.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok(())
        })?;
        let trailer = self.file.show(end - gz::TRAILER_BYTES as u64, gz::TRAILER_BYTES)?;
        let is_right = trailer.get(..4).map(le32) == Some(libdeflater::crc32(&content));
        // A trailer that states no content is damaged, too, and so is one if only its checksum is right.
        let stated = (content_bytes > 0 && !is_right).then_some(content_bytes);
        content.truncate(stated.unwrap_or(content.len()));
        if !content.is_empty() {
            self.output.write(&content)?;
            self.output.doubt(at..pos.min(end), begun);
        }
        let missing = stated.map(|stated| (stated - content.len()) as u64);
        if missing.map_or(!is_right && pos < end, |missing| missing > 0) || content.is_empty() {
            self.output.lose(pos.min(end)..end, missing);
        }
        self.pass_zeros(end)
    }

    /// Returns `end`, if a member, padding or the end of the file is there.
    fn gzip_confirmed(&mut self, end: u64) -> Result<Option<u64>, Error> {
        if self.file.show(end, 1)?.first() == Some(&0) {
            return Ok(Some(end));
        }
        self.confirmed(Some(end))
    }

    /// Writes a member or a zlib stream that does not state its length.
    pub(super) fn member(&mut self, at: u64, wrapper: Wrapper) -> Result<u64, Error> {
        let (begun, file_bytes) = (self.output.written, self.file.file_bytes);
        let output = &mut self.output;
        let (pos, stop) =
            deflated(&mut self.file, at, file_bytes, wrapper, &mut |piece| output.write(piece))?;
        if stop == Stop::Whole {
            self.ending.other(at);
            return self.pass_zeros(pos);
        }
        self.ending.gap();
        if wrapper == Wrapper::Zlib && stop == Stop::Damage && begun == self.output.written {
            return Err(Error::UnknownFormat { offset: at });
        }
        let trailer_end = pos + gz::TRAILER_BYTES as u64;
        // If all data decodes and only the checksum is wrong, the member ends behind the trailer.
        let is_decoded = stop == Stop::Damage && self.output.written > begun && trailer_end <= file_bytes;
        let known_end = self.confirmed(is_decoded.then_some(trailer_end))?;
        // Data behind a damage may decode to nonsense, beyond the member's end. So the next member may begin
        // before `pos`.
        let next = self.next(known_end, at, at + 1)?;
        if self.output.written > begun {
            self.output.doubt(at..pos.min(next), begun);
        }
        if matches!(stop, Stop::Cut { .. }) && next == file_bytes {
            self.output.end(file_bytes);
            return Ok(file_bytes);
        }
        if self.output.written == begun || (pos < next && trailer_end != next) {
            // Not only the checksum is wrong.
            let from = if pos < next { pos } else { at };
            self.output.lose(from..next, None);
        }
        Ok(next)
    }

    /// Skips zeros, with which tapes and block devices pad gzip, up to the end or the next member.
    fn pass_zeros(&mut self, end: u64) -> Result<u64, Error> {
        self.behind = Behind::Gzip;
        zeros_end(&mut self.file, end)
    }
}

/// Returns the end of the member at `at`; [`Reach::Open`] after too much searching.
///
/// # Errors
///
/// Errors of reading.
pub(super) fn reach_of(file: &mut Hops<'_>, at: u64) -> Result<Reach, Error> {
    if effort::is_spent(file) {
        return Ok(Reach::Open);
    }
    let end = file.file_bytes;
    let (pos, stop) = inflate(file, at, end, Inflater::new(), &mut |_| Ok(()))?;
    Ok(match stop {
        Stop::Whole => Reach::To(pos),
        Stop::Cut { .. } => Reach::Cut,
        Stop::Damage => Reach::Broken,
    })
}

/// Header before deflated data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    /// A gzip header of so many bytes.
    Gzip(usize),
    Zlib,
}

/// Decodes from `at` to the member's end, its damage or `limit`, and continues after references to before its
/// beginning if possible; returns the offset reached.
fn deflated(
    file: &mut Hops<'_>,
    at: u64,
    limit: u64,
    wrapper: Wrapper,
    take: Take<'_>,
) -> Result<(u64, Stop), Error> {
    let (inflater, header_bytes) = match wrapper {
        Wrapper::Gzip(bytes) => (Inflater::new(), bytes),
        Wrapper::Zlib => (Inflater::zlib(), ZLIB_HEADER_BYTES),
    };
    let mut made = 0;
    let (pos, stop) = inflate(file, at, limit, inflater, &mut |piece| {
        made += piece.len();
        take(piece)
    })?;
    if stop != Stop::Damage || made >= WINDOW_BYTES {
        return Ok((pos, stop));
    }
    let body_at = (at + header_bytes as u64).min(limit);
    let behind = inflate(file, body_at, limit, Inflater::behind_zeros(), &mut |piece| {
        let known = made.min(piece.len());
        made -= known;
        take(&piece[known..])
    })?;
    let is_cut = wrapper != Wrapper::Zlib && matches!(behind.1, Stop::Cut { .. });
    Ok(match behind {
        (behind, _) if behind <= pos => (pos, stop),
        behind if is_cut => behind,
        (behind, _) => (behind, Stop::Damage),
    })
}

/// Callback that takes content.
type Take<'a> = &'a mut dyn FnMut(&[u8]) -> std::io::Result<()>;

/// Decodes from `at` to the member's end, its damage or `limit`; returns the offset reached.
fn inflate(
    file: &mut Hops<'_>,
    at: u64,
    limit: u64,
    mut inflater: Inflater,
    take: Take<'_>,
) -> Result<(u64, Stop), Error> {
    let (mut pos, mut wanted, mut content) = (at, SHOWN_BYTES, Buffer::default());
    loop {
        let left = usize::try_from(limit - pos).unwrap_or(usize::MAX);
        let shown = file.show(pos, wanted.min(left).max(1))?;
        let shown = &shown[..shown.len().min(left)];
        let step = inflater.step(shown, STEP_BYTES, &mut content);
        let eaten = match step {
            Ok(Step::Went { eaten } | Step::Ended { eaten }) => eaten,
            _ => inflater.eaten_before_error(),
        };
        let (shown_bytes, work_bytes) = (shown.len(), eaten as u64 + effort::work_of(content.len()));
        file.spend(work_bytes);
        take(&content)?;
        match step {
            Ok(Step::Went { eaten }) => {
                pos += eaten as u64;
                wanted = SHOWN_BYTES;
            }
            Ok(Step::Ended { eaten }) => return Ok((pos + eaten as u64, Stop::Whole)),
            Ok(Step::Needs(_)) if shown_bytes >= left => return Ok((limit, Stop::Cut { block_at: pos })),
            Ok(Step::Needs(bytes)) => wanted = bytes.max(2 * shown_bytes),
            Err(_) => return Ok((pos + inflater.eaten_before_error() as u64, Stop::Damage)),
        }
    }
}
