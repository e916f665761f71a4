//! Restores the order of pieces, and makes the checks that need it.

use crate::Error;
use crate::buffer::{Buffer, Spare};
use crate::decode::{Piece, Then};
use crate::format::inflate::{Inflater, Segment, Step, WINDOW_BYTES};
use crate::format::{OTHER_FORMAT, begins_other_format, gz};
use crate::split::{Hashed, UNIT_BYTES_MAX};
use std::hash::Hasher;
use std::sync::Arc;
use twox_hash::XxHash32;

/// Maximum content of one step of the serial fallback.
const STEP_BYTES: usize = 256 << 10;

/// Checks pieces in order and passes their content on.
pub(crate) struct Joiner {
    spare: Arc<Spare>,
    lz4_hash: XxHash32,
    lz4_content_bytes: u64,
    gzip: Gzip,
    fell_back: bool,
    trailing_garbage: Option<u64>,
}

/// State of a gzip stream that is decoded in segments.
enum Gzip {
    Between,
    /// All segments of the member were independent so far.
    Parallel {
        member_at: u64,
        crc: crc32fast::Hasher,
        content_bytes: u32,
        window: Vec<u8>,
    },
    /// A segment was dependent, or the member ended: one decoder takes everything that follows.
    Serial(Box<Serial>),
}

/// A single decoder for the rest of a gzip stream.
struct Serial {
    member_at: u64,
    inflater: Inflater,
    /// Compressed bytes to decode; the first `taken` are consumed.
    pending: Vec<u8>,
    taken: usize,
    /// Offset of the first byte of `pending` in the source.
    pending_at: u64,
    inside: bool,
}

impl Joiner {
    pub(crate) fn new(spare: Arc<Spare>) -> Self {
        Self {
            spare,
            lz4_hash: XxHash32::with_seed(0),
            lz4_content_bytes: 0,
            gzip: Gzip::Between,
            fell_back: false,
            trailing_garbage: None,
        }
    }

    /// Whether segments depended on each other, so this thread decodes the stream alone.
    pub(crate) fn fell_back(&self) -> bool {
        self.fell_back
    }

    /// Offset of trailing garbage; see [`crate::split::Splitter::trailing_garbage`].
    pub(crate) fn trailing_garbage(&self) -> Option<u64> {
        match &self.gzip {
            Gzip::Serial(serial) => self.trailing_garbage.or(serial.left_over()),
            Gzip::Between | Gzip::Parallel { .. } => self.trailing_garbage,
        }
    }

    /// Makes the checks that are due after `piece`; returns its content. Call [`Joiner::more`] afterwards.
    pub(crate) fn join(&mut self, piece: Piece) -> Result<Buffer, Error> {
        let content = piece.content;
        match piece.then {
            Then::Nothing => {}
            Then::Lz4(Hashed(hashed)) => {
                self.lz4_content_bytes += content.len() as u64;
                if hashed {
                    self.lz4_hash.write(&content);
                }
            }
            Then::Lz4End { offset, checksum, content_bytes } => {
                let hash = std::mem::replace(&mut self.lz4_hash, XxHash32::with_seed(0)).finish_32();
                let found_bytes = std::mem::take(&mut self.lz4_content_bytes);
                if checksum.is_some_and(|checksum| checksum != hash) {
                    return Err(Error::Damaged { offset, what: "an lz4 frame with a wrong checksum" });
                }
                if content_bytes.is_some_and(|stated| stated != found_bytes) {
                    return Err(Error::Damaged { offset, what: "an lz4 frame with a wrong content size" });
                }
            }
            Then::Segment { offset, bytes, first, found, crc } => {
                if first {
                    let crc = crc32fast::Hasher::new();
                    self.gzip =
                        Gzip::Parallel { member_at: offset, crc, content_bytes: 0, window: Vec::new() };
                }
                let counts = self.segment(offset, &bytes, &found, &crc, &content);
                self.spare.put(bytes);
                if !counts {
                    // The serial decoder produces all of this segment's content; the worker's part is
                    // discarded.
                    self.spare.put(content);
                    return Ok(Buffer::default());
                }
            }
        }
        Ok(content)
    }

    /// Returns more content of the serial decoder; `None` if it needs another piece.
    pub(crate) fn more(&mut self) -> Option<Result<Buffer, Error>> {
        let Gzip::Serial(serial) = &mut self.gzip else { return None };
        let mut content = self.spare.get();
        let made = serial.advance(&mut content, &mut self.trailing_garbage);
        if matches!(made, Ok(false)) {
            self.spare.put(content);
            return None;
        }
        Some(made.map(|_| content))
    }

