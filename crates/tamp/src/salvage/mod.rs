//! Recovery of a damaged file: what can be read of it, and what cannot.
//!
//! A file is read from its beginning, part by part: frames, members, skippable frames. Content that decodes
//! and passes its checksum is right. A damaged frame is decoded up to its damage; the lengths of its blocks
//! ([`walk`]) give its end, so the damage does not affect later parts. Only if these lengths contradict each
//! other, or if nothing known begins at that end, salvage searches for the next beginning ([`search`]). A
//! seek table that is proven by its checksum lists the beginnings of frames; nothing else depends on it.

mod beginning;
mod effort;
mod frame;
mod gzip;
mod lz4;
mod search;
mod source;
mod walk;

use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::ending::{Ending, Problem};
use crate::format::{Magic, zst};
use crate::index::zst::Table;
use crate::index::{self, Entry, Hops};
use crate::{Dictionary, Error, ReadOptions};
use gzip::Wrapper;
use source::Source;
use std::cell::RefCell;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use walk::{Found, Kind, Reach};

/// Bytes read at once when looking for zeros.
const ZEROS_BYTES: usize = 64 << 10;

/// A part of the compressed file that is unreadable or not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Bytes of the compressed file.
    pub file: Range<u64>,
    /// Position in the output.
    pub content_at: u64,
    /// Size of the content. `None`: unknown, and the output has nothing in its place.
    pub content_bytes: Option<u64>,
    /// State of the content.
    pub what: Lost,
}

/// State of content that is lost or not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// Unreadable; replaced by zeros if its size is known.
    Gone,
    /// Decoded and written, but not proven by a checksum.
    Unproven,
    /// Found by searching behind damage, decoded, and proven by its checksums. It may be a compressed file
    /// inside the lost content.
    Searched,
    /// The file is unfinished: the content behind `content_at` is missing.
    Unfinished,
    /// All content is intact: this part of the list that tamp writes behind its frames is damaged, and the
    /// other part proves the frames.
    Index(&'static str),
    /// Probably no content is lost: bytes other than a member follow gzip, or zeros follow Zstandard frames.
    Trailing,
    /// Reading the frame needs more memory than the limit.
    TooLarge {
        /// The frame's window.
        needed_bytes: u64,
    },
    /// The frame was compressed with a dictionary that was not given; zeros replace its content if the size
    /// is known.
    NeedsDictionary {
        /// The dictionary's number.
        id: u32,
    },
    /// The disk cannot read this part of the file, or the file became shorter. It was decoded as zeros;
    /// another loss reports the result.
    Unreadable,
}

/// Writes all readable content of `source` to `out`, with zeros for unreadable content of known size.
///
/// The content of a damaged frame before the damage is written and reported as [`Lost::Unproven`]. An empty
/// list means that the file is whole, and that the output is its content.
///
/// # Errors
///
/// Errors of reading `source`, except parts that a disk cannot read, and of writing `out`; [`Error::Empty`];
/// [`Error::UnknownFormat`] if nothing in the file is readable; [`Error::NeedsDictionary`] if nothing is
/// readable without a dictionary. Damage is returned, not an error.
pub fn salvage<R: Read + Seek>(
    source: R,
    options: &ReadOptions,
    out: &mut dyn Write,
) -> Result<Vec<Loss>, Error> {
    let dictionary = options.dictionary.as_ref();
    with_decoder(source, options, Decoder::new(dictionary), out)
}

/// Variant of [`salvage`] for frames that may refer to `reference`. It raises the memory limit to four times
/// the reference's size.
///
/// # Errors
///
/// The same as of [`salvage`].
pub fn salvage_frame<R: Read + Seek>(
    source: R,
    reference: &[u8],
    options: &ReadOptions,
    out: &mut dyn Write,
) -> Result<Vec<Loss>, Error> {
    let memory_bytes = options.memory_bytes.max(4 * reference.len() as u64);
    let options = ReadOptions { memory_bytes, dictionary: None, ..options.clone() };
    with_decoder(source, &options, Decoder::over(reference), out)
}

