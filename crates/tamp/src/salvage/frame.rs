//! Zstandard frames: decoded and written block by block, up to the end or the damage.

use super::walk::{self, Reach};
use super::{Behind, Loss, Lost, Salvage, Stop};
use crate::Error;
use crate::decode::{Block, Coding};
use crate::format::le32;
use crate::format::zst::{self, Extent};
use crate::split::UNIT_BYTES_MAX;
use std::ops::Range;

/// A frame that could not be read to its end.
struct Damaged {
    at: u64,
    /// Offset of its content in the output.
    begun: u64,
    /// Offset of its end, from the seek table or from the lengths in it.
    known_end: Option<u64>,
    /// Offset that reading reached.
    pos: u64,
    stop: Stop,
}

impl Salvage<'_> {
    /// Writes the readable part of the Zstandard frame at `at`.
    pub(super) fn zst(&mut self, at: u64, header: &zst::Header, reach: Reach) -> Result<u64, Error> {
        let structural_end = if let Reach::To(end) = reach { self.confirmed(Some(end))? } else { None };
        let known_end = self.listed_end(at)?.or(structural_end);
        if ![0, self.dictionary_id].contains(&header.dictionary_id) {
            let next = self.next(known_end, at, at + 1)?;
            if structural_end.is_none() {
                return self.lose_up_to(next, at, at);
            }
            // The frame can hold the size that it states.
            let missing = self.hints.missing(next, self.output.written).or(header.content_bytes);
            let what = Lost::NeedsDictionary { id: header.dictionary_id };
            self.zst_unread(at, header, structural_end);
            self.output.lose_as(what, at..next, missing);
            return Ok(next);
        }
        let begun = self.output.written;
        let (pos, stop) = match reach {
            Reach::To(end) if self.zst_at_once(at..end, header)? => (end, Stop::Whole),
            _ => {
                let is_held = header.content_bytes.is_some_and(|bytes| bytes <= UNIT_BYTES_MAX as u64);
                let needed_bytes = header.needed_bytes();
                if needed_bytes > self.options.memory_bytes && !is_held {
                    self.zst_unread(at, header, structural_end);
                    return self.zst_too_large(at, known_end, needed_bytes);
                }
                let limit = known_end.unwrap_or(self.file.file_bytes);
                let most = self.hints.missing(limit, begun).unwrap_or(u64::MAX);
                self.zst_stream(at, limit, most)?
            }
        };
        if stop == Stop::Whole {
            self.ending.zst(at, header.is_own);
            let (frame_bytes, content_bytes) =
                (u32::try_from(pos - at), u32::try_from(self.output.written - begun));
            if let (true, Ok(frame_bytes), Ok(content_bytes)) = (header.is_own, frame_bytes, content_bytes) {
                let checksum = le32(self.file.show(pos - 4, 4)?);
                self.ending.own(zst::Seek { frame_bytes, content_bytes, checksum });
            }
            self.behind = Behind::Zst;
            return Ok(pos);
        }
        self.zst_unread(at, header, structural_end);
        let damaged = Damaged { at, begun, known_end, pos, stop };
        self.zst_damaged(header, &damaged)
    }

    /// Counts a frame that could not be read to its end. Its header is trusted only if the lengths lead to a
    /// known beginning.
    fn zst_unread(&mut self, at: u64, header: &zst::Header, structural_end: Option<u64>) {
        if structural_end.is_some() {
            self.ending.zst(at, header.is_own);
            self.ending.damaged();
        } else {
            self.ending.gap();
        }
    }

    /// Writes the frame at `part` in one step, as other readers do, if it is intact and its content fits a
    /// unit, however large its window is.
    fn zst_at_once(&mut self, part: Range<u64>, header: &zst::Header) -> Result<bool, Error> {
        let most = UNIT_BYTES_MAX.min(usize::try_from(self.options.memory_bytes).unwrap_or(usize::MAX));
        let bytes = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
        if bytes > most {
            return Ok(false);
        }
        let frame = &self.file.show(part.start, bytes)?[..bytes];
        let content_bytes_max = match zst::extent(frame, header) {
            Ok(Extent::Whole { content_bytes_max, .. }) if content_bytes_max <= most => content_bytes_max,
            _ => return Ok(false),
        };
        self.decoder.zst_stream().reset();
        self.content.clear();
        let block = Block::new(frame, Coding::Zst { content_bytes_max });
        if self.decoder.decode(&block, &mut self.content).is_err() {
            return Ok(false);
        }
        self.output.write(&self.content)?;
        Ok(true)
    }

    /// Skips a frame that, by its header, needs more memory than the limit.
    fn zst_too_large(&mut self, at: u64, known_end: Option<u64>, needed_bytes: u64) -> Result<u64, Error> {
        let next = self.next(known_end, at, at + 1)?;
        let content_at = self.output.written;
        if let Some(missing) = self.hints.missing(next, content_at) {
            // By the seek table the frame is small, so its header is damaged.
            self.output.lose(at..next, Some(missing));
        } else {
            let what = Lost::TooLarge { needed_bytes };
            self.output.losses.push(Loss { file: at..next, content_at, content_bytes: None, what });
        }
        Ok(next)
    }

    /// Writes the content of a frame's damaged block before its damage, and reports the rest as lost.
    fn zst_damaged(&mut self, header: &zst::Header, damaged: &Damaged) -> Result<u64, Error> {
        let &Damaged { at, begun, known_end, pos, stop } = damaged;
        // A block that reaches beyond the end of the file may have a wrong length.
        let damage_at = if let Stop::Cut { block_at } = stop { block_at } else { pos };
        let next = self.next(known_end, at, damage_at.max(at + 1))?;
        if matches!(stop, Stop::Cut { .. }) && known_end.is_none() && next == self.file.file_bytes {
            if self.output.written > begun {
                self.output.doubt(at..pos, begun);
            }
            self.output.end(pos);
            return Ok(pos);
        }
        let produced = self.output.written - begun;
        let stated = header.content_bytes.map(|stated| stated.saturating_sub(produced));
        let limit = self.hints.missing(next, self.output.written).or(stated).unwrap_or(u64::MAX);
        if stop == Stop::Damage {
            let beginning = self.zst_beginning(at, header, pos, produced, limit)?;
            self.output.write(&beginning)?;
        }
        let produced = self.output.written - begun;
        if produced > 0 {
            self.output.doubt(at..damage_at, begun);
        }
        let is_all = self.hints.missing(next, self.output.written).is_none_or(|missing| missing == 0);
        let is_at_checksum = known_end == Some(next) && header.checksum && pos + 4 >= next;
        if stop == Stop::Damage && is_at_checksum && is_all && produced > 0 {
            // All content is there; only the checksum is wrong.
            return Ok(next);
        }
        let stated = header
            .content_bytes
            .and_then(|stated| stated.checked_sub(produced))
            // A damaged header may state any size.
            .filter(|&missing| missing <= (UNIT_BYTES_MAX as u64).max(64 * next.saturating_sub(damage_at)))
            .filter(|&missing| missing <= zst::content_bytes_max(next - at))
            .filter(|_| {
                let bound = header.content_bytes.and_then(|bytes| usize::try_from(bytes).ok());
                let bound = bound.map(zstd_safe::compress_bound);
                known_end.is_some() || bound.is_some_and(|bound| next - at <= bound as u64 + 64)
            });
        let missing = self.hints.missing(next, self.output.written).or(stated);
        self.output.lose(damage_at.min(next)..next, missing);
        Ok(next)
    }

    /// Returns the end of the frame at `at`, if a proven seek table lists it and a known beginning is there.
    fn listed_end(&mut self, at: u64) -> Result<Option<u64>, Error> {
        if !self.hints.has(at) {
            return Ok(None);
        }
        let Some(end) = self.hints.next(at + 1) else { return Ok(None) };
        Ok(walk::begins(&mut self.file, end)?.then_some(end))
    }

    /// Decodes and writes a frame of at most `content_bytes`, block by block, up to its end, its damage or
    /// `limit`; returns the offset reached.
    fn zst_stream(&mut self, at: u64, limit: u64, content_bytes: u64) -> Result<(u64, Stop), Error> {
        let mut room = content_bytes;
        self.decoder.zst_stream().reset();
        let (mut pos, mut hint) = (at, zst::HEADER_BYTES_MIN);
        let mut block_at = at;
        loop {
            // The decoder asks for a block together with the next block's header, but gets each separately: a
            // failing call returns no content, so it must not include an intact block.
            let wanted = if hint > zst::BLOCK_HEADER_BYTES { hint - zst::BLOCK_HEADER_BYTES } else { hint };
            let wanted = usize::try_from(limit - pos).map_or(wanted, |left| wanted.min(left));
            let shown = self.file.show(pos, wanted.max(1))?;
            let shown = &shown[..wanted.min(shown.len())];
            let Ok((eaten, next)) =
                self.decoder.zst_stream().stream(shown, zst::BLOCK_OUT_MAX, &mut self.content)
            else {
                return Ok((pos, Stop::Damage));
            };
            pos += eaten as u64;
            if !self.content.is_empty() {
                block_at = pos;
            }
            let fits = usize::try_from(room).map_or(self.content.len(), |room| room.min(self.content.len()));
            self.output.write(&self.content[..fits])?;
            room -= fits as u64;
            if fits < self.content.len() {
                return Ok((pos, Stop::Damage));
            }
            if next == 0 {
                return Ok((pos, Stop::Whole));
            }
            if eaten == 0 && self.content.is_empty() {
                return Ok((pos, if pos >= limit { Stop::Cut { block_at } } else { Stop::Damage }));
            }
            hint = next;
        }
    }
}
