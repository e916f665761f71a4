//! Gzip members, BGZF blocks and zlib streams: deflate knows its own end, so they are decoded to find it.

use super::walk::{self, Reach};
use super::{Salvage, Stop};
use crate::Error;
use crate::buffer::Buffer;
use crate::decode::{Block, Coding};
use crate::format::inflate::{Inflater, Step};
use crate::format::{bgzf, gz};
use crate::index::Hops;

/// Compressed bytes shown to the decoder at a time.
const SHOWN_BYTES: usize = 64 << 10;
/// Content that one step yields at most.
const STEP_BYTES: usize = 256 << 10;

impl Salvage<'_> {
    pub(super) fn gzip(&mut self, at: u64, header: &gz::Header, reach: Reach) -> Result<u64, Error> {
        let end = if let Reach::To(end) = reach { self.gzip_confirmed(end)? } else { None };
        let (Some(end), Some(bytes)) = (end, header.bgzf_bytes) else {
            self.ending.other(at);
            return self.member(at, false);
        };
        let member = &self.file.show(at, bytes)?[..bytes];
        let Ok(content_bytes) = bgzf::stated_bytes(member) else {
            self.ending.other(at);
            return self.member(at, false);
        };
        let block = Block::new(member, Coding::Bgzf { content_bytes });
        self.content.clear();
        if self.decoder.decode(&block, &mut self.content).is_ok() {
            self.output.write(&self.content)?;
            self.ending.bgzf(at, content_bytes == 0);
            return self.pass_zeros(end);
        }
        self.ending.bgzf(at, content_bytes == 0);
        let begun = self.output.written;
        // A trailer that says nothing is there is damaged, too.
        let stated = (content_bytes > 0).then_some(content_bytes);
        let limit = stated.unwrap_or(bgzf::BLOCK_CONTENT_BYTES_MAX);
        let mut content = Vec::new();
        let (pos, _) = inflate(&mut self.file, at, end, Inflater::new(), &mut |piece| {
            let room = limit.saturating_sub(content.len());
            content.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok(())
        })?;
        if !content.is_empty() {
            self.output.write(&content)?;
            self.output.doubt(at..pos.min(end), begun);
        }
        let missing = stated.map(|stated| (stated - content.len()) as u64);
        if missing != Some(0) || content.is_empty() {
            self.output.lose(pos.min(end)..end, missing)?;
        }
        self.pass_zeros(end)
    }

    /// `end`, if a member, padding or nothing follows there.
    fn gzip_confirmed(&mut self, end: u64) -> Result<Option<u64>, Error> {
        if self.file.show(end, 1)?.first() == Some(&0) {
            return Ok(Some(end));
        }
        self.confirmed(Some(end))
    }

    /// A member, or a zlib stream, that only decoding tells the end of.
    pub(super) fn member(&mut self, at: u64, is_zlib: bool) -> Result<u64, Error> {
        let (begun, file_bytes) = (self.output.written, self.file.file_bytes);
        let inflater = if is_zlib { Inflater::zlib() } else { Inflater::new() };
        let output = &mut self.output;
        let (pos, stop) =
            inflate(&mut self.file, at, file_bytes, inflater, &mut |piece| output.write(piece))?;
        if stop == Stop::Whole {
            return self.pass_zeros(pos);
        }
        if self.output.written > begun {
            self.output.doubt(at..pos, begun);
        }
        if matches!(stop, Stop::Cut { .. }) {
            self.output.end(file_bytes);
            return Ok(file_bytes);
        }
        if is_zlib && begun == self.output.written {
            return Err(Error::UnknownFormat { offset: at });
        }
        let next = self.next(None, at, pos.max(at + 1))?;
        if self.output.written == begun || pos + gz::TRAILER_BYTES as u64 != next {
            // Not only the checksum is wrong.
            self.output.lose(pos.min(next)..next, None)?;
        }
        Ok(next)
    }

    /// Tapes and block devices pad gzip with zeros, up to the end or the next member.
    fn pass_zeros(&mut self, end: u64) -> Result<u64, Error> {
        let mut at = end;
        loop {
            let shown = self.file.show(at, SHOWN_BYTES)?;
            let zeros = shown.iter().take_while(|&&byte| byte == 0).count();
            at += zeros as u64;
            if shown.is_empty() || shown[zeros..].starts_with(&gz::MAGIC) {
                return Ok(at);
            }
            if zeros < shown.len() {
                return Ok(if walk::begins(&mut self.file, at)? { at } else { end });
            }
        }
    }
}

/// How far the member at `at` reaches.
///
/// # Errors
///
/// What reading says.
pub(super) fn reach(file: &mut Hops<'_>, at: u64) -> Result<Reach, Error> {
    let end = file.file_bytes;
    let (pos, stop) = inflate(file, at, end, Inflater::new(), &mut |_| Ok(()))?;
    Ok(match stop {
        Stop::Whole => Reach::To(pos),
        Stop::Cut { .. } => Reach::Cut,
        Stop::Damage => Reach::Broken,
    })
}

/// Decodes from `at` to the member's end, its damage or `limit`; yields up to where.
fn inflate(
    file: &mut Hops<'_>,
    at: u64,
    limit: u64,
    mut inflater: Inflater,
    take: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(u64, Stop), Error> {
    let (mut pos, mut wanted, mut content) = (at, SHOWN_BYTES, Buffer::default());
    loop {
        let left = usize::try_from(limit - pos).unwrap_or(usize::MAX);
        let shown = file.show(pos, wanted.min(left).max(1))?;
        let shown = &shown[..shown.len().min(left)];
        let step = inflater.step(shown, STEP_BYTES, &mut content);
        take(&content)?;
        match step {
            Ok(Step::Went { eaten }) => {
                pos += eaten as u64;
                wanted = SHOWN_BYTES;
            }
            Ok(Step::Ended { eaten }) => return Ok((pos + eaten as u64, Stop::Whole)),
            Ok(Step::Needs(_)) if shown.len() >= left => return Ok((limit, Stop::Cut { block_at: pos })),
            Ok(Step::Needs(bytes)) => wanted = bytes.max(2 * shown.len()),
            Err(_) => return Ok((pos, Stop::Damage)),
        }
    }
}