fn with_decoder<R: Read + Seek>(
    source: R,
    options: &ReadOptions,
    decoder: Decoder<'_>,
    out: &mut dyn Write,
) -> Result<Vec<Loss>, Error> {
    let source = RefCell::new(Source::new(source)?);
    let file_bytes = source.borrow().file_bytes();
    if file_bytes == 0 {
        return Err(Error::Empty);
    }
    let mut read_at = |buffer: &mut [u8], at: u64| source.borrow_mut().read_at(buffer, at);
    let unreadable = |from: u64, to: u64| source.borrow().unreadable(from, to);
    let mut file = Hops::new(file_bytes, &mut read_at);
    let hints = Hints::read(&mut file)?;
    // Zeros after a proven seek table are not part of the file.
    let padding = file.file_bytes..file_bytes;
    let salvage = Salvage {
        file,
        unreadable: &unreadable,
        hints,
        options: ReadOptions { threads: 1, ..options.clone() },
        dictionary_id: options.dictionary.as_ref().map_or(0, Dictionary::id),
        output: Output { out, written: 0, zeros: 0, losses: Vec::new() },
        decoder,
        content: Buffer::default(),
        ending: Ending::new(),
        found: None,
        searched: None,
        behind: Behind::Other,
        padding,
    };
    match salvage.run() {
        // An unreadable beginning may be of any format.
        Err(Error::UnknownFormat { offset }) => {
            let error = source.borrow().error();
            Err(error.map_or(Error::UnknownFormat { offset }, Error::Io))
        }
        salvaged => salvaged,
    }
}

struct Salvage<'a> {
    file: Hops<'a>,
    /// Returns the parts between two offsets that could not be read so far.
    unreadable: &'a dyn Fn(u64, u64) -> Vec<Range<u64>>,
    hints: Hints,
    options: ReadOptions,
    dictionary_id: u32,
    output: Output<'a>,
    decoder: Decoder<'a>,
    content: Buffer,
    ending: Ending,
    /// Offset at which the search found the next beginning.
    found: Option<u64>,
    /// Beginning of what was read since, in the file and in the output.
    searched: Option<(u64, u64)>,
    /// The last part, if it was whole.
    behind: Behind,
    /// Zeros behind the proven seek table.
    padding: Range<u64>,
}

/// Content that may be ignored behind the last part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// Anything but a member, as in gzip.
    Gzip,
    /// Zeros.
    Zst,
    Other,
}

