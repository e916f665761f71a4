//! LZ4 frames. A block does not state the size of its content, so a frame is scanned before it is written.

use super::walk::{self, Field, Reach};
use super::{Salvage, search};
use crate::Error;
use crate::format::le32;
use crate::format::lz4::{self, Header};
use crate::split::UNIT_BYTES_MAX;
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash32;

/// Maximum ratio of an LZ4 block's content to its length.
const EXPANSION_MAX: u64 = 255;

/// A part of a frame.
struct Part {
    file: Range<u64>,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A block with so many bytes of content.
    Block(u64),
    /// A damaged block of a linked frame that still decodes to its end, to so many bytes. Later blocks refer
    /// to it.
    Doubtful(u64),
    /// A number of damaged blocks; `None` if their lengths are damaged, too.
    Lost(Option<u64>),
    /// The rest of the frame.
    Rest,
}

/// End of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// An end mark before this offset.
    At(u64),
    /// The file ends inside the frame.
    Cut,
    /// The end was not found; the next beginning is at this offset.
    Lost(u64),
}

impl Salvage<'_> {
    pub(super) fn lz4(&mut self, at: u64, header: &Header, reach: Reach) -> Result<u64, Error> {
        self.ending.other(at);
        let (parts, end) = self.lz4_parts(at, header, reach)?;
        let next = match end {
            End::At(next) | End::Lost(next) => next,
            End::Cut => self.file.file_bytes,
        };
        let begun = self.output.written;
        let sizes = lost_sizes(&parts, header, end);
        let (mut hash, mut history, mut doubtful) = (XxHash32::with_seed(0), Vec::new(), None);
        for (part, size) in parts.iter().zip(sizes) {
            if matches!(part.what, What::Block(_)) {
                self.lz4_block(part.file.start, part.file.end - part.file.start, header, &mut history)?;
                hash.write(&self.content);
                self.output.write(&self.content)?;
            } else if matches!(part.what, What::Doubtful(_)) {
                doubtful = doubtful.or(Some((part.file.start, self.output.written)));
                let content = self.lz4_doubtful(&part.file, header, &mut history)?.unwrap_or_default();
                self.output.write(&content)?;
            } else {
                self.lz4_remains(&part.file, size, header, &history)?;
            }
        }
        let is_whole = parts.iter().all(|part| matches!(part.what, What::Block(_)));
        if end == End::Cut && is_whole {
            self.output.end(next);
        }
        let written = self.output.written - begun;
        let stated_sum = match end {
            End::At(end) if header.content_checksum => self.file.show(end - 4, 4)?.get(..4).map(le32),
            _ => None,
        };
        let is_proven = if is_whole && matches!(end, End::At(_)) {
            stated_sum.is_none_or(|stated| stated == hash.finish_32())
                && header.content_bytes.is_none_or(|stated| stated == written)
        } else {
            header.block_checksums
        };
        if !is_proven && written > 0 {
            self.output.doubt(at..next, begun);
        } else if let Some((file_at, content_at)) = doubtful {
            // The checksums of blocks prove their bytes, but not the content that they refer to.
            self.output.doubt(file_at..next, content_at);
        } else if !is_proven && is_whole {
            // By its header or checksum the frame has content, but no block has any. The rest of the file may
            // have held it.
            let most = (self.file.file_bytes - at) * EXPANSION_MAX;
            let stated = header.content_bytes.filter(|&stated| stated <= most.min(UNIT_BYTES_MAX as u64));
            self.output.lose(at..next, stated);
        }
        Ok(next)
    }

    /// Writes the content of the damaged block that begins a lost part, as far as it decodes, then zeros.
    fn lz4_remains(
        &mut self,
        part: &Range<u64>,
        size: Option<u64>,
        header: &Header,
        history: &[u8],
    ) -> Result<(), Error> {
        let bytes = usize::try_from(part.end - part.start).unwrap_or(usize::MAX).min(4 + header.block_bytes);
        let shown = self.file.show(part.start, bytes)?;
        let shown = &shown[..bytes.min(shown.len())];
        let limit = size
            .map_or(header.block_bytes, |size| header.block_bytes.min(usize::try_from(size).unwrap_or(0)));
        let remains = lz4::decode_remains(shown, header, history, limit).content;
        let begun = self.output.written;
        if !remains.is_empty() {
            self.output.write(&remains)?;
            self.output.doubt(part.clone(), begun);
        }
        let missing = size.map(|size| size - remains.len() as u64);
        if missing != Some(0) || remains.is_empty() {
            self.output.lose(part.clone(), missing);
        }
        Ok(())
    }

    /// Returns the content of the damaged block at `file` of a linked frame, if it decodes to its end.
    fn lz4_doubtful(
        &mut self,
        file: &Range<u64>,
        header: &Header,
        history: &mut Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let bytes = usize::try_from(file.end - file.start).expect("a block fits");
        let framed = &self.file.show(file.start, bytes)?;
        let framed = &framed[..bytes.min(framed.len())];
        let remains = lz4::decode_remains(framed, header, history, header.block_bytes);
        if remains.is_all {
            lz4::remember(history, &remains.content);
        }
        Ok(remains.is_all.then_some(remains.content))
    }

    /// Decodes the block of `bytes` at `pos` into `content`; `false` if it does not decode.
    fn lz4_block(
        &mut self,
        pos: u64,
        bytes: u64,
        header: &Header,
        history: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let bytes = usize::try_from(bytes).expect("a block fits");
        let framed = &self.file.show(pos, bytes)?[..bytes];
        self.content.clear();
        let linked = header.blocks_linked.then_some(&history[..]);
        let block = lz4::framed(framed, header).map(|block| block.after(linked));
        let decoded = block.and_then(|block| self.decoder.decode(&block, &mut self.content)).is_ok();
        if decoded && header.blocks_linked {
            lz4::remember(history, &self.content);
        }
        Ok(decoded)
    }

    /// Scans a frame for its parts and its end.
    fn lz4_parts(&mut self, at: u64, header: &Header, reach: Reach) -> Result<(Vec<Part>, End), Error> {
        let (mut pos, mut parts) = (at + header.own_bytes as u64, Vec::new());
        let mut history = Vec::new();
        loop {
            match walk::field(&mut self.file, pos, header)? {
                Field::Block(bytes) if self.lz4_block(pos, bytes, header, &mut history)? => {
                    parts.push(Part { file: pos..pos + bytes, what: What::Block(self.content.len() as u64) });
                    pos += bytes;
                    continue;
                }
                Field::Block(bytes) if header.blocks_linked => {
                    let file = pos..pos + bytes;
                    if let Some(content) = self.lz4_doubtful(&file, header, &mut history)? {
                        pos = file.end;
                        parts.push(Part { file, what: What::Doubtful(content.len() as u64) });
                        continue;
                    }
                    // All later blocks refer to this one.
                    let end = if let Reach::To(end) = reach { self.confirmed(Some(end))? } else { None };
                    let end = match (end, reach) {
                        (Some(end), _) => End::At(end),
                        (None, Reach::Cut) => End::Cut,
                        _ => End::Lost(self.next(None, at, pos)?),
                    };
                    let next =
                        if let End::At(next) | End::Lost(next) = end { next } else { self.file.file_bytes };
                    parts.push(Part { file: pos..next, what: What::Rest });
                    return Ok((parts, end));
                }
                Field::Block(_) => {
                    if let Some((next, blocks)) = self.lz4_chain(pos, header)? {
                        parts.push(Part { file: pos..next, what: What::Lost(Some(blocks)) });
                        pos = next;
                        continue;
                    }
                }
                Field::End(bytes) => {
                    if let Some(end) = self.confirmed(Some(pos + bytes))? {
                        return Ok((parts, End::At(end)));
                    }
                    if !header.block_checksums && matches!(reach, Reach::To(end) if end == pos + bytes) {
                        // Only the bytes behind this end contradict it.
                        return Ok((parts, End::At(pos + bytes)));
                    }
                }
                Field::Cut if !header.block_checksums || self.file.file_bytes - pos <= 4 => {
                    if pos < self.file.file_bytes {
                        parts.push(Part { file: pos..self.file.file_bytes, what: What::Rest });
                    }
                    return Ok((parts, End::Cut));
                }
                Field::Cut | Field::Broken => {}
            }
            // The length is damaged, too.
            let Some(next) = search::next_block(&mut self.file, pos + 1, header)? else {
                let is_cut = walk::field(&mut self.file, pos, header)? == Field::Cut;
                let next = if is_cut { self.file.file_bytes } else { self.next(None, at, pos)? };
                parts.push(Part { file: pos..next, what: What::Rest });
                return Ok((parts, if is_cut { End::Cut } else { End::Lost(next) }));
            };
            parts.push(Part { file: pos..next, what: What::Lost(None) });
            pos = next;
        }
    }

    /// Follows the lengths from the damaged block at `pos` to the next block that decodes, or to the frame's
    /// end; returns that offset and the number of blocks passed. `None` if the lengths do not lead there.
    fn lz4_chain(&mut self, mut pos: u64, header: &Header) -> Result<Option<(u64, u64)>, Error> {
        let mut blocks = 0;
        loop {
            match walk::field(&mut self.file, pos, header)? {
                Field::Block(bytes) => {
                    if blocks > 0 && self.lz4_block(pos, bytes, header, &mut Vec::new())? {
                        return Ok(Some((pos, blocks)));
                    }
                    blocks += 1;
                    pos += bytes;
                }
                Field::End(bytes) => {
                    return Ok(self.confirmed(Some(pos + bytes))?.map(|_| (pos, blocks)));
                }
                // The file may be cut behind the damage.
                Field::Cut => return Ok((pos == self.file.file_bytes).then_some((pos, blocks))),
                Field::Broken => return Ok(None),
            }
        }
    }
}

