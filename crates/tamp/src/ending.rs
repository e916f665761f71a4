//! Whether a file ends where its writer ended it.
//!
//! If a pipe breaks between two blocks, every block in the file is intact. So tamp writes an end frame that
//! lists its frames, and BGZF ends with an empty block: a file without it is *unfinished*. The end frame also
//! shows whether frames were lost, exchanged or repeated, though each is valid by itself.
//!
//! The seek table behind the end frame lists the same frames once more. If one of the two is damaged, the
//! other proves the frames.

use crate::Error;
use crate::format::zst::{End, Seek, TableCheck};
use std::hash::Hasher;
use twox_hash::XxHash64;

/// Follows the parts of a file, in order.
#[derive(Clone)]
pub(crate) struct Ending {
    /// Number of tamp's frames since the last end frame.
    own_frames: u64,
    /// Hash of their entries in the seek table.
    hash: XxHash64,
    /// Conclusions that the number and the hash allow.
    known: Known,
    /// Whether the last part was a frame of tamp. If an unread part follows, the end frame may be in it.
    in_own: bool,
    /// Frames of the end frame, if that was the last part.
    listed: Option<Listed>,
    /// Whether the last part was a BGZF block with content.
    in_bgzf: bool,
    problem: Option<Problem>,
}

/// Extent of what was read since the last end frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    All,
    /// Every frame was found, and some are damaged.
    Number,
    /// Unread parts may hold any number of frames.
    Nothing,
}

/// Frames before an end frame, as found in the file.
#[derive(Clone, Copy)]
struct Listed {
    /// Offset of the end frame.
    at: u64,
    frames: u64,
    /// The number of frames that the end frame states.
    stated: Option<u64>,
    /// Hash of their entries; `None` if some are damaged.
    hash: Option<u64>,
    /// Problem to report unless the seek table lists the frames that were found.
    problem: Option<Problem>,
}

const END_FRAME: &str = "the list of frames";
const SEEK_TABLE: &str = "the seek table";

/// A part of what tamp writes behind its frames.
pub(crate) enum Tail {
    /// The end frame.
    List,
    /// The seek table.
    Table(TableCheck),
}

/// A problem with the order of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The end frame or the seek table at this offset is damaged. The other proves the frames.
    Index(u64, &'static str),
    /// A part should have ended before this offset.
    Unfinished(u64),
    /// The frames before this offset are missing, repeated or changed.
    Other(u64),
}