impl Salvage<'_> {
    fn run(mut self) -> Result<Vec<Loss>, Error> {
        let (mut at, file_bytes) = (0, self.file.file_bytes);
        let mut noted: Option<(Problem, u64)> = None;
        while at < file_bytes {
            let written = self.output.written;
            let is_found = self.found.take_if(|found| *found == at).is_some();
            if is_found || self.hints.has(at) {
                self.end_searched(at);
                self.searched = is_found.then_some((at, written));
            }
            let losses = self.output.losses.len();
            let next = self.thing(at)?;
            self.tell_unreadable(at..next, written, losses);
            at = next;
            if noted.map(|(problem, _)| problem) != self.ending.noted() {
                noted = self.ending.noted().map(|problem| (problem, written));
            }
        }
        self.end_searched(file_bytes);
        if !self.padding.is_empty() {
            let padding = self.padding.clone();
            self.tell_unreadable(padding.clone(), self.output.written, 0);
            self.output.trailing(padding);
        }
        if let Some(id) = self.needs_dictionary_only() {
            return Err(Error::NeedsDictionary { offset: self.output.losses[0].file.start, id });
        }
        self.output.finish()?;
        let end = self.output.written;
        let problem = self
            .ending
            .finish(file_bytes)
            .map(|problem| noted.filter(|&(known, _)| known == problem).unwrap_or((problem, end)));
        let loss = problem.map(|(problem, content_at)| match problem {
            Problem::Index(offset, part) => {
                let what = Lost::Index(part);
                Loss { file: offset..file_bytes, content_at, content_bytes: None, what }
            }
            Problem::Unfinished(offset) => {
                Loss { file: offset..offset, content_at, content_bytes: None, what: Lost::Unfinished }
            }
            Problem::Other(offset) => {
                Loss { file: 0..offset, content_at: 0, content_bytes: Some(content_at), what: Lost::Unproven }
            }
        });
        self.output.losses.extend(loss);
        Ok(self.output.losses)
    }

    /// Reports unreadable parts of `part`, which has its content at `content_at`. Content decoded from the
    /// zeros in their place is reported as not proven, unless a loss was added since there were `losses`.
    fn tell_unreadable(&mut self, part: Range<u64>, content_at: u64, losses: usize) {
        let unreadable = (self.unreadable)(part.start, part.end);
        if !unreadable.is_empty() && self.output.written > content_at && self.output.losses.len() == losses {
            self.output.doubt(part, content_at);
        }
        let what = Lost::Unreadable;
        let losses = unreadable.into_iter().map(|file| Loss { file, content_at, content_bytes: None, what });
        self.output.losses.extend(losses);
    }

    /// Returns the dictionary of the first frame, if nothing is readable without it.
    fn needs_dictionary_only(&self) -> Option<u32> {
        match self.output.losses.first()?.what {
            Lost::NeedsDictionary { id } if self.output.zeros == self.output.written => Some(id),
            _ => None,
        }
    }

    /// Writes the part at `at`; returns the offset of the next part.
    fn thing(&mut self, at: u64) -> Result<u64, Error> {
        let behind = std::mem::replace(&mut self.behind, Behind::Other);
        if !matches!(Magic::of(self.file.show(at, 4)?), Some(Magic::Zst))
            && let Some(end) = index::zst::take_tail(&mut self.file, at, &mut self.ending)?
        {
            self.behind = Behind::Zst;
            return Ok(end);
        }
        let Found { kind, reach } = walk::at(&mut self.file, at)?;
        match kind {
            Kind::Zst(header) => self.zst(at, &header, reach),
            Kind::Skippable => {
                let Reach::To(end) = reach else { return self.remains(at, behind) };
                // Zeros are ignored behind such frames, too.
                if self.confirmed(Some(end))?.is_none()
                    && zeros_end(&mut self.file, end)? < self.file.file_bytes
                {
                    return self.remains(at, behind);
                }
                self.behind = Behind::Zst;
                Ok(end)
            }
            Kind::Lz4(header) => self.lz4(at, &header, reach),
            Kind::Gzip(header) => self.gzip(at, &header, reach),
            Kind::Zlib => self.member(at, Wrapper::Zlib),
            Kind::Nothing => self.remains(at, behind),
        }
    }

    /// Skips a part that has no length, or does not end at it.
    fn remains(&mut self, at: u64, behind: Behind) -> Result<u64, Error> {
        let file_bytes = self.file.file_bytes;
        let footer_at = file_bytes.saturating_sub(zst::SEEK_FOOTER_BYTES as u64);
        let is_ended = zst::seek_table_bytes(self.file.show(footer_at, zst::SEEK_FOOTER_BYTES)?).is_some();
        let next = self.next(None, at, at + 1)?;
        let is_ignored = match behind {
            Behind::Gzip => true,
            Behind::Zst => zeros_end(&mut self.file, at)? == file_bytes,
            Behind::Other => false,
        };
        if is_ignored && next == file_bytes {
            self.ending.other(at);
            self.output.trailing(at..next);
            return Ok(next);
        }
        let begins_tail = zst::begins_tail(self.file.show(at, zst::END_BYTES)?);
        if begins_tail && !is_ended && next == file_bytes && self.output.written > 0 {
            self.ending.gap();
            self.output.end(file_bytes);
            return Ok(file_bytes);
        }
        self.lose_up_to(next, at, at)
    }

    /// Returns `end`, if a known beginning, the end of the file or a frame of the seek table is there.
    fn confirmed(&mut self, end: Option<u64>) -> Result<Option<u64>, Error> {
        let Some(end) = end else { return Ok(None) };
        let is_end = end == self.file.file_bytes || self.hints.has(end) || walk::begins(&mut self.file, end)?;
        Ok(is_end.then_some(end))
    }

    /// Returns the next beginning behind a damaged part at `at`, which is read up to `from`.
    fn next(&mut self, known_end: Option<u64>, at: u64, from: u64) -> Result<u64, Error> {
        if let Some(end) = known_end {
            return Ok(end);
        }
        if let Some(hinted) = self.hints.next(at + 1)
            && (self.hints.is_proven
                || (!effort::is_spent(&self.file) && walk::begins(&mut self.file, hinted)?))
        {
            return Ok(hinted);
        }
        self.found = search::next(&mut self.file, &self.options, at, from)?;
        Ok(self.found.unwrap_or(self.file.file_bytes))
    }

    /// Reports what was read since the search found a beginning, up to `at`.
    fn end_searched(&mut self, at: u64) {
        if let Some((from, content_at)) = self.searched.take()
            && self.output.written > content_at
        {
            let content_bytes = Some(self.output.written - content_at);
            let what = Lost::Searched;
            self.output.losses.push(Loss { file: from..at, content_at, content_bytes, what });
        }
    }

    /// Gives up the part from `at` to `next`, which is written up to `from`.
    fn lose_up_to(&mut self, next: u64, at: u64, from: u64) -> Result<u64, Error> {
        if at == 0 && next == self.file.file_bytes && self.output.written == 0 {
            return Err(Error::UnknownFormat { offset: 0 });
        }
        self.ending.gap();
        let missing = self.hints.missing(next, self.output.written);
        self.output.lose(from.min(next)..next, missing);
        Ok(next)
    }
}

/// Returns the end of the zeros that begin at `at`.
fn zeros_end(file: &mut Hops<'_>, mut at: u64) -> Result<u64, Error> {
    // Most parts have no zeros behind them; reading many bytes behind each part would take long.
    let mut wanted = 1;
    loop {
        let shown = file.show(at, wanted)?;
        let zeros = shown.iter().take_while(|&&byte| byte == 0).count();
        at += zeros as u64;
        if zeros < shown.len() || zeros == 0 {
            return Ok(at);
        }
        wanted = ZEROS_BYTES;
    }
}

