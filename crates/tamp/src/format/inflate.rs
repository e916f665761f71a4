//! Plain gzip and zlib, which only one thread can read: a state machine over members.

use crate::buffer::Buffer;
use crate::format::gz;
use crate::format::le32;
use flate2::{Decompress, FlushDecompress, Status};

/// Deflate's maximum distance.
pub(crate) const WINDOW_BYTES: usize = 32 << 10;

/// Reads one member at a time; a header must follow each member.
pub(crate) struct Inflater {
    inflate: Decompress,
    state: State,
    crc: crc32fast::Hasher,
    /// Content of this member so far, modulo 2^32 as the trailer has it.
    content_bytes: u32,
    /// Whether this is a zlib stream: the decoder reads its header and checks its trailer.
    is_zlib: bool,
    /// Bytes that the last step consumed before it failed.
    eaten_before_error: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Body,
    Trailer,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Consumed so many bytes, and may have produced content.
    Went { eaten: usize },
    /// Needs at least this many bytes.
    Needs(usize),
    /// Consumed so many bytes to the end of the member, and its checksum is right. There may be content, too.
    Ended { eaten: usize },
}

impl Inflater {
    /// Starts at a member's header.
    pub(crate) fn new() -> Self {
        Self {
            inflate: Decompress::new(false),
            state: State::Header,
            crc: crc32fast::Hasher::new(),
            content_bytes: 0,
            is_zlib: false,
            eaten_before_error: 0,
        }
    }

    /// Starts at a zlib stream's header.
    pub(crate) fn zlib() -> Self {
        Self { inflate: Decompress::new(true), state: State::Body, is_zlib: true, ..Self::new() }
    }

    /// Starts inside a member, between two deflate blocks, behind content that ended with `window`.
    pub(crate) fn amid(crc: crc32fast::Hasher, content_bytes: u32, window: &[u8]) -> Self {
        let mut inflate = Decompress::new(false);
        let window = &window[window.len().saturating_sub(WINDOW_BYTES)..];
        if !window.is_empty() {
            // A stored block that is not the last loads the window into the decoder.
            let length = u16::try_from(window.len()).expect("the window is 32 KiB");
            let mut stored = vec![0];
            stored.extend_from_slice(&length.to_le_bytes());
            stored.extend_from_slice(&(!length).to_le_bytes());
            stored.extend_from_slice(window);
            let mut echo = vec![0; window.len()];
            let status = inflate.decompress(&stored, &mut echo, FlushDecompress::None);
            assert!(status.is_ok() && echo == window, "a stored block decodes to itself");
        }
        Self { inflate, state: State::Body, crc, content_bytes, ..Self::new() }
    }

    /// Starts at a member's first deflate block, with zeros as the content before it. A reference that damage
    /// moved to before the beginning then decodes, as it does in gzip.
    pub(crate) fn behind_zeros() -> Self {
        Self::amid(crc32fast::Hasher::new(), 0, &vec![0; WINDOW_BYTES])
    }

    /// Starts at a member's trailer.
    pub(crate) fn at_trailer(crc: crc32fast::Hasher, content_bytes: u32) -> Self {
        Self { state: State::Trailer, crc, content_bytes, ..Self::new() }
    }

    /// Whether a member's header, or the rest of one, comes next.
    pub(crate) fn is_at_header(&self) -> bool {
        self.state == State::Header
    }

    /// Returns the number of bytes that the last step consumed before it failed; they seemed valid.
    pub(crate) fn eaten_before_error(&self) -> usize {
        self.eaten_before_error
    }