    /// Checks that the stream does not end inside a member.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match &self.gzip {
            Gzip::Between => Ok(()),
            Gzip::Serial(serial) if !serial.inside => Ok(()),
            Gzip::Serial(serial) => Err(serial.cut()),
            Gzip::Parallel { member_at, .. } => {
                Err(Error::Truncated { offset: *member_at, what: "a gzip member" })
            }
        }
    }

    /// Notes a segment; `false` if the worker's content must be discarded.
    fn segment(
        &mut self,
        offset: u64,
        bytes: &[u8],
        found: &Segment,
        segment_crc: &crc32fast::Hasher,
        content: &[u8],
    ) -> bool {
        let (member_at, crc, content_bytes, window) = match &mut self.gzip {
            Gzip::Parallel { member_at, crc, content_bytes, window } => {
                (*member_at, crc, content_bytes, window)
            }
            Gzip::Serial(serial) => {
                // Even if a worker could decode the segment, its content is wrong here.
                serial.append(bytes);
                return false;
            }
            Gzip::Between => unreachable!("a segment belongs to a member"),
        };
        let counts = !matches!(found, Segment::Dependent);
        let (inflater, from) = match *found {
            Segment::Dependent => {
                self.fell_back = true;
                (Inflater::amid(crc.clone(), *content_bytes, window), 0)
            }
            Segment::Whole | Segment::Last(_) => {
                crc.combine(segment_crc);
                let bytes = u32::try_from(content.len()).expect("a unit is small");
                *content_bytes = content_bytes.wrapping_add(bytes);
                let keep = content.len().saturating_sub(WINDOW_BYTES);
                window.extend_from_slice(&content[keep..]);
                let excess = window.len().saturating_sub(WINDOW_BYTES);
                window.drain(..excess);
                let Segment::Last(from) = *found else { return true };
                (Inflater::at_trailer(crc.clone(), *content_bytes), from)
            }
        };
        self.gzip = Gzip::Serial(Box::new(Serial {
            member_at,
            inflater,
            pending: bytes[from..].to_vec(),
            taken: 0,
            pending_at: offset + from as u64,
            inside: true,
        }));
        counts
    }
}

impl Serial {
    fn append(&mut self, bytes: &[u8]) {
        self.pending.drain(..self.taken);
        self.pending_at += self.taken as u64;
        self.taken = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// Produces the next content; `false` if it needs more bytes.
    fn advance(&mut self, content: &mut Buffer, garbage: &mut Option<u64>) -> Result<bool, Error> {
        loop {
            if !self.inside && !self.enter(garbage)? {
                return Ok(false);
            }
            let step = self
                .inflater
                .step(&self.pending[self.taken..], STEP_BYTES, content)
                .map_err(|what| Error::Damaged { offset: self.member_at, what })?;
            match step {
                // A header is parsed as a whole, so the splitter's limit applies.
                Step::Needs(_) if self.pending.len() - self.taken > UNIT_BYTES_MAX => return Err(self.cut()),
                Step::Needs(_) => return Ok(false),
                Step::Went { eaten } => self.taken += eaten,
                Step::Ended { eaten } => {
                    self.taken += eaten;
                    self.inside = false;
                }
            }
            if !content.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Returns the error of a member that does not end.
    fn cut(&self) -> Error {
        let what = if self.inflater.is_at_header() { "a gzip header" } else { "a gzip member" };
        Error::Truncated { offset: self.member_at, what }
    }

    /// Between members: skips padding, and skips other garbage with a warning.
    fn enter(&mut self, garbage: &mut Option<u64>) -> Result<bool, Error> {
        if garbage.is_none() {
            self.taken += self.pending[self.taken..].iter().take_while(|&&byte| byte == 0).count();
        }
        let (rest, offset) = (&self.pending[self.taken..], self.pending_at + self.taken as u64);
        if garbage.is_none() && rest.starts_with(&gz::MAGIC) {
            (self.member_at, self.inside) = (offset, true);
        } else if garbage.is_some() {
            self.taken = self.pending.len();
        } else if let Some(word) = rest.get(..4) {
            if begins_other_format(word) {
                return Err(Error::Unsupported { offset, what: OTHER_FORMAT });
            }
            *garbage = Some(offset);
            self.taken = self.pending.len();
        }
        Ok(self.inside)
    }

    /// Offset of the bytes that are left over, too few to be a header.
    fn left_over(&self) -> Option<u64> {
        (!self.inside && self.taken < self.pending.len()).then(|| self.pending_at + self.taken as u64)
    }
}

impl std::fmt::Debug for Joiner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joiner").field("fell_back", &self.fell_back).finish_non_exhaustive()
    }
}
