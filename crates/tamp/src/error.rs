//! What can go wrong, as far as a caller can act on it.

use crate::format::zst;
use std::io;

/// Why data could not be compressed or read back.
///
/// Offsets count bytes of the compressed stream from its beginning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has no bytes, as after a full disk; every format needs some bytes even for no content.
    #[error("the file is empty")]
    Empty,
    /// The bytes begin no format that tamp reads.
    #[error("byte {offset}: not a .zst, .lz4, .gz or zlib file")]
    UnknownFormat {
        /// Where a frame should have begun.
        offset: u64,
    },
    /// The data contradicts itself: a checksum, a size, a code.
    #[error("byte {offset}: {what}{}", if *what == zst::OTHER_DICTIONARY { "" } else { "; try --salvage" })]
    Damaged {
        /// Where the damaged frame or block begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The stream ends inside a frame.
    #[error("byte {offset}: the file ends inside {what}; try --salvage")]
    Truncated {
        /// Where the unfinished frame or block begins.
        offset: u64,
        /// What is cut.
        what: &'static str,
    },
    /// All blocks are intact, but the end of the file is missing: its writer was interrupted.
    ///
    /// Returned after all content was read.
    #[error("byte {offset}: unfinished: the end that the writer adds after the last block is missing")]
    Unfinished {
        /// End of the file, or of the part before another file. The missing end belongs at or before this
        /// byte.
        offset: u64,
    },
    /// All content is right, but the list of frames or the seek table behind it is damaged. The other one
    /// proves the content.
    ///
    /// Comes after all content was read.
    #[error("byte {offset}: {what} is damaged; all content before it is intact")]
    Index {
        /// Where the list or the table begins.
        offset: u64,
        /// Which of the two.
        what: &'static str,
    },
    /// A frame needs more memory than was granted.
    #[error("byte {offset}: this frame needs {} MiB of memory, and the limit is {}; raise it with --memory={}MiB",
        needed_bytes.div_ceil(1 << 20), granted(*granted_bytes), needed_bytes.div_ceil(1 << 20))]
    Memory {
        /// Where the frame begins.
        offset: u64,
        /// The frame's window.
        needed_bytes: u64,
        /// [`crate::ReadOptions::memory_bytes`].
        granted_bytes: u64,
    },
    /// A frame was compressed with a dictionary that is not at hand.
    #[error("byte {offset}: this frame needs the dictionary with the number {id}; name its file with -D")]
    NeedsDictionary {
        /// Where the frame begins.
        offset: u64,
        /// The dictionary's number.
        id: u32,
    },
    /// Not a dictionary made by zstd.
    #[error("not a dictionary made by zstd --train; --patch-from takes any file")]
    Dictionary,
    /// The options contradict each other, or what a format can do.
    #[error("{0}")]
    Options(&'static str),
    /// Valid, but not supported by tamp.
    #[error("byte {offset}: {what}")]
    Unsupported {
        /// Where the frame begins.
        offset: u64,
        /// What is not supported.
        what: &'static str,
    },
    /// A compressed block did not decode to what went in, so the machine or a codec is broken.
    #[error("block at input byte {offset} does not decode to its input; do not trust this machine")]
    Verify {
        /// Where the block begins in the input.
        offset: u64,
    },
    /// The input ended before the size it had when compressing began.
    #[error("the input shrank to {offset} bytes while it was read")]
    Changed {
        /// Where it ends now.
        offset: u64,
    },
    /// The header states a size that turned out wrong, so readers will refuse the file.
    #[error(
        "the size hint was {stated} bytes, but the input had {found}; readers refuse the output, and --salvage reads it"
    )]
    SizeHint {
        /// Size hint.
        stated: u64,
        /// Size of the input.
        found: u64,
    },
    /// A worker thread panicked: a bug in tamp.
    #[error("a worker thread panicked; please report this")]
    Panicked,
}

impl Error {
    /// Whether it comes behind all content that was written: nothing is missing or wrong before the place
    /// that it names.
    pub fn is_behind_content(&self) -> bool {
        matches!(self, Self::Unfinished { .. } | Self::Index { .. })
    }
}

/// A limit, which is small only if a user set it so.
fn granted(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::Io(inner) => return inner,
            Error::Empty | Error::Truncated { .. } | Error::Unfinished { .. } => io::ErrorKind::UnexpectedEof,
            Error::Unsupported { .. } | Error::NeedsDictionary { .. } => io::ErrorKind::Unsupported,
            Error::UnknownFormat { .. } | Error::Damaged { .. } | Error::Index { .. } => {
                io::ErrorKind::InvalidData
            }
            Error::Memory { .. } => io::ErrorKind::OutOfMemory,
            Error::Dictionary | Error::Options(_) => io::ErrorKind::InvalidInput,
            Error::Verify { .. } | Error::Changed { .. } | Error::SizeHint { .. } | Error::Panicked => {
                io::ErrorKind::Other
            }
        };
        io::Error::new(kind, error)
    }
}