    /// Continues with the next `bytes` of the source; overwrites `content` with at most `room` bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with the member.
    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        room: usize,
        content: &mut Buffer,
    ) -> Result<Step, &'static str> {
        content.set_len(0);
        self.eaten_before_error = 0;
        match self.state {
            State::Header => match gz::header(bytes)? {
                None => Ok(Step::Needs(bytes.len() + 1)),
                Some(header) => {
                    *self = Self { state: State::Body, ..Self::new() };
                    Ok(Step::Went { eaten: header.own_bytes })
                }
            },
            State::Body => self.inflate(bytes, room, content),
            State::Trailer => {
                let Some(trailer) = bytes.get(..gz::TRAILER_BYTES) else {
                    return Ok(Step::Needs(gz::TRAILER_BYTES));
                };
                if le32(trailer) != self.crc.clone().finalize() || le32(&trailer[4..]) != self.content_bytes {
                    return Err("a gzip member with a wrong checksum");
                }
                self.state = State::Header;
                Ok(Step::Ended { eaten: gz::TRAILER_BYTES })
            }
        }
    }

    fn inflate(&mut self, bytes: &[u8], room: usize, content: &mut Buffer) -> Result<Step, &'static str> {
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(bytes, content.room(room), FlushDecompress::None);
        let eaten = usize::try_from(self.inflate.total_in() - before.0).expect("no more than was given");
        let made = usize::try_from(self.inflate.total_out() - before.1).expect("no more than there was room");
        // After an error, the content before the damage is there.
        content.set_len(made);
        self.eaten_before_error = eaten;
        let status = status.map_err(|_| {
            if self.is_zlib {
                "a zlib stream that does not decode"
            } else {
                "a gzip member that does not decode"
            }
        })?;
        if !self.is_zlib {
            self.crc.update(content);
        }
        self.content_bytes = self.content_bytes.wrapping_add(u32::try_from(made).expect("room is small"));
        if status == Status::StreamEnd {
            self.state = if self.is_zlib { State::Header } else { State::Trailer };
            if self.is_zlib {
                self.is_zlib = false;
                return Ok(Step::Ended { eaten });
            }
        } else if eaten == 0 && made == 0 {
            return Ok(Step::Needs(bytes.len() + 1));
        }
        Ok(Step::Went { eaten })
    }
}

/// Returns the length of the whole member that `bytes` begin with.
pub(crate) fn member_bytes(bytes: &[u8]) -> Option<usize> {
    const ROOM_BYTES: usize = 64 << 10;
    let (mut inflater, mut content, mut at) = (Inflater::new(), Buffer::default(), 0);
    loop {
        match inflater.step(&bytes[at..], ROOM_BYTES, &mut content) {
            Ok(Step::Went { eaten }) => at += eaten,
            Ok(Step::Ended { eaten }) => return Some(at + eaten),
            Ok(Step::Needs(_)) | Err(_) => return None,
        }
    }
}

/// Result of decoding a run of deflate blocks without the content before it.
#[derive(Debug)]
pub(crate) enum Segment {
    /// The run is independent and ends between two blocks.
    Whole,
    /// The run is independent, and the deflate stream ends after so many bytes of it.
    Last(usize),
    /// The run needs the content before it, or is not a run of whole blocks.
    Dependent,
}

/// Decodes a segment written by `pigz -i`: whole blocks up to a flush, without references to earlier content.
pub(crate) fn segment(bytes: &[u8], content_bytes_max: usize, content: &mut Buffer) -> Segment {
    /// A stored block of one byte, then an empty final block. They decode as such only if `bytes` end between
    /// two blocks: inside a block these bits mean something else.
    const PROBE: [u8; 8] = [0, 1, 0, 0xfe, 0xff, b'X', 3, 0];
    let mut inflate = Decompress::new(false);
    let mut made = 0;
    content.set_len(0);
    loop {
        let room = (made * 2).clamp(256 << 10, content_bytes_max);
        let eaten = usize::try_from(inflate.total_in()).expect("no more than was given");
        let step =
            inflate.decompress(&bytes[eaten..], &mut content.room(room)[made..], FlushDecompress::None);
        made = usize::try_from(inflate.total_out()).expect("no more than there was room");
        let eaten = usize::try_from(inflate.total_in()).expect("no more than was given");
        content.set_len(made);
        match step {
            Ok(Status::StreamEnd) => return Segment::Last(eaten),
            Ok(_) if made == room && room < content_bytes_max => {}
            Ok(_) if made < room && eaten == bytes.len() => break,
            _ => return Segment::Dependent,
        }
    }
    let mut echo = [0; 2];
    let ended =
        matches!(inflate.decompress(&PROBE, &mut echo, FlushDecompress::Finish), Ok(Status::StreamEnd));
    let ate_all = inflate.total_in() == (bytes.len() + PROBE.len()) as u64;
    let said_x = inflate.total_out() == made as u64 + 1 && echo[0] == b'X';
    if ended && ate_all && said_x { Segment::Whole } else { Segment::Dependent }
}