/// Returns the size of the lost content of each part, if it can be derived: LZ4 blocks do not state their
/// content.
fn lost_sizes(parts: &[Part], header: &Header, end: End) -> Vec<Option<u64>> {
    let full = header.block_bytes as u64;
    let content = |part: &Part| match part.what {
        What::Block(bytes) | What::Doubtful(bytes) => Some(bytes),
        What::Lost(_) | What::Rest => None,
    };
    let last = parts.len().saturating_sub(1);
    // Usually all blocks but the last are full; if one is not, any may be short.
    let any_short = parts.iter().take(last).filter_map(content).any(|bytes| bytes < full);
    let guess = |(number, part): (usize, &Part)| {
        let is_last = number == last;
        match part.what {
            What::Block(_) | What::Doubtful(_) | What::Rest => None,
            _ if any_short || is_last => None,
            What::Lost(Some(blocks)) => Some(blocks * full),
            What::Lost(None) => (part.file.end - part.file.start <= full + 8).then_some(full),
        }
        .filter(|&bytes| bytes <= (part.file.end - part.file.start) * EXPANSION_MAX)
    };
    let mut sizes: Vec<_> = parts.iter().enumerate().map(guess).collect();
    // If the frame states its size, a single gap has the rest.
    let gaps = || parts.iter().enumerate().filter(|(_, part)| content(part).is_none());
    let unknown: Vec<usize> =
        gaps().map(|(number, _)| number).filter(|&number| sizes[number].is_none()).collect();
    let single = match (&unknown[..], gaps().count()) {
        (&[number], _) => Some(number),
        (&[], 1) => gaps().next().map(|(number, _)| number),
        _ => None,
    };
    if let (Some(number), Some(stated), End::At(_)) = (single, header.content_bytes, end) {
        let others: u64 = parts.iter().filter_map(content).sum::<u64>()
            + sizes
                .iter()
                .enumerate()
                .filter(|&(other, _)| other != number)
                .filter_map(|(_, size)| *size)
                .sum::<u64>();
        let file = &parts[number].file;
        let most = (file.end - file.start) * EXPANSION_MAX;
        sizes[number] = stated.checked_sub(others).filter(|&missing| missing <= most);
    }
    sizes
}
