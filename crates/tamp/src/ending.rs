//! Whether a file ends where its writer ended it.
//!
//! A pipe that was cut off between two blocks leaves a file in which every block is right. Frames of tamp are followed by a
//! frame that says what they are, BGZF by an empty block: without it the file is *unfinished*. What the end frame
//! says also shows whether frames were lost, exchanged or repeated, each of which is right by itself.

use crate::Error;
use crate::format::zst::{End, Seek};
use std::hash::Hasher;
use twox_hash::XxHash64;

/// Follows what a file consists of, in order.
#[derive(Clone)]
pub(crate) struct Ending {
    /// Frames of tamp since the last end frame.
    own_frames: u64,
    /// Of their entries in the seek table.
    hash: XxHash64,
    /// Where the last thing began that was a BGZF block with content.
    in_bgzf: bool,
    problem: Option<Problem>,
}

/// What is wrong with how things follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Something should have ended before this place.
    Unfinished(u64),
    /// The frames before this place are not those that were written.
    Other(u64),
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Unfinished(offset) => Self::Unfinished { offset },
            Problem::Other(offset) => {
                let what = "the frames before it are not those that were written, or not in this order";
                Self::Damaged { offset, what }
            }
        }
    }
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self { own_frames: 0, hash: XxHash64::with_seed(0), in_bgzf: false, problem: None }
    }

    /// A Zstandard frame begins at `offset`.
    pub(crate) fn zst(&mut self, offset: u64, is_own: bool) {
        if is_own {
            self.end_bgzf(offset);
            self.own_frames += 1;
        } else {
            self.other(offset);
        }
    }

    /// A frame of tamp that has begun is this one.
    pub(crate) fn own(&mut self, seek: Seek) {
        self.hash.write(&seek.entry());
    }

    /// A skippable frame begins at `offset`.
    pub(crate) fn skippable(&mut self, offset: u64, bytes: &[u8]) {
        let Some(end) = End::read(bytes) else { return };
        self.end_bgzf(offset);
        let hash = std::mem::replace(&mut self.hash, XxHash64::with_seed(0)).finish();
        let frames = std::mem::take(&mut self.own_frames);
        if frames > end.frames {
            // Those in front have lost their own end frame, or came twice.
            self.note(Problem::Unfinished(offset));
        } else if (frames, hash) != (end.frames, end.hash) {
            self.note(Problem::Other(offset));
        }
    }

    /// BGZF blocks begin at `offset`; `is_end`: the last of them is empty.
    pub(crate) fn bgzf(&mut self, offset: u64, is_end: bool) {
        self.end_own(offset);
        self.in_bgzf = !is_end;
    }

    /// Something begins at `offset` that says itself where it ends.
    pub(crate) fn other(&mut self, offset: u64) {
        self.end_own(offset);
        self.end_bgzf(offset);
    }

    /// What is wrong, as far as is known.
    pub(crate) fn noted(&self) -> Option<Problem> {
        self.problem
    }

    /// The file ends at `offset`; yields what is wrong with it.
    pub(crate) fn finish(mut self, offset: u64) -> Option<Problem> {
        self.other(offset);
        self.problem
    }

    fn end_own(&mut self, offset: u64) {
        if std::mem::take(&mut self.own_frames) > 0 {
            self.hash = XxHash64::with_seed(0);
            self.note(Problem::Unfinished(offset));
        }
    }

    fn end_bgzf(&mut self, offset: u64) {
        if std::mem::take(&mut self.in_bgzf) {
            self.note(Problem::Unfinished(offset));
        }
    }

    fn note(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::zst::tail;

    fn seek(number: u32) -> Seek {
        Seek { frame_bytes: 10, content_bytes: 5, checksum: number }
    }

    /// Frames of tamp by number, and perhaps an end frame that lists others.
    fn found(frames: &[u32], listed: Option<&[u32]>) -> Option<Problem> {
        let mut ending = Ending::new();
        for &number in frames {
            ending.zst(number.into(), true);
            ending.own(seek(number));
        }
        if let Some(listed) = listed {
            let seeks: Vec<_> = listed.iter().map(|&number| seek(number)).collect();
            ending.skippable(7, &tail(&seeks));
        }
        ending.finish(99)
    }

    #[test]
    fn frames_of_tamp_want_an_end_frame_that_lists_them() {
        assert_eq!(found(&[1, 2], None), Some(Problem::Unfinished(99)));
        assert_eq!(found(&[1, 2], Some(&[1, 2])), None);
        assert_eq!(found(&[], Some(&[])), None);
        assert_eq!(found(&[2], Some(&[1, 2])), Some(Problem::Other(7)));
        assert_eq!(found(&[2, 1], Some(&[1, 2])), Some(Problem::Other(7)));
        // An interrupted file and a whole one, one behind the other.
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