/// Returns the beginning of the zeros at the end of the file.
fn zeros_begin(file: &mut Hops<'_>) -> Result<u64, Error> {
    let mut end = file.file_bytes;
    while end > 0 {
        let from = end.saturating_sub(ZEROS_BYTES as u64);
        let bytes = usize::try_from(end - from).expect("a few bytes");
        let shown = file.show(from, bytes)?;
        let zeros = shown.iter().take(bytes).rev().take_while(|&&byte| byte == 0).count();
        end -= zeros as u64;
        if zeros < bytes {
            break;
        }
    }
    Ok(end)
}

/// Reason that decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The end, with every checksum right.
    Whole,
    /// The end of the bytes, in a block that begins at this offset.
    Cut {
        block_at: u64,
    },
    Damage,
}

/// Entries of the seek table, if there is one.
struct Hints {
    entries: Vec<Entry>,
    is_proven: bool,
}

impl Hints {
    /// Reads the table at the end of `file`. Cuts zeros behind it from `file`.
    fn read(file: &mut Hops<'_>) -> Result<Self, Error> {
        let file_bytes = file.file_bytes;
        let mut table = Table::read(file)?;
        if table.is_none() {
            file.file_bytes = zeros_begin(file)?;
            table = Table::read(file)?.filter(|table| table.is_proven);
        }
        if table.is_none() {
            file.file_bytes = file_bytes;
        }
        Ok(table.map_or(Self { entries: Vec::new(), is_proven: false }, |table| Self {
            entries: table.index.entries,
            is_proven: table.is_proven,
        }))
    }

    /// Returns the offset of the first frame at or behind `from`, or the end of the last one.
    fn next(&self, from: u64) -> Option<u64> {
        let number = self.entries.partition_point(|entry| entry.at < from);
        let end = self.entries.last().map(Entry::end).filter(|&end| end >= from);
        self.entries.get(number).map(|entry| entry.at).or(end)
    }

    /// Whether a proven table has a frame at `at`, or the end of the last one.
    fn has(&self, at: u64) -> bool {
        self.is_proven && self.next(at) == Some(at)
    }

    /// Returns the size of the content missing before offset `at` of the file, if `written` bytes are written
    /// so far.
    fn missing(&self, at: u64, written: u64) -> Option<u64> {
        if !self.is_proven {
            return None;
        }
        let number = self.entries.partition_point(|entry| entry.at < at);
        let content_at = match self.entries.get(number) {
            Some(entry) => (entry.at == at).then_some(entry.content_at),
            None => self.entries.last().filter(|last| last.end() == at).map(Entry::content_end),
        };
        content_at.and_then(|content_at| content_at.checked_sub(written))
    }
}

struct Output<'a> {
    out: &'a mut dyn Write,
    written: u64,
    /// Number of zeros at the end of the output. They are written only before more content: without it, there
    /// may have been no content.
    zeros: u64,
    losses: Vec<Loss>,
}

impl Output<'_> {
    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        self.finish()?;
        self.written += content.len() as u64;
        self.out.write_all(content)
    }

    /// Writes the last zeros.
    fn finish(&mut self) -> io::Result<()> {
        io::copy(&mut io::repeat(0).take(std::mem::take(&mut self.zeros)), self.out).map(drop)
    }

    /// Reports damage in `file`; writes zeros for `content_bytes`, if known.
    fn lose(&mut self, file: Range<u64>, content_bytes: Option<u64>) {
        self.lose_as(Lost::Gone, file, content_bytes);
    }

    /// Reports that `file` was not decoded because of `what`; writes zeros for `content_bytes`, if known.
    fn lose_as(&mut self, what: Lost, file: Range<u64>, content_bytes: Option<u64>) {
        self.losses.push(Loss { file, content_at: self.written, content_bytes, what });
        self.zeros += content_bytes.unwrap_or(0);
        self.written += content_bytes.unwrap_or(0);
    }

    /// Reports that `file` is ignored.
    fn trailing(&mut self, file: Range<u64>) {
        let what = Lost::Trailing;
        self.losses.push(Loss { file, content_at: self.written, content_bytes: None, what });
    }

    /// Reports that the file ends at `at`, before its end.
    fn end(&mut self, at: u64) {
        let what = Lost::Unfinished;
        self.losses.push(Loss { file: at..at, content_at: self.written, content_bytes: None, what });
    }

    /// Reports that no checksum proves the content from `content_at` on.
    fn doubt(&mut self, file: Range<u64>, content_at: u64) {
        let content_bytes = Some(self.written - content_at);
        self.losses.push(Loss { file, content_at, content_bytes, what: Lost::Unproven });
    }
}

#[cfg(test)]
mod tests;