impl Problem {
    /// Offset that it names.
    pub(crate) fn offset(self) -> u64 {
        let (Self::Index(offset, _) | Self::Unfinished(offset) | Self::Other(offset)) = self;
        offset
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Unfinished(offset) => Self::Unfinished { offset },
            Problem::Index(offset, what) => Self::Index { offset, what },
            Problem::Other(offset) => {
                let what = "frames before it are missing, repeated, changed or in another order";
                Self::Damaged { offset, what }
            }
        }
    }
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self {
            own_frames: 0,
            hash: XxHash64::with_seed(0),
            known: Known::All,
            in_own: false,
            listed: None,
            in_bgzf: false,
            problem: None,
        }
    }

    /// Notes that a Zstandard frame begins at `offset`.
    pub(crate) fn zst(&mut self, offset: u64, is_own: bool) {
        if is_own {
            self.end_listed();
            self.end_bgzf(offset);
            self.own_frames += 1;
            self.in_own = true;
        } else {
            self.other(offset);
        }
    }

    /// Notes the entry of the last frame of tamp.
    pub(crate) fn own(&mut self, seek: Seek) {
        self.hash.write(&seek.entry());
    }

    /// Notes that the last frame is damaged.
    pub(crate) fn damaged(&mut self) {
        if self.known == Known::All {
            self.known = Known::Number;
        }
    }

    /// Notes that a part was skipped unread.
    pub(crate) fn gap(&mut self) {
        self.end_listed();
        (self.known, self.in_own, self.in_bgzf) = (Known::Nothing, false, false);
    }

    /// Returns the part of tamp's tail that `bytes` begin, even if a bit of its header is flipped. `bytes`
    /// are at least an end frame, unless the file ends before.
    pub(crate) fn tail(&self, bytes: &[u8]) -> Option<Tail> {
        if End::read(bytes).is_some() || (self.own_frames > 0 && End::resembles(bytes)) {
            return Some(Tail::List);
        }
        let listed = self.listed?;
        let stated = listed.stated.filter(|&stated| TableCheck::new(stated).begins(bytes));
        let check = TableCheck::new(stated.unwrap_or(listed.frames));
        check.resembles(bytes).then_some(Tail::Table(check))
    }

    /// Notes an end frame at `offset`.
    pub(crate) fn list(&mut self, offset: u64, bytes: &[u8]) {
        self.end_listed();
        self.end_bgzf(offset);
        let hash = std::mem::replace(&mut self.hash, XxHash64::with_seed(0)).finish();
        let frames = std::mem::take(&mut self.own_frames);
        let known = std::mem::replace(&mut self.known, Known::All);
        self.in_own = false;
        let hash = (known == Known::All).then_some(hash);
        let stated = End::read(bytes);
        let problem = match stated {
            _ if known == Known::Nothing => None,
            Some(end) if end.frames == frames && hash.is_none_or(|hash| hash == end.hash) => None,
            // The frames in front lost their own end frame, or are repeated.
            Some(end) if frames > end.frames => Some(Problem::Unfinished(offset)),
            _ => Some(Problem::Other(offset)),
        };
        let stated = stated.map(|end| end.frames);
        self.listed = Some(Listed { at: offset, frames, stated, hash, problem });
    }

    /// Notes a seek table at `offset`.
    pub(crate) fn table(&mut self, offset: u64, check: &TableCheck) {
        let Some(listed) = self.listed.take() else { return };
        match (listed.problem, listed.hash.map(|hash| check.is_of(hash))) {
            (None, None | Some(true)) => {}
            (None, Some(false)) => self.note(Problem::Index(offset, SEEK_TABLE)),
            (Some(_), Some(true)) => self.note(Problem::Index(listed.at, END_FRAME)),
            (Some(problem), None | Some(false)) => self.note(problem),
        }
    }

    /// Notes BGZF blocks at `offset`; `is_end` if the last of them is empty.
    pub(crate) fn bgzf(&mut self, offset: u64, is_end: bool) {
        self.end_listed();
        self.end_own(offset);
        self.in_bgzf = !is_end;
    }

    /// Notes a part at `offset` that marks its own end.
    pub(crate) fn other(&mut self, offset: u64) {
        self.end_listed();
        self.end_own(offset);
        self.end_bgzf(offset);
    }

    /// Returns the problem found so far.
    pub(crate) fn noted(&self) -> Option<Problem> {
        self.problem
    }

    /// Notes the end of the file at `offset`; returns the problem, if any.
    pub(crate) fn finish(mut self, offset: u64) -> Option<Problem> {
        self.other(offset);
        self.problem
    }

    /// Notes that no seek table follows the end frame.
    fn end_listed(&mut self) {
        if let Some(problem) = self.listed.take().and_then(|listed| listed.problem) {
            self.note(problem);
        }
    }

    fn end_own(&mut self, offset: u64) {
        if std::mem::take(&mut self.own_frames) > 0 {
            self.hash = XxHash64::with_seed(0);
            if std::mem::take(&mut self.in_own) {
                self.note(Problem::Unfinished(offset));
            }
        }
    }

    fn end_bgzf(&mut self, offset: u64) {
        if std::mem::take(&mut self.in_bgzf) {
            self.note(Problem::Unfinished(offset));
        }
    }

    fn note(&mut self, problem: Problem) {
        // Missing content matters more than a damaged index.
        if matches!(self.problem, None | Some(Problem::Index(..))) {
            self.problem = self.problem.filter(|_| matches!(problem, Problem::Index(..))).or(Some(problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::zst::{self, tail};

    fn seek(number: u32) -> Seek {
        Seek { frame_bytes: 10, content_bytes: 5, checksum: number }
    }

    /// Follows frames of tamp by number, and an end frame that lists `listed`.
    fn found(frames: &[u32], listed: Option<&[u32]>) -> Option<Problem> {
        let mut ending = Ending::new();
        for &number in frames {
            ending.zst(number.into(), true);
            ending.own(seek(number));
        }
        if let Some(listed) = listed {
            let seeks: Vec<_> = listed.iter().map(|&number| seek(number)).collect();
            ending.list(7, &tail(&seeks));
        }
        ending.finish(99)
    }

    /// Follows three frames and their tail with a flipped bit; returns the problem.
    fn flipped(bit: usize) -> Option<Problem> {
        let seeks: Vec<_> = [1, 2, 3].map(seek).into();
        let mut bytes = tail(&seeks);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut ending = Ending::new();
        for (at, seek) in (0..).zip(seeks) {
            ending.zst(at, true);
            ending.own(seek);
        }
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match ending.tail(rest) {
                Some(Tail::List) => {
                    ending.list(at as u64, rest);
                    at += zst::END_BYTES;
                }
                Some(Tail::Table(mut check)) => {
                    check.take(rest);
                    ending.table(at as u64, &check);
                    at = bytes.len();
                }
                None => panic!("bit {bit}: not known at {at}"),
            }
        }
        ending.finish(at as u64)
    }

    #[test]
    fn every_flipped_bit_of_the_tail_is_told_and_the_other_part_proves_the_frames() {
        for bit in 0..zst::END_BYTES * 8 {
            assert_eq!(flipped(bit), Some(Problem::Index(0, END_FRAME)), "bit {bit}");
        }
        let table_at = zst::END_BYTES;
        for bit in table_at * 8..(table_at + 8 + 3 * 12 + 9) * 8 {
            assert_eq!(flipped(bit), Some(Problem::Index(table_at as u64, SEEK_TABLE)), "bit {bit}");
        }
    }

    #[test]
    fn frames_of_tamp_want_an_end_frame_that_lists_them() {
        assert_eq!(found(&[1, 2], None), Some(Problem::Unfinished(99)));
        assert_eq!(found(&[1, 2], Some(&[1, 2])), None);
        assert_eq!(found(&[], Some(&[])), None);
        assert_eq!(found(&[2], Some(&[1, 2])), Some(Problem::Other(7)));
        assert_eq!(found(&[2, 1], Some(&[1, 2])), Some(Problem::Other(7)));
        // An interrupted file, and a complete one behind it.
        assert_eq!(found(&[5, 1, 2], Some(&[1, 2])), Some(Problem::Unfinished(7)));
    }

    #[test]
    fn frames_of_others_want_nothing_but_not_before_ours_have_ended() {
        let mut ending = Ending::new();
        ending.zst(0, false);
        assert_eq!(ending.clone().finish(99), None);
        ending.zst(5, true);
        ending.zst(8, false);
        assert_eq!(ending.finish(99), Some(Problem::Unfinished(8)));
    }

    #[test]
    fn bgzf_wants_its_empty_block() {
        let found = |follow: &dyn Fn(&mut Ending)| {
            let mut ending = Ending::new();
            ending.bgzf(0, false);
            follow(&mut ending);
            ending.finish(99)
        };
        assert_eq!(found(&|_| ()), Some(Problem::Unfinished(99)));
        assert_eq!(found(&|ending| ending.bgzf(5, true)), None);
        assert_eq!(found(&|ending| ending.other(5)), Some(Problem::Unfinished(5)));
    }
}
